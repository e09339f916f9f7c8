//! The worker's loop: one thread reads frames, another works.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::frame::{self, Frame, FrameError, Kind};
use crate::job::{Failure, Job};
use crate::{Error, PROTOCOL, streams};

/// A worker's limits.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The most bytes of a job.
    pub most_bytes: u64,
    /// The most jobs that wait while one is worked on; one more is refused.
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
    work: impl FnMut(&mut Job) -> Result<Vec<u8>, Failure>,
) -> Result<(), Error> {
    let (input, output) = streams::take()?;
    run(name, options, BufReader::with_capacity(1 << 20, input), output, |code| std::process::exit(code), work)
}

/// A job that was not begun.
struct Waiting {
    number: u64,
    input: Vec<u8>,
    stopped: Arc<AtomicBool>,
}

/// What the two threads share.
#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// The job that is worked on.
    running: Option<(u64, Arc<AtomicBool>)>,
    /// The input has ended, with a reason if it is not its end.
    ended: Option<Result<(), FrameError>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
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
            if let Some(job) = state.waiting.pop_front() {
                state.running = Some((job.number, job.stopped.clone()));
                return Some(job);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
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

/// The loop over any pair of streams. `abandoned` is called, with an exit code, if the input ends while a job is worked
/// on.
fn run<R: Read + Send + 'static, W: Write + Send + 'static>(
    name: &str,
    options: Options,
    mut input: R,
    output: W,
    abandoned: impl Fn(i32) + Send + 'static,
    mut work: impl FnMut(&mut Job) -> Result<Vec<u8>, Failure>,
) -> Result<(), Error> {
    let out = Arc::new(Mutex::new(output));
    let hello = json!({
        "protocol": PROTOCOL,
        "name": name,
        "pid": std::process::id(),
        "most_bytes": options.most_bytes,
        "most_waiting": options.most_waiting,
    });
    send(&out, Kind::Hello, 0, &[hello.to_string().as_bytes()]);

    let shared = Arc::new(Shared::default());
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
            let running = state.running.is_some();
            if let Some((_, stopped)) = &state.running {
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
    while let Some(job) = shared.next() {
        answer(&out, job, &mut work);
        shared.lock().running = None;
    }
    match shared.lock().ended.take() {
        Some(Err(error)) => {
            say(format_args!("the worker ends: {error}"));
            Err(error.into())
        }
        _ => Ok(()),
    }
}

/// What a frame changes.
fn accept<W: Write>(shared: &Shared, out: &Out<W>, options: Options, frame: Frame) {
    let Frame { kind, job: number, payload } = frame;
    let refuse = |reason: String| fail(out, number, &Failure::refused(reason), Map::new());
    let mut state = shared.lock();
    match kind {
        Kind::Job if state.waiting.len() >= options.most_waiting => {
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
            } else if let Some((running, stopped)) = &state.running
                && *running == number
            {
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

/// Works on a job, and answers.
fn answer<W: Write + Send + 'static>(
    out: &Out<W>,
    Waiting { number, input, stopped }: Waiting,
    work: &mut impl FnMut(&mut Job) -> Result<Vec<u8>, Failure>,
) {
    let progress = {
        let out = out.clone();
        Arc::new(move |value: Value| send(&out, Kind::Progress, number, &[value.to_string().as_bytes()]))
    };
    let mut job = Job { number, input, stopped, report: Map::new(), say: progress };
    let began = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| work(&mut job))).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Failure::panicked(words.unwrap_or("without a reason")))
    });
    let mut report = job.report;
    report.insert("seconds".into(), began.elapsed().as_secs_f64().into());
    report.insert("input_bytes".into(), job.input.len().into());
    match result {
        Ok(result) => {
            report.insert("output_bytes".into(), result.len().into());
            let report = Value::from(report).to_string();
            let length = (report.len() as u32).to_le_bytes();
            send(out, Kind::Done, number, &[&length, report.as_bytes(), &result]);
        }
        Err(failure) => fail(out, number, &failure, report),
    }
}
