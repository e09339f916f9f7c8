//! Ending a proof early.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rigel_gpu::Attempt;

use crate::base::error::{Error, Result};

thread_local! {
    /// The flag of the proof that this thread makes.
    static CURRENT: RefCell<Option<Cancel>> = const { RefCell::new(None) };
}

/// A flag that ends proofs early: each looks at it when it begins a phase.
///
/// ```
/// use rigel_plonky3::{Cancel, Error};
///
/// let cancel = Cancel::new();
/// // Another thread, with a clone:
/// cancel.clone().cancel();
/// let made = cancel.during(|| {
///     // prove(&prover, &air, trace, &public_values)
/// #   Err::<(), _>(Error::Cancelled)
/// });
/// assert!(matches!(made, Err(Error::Cancelled)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the flag. Proofs that have begun end at their next phase with [`Error::Cancelled`], those on the CPU run to
    /// their end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is set.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs `work`; proofs that it makes on this thread look at this flag.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        struct Restore(Option<Cancel>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(self.clone())));
        work()
    }

    /// The flag of a job of a pool.
    pub(crate) fn of(attempt: &Attempt) -> Self {
        Self(attempt.cancel_flag())
    }

    /// The flag of the proofs that this thread makes.
    pub(crate) fn current() -> Self {
        CURRENT.with_borrow(Clone::clone).unwrap_or_default()
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}
