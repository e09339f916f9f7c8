//! The functions that this crate and its C++ shim call of each other. `shim/operations.h` declares the same.

use std::ffi::{CStr, c_char, c_void};

use risc0_circuit_rv32im_sys::PreflightContext;

use crate::memory::Memory;

/// Bytes of a buffer.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) buffer: *const Memory,
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// A matrix: a whole buffer, column after column.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MatrixPart {
    pub(crate) buffer: *const Memory,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// A value of the extension, as its four stored words.
pub(crate) type Words = *const [u32; 4];

type State = *mut c_void;

/// The operations of the HAL.
#[repr(C)]
pub(crate) struct Operations {
    pub(crate) state: State,
    pub(crate) error: extern "C" fn(State) -> *const c_char,
    pub(crate) allocate: extern "C" fn(State, usize) -> *const Memory,
    pub(crate) release: extern "C" fn(State, *const Memory),
    pub(crate) write: extern "C" fn(State, Part, *const c_void) -> bool,
    pub(crate) read: extern "C" fn(State, Part, *mut c_void) -> bool,
    pub(crate) copy: extern "C" fn(State, Part, Part) -> bool,
    pub(crate) zero: extern "C" fn(State, Part) -> bool,
    pub(crate) hash_rows: extern "C" fn(State, Part, MatrixPart) -> bool,
    pub(crate) hash_fold: extern "C" fn(State, Part, Part) -> bool,
    pub(crate) query: extern "C" fn(State, Part, MatrixPart, Part, usize, usize) -> bool,
    pub(crate) bit_reverse: extern "C" fn(State, MatrixPart) -> bool,
    pub(crate) expand: extern "C" fn(State, MatrixPart, MatrixPart) -> bool,
    pub(crate) interpolate: extern "C" fn(State, MatrixPart) -> bool,
    pub(crate) shift: extern "C" fn(State, MatrixPart) -> bool,
    pub(crate) evaluate: extern "C" fn(State, Part, MatrixPart, Part, Part) -> bool,
    pub(crate) combine: extern "C" fn(State, MatrixPart, MatrixPart, Part, Words, Words) -> bool,
    pub(crate) subtract: extern "C" fn(State, MatrixPart, Part, Part, Words) -> bool,
    pub(crate) divide: extern "C" fn(State, MatrixPart, Part) -> bool,
    pub(crate) finalize: extern "C" fn(State, MatrixPart, MatrixPart) -> bool,
    pub(crate) fold: extern "C" fn(State, MatrixPart, MatrixPart, Words) -> bool,
    pub(crate) data_witness: extern "C" fn(State, MatrixPart, Part, Part, Part, Part) -> bool,
    pub(crate) accum_witness: extern "C" fn(State, MatrixPart, MatrixPart, Part, Part) -> bool,
    pub(crate) eval_check: extern "C" fn(State, MatrixPart, MatrixPart, MatrixPart, Part, Part, Words) -> bool,
    pub(crate) synchronize: extern "C" fn(State) -> bool,
}

/// The results of a preflight.
#[repr(C)]
pub(crate) struct PreflightParts {
    pub(crate) rows: *const u8,
    pub(crate) row_bytes: usize,
    pub(crate) aux: *const u8,
    pub(crate) aux_bytes: usize,
    pub(crate) cycles: u32,
    pub(crate) block_counts: *const u32,
    pub(crate) block_types: usize,
}

/// A node of the recorded circuit: an operation and its operands.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RecordedNode {
    pub(crate) operation: u32,
    pub(crate) operands: [u32; 4],
}

/// A value that must be zero where the condition is not.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RecordedConstraint {
    pub(crate) value: u32,
    pub(crate) condition: u32,
}

/// A term of the accumulation.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RecordedTerm {
    pub(crate) block: u32,
    pub(crate) selector: u32,
    pub(crate) numerator: u32,
    pub(crate) denominator: u32,
}

/// The recorded circuit.
#[repr(C)]
pub(crate) struct Recording {
    pub(crate) nodes: *const RecordedNode,
    pub(crate) node_count: usize,
    pub(crate) constraints: *const RecordedConstraint,
    pub(crate) constraint_count: usize,
    pub(crate) terms: *const RecordedTerm,
    pub(crate) term_count: usize,
    pub(crate) data_columns: usize,
    pub(crate) accum_columns: usize,
    pub(crate) argument_columns: usize,
    pub(crate) globals: usize,
    pub(crate) mixes: usize,
    pub(crate) big_integers: usize,
}

/// Upstream's prover over a HAL.
#[repr(C)]
pub(crate) struct RawProver {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn rigel_risc0_last_error() -> *const c_char;
    pub(crate) fn rigel_risc0_preflight(context: *const PreflightContext, out: *mut PreflightParts);
    pub(crate) fn rigel_risc0_prover_new(
        operations: *const Operations,
        po2: usize,
        compare: bool,
    ) -> *mut RawProver;
    pub(crate) fn rigel_risc0_prover_new_cpu(po2: usize) -> *mut RawProver;
    pub(crate) fn rigel_risc0_prover_free(prover: *mut RawProver);
    pub(crate) fn rigel_risc0_prove(prover: *mut RawProver, preflight: *const PreflightContext) -> bool;
    pub(crate) fn rigel_risc0_seal(prover: *mut RawProver, words: *mut usize) -> *mut u32;
    pub(crate) fn rigel_risc0_data_witness(
        data: *mut u32,
        globals: *mut u32,
        rows: *const u8,
        aux: *const u8,
        tables: *mut u32,
        count: usize,
    ) -> bool;
    pub(crate) fn rigel_risc0_accum_witness(
        accum: *mut u32,
        data: *const u32,
        globals: *const u32,
        mix: *const u32,
        count: usize,
    ) -> bool;
    pub(crate) fn rigel_risc0_compare(operations: *const Operations, seed: u32) -> *const c_char;
    pub(crate) fn rigel_risc0_record(out: *mut Recording) -> *const c_char;
}

/// The message of this thread's last call that failed.
pub(crate) fn last_error() -> String {
    // SAFETY: the shim returns a string that lives until the thread's next call.
    unsafe { CStr::from_ptr(rigel_risc0_last_error()) }.to_string_lossy().into_owned()
}
