//! Reductions over all splits of the axes, against a loop.

use rigel_codegen::map::{Binary, Complex, Expression, Reduction, Type};
use rigel_gpu::{bytes_of, bytes_of_mut};
use rigel_kernels::field::{Goldilocks, Goldilocks3, KoalaBear, QM31, Ring};

use super::{Random, rng, scalar};
use crate::cpu::plan::Operand;
use crate::cpu::reduce;
use crate::cpu::space::row_major;

/// The reduction of an array over its last `reduced` axes, with the axes of memory in this order.
fn run<T: Random + Default>(
    reduction: Reduction,
    values: &[T],
    shape: &[usize],
    strides: &[isize],
    reduced: usize,
) -> Vec<T> {
    let mut e = Expression::new();
    e.input(T::OF);
    let kept = shape.len() - reduced;
    let mut out = vec![T::default(); shape[..kept].iter().product()];
    let inputs = [Operand { memory: values.as_ptr().cast(), offset: 0, strides }];
    // SAFETY: the strides stay inside of the values.
    unsafe { reduce(&e, reduction, shape, reduced, &inputs, &[], bytes_of_mut(&mut out)) };
    out
}

/// Row-major memory, and memory whose axes are in the opposite order.
fn layouts(shape: &[usize]) -> [Vec<isize>; 2] {
    let turned: Vec<usize> = shape.iter().rev().copied().collect();
    let mut strides = row_major(&turned);
    strides.reverse();
    [row_major(shape), strides]
}

const SHAPES: [&[usize]; 16] = [
    &[1],
    &[31],
    &[257],
    &[5000],
    &[(1 << 17) + 3],
    &[3, 4],
    &[40, 3000],
    &[3000, 40],
    &[600, 700],
    &[5, 1, 6, 7],
    &[130, 3, 600],
    &[2, 70_000],
    &[70_000, 2],
    &[4, 3, 2, 9000],
    &[1, 33, 1],
    &[20, 30, 40],
];

fn check<T: Random + Default>(reduction: Reduction, first: T, step: impl Fn(T, T) -> T) {
    for shape in SHAPES {
        let total: usize = shape.iter().product();
        let values = T::many(&mut rng(total as u64), total);
        for strides in layouts(shape) {
            for reduced in 0..=shape.len() {
                let kept = shape.len() - reduced;
                let length: usize = shape[kept..].iter().product();
                let found = run(reduction, &values, shape, &strides, reduced);
                let at = |index: usize| {
                    let (mut rest, mut place) = (index, 0);
                    for (&length, &stride) in shape.iter().zip(&strides).rev() {
                        place += rest % length * stride as usize;
                        rest /= length;
                    }
                    values[place]
                };
                for (o, found) in found.iter().enumerate() {
                    let expected = (0..length).fold(first, |sum, r| step(sum, at(o * length + r)));
                    assert_eq!(*found, expected, "{reduction:?} of {shape:?} over {reduced}, result {o}");
                }
            }
        }
    }
}

#[test]
fn exact_reductions() {
    check::<i64>(Reduction::Sum, 0, i64::wrapping_add);
    check::<u32>(Reduction::Product, 1, u32::wrapping_mul);
    check::<i32>(Reduction::Min, i32::MAX, i32::min);
    check::<u64>(Reduction::Max, 0, u64::max);
    check::<u8>(Reduction::Max, 0, u8::max);
    check::<KoalaBear>(Reduction::Sum, KoalaBear::ZERO, |x, y| x + y);
    check::<Goldilocks3>(Reduction::Sum, Goldilocks3::ZERO, |x, y| x + y);
    check::<QM31>(Reduction::Product, QM31::ONE, |x, y| x * y);
}

#[test]
fn sums_of_floats_lose_little() {
    let n = 3_000_000;
    let values: Vec<f32> = u32::many(&mut rng(2), n).iter().map(|&x| x as f32 / u32::MAX as f32).collect();
    let exact: f64 = values.iter().map(|&x| x as f64).sum();
    let found = run(Reduction::Sum, &values, &[n], &[1], 1)[0];
    assert!((found as f64 - exact).abs() < 1e-6 * exact, "{found} {exact}");
    // Column sums of a matrix of 3 and of 3000 columns.
    for columns in [3, 3000] {
        let found = run(Reduction::Sum, &values, &[columns, n / columns], &[1, columns as isize], 1);
        for (c, &found) in found.iter().enumerate() {
            let exact: f64 = values.iter().skip(c).step_by(columns).map(|&x| x as f64).sum();
            assert!((found as f64 - exact).abs() < 2e-6 * exact, "{found} {exact}");
        }
    }
    let pairs: Vec<Complex> = values.chunks(2).map(|p| Complex { re: p[0] as f64, im: p[1] as f64 }).collect();
    let found = run(Reduction::Sum, &pairs, &[n / 2], &[1], 1)[0];
    assert!((found.re + found.im - exact).abs() < 1e-12 * exact);
}

