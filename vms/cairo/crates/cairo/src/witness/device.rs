//! The base trace, made on the device.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::offset_of;
use std::sync::Arc;

use cairo_air::air::PublicData;
use cairo_air::claims::CairoClaim;
use cairo_air::components::memory_address_to_id::MEMORY_ADDRESS_TO_ID_SPLIT;
use cairo_air::components::*;
use indexmap::IndexSet;
use rayon::prelude::*;
use rigel_gpu::{Buffer, Device, Fallback, Stream, View};
use rigel_kernels::field::Mersenne31;
use rigel_stwo::{BaseColumn, CudaBackend};
use stwo::core::fields::m31::M31;
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::backend::Column;
use stwo::prover::poly::circle::CircleEvaluation;
use stwo_cairo_adapter::ProverInput;
use stwo_cairo_adapter::builtins::{BuiltinSegments, MemorySegmentAddresses};
use stwo_cairo_adapter::memory::{EncodedMemoryValueId, Memory};
use stwo_cairo_adapter::opcodes::CasmStatesByOpcode;
use stwo_cairo_common::builtins::{
    ADD_MOD_BUILTIN_MEMORY_CELLS, BITWISE_BUILTIN_MEMORY_CELLS, EC_OP_BUILTIN_MEMORY_CELLS,
    MUL_MOD_BUILTIN_MEMORY_CELLS, PEDERSEN_BUILTIN_MEMORY_CELLS, POSEIDON_BUILTIN_MEMORY_CELLS,
    RANGE_CHECK_96_BUILTIN_MEMORY_CELLS, RANGE_CHECK_BUILTIN_MEMORY_CELLS,
};
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::{
    MAX_SEQUENCE_LOG_SIZE, PreProcessedTrace, PreProcessedTraceVariant,
};
use stwo_cairo_common::prover_types::cpu::CasmState;
use stwo_cairo_prover::witness::builtins::get_builtins;
use stwo_cairo_prover::witness::cairo_claim_generator::{CairoClaimGenerator, get_sub_components};
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;

use super::BaseTrace;
use super::host::{check, check_segments};
use super::kernels::{self, Inputs, Translated, translated};
use super::public::{cell, public_data};
use super::tables::{TABLES, offsets};
use crate::columns::Evaluation;
use crate::components::{empty_claim, spans};
use crate::error::{Error, Result};
use crate::panics::{caught, message};

/// The columns of a table of points: 28 limbs of each coordinate.
const POINT_COLUMNS: usize = 56;

/// The smallest column that upstream makes.
pub(crate) const SMALLEST: usize = 16;

/// The fields of upstream's lists of states.
macro_rules! with_opcodes {
    ($callback:ident!($($argument:expr),*)) => {
        $callback!(($($argument),*) add_opcode add_opcode_small add_ap_opcode assert_eq_opcode assert_eq_opcode_imm
            assert_eq_opcode_double_deref blake_compress_opcode call_opcode_abs call_opcode_rel_imm generic_opcode
            jnz_opcode_non_taken jnz_opcode_taken jump_opcode_abs jump_opcode_double_deref jump_opcode_rel
            jump_opcode_rel_imm mul_opcode mul_opcode_small qm_31_add_mul_opcode ret_opcode)
    };
}

/// The names of all opcodes' components, with the states of each.
fn opcodes(states: &CasmStatesByOpcode) -> Vec<(&'static str, &[CasmState])> {
    macro_rules! list {
        (($states:expr) $($name:ident)*) => {{
            let CasmStatesByOpcode { $($name),* } = $states;
            vec![$((stringify!($name), $name.as_slice())),*]
        }};
    }
    with_opcodes!(list!(states))
}

