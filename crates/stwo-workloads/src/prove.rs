//! Proves statements on any backend.

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
use stwo::prover::poly::circle::{CircleCoefficients, PolyOps};
use stwo::prover::poly::twiddles::TwiddleTree;
use stwo::prover::{CommitmentSchemeProver, ComponentProver, ProvingError};
use stwo_constraint_framework::{FrameworkComponent, FrameworkEval};

use crate::lookup::Elements;
use crate::statement::{Provable, Prover, introduce, lifted_above, no_sums};
use crate::witness::{Adopted, Evaluation, HostColumn, Witness, host_column};

/// A backend that accepts columns from host memory.
pub trait FromHost: Backend {
    /// Copies columns to the backend.
    fn adopt(columns: &[HostColumn]) -> Vec<Evaluation<Self>>;

    /// Copies columns to the backend as polynomials, to be committed to with this blowup factor.
    fn adopt_polynomials(
        columns: &[HostColumn],
        log_blowup_factor: u32,
        twiddles: &TwiddleTree<Self>,
    ) -> Vec<CircleCoefficients<Self>>;
}

impl FromHost for SimdBackend {
    fn adopt(columns: &[HostColumn]) -> Vec<HostColumn> {
        columns.to_vec()
    }

    fn adopt_polynomials(
        columns: &[HostColumn],
        _log_blowup_factor: u32,
        twiddles: &TwiddleTree<Self>,
    ) -> Vec<CircleCoefficients<Self>> {
        Self::interpolate_columns(columns.to_vec(), twiddles)
    }
}

impl<E: FrameworkEval + Sync> Prover<SimdBackend> for FrameworkComponent<E> {}

/// A proof of a statement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Proof<H: MerkleHasherLifted> {
    /// The sum of each component's fractions; none if the statement has no relations.
    pub claimed_sums: Vec<SecureField>,
    /// Upstream's proof.
    pub stark: StarkProof<H>,
}

/// The reason why a proof could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unproved {
    /// The witness does not satisfy the constraints.
    #[error("the witness does not satisfy the constraints")]
    Constraints,
    /// The interaction columns to reuse were made for other lookup elements.
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
/// They depend on the lookup elements, which depend on everything committed to before. The same witness in the
/// same configuration gives the same elements on every backend. So columns can be recorded once and reused, to
/// measure the time of a proof without that of its witness.
#[derive(Clone)]
pub struct Interaction {
    elements: Elements,
    columns: Vec<HostColumn>,
    claimed_sums: Vec<SecureField>,
}

/// The source of interaction columns.
pub enum InteractionSource<'a> {
    /// The backend computes them.
    Generate,
    /// The backend computes them, and a copy is stored here; `None` for a statement without relations.
    Record(&'a mut Option<Interaction>),
    /// Uses these columns.
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
    /// Whether the backend makes the columns, from those of the other trees.
    fn is_made<B: Backend>(&self, statement: &dyn Provable<B>) -> bool {
        statement.relations() > 0 && !matches!(self, Self::Reuse(_))
    }

    /// The interaction columns on the backend, and the sum of each component.
    fn columns<B: FromHost>(
        self,
        statement: &dyn Provable<B>,
        columns: Option<&Adopted<B>>,
        elements: &Elements,
    ) -> Result<(Vec<Evaluation<B>>, Vec<SecureField>), Unproved> {
        let generate = || {
            let airs = statement.provable_airs(elements);
            let columns = columns.expect("kept if interaction columns are computed from them");
            let columns = columns.by_component();
            assert_eq!(airs.len(), columns.len(), "the witness is not of this statement");
            // A backend may compute one component's columns while the host prepares the next.
            let pending: Vec<_> = airs.iter().zip(columns).map(|(air, columns)| air.logup(columns)).collect();
            let (columns, sums): (Vec<_>, Vec<_>) = pending.into_iter().map(|finish| finish()).unzip();
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

/// The configuration of the benchmarks: blowup 2, 64 queries and 10 bits of proof of work, hence 74 bits of
/// conjectured security; FRI folds by 2 down to a constant.
///
/// The constraints of all workloads have degree at most 3, for which blowup 2 is enough.
pub fn benchmark_config() -> PcsConfig {
    PcsConfig { pow_bits: 10, fri_config: FriConfig::new(0, 1, 64, 1), lifting_log_size: None }
}

/// The twiddles for a proof of 2^`log_rows` rows: those of the domain of the longest committed columns, which
/// contains the domain on which constraints of degree 3 are evaluated.
pub fn twiddles<B: PolyOps>(log_rows: u32, config: &PcsConfig) -> TwiddleTree<B> {
    let log_domain = log_rows + config.fri_config.log_blowup_factor;
    B::precompute_twiddles(CanonicCoset::new(log_domain).circle_domain().half_coset)
}

/// Proves a statement.
///
/// With `store_coefficients` the coefficients of the columns are kept in addition to their values on the committed
/// domain; out-of-domain values are then computed from the coefficients.
///
/// If the configuration does not set `lifting_log_size` and the preprocessed columns are shorter than the longest
/// ones, it is set to the size of the longest columns: upstream's decommitments of a lower preprocessed tree can
/// fail to verify.
///
/// A witness that violates a constraint gives [`Unproved::Constraints`]. A witness whose lookups do not balance
/// gives a proof that does not verify.
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
    if interaction.is_made(statement) {
        let columns = witness.adopt();
        return prove_adopted::<B, MC>(statement, columns, config, store_coefficients, twiddles, interaction);
    }
    // Nothing but the commitments reads the columns.
    let log_blowup_factor = config.fri_config.log_blowup_factor;
    let trees = Trees {
        longest_preprocessed: longest(&witness.preprocessed),
        preprocessed: Box::new(|| B::adopt_polynomials(&witness.preprocessed, log_blowup_factor, twiddles)),
        trace: Box::new(|| B::adopt_polynomials(&witness.trace, log_blowup_factor, twiddles)),
        kept: None,
    };
    prove_trees::<B, MC>(statement, trees, config, store_coefficients, twiddles, interaction)
}

/// [`prove`] with columns that are already on the backend.
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
    let trees = Trees {
        longest_preprocessed: longest(&columns.preprocessed),
        // Interaction columns are computed from the trace, so keep a copy before it is committed to.
        kept: interaction.is_made(statement).then(|| columns.clone()),
        preprocessed: Box::new(|| B::interpolate_columns(columns.preprocessed, twiddles)),
        trace: Box::new(|| B::interpolate_columns(columns.trace, twiddles)),
    };
    prove_trees::<B, MC>(statement, trees, config, store_coefficients, twiddles, interaction)
}

/// The trees that a proof commits to before any challenge is drawn.
struct Trees<'a, B: Backend> {
    /// The logarithm of the longest preprocessed column's length. (Making the components to ask them takes longer.)
    longest_preprocessed: Option<u32>,
    preprocessed: MakePolynomials<'a, B>,
    trace: MakePolynomials<'a, B>,
    /// The columns, if interaction columns are made from them.
    kept: Option<Adopted<B>>,
}

