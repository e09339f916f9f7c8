//! Parts of a matrix that is being uploaded.

use std::ops::Range;

/// The columns of a matrix in parts, so that the upload of one overlaps the work on those that have arrived. There is
/// at least one part, which may be empty.
///
/// ```
/// use rigel_kernels::layout::parts::Parts;
///
/// // Columns of 16 MiB.
/// let parts = Parts::new(20, 16 << 20, 1);
/// assert_eq!(parts.largest(), 5);
/// assert_eq!(parts.collect::<Vec<_>>(), [0..5, 5..10, 10..15, 15..18, 18..19, 19..20]);
/// assert_eq!(Parts::few(100, 16 << 20, 16, 1 << 30).collect::<Vec<_>>(), [0..64, 64..80, 80..96, 96..100]);
/// ```
#[derive(Clone, Debug)]
pub struct Parts {
    /// The parts that are left, the last one first.
    left: Vec<Range<usize>>,
}

impl Parts {
    /// Parts of so many columns of `column_bytes` bytes: quarters, or more if that is little data, and fewer and fewer
    /// columns at the end, because the work on the last part overlaps no upload. All but the last have a multiple of
    /// `block` columns.
    ///
    /// # Panics
    /// If `block` is zero.
    pub fn new(columns: usize, column_bytes: usize, block: usize) -> Self {
        const PARTS: usize = 4;
        const LEAST_SHARE: usize = 8;
        const LEAST_BYTES: usize = 32 << 20;
        let least = LEAST_BYTES / column_bytes.max(1);
        let largest = columns.div_ceil(PARTS).max(least).next_multiple_of(block).min(columns);
        Self::ending(columns, |first| {
            let left = columns - first;
            let half = left.div_ceil(2).next_multiple_of(block);
            let part = match largest {
                largest if left > largest => largest,
                largest if first > 0 && half < left && half >= largest / LEAST_SHARE => half,
                _ => left,
            };
            first + part
        })
    }

    /// Four parts, of a half, a quarter and two eighths, or one of less than `least_bytes` in all: for work that takes
    /// much less time than the upload. Each part costs the host time of its own. All but the last have a multiple of
    /// `block` columns, so there may be fewer.
    ///
    /// # Panics
    /// If `block` is zero.
    pub fn few(columns: usize, column_bytes: usize, block: usize, least_bytes: usize) -> Self {
        let is_little = columns.saturating_mul(column_bytes) < least_bytes;
        let end = |eighths: usize| (columns * eighths / 8).next_multiple_of(block).min(columns);
        let ends = if is_little { [columns; 4] } else { [4, 6, 7, 8].map(end) };
        Self::ending(columns, |first| ends.into_iter().find(|&end| end > first).unwrap_or(columns))
    }

    /// The parts that end where `end` says, given where they begin.
    fn ending(columns: usize, end: impl Fn(usize) -> usize) -> Self {
        let (mut left, mut first) = (Vec::new(), 0);
        loop {
            let next = end(first);
            left.push(first..next);
            first = next;
            if next >= columns {
                break;
            }
        }
        left.reverse();
        Self { left }
    }

    /// Whether one part is left.
    pub fn is_one(&self) -> bool {
        self.left.len() == 1
    }

    /// The number of columns of the largest part that is left.
    pub fn largest(&self) -> usize {
        self.left.iter().map(Range::len).max().unwrap_or(0)
    }
}

impl Iterator for Parts {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        self.left.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_smaller_at_the_end() {
        let sizes = |parts: Parts| parts.map(|part| part.len()).collect::<Vec<_>>();
        // KeccakAir of 2^17 rows, by the rate of Keccak.
        assert_eq!(sizes(Parts::new(2633, 1 << 19, 34)), [680, 680, 680, 306, 170, 117]);
        assert_eq!(sizes(Parts::new(9, 64 << 20, 8)), [8, 1]);
    }

    #[test]
    fn little_data_is_one_part() {
        for columns in [0, 1, 7, 1 << 10] {
            let mut parts = Parts::new(columns, 1 << 10, 8);
            assert_eq!([parts.next(), parts.next()], [Some(0..columns), None]);
        }
        assert_eq!(Parts::new(3, 0, 1).next(), Some(0..3));
        for columns in [0, 1, 3, 1 << 10] {
            let mut parts = Parts::few(columns, 1 << 10, 16, (columns << 10) + 1);
            assert_eq!([parts.next(), parts.next()], [Some(0..columns), None]);
        }
    }

    #[test]
    fn parts_are_whole_blocks_and_cover_the_columns() {
        for (columns, block) in (1..300).flat_map(|columns| [(columns, 1), (columns, 8), (columns, 34)]) {
            for (bytes, few) in
                [1 << 10, 1 << 20, 5 << 20, 64 << 20].map(|bytes| [(bytes, false), (bytes, true)]).concat()
            {
                let parts = if few {
                    Parts::few(columns, bytes, block, 64 << 20)
                } else {
                    Parts::new(columns, bytes, block)
                };
                let largest = parts.largest();
                let parts: Vec<_> = parts.collect();
                let ends = parts.windows(2).all(|pair| pair[0].end == pair[1].start && pair[1].start % block == 0);
                assert!(ends && parts[0].start == 0 && parts[parts.len() - 1].end == columns, "{parts:?}");
                assert!(parts.iter().all(|part| (1..=largest).contains(&part.len())), "{parts:?}");
            }
        }
    }
}
