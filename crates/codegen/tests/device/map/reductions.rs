//! Reductions over all axes, some, and none.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rigel_codegen::map::{Binary, Expression, Reduction, Type};
use rigel_gpu::Stream;
use rigel_gpu::testing::on_each_device;

use super::run::{Array, places, reduced, row_major};
use super::value::Value;

/// The element itself, or its product with another and the place added.
fn value(of: Type, fused: bool) -> Expression {
    let mut expression = Expression::new();
    let a = expression.input(of);
    if fused {
        let b = expression.input(of);
        let index = expression.index();
        let product = expression.binary(Binary::Mul, a, b).unwrap();
        let place = expression.convert(of, index).unwrap();
        expression.binary(Binary::Add, product, place).unwrap();
    }
    expression
}

fn check(stream: &Stream, of: Type, reduction: Reduction, shape: &[usize], axes: usize, inputs: &[Array]) {
    let expression = value(of, inputs.len() == 2);
    let got = reduced(stream, &expression, reduction, (shape, axes), inputs, &[]).unwrap();
    let values: usize = shape[shape.len() - axes..].iter().product();
    let mut wanted: Vec<Option<Value>> = vec![None; got.len()];
    for (n, place) in places(shape).enumerate() {
        let mut x = inputs[0].values[inputs[0].at(&place)];
        if let Some(b) = inputs.get(1) {
            x = x.binary(Binary::Mul, b.values[b.at(&place)]);
            x = x.binary(Binary::Add, Value::U64(n as u64).convert(of));
        }
        let slot = &mut wanted[n / values];
        *slot = Some(slot.map_or(x, |sum| sum.binary(reduction.step(), x)));
    }
    for (got, wanted) in got.iter().zip(wanted) {
        let wanted = wanted.unwrap();
        // Sums of positive floats: the plain sum's own error grows with the number of values.
        let scale = match (of, wanted) {
            (Type::F32, Value::F32(sum)) => f64::from(sum) * (values as f64).sqrt(),
            (Type::F64, Value::F64(sum)) => sum * (values as f64).sqrt(),
            _ => 0.0,
        };
        assert!(
            got.is_close(wanted, scale),
            "{reduction:?} of {of:?} over {axes} axes of {shape:?}, strides {:?}: {got:?}, not {wanted:?}",
            inputs[0].strides
        );
    }
}

fn mild(of: Type, count: usize, rng: &mut SmallRng) -> Vec<Value> {
    (0..count).map(|_| Value::mild(of, rng)).collect()
}

#[test]
fn one_axis_of_many_lengths() {
    on_each_device(|stream| {
        let mut rng = SmallRng::seed_from_u64(1);
        for (of, reduction) in [
            (Type::F32, Reduction::Sum),
            (Type::U64, Reduction::Max),
            (Type::Goldilocks3, Reduction::Sum),
            (Type::KoalaBear, Reduction::Product),
        ] {
            for n in [1, 31, 32, 33, 255, 256, 257, 5000, (1 << 17) + 3] {
                for offset in [0, 1] {
                    let array = Array { offset, ..Array::flat(mild(of, n + offset, &mut rng)) };
                    check(stream, of, reduction, &[n], 1, &[array]);
                }
            }
        }
    });
}

/// Rows and columns, with few and many outputs.
#[test]
fn matrices() {
    on_each_device(|stream| {
        let mut rng = SmallRng::seed_from_u64(2);
        for (of, reduction) in [(Type::F64, Reduction::Sum), (Type::I32, Reduction::Min)] {
            for (outputs, values) in
                [(1, 70), (3, 5000), (257, 33), (300, 1), (33, 257), (5000, 3), (2, (1 << 17) + 3), (70, 3000)]
            {
                let array = Array::flat(mild(of, outputs * values, &mut rng));
                for strides in [vec![values as isize, 1], vec![1, outputs as isize]] {
                    check(stream, of, reduction, &[outputs, values], 1, &[Array { strides, ..array.clone() }]);
                }
            }
        }
    });
}

