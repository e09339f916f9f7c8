//! Error messages for faulty kernels.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt;

use super::region::{Region, place};
use super::runtime::{Block, Thread, fault, wait};

/// "thread (1, 0, 0) of block (2, 0, 0)".
pub(super) fn who(thread: [u32; 3], block: [u32; 3]) -> String {
    let [x, y, z] = thread;
    let [i, j, k] = block;
    format!("thread ({x}, {y}, {z}) of block ({i}, {j}, {k})")
}

/// Describes the fault that `thread` recorded in its block.
///
/// # Safety
///
/// The slots and the message that the block points to belong to a loaded module.
pub(super) unsafe fn describe(thread: &Thread, block: &Block, region: &Region) -> String {
    let who = who(thread.index, block.index);
    let (at, bytes) = (block.fault_address as usize, block.fault_bytes as usize);
    let verb = if block.fault_write != 0 { "writes" } else { "reads" };
    match block.fault {
        fault::OUT_OF_RANGE => {
            // SAFETY: as promised by the caller.
            let place = unsafe { locate(block, region, at, bytes) };
            format!("{who} {verb} {bytes} bytes at {at:#x}, {place}")
        }
        fault::MISALIGNED => format!("{who} {verb} {bytes} bytes at {at:#x}, which is not a multiple of {bytes}"),
        fault::SIGNAL => match bytes as i32 {
            libc::SIGFPE => format!("{who} divides by zero, or divides the least integer by -1"),
            _ => {
                // SAFETY: as promised by the caller.
                let place = unsafe { locate(block, region, at, 1) };
                format!("{who} uses address {at:#x}, {place} (or its local arrays and calls overflow its stack)")
            }
        },
        _ if block.message.is_null() => format!("{who} stopped the kernel"),
        // SAFETY: as promised by the caller.
        _ => format!("{who}: {}", unsafe { CStr::from_ptr(block.message) }.to_string_lossy()),
    }
}

/// Locates an address relative to the block's shared arrays or the device's buffers.
unsafe fn locate(block: &Block, region: &Region, at: usize, bytes: usize) -> String {
    let slabs = region.shared(0)..region.shared(super::fiber::SETS);
    if !slabs.contains(&at) {
        return region.describe(at, bytes);
    }
    let dynamic = (block.dynamic, block.dynamic_bytes as usize, "dynamic shared memory".to_string());
    let arrays = block.array[..block.arrays as usize].iter().map(|array| {
        // SAFETY: as promised by the caller.
        let (length, name) = unsafe { ((*array.slot).bytes, CStr::from_ptr((*array.slot).name)) };
        (array.at, length as usize, format!("__shared__ {}", name.to_string_lossy()))
    });
    let distance = |start: usize, length: usize| (start.saturating_sub(at)).max(at.saturating_sub(start + length));
    let nearest = arrays.chain([dynamic]).min_by_key(|&(start, length, _)| distance(start, length));
    nearest.map_or_else(String::new, |(start, length, name)| {
        place(start, length, "shared array", at, bytes) + &format!(" ({name})")
    })
}

/// A deadlocked block: its threads wait at different operations.
pub(super) struct Stuck {
    block: [u32; 3],
    /// The number of threads at each kind of wait, with the index and the mask of the first one.
    waits: BTreeMap<u32, (usize, [u32; 3], u32)>,
}

impl Stuck {
    pub(super) fn new<'a>(threads: impl Iterator<Item = &'a Thread>, block: [u32; 3]) -> Self {
        let mut waits = BTreeMap::new();
        for thread in threads {
            waits.entry(thread.wait).or_insert((0, thread.index, thread.mask)).0 += 1;
        }
        Self { block, waits }
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [i, j, k] = self.block;
        write!(f, "barrier divergence in block ({i}, {j}, {k}): ")?;
        for (n, (&kind, &(count, [x, y, z], mask))) in self.waits.iter().enumerate() {
            let comma = if n > 0 { ", " } else { "" };
            let name = wait::name(kind);
            let threads = if count == 1 { "thread waits" } else { "threads wait" };
            write!(f, "{comma}{count} {threads} in {name}")?;
            if kind >= wait::WARP_SYNC {
                write!(f, " with mask {mask:#010x}")?;
            }
            write!(f, " (the first is ({x}, {y}, {z}))")?;
        }
        Ok(())
    }
}
