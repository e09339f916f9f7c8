//! Views (reshapes, slices, transposes, broadcasts), conversions, and joining arrays.

use rigel_codegen::map::Type;

use crate::array::Array;
use crate::device::same_device;
use crate::error::{Error, Result};
use crate::layout::{Index, Layout, axis_of, elements, text};
use crate::lazy::Lazy;
use crate::scalar::{name, promote};

impl Array {
    fn with_layout(&self, layout: Layout) -> Self {
        Self::new(self.memory.clone(), layout, self.dtype)
    }

    /// Arranges the elements, in row-major order, in another shape. One length may be -1 and is then inferred.
    /// Copies only if strides can't express the result.
    ///
    /// ```
    /// # use rigel_array::{Array, Device};
    /// let a = Array::from_slice(&[1i64, 2, 3, 4, 5, 6], &[6], &Device::Cpu)?;
    /// assert_eq!(a.reshape(&[2, -1])?.shape(), [2, 3]);
    /// # Ok::<(), rigel_array::Error>(())
    /// ```
    pub fn reshape(&self, shape: &[isize]) -> Result<Self> {
        let refused = || {
            Error::shape(format!("{} elements of shape {} do not fill {shape:?}", self.len(), text(self.shape())))
        };
        let mut known = shape.iter().filter(|&&length| length >= 0);
        let known =
            known.try_fold(1usize, |product, &length| product.checked_mul(length as usize)).ok_or_else(refused)?;
        let open = shape.iter().filter(|&&length| length < 0).count();
        if open > 1 || shape.iter().any(|&length| length < -1) || (open == 1 && known == 0) {
            return Err(refused());
        }
        let lengths: Vec<usize> =
            shape.iter().map(|&length| usize::try_from(length).unwrap_or_else(|_| self.len() / known)).collect();
        if elements(&lengths, self.dtype.bytes())? != self.len() {
            return Err(refused());
        }
        match self.layout.reshaped(&lengths) {
            Some(layout) => Ok(self.with_layout(layout)),
            None => {
                let copy = self.contiguous()?;
                Ok(copy.with_layout(Layout::contiguous(&lengths)))
            }
        }
    }

    /// Permutes the axes: axis j of the result is axis `axes[j]` (counted from the end if negative).
    pub fn permute(&self, axes: &[isize]) -> Result<Self> {
        let order: Vec<usize> = axes.iter().map(|&axis| axis_of(axis, self.axes())).collect::<Result<_>>()?;
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if sorted != (0..self.axes()).collect::<Vec<_>>() {
            return Err(Error::index(format!("{axes:?} is not a permutation of {} axes", self.axes())));
        }
        Ok(self.with_layout(self.layout.permuted(&order)))
    }

    /// Reverses the axes; for a matrix, its transpose.
    pub fn transpose(&self) -> Self {
        let order: Vec<usize> = (0..self.axes()).rev().collect();
        self.with_layout(self.layout.permuted(&order))
    }

    /// Swaps two axes.
    pub fn swap_axes(&self, a: isize, b: isize) -> Result<Self> {
        let mut order: Vec<usize> = (0..self.axes()).collect();
        order.swap(axis_of(a, self.axes())?, axis_of(b, self.axes())?);
        Ok(self.with_layout(self.layout.permuted(&order)))
    }

    /// The part that an index selects, over the same memory.
    ///
    /// ```
    /// # use rigel_array::{Array, Device, Index};
    /// let a = Array::arange(0, 12, 1, &Device::Cpu)?.reshape(&[3, 4])?;
    /// let part = a.index(&[Index::ALL, Index::Range { start: Some(3), stop: None, step: -2 }])?; // a[:, 3::-2]
    /// assert_eq!(part.to_vec::<i64>()?, [3, 1, 7, 5, 11, 9]);
    /// # Ok::<(), rigel_array::Error>(())
    /// ```
    pub fn index(&self, index: &[Index]) -> Result<Self> {
        Ok(self.with_layout(self.layout.indexed(index)?))
    }

    /// The elements in reverse order along an axis, over the same memory.
    pub fn flip(&self, axis: isize) -> Result<Self> {
        let mut index = vec![Index::ALL; axis_of(axis, self.axes())?];
        index.push(Index::Range { start: None, stop: None, step: -1 });
        self.index(&index)
    }

    /// The elements moved by `shift` along an axis; those that pass the end come back at the start.
    pub fn roll(&self, shift: isize, axis: isize) -> Result<Self> {
        let axis = axis_of(axis, self.axes())?;
        let length = self.shape()[axis] as isize;
        if length == 0 {
            return self.copy();
        }
        let cut = length - shift.rem_euclid(length);
        let part = |range: std::ops::Range<isize>| {
            let mut index = vec![Index::ALL; axis];
            index.push(range.into());
            self.index(&index)
        };
        Self::concatenate(&[part(cut..length)?, part(0..cut)?], axis as isize)
    }

