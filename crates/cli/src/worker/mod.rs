//! `rigel worker`: proofs as jobs of a cluster (`rigel_worker`, `rigel.cluster` of the Python package).
//!
//! A job begins with a line of JSON. It names a workload, with the options of `rigel prove`, or a machine:
//!
//! ```text
//! {"workload": "fibonacci", "log_rows": 10, "field": "koala-bear", "queries": 40}
//! {"machine": "cairo", "program_bytes": 5120, "options": {"args": "100", "variant": "canonical-small"}}
//! ```
//!
//! The program of a machine follows the line, and then what `--input` (Cairo) or `--stdin` (RISC Zero) would name, if
//! anything. The result is the proof file that `rigel prove -o` or the machine's `prove -o` writes.
//!
//! Several proofs of the same statement are made at once (`--at-once`), because one uses the device while another
//! copies or is written. A machine has the device alone.

mod machine;
mod ready;

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args as _, Command, FromArgMatches as _};
use ready::Ready;
use rigel_gpu::{Device, DeviceKind, Error, Selector};
use rigel_statements::{Made, OnFailure, Statement, timed};
use rigel_worker::{Failure as JobFailure, Job, Options};
use serde_json::{Map, Value};

use crate::choice::Choice;
use crate::proof_file::{self, Header};
use crate::{Failure, prove};

/// Proofs at once on a GPU, unless it is said otherwise: the upload of one overlaps the work of the other.
const AT_ONCE: usize = 2;
/// The most proofs at once.
const MOST_AT_ONCE: u8 = 16;
/// Proofs at once without `--at-once`. `rigel.cluster` sets it where several workers share a GPU.
const AT_ONCE_VARIABLE: &str = "RIGEL_WORKER_AT_ONCE";
/// The longest line of a job. Parsed, it takes some 50 times as much memory.
const MOST_LINE: usize = 1 << 16;
/// Statements of which a worker remembers that two proofs do not fit beside each other.
const MOST_CROWDED: usize = 64;

#[derive(clap::Args)]
#[command(after_help = "\
A worker talks to the program that started it, over its standard input and output, in frames that the documentation of
rigel-worker describes. The Python package starts workers on the machines of a cluster: rigel.cluster.")]
pub struct Arguments {
    /// Device: auto, cuda:N, emulated, emulated:N or none [default: RIGEL_DEVICE, or auto, which is the CPU if there is
    /// no GPU]
    #[arg(long, conflicts_with = "cpu")]
    device: Option<Selector>,
    /// Prove on the CPU, with upstream's provers
    #[arg(long)]
    cpu: bool,
    /// Proofs of a workload that are made at once; each needs the device memory of one. A proof that does not fit
    /// beside another is made again alone [default: RIGEL_WORKER_AT_ONCE, or 2 on a GPU and otherwise 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=MOST_AT_ONCE as i64))]
    at_once: Option<u8>,
}

/// Works on jobs until its standard input ends.
pub fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let (device, _) = prove::open(arguments.cpu, arguments.device, false)?;
    machine::sweep();
    let on_gpu = device.as_ref().is_some_and(|device| device.kind() == DeviceKind::Cuda);
    let stated = std::env::var(AT_ONCE_VARIABLE).ok();
    let at_once = at_once(arguments.at_once, stated.as_deref(), on_gpu)?;
    let worker = Worker { place: place(arguments), device, ready: Ready::new(), crowded: Mutex::default() };
    rigel_worker::serve_several("rigel", at_once, Options::default(), |job| worker.work(job))?;
    Ok(true)
}

/// The request of a job.
pub enum Request<'a> {
    /// A machine, with the fields of the line and what follows it.
    Machine {
        fields: Map<String, Value>,
        rest: &'a [u8],
    },
    Workload(Choice),
}

impl<'a> Request<'a> {
    pub fn of(input: &'a [u8]) -> Result<Self, String> {
        let end = input.iter().take(MOST_LINE + 1).position(|byte| *byte == b'\n').unwrap_or(input.len());
        if end > MOST_LINE {
            return Err(format!(
                "a job begins with a line of JSON of at most {MOST_LINE} bytes, and this one is longer"
            ));
        }
        let (line, rest) = (&input[..end], input.get(end + 1..).unwrap_or_default());
        let fields: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| format!("a job begins with a line of JSON: {error}"))?;
        if fields.contains_key("machine") {
            return Ok(Self::Machine { fields, rest });
        }
        if !rest.is_empty() {
            return Err(format!("{} bytes follow the line of a workload's job", rest.len()));
        }
        choice(fields).map(Self::Workload)
    }
}

