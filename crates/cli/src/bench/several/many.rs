//! Many proofs, each on one of several devices.
//!
//! Devices that prove for themselves share only the host. So the model is a rate: that of one device times their
//! number, or what the host's cores can feed, whichever is less.

use std::sync::atomic::{AtomicUsize, Ordering};

use rigel_gpu::{Device, background};
use rigel_statements::{Made, OnFailure, Statement, timed};
use rigel_workloads::{Choice, Field, Fri, Hash, Workload};
use serde::Serialize;

use super::Bench;
use crate::Failure;
use crate::bench::Size;

/// Proofs at a time on one device that are tried.
const THREADS: [usize; 3] = [1, 2, 4];

/// The measurements, and the model.
#[derive(Serialize)]
pub struct Many {
    pub case: String,
    /// The proofs a second, and the seconds of a core for one, by proofs at a time.
    pub rates: Vec<(usize, f64, f64)>,
    /// The host's cores.
    pub cores: usize,
    pub on: Vec<On>,
}

/// The rates on several devices.
#[derive(Serialize)]
pub struct On {
    pub devices: usize,
    /// Proofs a second by the model, with this host's cores.
    pub modelled: f64,
    /// The cores that keep all devices as busy as one is.
    pub cores: f64,
    /// Proofs a second on as many GPUs.
    pub measured: Option<f64>,
}

impl Many {
    /// The best rate of one device, and seconds of a core for one of its proofs.
    pub fn best(&self) -> (f64, f64) {
        let best = self.rates.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("several were tried");
        (best.1, best.2)
    }
}

/// Proofs of one statement, from its trace on the host or from the trace's inputs.
pub struct Case {
    pub name: String,
    choice: Choice,
    proofs: usize,
    prove: fn(&dyn Statement) -> Result<Made, Failure>,
}

pub fn cases(size: Size) -> [Case; 2] {
    let case = |(workload, log_rows), proofs, traces, prove| {
        let choice =
            Choice { workload, log_rows, field: Field::KoalaBear, hash: Hash::Keccak, fri: Fri::default() };
        Case { name: format!("{proofs} proofs of {choice}, traces {traces}"), choice, proofs, prove }
    };
    let keccak = (Workload::Keccak, size.pick(15, 5));
    let on_host = size.pick(keccak, (Workload::Fibonacci, 6));
    [
        case(on_host, size.pick(64, 8), "on the host", |statement| statement.prove()),
        case(keccak, size.pick(64, 2), "made on the device from their inputs", |statement| {
            statement.prove_inputs()
        }),
    ]
}

pub fn measure(bench: &Bench<'_>, case: &Case, counts: &[u32]) -> Result<Many, Failure> {
    let proofs = case.proofs;
    bench.say(&case.name, "on one device");
    let one = case.ready(&bench.devices[0])?;
    // That of the trace on the host, whatever the others are made from.
    let first = one.prove()?.proof;
    let mut many = Many {
        case: case.name.clone(),
        rates: Vec::new(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        on: Vec::new(),
    };
    for threads in THREADS {
        case.prove(&[&*one], proofs.min(2 * threads), threads, &first)?;
        let before = cpu_seconds();
        let (done, ms) = timed(|| case.prove(&[&*one], proofs, threads, &first));
        done?;
        many.rates.push((threads, proofs as f64 / ms * 1e3, (cpu_seconds() - before) / proofs as f64));
    }
    let (rate, core_seconds) = many.best();
    let at_once = many.rates.iter().find(|tried| tried.1 == rate).map_or(1, |tried| tried.0);
    for &count in counts {
        let devices = count as usize;
        let cores = devices as f64 * rate * core_seconds;
        let measured = match bench.gpus(devices) {
            Some(gpus) => {
                bench.say(&case.name, &format!("on {devices} GPUs"));
                let ready: Vec<_> = gpus.iter().map(|gpu| case.ready(gpu)).collect::<Result<_, _>>()?;
                let ready: Vec<&dyn Statement> = ready.iter().map(|statement| &**statement).collect();
                case.prove(&ready, 2 * devices * at_once, at_once, &first)?;
                let (done, ms) = timed(|| case.prove(&ready, proofs * devices, at_once, &first));
                done?;
                Some((proofs * devices) as f64 / ms * 1e3)
            }
            None => None,
        };
        let modelled = (devices as f64).min(many.cores as f64 / (rate * core_seconds).max(1e-9)) * rate;
        many.on.push(On { devices, modelled, cores, measured });
    }
    Ok(many)
}

impl Case {
    fn ready(&self, device: &Device) -> Result<Box<dyn Statement>, Failure> {
        let mut statement = self.choice.statement()?;
        statement.generate();
        statement.prepare(Some(device), OnFailure::Fail)?;
        (self.prove)(&*statement)?;
        background::finish();
        Ok(statement)
    }

    /// Makes a number of proofs, all of them as the first, so many at a time on each device.
    fn prove(&self, ready: &[&dyn Statement], proofs: usize, at_once: usize, first: &[u8]) -> Result<(), Failure> {
        let next = AtomicUsize::new(0);
        let work = |statement: &dyn Statement| -> Result<(), String> {
            while next.fetch_add(1, Ordering::Relaxed) < proofs {
                if (self.prove)(statement).map_err(|error| error.to_string())?.proof != first {
                    return Err("two proofs of the same statement differ".into());
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..at_once)
                .flat_map(|_| ready)
                .map(|statement| {
                    let work = &work;
                    scope.spawn(move || work(*statement))
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a proof panicked".to_string())?)
        })?;
        Ok(())
    }
}

/// Seconds of cores that this process has used; zero where the system does not say.
fn cpu_seconds() -> f64 {
    // SAFETY: a struct of integers may be zero, and the call fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) != 0 {
            return 0.0;
        }
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }
}
