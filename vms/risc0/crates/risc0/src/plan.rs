//! The device memory that a proof needs, before it starts.

use rigel_codegen::{Split, scratch_columns};
use rigel_gpu::{Bytes, Device};

use crate::circuit::{Circuit, Program};
use crate::error::{Error, Result};
use crate::operations::ACCUMULATION_PARTS;

/// Evaluations of a column on the committed domain, for each row of the trace.
const EXPANSION: usize = 4;
/// The words of a tree's digests for each row of the trace: two digests of eight words for each evaluation.
const TREE: usize = 2 * 8 * EXPANSION;
/// Words of an element of the extension.
const ELEMENT: usize = 4;

/// The bytes of device memory that a proof of 2^`po2` rows needs at once.
pub(crate) fn bytes(circuit: &Circuit, device: &Device, po2: u32) -> Result<usize> {
    let words = device.kept(&"RISC Zero's words a row", |device| Ok((words_of_a_row(circuit, device), 0)))?;
    Ok((4 * *words) << po2)
}

/// The words for each row of the trace in the phase that needs most.
///
/// Buffers give their memory back where upstream's prover is done with them, and at the end of the proof.
fn words_of_a_row(circuit: &Circuit, device: &Device) -> usize {
    let record = circuit.record();
    let (data, accum) = (record.data_columns, record.accum_columns);
    let scratch = |made: &Program| scratch_columns(&made.graph, &made.outputs, Split::of(device));
    let accumulation = &circuit.accumulation;
    // The data columns, their coefficients, evaluations and tree; fractions, and the columns that they become.
    let fractions = 2 * ELEMENT * accumulation.count;
    let terms = scratch(&accumulation.fractions).div_ceil(ACCUMULATION_PARTS);
    let accumulate = (2 + EXPANSION) * data + TREE + fractions + terms + accum + ELEMENT;
    // Coefficients, evaluations and trees of both groups.
    let committed = (1 + EXPANSION) * (data + accum) + 2 * TREE;
    // The check polynomial, which is brought into another order, and the points of the domain.
    let check = EXPANSION * (2 * ELEMENT + 1);
    let constraints = committed + check + EXPANSION * scratch(&circuit.constraints);
    // The evaluations and the tree of its parts, three combinations with their sum, and FRI.
    let open = committed + check + EXPANSION * ELEMENT * EXPANSION + TREE + 6 * ELEMENT * EXPANSION;
    accumulate.max(constraints).max(open)
}

/// Whether a proof of 2^`po2` rows fits.
pub(crate) fn check(circuit: &Circuit, device: &Device, po2: u32) -> Result<()> {
    let (needed, available) = (bytes(circuit, device, po2)?, device.available_memory()?);
    match needed <= available {
        true => Ok(()),
        false => Err(Error::Memory { po2, needed: Bytes(needed), available: Bytes(available) }),
    }
}
