//! The place where proofs are made: a device or the CPU.

use std::any::Any;
use std::collections::BTreeSet;

use cairo_air::CairoProof;
use rigel_gpu::{Device, Fallback};
use rigel_stwo::CudaBackend;
use stwo::core::channel::MerkleChannel;
use stwo::core::vcs_lifted::merkle_hasher::MerkleHasherLifted;
use stwo::prover::backend::BackendForChannel;
use stwo::prover::backend::simd::SimdBackend;
use stwo_cairo_adapter::ProverInput;
use stwo_cairo_prover::prover::ProverParameters;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::panics::{caught, message};
use crate::plan::MemoryPlan;
use crate::preprocessed;
use crate::prove::prove;
use crate::prover::Proven;
use crate::setup::Setup;

/// A place where proofs with a channel are made.
pub trait Proves<MC: MerkleChannel>: Sized + Send + Sync {
    /// A place on a device.
    fn on_device(device: &Device, parameters: ProverParameters) -> Result<Self>;

    /// A place on the CPU, with the reason if a device was asked for.
    fn on_cpu(parameters: ProverParameters, reason: Option<String>) -> Result<Self>;

    /// The device, if the place is on one.
    fn device(&self) -> Option<&Device>;

    /// The parameters of all proofs.
    fn parameters(&self) -> &ProverParameters;

    /// The root of the preprocessed columns.
    fn preprocessed_root(&self) -> <MC::H as MerkleHasherLifted>::Hash;

    /// The device memory that a proof of this run will need; none on the CPU.
    fn plan(&self, input: &ProverInput) -> Option<MemoryPlan>;

    /// Leaves these components of the base trace to upstream's code on the host.
    fn set_host_witness(&mut self, components: BTreeSet<String>);

    /// Makes a proof.
    fn prove(&self, input: ProverInput) -> Result<Proven<CairoProof<MC::H>>>;
}

/// A place on a device or on the CPU, for any channel.
pub struct Place<MC: MerkleChannel>(Side<MC>)
where
    SimdBackend: BackendForChannel<MC>,
    CudaBackend: BackendForChannel<MC>;

/// The backend of a place, with what all its proofs share.
enum Side<MC: MerkleChannel>
where
    SimdBackend: BackendForChannel<MC>,
    CudaBackend: BackendForChannel<MC>,
{
    Device {
        device: Device,
        setup: Box<Setup<CudaBackend, MC>>,
        /// The bytes of device memory that the setup takes.
        resident: usize,
    },
    /// The CPU, with the reason if a device was asked for.
    Cpu { setup: Box<Setup<SimdBackend, MC>>, reason: Option<String> },
}

impl<MC: MerkleChannel> Proves<MC> for Place<MC>
where
    SimdBackend: BackendForChannel<MC>,
    CudaBackend: BackendForChannel<MC>,
    Self: Send + Sync,
{
    fn on_device(device: &Device, parameters: ProverParameters) -> Result<Self> {
        let (preprocessed, columns) = preprocessed::columns(parameters.preprocessed_trace)?;
        let before = device.memory_stats().in_use;
        let setup = on_device(device, || Setup::new(parameters, preprocessed, columns))?;
        let resident = device.memory_stats().in_use.saturating_sub(before);
        Ok(Self(Side::Device { device: device.clone(), setup: Box::new(setup), resident }))
    }

    fn on_cpu(parameters: ProverParameters, reason: Option<String>) -> Result<Self> {
        let setup = || {
            let (preprocessed, columns) = preprocessed::columns(parameters.preprocessed_trace)?;
            Setup::new(parameters, preprocessed, columns)
        };
        let setup = caught(setup).unwrap_or_else(|panic| Err(gave_up(&*panic)))?;
        Ok(Self(Side::Cpu { setup: Box::new(setup), reason }))
    }

    fn device(&self) -> Option<&Device> {
        match &self.0 {
            Side::Device { device, .. } => Some(device),
            Side::Cpu { .. } => None,
        }
    }

    fn parameters(&self) -> &ProverParameters {
        match &self.0 {
            Side::Device { setup, .. } => &setup.parameters,
            Side::Cpu { setup, .. } => &setup.parameters,
        }
    }

    fn preprocessed_root(&self) -> <MC::H as MerkleHasherLifted>::Hash {
        match &self.0 {
            Side::Device { setup, .. } => setup.tree.commitment.root(),
            Side::Cpu { setup, .. } => setup.tree.commitment.root(),
        }
    }

    fn plan(&self, input: &ProverInput) -> Option<MemoryPlan> {
        match &self.0 {
            Side::Device { setup, resident, .. } => Some(MemoryPlan::new(input, &setup.parameters, *resident)),
            Side::Cpu { .. } => None,
        }
    }

    fn set_host_witness(&mut self, components: BTreeSet<String>) {
        if let Side::Device { setup, .. } = &mut self.0 {
            setup.on_host = components;
        }
    }

    fn prove(&self, input: ProverInput) -> Result<Proven<CairoProof<MC::H>>> {
        match &self.0 {
            Side::Device { device, setup, resident } => {
                MemoryPlan::new(&input, &setup.parameters, *resident).check(device)?;
                let measured = || rigel_stwo::measure(|| prove(setup, input, &Clock::Device));
                let (proof, mut report) = on_device(device, || Ok(measured()?))?;
                let (proof, on_host) = proof?;
                report.fallbacks.extend(on_host);
                Ok(Proven { proof, report })
            }
            Side::Cpu { setup, reason } => {
                let clock = Clock::host();
                let (proof, _) =
                    caught(|| prove(setup, input, &clock)).unwrap_or_else(|panic| Err(gave_up(&*panic)))?;
                let mut report = clock.report();
                let fallback =
                    |reason: &String| Fallback { part: "the proof", ran_on: "CPU", reason: reason.clone() };
                report.fallbacks.extend(reason.iter().map(fallback));
                Ok(Proven { proof, report })
            }
        }
    }
}

/// Runs work of the backend on a device. Its panics become errors.
fn on_device<R>(device: &Device, work: impl FnOnce() -> Result<R>) -> Result<R> {
    match caught(|| rigel_stwo::on(device, || rigel_stwo::catch(work))) {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(error.into()),
        Err(panic) => Err(gave_up(&*panic)),
    }
}

fn gave_up(panic: &(dyn Any + Send)) -> Error {
    Error::Upstream(message(panic))
}
