//! The end of a command: its exit code, and its error as text and as JSON.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use serde_json::json;

/// The reason why a command could not begin, if its exit code says so.
#[derive(Debug)]
pub enum Refusal {
    /// The options contradict each other or the workload: 2, as for options that do not exist.
    Usage(String),
    /// A file that says what is wanted, or the one that was asked about, can't be read: 3.
    Unreadable(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Unreadable(text)) = self;
        f.write_str(text)
    }
}

impl Error for Refusal {}

/// The exit code of a command that did its work (0), found something that does not hold (1), or failed. The error goes
/// to standard error, and to standard output as `{"error": ..}` if the report would have been JSON.
pub fn ending(result: Result<bool, Box<dyn Error>>, json: bool) -> ExitCode {
    let error = match result {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => return ExitCode::FAILURE,
        Err(error) => error,
    };
    eprintln!("error: {error}");
    if json {
        println!("{}", json!({ "error": error.to_string() }));
    }
    match error.downcast_ref::<Refusal>() {
        Some(Refusal::Usage(_)) => ExitCode::from(2),
        Some(Refusal::Unreadable(_)) => ExitCode::from(3),
        None => ExitCode::FAILURE,
    }
}
