//! Merkle trees that stay on the device.
//!
//! The leaves are digests of rows; a node is the compression of its two children. In [`MerkleTree::new`], shorter
//! matrices join at the layer of their height, as in Plonky3's `MerkleTreeMmcs`: with l and r the children of node i,
//!
//! ```text
//! node i = compress(l, r)                               in a layer whose height no matrix has
//! node i = compress(compress(l, r), hash(row i))        in a layer at which matrices join
//! ```
//!
//! All layers are in one buffer, the leaves first and the root, or the cap, last, 64 bytes per leaf. A tree of n
//! leaves costs n - 1 compressions, and one more for each node of a layer at which matrices join. A layer is one
//! launch while it fills the device; the layers from 2^16 digests up to the root take two launches together, if no
//! matrices join at them. Near the root a layer takes as long as one compression: hashes that can share it among
//! threads ([`Hash::NODE_LANES`]) do so there.

use std::cmp::Reverse;
use std::marker::PhantomData;

use rigel_gpu::{Buffer, Error, Fetch, Kernel, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::commit::rows::{self, RowsInParts};
use crate::field::Field;
use crate::hash::{Hash, Hashing, RowHash, Sponge, also, declare};
use crate::layout::columns::Columns;
use crate::layout::gather;

/// Threads of a warp.
const WARP: u32 = 32;

/// Threads of a block that computes one layer.
const THREADS: u32 = 128;

/// Layers of at most this many digests are reduced in subtrees: one or more per block, several layers per launch.
const SUBTREES_FROM: usize = 1 << 16;

/// The maximum number of layers per launch: a block reduces at most 2^8 digests.
const SUBTREE_LEVELS: u32 = 8;

/// The maximum number of threads of a block that reduces subtrees.
const SUBTREE_THREADS: u32 = 256;

/// Two threads share a node of the first layer of a block.
const _: () = assert!(1 << SUBTREE_LEVELS <= SUBTREE_THREADS);

/// Blocks over which subtrees are spread, as a logarithm: about the number of multiprocessors of a large device. With
/// more nodes per block than it has groups of threads, only two threads share a node: a group takes less time for one,
/// but more for many.
const LOG_SUBTREE_BLOCKS: u32 = 7;

/// A node: its layer, counted from the leaves, and its index in the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// 0 for the leaves, the tree's depth for the root.
    pub layer: u32,
    /// The node's index, less than the number of nodes in the layer.
    pub index: usize,
}

/// A tree of digests over 2^`depth` leaves.
pub struct MerkleTree<H: Hash> {
    digests: Buffer<H::Digest>,
    depth: u32,
    /// The highest layer that is computed: the cap.
    top: u32,
}

impl<H: Hash> MerkleTree<H> {
    /// Reinterprets the memory as a tree of another hash, before any digest is computed.
    pub(super) fn of_hash<G: Hash<Digest = H::Digest>>(self) -> MerkleTree<G> {
        MerkleTree { digests: self.digests, depth: self.depth, top: self.top }
    }

    /// The tree over the rows of matrices, given in any order of heights (powers of two). The rows of the tallest are
    /// the leaves; the others join at the layer of their height. Rows of matrices of equal height are concatenated in
    /// the given order. Layers above the [cap](Self::cap) of 2^`cap_height` digests are not computed; the cap of
    /// height 0 is the root.
    ///
    /// `on` is a stream, or a stream and a hash with constants of its own: see [`Hashing`].
    pub fn new<'a, F: Field>(
        on: impl Into<Hashing<'a, H>>,
        matrices: &[Columns<'_, F>],
        cap_height: u32,
    ) -> Result<Self>
    where
        H: RowHash<F>,
    {
        const NAME: &str = "MerkleTree::new";
        let on = on.into();
        for matrix in matrices {
            rows::check_rows(NAME, matrix.rows())?;
        }
        let mut tallest_first = matrices.to_vec();
        tallest_first.sort_by_key(|matrix| Reverse(matrix.rows()));
        let groups: Vec<_> = tallest_first.chunk_by(|a, b| a.rows() == b.rows()).collect();
        let heights: Vec<usize> = groups.iter().map(|group| group[0].rows()).collect();
        Self::joined(NAME, on, &heights, cap_height, |group, digests| {
            rows::hash_into::<H, F>(on, digests, groups[group])
        })
    }

