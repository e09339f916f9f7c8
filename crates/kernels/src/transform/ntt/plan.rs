//! The split of a transform into passes, and the tables that each pass reads.

use rigel_gpu::{Buffer, Plain, Result, Shape, Stream};

use super::TwoAdic;
use crate::code::parameters;
use crate::field::Field;

/// The number of powers of the root of unity of order 32 that a pass takes as operands.
pub(super) const ROOTS: usize = 16;

parameters! {
    /// A pass over polynomials of 2^`log_size` points.
    pub(super) struct Pass<F: Field> = format!("Pass<{}>", F::NAME) => {
        pub(super) roots: [F; ROOTS],
        pub(super) scale: F,
        pub(super) polynomials: u32,
        pub(super) log_size: u32,
        pub(super) log_span: u32,
        pub(super) log_cosets: u32,
        pub(super) shifted_from: u32,
        pub(super) reversed: u32,
        pub(super) natural: u32,
        pub(super) unshifted: u32,
        pub(super) scaled: u32,
        pub(super) across: u32,
        pub(super) parts: u32,
        pub(super) log_column: u32,
        pub(super) log_block: u32,
        pub(super) block: u32,
    }
}

/// The split of a pass's bits: up to three stages, with `tile` runs per block. It becomes a `Plan` of `ntt.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cut {
    pub(super) stages: [u32; 3],
    pub(super) tile: u32,
}

impl Cut {
    pub(super) fn of<F: Field>(bits: u32, last: bool, across: bool) -> Self {
        let wide = size_of::<F>() == 8;
        let stages = match (bits, wide) {
            (8, true) => [3, 3, 2],
            (9, true) => [3, 3, 3],
            (10, true) => [4, 3, 3],
            _ => [bits.div_ceil(2), bits / 2, 0],
        };
        // A block has 128 to 512 threads. Runs that are adjacent in memory (before the last pass, or where it writes
        // across them) are read or written at least 32 bytes at a time.
        let tile = match (bits, wide, last, across) {
            (10, false, true, false) | (9..=10, true, _, _) => 4,
            (9..=10, false, true, _) | (8, true, _, _) => 8,
            (7..=10, ..) => 16,
            _ => 32,
        };
        Self { stages, tile }
    }

    pub(super) fn bits(self) -> u32 {
        self.stages.iter().sum()
    }

    pub(super) fn threads(self) -> u32 {
        self.tile << (self.bits() - self.stages[0])
    }

    /// One block per tile and coset: in the last pass over the runs of all polynomials, before it over those of each.
    pub(super) fn shape<F: Field>(self, pass: Pass<F>, last: bool) -> Result<Shape> {
        let log_runs = pass.log_size - self.bits();
        let polynomials = pass.polynomials as usize;
        let tiles = if last {
            (polynomials << log_runs).div_ceil(self.tile as usize)
        } else {
            (1usize << log_runs).div_ceil(self.tile as usize) * polynomials
        };
        Ok(Shape::cover(tiles << pass.log_cosets, 1)?.threads(self.threads()).shared(self.shared::<F>()))
    }

    /// Bytes of shared memory: TILE runs of 2^R points with their padding.
    pub(super) fn shared<F: Field>(self) -> u32 {
        let run = (1 << self.bits()) + (1 << self.bits() >> 3) + 2;
        self.tile * run * size_of::<F>() as u32
    }
}

/// The maximum number of bits per pass.
pub(super) const MOST_BITS: u32 = 10;

/// The number of bits of each pass.
pub(super) fn passes(log_rows: u32) -> Vec<u32> {
    let count = log_rows.div_ceil(MOST_BITS);
    (0..count).map(|i| (log_rows + count - 1 - i) / count).collect()
}

/// The tables of one pass, as `ntt_pass` in `ntt.cu` reads them. The tables of all passes together have the size of one
/// column of the result.
pub(super) struct Tables<F: Plain> {
    pub(super) points: Buffer<F>,
    pub(super) stages: Buffer<F>,
    pub(super) twiddles: Buffer<F>,
}

