//! The command line, without proofs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rigel_worker::frame::{self, Frame, Kind};

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

/// Starts a command that speaks in frames, gives it a job, closes its input, and returns what it answers after the
/// greeting.
fn ask(command: &[&str], job: u64, parts: &[&[u8]]) -> Vec<Frame> {
    let mut process = Command::new(env!("CARGO_BIN_EXE_rigel-risc0"));
    process.args(command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = process.spawn().unwrap();
    let (mut input, mut output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
    assert_eq!(frame::read(&mut output, 1 << 20).unwrap().unwrap().kind, Kind::Hello);
    frame::write(&mut input, Kind::Job, job, parts).unwrap();
    let mut answers = Vec::new();
    while let Some(answer) = frame::read(&mut output, 1 << 30).unwrap() {
        answers.push(answer);
        // After the last segment nothing comes before the seals. A worker's progress is not its last answer.
        let last = if command[0] == "dispatch" { Kind::Progress } else { Kind::Failed };
        if [last, Kind::Failed].contains(&answers[answers.len() - 1].kind) {
            break;
        }
    }
    drop(input);
    while let Some(answer) = frame::read(&mut output, 1 << 30).unwrap() {
        answers.push(answer);
    }
    process.wait().unwrap();
    answers
}

fn dispatch(name: &str, options: &str, stdin: &[u8]) -> Vec<Frame> {
    let program = std::fs::read(guest(name)).unwrap();
    let line = format!("{{\"program_bytes\": {}{options}}}\n", program.len());
    ask(&["dispatch"], 0, &[line.as_bytes(), &program, stdin])
}

#[track_caller]
fn says(answers: &[Frame], text: &str) {
    let last = answers.last().unwrap();
    let message = String::from_utf8_lossy(&last.payload);
    assert!(last.kind == Kind::Failed && message.contains(text), "{:?} {message}", last.kind);
}

/// Segments come while the program runs, each as a job for a worker. What goes wrong is an answer.
#[test]
fn segments_are_dispatched() {
    let answers = dispatch("fibonacci", ", \"segment_po2\": 14", &1_000u32.to_le_bytes());
    let kinds: Vec<_> = answers.iter().map(|answer| (answer.kind, answer.job)).collect();
    let jobs = [(Kind::Job, 0), (Kind::Job, 1), (Kind::Job, 2)];
    assert_eq!(kinds, [&jobs[..], &[(Kind::Progress, 0), (Kind::Failed, 0)]].concat());
    assert!(answers[..3].iter().all(|job| rigel_risc0::Segment::decode(&job.payload).is_ok()));
    says(&answers, "no more seals come");

    says(&dispatch("fails", "", b""), "this guest fails on purpose");
    says(
        &dispatch("endless", ", \"max_cycles\": 50000, \"segment_po2\": 14", b""),
        "did not end within 50000 cycles",
    );
    says(&dispatch("fails", ", \"stdin\": \"/etc/passwd\"", b""), "unknown field `stdin`");
    says(&ask(&["dispatch"], 0, &[b"{\"program_bytes\": 5}\nelf"]), "5 bytes, and 3 bytes follow");
    says(&ask(&["worker", "--cpu"], 1, &[b"not a segment"]), "is not a segment of upstream's");
}
