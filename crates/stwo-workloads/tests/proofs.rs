//! Every workload on upstream's SIMD backend: proofs verify, and wrong ones do not.

use std::fmt::Debug;

use num_traits::One;
use rigel_stwo_workloads::{
    AllWorkloads, Blake2s, HostColumn, Interaction, InteractionSource, Plonk, Poseidon2, Proof, Provable,
    Rejection, StateMachine, Statement, Tree, Unproved, VerifierKey, WideFibonacci, Witness, Workload, Xor, prove,
    twiddles, verify,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use stwo::core::channel::MerkleChannel;
use stwo::core::fields::m31::BaseField;
use stwo::core::fri::FriConfig;
use stwo::core::pcs::PcsConfig;
use stwo::core::vcs_lifted::blake2_merkle::{Blake2sM31MerkleChannel, Blake2sMerkleChannel};
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::backend::{BackendForChannel, Column};

type Simd = dyn Provable<SimdBackend>;

/// A configuration with few queries and little proof of work.
fn config(log_blowup: u32) -> PcsConfig {
    PcsConfig { pow_bits: 2, fri_config: FriConfig::new(0, log_blowup, 8, 1), lifting_log_size: None }
}

/// A proof, in Blake2s's channel if the witness allows one.
fn prove_simply(
    statement: &Simd,
    witness: &Witness,
    interaction: InteractionSource<'_>,
) -> Result<Proof<<Blake2sMerkleChannel as MerkleChannel>::H>, Unproved> {
    let config = config(1);
    let twiddles = twiddles(statement.log_rows(), &config);
    prove::<SimdBackend, Blake2sMerkleChannel>(statement, witness, config, false, &twiddles, interaction)
}

fn verify_simply(
    statement: &impl Statement,
    proof: Proof<<Blake2sMerkleChannel as MerkleChannel>::H>,
) -> Result<(), Rejection> {
    verify(statement, &VerifierKey::<Blake2sMerkleChannel>::new(statement, config(1)), proof)
}

/// Proves with and without stored coefficients, and verifies the deserialized proof.
fn round_trip<MC: MerkleChannel>(statement: &Simd, witness: &Witness, config: PcsConfig)
where
    SimdBackend: BackendForChannel<MC>,
    Proof<MC::H>: Serialize + DeserializeOwned + Debug,
{
    let twiddles = twiddles(statement.log_rows(), &config);
    let bytes = [false, true].map(|store| {
        let source = InteractionSource::Generate;
        let proof = prove::<SimdBackend, MC>(statement, witness, config, store, &twiddles, source).unwrap();
        postcard::to_stdvec(&proof).unwrap()
    });
    assert_eq!(bytes[0], bytes[1], "{}: the proof depends on stored coefficients", statement.workload());
    let proof = postcard::from_bytes(&bytes[0]).unwrap();
    verify(statement, &VerifierKey::<MC>::new(statement, config), proof).unwrap();
}

/// Proves and verifies with both channels, and with blowups of 2 and 4.
fn prove_and_verify(statement: &Simd) {
    let witness = statement.witness();
    let columns = statement.columns();
    assert_eq!([witness.preprocessed.len(), witness.trace.len()], columns[..2]);
    let rows = |column: &HostColumn| column.values.len().ilog2();
    assert_eq!(witness.trace.iter().map(rows).max(), Some(statement.log_rows()));
    for log_blowup in [1, 2] {
        round_trip::<Blake2sMerkleChannel>(statement, &witness, config(log_blowup));
    }
    round_trip::<Blake2sM31MerkleChannel>(statement, &witness, config(1));
}

fn prove_and_verify_sizes(workload: Workload, log_sizes: &[u32]) {
    for &log_size in log_sizes {
        prove_and_verify(&*SimdBackend::statement(workload, log_size, 7).unwrap());
    }
}

#[test]
fn wide_fibonacci() {
    prove_and_verify_sizes(Workload::WideFibonacci, &[4, 5, 8]);
    prove_and_verify(&WideFibonacci::with_columns(6, 3, 1).unwrap());
}

#[test]
fn poseidon2() {
    prove_and_verify_sizes(Workload::Poseidon2, &[7, 9]);
}

#[test]
fn plonk() {
    prove_and_verify_sizes(Workload::Plonk, &[4, 5, 8]);
}

#[test]
fn state_machine() {
    prove_and_verify_sizes(Workload::StateMachine, &[5, 6, 8]);
}

#[test]
fn xor() {
    prove_and_verify_sizes(Workload::Xor, &[4, 5, 7]);
    // Tables that are higher than the component that looks into them.
    prove_and_verify(&Xor::with_bits(4, 3, 1).unwrap());
}

#[test]
fn blake2s() {
    prove_and_verify_sizes(Workload::Blake2s, &[4, 5]);
}

/// The outcome of a wrong witness.
#[derive(Debug, PartialEq)]
enum Outcome {
    Unproved,
    Refused,
}

fn outcome(statement: &(impl Provable<SimdBackend> + 'static), witness: &Witness) -> Outcome {
    match prove_simply(statement, witness, InteractionSource::Generate) {
        Err(Unproved::Constraints) => Outcome::Unproved,
        Err(other) => panic!("{other}"),
        Ok(proof) => {
            verify_simply(statement, proof).expect_err("the proof of a wrong witness");
            Outcome::Refused
        }
    }
}

fn corrupted(statement: &(impl Provable<SimdBackend> + 'static), cells: &[(Tree, usize, usize, Outcome)]) {
    let right = statement.witness();
    for (tree, column, row, expected) in cells {
        let mut wrong = right.clone();
        wrong.corrupt(*tree, *column, *row);
        assert_eq!(outcome(statement, &wrong), *expected, "{tree:?}, column {column}, row {row}");
    }
}

#[test]
fn corrupted_cells_of_one_component() {
    use Outcome::{Refused, Unproved};
    use Tree::{Preprocessed, Trace};
    let fibonacci = WideFibonacci::new(5, 3).unwrap();
    corrupted(&fibonacci, &[(Trace, 0, 0, Unproved), (Trace, 50, 31, Unproved), (Trace, 99, 16, Unproved)]);
    let plonk = Plonk::new(5, 3).unwrap();
    corrupted(
        &plonk,
        &[
            (Trace, 0, 3, Refused),
            (Trace, 1, 3, Unproved),
            (Trace, 3, 31, Unproved),
            (Preprocessed, 0, 4, Refused),
            (Preprocessed, 3, 4, Unproved),
        ],
    );
    let poseidon2 = Poseidon2::new(7, 3).unwrap();
    corrupted(&poseidon2, &[(Trace, 0, 0, Unproved), (Trace, 1_299, 7, Unproved), (Trace, 2_399, 15, Unproved)]);
}

#[test]
fn corrupted_cells_of_several_components() {
    use Outcome::{Refused, Unproved};
    use Tree::{Preprocessed, Trace};
    let machine = StateMachine::new(5, 3).unwrap();
    corrupted(&machine, &[(Trace, 0, 3, Refused), (Trace, 3, 15, Refused)]);
    let xor = Xor::new(5, 3).unwrap();
    // A carry that becomes 2; the one in row 3 becomes 1.
    let carries = &xor.witness().trace[6].values;
    let carried = (0..carries.len()).find(|&row| carries.at(row) == BaseField::one()).unwrap();
    corrupted(
        &xor,
        &[
            (Trace, 0, 3, Refused),
            (Trace, 5, 3, Refused),
            (Trace, 6, 3, Refused),
            (Trace, 6, carried, Unproved),
            (Trace, 7, 0, Refused),
            (Trace, 8, 15, Refused),
            (Preprocessed, 2, 1, Refused),
        ],
    );
}

#[test]
fn corrupted_cells_of_blake2s() {
    use Outcome::{Refused, Unproved};
    use Tree::Trace;
    let chain = Blake2s::new(4, 3).unwrap();
    // A byte of a sum, a byte of an XOR that is only rotated, a nibble, a top bit, a byte of the last hash state,
    // a multiplicity.
    let mixing = 64 + 32;
    corrupted(
        &chain,
        &[
            (Trace, mixing, 0, Unproved),
            (Trace, mixing + 16, 5, Refused),
            (Trace, mixing + 36, 5, Unproved),
            (Trace, 4_160 + 191, 15, Refused),
            (Trace, 4_352, 77, Refused),
        ],
    );
}

#[test]
fn wrong_public_values_are_refused() {
    fn refused<S: Provable<SimdBackend> + Clone + 'static>(right: S, wrong: S) {
        let witness = right.witness();
        let proof = prove_simply(&right, &witness, InteractionSource::Generate).unwrap();
        verify_simply(&wrong, proof.clone()).expect_err("a proof of something else");
        // If the prover claims the wrong value too, the lookups do not balance.
        let claimed = prove_simply(&wrong, &witness, InteractionSource::Generate).unwrap();
        assert!(matches!(verify_simply(&wrong, claimed), Err(Rejection::Lookups)));
        verify_simply(&right, proof).unwrap();
    }
    let one = BaseField::one();

    let plonk = Plonk::new(4, 5).unwrap();
    refused(plonk.clone(), plonk.clone().giving(plonk.output() + one));
    let machine = StateMachine::new(5, 5).unwrap();
    let [x, y] = machine.last();
    refused(machine.clone(), machine.ending_in([x, y + one]));
    let chain = Poseidon2::new(7, 5).unwrap();
    let mut last = chain.last();
    last[9] += one;
    refused(chain.clone(), chain.ending_in(last));
    let chain = Blake2s::new(4, 5).unwrap();
    let mut last = chain.last();
    last[7] ^= 1;
    refused(chain.clone(), chain.ending_in(last));
}

#[test]
fn another_circuit_or_configuration_is_refused() {
    let plonk = Plonk::new(4, 5).unwrap();
    let proof = prove_simply(&plonk, &plonk.witness(), InteractionSource::Generate).unwrap();
    let other = Plonk::new(4, 6).unwrap();
    assert!(matches!(verify_simply(&other, proof.clone()), Err(Rejection::Preprocessed)));
    let key = VerifierKey::<Blake2sMerkleChannel>::new(&plonk, config(2));
    assert!(matches!(verify(&plonk, &key, proof), Err(Rejection::Config)));
}

#[test]
fn proofs_of_another_shape_are_refused() {
    let plonk = Plonk::new(4, 5).unwrap();
    let proof = prove_simply(&plonk, &plonk.witness(), InteractionSource::Generate).unwrap();
    let refuse = |proof| {
        let refused = verify_simply(&plonk, proof).unwrap_err();
        assert!(matches!(refused, Rejection::Shape { .. }), "{refused}");
    };
    let mut short = proof.clone();
    short.claimed_sums.clear();
    refuse(short);
    let mut short = proof.clone();
    short.stark.0.commitments.0.pop();
    refuse(short);
    let mut short = proof.clone();
    short.stark.0.sampled_values.0.pop();
    refuse(short);
    let mut short = proof.clone();
    short.stark.0.sampled_values.0[1].pop();
    refuse(short);
    let mut short = proof;
    short.stark.0.sampled_values.0[2][0].pop();
    refuse(short);
}

#[test]
fn the_same_seed_gives_the_same_proof() {
    for (workload, log_size) in [(Workload::Xor, 6), (Workload::Plonk, 6), (Workload::WideFibonacci, 6)] {
        let made = |seed| {
            let statement = SimdBackend::statement(workload, log_size, seed).unwrap();
            let proof = prove_simply(&*statement, &statement.witness(), InteractionSource::Generate).unwrap();
            postcard::to_stdvec(&proof).unwrap()
        };
        assert_eq!(made(1), made(1), "{workload}");
        assert_ne!(made(1), made(2), "{workload}");
    }
}

#[test]
fn recorded_interaction_columns_give_the_same_proof() {
    let statement = Xor::new(5, 1).unwrap();
    let witness = statement.witness();
    let mut kept: Option<Interaction> = None;
    let first = prove_simply(&statement, &witness, InteractionSource::Record(&mut kept)).unwrap();
    let kept = kept.unwrap();
    let again = prove_simply(&statement, &witness, InteractionSource::Reuse(&kept)).unwrap();
    assert_eq!(postcard::to_stdvec(&first).unwrap(), postcard::to_stdvec(&again).unwrap());
    verify_simply(&statement, again).unwrap();

    let other = Xor::new(5, 2).unwrap();
    let refused = prove_simply(&other, &other.witness(), InteractionSource::Reuse(&kept));
    assert_eq!(refused.unwrap_err(), Unproved::Elements);
}

#[test]
fn workloads_have_names_and_sizes() {
    for workload in Workload::ALL {
        assert_eq!(workload.to_string().parse(), Ok(workload));
        let least = *workload.log_sizes().start();
        let statement = SimdBackend::statement(workload, least, 1).unwrap();
        assert_eq!(statement.workload(), workload);
        assert!(!statement.description().is_empty());
        let Err(refused) = SimdBackend::statement(workload, least - 1, 1) else {
            panic!("{workload} is too small")
        };
        assert!(refused.to_string().contains(&format!("is {}; it must be {least} to", least - 1)), "{refused}");
    }
    let unknown = "fibonacci".parse::<Workload>().unwrap_err().to_string();
    assert!(unknown.contains("\"fibonacci\"") && unknown.contains("wide-fibonacci"), "{unknown}");
}
