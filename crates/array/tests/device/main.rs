//! Arrays on every device: the CPU, the emulated device and, if there is one, the first GPU.

mod circle;
mod einsum;
mod faults;
mod fields;
mod fusion;
mod kernels;
mod merkle;
mod products;
mod refused;
mod transfers;
mod views;

use rigel_array::{Array, Device, Scalar, Type};

/// Every device to test on.
fn devices() -> Vec<Device> {
    let engine = rigel_gpu::testing::devices().unwrap_or_else(|error| panic!("{error}"));
    std::iter::once(Device::Cpu).chain(engine.into_iter().map(Device::from)).collect()
}

/// Runs a test on each device. A failure names the device.
fn on_each_device(test: impl Fn(&Device)) {
    for device in devices() {
        println!("on {device}");
        test(&device);
    }
}

/// The elements as numbers, for any type.
fn scalars(array: &Array) -> Vec<Scalar> {
    let flat = array.reshape(&[-1]).unwrap();
    (0..flat.len() as isize).map(|i| flat.index(&[i.into()]).unwrap().item().unwrap()).collect()
}

/// 0, 1, 2, .. in a shape.
fn counting(shape: &[usize], device: &Device) -> Array {
    let shape: Vec<isize> = shape.iter().map(|&length| length as isize).collect();
    let n = shape.iter().product::<isize>();
    Array::arange(0, n as i64, 1, device).unwrap().reshape(&shape).unwrap()
}

fn random(shape: &[usize], of: Type, seed: u64, device: &Device) -> Array {
    Array::random(shape, of, seed, device).unwrap()
}
