//! Operands and results with arbitrary strides, against a loop over all indices.

use rigel_codegen::map::{Binary, Expression, Type};
use rigel_gpu::bytes_of;

use super::{Random, evaluate_flat, rng, scalar};
use crate::cpu::plan::Operand;
use crate::cpu::space::row_major;
use crate::cpu::{Target, evaluate};

/// The strides of an array of this shape whose axes are in the memory order `order`. Axes in `turned` run
/// backwards, axes in `repeated` have stride 0, and `gap` is the smallest stride. Also the offset and the number
/// of elements spanned.
fn layout(
    shape: &[usize],
    order: &[usize],
    turned: &[usize],
    repeated: &[usize],
    gap: isize,
) -> (Vec<isize>, usize, usize) {
    let mut strides = vec![0; shape.len()];
    let (mut step, mut offset, mut span) = (gap, 0, 1);
    for &axis in order.iter().rev() {
        if repeated.contains(&axis) {
            continue;
        }
        let reach = (shape[axis] as isize - 1) * step;
        span += reach as usize;
        strides[axis] = step;
        if turned.contains(&axis) {
            strides[axis] = -step;
            offset += reach as usize;
        }
        step *= shape[axis] as isize;
    }
    (strides, offset + 3, span + 3)
}

fn place(index: usize, shape: &[usize], strides: &[isize], offset: usize) -> usize {
    let (mut rest, mut place) = (index, offset as isize);
    for (&length, &stride) in shape.iter().zip(strides).rev() {
        place += (rest % length) as isize * stride;
        rest /= length;
    }
    place as usize
}

type Layout = (Vec<isize>, usize, usize);

/// `out = a + b place` over three layouts.
fn check(shape: &[usize], [a, b, out]: [Layout; 3]) {
    let mut rng = rng(shape.iter().sum::<usize>() as u64);
    let (x, y) = (i64::many(&mut rng, a.2), u32::many(&mut rng, b.2));
    let mut found = vec![77u64; out.2];
    let mut expected = found.clone();
    let mut e = Expression::new();
    let (i, j, index) = (e.input(Type::I64), e.input(Type::U32), e.index());
    let (i, j) = (e.convert(Type::U64, i).unwrap(), e.convert(Type::U64, j).unwrap());
    let product = e.binary(Binary::Mul, j, index).unwrap();
    e.binary(Binary::Add, i, product).unwrap();
    let inputs = [
        Operand { memory: x.as_ptr().cast(), offset: a.1, strides: &a.0 },
        Operand { memory: y.as_ptr().cast(), offset: b.1, strides: &b.0 },
    ];
    let target = Target { memory: found.as_mut_ptr().cast(), offset: out.1, strides: &out.0 };
    // SAFETY: the layouts span what was allocated.
    unsafe { evaluate(&e, shape, &inputs, &[], target) };
    for index in 0..shape.iter().product() {
        let value = y[place(index, shape, &b.0, b.1)] as u64;
        expected[place(index, shape, &out.0, out.1)] =
            (x[place(index, shape, &a.0, a.1)] as u64).wrapping_add(value.wrapping_mul(index as u64));
    }
    assert_eq!(found, expected, "{shape:?}, strides {:?}, {:?}, {:?}", a.0, b.0, out.0);
}

#[test]
fn strided_operands_and_results() {
    let shapes: [&[usize]; 9] =
        [&[1], &[7], &[5000], &[3, 5], &[300, 7], &[70, 900], &[2, 3, 4, 5], &[33, 40, 41], &[3, 1, 2500]];
    for shape in shapes {
        let natural: Vec<usize> = (0..shape.len()).collect();
        let turned: Vec<usize> = natural.iter().rev().copied().collect();
        let mut rotated = natural.clone();
        rotated.rotate_left(1);
        let last = shape.len() - 1;
        let layouts = [
            layout(shape, &natural, &[], &[], 1),
            layout(shape, &turned, &[], &[], 1),
            layout(shape, &rotated, &[0], &[], 1),
            layout(shape, &natural, &[last], &[], 2),
            layout(shape, &natural, &[], &[last], 1),
            layout(shape, &natural, &[], &[0], 3),
            layout(shape, &natural, &[], &natural, 1),
        ];
        for a in 0..layouts.len() {
            let b = (a * 3 + 1) % layouts.len();
            for out in 0..4 {
                check(shape, [&layouts[a], &layouts[b], &layouts[out]].map(Clone::clone));
            }
        }
    }
}

