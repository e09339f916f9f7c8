//! `rigel-risc0`: RISC Zero programs proven on the GPU. `rigel risc0 ...` runs it.

// A binary exports nothing: `pub` means that another module may use an item.
#![allow(unreachable_pub)]

mod bench;
mod dispatch;
mod execute;
mod options;
mod prove;
mod report;
mod verify;
mod warm;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Any failure, with what to do about it.
type Failure = Box<dyn std::error::Error>;

/// RISC Zero programs on the GPU, with upstream's circuit and receipts.
///
/// Upstream's version is a release candidate, 5.0.0-rc.1, in which constraints are missing: a preview, for
/// measurements.
#[derive(Parser)]
#[command(name = "rigel risc0", version, about, disable_help_subcommand = true, after_help = AFTER_HELP)]
struct Cli {
    /// Print one JSON document on standard output: the report, or `{"error": ..}`
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Devices are named auto, cuda:N, emulated, emulated:N or none (the CPU, with upstream's prover); RIGEL_DEVICE names the
one to use when --device does not. Without a GPU, auto is the CPU.

Exit codes: 0 done, 1 something failed or a receipt is rejected, 2 the command line was not understood.";

#[derive(Subcommand)]
enum Command {
    /// Run a program and prove the run, on a device or on the CPU
    Prove(prove::Arguments),
    /// Verify a receipt with upstream's verifier
    Verify(verify::Arguments),
    /// Run a program without a proof; print its cycles and segments
    Execute(execute::Arguments),
    /// Compile all kernels ahead of the first proof
    Warm(warm::Arguments),
    /// Measure proofs of one segment and of the whole program
    Bench(bench::Arguments),
    /// Prove segments for the program that started this, in frames (rigel.cluster)
    Worker(worker::Arguments),
    /// Run a program whose segments the program that started this has proven elsewhere, in frames (rigel.cluster)
    Dispatch,
}

fn main() -> ExitCode {
    let Cli { json, command } = Cli::parse();
    let result = match command {
        Command::Prove(arguments) => prove::run(&arguments, json),
        Command::Verify(arguments) => verify::run(&arguments, json),
        Command::Execute(arguments) => execute::run(&arguments, json),
        Command::Warm(arguments) => warm::run(&arguments, json),
        Command::Bench(arguments) => bench::run(&arguments, json),
        Command::Worker(arguments) => worker::run(&arguments),
        Command::Dispatch => dispatch::run(),
    };
    rigel_terminal::ending(result, json)
}
