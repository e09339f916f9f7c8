//! The verifier and its key.

use num_traits::Zero;
use stwo::core::air::{Component, Components};
use stwo::core::channel::{Channel, MerkleChannel};
use stwo::core::circle::SECURE_FIELD_CIRCLE_GEN;
use stwo::core::fields::qm31::{SECURE_EXTENSION_DEGREE, SecureField};
use stwo::core::fri::FriConfig;
use stwo::core::pcs::{CommitmentSchemeVerifier, PcsConfig};
use stwo::core::vcs_lifted::merkle_hasher::MerkleHasherLifted;
use stwo::core::verifier::VerificationError;
use stwo::prover::CommitmentTreeProver;
use stwo::prover::backend::BackendForChannel;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::backend::simd::m31::LOG_N_LANES;
use stwo::prover::mempool::BaseColumnPool;
use stwo::prover::poly::circle::PolyOps;

use crate::lookup::Elements;
use crate::prove::{Proof, twiddles};
use crate::statement::{Statement, introduce, lifted, no_sums, placeholder_components};

/// The reason why a proof is rejected.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The proof has the wrong number of parts.
    #[error("the proof has {there} {what}; a proof of this statement has {expected}")]
    Shape {
        /// The kind of part.
        what: &'static str,
        /// The number in a proof of the statement.
        expected: usize,
        /// The number in this proof.
        there: usize,
    },
    /// The proof was made in another configuration.
    #[error("the proof was made in another configuration")]
    Config,
    /// The preprocessed tree is not the statement's: another table or another circuit.
    #[error("the proof has other preprocessed columns than the statement")]
    Preprocessed,
    /// The lookups of all components and the public values do not balance.
    #[error("the claimed sums of the lookups do not balance with the public values")]
    Lookups,
    /// Upstream's verifier rejected the proof.
    #[error(transparent)]
    Stark(#[from] VerificationError),
}

/// The commitment to a statement's preprocessed columns, and the configuration.
pub struct VerifierKey<MC: MerkleChannel> {
    config: PcsConfig,
    preprocessed: <MC::H as MerkleHasherLifted>::Hash,
}

impl<MC: MerkleChannel> VerifierKey<MC>
where
    SimdBackend: BackendForChannel<MC>,
{
    /// Commits to the statement's preprocessed columns, on the host. Pass the same configuration as to
    /// [`prove`](crate::prove).
    pub fn new<S: Statement + ?Sized>(statement: &S, config: PcsConfig) -> Self {
        let config = lifted(statement, config);
        let columns = statement.preprocessed();
        // Nothing but these columns is extended: without any, the shortest twiddles will do.
        let longest = columns.iter().map(|column| column.domain.log_size()).max().unwrap_or(LOG_N_LANES);
        let twiddles = twiddles::<SimdBackend>(longest, &config);
        let columns = SimdBackend::interpolate_columns(columns, &twiddles);
        let tree = CommitmentTreeProver::<SimdBackend, MC>::new(
            columns,
            config.fri_config.log_blowup_factor,
            &twiddles,
            false,
            config.lifting_log_size,
            &BaseColumnPool::new(),
        );
        Self { config, preprocessed: tree.commitment.root() }
    }
}

