//! Rigel's command line: check a device, prove on it, and measure it.

// A binary exports nothing: `pub` means that another module may use an item.
#![allow(unreachable_pub)]

mod bandwidth;
mod bench;
mod cluster;
mod doctor;
mod machine;
mod manual;
mod page;
mod prove;
mod verify;
mod warm;
mod worker;

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rigel_proofs::{choice, proof_file};
use rigel_terminal as terminal;

use bench::operations;
use rigel_statements::Failure;

/// Small proofs are bound by the host, which makes and frees tens of thousands of small vectors for one.
/// docs/performance.md has what this allocator saves them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// CUDA for Rust STARK provers.
#[derive(Parser)]
#[command(version, about, disable_help_subcommand = true, after_help = AFTER_HELP)]
struct Cli {
    /// Print one JSON document on standard output: the report, or `{"error": ..}`
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Devices are named auto, cuda:N, emulated, emulated:N or none; RIGEL_DEVICE names the one to use when --device does
not. The emulated device runs the same kernels on the CPU: it needs a C++ compiler, no GPU and no CUDA.

`rigel cairo ...` runs rigel-cairo, which proves Cairo programs and is installed separately.

Exit codes: 0 done, 1 something failed, is not usable or was rejected, 2 the command line was not understood, 3 a file
that `rigel verify` needs can't be read.";

#[derive(Subcommand)]
enum Command {
    /// Report devices, drivers, compilers and bandwidths, and how to fix problems
    Doctor(doctor::Arguments),
    /// Prove a workload with Plonky3 or Stwo, on a device or on the CPU
    Prove(prove::Arguments),
    /// Verify a proof written by `rigel prove`, with upstream's own verifier
    Verify(verify::Arguments),
    /// Compile kernels ahead of the first proof, for a device or for GPUs that are not here
    Warm(warm::Arguments),
    /// Measure operations against the device's peak rates, and proofs against upstream's
    Bench {
        #[command(subcommand)]
        suite: Suite,
    },
    /// Prove jobs of a cluster: frames on standard input and output
    Worker(worker::Arguments),
    /// Prove on several machines, with the Python package and Ray
    Cluster(cluster::Arguments),
    /// Print completions for a shell
    Completions(manual::Completions),
    /// Print pages of the manual
    Man(manual::Manual),
    #[command(external_subcommand)]
    Machine(Vec<OsString>),
}

#[derive(Subcommand)]
enum Suite {
    /// Every operation on its own: transforms, hashes, scans, copies, launches
    Primitives(operations::Arguments),
    /// Arrays: element-wise and fused operations, sums, matrix products, transforms, copies
    Array(operations::Arguments),
    /// Whole proofs beside Plonky3's on the CPU: times, phases, memory
    Plonky3(bench::proofs::plonky3::Arguments),
    /// Whole proofs beside Stwo's SIMD backend on the CPU: times, phases, memory
    Stwo(bench::proofs::stwo::Arguments),
    /// An extension, a proof and many proofs on several GPUs, measured or modelled from one
    Several(bench::several::Arguments),
    /// Random proofs of both provers for a long time, from several threads, under short memory and failures
    Soak(bench::soak::Arguments),
    /// Changed proof files, worker frames and kernel cache entries, of which none may be accepted or end the process
    Fuzz(bench::fuzz::Arguments),
}

fn main() -> ExitCode {
    let Cli { json, command } = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    let result = match command {
        Command::Doctor(arguments) => doctor::run(&arguments, json).map_err(Failure::from),
        Command::Prove(arguments) => prove::run(&arguments, json),
        Command::Verify(arguments) => verify::run(&arguments, json),
        Command::Warm(arguments) => warm::run(&arguments, json),
        Command::Bench { suite } => match suite {
            Suite::Primitives(arguments) => operations::run(&arguments, operations::Family::Primitives, json),
            Suite::Array(arguments) => operations::run(&arguments, operations::Family::Array, json),
            Suite::Plonky3(arguments) => bench::proofs::plonky3::run(&arguments, json),
            Suite::Stwo(arguments) => bench::proofs::stwo::run(&arguments, json),
            Suite::Several(arguments) => bench::several::run(&arguments, json),
            Suite::Soak(arguments) => bench::soak::run(&arguments, json),
            Suite::Fuzz(arguments) => bench::fuzz::run(&arguments, json),
        },
        Command::Worker(arguments) => worker::run(&arguments),
        Command::Cluster(arguments) => return cluster::run(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man(arguments) => manual::print(&arguments),
        Command::Machine(arguments) => match machine::run(&arguments, json) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
    };
    terminal::ending(result.map_err(|error| -> Box<dyn Error> { error }), json)
}

/// Ends with what is wrong with the command line, or with the help that was asked for.
fn refuse(error: &clap::Error) -> ! {
    if error.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        println!("{}", serde_json::json!({ "error": error.to_string() }));
    }
    error.exit()
}
