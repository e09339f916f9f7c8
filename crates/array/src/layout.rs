//! The layout of an array's elements in memory.
//!
//! Element `(i_0, .., i_k)` of an array is at `offset + sum_j i_j strides_j`, counted in elements. So a slice, a
//! transpose or a broadcast is another layout over the same memory.

use smallvec::{SmallVec, smallvec};

use crate::error::{Error, Result};

/// Lengths of axes, stored inline for most arrays.
pub(crate) type Lengths = SmallVec<[usize; 4]>;
/// Strides of axes.
pub(crate) type Strides = SmallVec<[isize; 4]>;

/// A shape with a stride for each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) shape: Lengths,
    pub(crate) strides: Strides,
    pub(crate) offset: usize,
}

/// One entry of an index such as `[3, 1:10:2, ..]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// One index of an axis, which is removed. Negative indices count from the end.
    At(isize),
    /// Indices `start`, `start + step`, .. before `stop`. Negative and missing numbers have Python's meaning.
    Range {
        /// The first index.
        start: Option<isize>,
        /// The index to stop before.
        stop: Option<isize>,
        /// The step between indices, not 0.
        step: isize,
    },
    /// A new axis of length 1.
    NewAxis,
    /// All axes that no other entry refers to.
    Ellipsis,
}

impl Index {
    /// The whole axis.
    pub const ALL: Self = Self::Range { start: None, stop: None, step: 1 };
}

impl From<isize> for Index {
    fn from(at: isize) -> Self {
        Self::At(at)
    }
}

impl From<std::ops::Range<isize>> for Index {
    fn from(range: std::ops::Range<isize>) -> Self {
        Self::Range { start: Some(range.start), stop: Some(range.end), step: 1 }
    }
}

impl From<std::ops::RangeFull> for Index {
    fn from(_: std::ops::RangeFull) -> Self {
        Self::ALL
    }
}

