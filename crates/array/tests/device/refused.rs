//! Invalid calls give errors that name the cause.

use rigel_array::{Array, Device, Error, Hash, Type};

use crate::{counting, on_each_device, random};

#[test]
fn devices_do_not_mix() {
    on_each_device(|device| {
        if device.is_cpu() {
            return;
        }
        let (here, there) = (counting(&[3], &Device::Cpu), counting(&[3], device));
        let error = here.add(&there).unwrap_err().to_string();
        assert_eq!(error, format!("add: one array is on cpu, another on {device}; move one with `to`"));
        assert!(matches!(here.matmul(&there), Err(Error::Devices { .. })));
        assert!(matches!(there.assign(&here), Err(Error::Devices { .. })));
        assert!(matches!(Array::concatenate(&[here, there], 0), Err(Error::Devices { .. })));
    });
}

#[test]
fn types_do_not_mix_unless_they_can() {
    on_each_device(|device| {
        let (whole, koala, gold) = (
            counting(&[3], device),
            random(&[3], Type::KoalaBear, 1, device),
            random(&[3], Type::Goldilocks, 1, device),
        );
        assert!(matches!(koala.add(&gold), Err(Error::Type(_))));
        assert!(matches!(koala.add(&whole), Err(Error::Type(_))));
        assert!(matches!(koala.mul(0.5), Err(Error::Type(_))));
        assert!(matches!(koala.lt(&koala), Err(Error::Type(_))));
        assert!(matches!(koala.exp(), Err(Error::Type(_))));
        assert!(matches!(koala.astype(Type::F64), Err(Error::Type(_))));
        assert!(matches!(whole.inverse(), Err(Error::Type(_))));
        assert!(matches!(whole.to_vec::<f64>(), Err(Error::Type(_))));
        assert!(matches!(gold.pow(0.5), Err(Error::Type(_))));
        assert!(matches!(gold.pow(whole.sub(1).unwrap()), Err(Error::Type(_))));
        assert!(matches!(gold.merkle_root(Hash::Blake2s), Err(Error::Type(_))));
    });
}

#[test]
fn transforms_of_unsupported_lengths_give_errors() {
    on_each_device(|device| {
        let x = random(&[12], Type::KoalaBear, 1, device);
        assert!(x.ntt().unwrap_err().to_string().contains("power of two"));
        let y = random(&[4], Type::KoalaBear, 1, device);
        let error = y.lde(24, None).unwrap_err().to_string();
        assert!(error.contains("2^24 at most; a length of 2^26"), "{error}");
        let z = random(&[4], Type::Mersenne31, 1, device);
        assert!(z.ntt().unwrap_err().to_string().contains("over the circle"));
        assert!(random(&[6, 2], Type::KoalaBear, 1, device).merkle_root(Hash::Keccak).is_err());
    });
}

#[test]
fn shapes_and_indices_are_checked() {
    on_each_device(|device| {
        let a = counting(&[2, 3], device);
        assert!(matches!(a.add(counting(&[2], device)), Err(Error::Shape(_))));
        assert!(matches!(a.reshape(&[4, -1]), Err(Error::Shape(_))));
        assert!(matches!(a.reshape(&[-1, -1]), Err(Error::Shape(_))));
        assert!(matches!(a.index(&[2.into()]), Err(Error::Index(_))));
        assert!(matches!(a.permute(&[0, 0]), Err(Error::Index(_))));
        assert!(matches!(a.sum(2), Err(Error::Index(_))));
        assert!(matches!(a.sum([0, 0]), Err(Error::Index(_))));
        assert!(matches!(a.item(), Err(Error::Shape(_))));
        assert!(matches!(Array::from_slice(&[1.0], &[2], device), Err(Error::Shape(_))));
        assert!(matches!(Array::zeros(&[usize::MAX, 3], Type::F64, device), Err(Error::Shape(_))));
    });
}

#[test]
fn a_full_device_is_an_error_and_nothing_is_lost() {
    on_each_device(|device| {
        let Device::Gpu(engine) = device else { return };
        let a = random(&[1 << 16], Type::F64, 1, device);
        let before = engine.memory_limit();
        engine.set_memory_limit(Some(engine.memory_stats().in_use + (1 << 10)));
        let full = a.add(&a);
        engine.set_memory_limit(before);
        assert!(matches!(full, Err(Error::Gpu(rigel_gpu::Error::OutOfMemory { .. }))), "{full:?}");
        assert_eq!(a.sub(&a).unwrap().max(..).unwrap().to_vec::<f64>().unwrap(), [0.0]);
    });
}
