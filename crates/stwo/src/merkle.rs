//! Lifted Merkle trees.
//!
//! Upstream builds a tree layer by layer. This backend hashes the leaves and builds all layers above them at once,
//! and returns each layer when it is requested. So small layers share launches, and the digests are contiguous in
//! memory.
//!
//! Over several devices, each hashes its blocks of the columns into a subtree. What is above the subtrees is on the
//! first device.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rigel_gpu::{Buffer, Device, Lock, Result, Stream};
use rigel_kernels::commit::lifted::{BLOCK, LiftedInParts};
use rigel_kernels::commit::merkle::MerkleTree;
use rigel_kernels::domain::circle_order;
use rigel_kernels::field::Mersenne31;
use rigel_kernels::hash::{Blake2s, Blake2sM31, Chained, Hash, RowHash};
use rigel_kernels::layout::gather;
use rigel_kernels::{Columns, Matrix};
use stwo::core::fields::qm31::SECURE_EXTENSION_DEGREE;
use stwo::core::utils::bit_reverse_index;
use stwo::core::vcs::blake2_hash::Blake2sHash;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleHasherGeneric;
use stwo::core::vcs_lifted::verifier::{LOG_PACKED_LEAF_SIZE, PACKED_LEAF_SIZE};
use stwo::prover::backend::{Column, ColumnOps};
use stwo::prover::vcs_lifted::ops::{MerkleOpsLifted, PackLeavesOps};

use crate::CudaBackend;
use crate::batch::{Batch, Digest};
use crate::blocks::{self, spread};
use crate::column::{BaseColumn, by_device, devices_of};
use crate::copies::send;
use crate::deferred::transfer::{bring, neighbours};
use crate::device::{device, stream};
use crate::failure::OrFail;
use crate::joined::{Joined, runs, split};
use crate::report::phase;

/// A layer of at most this length is downloaded as a whole when one of its digests is read.
const SMALL: usize = 64;

/// A layer of a tree on the device, or in blocks on several.
pub struct HashColumn {
    /// The digests, or one block of them on each device, equal in length.
    blocks: Vec<Buffer<Digest>>,
    /// The layer above, built but not requested yet, and its hash.
    above: Lock<Option<(LayerHash, Box<HashColumn>)>>,
    /// The columns that are opened together with it, and its index counted from the leaves.
    batch: Option<(Arc<Batch>, usize)>,
    /// The digests of a small layer that was downloaded.
    read: OnceLock<Vec<Blake2sHash>>,
}

/// The hash of a layer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LayerHash {
    Blake2s,
    Blake2sM31,
}

impl HashColumn {
    fn new(digests: Buffer<Digest>) -> Self {
        Self::in_blocks(vec![digests])
    }

    fn in_blocks(blocks: Vec<Buffer<Digest>>) -> Self {
        Self { blocks, above: Lock::new(None), batch: None, read: OnceLock::new() }
    }

    fn read_all(&self) -> Vec<Blake2sHash> {
        let read = |block: &Buffer<Digest>| block.to_vec(&stream(&block.device()));
        let digests: Result<Vec<_>> = self.blocks.iter().map(read).collect();
        digests.or_fail("read digests").into_iter().flatten().map(Blake2sHash).collect()
    }

    /// The block that has a digest, and the digest's place there.
    fn place(&self, index: usize) -> (usize, usize) {
        let rows = self.blocks[0].len();
        (index / rows, index % rows)
    }

    /// All digests in one buffer, on the first device: these, or a copy of the blocks.
    fn whole(self) -> Result<Buffer<Digest>> {
        join_blocks(self.blocks)
    }

    /// The lowest of these layers, holding the others above it.
    fn stack(layers: Vec<Vec<Buffer<Digest>>>, batch: Option<&Arc<Batch>>, kind: LayerHash) -> Self {
        let mut above: Option<HashColumn> = None;
        for (i, blocks) in layers.into_iter().enumerate().rev() {
            let layer = Self {
                above: Lock::new(above.map(|above| (kind, Box::new(above)))),
                batch: batch.map(|batch| (batch.clone(), i)),
                ..Self::in_blocks(blocks)
            };
            above = Some(layer);
        }
        above.expect("a tree has a root")
    }

    fn changed(&mut self) {
        (self.above, self.batch, self.read) = (Lock::new(None), None, OnceLock::new());
    }
}