impl Layout {
    /// Row-major from the start of the memory.
    pub(crate) fn contiguous(shape: &[usize]) -> Self {
        Self { strides: row_major(shape), shape: shape.into(), offset: 0 }
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the elements are contiguous in row-major order.
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&length, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if length == 0 {
                return true;
            }
            if length != 1 && stride != expected {
                return false;
            }
            expected *= length as isize;
        }
        true
    }

    /// Whether all indices refer to different elements, as far as sorted strides show it.
    pub(crate) fn is_injective(&self) -> bool {
        let mut axes: SmallVec<[(usize, usize); 4]> = self
            .shape
            .iter()
            .zip(&self.strides)
            .filter(|&(&length, _)| length > 1)
            .map(|(&length, &stride)| (stride.unsigned_abs(), length))
            .collect();
        axes.sort_unstable();
        let mut reach = 0;
        axes.iter().all(|&(stride, length)| {
            let apart = stride > reach;
            reach += stride * (length - 1);
            apart
        })
    }

    /// The layout of a broadcast to `shape`: axes of length 1 repeat.
    pub(crate) fn broadcast_to(&self, shape: &[usize]) -> Result<Self> {
        let refused = || {
            Err(Error::shape(format!(
                "an array of shape {} can't be broadcast to {}",
                text(&self.shape),
                text(shape)
            )))
        };
        let Some(new_axes) = shape.len().checked_sub(self.shape.len()) else { return refused() };
        if self.shape[..] == *shape {
            return Ok(self.clone());
        }
        let mut strides: Strides = smallvec![0; shape.len()];
        for (axis, (&length, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            let wanted = shape[new_axes + axis];
            if length != wanted && length != 1 {
                return refused();
            }
            strides[new_axes + axis] = if length == 1 { 0 } else { stride };
        }
        Ok(Self { shape: shape.into(), strides, offset: self.offset })
    }

    /// Axis j of the result is axis `axes[j]`.
    pub(crate) fn permuted(&self, axes: &[usize]) -> Self {
        Self {
            shape: axes.iter().map(|&axis| self.shape[axis]).collect(),
            strides: axes.iter().map(|&axis| self.strides[axis]).collect(),
            offset: self.offset,
        }
    }

    /// The layout of the same elements, in row-major order, in another shape; `None` if that needs a copy.
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        if self.is_contiguous() {
            return Some(Self { offset: self.offset, ..Self::contiguous(shape) });
        }
        if self.len() == 0 {
            return Some(Self::contiguous(shape));
        }
        // Axes that are contiguous in memory merge into one long axis, which can be split in any way.
        let mut merged: Vec<(usize, isize)> = Vec::new();
        for (&length, &stride) in self.shape.iter().zip(&self.strides).filter(|&(&length, _)| length != 1) {
            match merged.last_mut() {
                Some(last) if last.1 == stride * length as isize => *last = (last.0 * length, stride),
                _ => merged.push((length, stride)),
            }
        }
        let mut strides: Strides = smallvec![0; shape.len()];
        let mut axis = shape.len();
        for &(length, stride) in merged.iter().rev() {
            let mut covered = 1;
            while covered < length {
                axis = axis.checked_sub(1)?;
                strides[axis] = stride * covered as isize;
                covered *= shape[axis];
            }
            if covered != length {
                return None;
            }
        }
        Some(Self { shape: shape.into(), strides, offset: self.offset })
    }

    /// The part that an index selects.
    pub(crate) fn indexed(&self, index: &[Index]) -> Result<Self> {
        let named = index.iter().filter(|entry| !matches!(entry, Index::NewAxis | Index::Ellipsis)).count();
        if index.iter().filter(|entry| **entry == Index::Ellipsis).count() > 1 {
            return Err(Error::index("an index can have only one ellipsis"));
        }
        let Some(rest) = self.shape.len().checked_sub(named) else {
            return Err(Error::index(format!(
                "{named} indices for an array of {} axes, shape {}",
                self.shape.len(),
                text(&self.shape)
            )));
        };
        let mut out = Self { shape: Lengths::new(), strides: Strides::new(), offset: self.offset };
        let mut axis = 0;
        let mut offset = self.offset as isize;
        let tail = if index.contains(&Index::Ellipsis) { &[][..] } else { &[Index::Ellipsis][..] };
        for entry in index.iter().chain(tail) {
            match *entry {
                Index::NewAxis => {
                    out.shape.push(1);
                    out.strides.push(0);
                    continue;
                }
                Index::Ellipsis => {
                    out.shape.extend_from_slice(&self.shape[axis..axis + rest]);
                    out.strides.extend_from_slice(&self.strides[axis..axis + rest]);
                    axis += rest;
                    continue;
                }
                _ => {}
            }
            let (length, stride) = (self.shape[axis], self.strides[axis]);
            match *entry {
                Index::At(at) => offset += place(at, length, axis)? as isize * stride,
                Index::Range { start, stop, step } => {
                    let (first, count) = span(start, stop, step, length)?;
                    out.shape.push(count);
                    // A step beyond the axis may have any size, because it is never taken.
                    out.strides.push(stride.wrapping_mul(step));
                    if count > 0 {
                        offset += first as isize * stride;
                    }
                }
                Index::NewAxis | Index::Ellipsis => unreachable!("handled above"),
            }
            axis += 1;
        }
        // A layout without elements keeps the array's offset.
        out.offset = if out.shape.contains(&0) { self.offset } else { offset as usize };
        Ok(out)
    }
}

/// The strides of a contiguous array, in row-major order.
pub(crate) fn row_major(shape: &[usize]) -> Strides {
    let mut strides: Strides = smallvec![0; shape.len()];
    let mut stride = 1isize;
    for (to, &length) in strides.iter_mut().zip(shape).rev() {
        *to = stride;
        stride = stride.saturating_mul(length.max(1) as isize);
    }
    strides
}

/// An index counted from the start.
pub(crate) fn place(at: isize, length: usize, axis: usize) -> Result<usize> {
    let from_start = if at < 0 { at + length as isize } else { at };
    usize::try_from(from_start)
        .ok()
        .filter(|&place| place < length)
        .ok_or_else(|| Error::index(format!("index {at} is outside axis {axis}, which has length {length}")))
}

/// The axis with this number, counted from the end if negative.
pub(crate) fn axis_of(axis: isize, axes: usize) -> Result<usize> {
    let from_start = if axis < 0 { axis + axes as isize } else { axis };
    usize::try_from(from_start)
        .ok()
        .filter(|&axis| axis < axes)
        .ok_or_else(|| Error::index(format!("axis {axis} does not exist; the array has {axes} axes")))
}

