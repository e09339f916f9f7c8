//! Parameters of proofs: upstream's type, its production values, and checks.

use stwo::core::fri::FriConfig;
use stwo::core::pcs::PcsConfig;
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::PreProcessedTraceVariant;
use stwo_cairo_prover::prover::{ChannelHash, ProverParameters};

use crate::error::{Error, Result};

/// Upstream's parameters for production: Blake2s, blowup 2, 70 queries and 26 bits of work, 96 bits of security.
/// Upstream's default variant of the preprocessed columns is [`PreProcessedTraceVariant::Canonical`].
pub fn production(variant: PreProcessedTraceVariant) -> ProverParameters {
    let fri_config =
        FriConfig { log_last_layer_degree_bound: 0, log_blowup_factor: 1, n_queries: 70, fold_step: 1 };
    ProverParameters {
        channel_hash: ChannelHash::Blake2s,
        channel_salt: 0,
        pcs_config: PcsConfig { pow_bits: 26, fri_config, lifting_log_size: None },
        preprocessed_trace: variant,
        store_polynomials_coefficients: false,
        include_all_preprocessed_columns: false,
    }
}

/// The bits of security of a proof, by upstream's conjecture about queries.
pub fn security_bits(config: &PcsConfig) -> u32 {
    let FriConfig { log_blowup_factor, n_queries, .. } = config.fri_config;
    config.pow_bits + log_blowup_factor * n_queries as u32
}

/// The name of a variant of the preprocessed columns, as on the command line and in upstream's files.
pub fn variant_name(variant: PreProcessedTraceVariant) -> &'static str {
    match variant {
        PreProcessedTraceVariant::Canonical => "canonical",
        PreProcessedTraceVariant::CanonicalWithoutPedersen => "canonical_without_pedersen",
        PreProcessedTraceVariant::CanonicalSmall => "canonical_small",
    }
}

/// The largest table of any proof: the circle's group has 2^31 points.
const MAX_LOG_DOMAIN: u32 = 30;

/// Checks what upstream would reject with a panic.
pub(crate) fn check(parameters: &ProverParameters) -> Result<()> {
    let PcsConfig { pow_bits, fri_config, lifting_log_size } = parameters.pcs_config;
    let range = |name, value: u64, range: std::ops::RangeInclusive<u64>| {
        if range.contains(&value) {
            return Ok(());
        }
        let advice = format!("{} to {} are possible", range.start(), range.end());
        Err(Error::Parameter { name, value, advice })
    };
    range("the logarithm of the blowup", fri_config.log_blowup_factor.into(), 1..=16)?;
    range("the number of queries", fri_config.n_queries as u64, 1..=1 << 10)?;
    range("the fold step", fri_config.fold_step.into(), 1..=10)?;
    range("the logarithm of the last layer's degree", fri_config.log_last_layer_degree_bound.into(), 0..=10)?;
    // The search for 2^40 hashes on the fastest device takes minutes.
    range("the number of bits of work", pow_bits.into(), 0..=40)?;
    range("include_all_preprocessed_columns", parameters.include_all_preprocessed_columns.into(), 0..=0)?;
    let least = parameters.preprocessed_trace.max_log_trace_size() + fri_config.log_blowup_factor;
    range("the logarithm of the largest extended column", least.into(), 0..=MAX_LOG_DOMAIN.into())?;
    if let Some(lifting) = lifting_log_size {
        range("the lifting size's logarithm", lifting.into(), least.into()..=MAX_LOG_DOMAIN.into())?;
    }
    Ok(())
}
