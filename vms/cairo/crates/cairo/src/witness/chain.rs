//! Components whose inputs other components give.

use std::collections::BTreeMap;

use rigel_gpu::{Buffer, Stream, View};
use rigel_kernels::field::Mersenne31;
use rigel_stwo::{BaseColumn, CudaBackend};
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::PreProcessedTrace;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;

use super::kernels::{Inputs, Translated, translated};
use super::lookups::{Given, Lookups, POINT_COLUMNS, RowSource};
use super::run::SMALLEST;
use crate::columns::Evaluation;
use crate::error::{Error, Result};

/// Components that other components give inputs to, in the order in which upstream makes them.
pub(super) const CHAIN: [&str; 13] = [
    "blake_round",
    "blake_g",
    "triple_xor_32",
    "partial_ec_mul_generic",
    "pedersen_aggregator_window_bits_18",
    "partial_ec_mul_window_bits_18",
    "pedersen_aggregator_window_bits_9",
    "partial_ec_mul_window_bits_9",
    "poseidon_aggregator",
    "poseidon_3_partial_rounds_chain",
    "poseidon_full_round_chain",
    "cube_252",
    "range_check_252_width_27",
];

/// The points of Pedersen's hash, which are preprocessed columns.
pub(super) fn points<'a>(
    preprocessed: &PreProcessedTrace,
    fixed: &'a [Evaluation<CudaBackend>],
) -> Result<View<'a, Mersenne31>> {
    let is_point =
        |(id, _): &(PreProcessedColumnId, &'a Evaluation<CudaBackend>)| id.id.starts_with("pedersen_points_");
    let columns: Vec<_> = preprocessed.ids().into_iter().zip(fixed).filter(is_point).collect();
    // Consecutive columns of one length are uploaded together.
    match View::join(columns.iter().map(|(_, column)| column.values.view())) {
        Some(points) if columns.len() == POINT_COLUMNS => Ok(points),
        _ => Err(Error::Witness(format!("there are no {POINT_COLUMNS} columns of points, one after another"))),
    }
}

/// Makes a component from inputs that differ and how often each is looked up.
pub(super) fn counted(
    stream: &Stream,
    lookups: &mut Lookups<'_>,
    component: &'static Translated,
    words: &[u32],
    counts: &[u32],
    given: &mut Given,
) -> Result<Vec<BaseColumn>> {
    let (inputs, multiplicities) = (stream.upload(words)?, stream.upload(counts)?);
    let from = RowSource {
        size: counts.len().next_power_of_two().max(SMALLEST),
        enabled: counts.len(),
        inputs: Some(inputs.view()),
        multiplicities: Some(multiplicities.view()),
        segment: 0,
    };
    lookups.rows(stream, component, &from, given)
}

/// Makes a component from the inputs that others gave it.
pub(super) fn chained(
    stream: &Stream,
    lookups: &mut Lookups<'_>,
    name: &'static str,
    parts: Vec<Buffer<u32>>,
    given: &mut Given,
) -> Result<Vec<BaseColumn>> {
    let component = translated(name).map_err(|reason| Error::Witness(reason.into()))?;
    let inputs = joined(stream, parts)?;
    match component.inputs {
        Inputs::List { words } => {
            let enabled = inputs.len() / words as usize;
            let size = enabled.next_power_of_two().max(SMALLEST);
            let from = RowSource { size, enabled, inputs: Some(inputs.view()), multiplicities: None, segment: 0 };
            lookups.rows(stream, component, &from, given)
        }
        Inputs::Counted { words } => {
            // Upstream sorts the inputs by what comes first in them: the identifiers of what is hashed. The others
            // are those of the hash.
            let all = stream.download(&inputs)?;
            let mut counts: BTreeMap<&[u32], u32> = BTreeMap::new();
            for input in all.chunks_exact(words as usize) {
                *counts.entry(input).or_insert(0) += 1;
            }
            let words: Vec<u32> = counts.keys().copied().flatten().copied().collect();
            let counts: Vec<u32> = counts.into_values().collect();
            counted(stream, lookups, component, &words, &counts, given)
        }
        Inputs::State | Inputs::Segment => {
            Err(Error::Witness(format!("{name} takes no inputs of other components")))
        }
    }
}

/// Several buffers as one.
fn joined(stream: &Stream, mut parts: Vec<Buffer<u32>>) -> Result<Buffer<u32>> {
    if parts.len() == 1 {
        return Ok(parts.remove(0));
    }
    let mut joined = stream.alloc(parts.iter().map(Buffer::len).sum())?;
    let mut at = 0;
    for part in &parts {
        stream.copy(joined.range_mut(at..at + part.len())?, part)?;
        at += part.len();
    }
    Ok(joined)
}