/// The first index and the number of indices of a range, with Python's rules.
pub(crate) fn span(
    start: Option<isize>,
    stop: Option<isize>,
    step: isize,
    length: usize,
) -> Result<(usize, usize)> {
    if step == 0 {
        return Err(Error::index("the step of a slice must not be 0"));
    }
    let length = length as isize;
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamped = |at: isize| (if at < 0 { at + length } else { at }).clamp(low, high);
    let start = start.map_or(if step > 0 { low } else { high }, clamped);
    let stop = stop.map_or(if step > 0 { high } else { low }, clamped);
    let distance = if step > 0 { stop - start } else { start - stop };
    let count = if distance > 0 { (distance as usize).div_ceil(step.unsigned_abs()) } else { 0 };
    Ok((start.max(0) as usize, count))
}

/// The shape to which arrays of both shapes are broadcast.
pub(crate) fn broadcast(operation: &str, a: &[usize], b: &[usize]) -> Result<Lengths> {
    if a == b {
        return Ok(a.into());
    }
    let axes = a.len().max(b.len());
    let length =
        |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(axes).map_or(1, |axis| shape[axis]);
    (0..axes)
        .map(|axis| match (length(a, axis), length(b, axis)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            _ => Err(Error::shape(format!("{operation}: shapes {} and {} do not fit together", text(a), text(b)))),
        })
        .collect()
}

/// The number of elements of a shape, if they can be addressed.
pub(crate) fn elements(shape: &[usize], bytes: usize) -> Result<usize> {
    shape
        .iter()
        .try_fold(1usize, |product, &length| product.checked_mul(length))
        .filter(|&elements| elements.checked_mul(bytes).is_some_and(|bytes| bytes <= isize::MAX as usize))
        .ok_or_else(|| Error::shape(format!("an array of shape {} is too large", text(shape))))
}

/// A shape as Python writes it.
pub(crate) fn text(shape: &[usize]) -> String {
    match shape {
        [length] => format!("({length},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(shape: &[usize]) -> Layout {
        Layout::contiguous(shape)
    }

    #[test]
    fn reshapes_without_a_copy_where_memory_allows() {
        let transposed = layout(&[2, 3, 4]).permuted(&[2, 0, 1]);
        assert_eq!(transposed.reshaped(&[4, 6]).unwrap().strides[..], [1, 4]);
        assert!(transposed.reshaped(&[24]).is_none());
        let every_second = layout(&[10, 6]).indexed(&[Index::Range { start: None, stop: None, step: 2 }]).unwrap();
        assert_eq!(every_second.reshaped(&[5, 2, 3]).unwrap().strides[..], [12, 3, 1]);
        assert!(every_second.reshaped(&[30]).is_none());
        let with_ones = every_second.reshaped(&[5, 1, 6, 1]).unwrap().strides;
        assert_eq!((with_ones[0], with_ones[2]), (12, 1)); // the others are of axes of length 1
    }

    #[test]
    fn indices_mean_what_they_mean_in_python() {
        let range = |start, stop, step| Index::Range { start, stop, step };
        let reversed = layout(&[5]).indexed(&[range(None, None, -1)]).unwrap();
        assert_eq!((reversed.offset, &reversed.strides[..], &reversed.shape[..]), (4, &[-1][..], &[5][..]));
        let part = layout(&[4, 5]).indexed(&[Index::At(-1), range(Some(-4), Some(100), 2)]).unwrap();
        assert_eq!((part.offset, &part.strides[..], &part.shape[..]), (16, &[2][..], &[2][..]));
        let none = layout(&[4]).indexed(&[range(Some(3), Some(1), 1)]).unwrap();
        assert_eq!(none.shape[..], [0]);
        let middle = layout(&[2, 3, 4]).indexed(&[Index::Ellipsis, Index::NewAxis, Index::At(1)]).unwrap();
        assert_eq!((&middle.shape[..], middle.offset), (&[2, 3, 1][..], 1));
        assert!(layout(&[4]).indexed(&[Index::At(4)]).is_err());
        assert!(layout(&[4]).indexed(&[range(None, None, 0)]).is_err());
        assert!(layout(&[4]).indexed(&[Index::At(0), Index::At(0)]).is_err());
    }

    #[test]
    fn shapes_broadcast_as_in_numpy() {
        assert_eq!(broadcast("add", &[4, 1, 3], &[5, 1]).unwrap()[..], [4, 5, 3]);
        assert_eq!(broadcast("add", &[0], &[1]).unwrap()[..], [0]);
        let error = broadcast("add", &[2, 3], &[2]).unwrap_err();
        assert_eq!(error.to_string(), "add: shapes (2, 3) and (2,) do not fit together");
    }
}
