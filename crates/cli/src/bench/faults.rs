//! `rigel bench soak --faults`: small programs with one call of the driver failing at a time, for every call. Each
//! gives an error that names the failure, or the right bytes, and the next run on the same device is right.

use std::collections::BTreeMap;
use std::time::Instant;

use rigel_gpu::Selector;
use rigel_gpu::testing::faults::{Call, Injection, Moment, Outcome, Patience, Program, Sweep, sample, settings};
use rigel_gpu::testing::programs;
use rigel_proofs::stwo::{Channel, Choice as StwoChoice, Fri as StwoFri, Making, Workload as StwoWorkload};
use rigel_statements::{OnFailure, Statement};
use rigel_workloads::{Choice, Field, Fri, Hash, Workload};
use serde::Serialize;

use crate::Failure;
use crate::terminal::{Align, Columns, Paint, Progress};

/// The number of failures with each outcome.
type Counts = BTreeMap<&'static str, u64>;

/// The failures of one kind in one program.
#[derive(Serialize)]
struct Row {
    program: String,
    /// `first` if the device had just been opened, `second` if the program had run on it once, `later` if twice.
    run: String,
    call: &'static str,
    /// The calls of a run without a failure.
    calls: u64,
    outcomes: Counts,
}

/// All counts.
#[derive(Serialize)]
struct Report {
    device: String,
    seconds: f64,
    /// Failures that were tried.
    failures: u64,
    rows: Vec<Row>,
    /// The outcomes that must not occur, with the program and the call.
    problems: Vec<String>,
}

/// Tries `most` failures of each kind in each program, or all. Returns whether all outcomes were good.
pub fn run(selector: Selector, most: Option<u64>, only: Option<&str>, json: bool) -> Result<bool, Failure> {
    let injection = Injection::over(selector, settings()?)?;
    let programs: Vec<Program> =
        programs()?.into_iter().filter(|program| only.is_none_or(|part| program.name().contains(part))).collect();
    if programs.is_empty() {
        return Err(format!("no program has {:?} in its name", only.unwrap_or_default()).into());
    }
    let (device, began, progress) = (injection.open().0.to_string(), Instant::now(), Progress::spoken());
    let mut report = Report { device, seconds: 0.0, failures: 0, rows: Vec::new(), problems: Vec::new() };
    for program in &programs {
        // Compilers may take longer than a run is waited for.
        progress.say(&format!("{}: kernels that are not in the cache are compiled …", program.name()));
        program.run(&injection.open().0).map_err(|error| format!("{}: {error}", program.name()))?;
        for moment in Moment::ALL {
            sweep(&injection, program, moment, most, &progress, &mut report)?;
        }
    }
    drop(progress);
    report.seconds = began.elapsed().as_secs_f64();
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", text(&report));
    }
    Ok(report.problems.is_empty())
}

fn sweep(
    injection: &Injection,
    program: &Program,
    moment: Moment,
    most: Option<u64>,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut sweep = Sweep::new(injection, program, moment, Patience::default())
        .map_err(|error| format!("{}, {moment} run, without a failure: {error}", program.name()))?;
    let calls = sweep.calls();
    let numbers = |call: Call| sample(calls.of(call), most.unwrap_or(u64::MAX));
    let all: u64 = Call::ALL.into_iter().map(|call| numbers(call).len() as u64).sum();
    let calls_in_all: u64 = Call::ALL.into_iter().map(|call| calls.of(call)).sum();
    progress.say(&format!("{}, {moment} run: {all} of {calls_in_all} calls fail …", program.name()));
    let (mut done, mut totals) = (0, Counts::new());
    for call in Call::ALL {
        let mut outcomes = Counts::new();
        for number in numbers(call) {
            progress.part(done, all, &format!("{}, {moment} run, {call} {number} …", program.name()));
            let outcome = sweep.fail(call, number);
            *outcomes.entry(outcome.name()).or_default() += 1;
            *totals.entry(outcome.name()).or_default() += 1;
            if !outcome.is_good() {
                report.note(format!("{}, {moment} run, {call} {number}: {outcome}", program.name()));
            }
            done += 1;
        }
        let (program, run) = (program.name().into(), moment.to_string());
        report.rows.push(Row { program, run, call: call.name(), calls: calls.of(call), outcomes });
    }
    report.failures += done;
    let totals: Vec<String> = totals.iter().map(|(name, count)| format!("{count} {name}")).collect();
    progress.say(&format!("{}, {moment} run: {}", program.name(), totals.join(", ")));
    let end = sweep.close();
    if !end.is_good() {
        report.note(format!("{}, {moment} run, when the device closed: {end}", program.name()));
    }
    Ok(())
}

