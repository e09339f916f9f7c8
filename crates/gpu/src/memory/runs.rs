//! Runs: of every so many values of a view, a range of them.
//!
//! Some rows of the columns of a matrix are runs of its memory, a column apart. Copies between devices take them as
//! they are, so that nobody has to pack them first.

use std::ops::Range;
use std::sync::Arc;

use super::block::Block;
use super::buffer::Buffer;
use super::view::{View, ViewMut};
use crate::base::{Error, Plain, Result};
use crate::drivers::{DevicePtr, Strides};

/// Equal runs of values of a [`View`], equally far apart.
#[derive(Clone, Copy, Debug)]
pub struct Runs<'a, T: Plain> {
    /// The values from the first run's start to the last one's end.
    span: View<'a, T>,
    places: Places,
}

/// Equal runs of values of a [`ViewMut`], equally far apart.
#[derive(Debug)]
pub struct RunsMut<'a, T: Plain> {
    /// The values from the first run's start to the last one's end. They may overlap those of other runs, so the
    /// span is never given away.
    span: ViewMut<'a, T>,
    places: Places,
}

/// The positions of runs: `count` of them, of `length` values, whose starts are `stride` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    count: usize,
    length: usize,
    stride: usize,
}

impl Places {
    fn one(length: usize) -> Self {
        Self { count: 1, length, stride: length }
    }

    fn len(self) -> usize {
        self.count * self.length
    }

    /// The places as so many runs, if they are, or if they are one stretch of as many values.
    fn cut_as(self, other: Self) -> Option<Self> {
        let is_one = self.count == 1 || self.stride == self.length;
        match (self.count, self.length) == (other.count, other.length) {
            true => Some(self),
            false if is_one && self.len() == other.len() => Some(Self { stride: other.length, ..other }),
            false => None,
        }
    }

    /// The places of the values in `range` of every `stride` of `len` values, and the values from the first to the
    /// last of them.
    fn of(len: usize, stride: usize, range: &Range<usize>) -> Result<(Self, Range<usize>)> {
        let count = len.checked_div(stride).unwrap_or(0);
        if count * stride != len || range.start > range.end || range.end > stride {
            let detail = format!("values {range:?} of every {stride} of {len}");
            return Err(Error::shape("runs", detail));
        }
        let places = Self { count, length: range.len(), stride };
        let end = if count == 0 { 0 } else { (count - 1) * stride + range.end };
        Ok((places, range.start.min(end)..end))
    }
}

impl<'a, T: Plain> View<'a, T> {
    /// The values in `range` of every `stride` values.
    pub fn runs(self, stride: usize, range: Range<usize>) -> Result<Runs<'a, T>> {
        let (places, span) = Places::of(self.len(), stride, &range)?;
        Ok(Runs { span: self.range(span)?, places })
    }
}

impl<'a, T: Plain> ViewMut<'a, T> {
    /// Splits every `stride` values into runs: the first `lengths[0]`, the next `lengths[1]` and so on.
    pub fn split_runs(self, stride: usize, lengths: &[usize]) -> Result<Vec<RunsMut<'a, T>>> {
        let mut start = 0;
        let part = |&length: &usize| {
            let (places, span) = Places::of(self.len(), stride, &(start..start + length))?;
            start += length;
            // Runs of different parts have no value in common, though their spans overlap.
            Ok(RunsMut { span: self.alias().range(span)?, places })
        };
        lengths.iter().map(part).collect()
    }
}

impl<'a, T: Plain> From<&'a Buffer<T>> for Runs<'a, T> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        buffer.view().into()
    }
}

impl<'a, T: Plain> From<&'a mut Buffer<T>> for RunsMut<'a, T> {
    fn from(buffer: &'a mut Buffer<T>) -> Self {
        buffer.view_mut().into()
    }
}

impl<'a, T: Plain> From<View<'a, T>> for Runs<'a, T> {
    fn from(span: View<'a, T>) -> Self {
        Self { span, places: Places::one(span.len()) }
    }
}

impl<'a, T: Plain> From<ViewMut<'a, T>> for RunsMut<'a, T> {
    fn from(span: ViewMut<'a, T>) -> Self {
        let places = Places::one(span.len());
        Self { span, places }
    }
}

impl<'a, T: Plain> Runs<'a, T> {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.len() * size_of::<T>()
    }

    /// The values as a view, if they are adjacent.
    pub(crate) fn whole(&self) -> Option<View<'a, T>> {
        (self.span.len() == self.len()).then_some(self.span)
    }

    pub(crate) fn span(&self) -> View<'a, T> {
        self.span
    }

    pub(crate) fn at(&self) -> DevicePtr {
        *self.span.at()
    }

    pub(crate) fn block(&self) -> &'a Arc<Block> {
        self.span.block()
    }
}

impl<'a, T: Plain> RunsMut<'a, T> {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values as a view, or these runs if they are not adjacent.
    pub(crate) fn whole(self) -> std::result::Result<ViewMut<'a, T>, Self> {
        if self.span.len() == self.len() { Ok(self.span) } else { Err(self) }
    }

    pub(crate) fn span(&self) -> View<'_, T> {
        self.span.view()
    }

    pub(crate) fn at(&self) -> DevicePtr {
        *self.span.at()
    }

    pub(crate) fn block(&self) -> &'a Arc<Block> {
        self.span.block()
    }

    /// The strides of a copy of `source` to these runs. A single run stands for as many as the other side has.
    pub(crate) fn strides(&self, operation: &'static str, source: &Runs<'_, T>) -> Result<Strides> {
        let (here, there) = (self.places, source.places);
        let (to, from) = match (here.cut_as(there), there.cut_as(here)) {
            (Some(here), _) => (here, there),
            (None, Some(there)) => (here, there),
            (None, None) => {
                let runs = |places: Places| match places.count {
                    1 => format!("{} values", places.length),
                    count => format!("{count} runs of {} values", places.length),
                };
                let detail = format!("{} do not fit a destination of {}", runs(there), runs(here));
                return Err(Error::shape(operation, detail));
            }
        };
        let bytes = |values: usize| values * size_of::<T>();
        Ok(Strides { bytes: bytes(to.length), count: to.count, to: bytes(to.stride), from: bytes(from.stride) })
    }
}
