//! Selecting elements by arrays of indices and by masks, for reading and writing.
//!
//! The places of the selected elements in memory are one integer expression of the indices and the strides, so an
//! array of any layout is read or written where it is. Indices stay on their device; one number is read back, to check
//! that none is out of bounds.

use rigel_codegen::map::{NumberKind, Type};
use rigel_kernels::number::pick::{self, Words};

use crate::array::Array;
use crate::array::along;
use crate::cpu;
use crate::device::{Device, same_device};
use crate::error::{Error, Result};
use crate::evaluate::{device_memory, host_memory};
use crate::layout::{Index, Lengths, axis_of, broadcast, place, text};
use crate::lazy::Lazy;
use crate::memory::HostMemory;
use crate::scalar::{Scalar, name};

/// One entry of an index with arrays, such as `[mask]` or `[:, [3, 1, -1]]`.
#[derive(Clone)]
pub enum Pick {
    /// An integer, a range, a new axis, or an ellipsis.
    Plain(Index),
    /// The indices of an axis. Arrays of indices are broadcast together.
    Places(Array),
    /// The indices at which a mask, which covers as many axes as it has, is true.
    Mask(Array),
}

impl From<Index> for Pick {
    fn from(index: Index) -> Self {
        Self::Plain(index)
    }
}

/// The selected elements: their places in the memory, in the result's shape.
struct Selection {
    shape: Vec<usize>,
    places: Array,
}

/// The steps of a range along an axis of the array.
#[derive(Clone, Copy)]
struct Steps {
    axis: usize,
    first: isize,
    step: isize,
}

impl Array {
    /// A new array of the elements that indices and masks select, with NumPy's rules: index arrays are broadcast
    /// together, and their axes replace the indexed axes, or come first if a range is between them.
    ///
    /// ```
    /// # use rigel_array::{Array, Device, Pick};
    /// let a = Array::arange(0, 10, 1, &Device::Cpu)?;
    /// let odd = a.remainder(2)?.eq(1)?;
    /// assert_eq!(a.pick(&[Pick::Mask(odd)])?.to_vec::<i64>()?, [1, 3, 5, 7, 9]);
    /// let last = Array::from_slice(&[-1i64, 0], &[2], &Device::Cpu)?;
    /// assert_eq!(a.pick(&[Pick::Places(last)])?.to_vec::<i64>()?, [9, 0]);
    /// # Ok::<(), rigel_array::Error>(())
    /// ```
    pub fn pick(&self, index: &[Pick]) -> Result<Self> {
        let Selection { shape, places } = self.selection(index)?;
        let whole = self.take_places(&places)?;
        whole.reshape(&shape.iter().map(|&length| length as isize).collect::<Vec<_>>())
    }

    /// Writes values, broadcast and converted, to the elements that indices and masks select. If an index occurs
    /// twice, the last value remains on the CPU, and any of them on a device.
    pub fn pick_assign(&self, index: &[Pick], values: impl Into<Lazy>) -> Result<()> {
        let values = values.into();
        if !self.is_writable() {
            return Err(Error::shape(format!(
                "assign: indices of an array of shape {} share elements, as in a broadcast; copy() it first",
                text(self.shape())
            )));
        }
        // One number where a mask is true needs no places: it is a selection between it and the old elements.
        if let ([Pick::Mask(mask)], true) = (index, values.shape()?.is_empty()) {
            let mut mask = self.checked_mask(mask, 0)?;
            for _ in mask.axes()..self.axes() {
                mask = mask.expand(-1)?;
            }
            return self.assign(values.astype(self.dtype).select(&mask, self));
        }
        let Selection { shape, places } = self.selection(index)?;
        let whole = Self::alloc(&shape, self.dtype, &self.device())?;
        values.eval_into(&whole)?;
        self.put_places(&places, &whole)
    }

    /// The elements along an axis at the given indices, as in NumPy: `indices` replace that axis.
    pub fn take(&self, indices: &Self, axis: isize) -> Result<Self> {
        let axis = axis_of(axis, self.axes())?;
        let mut index: Vec<Pick> = vec![Index::ALL.into(); axis];
        index.push(Pick::Places(indices.clone()));
        self.pick(&index)
    }

    /// `out[.., i, ..] = self[.., indices[.., i, ..], ..]` along an axis; the other axes are broadcast together.
    pub fn take_along(&self, indices: &Self, axis: isize) -> Result<Self> {
        if indices.axes() != self.axes() {
            return Err(Error::shape(format!(
                "take_along_axis: indices of shape {} for an array of shape {}; both need as many axes",
                text(indices.shape()),
                text(self.shape())
            )));
        }
        let axis = axis_of(axis, self.axes())?;
        let mut index = Vec::with_capacity(self.axes());
        for (at, &length) in self.shape().iter().enumerate() {
            index.push(Pick::Places(if at == axis {
                indices.clone()
            } else {
                along(length, at, self.axes(), &self.device())?
            }));
        }
        self.pick(&index)
    }

