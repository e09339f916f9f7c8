//! From the columns of a witness to a proof, on any backend.

use num_traits::Zero;
use serde::{Deserialize, Serialize};
use stwo::core::channel::{Channel, MerkleChannel};
use stwo::core::fields::qm31::SecureField;
use stwo::core::fri::FriConfig;
use stwo::core::pcs::PcsConfig;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::proof::StarkProof;
use stwo::core::vcs_lifted::merkle_hasher::MerkleHasherLifted;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::backend::{Backend, BackendForChannel, Column};
use stwo::prover::poly::circle::PolyOps;
use stwo::prover::poly::twiddles::TwiddleTree;
use stwo::prover::{CommitmentSchemeProver, ComponentProver, ProvingError};

use crate::lookup::Elements;
use crate::statement::{Provable, introduce, lifted};
use crate::witness::{Adopted, Evaluation, HostColumn, Witness, host_column};

/// A backend that takes columns from host memory.
pub trait FromHost: Backend {
    /// The same columns on the backend.
    fn adopt(columns: &[HostColumn]) -> Vec<Evaluation<Self>>;
}

impl FromHost for SimdBackend {
    fn adopt(columns: &[HostColumn]) -> Vec<HostColumn> {
        columns.to_vec()
    }
}

/// A proof of a statement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Proof<H: MerkleHasherLifted> {
    /// The sum of each component's fractions; none if the statement has no relations.
    pub claimed_sums: Vec<SecureField>,
    /// Upstream's proof.
    pub stark: StarkProof<H>,
}

/// Why there is no proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproved {
    /// The witness does not satisfy the constraints.
    #[error("the witness does not satisfy the constraints")]
    Constraints,
    /// Interaction columns were to be used again, but were made for other lookup elements.
    #[error(
        "the interaction columns were recorded with other lookup elements: record them again for this statement, \
         witness, configuration and channel"
    )]
    Elements,
}

impl From<ProvingError> for Unproved {
    fn from(error: ProvingError) -> Self {
        match error {
            ProvingError::ConstraintsNotSatisfied => Self::Constraints,
        }
    }
}

/// The interaction columns of a proof, in host memory.
///
/// They depend on the lookup elements, which follow from everything committed to before. The same witness in the
/// same configuration gives the same elements on every backend, so that columns recorded once can be used again
/// where the time that a proof takes is measured without the making of its witness.
#[derive(Clone)]
pub struct Interaction {
    elements: Elements,
    columns: Vec<HostColumn>,
    claimed_sums: Vec<SecureField>,
}

/// Where interaction columns come from.
pub enum InteractionSource<'a> {
    /// The backend makes them.
    Generate,
    /// The backend makes them, and a copy is kept here. A statement without relations leaves `None`.
    Record(&'a mut Option<Interaction>),
    /// They are these.
    Reuse(&'a Interaction),
}

impl Interaction {
    /// The columns, in the order of their tree.
    pub fn columns(&self) -> &[HostColumn] {
        &self.columns
    }

    /// The sum of each component's fractions.
    pub fn claimed_sums(&self) -> &[SecureField] {
        &self.claimed_sums
    }
}

impl InteractionSource<'_> {
    /// The interaction columns on the backend, and the sum of each component.
    fn columns<B: FromHost>(
        self,
        statement: &dyn Provable<B>,
        columns: Option<&Adopted<B>>,
        elements: &Elements,
    ) -> Result<(Vec<Evaluation<B>>, Vec<SecureField>), Unproved> {
        let generate = || {
            let provers = statement.provers(elements, &no_sums(statement));
            let columns = columns.expect("kept where interaction columns are made from them");
            let (columns, sums): (Vec<_>, Vec<_>) = provers.iter().map(|prover| prover.logup(columns)).unzip();
            (columns.into_iter().flatten().collect::<Vec<_>>(), sums)
        };
        match self {
            Self::Generate => Ok(generate()),
            Self::Record(kept) => {
                let (columns, claimed_sums) = generate();
                *kept = Some(Interaction {
                    elements: elements.clone(),
                    columns: columns.iter().map(to_host).collect(),
                    claimed_sums: claimed_sums.clone(),
                });
                Ok((columns, claimed_sums))
            }
            Self::Reuse(kept) if kept.elements == *elements => {
                Ok((B::adopt(&kept.columns), kept.claimed_sums.clone()))
            }
            Self::Reuse(_) => Err(Unproved::Elements),
        }
    }
}

