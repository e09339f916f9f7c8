//! The command line from outside: output, files and exit codes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn rigel_cairo(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rigel-cairo"));
    command.args(arguments).env_remove("RIGEL_DEVICE").output().expect("rigel-cairo starts")
}

fn compiled(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compiled").join(name).with_extension("json");
    path.to_str().expect("a path in UTF-8").to_string()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

fn failure(arguments: &[&str]) -> String {
    let output = rigel_cairo(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn a_proof_is_written_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("proof.json");
    let proof = path.to_str().unwrap();
    let program = compiled("sorting");
    let input = folder.path().join("input.json");
    std::fs::write(&input, r#"{ "values": [3, 1, 2] }"#).unwrap();
    let quick = ["--cpu", "--variant", "canonical-small", "--queries", "3", "--pow-bits", "5"];
    let mut arguments = vec!["prove", &program, "--input", input.to_str().unwrap(), "-o", proof, "--json"];
    arguments.extend(quick);
    let output = rigel_cairo(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["output"], serde_json::json!(["0x1", "0x2", "0x3"]));
    assert_eq!(report["report"]["device"], "cpu");

    let output = rigel_cairo(&["verify", proof, "--program", &program, "--security", "8", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verdict["verified"], true);
    assert_eq!(verdict["security_bits"], 8);
    assert_eq!(verdict["program_hash"], report["program_hash"]);

    let output = rigel_cairo(&["verify", proof, "--program", &program]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("8 bits of security, fewer than 96"), "{}", text(&output.stdout));
    let output = rigel_cairo(&["verify", proof, "--program", &compiled("fibonacci"), "--security", "8"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("rejected: it is of another program"), "{}", text(&output.stdout));
}

#[test]
fn failures_say_what_to_do() {
    // The prover is made ready while the program runs, which takes a minute for the largest variant.
    let prove = |program: &str, options: &[&str]| {
        failure(&[&["prove", program, "--variant", "canonical-small"], options].concat())
    };
    assert!(prove(&compiled("fails"), &["--cpu"]).contains("error: the program failed"));
    let panicked = prove(&compiled("census"), &["--cpu", "--args", "0"]);
    assert!(panicked.contains("error: the program failed: it panicked: a census needs"), "{panicked}");
    // Its results are there a few steps before it ends.
    let short = prove(&compiled("census"), &["--cpu", "--args", "6,5,3,5,9,5,3", "--max-steps", "1832"]);
    assert!(short.contains("1832 steps"), "{short}");
    let endless = prove(&compiled("endless"), &["--cpu", "--max-steps", "1000"]);
    assert!(endless.contains("within 1000 steps"), "{endless}");
    assert!(prove(&compiled("fibonacci"), &["--cpu"]).contains("--args"));
    assert!(prove("/nowhere.json", &["--cpu"]).contains("/nowhere.json"));
    assert!(prove(&compiled("fibonacci"), &["--device", "cuda:99"]).contains("error: "));
    assert!(failure(&["verify", &compiled("fibonacci")]).contains("not a Cairo proof"));
    let small = prove(&compiled("fibonacci"), &["--args", "1", "--cpu", "--queries", "0"]);
    assert!(small.contains("the number of queries is 0"), "{small}");
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    for arguments in
        [&["prove"][..], &["frobnicate"], &["prove", "a.json", "--prover-input", "b.json"], &["verify"]]
    {
        assert_eq!(rigel_cairo(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
