//! Slices, broadcasts, transposes, and launches that are refused.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rigel_codegen::map::{Binary, Expression, Operand, Target, Type, evaluate};
use rigel_gpu::Stream;
use rigel_gpu::testing::on_each_device;

use super::run::{Array, evaluated, places, row_major, scalar};
use super::value::Value;

fn random(of: Type, count: usize, rng: &mut SmallRng) -> Vec<Value> {
    (0..count).map(|_| Value::random(of, rng)).collect()
}

/// `a + b`, `a` alone, or `(a + b) s` with the place added, where the type allows.
fn sum(of: Type) -> Expression {
    let mut expression = Expression::new();
    let [a, b] = [0; 2].map(|_| expression.input(of));
    expression.binary(Binary::Add, a, b).unwrap();
    expression
}

fn with_place(of: Type) -> Expression {
    let mut expression = sum(of);
    let (sum, scalar, index) = (expression.result(), expression.scalar(of), expression.index());
    let product = expression.binary(Binary::Mul, sum, scalar).unwrap();
    let place = expression.convert(of, index).unwrap();
    let value = expression.binary(Binary::Add, product, place).unwrap();
    expression.set_result(value);
    expression
}

fn copy(of: Type) -> Expression {
    let mut expression = Expression::new();
    expression.input(of);
    expression
}

/// The value of the three expressions at a place.
fn expected(expression: &Expression, of: Type, elements: &[Value], scalars: &[Value], place: usize) -> Value {
    let Some(&b) = elements.get(1) else { return elements[0] };
    let sum = elements[0].binary(Binary::Add, b);
    let Some(&s) = scalars.first() else { return sum };
    assert!(expression.scalars().len() == 1);
    sum.binary(Binary::Mul, s).binary(Binary::Add, Value::U64(place as u64).convert(of))
}

fn check(stream: &Stream, expression: &Expression, of: Type, shape: &[usize], inputs: &[Array], out: &Array) {
    let mut rng = SmallRng::seed_from_u64(7);
    let scalars: Vec<Value> = expression.scalars().iter().map(|&of| Value::random(of, &mut rng)).collect();
    let words: Vec<_> = scalars.iter().map(|&value| scalar(value)).collect();
    let got = evaluated(stream, expression, shape, inputs, &words, out).unwrap();
    let mut wanted = out.values.clone();
    for (n, place) in places(shape).enumerate() {
        let elements: Vec<Value> = inputs.iter().map(|input| input.values[input.at(&place)]).collect();
        wanted[out.at(&place)] = expected(expression, of, &elements, &scalars, n);
    }
    for (i, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
        assert!(got.is_close(*wanted, 0.0), "{of:?} {shape:?} {inputs:?} element {i}: {got:?}, not {wanted:?}");
    }
}

/// An array of this shape in some layout: axes in any order in memory, some reversed, stepped over or broadcast, with
/// values around it.
fn some_array(of: Type, shape: &[usize], broadcasts: bool, rng: &mut SmallRng) -> Array {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.random_range(0..=i));
    }
    let (mut strides, mut offset, mut size) = (vec![0; shape.len()], rng.random_range(0..3usize), 1usize);
    for axis in order {
        if broadcasts && rng.random_bool(0.25) {
            continue;
        }
        let step = if rng.random_bool(0.25) { 2 } else { 1 };
        let stride = size * step;
        strides[axis] = stride as isize;
        size = stride * shape[axis];
        if rng.random_bool(0.25) {
            offset += stride * (shape[axis] - 1);
            strides[axis] = -strides[axis];
        }
    }
    let count = offset + size + rng.random_range(0..3);
    Array { values: random(of, count, rng), offset, strides }
}

#[test]
fn contiguous_arrays() {
    on_each_device(|stream| {
        let mut rng = SmallRng::seed_from_u64(1);
        for of in [Type::F32, Type::C128, Type::Goldilocks3] {
            let expression = sum(of);
            for n in [1, 3, 255, 256, 257, 2048, 5000] {
                for offset in [0, 1, 4] {
                    let array = |rng: &mut SmallRng| Array { offset, ..Array::flat(random(of, n + offset, rng)) };
                    let (a, b, out) = (array(&mut rng), array(&mut rng), array(&mut rng));
                    let one = Array { values: random(of, 1, &mut rng), offset: 0, strides: vec![0] };
                    check(stream, &expression, of, &[n], &[a.clone(), b], &out);
                    check(stream, &expression, of, &[n], &[a, one], &out);
                }
            }
        }
        let expression = copy(Type::Bool);
        let array = Array::flat(random(Type::Bool, 5000, &mut rng));
        check(stream, &expression, Type::Bool, &[5000], std::slice::from_ref(&array), &array);
    });
}