/// Notes a component with 2^`log_size` rows, of a builtin with the address of its segment, in the claim.
fn set_claim(claim: &mut CairoClaim, name: &str, log_size: u32, segment: u32) -> Result<()> {
    macro_rules! set {
        (($claim:expr, $wanted:expr) $($name:ident)*) => {
            match $wanted {
                $(stringify!($name) => $claim.$name = Some($name::Claim { log_size }),)*
                "verify_instruction" => $claim.verify_instruction = Some(verify_instruction::Claim { log_size }),
                "poseidon_aggregator" => $claim.poseidon_aggregator = Some(poseidon_aggregator::Claim { log_size }),
                "poseidon_3_partial_rounds_chain" => {
                    let claim = poseidon_3_partial_rounds_chain::Claim { log_size };
                    $claim.poseidon_3_partial_rounds_chain = Some(claim);
                }
                "poseidon_full_round_chain" => {
                    $claim.poseidon_full_round_chain = Some(poseidon_full_round_chain::Claim { log_size });
                }
                "pedersen_aggregator_window_bits_18" => {
                    $claim.pedersen_aggregator_window_bits_18 = Some(pedersen_aggregator_window_bits_18::Claim { log_size });
                }
                "partial_ec_mul_window_bits_18" => {
                    $claim.partial_ec_mul_window_bits_18 = Some(partial_ec_mul_window_bits_18::Claim { log_size });
                }
                "pedersen_aggregator_window_bits_9" => {
                    $claim.pedersen_aggregator_window_bits_9 = Some(pedersen_aggregator_window_bits_9::Claim { log_size });
                }
                "partial_ec_mul_window_bits_9" => {
                    $claim.partial_ec_mul_window_bits_9 = Some(partial_ec_mul_window_bits_9::Claim { log_size });
                }
                "cube_252" => $claim.cube_252 = Some(cube_252::Claim { log_size }),
                "range_check_252_width_27" => {
                    $claim.range_check_252_width_27 = Some(range_check_252_width_27::Claim { log_size });
                }
                "pedersen_builtin" => {
                    let pedersen_builtin_segment_start = segment;
                    let claim = pedersen_builtin::Claim { log_size, pedersen_builtin_segment_start };
                    $claim.pedersen_builtin = Some(claim);
                }
                "pedersen_builtin_narrow_windows" => {
                    let pedersen_builtin_segment_start = segment;
                    let claim = pedersen_builtin_narrow_windows::Claim { log_size, pedersen_builtin_segment_start };
                    $claim.pedersen_builtin_narrow_windows = Some(claim);
                }
                "poseidon_builtin" => {
                    let claim = poseidon_builtin::Claim { log_size, poseidon_builtin_segment_start: segment };
                    $claim.poseidon_builtin = Some(claim);
                }
                "bitwise_builtin" => {
                    let claim = bitwise_builtin::Claim { log_size, bitwise_builtin_segment_start: segment };
                    $claim.bitwise_builtin = Some(claim);
                }
                "add_mod_builtin" => {
                    let claim = add_mod_builtin::Claim { log_size, add_mod_builtin_segment_start: segment };
                    $claim.add_mod_builtin = Some(claim);
                }
                "mul_mod_builtin" => {
                    let claim = mul_mod_builtin::Claim { log_size, mul_mod_builtin_segment_start: segment };
                    $claim.mul_mod_builtin = Some(claim);
                }
                "range_check_builtin" => {
                    let claim = range_check_builtin::Claim { log_size, range_check_builtin_segment_start: segment };
                    $claim.range_check_builtin = Some(claim);
                }
                "range_check96_builtin" => {
                    let range_check96_builtin_segment_start = segment;
                    let claim = range_check96_builtin::Claim { log_size, range_check96_builtin_segment_start };
                    $claim.range_check96_builtin = Some(claim);
                }
                other => return Err(Error::Witness(format!("the component {other} has no claim on the device"))),
            }
        };
    }
    with_opcodes!(set!(claim, name));
    Ok(())
}

/// The components of opcodes that a run has, with their numbers of rows.
pub(crate) fn opcode_rows(input: &ProverInput) -> Vec<(&'static str, usize)> {
    let states = opcodes(&input.state_transitions.casm_states_by_opcode);
    states.into_iter().map(|(name, states)| (name, states.len())).filter(|(_, rows)| *rows > 0).collect()
}

