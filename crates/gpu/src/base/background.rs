//! Work beside the caller's: compilers that run while proofs go on.
//!
//! A process may end while a compiler runs. Its library would then be taken down under it, so the process waits at its
//! exit until every compiler has finished the kernel it is at.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Once, PoisonError};

use super::lock::Lock;

/// Threads that run.
static RUNNING: (Lock<usize>, Condvar) = (Lock::new(0), Condvar::new());
static STOPPING: AtomicBool = AtomicBool::new(false);
static AT_EXIT: Once = Once::new();
static AFTER_FIRST: Once = Once::new();

unsafe extern "C" {
    /// Registers a function that the process calls when it ends.
    fn atexit(function: extern "C" fn()) -> i32;
}

extern "C" fn stop() {
    // A background thread that ends the process can't wait for itself.
    if IS_BACKGROUND.try_with(Cell::get).unwrap_or(true) {
        return;
    }
    {
        // Under the lock, so that no waiter misses it.
        let _urgent = URGENT.0.lock();
        STOPPING.store(true, Ordering::Relaxed);
    }
    URGENT.1.notify_all();
    finish();
}

/// Registers [`stop`]. Functions run in the reverse of the order in which they were registered, so it has to be called
/// after whatever the compiler's library registers for its own end.
fn wait_at_exit() {
    // SAFETY: `stop` does not unwind, and returns once no thread works.
    unsafe { atexit(stop) };
}

/// Registers [`stop`] after the first compilation, which may load further libraries; later calls do nothing.
pub(crate) fn after_compiling() {
    AFTER_FIRST.call_once(wait_at_exit);
}

struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        *RUNNING.0.lock() -= 1;
        RUNNING.1.notify_all();
    }
}

/// Compilations that a caller waits for.
static URGENT: (Lock<usize>, Condvar) = (Lock::new(0), Condvar::new());

thread_local! {
    /// Whether the thread works in the background.
    static IS_BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// Marks that the caller waits for a compiler, until it is dropped. Compilers slow each other down, so those in the
/// background begin nothing new in the meantime.
pub(crate) struct Urgent(());

impl Urgent {
    /// `None` if the thread itself works in the background.
    pub(crate) fn new() -> Option<Self> {
        if IS_BACKGROUND.get() {
            return None;
        }
        *URGENT.0.lock() += 1;
        Some(Self(()))
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        *URGENT.0.lock() -= 1;
        URGENT.1.notify_all();
    }
}

/// Marks the thread as one that works in the background, as those of [`spawn`] are.
pub fn join() {
    IS_BACKGROUND.set(true);
}

/// Whether the thread works in the background.
pub fn is_background() -> bool {
    IS_BACKGROUND.get()
}

/// Waits, on a background thread, until no caller waits for a compiler.
pub fn yield_to_callers() {
    if IS_BACKGROUND.get() {
        let waits = |urgent: &mut usize| *urgent > 0 && !is_stopping();
        drop(URGENT.1.wait_while(URGENT.0.lock(), waits).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Runs `work` on a thread of its own. Long work should look at [`is_stopping`] now and then. If there can be no
/// thread, `work` is dropped.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    AT_EXIT.call_once(wait_at_exit);
    *RUNNING.0.lock() += 1;
    let running = Running;
    let run = move || {
        let _running = running;
        join();
        work();
    };
    // On an error the closure is dropped, and the count is right again.
    let _ = std::thread::Builder::new().name(name.to_owned()).spawn(run);
}

/// The number of threads that [`spawn`] has begun and that are not done.
pub fn running() -> usize {
    *RUNNING.0.lock()
}

/// Whether the process is about to end, so that no new work should begin.
pub fn is_stopping() -> bool {
    STOPPING.load(Ordering::Relaxed)
}

/// Waits until all threads are done.
pub fn finish() {
    drop(RUNNING.1.wait_while(RUNNING.0.lock(), |running| *running > 0).unwrap_or_else(PoisonError::into_inner));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn all_work_is_waited_for_though_some_panics() {
        let done = Arc::new(AtomicUsize::new(0));
        for i in 0..8 {
            let done = done.clone();
            spawn("test", move || {
                std::thread::sleep(std::time::Duration::from_millis(i));
                done.fetch_add(1, Ordering::Relaxed);
                assert_ne!(i, 3, "a panic of one thread");
            });
        }
        finish();
        assert_eq!((done.load(Ordering::Relaxed), running()), (8, 0));
    }
}
