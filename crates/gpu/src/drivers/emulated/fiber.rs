//! Fibers: one stack each, and a switch that saves the callee-saved registers of the C calling convention.
//!
//! Only kernel code runs on these stacks, never Rust: when a thread waits, it switches to its worker, which
//! schedules the next one. So a fiber can be abandoned at any point.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
use std::arch::naked_asm;
use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, OnceLock};

use super::runtime::{Block, LOG_STACK, LOG_THREAD, MAX_THREADS, Thread, wait};
use crate::base::Lock;

/// Maximum number of workers in the process that run a block at the same time. Each stack takes two memory
/// mappings (the stack and its guard page), and Linux allows 65,530 per process by default.
pub(super) const SETS: usize = 16;

const STACK: usize = 1 << LOG_STACK;

/// Runs `thread` until it waits.
///
/// Switches use `jmp` and never `ret`: the processor predicts that `ret` returns to the last `call`, and the
/// misprediction would make a switch four times as expensive.
///
/// # Safety
///
/// `thread` was made ready by [`StackSet::start`] or has waited since, and belongs to the caller's stack set.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn resume(thread: *mut Thread) {
    // SAFETY: guaranteed by the caller. All registers are declared clobbered except rbx and rbp, which are saved
    // on the worker's stack; `leave` jumps back to the label with that stack.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "lea rcx, [rip + 2f]",
            "push rcx",
            "mov rax, [rdi + {block}]",
            "mov [rax + {worker}], rsp",
            "mov rsp, [rdi + {stack}]",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbx",
            "pop rbp",
            "pop rcx",
            "jmp rcx",
            "2:",
            "pop rbp",
            "pop rbx",
            block = const offset_of!(Thread, block),
            worker = const offset_of!(Block, worker),
            stack = const offset_of!(Thread, stack),
            inout("rdi") thread => _,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("C"),
        )
    }
}

/// Called on a fiber: switches to the worker until the thread is resumed.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn suspend(thread: *mut Thread) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi + {stack}], rsp",
        "jmp {leave}",
        stack = const offset_of!(Thread, stack),
        leave = sym leave,
    )
}

/// Switches to the worker and never returns, without touching the fiber's stack.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave(thread: *mut Thread) {
    naked_asm!(
        "mov rax, [rdi + {block}]",
        "mov rsp, [rax + {worker}]",
        "pop rcx",
        "jmp rcx",
        block = const offset_of!(Thread, block),
        worker = const offset_of!(Block, worker),
    )
}

/// Entry point of a new fiber: calls the kernel's entry (rbx) with its arguments (r12), then ends the thread
/// (r13).
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    naked_asm!(
        "mov rdi, r12",
        "call rbx",
        "mov dword ptr [r13 + {wait}], {done}",
        "mov rdi, r13",
        "jmp {leave}",
        wait = const offset_of!(Thread, wait),
        done = const wait::DONE,
        leave = sym leave,
    )
}

