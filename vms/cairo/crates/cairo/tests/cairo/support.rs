//! The parts that the tests share: programs, parameters, upstream's prover.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rigel_cairo::{
    CairoProof, CairoProofForRustVerifier, PreProcessedTraceVariant, Program, ProverInput, ProverParameters,
    RunOptions, for_verifier, production,
};
use rigel_gpu::{Device, Selector};
use serde_json::Value;
use stwo::core::channel::MerkleChannel;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::utils::MaybeOwned;
use stwo::core::vcs_lifted::merkle_hasher::MerkleHasherLifted;
use stwo::prover::CommitmentTreeProver;
use stwo::prover::backend::BackendForChannel;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::mempool::BaseColumnPool;
use stwo::prover::poly::circle::PolyOps;
use stwo_cairo_prover::prover::prove_cairo_with_precompute;
use stwo_cairo_prover::witness::preprocessed_trace::gen_trace;

/// The compiled program of this name.
pub(crate) fn program(name: &str) -> Program {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../compiled").join(name).with_extension("json");
    Program::read(&path).unwrap_or_else(|error| panic!("{error}; run vms/cairo/scripts/compile-programs first"))
}

/// A run of a program.
pub(crate) fn input(name: &str, program_input: Value) -> ProverInput {
    let options = RunOptions { program_input: Some(program_input), ..RunOptions::default() };
    program(name).run(&options).unwrap().input
}

/// Parameters of quick proofs: few queries and little work. The lookups' 24 bits of work are part of the AIR.
pub(crate) fn quick() -> ProverParameters {
    let mut parameters = production(PreProcessedTraceVariant::CanonicalSmall);
    parameters.pcs_config.pow_bits = 5;
    parameters.pcs_config.fri_config.n_queries = 3;
    parameters
}

/// The device of the tests: the one that `RIGEL_DEVICE` selects, or the emulated one.
pub(crate) fn device() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE.get_or_init(own_device).clone()
}

/// The device of the tests with statistics of its own, which no other test changes.
pub(crate) fn own_device() -> Device {
    let selector = std::env::var("RIGEL_DEVICE").map_or(Selector::Emulated(0), |text| text.parse().unwrap());
    Device::open(selector).unwrap()
}

/// Upstream's proof on the CPU, by upstream's own function.
pub(crate) fn upstream<MC: MerkleChannel>(input: ProverInput, parameters: ProverParameters) -> CairoProof<MC::H>
where
    SimdBackend: BackendForChannel<MC>,
{
    let config = parameters.pcs_config;
    let preprocessed = Arc::new(parameters.preprocessed_trace.to_preprocessed_trace());
    // Upstream's default, the twiddles of a domain of 2^30 points, takes 4 GB.
    let log_domain = config.lifting_log_size.unwrap_or(23);
    let twiddles = SimdBackend::precompute_twiddles(CanonicCoset::new(log_domain).circle_domain().half_coset);
    let pool = BaseColumnPool::new();
    let tree = CommitmentTreeProver::<SimdBackend, MC>::new(
        SimdBackend::interpolate_columns(gen_trace(preprocessed.clone()), &twiddles),
        config.fri_config.log_blowup_factor,
        &twiddles,
        parameters.store_polynomials_coefficients,
        config.lifting_log_size,
        &pool,
    );
    let tree = MaybeOwned::Owned(tree);
    prove_cairo_with_precompute::<MC>(&pool, &twiddles, preprocessed, tree, input, parameters).unwrap()
}

/// A proof as upstream's files hold it.
pub(crate) fn serialized<H: MerkleHasherLifted>(proof: &CairoProof<H>) -> String
where
    CairoProof<H>: Clone,
    CairoProofForRustVerifier<H>: serde::Serialize,
{
    serde_json::to_string(&for_verifier(proof)).unwrap()
}
