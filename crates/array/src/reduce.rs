//! Reductions: sums, products, minima, maxima, means.

use rigel_codegen::map::{self, NumberKind, Reduction, Type};

use crate::array::Array;
use crate::cpu;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::evaluate::{Prepared, device_memory, host_memory};
use crate::layout::{axis_of, text};
use crate::lazy::Lazy;
use crate::scalar::name;

/// The axes of a reduction.
///
/// ```
/// # use rigel_array::{Array, Device};
/// let a = Array::arange(0, 6, 1, &Device::Cpu)?.reshape(&[2, 3])?;
/// assert_eq!(a.sum(..)?.to_vec::<i64>()?, [15]); // all
/// assert_eq!(a.sum(0)?.to_vec::<i64>()?, [3, 5, 7]);
/// assert_eq!(a.sum([0, -1])?.to_vec::<i64>()?, [15]);
/// # Ok::<(), rigel_array::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axes {
    /// Every axis.
    All,
    /// Some axes, counted from the end if negative.
    These(Vec<isize>),
}

impl From<std::ops::RangeFull> for Axes {
    fn from(_: std::ops::RangeFull) -> Self {
        Self::All
    }
}

impl From<isize> for Axes {
    fn from(axis: isize) -> Self {
        Self::These(vec![axis])
    }
}

impl<const N: usize> From<[isize; N]> for Axes {
    fn from(axes: [isize; N]) -> Self {
        Self::These(axes.to_vec())
    }
}

impl From<Vec<isize>> for Axes {
    fn from(axes: Vec<isize>) -> Self {
        Self::These(axes)
    }
}

impl Axes {
    /// Determines which of `axes` axes are reduced.
    fn marked(&self, axes: usize) -> Result<Vec<bool>> {
        let Self::These(these) = self else { return Ok(vec![true; axes]) };
        let mut marked = vec![false; axes];
        for &axis in these {
            if std::mem::replace(&mut marked[axis_of(axis, axes)?], true) {
                return Err(Error::index(format!("axis {axis} is given twice")));
            }
        }
        Ok(marked)
    }
}

/// The reduction of an expression over all indices of `shape`.
pub(crate) fn reduce(
    prepared: &Prepared,
    shape: &[usize],
    dtype: Type,
    device: &Device,
    reduction: Reduction,
    axes: &Axes,
    keep: bool,
) -> Result<Array> {
    let reduced = axes.marked(shape.len())?;
    let (inner, outer): (Vec<usize>, Vec<usize>) = (0..shape.len()).partition(|&axis| reduced[axis]);
    let of_none = inner.iter().any(|&axis| shape[axis] == 0);
    if of_none
        && matches!(reduction, Reduction::Min | Reduction::Max)
        && !outer.iter().any(|&axis| shape[axis] == 0)
    {
        return Err(Error::shape(format!(
            "{} of no elements, in an array of shape {}",
            reduction.name(),
            text(shape)
        )));
    }
    let result: Vec<usize> = match keep {
        true => (0..shape.len()).map(|axis| if reduced[axis] { 1 } else { shape[axis] }).collect(),
        false => outer.iter().map(|&axis| shape[axis]).collect(),
    };
    let order: Vec<usize> = outer.iter().chain(&inner).copied().collect();
    let ordered: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
    let out = Array::alloc(&result, dtype, device)?;
    let Prepared { expression, scalars, .. } = prepared;
    match device {
        Device::Gpu(device) => {
            let stream = device.compute()?;
            prepared.with_operands(Some(&order), |inputs| {
                let mut memory = device_memory(&out).writable();
                let target = memory.view_mut();
                map::reduce(&stream, expression, reduction, &ordered, inner.len(), inputs, scalars, target)
            })?;
        }
        Device::Cpu => {
            let memory = host_memory(&out);
            prepared.with_host_operands(Some(&order), memory, |inputs| {
                // SAFETY: every layout lies within its memory, which is locked for reading; the result's memory,
                // of this size, is locked for writing.
                unsafe {
                    let bytes = std::slice::from_raw_parts_mut(memory.address().as_ptr(), out.bytes());
                    cpu::reduce(expression, reduction, &ordered, inner.len(), inputs, scalars, bytes);
                }
            });
        }
    }
    Ok(out)
}

impl Lazy {
    /// The sum along axes.
    pub fn sum(self, axes: impl Into<Axes>) -> Result<Array> {
        self.reduce(Reduction::Sum, axes, false)
    }

    /// The product along axes.
    pub fn prod(self, axes: impl Into<Axes>) -> Result<Array> {
        self.reduce(Reduction::Product, axes, false)
    }

    /// The minimum along axes; NaN if an element is NaN.
    pub fn min(self, axes: impl Into<Axes>) -> Result<Array> {
        self.reduce(Reduction::Min, axes, false)
    }

