//! Calls of the driver that fail in an expression: it is an error that names the failure, or has the right values.

use rigel_array::{Array, Device, Result, Type};
use rigel_gpu::testing::faults::{Program, check};

/// An expression, a sum over another, and a product of matrices.
fn values(device: &Device) -> Result<Vec<u8>> {
    let random = |seed| Array::random(&[24, 24], Type::KoalaBear, seed, &Device::Cpu)?.to(device);
    let (a, b, c) = (random(1)?, random(2)?, random(3)?);
    let fused = (a.lazy() * &b + &c).eval()?;
    let sum = (a.lazy() * &fused).sum(0)?;
    let product = fused.matmul(&b)?;
    let all = Array::concatenate(&[fused.reshape(&[-1])?, sum, product.reshape(&[-1])?], 0)?;
    let mut bytes = vec![0; all.bytes()];
    all.read_into(&mut bytes)?;
    Ok(bytes)
}

#[test]
fn an_expression_fails_or_is_right() {
    let expected = values(&Device::Cpu).unwrap();
    let run = |device: &rigel_gpu::Device| Ok(values(&device.clone().into())?);
    check(&Program::new("an expression", expected, run), u64::MAX);
}
