//! The address range that contains all emulated memory, and its shadow.
//!
//! Every load and store of a checked kernel looks up in the shadow whether its bytes belong to a live buffer or
//! shared array. Each shadow byte covers 8 bytes of the region: it holds how many of them, counted from the first,
//! are accessible, or [`FREED`]. Untouched shadow pages are zero, so nothing is accessible there, and use no
//! memory.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU32;

use super::fiber::{SETS, anonymous};
use crate::base::{Bytes, Error, Lock, Result};

/// The shadow value of a freed buffer.
const FREED: u8 = 0xff;
/// The content of new memory, so that reads of uninitialised memory do not look like zeros.
pub(super) const POISON: u8 = 0xa5;

/// Address space for the shared memory of one worker, in bytes.
pub(super) const SHARED: usize = 1 << 19;
/// The granularity of address allocation: a multiple of any page size.
pub(super) const PAGE: usize = 1 << 16;
/// The granularity of mappings in reserved ranges.
pub(super) const GRANULARITY: usize = 2 << 20;

pub(super) struct Region {
    pub(super) base: usize,
    pub(super) bytes: usize,
    shadow: usize,
    checked: bool,
    /// Nonzero while a failed launch waits for its workers. Blocks that poll for a write of the failed block must
    /// then return to the scheduler.
    pub(super) hurry: AtomicU32,
    /// Present when the memory is shared with child processes.
    file: Option<OwnedFd>,
    free: Lock<FreeRanges>,
    buffers: Lock<BTreeMap<usize, Buffer>>,
}

#[derive(Clone, Copy)]
struct Buffer {
    bytes: usize,
    live: bool,
}

impl Region {
    /// Reserves `wanted` bytes of address space. `shareable` memory is a file, mapped at an address that
    /// ThreadSanitizer leaves to programs, so that a child process can map it at the same address.
    pub(super) fn new(wanted: usize, checked: bool, shareable: bool) -> Result<Self> {
        let bytes = wanted.max(1 << 30).next_multiple_of(1 << 30);
        let failed = |what: &str| Error::Driver {
            device: "emulated".into(),
            operation: "reserving addresses",
            detail: format!(
                "no {} of address space for {what} ({})",
                Bytes(bytes),
                std::io::Error::last_os_error()
            ),
        };
        let (base, file) = if shareable {
            let file = memory_file(c"rigel-device-memory").ok_or_else(|| failed("device memory"))?;
            // SAFETY: the descriptor is ours.
            if unsafe { libc::ftruncate(file.as_raw_fd(), bytes as libc::off_t) } != 0 {
                return Err(failed("device memory"));
            }
            (low_mapping(&file, bytes).ok_or_else(|| failed("device memory"))?, Some(file))
        } else {
            (aligned(bytes).ok_or_else(|| failed("device memory"))?, None)
        };
        let shadow =
            anonymous(bytes / 8, libc::PROT_READ | libc::PROT_WRITE).ok_or_else(|| failed("the shadow"))?;
        let region = Self {
            base,
            bytes,
            shadow,
            checked,
            hurry: AtomicU32::new(0),
            file,
            free: Lock::new(FreeRanges::new(base + SETS * SHARED, bytes - SETS * SHARED)),
            buffers: Lock::default(),
        };
        if !shareable {
            region.commit(base, SETS * SHARED)?;
        }
        Ok(region)
    }

    pub(super) fn shadow(&self) -> *const i8 {
        self.shadow as *const i8
    }

    /// The file descriptor of shareable memory.
    pub(super) fn file(&self) -> Option<&OwnedFd> {
        self.file.as_ref()
    }

    /// Shared memory of the worker with stack set `set`.
    pub(super) fn shared(&self, set: usize) -> usize {
        self.base + set * SHARED
    }

    /// Allocates an address range aligned to `align`; `None` if none is left.
    pub(super) fn take(&self, bytes: usize, align: usize) -> Option<usize> {
        self.free.lock().take(bytes, align)
    }

    /// Frees an address range and its memory.
    pub(super) fn give(&self, at: usize, bytes: usize) {
        self.withdraw(at, bytes);
        self.free.lock().give(at, bytes);
    }

    /// Frees the memory of a range, but keeps the range allocated.
    pub(super) fn withdraw(&self, at: usize, bytes: usize) {
        forget(&mut self.buffers.lock(), at, bytes);
        self.clear(at, bytes);
        // SAFETY: the range lies in the region and its owner gives it up.
        unsafe {
            match &self.file {
                Some(file) => {
                    let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    libc::fallocate(file.as_raw_fd(), hole, (at - self.base) as i64, bytes as i64);
                }
                None => drop(libc::madvise(at as *mut c_void, bytes, libc::MADV_DONTNEED)),
            }
            libc::mprotect(at as *mut c_void, bytes, libc::PROT_NONE);
        }
    }

