//! `rigel cluster`: several machines, by the Python package (`rigel.cluster`, on Ray).

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

#[derive(clap::Args)]
// The Python package describes the commands.
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// up, status, prove, risc0, serve, down or simulate, with its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Becomes the command of the Python package, so that signals and the exit code are its own. Returns only a failure.
pub fn run(arguments: &Arguments) -> ExitCode {
    let python = env::var_os("RIGEL_PYTHON").unwrap_or_else(|| "python3".into());
    let shown = python.to_string_lossy().into_owned();
    match Command::new(&python).args(["-c", "import rigel.cluster"]).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            // A package that is there and does not load says why in its last line.
            let words = String::from_utf8_lossy(&output.stderr);
            let reason = words.trim_end().lines().last().map_or(String::new(), |line| format!(" ({line})"));
            eprintln!(
                "error: {shown} can't import the package rigel.cluster{reason}. Install Rigel's wheel, or in Rigel's \
                 sources\n  {shown} -m pip install './crates/python[cluster]'\nor name another Python in RIGEL_PYTHON"
            );
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!(
                "error: {shown} does not start: {error}; install Python 3.10 or newer, or name it in RIGEL_PYTHON"
            );
            return ExitCode::FAILURE;
        }
    }
    let error = Command::new(&python).args(["-m", "rigel.cluster"]).args(&arguments.command).exec();
    eprintln!("error: {shown} does not start: {error}");
    ExitCode::FAILURE
}
