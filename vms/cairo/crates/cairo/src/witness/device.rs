//! The base trace, made on the device.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cairo_air::claims::CairoClaim;
use cairo_air::components::memory_address_to_id::MEMORY_ADDRESS_TO_ID_SPLIT;
use cairo_air::components::{memory_address_to_id, memory_id_to_big, memory_id_to_small};
use rigel_gpu::{Buffer, Fallback, Stream};
use rigel_stwo::{BaseColumn, CudaBackend};
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::backend::Column;
use stwo::prover::poly::circle::CircleEvaluation;
use stwo_cairo_adapter::ProverInput;
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::{MAX_SEQUENCE_LOG_SIZE, PreProcessedTrace};
use stwo_cairo_common::prover_types::cpu::CasmState;

use super::BaseTrace;
use super::chain::{CHAIN, chained, counted, points};
use super::host::{PartOfTrace, check, check_segments};
use super::instructions::instructions_executed;
use super::kernels::{self, Inputs, Translated, translated};
use super::lookups::{Given, Lookups, RowSource, add_counts, columns};
use super::public::public_data;
use super::run::{Plan, SMALLEST, Work, end_of_program, keep_on_host, opcodes, state_words};
use super::tables::{self, TABLES, Table, offsets};
use crate::columns::Evaluation;
use crate::components::{empty_claim, merge_claims, set_claim, spans};
use crate::error::{Error, Result};

/// Makes the base trace on the current device. `fixed` are the preprocessed columns there, before their extension. The
/// components in `on_host` are made by upstream's code.
///
/// # Errors
/// An input that is not a valid run, or that the variant can't prove; errors of the device.
pub(crate) fn generate(
    input: ProverInput,
    preprocessed: &Arc<PreProcessedTrace>,
    fixed: &[Evaluation<CudaBackend>],
    on_host: &BTreeSet<String>,
) -> Result<BaseTrace<CudaBackend>> {
    check(&input, preprocessed.variant)?;
    let device = rigel_stwo::current()?;
    let stream = &device.compute()?;
    let ProverInput {
        state_transitions,
        memory,
        public_memory_addresses,
        builtin_segments,
        public_segment_context,
        ..
    } = input;
    let public_data = public_data(&memory, &state_transitions, public_segment_context)?;
    let mut states = state_transitions.casm_states_by_opcode;
    let plan = Plan::new(&states, &builtin_segments, preprocessed, on_host)?;
    let components = needed_components(&plan);
    // Compiled on all cores, or found in the cache. Later proofs find them on the device.
    kernels::load(&device, &components)?;

    let instructions = opcodes(&states).iter().map(|(_, states)| end_of_program(states)).max().unwrap_or(0);
    if instructions > memory.address_to_id.len() {
        return Err(Error::Witness("a step executes an instruction outside of the memory".into()));
    }
    let mut claim = empty_claim(public_data.clone());
    let mut made: HashMap<&'static str, Vec<BaseColumn>> = HashMap::new();
    let tables = tables::needed(|name| components.iter().any(|component| component.name == name));
    let upload = || Lookups::new(stream, &memory, instructions, tables);
    let mut lookups = rigel_stwo::in_phase("upload", upload)?;

    if plan.device.iter().any(|work| work.component.name.starts_with("pedersen_builtin")) {
        lookups.points = Some(points(preprocessed, fixed)?);
    }

    // Components whose rows come from states and segments.
    let mut given = Given::new();
    let by_opcode: HashMap<&str, &[CasmState]> = opcodes(&states).into_iter().collect();
    for Work { component, rows, segment } in &plan.device {
        let name = component.name;
        let size = rows.next_power_of_two().max(SMALLEST);
        let upload = || stream.upload(state_words(by_opcode[name]));
        let states = match component.inputs {
            Inputs::State => Some(rigel_stwo::in_phase("upload", upload)?),
            _ => None,
        };
        let inputs = states.as_ref().map(Buffer::view);
        let from = RowSource { size, enabled: *rows, inputs, multiplicities: None, segment: *segment };
        let make = || lookups.rows(stream, component, &from, &mut given);
        made.insert(name, rigel_stwo::in_phase("base trace", make)?);
        set_claim(&mut claim, name, size.ilog2(), *segment);
    }
    drop(by_opcode);
    lookups.public_memory(stream, &public_memory_addresses)?;

    // Instructions: by the host if one of its components executes some.
    let host = plan.host_components();
    let count = || instructions_executed(stream, &lookups, &memory);
    let executed = rigel_stwo::in_phase("base trace", count)?;
    if !host.contains("verify_instruction") && !executed.is_empty() {
        let component = translated("verify_instruction").map_err(|reason| Error::Witness(reason.into()))?;
        let words: Vec<u32> = executed.iter().flat_map(|(words, _)| *words).collect();
        let counts: Vec<u32> = executed.iter().map(|(_, count)| *count).collect();
        let columns = counted(stream, &mut lookups, component, &words, &counts, &mut given)?;
        set_claim(&mut claim, component.name, columns[0].len().ilog2(), 0);
        made.insert(component.name, columns);
    }
    for name in CHAIN {
        if let Some(parts) = given.remove(name) {
            let make = || chained(stream, &mut lookups, name, parts, &mut given);
            let columns = rigel_stwo::in_phase("base trace", make)?;
            set_claim(&mut claim, name, columns[0].len().ilog2(), 0);
            made.insert(name, columns);
        }
    }

    // What the host makes.
    let addresses = memory.address_to_id.len();
    if !host.is_empty() {
        let of_host =
            PartOfTrace { components: &host, public_data, preprocessed, segments: &builtin_segments, executed };
        keep_on_host(&mut states, &plan);
        let (host_claim, columns) =
            rigel_stwo::in_phase("base trace (host)", || of_host.generate(states, Arc::new(memory)))?;
        merge(&mut claim, &host_claim, &mut made, rigel_stwo::upload(&columns)?)?;
    } else {
        // Freeing gigabytes takes a while.
        rayon::spawn(move || drop((states, memory)));
    }

    // The tables: the host's, with the device's counts added, or the device's.
    let make = || make_tables(stream, &mut lookups, &mut claim, &mut made, addresses);
    rigel_stwo::in_phase("base trace", make)?;
    lookups.check(stream)?;
    check_segments(&claim, preprocessed.variant)?;
    let columns = in_order(&claim, made)?;
    let fallback = |(name, reason)| Fallback { part: name, ran_on: "CPU", reason };
    Ok(BaseTrace { columns, claim, lookups: None, on_host: plan.host.into_iter().map(fallback).collect() })
}

