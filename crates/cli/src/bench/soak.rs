//! `rigel bench soak`: random proofs from several threads for a long time, each compared with upstream's bytes, while
//! memory gets short and devices fail. With `--faults`, see [`faults`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rigel_gpu::{Device, DeviceKind, Emulation, Error as GpuError, Options};
use rigel_plonky3::Error as ProofError;
use rigel_proofs::stwo::{self, Making, Workload as StwoWorkload};
use rigel_statements::{OnFailure, Statement, panics};
use rigel_workloads::{Choice, Field, Fri, Hash, Workload};
use serde::Serialize;

use super::{Devices, faults, open};
use crate::Failure;
use crate::terminal::Progress;

#[derive(clap::Args)]
pub struct Arguments {
    /// The duration, in minutes
    #[arg(long, value_name = "N", default_value_t = 2.0, conflicts_with = "seconds")]
    minutes: f64,
    /// The duration, in seconds
    #[arg(long, value_name = "N")]
    seconds: Option<f64>,
    /// Stop after so many proofs, if the time is not over before [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    proofs: Option<u64>,
    /// The device: auto, or a name such as cuda:1 or emulated [default: RIGEL_DEVICE, or auto]
    #[arg(long, value_name = "DEVICE")]
    device: Option<Devices>,
    /// Threads that prove at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// The largest tables, as a power of two of rows
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(6..=20))]
    log_rows: u32,
    /// The most configurations. Upstream's proof of each is made once, on one thread
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    configurations: u32,
    /// The seed of workloads, sizes, parameters, limits and failures
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Instead, run small programs with one call of the driver failing at a time, for every call
    #[arg(long, conflicts_with_all = ["minutes", "seconds", "proofs", "threads", "log_rows", "configurations", "seed"])]
    faults: bool,
    /// With --faults: try so many calls of each kind in each program, spread over all of them [default: all]
    #[arg(long, value_name = "N", requires = "faults", value_parser = clap::value_parser!(u64).range(1..))]
    most: Option<u64>,
    /// With --faults: only the programs with this in their names
    #[arg(long, value_name = "PROGRAM", requires = "faults")]
    only: Option<String>,
}

/// The counts of outcomes.
#[derive(Default)]
struct Counters {
    plonky3: AtomicU64,
    stwo: AtomicU64,
    refused: AtomicU64,
    lost: AtomicU64,
    wrong: AtomicU64,
    faults: AtomicU64,
}

/// The counts as text and as JSON.
#[derive(Serialize)]
struct Outcome {
    device: String,
    seconds: f64,
    configurations: usize,
    /// Proofs that equal upstream's, of both provers.
    proofs: u64,
    /// The proofs of Plonky3.
    plonky3: u64,
    /// The proofs of Stwo.
    stwo: u64,
    /// Errors because memory was limited on purpose.
    refused_for_memory: u64,
    /// Errors because a device was lost on purpose.
    lost_devices: u64,
    /// Proofs that differ from upstream's.
    wrong: u64,
    /// Errors without a cause.
    faults: u64,
}

/// A workload with a prover on the device, and upstream's proof of it.
struct Case {
    prover: Prover,
    /// The workload's name, with its parameters.
    name: String,
    statement: Box<dyn Statement>,
    expected: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Prover {
    Plonky3,
    Stwo,
}

/// A soak under way.
struct Soak<'a> {
    device: &'a Device,
    arguments: &'a Arguments,
    until: Instant,
    counters: Counters,
    cases: Mutex<Vec<Arc<Case>>>,
    /// Whether memory may be limited at the moment.
    limits: AtomicBool,
}

