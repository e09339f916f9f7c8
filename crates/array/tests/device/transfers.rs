//! Synchronous and asynchronous copies between devices.

use rigel_array::{Array, Device, Type};

use crate::{devices, random, scalars};

#[test]
fn arrays_travel_unchanged() {
    let all = devices();
    for from in &all {
        for to in &all {
            for of in [Type::Bool, Type::F32, Type::C128, Type::Goldilocks3] {
                let a = random(&[13, 7], of, 1, from);
                let part = a.transpose().index(&[(1..6).into()]).unwrap();
                for array in [&a, &part] {
                    let there = array.to(to).unwrap();
                    assert!(there.device() == *to);
                    assert_eq!(scalars(&there), scalars(array), "{of:?} {from} to {to}");
                    let sent = array.send(to).unwrap().wait().unwrap();
                    assert_eq!(scalars(&sent), scalars(array), "{of:?} {from} to {to}");
                }
            }
        }
    }
}

#[test]
fn a_copy_travels_beside_kernels() {
    for device in devices() {
        let here = random(&[1 << 18], Type::F64, 1, &Device::Cpu);
        let work = random(&[1 << 10], Type::F64, 2, &device);
        let pending = here.send(&device).unwrap();
        let sums: Vec<Array> = (0..8).map(|_| work.mul(&work).unwrap().sum(..).unwrap()).collect();
        let there = pending.wait().unwrap();
        let back = there.add(1.0).unwrap().send(&Device::Cpu).unwrap();
        assert_eq!(scalars(&sums[0]), scalars(&sums[7]));
        let expected: Vec<f64> = here.to_vec::<f64>().unwrap().iter().map(|x| x + 1.0).collect();
        assert_eq!(back.wait().unwrap().to_vec::<f64>().unwrap(), expected);
    }
}

#[test]
fn send_copies_the_content_at_the_time_of_the_call() {
    for device in devices() {
        for [from, to] in [[&Device::Cpu, &device], [&device, &Device::Cpu]] {
            let a = Array::ones(&[1 << 19], Type::F64, from).unwrap();
            let pending = a.send(to).unwrap();
            a.assign(0.0).unwrap();
            let there = pending.wait().unwrap();
            if from != to {
                assert_eq!(there.sum(..).unwrap().to_vec::<f64>().unwrap(), [524288.0], "{from} to {to}");
            }
        }
    }
}

#[test]
fn several_devices_are_several_devices() {
    let emulation = rigel_gpu::Emulation { devices: 2, ..rigel_gpu::Emulation::from_env().unwrap() };
    let options = rigel_gpu::Options::from_env().unwrap();
    let open: Vec<Device> =
        rigel_gpu::Device::emulated(&emulation, &options).unwrap().into_iter().map(Device::from).collect();
    let [first, second] = &open[..] else { panic!("{} devices", open.len()) };
    let a = random(&[100], Type::KoalaBear, 1, first);
    let b = a.to(second).unwrap();
    assert!(b.device() == *second && a.device() == *first);
    assert_eq!(scalars(&a), scalars(&b));
    assert!(a.add(&b).is_err());
}
