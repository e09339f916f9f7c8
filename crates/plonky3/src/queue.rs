//! Several proofs at once, as many as the device's memory has room for.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use p3_matrix::dense::RowMajorMatrix;
use p3_uni_stark::Proof;

use crate::cancel::Cancel;
use crate::config::DeviceConfig;
use crate::error::{Error, Result};
use crate::fallback::CpuAir;
use crate::plan::available;
use crate::prove::{planned_bytes, prove};
use crate::prover::Prover;
use crate::report::Proven;
use crate::trace::Trace;

/// A queue of proofs, made by a few threads in the order in which they were submitted.
///
/// A proof begins when the memory that it plans and the memory that the running ones plan fit together; one that fits
/// with none begins alone, and works in column batches or does what its policy says. As each proof has streams of its
/// own, the upload of one overlaps the work of another. Results come as they are done ([`Self::next`]), whatever the
/// order.
///
/// `T` is what a proof gives: [`Proven`] with a proof of upstream's. Any number of threads may submit, cancel and take
/// results. Dropping the queue cancels what has not ended and waits for it.
///
/// The example `serve` serves proofs to several threads.
pub struct Queue<T> {
    shared: Arc<Shared<T>>,
    workers: Vec<JoinHandle<()>>,
}

/// Names a proof in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

type Work<T> = Box<dyn FnOnce() -> Result<T> + Send>;

struct Job<T> {
    ticket: Ticket,
    bytes: usize,
    cancel: Cancel,
    work: Work<T>,
}

struct Running {
    bytes: usize,
    cancel: Cancel,
}

struct State<T> {
    next: u64,
    waiting: VecDeque<Job<T>>,
    running: BTreeMap<Ticket, Running>,
    done: VecDeque<(Ticket, Result<T>)>,
    closed: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// The bytes that the running proofs share.
    budget: usize,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // The state is consistent between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, once there is room for it; `None` when the queue closes.
    fn take(&self) -> Option<Job<T>> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let used: usize = state.running.values().map(|running| running.bytes).sum();
            let fits = |job: &Job<T>| state.running.is_empty() || used.saturating_add(job.bytes) <= self.budget;
            if state.waiting.front().is_some_and(fits) {
                let job = state.waiting.pop_front().expect("just seen");
                let running = Running { bytes: job.bytes, cancel: job.cancel.clone() };
                state.running.insert(job.ticket, running);
                return Some(job);
            }
            state = self.wait(state);
        }
    }

    fn finish(&self, ticket: Ticket, result: Result<T>) {
        let mut state = self.lock();
        state.running.remove(&ticket);
        state.done.push_back((ticket, result));
        drop(state);
        self.changed.notify_all();
    }
}

impl<T: Send + 'static> Queue<T> {
    /// A queue for proofs of this prover and of others on its device, at most `at_once` of them at a time. Two keep the
    /// device busy if proofs take longer than their uploads.
    pub fn new<SC: DeviceConfig>(prover: &Prover<SC>, at_once: usize) -> Result<Self> {
        if at_once == 0 {
            return Err(Error::Unsupported("a queue that makes 0 proofs at a time; it must be at least 1".into()));
        }
        let budget = match prover.device() {
            Some(device) => available(device)?,
            None => usize::MAX,
        };
        let state = State {
            next: 0,
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            done: VecDeque::new(),
            closed: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), budget });
        let mut queue = Self { shared, workers: Vec::new() };
        for _ in 0..at_once {
            let shared = queue.shared.clone();
            let worker = std::thread::Builder::new().name("rigel proofs".into()).spawn(move || {
                while let Some(Job { ticket, cancel, work, .. }) = shared.take() {
                    let run = || cancel.check().and_then(|()| cancel.during(work));
                    let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
                        let words = panic.downcast_ref::<String>().map(String::as_str);
                        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
                        Err(Error::Upstream(format!("a proof panicked: {}", words.unwrap_or("no reason given"))))
                    });
                    shared.finish(ticket, result);
                }
            });
            let worker = worker.map_err(|error| Error::Unsupported(format!("no thread for proofs: {error}")))?;
            queue.workers.push(worker);
        }
        Ok(queue)
    }

    /// Submits any work that makes a proof and takes up to `bytes` of device memory, as [`plan`](crate::plan()) or
    /// [`plan_batch`](crate::plan_batch) tell: their [`peak`](crate::Plan::peak).
    pub fn submit(&self, bytes: usize, work: impl FnOnce() -> Result<T> + Send + 'static) -> Ticket {
        let mut state = self.shared.lock();
        let ticket = Ticket(state.next);
        state.next += 1;
        state.waiting.push_back(Job { ticket, bytes, cancel: Cancel::new(), work: Box::new(work) });
        drop(state);
        self.shared.changed.notify_all();
        ticket
    }

    /// Ends a proof: one that waits does not begin, one that runs ends at its next phase. Its result is
    /// [`Error::Cancelled`]. Returns whether the proof was waiting or running.
    pub fn cancel(&self, ticket: Ticket) -> bool {
        let mut state = self.shared.lock();
        if let Some(at) = state.waiting.iter().position(|job| job.ticket == ticket) {
            state.waiting.remove(at);
            state.done.push_back((ticket, Err(Error::Cancelled)));
            drop(state);
            self.shared.changed.notify_all();
            return true;
        }
        let running = state.running.get(&ticket);
        running.inspect(|running| running.cancel.cancel());
        running.is_some()
    }

    /// The next result, in the order in which proofs end. Waits for it; `None` if nothing waits or runs.
    pub fn next(&self) -> Option<(Ticket, Result<T>)> {
        let mut state = self.shared.lock();
        loop {
            if let Some(done) = state.done.pop_front() {
                return Some(done);
            }
            if state.waiting.is_empty() && state.running.is_empty() {
                return None;
            }
            state = self.shared.wait(state);
        }
    }

    /// The result of one proof. Waits for it; `None` if there is no such proof or its result was taken.
    pub fn wait(&self, ticket: Ticket) -> Option<Result<T>> {
        let mut state = self.shared.lock();
        loop {
            if let Some(at) = state.done.iter().position(|(done, _)| *done == ticket) {
                return state.done.remove(at).map(|(_, result)| result);
            }
            let waits = state.waiting.iter().any(|job| job.ticket == ticket);
            if !waits && !state.running.contains_key(&ticket) {
                return None;
            }
            state = self.shared.wait(state);
        }
    }
}

impl<SC: DeviceConfig> Queue<Proven<Proof<SC>>>
where
    SC: Send + Sync + 'static,
    Proven<Proof<SC>>: Send,
{
    /// Submits the proof of one table, as [`prove`] makes it.
    pub fn prove<A>(
        &self,
        prover: &Arc<Prover<SC>>,
        air: &Arc<A>,
        trace: RowMajorMatrix<SC::Value>,
        public_values: Vec<SC::Value>,
    ) -> Ticket
    where
        A: CpuAir<SC> + Send + Sync + 'static,
    {
        let trace = Trace::from(trace);
        let bytes = planned_bytes(prover, &trace);
        let (prover, air) = (prover.clone(), air.clone());
        self.submit(bytes, move || prove(&prover, &*air, trace, &public_values))
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.waiting.clear();
        state.running.values().for_each(|running| running.cancel.cancel());
        drop(state);
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            // Workers catch the panics of proofs.
            let _ = worker.join();
        }
    }
}

impl<T> std::fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Queue")
            .field("waiting", &state.waiting.len())
            .field("running", &state.running.len())
            .field("done", &state.done.len())
            .finish_non_exhaustive()
    }
}