/// Runs it. Returns whether no proof was wrong and no error without a cause.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    if arguments.faults {
        let Some((selector, _)) = open(arguments.device.as_ref())?.into_iter().next() else {
            return Err("there is no device to prove on".into());
        };
        return faults::run(selector, arguments.most, arguments.only.as_deref(), json);
    }
    let seconds = arguments.seconds.unwrap_or(arguments.minutes * 60.0);
    let Ok(length) = Duration::try_from_secs_f64(seconds) else {
        return Err(format!("{seconds} seconds is not a length of time").into());
    };
    let Some((_, device)) = open(arguments.device.as_ref())?.into_iter().next() else {
        return Err("there is no device to prove on".into());
    };
    if let Err(reason) = stwo_built() {
        eprintln!("note: {reason}");
    }
    let began = Instant::now();
    let soak = Soak {
        device: &device,
        arguments,
        until: began + length,
        counters: Counters::default(),
        cases: Mutex::default(),
        limits: AtomicBool::new(true),
    };
    std::thread::scope(|scope| {
        let provers: Vec<_> = (0..u64::from(arguments.threads))
            .map(|thread| {
                scope.spawn({
                    let soak = &soak;
                    move || soak.prove_on_and_on(thread)
                })
            })
            .collect();
        scope.spawn(|| soak.limit_memory());
        for prover in provers {
            if let Err(panic) = prover.join() {
                soak.fault("a thread panicked", &panics::message(&*panic).unwrap_or("without a message"));
            }
        }
        soak.limits.store(false, Ordering::Relaxed);
    });
    device.set_memory_limit(None);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let outcome = Outcome {
        device: device.to_string(),
        seconds: began.elapsed().as_secs_f64(),
        configurations: soak.cases.lock().unwrap_or_else(PoisonError::into_inner).len(),
        proofs: soak.counters.proofs(),
        plonky3: count(&soak.counters.plonky3),
        stwo: count(&soak.counters.stwo),
        refused_for_memory: count(&soak.counters.refused),
        lost_devices: count(&soak.counters.lost),
        wrong: count(&soak.counters.wrong),
        faults: count(&soak.counters.faults),
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&outcome)?);
    } else {
        let Outcome { device, seconds, configurations, proofs, plonky3, stwo, .. } = &outcome;
        let Outcome { refused_for_memory, lost_devices, wrong, faults, .. } = &outcome;
        println!(
            "{proofs} proofs of {configurations} configurations on {device} in {seconds:.0} s, from {} threads\n  \
             of Plonky3           {plonky3}\n  of Stwo              {stwo}\n  \
             wrong                {wrong}\n  faults               {faults}\n  \
             refused for memory   {refused_for_memory}\n  lost devices         {lost_devices}",
            arguments.threads
        );
    }
    Ok(outcome.wrong == 0 && outcome.faults == 0 && outcome.proofs > 0)
}

impl Counters {
    /// Proofs that equal upstream's.
    fn proofs(&self) -> u64 {
        self.plonky3.load(Ordering::Relaxed) + self.stwo.load(Ordering::Relaxed)
    }
}

