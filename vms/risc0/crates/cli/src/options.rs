//! Options that several commands have: the program and its input, the device.

use std::fs;
use std::path::{Path, PathBuf};

use rigel_gpu::{Device, Error, Selector};
use rigel_risc0::{Program, Prover, RunOptions};

use crate::Failure;

/// The program to run.
#[derive(clap::Args)]
pub struct Source {
    /// Program: an ELF file for RISC Zero's v1compat kernel, or a file of RISC Zero's own format (.bin)
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,
    /// File that the program reads as its standard input
    #[arg(long, value_name = "FILE", conflicts_with = "number")]
    stdin: Option<PathBuf>,
    /// Number that the program reads as its standard input, in four bytes, little-endian
    #[arg(long, value_name = "N")]
    number: Option<u32>,
    /// Largest segments, as a power of two of rows [default: 20, or what fits on the devices]
    #[arg(long, value_name = "PO2", value_parser = clap::value_parser!(u32).range(13..=23))]
    segment_po2: Option<u32>,
    /// Largest number of cycles of the program's run
    #[arg(long, value_name = "N")]
    max_cycles: Option<u64>,
}

impl Source {
    /// The name of what is run.
    pub fn name(&self) -> String {
        self.program.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The program, and how to run it.
    pub fn load(&self) -> Result<(Program, RunOptions), Failure> {
        let program = Program::load(&read(&self.program)?)
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        let stdin = match (&self.stdin, self.number) {
            (Some(path), _) => read(path)?,
            (None, Some(number)) => number.to_le_bytes().to_vec(),
            (None, None) => Vec::new(),
        };
        let options = RunOptions { stdin, max_cycles: self.max_cycles, ..RunOptions::default() };
        Ok((program, RunOptions { segment_po2: self.segment_po2.unwrap_or(options.segment_po2), ..options }))
    }

    /// The program and its options for a proof: unless they are given, segments are no larger than what fits on
    /// the prover's devices.
    pub fn load_for(&self, prover: &Prover) -> Result<(Program, RunOptions), Failure> {
        let (program, options) = self.load()?;
        let segment_po2 = self.segment_po2.map_or_else(|| prover.fitting_po2(options.segment_po2), Ok)?;
        Ok((program, RunOptions { segment_po2, ..options }))
    }
}

/// The devices, by name.
#[derive(clap::Args)]
pub struct Place {
    /// Devices, which share the segments: auto, cuda:N, emulated, emulated:N or none [default: RIGEL_DEVICE, or auto]
    #[arg(long, conflicts_with = "cpu", value_name = "DEVICES", value_delimiter = ',')]
    device: Vec<Selector>,
    /// Prove on the CPU, with upstream's prover
    #[arg(long)]
    cpu: bool,
}

impl Place {
    /// A prover on the devices; on the CPU if `auto` finds no GPU, with a note.
    pub fn prover(&self) -> Result<Prover, Failure> {
        if self.cpu {
            return Ok(Prover::on_cpu());
        }
        let selectors = match &self.device[..] {
            [] => vec![Selector::from_env()?],
            selectors => selectors.to_vec(),
        };
        let mut devices = Vec::new();
        for &selector in &selectors {
            match (Device::open(selector), &selectors[..]) {
                (Err(Error::Disabled), [_]) => return Ok(Prover::on_cpu()),
                (Err(error @ Error::Unavailable { .. }), [Selector::Auto]) => {
                    eprintln!("note: {error}\nnote: proving on the CPU instead, with upstream's prover");
                    return Ok(Prover::on_cpu());
                }
                (opened, _) => devices.push(opened?),
            }
        }
        Ok(Prover::new(&devices)?)
    }
}

/// A file's bytes.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Writes a file.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()).into())
}
