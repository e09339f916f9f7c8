//! A whole program: executor, preflight and proofs at the same time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Instant;

use risc0_zkvm::{ExitCode, Receipt};

use crate::error::{Error, Result};
use crate::program::{Program, Run, RunOptions};
use crate::prover::{ProvenSegment, Prover};
use crate::receipt;
use crate::segment::Preflight;

/// Threads that run preflights. One takes a few times as long as a proof on a GPU, and holds a segment's rows.
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
    /// From the call to the receipt, in milliseconds.
    pub total_ms: f64,
    /// From the call to the end of the program's run.
    pub execute_ms: f64,
}

/// What a segment's proof cost.
#[derive(Clone, Debug)]
pub struct SegmentSummary {
    /// The logarithm of the number of rows.
    pub po2: u32,
    /// The program's own cycles.
    pub cycles: u32,
    /// The time of the preflight, on a thread of its own, in milliseconds.
    pub preflight_ms: f64,
    /// The report of the proof.
    pub report: rigel_gpu::Report,
}

/// A preflight on its way to the prover.
struct Ready {
    index: usize,
    preflight: Preflight,
    ms: f64,
}

impl Prover {
    /// Runs a program and proves the run: upstream's composite receipt.
    ///
    /// The program runs ahead on a thread of its own, preflights run on several, and segments are proven as they come.
    /// Every seal is checked by upstream's verifier, beside the next proof.
    ///
    /// # Errors
    /// A program that fails, what upstream's preflight, prover or verifier says, and errors of the device.
    pub fn prove(&self, program: &Program, options: &RunOptions) -> Result<Proven> {
        let began = Instant::now();
        let (segment_sender, segments) = sync_channel(PREFLIGHTS);
        let (ready_sender, ready) = sync_channel::<Result<Ready>>(1);
        let segments = Mutex::new(segments);
        let is_stopped = &AtomicBool::new(false);
        thread::scope(|scope| {
            let executor = scope.spawn(move || {
                let mut index = 0;
                let run = program.run(options, |segment| {
                    let sent = segment_sender.send((index, segment));
                    index += 1;
                    match sent {
                        Ok(()) if !is_stopped.load(Ordering::Relaxed) => Ok(()),
                        _ => Err(Error::Prover("a proof before this one failed".into())),
                    }
                })?;
                Ok::<_, Error>((run, began.elapsed().as_secs_f64() * 1e3))
            });
            for _ in 0..PREFLIGHTS {
                let (segments, ready) = (&segments, ready_sender.clone());
                scope.spawn(move || {
                    while let Some((index, segment)) = next(segments) {
                        let began = Instant::now();
                        let made = Preflight::new(&segment).map(|preflight| Ready {
                            index,
                            preflight,
                            ms: began.elapsed().as_secs_f64() * 1e3,
                        });
                        if ready.send(made).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(ready_sender);
            let proven = self.prove_ready(ready);
            // So that an executor that waits for room for its next segment goes on, and ends there.
            if proven.is_err() {
                is_stopped.store(true, Ordering::Relaxed);
                while next(&segments).is_some() {}
            }
            let run = executor.join().map_err(|_| Error::Run("the executor panicked".into()))?;
            // Of two errors, that of the run is the cause.
            let (run, execute_ms) = match (run, &proven) {
                (Err(error @ Error::Prover(_)), Ok(_)) => return Err(error),
                (Err(Error::Prover(_)), Err(_)) => return Err(proven.err().unwrap_or(Error::Run(String::new()))),
                (run, _) => run?,
            };
            let (seals, segments): (Vec<_>, Vec<_>) = proven?.into_iter().unzip();
            if !matches!(run.exit_code, ExitCode::Halted(_)) {
                return Err(Error::Run(format!("the program ended with {:?}", run.exit_code)));
            }
            let receipt = receipt::composite(&seals, run.journal.clone())?;
            let total_ms = began.elapsed().as_secs_f64() * 1e3;
            Ok(Proven { receipt, run, segments, total_ms, execute_ms })
        })
    }

    /// Proves preflights as they come, and checks each seal while the next is made.
    fn prove_ready(&self, ready: Receiver<Result<Ready>>) -> Result<Vec<(Vec<u32>, SegmentSummary)>> {
        thread::scope(|scope| {
            let mut proven = BTreeMap::new();
            let mut checks = Vec::new();
            for ready in ready {
                let Ready { index, preflight, ms } = ready?;
                let ProvenSegment { seal, report } = self.prove_preflight(&preflight)?;
                let (po2, cycles) = (preflight.po2(), preflight.cycles());
                let checked = seal.clone();
                checks.push(scope.spawn(move || receipt::verify_seal(&checked)));
                proven.insert(index, (seal, SegmentSummary { po2, cycles, preflight_ms: ms, report }));
            }
            for check in checks {
                check.join().map_err(|_| Error::Rejected("upstream's verifier panicked".into()))??;
            }
            Ok(proven.into_values().collect())
        })
    }
}

/// The next of a queue that several threads take from.
fn next<T>(queue: &Mutex<Receiver<T>>) -> Option<T> {
    queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv().ok()
}