impl Report {
    /// Notes a problem, and tells it at once: the rest may take a while.
    fn note(&mut self, problem: String) {
        eprintln!("{problem}");
        self.problems.push(problem);
    }
}

/// Kinds of calls by outcomes, and the programs.
fn text(report: &Report) -> String {
    let Report { device, seconds, failures, rows, problems } = report;
    let mut aligned = vec![Align::Left];
    aligned.resize(Outcome::NAMES.len() + 2, Align::Right);
    let mut columns = Columns::new(&aligned);
    let strings = |first: &str, counts: Vec<u64>| {
        std::iter::once(first.to_string()).chain(counts.iter().map(ToString::to_string)).collect::<Vec<_>>()
    };
    let count = |rows: &[&Row]| {
        let of = |name| rows.iter().filter_map(|row| row.outcomes.get(name)).sum::<u64>();
        let outcomes: Vec<u64> = Outcome::NAMES.into_iter().map(of).collect();
        let all = outcomes.iter().sum();
        [vec![all], outcomes].concat()
    };
    columns.row(Paint::Bold, [&["", "failures"][..], &Outcome::NAMES].concat().into_iter().map(str::to_string));
    for call in Call::ALL {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.call == call.name()).collect();
        columns.row(Paint::Plain, strings(call.name(), count(&rows)));
    }
    let mut programs: Vec<&str> = rows.iter().map(|row| row.program.as_str()).collect();
    programs.dedup();
    for program in programs {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.program == program).collect();
        columns.row(Paint::Plain, strings(program, count(&rows)));
    }
    let bad = match problems.len() {
        0 => String::new(),
        count => format!("\n{count} outcomes that may not be, named above\n"),
    };
    format!("{failures} failures on {device} in {seconds:.0} s\n\n{}{bad}", columns.to_text(""))
}

/// The programs, each small, with the bytes that it must give.
fn programs() -> Result<Vec<Program>, Failure> {
    let fri = Fri { queries: 3, pow_bits: 2, batch_pow_bits: 0, ..Fri::default() };
    let plonky3 =
        |workload, log_rows| Choice { workload, log_rows, field: Field::KoalaBear, hash: Hash::Keccak, fri };
    let (single, batch) = (plonky3(Workload::Fibonacci, 5), plonky3(Workload::Lookups, 6));
    let stwo = StwoChoice {
        workload: StwoWorkload::Plonk,
        log_size: 5,
        channel: Channel::Blake2s,
        fri: StwoFri { queries: 3, pow_bits: 2, ..StwoFri::default() },
    };
    let making = |unmeasured| Making { unmeasured, ..Making::default() };
    let mut programs =
        vec![proof("plonky3", move || single.statement())?, proof("plonky3 batch", move || batch.statement())?];
    match stwo.built() {
        Ok(()) => {
            programs.push(proof("stwo, measured", move || stwo.statement(making(false)))?);
            programs.push(proof("stwo", move || stwo.statement(making(true)))?);
        }
        Err(reason) => eprintln!("note: {reason}"),
    }
    #[cfg(feature = "full")]
    programs.push(array()?);
    programs.push(programs::transfer());
    Ok(programs)
}

/// A proof, which must be upstream's.
fn proof(
    name: &str,
    statement: impl Fn() -> Result<Box<dyn Statement>, String> + Send + Sync + 'static,
) -> Result<Program, Failure> {
    let mut known = statement()?;
    known.generate();
    known.prepare(None, OnFailure::Fail)?;
    // Upstream's proof of work takes the smallest witness on one thread.
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let expected = one_thread.install(|| known.prove_upstream())?.proof;
    Ok(Program::new(name, expected, move |device| {
        let mut statement = statement()?;
        statement.generate();
        statement.prepare(Some(device), OnFailure::Fail)?;
        Ok(statement.prove()?.proof)
    }))
}

/// An expression over arrays, and a sum and a product of matrices.
#[cfg(feature = "full")]
fn array() -> Result<Program, Failure> {
    use rigel_array::{Array, Device as Place, Type};

    fn values(place: &Place) -> rigel_array::Result<Vec<u8>> {
        let random = |seed| Array::random(&[24, 24], Type::KoalaBear, seed, &Place::Cpu)?.to(place);
        let (a, b, c) = (random(1)?, random(2)?, random(3)?);
        let fused = (a.lazy() * &b + &c).eval()?;
        let sum = (a.lazy() * &fused).sum(0)?;
        let product = fused.matmul(&b)?;
        let all = Array::concatenate(&[fused.reshape(&[-1])?, sum, product.reshape(&[-1])?], 0)?;
        let mut bytes = vec![0; all.bytes()];
        all.read_into(&mut bytes)?;
        Ok(bytes)
    }
    Ok(Program::new("array", values(&Place::Cpu)?, |device| Ok(values(&device.clone().into())?)))
}