/// The number of proofs that are made at once, by the option, the variable or the device.
fn at_once(option: Option<u8>, variable: Option<&str>, on_gpu: bool) -> Result<usize, String> {
    match (option, variable) {
        (Some(number), _) => Ok(number.into()),
        (None, Some(text)) => match text.parse::<u8>() {
            Ok(number) if (1..=MOST_AT_ONCE).contains(&number) => Ok(number.into()),
            _ => Err(format!("{AT_ONCE_VARIABLE} is {text:?}; it should be a number from 1 to {MOST_AT_ONCE}")),
        },
        (None, None) => Ok(if on_gpu { AT_ONCE } else { 1 }),
    }
}

/// The options that tell a machine's binary where to prove.
fn place(arguments: &Arguments) -> Vec<String> {
    match (arguments.cpu, arguments.device) {
        (true, _) => vec!["--cpu".into()],
        (false, Some(device)) => vec![format!("--device={device}")],
        (false, None) => Vec::new(),
    }
}

/// The state that stays between jobs.
struct Worker {
    place: Vec<String>,
    device: Option<Device>,
    /// The last statement, with its witness and its prover.
    ready: Ready<Choice, dyn Statement>,
    /// The statements of which a proof has not fitted beside another, the latest last. Their proofs take turns.
    crowded: Mutex<Vec<Choice>>,
}

/// Forgets the statement that is ready, unless its proof was made: one that a failure or a panic has left half made is
/// not kept.
struct Half<'a>(Option<&'a Ready<Choice, dyn Statement>>);

impl Half<'_> {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Half<'_> {
    fn drop(&mut self) {
        if let Some(ready) = self.0 {
            ready.forget();
        }
    }
}

impl Worker {
    fn work(&self, job: &mut Job) -> Result<Vec<u8>, JobFailure> {
        match Request::of(job.input()).map_err(JobFailure::new)? {
            Request::Machine { fields, rest } => {
                let rest = rest.to_vec();
                let _turn = self.ready.alone(job)?;
                // The machine's process needs the device memory that the last statement holds.
                self.ready.forget();
                machine::prove(job, &fields, &rest, &self.place)
            }
            Request::Workload(choice) => self.prove(job, choice, |job| self.make(job, choice)),
        }
    }

    /// A proof of the statement that `make` makes, if it is not there yet.
    fn prove(
        &self,
        job: &mut Job,
        choice: Choice,
        make: impl Fn(&mut Job) -> Result<Arc<dyn Statement>, JobFailure>,
    ) -> Result<Vec<u8>, JobFailure> {
        let shared = choice.overlaps() && !self.crowded().contains(&choice);
        let used = self.ready.enter(job, choice, shared, &make)?;
        let half = Half(Some(&self.ready));
        job.progress(0.2, "prove");
        match used.value().prove() {
            Ok(made) => {
                half.keep();
                let header = Header::new(choice, used.value().publics());
                drop(used);
                finish(job, &header, &made)
            }
            Err(error) if is_of_memory(&error) && used.was_beside_others() => {
                half.keep();
                drop(used);
                self.note_crowded(choice);
                self.prove_alone(job, choice, make)
            }
            Err(error) => Err(failure(error)),
        }
    }

    fn crowded(&self) -> std::sync::MutexGuard<'_, Vec<Choice>> {
        self.crowded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that two proofs of a statement do not fit beside each other.
    fn note_crowded(&self, choice: Choice) {
        let mut crowded = self.crowded();
        crowded.retain(|known| *known != choice);
        if crowded.len() == MOST_CROWDED {
            crowded.remove(0);
        }
        crowded.push(choice);
    }