/// The components that the plan needs, with everything that they give inputs to.
fn needed_components(plan: &Plan) -> Vec<&'static Translated> {
    let mut components: Vec<&'static Translated> = plan.device.iter().map(|work| work.component).collect();
    components.extend(translated("verify_instruction"));
    let mut next = 0;
    while let Some(component) = components.get(next) {
        for (to, ..) in component.gives {
            if !components.iter().any(|known| known.name == *to) {
                components.extend(translated(to));
            }
        }
        next += 1;
    }
    components
}

/// Adds the host's components to the claim and to the columns by component.
fn merge(
    claim: &mut CairoClaim,
    of_host: &CairoClaim,
    made: &mut HashMap<&'static str, Vec<BaseColumn>>,
    columns: Vec<Evaluation<CudaBackend>>,
) -> Result<()> {
    let mut columns = columns.into_iter();
    for (name, log_sizes) in spans(of_host) {
        let of_component: Vec<BaseColumn> =
            columns.by_ref().take(log_sizes.len()).map(|column| column.values).collect();
        made.insert(name, of_component);
    }
    merge_claims(claim, of_host);
    Ok(())
}

/// Makes the tables of memory, range checks and exclusive ors, or adds the device's counts to those of the host.
fn make_tables(
    stream: &Stream,
    lookups: &mut Lookups<'_>,
    claim: &mut CairoClaim,
    made: &mut HashMap<&'static str, Vec<BaseColumn>>,
    addresses: usize,
) -> Result<()> {
    let size = addresses.saturating_sub(1).div_ceil(MEMORY_ADDRESS_TO_ID_SPLIT).next_power_of_two().max(SMALLEST);
    match made.get_mut("memory_address_to_id") {
        Some(columns) => {
            for (chunk, column) in columns.iter_mut().skip(1).step_by(2).enumerate() {
                let first = (1 + chunk * size).min(addresses);
                add_counts(stream, column, lookups.address_counts.range(first..)?)?;
            }
        }
        None => {
            made.insert("memory_address_to_id", lookups.address_table(stream, size)?);
            claim.memory_address_to_id = Some(memory_address_to_id::Claim { log_size: size.ilog2() });
        }
    }
    value_tables(stream, lookups, claim, made)?;

    let needed = &TABLES[..lookups.tables];
    for (table, at) in needed.iter().zip(offsets()) {
        if let Some(columns) = made.get_mut(table.name) {
            for (relation, column) in columns.iter_mut().enumerate() {
                let first = at + (relation << table.log_size());
                add_counts(stream, column, lookups.table_counts.range(first..first + column.len())?)?;
            }
        }
    }
    // The counts themselves are the columns of the other tables.
    let counts = std::mem::replace(&mut lookups.table_counts, stream.zeros(1)?);
    let parts = counts.split(&needed.iter().map(Table::cells).collect::<Vec<_>>())?;
    for (table, part) in needed.iter().zip(parts) {
        let there = table.of().is_none_or(|user| made.contains_key(user));
        if there && !made.contains_key(table.name) {
            made.insert(table.name, columns(part, 1 << table.log_size())?);
            set_claim(claim, table.name, table.log_size(), 0);
        }
    }
    Ok(())
}

