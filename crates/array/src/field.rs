//! Operations on arrays of field elements: inverses, transforms, low-degree extension.

use rigel_codegen::map::Type;
use rigel_gpu::{Buffer, Stream};
use rigel_kernels::field::{
    BabyBear, BabyBear4, CM31, Element, Field, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4,
    Mersenne31, QM31,
};
use rigel_kernels::transform::ntt::{self, Order, TwoAdic};
use rigel_kernels::vector::inverse;
use rigel_kernels::{Columns, Matrix};

use crate::array::Array;
use crate::cpu;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::evaluate::{device_memory, host_memory};
use crate::layout::text;
use crate::memory::Memory;
use crate::scalar::{Scalar, for_field, name};

/// A transform of the last axis, whose rows are polynomials over a prime field.
#[derive(Clone, Copy)]
pub(crate) enum Transform {
    /// Coefficients to values at `shift w^i`.
    Forward,
    /// Values at `shift w^i` to coefficients.
    Inverse,
    /// Values at `w^i` to values at `shift v^i`, where the order of v is `2^log_blowup` times that of w.
    Extend {
        /// The logarithm of the blowup.
        log_blowup: u32,
    },
}

impl Array {
    /// `1 / x` for every field element, by batch inversion. An error if an element is zero.
    ///
    /// ```
    /// # use rigel_array::{Array, Device, Type};
    /// let x = Array::arange(1, 5, 1, &Device::Cpu)?.astype(Type::Goldilocks)?;
    /// let product = x.mul(&x.inverse()?)?.astype(Type::U64)?;
    /// assert_eq!(product.to_vec::<u64>()?, [1, 1, 1, 1]);
    /// # Ok::<(), rigel_array::Error>(())
    /// ```
    pub fn inverse(&self) -> Result<Self> {
        self.must_be_field("inverse")?;
        let whole = self.contiguous()?;
        let zeros = whole.lazy().eq(0).sum(..)?;
        let Scalar::Int(zeros) = zeros.item()? else { unreachable!("counts are integers") };
        if zeros > 0 {
            return Err(Error::NotInvertible {
                operation: "inverse",
                zeros: zeros as usize,
                elements: self.len(),
            });
        }
        if self.is_empty() {
            return Ok(whole);
        }
        match whole.device() {
            Device::Cpu => {
                let out = Self::alloc(self.shape(), self.dtype, &Device::Cpu)?;
                let range = whole.byte_range();
                host_memory(&whole).read(|from| {
                    host_memory(&out).write(|to| cpu::invert(self.dtype, &from[range], &mut to[..out.bytes()]))
                });
                Ok(out)
            }
            Device::Gpu(device) => {
                // The batch kernel takes one column per coefficient.
                let apart = whole.coefficients()?.reshape(&[-1, self.dtype.degree() as isize])?;
                let apart = apart.transpose();
                let stream = device.compute()?;
                let inverses = for_field!(self.dtype, invert_on(&stream, &apart))?;
                let together = inverses.transpose().from_coefficients(self.dtype)?;
                let shape: Vec<isize> = self.shape().iter().map(|&length| length as isize).collect();
                together.reshape(&shape)
            }
        }
    }

    /// Evaluates the polynomials whose coefficients, lowest first, are the last axis, at `1, w, w^2, ..`. Here w
    /// is Plonky3's root of unity of order n, the length of that axis. An extension is transformed coefficient by
    /// coefficient.
    pub fn ntt(&self) -> Result<Self> {
        self.transform("ntt", Transform::Forward, None)
    }

    /// The inverse of [`ntt`](Self::ntt).
    pub fn intt(&self) -> Result<Self> {
        self.transform("intt", Transform::Inverse, None)
    }

    /// The low-degree extension: takes the polynomials whose values at `1, w, ..` are the last axis, and evaluates
    /// them at `shift v^i`, where the order of v is `2^log_blowup` times that of w. The default shift is the
    /// field's generator.
    pub fn lde(&self, log_blowup: u32, shift: Option<u64>) -> Result<Self> {
        self.transform("lde", Transform::Extend { log_blowup }, Some(shift))
    }

