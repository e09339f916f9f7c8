//! The sizes of a statement's columns.

use rigel_statements::TableShape;
use stwo::core::air::Component;
use stwo::core::fields::qm31::SECURE_EXTENSION_DEGREE;
use stwo::prover::backend::simd::SimdBackend;
use stwo_constraint_framework::{INTERACTION_TRACE_IDX, ORIGINAL_TRACE_IDX};

use crate::statement::placeholder_components;
use crate::{HostColumn, Provable};

/// The number of columns from which on coefficients of short ones are stored.
const MANY: usize = 1000;

/// The rows of a short column at most.
const SHORT: usize = 1 << 12;

/// The logarithms of the lengths of a component's columns.
#[derive(Clone, Default)]
struct Lengths {
    trace: Vec<u32>,
    interaction: Vec<u32>,
}

/// The sizes of all columns but the preprocessed ones.
pub(super) struct Sizes {
    components: Vec<Lengths>,
    log_rows: u32,
}

impl Sizes {
    pub(super) fn of(statement: &dyn Provable<SimdBackend>) -> Self {
        let lengths = |component: Box<dyn Component>| {
            let bounds = component.trace_log_degree_bounds();
            let of = |tree: usize| bounds.get(tree).cloned().unwrap_or_default();
            Lengths { trace: of(ORIGINAL_TRACE_IDX), interaction: of(INTERACTION_TRACE_IDX) }
        };
        let components = placeholder_components(statement).into_iter().map(lengths).collect();
        Self { components, log_rows: statement.log_rows() }
    }

    /// Each component's columns of the trace.
    pub(super) fn tables(&self) -> Vec<TableShape> {
        let table = |lengths: &Lengths| TableShape {
            log_rows: lengths.trace.iter().copied().max().unwrap_or(0),
            columns: lengths.trace.len(),
        };
        self.components.iter().map(table).collect()
    }

    /// Whether there are [`MANY`] columns or more, [`SHORT`] rows long on average or shorter, apart from the
    /// preprocessed ones.
    ///
    /// For each column whose coefficients are not stored, upstream computes the points of its openings on one thread.
    /// The time that takes is worth more than the memory of short columns.
    pub(super) fn are_many_short_columns(&self) -> bool {
        let lengths = self.components.iter().flat_map(|lengths| lengths.trace.iter().chain(&lengths.interaction));
        let (columns, cells) =
            lengths.fold((0, 0), |(columns, cells), log| (columns + 1, cells + (1usize << log)));
        columns >= MANY && cells <= columns * SHORT
    }

    /// The bytes of all columns of all trees after their extension, including those of the composition polynomial.
    pub(super) fn extended_bytes(&self, preprocessed: &[HostColumn], log_blowup: u32) -> usize {
        let lengths = self.components.iter().flat_map(|lengths| lengths.trace.iter().chain(&lengths.interaction));
        let of_tables = preprocessed.iter().map(|column| column.domain.size()).sum::<usize>();
        let of_components = lengths.map(|log| 1usize << log).sum::<usize>();
        // Two halves, each as long as the longest columns.
        let of_composition = (2 * SECURE_EXTENSION_DEGREE) << self.log_rows;
        ((of_tables + of_components + of_composition) << log_blowup) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AllWorkloads, Workload};

    #[test]
    fn all_columns_are_counted() {
        for workload in Workload::ALL {
            let statement = SimdBackend::statement(workload, *workload.log_sizes().start() + 1, 1).unwrap();
            let sizes = Sizes::of(&*statement);
            let [_, trace, interaction] = statement.columns();
            let count =
                |of: fn(&Lengths) -> &Vec<u32>| sizes.components.iter().map(|one| of(one).len()).sum::<usize>();
            assert_eq!(count(|lengths| &lengths.trace), trace, "{workload}");
            assert_eq!(count(|lengths| &lengths.interaction), interaction, "{workload}");
            let logs: Vec<u32> = sizes.tables().iter().map(|table| table.log_rows).collect();
            assert_eq!(logs, statement.log_sizes(), "{workload}");
        }
        let fibonacci = SimdBackend::statement(Workload::WideFibonacci, 6, 1).unwrap();
        assert_eq!(Sizes::of(&*fibonacci).extended_bytes(&[], 1), (100 + 8) * 128 * 4);
    }

    /// The sizes that are known of a statement before it is made are those of the statement.
    #[test]
    fn sizes_are_known_from_the_name() {
        for workload in Workload::ALL {
            for log_size in workload.log_sizes().take(6) {
                let statement = SimdBackend::statement(workload, log_size, 1).unwrap();
                let columns = statement.preprocessed();
                let longest = columns.iter().map(|column| column.domain.log_size()).max().unwrap_or(0);
                assert_eq!(workload.preprocessed(log_size), (columns.len(), longest), "{workload} 2^{log_size}");
                assert_eq!(workload.log_rows(log_size), statement.log_rows(), "{workload} 2^{log_size}");
            }
        }
    }

    #[test]
    fn many_short_columns() {
        let sizes = |trace: Vec<u32>, interaction: Vec<u32>| Sizes {
            components: vec![Lengths { trace, interaction }],
            log_rows: 12,
        };
        assert!(sizes(vec![12; MANY - 4], vec![12; 4]).are_many_short_columns());
        assert!(sizes(vec![10; MANY], vec![16; 4]).are_many_short_columns());
        assert!(!sizes(vec![12; MANY - 5], vec![12; 4]).are_many_short_columns());
        assert!(!sizes(vec![12; MANY], vec![13]).are_many_short_columns());
    }
}
