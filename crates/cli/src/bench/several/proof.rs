//! One proof over several devices.

use rigel_gpu::{Device, background};
use rigel_proofs::stwo;
use rigel_statements::{Made, OnFailure, Statement};
use rigel_workloads::{Choice, Field, Fri, Hash};

use super::{Bench, Model, Row};
use crate::Failure;

/// A statement that several devices prove together.
pub struct Case {
    pub name: String,
    statement: Box<dyn Statement>,
    /// Whether its proof can be rehearsed: from its first call to its last, it is the devices' work on the proof alone,
    /// submitted by one thread.
    has_model: bool,
}

impl Case {
    /// Plonky3's.
    pub fn plonky3(bench: &Bench<'_>) -> Result<Self, Failure> {
        let choice = Choice {
            workload: bench.workload,
            log_rows: bench.log_rows,
            field: Field::KoalaBear,
            hash: Hash::Keccak,
            fri: Fri::default(),
        };
        let name = format!("{choice}, trace on the devices");
        Ok(Self { name, statement: choice.statement()?, has_model: true })
    }

    /// Stwo's wide Fibonacci, if this build has it. Its columns are uploaded before each proof.
    pub fn stwo(bench: &Bench<'_>) -> Result<Option<Self>, Failure> {
        let choice = stwo::Choice {
            workload: rigel_proofs::stwo::Workload::WideFibonacci,
            log_size: bench.size.pick(20, 8),
            channel: stwo::Channel::Blake2s,
            fri: stwo::Fri::default(),
        };
        if choice.built().is_err() {
            return Ok(None);
        }
        let name = format!("{choice}, columns on the devices");
        Ok(Some(Self { name, statement: choice.statement(stwo::Making::default())?, has_model: false }))
    }
}

pub fn rows(bench: &Bench<'_>, case: Case, counts: &[u32]) -> Result<Vec<Row>, Failure> {
    let Case { name: case, mut statement, has_model } = case;
    bench.say(&case, "generating the trace");
    statement.generate();
    bench.say(&case, "on one device");
    let one = Prepared::new(&mut *statement, &bench.devices[..1])?;
    let (made, one_ms) = one.median(bench.repeat)?;
    let mut rows = Vec::new();
    for &count in counts {
        bench.say(&case, &format!("on {count} devices"));
        let devices = bench.opened(count as usize)?;
        let opened = Prepared::new(&mut *statement, &devices)?;
        let (found, opened_ms) = opened.median(bench.repeat)?;
        if found.proof != made.proof {
            return Err(format!("{case}: the proof over {count} devices differs from that of one").into());
        }
        let model = (bench.model && has_model).then(|| bench.rehearse(&devices, || opened.prove())).transpose()?;
        let measured = match bench.gpus(count as usize) {
            Some(gpus) => {
                let gpus = Prepared::new(&mut *statement, gpus)?;
                Some(gpus.median(bench.repeat)?.1)
            }
            None => None,
        };
        rows.push(Row {
            case: case.clone(),
            devices: count as usize,
            one_ms,
            opened_ms: Some(opened_ms),
            measured_ms: measured,
            memory_over_one: Some(found.report.peak_bytes as f64 / made.report.peak_bytes as f64),
            model: model.map(|steps| Model::new(&steps, &made.report.by_phase())),
        });
    }
    Ok(rows)
}

/// A statement whose trace is on its devices, after its first proof.
struct Prepared<'a>(&'a dyn Statement);

impl<'a> Prepared<'a> {
    fn new(statement: &'a mut dyn Statement, devices: &[Device]) -> Result<Self, Failure> {
        statement.prepare_over(devices, OnFailure::Fail)?;
        statement.keep_on_device()?;
        statement.prove_resident()?;
        // Until kernels are compiled, constraints are interpreted.
        background::finish();
        statement.prove_resident()?;
        Ok(Self(statement))
    }

    fn prove(&self) -> Result<Made, Failure> {
        self.0.prove_resident()
    }

    /// The last of some proofs, and the median of their milliseconds.
    fn median(&self, proofs: usize) -> Result<(Made, f64), Failure> {
        let mut made = self.prove()?;
        let mut times = vec![made.milliseconds];
        for _ in 1..proofs {
            made = self.prove()?;
            times.push(made.milliseconds);
        }
        times.sort_by(f64::total_cmp);
        Ok((made, times[times.len() / 2]))
    }
}
