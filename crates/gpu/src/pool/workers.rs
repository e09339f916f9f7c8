//! The threads of a pool, and the results of its jobs.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::schedule::{Schedule, Share, Ticket, Waiting};
use crate::base::{Error, Lock, Result};
use crate::device::Device;
use crate::work::{Attempt, Move};

/// Jobs over several devices, such as the proofs of a door.
///
/// Jobs begin in the order in which they were submitted, each on the device that is expected to be done with it
/// first: a job begins where the memory that it plans and the memory that the jobs under way plan fit together, and
/// where the jobs under way are expected to take least. A job that fits with none begins alone.
///
/// A device that is lost gets no more jobs. Those that it was making begin anew on the others, which is why a job can
/// be called several times; [`Attempt::current`] and [`Report::moves`](crate::Report::moves) tell. A job that loses a
/// second device gets no third, since it may be the cause. It runs once more on the device that it lost, as all jobs do
/// when no device is left: [`Attempt::may_move`] is false there, so it may use the CPU, and its error is final.
///
/// `D` is what jobs get of their device: a prover, say. Threads that run jobs stay on the CPUs of the device's NUMA
/// node.
/// Dropping the pool cancels what has not ended and waits for it.
///
/// ```
/// use rigel_gpu::{Error, Member, Pool, Selectors};
///
/// # fn main() -> rigel_gpu::Result<()> {
/// let devices = "emulated:0,emulated:1".parse::<Selectors>()?.open()?;
/// let member = |device: rigel_gpu::Device| Member { budget: 1 << 30, device: Some(device.clone()), to: device };
/// let members = devices.into_iter().map(member);
/// let pool = Pool::<_, u32, Error>::new(members.collect(), 1)?;
/// for i in 0..4u32 {
///     pool.submit(1 << 20, move |device| {
///         let stream = device.compute()?;
///         Ok(stream.upload(&[i, i])?.to_vec(&stream)?.iter().sum())
///     });
/// }
/// let mut sums: Vec<u32> = std::iter::from_fn(|| pool.next()).map(|(_, sum)| sum).collect::<Result<_, _>>()?;
/// sums.sort_unstable();
/// assert_eq!(sums, [0, 2, 4, 6]);
/// # Ok(())
/// # }
/// ```
pub struct Pool<D, T, E> {
    shared: Arc<Shared<D, T, E>>,
    workers: Vec<JoinHandle<()>>,
}

/// A device of a pool.
#[derive(Clone, Debug)]
pub struct Member<D> {
    /// The value that jobs on this device get.
    pub to: D,
    /// The device; `None` for the CPU.
    pub device: Option<Device>,
    /// The bytes of device memory that the jobs under way share: [`Device::available_among`] the devices of the pool.
    pub budget: usize,
}

/// The properties of a job's error that decide how its pool goes on.
pub trait PoolError: fmt::Display + Send + 'static {
    /// Whether the device is lost, so that another may succeed.
    fn is_lost_device(&self) -> bool;
    /// Whether it is an error of the device at all. On a device that is lost, each of them means that it is lost.
    fn is_of_device(&self) -> bool;
    /// The error of a job that was cancelled.
    fn cancelled() -> Self;
    /// The error of a job that panicked.
    fn panicked(message: String) -> Self;
}

impl PoolError for Error {
    fn is_lost_device(&self) -> bool {
        matches!(self, Self::DeviceLost { .. })
    }

    fn is_of_device(&self) -> bool {
        matches!(self, Self::DeviceLost { .. } | Self::Driver { .. } | Self::Fault { .. })
    }

    fn cancelled() -> Self {
        Self::Cancelled
    }

    fn panicked(message: String) -> Self {
        Self::Panicked(message)
    }
}

/// A job that has lost this many devices gets no other: it may be what loses them, as a kernel that reads memory out of
/// bounds is, and would lose all.
const MOST_LOST: usize = 2;

type Work<D, T, E> = Box<dyn FnMut(&D) -> Result<T, E> + Send>;

struct Job<D, T, E> {
    cancelled: Arc<AtomicBool>,
    moves: Vec<Move>,
    work: Work<D, T, E>,
}

/// A job that was taken out of the schedule.
type Taken<D, T, E> = Waiting<Job<D, T, E>>;

