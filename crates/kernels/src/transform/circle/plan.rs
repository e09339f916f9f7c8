//! The split of a circle transform into passes, and the launch of each.

use rigel_gpu::{Result, Shape};

use crate::code::{Instances, parameters};
use crate::field::Mersenne31;

parameters! {
    /// The parameters of a pass.
    pub(super) struct Pass = "Pass" => {
        pub(super) words: u64,
        pub(super) tower: u32,
        pub(super) log_from: u32,
        pub(super) log_to: u32,
        pub(super) scale: u32,
        pub(super) tiles: u32,
        pub(super) together: u32,
    }
}

parameters! {
    /// A domain of two or four points: the half coset's first point, or the inverses of its coordinates and of the
    /// size.
    pub(super) struct Tiny = "Tiny" => {
        pub(super) columns: u32,
        pub(super) log_from: u32,
        pub(super) log_to: u32,
        pub(super) x: Mersenne31,
        pub(super) y: Mersenne31,
        pub(super) scale: Mersenne31,
    }
}

/// Threads per block in the contiguous pass.
pub(super) const CONTIGUOUS_THREADS: u32 = 1 << LOG_CONTIGUOUS_THREADS;
const LOG_CONTIGUOUS_THREADS: u32 = 8;

/// The layers that each pass over memory computes, from layer 0 up: first the contiguous pass, then the strided ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) contiguous: u32,
    pub(super) strided: Vec<u32>,
}

/// The maximum number of layers of a strided pass: 2^10 points by a run of 16 take 64 KiB of shared memory.
const MOST_STRIDED: u32 = 10;

impl Cut {
    /// The passes for transforms of 2^`log_rows` points: one up to 2^13, two up to 2^23, then three.
    pub(super) fn of(log_rows: u32) -> Self {
        // With 13 layers a thread holds 32 points, with 12 it holds 16 and more threads are resident. The wide tile
        // pays off where it makes the strided pass smaller than its largest tile.
        let contiguous = if log_rows == 13 || log_rows >= 22 { 13 } else { 12.min(log_rows) };
        let rest = log_rows - contiguous;
        let count = rest.div_ceil(MOST_STRIDED);
        Self { contiguous, strided: (0..count).map(|i| (rest + count - 1 - i) / count).collect() }
    }

    /// The passes in the order of an interpolation: the layers of each, and the first of them.
    pub(super) fn passes(&self) -> Vec<(u32, u32)> {
        let mut low = 0;
        std::iter::once(&self.contiguous)
            .chain(&self.strided)
            .map(|&layers| {
                low += layers;
                (low - layers, layers)
            })
            .collect()
    }
}

/// The split of a pass's points: a plan of `circle.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PassPlan {
    /// `struct Contiguous`: 256 threads of 2^`points` points each.
    Contiguous { points: u32, layers: u32 },
    /// `struct Strided`: `upper` and `lower` layers starting at `low`, 2^`run` adjacent points.
    Strided { low: u32, upper: u32, lower: u32, run: u32 },
}

impl PassPlan {
    pub(super) fn of(low: u32, layers: u32) -> Self {
        if low == 0 {
            return Self::Contiguous { points: if layers > 12 { 5 } else { 4 }, layers };
        }
        if layers <= 5 {
            return Self::Strided { low, upper: layers, lower: 0, run: 8 };
        }
        // Runs of 64 bytes or more.
        let run = if layers < 8 { 5 } else { 4 };
        Self::Strided { low, upper: layers.div_ceil(2), lower: layers / 2, run }
    }

    /// The kernel for a direction.
    pub(super) fn instances(self, inverse: bool, scaled: bool) -> Instances {
        let (kernel, plan) = match self {
            Self::Contiguous { points, layers } => {
                ("circle_contiguous", format!("Contiguous<{points}, {layers}, {inverse}, {scaled}>"))
            }
            Self::Strided { low, upper, lower, run } => {
                ("circle_strided", format!("Strided<{low}, {upper}, {lower}, {run}, {inverse}, {scaled}>"))
            }
        };
        Instances::one(format!("{kernel}<{plan} >"))
            .takes::<Pass>()
            .assert(format!("{plan}::THREADS == {}", self.threads()))
    }

    /// Words per tile, as a logarithm.
    pub(super) fn log_tile(self) -> u32 {
        match self {
            Self::Contiguous { points, .. } => points + LOG_CONTIGUOUS_THREADS,
            Self::Strided { upper, lower, run, .. } => upper + lower + run,
        }
    }