/// The components of builtins that a run has, with their numbers of rows.
pub(crate) fn builtin_rows(input: &ProverInput, variant: PreProcessedTraceVariant) -> Vec<(&'static str, usize)> {
    let segments = &input.builtin_segments;
    let pedersen = match variant {
        PreProcessedTraceVariant::CanonicalSmall => "pedersen_builtin_narrow_windows",
        _ => "pedersen_builtin",
    };
    let all = [
        ("add_mod_builtin", segments.add_mod_builtin),
        ("bitwise_builtin", segments.bitwise_builtin),
        ("mul_mod_builtin", segments.mul_mod_builtin),
        (pedersen, segments.pedersen_builtin),
        ("poseidon_builtin", segments.poseidon_builtin),
        ("range_check96_builtin", segments.range_check96_builtin),
        ("range_check_builtin", segments.range_check_builtin),
        ("ec_op_builtin", segments.ec_op_builtin),
    ];
    let rows = |(name, segment): (&'static str, Option<MemorySegmentAddresses>)| {
        let segment = segment?;
        Some((name, segment.stop_ptr.saturating_sub(segment.begin_addr) / cells(name)?))
    };
    all.into_iter().filter_map(rows).collect()
}

/// The cells of an instance of a builtin.
fn cells(builtin: &str) -> Option<usize> {
    Some(match builtin {
        "add_mod_builtin" => ADD_MOD_BUILTIN_MEMORY_CELLS,
        "bitwise_builtin" => BITWISE_BUILTIN_MEMORY_CELLS,
        "ec_op_builtin" => EC_OP_BUILTIN_MEMORY_CELLS,
        "mul_mod_builtin" => MUL_MOD_BUILTIN_MEMORY_CELLS,
        "pedersen_builtin" | "pedersen_builtin_narrow_windows" => PEDERSEN_BUILTIN_MEMORY_CELLS,
        "poseidon_builtin" => POSEIDON_BUILTIN_MEMORY_CELLS,
        "range_check96_builtin" => RANGE_CHECK_96_BUILTIN_MEMORY_CELLS,
        "range_check_builtin" => RANGE_CHECK_BUILTIN_MEMORY_CELLS,
        _ => return None,
    })
}

/// A component that the device makes.
struct Work {
    component: &'static Translated,
    /// The number of inputs; of a builtin, of rows.
    rows: usize,
    /// The address of the builtin's segment.
    segment: u32,
}

/// Which components the device makes, and which the host, with the reason.
struct Plan {
    device: Vec<Work>,
    host: Vec<(&'static str, String)>,
}

impl Plan {
    fn new(
        states: &CasmStatesByOpcode,
        segments: &BuiltinSegments,
        preprocessed: &Arc<PreProcessedTrace>,
        on_host: &BTreeSet<String>,
    ) -> Result<Self> {
        let mut plan = Self { device: Vec::new(), host: Vec::new() };
        for (name, states) in opcodes(states) {
            if !states.is_empty() {
                plan.add(name, on_host, |component| Some(Work { component, rows: states.len(), segment: 0 }));
            }
        }
        let builtins = caught(|| get_builtins(segments, preprocessed.clone()));
        for name in builtins.map_err(|panic| Error::Witness(message(&*panic)))? {
            plan.add(name, on_host, |component| {
                let segment = segments.get_segment_by_name(name)?;
                let rows = (segment.stop_ptr - segment.begin_addr) / cells(name)?;
                Some(Work { component, rows, segment: segment.begin_addr as u32 })
            });
        }
        Ok(plan)
    }

    fn add(
        &mut self,
        name: &'static str,
        on_host: &BTreeSet<String>,
        work: impl FnOnce(&'static Translated) -> Option<Work>,
    ) {
        let reason = match translated(name) {
            _ if on_host.contains(name) => "it was asked for",
            Ok(component) => match work(component) {
                Some(work) => return self.device.push(work),
                None => "its segment is not known",
            },
            Err(reason) => reason,
        };
        self.host.push((name, format!("upstream's witness code makes it: {reason}")));
    }

    /// All components that the host makes, with the tables that they use.
    fn host_components(&self) -> IndexSet<&'static str> {
        self.host.iter().flat_map(|(name, _)| get_sub_components(name)).collect()
    }
}

/// The memory on the device, and how often everything is looked up.
struct Lookups<'a> {
    ids: Buffer<u32>,
    large: Buffer<u32>,
    small: Buffer<u32>,
    larges: usize,
    smalls: usize,
    address_counts: Buffer<u32>,
    large_counts: Buffer<u32>,
    small_counts: Buffer<u32>,
    /// By address.
    instruction_counts: Buffer<u32>,
    table_counts: Buffer<u32>,
    /// The points of Pedersen's hash, if the run hashes.
    points: Option<View<'a, Mersenne31>>,
    /// What went wrong, as bits of `row.cuh`.
    status: Buffer<u32>,
}