/// The tables of large and of small values.
fn value_tables(
    stream: &Stream,
    lookups: &mut Lookups<'_>,
    claim: &mut CairoClaim,
    made: &mut HashMap<&'static str, Vec<BaseColumn>>,
) -> Result<()> {
    const LARGEST: usize = 1 << MAX_SEQUENCE_LOG_SIZE;
    if let Some(columns) = made.get_mut("memory_id_to_big") {
        for (part, column) in columns.iter_mut().skip(28).step_by(29).enumerate() {
            let first = (part * LARGEST).min(lookups.larges);
            add_counts(stream, column, lookups.large_counts.range(first..)?)?;
        }
        let Some(column) = made.get_mut("memory_id_to_small").and_then(|columns| columns.last_mut()) else {
            return Err(Error::Witness("there is no table of small values".into()));
        };
        return add_counts(stream, column, lookups.small_counts.view());
    }
    let (mut columns, mut big_log_sizes) = (Vec::new(), Vec::new());
    for first in (0..lookups.larges).step_by(LARGEST) {
        let size = (lookups.larges - first).min(LARGEST).next_power_of_two().max(SMALLEST);
        columns.extend(lookups.value_table(stream, true, first, size)?);
        big_log_sizes.push(size.ilog2());
    }
    made.insert("memory_id_to_big", columns);
    claim.memory_id_to_big = Some(memory_id_to_big::Claim { big_log_sizes });
    let size = lookups.smalls.next_power_of_two().max(SMALLEST);
    made.insert("memory_id_to_small", lookups.value_table(stream, false, 0, size)?);
    claim.memory_id_to_small = Some(memory_id_to_small::Claim { log_size: size.ilog2() });
    Ok(())
}

/// The columns in the order of the claim.
fn in_order(
    claim: &CairoClaim,
    mut made: HashMap<&'static str, Vec<BaseColumn>>,
) -> Result<Vec<Evaluation<CudaBackend>>> {
    let mut columns = Vec::new();
    for (name, log_sizes) in spans(claim) {
        let of_component = made.remove(name).unwrap_or_default();
        if !of_component.iter().map(|column| column.len()).eq(log_sizes.iter().map(|log_size| 1 << log_size)) {
            let found = of_component.len();
            let wanted = log_sizes.len();
            return Err(Error::Witness(format!(
                "{name} has {found} columns; the claim asks for {wanted}, or others"
            )));
        }
        columns.extend(
            of_component.into_iter().zip(log_sizes).map(|(values, log_size)| {
                CircleEvaluation::new(CanonicCoset::new(log_size).circle_domain(), values)
            }),
        );
    }
    Ok(columns)
}