    pub(super) fn threads(self) -> u32 {
        match self {
            Self::Contiguous { .. } => CONTIGUOUS_THREADS,
            Self::Strided { lower, run, .. } => 1 << (lower + run),
        }
    }

    /// Bytes of shared memory: the tile, unless it stays in registers, and its twiddles.
    pub(super) fn shared(self) -> u32 {
        let words = match self {
            Self::Contiguous { .. } => (1 << self.log_tile()) + (1 << (self.log_tile() - 1)),
            Self::Strided { upper, lower: 0, .. } => 1 << upper,
            Self::Strided { upper, lower, .. } => (1 << self.log_tile()) + (1 << (upper + lower)),
        };
        words * size_of::<Mersenne31>() as u32
    }

    /// The launch over `columns` columns of the result, recorded in the pass. A contiguous block works on several
    /// columns if there are enough for all `multiprocessors`.
    pub(super) fn shape(self, pass: &mut Pass, columns: u32, multiprocessors: u32) -> Result<Shape> {
        let shape = match self {
            Self::Contiguous { .. } => {
                let places = 1u64 << pass.log_to.saturating_sub(self.log_tile());
                // One tile per column and place, or per several columns that are smaller than a tile.
                pass.tiles = pass.words.div_ceil(places << self.log_tile()) as u32;
                let busy = u64::from(multiprocessors) * BLOCKS_TO_BE_BUSY;
                let together = (places * u64::from(pass.tiles) / busy).clamp(1, MOST_TOGETHER) as u32;
                // As evenly as possible.
                pass.together = pass.tiles.div_ceil(pass.tiles.div_ceil(together));
                let blocks = places * u64::from(pass.tiles.div_ceil(pass.together));
                Shape::cover(blocks as usize, 1)?.threads(self.threads())
            }
            Self::Strided { .. } => {
                Shape::cover(1 << (pass.log_to - self.log_tile()), 1)?.threads(self.threads()).rows(columns)
            }
        };
        Ok(shape.shared(self.shared()))
    }
}

/// The maximum number of tiles per contiguous block: its twiddles, half a tile, are then at most an eighth of what it
/// reads.
const MOST_TOGETHER: u64 = 4;

/// The number of blocks per multiprocessor, run one after the other, before a block takes several tiles.
const BLOCKS_TO_BE_BUSY: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_cover_every_size() {
        for log_rows in 1..=super::super::MAX_LOG_ROWS {
            let cut = Cut::of(log_rows);
            let passes = cut.passes();
            assert_eq!(passes.iter().map(|&(_, layers)| layers).sum::<u32>(), log_rows);
            assert!(passes.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0), "{passes:?}");
            let expected = if log_rows <= 13 {
                1
            } else if log_rows <= 23 {
                2
            } else {
                3
            };
            assert_eq!(passes.len(), expected, "2^{log_rows}");
        }
        assert_eq!(Cut::of(20), Cut { contiguous: 12, strided: vec![8] });
        assert_eq!(Cut::of(22), Cut { contiguous: 13, strided: vec![9] });
    }

    #[test]
    fn tiles_fit_the_device_and_the_strides() {
        for log_rows in 1..=super::super::MAX_LOG_ROWS {
            for (low, layers) in Cut::of(log_rows).passes() {
                let plan = PassPlan::of(low, layers);
                assert!((256..=512).contains(&plan.threads()), "{plan:?}");
                // At least two blocks fit on a multiprocessor of 227 KiB.
                assert!(plan.shared() <= 113 << 10, "{plan:?}");
                if let PassPlan::Strided { low, upper, lower, run } = plan {
                    assert_eq!(upper + lower, layers);
                    assert!(upper <= 5 && lower <= upper && run <= low, "{plan:?}");
                }
            }
        }
    }

    #[test]
    fn contiguous_blocks_cover_all_tiles() {
        for (layers, log_to, columns) in
            [(3, 3, 1), (3, 3, 1_000), (12, 12, 7), (12, 20, 100), (13, 22, 100), (5, 9, 3)]
        {
            let words = (columns as u64) << log_to;
            let mut pass = Pass { words, tower: 0, log_from: log_to, log_to, scale: 0, tiles: 0, together: 0 };
            let plan = PassPlan::of(0, layers);
            let shape = plan.shape(&mut pass, columns, 132).unwrap();
            let places = 1u64 << log_to.saturating_sub(plan.log_tile());
            assert!(u64::from(pass.tiles) * (places << plan.log_tile()) >= words);
            assert_eq!(u64::from(shape.blocks[0]), places * u64::from(pass.tiles.div_ceil(pass.together)));
            assert!((1..=4).contains(&pass.together));
        }
    }
}