    /// Repeats the array along new axes and axes of length 1, without a copy.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Self> {
        elements(shape, self.dtype.bytes())?;
        Ok(self.with_layout(self.layout.broadcast_to(shape)?))
    }

    /// Removes axes of length 1.
    pub fn squeeze(&self) -> Self {
        let kept: Vec<usize> = (0..self.axes()).filter(|&axis| self.shape()[axis] != 1).collect();
        self.with_layout(self.layout.permuted(&kept))
    }

    /// Inserts an axis of length 1 before the axis `axis` (counted from the end if negative).
    pub fn expand(&self, axis: isize) -> Result<Self> {
        let at = axis_of(axis, self.axes() + 1)?;
        let mut layout = self.layout.clone();
        layout.shape.insert(at, 1);
        layout.strides.insert(at, 0);
        Ok(self.with_layout(layout))
    }

    /// The array itself if it is contiguous in row-major order, else a contiguous copy.
    pub fn contiguous(&self) -> Result<Self> {
        if self.is_contiguous() { Ok(self.clone()) } else { self.copy() }
    }

    /// A copy in new memory.
    pub fn copy(&self) -> Result<Self> {
        Lazy::from(self).eval_anew()
    }

    /// Converts the elements to another type (see [`Node::Convert`](rigel_codegen::map::Node::Convert)).
    pub fn astype(&self, dtype: Type) -> Result<Self> {
        Lazy::from(self).astype(dtype).eval()
    }

    /// The coefficients of field elements as a new last axis, lowest power first, over the same memory.
    pub fn coefficients(&self) -> Result<Self> {
        if !self.dtype.is_field() {
            return Err(Error::of_type(format!("elements of {} have no coefficients", name(self.dtype))));
        }
        let degree = self.dtype.degree();
        let mut layout = self.layout.clone();
        layout.strides.iter_mut().for_each(|stride| *stride *= degree as isize);
        layout.offset *= degree;
        layout.shape.push(degree);
        layout.strides.push(1);
        Ok(Self::new(self.memory.clone(), layout, self.dtype.base()))
    }

    /// The field elements whose coefficients are the last axis, which is removed.
    pub fn from_coefficients(&self, dtype: Type) -> Result<Self> {
        let degree = dtype.degree();
        if !dtype.is_field() || dtype.base() != self.dtype || self.shape().last() != Some(&degree) {
            return Err(Error::shape(format!(
                "elements of {} need {degree} coefficients of {} in the last axis; got {} of shape {}",
                name(dtype),
                name(dtype.base()),
                name(self.dtype),
                text(self.shape())
            )));
        }
        let whole = self.contiguous()?;
        if !whole.layout.offset.is_multiple_of(degree) {
            return whole.copy()?.from_coefficients(dtype);
        }
        let shape = &whole.shape()[..whole.axes() - 1];
        let layout = Layout { offset: whole.layout.offset / degree, ..Layout::contiguous(shape) };
        Ok(Self::new(whole.memory.clone(), layout, dtype))
    }

    /// Joins arrays along an axis. Their other axes must have the same lengths; types are promoted.
    pub fn concatenate(arrays: &[Self], axis: isize) -> Result<Self> {
        let Some(first) = arrays.first() else {
            return Err(Error::shape("concatenate needs at least one array"));
        };
        let axis = axis_of(axis, first.axes())?;
        let device = first.device();
        let (mut shape, mut dtype) = (first.shape().to_vec(), first.dtype);
        shape[axis] = 0;
        for array in arrays {
            let fits = array.axes() == shape.len()
                && (0..shape.len()).all(|at| at == axis || array.shape()[at] == shape[at]);
            if !fits {
                return Err(Error::shape(format!(
                    "concatenate along axis {axis}: shapes {} and {} do not fit together",
                    text(first.shape()),
                    text(array.shape())
                )));
            }
            same_device("concatenate", &device, &array.device())?;
            shape[axis] += array.shape()[axis];
            dtype = promote(dtype, array.dtype)?;
        }
        let whole = Self::alloc(&shape, dtype, &device)?;
        let mut start = 0;
        for array in arrays {
            let mut index = vec![Index::ALL; axis];
            let end = start + array.shape()[axis] as isize;
            index.push(Index::from(start..end));
            whole.index(&index)?.assign(array)?;
            start = end;
        }
        Ok(whole)
    }

    /// Joins arrays of the same shape along a new axis.
    pub fn stack(arrays: &[Self], axis: isize) -> Result<Self> {
        let expanded: Vec<Self> = arrays.iter().map(|array| array.expand(axis)).collect::<Result<_>>()?;
        Self::concatenate(&expanded, axis)
    }
}