    /// The maximum along axes; NaN if an element is NaN.
    pub fn max(self, axes: impl Into<Axes>) -> Result<Array> {
        self.reduce(Reduction::Max, axes, false)
    }

    /// The mean along axes, which are removed, or kept with length 1 if `keep`. As f64 for integers.
    pub fn mean(self, axes: impl Into<Axes>, keep: bool) -> Result<Array> {
        let (dtype, axes) = (self.dtype()?, axes.into());
        if dtype.is_field() {
            return Err(Error::of_type(format!("mean is not defined for {}", name(dtype))));
        }
        let mean = mean_type(dtype);
        let lazy = self.astype(mean.wide());
        let shape = lazy.shape()?;
        let reduced = axes.marked(shape.len())?;
        let count: usize = (0..shape.len()).filter(|&axis| reduced[axis]).map(|axis| shape[axis]).product();
        lazy.reduce(Reduction::Sum, axes, keep)?.div(count as f64)?.astype(mean)
    }
}

/// The type of means: F64 for booleans and integers, else the type itself.
fn mean_type(of: Type) -> Type {
    if matches!(of.kind(), NumberKind::Bool | NumberKind::Integer) { Type::F64 } else { of }
}

impl Array {
    /// The index along an axis of the first largest element, or of the first NaN, as I64. The axis is removed, or
    /// kept with length 1 if `keep`.
    pub fn argmax(&self, axis: isize, keep: bool) -> Result<Self> {
        self.first_extreme(Reduction::Max, axis, keep)
    }

    /// The index along an axis of the first smallest element, or of the first NaN.
    pub fn argmin(&self, axis: isize, keep: bool) -> Result<Self> {
        self.first_extreme(Reduction::Min, axis, keep)
    }

    /// Two passes: the extreme value, then the smallest index at which it is found.
    fn first_extreme(&self, reduction: Reduction, axis: isize, keep: bool) -> Result<Self> {
        let axis = axis_of(axis, self.axes())?;
        let extreme = self.lazy().reduce(reduction, axis as isize, true)?;
        let length = self.shape()[axis];
        if length == 0 {
            return Err(Error::shape(format!("axis {axis} has no elements, and thus no first extreme")));
        }
        let along = crate::array::along(length, axis, self.axes(), &self.device())?;
        // If the extreme is NaN, nothing equals it, and NaN differs from itself.
        let found = self.lazy().eq(&extreme).logical_or(self.lazy().ne(self));
        let index = along.lazy().select(found, length as i64);
        index.reduce(Reduction::Min, axis as isize, keep)
    }

    /// The variance along axes: the mean of `|x - mean|^2`, with the number of elements less `ddof` as divisor. As
    /// f64 for integers.
    pub fn var(&self, axes: impl Into<Axes>, ddof: f64, keep: bool) -> Result<Self> {
        let axes = axes.into();
        if self.dtype.is_narrow() {
            let rounded = match mean_type(self.dtype) {
                Type::C64 => Type::F32,
                other => other,
            };
            return self.astype(mean_type(self.dtype).wide())?.var(axes, ddof, keep)?.astype(rounded);
        }
        let mean = self.lazy().mean(axes.clone(), true)?;
        let reduced = axes.marked(self.axes())?;
        let count: usize = (0..self.axes()).filter(|&axis| reduced[axis]).map(|axis| self.shape()[axis]).product();
        let distance = (self.lazy() - &mean).abs();
        let squares = distance.clone() * distance;
        squares.reduce(Reduction::Sum, axes, keep)?.div((count as f64 - ddof).max(0.0))
    }

    /// The standard deviation along axes: the square root of [`var`](Self::var).
    pub fn std(&self, axes: impl Into<Axes>, ddof: f64, keep: bool) -> Result<Self> {
        self.var(axes, ddof, keep)?.sqrt()
    }

    /// The sum along axes. Booleans and small integers are summed as 64-bit integers.
    pub fn sum(&self, axes: impl Into<Axes>) -> Result<Self> {
        self.lazy().sum(axes)
    }

    /// The product along axes.
    pub fn prod(&self, axes: impl Into<Axes>) -> Result<Self> {
        self.lazy().prod(axes)
    }

    /// The minimum along axes.
    pub fn min(&self, axes: impl Into<Axes>) -> Result<Self> {
        self.lazy().min(axes)
    }

    /// The maximum along axes.
    pub fn max(&self, axes: impl Into<Axes>) -> Result<Self> {
        self.lazy().max(axes)
    }

    /// The mean along axes; as f64 for integers.
    pub fn mean(&self, axes: impl Into<Axes>) -> Result<Self> {
        self.lazy().mean(axes, false)
    }
}
