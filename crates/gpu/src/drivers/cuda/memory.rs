//! Device memory: reserved address ranges and the memory mapped to them, plain allocations, and pinned host
//! memory.

use std::collections::BTreeMap;
use std::ptr::{self, NonNull};

use cudarc::driver::sys::{
    self, CUdevice, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemAllocationType, CUmemLocation, CUmemLocationType, CUresult,
};

use super::context::Cuda;
use crate::base::{Error, MemoryInfo, Result, numa};
use crate::drivers::{DevicePtr, MemoryDriver};

/// The reserved ranges of a device, and the peers that may access them.
#[derive(Default)]
pub(super) struct Ranges {
    by_base: BTreeMap<u64, Range>,
    /// The peers admitted by `enable_peer`.
    guests: Vec<CUdevice>,
}

struct Range {
    bytes: usize,
    /// Address and bytes of each mapping, which can only be unmapped as a whole.
    pieces: Vec<(u64, usize)>,
}

impl Ranges {
    /// The reserved range that holds `[at, at + bytes)`.
    fn holding(&mut self, at: u64, bytes: usize) -> Option<&mut Range> {
        let (base, range) = self.by_base.range_mut(..=at).next_back()?;
        let end = at.checked_add(bytes as u64)?;
        (end <= *base + range.bytes as u64).then_some(range)
    }
}

/// The properties of device memory for `cuMemCreate`.
pub(super) fn allocation(device: CUdevice) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location(device),
        win32HandleMetaData: ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

fn location(device: CUdevice) -> CUmemLocation {
    CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device }
}

fn access(device: CUdevice) -> CUmemAccessDesc {
    CUmemAccessDesc { location: location(device), flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE }
}

impl MemoryDriver for Cuda {
    fn memory(&self) -> Result<MemoryInfo> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both numbers outlive the call.
        self.call("cuMemGetInfo", || unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok(MemoryInfo { free, total })
    }

    fn granularity(&self) -> usize {
        self.granularity
    }

    fn reserve(&self, bytes: usize) -> Result<DevicePtr> {
        let mut base = 0;
        self.call("cuMemAddressReserve", || {
            // SAFETY: `base` outlives the call; the driver checks the size.
            unsafe { sys::cuMemAddressReserve(&mut base, bytes, 0, 0, 0) }
        })?;
        self.ranges.lock().by_base.insert(base, Range { bytes, pieces: Vec::new() });
        Ok(DevicePtr(base))
    }

    fn map(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        // Locked throughout, so that a peer is admitted either before this mapping or after it, and never missed.
        let mut ranges = self.ranges.lock();
        let access: Vec<_> =
            [self.context.device].iter().chain(&ranges.guests).map(|device| access(*device)).collect();
        let Some(range) = ranges.holding(at.0, bytes) else {
            return Err(self.refuse("map", format!("{bytes} bytes at {:#x} are not in a reserved range", at.0)));
        };

        let mut memory = 0;
        let code = self.attempt(|| {
            // SAFETY: the description is complete, and both outlive the call.
            unsafe { sys::cuMemCreate(&mut memory, bytes, &allocation(self.context.device), 0) }
        });
        self.check_memory("cuMemCreate", code, bytes)?;
        // SAFETY: the range is reserved (above), and `memory` has `bytes` bytes.
        let mapped = self.attempt(|| unsafe { sys::cuMemMap(at.0, bytes, 0, memory, 0) });
        // A mapping keeps its memory allocated: once the handle is released, unmapping frees the memory.
        // SAFETY: this is the one reference to the handle that cuMemCreate gave.
        let released = self.attempt(|| unsafe { sys::cuMemRelease(memory) });
        self.check_memory("cuMemMap", mapped, bytes)?;
        // SAFETY: the range was just mapped, and `access` outlives the call.
        let opened = self.attempt(|| unsafe { sys::cuMemSetAccess(at.0, bytes, access.as_ptr(), access.len()) });
        let usable =
            self.check("cuMemRelease", released).and_then(|()| self.check_memory("cuMemSetAccess", opened, bytes));
        match usable {
            Ok(()) => range.pieces.push((at.0, bytes)),
            Err(_) => self.unmap(at.0, bytes),
        }
        usable
    }

    fn unmap(&self, at: DevicePtr, bytes: usize) {
        let mut ranges = self.ranges.lock();
        if let Some(range) = ranges.holding(at.0, bytes) {
            range.pieces.retain(|&piece| piece != (at.0, bytes));
            self.unmap(at.0, bytes);
        }
    }

    fn release(&self, base: DevicePtr, _bytes: usize) {
        let range = self.ranges.lock().by_base.remove(&base.0);
        if let Some(range) = range {
            self.give_back(base.0, range);
        }
    }

