//! What happens when the device fails in an operation that has no error to return.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

use rigel_gpu::Error;

/// The errors behind the last panics, by their messages: a panic may begin on another thread than it is caught on.
static FAILURES: Mutex<Vec<(String, Error)>> = Mutex::new(Vec::new());

/// How many to keep: those that no one catches must not pile up.
const MOST_FAILURES: usize = 64;

/// Most of Stwo's backend has no way to return an error: it panics with a message that names the cause.
pub(crate) trait OrFail<T> {
    /// The value, or a panic: "CudaBackend could not `task`: cause".
    fn or_fail(self, task: &str) -> T;
}

impl<T> OrFail<T> for rigel_gpu::Result<T> {
    #[track_caller]
    fn or_fail(self, task: &str) -> T {
        match self {
            Ok(value) => value,
            Err(error) => {
                let message = format!("CudaBackend could not {task}: {error}");
                let mut failures = FAILURES.lock().unwrap_or_else(PoisonError::into_inner);
                if failures.len() == MOST_FAILURES {
                    failures.remove(0);
                }
                failures.push((message.clone(), error));
                drop(failures);
                panic!("{message}")
            }
        }
    }
}

/// The value, or a panic that names the task and the cause, and that [`catch`] turns into the error again: for code around
/// the backend that has no error to return either.
#[track_caller]
pub fn or_fail<T>(result: rigel_gpu::Result<T>, task: &str) -> T {
    result.or_fail(task)
}

/// Runs `work`, and returns as an error what made an operation of [`CudaBackend`](crate::CudaBackend) panic: a device
/// that is lost or full, columns of the wrong shape. The device is usable afterwards, unless it is lost. Other panics go
/// on.
///
/// ```
/// use rigel_gpu::{Device, Error, Selector};
/// use stwo::prover::backend::Column;
///
/// # fn main() -> rigel_gpu::Result<()> {
/// let device = Device::open(Selector::Emulated(0))?;
/// device.set_memory_limit(Some(1 << 20));
/// let column = rigel_stwo::on(&device, || {
///     rigel_stwo::catch(|| rigel_stwo::BaseColumn::zeros(1 << 24).into_buffer())
/// });
/// assert!(matches!(column, Err(Error::OutOfMemory { .. })));
/// # Ok(())
/// # }
/// ```
pub fn catch<R>(work: impl FnOnce() -> R) -> rigel_gpu::Result<R> {
    // What the backend holds is consistent after each operation; what `work` was about to make is dropped.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| match behind(&panic) {
        Some(error) => error,
        None => resume_unwind(panic),
    })
}

fn behind(panic: &Box<dyn Any + Send>) -> Option<Error> {
    let message = panic.downcast_ref::<String>()?;
    let mut failures = FAILURES.lock().unwrap_or_else(PoisonError::into_inner);
    let at = failures.iter().rposition(|(known, _)| known == message)?;
    Some(failures.remove(at).1)
}
