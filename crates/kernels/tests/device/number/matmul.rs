//! Matrix products against a plain loop, over every type.

use std::fmt::Debug;

use rand::RngExt;
use rand::rngs::SmallRng;
use rigel_gpu::{Plain, Stream};
use rigel_kernels::field::Element;
use rigel_kernels::field::*;
use rigel_kernels::number::matmul::{Operand, Sizes, TYPES, multiply};

use crate::oracle::assert_says;
use crate::support::{on_each_device, rng};

/// An element type on the host. Floating-point samples are small integers, so every sum in a test is exact.
trait Sample: Plain + PartialEq + Debug {
    const NAME: &'static str;
    const ZERO: Self;

    fn sample(rng: &mut SmallRng) -> Self;
    fn product_plus(self, other: Self, sum: Self) -> Self;
}

macro_rules! floats {
    ($($type:ident = $name:literal),*) => { $(
        impl Sample for $type {
            const NAME: &'static str = $name;
            const ZERO: Self = 0.0;

            fn sample(rng: &mut SmallRng) -> Self {
                rng.random_range(-20..=20) as $type
            }

            fn product_plus(self, other: Self, sum: Self) -> Self {
                self * other + sum
            }
        }
    )* };
}
floats!(f32 = "float", f64 = "double");

macro_rules! integers {
    ($($type:ident)*) => { $(
        impl Sample for $type {
            const NAME: &'static str = stringify!($type);
            const ZERO: Self = 0;

            fn sample(rng: &mut SmallRng) -> Self {
                rng.random()
            }

            fn product_plus(self, other: Self, sum: Self) -> Self {
                self.wrapping_mul(other).wrapping_add(sum)
            }
        }
    )* };
}
integers!(i32 i64 u32 u64);

/// A complex number, real part first.
impl Sample for [f64; 2] {
    const NAME: &'static str = "Complex";
    const ZERO: Self = [0.0; 2];

    fn sample(rng: &mut SmallRng) -> Self {
        [f64::sample(rng), f64::sample(rng)]
    }

    fn product_plus(self, [c, d]: Self, sum: Self) -> Self {
        let [a, b] = self;
        [sum[0] + a * c - b * d, sum[1] + a * d + b * c]
    }
}

/// Every other coefficient is -1, whose stored word is among the largest, so that sums come close to overflow.
macro_rules! fields {
    ($($field:ident)*) => { $(
        impl Sample for $field {
            const NAME: &'static str = <Self as Ring>::NAME;
            const ZERO: Self = <Self as Ring>::ZERO;

            fn sample(rng: &mut SmallRng) -> Self {
                type Base = <$field as Element>::Base;
                let mut coefficient = || Base::from_u64(if rng.random() { Base::ORDER - 1 } else { rng.random() });
                let coefficients: Vec<Base> = (0..<Self as Element>::DEGREE).map(|_| coefficient()).collect();
                Self::from_parts(&coefficients).unwrap()
            }

            fn product_plus(self, other: Self, sum: Self) -> Self {
                self * other + sum
            }
        }
    )* };
}
fields!(Mersenne31 BabyBear KoalaBear Goldilocks CM31 QM31 BabyBear4 KoalaBear4 Goldilocks2 Goldilocks3);

/// The layout of a factor in memory.
#[derive(Clone, Copy, Debug)]
enum Layout {
    /// Row-major, with gaps after rows and matrices and before the first.
    Rows,
    /// The transpose, row-major and without gaps.
    Columns,
    /// Row-major, last row and last column first.
    Backwards,
    /// One row-major matrix for the whole batch.
    Shared,
    /// Row-major with a gap after each element.
    Spread,
}

/// A factor on the host.
struct Factor<T> {
    values: Vec<T>,
    offset: usize,
    strides: [isize; 3],
}

impl<T: Sample> Factor<T> {
    fn new(rng: &mut SmallRng, layout: Layout, batch: usize, rows: usize, columns: usize) -> Self {
        let (r, c) = (rows as isize, columns as isize);
        let (offset, strides, len) = match layout {
            Layout::Rows => (2, [r * (c + 3) + 1, c + 3, 1], batch * (rows * (columns + 3) + 1) + 2),
            Layout::Columns => (0, [r * c, 1, r], batch * rows * columns),
            Layout::Backwards => {
                ((batch * rows * columns).saturating_sub(1), [-r * c, -c, -1], batch * rows * columns)
            }
            Layout::Shared => (0, [0, c, 1], rows * columns),
            Layout::Spread => (0, [2 * r * c, 2 * c, 2], 2 * batch * rows * columns),
        };
        Self { values: (0..len).map(|_| T::sample(rng)).collect(), offset, strides }
    }

