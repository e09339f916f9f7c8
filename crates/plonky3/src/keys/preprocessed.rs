//! Preprocessed columns, committed to once and kept on the device.

use p3_air::symbolic::AirLayout;
use p3_air::{Air, BaseAir};
use p3_commit::{Pcs, UnivariateStarkPcs};
use p3_matrix::Matrix as _;
use p3_uni_stark::{PreprocessedProverData, PreprocessedVerifierKey};

use crate::air::contents::{Contents, Extent};
use crate::air::readings::Readings;
use crate::air::structure::{Structure, StructureBuilder};
use crate::base::error::{Error, Result};
use crate::columns::commit::Committed;
use crate::columns::trace::upload;
use crate::keys::check::{self, Identity};
use crate::keys::setup::Setup;
use crate::prover::Prover;
use crate::prover::session::Session;
use crate::several;
use crate::several::commit::Shares;
use crate::upstream::config::DeviceConfig;

/// The preprocessed columns of an AIR at one height.
pub struct Preprocessed<SC: DeviceConfig> {
    /// `None` for a CPU prover, and for one with several devices.
    pub(crate) committed: Option<Committed<'static, SC>>,
    /// The commitment of a prover with several devices.
    pub(crate) shares: Option<Shares<SC>>,
    pub(crate) setup: Setup,
    /// `None` for a prover on a device.
    pub(crate) upstream: Option<PreprocessedProverData<SC>>,
    pub(crate) key: PreprocessedVerifierKey<SC>,
    pub(crate) air: Identity,
    /// The structure of the AIR's constraints, if it has one.
    pub(crate) structure: Structure,
    /// The hash of the values.
    pub(crate) contents: Contents,
}

impl<SC: DeviceConfig> Preprocessed<SC> {
    /// The key that upstream's `verify_with_preprocessed` takes.
    pub fn verifier_key(&self) -> &PreprocessedVerifierKey<SC> {
        &self.key
    }

    /// Checks that the columns are those of this AIR. Proofs check it, too, unless there are more than 2^20 values, for
    /// which a proof might have to wait; debug builds check all.
    pub fn check_air(&self, air: &impl BaseAir<SC::Value>) -> Result<()> {
        self.air.check::<SC::Value>(0, air)?;
        self.contents.check_values(0, air, Extent::All)
    }
}

/// Commits to the preprocessed columns of an AIR for traces of 2^`log_rows` rows, as upstream's
/// `setup_preprocessed`, for provers with the same devices, blowup and cap height. `None` if the AIR has none.
pub fn setup_preprocessed<SC, A>(prover: &Prover<SC>, air: &A, log_rows: usize) -> Result<Option<Preprocessed<SC>>>
where
    SC: DeviceConfig,
    A: for<'a> Air<StructureBuilder<'a, SC::Value, SC::Challenge>>,
{
    let Some(trace) = air.preprocessed_trace().filter(|trace| trace.width() > 0) else { return Ok(None) };
    check::rows(prover, 0, log_rows)?;
    if trace.height() != 1 << log_rows {
        let detail = format!("{} preprocessed rows for a trace of 2^{log_rows}", trace.height());
        return Err(Error::Preprocessed { table: 0, detail });
    }
    let (width, contents) = (trace.width(), Contents::of_values(Some(&trace)));
    let degree_bits = log_rows + usize::from(SC::HIDING);
    let mut shares = None;
    let (committed, upstream, commitment) = if prover.devices().count() > 1 {
        several::team::check_rows(prover, trace.height())?;
        let made = several::commit::commit_one(prover, &trace.into())?;
        let cap = made.cap.clone();
        shares = Some(made);
        (None, None, cap)
    } else if prover.device().is_some() {
        let session = Session::new(prover)?;
        let matrix = upload(&session.stream, &trace)?;
        let mut committed = Committed::public(&session, &[(&matrix).into()])?;
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
    let structure = Readings::<SC>::structure(air, &AirLayout::from_air::<SC::Value>(air));
    let air = Identity::of::<SC::Value, _>(air);
    Ok(Some(Preprocessed { committed, shares, setup: Setup::of(prover), upstream, key, air, structure, contents }))
}