#[test]
fn minima_and_maxima_propagate_nan() {
    for n in [1, 16, 33, 5000, 100_000] {
        for at in [0, n / 2, n - 1] {
            let mut values: Vec<f64> = (0..n).map(|i| (i as f64 - 50.0).sin()).collect();
            let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
            assert_eq!(run(Reduction::Min, &values, &[n], &[1], 1), [smallest]);
            values[at] = f64::NAN;
            assert!(run(Reduction::Min, &values, &[n], &[1], 1)[0].is_nan());
            assert!(run(Reduction::Max, &values, &[n], &[1], 1)[0].is_nan());
        }
    }
}

#[test]
fn reductions_of_nothing() {
    assert_eq!(run::<f64>(Reduction::Sum, &[], &[3, 0], &[0, 1], 1), [0.0; 3]);
    assert_eq!(run::<KoalaBear>(Reduction::Product, &[], &[2, 0], &[0, 1], 1), [KoalaBear::ONE; 2]);
    assert_eq!(run::<Goldilocks>(Reduction::Sum, &[], &[0, 5], &[5, 1], 1), []);
}

/// Reductions give the same bits with any number of threads.
#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let values: Vec<f32> = u32::many(&mut rng(6), 1_000_000).iter().map(|&x| x as f32 * 1.1).collect();
    for (shape, strides) in
        [(vec![1_000_000], vec![1]), (vec![1000, 1000], vec![1, 1000]), (vec![4, 250_000], vec![1, 4])]
    {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let found = pool.install(|| run(Reduction::Sum, &values, &shape, &strides, 1));
            found.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(with(1), with(5), "{shape:?}");
    }
}

/// An expression is reduced without being stored: a matrix with a broadcast vector, the indices, a constant.
#[test]
fn expressions_are_reduced() {
    let (rows, columns) = (300, 700);
    let (a, b) = (i64::many(&mut rng(1), rows * columns), i64::many(&mut rng(2), columns));
    let mut e = Expression::new();
    let (x, y, index) = (e.input(Type::I64), e.input(Type::I64), e.index());
    let product = e.binary(Binary::Mul, x, y).unwrap();
    let index = e.convert(Type::I64, index).unwrap();
    e.binary(Binary::Sub, product, index).unwrap();
    let value =
        |r: usize, c: usize, place: usize| a[r * columns + c].wrapping_mul(b[c]).wrapping_sub(place as i64);
    let sum = |values: &mut dyn Iterator<Item = i64>| values.fold(0, i64::wrapping_add);
    let mut out = vec![0i64; rows];
    let operand = |values: &[i64], strides| Operand { memory: bytes_of(values).as_ptr(), offset: 0, strides };
    let (by_row, along) = ([columns as isize, 1], [0, 1]);
    let inputs = [operand(&a, &by_row), operand(&b, &along)];
    // SAFETY: the strides stay inside of the values.
    unsafe { reduce(&e, Reduction::Sum, &[rows, columns], 1, &inputs, &[], bytes_of_mut(&mut out)) };
    assert!((0..rows).all(|r| out[r] == sum(&mut (0..columns).map(|c| value(r, c, r * columns + c)))));
    let mut out = vec![0i64; columns];
    let (by_column, along) = ([1, columns as isize], [1, 0]);
    let inputs = [operand(&a, &by_column), operand(&b, &along)];
    // SAFETY: as above.
    unsafe { reduce(&e, Reduction::Sum, &[columns, rows], 1, &inputs, &[], bytes_of_mut(&mut out)) };
    assert!((0..columns).all(|c| out[c] == sum(&mut (0..rows).map(|r| value(r, c, c * rows + r)))));

    let mut e = Expression::new();
    e.scalar(Type::U32);
    let mut out = vec![0u32; 5];
    // SAFETY: there are no operands.
    unsafe { reduce(&e, Reduction::Sum, &[5, 9000], 1, &[], &[scalar(7u32)], bytes_of_mut(&mut out)) };
    assert_eq!(out, [63_000; 5]);
}
