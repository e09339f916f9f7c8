//! Stwo's lifted Merkle trees: leaves across columns of different lengths.
//!
//! A leaf hashes its entries of all columns, the shorter columns first: leaf i has entry
//! `(i >> (r + 1) << 1) + (i & 1)` of a column that is 2^r times shorter. Leaves that have the same entries of the
//! shorter columns have the same hash state after them. So the state is computed once for as many rows as the shorter
//! columns have, and rows of longer columns go on from it: a tree of 2^24 leaves with 3,000 columns of 2^16 entries
//! and two of 2^24 takes one block per leaf, not 188.
//!
//! Columns may arrive in parts ([`LiftedInParts`]), so that they need not be in memory at once. A state is as long as
//! a digest: those of whole leaves lie where the digests will be, and those of shorter columns take at most three
//! quarters of that besides.

use std::iter::repeat_n;
use std::marker::PhantomData;
use std::ops::Range;

use rigel_gpu::{Buffer, Error, Result, Shape, Stream};

use crate::code::{Instances, KernelFile, Operation};
use crate::commit::merkle::MerkleTree;
use crate::commit::rows::{self, MAX_LOG_ROWS, THREADS};
use crate::field::Field;
use crate::hash::{Chained, Hashing, RowHash, declare};
use crate::layout::columns::{self, Column, ColumnList, Columns};
use crate::layout::matrix::log2_rows;

/// The columns of a block of a hash that is [`Chained`].
pub const BLOCK: usize = 16;

/// Blocks that a launch of its own must save: as many take the device as long as a launch.
const WORTH_A_LAUNCH: usize = 1 << 16;

/// A lifted tree whose columns arrive in parts.
pub struct LiftedInParts<H: Chained> {
    tree: MerkleTree<H>,
    depth: u32,
    /// The states of rows of shorter columns; those of whole leaves lie in the tree.
    states: Option<Buffer<H::Digest>>,
    /// The logarithm of the number of leaves per state.
    log_ratio: u32,
    /// The columns absorbed so far.
    absorbed: usize,
    /// The length of the longest of them.
    longest: usize,
}

impl<H: Chained> LiftedInParts<H> {
    /// A tree of 2^`depth` leaves without columns yet.
    pub fn new(stream: &Stream, depth: u32) -> Result<Self> {
        if depth > MAX_LOG_ROWS {
            let detail = format!("2^{depth} rows; at most 2^{MAX_LOG_ROWS} are supported");
            return Err(Error::shape("LiftedInParts::new", detail));
        }
        let tree = MerkleTree::alloc(stream, 1 << depth, 0)?;
        Ok(Self { tree, depth, states: None, log_ratio: 0, absorbed: 0, longest: 0 })
    }

    /// Continues the tree with a hash whose states between blocks are those of this one.
    pub fn continued<G: Chained<States = H, Digest = H::Digest>>(self) -> LiftedInParts<G> {
        let Self { tree, depth, states, log_ratio, absorbed, longest } = self;
        LiftedInParts { tree: tree.of_hash(), depth, states, log_ratio, absorbed, longest }
    }

    /// The number of columns absorbed so far.
    pub fn absorbed(&self) -> usize {
        self.absorbed
    }

