//! The memory of one device.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;

use super::device::Device;
use super::region::{GRANULARITY, PAGE, Region};
use crate::base::{Error, Lock, MemoryInfo, Result};
use crate::drivers::{DevicePtr, MemoryDriver};

pub(super) struct Memory {
    device: String,
    total: usize,
    region: Arc<Region>,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    used: usize,
    /// Reserved ranges by address: their length, and how many bytes are mapped.
    reserved: BTreeMap<usize, (usize, usize)>,
    /// Separate allocations by address, and their length.
    allocated: BTreeMap<usize, usize>,
}

impl Memory {
    pub(super) fn new(device: String, total: usize, region: Arc<Region>) -> Self {
        Self { device, total, region, state: Lock::default() }
    }

    pub(super) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    pub(super) fn info(&self) -> MemoryInfo {
        MemoryInfo { free: self.total - self.state.lock().used, total: self.total }
    }

    fn full(&self, requested: usize, used: usize) -> Error {
        Error::OutOfMemory {
            device: self.device.clone(),
            requested,
            free: self.total - used,
            total: self.total,
            in_use: used,
            limit: None,
        }
    }

    fn failed(&self, operation: &'static str, detail: String) -> Error {
        Error::Driver { device: self.device.clone(), operation, detail }
    }

    pub(super) fn reserve(&self, bytes: usize) -> Result<DevicePtr> {
        let at = self.region.take(room(bytes), GRANULARITY).ok_or_else(|| {
            self.failed("reserving addresses", format!("{bytes} bytes requested, {} in total", self.region.bytes))
        })?;
        self.state.lock().reserved.insert(at, (bytes, 0));
        Ok(DevicePtr(at as u64))
    }

    pub(super) fn map(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        let at = at.0 as usize;
        let mut state = self.state.lock();
        let used = state.used;
        if bytes > self.total - used {
            return Err(self.full(bytes, used));
        }
        let range = state.reserved.range_mut(..=at).next_back();
        let Some((_, (_, mapped))) = range.filter(|(base, (length, _))| at + bytes <= *base + length) else {
            return Err(self.failed("mapping memory", format!("{bytes} bytes at {at:#x} are not reserved")));
        };
        self.region.commit(at, bytes)?;
        *mapped += bytes;
        state.used += bytes;
        Ok(())
    }

    pub(super) fn unmap(&self, at: DevicePtr, bytes: usize) {
        let at = at.0 as usize;
        let mut state = self.state.lock();
        if let Some((_, (_, mapped))) = state.reserved.range_mut(..=at).next_back() {
            *mapped -= bytes;
            state.used -= bytes;
            self.region.withdraw(at, bytes);
        }
    }

    pub(super) fn release(&self, base: DevicePtr) {
        let base = base.0 as usize;
        let mut state = self.state.lock();
        if let Some((bytes, mapped)) = state.reserved.remove(&base) {
            state.used -= mapped;
            self.region.give(base, room(bytes));
        }
    }

    pub(super) fn alloc(&self, bytes: usize) -> Result<DevicePtr> {
        let mut state = self.state.lock();
        if bytes > self.total - state.used {
            return Err(self.full(bytes, state.used));
        }
        let at = self
            .region
            .take(room(bytes), PAGE)
            .ok_or_else(|| self.failed("allocating memory", format!("no addresses are left for {bytes} bytes")))?;
        self.region.commit(at, room(bytes))?;
        self.region.mark(at, bytes, true);
        state.used += bytes;
        state.allocated.insert(at, bytes);
        Ok(DevicePtr(at as u64))
    }

    pub(super) fn free(&self, at: DevicePtr) {
        let at = at.0 as usize;
        let mut state = self.state.lock();
        if let Some(bytes) = state.allocated.remove(&at) {
            state.used -= bytes;
            self.region.give(at, room(bytes));
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Other devices may still use the same region.
        let state = std::mem::take(self.state.get_mut());
        for (base, (bytes, _)) in state.reserved {
            self.region.give(base, room(bytes));
        }
        for (at, bytes) in state.allocated {
            self.region.give(at, room(bytes));
        }
    }
}

impl MemoryDriver for Device {
    fn memory(&self) -> Result<MemoryInfo> {
        Ok(self.memory.info())
    }

    fn granularity(&self) -> usize {
        GRANULARITY
    }

    fn reserve(&self, bytes: usize) -> Result<DevicePtr> {
        self.memory.reserve(bytes)
    }

    fn map(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        self.memory.map(at, bytes)
    }

    fn unmap(&self, at: DevicePtr, bytes: usize) {
        self.memory.unmap(at, bytes);
    }

    fn release(&self, base: DevicePtr, _bytes: usize) {
        self.memory.release(base);
    }

    fn alloc(&self, bytes: usize) -> Result<DevicePtr> {
        self.memory.alloc(bytes)
    }

    fn free(&self, at: DevicePtr) {
        self.memory.free(at);
    }

    fn mark(&self, at: DevicePtr, bytes: usize, live: bool) {
        self.memory.region().mark(at.0 as usize, bytes, live);
    }

    fn check_foreign(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        let at = at.0 as usize;
        if self.memory.region().is_live(at, bytes) {
            return Ok(());
        }
        let place = self.memory.region().describe(at, bytes);
        Err(Error::shape("Device::adopt", format!("{bytes} bytes at {at:#x}, {place}, are not in a live buffer")))
    }

    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        // SAFETY: the layout's size is not zero.
        let memory = pinned_layout(bytes).and_then(|layout| NonNull::new(unsafe { std::alloc::alloc(layout) }));
        memory.ok_or_else(|| Error::OutOfPinnedMemory { requested: bytes, detail: "the host has no more".into() })
    }

    fn free_pinned(&self, at: NonNull<u8>, bytes: usize) {
        if let Some(layout) = pinned_layout(bytes) {
            // SAFETY: the caller frees memory that `alloc_pinned` returned for the same number of bytes.
            unsafe { std::alloc::dealloc(at.as_ptr(), layout) };
        }
    }
}

fn pinned_layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), 4096).ok()
}

/// The size of an address range: larger than requested, so that an overrun does not reach the next range.
fn room(bytes: usize) -> usize {
    (bytes + 4096).next_multiple_of(PAGE)
}
