//! Fused expressions: the same values as eager operations, one launch, compiled once, on every device.

use rigel_array::{Array, Axes, Complex, Device, Lazy, Reduction, Scalar, Type};

use crate::{counting, devices, on_each_device, random, scalars};

#[test]
fn fused_expressions_equal_their_parts() {
    on_each_device(|device| {
        for of in [Type::F32, Type::F64, Type::C128, Type::KoalaBear, Type::Goldilocks, Type::QM31] {
            let [a, b, c, d, e] = std::array::from_fn(|seed| random(&[3, 50], of, seed as u64, device));
            let fused = (a.lazy() * &b + c.lazy() * &d - &e).eval().unwrap();
            let parts = a.mul(&b).unwrap().add(c.mul(&d).unwrap()).unwrap().sub(&e).unwrap();
            if of.is_field() {
                assert_eq!(scalars(&fused), scalars(&parts), "{of:?}");
            } else {
                let close = fused.sub(&parts).unwrap().abs().unwrap().lt(1e-6).unwrap();
                assert!(close.to_bools().unwrap().iter().all(|&close| close), "{of:?}");
            }
        }
    });
}

#[test]
fn an_expression_is_one_launch_and_compiled_once() {
    on_each_device(|device| {
        let Device::Gpu(engine) = device else { return };
        let [a, b, c, d] = std::array::from_fn(|seed| random(&[1000], Type::F64, seed as u64, device));
        let work = |x: &Array, by: f64| ((x.lazy() - 0.25) * &b + x.lazy().sin() * by - &c).eval().unwrap();
        drop(work(&a, 2.0));
        let (before, compiled) = (engine.activity().launches, engine.cache().stats());
        drop(work(&d, 3.0));
        assert_eq!(engine.activity().launches - before, 1);
        let after = engine.cache().stats();
        assert_eq!((after.hits, after.compiled), (compiled.hits, compiled.compiled));
        // A sum evaluates the expression in the same pass.
        let before = engine.activity().launches;
        let sum = (a.lazy() * &b).sum(..).unwrap();
        assert_eq!(engine.activity().launches - before, 1, "1,000 elements are one block's work");
        drop(sum);
    });
}

#[test]
fn types_and_shapes_are_joined_as_in_numpy() {
    on_each_device(|device| {
        let a = counting(&[2, 1, 3], device);
        let b = counting(&[4, 1], device).astype(Type::F32).unwrap();
        let c = a.add(&b).unwrap();
        assert_eq!((c.dtype(), c.shape()), (Type::F64, &[2, 4, 3][..]));
        let mut expected = Vec::new();
        for i in 0..2 {
            for j in 0..4 {
                expected.extend((0..3).map(|k| f64::from(i * 3 + k + j)));
            }
        }
        assert_eq!(c.to_vec::<f64>().unwrap(), expected);
        assert_eq!(a.div(2).unwrap().dtype(), Type::F64);
        assert_eq!(b.mul(2.5).unwrap().dtype(), Type::F32);
        assert_eq!(b.mul(Complex { re: 0.0, im: 1.0 }).unwrap().dtype(), Type::C64);
        assert_eq!(a.gt(3).unwrap().sum(..).unwrap().item().unwrap(), Scalar::Int(2));
        let picked = a.select(&a.remainder(2).unwrap().eq(0).unwrap(), -1).unwrap();
        assert_eq!(picked.to_vec::<i64>().unwrap(), [0, -1, 2, -1, 4, -1]);
        assert_eq!(a.pow(3).unwrap().to_vec::<i64>().unwrap(), [0, 1, 8, 27, 64, 125]);
    });
}

