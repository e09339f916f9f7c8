//! A job, as the worker's function sees it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};

/// A job: its input, and what it says about itself while it runs.
pub struct Job {
    pub(crate) number: u64,
    pub(crate) input: Vec<u8>,
    pub(crate) stopped: Arc<AtomicBool>,
    pub(crate) report: Map<String, Value>,
    pub(crate) say: Arc<dyn Fn(Value) + Send + Sync>,
    /// Gives the job's place to the next one; none if it was given.
    pub(crate) place: Option<Place>,
}

/// A function that gives a job's place to the next one.
pub(crate) type Place = Box<dyn FnOnce() + Send>;

impl Job {
    /// A job that nobody has given, for tests of functions that work on jobs. What it says is not heard.
    pub fn detached(number: u64, input: Vec<u8>) -> Self {
        Self { number, input, stopped: Arc::default(), report: Map::new(), say: Arc::new(|_| ()), place: None }
    }

    /// The number that whoever gave the job has given it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The job's bytes.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// Tells how far the job is: a fraction of 1, and what it is doing.
    pub fn progress(&self, fraction: f64, phase: &str) {
        (self.say)(json!({ "fraction": fraction, "phase": phase }));
    }

    /// Tells the progress of a job that waits until this worker is done with others. Whoever gave it a time limit
    /// begins to count when the next [`progress`](Self::progress) is told.
    pub fn waits(&self, fraction: f64, phase: &str) {
        (self.say)(json!({ "fraction": fraction, "phase": phase, "waits": true }));
    }

    /// Whether the result is not wanted any more.
    pub fn cancelled(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// An error if the result is not wanted any more, for use with `?`.
    pub fn check(&self) -> Result<(), Failure> {
        if self.cancelled() { Err(Failure::stopped()) } else { Ok(()) }
    }

    /// The flag behind [`Self::cancelled`], for threads of the job.
    pub fn stopped(&self) -> Stopped {
        Stopped(self.stopped.clone())
    }

    /// Lets the next job begin, where several are worked on at once: what is left of this one, such as encoding its
    /// result, does not count among them.
    pub fn give_up_place(&mut self) {
        if let Some(place) = self.place.take() {
            place();
        }
    }

    /// Adds a value to the job's report.
    pub fn report(&mut self, name: &str, value: impl Into<Value>) {
        self.report.insert(name.into(), value.into());
    }
}

/// Tells threads of a job whether its result is still wanted.
#[derive(Clone, Debug)]
pub struct Stopped(Arc<AtomicBool>);

impl Stopped {
    /// Whether the result is not wanted any more.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Says that it is not, as a cancellation does.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The reason why a job has no result. Every error converts to one with `?`.
#[derive(Debug)]
pub struct Failure {
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

impl Failure {
    /// The job itself is at fault: no other worker would do better.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self { kind: "error", message: reason.to_string() }
    }

    /// A failure of this worker, for instance because its device was lost: the job is worth another attempt
    /// elsewhere.
    pub fn elsewhere(reason: impl fmt::Display) -> Self {
        Self { kind: "elsewhere", message: reason.to_string() }
    }

    /// The job ended early because its result is not wanted any more.
    pub fn stopped() -> Self {
        Self { kind: "stopped", message: "the job was cancelled".into() }
    }

    pub(crate) fn refused(message: String) -> Self {
        Self { kind: "refused", message }
    }

    pub(crate) fn panicked(words: &str) -> Self {
        Self { kind: "panic", message: format!("the job panicked: {words}") }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

/// A failure has a display and is not an error itself, because every error converts to it.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