/// Blocks of digests in one buffer, on the first device.
fn join_blocks(mut blocks: Vec<Buffer<Digest>>) -> Result<Buffer<Digest>> {
    if blocks.len() == 1 {
        return Ok(blocks.remove(0));
    }
    let mut whole = stream(&blocks[0].device()).alloc(blocks.iter().map(Buffer::len).sum())?;
    let (mut rest, mut pieces) = (whole.view_mut(), Vec::with_capacity(blocks.len()));
    for block in &blocks {
        let (target, tail) = rest.split_at(block.len())?;
        pieces.push((block.view(), target));
        rest = tail;
    }
    send(pieces)?;
    Ok(whole)
}

impl Clone for HashColumn {
    fn clone(&self) -> Self {
        let copy = |from: &Buffer<Digest>| {
            let stream = stream(&from.device());
            let mut copy = stream.alloc(from.len())?;
            stream.copy(&mut copy, from)?;
            Ok(copy)
        };
        let copies: Result<_> = self.blocks.iter().map(copy).collect();
        Self::in_blocks(copies.or_fail("copy digests"))
    }
}

impl fmt::Debug for HashColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices: Vec<String> = self.blocks.iter().map(|block| block.device().to_string()).collect();
        write!(f, "HashColumn({} on {})", self.len(), devices.join(", "))
    }
}

impl FromIterator<Blake2sHash> for HashColumn {
    fn from_iter<I: IntoIterator<Item = Blake2sHash>>(values: I) -> Self {
        let digests: Vec<Digest> = values.into_iter().map(|hash| hash.0).collect();
        Self::new(stream(&device()).upload(&digests).or_fail("upload digests"))
    }
}

impl Column<Blake2sHash> for HashColumn {
    fn zeros(len: usize) -> Self {
        Self::new(stream(&device()).zeros(len).or_fail("take memory for digests"))
    }

    unsafe fn uninitialized(len: usize) -> Self {
        Self::new(stream(&device()).alloc(len).or_fail("take memory for digests"))
    }

    fn to_cpu(&self) -> Vec<Blake2sHash> {
        self.read_all()
    }

    fn len(&self) -> usize {
        self.blocks.iter().map(Buffer::len).sum()
    }

    /// Reads one digest: from the prefetched values, from the cached small layer, or with a copy of its own.
    fn at(&self, index: usize) -> Blake2sHash {
        assert!(index < self.len(), "digest {index} of a layer of {}", self.len());
        if let Some(digests) = self.read.get() {
            return digests[index];
        }
        let opened = self.batch.as_ref().and_then(|(batch, layer)| batch.node(*layer, index));
        opened.unwrap_or_else(|| {
            if self.len() <= SMALL {
                return self.read.get_or_init(|| self.read_all())[index];
            }
            let (block, index) = self.place(index);
            let block = &self.blocks[block];
            let one = block.range(index..index + 1).and_then(|one| one.to_vec(&stream(&block.device())));
            Blake2sHash(one.or_fail("read a digest")[0])
        })
    }

    fn set(&mut self, index: usize, value: Blake2sHash) {
        self.changed();
        let (block, index) = self.place(index);
        let stream = stream(&self.blocks[block].device());
        let place = self.blocks[block].range_mut(index..index + 1);
        place.and_then(|place| stream.write(place, &[value.0])).or_fail("write a digest");
    }

    fn split_at_mid(self) -> (Self, Self) {
        let mid = self.len() / 2;
        let (head, tail) = self.whole().and_then(|digests| digests.split_at(mid)).or_fail("split digests");
        (Self::new(head), Self::new(tail))
    }
}

impl ColumnOps<Blake2sHash> for CudaBackend {
    type Column = HashColumn;

    fn bit_reverse_column(column: &mut HashColumn) {
        let len = column.len();
        assert!(len.is_power_of_two(), "bit reversal of {len} digests, which is not a power of two");
        let digests = join_blocks(std::mem::take(&mut column.blocks)).or_fail("gather digests");
        let bits = len.trailing_zeros();
        let picks: Vec<[u32; 2]> = (0..len).map(|i| [0, bit_reverse_index(i, bits) as u32]).collect();
        let reversed =
            gather::words(&stream(&digests.device()), &[digests.view()], &picks, 8).and_then(Buffer::cast);
        *column = HashColumn::new(reversed.or_fail("reverse a column's bits"));
    }
}

