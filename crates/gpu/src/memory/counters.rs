//! Counters of a device's activity.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a device's launches and copies so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Kernels launched, not counting those inside replayed graphs.
    pub launches: u64,
    /// Calls of the driver that submitted launches, and kernels of small copies: fewer where those were gathered.
    pub submissions: u64,
    /// Graphs replayed.
    pub replays: u64,
    /// Copies from the host.
    pub uploads: u64,
    /// Bytes copied from the host.
    pub bytes_up: u64,
    /// Copies to the host.
    pub downloads: u64,
    /// Bytes copied to the host.
    pub bytes_down: u64,
    /// Bytes copied to other devices.
    pub bytes_sent: u64,
    /// Runs of programs that were interpreted because their kernels were not there yet.
    pub interpreted: u64,
}

/// The counters. Relaxed ordering suffices: they synchronise nothing.
#[derive(Default)]
pub(crate) struct Counters {
    launches: AtomicU64,
    replays: AtomicU64,
    uploads: AtomicU64,
    bytes_up: AtomicU64,
    downloads: AtomicU64,
    bytes_down: AtomicU64,
    bytes_sent: AtomicU64,
    interpreted: AtomicU64,
}

impl Counters {
    pub(crate) fn launched(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn replayed(&self) {
        self.replays.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn uploaded(&self, bytes: usize) {
        self.uploads.fetch_add(1, Ordering::Relaxed);
        self.bytes_up.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn downloaded(&self, bytes: usize) {
        self.downloads.fetch_add(1, Ordering::Relaxed);
        self.bytes_down.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn interpreted(&self) {
        self.interpreted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn activity(&self) -> Activity {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Activity {
            launches: read(&self.launches),
            submissions: 0,
            replays: read(&self.replays),
            uploads: read(&self.uploads),
            bytes_up: read(&self.bytes_up),
            downloads: read(&self.downloads),
            bytes_down: read(&self.bytes_down),
            bytes_sent: read(&self.bytes_sent),
            interpreted: read(&self.interpreted),
        }
    }
}