/// `start, start ratio, start ratio^2, ..`
pub(super) fn geometric<F: Field>(start: F, ratio: F, len: usize) -> impl Iterator<Item = F> {
    std::iter::successors(Some(start), move |&power| Some(power * ratio)).take(len)
}

/// The `bits` low bits of `x` in reverse order.
pub(super) fn reverse_bits(x: usize, bits: u32) -> u64 {
    (x as u64).reverse_bits().checked_shr(64 - bits).unwrap_or(0)
}

/// The root of unity of order 2^`bits`, or its inverse, given that of order 2^`TWO_ADICITY`.
pub(super) fn root<F: TwoAdic>(generator: F, bits: u32, inverse: bool) -> F {
    let root = generator.pow(1 << (F::TWO_ADICITY - bits));
    if inverse { root.inverse().expect("a root of unity is not zero") } else { root }
}

impl<F: Plain> Tables<F> {
    /// Size in device memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.points.bytes() + self.stages.bytes() + self.twiddles.bytes()
    }
}

impl<F: TwoAdic> Tables<F> {
    /// The tables of a pass that splits `span` bits by `cut`; `shifts` are those of the cosets, or a single one.
    pub(super) fn new(
        stream: &Stream,
        cut: Cut,
        span: u32,
        generator: F,
        inverse: bool,
        shifts: &[F],
    ) -> Result<Self> {
        let [r1, r2, _] = cut.stages;
        let (bits, low) = (cut.bits(), cut.bits() - r1);
        let stride = 1u64 << (span - bits);
        let points = shifts.iter().flat_map(|shift| geometric(F::ONE, shift.pow(stride << low), 1 << r1));

        let rows = |bits: u32, taken: u32, shift: F| {
            let ratio = move |q| root(generator, bits, inverse).pow(reverse_bits(q, taken)) * shift;
            (0..1 << taken).flat_map(move |q| geometric(F::ONE, ratio(q), 1 << (bits - taken)))
        };
        let second = rows(low, r2, F::ONE);
        let first = shifts.iter().flat_map(|shift| rows(bits, r1, shift.pow(stride)));

        let ratios = |shift: F| {
            (0..1usize << bits).map(move |p| root(generator, span, inverse).pow(reverse_bits(p, bits)) * shift)
        };
        let twiddles = shifts
            .iter()
            .flat_map(|&shift| ratios(shift))
            .flat_map(|ratio| geometric(F::ONE, ratio, stride as usize));
        Ok(Self {
            points: stream.upload(&points.collect::<Vec<_>>())?,
            stages: stream.upload(&second.chain(first).collect::<Vec<_>>())?,
            twiddles: stream.upload(&twiddles.collect::<Vec<_>>())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Goldilocks, KoalaBear};

    #[test]
    fn passes_cover_every_size_evenly() {
        for log_rows in 1..=24 {
            let bits = passes(log_rows);
            assert_eq!(bits.iter().sum::<u32>(), log_rows);
            assert!(bits.iter().all(|&b| b <= 10 && (b >= 5 || log_rows < 10)), "{log_rows}: {bits:?}");
        }
        assert_eq!(passes(20), [10, 10]);
        assert_eq!(passes(21), [7, 7, 7]);
    }

    #[test]
    fn tiles_fit_the_device_and_their_neighbours() {
        fn check<F: Field>(bits: u32, last: bool, across: bool) {
            let cut = Cut::of::<F>(bits, last, across);
            assert_eq!(cut.bits(), bits);
            assert!(cut.stages[0] <= 5 && cut.stages[0] >= cut.stages[1] && cut.stages[1] >= cut.stages[2]);
            assert!(cut.shared::<F>() <= 76 << 10);
            assert!((128..=512).contains(&cut.threads()), "{} threads for {bits} bits", cut.threads());
            // A pass before the last has at least 2^5 adjacent runs.
            assert!(cut.tile <= 32);
        }
        for bits in 5..=10 {
            for (last, across) in [(false, false), (true, true), (true, false)] {
                check::<KoalaBear>(bits, last, across);
                check::<Goldilocks>(bits, last, across);
            }
        }
    }
}
