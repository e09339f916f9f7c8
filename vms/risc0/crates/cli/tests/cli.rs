//! The command line, without proofs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn guest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../guests/built/{name}.elf"))
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rigel-risc0")).args(arguments).output().unwrap()
}

/// Asserts the exit code, and that the output or the errors contain a text.
fn expect(arguments: &[&str], code: i32, text: &str) {
    let output = run(arguments);
    let all = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {all}");
    assert!(all.contains(text), "{arguments:?} does not say {text:?}: {all}");
}

#[test]
fn programs_are_executed() {
    let folder = tempfile::tempdir().unwrap();
    let (input, journal) = (folder.path().join("input"), folder.path().join("journal"));
    std::fs::write(&input, b"to the journal").unwrap();
    let echo = guest("echo");
    let [program, input, out] = [&echo, &input, &journal].map(|path| path.to_str().unwrap());
    expect(&["execute", program, "--stdin", input, "--journal", out, "--json"], 0, "\"exit_code\": \"Halted(0)\"");
    assert_eq!(std::fs::read(&journal).unwrap(), b"to the journal");

    let fibonacci = guest("fibonacci");
    // The tenth number of Fibonacci is 55.
    expect(&["execute", fibonacci.to_str().unwrap(), "--number", "10"], 0, "journal  0a00000037000000");
}

#[test]
fn failures_say_why() {
    let [fails, endless, fibonacci] = ["fails", "endless", "fibonacci"].map(guest);
    let [fails, endless, fibonacci] = [&fails, &endless, &fibonacci].map(|path| path.to_str().unwrap());
    expect(&["execute", fails], 1, "this guest fails on purpose");
    expect(&["prove", fails, "--cpu"], 1, "this guest fails on purpose");
    expect(&["execute", endless, "--max-cycles", "50000"], 1, "did not end within 50000 cycles");
    expect(&["execute", fibonacci], 1, "the input is no number of four bytes");
    expect(&["execute", "no-such-file"], 1, "no-such-file");
    expect(&["execute", file!()], 1, "");
    expect(&["verify", fails, "--image-id", "00"], 1, "is no receipt");
    expect(&["prove", fails, "--segment-po2", "30"], 2, "13..=23");
}
