//! Stwo's workloads by name, and their proofs behind the interface of every prover, [`rigel_statements::Statement`].
//!
//! Both provers are compiled for each channel. That is done once, here, and callers see none of upstream's types.

mod shape;
mod statement;

use rigel_statements::Statement;
use rigel_statements::stwo::{Channel, Fri, Making, Workload};
use stwo::core::fri::FriConfig;
use stwo::core::pcs::PcsConfig;
#[cfg(feature = "full")]
use stwo::core::vcs_lifted::blake2_merkle::Blake2sM31MerkleChannel;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::prover::backend::simd::SimdBackend;

use crate::AllWorkloads;
use statement::Stwo;

/// The seed of all public values and witnesses.
const SEED: u64 = 1;

/// Converts to upstream's type. The parameters must have been checked.
fn config(fri: &Fri) -> PcsConfig {
    let fri_config = FriConfig::new(fri.log_last_layer, fri.log_blowup, fri.queries, fri.fold_step);
    PcsConfig { pow_bits: fri.pow_bits, fri_config, lifting_log_size: None }
}

/// The statement of a workload of 2^`log_size` units, without a witness or a device yet. The error says why there is
/// none: a size out of range, or parameters that do not fit it. Those of `fri` must be in their ranges
/// ([`Fri::check`]).
pub fn statement(
    workload: Workload,
    log_size: u32,
    channel: Channel,
    fri: Fri,
    making: Making,
) -> Result<Box<dyn Statement>, String> {
    let statement = SimdBackend::statement(workload, log_size, SEED).map_err(|error| error.to_string())?;
    let Fri { log_last_layer, fold_step, .. } = fri;
    let log_rows = statement.log_rows();
    if log_last_layer + fold_step > log_rows {
        return Err(format!(
            "2^{log_rows} rows can't be folded by 2^{fold_step} to 2^{log_last_layer} coefficients; lower \
             --log-final-poly-len or --fold-step, or raise --log-rows"
        ));
    }
    let size = (workload, log_size);
    Ok(match channel {
        Channel::Blake2s => Box::new(Stwo::<Blake2sMerkleChannel>::new(size, config(&fri), statement, making)),
        #[cfg(feature = "full")]
        Channel::Blake2sM31 => {
            Box::new(Stwo::<Blake2sM31MerkleChannel>::new(size, config(&fri), statement, making))
        }
        #[cfg(not(feature = "full"))]
        Channel::Blake2sM31 => return Err("blake2s-m31 takes the feature `full`".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmark_config;

    #[test]
    fn default_parameters_are_those_of_the_benchmarks() {
        assert_eq!(config(&Fri::default()), benchmark_config());
    }
}
