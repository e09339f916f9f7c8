//! The prover of Cairo programs.

use cairo_air::CairoProof;
use rigel_gpu::{Device, Report, Selector};
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::core::vcs_lifted::merkle_hasher::MerkleHasherLifted;
use stwo_cairo_adapter::ProverInput;
use stwo_cairo_prover::prover::ProverParameters;

use crate::channel::CairoChannel;
use crate::error::{Error, Result};
use crate::parameters;
use crate::place::Proves;
use crate::plan::MemoryPlan;

/// A proof, and what it cost.
#[derive(Clone, Debug)]
pub struct Proven<P> {
    /// Upstream's proof.
    pub proof: P,
    /// Time by phase, transfers, memory, and what ran on the CPU instead of the device.
    pub report: Report,
}

/// Proves runs of Cairo programs with the same parameters, on a device or on the CPU.
///
/// It holds what all proofs share: the preprocessed columns, their tree and twiddles. Several threads may prove with
/// one prover; on a device their work is done one after another.
///
/// ```no_run
/// use rigel_cairo::{CairoProver, PreProcessedTraceVariant, Program, production};
///
/// # fn main() -> rigel_cairo::Result<()> {
/// let run = Program::read("fibonacci.json")?.run(&Default::default())?;
/// // The first GPU, or the CPU.
/// let prover: CairoProver = CairoProver::open(production(PreProcessedTraceVariant::CanonicalSmall))?;
/// let proven = prover.prove(run.input)?;
/// println!("{}", proven.report);
/// # Ok(())
/// # }
/// ```
pub struct CairoProver<MC: CairoChannel = Blake2sMerkleChannel> {
    place: MC::Place,
}

impl<MC: CairoChannel> CairoProver<MC> {
    /// A prover on a device. Reads the preprocessed columns from disk, or makes them, and commits to them on the
    /// device.
    ///
    /// # Errors
    /// Parameters that upstream does not allow, or for another channel; errors of the device.
    pub fn new(device: &Device, parameters: ProverParameters) -> Result<Self> {
        check::<MC>(&parameters)?;
        Ok(Self { place: MC::Place::on_device(device, parameters)? })
    }

    /// A prover on the CPU, with upstream's `SimdBackend`.
    ///
    /// # Errors
    /// Parameters that upstream does not allow, or for another channel.
    pub fn on_cpu(parameters: ProverParameters) -> Result<Self> {
        Self::on_cpu_because(parameters, None)
    }

    /// A prover on the device that `RIGEL_DEVICE` selects; if it selects none and there is no GPU, on the CPU. Then
    /// every report says so.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn open(parameters: ProverParameters) -> Result<Self> {
        let selector = Selector::from_env()?;
        match (Device::open(selector), selector) {
            (Err(rigel_gpu::Error::Disabled), _) => Self::on_cpu(parameters),
            (Err(error @ rigel_gpu::Error::Unavailable { .. }), Selector::Auto) => {
                Self::on_cpu_because(parameters, Some(error.to_string()))
            }
            (opened, _) => Self::new(&opened?, parameters),
        }
    }

    fn on_cpu_because(parameters: ProverParameters, reason: Option<String>) -> Result<Self> {
        check::<MC>(&parameters)?;
        Ok(Self { place: MC::Place::on_cpu(parameters, reason)? })
    }

    /// Leaves these components of the base trace to upstream's code on the host, though the device could make them.
    /// Without them, the device makes all that [`device_witness`](crate::device_witness) lists.
    ///
    /// # Errors
    /// A name that is not one of those.
    pub fn set_host_witness(&mut self, components: &[&str]) -> Result<()> {
        let known = crate::witness::switchable();
        if let Some(unknown) = components.iter().find(|name| !known.contains(name)) {
            return Err(Error::Component { name: (*unknown).to_string(), known: known.join(", ") });
        }
        self.place.set_host_witness(components.iter().map(|name| (*name).to_string()).collect());
        Ok(())
    }

    /// The device; none if proofs are made on the CPU.
    pub fn device(&self) -> Option<&Device> {
        self.place.device()
    }

    /// The parameters of all proofs.
    pub fn parameters(&self) -> &ProverParameters {
        self.place.parameters()
    }

    /// The device memory that a proof of this run will need; none if proofs are made on the CPU. A proof that does not
    /// fit is refused before it starts.
    pub fn plan(&self, input: &ProverInput) -> Option<MemoryPlan> {
        self.place.plan(input)
    }

    /// The root of the tree of preprocessed columns, which a verifier has to know.
    pub fn preprocessed_root(&self) -> <MC::H as MerkleHasherLifted>::Hash {
        self.place.preprocessed_root()
    }

    /// Proves a program's run.
    ///
    /// # Errors
    /// An input that is too large for the variant of the preprocessed columns or uses a builtin that it does not
    /// have, one that is not a valid run, and errors of the device.
    pub fn prove(&self, input: ProverInput) -> Result<Proven<CairoProof<MC::H>>> {
        self.place.prove(input)
    }
}

fn check<MC: CairoChannel>(parameters: &ProverParameters) -> Result<()> {
    let (asked, made) = (parameters.channel_hash, MC::HASH);
    if std::mem::discriminant(&asked) != std::mem::discriminant(&made) {
        return Err(Error::Channel { asked, made });
    }
    parameters::check(parameters)
}
