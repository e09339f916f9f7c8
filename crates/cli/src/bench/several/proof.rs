//! One proof over several devices.

use rigel_gpu::{Device, background};
use rigel_plonky3::Policy;
use rigel_workloads::{Choice, Field, Fri, Hash, Made, Statement};

use super::{Bench, Model, Row};
use crate::Failure;

fn choice(bench: &Bench<'_>) -> Choice {
    Choice {
        workload: bench.workload,
        log_rows: bench.log_rows,
        field: Field::KoalaBear,
        hash: Hash::Keccak,
        fri: Fri::default(),
    }
}

pub fn name(bench: &Bench<'_>) -> String {
    format!("{}, trace on the devices", choice(bench))
}

pub fn rows(bench: &Bench<'_>, counts: &[u32]) -> Result<Vec<Row>, Failure> {
    let case = name(bench);
    bench.say(&case, "generating the trace");
    let mut statement = choice(bench).statement()?;
    statement.generate();
    bench.say(&case, "on one device");
    let one = Prepared::new(&mut *statement, &bench.devices[..1])?;
    let (made, one_ms) = bench.median(|| one.prove())?;
    let mut rows = Vec::new();
    for &count in counts {
        bench.say(&case, &format!("on {count} devices"));
        let devices = bench.opened(count as usize)?;
        let opened = Prepared::new(&mut *statement, &devices)?;
        let (found, opened_ms) = bench.median(|| opened.prove())?;
        if found.proof != made.proof {
            return Err(format!("{case}: the proof over {count} devices differs from that of one").into());
        }
        let model = bench.model.then(|| bench.rehearse(&devices, || opened.prove())).transpose()?;
        let measured = match bench.gpus(count as usize) {
            Some(gpus) => {
                let gpus = Prepared::new(&mut *statement, gpus)?;
                Some(bench.median(|| gpus.prove())?.1)
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
        statement.prepare_over(devices, Policy::default())?;
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
}