    /// [`Self::new`] for rows that are hashed already: the digests of the rows of each height, a power of two, the
    /// largest first.
    pub fn from_digests<'a>(
        on: impl Into<Hashing<'a, H>>,
        digests: &[Buffer<H::Digest>],
        cap_height: u32,
    ) -> Result<Self> {
        const NAME: &str = "MerkleTree::from_digests";
        let on = on.into();
        let heights: Vec<usize> = digests.iter().map(Buffer::len).collect();
        if let Some(pair) = heights.windows(2).find(|pair| pair[0] <= pair[1]) {
            let detail = format!("{} digests after {}; heights must descend", pair[1], pair[0]);
            return Err(Error::shape(NAME, detail));
        }
        for &height in &heights {
            rows::check_rows(NAME, height)?;
        }
        Self::joined(NAME, on, &heights, cap_height, |group, to| on.stream().copy(to, &digests[group]))
    }

    /// The tree of which `fill` writes the digests of the rows of each height, given in descending order.
    fn joined(
        operation: &'static str,
        on: Hashing<'_, H>,
        heights: &[usize],
        cap_height: u32,
        mut fill: impl FnMut(usize, ViewMut<'_, H::Digest>) -> Result<()>,
    ) -> Result<Self> {
        let Some((&leaves, lower)) = heights.split_first() else {
            return Err(Error::shape(operation, "no matrices given; there must be at least one"));
        };
        let mut tree = Self::alloc(on.stream(), leaves, cap_height)?;
        fill(0, tree.layer_mut(0)?)?;
        // The layer from which the tree is to be computed, and whether matrices join at the next one.
        let (mut layer, mut joins) = (0, false);
        for (group, rows) in lower.iter().enumerate() {
            let joined = tree.depth - rows.trailing_zeros();
            if joined > tree.top {
                break;
            }
            tree.compress_joining(on, layer, joined - 1, joins)?;
            fill(group + 1, tree.layer_mut(joined)?)?;
            (layer, joins) = (joined - 1, true);
        }
        tree.compress_joining(on, layer, tree.top, joins)?;
        Ok(tree)
    }

    /// The tree whose leaves each hash 2^`log_packed` rows of a matrix of a few columns, see [`rows::hash_packed`], up
    /// to its cap.
    pub fn packed<'a, F: Field>(
        on: impl Into<Hashing<'a, H>>,
        matrix: Columns<'_, F>,
        log_packed: u32,
        cap_height: u32,
    ) -> Result<Self>
    where
        H: RowHash<F>,
    {
        let on = on.into();
        let leaves = rows::packed_rows("MerkleTree::packed", matrix, log_packed)?;
        let mut tree = Self::alloc(on.stream(), leaves, cap_height)?;
        rows::hash_packed_into::<H, F>(on, tree.layer_mut(0)?, matrix)?;
        tree.compress(on, 0, tree.top)?;
        Ok(tree)
    }

    /// The tree over the rows of one matrix whose columns arrived in parts, up to its cap; takes the last part.
    pub fn from_parts<F: Field>(
        stream: &Stream,
        parts: RowsInParts<H>,
        rest: Columns<'_, F>,
        cap_height: u32,
    ) -> Result<Self>
    where
        H: RowHash<F> + Sponge,
    {
        let mut tree = Self::alloc(stream, parts.rows(), cap_height)?;
        parts.finish_into::<F>(stream, tree.layer_mut(0)?, rest)?;
        tree.compress(parts.on(stream), 0, tree.top)?;
        Ok(tree)
    }

    /// The tree over a copy of these leaves; their number is a power of two.
    pub fn from_leaves<'a>(on: impl Into<Hashing<'a, H>>, leaves: impl Into<View<'a, H::Digest>>) -> Result<Self> {
        let (on, leaves) = (on.into(), leaves.into());
        rows::check_rows("MerkleTree::from_leaves", leaves.len())?;
        let mut tree = Self::alloc(on.stream(), leaves.len(), 0)?;
        on.stream().copy(tree.layer_mut(0)?, leaves)?;
        tree.compress(on, 0, tree.depth)?;
        Ok(tree)
    }

    /// Allocates a tree over a power of two of leaves, to be computed up to its cap.
    pub(crate) fn alloc(stream: &Stream, leaves: usize, cap_height: u32) -> Result<Self> {
        let depth = leaves.trailing_zeros();
        let top = depth - cap_height.min(depth);
        Ok(Self { digests: stream.alloc(2 * leaves - (leaves >> top))?, depth, top })
    }

    /// The number of layers above the leaves.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The number of leaves.
    pub fn leaves(&self) -> usize {
        1 << self.depth
    }

    /// The layers, each as a separate buffer, from the leaves to the cap.
    pub fn into_layers(self) -> Result<Vec<Buffer<H::Digest>>> {
        let lengths: Vec<usize> = (0..=self.top).map(|layer| self.leaves() >> layer).collect();
        self.digests.split(&lengths)
    }

    /// All digests, layer after layer from the leaves to the cap, as one buffer.
    pub fn into_digests(self) -> Buffer<H::Digest> {
        self.digests
    }

    /// All digests, layer after layer from the leaves to the cap.
    pub fn digests(&self) -> &Buffer<H::Digest> {
        &self.digests
    }

    /// The digests of a layer; layer 0 has the leaves.
    pub fn layer(&self, layer: u32) -> Result<View<'_, H::Digest>> {
        if layer > self.top {
            return Err(Error::shape(
                "MerkleTree::layer",
                format!(
                    "layer {layer} does not exist; the tree has depth {} and its cap is layer {}",
                    self.depth, self.top
                ),
            ));
        }
        let start = self.start(layer);
        self.digests.range(start..start + (self.leaves() >> layer))
    }

    pub(crate) fn layer_mut(&mut self, layer: u32) -> Result<ViewMut<'_, H::Digest>> {
        let start = self.start(layer);
        let nodes = self.leaves() >> layer;
        self.digests.range_mut(start..start + nodes)
    }

    /// The offset of a layer: n + n/2 + … digests of the layers below it.
    fn start(&self, layer: u32) -> usize {
        2 * (self.leaves() - (self.leaves() >> layer))
    }

    /// The root. Waits for the stream.
    pub fn root(&self, stream: &Stream) -> Result<H::Digest> {
        Ok(self.cap(stream, 0)?[0])
    }

    /// The 2^`cap_height` digests of the layer that far below the root, or the leaves if the tree is not that
    /// deep, as Plonky3 commits. Waits for the stream.
    pub fn cap(&self, stream: &Stream, cap_height: u32) -> Result<Vec<H::Digest>> {
        self.layer(self.cap_layer(cap_height))?.to_vec(stream)
    }

    /// [`Self::cap`] on its way to the host.
    pub fn fetch_cap(&self, stream: &Stream, cap_height: u32) -> Result<Fetch<H::Digest>> {
        stream.fetch(self.layer(self.cap_layer(cap_height))?)
    }

    fn cap_layer(&self, cap_height: u32) -> u32 {
        self.depth - cap_height.min(self.depth)
    }

    /// The digests of arbitrary nodes, in the given order: one upload, one launch, one download. Waits for the stream.
    pub fn gather(&self, stream: &Stream, nodes: &[Node]) -> Result<Vec<H::Digest>> {
        let mut chosen = stream.alloc::<H::Digest>(nodes.len())?;
        self.gather_into(stream, chosen.view_mut(), nodes)?;
        chosen.to_vec(stream)
    }

    /// Gathers digests as [`Self::gather`] does, but leaves them on the device, so that those of several trees can
    /// be copied back at once. `chosen` has room for exactly these digests.
    pub fn gather_into(&self, stream: &Stream, chosen: ViewMut<'_, H::Digest>, nodes: &[Node]) -> Result<()> {
        Self::gather_all_into(stream, chosen, &[(self, nodes)])
    }

    /// The digests of nodes of several trees, tree after tree, as [`Self::gather_into`]: one launch for all.
    pub fn gather_all_into(
        stream: &Stream,
        chosen: ViewMut<'_, H::Digest>,
        trees: &[(&Self, &[Node])],
    ) -> Result<()> {
        let total = trees.iter().map(|(_, nodes)| nodes.len()).sum::<usize>();
        if chosen.len() != total {
            let detail = format!("{total} digests into room for {}", chosen.len());
            return Err(Error::shape("MerkleTree::gather", detail));
        }
        let positions = |(tree, nodes): &(&Self, &[Node])| {
            nodes.iter().map(|&node| tree.position(node)).collect::<Result<_>>()
        };
        let positions: Vec<Vec<u32>> = trees.iter().map(positions).collect::<Result<_>>()?;
        // A tree is a matrix of one column of digests.
        let columns = trees.iter().zip(&positions).map(|((tree, _), indices)| gather::Rows {
            values: tree.digests.view(),
            rows: tree.digests.len(),
            indices,
        });
        gather::rows_into(stream, chosen, &columns.collect::<Vec<_>>())
    }

    /// The place of a node's digest.
    fn position(&self, Node { layer, index }: Node) -> Result<u32> {
        if layer > self.top || index >= self.leaves() >> layer {
            return Err(Error::shape(
                "MerkleTree::gather",
                format!(
                    "node {index} of layer {layer} does not exist; the tree has depth {} and its cap is layer {}",
                    self.depth, self.top
                ),
            ));
        }
        let position = self.start(layer) + index;
        u32::try_from(position).map_err(|_| {
            let detail = format!("digest {position} of a tree; at most 2^32 can be gathered from");
            Error::shape("MerkleTree::gather", detail)
        })
    }

    /// Opens leaves: the siblings on each leaf's path from the leaf up to, but not including, the cap, which are
    /// Plonky3's opening proofs. Waits for the stream.
    pub fn open(&self, stream: &Stream, leaves: &[usize], cap_height: u32) -> Result<Vec<Vec<H::Digest>>> {
        self.check_leaves("MerkleTree::open", leaves)?;
        let levels = self.cap_layer(cap_height);
        let path = |&leaf: &usize| (0..levels).map(move |layer| Node { layer, index: (leaf >> layer) ^ 1 });
        let siblings = self.gather(stream, &leaves.iter().flat_map(path).collect::<Vec<_>>())?;
        let paths = (0..leaves.len()).map(|i| siblings[i * levels as usize..(i + 1) * levels as usize].to_vec());
        Ok(paths.collect())
    }

    /// The minimal set of digests that proves all these leaves, layer by layer and from left to right: the order of
    /// Plonky3's `PrunedMerklePaths` and, with a cap of height 0, of Stwo's `hash_witness`. Waits for the stream.
    pub fn open_pruned(&self, stream: &Stream, leaves: &[usize], cap_height: u32) -> Result<Vec<H::Digest>> {
        self.gather(stream, &self.frontier(leaves, cap_height)?)
    }

    /// The nodes that [`Self::open_pruned`] opens.
    pub fn frontier(&self, leaves: &[usize], cap_height: u32) -> Result<Vec<Node>> {
        self.check_leaves("MerkleTree::frontier", leaves)?;
        Ok(frontier(leaves, self.cap_layer(cap_height)))
    }

    fn check_leaves(&self, operation: &'static str, leaves: &[usize]) -> Result<()> {
        match leaves.iter().find(|&&leaf| leaf >= self.leaves()) {
            Some(leaf) => Err(Error::shape(
                operation,
                format!("leaf {leaf} does not exist; the tree has {} leaves", self.leaves()),
            )),
            None => Ok(()),
        }
    }

    /// Computes the layers above `from`, up to and including `to`.
    pub(crate) fn compress(&mut self, on: Hashing<'_, H>, from: u32, to: u32) -> Result<()> {
        self.compress_joining(on, from, to, false)
    }

    /// Computes layers as [`Self::compress`] does. If it `joins`, the layer above `from` has the digests of the
    /// rows that join there.
    fn compress_joining(&mut self, on: Hashing<'_, H>, from: u32, to: u32, mut joins: bool) -> Result<()> {
        let mut layer = from;
        while layer < to {
            if self.leaves() >> layer > SUBTREES_FROM {
                layer += 1;
                let kernel = if joins { TreeKernel::JoinedLayer } else { TreeKernel::Layer };
                self.compress_layer(on, layer, kernel)?;
            } else {
                // As few launches as possible, of about the same number of layers.
                let launches = (to - layer).div_ceil(SUBTREE_LEVELS);
                let levels = (to - layer).div_ceil(launches);
                self.compress_subtrees(on, layer, levels, joins)?;
                layer += levels;
            }
            joins = false;
        }
        Ok(())
    }

    /// Computes a few layers above one of at most [`SUBTREES_FROM`] digests.
    fn compress_subtrees(&mut self, on: Hashing<'_, H>, layer: u32, levels: u32, joins: bool) -> Result<()> {
        let kernel = self.kernel(on.stream(), TreeKernel::Subtrees)?;
        let (start, count) = (self.start(layer), self.leaves() >> layer);
        // Digests per block.
        let span = (count >> LOG_SUBTREE_BLOCKS).clamp(1 << levels, 1 << SUBTREE_LEVELS);
        let threads = (span as u32 / 2 * H::NODE_LANES).clamp(WARP, SUBTREE_THREADS);
        let shape = Shape::new((count / span) as u32, threads);
        let (digests, constants) = (self.digests.range_mut(start..)?, on.node_constants()?);
        kernel.launch(on.stream(), shape, (digests, count as u32, levels, u32::from(joins), constants))
    }

    /// Computes one layer from the one below it.
    fn compress_layer(&mut self, on: Hashing<'_, H>, layer: u32, kernel: TreeKernel) -> Result<()> {
        let stream = on.stream();
        let kernel = self.kernel(stream, kernel)?;
        let nodes = self.leaves() >> layer;
        let (below, here) = (self.start(layer - 1), self.start(layer));
        let (_, digests) = self.digests.view_mut().split_at(below)?;
        let (children, parents) = digests.split_at(here - below)?;
        let arguments = (parents, children, nodes as u32, on.node_constants()?);
        kernel.launch(stream, Shape::cover(nodes, THREADS)?, arguments)
    }

    fn kernel(&self, stream: &Stream, kernel: TreeKernel) -> Result<Kernel> {
        Tree::<H>::kernel(stream.device(), kernel)
    }
}

