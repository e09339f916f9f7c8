//! Matrix products against three nested loops.

use rigel_codegen::map::Complex;
use rigel_gpu::bytes_of_mut;
use rigel_kernels::field::{
    BabyBear, BabyBear4, CM31, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4, Mersenne31, QM31, Ring,
};

use super::{Random, rng};
use crate::cpu::{Factor, matmul};

const SIZES: [[usize; 3]; 11] = [
    [1, 1, 1],
    [1, 9, 5],
    [9, 1, 5],
    [5, 3, 8],
    [17, 33, 65],
    [64, 64, 64],
    [3, 600, 100],
    [600, 3, 101],
    [130, 70, 90],
    [4, 4, 0],
    [0, 4, 4],
];

/// Compares for all sizes, with either factor transposed or not; for a large size, with one choice of these.
fn check<T: Random + Default>(
    make: impl Fn(u64, usize) -> Vec<T>,
    sum: impl Fn(&mut dyn Iterator<Item = (T, T)>) -> T,
    same: impl Fn(T, T) -> bool,
) {
    for (s, [m, n, k]) in SIZES.into_iter().enumerate() {
        let (a, b) = (make(1, m * k + 1), make(2, k * n + 1));
        let choices = if m * n * k < 100_000 { 0..4 } else { s % 4..s % 4 + 1 };
        for turned in choices {
            let strides = |rows: usize, columns: usize, turned: bool| {
                if turned { (1, rows as isize) } else { (columns as isize, 1) }
            };
            let (a_strides, b_strides) = (strides(m, k, turned & 1 == 1), strides(k, n, turned & 2 == 2));
            let factor = |values: &[T], (row_stride, column_stride)| Factor {
                memory: values.as_ptr().cast(),
                offset: 1,
                row_stride,
                column_stride,
            };
            let mut found = vec![T::random(&mut rng(0)); m * n];
            // SAFETY: the factors have so many elements after the first.
            unsafe {
                matmul(T::OF, [m, n, k], factor(&a, a_strides), factor(&b, b_strides), bytes_of_mut(&mut found))
            };
            for i in 0..m {
                for j in 0..n {
                    let at = |values: &[T], (r, c): (isize, isize), row: usize, column: usize| {
                        values[1 + (row as isize * r + column as isize * c) as usize]
                    };
                    let expected = sum(&mut (0..k).map(|l| (at(&a, a_strides, i, l), at(&b, b_strides, l, j))));
                    assert!(
                        same(found[i * n + j], expected),
                        "{:?} {m} {n} {k} at {i} {j}: {:?}, not {expected:?}",
                        T::OF,
                        found[i * n + j]
                    );
                }
            }
        }
    }
}

#[test]
fn products_of_fields() {
    fn of<T: Random + Ring>() {
        let make = |seed, count| T::many(&mut rng(seed), count);
        check::<T>(make, |pairs| pairs.fold(T::ZERO, |sum, (x, y)| sum + x * y), |x, y| x == y);
    }
    of::<Mersenne31>();
    of::<BabyBear>();
    of::<KoalaBear>();
    of::<Goldilocks>();
    of::<CM31>();
    of::<QM31>();
    of::<BabyBear4>();
    of::<KoalaBear4>();
    of::<Goldilocks2>();
    of::<Goldilocks3>();
}

/// The largest elements, which overflow first.
#[test]
fn long_sums_of_large_products() {
    let k = 10_001;
    fn of<T: Random + Ring>(k: usize, largest: T) {
        let values = vec![largest; k * 9];
        let mut found = vec![T::ZERO; 9 * 9];
        let factor = |row_stride, column_stride| Factor {
            memory: values.as_ptr().cast(),
            offset: 0,
            row_stride,
            column_stride,
        };
        // SAFETY: 9 rows of k elements, and k of 9.
        unsafe { matmul(T::OF, [9, 9, k], factor(k as isize, 1), factor(9, 1), bytes_of_mut(&mut found)) };
        let expected = (0..k).fold(T::ZERO, |sum, _| sum + largest * largest);
        assert_eq!(found, vec![expected; 81]);
    }
    use rigel_kernels::field::Field;
    of(k, Mersenne31::from_word((1 << 31) - 2));
    of(k, BabyBear::from_word(0x7800_0000));
    of(k, KoalaBear::from_word(0x7f00_0000));
    of(k, Goldilocks::from_word(u64::MAX));
}

#[test]
fn products_of_integers() {
    macro_rules! of {
        ($($of:ty)*) => { $(
            check::<$of>(
                |seed, count| <$of>::many(&mut rng(seed), count),
                |pairs| pairs.fold(0, |sum, (x, y)| x.wrapping_mul(y).wrapping_add(sum)),
                |x, y| x == y,
            );
        )* };
    }
    of!(i32 i64 u32 u64);
}

#[test]
fn products_of_floats() {
    let make = |seed, count: usize| -> Vec<f64> {
        u32::many(&mut rng(seed), count).iter().map(|&x| x as f64 / (1u64 << 31) as f64 - 1.0).collect()
    };
    check::<f64>(make, |pairs| pairs.map(|(x, y)| x * y).sum(), |x, y| (x - y).abs() < 1e-12);
    check::<f32>(
        |seed, count| make(seed, count).iter().map(|&x| x as f32).collect(),
        |pairs| pairs.map(|(x, y)| x as f64 * y as f64).sum::<f64>() as f32,
        |x, y| (x - y).abs() < 1e-4,
    );
    check::<Complex>(
        |seed, count| make(seed, 2 * count).chunks(2).map(|p| Complex { re: p[0], im: p[1] }).collect(),
        |pairs| {
            pairs.fold(Complex::default(), |sum, (x, y)| Complex {
                re: sum.re + x.re * y.re - x.im * y.im,
                im: sum.im + x.re * y.im + x.im * y.re,
            })
        },
        |x, y| (x.re - y.re).abs() < 1e-12 && (x.im - y.im).abs() < 1e-12,
    );
}
