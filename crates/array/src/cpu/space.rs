//! The index space of a result, with the strides of its operands.
//!
//! Indices are numbered row by row, where a row is the innermost axis. Adjacent axes are merged if all operands
//! step through them as one axis, and axes of length 1 are dropped.

/// The largest number of axes of a space.
pub(crate) const MAX_AXES: usize = 64;

/// A box: consecutive columns of consecutive rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) row: usize,
    pub(crate) rows: usize,
    pub(crate) column: usize,
    pub(crate) columns: usize,
}

impl Area {
    pub(crate) fn count(&self) -> usize {
        self.rows * self.columns
    }
}

/// A part of an operand's elements in an area: equally spaced rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// The offset of the first element in the operand's memory.
    pub(crate) start: isize,
    /// The number of rows.
    pub(crate) rows: usize,
    /// The stride between rows.
    pub(crate) row_stride: isize,
    /// The number of rows of the area before it.
    pub(crate) before: usize,
}

/// Axes with the strides of some operands.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    lengths: Vec<usize>,
    /// The strides of each operand, one per axis.
    strides: Vec<isize>,
}

impl Space {
    /// The space of the axes of `shape` in this order, the innermost last. An axis in `walls` (indices into that
    /// order) is not merged with the one before it. No length is 0.
    pub(crate) fn new(shape: &[usize], order: &[usize], walls: &[usize], operands: &[&[isize]]) -> Self {
        let mut lengths: Vec<usize> = Vec::with_capacity(order.len());
        // Stored by axis at first, since the number of axes is not known yet.
        let mut columns: Vec<isize> = Vec::with_capacity(order.len() * operands.len());
        let width = operands.len();
        let mut walled = false;
        for (position, &axis) in order.iter().enumerate() {
            walled |= walls.contains(&position);
            let length = shape[axis];
            if length == 1 {
                continue;
            }
            let step = |operand: &&[isize]| operand[axis];
            let last = columns.len().saturating_sub(width);
            let merges = !walled
                && !lengths.is_empty()
                && operands.iter().zip(&columns[last..]).all(|(o, &outer)| outer == step(o) * length as isize);
            if merges {
                *lengths.last_mut().expect("an axis to merge with") *= length;
                columns.truncate(last);
            } else {
                lengths.push(length);
            }
            columns.extend(operands.iter().map(step));
            walled = false;
        }
        let rank = lengths.len();
        let strides = (0..width * rank).map(|i| columns[i % rank * width + i / rank]).collect();
        Self { lengths, strides }
    }

    /// The lengths of its axes.
    pub(crate) fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// An operand's strides.
    pub(crate) fn strides(&self, operand: usize) -> &[isize] {
        let rank = self.lengths.len();
        &self.strides[operand * rank..(operand + 1) * rank]
    }

    /// The length of a row.
    pub(crate) fn columns(&self) -> usize {
        self.lengths.last().copied().unwrap_or(1)
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.lengths.iter().rev().skip(1).product()
    }

    /// The stride of an operand within a row.
    pub(crate) fn step(&self, operand: usize) -> isize {
        self.strides(operand).last().copied().unwrap_or(0)
    }

    /// The stride of an operand between rows, along the second innermost axis.
    pub(crate) fn row_step(&self, operand: usize) -> isize {
        self.strides(operand).iter().rev().nth(1).copied().unwrap_or(0)
    }

    /// Whether an operand has one element for all indices.
    pub(crate) fn is_uniform(&self, operand: usize) -> bool {
        self.strides(operand).iter().all(|&stride| stride == 0)
    }

    /// Whether an operand is contiguous in the order of the indices.
    pub(crate) fn is_flat(&self, operand: usize) -> bool {
        let mut expected = 1;
        self.strides(operand).iter().zip(&self.lengths).rev().all(|(&stride, &length)| {
            let as_expected = stride == expected;
            expected *= length as isize;
            as_expected
        })
    }

    /// The offset of the first element of an area in an operand's memory.
    pub(crate) fn start(&self, operand: usize, area: Area) -> isize {
        let strides = self.strides(operand);
        let Some((&step, outer)) = strides.split_last() else { return 0 };
        let mut rest = area.row;
        let mut start = area.column as isize * step;
        for (&stride, &length) in outer.iter().zip(&self.lengths).rev() {
            start += (rest % length) as isize * stride;
            rest /= length;
        }
        start
    }

    /// Visits an operand's elements in an area, in the order of the rows.
    pub(crate) fn segments(&self, operand: usize, area: Area, mut visit: impl FnMut(Segment)) {
        let outer = self.lengths.len().saturating_sub(1);
        let (lengths, strides) = (&self.lengths[..outer], self.strides(operand));
        let mut start = self.start(operand, area);
        if outer == 0 {
            return visit(Segment { start, rows: area.rows, row_stride: 0, before: 0 });
        }
        let mut place = [0; MAX_AXES];
        let mut rest = area.row;
        for axis in (0..outer).rev() {
            place[axis] = rest % lengths[axis];
            rest /= lengths[axis];
        }
        let last = outer - 1;
        let mut before = 0;
        while before < area.rows {
            let rows = (lengths[last] - place[last]).min(area.rows - before);
            visit(Segment { start, rows, row_stride: strides[last], before });
            before += rows;
            // Advance to the next row, with a carry from each axis that is at its end.
            start += rows as isize * strides[last];
            place[last] += rows;
            let mut axis = last;
            while axis > 0 && place[axis] == lengths[axis] {
                start += strides[axis - 1] - lengths[axis] as isize * strides[axis];
                place[axis] = 0;
                place[axis - 1] += 1;
                axis -= 1;
            }
        }
    }
}

/// The strides of a row-major array.
pub(crate) fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as isize;
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_merged_where_all_operands_allow() {
        let space = Space::new(&[2, 3, 1, 4], &[0, 1, 2, 3], &[], &[&[12, 4, 9, 1], &[0, 4, 9, 1]]);
        assert_eq!(space.lengths(), [2, 12]);
        assert_eq!((space.strides(0), space.strides(1)), (&[12, 1][..], &[0, 1][..]));
        assert!(space.is_flat(0) && !space.is_flat(1) && !space.is_uniform(1));
        let space = Space::new(&[2, 3, 4], &[0, 1, 2], &[2], &[&[12, 4, 1]]);
        assert_eq!(space.lengths(), [6, 4]);
        let space = Space::new(&[1, 1], &[0, 1], &[], &[&[5, 6]]);
        assert_eq!((space.rows(), space.columns()), (1, 1));
        assert!(space.is_uniform(0));
    }

    #[test]
    fn segments_cover_an_area_in_order() {
        let shape = [3, 4, 5, 6];
        let strides: [isize; 4] = [7, -11, 1000, 13];
        let space = Space::new(&shape, &[0, 1, 2, 3], &[], &[&strides]);
        assert_eq!(space.lengths(), shape);
        for (row, rows) in [(0, 60), (7, 1), (3, 29), (59, 1), (18, 4)] {
            let area = Area { row, rows, column: 2, columns: 3 };
            let mut found = Vec::new();
            space.segments(0, area, |s| {
                assert_eq!(s.before, found.len());
                found.extend((0..s.rows as isize).map(|i| s.start + i * s.row_stride));
            });
            let expected: Vec<isize> = (row..row + rows)
                .map(|r| {
                    let (r, k) = (r / 5, r % 5);
                    (r / 4) as isize * 7 - (r % 4) as isize * 11 + k as isize * 1000 + 26
                })
                .collect();
            assert_eq!(found, expected);
        }
    }
}
