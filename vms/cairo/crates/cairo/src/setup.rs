//! The setup that proofs with the same parameters share: the preprocessed columns, their tree, and twiddles.

use std::collections::BTreeSet;
use std::sync::Arc;

use rigel_gpu::Lock;
use stwo::core::channel::MerkleChannel;
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::CommitmentTreeProver;
use stwo::prover::backend::BackendForChannel;
use stwo::prover::mempool::BaseColumnPool;
use stwo::prover::poly::circle::PolyOps;
use stwo::prover::poly::twiddles::TwiddleTree;
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::PreProcessedTrace;
use stwo_cairo_prover::prover::ProverParameters;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;

use crate::backend::CairoBackend;
use crate::columns::{Evaluation, HostColumn};
use crate::error::Result;

/// The setup that proofs with the same parameters share, on a backend.
pub(crate) struct Setup<B: BackendForChannel<MC>, MC: MerkleChannel> {
    pub(crate) parameters: ProverParameters,
    /// Upstream's description of the preprocessed columns.
    pub(crate) preprocessed: Arc<PreProcessedTrace>,
    /// The names of the preprocessed columns, in order.
    pub(crate) ids: Vec<PreProcessedColumnId>,
    /// The preprocessed columns before their extension, if the backend makes lookups from them.
    pub(crate) fixed: Vec<Evaluation<B>>,
    pub(crate) tree: CommitmentTreeProver<B, MC>,
    twiddles: Lock<Arc<TwiddleTree<B>>>,
    /// The components of the base trace that upstream's code makes, though the device could.
    pub(crate) on_host: BTreeSet<String>,
}

impl<B: CairoBackend + BackendForChannel<MC>, MC: MerkleChannel> Setup<B, MC> {
    /// Commits to the preprocessed columns.
    pub(crate) fn new(
        parameters: ProverParameters,
        preprocessed: Arc<PreProcessedTrace>,
        columns: Vec<HostColumn>,
    ) -> Result<Self> {
        let config = parameters.pcs_config;
        let columns = B::adopt(columns)?;
        let twiddles = twiddles::<B>(log_domain(&parameters, 0));
        let fixed = B::keep(&columns);
        let tree = CommitmentTreeProver::new(
            B::interpolate_columns(columns, &twiddles),
            config.fri_config.log_blowup_factor,
            &twiddles,
            parameters.store_polynomials_coefficients,
            config.lifting_log_size,
            &BaseColumnPool::new(),
        );
        let ids = preprocessed.ids();
        let (twiddles, on_host) = (Lock::new(Arc::new(twiddles)), BTreeSet::new());
        Ok(Self { parameters, preprocessed, ids, fixed, tree, twiddles, on_host })
    }

    /// Twiddles that serve a proof whose longest column has 2^`log_size` values. Larger ones replace smaller ones.
    pub(crate) fn twiddles(&self, log_size: u32) -> Arc<TwiddleTree<B>> {
        let log_domain = log_domain(&self.parameters, log_size);
        let mut held = self.twiddles.lock();
        // The tree is of the domain's half coset.
        if held.root_coset.log_size() + 1 < log_domain {
            *held = Arc::new(twiddles(log_domain));
        }
        held.clone()
    }
}

fn twiddles<B: PolyOps>(log_domain: u32) -> TwiddleTree<B> {
    B::precompute_twiddles(CanonicCoset::new(log_domain).circle_domain().half_coset)
}

/// The logarithm of the largest domain of a proof whose longest column has 2^`log_size` values: the one that the
/// column, or a longer preprocessed one, is extended to. Constraints are evaluated on a domain of twice the size of
/// their columns, which is never larger.
fn log_domain(parameters: &ProverParameters, log_size: u32) -> u32 {
    let longest = log_size.max(parameters.preprocessed_trace.max_log_trace_size());
    let extended = longest + parameters.pcs_config.fri_config.log_blowup_factor;
    extended.max(parameters.pcs_config.lifting_log_size.unwrap_or(0))
}