    fn at(&self, batch: usize, row: usize, column: usize) -> T {
        let [b, r, c] = self.strides;
        let place = self.offset as isize + batch as isize * b + row as isize * r + column as isize * c;
        self.values[place as usize]
    }
}

fn check<T: Sample>(stream: &Stream, [m, n, k, batch]: [usize; 4], layouts: [Layout; 2]) {
    let mut rng = rng((m * 1_000_003 + n * 1_009 + k) as u64);
    let a = Factor::<T>::new(&mut rng, layouts[0], batch, m, k);
    let b = Factor::<T>::new(&mut rng, layouts[1], batch, k, n);
    let memory = [&a, &b].map(|factor| stream.upload(&factor.values).unwrap().cast::<u8>().unwrap());
    let operand = |factor: &Factor<T>, which: usize| Operand {
        memory: memory[which].view(),
        offset: factor.offset,
        batch_stride: factor.strides[0],
        row_stride: factor.strides[1],
        column_stride: factor.strides[2],
    };
    let mut out = stream.alloc::<u8>(batch * m * n * size_of::<T>()).unwrap();
    let sizes = Sizes { m, n, k, batch };
    multiply(stream, T::NAME, sizes, operand(&a, 0), operand(&b, 1), out.view_mut()).unwrap();
    let found = out.cast::<T>().unwrap().to_vec(stream).unwrap();
    for (place, &found) in found.iter().enumerate() {
        let (i, j, product) = (place / n % m, place % n, place / n / m);
        let term = |sum, l| a.at(product, i, l).product_plus(b.at(product, l, j), sum);
        let expected = (0..k).fold(T::ZERO, term);
        assert_eq!(found, expected, "{} {sizes:?} {layouts:?}: C[{product}][{i}, {j}]", T::NAME);
    }
}

fn check_all<T: Sample>() {
    use Layout::*;
    on_each_device(|stream| {
        // One result; an empty sum; nothing at all.
        for sizes in [[1, 1, 1, 1], [3, 70, 0, 2], [0, 5, 3, 1], [5, 0, 3, 1], [5, 5, 3, 0]] {
            check::<T>(stream, sizes, [Rows, Rows]);
        }
        // Small products: one and many, more than a block has threads.
        check::<T>(stream, [2, 3, 5, 1], [Columns, Rows]);
        check::<T>(stream, [3, 5, 4, 50], [Backwards, Shared]);
        check::<T>(stream, [32, 32, 64, 1], [Spread, Columns]);
        // Tiles: within one, over several with ragged edges, whole ones, several parts of the sum, a batch.
        for layouts in [[Rows, Rows], [Columns, Columns], [Backwards, Spread]] {
            check::<T>(stream, [17, 33, 65, 1], layouts);
        }
        check::<T>(stream, [130, 131, 19, 1], [Rows, Columns]);
        check::<T>(stream, [128, 128, 16, 1], [Columns, Rows]);
        check::<T>(stream, [6, 5, 1_100, 1], [Rows, Rows]);
        check::<T>(stream, [6, 5, 1_100, 2], [Columns, Rows]);
        check::<T>(stream, [40, 7, 20, 3], [Shared, Backwards]);
        check::<T>(stream, [5, 40, 9, 3], [Columns, Shared]);
        // Vectors on either side, contiguous terms or contiguous rows, one or several parts, few and many rows.
        for layouts in [[Rows, Rows], [Columns, Columns], [Shared, Spread], [Backwards, Shared]] {
            check::<T>(stream, [1, 150, 37, 2], layouts);
            check::<T>(stream, [150, 1, 37, 2], layouts);
        }
        check::<T>(stream, [1, 1, 9_000, 1], [Rows, Columns]);
        check::<T>(stream, [3, 4, 5_000, 1], [Rows, Rows]);
        check::<T>(stream, [5, 2, 700, 2], [Columns, Rows]);
        check::<T>(stream, [2, 300, 3, 1], [Rows, Columns]);
    });
}