impl Lookups<'_> {
    fn new(stream: &Stream, memory: &Memory, instructions: usize) -> Result<Self> {
        // A buffer has at least a word, so that its address is one.
        let upload = |words: &[u32]| match words.is_empty() {
            true => stream.zeros(1),
            false => stream.upload(words),
        };
        let zeros = |len: usize| stream.zeros(len.max(1));
        let (larges, smalls) = (memory.f252_values.len(), memory.small_values.len());
        Ok(Self {
            ids: upload(id_words(&memory.address_to_id))?,
            large: upload(bytemuck::cast_slice(&memory.f252_values))?,
            small: upload(bytemuck::cast_slice(&memory.small_values))?,
            larges,
            smalls,
            address_counts: zeros(memory.address_to_id.len())?,
            large_counts: zeros(larges)?,
            small_counts: zeros(smalls)?,
            instruction_counts: zeros(instructions)?,
            table_counts: zeros(offsets().1)?,
            points: None,
            status: zeros(1)?,
        })
    }

    /// Makes a component's columns, and adds the inputs that it gives to other components.
    fn rows(
        &mut self,
        stream: &Stream,
        component: &'static Translated,
        from: &RowSource<'_>,
        given: &mut Given,
    ) -> Result<Vec<BaseColumn>> {
        let RowSource { size, enabled, inputs, multiplicities, segment } = *from;
        let mut trace = stream.alloc::<u32>(size * component.columns as usize)?;
        let lengths: Vec<usize> =
            component.gives.iter().map(|(_, count, words)| size * (count * words) as usize).collect();
        let mut gives = stream.alloc::<u32>(lengths.iter().sum::<usize>().max(1))?;
        let kernel = kernels::rows(stream.device(), component)?;
        let points = self.points;
        // `Sizes` of the kernel.
        let sizes: [u32; 8] = [
            size as u32,
            enabled as u32,
            segment,
            self.address_counts.len() as u32,
            self.larges as u32,
            self.smalls as u32,
            self.instruction_counts.len() as u32,
            points.map_or(0, |points| points.len() / POINT_COLUMNS) as u32,
        ];
        let arguments = (
            &mut trace,
            sizes,
            inputs,
            multiplicities,
            &self.ids,
            &self.large,
            &self.small,
            &mut self.address_counts,
            &mut self.large_counts,
            &mut self.small_counts,
            &mut self.instruction_counts,
            &mut self.table_counts,
            &mut gives,
            points,
            &mut self.status,
        );
        kernel.launch(stream, kernel.cover(size)?, arguments)?;
        if !lengths.is_empty() {
            let parts = gives.split(&lengths)?;
            for ((to, ..), part) in component.gives.iter().zip(parts) {
                given.entry(to).or_default().push(part);
            }
        }
        columns(trace, size)
    }

    /// Counts the cells of the public memory.
    fn public_memory(&mut self, stream: &Stream, addresses: &[u32]) -> Result<()> {
        if addresses.is_empty() {
            return Ok(());
        }
        let cells = stream.upload(addresses)?;
        let kernel = kernels::of_tables(stream.device(), kernels::PUBLIC_MEMORY)?;
        let arguments = (
            &cells,
            cells.len() as u32,
            &self.ids,
            self.address_counts.len() as u32,
            self.larges as u32,
            self.smalls as u32,
            &mut self.address_counts,
            &mut self.large_counts,
            &mut self.small_counts,
            &mut self.status,
        );
        Ok(kernel.launch(stream, kernel.cover(cells.len())?, arguments)?)
    }

    /// The columns of the table of addresses.
    fn address_table(&self, stream: &Stream, size: usize) -> Result<Vec<BaseColumn>> {
        let mut trace = stream.alloc::<u32>(2 * MEMORY_ADDRESS_TO_ID_SPLIT * size)?;
        let kernel = kernels::of_tables(stream.device(), kernels::ADDRESS_TABLE)?;
        let addresses = self.address_counts.len() as u32;
        let chunks = MEMORY_ADDRESS_TO_ID_SPLIT as u32;
        let arguments = (&mut trace, size as u32, chunks, &self.ids, &self.address_counts, addresses);
        kernel.launch(stream, kernel.cover(MEMORY_ADDRESS_TO_ID_SPLIT * size)?, arguments)?;
        columns(trace, size)
    }

    /// The columns of a part of the table of large values, or of the table of small ones.
    fn value_table(&mut self, stream: &Stream, large: bool, first: usize, size: usize) -> Result<Vec<BaseColumn>> {
        let (kernel, limbs, values, counts, len) = match large {
            true => (kernels::LARGE_TABLE, 28, &self.large, &self.large_counts, self.larges),
            false => (kernels::SMALL_TABLE, 8, &self.small, &self.small_counts, self.smalls),
        };
        let kernel = kernels::of_tables(stream.device(), kernel)?;
        let mut trace = stream.alloc::<u32>((limbs + 1) * size)?;
        let tables = &mut self.table_counts;
        let arguments =
            (&mut trace, size as u32, first as u32, values, counts, len as u32, tables, &mut self.status);
        kernel.launch(stream, kernel.cover(size)?, arguments)?;
        columns(trace, size)
    }

    /// Checks that every row could be made. Waits for the device.
    fn check(&self, stream: &Stream) -> Result<()> {
        let status = stream.download(&self.status)?[0];
        let reasons = [
            "a step reads an address outside of the memory",
            "a step reads an empty cell of the memory",
            "a value is outside of the range that Cairo's AIR checks",
            "a step executes an instruction outside of the memory",
        ];
        match reasons.iter().enumerate().find(|(bit, _)| status & (1 << bit) != 0) {
            Some((_, reason)) => Err(Error::Witness((*reason).into())),
            None => Ok(()),
        }
    }
}

