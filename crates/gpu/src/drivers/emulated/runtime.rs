//! The structures shared with the shim; they mirror `shim/device.h` field by field.

use std::ffi::{c_char, c_void};

/// Threads of a warp.
pub(super) const WARP: usize = 32;
/// Maximum number of threads in a block.
pub(super) const MAX_THREADS: usize = 1024;
/// Maximum number of `__shared__` declarations in a kernel.
pub(super) const MAX_ARRAYS: usize = 32;
/// log2 of the size of [`Thread`] and of a fiber's stack; `self()` in the shim uses both.
pub(super) const LOG_THREAD: u32 = 6;
pub(super) const LOG_STACK: u32 = 17;

/// The reasons for which a thread is suspended, in the order of `enum Wait`.
pub(super) mod wait {
    pub(in super::super) const RUN: u32 = 0;
    pub(in super::super) const DONE: u32 = 1;
    pub(in super::super) const FAULT: u32 = 2;
    pub(in super::super) const SPIN: u32 = 3;
    pub(in super::super) const DECLARE: u32 = 4;
    pub(in super::super) const BLOCK_SYNC: u32 = 5;
    pub(in super::super) const BLOCK_OR: u32 = 6;
    pub(in super::super) const BLOCK_AND: u32 = 7;
    pub(in super::super) const BLOCK_COUNT: u32 = 8;
    pub(in super::super) const WARP_SYNC: u32 = 9;
    pub(in super::super) const WARP_SHUFFLE: u32 = 10;
    pub(in super::super) const WARP_BALLOT: u32 = 11;
    pub(in super::super) const WARP_ACTIVE: u32 = 12;
    pub(in super::super) const WARP_ADD: u32 = 13;
    pub(in super::super) const WARP_MIN: u32 = 14;
    pub(in super::super) const WARP_MAX: u32 = 15;
    pub(in super::super) const WARP_AND: u32 = 16;
    pub(in super::super) const WARP_OR: u32 = 17;
    pub(in super::super) const WARP_XOR: u32 = 18;

    /// The operation's name in CUDA.
    pub(in super::super) fn name(wait: u32) -> &'static str {
        match wait {
            BLOCK_SYNC => "__syncthreads",
            BLOCK_OR => "__syncthreads_or",
            BLOCK_AND => "__syncthreads_and",
            BLOCK_COUNT => "__syncthreads_count",
            WARP_SYNC => "__syncwarp",
            WARP_SHUFFLE => "a shuffle",
            WARP_BALLOT => "a vote",
            WARP_ACTIVE => "__activemask",
            _ => "a warp reduction",
        }
    }
}

/// The reasons for which a thread is stopped, in the order of `enum FaultKind`.
pub(super) mod fault {
    pub(in super::super) const OUT_OF_RANGE: u32 = 0;
    pub(in super::super) const MISALIGNED: u32 = 1;
    pub(in super::super) const SIGNAL: u32 = 2;
}

#[repr(C, align(64))]
pub(super) struct Thread {
    pub(super) stack: usize,
    pub(super) block: *mut Block,
    pub(super) index: [u32; 3],
    pub(super) linear: u32,
    pub(super) wait: u32,
    pub(super) mask: u32,
    pub(super) value: u64,
    pub(super) source: u32,
    pub(super) spins: u32,
}

#[repr(C)]
pub(super) struct Slot {
    pub(super) bytes: u32,
    pub(super) align: u32,
    pub(super) name: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Array {
    pub(super) slot: *const Slot,
    pub(super) at: usize,
}

#[repr(C)]
pub(super) struct Block {
    pub(super) worker: usize,
    pub(super) index: [u32; 3],
    pub(super) threads: [u32; 3],
    pub(super) blocks: [u32; 3],
    pub(super) dynamic_bytes: u32,
    pub(super) dynamic: usize,
    pub(super) fault: u32,
    /// Bytes of the access, or the number of the signal.
    pub(super) fault_bytes: u32,
    pub(super) fault_write: u32,
    pub(super) arrays: u32,
    pub(super) fault_address: u64,
    pub(super) message: *const c_char,
    pub(super) array: [Array; MAX_ARRAYS],
}

/// Passed to a module when it is loaded.
#[repr(C)]
pub(super) struct Runtime {
    pub(super) region: usize,
    pub(super) region_bytes: usize,
    pub(super) shadow: *const i8,
    pub(super) hurry: *const u32,
    pub(super) threads: usize,
    pub(super) wait: unsafe extern "C" fn(*mut Thread),
}

/// A module's description of a kernel.
#[repr(C)]
pub(super) struct Kernel {
    pub(super) entry: unsafe extern "C" fn(*const *const c_void),
    pub(super) parameters: u32,
    pub(super) sizes: *const u32,
    pub(super) passing: *const u8,
    pub(super) name: *const c_char,
}

const _: () = assert!(size_of::<Thread>() == 1 << LOG_THREAD);
