//! Runs calls with or without Python's global lock, reacts to Ctrl-C, and catches panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rigel_array::{Array, Device, Result};

use crate::error::raise;

/// The number of elements above which an operation on the CPU takes longer than releasing and reacquiring Python's
/// lock.
const LONG: usize = 1 << 15;

/// The interval at which the waiting thread checks for Python signals.
const GLANCE: Duration = Duration::from_millis(50);

/// The time for which the calling thread waits for a device before it uses another thread.
const SPIN: Duration = Duration::from_micros(300);

fn internal(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    PyRuntimeError::new_err(format!("internal error: {text}"))
}

/// Runs Rust code for Python. A panic becomes a RuntimeError.
pub(crate) fn guard<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(internal(&*panic)))
}

/// Runs short work, with Python's lock held.
pub(crate) fn quick<T>(work: impl FnOnce() -> Result<T>) -> PyResult<T> {
    guard(|| work().map_err(raise))
}

/// Runs long work, without Python's lock.
pub(crate) fn released<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    guard(|| py.detach(work).map_err(raise))
}

/// Runs an operation on `elements` elements of `device`, without Python's lock if that pays off. The first call on
/// a device may compile a kernel.
pub(crate) fn sized<T: Send>(
    py: Python<'_>,
    elements: usize,
    on_cpu: bool,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    if on_cpu && elements < LONG { quick(work) } else { released(py, work) }
}

/// An operation on one array.
pub(crate) fn on<T: Send>(py: Python<'_>, array: &Array, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    sized(py, array.len(), is_on_cpu(array), work)
}

/// Whether an array is on the CPU.
pub(crate) fn is_on_cpu(array: &Array) -> bool {
    array.device().is_cpu()
}

/// Runs work that may take seconds on another thread, while this one checks for Ctrl-C. On Ctrl-C, the exception
/// is raised immediately; the work continues to its end, and its result is dropped.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    interruptible_with(py, move || work().map_err(raise))
}

/// Runs work that returns Python errors as [`interruptible`] does.
pub(crate) fn interruptible_with<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    watched(py, work, || Ok(()))
}

/// Runs work as [`interruptible_with`] does, with a call between the checks for Ctrl-C. Its errors end the wait
/// too.
pub(crate) fn watched<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> PyResult<T> + Send + 'static,
    mut meanwhile: impl FnMut() -> PyResult<()>,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let run = move || {
        // The receiver may be gone.
        let _ = sender.send(guard(work));
    };
    let started = thread::Builder::new().name("rigel-work".into()).spawn(run);
    started.map_err(|error| PyRuntimeError::new_err(format!("could not start a thread: {error}")))?;
    loop {
        // A receiver is not Sync, but it is only used on this thread.
        let waiting = AssertSend(&receiver);
        match py.detach(move || waiting.receive(GLANCE)) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                meanwhile()?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("internal error: a working thread was lost"));
            }
        }
    }
}

struct AssertSend<'a, T>(&'a mpsc::Receiver<T>);

// SAFETY: `Python::detach` runs its closure on the calling thread, which is the receiver's.
unsafe impl<T> Send for AssertSend<'_, T> {}

impl<T> AssertSend<'_, T> {
    fn receive(&self, patience: Duration) -> std::result::Result<T, RecvTimeoutError> {
        self.0.recv_timeout(patience)
    }
}

/// Runs work on the CPU that takes `steps` elementary steps, on another thread only if that is long. On a device,
/// the call only enqueues the work.
pub(crate) fn heavy<T: Send + 'static>(
    py: Python<'_>,
    steps: f64,
    on_cpu: bool,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    const SECONDS_LONG: f64 = 1e8;
    if on_cpu && steps > SECONDS_LONG { interruptible(py, work) } else { sized(py, steps as usize, on_cpu, work) }
}

/// Runs work as [`heavy`] does that waits for a device before its end, as eliminations do, which read a number for
/// each column: there, too, it runs on another thread.
pub(crate) fn waiting<T: Send + 'static>(
    py: Python<'_>,
    steps: f64,
    on_cpu: bool,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    if on_cpu { heavy(py, steps, on_cpu, work) } else { interruptible(py, work) }
}

/// Waits for a device while checking for Ctrl-C, so that a later download does not block.
pub(crate) fn settle(py: Python<'_>, device: &Device) -> PyResult<()> {
    let Device::Gpu(device) = device else { return Ok(()) };
    let event = released(py, || Ok(device.compute()?.record()?))?;
    let done = released(py, || {
        let start = Instant::now();
        while !event.is_done()? {
            if start.elapsed() > SPIN {
                return Ok(false);
            }
            std::hint::spin_loop();
        }
        Ok(true)
    })?;
    if done { Ok(()) } else { interruptible(py, move || Ok(event.synchronize()?)) }
}