    /// Makes the proof once more with the device to itself, after others have taken the memory that it needs.
    fn prove_alone(
        &self,
        job: &mut Job,
        choice: Choice,
        make: impl Fn(&mut Job) -> Result<Arc<dyn Statement>, JobFailure>,
    ) -> Result<Vec<u8>, JobFailure> {
        job.waits(0.2, "wait for memory");
        let turn = self.ready.alone(job)?;
        let half = Half(Some(&self.ready));
        // Another job may have replaced or forgotten the statement meanwhile.
        let statement = match self.ready.kept(&choice) {
            Some(statement) => statement,
            None => {
                self.ready.forget();
                make(job)?
            }
        };
        job.report("alone", true);
        job.progress(0.2, "prove");
        match statement.prove() {
            Ok(made) => {
                half.keep();
                let header = Header::new(choice, statement.publics());
                drop(statement);
                drop(turn);
                finish(job, &header, &made)
            }
            Err(error) => Err(failure(error)),
        }
    }

    /// The statement of a choice, with its witness and its prover.
    fn make(&self, job: &mut Job, choice: Choice) -> Result<Arc<dyn Statement>, JobFailure> {
        let mut statement = choice.statement().map_err(JobFailure::new)?;
        job.progress(0.0, "trace");
        let ((), trace_ms) = timed(|| statement.generate());
        job.report("trace_milliseconds", trace_ms);
        job.check()?;
        job.progress(0.1, "prepare");
        let (prepared, prepare_ms) = timed(|| statement.prepare(self.device.as_ref(), OnFailure::Fail));
        job.report("prepare_milliseconds", prepare_ms);
        prepared.map_err(failure)?;
        job.check()?;
        Ok(statement.into())
    }
}

/// The file of a proof, and its report: the milliseconds of each phase, and what else the proof took. The device is
/// free for the next one.
fn finish(job: &mut Job, header: &Header, made: &Made) -> Result<Vec<u8>, JobFailure> {
    job.give_up_place();
    let phases = made.report.by_phase().into_iter().map(|(name, ms)| (name.to_string(), ms.into()));
    job.report("phases", phases.collect::<Map<_, _>>());
    let mut report = serde_json::to_value(&made.report)?;
    // Every single one of them, of which the sums are above.
    if let Some(report) = report.as_object_mut() {
        report.remove("phases");
    }
    job.report("proof", report);
    Ok(proof_file::encode(header, &made.proof))
}

/// Whether a proof failed because device memory was short.
fn is_of_memory(error: &Failure) -> bool {
    let of_plonky3 = error.downcast_ref::<rigel_plonky3::Error>();
    matches!(of_plonky3, Some(rigel_plonky3::Error::DoesNotFit { .. }))
        || matches!(of_device(error), Some(Error::OutOfMemory { .. } | Error::DoesNotFit { .. }))
}

fn of_device(error: &Failure) -> Option<&Error> {
    error.downcast_ref()
}

/// A failure of the device is worth another attempt with another one.
fn failure(error: Failure) -> JobFailure {
    let elsewhere = is_of_memory(&error)
        || matches!(
            of_device(&error),
            Some(
                Error::DeviceLost { .. }
                    | Error::Driver { .. }
                    | Error::OutOfPinnedMemory { .. }
                    | Error::Io { .. }
            )
        );
    if elsewhere { JobFailure::elsewhere(error) } else { JobFailure::new(error) }
}

/// The options of `rigel prove` that say what is proven. Those that say where, and those that name files, are not a
/// job's.
const FIELDS: [&str; 16] = [
    "prover",
    "log_rows",
    "log_size",
    "field",
    "hash",
    "channel",
    "log_blowup",
    "log_final_poly_len",
    "queries",
    "pow_bits",
    "fold_step",
    "max_log_arity",
    "batch_pow_bits",
    "commit_pow_bits",
    "cap_height",
    "zk",
];

/// The statement that a request names. Its fields are the options of `rigel prove`, read by the same code.
fn choice(mut request: Map<String, Value>) -> Result<Choice, String> {
    let workload = match request.remove("workload") {
        Some(Value::String(workload)) => workload,
        Some(other) => return Err(format!("workload is {other}; it should be a name, such as \"fibonacci\"")),
        None => return Err("the job names neither a workload nor a machine".into()),
    };
    if let Some(unknown) = request.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        return Err(format!(
            "{unknown} is not a field of a job; there are workload, {}. A job names no files, and its worker was \
             started with its device",
            FIELDS.join(", ")
        ));
    }
    let mut arguments: Vec<OsString> = vec!["job".into()];
    arguments.extend(options(request)?.into_iter().map(OsString::from));
    // A workload that begins with a dash is not an option.
    arguments.extend(["--".into(), workload.into()]);
    let command = prove::Arguments::augment_args(Command::new("job").no_binary_name(false));
    let matches = command.try_get_matches_from(arguments).map_err(|error| error.to_string())?;
    let arguments = prove::Arguments::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    let choice = prove::choice(&arguments)?;
    choice.check()?;
    Ok(choice)
}

