//! `rigel cluster`: several machines, by the Python package (`rigel.cluster`, on Ray).

use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};

#[derive(clap::Args)]
// The Python package describes the commands.
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// up, status, prove, down or simulate, with its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command of the Python package, and returns its exit code.
pub fn run(arguments: &Arguments) -> ExitCode {
    let python = env::var_os("RIGEL_PYTHON").unwrap_or_else(|| "python3".into());
    let shown = python.to_string_lossy().into_owned();
    let found = Command::new(&python)
        .args(["-c", "import rigel.cluster"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match found {
        Ok(status) if status.success() => {}
        Ok(_) => {
            eprintln!(
                "error: {shown} has no package rigel.cluster. Install it with\n  {shown} -m pip install \
                 'rigel[cluster]'\nor name another Python in RIGEL_PYTHON"
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
    match Command::new(&python).args(["-m", "rigel.cluster"]).args(&arguments.command).status() {
        // A process that a signal ended has no code.
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("error: {shown} does not start: {error}");
            ExitCode::FAILURE
        }
    }
}
