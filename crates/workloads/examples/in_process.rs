//! Proofs of one KeccakAir table in one process, from several threads: what `scripts/cluster-overhead` compares workers
//! with. Prints JSON: the device, and for each number of threads the proofs a second. With `RIGEL_DEVICE=none` they are
//! upstream's, which are the same each time only with `RAYON_NUM_THREADS=1`.
//!
//! `cargo run --release -p rigel-workloads --example in_process -- [proofs] [log rows] [threads, ..]`

use std::sync::atomic::{AtomicUsize, Ordering};

use rigel_gpu::{Device, Error, Selector, background};
use rigel_statements::{OnFailure, Statement, timed};
use rigel_workloads::{Choice, Field, Fri, Hash, Workload};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let (proofs, log_rows) = (*numbers.first().unwrap_or(&200), *numbers.get(1).unwrap_or(&15) as u32);
    let threads = numbers.get(2..).filter(|threads| !threads.is_empty()).unwrap_or(&[1, 2]);
    let device = match Device::open(Selector::from_env()?) {
        Err(Error::Disabled) => None,
        opened => Some(opened?),
    };
    let choice = Choice {
        workload: Workload::Keccak,
        log_rows,
        field: Field::KoalaBear,
        hash: Hash::Keccak,
        fri: Fri::default(),
    };
    let mut statement = choice.statement()?;
    statement.generate();
    statement.prepare(device.as_ref(), OnFailure::Fail).map_err(|error| error.to_string())?;
    let first = prove(&*statement)?;
    background::finish();

    let mut rates = Vec::new();
    for &threads in threads {
        // The memory of each thread is allocated once.
        many(&*statement, 2 * threads, threads, &first)?;
        let (done, ms) = timed(|| many(&*statement, proofs, threads, &first));
        done?;
        rates.push(format!("\"{threads}\": {:.3}", proofs as f64 / ms * 1e3));
    }
    let device = device.map_or("cpu".to_string(), |device| device.to_string());
    println!("{{\"device\": \"{device}\", \"proofs\": {proofs}, \"per_second\": {{{}}}}}", rates.join(", "));
    Ok(())
}

fn prove(statement: &dyn Statement) -> Result<Vec<u8>, Failure> {
    Ok(statement.prove().map_err(|error| error.to_string())?.proof)
}

/// Makes a number of proofs, all of them the same.
fn many(statement: &dyn Statement, proofs: usize, threads: usize, first: &[u8]) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), Failure> {
        while next.fetch_add(1, Ordering::Relaxed) < proofs {
            if prove(statement)? != first {
                return Err("two proofs of the same statement differ".into());
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a proof panicked")?)
    })
}
