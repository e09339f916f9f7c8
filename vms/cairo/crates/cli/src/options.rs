//! Options that several commands have: the program and its input, parameters, the device.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use rigel_cairo::{
    CairoChannel, CairoProver, ChannelHash, PreProcessedTraceVariant, Program, ProverInput, ProverParameters,
    RunOptions, device_witness, production, read_prover_input,
};
use rigel_gpu::{Device, Error, Selector};
use serde_json::Value;

use crate::Failure;

/// The program to prove.
#[derive(clap::Args)]
pub struct Source {
    /// Program: a Cairo 1 executable (the JSON of `scarb build`), or the JSON of Cairo 0's `cairo-compile --proof_mode`
    #[arg(value_name = "PROGRAM", required_unless_present = "prover_input")]
    pub program: Option<PathBuf>,
    /// Arguments, separated by commas: field elements as `Serde` writes them for an executable; for Cairo 0 the list
    /// that hints read as `program_input`
    #[arg(long, value_name = "VALUE", value_delimiter = ',', conflicts_with_all = ["input", "prover_input"])]
    args: Vec<String>,
    /// JSON file with the arguments: an array of field elements, or for Cairo 0 what hints read as program_input
    #[arg(long, value_name = "FILE", conflicts_with = "prover_input")]
    input: Option<PathBuf>,
    /// Largest number of steps of the program's run
    #[arg(long, value_name = "N", conflicts_with = "prover_input")]
    max_steps: Option<usize>,
    /// Prove this input instead of a program: the JSON that upstream's adapter writes
    #[arg(long, value_name = "FILE", conflicts_with = "program")]
    prover_input: Option<PathBuf>,
}

/// An input of the prover, and how it was made.
pub struct Input {
    pub input: ProverInput,
    pub steps: Option<usize>,
    /// The times of the virtual machine and of the adapter, or of reading the file.
    pub times: Vec<(&'static str, f64)>,
}

impl Source {
    /// The name of what is proven.
    pub fn name(&self) -> String {
        let path = self.program.as_ref().or(self.prover_input.as_ref());
        let stem = path.and_then(|path| path.file_stem()).unwrap_or_default();
        stem.to_string_lossy().into_owned()
    }

    /// Runs the program, or reads the prover's input.
    pub fn load(&self) -> Result<Input, Failure> {
        if let Some(path) = &self.prover_input {
            let began = Instant::now();
            let input = read_prover_input(path)?;
            return Ok(Input { input, steps: None, times: vec![("read", began.elapsed().as_secs_f64() * 1e3)] });
        }
        let path = self.program.as_ref().expect("clap asks for one of both");
        let program_input = match &self.input {
            Some(path) => Some(parse(path)?),
            None if self.args.is_empty() => None,
            None => {
                Some(Value::Array(self.args.iter().map(|text| Value::String(text.trim().to_string())).collect()))
            }
        };
        let options = RunOptions { program_input, max_steps: self.max_steps };
        let run = Program::read(path)?.run(&options)?;
        let times = vec![("run of the program", run.vm_ms), ("adapter", run.adapt_ms)];
        Ok(Input { input: run.input, steps: Some(run.steps), times })
    }
}

/// The names of upstream's variants of the preprocessed columns.
#[derive(Clone, Copy, ValueEnum)]
pub enum Variant {
    /// All builtins; the largest programs
    Canonical,
    /// No Pedersen; the largest programs
    #[value(alias = "canonical_without_pedersen")]
    CanonicalWithoutPedersen,
    /// No ec_op; programs with up to 2^20 rows per table
    #[value(alias = "canonical_small")]
    CanonicalSmall,
}

impl From<Variant> for PreProcessedTraceVariant {
    fn from(variant: Variant) -> Self {
        match variant {
            Variant::Canonical => Self::Canonical,
            Variant::CanonicalWithoutPedersen => Self::CanonicalWithoutPedersen,
            Variant::CanonicalSmall => Self::CanonicalSmall,
        }
    }
}

/// The channels that both backends have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Channel {
    /// Blake2s
    Blake2s,
    /// Blake2s whose output words are reduced to the field
    Blake2sM31,
}

impl From<Channel> for ChannelHash {
    fn from(channel: Channel) -> Self {
        match channel {
            Channel::Blake2s => Self::Blake2s,
            Channel::Blake2sM31 => Self::Blake2sM31,
        }
    }
}