/// `{"log_rows": 10, "zk": true}` as `--log-rows=10 --zk`.
fn options(fields: Map<String, Value>) -> Result<Vec<String>, String> {
    let mut options = Vec::new();
    for (name, value) in fields {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
            return Err(format!("{name:?} is not an option's name"));
        }
        let option = format!("--{}", name.replace('_', "-"));
        match value {
            Value::Bool(true) => options.push(option),
            Value::Bool(false) | Value::Null => {}
            Value::Number(number) => options.push(format!("{option}={number}")),
            Value::String(text) => options.push(format!("{option}={text}")),
            other => return Err(format!("{name} is {other}; it should be text, a number or a truth value")),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;
    use std::time::{Duration, Instant};

    use rigel_statements::{Rejection, TableShape};

    use super::*;

    /// A statement whose proofs do not fit beside each other, and of which some panic.
    #[derive(Default)]
    struct Crowded {
        inside: AtomicUsize,
        most: AtomicUsize,
        proofs: AtomicUsize,
        panics: AtomicUsize,
    }

    impl Statement for Crowded {
        fn generate(&mut self) {}
        fn prepare(&mut self, _: Option<&Device>, _: OnFailure) -> Result<(), Failure> {
            Ok(())
        }
        fn prepare_over(&mut self, _: &[Device], _: OnFailure) -> Result<(), Failure> {
            Ok(())
        }
        fn compile(&self, _: &Device) -> Result<usize, Failure> {
            Ok(0)
        }
        fn tables(&self) -> Vec<TableShape> {
            Vec::new()
        }
        fn publics(&self) -> Vec<Vec<u64>> {
            Vec::new()
        }
        fn prove(&self) -> Result<Made, Failure> {
            if self.panics.swap(0, SeqCst) > 0 {
                panic!("as asked");
            }
            let began = Instant::now();
            // Inside before it is counted: one that came and went in between would not be beside the first.
            let inside = 1 + self.inside.fetch_add(1, SeqCst);
            self.most.fetch_max(inside, SeqCst);
            let first = self.proofs.fetch_add(1, SeqCst) == 0;
            // The first of all stays until there is another beside it.
            while first && self.most.load(SeqCst) < 2 && began.elapsed() < Duration::from_secs(30) {
                thread::yield_now();
            }
            if !first {
                thread::sleep(Duration::from_millis(2));
            }
            self.inside.fetch_sub(1, SeqCst);
            if inside > 1 {
                let (device, requested) = ("stub".into(), 2);
                return Err(
                    Error::OutOfMemory { device, requested, free: 1, total: 2, in_use: 1, limit: None }.into()
                );
            }
            let report = rigel_plonky3::Report::default();
            Ok(Made { proof: vec![7], settled: Vec::new(), extended_bytes: 0, milliseconds: 0.0, report })
        }
        fn keep_on_device(&mut self) -> Result<(), Failure> {
            unreachable!()
        }
        fn prove_resident(&self) -> Result<Made, Failure> {
            unreachable!()
        }
        fn prove_upstream(&self) -> Result<Made, Failure> {
            unreachable!()
        }
        fn verify(&self, _: &[u8], _: &[Vec<u64>], _: usize) -> Result<(), Rejection> {
            unreachable!()
        }
    }

    fn worker_and_choice() -> (Worker, Choice) {
        let worker = Worker { place: Vec::new(), device: None, ready: Ready::new(), crowded: Mutex::default() };
        let request = serde_json::from_str(r#"{"workload": "fibonacci", "log_rows": 10}"#).unwrap();
        (worker, choice(request).unwrap())
    }

    #[test]
    fn a_proof_that_does_not_fit_beside_another_is_made_again_alone_and_later_ones_take_turns() {
        let (worker, choice) = worker_and_choice();
        let statement = Arc::new(Crowded::default());
        let together = |jobs: u64| {
            thread::scope(|scope| {
                for number in 0..jobs {
                    let (worker, statement) = (&worker, &statement);
                    scope.spawn(move || {
                        let mut job = Job::detached(number, Vec::new());
                        worker.prove(&mut job, choice, |_| Ok(statement.clone())).unwrap();
                    });
                }
            });
        };
        together(2);
        assert_eq!((statement.most.swap(0, SeqCst), statement.proofs.load(SeqCst)), (2, 3), "one was made again");
        assert_eq!(*worker.crowded(), [choice]);
        together(6);
        assert_eq!((statement.most.load(SeqCst), statement.proofs.load(SeqCst)), (1, 9), "none was made again");
    }

    #[test]
    fn a_statement_whose_proof_panicked_is_not_kept() {
        let (worker, choice) = worker_and_choice();
        let made = AtomicUsize::new(0);
        let prove = |panics: usize| {
            let make = |_: &mut Job| {
                made.fetch_add(1, SeqCst);
                // Not the first proof of all, which waits for another.
                let (panics, proofs) = (AtomicUsize::new(panics), AtomicUsize::new(1));
                Ok(Arc::new(Crowded { panics, proofs, ..Crowded::default() }) as Arc<dyn Statement>)
            };
            let mut job = Job::detached(1, Vec::new());
            catch_unwind(AssertUnwindSafe(|| worker.prove(&mut job, choice, make).unwrap())).is_ok()
        };
        assert!(!prove(1));
        assert!(prove(0), "it is made anew");
        assert!(prove(0));
        assert_eq!(made.load(SeqCst), 2, "what has not failed is kept");
    }

    #[test]
    fn proofs_at_once_are_those_of_the_option_the_variable_or_the_device() {
        assert_eq!(at_once(None, None, true), Ok(2));
        assert_eq!(at_once(None, None, false), Ok(1));
        assert_eq!(at_once(None, Some("1"), true), Ok(1));
        assert_eq!(at_once(Some(3), Some("1"), true), Ok(3));
        for wrong in ["0", "17", "two", ""] {
            let refusal = at_once(None, Some(wrong), true).unwrap_err();
            assert!(refusal.contains("RIGEL_WORKER_AT_ONCE") && refusal.contains("1 to 16"), "{refusal}");
        }
    }

    fn of(text: &str) -> Result<String, String> {
        choice(serde_json::from_str(text).unwrap()).map(|choice| choice.to_string())
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_before_it_is_parsed() {
        let line = format!("{{\"workload\": [{}]}}", "[],".repeat(MOST_LINE / 3));
        let refusal = Request::of(line.as_bytes()).err().unwrap();
        assert!(refusal.contains("at most 65536 bytes"), "{refusal}");
        let job = b"{\"workload\": \"fibonacci\", \"log_rows\": 10}";
        assert!(matches!(Request::of(job), Ok(Request::Workload(_))));
        assert!(Request::of(&[&job[..], b"\nmore"].concat()).err().unwrap().contains("4 bytes follow"));
    }

    #[test]
    fn a_job_has_the_options_of_the_command_line() {
        assert_eq!(
            of(r#"{"workload": "fibonacci", "log_rows": 10}"#).unwrap(),
            "fibonacci 2^10, koala-bear, keccak"
        );
        assert!(of(r#"{"workload": "plonk", "log_size": 6, "pow_bits": 3}"#).unwrap().starts_with("plonk 2^6"));
    }

    #[test]
    fn a_job_that_is_not_understood_is_refused_with_a_reason() {
        for (text, reason) in [
            (r#"{"log_rows": 10}"#, "neither a workload nor a machine"),
            (r#"{"workload": "none"}"#, "none"),
            (r#"{"workload": "--help"}"#, "--help"),
            (r#"{"workload": "fibonacci", "log_rows": 99}"#, "2^99"),
            (r#"{"workload": "fibonacci", "rows": 99}"#, "rows is not a field"),
            (r#"{"workload": "fibonacci", "output": "/etc/passwd"}"#, "output is not a field"),
            (r#"{"workload": "fibonacci", "html": "/etc/passwd"}"#, "html is not a field"),
            (r#"{"workload": "fibonacci", "fallback": true}"#, "fallback is not a field"),
            (r#"{"workload": "fibonacci", "o=x": true}"#, "o=x is not a field"),
            (r#"{"workload": "fibonacci", "log_rows": [1]}"#, "should be text"),
            (r#"{"workload": 3}"#, "should be a name"),
        ] {
            let refusal = of(text).unwrap_err();
            assert!(refusal.contains(reason), "{text}: {refusal}");
        }
    }
}
