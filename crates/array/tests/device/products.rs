//! Matrix products against sums of products.

use rigel_array::{Array, Device, MatmulEngine, Scalar, Type, matmul_engine};

use crate::{counting, on_each_device, random, scalars};

/// The product by its definition, with element-wise operations only.
fn by_definition(a: &Array, b: &Array) -> Array {
    let (left, right) = (a.expand(-1).unwrap(), b.expand(-3).unwrap());
    (left.lazy() * &right).sum(-2).unwrap()
}

fn assert_alike(found: &Array, expected: &Array, what: &str) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    if found.dtype().is_field() || !matches!(found.dtype(), Type::F32 | Type::F64 | Type::C128) {
        assert_eq!(scalars(found), scalars(expected), "{what}");
    } else {
        let bound = if found.dtype() == Type::F32 { 1e-3 } else { 1e-10 };
        let off = found.sub(expected).unwrap().abs().unwrap().max(..).unwrap().astype(Type::F64).unwrap();
        assert!(off.to_vec::<f64>().unwrap()[0] < bound, "{what}: {off}");
    }
}

#[test]
fn products_equal_sums_of_products() {
    on_each_device(|device| {
        for of in [Type::I64, Type::F32, Type::F64, Type::C128, Type::KoalaBear, Type::Goldilocks, Type::QM31] {
            let (a, b) = (random(&[5, 7], of, 1, device), random(&[7, 3], of, 2, device));
            let what = format!("{of:?} on {device}");
            assert_alike(&a.matmul(&b).unwrap(), &by_definition(&a, &b), &what);
            assert_alike(&a.matmul_by_kernel(&b).unwrap(), &by_definition(&a, &b), &what);
            let transposed = b.transpose().matmul(&a.transpose()).unwrap();
            assert_alike(&transposed, &by_definition(&a, &b).transpose(), &what);
            let (x, y) = (a.index(&[0.into()]).unwrap(), b.transpose().index(&[1.into()]).unwrap());
            let inner = x.dot(&y).unwrap();
            assert_eq!(inner.shape(), [0usize; 0]);
            assert_alike(&inner, &by_definition(&a, &b).index(&[0.into(), 1.into()]).unwrap(), &what);
        }
    });
}

#[test]
fn stacks_are_broadcast() {
    on_each_device(|device| {
        let a = random(&[2, 1, 4, 3], Type::F64, 1, device);
        let b = random(&[5, 3, 6], Type::F64, 2, device);
        let c = a.matmul(&b).unwrap();
        assert_eq!(c.shape(), [2, 5, 4, 6]);
        for i in 0..2 {
            for j in 0..5 {
                let part = c.index(&[i.into(), j.into()]).unwrap();
                let (left, right) = (a.index(&[i.into(), 0.into()]).unwrap(), b.index(&[j.into()]).unwrap());
                assert_alike(&part, &by_definition(&left, &right), "of a stack");
            }
        }
        let v = random(&[3], Type::F64, 3, device);
        assert_eq!(a.matmul(&v).unwrap().shape(), [2, 1, 4]);
        let none = a.index(&[rigel_array::Index::Ellipsis, (0..0).into()]).unwrap();
        let zeros = none.matmul(&b.index(&[rigel_array::Index::ALL, (0..0).into()]).unwrap()).unwrap();
        assert_eq!(zeros.sum(..).unwrap().item().unwrap(), Scalar::Float(0.0));
    });
}

#[test]
fn the_engine_says_what_it_is() {
    on_each_device(|device| match (device, matmul_engine(device)) {
        (Device::Cpu, engine) => assert_eq!(engine, MatmulEngine::Cpu),
        (Device::Gpu(gpu), MatmulEngine::Kernel { reason }) if gpu.kind() == rigel_gpu::DeviceKind::Emulated => {
            assert!(!reason.is_empty());
        }
        (_, engine) => println!("{engine}"),
    });
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    on_each_device(|device| {
        let (a, b) = (counting(&[2, 3], device), counting(&[2, 3], device));
        assert_eq!(a.matmul(&b).unwrap_err().to_string(), "matmul: shapes (2, 3) and (2, 3) do not fit together");
        assert!(a.matmul(&counting(&[], device)).is_err());
        assert!(a.dot(&counting(&[4], device)).is_err());
    });
}