/// Builds the tree over columns, with leaves lifted to 2^`log_leaves`.
fn tree<H: Chained<Digest = Digest, States = Blake2s> + RowHash<Mersenne31>>(
    columns: &[&BaseColumn],
    log_leaves: u32,
) -> Result<Vec<Vec<Buffer<Digest>>>> {
    // The tree over no columns is one leaf, whatever its lifting size.
    let log_leaves = if columns.is_empty() { 0 } else { log_leaves };
    let device: Device = columns.first().map_or_else(device, |column| column.device().clone());
    let begun = begun(columns, log_leaves);
    if columns.iter().any(|column| column.place().is_some()) {
        return Ok(whole(tree_in_parts::<H>(&stream(&device), columns, log_leaves)?));
    }
    if let Some(devices) = devices_of(columns.iter().copied()) {
        return tree_in_blocks::<H>(columns, log_leaves, &devices);
    }
    let stream = stream(&device);
    let tree = match begun {
        Some((leaves, rest)) => leaves.continued::<H>().finish(&stream, &matrices(rest)?)?,
        None => MerkleTree::<H>::lifted(&stream, &matrices(columns)?, log_leaves)?,
    };
    Ok(whole(tree.into_layers()?))
}

/// Columns on a device as matrices of contiguous ones.
fn matrices<'a>(columns: &[&'a BaseColumn]) -> Result<Vec<Columns<'a, Mersenne31>>> {
    runs(columns).into_iter().map(|(first, run)| Columns::new(run, columns[first].len())).collect()
}

/// Leaves that have absorbed the first of these columns, and the others, if the columns' upload has begun this tree.
fn begun<'a, 'b>(
    columns: &'a [&'b BaseColumn],
    log_leaves: u32,
) -> Option<(LiftedInParts<Blake2s>, &'a [&'b BaseColumn])> {
    // Those of other columns serve no more: this is the tree of which they were to be the first.
    let kept: Vec<_> = columns.iter().map(|column| column.take_leaves()).collect();
    let leaves = kept.into_iter().next()??;
    let (first, rest) = columns.split_at_checked(leaves.columns.len())?;
    let same = first.iter().map(|column| column.id()).eq(leaves.columns);
    (same && !rest.is_empty() && leaves.begun.depth() == log_leaves).then_some((leaves.begun, rest))
}

/// Layers on one device.
fn whole(layers: Vec<Buffer<Digest>>) -> Vec<Vec<Buffer<Digest>>> {
    layers.into_iter().map(|layer| vec![layer]).collect()
}

/// Builds the tree over columns of which some are in blocks: a subtree on each device, and on the first one what is
/// above them.
fn tree_in_blocks<H: Chained<Digest = Digest> + RowHash<Mersenne31>>(
    columns: &[&BaseColumn],
    log_leaves: u32,
    devices: &[Device],
) -> Result<Vec<Vec<Buffer<Digest>>>> {
    // In the order of the hash. Columns that are too short to have a row on each device are lifted to the same length,
    // and stay before the longer ones.
    let mut sorted = columns.to_vec();
    sorted.sort_by_key(|column| column.len());
    let spread = spread(&sorted, devices)?;
    let by_device = by_device(&spread.iter().collect::<Vec<_>>()).expect("all columns are in blocks now");
    let mut subtrees = Vec::with_capacity(devices.len());
    for (device, columns) in devices.iter().zip(&by_device) {
        let depth = log_leaves - devices.len().ilog2();
        let tree = MerkleTree::<H>::lifted(&stream(device), &matrices(columns)?, depth)?;
        subtrees.push(tree.into_layers()?.into_iter());
    }
    let mut layers: Vec<Vec<Buffer<Digest>>> = Vec::new();
    while let Some(layer) = subtrees.iter_mut().map(Iterator::next).collect::<Option<Vec<_>>>() {
        layers.push(layer);
    }
    let roots = join_blocks(layers.pop().expect("a tree has a root"))?;
    layers.extend(whole(MerkleTree::<H>::from_leaves(&stream(&devices[0]), &roots)?.into_layers()?));
    Ok(layers)
}

/// Builds the tree over columns of which some are in host memory. They are on the device a few at a time, at least as
/// many as the hash takes in one block.
fn tree_in_parts<H: Chained<Digest = Digest> + RowHash<Mersenne31>>(
    stream: &Stream,
    columns: &[&BaseColumn],
    log_leaves: u32,
) -> Result<Vec<Buffer<Digest>>> {
    let mut sorted = columns.to_vec();
    sorted.sort_by_key(|column| column.len());
    let mut parts = LiftedInParts::<H>::new(stream, log_leaves)?;
    let mut rest = &sorted[..];
    loop {
        let mut bytes = 0;
        let fits = |column: &&&BaseColumn| {
            column.place().is_none_or(|place| {
                bytes += place.of.column_bytes();
                bytes <= place.of.batch_bytes()
            })
        };
        let at_once = rest.iter().take_while(fits).count();
        // The last block is hashed at the end.
        let whole = (rest.len() - 1) / BLOCK * BLOCK;
        let count = (at_once / BLOCK * BLOCK).max(BLOCK).min(whole);
        let (part, others) = if count == 0 { (rest, &rest[..0]) } else { rest.split_at(count) };
        let runs = neighbours(part);
        let brought: Vec<_> = runs.iter().map(|run| bring(part, run.clone())).collect::<Result<_>>()?;
        let matrices = runs.iter().zip(&brought).map(|(run, brought)| brought.columns(part[run.start].len()));
        let matrices = matrices.collect::<Result<Vec<_>>>()?;
        if others.is_empty() {
            return parts.finish(stream, &matrices)?.into_layers();
        }
        parts.absorb(stream, &matrices)?;
        rest = others;
    }
}