    /// The indices of the elements that are not zero: one array for each axis, in row-major order.
    pub fn nonzero(&self) -> Result<Vec<Self>> {
        if self.axes() == 0 {
            return Err(Error::shape("nonzero needs an array with axes; reshape it to one element"));
        }
        let device = self.device();
        let truths = self.astype(Type::Bool)?.reshape(&[-1])?;
        let flat = if truths.is_empty() {
            Self::zeros(&[0], Type::I64, &device)?
        } else {
            // The running count numbers the elements that are kept; it is also their place in the result, plus one.
            let count = truths.cumsum(0)?;
            let Scalar::Int(kept) = count.index(&[(-1).into()])?.item()? else { unreachable!("an integer") };
            let numbers = Lazy::places(truths.shape(), &device).astype(Type::I64).eval()?;
            let to = (count.lazy() - 1).select(&truths, Lazy::from(-1i64)).eval()?;
            let flat = Self::alloc(&[kept as usize], Type::I64, &device)?;
            flat.put_places(&to, &numbers)?;
            flat
        };
        let mut after = self.len().max(1) as i64;
        let each = self.shape().iter().map(|&length| {
            after /= (length.max(1)) as i64;
            flat.lazy().floor_div(after).remainder(length.max(1) as i64).eval()
        });
        each.collect()
    }

    fn checked_mask(&self, mask: &Self, axis: usize) -> Result<Self> {
        if mask.dtype != Type::Bool {
            return Err(Error::of_type(format!("a mask consists of booleans, not {}", name(mask.dtype))));
        }
        same_device("index", &self.device(), &mask.device())?;
        let covered = self.shape().get(axis..axis + mask.axes());
        if mask.axes() == 0 || covered != Some(mask.shape()) {
            return Err(Error::index(format!(
                "a mask of shape {} does not fit the axes from {axis} of an array of shape {}",
                text(mask.shape()),
                text(self.shape())
            )));
        }
        Ok(mask.clone())
    }

    /// Indices of an axis as I64, counted from the start and known to be in bounds.
    fn checked_places(&self, places: &Self, axis: usize) -> Result<Self> {
        if places.dtype.kind() != NumberKind::Integer {
            return Err(Error::of_type(format!(
                "an index array consists of integers, not {}",
                name(places.dtype)
            )));
        }
        same_device("index", &self.device(), &places.device())?;
        let length = self.shape()[axis];
        let places = places.astype(Type::I64)?;
        let (low, high) = (-(length as i64), length as i64);
        let outside = places.lazy().lt(low).logical_or(places.lazy().ge(high)).sum(..)?;
        if outside.item()? != Scalar::Int(0) {
            for extreme in [places.min(..)?, places.max(..)?] {
                if let Scalar::Int(at) = extreme.item()? {
                    place(at as isize, length, axis)?;
                }
            }
        }
        (places.lazy() + high).select(places.lazy().lt(0), &places).eval()
    }

