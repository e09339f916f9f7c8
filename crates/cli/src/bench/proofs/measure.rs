//! One case: proofs of the same trace on the device and by upstream, timed and compared.

use std::sync::atomic::{AtomicUsize, Ordering};

use rigel_gpu::{Device, Report as ProofReport, background};
use rigel_statements::OnFailure;

use super::cases::{Bars, Case, PEAK_OVER_EXTENDED};
use super::record::{Bar, Bound, Figures, PhasePair, Row, Throughput, Times};
use super::spans::{self, Dialect, Phases, Segment};
use crate::Failure;
use crate::choice::{Choice, Prover};
use crate::terminal::Progress;
use rigel_statements::{Made, Statement, TableShape, timed};
use rigel_workloads::Fri;

/// The settings by which cases are measured.
pub struct Bench<'a> {
    pub device: &'a Device,
    /// The number of proofs per median.
    pub repeat: usize,
    /// The number of timed upstream proofs; zero skips upstream.
    pub cpu_runs: usize,
    /// The number of proofs in a row, if any.
    pub stream: usize,
    /// The mapping of upstream's spans to our phases.
    pub dialect: Dialect,
    /// Whether bars apply.
    pub judges: bool,
    pub progress: &'a Progress,
    /// Cases before this one, and all.
    pub done: u64,
    pub all: u64,
}

/// The text for a proof that equals upstream's.
const ALL_BYTES: &str = "all bytes";

/// The text for a proof of Plonky3's at full size: upstream's search on several threads finds any witness of a proof of
/// work, so that all bytes are compared without one, and what does not depend on it with one.
const ALL_BYTES_WITHOUT_WORK: &str = "all bytes with 0 bits of work";

/// The most cells of a Plonky3 proof that is made again on one thread, where its proof of work finds the smallest
/// witness as the device does, and all bytes are compared.
const COMPARED_CELLS: usize = 1 << 20;

