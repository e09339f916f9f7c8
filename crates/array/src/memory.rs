//! The memory of arrays, shared by all arrays that refer to it and mutable through each.

use std::alloc::Layout as Allocation;
use std::any::Any;
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock, MutexGuard, PoisonError, RwLock};

use rigel_gpu::{Buffer, Lock, Shared, View};
use smallvec::SmallVec;

use crate::device::Device;
use crate::error::{Error, Result};

/// Memory of the host or of a device.
#[derive(Clone)]
pub(crate) enum Memory {
    Host(Arc<HostMemory>),
    Device(Arc<DeviceMemory>),
}

impl Memory {
    /// Allocates uninitialized memory on a device.
    pub(crate) fn alloc(device: &Device, bytes: usize) -> Result<Self> {
        Ok(match device {
            Device::Cpu => Self::Host(Arc::new(HostMemory::alloc(bytes)?)),
            Device::Gpu(device) => Self::from_buffer(device.compute()?.alloc(bytes)?),
        })
    }

    pub(crate) fn from_buffer(buffer: Buffer<u8>) -> Self {
        Self::Device(Arc::new(DeviceMemory { read: buffer.share(), write: Lock::new(buffer) }))
    }

    /// The memory's size.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Host(memory) => memory.bytes,
            Self::Device(memory) => memory.read.len(),
        }
    }

    pub(crate) fn device(&self) -> Device {
        match self {
            Self::Host(_) => Device::Cpu,
            Self::Device(memory) => Device::Gpu(memory.read.view().device().clone()),
        }
    }

    /// Whether both are the same allocation.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Host(a), Self::Host(b)) => Arc::ptr_eq(a, b),
            (Self::Device(a), Self::Device(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Whether they overlap. The same foreign memory may be imported several times.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let overlap =
            |a: u64, a_bytes: usize, b: u64, b_bytes: usize| a < b + b_bytes as u64 && b < a + a_bytes as u64;
        match (self, other) {
            (Self::Host(a), Self::Host(b)) => {
                overlap(a.at.as_ptr() as u64, a.bytes, b.at.as_ptr() as u64, b.bytes)
            }
            (Self::Device(a), Self::Device(b)) => {
                let (a, b) = (a.view(), b.view());
                a.device().is(&b.device()) && overlap(a.address(), a.len(), b.address(), b.len())
            }
            _ => false,
        }
    }
}

/// Host memory: our own, or foreign memory whose owner is kept alive with it.
///
/// Reads and writes take its lock, so that threads that share an array do not race. Other libraries that use the
/// memory (NumPy, for example) do not know the lock; the user must synchronize with them, as between any two
/// holders of a Python buffer.
pub(crate) struct HostMemory {
    at: NonNull<u8>,
    bytes: usize,
    lock: Arc<RwLock<()>>,
    /// The owner of foreign memory; `None` for our own.
    owner: Option<Box<dyn Any + Send + Sync>>,
}

/// One lock for all foreign memory, since the same bytes may be imported several times.
static FOREIGN: LazyLock<Arc<RwLock<()>>> = LazyLock::new(Arc::default);

// SAFETY: the memory is reached through the lock only, and an owner may go to another thread.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

/// The alignment of host memory: enough for every vector instruction, and for copies of whole cache lines.
const ALIGNMENT: usize = 64;

impl HostMemory {
    fn alloc(bytes: usize) -> Result<Self> {
        let layout = allocation(bytes).ok_or(Error::HostMemory(bytes))?;
        // SAFETY: the size is not zero. Zeroed pages come from the system untouched, so this costs nothing for large
        // arrays, and no byte is ever read uninitialised.
        let at = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(Error::HostMemory(bytes))?;
        Ok(Self { at, bytes, lock: Arc::default(), owner: None })
    }

    /// Foreign memory.
    ///
    /// # Safety
    /// The `bytes` bytes from `at` must be readable and writable while `owner` lives.
    pub(crate) unsafe fn foreign(at: NonNull<u8>, bytes: usize, owner: Box<dyn Any + Send + Sync>) -> Self {
        Self { at, bytes, lock: FOREIGN.clone(), owner: Some(owner) }
    }

    /// Runs `work` with the bytes, locked for reading.
    pub(crate) fn read<R>(&self, work: impl FnOnce(&[u8]) -> R) -> R {
        let _held = self.lock.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the memory is there while `self` is, and the lock keeps writers away.
        work(unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.bytes) })
    }

    /// Runs `work` with the bytes, locked for writing.
    pub(crate) fn write<R>(&self, work: impl FnOnce(&mut [u8]) -> R) -> R {
        let _held = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the memory is there while `self` is, and the lock keeps everyone else away.
        work(unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.bytes) })
    }

    /// Runs `work` while all of `read` are locked for reading and `written` for writing. Memory in both is locked
    /// for writing.
    pub(crate) fn locked<R>(read: &[&Self], written: Option<&Self>, work: impl FnOnce() -> R) -> R {
        // Take each lock once, because a thread could deadlock on its own second lock, and in the order of
        // addresses, so that two calls can't deadlock.
        let mut locks: SmallVec<[&Arc<RwLock<()>>; 4]> =
            read.iter().copied().chain(written).map(|m| &m.lock).collect();
        locks.sort_unstable_by_key(|lock| Arc::as_ptr(lock));
        locks.dedup_by_key(|lock| Arc::as_ptr(lock));
        let _held: SmallVec<[(Option<_>, Option<_>); 4]> = locks
            .iter()
            .map(|lock| match written.is_some_and(|written| Arc::ptr_eq(&written.lock, lock)) {
                true => (None, Some(lock.write().unwrap_or_else(PoisonError::into_inner))),
                false => (Some(lock.read().unwrap_or_else(PoisonError::into_inner)), None),
            })
            .collect();
        work()
    }

    /// The memory's bytes.
    ///
    /// # Safety
    /// The memory is locked, and nothing writes to it while they are used.
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is there while `self` is; the caller guarantees the rest.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.bytes) }
    }

    /// The memory's bytes, for writing.
    ///
    /// # Safety
    /// The memory is locked for writing, and nothing else refers to its bytes while they are used.
    #[allow(clippy::mut_from_ref)] // the lock, not the reference, excludes others
    pub(crate) unsafe fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: the memory is there while `self` is; the caller guarantees the rest.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.bytes) }
    }

    /// The memory's address, to share it with other libraries.
    pub(crate) fn address(&self) -> NonNull<u8> {
        self.at
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let (None, Some(layout)) = (&self.owner, allocation(self.bytes)) {
            // SAFETY: allocated with this layout by `alloc`.
            unsafe { std::alloc::dealloc(self.at.as_ptr(), layout) };
        }
    }
}

fn allocation(bytes: usize) -> Option<Allocation> {
    Allocation::from_size_align(bytes.max(1), ALIGNMENT).ok()
}

/// Device memory. The device's compute stream orders all accesses.
pub(crate) struct DeviceMemory {
    read: Shared<u8>,
    write: Lock<Buffer<u8>>,
}

impl DeviceMemory {
    /// All of it, for reading.
    pub(crate) fn view(&self) -> View<'_, u8> {
        self.read.view()
    }

    /// All of it, for writing, while the guard is held.
    pub(crate) fn writable(&self) -> MutexGuard<'_, Buffer<u8>> {
        self.write.lock()
    }
}