    fn selection(&self, index: &[Pick]) -> Result<Selection> {
        let device = self.device();
        let covers = |entry: &Pick| match entry {
            Pick::Plain(Index::NewAxis | Index::Ellipsis) => 0,
            Pick::Plain(_) | Pick::Places(_) => 1,
            Pick::Mask(mask) => mask.axes(),
        };
        let covered: usize = index.iter().map(covers).sum();
        let Some(rest) = self.axes().checked_sub(covered) else {
            return Err(Error::index(format!(
                "{covered} indices for an array of {} axes, shape {}",
                self.axes(),
                text(self.shape())
            )));
        };
        let ellipses = index.iter().filter(|entry| matches!(entry, Pick::Plain(Index::Ellipsis))).count();
        if ellipses > 1 {
            return Err(Error::index("an index can have only one ellipsis"));
        }
        // The selected places along each axis: integers and arrays (`picked`, broadcast together), and ranges.
        let tail = (ellipses == 0).then_some(Pick::Plain(Index::Ellipsis));
        let mut axis = 0;
        let mut picked: Vec<(usize, Self)> = Vec::new();
        // The lengths of the result's axes that are not picked, with the axis they step along.
        let mut ranges: Vec<(usize, Option<Steps>)> = Vec::new();
        // Where the picked axes go: before this many ranges, or first if anything separates them, even an ellipsis of
        // no axes.
        let (mut position, mut last, mut separated) = (0, None::<usize>, false);
        let mut at_pick = |entry: usize, ranges: &[_]| {
            match last {
                None => position = ranges.len(),
                Some(last) => separated |= last + 1 != entry,
            }
            last = Some(entry);
        };
        for (number, entry) in index.iter().chain(&tail).enumerate() {
            match entry {
                Pick::Plain(Index::NewAxis) => ranges.push((1, None)),
                Pick::Plain(Index::Ellipsis) => {
                    for _ in 0..rest {
                        ranges.push((self.shape()[axis], Some(Steps { axis, first: 0, step: 1 })));
                        axis += 1;
                    }
                }
                Pick::Plain(Index::Range { start, stop, step }) => {
                    let (first, count) = crate::layout::span(*start, *stop, *step, self.shape()[axis])?;
                    ranges.push((count, Some(Steps { axis, first: first as isize, step: *step })));
                    axis += 1;
                }
                Pick::Plain(Index::At(at)) => {
                    at_pick(number, &ranges);
                    let at = place(*at, self.shape()[axis], axis)?;
                    picked.push((axis, Self::filled(&[], at as i64, Type::I64, &device)?));
                    axis += 1;
                }
                Pick::Places(places) => {
                    at_pick(number, &ranges);
                    picked.push((axis, self.checked_places(places, axis)?));
                    axis += 1;
                }
                Pick::Mask(mask) => {
                    at_pick(number, &ranges);
                    for places in self.checked_mask(mask, axis)?.nonzero()? {
                        picked.push((axis, places));
                        axis += 1;
                    }
                }
            }
        }
        let mut joint = Lengths::new();
        for (_, places) in &picked {
            joint = broadcast("index", &joint, places.shape())?;
        }
        let position = if separated { 0 } else { position };
        let (before, after) = ranges.split_at(position);
        let lengths = |ranges: &[(usize, _)]| ranges.iter().map(|&(length, _)| length).collect::<Vec<_>>();
        let shape = [lengths(before), joint.to_vec(), lengths(after)].concat();

        let mut places = Lazy::filled(Scalar::Int(self.layout.offset as i128), Type::I64, &shape, &device);
        for (axis, picks) in &picked {
            let mut spread = picks.clone();
            for _ in after {
                spread = spread.expand(-1)?;
            }
            places = places + spread.lazy() * self.layout.strides[*axis] as i64;
        }
        for (k, &(length, steps)) in ranges.iter().enumerate() {
            let Some(Steps { axis, first, step }) = steps else { continue };
            let stride = self.layout.strides[axis];
            let at = if k < position { k } else { k + joint.len() };
            let numbers = along(length, at, shape.len(), &device)?;
            places = places + numbers.lazy() * stride.wrapping_mul(step) as i64 + (first * stride) as i64;
        }
        let places = places.eval()?;
        Ok(Selection { shape, places })
    }

    /// The elements at these places of the memory.
    pub(crate) fn take_places(&self, places: &Self) -> Result<Self> {
        let places = places.contiguous()?;
        let out = Self::alloc(places.shape(), self.dtype, &self.device())?;
        if out.is_empty() {
            return Ok(out);
        }
        match self.device() {
            Device::Cpu => {
                let (from, listed, to) = (host_memory(self), host_memory(&places), host_memory(&out));
                HostMemory::locked(&[from, listed], Some(to), || {
                    // SAFETY: the memories are locked, and the new one is distinct from the others.
                    let (from, places, to) = unsafe { (from.bytes(), i64s(listed, &places), to.bytes_mut()) };
                    cpu::take(self.dtype.bytes(), from, places, &mut to[..out.bytes()]);
                });
            }
            Device::Gpu(device) => {
                let listed = device_memory(&places).view().range(places.byte_range())?.cast::<i64>()?;
                let from = device_memory(self).view();
                let mut to = device_memory(&out).writable();
                pick::take(&device.compute()?, words(self.dtype), from, listed, to.view_mut())?;
            }
        }
        Ok(out)
    }

    /// Writes values, contiguous and in memory of their own, to these places of the memory. Negative places are
    /// skipped.
    fn put_places(&self, places: &Self, values: &Self) -> Result<()> {
        let places = places.contiguous()?;
        if places.is_empty() {
            return Ok(());
        }
        match self.device() {
            Device::Cpu => {
                let (to, listed, from) = (host_memory(self), host_memory(&places), host_memory(values));
                HostMemory::locked(&[from, listed], Some(to), || {
                    // SAFETY: the memories are locked, and the values and places have memory of their own.
                    let (from, places, to) = unsafe { (from.bytes(), i64s(listed, &places), to.bytes_mut()) };
                    cpu::put(self.dtype.bytes(), to, places, &from[values.byte_range()]);
                });
            }
            Device::Gpu(device) => {
                let listed = device_memory(&places).view().range(places.byte_range())?.cast::<i64>()?;
                let from = device_memory(values).view().range(values.byte_range())?;
                let mut to = device_memory(self).writable();
                pick::put(&device.compute()?, words(self.dtype), to.view_mut(), listed, from)?;
            }
        }
        Ok(())
    }
}

/// # Safety
/// The memory is locked.
unsafe fn i64s<'a>(memory: &'a HostMemory, places: &Array) -> &'a [i64] {
    // SAFETY: guaranteed by the caller; places are arrays of this crate, which are aligned.
    let bytes = unsafe { &memory.bytes()[places.byte_range()] };
    // SAFETY: any bytes are integers.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), places.len()) }
}

fn words(of: Type) -> Words {
    let bytes = of.alignment().min(8);
    Words { bytes, count: of.bytes() / bytes }
}