struct State<D, T, E> {
    schedule: Schedule<Job<D, T, E>>,
    /// The flags of the jobs under way.
    running: BTreeMap<Ticket, Arc<AtomicBool>>,
    done: VecDeque<(Ticket, Result<T, E>)>,
    closed: bool,
}

struct Shared<D, T, E> {
    state: Lock<State<D, T, E>>,
    changed: Condvar,
    members: Vec<Member<D>>,
    began: Instant,
}

impl<D, T, E: PoolError> Shared<D, T, E> {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<D, T, E>>) -> MutexGuard<'a, State<D, T, E>> {
        self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The next job that begins on device `place`, and whether another attempt can follow; `None` when the pool closes.
    fn take(&self, place: usize) -> Option<(Taken<D, T, E>, bool)> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some((waiting, may_move)) = state.schedule.begin(place, self.now()) {
                state.running.insert(waiting.ticket, waiting.job.cancelled.clone());
                // What begins here may let the next job begin elsewhere.
                self.changed.notify_all();
                return Some((waiting, may_move));
            }
            state = self.wait(state);
        }
    }

    /// Runs jobs on device `place` until the pool closes.
    fn serve(&self, place: usize) {
        let member = &self.members[place];
        if let Some(device) = &member.device {
            device.stay_near();
        }
        while let Some((mut waiting, mut may_move)) = self.take(place) {
            loop {
                let result = Self::run(member, &mut waiting.job, may_move);
                match self.finish(place, waiting, result, may_move) {
                    Some(again) => (waiting, may_move) = (again, false),
                    None => break,
                }
            }
        }
    }

    fn run(member: &Member<D>, job: &mut Job<D, T, E>, may_move: bool) -> Result<T, E> {
        let attempt = Attempt { cancelled: job.cancelled.clone(), moves: job.moves.clone(), may_move };
        if attempt.is_cancelled() {
            return Err(E::cancelled());
        }
        let run = || attempt.during(|| (job.work)(&member.to));
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(E::panicked(words.unwrap_or("no reason given").to_string()))
        })
    }

    /// Notes how an attempt ended. Returns the job if it runs once more on this device, and no other.
    fn finish(
        &self,
        place: usize,
        mut waiting: Taken<D, T, E>,
        result: Result<T, E>,
        may_move: bool,
    ) -> Option<Taken<D, T, E>> {
        let mut state = self.state.lock();
        let (ticket, job) = (waiting.ticket, &mut waiting.job);
        let is_lost = |error: &E| error.is_lost_device() || state.schedule.is_lost(place) && error.is_of_device();
        let lost = result.as_ref().err().filter(|error| may_move && is_lost(error)).map(E::to_string);
        let result = match lost {
            Some(reason) => {
                job.moves.push(Move { from: state.schedule.name(place).to_string(), reason: reason.clone() });
                state.schedule.lose(place, reason);
                if job.cancelled.load(Ordering::Relaxed) || state.closed {
                    Some(Err(E::cancelled()))
                } else if job.moves.len() >= MOST_LOST {
                    drop(state);
                    self.changed.notify_all();
                    return Some(waiting);
                } else {
                    None
                }
            }
            None => Some(result),
        };
        state.running.remove(&ticket);
        match result {
            Some(result) => {
                state.schedule.end(place, ticket, result.is_ok(), self.now());
                state.done.push_back((ticket, result));
            }
            None => state.schedule.again(place, waiting, self.now()),
        }
        // The closure of a job that has ended is dropped on return, which is after the lock.
        drop(state);
        self.changed.notify_all();
        None
    }
}