/// A layer of a tree from the one below it: `parents[i] = compress(children[2 i], children[2 i + 1])`, for trees whose
/// memory is laid out by the caller.
pub fn compress_into<H: Hash>(
    stream: &Stream,
    parents: ViewMut<'_, H::Digest>,
    children: View<'_, H::Digest>,
) -> Result<()> {
    let nodes = parents.len();
    if children.len() != 2 * nodes || u32::try_from(nodes).is_err() {
        let detail = format!("{} children of {nodes} nodes; there must be two of each", children.len());
        return Err(Error::shape("merkle::compress_into", detail));
    }
    let kernel = Tree::<H>::kernel(stream.device(), TreeKernel::Layer)?;
    kernel.launch(stream, Shape::cover(nodes, THREADS)?, (parents, children, nodes as u32))
}

/// Kernels that compress nodes, one module each: a layer, one at which rows join, and several layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TreeKernel {
    Layer,
    JoinedLayer,
    Subtrees,
}

pub(crate) struct Tree<H>(PhantomData<H>);

impl<H: Hash> Operation for Tree<H> {
    type Variant = TreeKernel;

    const FILE: KernelFile = KernelFile {
        path: "commit/merkle.cu",
        text: include_str!("merkle.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64), ("SUBTREE_THREADS", SUBTREE_THREADS as u64)],
    };

    fn instances(kernel: TreeKernel) -> Instances {
        let name = match kernel {
            TreeKernel::Layer => "compress_layer",
            TreeKernel::JoinedLayer => "compress_and_join",
            TreeKernel::Subtrees => "compress_subtrees",
        };
        let lanes = (kernel == TreeKernel::Subtrees).then(|| H::NODE_LANES.to_string());
        let arguments = also(lanes.as_deref()) + &also(H::NODE_CONSTANTS);
        declare::<H>(Instances::one(format!("{name}<{}{arguments}>", H::NODES)))
    }

    fn warmed() -> Vec<TreeKernel> {
        vec![TreeKernel::Layer, TreeKernel::JoinedLayer, TreeKernel::Subtrees]
    }
}

impl<H: Hash> std::fmt::Debug for MerkleTree<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MerkleTree<{}>(2^{} leaves on {})", H::ROWS, self.depth, self.digests.device())
    }
}

/// The siblings below layer `levels` that can't be computed from the leaves, layer by layer and from left to right.
pub fn frontier(leaves: &[usize], levels: u32) -> Vec<Node> {
    let mut known = leaves.to_vec();
    known.sort_unstable();
    known.dedup();
    let mut wanted = Vec::new();
    for layer in 0..levels {
        let missing = known.chunk_by(|a, b| a ^ 1 == *b).filter(|pair| pair.len() == 1);
        wanted.extend(missing.map(|alone| Node { layer, index: alone[0] ^ 1 }));
        known.iter_mut().for_each(|index| *index /= 2);
        known.dedup();
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frontier_has_no_node_twice_and_none_that_follows() {
        let node = |layer, index| Node { layer, index };
        assert_eq!(frontier(&[5, 1, 2, 5], 3), [node(0, 0), node(0, 3), node(0, 4), node(1, 3)]);
        assert_eq!(frontier(&[5, 1, 2], 1), [node(0, 0), node(0, 3), node(0, 4)]);
        assert_eq!(frontier(&[], 3), []);
        assert_eq!(frontier(&[0, 1, 2, 3], 2), []);
    }
}
