//! Programs that are run without a proof: their results, and the errors of those that can't be proven.

use crate::support::{input, program, quick};
use rigel_cairo::{
    CairoProver, ChannelHash, Error, PreProcessedTraceVariant, Program, ProverParameters, RunOptions, production,
    read_prover_input,
};
use serde_json::json;

fn error_of(name: &str, options: &RunOptions) -> Error {
    match program(name).run(options) {
        Err(error) => error,
        Ok(run) => panic!("{name} ran, {} steps", run.steps),
    }
}

#[test]
fn a_program_that_fails_says_so() {
    let error = error_of("fails", &RunOptions::default());
    assert!(matches!(error, Error::Run(_)), "{error:?}");
    assert!(error.to_string().starts_with("the program failed: "), "{error}");
}

#[test]
fn a_program_that_does_not_end_says_so() {
    let error = error_of("endless", &RunOptions { max_steps: Some(10_000), ..RunOptions::default() });
    assert!(matches!(error, Error::TooManySteps { limit: 10_000 }), "{error:?}");
}

#[test]
fn a_missing_argument_is_named() {
    let error = error_of("fibonacci", &RunOptions::default());
    assert!(error.to_string().contains("program_input"), "{error}");
    let options = RunOptions { program_input: Some(json!([])), ..RunOptions::default() };
    assert!(error_of("fibonacci", &options).to_string().contains("the input has no 0"));
}

#[test]
fn files_that_are_no_programs_are_refused() {
    for (text, expected) in [
        ("nonsense", "not JSON"),
        ("{}", "it has no hints"),
        (r#"{"hints": {}, "data": []}"#, "the program cannot be run for a proof"),
    ] {
        let error = Program::from_json(text.as_bytes()).err().expect(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(matches!(Program::read("/nowhere/program.json"), Err(Error::File { .. })));
    assert!(matches!(read_prover_input("/nowhere/input.json"), Err(Error::File { .. })));
}

#[test]
fn every_program_runs() {
    let values = [5, 3, 9, 1, 1, 7];
    let cases = [
        ("fibonacci", json!([10])),
        ("factorial", json!([10])),
        ("pedersen", json!([3])),
        ("poseidon", json!([3])),
        ("bitwise", json!([3])),
        ("keccak", json!([3])),
        ("sorting", json!({ "values": values })),
        ("mixed", json!([3])),
        ("everything", json!([3, 2, 3, 4])),
        ("census", json!([3, 5, 3, 5])),
    ];
    for (name, arguments) in cases {
        let options = RunOptions { program_input: Some(arguments), ..RunOptions::default() };
        let run = program(name).run(&options).unwrap();
        assert!(run.steps > 0 && !run.input.public_memory_addresses.is_empty(), "{name}");
    }
}

#[test]
fn an_input_survives_a_file() {
    let input = input("mixed", json!([3]));
    let file = tempfile::NamedTempFile::new().unwrap();
    serde_json::to_writer(&file, &input).unwrap();
    let again = read_prover_input(file.path()).unwrap();
    assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&input).unwrap());
}

#[test]
fn parameters_are_checked() {
    let refused = |change: fn(&mut ProverParameters)| {
        let mut parameters = quick();
        change(&mut parameters);
        let prover: Result<CairoProver, Error> = CairoProver::on_cpu(parameters);
        prover.err().expect("refused").to_string()
    };
    assert!(refused(|parameters| parameters.channel_hash = ChannelHash::Blake2sM31).contains("Blake2sM31"));
    assert!(refused(|parameters| parameters.pcs_config.fri_config.log_blowup_factor = 0).contains("1 to 16"));
    assert!(refused(|parameters| parameters.pcs_config.lifting_log_size = Some(20)).contains("21 to 30"));
    let parameters = production(PreProcessedTraceVariant::Canonical);
    assert_eq!(rigel_cairo::security_bits(&parameters.pcs_config), 96);
}
