//! The interaction columns of a component: running sums of the fractions of its lookups.
//!
//! They are computed from the AIR: the evaluator here reads a row of the trace, runs the component's own
//! constraints, collects the fractions that they add to relations, and sums each batch as the constraints do. So
//! there is no second description of a component's lookups that could differ from the first.

use std::ops::Mul;

use rayon::prelude::*;
use stwo::core::Fraction;
use stwo::core::fields::qm31::{SECURE_EXTENSION_DEGREE, SecureField};
use stwo::core::utils::{
    bit_reverse_index, circle_domain_index_to_coset_index, coset_index_to_circle_domain_index,
};
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::backend::simd::m31::{LOG_N_LANES, N_LANES, PackedBaseField};
use stwo::prover::backend::simd::qm31::PackedSecureField;
use stwo::prover::backend::{Backend, Column};
use stwo_constraint_framework::{
    EvalAtRow, FrameworkEval, LogupTraceGenerator, ORIGINAL_TRACE_IDX, PREPROCESSED_TRACE_IDX,
};

use crate::witness::{Evaluation, HostColumn};

/// Waits for a component's interaction columns, and the sum of all its fractions.
pub type PendingLogUp<B> = Box<dyn FnOnce() -> (Vec<Evaluation<B>>, SecureField)>;

/// An AIR whose interaction columns a backend can compute. In this crate a backend implements it once, for all AIRs.
pub trait LogUp<B: Backend> {
    /// Starts to compute the interaction columns and the sum of all fractions, from the backend's own columns: the
    /// preprocessed ones and those of the trace, in the order in which the AIR reads them. What it returns waits for
    /// the result.
    fn logup(&self, columns: [Vec<&Evaluation<B>>; 2]) -> PendingLogUp<B>;
}

impl<E: FrameworkEval + Sync> LogUp<SimdBackend> for E {
    fn logup(&self, columns: [Vec<&HostColumn>; 2]) -> PendingLogUp<SimdBackend> {
        let log_size = self.log_size();
        let rows: Vec<Vec<PackedFraction>> = (0..1usize << (log_size - LOG_N_LANES))
            .into_par_iter()
            .map(|vec_row| self.evaluate(FractionsAtRow::new(&columns, vec_row, log_size)).batches)
            .collect();

        let mut generator = LogupTraceGenerator::new(log_size);
        for batch in 0..rows[0].len() {
            generator.col_from_iter(rows.iter().map(|row| (row[batch].numerator, row[batch].denominator)));
        }
        let done = generator.finalize_last();
        Box::new(|| done)
    }
}

/// The index of the row that is `offset` steps along the coset from the one at `index`.
fn neighbour(index: usize, offset: isize, log_size: u32) -> usize {
    let step = circle_domain_index_to_coset_index(bit_reverse_index(index, log_size), log_size);
    let step = (step as isize + offset).rem_euclid(1 << log_size) as usize;
    bit_reverse_index(coset_index_to_circle_domain_index(step, log_size), log_size)
}

/// Fractions of [`N_LANES`] adjacent rows.
type PackedFraction = Fraction<PackedSecureField, PackedSecureField>;

/// Evaluates an AIR on [`N_LANES`] rows of the trace to collect its lookups.
struct FractionsAtRow<'a> {
    /// The component's preprocessed columns and its columns of the trace.
    columns: &'a [Vec<&'a HostColumn>; 2],
    /// The next column of each.
    next: [usize; 2],
    vec_row: usize,
    log_size: u32,
    fractions: Vec<PackedFraction>,
    /// The sums of the batches.
    batches: Vec<PackedFraction>,
}

impl<'a> FractionsAtRow<'a> {
    fn new(columns: &'a [Vec<&'a HostColumn>; 2], vec_row: usize, log_size: u32) -> Self {
        Self { columns, next: [0; 2], vec_row, log_size, fractions: Vec::new(), batches: Vec::new() }
    }
}

