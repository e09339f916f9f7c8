//! Proofs on the CPU where the device can't make them.

use std::time::Instant;

use rigel_gpu::{Attempt, Device, Error, Fallback, Report, Result};

use crate::failure::catch;
use crate::report::measure;

/// The policy that decides when a proof is made on the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Prove on the CPU if the device fails: its memory is full, it is lost, or its kernels do not compile.
    pub cpu_on_failure: bool,
    /// Prove on the CPU if there is no device.
    pub cpu_without_device: bool,
}

impl Policy {
    /// The CPU wherever the device does not serve.
    pub const AUTO: Self = Self { cpu_on_failure: true, cpu_without_device: true };
}

/// Makes a proof on the device, or on the CPU if the policy allows it, and reports where and why.
///
/// Upstream's prover names its backend in its types, so a program writes its proof once, generic over the backend, and
/// passes both instances: the one over [`CudaBackend`](crate::CudaBackend), and the one over `SimdBackend`. The proofs
/// are the same, byte for byte.
///
/// ```
/// use rigel_gpu::{Device, Selector};
/// use rigel_stwo::{Policy, with_fallback};
///
/// # fn main() -> rigel_gpu::Result<()> {
/// # let (on_gpu, on_simd) = (|| 7, || 7);
/// let device = Device::open(Selector::Emulated(0)); // or Device::from_env()
/// let (proof, report) = with_fallback(device, Policy::AUTO, on_gpu, on_simd)?;
/// for fallback in &report.fallbacks {
///     eprintln!("{} ran on the {}: {}", fallback.part, fallback.ran_on, fallback.reason);
/// }
/// # assert_eq!(proof, 7);
/// # Ok(())
/// # }
/// ```
pub fn with_fallback<P>(
    device: Result<Device>,
    policy: Policy,
    on_device: impl FnOnce() -> P,
    on_cpu: impl FnOnce() -> P,
) -> Result<(P, Report)> {
    or_cpu(device.and_then(|device| crate::on(&device, || catch(|| measure(on_device))?)), policy, on_cpu)
}

/// Returns the device's proof or, if the device failed and the policy allows it, the CPU's.
pub(crate) fn or_cpu<P>(
    made: Result<(P, Report)>,
    policy: Policy,
    on_cpu: impl FnOnce() -> P,
) -> Result<(P, Report)> {
    let error = match made {
        Ok(made) => return Ok(made),
        Err(error) => error,
    };
    let allowed = match &error {
        Error::Unavailable { .. } | Error::Disabled => policy.cpu_without_device,
        error => policy.cpu_on_failure && is_of_device(error),
    };
    if !allowed {
        return Err(error);
    }
    let began = Instant::now();
    let proof = on_cpu();
    let fallbacks = vec![Fallback { part: "the proof", ran_on: "CPU", reason: error.to_string() }];
    let total_ms = began.elapsed().as_secs_f64() * 1e3;
    let moves = Attempt::current().moves().to_vec();
    Ok((proof, Report { device: "cpu".into(), total_ms, fallbacks, moves, ..Report::default() }))
}

/// Whether the CPU may succeed despite this error. Wrong shapes are wrong there, too.
fn is_of_device(error: &Error) -> bool {
    !matches!(error, Error::Shape { .. } | Error::WrongDevice { .. } | Error::Selector(_))
}