    /// Makes an allocated range accessible.
    pub(super) fn commit(&self, at: usize, bytes: usize) -> Result<()> {
        // SAFETY: the range lies in the region and belongs to the caller.
        let rc = unsafe { libc::mprotect(at as *mut c_void, bytes, libc::PROT_READ | libc::PROT_WRITE) };
        if rc == 0 {
            return Ok(());
        }
        Err(Error::Driver {
            device: "emulated".into(),
            operation: "mapping memory",
            detail: std::io::Error::last_os_error().to_string(),
        })
    }

    /// Marks the bytes as a live buffer, or as freed. New buffers are filled with [`POISON`].
    pub(super) fn mark(&self, at: usize, bytes: usize, live: bool) {
        if live && self.checked {
            // SAFETY: the caller of `Driver::mark` owns the range, which is mapped and in use by no kernel.
            unsafe { std::ptr::write_bytes(at as *mut u8, POISON, bytes) };
        }
        self.set(at, bytes, live);
        let mut buffers = self.buffers.lock();
        // Forget older buffers that overlap the new one.
        forget(&mut buffers, at, bytes.max(1));
        buffers.insert(at, Buffer { bytes, live });
    }

    /// Whether the bytes lie in one live buffer.
    pub(super) fn is_live(&self, at: usize, bytes: usize) -> bool {
        let buffers = self.buffers.lock();
        let holder = buffers.range(..=at).next_back().filter(|(_, buffer)| buffer.live);
        holder.is_some_and(|(start, buffer)| at.checked_add(bytes).is_some_and(|end| end <= start + buffer.bytes))
    }

    /// Sets only the shadow.
    pub(super) fn set(&self, at: usize, bytes: usize, live: bool) {
        if !self.checked || bytes == 0 {
            return;
        }
        if !live {
            return self.write_shadow(at, bytes, FREED);
        }
        self.write_shadow(at, bytes, 8);
        let partial = (at + bytes) % 8;
        if partial != 0 {
            self.write_shadow(at + bytes - partial, partial, partial as u8);
        }
    }

    /// Makes the bytes inaccessible, and does not mark them as freed.
    pub(super) fn clear(&self, at: usize, bytes: usize) {
        if !self.checked {
            return;
        }
        if bytes < GRANULARITY {
            return self.write_shadow(at, bytes, 0);
        }
        // Dropping the shadow's pages is cheap, even for long ranges.
        let (first, end) = (at.next_multiple_of(GRANULARITY), (at + bytes) & !(GRANULARITY - 1));
        self.write_shadow(at, first - at, 0);
        self.write_shadow(end, at + bytes - end, 0);
        let shadow = self.shadow + (first - self.base) / 8;
        // SAFETY: the range lies in the shadow, and is a multiple of any page size.
        unsafe { libc::madvise(shadow as *mut c_void, (end - first) / 8, libc::MADV_DONTNEED) };
    }

    fn write_shadow(&self, at: usize, bytes: usize, value: u8) {
        debug_assert!(at >= self.base && at + bytes <= self.base + self.bytes);
        let first = (at - self.base) / 8;
        let end = (at + bytes - self.base).div_ceil(8);
        // SAFETY: the range lies in the shadow, because its bytes lie in the region; kernels that read the shadow
        // concurrently use other buffers.
        unsafe { std::ptr::write_bytes((self.shadow + first) as *mut u8, value, end - first) };
    }

    /// Describes an address relative to the nearest buffer.
    pub(super) fn describe(&self, at: usize, bytes: usize) -> String {
        if !(self.base..self.base + self.bytes).contains(&at) {
            return "which is not device memory".into();
        }
        let buffers = self.buffers.lock();
        let before = buffers.range(..=at).next_back().map(|(&start, &buffer)| (start, buffer));
        let after = buffers.range(at + 1..).next().map(|(&start, &buffer)| (start, buffer));
        let past = before.map_or(usize::MAX, |(start, buffer)| at.saturating_sub(start + buffer.bytes));
        let ahead = after.map_or(usize::MAX, |(start, _)| start - at);
        match (before, after) {
            (Some((start, buffer)), _) if past <= ahead => {
                place(start, buffer.bytes, if buffer.live { "buffer" } else { "freed buffer" }, at, bytes)
            }
            (_, Some((start, buffer))) => {
                place(start, buffer.bytes, if buffer.live { "buffer" } else { "freed buffer" }, at, bytes)
            }
            _ => "where there is no buffer".into(),
        }
    }
}

/// Forgets the buffers that begin in the range.
fn forget(buffers: &mut BTreeMap<usize, Buffer>, at: usize, bytes: usize) {
    let gone: Vec<_> = buffers.range(at..at + bytes).map(|(&start, _)| start).collect();
    for start in gone {
        buffers.remove(&start);
    }
}