/// Parameters of proofs; upstream's production parameters unless changed.
#[derive(clap::Args)]
pub struct Parameters {
    /// Upstream's file of parameters (JSON); the options below change single ones
    #[arg(long = "params", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Preprocessed columns, which decide which builtins and sizes can be proven [default: canonical]
    #[arg(long)]
    variant: Option<Variant>,
    /// Hash of trees and challenges [default: blake2s]
    #[arg(long)]
    channel: Option<Channel>,
    /// Queries [default: 70]
    #[arg(long, value_name = "N")]
    queries: Option<usize>,
    /// Bits of proof of work [default: 26]
    #[arg(long, value_name = "N")]
    pow_bits: Option<u32>,
    /// Blowup, as a power of two [default: 1]
    #[arg(long, value_name = "N")]
    log_blowup: Option<u32>,
    /// Lift all trees to this size, as a power of two [default: none]
    #[arg(long, value_name = "N")]
    lifting_log_size: Option<u32>,
}

impl Parameters {
    /// Upstream's type.
    pub fn get(&self) -> Result<ProverParameters, Failure> {
        let mut parameters = match &self.file {
            Some(path) => parse(path)?,
            None => production(PreProcessedTraceVariant::Canonical),
        };
        let config = &mut parameters.pcs_config;
        config.pow_bits = self.pow_bits.unwrap_or(config.pow_bits);
        config.lifting_log_size = self.lifting_log_size.or(config.lifting_log_size);
        let fri = &mut config.fri_config;
        fri.n_queries = self.queries.unwrap_or(fri.n_queries);
        fri.log_blowup_factor = self.log_blowup.unwrap_or(fri.log_blowup_factor);
        parameters.preprocessed_trace = self.variant.map_or(parameters.preprocessed_trace, Into::into);
        parameters.channel_hash = self.channel.map_or(parameters.channel_hash, Into::into);
        Ok(parameters)
    }
}

/// The device, by name.
#[derive(clap::Args)]
pub struct Place {
    /// Device: auto, cuda:N, emulated, emulated:N or none [default: RIGEL_DEVICE, or auto]
    #[arg(long, conflicts_with = "cpu")]
    device: Option<Selector>,
    /// Prove on the CPU, with upstream's prover
    #[arg(long)]
    cpu: bool,
    /// Components of the base trace that upstream's code makes on the host: names, separated by commas, or all
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "cpu")]
    host_witness: Vec<String>,
}

impl Place {
    /// A prover on the device.
    pub fn prover<MC: CairoChannel>(
        &self,
        device: &Device,
        parameters: ProverParameters,
    ) -> Result<CairoProver<MC>, Failure> {
        let mut prover = CairoProver::new(device, parameters)?;
        let names: Vec<&str> = match self.host_witness.as_slice() {
            [all] if all == "all" => device_witness().0,
            names => names.iter().map(String::as_str).collect(),
        };
        prover.set_host_witness(&names)?;
        Ok(prover)
    }

    /// The device; none for the CPU, which `auto` selects, with a note, if there is no GPU.
    pub fn open(&self) -> Result<Option<Device>, Failure> {
        if self.cpu {
            return Ok(None);
        }
        let selector = self.device.map_or_else(Selector::from_env, Ok)?;
        match (Device::open(selector), selector) {
            (Err(Error::Disabled), _) => Ok(None),
            (Err(error @ Error::Unavailable { .. }), Selector::Auto) => {
                eprintln!("note: {error}\nnote: proving on the CPU instead, with upstream's prover");
                Ok(None)
            }
            (opened, _) => Ok(Some(opened?)),
        }
    }
}

/// A JSON file's value.
fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// Calls a generic function with the channel that a value of [`ChannelHash`] names.
macro_rules! with_channel {
    ($hash:expr, $function:ident($($argument:expr),*)) => {
        match $hash {
            rigel_cairo::ChannelHash::Blake2s => $function::<rigel_cairo::Blake2sMerkleChannel>($($argument),*),
            rigel_cairo::ChannelHash::Blake2sM31 => {
                $function::<rigel_cairo::Blake2sM31MerkleChannel>($($argument),*)
            }
            rigel_cairo::ChannelHash::Poseidon252 => {
                Err("the channel poseidon252 is not supported; supported: blake2s, blake2s_m31".into())
            }
        }
    };
}
pub(crate) use with_channel;
