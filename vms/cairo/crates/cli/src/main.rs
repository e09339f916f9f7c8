//! `rigel-cairo`: Cairo programs proven on the GPU. `rigel cairo ...` runs it.

// A binary exports nothing: `pub` means that another module may use an item.
#![allow(unreachable_pub)]

mod bench;
mod options;
mod prove;
mod report;
mod verify;
mod warm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Any failure, with what to do about it.
type Failure = Box<dyn std::error::Error>;

/// Cairo programs on the GPU, with StarkWare's AIR and proofs.
#[derive(Parser)]
#[command(name = "rigel cairo", version, about, disable_help_subcommand = true, after_help = AFTER_HELP)]
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

Exit codes: 0 done, 1 something failed or a proof is rejected, 2 the command line was not understood.";

#[derive(Subcommand)]
enum Command {
    /// Run a program and prove the run, on a device or on the CPU
    Prove(prove::Arguments),
    /// Verify a proof with upstream's verifier; print the program's hash, the output and the security
    Verify(verify::Arguments),
    /// Compile the kernels of all components ahead of the first proof
    Warm(warm::Arguments),
    /// Prove with upstream's prover on the CPU and with Rigel, and compare times and proofs
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let Cli { json, command } = Cli::parse();
    let result = match command {
        Command::Prove(arguments) => prove::run(&arguments, json),
        Command::Verify(arguments) => verify::run(&arguments, json),
        Command::Warm(arguments) => warm::run(&arguments, json),
        Command::Bench(arguments) => bench::run(&arguments, json),
    };
    rigel_terminal::ending(result, json)
}
