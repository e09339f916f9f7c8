//! `rigel` as a process.

use std::process::{Command, Output};

/// Runs `rigel` with these arguments, and with none of the caller's settings except those in `set`.
pub(crate) fn rigel(arguments: &[&str], set: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rigel"));
    for name in ["DEVICE", "EMULATED", "MEMORY_LIMIT", "POOL", "LAUNCH", "NVRTC", "INTERPRET"] {
        command.env_remove(format!("RIGEL_{name}"));
    }
    command.args(arguments).envs(set.iter().copied()).output().expect("rigel starts")
}

/// [`rigel`] in a process with so many bytes of address space. It has one worker thread, because the C library reserves
/// 64 MiB of addresses for each thread that allocates.
#[allow(dead_code, reason = "one of the programs that share this module needs it")]
pub(crate) fn rigel_within(memory: usize, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v $1; shift; exec \"$@\"", "sh"]).arg((memory >> 10).to_string());
    command.arg(env!("CARGO_BIN_EXE_rigel")).args(arguments).env("RAYON_NUM_THREADS", "1");
    command.output().expect("a shell starts")
}

pub(crate) fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is UTF-8")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("output is UTF-8")
}