#[cfg(target_arch = "aarch64")]
macro_rules! save {
    () => {
        "stp x29, x30, [sp, #-160]!
         stp x19, x20, [sp, #16]
         stp x21, x22, [sp, #32]
         stp x23, x24, [sp, #48]
         stp x25, x26, [sp, #64]
         stp x27, x28, [sp, #80]
         stp d8, d9, [sp, #96]
         stp d10, d11, [sp, #112]
         stp d12, d13, [sp, #128]
         stp d14, d15, [sp, #144]"
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! restore {
    () => {
        "ldp x19, x20, [sp, #16]
         ldp x21, x22, [sp, #32]
         ldp x23, x24, [sp, #48]
         ldp x25, x26, [sp, #64]
         ldp x27, x28, [sp, #80]
         ldp d8, d9, [sp, #96]
         ldp d10, d11, [sp, #112]
         ldp d12, d13, [sp, #128]
         ldp d14, d15, [sp, #144]
         ldp x29, x30, [sp], #160
         br x30"
    };
}

/// Runs `thread` until it waits.
///
/// # Safety
///
/// `thread` was made ready by [`StackSet::start`] or has waited since, and belongs to the caller's stack set.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn resume(thread: *mut Thread) {
    naked_asm!(
        save!(),
        "ldr x9, [x0, {block}]",
        "mov x10, sp",
        "str x10, [x9, {worker}]",
        "ldr x10, [x0, {stack}]",
        "mov sp, x10",
        restore!(),
        block = const offset_of!(Thread, block),
        worker = const offset_of!(Block, worker),
        stack = const offset_of!(Thread, stack),
    )
}

/// Called on a fiber: switches to the worker until the thread is resumed.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn suspend(thread: *mut Thread) {
    naked_asm!(
        save!(),
        "mov x10, sp",
        "str x10, [x0, {stack}]",
        "b {leave}",
        stack = const offset_of!(Thread, stack),
        leave = sym leave,
    )
}

/// Switches to the worker and never returns, without touching the fiber's stack.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave(thread: *mut Thread) {
    naked_asm!(
        "ldr x9, [x0, {block}]",
        "ldr x10, [x9, {worker}]",
        "mov sp, x10",
        restore!(),
        block = const offset_of!(Thread, block),
        worker = const offset_of!(Block, worker),
    )
}

/// Entry point of a new fiber: calls the kernel's entry (x19) with its arguments (x20), then ends the thread
/// (x21).
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    naked_asm!(
        "mov x0, x20",
        "blr x19",
        "mov w9, {done}",
        "str w9, [x21, {wait}]",
        "mov x0, x21",
        "b {leave}",
        wait = const offset_of!(Thread, wait),
        done = const wait::DONE,
        leave = sym leave,
    )
}

/// The initial stack frame that [`resume`] pops for a new fiber.
#[cfg(target_arch = "x86_64")]
fn first_frame(entry: usize, arguments: usize, thread: usize) -> [usize; 7] {
    // r15, r14, r13, r12, rbx, rbp and the jump target.
    [0, 0, thread, arguments, entry, 0, begin as *const () as usize]
}

#[cfg(target_arch = "aarch64")]
fn first_frame(entry: usize, arguments: usize, thread: usize) -> [usize; 20] {
    let mut frame = [0; 20];
    frame[1] = begin as *const () as usize; // x30
    frame[2..5].copy_from_slice(&[entry, arguments, thread]); // x19, x20, x21
    frame
}

/// All fiber stacks of the process, and the [`Thread`] of each.
pub(super) struct Stacks {
    base: usize,
    threads: usize,
    /// The number of accessible stacks of each set.
    opened: [AtomicUsize; SETS],
    free: Lock<Vec<usize>>,
    returned: Condvar,
}

const COUNT: usize = SETS * MAX_THREADS;

impl Stacks {
    /// The stacks of this process; the first call reserves their addresses.
    pub(super) fn get() -> Result<&'static Self, &'static str> {
        static STACKS: OnceLock<Option<Stacks>> = OnceLock::new();
        STACKS.get_or_init(Self::reserve).as_ref().ok_or("no address space for the stacks of emulated threads")
    }

    fn reserve() -> Option<Self> {
        let stacks = anonymous((COUNT + 1) * STACK, libc::PROT_NONE)?;
        let threads = anonymous(COUNT << LOG_THREAD, libc::PROT_READ | libc::PROT_WRITE)?;
        Some(Self {
            base: stacks.next_multiple_of(STACK),
            threads,
            opened: [const { AtomicUsize::new(0) }; SETS],
            free: Lock::new((0..SETS).rev().collect()),
            returned: Condvar::new(),
        })
    }

    /// The value that `self()` of the shim adds to `(sp >> LOG_STACK) << LOG_THREAD`.
    pub(super) fn key(&self) -> usize {
        self.threads.wrapping_sub((self.base >> LOG_STACK) << LOG_THREAD)
    }

    /// The thread whose stack contains `sp`.
    pub(super) fn owner(&self, sp: usize) -> Option<*mut Thread> {
        let offset = sp.checked_sub(self.base).filter(|&offset| offset < COUNT * STACK)?;
        Some((self.threads + ((offset >> LOG_STACK) << LOG_THREAD)) as *mut Thread)
    }

    /// Leases a set if one is free.
    pub(super) fn try_lease(&'static self) -> Option<StackSet> {
        let number = self.free.lock().pop()?;
        Some(StackSet { stacks: self, number })
    }

    /// Leases a set, and waits for one if necessary.
    pub(super) fn lease(&'static self) -> StackSet {
        let mut free = self.returned.wait_while(self.free.lock(), |free| free.is_empty()).unwrap();
        let number = free.pop().expect("a set was just seen to be free");
        StackSet { stacks: self, number }
    }
}

/// The stacks of one worker: one for each thread of a block.
pub(super) struct StackSet {
    stacks: &'static Stacks,
    /// The number of this set in the process.
    pub(super) number: usize,
}

impl Drop for StackSet {
    fn drop(&mut self) {
        self.stacks.free.lock().push(self.number);
        self.stacks.returned.notify_one();
    }
}

impl StackSet {
    /// The thread that owns stack `i` of this set.
    pub(super) fn thread(&self, i: usize) -> *mut Thread {
        debug_assert!(i < MAX_THREADS);
        (self.stacks.threads + ((self.number * MAX_THREADS + i) << LOG_THREAD)) as *mut Thread
    }

    /// Makes the first `count` stacks accessible, except the lowest page of each, which is the guard page.
    pub(super) fn open(&mut self, count: usize) -> Result<(), std::io::Error> {
        let opened = &self.stacks.opened[self.number];
        // SAFETY: sysconf has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        for i in opened.load(Ordering::Relaxed)..count {
            let lowest = self.stacks.base + (self.number * MAX_THREADS + i) * STACK;
            // SAFETY: the range lies in the reservation, and belongs to this set.
            let rc = unsafe {
                libc::mprotect((lowest + page) as *mut c_void, STACK - page, libc::PROT_READ | libc::PROT_WRITE)
            };
            if rc != 0 {
                return Err(std::io::Error::last_os_error());
            }
            opened.store(i + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Prepares stack `i`, which must be open, to start at the kernel's entry when it is next resumed.
    ///
    /// # Safety
    ///
    /// No live fiber uses the stack. `entry` may be called with `arguments` until the fiber ends or is abandoned.
    pub(super) unsafe fn start(
        &mut self,
        i: usize,
        entry: unsafe extern "C" fn(*const *const c_void),
        arguments: *const *const c_void,
    ) {
        debug_assert!(i < self.stacks.opened[self.number].load(Ordering::Relaxed));
        let thread = self.thread(i);
        // Stacks are a large power of two apart. Without a shift, their tops would map to the same few cache sets.
        let shift = (i % 128) * 128;
        let top = self.stacks.base + (self.number * MAX_THREADS + i + 1) * STACK - shift;
        let frame = first_frame(entry as usize, arguments as usize, thread as usize);
        let at = top - size_of_val(&frame);
        // SAFETY: the stack is open, unused, and far larger than shift plus frame; the thread belongs to it.
        unsafe {
            std::ptr::copy_nonoverlapping(frame.as_ptr(), at as *mut usize, frame.len());
            (*thread).stack = at;
        }
    }
}

/// New private memory, which is only backed by pages once it is touched.
pub(super) fn anonymous(bytes: usize, protection: i32) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    (at != libc::MAP_FAILED).then_some(at as usize)
}
