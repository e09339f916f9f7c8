//! The checks with which a prover begins: upstream hides the parameters of a PCS, so the prover has a copy of them, and
//! a wrong copy would show only when somebody verifies a proof.
//!
//! On a device, a small matrix is committed to on both sides, and opened by the device and verified by upstream.
//! Without a device upstream opens it, and its transcript is replayed with the prover's parameters: upstream's
//! transcripts absorb every one of them. A configuration that hides the trace is checked on a device only, and there by
//! an opening alone: upstream's commitment would use up its randomness.

use p3_challenger::CanSample;
use p3_commit::{CommitmentOpening, MatrixOpening, OpeningRequest, Pcs, PointOpening};
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_field::{BasedVectorSpace, PrimeCharacteristicRing, PrimeField64, TwoAdicField};
use p3_fri::{FriParameters, FriShape, PcsShape, PcsVerifierTranscript, VerifierTranscript};
use p3_matrix::dense::RowMajorMatrix;
use p3_uni_stark::StarkGenericConfig;
use rigel_kernels::hash::Hash;
use rigel_kernels::transform::ntt::MAX_LOG_ROWS;

use crate::base::error::{Error, Result};
use crate::columns::commit::Committed;
use crate::columns::masks::least_rows;
use crate::columns::trace::upload;
use crate::phases::open::open;
use crate::phases::round::Round;
use crate::phases::tail;
use crate::prover::Prover;
use crate::prover::session::Session;
use crate::upstream::challenger::Searching;
use crate::upstream::config::{DeviceConfig, DeviceFriProof};
use crate::upstream::transcript::Unfinished;

/// The claims that an opening proof is for.
type Claims<SC> = Vec<
    CommitmentOpening<
        <SC as StarkGenericConfig>::Challenge,
        <SC as DeviceConfig>::Commitment,
        TwoAdicMultiplicativeCoset<<SC as DeviceConfig>::Value>,
    >,
>;

const WIDTH: usize = 3;

/// Checks what upstream asserts about parameters: their ranges.
pub(crate) fn check_ranges<SC: DeviceConfig>(config: &SC, fri: &FriParameters<()>) -> Result<()> {
    let FriParameters { log_blowup, max_log_arity, num_queries, log_final_poly_len, .. } = *fri;
    if log_blowup == 0 || max_log_arity == 0 || num_queries == 0 {
        return Err(Error::Unsupported(format!(
            "FRI parameters with log_blowup {log_blowup}, max_log_arity {max_log_arity} and {num_queries} queries; \
             each must be at least 1"
        )));
    }
    let most = SC::Value::TWO_ADICITY.min(MAX_LOG_ROWS as usize + log_blowup);
    if log_blowup.saturating_add(log_final_poly_len) >= most {
        return Err(Error::Unsupported(format!(
            "FRI parameters with log_blowup {log_blowup} and log_final_poly_len {log_final_poly_len}; together they \
             must be less than {most}"
        )));
    }
    let order = SC::Value::ORDER_U64;
    for (name, bits) in [
        ("batch_proof_of_work_bits", fri.batch_proof_of_work_bits),
        ("commit_proof_of_work_bits", fri.commit_proof_of_work_bits),
        ("query_proof_of_work_bits", fri.query_proof_of_work_bits),
        ("ood_proof_of_work_bits", config.ood_proof_of_work_bits()),
        ("lookup_proof_of_work_bits", config.lookup_proof_of_work_bits()),
    ] {
        if u32::try_from(bits).ok().and_then(|bits| 1u64.checked_shl(bits)).is_none_or(|power| power >= order) {
            return Err(Error::Unsupported(format!(
                "{name} is {bits}; with a field of order {order} there must be fewer than {} bits of work",
                order.ilog2() + 1
            )));
        }
    }
    Ok(())
}