impl<D, T, E> Pool<D, T, E>
where
    D: Send + Sync + 'static,
    T: Send + 'static,
    E: PoolError,
{
    /// A pool over these devices, at most `at_once` jobs on each at a time.
    pub fn new(members: Vec<Member<D>>, at_once: usize) -> Result<Self> {
        if members.is_empty() {
            return Err(Error::shape("Pool::new", "a pool over 0 devices; give at least one"));
        }
        if at_once == 0 {
            return Err(Error::shape("Pool::new", "0 jobs at a time on each device; it must be at least 1"));
        }
        for (i, member) in members.iter().enumerate() {
            let same = |other: &&Member<D>| match (&other.device, &member.device) {
                (Some(other), Some(device)) => other.is(device) || other.to_string() == device.to_string(),
                (None, None) => true,
                _ => false,
            };
            if let Some(twice) = members[..i].iter().find(same) {
                let name = name(twice);
                return Err(Error::shape("Pool::new", format!("{name} is there twice; give each device once")));
            }
        }
        let places: Vec<_> = members.iter().map(|member| (name(member), member.budget)).collect();
        let state = State {
            schedule: Schedule::new(places, at_once),
            running: BTreeMap::new(),
            done: VecDeque::new(),
            closed: false,
        };
        let devices = members.len();
        let shared =
            Arc::new(Shared { state: Lock::new(state), changed: Condvar::new(), members, began: Instant::now() });
        let mut pool = Self { shared, workers: Vec::new() };
        for place in (0..devices).flat_map(|place| std::iter::repeat_n(place, at_once)) {
            let shared = pool.shared.clone();
            let worker = std::thread::Builder::new().name("rigel pool".into()).spawn(move || shared.serve(place));
            let refused =
                |error: std::io::Error| Error::shape("Pool::new", format!("no thread for jobs: {error}"));
            pool.workers.push(worker.map_err(refused)?);
        }
        Ok(pool)
    }

    /// Submits a job that takes up to `bytes` of device memory. It is called again if its device is lost.
    pub fn submit(&self, bytes: usize, work: impl FnMut(&D) -> Result<T, E> + Send + 'static) -> Ticket {
        let job = Job { cancelled: Arc::default(), moves: Vec::new(), work: Box::new(work) };
        let ticket = self.shared.state.lock().schedule.submit(bytes, job);
        self.shared.changed.notify_all();
        ticket
    }

    /// Ends a job: one that waits does not begin, one that runs ends when it next looks at [`Attempt::is_cancelled`],
    /// if it does. Returns whether the job was waiting or running.
    pub fn cancel(&self, ticket: Ticket) -> bool {
        let mut state = self.shared.state.lock();
        if let Some(withdrawn) = state.schedule.withdraw(ticket) {
            state.done.push_back((ticket, Err(E::cancelled())));
            drop(state);
            self.shared.changed.notify_all();
            // Values that the closure owns may use the pool when they are dropped, so no lock is held here.
            drop(withdrawn);
            return true;
        }
        let running = state.running.get(&ticket);
        running.inspect(|cancelled| cancelled.store(true, Ordering::Relaxed));
        running.is_some()
    }

    /// The next result, in the order in which jobs end. Waits for it; `None` if nothing waits or runs.
    pub fn next(&self) -> Option<(Ticket, Result<T, E>)> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(done) = state.done.pop_front() {
                return Some(done);
            }
            if state.schedule.counts() == (0, 0) {
                return None;
            }
            state = self.shared.wait(state);
        }
    }

    /// The result of one job. Waits for it; `None` if there is no such job or its result was taken.
    pub fn wait(&self, ticket: Ticket) -> Option<Result<T, E>> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(at) = state.done.iter().position(|(done, _)| *done == ticket) {
                return state.done.remove(at).map(|(_, result)| result);
            }
            if !state.schedule.has(ticket) {
                return None;
            }
            state = self.shared.wait(state);
        }
    }

    /// The work that each device has done so far, in the order in which the devices were given.
    pub fn shares(&self) -> Vec<Share> {
        self.shared.state.lock().schedule.shares(self.shared.now())
    }

    /// The devices of the pool, each with the value that its jobs get.
    pub fn members(&self) -> &[Member<D>] {
        &self.shared.members
    }
}

fn name<D>(member: &Member<D>) -> String {
    member.device.as_ref().map_or("cpu".into(), ToString::to_string)
}

impl<D, T, E> Drop for Pool<D, T, E> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.closed = true;
        let withdrawn = state.schedule.withdraw_all();
        state.running.values().for_each(|cancelled| cancelled.store(true, Ordering::Relaxed));
        drop(state);
        self.shared.changed.notify_all();
        // Values that the closures own may wait for a job under way when they are dropped, and that job needs the lock.
        drop(withdrawn);
        for worker in self.workers.drain(..) {
            // Workers catch the panics of jobs.
            let _ = worker.join();
        }
    }
}

impl<D, T, E> fmt::Debug for Pool<D, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        let (waiting, running) = state.schedule.counts();
        f.debug_struct("Pool")
            .field("devices", &self.shared.members.len())
            .field("waiting", &waiting)
            .field("running", &running)
            .field("done", &state.done.len())
            .finish_non_exhaustive()
    }
}
