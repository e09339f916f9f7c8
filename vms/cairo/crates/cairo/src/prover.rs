//! The prover of Cairo programs.

use cairo_air::CairoProof;
use rigel_gpu::{Device, Fallback, Report, Selector};
use rigel_stwo::CudaBackend;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::prover::backend::BackendForChannel;
use stwo::prover::backend::simd::SimdBackend;
use stwo_cairo_adapter::ProverInput;
use stwo_cairo_prover::prover::ProverParameters;

use crate::channel::CairoChannel;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::panics::{caught, message};
use crate::parameters;
use crate::preprocessed;
use crate::prove::prove;
use crate::setup::Setup;

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
/// It holds what all proofs share: the preprocessed columns, their tree and twiddles. Several threads may prove with one
/// prover; on a device their work is done one after another.
///
/// ```no_run
/// use rigel_cairo::{CairoProver, PreProcessedTraceVariant, Program, production};
///
/// # fn main() -> rigel_cairo::Result<()> {
/// let program = Program::read("fibonacci.json")?;
/// let input = program.run(&Default::default())?.input;
/// // The first GPU, or the CPU.
/// let prover: CairoProver = CairoProver::open(production(PreProcessedTraceVariant::CanonicalSmall))?;
/// let proven = prover.prove(input)?;
/// println!("{}", proven.report);
/// # Ok(())
/// # }
/// ```
pub struct CairoProver<MC: CairoChannel = Blake2sMerkleChannel>
where
    SimdBackend: BackendForChannel<MC>,
    CudaBackend: BackendForChannel<MC>,
{
    place: Place<MC>,
}

/// Where proofs are made.
enum Place<MC: CairoChannel>
where
    SimdBackend: BackendForChannel<MC>,
    CudaBackend: BackendForChannel<MC>,
{
    Device { device: Device, setup: Box<Setup<CudaBackend, MC>> },
    Cpu { setup: Box<Setup<SimdBackend, MC>>, reason: Option<String> },
}

impl<MC: CairoChannel> CairoProver<MC>
where
    SimdBackend: BackendForChannel<MC>,
    CudaBackend: BackendForChannel<MC>,
{
    /// A prover on a device. Reads the preprocessed columns from disk, or makes them, and commits to them on the device.
    ///
    /// # Errors
    /// Parameters that upstream does not allow, or for another channel; errors of the device.
    pub fn new(device: &Device, parameters: ProverParameters) -> Result<Self> {
        check::<MC>(&parameters)?;
        let (preprocessed, columns) = preprocessed::columns(parameters.preprocessed_trace)?;
        let setup = on_device(device, || Setup::new(parameters, preprocessed, columns))?;
        Ok(Self { place: Place::Device { device: device.clone(), setup: Box::new(setup) } })
    }

    /// A prover on the CPU, with upstream's `SimdBackend`.
    ///
    /// # Errors
    /// Parameters that upstream does not allow, or for another channel.
    pub fn on_cpu(parameters: ProverParameters) -> Result<Self> {
        Self::on_cpu_because(parameters, None)
    }

    /// A prover on the device that `RIGEL_DEVICE` selects; if it selects none and there is no GPU, on the CPU. Then every
    /// report says so.
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

    /// A prover on the CPU; every report gives the reason.
    fn on_cpu_because(parameters: ProverParameters, reason: Option<String>) -> Result<Self> {
        check::<MC>(&parameters)?;
        let (preprocessed, columns) = preprocessed::columns(parameters.preprocessed_trace)?;
        let setup = Setup::new(parameters, preprocessed, columns)?;
        Ok(Self { place: Place::Cpu { setup: Box::new(setup), reason } })
    }

    /// The device; none if proofs are made on the CPU.
    pub fn device(&self) -> Option<&Device> {
        match &self.place {
            Place::Device { device, .. } => Some(device),
            Place::Cpu { .. } => None,
        }
    }

    /// The parameters of all proofs.
    pub fn parameters(&self) -> &ProverParameters {
        match &self.place {
            Place::Device { setup, .. } => &setup.parameters,
            Place::Cpu { setup, .. } => &setup.parameters,
        }
    }

    /// Proves a program's run.
    ///
    /// # Errors
    /// An input that is too large for the variant of the preprocessed columns or uses a builtin that it does not have, one
    /// that is not a valid run, and errors of the device.
    pub fn prove(&self, input: ProverInput) -> Result<Proven<CairoProof<MC::H>>> {
        match &self.place {
            Place::Device { device, setup } => {
                let work = || rigel_stwo::measure(|| prove(setup, input, &Clock::Device));
                let (proof, report) = on_device(device, || Ok(work()?))?;
                Ok(Proven { proof: proof?, report })
            }
            Place::Cpu { setup, reason } => {
                let clock = Clock::host();
                let proof = caught(|| prove(setup, input, &clock)).unwrap_or_else(|panic| Err(gave_up(&*panic)))?;
                let mut report = clock.report();
                report.fallbacks.extend(reason.iter().map(|reason| Fallback {
                    part: "the proof",
                    ran_on: "CPU",
                    reason: reason.clone(),
                }));
                Ok(Proven { proof, report })
            }
        }
    }
}

/// Runs work of the backend on a device. Its panics become errors.
fn on_device<R>(device: &Device, work: impl FnOnce() -> Result<R>) -> Result<R> {
    let result = caught(|| rigel_stwo::on(device, || rigel_stwo::catch(work)));
    match result {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(error.into()),
        Err(panic) => Err(gave_up(&*panic)),
    }
}

fn gave_up(panic: &(dyn std::any::Any + Send)) -> Error {
    Error::Upstream(message(panic))
}

fn check<MC: CairoChannel>(parameters: &ProverParameters) -> Result<()> {
    let (asked, made) = (parameters.channel_hash, MC::HASH);
    if std::mem::discriminant(&asked) != std::mem::discriminant(&made) {
        return Err(Error::Channel { asked, made });
    }
    parameters::check(parameters)
}