#[test]
fn reductions_run_over_any_axes() {
    on_each_device(|device| {
        let a = counting(&[3, 4, 5], device);
        let all: i64 = (0..60).sum();
        assert_eq!(a.sum(..).unwrap().to_vec::<i64>().unwrap(), [all]);
        let middle = a.sum(1).unwrap();
        let expected: Vec<i64> =
            (0..3).flat_map(|i| (0..5).map(move |k| (0..4).map(|j| i * 20 + j * 5 + k).sum())).collect();
        assert_eq!((middle.shape(), middle.to_vec::<i64>().unwrap()), (&[3, 5][..], expected));
        let kept = a.lazy().reduce(Reduction::Max, [0, 2], true).unwrap();
        assert_eq!((kept.shape(), kept.to_vec::<i64>().unwrap()), (&[1, 4, 1][..], vec![44, 49, 54, 59]));
        assert_eq!(
            a.transpose().min(0).unwrap().to_vec::<i64>().unwrap(),
            a.min(2).unwrap().transpose().to_vec::<i64>().unwrap()
        );
        assert_eq!(a.mean(..).unwrap().to_vec::<f64>().unwrap(), [29.5]);
        let empty = a.index(&[(0..0).into()]).unwrap();
        assert_eq!(empty.sum(0).unwrap().to_vec::<i64>().unwrap(), [0; 20]);
        assert_eq!(empty.prod(..).unwrap().to_vec::<i64>().unwrap(), [1]);
        assert!(empty.max(Axes::All).is_err());
        let with_nan = Array::from_slice(&[1.0, f64::NAN, 3.0], &[3], device).unwrap();
        assert!(with_nan.max(..).unwrap().to_vec::<f64>().unwrap()[0].is_nan());
    });
}

#[test]
fn large_expressions_are_evaluated_in_parts() {
    on_each_device(|device| {
        let a = Array::full(&[10], 1i64, device).unwrap();
        let sum = (0..300).fold(Lazy::from(&a), |sum, _| sum + &a);
        assert_eq!(sum.eval().unwrap().to_vec::<i64>().unwrap(), [301; 10]);
    });
}

#[test]
fn more_arrays_than_a_kernel_takes_are_summed_in_parts() {
    on_each_device(|device| {
        let arrays: Vec<Array> = (0..70i64).map(|i| Array::full(&[3], i, device).unwrap()).collect();
        let sum = arrays.iter().fold(Lazy::from(0), |sum, array| sum + array);
        assert_eq!(sum.eval().unwrap().to_vec::<i64>().unwrap(), [69 * 70 / 2; 3]);
    });
}

#[test]
fn conversions_are_the_same_everywhere() {
    on_each_device(|device| {
        let x = Array::from_slice(&[-1.0, -3.7, 8589934592.0, 5.5], &[4], device).unwrap();
        assert_eq!(x.astype(Type::U32).unwrap().to_vec::<u32>().unwrap(), [u32::MAX, u32::MAX - 2, 0, 5]);
        let y = Array::from_slice(&[-1.0, 1e19], &[2], device).unwrap();
        assert_eq!(y.astype(Type::U64).unwrap().to_vec::<u64>().unwrap(), [u64::MAX, 10_000_000_000_000_000_000]);
        assert!(x.gt(0.0).unwrap().neg().is_err(), "booleans have no negatives");
    });
}

#[test]
fn random_elements_are_the_same_on_every_device() {
    for of in Type::ALL {
        let [first, others @ ..] = &devices()[..] else { unreachable!() };
        let expected = scalars(&random(&[2, 9], of, 7, first));
        for device in others {
            assert_eq!(scalars(&random(&[2, 9], of, 7, device)), expected, "{of:?} on {device}");
        }
        let distinct = expected.iter().filter(|value| **value != expected[0]).count();
        assert!(distinct > 0, "{of:?}");
    }
}

#[test]
fn arrays_by_rule() {
    on_each_device(|device| {
        assert_eq!(Array::arange(5, -4, -3, device).unwrap().to_vec::<i64>().unwrap(), [5, 2, -1]);
        assert_eq!(
            Array::linspace(0.0, 1.0, 5, device).unwrap().to_vec::<f64>().unwrap(),
            [0.0, 0.25, 0.5, 0.75, 1.0]
        );
        let eye = Array::eye(3, Type::I32, device).unwrap();
        assert_eq!(eye.to_vec::<i32>().unwrap(), [1, 0, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(Array::ones(&[2], Type::Goldilocks2, device).unwrap().len(), 2);
        assert!(Array::zeros(&[0, 4], Type::F32, device).unwrap().to_vec::<f32>().unwrap().is_empty());
    });
}