impl Soak<'_> {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until || self.arguments.proofs.is_some_and(|most| self.counters.proofs() >= most)
    }

    /// Makes proofs until the time is over.
    fn prove_on_and_on(&self, thread: u64) {
        let mut rng = SmallRng::seed_from_u64(self.arguments.seed.wrapping_mul(1_000_003).wrapping_add(thread));
        // Upstream's proof of work takes the smallest witness on one thread.
        let Ok(one_thread) = rayon::ThreadPoolBuilder::new().num_threads(1).build() else {
            self.fault("a pool of one thread", &"can't be made");
            return;
        };
        while !self.is_over() {
            if self.device.kind() == DeviceKind::Emulated && rng.random_ratio(1, 12) {
                self.lose_a_device(&mut rng);
                continue;
            }
            match self.case(&mut rng, &one_thread) {
                Ok(case) => self.judge(&case),
                Err(error) => self.judge_error("preparing", &error),
            }
        }
    }

    /// A case that is there, or a new one.
    fn case(&self, rng: &mut SmallRng, one_thread: &rayon::ThreadPool) -> Result<Arc<Case>, Failure> {
        let known = self.cases.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !known.is_empty() && (known.len() >= self.arguments.configurations as usize || rng.random_ratio(7, 8)) {
            return Ok(known[rng.random_range(0..known.len())].clone());
        }
        let (most, kind) = (self.arguments.log_rows, self.device.kind());
        let prover = if rng.random() || stwo_built().is_err() { Prover::Plonky3 } else { Prover::Stwo };
        let (name, mut statement) = match prover {
            Prover::Plonky3 => random_plonky3(rng, most, kind),
            Prover::Stwo => random_stwo(rng, most, kind),
        };
        statement.generate();
        statement.prepare(Some(self.device), OnFailure::Fail)?;
        let expected = one_thread.install(|| statement.prove_upstream())?.proof;
        let case = Arc::new(Case { prover, name, statement, expected });
        self.cases.lock().unwrap_or_else(PoisonError::into_inner).push(case.clone());
        Ok(case)
    }

    /// Proves a case and compares.
    fn judge(&self, case: &Case) {
        match case.statement.prove() {
            Ok(made) if made.proof == case.expected => {
                let counter = match case.prover {
                    Prover::Plonky3 => &self.counters.plonky3,
                    Prover::Stwo => &self.counters.stwo,
                };
                counter.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => {
                eprintln!("wrong: the proof of {} differs from upstream's", case.name);
                self.counters.wrong.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => self.judge_error(&case.name, &error),
        }
    }

    /// Counts an error: memory is limited on purpose, everything else is a fault.
    fn judge_error(&self, what: &str, error: &Failure) {
        match cause(error) {
            Cause::Memory => {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
            }
            Cause::Lost | Cause::None => self.fault(what, error),
        }
    }

    fn fault(&self, what: &str, error: &dyn std::fmt::Display) {
        eprintln!("fault: {what}: {error}");
        self.counters.faults.fetch_add(1, Ordering::Relaxed);
    }

    /// Proves on a device of its own that fails after some launches.
    fn lose_a_device(&self, rng: &mut SmallRng) {
        let fri = Fri { queries: 3, pow_bits: 2, batch_pow_bits: 0, ..Fri::default() };
        let choice = Choice {
            workload: Workload::Fibonacci,
            log_rows: 5,
            field: Field::KoalaBear,
            hash: Hash::Keccak,
            fri,
        };
        let lost_after = Some(rng.random_range(0..160));
        let made = (|| {
            let emulation = Emulation { lost_after, ..Emulation::default() };
            let device = Device::emulated(&emulation, &Options::from_env()?)?.remove(0);
            let mut statement = choice.statement()?;
            statement.generate();
            statement.prepare(Some(&device), OnFailure::Fail)?;
            let made = statement.prove()?;
            statement
                .verify(&made.proof, &statement.publics(), usize::MAX)
                .map_err(|rejection| format!("{rejection:?}"))?;
            Ok::<_, Failure>(())
        })();
        match made.as_ref().map_err(cause) {
            Ok(()) => self.counters.plonky3.fetch_add(1, Ordering::Relaxed),
            Err(Cause::Lost) => self.counters.lost.fetch_add(1, Ordering::Relaxed),
            Err(_) => {
                let error = made.err().map(|error| error.to_string()).unwrap_or_default();
                self.fault("a device that is lost", &error);
                0
            }
        };
    }

    /// Changes the limit of the device's memory all the time: from none to less than a proof needs.
    fn limit_memory(&self) {
        let (progress, began) = (Progress::new(), Instant::now());
        let length = self.until.saturating_duration_since(began).as_secs();
        let mut rng = SmallRng::seed_from_u64(self.arguments.seed);
        while self.limits.load(Ordering::Relaxed) && !self.is_over() {
            let proofs = self.counters.proofs();
            progress.part(began.elapsed().as_secs(), length, &format!("{proofs} proofs …"));
            let in_use = self.device.memory_stats().in_use;
            let room = 1usize << rng.random_range(12..26);
            self.device.set_memory_limit(rng.random_ratio(1, 3).then_some(in_use + room));
            std::thread::sleep(Duration::from_millis(rng.random_range(5..60)));
        }
        self.device.set_memory_limit(None);
    }
}

/// The reason why a proof was not made.
enum Cause {
    Memory,
    Lost,
    None,
}

fn cause(error: &Failure) -> Cause {
    let gpu = match (error.downcast_ref::<ProofError>(), error.downcast_ref::<GpuError>()) {
        (Some(ProofError::DoesNotFit { .. }), _) => return Cause::Memory,
        (_, Some(error)) => error,
        _ => return Cause::None,
    };
    match gpu {
        GpuError::OutOfMemory { .. } | GpuError::DoesNotFit { .. } => Cause::Memory,
        GpuError::DeviceLost { .. } => Cause::Lost,
        _ => Cause::None,
    }
}

/// A workload of Plonky3, field, hash and parameters that this build has, with a description.
fn random_plonky3(rng: &mut SmallRng, most_log_rows: u32, kind: DeviceKind) -> (String, Box<dyn Statement>) {
    loop {
        let fri = Fri {
            log_blowup: rng.random_range(1..=3),
            log_final_poly_len: rng.random_range(0..=2),
            max_log_arity: rng.random_range(1..=4),
            queries: rng.random_range(1..=12),
            pow_bits: rng.random_range(0..=6),
            batch_pow_bits: rng.random_range(0..=4),
            commit_pow_bits: rng.random_range(0..=2),
            cap_height: rng.random_range(0..=5),
            zk: false,
        };
        let choice = Choice {
            workload: any(rng),
            log_rows: rng.random_range(4..=most_log_rows),
            field: any(rng),
            hash: any(rng),
            fri,
        };
        // Every table must be higher than the final polynomial; some of those with lookups are 2^4 times lower.
        let lowest = choice.log_rows - if choice.workload == Workload::Lookups { 4 } else { 0 };
        if lowest as usize <= fri.log_final_poly_len {
            continue;
        }
        // The constraints of wide tables take long to compile and to run where every kernel is emulated.
        let is_wide = matches!(choice.workload, Workload::Keccak | Workload::Blake3 | Workload::Poseidon2);
        if is_wide && kind == DeviceKind::Emulated || choice.check().is_err() {
            continue;
        }
        if let Ok(statement) = choice.statement() {
            return (format!("{choice}, with {fri:?}"), statement);
        }
    }
}

/// Checks that this build has Stwo; the error says how to build it.
fn stwo_built() -> Result<(), String> {
    stwo::Choice::usual(StwoWorkload::Plonk).built()
}

/// A workload of Stwo, hash and parameters that this build has, with a description.
fn random_stwo(rng: &mut SmallRng, most_log_rows: u32, kind: DeviceKind) -> (String, Box<dyn Statement>) {
    loop {
        let fri = stwo::Fri {
            log_blowup: rng.random_range(1..=3),
            log_last_layer: rng.random_range(0..=2),
            queries: rng.random_range(1..=12),
            fold_step: rng.random_range(1..=4),
            pow_bits: rng.random_range(0..=6),
        };
        let workload = StwoWorkload::ALL[rng.random_range(0..StwoWorkload::ALL.len())];
        let log_size = rng.random_range(4..=most_log_rows);
        let choice = stwo::Choice { workload, log_size, channel: any(rng), fri };
        let making =
            Making { store_coefficients: rng.random(), recorded_lookups: rng.random(), unmeasured: rng.random() };
        let is_wide = matches!(workload, StwoWorkload::Poseidon2 | StwoWorkload::Blake2s);
        if is_wide && kind == DeviceKind::Emulated || choice.check().is_err() {
            continue;
        }
        if let Ok(statement) = choice.statement(making) {
            return (format!("{choice}, with {fri:?} and {making:?}"), statement);
        }
    }
}

fn any<T: ValueEnum>(rng: &mut SmallRng) -> T {
    let variants = T::value_variants();
    variants[rng.random_range(0..variants.len())].clone()
}