/// A copy of a column in host memory.
fn to_host<B: Backend>(column: &Evaluation<B>) -> HostColumn {
    host_column(column.domain.log_size(), column.values.to_cpu().into_iter().collect())
}

/// A zero for each component, where its sum is not known yet or not needed.
fn no_sums<B: Backend>(statement: &dyn Provable<B>) -> Vec<SecureField> {
    vec![SecureField::zero(); statement.log_sizes().len()]
}

/// What the benchmarks prove in: blowup 2, 64 queries and 10 bits of proof of work, hence 74 bits of conjectured
/// security; FRI folds by 2 down to a constant.
///
/// The constraints of all workloads have degree at most 3, for which blowup 2 is enough.
pub fn benchmark_config() -> PcsConfig {
    PcsConfig { pow_bits: 10, fri_config: FriConfig::new(0, 1, 64, 1), lifting_log_size: None }
}

/// The twiddles that a proof of 2^`log_rows` rows needs: those of the domain that the longest columns are
/// committed on, which holds the one that constraints of degree 3 are evaluated on.
pub fn twiddles<B: PolyOps>(log_rows: u32, config: &PcsConfig) -> TwiddleTree<B> {
    let log_domain = log_rows + config.fri_config.log_blowup_factor;
    B::precompute_twiddles(CanonicCoset::new(log_domain).circle_domain().half_coset)
}

/// Proves a statement.
///
/// With `store_coefficients` the columns' coefficients are kept beside their values on the committed domain:
/// values out of the domain are then computed from the coefficients instead of the values.
///
/// Where the configuration leaves `lifting_log_size` open and the preprocessed columns are shorter than the
/// longest ones, it is set to the longest columns' size: upstream's decommitments of a lower preprocessed tree can
/// fail to verify.
///
/// A witness that breaks a constraint is [`Unproved::Constraints`]. One that only unbalances lookups gives a proof
/// which the verifier refuses.
pub fn prove<B, MC>(
    statement: &dyn Provable<B>,
    witness: &Witness,
    config: PcsConfig,
    store_coefficients: bool,
    twiddles: &TwiddleTree<B>,
    interaction: InteractionSource<'_>,
) -> Result<Proof<MC::H>, Unproved>
where
    B: FromHost + BackendForChannel<MC>,
    MC: MerkleChannel,
{
    prove_adopted::<B, MC>(statement, witness.adopt(), config, store_coefficients, twiddles, interaction)
}

/// As [`prove`], from columns that the backend already has.
pub fn prove_adopted<B, MC>(
    statement: &dyn Provable<B>,
    columns: Adopted<B>,
    config: PcsConfig,
    store_coefficients: bool,
    twiddles: &TwiddleTree<B>,
    interaction: InteractionSource<'_>,
) -> Result<Proof<MC::H>, Unproved>
where
    B: FromHost + BackendForChannel<MC>,
    MC: MerkleChannel,
{
    let config = lifted(statement, config);
    let channel = &mut MC::C::default();
    let mut scheme = CommitmentSchemeProver::<B, MC>::new(config, twiddles);
    if store_coefficients {
        scheme.set_store_polynomials_coefficients();
    }

    introduce(channel, statement, &config);
    // Interaction columns are made from the trace as it was before it is committed to.
    let makes = statement.relations() > 0 && !matches!(interaction, InteractionSource::Reuse(_));
    let kept = makes.then(|| columns.clone());
    commit(&mut scheme, columns.preprocessed, channel);
    commit(&mut scheme, columns.trace, channel);

    let elements = Elements::draw(channel, statement.relations());
    let mut claimed_sums = Vec::new();
    if statement.relations() > 0 {
        let (columns, sums) = interaction.columns(statement, kept.as_ref(), &elements)?;
        channel.mix_felts(&sums);
        commit(&mut scheme, columns, channel);
        claimed_sums = sums;
    }

    let sums = if claimed_sums.is_empty() { no_sums(statement) } else { claimed_sums.clone() };
    let provers = statement.provers(&elements, &sums);
    let provers: Vec<&dyn ComponentProver<B>> = provers.iter().map(|prover| &**prover as _).collect();
    let stark = stwo::prover::prove(&provers, channel, scheme)?;
    Ok(Proof { claimed_sums, stark })
}

/// Commits to a tree of columns.
fn commit<B: BackendForChannel<MC>, MC: MerkleChannel>(
    scheme: &mut CommitmentSchemeProver<'_, B, MC>,
    columns: Vec<Evaluation<B>>,
    channel: &mut MC::C,
) {
    let mut tree = scheme.tree_builder();
    tree.extend_evals(columns);
    tree.commit(channel);
}