    /// The logarithm of the number of leaves.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Absorbs the next columns, a whole number of [blocks](BLOCK) of them. They are not shorter than those before, and
    /// at least one column has to follow in [`finish`](Self::finish).
    pub fn absorb<F: Field>(&mut self, stream: &Stream, columns: &[Columns<'_, F>]) -> Result<()>
    where
        H: RowHash<F>,
    {
        let count: usize = columns.iter().map(Columns::columns).sum();
        if !count.is_multiple_of(BLOCK) {
            let detail = format!("{count} columns; the number must be a multiple of the block size {BLOCK}");
            return Err(Error::shape("LiftedInParts::absorb", detail));
        }
        self.hash(stream, columns, false)
    }

    /// Absorbs the last columns, at least one unless there were none before, and builds the tree. Without columns every
    /// leaf is the hash of the empty message.
    pub fn finish<F: Field>(mut self, stream: &Stream, columns: &[Columns<'_, F>]) -> Result<MerkleTree<H>>
    where
        H: RowHash<F>,
    {
        if self.absorbed > 0 && columns.iter().all(|columns| columns.columns() == 0) {
            let detail = format!("no column after {}; the last part must have at least one", self.absorbed);
            return Err(Error::shape("LiftedInParts::finish", detail));
        }
        self.hash(stream, columns, true)?;
        let depth = self.depth;
        self.tree.compress(Hashing::from(stream), 0, depth)?;
        Ok(self.tree)
    }

    fn hash<F: Field>(&mut self, stream: &Stream, columns: &[Columns<'_, F>], last: bool) -> Result<()>
    where
        H: RowHash<F>,
    {
        let leaves = 1usize << self.depth;
        let mut lifted = Vec::with_capacity(columns.len());
        for columns in columns.iter().filter(|columns| columns.columns() > 0) {
            lifted.push((*columns, self.ratio(columns.rows())?));
        }
        if let ([(columns, 0)], 0, true) = (&lifted[..], self.absorbed, last) {
            return rows::hash_into::<H, F>(stream, self.tree.layer_mut(0)?, &[*columns]);
        }
        let list = columns::list(stream, &lifted)?;
        if u32::try_from(self.absorbed + list.len()).is_err() {
            let detail = format!("{} columns; at most 2^32 - 1 are supported", self.absorbed + list.len());
            return Err(Error::shape("LiftedInParts", detail));
        }
        let ratios = lifted.iter().flat_map(|&(columns, log_ratio)| repeat_n(log_ratio, columns.columns()));
        let stages = stages(&ratios.collect::<Vec<_>>(), leaves, last);
        for (i, stage) in stages.iter().enumerate() {
            self.launch(stream, &list, stage, last && i + 1 == stages.len())?;
        }
        Ok(())
    }

    /// The logarithm of the number of leaves per row of a column of `rows` rows.
    fn ratio(&mut self, rows: usize) -> Result<u32> {
        const NAME: &str = "MerkleTree::lifted";
        let (log, depth) = (log2_rows(NAME, rows)?, self.depth);
        if !(1..=depth).contains(&log) {
            let detail = format!("columns of {rows} rows lifted to 2^{depth}; there must be from 2 to 2^{depth}");
            return Err(Error::shape(NAME, detail));
        }
        if rows < self.longest {
            return Err(Error::shape(NAME, format!("columns of {rows} rows after columns of {}", self.longest)));
        }
        self.longest = rows;
        Ok(depth - log)
    }

    fn launch<F: Field>(
        &mut self,
        stream: &Stream,
        list: &ColumnList<'_, F>,
        stage: &Stage,
        last: bool,
    ) -> Result<()>
    where
        H: RowHash<F>,
    {
        let Stage { log_ratio, ref words } = *stage;
        let rows = (1usize << self.depth) >> log_ratio;
        let step = if self.absorbed == 0 { 0 } else { self.log_ratio - log_ratio };
        let in_place = self.absorbed > 0 && step == 0;
        let shorter = if in_place { None } else { self.states.take() };
        if log_ratio > 0 && !in_place {
            self.states = Some(stream.alloc(rows)?);
        }
        let to = match &mut self.states {
            Some(states) => states.view_mut(),
            None => self.tree.layer_mut(0)?,
        };
        let (before, count) = (self.absorbed as u32, words.len() as u32);
        let arguments = (
            to,
            shorter.as_ref().map(Buffer::view),
            list.part(words.clone())?,
            rows as u64,
            log_ratio,
            step,
            before,
            count,
            u32::from(in_place),
            u32::from(last),
        );
        LiftedRows::<H, F>::kernel(stream.device(), ())?.launch(
            stream,
            Shape::cover(rows, THREADS)?,
            arguments,
        )?;
        (self.log_ratio, self.absorbed) = (log_ratio, self.absorbed + words.len());
        Ok(())
    }
}

impl<H: Chained> MerkleTree<H> {
    /// Stwo's lifted tree of 2^`depth` leaves over columns of different lengths, powers of two of at least 2, see
    /// [`lifted`](crate::commit::lifted).
    pub fn lifted<F: Field>(stream: &Stream, columns: &[Columns<'_, F>], depth: u32) -> Result<Self>
    where
        H: RowHash<F>,
    {
        let mut shortest_first = columns.to_vec();
        shortest_first.sort_by_key(Columns::rows);
        LiftedInParts::new(stream, depth)?.finish(stream, &shortest_first)
    }
}

/// Words of all rows that are absorbed in one launch.
#[derive(Debug, PartialEq, Eq)]
struct Stage {
    /// The logarithm of the number of leaves per row of the stage.
    log_ratio: u32,
    words: Range<usize>,
}

/// Cuts the words of rows, given how much shorter the column of each is, into stages of whole blocks. A block has as
/// many rows as its longest column, which is its last. The `last` words of a message are absorbed for every leaf.
fn stages(ratios: &[u32], leaves: usize, last: bool) -> Vec<Stage> {
    let blocks = (ratios.len() - usize::from(last && !ratios.is_empty())) / BLOCK;
    let mut of_blocks: Vec<u32> = (1..=blocks).map(|block| ratios[block * BLOCK - 1]).collect();
    if last {
        of_blocks.push(0);
    }
    let (mut stages, mut first) = (Vec::new(), 0);
    for (block, pair) in of_blocks.windows(2).enumerate() {
        let saved = (block + 1 - first) * ((leaves >> pair[1]) - (leaves >> pair[0]));
        if saved >= WORTH_A_LAUNCH {
            stages.push(Stage { log_ratio: pair[0], words: first * BLOCK..(block + 1) * BLOCK });
            first = block + 1;
        }
    }
    if let Some(&log_ratio) = of_blocks.last() {
        stages.push(Stage { log_ratio, words: first * BLOCK..ratios.len() });
    }
    stages
}

/// The states and digests of lifted rows.
pub(crate) struct LiftedRows<H, F>(PhantomData<(H, F)>);

impl<H: RowHash<F> + Chained, F: Field> Operation for LiftedRows<H, F> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "commit/lifted.cu",
        text: include_str!("lifted.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        declare::<H>(Instances::one(format!("hash_lifted<{}, {}>", H::ROWS, F::NAME)))
            .takes::<Column>()
            .assert(format!("{}::BLOCK == {BLOCK} && sizeof({}) == sizeof(Digest)", H::ROWS, H::ROWS))
    }

    fn warmed() -> Vec<()> {
        Vec::new()
    }

    fn on_demand() -> Vec<()> {
        vec![()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(log_ratio: u32, words: Range<usize>) -> Stage {
        Stage { log_ratio, words }
    }

    /// The ratios of so many columns of each length, and the stages over 2^20 leaves.
    fn cut(columns: &[(u32, usize)]) -> Vec<Stage> {
        let ratios: Vec<u32> = columns.iter().flat_map(|&(ratio, columns)| repeat_n(ratio, columns)).collect();
        stages(&ratios, 1 << 20, true)
    }

    #[test]
    fn a_stage_takes_the_blocks_of_its_height() {
        assert_eq!(cut(&[]), [stage(0, 0..0)]);
        assert_eq!(cut(&[(0, 100)]), [stage(0, 0..100)]);
        assert_eq!(cut(&[(4, 40), (0, 1)]), [stage(4, 0..32), stage(0, 32..41)]);
        // The last words are absorbed at the leaves, though they are a whole block.
        assert_eq!(cut(&[(4, 32)]), [stage(4, 0..16), stage(0, 16..32)]);
        // The block in the middle has two of the longer columns.
        assert_eq!(cut(&[(4, 30), (2, 34), (0, 16)]), [stage(4, 0..16), stage(2, 16..64), stage(0, 64..80)]);
    }

    #[test]
    fn a_part_ends_at_the_height_of_its_last_block() {
        assert_eq!(stages(&[3; 32], 1 << 20, false), [stage(3, 0..32)]);
        assert_eq!(stages(&[], 1 << 20, false), []);
    }

    #[test]
    fn a_stage_that_saves_little_joins_the_next() {
        // 16 rows and 32 rows: a launch of its own would save 16 blocks.
        let short = [(16, 16), (15, 16), (2, 64), (0, 8)];
        assert_eq!(cut(&short), [stage(15, 0..32), stage(2, 32..96), stage(0, 96..104)]);
    }
}