#[test]
fn any_layout() {
    on_each_device(|stream| {
        let mut rng = SmallRng::seed_from_u64(2);
        for (of, expression) in [(Type::U32, with_place(Type::U32)), (Type::KoalaBear4, sum(Type::KoalaBear4))] {
            for shape in [vec![7], vec![30, 41], vec![40, 1, 33], vec![5, 6, 7], vec![3, 1, 4, 2, 5], vec![2; 8]] {
                for _ in 0..6 {
                    let inputs = [0; 2].map(|_| some_array(of, &shape, true, &mut rng));
                    let out = some_array(of, &shape, false, &mut rng);
                    check(stream, &expression, of, &shape, &inputs, &out);
                }
            }
        }
    });
}

#[test]
fn transposed_copies() {
    on_each_device(|stream| {
        let mut rng = SmallRng::seed_from_u64(3);
        for of in [Type::F32, Type::Goldilocks3] {
            let expression = copy(of);
            for (shape, axes) in [
                (vec![33, 70], [1, 0].as_slice()),
                (vec![16, 16], &[1, 0]),
                (vec![15, 40], &[1, 0]),
                (vec![3, 40, 35], &[0, 2, 1]),
                (vec![3, 40, 35], &[2, 1, 0]),
                (vec![17, 3, 2, 64], &[3, 2, 1, 0]),
            ] {
                // The input's axes are the shape's in this order.
                let lengths: Vec<usize> = axes.iter().map(|&axis| shape[axis]).collect();
                let own = row_major(&lengths);
                let mut strides = vec![0; shape.len()];
                axes.iter().zip(own).for_each(|(&axis, stride)| strides[axis] = stride);
                let count = shape.iter().product::<usize>();
                let input = Array { values: random(of, count + 1, &mut rng), offset: 1, strides: strides.clone() };
                let plain = Array::row_major(random(of, count, &mut rng), &shape);
                check(stream, &expression, of, &shape, &[input], &plain);
                let turned = Array { strides, ..plain.clone() };
                check(stream, &sum(of), of, &shape, &[plain.clone(), turned.clone()], &plain);
                check(stream, &expression, of, &shape, std::slice::from_ref(&plain), &turned);
            }
        }
    });
}

/// Operands of other sizes, shapes and values need no further kernel; other layouts do.
#[test]
fn kernels_are_compiled_once() {
    on_each_device(|stream| {
        let mut rng = SmallRng::seed_from_u64(4);
        let of = Type::I64;
        // An expression of this test alone: others run at the same time.
        let mut expression = with_place(of);
        let value = expression.binary(Binary::Max, expression.result(), expression.result()).unwrap();
        expression.set_result(value);
        let mut run = |shape: &[usize], offset: usize| {
            let count = shape.iter().product::<usize>() + offset;
            let array = Array { offset, ..Array::row_major(random(of, count, &mut rng), shape) };
            check(stream, &expression, of, shape, &[array.clone(), array.clone()], &array);
            array
        };
        run(&[1000], 0);
        let compiled = stream.device().cache().stats();
        run(&[10], 0);
        run(&[4, 5, 6], 0);
        run(&[1], 3);
        run(&[2, 2000], 1);
        let after = stream.device().cache().stats();
        assert!(stream.device().keep_stats().values > 0);
        // Other tests have devices of their own.
        assert_eq!((compiled.compiled, compiled.hits), (after.compiled, after.hits));
    });
}

#[test]
fn wrong_operands_are_refused() {
    on_each_device(|stream| {
        let expression = sum(Type::F32);
        let buffer = stream.zeros::<u8>(40).unwrap();
        let run = |shape: &[usize], inputs: &[(usize, &[isize])], scalars: usize, out: (usize, &[isize])| {
            let operand = |&(offset, strides)| Operand { memory: buffer.view(), offset, strides };
            let inputs: Vec<Operand<'_>> = inputs.iter().map(operand).collect();
            let mut memory = stream.zeros::<u8>(40).unwrap();
            let target = Target { memory: memory.view_mut(), offset: out.0, strides: out.1 };
            let result = evaluate(stream, &expression, shape, &inputs, &vec![[0; 3]; scalars], target);
            result.map_err(|error| error.to_string())
        };
        let good: (usize, &[isize]) = (0, &[1]);
        assert_eq!(run(&[10], &[good, good], 0, good), Ok(()));
        assert_eq!(run(&[10], &[(9, &[-1]), (9, &[0])], 0, (9, &[-1])), Ok(()));
        assert_eq!(run(&[0], &[good, good], 0, good), Ok(()));
        for (shape, inputs, scalars, out, says) in [
            ([11], [good, good].as_slice(), 0, good, "input 0 reaches"),
            ([10], &[good, (1, &[1])], 0, good, "input 1 reaches"),
            ([10], &[good, (8, &[-1])], 0, good, "input 1 reaches from element -1"),
            ([10], &[good], 0, good, "has 2 inputs"),
            ([10], &[good, good], 1, good, "has 0 scalars"),
            ([10], &[good, good], 0, (1, &[1]), "the result reaches"),
            ([10], &[good, good], 0, (0, &[0]), "places share an element"),
            ([10], &[good, (0, &[1, 1])], 0, good, "2 strides for 1 axes"),
        ] {
            let error = run(&shape, inputs, scalars, out).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    });
}
