//! Blocks of adjacent rows of a coset in bit-reversed order: the share of one of several devices.
//!
//! Row i of a domain is at `P(i) = w^rev(i)`, and `P(i + j) = P(i) P(j)` for i and j without a bit in common. So the
//! rows from `k m` up to `(k + 1) m`, m a power of two, are a coset of the subgroup of order m, itself in bit-reversed
//! order, and its shift is `P(k m)`.

use crate::domain::roots::ReversedPowers;
use crate::field::Field;

/// Block `index` of the blocks of 2^`log_rows` rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// The block's place among the blocks.
    pub index: usize,
    /// The logarithm of its number of rows.
    pub log_rows: u32,
}

impl Block {
    /// All 2^`log_rows` rows of a domain.
    pub fn whole(log_rows: u32) -> Self {
        Self { index: 0, log_rows }
    }

    /// The number of rows.
    pub fn rows(self) -> usize {
        1 << self.log_rows
    }

    /// The first row.
    pub fn first(self) -> usize {
        self.index << self.log_rows
    }

    /// The shift by which the block is a coset of the subgroup of as many points.
    pub fn shift<F: Field>(self) -> F {
        ReversedPowers::<F>::new().at(self.first())
    }

    /// The block that has the trace's next row for every row of this one, where it is smaller than a trace of
    /// 2^`log_trace` rows, and whether the rows are rotated: the next of row r is row r of that block or, if they are,
    /// its row `rev(rev(r) + 1)`.
    pub fn next(self, log_trace: u32) -> (Self, bool) {
        // Of a row's natural index within its coset, the low bits are those of the block's index, reversed.
        let bits = log_trace - self.log_rows;
        let reversed = |index: usize| if bits == 0 { 0 } else { index.reverse_bits() >> (usize::BITS - bits) };
        let within = self.index & ((1 << bits) - 1);
        let rotates = within + 1 == 1 << bits;
        let next = if rotates { 0 } else { reversed(reversed(within) + 1) };
        (Self { index: self.index - within + next, ..self }, rotates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Goldilocks, KoalaBear};

    #[test]
    fn blocks_are_cosets_and_follow_one_another() {
        fn check<F: Field>() {
            let powers = ReversedPowers::<F>::new();
            let (log_domain, log_trace) = (6, 5);
            let step = F::two_adic_generator(log_trace);
            for log_rows in 0..=log_trace {
                for index in 0..1 << (log_domain - log_rows) {
                    let block = Block { index, log_rows };
                    let (next, rotates) = block.next(log_trace);
                    for row in 0..block.rows() {
                        let point = block.shift::<F>() * powers.at(row);
                        assert_eq!(point, powers.at(block.first() + row));
                        let reverse = |row: usize| (0..log_rows).fold(0, |r, k| 2 * r + (row >> k & 1));
                        let place = if rotates { reverse((reverse(row) + 1) % block.rows()) } else { row };
                        assert_eq!(point * step, powers.at(next.first() + place), "{block:?} row {row}");
                    }
                }
            }
        }
        check::<KoalaBear>();
        check::<Goldilocks>();
    }
}