/// The layers above this one.
fn above<H: Hash<Digest = Digest>>(layer: &HashColumn) -> Result<Vec<Vec<Buffer<Digest>>>> {
    let copied;
    let digests = match &layer.blocks[..] {
        [digests] => digests,
        _ => {
            copied = layer.clone().whole()?;
            &copied
        }
    };
    let mut layers = MerkleTree::<H>::from_leaves(&stream(&digests.device()), digests)?.into_layers()?;
    layers.remove(0);
    Ok(whole(layers))
}

impl<const M31: bool> MerkleOpsLifted<Blake2sMerkleHasherGeneric<M31>> for CudaBackend {
    fn build_leaves(columns: &[&BaseColumn], lifting_log_size: u32) -> HashColumn {
        let _phase = phase("merkle tree");
        let layers = if M31 {
            tree::<Blake2sM31>(columns, lifting_log_size)
        } else {
            tree::<Blake2s>(columns, lifting_log_size)
        };
        let layers = layers.or_fail("build a Merkle tree");
        // The tree is over a FRI layer, its packed rows, or a trace. A layer keeps its first tree; a second tree
        // over it becomes a batch of its own.
        let batch = match columns.first().and_then(|column| column.packed_from()) {
            Some(batch) => Some((batch, LOG_PACKED_LEAF_SIZE)).filter(|(batch, _)| !batch.has_tree()),
            None => {
                let layer = Batch::layer_of(columns).filter(|batch| !batch.has_tree());
                layer.or_else(|| Batch::of_trace(columns)).map(|batch| (batch, 0))
            }
        };
        if let Some((batch, log_packed)) = &batch {
            let share = |blocks: &Vec<Buffer<Digest>>| blocks.iter().map(Buffer::share).collect();
            batch.set_tree(layers.iter().map(share).collect(), *log_packed);
        }
        HashColumn::stack(layers, batch.as_ref().map(|(batch, _)| batch), kind::<M31>())
    }

    fn build_next_layer(layer: &HashColumn) -> HashColumn {
        let mut made = layer.above.lock();
        match made.take() {
            Some((with, above)) if with == kind::<M31>() => *above,
            _ => {
                let _phase = phase("merkle tree");
                let layers = if M31 { above::<Blake2sM31>(layer) } else { above::<Blake2s>(layer) };
                let layers = layers.or_fail("build a layer of a Merkle tree");
                assert!(!layers.is_empty(), "there is no layer above the root");
                HashColumn::stack(layers, None, kind::<M31>())
            }
        }
    }
}

const fn kind<const M31: bool>() -> LayerHash {
    if M31 { LayerHash::Blake2sM31 } else { LayerHash::Blake2s }
}

impl PackLeavesOps for CudaBackend {
    fn pack_leaves_input(
        values: &[&BaseColumn; SECURE_EXTENSION_DEGREE],
    ) -> [BaseColumn; SECURE_EXTENSION_DEGREE * PACKED_LEAF_SIZE] {
        let _phase = phase("merkle tree");
        let pack = |values: &[&BaseColumn]| {
            let slab = Joined::new(values.iter().copied());
            circle_order::pack_leaves(&stream(values[0].device()), slab.view()).or_fail("pack leaves")
        };
        let columns = match by_device(values) {
            Some(parts) => {
                let packed: Vec<_> = parts.iter().map(|values| pack(values)).collect();
                let (rows, devices) = (packed[0].rows(), devices_of(values.iter().copied()).expect("in blocks"));
                blocks::columns(packed.into_iter().map(Matrix::into_values).collect(), rows, &devices)
            }
            None => {
                let packed = pack(values);
                let rows = packed.rows();
                split(packed.into_values(), rows)
            }
        };
        if let Some(batch) = Batch::layer_of(values) {
            columns.iter().for_each(|column| column.pack_from(&batch));
        }
        columns.try_into().unwrap_or_else(|_| unreachable!("four coordinates of four rows"))
    }
}