/// "4 bytes past the end of a buffer of 400 bytes".
pub(super) fn place(start: usize, length: usize, what: &str, at: usize, bytes: usize) -> String {
    let whole = format!("a {what} of {length} bytes");
    if at < start {
        format!("which begins {} bytes before the start of {whole}", start - at)
    } else if at + bytes > start + length {
        format!("which ends {} bytes past the end of {whole}", at + bytes - start - length)
    } else {
        format!("{} bytes into {whole}", at - start)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: modules and devices hold the region, so no kernel can access it any more.
        unsafe {
            libc::munmap(self.base as *mut c_void, self.bytes);
            libc::munmap(self.shadow as *mut c_void, self.bytes / 8);
        }
    }
}

/// Reserves an address range aligned to the granularity.
fn aligned(bytes: usize) -> Option<usize> {
    let at = anonymous(bytes + GRANULARITY, libc::PROT_NONE)?;
    let base = at.next_multiple_of(GRANULARITY);
    // SAFETY: unmaps only the parts of this new mapping before and after its aligned part.
    unsafe {
        if base > at {
            libc::munmap(at as *mut c_void, base - at);
        }
        libc::munmap((base + bytes) as *mut c_void, at + GRANULARITY - base);
    }
    Some(base)
}

/// An anonymous file in memory.
pub(super) fn memory_file(name: &std::ffi::CStr) -> Option<OwnedFd> {
    // SAFETY: the name is a C string, and nothing else owns the new descriptor.
    unsafe {
        let descriptor = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor))
    }
}

/// Maps the file where ThreadSanitizer's address layout allows program memory: between 64 GiB and 512 GiB.
fn low_mapping(file: &OwnedFd, bytes: usize) -> Option<usize> {
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    (1..128).map(|i| i << 32).skip(15).filter(|at| at + bytes <= 1 << 39).find(|&at| {
        // SAFETY: MAP_FIXED_NOREPLACE never replaces a mapping.
        let got = unsafe { libc::mmap(at as *mut c_void, bytes, libc::PROT_NONE, flags, file.as_raw_fd(), 0) };
        if got != libc::MAP_FAILED && got as usize != at {
            // Old Linux kernels treat the address as a hint.
            // SAFETY: the mapping was made just now.
            unsafe { libc::munmap(got, bytes) };
        }
        got as usize == at
    })
}

/// Free address ranges, allocated by next fit, so that freed addresses are reused as late as possible.
struct FreeRanges {
    ranges: BTreeMap<usize, usize>,
    next: usize,
}

impl FreeRanges {
    fn new(at: usize, bytes: usize) -> Self {
        Self { ranges: BTreeMap::from([(at, bytes)]), next: at }
    }

    fn take(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let fits = |at: usize, length: usize, earliest: usize| {
            let from = earliest.max(at).next_multiple_of(align);
            (from + bytes <= at + length).then_some((at, length, from))
        };
        let begin = self.ranges.range(..=self.next).next_back().map_or(0, |(&at, _)| at);
        let (at, length, from) = self
            .ranges
            .range(begin..)
            .find_map(|(&at, &length)| fits(at, length, self.next))
            .or_else(|| self.ranges.iter().find_map(|(&at, &length)| fits(at, length, at)))?;
        self.ranges.remove(&at);
        if from > at {
            self.ranges.insert(at, from - at);
        }
        if from + bytes < at + length {
            self.ranges.insert(from + bytes, at + length - from - bytes);
        }
        self.next = from + bytes;
        Some(from)
    }

    fn give(&mut self, mut at: usize, mut bytes: usize) {
        if let Some((&before, &length)) = self.ranges.range(..at).next_back()
            && before + length == at
        {
            self.ranges.remove(&before);
            (at, bytes) = (before, length + bytes);
        }
        if let Some(length) = self.ranges.remove(&(at + bytes)) {
            bytes += length;
        }
        self.ranges.insert(at, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ranges_join_again() {
        let mut free = FreeRanges::new(100, 1000);
        let a = free.take(100, 1).unwrap();
        let b = free.take(200, 1).unwrap();
        let c = free.take(700, 1).unwrap();
        assert_eq!((a, b, c), (100, 200, 400));
        assert_eq!(free.take(1, 1), None);
        free.give(a, 100);
        free.give(c, 700);
        free.give(b, 200);
        assert_eq!(free.ranges, BTreeMap::from([(100, 1000)]));
    }

    #[test]
    fn freed_addresses_rest_before_they_are_used_again() {
        let mut free = FreeRanges::new(0, 1000);
        let first = free.take(100, 1).unwrap();
        free.give(first, 100);
        assert_eq!(free.take(100, 1), Some(100));
    }
}
