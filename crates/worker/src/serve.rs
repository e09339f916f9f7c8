//! The worker's loop: one thread reads frames, others work.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::frame::{self, Frame, FrameError, Kind};
use crate::job::{Failure, Job, Place};
use crate::{Error, PROTOCOL, streams};

/// A worker's limits.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The most bytes of a job.
    pub most_bytes: u64,
    /// The most jobs that wait while others are worked on; one more is refused.
    pub most_waiting: usize,
}

impl Default for Options {
    /// 4 GiB a job, 16 that wait.
    fn default() -> Self {
        Self { most_bytes: 4 << 30, most_waiting: 16 }
    }
}

/// Takes jobs on standard input and answers on standard output, one job after another, until the input ends.
///
/// `name` says what kind of worker this is, in its greeting. If the input ends while a job is worked on, the process
/// exits, because nobody is left to take the result: with code 0, or with 1 if the input was not a sequence of frames.
pub fn serve(name: &str, work: impl FnMut(&mut Job) -> Result<Vec<u8>, Failure>) -> Result<(), Error> {
    serve_with(name, Options::default(), work)
}

/// [`serve`], with limits.
pub fn serve_with(
    name: &str,
    options: Options,
    mut work: impl FnMut(&mut Job) -> Result<Vec<u8>, Failure>,
) -> Result<(), Error> {
    let (input, output) = streams::take()?;
    run(name, 1, options, buffered(input), output, exit, |jobs| {
        jobs.work(&mut work);
        Ok(())
    })
}

/// [`serve_with`], where up to `at_once` jobs are worked on at the same time, each in a thread of its own; 0 is 1.
///
/// The greeting says how many, and `rigel.cluster` gives that many to a worker. Jobs begin in the order in which they
/// came; their answers come as they are done. A job begins while the answer of the one before is still being written,
/// so that neither a device nor its memory has to wait for the other side. A job that ends the process takes the others
/// with it.
pub fn serve_several(
    name: &str,
    at_once: usize,
    options: Options,
    work: impl Fn(&mut Job) -> Result<Vec<u8>, Failure> + Sync,
) -> Result<(), Error> {
    let (input, output) = streams::take()?;
    run(name, at_once.max(1), options, buffered(input), output, exit, |jobs| jobs.work_several(&work))
}

fn buffered(input: File) -> BufReader<File> {
    BufReader::with_capacity(1 << 20, input)
}

fn exit(code: i32) {
    std::process::exit(code)
}

/// A job that was not begun.
struct Waiting {
    number: u64,
    input: Vec<u8>,
    stopped: Arc<AtomicBool>,
}

/// The state that the threads share.
#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// The jobs that have begun and whose answers are not written yet.
    running: Vec<(u64, Arc<AtomicBool>)>,
    /// The number of these jobs that are still worked on.
    working: usize,
    /// The input has ended, with a reason if it is not its end.
    ended: Option<Result<(), FrameError>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The most jobs that are worked on at the same time.
    at_once: usize,
}

