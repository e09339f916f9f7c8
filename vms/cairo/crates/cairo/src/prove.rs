//! A proof, phase by phase, on either backend.

use cairo_air::CairoProof;
use cairo_air::cairo_components::CairoComponents;
use cairo_air::claims::lookup_sum;
use cairo_air::relations::CommonLookupElements;
use cairo_air::verifier::INTERACTION_POW_BITS;
use rigel_gpu::Fallback;
use stwo::core::channel::{Channel, MerkleChannel};
use stwo::core::fields::qm31::SecureField;
use stwo::core::utils::MaybeOwned;
use stwo::prover::backend::BackendForChannel;
use stwo::prover::{CommitmentSchemeProver, ProvingError, prove_ex};
use stwo_cairo_adapter::ProverInput;
use stwo_cairo_prover::prover::ProverParameters;

use crate::backend::{CairoBackend, Lookups};
use crate::clock::Clock;
use crate::columns::Evaluation;
use crate::error::{Error, Result};
use crate::setup::Setup;
use crate::witness::BaseTrace;

/// Proves a program's run, and says which parts of the trace the host made in place of the device. The transcript is
/// that of upstream's `prove_cairo`, so the proof is the same.
pub(crate) fn prove<B, MC>(
    setup: &Setup<B, MC>,
    input: ProverInput,
    clock: &Clock,
) -> Result<(CairoProof<MC::H>, Vec<Fallback>)>
where
    B: CairoBackend + BackendForChannel<MC>,
    MC: MerkleChannel,
{
    let Setup { parameters, preprocessed, ids, fixed, tree, .. } = setup;
    let trace = B::base_trace(input, preprocessed, fixed, &setup.on_host, clock)?;
    check_size(parameters, trace.log_size())?;

    let twiddles = setup.twiddles(trace.log_size());
    let channel = &mut MC::C::default();
    let mut scheme = CommitmentSchemeProver::<B, MC>::new(parameters.pcs_config, &twiddles);
    if parameters.store_polynomials_coefficients {
        scheme.set_store_polynomials_coefficients();
    }
    channel.mix_felts(&[parameters.channel_salt.into()]);
    parameters.pcs_config.mix_into(channel);
    scheme.commit_tree(MaybeOwned::Borrowed(tree), channel);

    let BaseTrace { columns, claim, lookups: generator, on_host } = trace;
    claim.mix_into::<MC>(channel);
    let trace = B::keep(&columns);
    clock.on_backend("commit to the base trace", || commit(&mut scheme, columns, channel));

    let interaction_pow =
        clock.on_backend("proof of work of the lookups", || B::grind(channel, INTERACTION_POW_BITS));
    channel.mix_u64(interaction_pow);
    let elements = &CommonLookupElements::draw(channel);

    let lookups = Lookups { claim: &claim, elements, fixed, ids, trace, generator };
    let (columns, interaction_claim) = clock.on_backend("lookups", || B::lookups(lookups))?;
    if lookup_sum(&claim, elements, &interaction_claim) != SecureField::default() {
        return Err(Error::Unsatisfied("the lookups do not balance"));
    }
    interaction_claim.mix_into(channel);
    clock.on_backend("commit to the lookups", || commit(&mut scheme, columns, channel));

    let components = CairoComponents::new(&claim, elements, &interaction_claim, ids);
    let all_columns = parameters.include_all_preprocessed_columns;
    let proof = clock.on_backend("constraints and openings", || {
        B::with_provers(&components, |provers| prove_ex::<B, MC>(provers, channel, scheme, all_columns))
    });
    let extended_stark_proof = proof.map_err(|error| match error {
        ProvingError::ConstraintsNotSatisfied => Error::Unsatisfied("a constraint does not hold"),
    })?;
    let proof = CairoProof {
        claim,
        interaction_pow,
        interaction_claim,
        extended_stark_proof,
        channel_salt: parameters.channel_salt,
        preprocessed_trace_variant: parameters.preprocessed_trace,
    };
    Ok((proof, on_host))
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

/// Checks that the trees have, or can be lifted to, one size. Without lifting, upstream's verifier rejects proofs whose
/// preprocessed tree is lower than another one.
fn check_size(parameters: &ProverParameters, log_size: u32) -> Result<()> {
    let log_blowup = parameters.pcs_config.fri_config.log_blowup_factor;
    let variant = parameters.preprocessed_trace;
    match parameters.pcs_config.lifting_log_size {
        Some(lifting) if lifting < log_size + log_blowup => Err(Error::Parameter {
            name: "the lifting size's logarithm",
            value: lifting.into(),
            advice: format!("this program needs at least {}", log_size + log_blowup),
        }),
        None if log_size > variant.max_log_trace_size() => Err(Error::TooLarge {
            what: "longest table",
            needed: log_size,
            available: variant.max_log_trace_size(),
            variant,
            advice: "use a larger variant, or set the lifting size",
        }),
        _ => Ok(()),
    }
}
