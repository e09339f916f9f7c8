//! Opened values in the order of upstream's proofs.

use p3_batch_stark::common::PreprocessedInstanceMeta;
use p3_batch_stark::proof::{BatchOpenedValues, OpenedValuesWithLookups};
use p3_commit::OpenedValues as Opened;
use p3_uni_stark::{OpenedValues, PreprocessedOpenedValues};

use crate::keys::batch_key::BatchKey;
use crate::upstream::config::DeviceConfig;

/// Converts the opened values of all rounds to upstream's type: random polynomials, trace, quotient and preprocessed
/// columns.
pub(crate) fn opened_values<E>(
    values: p3_commit::OpenedValues<E>,
    random: bool,
    preprocessed: bool,
) -> OpenedValues<E> {
    let mut rounds = values.into_iter();
    let mut round = || rounds.next().expect("one round per commitment");
    // The first matrix is opened at zeta and, if the AIR reads the next row, at the next point.
    let local_and_next = |matrices: Vec<Vec<Vec<E>>>| {
        let mut points = matrices.into_iter().flatten();
        (points.next().expect("every matrix is opened at zeta"), points.next())
    };
    let random = random.then(|| local_and_next(round()).0);
    let (trace_local, trace_next) = local_and_next(round());
    let quotient_chunks = round().into_iter().flatten().collect();
    let preprocessed = preprocessed.then(|| {
        let (local, next) = local_and_next(round());
        PreprocessedOpenedValues { local, next }
    });
    OpenedValues { trace_local, trace_next, preprocessed, quotient_chunks, random }
}

/// The opened values of all rounds, to be assigned to their tables.
pub(crate) struct Openings<'a, SC: DeviceConfig> {
    pub(crate) values: Opened<SC::Challenge>,
    pub(crate) chunk_counts: Vec<usize>,
    pub(crate) key: &'a BatchKey<SC>,
    pub(crate) main_next: Vec<bool>,
    pub(crate) preprocessed_next: Vec<bool>,
}

impl<SC: DeviceConfig> Openings<'_, SC> {
    pub(crate) fn by_table(self) -> BatchOpenedValues<SC::Challenge> {
        let mut rounds = self.values.into_iter();
        let mut round = || rounds.next().expect("one round per commitment");
        let mut random = if SC::HIDING { round() } else { Vec::new() }.into_iter();
        let (main, quotient) = (round(), round());
        let preprocessed = self.key.data.common.preprocessed.as_ref().map(|_| round());
        let mut permutation = rounds.next().unwrap_or_default().into_iter();
        let mut chunks = quotient.into_iter();
        let mut table_values = |(table, values): (usize, Vec<Vec<SC::Challenge>>)| {
            let values_of =
                |meta: &PreprocessedInstanceMeta| &preprocessed.as_ref().expect("committed")[meta.matrix_index];
            let mut lookup_values = match self.key.lookups(table).is_empty() {
                true => vec![Vec::new(), Vec::new()],
                false => permutation.next().expect("one matrix per table with lookups"),
            };
            OpenedValuesWithLookups {
                base_opened_values: OpenedValues {
                    trace_local: values[0].clone(),
                    trace_next: self.main_next[table].then(|| values[1].clone()),
                    preprocessed: self.key.preprocessed_of(table).map(|meta| PreprocessedOpenedValues {
                        local: values_of(meta)[0].clone(),
                        next: self.preprocessed_next[table].then(|| values_of(meta)[1].clone()),
                    }),
                    quotient_chunks: chunks
                        .by_ref()
                        .take(self.chunk_counts[table])
                        .map(|mut values| values.swap_remove(0))
                        .collect(),
                    random: random.next().map(|mut values| values.swap_remove(0)),
                },
                permutation_next: lookup_values.pop().expect("two points"),
                permutation_local: lookup_values.pop().expect("two points"),
            }
        };
        BatchOpenedValues { instances: main.into_iter().enumerate().map(&mut table_values).collect() }
    }
}
