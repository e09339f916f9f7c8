//! `rigel risc0 worker`: segments of runs as jobs of a cluster (`rigel_worker`, `rigel.cluster.risc0`).
//!
//! A job is upstream's `Segment`, encoded by upstream (`Segment::encode`). Its result is the seal, checked by
//! upstream's verifier: words of four bytes, little-endian. It is not upstream's `SegmentReceipt`, because the receipt
//! of the last segment holds the journal, which a segment does not know.

use rigel_risc0::{Error, Preflight, Prover, Segment, verify_seal};
use rigel_worker::{Failure as JobFailure, Job};
use serde_json::{Map, Value};

use crate::Failure;
use crate::options::Place;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
}

/// Works on jobs until its standard input ends.
pub fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let prover = arguments.place.prover()?;
    rigel_worker::serve("risc0", |job| prove(&prover, job))?;
    Ok(true)
}

fn prove(prover: &Prover, job: &mut Job) -> Result<Vec<u8>, JobFailure> {
    job.progress(0.0, "preflight");
    let segment = Segment::decode(job.input()).map_err(|error| {
        let (number, length) = (job.number(), job.input().len());
        JobFailure::new(format!("job {number}, {length} bytes, is not a segment of upstream's: {error}"))
    })?;
    let preflight = Preflight::new(&segment).map_err(failure)?;
    job.check()?;
    job.progress(0.3, "prove");
    let proven = prover.prove_preflight(&preflight).map_err(failure)?;
    job.check()?;
    job.progress(0.9, "verify");
    verify_seal(&proven.seal).map_err(failure)?;
    let phases = proven.report.by_phase();
    job.report("phases", phases.into_iter().map(|(name, ms)| (name.into(), ms.into())).collect::<Map<_, _>>());
    job.report("proof", serde_json::to_value(&proven.report)?);
    job.report("po2", preflight.po2());
    job.report("cycles", Value::from(preflight.cycles()));
    Ok(to_bytes(&proven.seal))
}

/// Classifies an error. One for which the device or its machine may be at fault is worth another attempt
/// elsewhere. A rejected seal is among these: the segment comes from upstream's executor, so a device has computed
/// something wrong.
fn failure(error: Error) -> JobFailure {
    match error {
        Error::Gpu(_) | Error::Memory { .. } | Error::Prover(_) | Error::Rejected(_) => {
            JobFailure::elsewhere(error)
        }
        _ => JobFailure::new(error),
    }
}

/// A seal as bytes.
pub fn to_bytes(seal: &[u32]) -> Vec<u8> {
    seal.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A seal from its bytes; none if they are not whole words.
pub fn from_bytes(bytes: &[u8]) -> Option<Vec<u32>> {
    let (words, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| words.iter().map(|word| u32::from_le_bytes(*word)).collect())
}
