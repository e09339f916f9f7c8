//! Proofs on the device: they equal those of upstream's own function, and upstream's verifier accepts them and
//! refuses what was changed. The smallest proof has 37 million cells, so the tests share proofs.

use std::sync::OnceLock;

use cairo_air::air::PublicData;

use crate::support::{device, input, own_device, program, quick, serialized, upstream};
use rigel_cairo::{
    Blake2sM31MerkleChannel, Blake2sMerkleChannel, CairoChannel, CairoProof, CairoProofForRustVerifier,
    CairoProver, ChannelHash, Error, Proven, ProverInput, ProverParameters, for_verifier, verify,
};
use rigel_gpu::background;
use serde_json::json;
use stwo::core::channel::MerkleChannel;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::prover::backend::BackendForChannel;
use stwo::prover::backend::simd::SimdBackend;

type Blake2sProof = CairoProof<<Blake2sMerkleChannel as MerkleChannel>::H>;

fn prover() -> &'static CairoProver {
    static PROVER: OnceLock<CairoProver> = OnceLock::new();
    PROVER.get_or_init(|| CairoProver::new(&device(), quick()).unwrap())
}

fn factorial_input() -> ProverInput {
    input("factorial", json!([20]))
}

/// A proof that several tests look at. All of its base trace is made on the device, in the memory that was planned.
fn factorial() -> &'static Proven<Blake2sProof> {
    static PROVEN: OnceLock<Proven<Blake2sProof>> = OnceLock::new();
    PROVEN.get_or_init(|| {
        let plan = prover().plan(&factorial_input()).unwrap();
        let proven = prover().prove(factorial_input()).unwrap();
        let peak = proven.report.peak_bytes;
        // What the prover holds for all proofs is not part of the proof's own peak.
        let planned = plan.total() - plan.resident;
        println!("planned {plan:?}, {planned} bytes for the proof; the peak was {peak}");
        assert!(peak <= planned && planned < peak + peak / 2);
        assert!(proven.report.fallbacks.is_empty(), "{:?}", proven.report.fallbacks);
        proven
    })
}

fn proof() -> CairoProofForRustVerifier<<Blake2sMerkleChannel as MerkleChannel>::H> {
    for_verifier(&factorial().proof)
}

#[test]
fn factorial_equals_upstream() {
    println!("{}", factorial().report);
    let expected = serialized(&upstream::<Blake2sMerkleChannel>(factorial_input(), quick()));
    assert!(serialized(&factorial().proof) == expected, "the device's proof differs");
    let (program, root) = (program("factorial"), prover().preprocessed_root());
    let statement = verify::<Blake2sMerkleChannel>(proof(), Some(&program), Some(&root)).unwrap();
    // 20!
    assert_eq!(statement.output, ["0x21c3677c82b40000"]);
}

/// Segments begin elsewhere and tables have other sizes. The oracle is the same prover on the CPU.
#[test]
fn programs_of_other_sizes_compile_no_kernels() {
    factorial();
    background::finish();
    let modules = || {
        let stats = device().cache().stats();
        stats.compiled + stats.hits
    };
    let before = modules();
    let larger = input("factorial", json!([300]));
    let proven = prover().prove(larger.clone()).unwrap();
    assert_eq!(modules() - before, 0, "modules that the larger program compiled or loaded");

    let on_cpu = CairoProver::<Blake2sMerkleChannel>::on_cpu(quick()).unwrap();
    assert_eq!(on_cpu.preprocessed_root(), prover().preprocessed_root());
    let expected = on_cpu.prove(larger).unwrap();
    println!("{}", expected.report);
    assert_eq!((expected.report.device.as_str(), expected.report.fallbacks.len()), ("cpu", 0));
    assert!(serialized(&proven.proof) == serialized(&expected.proof), "the CPU's proof differs");
}

/// A Cairo 1 executable, with five builtins.
#[test]
fn an_executable_equals_upstream_with_the_other_channel() {
    let parameters = ProverParameters { channel_hash: ChannelHash::Blake2sM31, ..quick() };
    equal::<Blake2sM31MerkleChannel>("census", json!([6, 5, 3, 5, 9, 5, 3]), parameters);
}

/// All programs with both channels, one of them with lifting. On a GPU: RIGEL_DEVICE=cuda:0 cargo test --release
/// -- --ignored
#[test]
#[ignore = "takes half an hour on the emulated device"]
fn all_programs_equal_upstream() {
    let arguments = [
        ("fibonacci", json!([20_000])),
        ("factorial", json!([2_000])),
        ("pedersen", json!([100])),
        ("poseidon", json!([200])),
        ("bitwise", json!([500])),
        ("keccak", json!([40])),
        ("sorting", json!({ "values": (0..500).map(|i| i * 7919 % 1009).collect::<Vec<_>>() })),
        ("mixed", json!([100])),
        ("modular", json!([100])),
        ("opcodes", json!([2_000])),
        ("census", json!([6, 5, 3, 5, 9, 5, 3])),
    ];
    for (name, arguments) in arguments {
        equal::<Blake2sMerkleChannel>(name, arguments.clone(), quick());
        let mut parameters = ProverParameters { channel_hash: ChannelHash::Blake2sM31, ..quick() };
        parameters.pcs_config.lifting_log_size = Some(22);
        equal::<Blake2sM31MerkleChannel>(name, arguments, parameters);
    }
}

