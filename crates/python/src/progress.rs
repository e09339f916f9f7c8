//! A progress bar on standard error while long work runs, if that is a terminal.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::work::watched;

/// Work that ends sooner shows no bar.
const QUICK: Duration = Duration::from_millis(300);
const WIDTH: usize = 10;

/// The step that the work is at.
#[derive(Default)]
struct Shown {
    /// The number of the step, counted from one.
    step: usize,
    text: String,
}

/// The working thread's side.
pub(crate) struct Steps(Weak<Mutex<Shown>>);

impl Steps {
    /// Begins the next step. After Ctrl-C nobody waits for the result any more, and the work ends here.
    pub(crate) fn next(&self, text: String) -> PyResult<()> {
        let shown = self.0.upgrade().ok_or_else(|| PyKeyboardInterrupt::new_err("nobody waits for this work"))?;
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.step += 1;
        shown.text = text;
        Ok(())
    }
}

/// Runs work of `steps` steps on another thread, while this one checks for Ctrl-C and shows the progress: always or
/// never if `asked` says so, else on a terminal.
pub(crate) fn interruptible_steps<T: Send + 'static>(
    py: Python<'_>,
    title: String,
    asked: Option<bool>,
    steps: usize,
    work: impl FnOnce(&Steps) -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    // Standard error is Python's: it may be replaced by an object of the program.
    let shown_line = py.import("rigel._line")?.getattr("Line")?.call1((asked,))?;
    let shown = Arc::new(Mutex::new(Shown::default()));
    let theirs = Steps(Arc::downgrade(&shown));
    let began = Instant::now();
    let result = watched(
        py,
        move || work(&theirs),
        || {
            if began.elapsed() >= QUICK {
                let text =
                    line(&title, &shown.lock().unwrap_or_else(PoisonError::into_inner), steps, began.elapsed());
                shown_line.call_method1("show", (text,))?;
            }
            Ok(())
        },
    );
    shown_line.call_method0("end")?;
    result
}

/// `keccak 2^17:  67%|######    | 2/3 [00:03, proving on cuda:0]`: the steps that are done, and the current one.
fn line(title: &str, shown: &Shown, steps: usize, elapsed: Duration) -> String {
    let done = shown.step.saturating_sub(1).min(steps);
    let (percent, filled) = (100 * done / steps, WIDTH * done / steps);
    let bar = format!("{}{}", "#".repeat(filled), " ".repeat(WIDTH - filled));
    let (minutes, seconds) = (elapsed.as_secs() / 60, elapsed.as_secs() % 60);
    format!("{title}: {percent:>3}%|{bar}| {done}/{steps} [{minutes:02}:{seconds:02}, {}]", shown.text)
}