/// What the rows of a component are made from.
#[derive(Clone, Copy)]
struct RowSource<'a> {
    /// The number of rows.
    size: usize,
    /// The number of rows that are not padding.
    enabled: usize,
    inputs: Option<View<'a, u32>>,
    multiplicities: Option<View<'a, u32>>,
    /// The address of the builtin's segment.
    segment: u32,
}

/// The inputs that components were given, in the order of the components that gave them.
type Given = HashMap<&'static str, Vec<Buffer<u32>>>;

/// Components that other components give inputs to, in the order in which upstream makes them.
const CHAIN: [&str; 9] = [
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

/// Splits memory into columns.
fn columns(words: Buffer<u32>, size: usize) -> Result<Vec<BaseColumn>> {
    let words = words.cast::<Mersenne31>()?;
    let lengths = vec![size; words.len() / size];
    let parts = words.split(&lengths)?;
    Ok(parts.into_iter().map(BaseColumn::from_buffer).collect::<rigel_gpu::Result<_>>()?)
}

/// Adds counts, from the first of them on, to a column.
fn add_counts(stream: &Stream, column: &mut BaseColumn, counts: View<'_, u32>) -> Result<()> {
    let (size, len) = (column.len(), counts.len());
    let kernel = kernels::of_tables(stream.device(), kernels::ADD_COUNTS)?;
    let arguments = (column.view_mut(), size as u32, counts, len as u32);
    Ok(kernel.launch(stream, kernel.cover(size)?, arguments)?)
}

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
    load_kernels(&device, &plan)?;

    let instructions = opcodes(&states).iter().map(|(_, states)| end_of_program(states)).max().unwrap_or(0);
    if instructions > memory.address_to_id.len() {
        return Err(Error::Witness("a step executes an instruction outside of the memory".into()));
    }
    let mut claim = empty_claim(public_data.clone());
    let mut made: HashMap<&'static str, Vec<BaseColumn>> = HashMap::new();
    let upload = || Lookups::new(stream, &memory, instructions);
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
        set_claim(&mut claim, name, size.ilog2(), *segment)?;
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
        set_claim(&mut claim, component.name, columns[0].len().ilog2(), 0)?;
        made.insert(component.name, columns);
    }
    for name in CHAIN {
        if let Some(parts) = given.remove(name) {
            let make = || chained(stream, &mut lookups, name, parts, &mut given);
            let columns = rigel_stwo::in_phase("base trace", make)?;
            set_claim(&mut claim, name, columns[0].len().ilog2(), 0)?;
            made.insert(name, columns);
        }
    }

    // What the host makes.
    let addresses = memory.address_to_id.len();
    if !host.is_empty() {
        let of_host =
            HostPart { components: &host, public_data, preprocessed, segments: &builtin_segments, executed };
        keep_on_host(&mut states, &plan);
        let (host_claim, columns) =
            rigel_stwo::in_phase("base trace (host)", || of_host.generate(states, Arc::new(memory)))?;
        merge(&mut claim, &host_claim, &mut made, rigel_stwo::upload(&columns)?)?;
    } else {
        // Freeing gigabytes takes a while.
        rayon::spawn(move || drop((states, memory)));
    }

    // The tables: the host's, with the device's counts added, or the device's.
    rigel_stwo::in_phase("base trace", || tables(stream, &mut lookups, &mut claim, &mut made, addresses))?;
    lookups.check(stream)?;
    check_segments(&claim, preprocessed.variant)?;
    let columns = in_order(&claim, made)?;
    let fallback = |(name, reason)| Fallback { part: name, ran_on: "CPU", reason };
    Ok(BaseTrace { columns, claim, lookups: None, on_host: plan.host.into_iter().map(fallback).collect() })
}

