//! `rigel cairo`, `rigel risc0`: commands of machines, which are binaries of their own.
//!
//! Upstream's provers of machines are large, so each machine is a workspace with a binary `rigel-NAME`. As git does
//! with its commands, `rigel NAME` finds it beside itself or on the path and passes all arguments on.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::Failure;
use crate::terminal::Refusal;

/// The machines of this repository; each is in `vms/NAME`.
const MACHINES: [&str; 2] = ["cairo", "risc0"];

/// Runs the binary of the machine that the first argument names, with the other arguments, and returns its exit code.
/// `rigel --json cairo ..` means `rigel cairo .. --json`.
pub fn run(arguments: &[OsString], json: bool) -> Result<ExitCode, Failure> {
    let (name, arguments) = arguments.split_first().ok_or("a machine has a name")?;
    let name = name.to_string_lossy();
    let Some(path) = find(&format!("rigel-{name}{}", env::consts::EXE_SUFFIX)) else {
        if MACHINES.contains(&&*name) {
            return Err(format!(
                "rigel-{name} is neither beside rigel nor on the PATH. To install it, run in Rigel's sources:\n  \
                 vms/{name}/scripts/install"
            )
            .into());
        }
        return Err(Refusal::Usage(format!(
            "`{name}` is not a command of rigel, and there is no rigel-{name} beside it or on the PATH; try 'rigel \
             --help'"
        ))
        .into());
    };
    let status = Command::new(&path).args(arguments).args(json.then_some("--json")).status();
    let status = status.map_err(|error| format!("{} does not start: {error}", path.display()))?;
    // A process that a signal ended has no code.
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// The binary beside this one, or else the first on the path.
pub fn find(binary: &str) -> Option<PathBuf> {
    let beside = env::current_exe().ok().and_then(|path| path.parent().map(Path::to_path_buf));
    let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    beside.into_iter().chain(on_path).map(|folder| folder.join(binary)).find(|path| path.is_file())
}