/// Checks that the device's proof of a run equals upstream's and verifies.
fn equal<MC: CairoChannel>(name: &str, arguments: serde_json::Value, parameters: ProverParameters)
where
    SimdBackend: BackendForChannel<MC>,
{
    let input = input(name, arguments);
    let prover = CairoProver::<MC>::new(&own_device(), parameters).unwrap();
    let proven = prover.prove(input.clone()).unwrap();
    println!("{name}: {}", proven.report);
    assert!(
        serialized(&proven.proof) == serialized(&upstream::<MC>(input, parameters)),
        "{name}: the proof differs"
    );
    verify::<MC>(for_verifier(&proven.proof), Some(&program(name)), Some(&prover.preprocessed_root())).unwrap();
}

/// The reason for which a proof is refused.
fn refusal(proof: CairoProofForRustVerifier<<Blake2sMerkleChannel as MerkleChannel>::H>) -> String {
    match verify::<Blake2sMerkleChannel>(proof, None, None) {
        Err(Error::Rejected(reason)) => reason,
        Err(other) => panic!("another error: {other}"),
        Ok(statement) => panic!("accepted: {statement:?}"),
    }
}

#[test]
fn a_changed_output_is_refused() {
    let mut changed = proof();
    changed.claim.public_data.public_memory.output[0].1[0] ^= 1;
    assert_ne!(refusal(changed), "");
}

/// The checks that upstream's verifier leaves to the caller: where the output lies, and that words are below the
/// prime.
#[test]
fn an_output_elsewhere_and_words_that_are_not_reduced_are_refused() {
    for change in [
        |data: &mut PublicData| data.public_memory.public_segments.output.start_ptr.value -= 1,
        |data: &mut PublicData| data.public_memory.public_segments.output.stop_ptr.value += 1,
        |data: &mut PublicData| data.public_memory.output.clear(),
    ] {
        let mut changed = proof();
        change(&mut changed.claim.public_data);
        assert!(refusal(changed).contains("the output segment"));
    }
    let mut changed = proof();
    changed.claim.public_data.public_memory.program.pop();
    assert!(refusal(changed).contains("the first frame"));
    // The prime added twice: upstream's memory sees other bits than a reader who reduces the word.
    let mut changed = proof();
    let words = &mut changed.claim.public_data.public_memory.output[0].1;
    (words[0], words[6], words[7]) = (words[0] + 2, words[6] + 34, words[7] + (1 << 28));
    assert!(refusal(changed).contains("Cairo's prime"));
    let mut changed = proof();
    changed.stark_proof.0.config.fri_config.n_queries = 0;
    assert!(refusal(changed).contains("queries"));
}

#[test]
fn a_changed_memory_cell_is_refused() {
    let mut changed = proof();
    let program = &mut changed.claim.public_data.public_memory.program;
    let middle = program.len() / 2;
    program[middle].1[0] ^= 1;
    assert_ne!(refusal(changed), "");
    let mut changed = proof();
    changed.claim.public_data.public_memory.safe_call_ids[0] ^= 1;
    assert_ne!(refusal(changed), "");
}

#[test]
fn a_changed_sum_and_a_changed_opening_are_refused() {
    let mut changed = proof();
    let claimed = changed.interaction_claim.ret_opcode.as_mut().expect("every program returns");
    claimed.claimed_sum += claimed.claimed_sum;
    assert!(refusal(changed).contains("logup"));
    let mut changed = proof();
    changed.interaction_pow ^= 1;
    assert!(refusal(changed).contains("Proof of work"));
}

/// Changes values of every tree: the preprocessed columns, the base trace, the lookups, the composition.
#[test]
fn changed_values_are_refused() {
    for tree in 0..4 {
        let mut changed = proof();
        let sampled = &mut changed.stark_proof.0.sampled_values[tree];
        let value = sampled.iter_mut().flatten().next().expect("a value of each tree");
        *value += SecureField::from(BaseField::from(1));
        assert_ne!(refusal(changed), "", "a sampled value of tree {tree}");
        let mut changed = proof();
        let queried = &mut changed.stark_proof.0.queried_values[tree];
        let value = queried.iter_mut().flatten().last().expect("a value of each tree");
        *value += BaseField::from(1);
        assert_ne!(refusal(changed), "", "a queried value of tree {tree}");
    }
}

#[test]
fn another_program_is_refused() {
    let error = verify::<Blake2sMerkleChannel>(proof(), Some(&program("fibonacci")), None).unwrap_err();
    assert!(matches!(&error, Error::Rejected(reason) if reason.contains("another program")), "{error}");
}

#[test]
fn other_preprocessed_columns_are_refused() {
    let root = proof().stark_proof.commitments[1];
    let error = verify::<Blake2sMerkleChannel>(proof(), None, Some(&root)).unwrap_err();
    assert!(matches!(&error, Error::Rejected(reason) if reason.contains("preprocessed")), "{error}");
}
