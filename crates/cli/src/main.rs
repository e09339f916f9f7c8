//! The command line of Rigel: look after a device, and measure it.

// Nothing is outside a binary: `pub` says that another module may use it.
#![allow(unreachable_pub)]

mod bandwidth;
mod bench;
mod doctor;
mod terminal;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// CUDA for Rust STARK provers.
#[derive(Parser)]
#[command(version, about, disable_help_subcommand = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Devices are named auto, cuda:N, emulated, emulated:N or none; RIGEL_DEVICE names the one to use when --device does
not. The emulated device runs the same kernels on the CPU: it needs a C++ compiler, no GPU and no CUDA.

Exit codes: 0 done, 1 something failed or is not usable, 2 the command line was not understood.";

#[derive(Subcommand)]
enum Command {
    /// Report devices, drivers, compilers and bandwidths, and say what to fix
    Doctor(doctor::Arguments),
    /// Measure operations against what the device can do
    Bench {
        #[command(subcommand)]
        suite: Suite,
    },
}

#[derive(Subcommand)]
enum Suite {
    /// Every operation on its own: transforms, hashes, scans, copies, launches
    Primitives(bench::Arguments),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Bench { suite: Suite::Primitives(arguments) } => bench::run(&arguments),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