#[test]
fn nothing_is_done_with_no_places() {
    check(&[3, 0, 2], [(); 3].map(|_| (vec![1, 1, 1], 0, 4)));
}

/// The result overwrites an operand.
#[test]
fn results_in_the_place_of_operands() {
    for (shape, order) in [(&[100_000][..], &[0][..]), (&[40, 50], &[0, 1]), (&[300, 200], &[1, 0])] {
        let (strides, offset, span) = layout(shape, order, &[], &[], 1);
        let mut values = f32::many(&mut rng(3), span).iter().map(|x| x.clamp(-9.0, 9.0)).collect::<Vec<_>>();
        let expected: Vec<f32> =
            values.iter().enumerate().map(|(i, x)| if i < offset { *x } else { (x + 1.0) * x }).collect();
        let memory = values.as_mut_ptr().cast::<u8>();
        let mut e = Expression::new();
        let (x, one) = (e.input(Type::F32), e.scalar(Type::F32));
        let next = e.binary(Binary::Add, x, one).unwrap();
        e.binary(Binary::Mul, next, x).unwrap();
        let inputs = [Operand { memory, offset, strides: &strides }];
        // SAFETY: the same elements at the same places.
        unsafe { evaluate(&e, shape, &inputs, &[scalar(1f32)], Target { memory, offset, strides: &strides }) };
        assert!(values.iter().zip(&expected).all(|(x, y)| x == y || (x.is_nan() && y.is_nan())), "{shape:?}");
        // Copying an array to itself changes nothing.
        let before: Vec<u32> = values.iter().map(|x| x.to_bits()).collect();
        let mut e = Expression::new();
        e.input(Type::F32);
        let memory = values.as_mut_ptr().cast::<u8>();
        let inputs = [Operand { memory, offset, strides: &strides }];
        // SAFETY: as above.
        unsafe { evaluate(&e, shape, &inputs, &[], Target { memory, offset, strides: &strides }) };
        assert_eq!(values.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), before);
    }
}

#[test]
fn elements_that_are_not_aligned() {
    let values = u64::many(&mut rng(8), 3000);
    let mut bytes = vec![0u8; 8 * 3000 + 1];
    bytes[1..].copy_from_slice(bytes_of(&values));
    let mut result = vec![0u8; 8 * 3000 + 1];
    let mut e = Expression::new();
    let x = e.input(Type::U64);
    e.binary(Binary::Add, x, x).unwrap();
    let strides = row_major(&[3000]);
    let inputs = [Operand { memory: bytes[1..].as_ptr(), offset: 0, strides: &strides }];
    let target = Target { memory: result[1..].as_mut_ptr(), offset: 0, strides: &strides };
    // SAFETY: 3000 elements each.
    unsafe { evaluate(&e, &[3000], &inputs, &[], target) };
    let expected: Vec<u64> = values.iter().map(|x| x.wrapping_mul(2)).collect();
    assert_eq!(&result[1..], bytes_of(&expected));
}

/// Uniform values, nodes that nothing reads, and slots that are reused.
#[test]
fn constants_and_long_chains() {
    let mut e = Expression::new();
    let (a, b) = (e.scalar(Type::F64), e.scalar(Type::F64));
    e.binary(Binary::Div, a, b).unwrap();
    assert_eq!(evaluate_flat::<f64>(&e, &[], &[scalar(1f64), scalar(4f64)], 5000), vec![0.25; 5000]);

    let values = i32::many(&mut rng(4), 4000);
    let mut e = Expression::new();
    let x = e.input(Type::I32);
    let mut all = vec![x];
    let mut oracle = vec![values.clone()];
    for i in 0..40usize {
        let (p, q) = (i * i % all.len(), all.len() - 1);
        let operation = [Binary::Add, Binary::Mul, Binary::Sub][i % 3];
        all.push(e.binary(operation, all[p], all[q]).unwrap());
        let f = [i32::wrapping_add, i32::wrapping_mul, i32::wrapping_sub][i % 3];
        oracle.push(oracle[p].iter().zip(&oracle[q]).map(|(&x, &y)| f(x, y)).collect());
    }
    e.set_result(all[37]);
    assert_eq!(evaluate_flat::<i32>(&e, &[bytes_of(&values)], &[], 4000), oracle[37]);
}
