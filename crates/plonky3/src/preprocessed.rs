//! Preprocessed columns, committed to once and kept on the device.

use p3_air::BaseAir;
use p3_commit::{Pcs, UnivariateStarkPcs};
use p3_matrix::Matrix as _;
use p3_uni_stark::{PreprocessedProverData, PreprocessedVerifierKey};

use crate::check::{self, Identity};
use crate::commit::Committed;
use crate::config::DeviceConfig;
use crate::error::{Error, Result};
use crate::prover::{Prover, Session};
use crate::trace::upload;

/// The preprocessed columns of an AIR at one height.
pub struct Preprocessed<SC: DeviceConfig> {
    /// `None` for a CPU prover.
    pub(crate) committed: Option<Committed<'static, SC>>,
    /// `None` for a prover on a device.
    pub(crate) upstream: Option<PreprocessedProverData<SC>>,
    pub(crate) key: PreprocessedVerifierKey<SC>,
    pub(crate) air: Identity,
}

impl<SC: DeviceConfig> Preprocessed<SC> {
    /// The key that upstream's `verify_with_preprocessed` takes.
    pub fn verifier_key(&self) -> &PreprocessedVerifierKey<SC> {
        &self.key
    }
}

/// Commits to the preprocessed columns of an AIR for traces of 2^`log_rows` rows, as upstream's
/// `setup_preprocessed`. `None` if the AIR has none.
pub fn setup_preprocessed<SC: DeviceConfig>(
    prover: &Prover<SC>,
    air: &impl BaseAir<SC::Value>,
    log_rows: usize,
) -> Result<Option<Preprocessed<SC>>> {
    let Some(trace) = air.preprocessed_trace().filter(|trace| trace.width() > 0) else { return Ok(None) };
    check::rows(prover, 0, log_rows)?;
    if trace.height() != 1 << log_rows {
        let detail = format!("{} preprocessed rows for a trace of 2^{log_rows}", trace.height());
        return Err(Error::Preprocessed { table: 0, detail });
    }
    let width = trace.width();
    let degree_bits = log_rows + usize::from(SC::HIDING);
    let (committed, upstream, commitment) = if prover.device().is_some() {
        let session = Session::new(prover)?;
        let matrix = upload(&session.stream, &trace)?;
        let committed = Committed::public(&session, &[(&matrix).into()])?;
        let cap = committed.cap(&session)?;
        (Some(committed), None, cap)
    } else {
        let pcs = prover.config().pcs();
        let domain = pcs.natural_domain_for_degree(1 << degree_bits);
        let (commitment, prover_data) = pcs.commit_preprocessing([(domain, trace)]).map_err(Into::into)?;
        let data = PreprocessedProverData { width, degree_bits, commitment: commitment.clone(), prover_data };
        (None, Some(data), commitment)
    };
    let key = PreprocessedVerifierKey { width, degree_bits, commitment };
    Ok(Some(Preprocessed { committed, upstream, key, air: Identity::of::<SC::Value, _>(air) }))
}