impl EvalAtRow for FractionsAtRow<'_> {
    type F = PackedBaseField;
    type EF = PackedSecureField;

    fn next_interaction_mask<const N: usize>(&mut self, tree: usize, offsets: [isize; N]) -> [Self::F; N] {
        assert!(tree == PREPROCESSED_TRACE_IDX || tree == ORIGINAL_TRACE_IDX, "tree {tree} does not exist yet");
        let values = &self.columns[tree][self.next[tree]].values;
        self.next[tree] += 1;
        offsets.map(|offset| match offset {
            0 => values.data[self.vec_row],
            _ => PackedBaseField::from_array(std::array::from_fn(|lane| {
                values.at(neighbour(self.vec_row * N_LANES + lane, offset, self.log_size))
            })),
        })
    }

    /// Constraints are ignored.
    fn add_constraint<G>(&mut self, _constraint: G)
    where
        Self::EF: Mul<G, Output = Self::EF> + From<G>,
    {
    }

    fn combine_ef(values: [Self::F; SECURE_EXTENSION_DEGREE]) -> Self::EF {
        PackedSecureField::from_packed_m31s(values)
    }

    fn write_logup_frac(&mut self, fraction: PackedFraction) {
        self.fractions.push(fraction);
    }

    fn finalize_logup_batched(&mut self, batching: &Vec<usize>) {
        assert_eq!(batching.len(), self.fractions.len(), "each entry of a relation is in one batch");
        let count = batching.iter().max().map_or(0, |last| last + 1);
        let sum = |batch| {
            let members = batching.iter().zip(&self.fractions).filter(|&(&of, _)| of == batch);
            members.map(|(_, &fraction)| fraction).sum()
        };
        self.batches = (0..count).map(sum).collect();
    }

    fn finalize_logup(&mut self) {
        self.batches = std::mem::take(&mut self.fractions);
    }

    fn finalize_logup_in_pairs(&mut self) {
        let pairs = self.fractions.chunks(2);
        self.batches = pairs.map(|pair| pair.iter().copied().sum()).collect();
    }
}

#[cfg(test)]
mod tests {
    use num_traits::{One, Zero};
    use stwo_constraint_framework::RelationEntry;

    use super::*;
    use crate::lookup::{Elements, fraction, relations};
    use crate::random::Random;
    use crate::witness::{field, fill};

    relations!(ValueElements: 1);

    /// Uses each value and yields that of the previous row, in separate batches.
    struct Neighbours {
        log_size: u32,
        elements: ValueElements,
        yields: bool,
    }

    impl FrameworkEval for Neighbours {
        fn log_size(&self) -> u32 {
            self.log_size
        }

        fn max_constraint_log_degree_bound(&self) -> u32 {
            self.log_size + 1
        }

        fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
            let [previous, value] = eval.next_interaction_mask(ORIGINAL_TRACE_IDX, [-1, 0]);
            eval.add_to_relation(RelationEntry::new(&self.elements, E::EF::one(), &[value]));
            if self.yields {
                eval.add_to_relation(RelationEntry::new(&self.elements, -E::EF::one(), &[previous]));
            }
            eval.finalize_logup_batched(&(0..=usize::from(self.yields)).collect());
            eval
        }
    }

    #[test]
    fn sums_are_those_of_the_fractions() {
        let elements = Elements::placeholder(1);
        for log_size in [4, 5, 8] {
            let trace = fill(log_size, 1, |row, cells| cells[0] = Random::new(1, 2).field(row));
            let made = |yields| {
                let eval = Neighbours { log_size, elements: elements.relation(0).into(), yields };
                eval.logup([Vec::new(), trace.iter().collect()])()
            };

            let (columns, sum) = made(false);
            let values = trace[0].values.to_cpu();
            let expected = values.iter().map(|&value| fraction::<1>(&elements.relation(0), field(1), &[value]));
            assert_eq!(sum, expected.fold(SecureField::zero(), |sum, value| sum + value));
            assert_eq!(columns.len(), SECURE_EXTENSION_DEGREE);

            // Each value is the previous value of exactly one row.
            let (columns, sum) = made(true);
            assert_eq!(sum, SecureField::zero());
            assert_eq!(columns.len(), 2 * SECURE_EXTENSION_DEGREE);
        }
    }
}