/// Checks everything of a proof that takes no time: its configuration and how many parts it has. Pass the same
/// configuration as to [`prove`](crate::prove). [`verify`] does it, too; whoever makes a [`VerifierKey`] for one proof
/// checks before.
pub fn check_shape<S: Statement + ?Sized, H: MerkleHasherLifted>(
    statement: &S,
    config: PcsConfig,
    proof: &Proof<H>,
) -> Result<(), Rejection> {
    let Proof { claimed_sums, stark } = proof;
    let config = lifted(statement, config);
    let lookups = statement.relations() > 0;
    let parts = statement.log_sizes().len();
    // Preprocessed, trace, interaction and composition.
    let trees = if lookups { 4 } else { 3 };
    count("claimed sums", if lookups { parts } else { 0 }, claimed_sums.len())?;
    count("commitments", trees, stark.commitments.len())?;
    if stark.config != config {
        return Err(Rejection::Config);
    }
    // The first layer is as long as the trees' leaves. Each but the last is folded by a full step.
    let FriConfig { log_last_layer_degree_bound: last, fold_step, log_blowup_factor, .. } = config.fri_config;
    let log_rows = config.lifting_log_size.map_or(statement.log_rows(), |leaves| leaves - log_blowup_factor);
    let folded = log_rows.saturating_sub(fold_step + last);
    count("layers of FRI", folded.div_ceil(fold_step) as usize, stark.fri_proof.inner_layers.len())?;
    count("decommitments", trees, stark.decommitments.len())?;
    count("trees of queried values", trees, stark.queried_values.len())?;
    let components = placeholder_components(statement);
    sampled_shape(&view(&components, statement), &stark.sampled_values)
}

/// Verifies a proof of a statement. Only the public side of the statement is used.
pub fn verify<S: Statement + ?Sized, MC: MerkleChannel>(
    statement: &S,
    key: &VerifierKey<MC>,
    proof: Proof<MC::H>,
) -> Result<(), Rejection> {
    check_shape(statement, key.config, &proof)?;
    let Proof { claimed_sums, stark } = proof;
    let lookups = statement.relations() > 0;
    if stark.commitments[0] != key.preprocessed {
        return Err(Rejection::Preprocessed);
    }

    let channel = &mut MC::C::default();
    let mut scheme = CommitmentSchemeVerifier::<MC>::new(key.config);
    let sums = if lookups { claimed_sums.clone() } else { no_sums(statement) };

    // The sizes of the columns do not depend on the elements, which are drawn after the first two trees.
    let shape = placeholder_components(statement);
    let sizes = view(&shape, statement).column_log_sizes();
    introduce(channel, statement, &key.config);
    scheme.commit(stark.commitments[0], &sizes[0], channel);
    scheme.commit(stark.commitments[1], &sizes[1], channel);

    let elements = Elements::draw(channel, statement.relations());
    if lookups {
        let total = claimed_sums.iter().fold(statement.public_sum(&elements), |total, &sum| total + sum);
        if !total.is_zero() {
            return Err(Rejection::Lookups);
        }
        channel.mix_felts(&claimed_sums);
        scheme.commit(stark.commitments[2], &sizes[2], channel);
    }

    let components = statement.components(&elements, &sums);
    let components = view(&components, statement);
    Ok(stwo::core::verifier::verify(&components.components, channel, &mut scheme, stark)?)
}

/// Upstream's view of a list of components.
fn view<'a, S: Statement + ?Sized>(components: &'a [Box<dyn Component>], statement: &S) -> Components<'a> {
    Components {
        components: components.iter().map(|component| &**component).collect(),
        n_preprocessed_columns: statement.preprocessed_ids().len(),
    }
}

/// Checks the number of openings of each column, which upstream's verifier assumes to match the AIR.
fn sampled_shape(components: &Components<'_>, sampled: &[Vec<Vec<SecureField>>]) -> Result<(), Rejection> {
    // The number of points does not depend on their values.
    let log_degree = components.composition_log_degree_bound() - 1;
    let mut points = components.mask_points(SECURE_FIELD_CIRCLE_GEN, log_degree, false);
    points.push(vec![vec![SECURE_FIELD_CIRCLE_GEN]; 2 * SECURE_EXTENSION_DEGREE]);
    count("trees of openings", points.len(), sampled.len())?;
    for (points, sampled) in points.iter().zip(sampled) {
        count("opened columns in a tree", points.len(), sampled.len())?;
        for (points, sampled) in points.iter().zip(sampled) {
            count("openings of a column", points.len(), sampled.len())?;
        }
    }
    Ok(())
}

/// Checks the number of parts.
fn count(what: &'static str, expected: usize, there: usize) -> Result<(), Rejection> {
    if expected == there { Ok(()) } else { Err(Rejection::Shape { what, expected, there }) }
}