macro_rules! tests {
    ($($test:ident = $type:ty),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                check_all::<$type>();
            }
        )*

        #[test]
        fn every_type_is_tested() {
            assert_eq!([$(<$type as Sample>::NAME),*], TYPES);
        }
    };
}
tests! {
    f32_equals_a_loop = f32,
    f64_equals_a_loop = f64,
    complex_equals_a_loop = [f64; 2],
    i32_equals_a_loop = i32,
    u32_equals_a_loop = u32,
    i64_equals_a_loop = i64,
    u64_equals_a_loop = u64,
    mersenne31_equals_a_loop = Mersenne31,
    baby_bear_equals_a_loop = BabyBear,
    koala_bear_equals_a_loop = KoalaBear,
    goldilocks_equals_a_loop = Goldilocks,
    cm31_equals_a_loop = CM31,
    qm31_equals_a_loop = QM31,
    baby_bear4_equals_a_loop = BabyBear4,
    koala_bear4_equals_a_loop = KoalaBear4,
    goldilocks2_equals_a_loop = Goldilocks2,
    goldilocks3_equals_a_loop = Goldilocks3,
}

/// Words that represent elements but are not canonical: the largest of Goldilocks, and p for zero in Mersenne-31.
#[test]
fn the_largest_words_do_not_overflow() {
    fn check<F: Field>(stream: &Stream, word: F) {
        let k = 3_000;
        let memory = stream.upload(&vec![word; k * 10]).unwrap().cast::<u8>().unwrap();
        for (m, n, k) in [(1, 1, k), (10, 10, k), (10, 10, 60)] {
            let mut out = stream.alloc::<u8>(m * n * size_of::<F>()).unwrap();
            let (a, b) = (Operand::rows(memory.view(), m, k), Operand::rows(memory.view(), k, n));
            multiply(stream, F::NAME, Sizes { m, n, k, batch: 1 }, a, b, out.view_mut()).unwrap();
            let found = out.cast::<F>().unwrap().to_vec(stream).unwrap();
            let expected = F::from_u64(word.to_u64()).pow(2) * F::from_u64(k as u64);
            assert!(found.iter().all(|found| found.to_u64() == expected.to_u64()), "{} {m} x {n} x {k}", F::NAME);
        }
    }
    on_each_device(|stream| {
        check(stream, Goldilocks::from_word(u64::MAX));
        check(stream, Goldilocks::from_word(Goldilocks::ORDER));
        check(stream, Mersenne31::from_word(Mersenne31::ORDER as u32));
        check(stream, Mersenne31::from_word(Mersenne31::ORDER as u32 - 1));
        check(stream, BabyBear::from_word(BabyBear::ORDER as u32 - 1));
        check(stream, KoalaBear::from_word(KoalaBear::ORDER as u32 - 1));
    });
}

#[test]
fn wrong_input_is_refused() {
    on_each_device(|stream| {
        let memory = stream.zeros::<u8>(4 * 100).unwrap();
        let mut out = stream.zeros::<u8>(4 * 100).unwrap();
        let sizes = Sizes { m: 10, n: 10, k: 10, batch: 1 };
        let factor = Operand::rows(memory.view(), 10, 10);
        let mut run = |of: &str, sizes, a, b| multiply(stream, of, sizes, a, b, out.view_mut());
        run("float", sizes, factor, factor.transposed()).unwrap();
        assert_says(run("half", sizes, factor, factor), &["\"half\"", "float, double", "KoalaBear"]);
        assert_says(run("double", sizes, factor, factor), &["do not match an output of 400 bytes"]);
        assert_says(
            run("float", Sizes { m: 11, ..sizes }, factor, factor),
            &["11 x 10", "do not match an output of 400 bytes"],
        );
        let past = Operand { offset: 1, ..factor };
        assert_says(run("float", sizes, past, factor), &["A (1 of 10 x 10)", "elements 1 to 100", "holds 100"]);
        let before = Operand { column_stride: -1, ..factor };
        assert_says(run("float", sizes, factor, before), &["B (1 of 10 x 10)", "elements -9 to 90"]);
        let odd = Operand { memory: memory.view().range(2..).unwrap(), row_stride: 9, ..factor };
        assert_says(run("float", sizes, odd, factor), &["A lies at", "not a multiple of 4 bytes"]);
    });
}