impl Bench<'_> {
    /// Measures it. An error is recorded in the row, and the other cases are still measured.
    pub fn run(&self, case: &Case) -> Row {
        let mut row = Row {
            name: case.name(),
            choice: case.choice,
            tables: Vec::new(),
            figures: None,
            bars: Vec::new(),
            error: None,
        };
        match self.figures(case, &mut row.tables) {
            Ok(figures) => {
                row.bars = bars(&figures, &case.bars, self.judges);
                row.figures = Some(figures);
            }
            Err(error) => row.error = Some(error.to_string()),
        }
        row
    }

    fn figures(&self, case: &Case, tables: &mut Vec<TableShape>) -> Result<Figures, Failure> {
        let name = case.name();
        let say = |what: &str| self.progress.part(self.done, self.all, &format!("{name}: {what} …"));
        let mut statement = case.statement()?;
        say("generating the trace");
        let ((), trace_milliseconds) = timed(|| statement.generate());
        *tables = statement.tables();

        say("first proof, compiling what is not in the cache");
        let compiled = self.device.cache().stats().compiled;
        let (first, first_milliseconds) = timed(|| {
            statement.prepare(Some(self.device), OnFailure::Fail)?;
            statement.prove()
        });
        let first = first?;
        if background::running() > 0 {
            // The first proof was interpreted.
            say("compiling");
            background::finish();
            statement.prove()?;
        }
        let kernels_compiled = self.device.cache().stats().compiled - compiled;

        say("proving from the host");
        let (host, report) = self.several(&first, || statement.prove())?;
        // Proofs that hide the trace share the generators of their randomness: side by side they differ.
        let hides = matches!(&case.choice, Choice::Plonky3(choice) if choice.fri.zk);
        let stream = match self.stream {
            0 => None,
            _ if hides => None,
            proofs => {
                say("many proofs in a row");
                Some(throughput(&*statement, &first, proofs)?)
            }
        };
        say("proving from the device");
        statement.keep_on_device()?;
        statement.prove_resident()?;
        let (resident, _) = self.several(&first, || statement.prove_resident())?;

        let mut upstream = None;
        if self.cpu_runs > 0 {
            say("upstream's prover on the CPU");
            upstream = Some(self.upstream(&*statement)?);
        }
        say("checking");
        let upstreams = upstream.as_ref().map(|(_, made, _)| made);
        let check = check(self.device, &case.choice, &*statement, &first, upstreams)?;
        Ok(Figures {
            trace_milliseconds,
            first_milliseconds,
            kernels_compiled,
            host,
            resident,
            proof_bytes: first.proof.len(),
            extended_bytes: first.extended_bytes,
            check,
            equal_bytes: [ALL_BYTES, ALL_BYTES_WITHOUT_WORK].contains(&check),
            phases: side_by_side(
                &report,
                upstream.as_ref().map(|(_, made, segments)| (made.milliseconds, spans::sums(segments))),
            ),
            upstream_timeline: upstream
                .as_mut()
                .map(|(.., segments)| std::mem::take(segments))
                .unwrap_or_default(),
            upstream: upstream.map(|(times, ..)| times),
            report,
            stream,
        })
    }

    /// The times of several proofs, all equal to the first one, which is checked, and the report of the median one.
    fn several(
        &self,
        first: &Made,
        prove: impl Fn() -> Result<Made, Failure>,
    ) -> Result<(Times, ProofReport), Failure> {
        let mut made = (0..self.repeat).map(|_| same(first, prove()?)).collect::<Result<Vec<_>, _>>()?;
        made.sort_by(|a, b| a.milliseconds.total_cmp(&b.milliseconds));
        let times = Times::new(made.iter().map(|made| made.milliseconds).collect());
        let middle = (made.len() - 1) / 2;
        Ok((times, made.swap_remove(middle).report))
    }

    /// Upstream's times, and the proof and phases of its best run.
    fn upstream(&self, statement: &dyn Statement) -> Result<(Times, Made, Vec<Segment>), Failure> {
        let mut best: Option<(Made, Vec<Segment>)> = None;
        let mut times = Vec::new();
        for _ in 0..self.cpu_runs {
            let (made, segments) = spans::collect(self.dialect, || statement.prove_upstream());
            let made = made?;
            times.push(made.milliseconds);
            if best.as_ref().is_none_or(|(best, _)| made.milliseconds < best.milliseconds) {
                best = Some((made, segments));
            }
        }
        let (made, segments) = best.ok_or("upstream was not run")?;
        Ok((Times::new(times), made, segments))
    }
}

/// A proof that equals the first one of its statement. Proofs of the device are the same whenever they are made.
fn same(first: &Made, made: Made) -> Result<Made, Failure> {
    if made.proof == first.proof {
        return Ok(made);
    }
    Err("a later proof of the same trace is not the first one, byte for byte".into())
}

/// Compares the device's proof with upstream's as far as possible, and verifies it with upstream's verifier.
fn check(
    device: &Device,
    choice: &Choice,
    statement: &dyn Statement,
    made: &Made,
    upstream: Option<&Made>,
) -> Result<&'static str, Failure> {
    if let Err(rejection) = statement.verify(&made.proof, &statement.publics(), usize::MAX) {
        return Err(format!("upstream's verifier rejects the device's proof: {rejection}").into());
    }
    let Some(upstream) = upstream else { return Ok("verified") };
    let same = |expected: &Made| match expected.proof == made.proof {
        true => Ok(ALL_BYTES),
        false => Err("the device's proof is not upstream's, byte for byte".into()),
    };
    if choice.prover() == Prover::Stwo {
        return same(upstream);
    }
    let cells: usize = statement.tables().iter().map(TableShape::cells).sum();
    if cells <= COMPARED_CELLS {
        let single = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
        return same(&single.install(|| statement.prove_upstream())?);
    }
    if upstream.settled != made.settled {
        return Err("commitments or opened values are not upstream's".into());
    }
    let Choice::Plonky3(choice) = choice else { return Ok("commitments, openings, verified") };
    let fri = Fri { pow_bits: 0, batch_pow_bits: 0, commit_pow_bits: 0, ..choice.fri };
    let mut without_work = rigel_workloads::Choice { fri, ..*choice }.statement()?;
    without_work.generate();
    without_work.prepare(Some(device), OnFailure::Fail)?;
    match without_work.prove()?.proof == without_work.prove_upstream()?.proof {
        true => Ok(ALL_BYTES_WITHOUT_WORK),
        false => Err("the device's proof with 0 bits of work is not upstream's, byte for byte".into()),
    }
}