/// Every split of the axes, of arrays in and out of order, with an expression in place of the elements.
#[test]
fn all_splits_of_axes() {
    on_each_device(|stream| {
        let mut rng = SmallRng::seed_from_u64(3);
        let shape = [4, 1, 9, 6];
        let count = shape.iter().product();
        let of = Type::BabyBear;
        let orders = [vec![0, 1, 2, 3], vec![3, 2, 1, 0], vec![2, 0, 3, 1]];
        for axes in 0..=4 {
            for order in &orders {
                let lengths: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
                let mut strides = vec![0; 4];
                order.iter().zip(row_major(&lengths)).for_each(|(&axis, stride)| strides[axis] = stride);
                let a = Array { strides, ..Array::flat(mild(of, count, &mut rng)) };
                let backwards = row_major(&shape).into_iter().map(|stride| -stride).collect();
                let b = Array { strides: backwards, offset: count - 1, ..Array::flat(mild(of, count, &mut rng)) };
                let row = Array { strides: vec![0, 0, 0, 1], ..Array::flat(mild(of, 6, &mut rng)) };
                check(stream, of, Reduction::Sum, &shape, axes, std::slice::from_ref(&a));
                check(stream, of, Reduction::Sum, &shape, axes, &[a.clone(), b]);
                check(stream, of, Reduction::Sum, &shape, axes, &[a, row]);
            }
        }
    });
}

#[test]
fn every_type_and_reduction() {
    on_each_device(|stream| {
        let mut rng = SmallRng::seed_from_u64(4);
        for of in Type::ALL {
            for reduction in Reduction::ALL.into_iter().filter(|reduction| reduction.is_defined(of)) {
                let array = Array::row_major(mild(of, 280, &mut rng), &[7, 40]);
                check(stream, of, reduction, &[7, 40], 1, &[array]);
            }
        }
    });
}

#[test]
fn not_a_number_is_kept() {
    on_each_device(|stream| {
        for at in [0, 5, 999] {
            let mut values = vec![Value::F64(1.0); 1000];
            values[at] = Value::F64(f64::NAN);
            let array = [Array::flat(values)];
            for reduction in [Reduction::Min, Reduction::Max] {
                let got = reduced(stream, &value(Type::F64, false), reduction, (&[1000], 1), &array, &[]).unwrap();
                assert!(matches!(got[..], [Value::F64(x)] if x.is_nan()), "{got:?}");
            }
        }
    });
}

#[test]
fn nothing_is_reduced() {
    on_each_device(|stream| {
        let array = |strides: &[isize]| [Array { values: Vec::new(), offset: 0, strides: strides.to_vec() }];
        let run = |of, reduction, shape: &[usize]| {
            reduced(stream, &value(of, false), reduction, (shape, 1), &array(&vec![1; shape.len()]), &[])
        };
        let sums = run(Type::F64, Reduction::Sum, &[3, 0]).unwrap();
        assert!(sums.len() == 3 && sums.iter().all(|&sum| sum.is_close(Value::F64(0.0), 0.0)), "{sums:?}");
        for of in [Type::I32, Type::C128, Type::KoalaBear4] {
            let one = Value::U32(1).convert(of);
            let products = run(of, Reduction::Product, &[2, 0]).unwrap();
            assert!(products.len() == 2 && products.iter().all(|&product| product.is_close(one, 0.0)));
        }
        assert!(run(Type::F64, Reduction::Sum, &[0, 5]).unwrap().is_empty());
        let error = run(Type::F64, Reduction::Max, &[3, 0]).unwrap_err().to_string();
        assert!(error.contains("of no values"), "{error}");
        let error = run(Type::KoalaBear, Reduction::Max, &[3, 1]).unwrap_err().to_string();
        assert!(error.contains("there is no max"), "{error}");
    });
}
