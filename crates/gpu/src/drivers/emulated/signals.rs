//! Turns wild pointers, stack overflows and divisions by zero in a kernel into faults of that kernel.
//!
//! A signal that arrives on a fiber's stack ends that fiber: the handler makes the interrupted context continue in
//! [`leave`]. Any other signal is passed to the previously installed handler.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use super::fiber::{Stacks, leave};
use super::runtime::{fault, wait};

const SIGNALS: [i32; 3] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE];

static PREVIOUS: OnceLock<[libc::sigaction; 3]> = OnceLock::new();

/// Installs the handlers, once, and gives the calling thread a stack to handle signals on if it has none.
pub(super) fn prepare() {
    PREVIOUS.get_or_init(|| {
        SIGNALS.map(|signal| {
            // SAFETY: an all-zero sigaction is a valid value; both structures live through the call, and the
            // handler does only what a signal handler may.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                let mut previous: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigaction(signal, &action, &mut previous);
                previous
            }
        })
    });
    thread_local!(static STACK: AlternateStack = AlternateStack::ensure());
    STACK.with(|_| ());
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid pointers to a handler with SA_SIGINFO. A stack pointer within the stacks
    // belongs to a fiber that a worker on this thread resumed, so its thread, its block and the worker's frame are
    // live, and nothing else accesses them.
    unsafe {
        let machine = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
        if let Ok(stacks) = Stacks::get()
            && let Some(thread) = stacks.owner(stack_pointer(machine))
        {
            let block = (*thread).block;
            (*block).fault = fault::SIGNAL;
            (*block).fault_bytes = signal as u32;
            (*block).fault_address = (*info).si_addr() as u64;
            (*thread).wait = wait::FAULT;
            continue_in_leave(machine, thread as u64);
            return;
        }
    }
    chain(signal, info, context);
}

#[cfg(target_arch = "x86_64")]
fn stack_pointer(machine: &libc::mcontext_t) -> usize {
    machine.gregs[libc::REG_RSP as usize] as usize
}

#[cfg(target_arch = "x86_64")]
fn continue_in_leave(machine: &mut libc::mcontext_t, thread: u64) {
    machine.gregs[libc::REG_RDI as usize] = thread as i64;
    machine.gregs[libc::REG_RIP as usize] = leave as *const () as i64;
}

#[cfg(target_arch = "aarch64")]
fn stack_pointer(machine: &libc::mcontext_t) -> usize {
    machine.sp as usize
}

#[cfg(target_arch = "aarch64")]
fn continue_in_leave(machine: &mut libc::mcontext_t, thread: u64) {
    machine.regs[0] = thread;
    machine.pc = leave as *const () as u64;
}

/// Calls the previous handler, or restores the default action.
fn chain(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let previous = SIGNALS.iter().position(|&s| s == signal).and_then(|i| PREVIOUS.get().map(|p| p[i]));
    // SAFETY: the previous handler is called with the arguments it was installed for. Without one, the default
    // action is restored, and the faulting instruction runs again and triggers it.
    unsafe {
        match previous {
            Some(action) if action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN => {
                if action.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) =
                        std::mem::transmute(action.sa_sigaction);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(i32) = std::mem::transmute(action.sa_sigaction);
                    handler(signal);
                }
            }
            _ => drop(libc::signal(signal, libc::SIG_DFL)),
        }
    }
}

/// A signal stack for a thread that has none. (Threads made by Rust have one.)
struct AlternateStack(Option<Vec<u8>>);

impl AlternateStack {
    fn ensure() -> Self {
        let mut current = MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: only queries, into a local structure.
        let current = unsafe {
            libc::sigaltstack(std::ptr::null(), current.as_mut_ptr());
            current.assume_init()
        };
        if current.ss_flags & libc::SS_DISABLE == 0 {
            return Self(None);
        }
        let mut memory = vec![0u8; 64 << 10];
        let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
        // SAFETY: the memory is kept until the stack is disabled again on this same thread.
        unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) };
        Self(Some(memory))
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        if self.0.is_some() {
            let none = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            // SAFETY: runs on the thread that enabled the stack, which is not in use: no handler is running.
            unsafe { libc::sigaltstack(&none, std::ptr::null_mut()) };
        }
    }
}