impl Shared {
    /// A job that panics holds none of these locks.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; `None` if no more will come.
    fn next(&self) -> Option<Waiting> {
        let mut state = self.lock();
        loop {
            if state.ended.is_some() {
                return None;
            }
            if state.working < self.at_once
                && let Some(job) = state.waiting.pop_front()
            {
                state.working += 1;
                state.running.push((job.number, job.stopped.clone()));
                return Some(job);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A job is over; the next may begin before it is answered.
    fn worked(&self) {
        self.lock().working -= 1;
        self.changed.notify_one();
    }

    /// A job is answered. Two jobs may have the same number: the flag is that of this one.
    fn answered(&self, stopped: &Arc<AtomicBool>) {
        self.lock().running.retain(|(_, running)| !Arc::ptr_eq(running, stopped));
    }

    /// Ends the input: no job begins any more.
    fn end(&self, ended: Result<(), FrameError>) {
        self.lock().ended = Some(ended);
        self.changed.notify_all();
    }
}

type Out<W> = Arc<Mutex<W>>;

/// A line on standard error. `eprintln!` would panic if nobody reads it any more, as when the parent is gone.
fn say(words: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{words}");
}

/// Writes a frame. If nobody reads any more, the input ends too, which ends the worker.
fn send<W: Write>(out: &Out<W>, kind: Kind, job: u64, parts: &[&[u8]]) {
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = frame::write(&mut *out, kind, job, parts) {
        say(format_args!("the worker's answer about job {job} was not taken: {error}"));
    }
}

fn fail<W: Write>(out: &Out<W>, job: u64, failure: &Failure, report: Map<String, Value>) {
    let answer = json!({ "kind": failure.kind, "message": failure.message, "report": report });
    send(out, Kind::Failed, job, &[answer.to_string().as_bytes()]);
}

/// The jobs that come in, for the threads that work on them.
struct Jobs<W> {
    shared: Arc<Shared>,
    out: Out<W>,
}

impl<W: Write + Send + 'static> Jobs<W> {
    /// Works on one job after another until no more will come.
    fn work(&self, work: &mut impl FnMut(&mut Job) -> Result<Vec<u8>, Failure>) {
        while let Some(job) = self.shared.next() {
            let stopped = job.stopped.clone();
            let shared = self.shared.clone();
            let answer = answer(&self.out, job, Box::new(move || shared.worked()), work);
            answer.send(&self.out);
            self.shared.answered(&stopped);
        }
    }

    /// Works on jobs as [`Self::work`] does, in as many threads as can be busy: for each job that is worked on,
    /// another is being answered.
    fn work_several(&self, work: &(impl Fn(&mut Job) -> Result<Vec<u8>, Failure> + Sync)) -> Result<(), Error> {
        thread::scope(|scope| {
            for _ in 1..2 * self.shared.at_once {
                let thread = thread::Builder::new().name("job".into());
                if let Err(source) = thread.spawn_scoped(scope, || self.work(&mut |job: &mut Job| work(job))) {
                    self.shared.end(Ok(()));
                    return Err(Error::Stream { stream: "thread that works on jobs", source });
                }
            }
            self.work(&mut |job: &mut Job| work(job));
            Ok(())
        })
    }
}

/// The loop over any pair of streams. `abandoned` is called, with an exit code, if the input ends while a job is worked
/// on or answered.
fn run<R: Read + Send + 'static, W: Write + Send + 'static>(
    name: &str,
    at_once: usize,
    options: Options,
    mut input: R,
    output: W,
    abandoned: impl Fn(i32) + Send + 'static,
    work: impl FnOnce(&Jobs<W>) -> Result<(), Error>,
) -> Result<(), Error> {
    let out = Arc::new(Mutex::new(output));
    let hello = json!({
        "protocol": PROTOCOL,
        "name": name,
        "pid": std::process::id(),
        "most_bytes": options.most_bytes,
        "most_waiting": options.most_waiting,
        "at_once": at_once,
    });
    send(&out, Kind::Hello, 0, &[hello.to_string().as_bytes()]);

    let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), at_once });
    let reader = {
        let (shared, out) = (shared.clone(), out.clone());
        thread::Builder::new().name("frames".into()).spawn(move || {
            let ended = loop {
                match frame::read(&mut input, options.most_bytes) {
                    Ok(None) => break Ok(()),
                    Ok(Some(frame)) => accept(&shared, &out, options, frame),
                    Err(error) => break Err(error),
                }
            };
            let code = i32::from(ended.is_err());
            let words = ended.as_ref().err().map(|error| format!("the worker ends: {error}"));
            let mut state = shared.lock();
            let running = !state.running.is_empty();
            for (_, stopped) in &state.running {
                stopped.store(true, Ordering::Relaxed);
            }
            state.ended = Some(ended);
            drop(state);
            shared.changed.notify_all();
            // If no job runs, the thread that works says it.
            if running {
                if let Some(words) = words {
                    say(format_args!("{words}"));
                }
                abandoned(code);
            }
        })
    };
    if let Err(source) = reader {
        return Err(Error::Stream { stream: "thread that reads standard input", source });
    }
    work(&Jobs { shared: shared.clone(), out })?;
    match shared.lock().ended.take() {
        Some(Err(error)) => {
            say(format_args!("the worker ends: {error}"));
            Err(error.into())
        }
        _ => Ok(()),
    }
}

/// Applies a frame to the state: queues a job or stops one. Other frames are refused.
fn accept<W: Write>(shared: &Shared, out: &Out<W>, options: Options, frame: Frame) {
    let Frame { kind, job: number, payload } = frame;
    let refuse = |reason: String| fail(out, number, &Failure::refused(reason), Map::new());
    let mut state = shared.lock();
    match kind {
        // Those that are about to begin do not wait.
        Kind::Job if state.waiting.len() + state.working >= options.most_waiting + shared.at_once => {
            drop(state);
            refuse(format!("{} jobs wait already; give it to another worker", options.most_waiting));
        }
        Kind::Job => {
            state.waiting.push_back(Waiting { number, input: payload, stopped: Arc::default() });
            drop(state);
            shared.changed.notify_one();
        }
        Kind::Stop => {
            if let Some(at) = state.waiting.iter().position(|waiting| waiting.number == number) {
                state.waiting.remove(at);
                drop(state);
                fail(out, number, &Failure::stopped(), Map::new());
            } else if let Some((_, stopped)) = state.running.iter().find(|(running, _)| *running == number) {
                stopped.store(true, Ordering::Relaxed);
            }
            // A job that is neither has been answered; the two have crossed on their way.
        }
        Kind::Hello | Kind::Progress | Kind::Done | Kind::Failed => {
            drop(state);
            refuse(format!("a worker does not take frames of the kind {kind:?}"));
        }
    }
}

/// The contents of the frame that answers a job.
struct Answer {
    job: u64,
    report: Map<String, Value>,
    result: Result<Vec<u8>, Failure>,
}

impl Answer {
    fn send<W: Write>(mut self, out: &Out<W>) {
        match self.result {
            Ok(result) => {
                self.report.insert("output_bytes".into(), result.len().into());
                let report = Value::from(self.report).to_string();
                let length = (report.len() as u32).to_le_bytes();
                send(out, Kind::Done, self.job, &[&length, report.as_bytes(), &result]);
            }
            Err(failure) => fail(out, self.job, &failure, self.report),
        }
    }
}

/// Works on a job, and gives up its place.
fn answer<W: Write + Send + 'static>(
    out: &Out<W>,
    Waiting { number, input, stopped }: Waiting,
    place: Place,
    work: &mut impl FnMut(&mut Job) -> Result<Vec<u8>, Failure>,
) -> Answer {
    let progress = {
        let out = out.clone();
        Arc::new(move |value: Value| send(&out, Kind::Progress, number, &[value.to_string().as_bytes()]))
    };
    let mut job = Job { number, input, stopped, report: Map::new(), say: progress, place: Some(place) };
    let began = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| work(&mut job))).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Failure::panicked(words.unwrap_or("without a reason")))
    });
    job.give_up_place();
    let mut report = job.report;
    report.insert("seconds".into(), began.elapsed().as_secs_f64().into());
    report.insert("input_bytes".into(), job.input.len().into());
    Answer { job: number, report, result }
}
