//! The positions of operands' elements in memory, with as few axes as describe them.

use rigel_gpu::{Error, Result};

/// The most axes that a kernel takes, after neighbours that can be one are merged.
pub(super) const MOST_AXES: usize = 16;
/// The most axes that a shape may have before.
pub(super) const MOST_GIVEN: usize = 64;
/// The most operands, the result among them: as many as a [`Classes`] has room for.
pub(super) const MOST_OPERANDS: usize = 32;

/// The arrangement of an operand's elements along some axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// One after the other, in row-major order.
    Flat = 0,
    /// One element everywhere.
    Single = 1,
    /// Elements at multiples of strides.
    Strided = 2,
}

/// The classes of all operands, two bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Classes(u64);

impl Classes {
    pub(super) fn of(self, operand: usize) -> Class {
        match self.0 >> (2 * operand) & 3 {
            0 => Class::Flat,
            1 => Class::Single,
            _ => Class::Strided,
        }
    }

    fn set(&mut self, operand: usize, class: Class) {
        self.0 |= (class as u64) << (2 * operand);
    }

    pub(super) fn any_strided(self) -> bool {
        self.0 & 0xaaaa_aaaa_aaaa_aaaa != 0
    }
}

/// Axes with a stride for each operand, outermost first, none of length 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axes {
    pub(super) rank: usize,
    pub(super) lengths: [usize; MOST_AXES],
    /// The strides of each operand.
    pub(super) strides: Vec<[isize; MOST_AXES]>,
}

impl Axes {
    /// The axes of these lengths, which are not empty, in the given order, with the strides `stride(operand, axis)`.
    /// Neighbours are merged where every operand's strides allow.
    pub(super) fn merged(
        operation: &'static str,
        lengths: &[usize],
        order: impl Iterator<Item = usize>,
        operands: usize,
        stride: impl Fn(usize, usize) -> isize,
    ) -> Result<Self> {
        let mut axes = Self { rank: 0, lengths: [1; MOST_AXES], strides: vec![[0; MOST_AXES]; operands] };
        for axis in order.filter(|&axis| lengths[axis] != 1) {
            let (rank, length) = (axes.rank, lengths[axis]);
            let joins = rank > 0
                && (0..operands)
                    .all(|k| axes.strides[k][rank - 1] == stride(k, axis).wrapping_mul(length as isize));
            let at = if joins { rank - 1 } else { rank };
            if at == MOST_AXES {
                let detail = format!(
                    "a shape of {} axes needs more than {MOST_AXES} even after neighbours are merged; work on slices \
                     of it",
                    lengths.len()
                );
                return Err(Error::shape(operation, detail));
            }
            axes.lengths[at] *= length;
            for (k, strides) in axes.strides.iter_mut().enumerate() {
                strides[at] = stride(k, axis);
            }
            axes.rank = at + 1;
        }
        Ok(axes)
    }

    /// The number of places.
    pub(super) fn count(&self) -> usize {
        self.lengths[..self.rank].iter().product()
    }

    /// The class of each operand. A single place is of every class: there it is `Flat`, so that no further kernel
    /// is needed.
    pub(super) fn classes(&self) -> Classes {
        let mut classes = Classes::default();
        for (operand, strides) in self.strides.iter().enumerate() {
            classes.set(operand, self.class(&strides[..self.rank]));
        }
        classes
    }

    fn class(&self, strides: &[isize]) -> Class {
        let mut contiguous = 1;
        let mut is_flat = true;
        for axis in (0..self.rank).rev() {
            is_flat &= strides[axis] == contiguous;
            contiguous *= self.lengths[axis] as isize;
        }
        match is_flat {
            true => Class::Flat,
            false if strides.iter().all(|&stride| stride == 0) => Class::Single,
            false => Class::Strided,
        }
    }

    /// Whether the number of places and every distance between two elements of an operand stay below 2^31.
    pub(super) fn is_small(&self) -> bool {
        const MOST: usize = 1 << 31;
        let span = |strides: &[isize; MOST_AXES]| {
            let reach = |axis: usize| (self.lengths[axis] - 1).saturating_mul(strides[axis].unsigned_abs());
            (0..self.rank).fold(0, |sum: usize, axis| sum.saturating_add(reach(axis)))
        };
        self.count() < MOST && self.strides.iter().all(|strides| span(strides) < MOST)
    }

    /// The words that a kernel splits a place with: of each axis but the outermost, its length and what it is
    /// divided by with.
    pub(super) fn push_lengths(&self, words: &mut Vec<u64>) {
        for &length in self.lengths[..self.rank].iter().skip(1) {
            words.extend([length as u64, magic(length)]);
        }
    }

    /// Appends the words of [`Self::push_lengths`], of every axis.
    pub(super) fn push_all_lengths(&self, words: &mut Vec<u64>) {
        for &length in &self.lengths[..self.rank] {
            words.extend([length as u64, magic(length)]);
        }
    }

    /// The strides of one operand.
    pub(super) fn push_strides(&self, operand: usize, words: &mut Vec<u64>) {
        words.extend(self.strides[operand][..self.rank].iter().map(|&stride| stride as u64));
    }
}