/// The points of Pedersen's hash, which are preprocessed columns.
fn points<'a>(
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
fn counted(
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
fn chained(
    stream: &Stream,
    lookups: &mut Lookups<'_>,
    name: &'static str,
    parts: Vec<Buffer<u32>>,
    given: &mut Given,
) -> Result<Vec<BaseColumn>> {
    let component = translated(name).map_err(|reason| Error::Witness(reason.into()))?;
    let inputs = joined(stream, &parts)?;
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
fn joined(stream: &Stream, parts: &[Buffer<u32>]) -> Result<Buffer<u32>> {
    let mut joined = stream.alloc(parts.iter().map(Buffer::len).sum())?;
    let mut at = 0;
    for part in parts {
        stream.copy(joined.range_mut(at..at + part.len())?, part)?;
        at += part.len();
    }
    Ok(joined)
}

/// Compiles what the plan needs on all cores, or finds it in the cache. Later proofs find it on the device.
fn load_kernels(device: &Device, plan: &Plan) -> Result<()> {
    let mut components: Vec<&'static Translated> = plan.device.iter().map(|work| work.component).collect();
    components.extend(translated("verify_instruction"));
    // With everything that they give inputs to.
    let mut next = 0;
    while let Some(component) = components.get(next) {
        for (to, ..) in component.gives {
            if !components.iter().any(|known| known.name == *to) {
                components.extend(translated(to));
            }
        }
        next += 1;
    }
    kernels::load(device, &components)?;
    Ok(())
}

/// The address after the last instruction that the states execute.
fn end_of_program(states: &[CasmState]) -> usize {
    states.par_iter().map(|state| state.pc.0 as usize + 1).max().unwrap_or(0)
}

/// The words of an instruction as `verify_instruction` takes them: its address; its offsets; the parts of its 9-bit
/// limbs 5 and 6 above them; limb 7.
type Instruction = [u32; 7];

/// The instructions that the device has counted, by address, and how often.
fn instructions_executed(
    stream: &Stream,
    lookups: &Lookups<'_>,
    memory: &Memory,
) -> Result<Vec<(Instruction, u32)>> {
    let counts = stream.download(&lookups.instruction_counts)?;
    let executed = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
    executed
        .map(|(address, count)| {
            let address = address as u32;
            let [low, middle, high, ..] = cell(memory, address)?.1;
            let word = u64::from(middle) << 32 | u64::from(low);
            let limb = |i: u32| (word >> (9 * i)) as u32 & 511;
            // Bits 63 to 71.
            let extension = (middle >> 31 | high << 1) & 511;
            let offsets = [low & 0xffff, low >> 16, middle & 0xffff];
            let words = [address, offsets[0], offsets[1], offsets[2], limb(5) & !7, limb(6), extension];
            Ok((words, count))
        })
        .collect()
}

/// Empties the lists of states whose components the device has made.
fn keep_on_host(states: &mut CasmStatesByOpcode, plan: &Plan) {
    macro_rules! empty {
        (($states:expr, $host:expr) $($name:ident)*) => {
            $(if !$host.iter().any(|(name, _)| *name == stringify!($name)) {
                $states.$name = Vec::new();
            })*
        };
    }
    with_opcodes!(empty!(states, plan.host));
}

/// What upstream's witness code makes some components from.
struct HostPart<'a> {
    components: &'a IndexSet<&'static str>,
    public_data: PublicData,
    preprocessed: &'a Arc<PreProcessedTrace>,
    segments: &'a BuiltinSegments,
    /// The instructions that the device has counted.
    executed: Vec<(Instruction, u32)>,
}

impl HostPart<'_> {
    fn generate(
        self,
        states: CasmStatesByOpcode,
        memory: Arc<Memory>,
    ) -> Result<(CairoClaim, Vec<crate::columns::HostColumn>)> {
        let Self { components, public_data, preprocessed, segments, executed } = self;
        let generate = move || {
            let mut generator = CairoClaimGenerator { public_data, ..Default::default() };
            generator.fill_components(components, states, segments, memory, preprocessed.clone());
            if let Some(instructions) = &generator.verify_instruction {
                for (words, count) in executed {
                    let [pc, offset0, offset1, offset2, high, middle, extension] =
                        words.map(M31::from_u32_unchecked);
                    let input = (pc, [offset0, offset1, offset2], [high, middle], extension);
                    instructions.mults.insert(input, count.into());
                }
            }
            let (columns, claim, _) = generator.write_trace();
            (claim, columns)
        };
        caught(generate).map_err(|panic| Error::Witness(message(&*panic)))
    }
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
    crate::components::merge_claims(claim, of_host);
    Ok(())
}

