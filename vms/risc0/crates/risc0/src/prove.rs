//! A whole program: executor, preflight and proofs at the same time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use rigel_gpu::{Phase, Report};
use risc0_zkvm::{ExitCode, Receipt};

use crate::error::{Error, Result};
use crate::program::{Program, Run, RunOptions};
use crate::prover::{ProvenSegment, Prover};
use crate::receipt;
use crate::segment::Preflight;

/// Threads that run preflights, for each device: one takes a few times as long as a proof on a GPU, and holds a
/// segment's rows.
const PREFLIGHTS: usize = 4;

/// A program's receipt, and what it cost.
#[derive(Debug)]
pub struct Proven {
    /// Upstream's composite receipt, which upstream's verifier has accepted segment by segment.
    pub receipt: Receipt,
    /// The program's run.
    pub run: Run,
    /// The segments, in order.
    pub segments: Vec<SegmentSummary>,
    /// The time from the call to the receipt, in milliseconds.
    pub total_ms: f64,
    /// The time from the call to the end of the program's run.
    pub execute_ms: f64,
}

/// The costs of a segment's proof.
#[derive(Clone, Debug)]
pub struct SegmentSummary {
    /// The logarithm of the number of rows.
    pub po2: u32,
    /// The program's own cycles.
    pub cycles: u32,
    /// The segment's stages, in milliseconds after the call: `execute`, `preflight`, `prove` and `verify`, on
    /// threads of their own. The time between two of them is waiting.
    pub stages: Vec<Phase>,
    /// The report of the proof.
    pub report: Report,
    /// See [`ProvenSegment::host_bytes`].
    pub host_bytes: u64,
}

/// A segment on its way to the receipt.
struct Work<T> {
    index: usize,
    stages: Vec<Phase>,
    value: T,
}

impl<T> Work<T> {
    /// Does the next stage.
    fn then<U>(self, began: Instant, name: &'static str, work: impl FnOnce(T) -> Result<U>) -> Result<Work<U>> {
        let start_ms = ms_since(began);
        let value = work(self.value)?;
        let mut stages = self.stages;
        stages.push(Phase::of_host(name, start_ms, ms_since(began) - start_ms));
        Ok(Work { index: self.index, stages, value })
    }
}

/// A verified seal.
struct Checked {
    seal: Vec<u32>,
    summary: SegmentSummary,
}

impl Prover {
    /// Runs a program and proves the run: upstream's composite receipt.
    ///
    /// The program runs ahead on a thread of its own, preflights run on several, and segments are proven as they come,
    /// on all devices. Every seal is checked by upstream's verifier, beside the next proof.
    ///
    /// # Errors
    /// A program that fails, what upstream's preflight, prover or verifier says, and errors of the device.
    pub fn prove(&self, program: &Program, options: &RunOptions) -> Result<Proven> {
        let began = Instant::now();
        let lanes = self.devices().len().max(1);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let (to_preflight, segments) = sync_channel(PREFLIGHTS * lanes);
        let (to_prover, ready) = sync_channel(lanes);
        let (to_receipt, checked) = channel();
        let (segments, ready) = (Mutex::new(segments), Mutex::new(ready));
        // After a failure the queues are emptied without work, so that nobody waits for room in them.
        let is_stopped = &AtomicBool::new(false);
        thread::scope(|scope| {
            let executor = scope.spawn(move || {
                let (mut index, mut from) = (0, 0.0);
                let run = program.run(options, |segment| {
                    let now = ms_since(began);
                    let stages = vec![Phase::of_host("execute", from, now - from)];
                    let sent = to_preflight.send(Work { index, stages, value: segment });
                    (index, from) = (index + 1, ms_since(began));
                    match sent {
                        Ok(()) if !is_stopped.load(Ordering::Relaxed) => Ok(()),
                        _ => Err(Error::Prover("a proof before this one failed".into())),
                    }
                });
                is_stopped.fetch_or(run.is_err(), Ordering::Relaxed);
                Ok::<_, Error>((run?, ms_since(began)))
            });
            for _ in 0..(PREFLIGHTS * lanes).min(cores) {
                let (segments, to_prover) = (&segments, to_prover.clone());
                scope.spawn(move || {
                    while let Some(work) = next(segments) {
                        if is_stopped.load(Ordering::Relaxed) {
                            continue;
                        }
                        let made = work.then(began, "preflight", |segment| Preflight::new(&segment));
                        if to_prover.send(made).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(to_prover);
            for _ in 0..lanes {
                let (ready, to_receipt) = (&ready, to_receipt.clone());
                scope.spawn(move || {
                    while let Some(work) = next(ready) {
                        if !is_stopped.load(Ordering::Relaxed) {
                            self.prove_work(scope, began, work, &to_receipt);
                        }
                    }
                });
            }
            drop(to_receipt);
            let mut proven = Vec::new();
            let mut failure = None;
            for work in checked {
                match work {
                    Ok(work) => proven.push(work),
                    Err(error) => {
                        is_stopped.store(true, Ordering::Relaxed);
                        failure.get_or_insert(error);
                    }
                }
            }
            let run = executor.join().map_err(|_| Error::Run("the executor panicked".into()))?;
            // An executor that was stopped says so; the cause is the failure that stopped it.
            let (run, execute_ms) = match (run, failure) {
                (Err(Error::Prover(_)) | Ok(_), Some(failure)) => return Err(failure),
                (run, _) => run?,
            };
            if !matches!(run.exit_code, ExitCode::Halted(_)) {
                return Err(Error::Run(format!("the program ended with {:?}", run.exit_code)));
            }
            proven.sort_by_key(|work: &Work<Checked>| work.index);
            let (mut seals, mut segments) = (Vec::new(), Vec::new());
            for Work { stages, value: Checked { seal, summary }, .. } in proven {
                seals.push(seal);
                segments.push(SegmentSummary { stages, ..summary });
            }
            let receipt = receipt::composite(&seals, run.journal.clone())?;
            Ok(Proven { receipt, run, segments, total_ms: ms_since(began), execute_ms })
        })
    }

    /// Proves a preflight; a thread of its own checks the seal, and frees the preflight, which takes a while.
    fn prove_work<'scope>(
        &self,
        scope: &'scope thread::Scope<'scope, '_>,
        began: Instant,
        work: Result<Work<Preflight>>,
        to_receipt: &Sender<Result<Work<Checked>>>,
    ) {
        let proven = work.and_then(|work| {
            work.then(began, "prove", |preflight| Ok((self.prove_preflight(&preflight)?, preflight)))
        });
        let to_receipt = to_receipt.clone();
        scope.spawn(move || {
            let check = |(proven, preflight): (ProvenSegment, Preflight)| {
                let ProvenSegment { seal, report, host_bytes } = proven;
                receipt::verify_seal(&seal)?;
                let (po2, cycles, stages) = (preflight.po2(), preflight.cycles(), Vec::new());
                Ok(Checked { seal, summary: SegmentSummary { po2, cycles, stages, report, host_bytes } })
            };
            // Nobody listens any more only if the call has failed.
            let _ = to_receipt.send(proven.and_then(|work| work.then(began, "verify", check)));
        });
    }
}

/// The next of a queue that several threads take from.
fn next<T>(queue: &Mutex<Receiver<T>>) -> Option<T> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn ms_since(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
