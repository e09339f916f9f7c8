//! Chooses where a proof is made: on the device or, if the policy allows it, by upstream on the CPU.

use std::time::Instant;

use p3_air::symbolic::SymbolicExpressionExt;
use p3_batch_stark::{BatchProof, ProverData, StarkInstance};
use p3_field::Algebra;
use p3_uni_stark::{Proof, ProvingError};
use rigel_gpu::{Attempt, PoolError};

use crate::air::provable::{CpuAir, CpuBatchAir};
use crate::base::error::{Error, Result};
use crate::base::report::{Fallback, Proven, Report};
use crate::columns::trace::Trace;
use crate::door::instance::Instance;
use crate::keys::batch_key::BatchKey;
use crate::keys::preprocessed::Preprocessed;
use crate::prover::Prover;
use crate::upstream::config::DeviceConfig;

const HIDDEN_BY_DEVICE: &str = "the preprocessed columns were committed to by a device, with random elements that the \
                               CPU does not have; make the key with Prover::cpu to prove there";

/// The device of reports of proofs on the CPU.
pub(crate) const CPU: &str = "cpu";

/// Makes a proof of `input` where the policy says, or on the CPU if that fails and the policy allows it.
pub(crate) fn choose<SC: DeviceConfig, I, P>(
    prover: &Prover<SC>,
    cells: usize,
    input: I,
    on_device: impl FnOnce(&I) -> Result<Proven<P>>,
    on_cpu: impl FnOnce(I) -> Result<Proven<P>>,
) -> Result<Proven<P>> {
    // Upstream would draw from the configuration's generators. If they are seeded as the prover's, which gives
    // upstream's bytes, two proofs would have the same masks.
    if SC::HIDING && prover.device().is_some() {
        return on_device(&input);
    }
    let (policy, attempt) = (prover.policy(), Attempt::current());
    let reason = if let Some(reason) = prover.absence() {
        Some(reason.to_string())
    } else if cells < policy.cpu_below_cells {
        let below = policy.cpu_below_cells;
        Some(format!("{cells} cells; the policy proves fewer than {below} on the CPU"))
    } else {
        match on_device(&input) {
            Err(error) if attempt.may_move() && error.is_lost_device() => return Err(error),
            Err(error) if policy.cpu_on_failure && is_of_device(&error) => Some(error.to_string()),
            made => return made,
        }
    };
    let mut proven = on_cpu(input)?;
    proven.report.moves = attempt.moves().to_vec();
    if let Some(reason) = reason {
        proven.report.fallbacks.push(Fallback { part: "the proof", ran_on: "CPU", reason });
    }
    Ok(proven)
}

/// Whether the CPU may succeed despite this error. Memory of another device is a mistake of the caller that a proof on
/// the CPU would hide; shapes may exceed what only kernels are limited to.
fn is_of_device(error: &Error) -> bool {
    match error {
        Error::Gpu(error) => !matches!(error, rigel_gpu::Error::WrongDevice { .. }),
        error => matches!(error, Error::DoesNotFit { .. } | Error::TooManyRows { .. } | Error::Devices(_)),
    }
}

/// Upstream's proof of one table, which takes the trace. Preprocessed columns that a device has committed to are
/// committed to again.
pub(crate) fn prove<SC: DeviceConfig, A: CpuAir<SC>>(
    prover: &Prover<SC>,
    air: &A,
    trace: Trace<'_, SC::Value>,
    public_values: &[SC::Value],
    preprocessed: Option<&Preprocessed<SC>>,
) -> Result<Proven<Proof<SC>>> {
    let began = Instant::now();
    let again = match preprocessed {
        Some(Preprocessed { upstream: None, .. }) if SC::HIDING => {
            // Another commitment would have other salts, and the verifier's key is for this one.
            return Err(Error::Preprocessed { table: 0, detail: HIDDEN_BY_DEVICE.into() });
        }
        Some(Preprocessed { upstream: None, key, .. }) => {
            p3_uni_stark::setup_preprocessed(prover.config(), air, key.degree_bits).map_err(upstream)?
        }
        _ => None,
    };
    let kept = preprocessed.and_then(|preprocessed| preprocessed.upstream.as_ref());
    let data = kept.or(again.as_ref().map(|(data, _)| data));
    let trace = trace.into_host()?;
    let proof = p3_uni_stark::prove_with_preprocessed(prover.config(), air, trace, public_values, data);
    Ok(Proven { proof: proof.map_err(upstream)?, report: report(began) })
}

pub(crate) fn report(began: Instant) -> Report {
    Report { device: CPU.into(), total_ms: began.elapsed().as_secs_f64() * 1e3, ..Report::default() }
}

pub(crate) fn upstream<E: std::fmt::Debug>(error: ProvingError<E>) -> Error {
    Error::Upstream(error.to_string())
}

/// Upstream's proof of a batch. Preprocessed columns that a device has committed to are committed to again.
pub(crate) fn prove_batch<SC: DeviceConfig, A: CpuBatchAir<SC>>(
    prover: &Prover<SC>,
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
) -> Result<Proven<BatchProof<SC>>>
where
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    let began = Instant::now();
    let again = match &key.data.common.preprocessed {
        Some(_) if key.data.prover_only.preprocessed_prover_data.is_some() => None,
        Some(global) if SC::HIDING => {
            let table = global.matrix_to_instance[0];
            return Err(Error::Preprocessed { table, detail: HIDDEN_BY_DEVICE.into() });
        }
        Some(_) => {
            let airs: Vec<A> = instances.iter().map(|instance| instance.air.clone()).collect();
            Some(ProverData::from_airs_and_degrees(prover.config(), &airs, &key.log_rows).map_err(upstream)?)
        }
        None => None,
    };
    let data = again.as_ref().unwrap_or(&key.data);
    let traces = instances.iter().map(|instance| instance.trace.to_host()).collect::<Result<Vec<_>>>()?;
    let upstream_instances: Vec<StarkInstance<'_, SC, A>> = instances
        .iter()
        .zip(&traces)
        .map(|(instance, trace)| StarkInstance {
            air: instance.air,
            trace,
            public_values: instance.public_values.clone(),
        })
        .collect();
    let proof = p3_batch_stark::prove_batch(prover.config(), &upstream_instances, data).map_err(upstream)?;
    Ok(Proven { proof, report: report(began) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_device_can_not_do_reaches_the_policy() {
        let rows = Error::TooManyRows { table: 0, log_rows: 25, log_blowup: 1, log_limit: 25 };
        let degree = Error::Degree { table: 0, log_rows: 23, log_chunks: 2, log_limit: 24 };
        let memory = Error::DoesNotFit { needed: 2, available: 1, phase: "open" };
        for error in [rows, memory, Error::Gpu(rigel_gpu::Error::Disabled)] {
            assert!(is_of_device(&error), "{error}");
        }
        let [operation, expected, found] = ["copy", "cuda:0", "cuda:1"].map(String::from);
        let elsewhere = Error::Gpu(rigel_gpu::Error::WrongDevice { operation, expected, found });
        assert!(!is_of_device(&elsewhere), "{elsewhere}");
        // Upstream has no domain for such a quotient, either.
        for error in [degree, Error::EmptyBatch, Error::Cancelled, Error::Height { table: 0, rows: 3 }] {
            assert!(!is_of_device(&error), "{error}");
        }
    }
}