/// Makes the polynomials of a tree, when it is committed to.
type MakePolynomials<'a, B> = Box<dyn FnOnce() -> Vec<CircleCoefficients<B>> + 'a>;

/// The logarithm of the longest column's length.
fn longest<B: Backend>(columns: &[Evaluation<B>]) -> Option<u32> {
    columns.iter().map(|column| column.domain.log_size()).max()
}

/// [`prove`] with the first two trees' polynomials.
fn prove_trees<B, MC>(
    statement: &dyn Provable<B>,
    trees: Trees<'_, B>,
    config: PcsConfig,
    store_coefficients: bool,
    twiddles: &TwiddleTree<B>,
    interaction: InteractionSource<'_>,
) -> Result<Proof<MC::H>, Unproved>
where
    B: FromHost + BackendForChannel<MC>,
    MC: MerkleChannel,
{
    let config = lifted_above(statement, config, trees.longest_preprocessed);
    let channel = &mut MC::C::default();
    let mut scheme = CommitmentSchemeProver::<B, MC>::new(config, twiddles);
    if store_coefficients {
        scheme.set_store_polynomials_coefficients();
    }

    introduce(channel, statement, &config);
    commit(&mut scheme, (trees.preprocessed)(), channel);
    commit(&mut scheme, (trees.trace)(), channel);

    let elements = Elements::draw(channel, statement.relations());
    let mut claimed_sums = Vec::new();
    if statement.relations() > 0 {
        let (columns, sums) = interaction.columns(statement, trees.kept.as_ref(), &elements)?;
        channel.mix_felts(&sums);
        commit(&mut scheme, B::interpolate_columns(columns, twiddles), channel);
        claimed_sums = sums;
    }
    drop(trees.kept);

    let sums = if claimed_sums.is_empty() { no_sums(statement) } else { claimed_sums.clone() };
    let provers = statement.provers(&elements, &sums);
    let provers: Vec<&dyn ComponentProver<B>> = provers.iter().map(|prover| &**prover as _).collect();
    let stark = stwo::prover::prove(&provers, channel, scheme)?;
    Ok(Proof { claimed_sums, stark })
}

/// Commits to a tree of polynomials.
fn commit<B: BackendForChannel<MC>, MC: MerkleChannel>(
    scheme: &mut CommitmentSchemeProver<'_, B, MC>,
    polynomials: Vec<CircleCoefficients<B>>,
    channel: &mut MC::C,
) {
    let mut tree = scheme.tree_builder();
    tree.extend_polys(polynomials);
    tree.commit(channel);
}
