//! The state of a pool's job that the job itself can ask for while its thread runs it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

/// A device that was lost while it made a proof, which then began anew elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// The device that was lost.
    pub from: String,
    /// The error by which it was lost.
    pub reason: String,
}

/// One attempt at a job of a [`Pool`](crate::Pool), on one device.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) moves: Vec<Move>,
    pub(crate) may_move: bool,
}

thread_local! {
    static CURRENT: RefCell<Option<Attempt>> = const { RefCell::new(None) };
}

impl Attempt {
    /// The attempt that this thread makes; one that has not moved and can't, if the thread is not one of a pool.
    pub fn current() -> Self {
        CURRENT.with_borrow(Clone::clone).unwrap_or_default()
    }

    /// The devices that were lost while they made this job.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Whether the pool wants to know that the device is lost, because it will make the job elsewhere, or begin it
    /// again to do what its policy says. Whoever falls back to the CPU does not do so then, but returns the error.
    pub fn may_move(&self) -> bool {
        self.may_move
    }

    /// Whether the job was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// The flag that is set when the job is cancelled.
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.cancelled.clone()
    }

    /// Runs `work` as this attempt.
    pub(crate) fn during<R>(self, work: impl FnOnce() -> R) -> R {
        struct Restore(Option<Attempt>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(self)));
        work()
    }
}