/// Makes the tables of memory, range checks and exclusive ors, or adds the device's counts to those of the host.
fn tables(
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

    let (offsets, _) = offsets();
    for (table, at) in TABLES.iter().zip(offsets) {
        if let Some(columns) = made.get_mut(table.name) {
            for (relation, column) in columns.iter_mut().enumerate() {
                let first = at + (relation << table.log_size());
                add_counts(stream, column, lookups.table_counts.range(first..first + column.len())?)?;
            }
        }
    }
    // The counts themselves are the columns of the other tables.
    let counts = std::mem::replace(&mut lookups.table_counts, stream.zeros(1)?);
    let parts = counts.split(&TABLES.each_ref().map(|table| table.cells()))?;
    for (table, part) in TABLES.iter().zip(parts) {
        let there = table.of().is_none_or(|user| made.contains_key(user));
        if there && !made.contains_key(table.name) {
            made.insert(table.name, columns(part, 1 << table.log_size())?);
            crate::components::set_table(claim, table.name);
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

/// The states as words, three each.
fn state_words(states: &[CasmState]) -> &[u32] {
    const {
        assert!(size_of::<CasmState>() == 12 && size_of::<M31>() == 4);
        assert!(
            offset_of!(CasmState, pc) == 0 && offset_of!(CasmState, ap) == 4 && offset_of!(CasmState, fp) == 8
        );
    }
    // SAFETY: a state is three words in this order, as checked above, and a field element is a word.
    unsafe { std::slice::from_raw_parts(states.as_ptr().cast(), 3 * states.len()) }
}

/// The identifiers as words.
fn id_words(ids: &[EncodedMemoryValueId]) -> &[u32] {
    const {
        assert!(size_of::<EncodedMemoryValueId>() == 4 && align_of::<EncodedMemoryValueId>() == 4);
    }
    // SAFETY: an identifier is one word.
    unsafe { std::slice::from_raw_parts(ids.as_ptr().cast(), ids.len()) }
}
