//! Stwo's transforms over the circle, for Mersenne-31 and its extensions.

use rigel_codegen::map::Type;
use rigel_gpu::Buffer;
use rigel_kernels::Columns;
use rigel_kernels::domain::circle_domain::{self, Domain};
use rigel_kernels::field::Mersenne31;
use rigel_kernels::transform::circle::{self, MAX_LOG_ROWS, Twiddles};

use crate::array::Array;
use crate::cpu;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::evaluate::{device_memory, host_memory};
use crate::field::Transform;
use crate::layout::text;
use crate::scalar::name;

impl Array {
    /// The points of the circle domain of n points, a power of two from 2: Stwo's
    /// `CanonicCoset::new(log2 n).circle_domain()` in bit-reversed order. Shape (2, n): x and y coordinates of
    /// Mersenne-31.
    pub fn circle_points(n: usize, device: &Device) -> Result<Self> {
        let domain = domain("circle_points", n, 0)?;
        match device {
            Device::Cpu => {
                let points = cpu::circle_points(domain.half);
                let [x, y] = [0, 1].map(|c| points.iter().map(move |point| point[c]));
                Self::from_slice(&x.chain(y).collect::<Vec<Mersenne31>>(), &[2, n], device)
            }
            Device::Gpu(device) => {
                let points = circle_domain::points(&device.compute()?, domain)?;
                Self::of_buffer(points.into_values(), &[2, n], Type::Mersenne31)
            }
        }
    }

    /// Evaluates the polynomials whose coefficients are the last axis, of length n, at the
    /// [`circle_points`](Self::circle_points) of n points, in their order. An extension is transformed coefficient by
    /// coefficient.
    ///
    /// With j = j0 + 2 j1 + 4 j2 + .. in bits, coefficient j belongs to `y^j0 x^j1 p(x)^j2 p(p(x))^j3 ..`, where
    /// `p(x) = 2 x^2 - 1`: Stwo's basis.
    ///
    /// ```
    /// # use rigel_array::{Array, Device, Type};
    /// let x = Array::arange(0, 8, 1, &Device::Cpu)?.astype(Type::Mersenne31)?;
    /// let back = x.circle_ntt()?.circle_intt()?;
    /// assert_eq!(back.eq(&x)?.to_bools()?, [true; 8]);
    /// assert_eq!(x.circle_lde(2)?.shape(), [32]);
    /// # Ok::<(), rigel_array::Error>(())
    /// ```
    pub fn circle_ntt(&self) -> Result<Self> {
        self.circle_transform("circle_ntt", Transform::Forward)
    }

    /// The inverse of [`circle_ntt`](Self::circle_ntt): values to coefficients.
    pub fn circle_intt(&self) -> Result<Self> {
        self.circle_transform("circle_intt", Transform::Inverse)
    }

    /// The low-degree extension: takes the polynomials whose values at the points of the last axis' domain are that
    /// axis, and evaluates them at the points of the domain `2^log_blowup` times as large.
    pub fn circle_lde(&self, log_blowup: u32) -> Result<Self> {
        self.circle_transform("circle_lde", Transform::Extend { log_blowup })
    }

