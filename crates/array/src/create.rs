//! Arrays that are computed rather than copied: constants, ranges, random elements.

use rigel_codegen::map::{Binary, NumberKind, Type};

use crate::array::Array;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::lazy::Lazy;
use crate::scalar::{Scalar, name};

impl Array {
    /// An array of zeros.
    pub fn zeros(shape: &[usize], dtype: Type, device: &Device) -> Result<Self> {
        Self::filled(shape, zero_or_one(dtype, 0), dtype, device)
    }

    /// An uninitialized array, for a kernel to write.
    pub fn empty(shape: &[usize], dtype: Type, device: &Device) -> Result<Self> {
        Self::alloc(shape, dtype, device)
    }

    /// An array of ones.
    pub fn ones(shape: &[usize], dtype: Type, device: &Device) -> Result<Self> {
        Self::filled(shape, zero_or_one(dtype, 1), dtype, device)
    }

    /// An array filled with a number, of the number's own type.
    pub fn full(shape: &[usize], value: impl Into<Scalar>, device: &Device) -> Result<Self> {
        let value = value.into();
        Self::filled(shape, value, value.natural_type(), device)
    }

    /// An array filled with a number, of the type `dtype`.
    pub fn filled(shape: &[usize], value: impl Into<Scalar>, dtype: Type, device: &Device) -> Result<Self> {
        Lazy::filled(value.into(), dtype, shape, device).eval()
    }

    /// `start`, `start + step`, .. before `stop`, as I64 or F64.
    ///
    /// ```
    /// # use rigel_array::{Array, Device};
    /// assert_eq!(Array::arange(1, 8, 3, &Device::Cpu)?.to_vec::<i64>()?, [1, 4, 7]);
    /// assert_eq!(Array::arange(0.0, 1.0, 0.25, &Device::Cpu)?.len(), 4);
    /// # Ok::<(), rigel_array::Error>(())
    /// ```
    pub fn arange(
        start: impl Into<Scalar>,
        stop: impl Into<Scalar>,
        step: impl Into<Scalar>,
        device: &Device,
    ) -> Result<Self> {
        let (start, stop, step) = (start.into(), stop.into(), step.into());
        if let (Scalar::Int(first), Scalar::Int(end), Scalar::Int(by)) = (start, stop, step) {
            if by == 0 {
                return Err(Error::shape("arange: the step must not be 0"));
            }
            let distance = if by > 0 { end.checked_sub(first) } else { first.checked_sub(end) };
            let distance = distance.ok_or_else(|| Error::shape("arange: too many elements"))?;
            let count = if distance > 0 { (distance as u128).div_ceil(by.unsigned_abs()) } else { 0 };
            let count = usize::try_from(count).map_err(|_| Error::shape("arange: too many elements"))?;
            let places = Lazy::places(&[count], device).astype(Type::I64);
            return (places * Lazy::from(step) + Lazy::from(start)).eval();
        }
        let number = |scalar: Scalar| match scalar {
            Scalar::Int(value) => Ok(value as f64),
            Scalar::Float(value) => Ok(value),
            other => Err(Error::of_type(format!("arange takes integers and floats, not {other}"))),
        };
        let (start, stop, step) = (number(start)?, number(stop)?, number(step)?);
        let count = ((stop - start) / step).ceil();
        if !count.is_finite() || count > isize::MAX as f64 {
            return Err(Error::shape(format!("arange({start}, {stop}, {step}) has no end")));
        }
        let places = Lazy::places(&[count.max(0.0) as usize], device).astype(Type::F64);
        (places * step + start).eval()
    }

    /// `count` evenly spaced numbers from `start` to `stop`, both included.
    pub fn linspace(start: f64, stop: f64, count: usize, device: &Device) -> Result<Self> {
        let step = if count > 1 { (stop - start) / (count - 1) as f64 } else { 0.0 };
        let line = (Lazy::places(&[count], device).astype(Type::F64) * step + start).eval()?;
        if count > 1 {
            line.index(&[(-1).into()])?.assign(stop)?;
        }
        Ok(line)
    }

    /// The identity matrix.
    pub fn eye(size: usize, dtype: Type, device: &Device) -> Result<Self> {
        let places = Lazy::places(&[size, size], device);
        let diagonal = places.remainder(size as u64 + 1).eq(0u64);
        let [zero, one] = [0, 1].map(|value| Lazy::filled(zero_or_one(dtype, value), dtype, &[], device));
        one.select(diagonal, zero).eval()
    }

    /// Random elements that depend only on the seed and are the same on every device: floats in `[0, 1)`, complex
    /// numbers with both parts in that range, field elements and integers over their whole range, booleans.
    ///
    /// The generator is SplitMix64; each coefficient of a field element is 64 bits of it modulo p.
    pub fn random(shape: &[usize], dtype: Type, seed: u64, device: &Device) -> Result<Self> {
        let parts = match dtype {
            Type::C64 | Type::C128 => 2,
            _ => dtype.degree(),
        };
        let mut whole = shape.to_vec();
        if parts > 1 {
            whole.push(parts);
        }
        let bits = || Lazy::places(&whole, device).binary(Binary::Random, Lazy::from(seed).astype(Type::U64));
        // The upper bits as a fraction, as many as the float can hold.
        let upper =
            |kept: u32, of: Type| bits().floor_div(1u64 << (64 - kept)).astype(of) * (1.0 / (1u64 << kept) as f64);
        let fraction = || match dtype {
            Type::F16 => upper(11, Type::F32).astype(dtype),
            Type::F32 | Type::C64 => upper(24, Type::F32),
            _ => upper(53, Type::F64),
        };
        match dtype.kind() {
            NumberKind::Bool => bits().remainder(2u64).astype(Type::Bool).eval(),
            NumberKind::Integer => bits().astype(dtype).eval(),
            NumberKind::Float => fraction().eval(),
            NumberKind::Complex => {
                let parts = fraction().eval()?;
                let part = |at: isize| parts.index(&[crate::Index::Ellipsis, at.into()]);
                let i = rigel_codegen::map::Complex { re: 0.0, im: 1.0 };
                (part(0)?.lazy() + part(1)?.lazy() * i).eval()
            }
            NumberKind::Field if parts > 1 => bits().astype(dtype.base()).eval()?.from_coefficients(dtype),
            NumberKind::Field => bits().astype(dtype).eval(),
        }
        .map_err(|error| match error {
            Error::Type(text) => Error::Type(format!("random of {}: {text}", name(dtype))),
            other => other,
        })
    }
}

fn zero_or_one(dtype: Type, value: i128) -> Scalar {
    match dtype.kind() {
        NumberKind::Bool => Scalar::Bool(value == 1),
        _ => Scalar::Int(value),
    }
}