    fn transform(
        &self,
        operation: &'static str,
        transform: Transform,
        shift: Option<Option<u64>>,
    ) -> Result<Self> {
        self.must_be_field(operation)?;
        let base = self.dtype.base();
        let length = match self.shape().last() {
            Some(&length) if length.is_power_of_two() => length,
            _ => {
                return Err(Error::shape(format!(
                    "{operation}: the length of the last axis must be a power of two; the shape is {}",
                    text(self.shape())
                )));
            }
        };
        let log_blowup = if let Transform::Extend { log_blowup } = transform { log_blowup } else { 0 };
        let log_length = length.ilog2().saturating_add(log_blowup);
        if base == Type::Mersenne31 || log_length > base.two_adicity() {
            return Err(Error::shape(format!(
                "{operation}: {} has roots of unity of order 2^{} at most; a length of 2^{log_length} is too large{}",
                name(base),
                base.two_adicity(),
                if base == Type::Mersenne31 { " (its transforms are over the circle)" } else { "" }
            )));
        }
        if self.dtype.degree() > 1 {
            let apart = self.coefficients()?.swap_axes(-1, -2)?;
            let done = apart.transform(operation, transform, shift)?;
            return done.swap_axes(-1, -2)?.from_coefficients(self.dtype);
        }
        let whole = self.contiguous()?;
        let mut shape = self.shape().to_vec();
        let last = shape.len() - 1;
        shape[last] = length << log_blowup;
        if self.is_empty() {
            return Self::zeros(&shape, self.dtype, &self.device());
        }
        match (base, self.device()) {
            (_, Device::Cpu) => {
                let out = Self::alloc(&shape, self.dtype, &Device::Cpu)?;
                let range = whole.byte_range();
                let shift = shift.map(|shift| shift.unwrap_or_else(|| generator(base)));
                host_memory(&whole).read(|from| {
                    host_memory(&out).write(|to| {
                        cpu::transform(
                            base,
                            transform,
                            shift.unwrap_or(1),
                            length,
                            &from[range],
                            &mut to[..out.bytes()],
                        );
                    })
                });
                Ok(out)
            }
            (Type::BabyBear, Device::Gpu(_)) => transform_on::<BabyBear>(&whole, transform, shift, &shape),
            (Type::KoalaBear, Device::Gpu(_)) => transform_on::<KoalaBear>(&whole, transform, shift, &shape),
            (Type::Goldilocks, Device::Gpu(_)) => transform_on::<Goldilocks>(&whole, transform, shift, &shape),
            (other, _) => unreachable!("checked above: {} has no transforms", name(other)),
        }
    }

    pub(crate) fn must_be_field(&self, operation: &str) -> Result<()> {
        if self.dtype.is_field() {
            return Ok(());
        }
        Err(Error::of_type(format!(
            "{operation} needs field elements, not {}; convert them with astype",
            name(self.dtype)
        )))
    }

    /// A contiguous copy of the elements as a buffer of their Rust type.
    pub(crate) fn to_buffer<T: rigel_gpu::Plain>(&self, stream: &Stream) -> Result<Buffer<T>> {
        let whole = self.contiguous()?;
        let mut buffer = stream.alloc::<u8>(whole.bytes())?;
        stream.copy(&mut buffer, device_memory(&whole).view().range(whole.byte_range())?)?;
        Ok(buffer.cast()?)
    }

    /// An array over a buffer.
    pub(crate) fn of_buffer<T: rigel_gpu::Plain>(buffer: Buffer<T>, shape: &[usize], dtype: Type) -> Result<Self> {
        let memory = Memory::from_buffer(buffer.cast()?);
        Ok(Self::new(memory, crate::layout::Layout::contiguous(shape), dtype))
    }
}

pub(crate) fn generator(of: Type) -> u64 {
    match of {
        Type::BabyBear => BabyBear::GENERATOR.to_u64(),
        Type::KoalaBear => KoalaBear::GENERATOR.to_u64(),
        Type::Mersenne31 => Mersenne31::GENERATOR.to_u64(),
        _ => Goldilocks::GENERATOR.to_u64(),
    }
}

/// The inverses of elements whose coefficients are the first axis, in the same layout.
fn invert_on<E: Element>(stream: &Stream, apart: &Array) -> Result<Array> {
    let mut matrix = Matrix::new(apart.to_buffer::<E::Base>(stream)?, apart.shape()[1], E::DEGREE)?;
    inverse::invert_assign::<E>(stream, &mut matrix)?;
    Array::of_buffer(matrix.into_values(), apart.shape(), apart.dtype)
}

fn transform_on<F: TwoAdic>(
    whole: &Array,
    transform: Transform,
    shift: Option<Option<u64>>,
    shape: &[usize],
) -> Result<Array> {
    let Device::Gpu(device) = whole.device() else { unreachable!("the CPU has its own") };
    let stream = device.compute()?;
    let length = *whole.shape().last().expect("a last axis");
    // Each polynomial is a column of a column-major matrix.
    let matrix = Columns::new(device_memory(whole).view().range(whole.byte_range())?.cast::<F>()?, length)?;
    let shift = shift.map_or(F::ONE, |shift| shift.map_or(F::GENERATOR, F::from_u64));
    let natural = Order::Natural;
    let done = match transform {
        Transform::Forward => ntt::forward(&stream, matrix, shift, natural)?,
        Transform::Inverse => ntt::inverse(&stream, matrix, shift, natural)?,
        Transform::Extend { log_blowup } => ntt::extend(&stream, matrix, log_blowup, shift, natural, natural)?,
    };
    Array::of_buffer(done.into_values(), shape, whole.dtype)
}