    fn circle_transform(&self, operation: &'static str, transform: Transform) -> Result<Self> {
        self.must_be_field(operation)?;
        if self.dtype.base() != Type::Mersenne31 {
            return Err(Error::of_type(format!(
                "{operation} is for mersenne31, cm31 and qm31; {} has ntt, intt and lde",
                name(self.dtype)
            )));
        }
        let Some(&length) = self.shape().last() else {
            return Err(Error::shape(format!("{operation} needs an axis; the shape is {}", text(self.shape()))));
        };
        let log_blowup = if let Transform::Extend { log_blowup } = transform { log_blowup } else { 0 };
        let smaller = domain(operation, length, 0)?;
        let larger = domain(operation, length, log_blowup)?;
        if self.dtype.degree() > 1 {
            let apart = self.coefficients()?.swap_axes(-1, -2)?;
            let done = apart.circle_transform(operation, transform)?;
            return done.swap_axes(-1, -2)?.from_coefficients(self.dtype);
        }
        let mut shape = self.shape().to_vec();
        let last = shape.len() - 1;
        shape[last] = length << log_blowup;
        let whole = self.contiguous()?;
        let out = Self::alloc(&shape, self.dtype, &self.device())?;
        if out.is_empty() {
            return Ok(out);
        }
        match self.device() {
            Device::Cpu => {
                let range = whole.byte_range();
                host_memory(&whole).read(|from| {
                    host_memory(&out).write(|to| {
                        let to = &mut to[..out.bytes()];
                        cpu::circle_transform(transform, smaller.half, larger.half, &from[range], to);
                    })
                });
                Ok(out)
            }
            Device::Gpu(device) => {
                let stream = device.compute()?;
                let values = device_memory(&whole).view().range(whole.byte_range())?.cast::<Mersenne31>()?;
                let columns = Columns::new(values, length)?;
                let mut memory = device_memory(&out).writable();
                let to = memory.view_mut().range(0..out.bytes())?.cast::<Mersenne31>()?;
                let towers = Towers::of(&device, larger)?;
                match transform {
                    Transform::Forward => {
                        circle::evaluate_into(&stream, to, larger.log_size(), columns, towers.forward(larger))?;
                    }
                    Transform::Inverse => circle::interpolate_into(&stream, to, columns, towers.inverse(larger))?,
                    Transform::Extend { .. } => {
                        // Both towers end with the twiddles of smaller domains.
                        let mut between = stream.alloc::<Mersenne31>(whole.len())?;
                        let inverse = towers.inverse(smaller);
                        circle::interpolate_into(&stream, between.view_mut(), columns, inverse)?;
                        let columns = Columns::new(between.view(), length)?;
                        circle::evaluate_into(&stream, to, larger.log_size(), columns, towers.forward(larger))?;
                    }
                }
                drop(memory);
                Ok(out)
            }
        }
    }
}

/// The domain of `length << log_blowup` points, checked to be one.
fn domain(operation: &str, length: usize, log_blowup: u32) -> Result<Domain> {
    if !length.is_power_of_two() || length < 2 {
        return Err(Error::shape(format!(
            "{operation}: the length must be a power of two, and at least 2; it is {length}"
        )));
    }
    let log_size = length.ilog2().saturating_add(log_blowup);
    if log_size > MAX_LOG_ROWS {
        return Err(Error::shape(format!(
            "{operation}: a domain of 2^{log_size} points; at most 2^{MAX_LOG_ROWS} are supported"
        )));
    }
    Ok(Domain::canonic(log_size)?)
}

/// The twiddles of a domain and their inverses, which the device keeps for reuse.
struct Towers([Buffer<Mersenne31>; 2]);

/// The key of [`Towers`] in a device's cache.
#[derive(Clone, PartialEq, Eq, Hash)]
struct TowersOf(u32);

impl Towers {
    fn of(device: &rigel_gpu::Device, domain: Domain) -> Result<std::sync::Arc<Self>> {
        Ok(device.kept(&TowersOf(domain.log_size()), |device| {
            let (twiddles, inverses) = circle_domain::twiddles_and_inverses(&device.compute()?, domain.half)?;
            let bytes = 2 * twiddles.len() * size_of::<Mersenne31>();
            Ok((Self([twiddles, inverses]), bytes))
        })?)
    }

    fn forward(&self, domain: Domain) -> Twiddles<'_> {
        Twiddles { tower: self.0[0].view(), initial: domain.half.initial }
    }

    fn inverse(&self, domain: Domain) -> Twiddles<'_> {
        Twiddles { tower: self.0[1].view(), initial: domain.half.initial }
    }
}
