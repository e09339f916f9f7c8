//! Failures in operations that can't return an error.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rigel_gpu::Error;
use rigel_gpu::Lock;

/// The errors behind the latest panics, by message, because a panic may be caught on another thread.
static FAILURES: Lock<VecDeque<(String, Error)>> = Lock::new(VecDeque::new());

/// The number of errors to keep. Upstream evaluates columns on many threads: all of them may panic before the
/// first of the panics is caught, with messages of which few differ.
const MOST_FAILURES: usize = 1024;

/// Panics with a message that names the cause, since most of Stwo's backend traits can't return an error.
pub(crate) trait OrFail<T> {
    /// Returns the value, or panics with "CudaBackend could not `task`: cause".
    fn or_fail(self, task: &str) -> T;
}

impl<T> OrFail<T> for rigel_gpu::Result<T> {
    #[track_caller]
    fn or_fail(self, task: &str) -> T {
        match self {
            Ok(value) => value,
            Err(error) => {
                let message = format!("CudaBackend could not {task}: {error}");
                let mut failures = FAILURES.lock();
                if let Some(known) = failures.iter().rposition(|(known, _)| *known == message) {
                    failures.remove(known);
                } else if failures.len() == MOST_FAILURES {
                    failures.pop_front();
                }
                failures.push_back((message.clone(), error));
                drop(failures);
                panic!("{message}")
            }
        }
    }
}

/// Returns the value, or panics with the task and the cause; [`catch`] turns the panic back into the error. For
/// code around the backend that can't return an error either.
#[track_caller]
pub fn or_fail<T>(result: rigel_gpu::Result<T>, task: &str) -> T {
    result.or_fail(task)
}

/// Runs `work` and turns a panic of [`CudaBackend`](crate::CudaBackend) into its error: a device that is lost or
/// out of memory, or columns of the wrong shape. Unless it is lost, the device stays usable. Other panics
/// continue.
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
    // The backend's state is consistent after each operation, and the result of `work` is dropped.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| match behind(&panic) {
        Some(error) => error,
        None => resume_unwind(panic),
    })
}

fn behind(panic: &Box<dyn Any + Send>) -> Option<Error> {
    let message = panic.downcast_ref::<String>()?;
    // It stays there for other threads that panic with the same message.
    FAILURES.lock().iter().rfind(|(known, _)| known == message).map(|(_, error)| error.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many panics keep the first one's error, as when the columns of a wide trace are evaluated on many threads
    /// while memory is short.
    #[test]
    fn the_error_of_the_first_of_many_panics_is_found() {
        let panic = |number: usize| {
            let error = || Err::<(), _>(Error::shape("test", format!("column {}", number % 500)));
            catch_unwind(AssertUnwindSafe(|| error().or_fail("evaluate"))).unwrap_err()
        };
        let first = panic(0);
        (1..5_000).for_each(|number| drop(panic(number)));
        for _ in 0..2 {
            assert!(behind(&first).unwrap().to_string().contains("column 0"));
        }
        let foreign: Box<dyn Any + Send> = Box::new(String::from("index out of bounds"));
        assert!(behind(&foreign).is_none());
    }
}