    fn alloc(&self, bytes: usize) -> Result<DevicePtr> {
        let mut at = 0;
        // SAFETY: `at` outlives the call.
        let code = self.attempt(|| unsafe { sys::cuMemAlloc_v2(&mut at, bytes.max(1)) });
        self.check_memory("cuMemAlloc", code, bytes)?;
        Ok(DevicePtr(at))
    }

    fn free(&self, at: DevicePtr) {
        // SAFETY: the address came from `alloc` and is not used again.
        self.attempt(|| unsafe { sys::cuMemFree_v2(at.0) });
    }

    fn mark(&self, _at: DevicePtr, _bytes: usize, _live: bool) {}

    fn check_foreign(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        self.check_memory_of_others(at, bytes)
    }

    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        let mut at = ptr::null_mut();
        // Portable: pinned for every context, so that one staging buffer serves all devices. Not write-combined,
        // because the host also reads from it.
        // The driver touches the memory to pin it, so it lies on the node of the thread that asks for it.
        let code = numa::on(self.properties.numa_node, || {
            // SAFETY: `at` outlives the call.
            self.attempt(|| unsafe { sys::cuMemHostAlloc(&mut at, bytes.max(1), sys::CU_MEMHOSTALLOC_PORTABLE) })
        });
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let detail = super::failure::describe(code);
            return Err(Error::OutOfPinnedMemory { requested: bytes, detail });
        }
        self.check("cuMemHostAlloc", code)?;
        NonNull::new(at.cast()).ok_or_else(|| self.refuse("cuMemHostAlloc", "the driver returned a null address"))
    }

    fn free_pinned(&self, at: NonNull<u8>, _bytes: usize) {
        // SAFETY: the address came from `alloc_pinned` and is not used again.
        self.attempt(|| unsafe { sys::cuMemFreeHost(at.as_ptr().cast()) });
    }
}

impl Cuda {
    /// Frees every reserved range.
    pub(super) fn release_all(&self) {
        let ranges = std::mem::take(&mut self.ranges.lock().by_base);
        for (base, range) in ranges {
            self.give_back(base, range);
        }
    }

    fn give_back(&self, base: u64, range: Range) {
        for (at, bytes) in range.pieces {
            self.unmap(at, bytes);
        }
        // SAFETY: the range is reserved, nothing is mapped in it, and it is no longer in the table. On a lost
        // device the call fails, and there is nothing to free.
        self.attempt(|| unsafe { sys::cuMemAddressFree(base, range.bytes) });
    }

    fn unmap(&self, at: u64, bytes: usize) {
        // SAFETY: this is exactly one mapping made by `map`, and the caller of the trait guarantees that no work
        // uses it any more.
        self.attempt(|| unsafe { sys::cuMemUnmap(at, bytes) });
    }

    /// Lets a peer access all memory of this device that is mapped now or later.
    pub(super) fn admit(&self, peer: CUdevice) -> Result<()> {
        let mut ranges = self.ranges.lock();
        if ranges.guests.contains(&peer) {
            return Ok(());
        }
        let access = access(peer);
        for (at, bytes) in ranges.by_base.values().flat_map(|range| &range.pieces) {
            // SAFETY: the piece is mapped while it is in the table, and `access` outlives the call.
            self.call("cuMemSetAccess", || unsafe { sys::cuMemSetAccess(*at, *bytes, &access, 1) })?;
        }
        ranges.guests.push(peer);
        Ok(())
    }

    /// Checks the code of a call that needs `bytes` of device memory.
    fn check_memory(&self, operation: &'static str, code: CUresult, bytes: usize) -> Result<()> {
        if code != CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return self.check(operation, code);
        }
        let MemoryInfo { free, total } = self.memory()?;
        Err(Error::OutOfMemory { device: self.name(), requested: bytes, free, total, in_use: 0, limit: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_must_lie_in_one_reserved_range() {
        let mut ranges = Ranges::default();
        ranges.by_base.insert(0x1000, Range { bytes: 0x1000, pieces: Vec::new() });
        ranges.by_base.insert(0x2000, Range { bytes: 0x800, pieces: Vec::new() });
        assert!(ranges.holding(0x1000, 0x1000).is_some());
        assert_eq!(ranges.holding(0x2400, 0x400).map(|range| range.bytes), Some(0x800));
        assert!(ranges.holding(0x1800, 0x1000).is_none());
        assert!(ranges.holding(0x800, 0x100).is_none());
        assert!(ranges.holding(0x2700, 0x200).is_none());
        assert!(ranges.holding(u64::MAX, 2).is_none());
    }
}