/// Proofs per second from the host, one after the other and from two threads, each on its own streams.
fn throughput(statement: &dyn Statement, first: &Made, proofs: usize) -> Result<Throughput, Failure> {
    let run = |threads: usize| -> Result<f64, Failure> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), Failure> {
            while next.fetch_add(1, Ordering::Relaxed) < proofs {
                same(first, statement.prove()?)?;
            }
            Ok(())
        };
        let (done, milliseconds) = timed(|| {
            std::thread::scope(|scope| {
                let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                workers.into_iter().try_for_each(|worker| worker.join().expect("a proof does not panic"))
            })
        });
        done?;
        Ok(proofs as f64 / milliseconds * 1e3)
    };
    // The second thread's memory and pinned blocks are allocated once.
    run(2)?;
    Ok(Throughput { proofs, alone_per_second: run(1)?, paired_per_second: run(2)? })
}

/// Our phases beside upstream's, then phases that only upstream has, then the rest. Takes upstream's total time and the
/// phases known from its spans.
fn side_by_side(report: &ProofReport, upstream: Option<(f64, Phases)>) -> Vec<PhasePair> {
    let known: Phases = upstream.as_ref().map_or(Phases::new(), |(_, phases)| {
        phases.iter().filter(|(name, _)| *name != "other").copied().collect()
    });
    let sum = |phases: &[(&str, f64)]| phases.iter().map(|(_, ms)| ms).sum::<f64>();
    let of_upstream = |name: &str| known.iter().find(|(known, _)| *known == name).map(|(_, ms)| *ms);
    let ours = report.by_phase();
    let mut pairs: Vec<PhasePair> = ours
        .iter()
        .map(|&(name, ms)| PhasePair { name, milliseconds: Some(ms), upstream_milliseconds: of_upstream(name) })
        .collect();
    let missing = known.iter().filter(|(name, _)| ours.iter().all(|(known, _)| known != name));
    pairs.extend(missing.map(|&(name, ms)| PhasePair {
        name,
        milliseconds: None,
        upstream_milliseconds: Some(ms),
    }));
    pairs.push(PhasePair {
        name: "other",
        milliseconds: Some((report.total_ms - sum(&ours)).max(0.0)),
        upstream_milliseconds: upstream.as_ref().map(|(total, _)| (total - sum(&known)).max(0.0)),
    });
    pairs
}

fn bars(figures: &Figures, bars: &Bars, judges: bool) -> Vec<Bar> {
    let most = |figure, value, bound: Option<f64>| {
        bound.map(|bound| Bar::new(figure, Some(value), Bound::AtMost(bound), judges))
    };
    let least = |figure, value, bound: Option<f64>| {
        bound.map(|bound| Bar::new(figure, value, Bound::AtLeast(bound), judges))
    };
    [
        most("host ms", figures.host.median(), bars.host_ms),
        least("host, x upstream", figures.host_ratio(), bars.host_ratio),
        most("resident ms", figures.resident.median(), bars.resident_ms),
        least("resident, x upstream", figures.resident_ratio(), bars.resident_ratio),
        least("constraints, x upstream", figures.constraints_ratio(), bars.constraints_ratio),
        most("peak memory / extended columns", figures.peak_over_extended(), Some(PEAK_OVER_EXTENDED)),
        most("bytes back / proof", figures.down_over_proof(), bars.down_over_proof),
    ]
    .into_iter()
    .flatten()
    .collect()
}
