//! The kernels that make rows of components.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rigel_gpu::{Device, Kernel, Result};
use rigel_kernels::code::source;
use stwo_cairo_common::preprocessed_columns::blake::BLAKE_SIGMA;
use stwo_cairo_common::preprocessed_columns::poseidon_round_keys::round_keys;

use super::tables::declarations;

/// The rounds that have keys: 4 full ones, 27 times 3 partial ones, 4 full ones.
const POSEIDON_ROUNDS: usize = 35;

/// The inputs of a component's rows, apart from the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inputs {
    /// States of the machine.
    State,
    /// Inputs of so many words, and how often each is looked up.
    Counted { words: u32 },
    /// Inputs of so many words, in a multiple of 16.
    List { words: u32 },
    /// A segment of the memory.
    Segment,
}

/// A component whose witness code is translated.
pub(crate) struct Translated {
    pub(crate) name: &'static str,
    pub(crate) inputs: Inputs,
    pub(crate) columns: u32,
    /// The components that a row gives inputs to, with how many, and the words of each.
    pub(crate) gives: &'static [(&'static str, u32, u32)],
    /// The function that makes a row.
    text: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/translated.rs"));

/// The translated component of this name; the reason if there is none.
pub(crate) fn translated(name: &str) -> Result<&'static Translated, &'static str> {
    let reason =
        || UNTRANSLATED.iter().find(|(of, _)| *of == name).map_or("it is not known", |(_, reason)| reason);
    TRANSLATED.iter().find(|component| component.name == name).ok_or_else(reason)
}

/// The kernels of this module.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Rows(&'static str),
    Tables(&'static str),
}

/// The kernel that makes the rows of a component.
pub(crate) fn rows(device: &Device, component: &'static Translated) -> Result<Arc<Kernel>> {
    device.kept(&Key::Rows(component.name), |device| {
        let Translated { name, text, inputs, .. } = component;
        // Upstream pads lists by whole vectors.
        let repeated = if matches!(inputs, Inputs::List { .. }) { 16 } else { 1 };
        let uses = |names: &[&str]| names.iter().any(|name| text.contains(name));
        let mut deductions = String::new();
        if uses(&["Poseidon", "Cube252"]) {
            deductions.push_str(&poseidon());
        }
        if uses(&["Blake", "TripleXor32", "blake_round(row"]) {
            deductions.push_str(&blake());
        }
        if uses(&["PartialEcMulGeneric"]) {
            deductions.push_str(include_str!("curve.cuh"));
        }
        let text = format!(
            "{}{}{deductions}\n{text}\n\
             struct Sizes {{ u32 size, enabled, segment, addresses, larges, smalls, instructions, points; }};\n\
             __global__ void witness(u32* trace, Sizes sizes, const u32* inputs, const u32* multiplicities,\n\
             const u32* ids, const u32* large, const u32* small, u32* address_counts, u32* large_counts,\n\
             u32* small_counts, u32* instruction_counts, u32* table_counts, u32* given, const u32* points,\n\
             u32* status) {{\n\
             const u32 index = blockIdx.x * blockDim.x + threadIdx.x;\n\
             if (index >= sizes.size) return;\n\
             const Memory memory = {{ids, sizes.addresses, large, sizes.larges, small, sizes.smalls,\n\
             address_counts, large_counts, small_counts, status}};\n\
             {name}(Row{{trace, sizes.size, index, sizes.enabled, inputs, multiplicities, {repeated}, given,\n\
             sizes.segment, memory, instruction_counts, sizes.instructions, {{table_counts, status}},\n\
             {{points, sizes.points}}}});\n}}\n",
            include_str!("row.cuh"),
            declarations(),
        );
        // SAFETY: `row.cuh` checks every index that comes from memory against the length that belongs to its pointer;
        // a row writes the columns that the component has, and the caller allocates so many.
        let source = unsafe { source(&format!("{name}.cu"), &text) };
        Ok((device.compile(&source.kernel("witness"))?.kernel("witness")?, 0))
    })
}

/// The deductions of Poseidon, with the round keys.
fn poseidon() -> String {
    let mut keys = String::new();
    for key in (0..POSEIDON_ROUNDS).flat_map(round_keys) {
        for limb in key.limbs {
            keys.push_str(&format!("{}u, {}u, ", limb as u32, (limb >> 32) as u32));
        }
        keys.push('\n');
    }
    format!(
        "constexpr u32 ROUNDS = {POSEIDON_ROUNDS};\n__device__ static const u32 ROUND_KEYS[] = {{\n{keys}}};\n{}",
        include_str!("poseidon.cuh")
    )
}

/// The deductions of Blake2s, with the order of the message's words in each round.
fn blake() -> String {
    let sigma: Vec<String> = BLAKE_SIGMA.iter().flatten().map(|word| format!("{word}u")).collect();
    format!(
        "constexpr u32 BLAKE_ROUNDS = {};\n__device__ static const u32 BLAKE_SIGMA[] = {{{}}};\n{}",
        BLAKE_SIGMA.len(),
        sigma.join(", "),
        include_str!("blake.cuh")
    )
}

/// A kernel of `tables.cu`, by its expression.
pub(crate) fn of_tables(device: &Device, expression: &'static str) -> Result<Arc<Kernel>> {
    device.kept(&Key::Tables(expression), |device| {
        let text = format!("{}{}\n{}", include_str!("row.cuh"), declarations(), include_str!("tables.cu"));
        // SAFETY: the kernels check every index against the lengths that they are given.
        let mut source = unsafe { source("tables.cu", &text) };
        for kernel in TABLE_KERNELS {
            source = source.kernel(kernel);
        }
        Ok((device.compile(&source)?.kernel(expression)?, 0))
    })
}

/// The kernels of `tables.cu`.
pub(crate) const ADDRESS_TABLE: &str = "address_table";
pub(crate) const LARGE_TABLE: &str = "value_table<8, 28, 8>";
pub(crate) const SMALL_TABLE: &str = "value_table<4, 8, 4>";
pub(crate) const PUBLIC_MEMORY: &str = "public_memory";
pub(crate) const ADD_COUNTS: &str = "add_counts";
const TABLE_KERNELS: [&str; 5] = [ADDRESS_TABLE, LARGE_TABLE, SMALL_TABLE, PUBLIC_MEMORY, ADD_COUNTS];

/// Compiles the kernels of these components and of the tables on all cores, or loads them from the cache. Returns their
/// number.
pub(crate) fn load(device: &Device, components: &[&'static Translated]) -> Result<usize> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<usize> {
        let mut done = 0;
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                0 => of_tables(device, ADDRESS_TABLE).map(drop)?,
                n if n <= components.len() => rows(device, components[n - 1]).map(drop)?,
                _ => return Ok(done),
            }
            done += 1;
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(components.len() + 1);
    thread::scope(|scope| {
        let working: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        working.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).sum()
    })
}