/// The multiplier m, and above it the shift s, with `n / d = (n + floor(n m / 2^32)) >> s` for all n below 2^32:
/// `m = floor(2^32 (2^s - d) / d) + 1` for the least s with `2^s >= d`. Zero for what is no 32-bit divisor.
fn magic(d: usize) -> u64 {
    let Ok(d) = u32::try_from(d).map(u64::from) else { return 0 };
    if d == 0 {
        return 0;
    }
    let shift = d.next_power_of_two().trailing_zeros();
    let multiplier = (((1u64 << shift) - d) << 32) / d + 1;
    u64::from(shift) << 32 | (multiplier & 0xffff_ffff)
}

/// The number of places of a shape.
pub(super) fn count(operation: &'static str, shape: &[usize]) -> Result<usize> {
    if shape.len() > MOST_GIVEN {
        let detail = format!("a shape has {} axes; there can be {MOST_GIVEN}", shape.len());
        return Err(Error::shape(operation, detail));
    }
    // An axis without places makes the shape empty, however long the others are.
    if shape.contains(&0) {
        return Ok(0);
    }
    let count = shape.iter().try_fold(1usize, |count, &length| count.checked_mul(length));
    count
        .filter(|&count| count <= isize::MAX as usize)
        .ok_or_else(|| Error::shape(operation, format!("a shape of {shape:?} has too many places")))
}

/// Refuses an operand whose elements, `size` bytes each, do not all lie within `bytes` bytes. The shape is not empty.
pub(super) fn check_reach(
    operation: &'static str,
    what: impl Fn() -> String,
    shape: &[usize],
    (offset, strides): (usize, &[isize]),
    (bytes, size): (usize, usize),
) -> Result<()> {
    if strides.len() != shape.len() {
        let detail = format!("{} has {} strides for {} axes", what(), strides.len(), shape.len());
        return Err(Error::shape(operation, detail));
    }
    let (mut least, mut most) = (offset as i128, offset as i128);
    for (&length, &stride) in shape.iter().zip(strides) {
        let reach = (length as i128 - 1) * stride as i128;
        if reach < 0 { least += reach } else { most += reach }
    }
    let elements = bytes / size;
    if least < 0 || most >= elements as i128 {
        let detail = format!("{} reaches from element {least} to {most}; its memory has {elements}", what());
        return Err(Error::shape(operation, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(lengths: &[usize], strides: &[&[isize]]) -> Axes {
        Axes::merged("test", lengths, 0..lengths.len(), strides.len(), |k, axis| strides[k][axis]).unwrap()
    }

    #[test]
    fn neighbours_merge_where_all_allow() {
        let flat = axes(&[2, 3, 4], &[&[12, 4, 1], &[12, 4, 1]]);
        assert_eq!((flat.rank, flat.lengths[0], flat.count()), (1, 24, 24));
        assert_eq!(flat.classes().of(1), Class::Flat);
        let rows = axes(&[2, 3, 1, 4], &[&[12, 4, 0, 1], &[0, 0, 9, 1]]);
        assert_eq!((rows.rank, rows.lengths[0], rows.lengths[1]), (2, 6, 4));
        assert_eq!(rows.classes().of(0), Class::Flat);
        assert_eq!(rows.classes().of(1), Class::Strided);
        assert_eq!(axes(&[5, 5], &[&[0, 0]]).classes().of(0), Class::Single);
        assert_eq!(axes(&[1, 1], &[&[7, 9]]).classes().of(0), Class::Flat);
        assert_eq!(axes(&[5], &[&[-1]]).classes().of(0), Class::Strided);
        let lengths = [2; MOST_AXES + 1];
        let strides: Vec<isize> = (0..=MOST_AXES as u32).map(|i| 3isize.pow(i)).collect();
        let merged = |axes: usize| Axes::merged("test", &lengths[..axes], 0..axes, 1, |_, axis| strides[axis]);
        assert!(merged(MOST_AXES).is_ok() && merged(MOST_AXES + 1).is_err());
    }

    #[test]
    fn divisions_are_exact() {
        let check = |n: u32, d: u32| {
            let magic = magic(d as usize);
            let high = (u64::from(n) * (magic & 0xffff_ffff)) >> 32;
            assert_eq!((high + u64::from(n)) >> (magic >> 32), u64::from(n / d), "{n} / {d}");
        };
        for d in (1..2000).chain((0..31).map(|k| 1 << k)).chain([0x7fff_ffff, 0x7fff_fffe, 0x5555_5555]) {
            for n in [0, 1, d - 1, d, d + 1, 12_345, 0x7fff_ffff, 0x7fff_fffe, (0x7fff_ffff / d) * d] {
                check(n & 0x7fff_ffff, d);
            }
        }
    }

    #[test]
    fn reach_is_bounded() {
        let check = |offset, strides: &[isize], bytes| {
            check_reach("test", || "it".into(), &[3, 2], (offset, strides), (bytes, 4))
        };
        assert!(check(0, &[2, 1], 24).is_ok());
        assert!(check(0, &[2, 1], 23).is_err());
        assert!(check(5, &[-2, -1], 24).is_ok());
        assert!(check(4, &[-2, -1], 24).is_err());
        assert!(check(0, &[2], 24).is_err());
        assert!(check(0, &[isize::MAX, isize::MAX], 24).is_err());
    }
}
