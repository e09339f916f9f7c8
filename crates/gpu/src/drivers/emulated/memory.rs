//! The memory of one device: how much of it is used, and for what.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::region::{GRANULARITY, PAGE, Region};
use crate::base::MemoryInfo;
use crate::base::{Error, Result};
use crate::drivers::DevicePtr;

pub(super) struct Memory {
    device: String,
    total: usize,
    region: Arc<Region>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: usize,
    /// Reserved ranges: their length, and how much of it is mapped.
    reserved: BTreeMap<usize, (usize, usize)>,
    /// Allocations of their own, and their length.
    allocated: BTreeMap<usize, usize>,
}

impl Memory {
    pub(super) fn new(device: String, total: usize, region: Arc<Region>) -> Self {
        Self { device, total, region, state: Mutex::default() }
    }

    pub(super) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    pub(super) fn info(&self) -> MemoryInfo {
        MemoryInfo { free: self.total - self.state.lock().unwrap().used, total: self.total }
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
            self.failed("reserving addresses", format!("{bytes} bytes asked for, {} in all", self.region.bytes))
        })?;
        self.state.lock().unwrap().reserved.insert(at, (bytes, 0));
        Ok(DevicePtr(at as u64))
    }

    pub(super) fn map(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        let at = at.0 as usize;
        let mut state = self.state.lock().unwrap();
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
        let mut state = self.state.lock().unwrap();
        if let Some((_, (_, mapped))) = state.reserved.range_mut(..=at).next_back() {
            *mapped -= bytes;
            state.used -= bytes;
            self.region.withdraw(at, bytes);
        }
    }

    pub(super) fn release(&self, base: DevicePtr) {
        let base = base.0 as usize;
        let mut state = self.state.lock().unwrap();
        if let Some((bytes, mapped)) = state.reserved.remove(&base) {
            state.used -= mapped;
            self.region.give(base, room(bytes));
        }
    }

    pub(super) fn alloc(&self, bytes: usize) -> Result<DevicePtr> {
        let mut state = self.state.lock().unwrap();
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
        let mut state = self.state.lock().unwrap();
        if let Some(bytes) = state.allocated.remove(&at) {
            state.used -= bytes;
            self.region.give(at, room(bytes));
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Other devices may live on in the same region.
        let state = std::mem::take(self.state.get_mut().unwrap());
        for (base, (bytes, _)) in state.reserved {
            self.region.give(base, room(bytes));
        }
        for (at, bytes) in state.allocated {
            self.region.give(at, room(bytes));
        }
    }
}

/// Addresses for a range: more than asked for, so that what runs over one does not land in the next.
fn room(bytes: usize) -> usize {
    (bytes + 4096).next_multiple_of(PAGE)
}