/// Checks that the prover's parameters, hash and kernels are the configuration's.
pub(crate) fn check<SC: DeviceConfig>(prover: &Prover<SC>) -> Result<()> {
    let config = prover.config();
    // At least as many rows as the cap has digests, so that another cap height gives another commitment, and more than
    // the final polynomial has coefficients.
    let log_rows = (5 + prover.cap_height.saturating_sub(5).min(10)).max(prover.fri.log_final_poly_len + 1);
    let most = SC::Value::TWO_ADICITY.min(MAX_LOG_ROWS as usize + prover.fri.log_blowup) - prover.fri.log_blowup;
    // And as many as random values are needed to hide.
    let hidden = match SC::HIDING {
        true => least_rows(prover.fri.num_queries, SC::Challenge::DIMENSION, 1).unwrap_or(usize::MAX),
        false => 1,
    };
    let log_hidden = hidden.checked_next_power_of_two().map_or(most, |rows| rows.trailing_zeros() as usize);
    let rows = 1 << log_rows.max(log_hidden).min(most);
    let values = (0..rows * WIDTH).map(|i| SC::Value::from_usize(i * i + 7)).collect();
    let matrix = RowMajorMatrix::new(values, WIDTH);
    let domain = config.pcs().natural_domain_for_degree(rows << usize::from(SC::HIDING));
    let point = SC::Challenge::from_basis_coefficients_fn(|i| SC::Value::from_usize(i + 5));
    let claims = |commitment: &SC::Commitment, values: &p3_commit::OpenedValues<SC::Challenge>| -> Claims<SC> {
        let points = vec![PointOpening { point, values: values[0][0][0].clone() }];
        let matrices = vec![MatrixOpening { domain, points }];
        vec![CommitmentOpening { commitment: commitment.clone(), matrices }]
    };
    // Upstream's generators of randomness are left as they are: with the same seeds proofs are to be equal.
    let theirs = match SC::HIDING {
        true => None,
        false => Some(config.pcs().commit([(domain, matrix.clone())]).map_err(Into::into)?),
    };

    if prover.device().is_none() {
        let Some((commitment, data)) = theirs else { return Ok(()) };
        let mut challenger = config.initialise_challenger();
        let request = OpeningRequest { prover_data: &data, points: vec![vec![point]] };
        let (values, proof) = config.pcs().open(vec![request], &mut challenger).map_err(Into::into)?;
        let cap = (1usize << prover.cap_height.min(usize::BITS as usize - 1)).min(rows << prover.fri.log_blowup);
        let replayed = SC::cap_len(&commitment) == cap
            && replay(
                prover,
                rows.trailing_zeros() as usize,
                &claims(&commitment, &values),
                SC::fri_proof(&proof),
            )
            .is_some_and(|mut replayed| sample(&mut replayed) == sample(&mut challenger));
        return if replayed { Ok(()) } else { Err(Error::Configuration("")) };
    }

    let session = Session::new(prover)?;
    let trace = upload(&session.stream, &matrix)?;
    let mut committed = Committed::extend(&session, &[(&trace).into()])?;
    let cap = committed.cap(&session)?;
    if theirs.is_some_and(|(commitment, _)| commitment != cap) {
        return Err(Error::Configuration(if SC::Hash::ROW_CONSTANTS.is_some() {
            ", and that the round constants of its Poseidon2 are those that it prints, that were given to \
             Prover::with_hash or, if neither, upstream's defaults"
        } else {
            ", and that the CUDA text of its hash computes what its Rust code does"
        }));
    }
    if !SC::HIDING && !tail::has_same_hash(&session, &committed)? {
        return Err(Error::Configuration(", and that TreeHash::on_host computes what the kernels of its hash do"));
    }
    let mut challenger = Searching::new(config.initialise_challenger(), &session.stream, &prover.search_constants);
    let rounds = [Round::new(&session, &committed, vec![vec![point]])];
    let (values, proof) = open(&session, &rounds, &mut challenger)?;
    challenger.finish()?;
    let verified = config.pcs().verify(claims(&cap, &values), &proof, &mut config.initialise_challenger());
    verified.map_err(|_| Error::Configuration(""))
}

/// Two elements that a challenger draws: they depend on all that it has observed.
fn sample<V: PrimeField64>(challenger: &mut impl CanSample<V>) -> [V; 2] {
    [challenger.sample(), challenger.sample()]
}

/// The challenger after an opening proof, with the prover's parameters. `None` if the proof is not of their shape.
fn replay<SC: DeviceConfig>(
    prover: &Prover<SC>,
    log_rows: usize,
    claims: &Claims<SC>,
    proof: &DeviceFriProof<SC>,
) -> Option<SC::Challenger> {
    let fri = &prover.fri;
    let mut challenger = prover.config().initialise_challenger();
    let shape = PcsShape::from_claims(fri, claims);
    let mut transcript =
        Unfinished::new(PcsVerifierTranscript::<_, SC::Value, SC::Challenge>::new(&mut challenger, shape));
    transcript.claimed_openings(claims).ok()?;
    transcript.batch_phase(Some(proof.batch_pow_witness)).ok()?;
    transcript.delegate(|challenger| {
        let log_height = log_rows + fri.log_blowup;
        let shape = FriShape::new(fri, &[log_height], log_height);
        let mut folds = Unfinished::new(VerifierTranscript::<_, SC::Value, SC::Challenge>::new(challenger, shape));
        folds.commit_rounds(&proof.commit_phase_commits, &proof.commit_pow_witnesses).ok()?;
        folds.query_phase(&proof.final_poly, Some(proof.query_pow_witness)).ok()?;
        folds.into_inner().finish();
        Some(())
    })?;
    transcript.into_inner().finish();
    Some(challenger)
}
