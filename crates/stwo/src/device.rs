//! The current device of the backend, or the devices that share its work out.
//!
//! Stwo's backend is a type, and its functions have no device parameter. So there is a current device: that of the
//! enclosing [`on`], the first one of the enclosing [`over`], or else the process's default device, opened when it is
//! first needed.

use std::cell::RefCell;
use std::panic::resume_unwind;

use rigel_codegen::compile_interpreter;
use rigel_gpu::{Device, DeviceKind, Error, Lock, Result, Stream, check_team};
use rigel_kernels::field::QM31;
use rigel_kernels::hash::Blake2s;
use rigel_kernels::registry::warm_circle;

use crate::failure::OrFail;

thread_local! {
    /// The devices of the innermost [`on`] or [`over`]; none outside of them.
    static CURRENT: RefCell<Vec<Device>> = const { RefCell::new(Vec::new()) };
    /// A stream of each device of the innermost [`over`], on which columns travel beside the device's work.
    static LANES: RefCell<Vec<Stream>> = const { RefCell::new(Vec::new()) };
}

/// The default device of the process.
static DEFAULT: Lock<Option<Device>> = Lock::new(None);

/// Runs `work` with this device as the current one of [`CudaBackend`](crate::CudaBackend) on this thread.
///
/// Columns, twiddles and trees stay on the device where they were made; a kernel that gets memory of two devices
/// gives an error. Several threads can use several devices. If `work` makes columns on other threads, such as
/// rayon's, they go to the default device unless `on` is called there too. Upstream's prover needs no such call.
///
/// ```
/// use rigel_gpu::{Device, Selector};
/// use stwo::core::fields::m31::BaseField;
/// use stwo::prover::backend::Column;
///
/// # fn main() -> rigel_gpu::Result<()> {
/// let device = Device::open(Selector::Emulated(0))?; // or Device::from_env()
/// let sum = rigel_stwo::on(&device, || {
///     let column: rigel_stwo::BaseColumn = (0..16).map(BaseField::from_u32_unchecked).collect();
///     column.at(3) + column.at(4)
/// });
/// assert_eq!(sum, BaseField::from_u32_unchecked(7));
/// # Ok(())
/// # }
/// ```
pub fn on<R>(device: &Device, work: impl FnOnce() -> R) -> R {
    with(vec![device.clone()], Vec::new(), work)
}

/// Runs `work`, such as one proof, shared out over these devices: a power of two of them, of one kind, each once. The
/// first one is the current device.
///
/// A proof is the same as on one device, and its memory adds up: device k of K has block k of the rows of every
/// committed column and its part of their trees, evaluates the constraints there, accumulates their quotients and folds
/// them. Columns that are not extended yet are on one device each. Columns and layers of fewer than 16 rows a device,
/// and what is above the devices' subtrees, are on the first one.
///
/// [`Report::fallbacks`](crate::Report::fallbacks) of [`measure`](crate::measure) says what was gathered on the first
/// device though it is larger: LogUp columns whose fractions read neighbouring rows, and columns that are read as a
/// whole, as by [`DeviceColumn::view`](crate::DeviceColumn::view).
/// A [`LogupTraceGenerator`](crate::LogupTraceGenerator) and lookups by GKR compute on one device, the first one unless
/// their columns were made on another, and copy columns there that are elsewhere.
///
/// Twiddles are made within a scope of the same devices. So should trees and columns be: those of another scope are
/// copied to where they are read, or refused by an error. [`in_column_batches`](crate::in_column_batches) is for one
/// device only. More devices than rows of the longest trace are refused, by an error of the operation that
/// finds it out; see [`catch`](crate::catch).
///
/// ```
/// use rigel_stwo::BaseColumn;
/// use stwo::core::fields::m31::BaseField;
/// use stwo::prover::backend::Column;
///
/// # fn main() -> rigel_gpu::Result<()> {
/// let devices = "emulated:0,emulated:1".parse::<rigel_gpu::Selectors>()?.open()?; // or "all"
/// let first = rigel_stwo::over(&devices, || {
///     // Here would be a proof, whose columns CudaBackend shares out.
///     let column: BaseColumn = (0..16).map(BaseField::from_u32_unchecked).collect();
///     column.device().clone()
/// })?;
/// assert!(first.is(&devices[0]));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// No device, a number that is not a power of two, a device that is given twice, devices of different kinds.
pub fn over<R>(devices: &[Device], work: impl FnOnce() -> R) -> Result<R> {
    check_team(devices).map_err(|detail| Error::shape("rigel_stwo::over", detail))?;
    let lanes = if devices.len() == 1 { &[] } else { devices };
    let lanes = lanes.iter().map(Device::new_stream).collect::<Result<_>>()?;
    Ok(with(devices.to_vec(), lanes, work))
}

/// Runs `work` with these devices and lanes.
fn with<R>(devices: Vec<Device>, lanes: Vec<Stream>, work: impl FnOnce() -> R) -> R {
    // Restores the outer ones even if `work` panics.
    struct Outer(Vec<Device>, Vec<Stream>);
    impl Drop for Outer {
        fn drop(&mut self) {
            CURRENT.set(std::mem::take(&mut self.0));
            LANES.set(std::mem::take(&mut self.1));
        }
    }
    let _outer = Outer(CURRENT.replace(devices), LANES.replace(lanes));
    work()
}

/// Streams of the devices over which this thread's work is shared out, on which columns travel beside that work. None
/// on a thread that shares nothing out.
pub(crate) fn lanes() -> Vec<Stream> {
    LANES.with_borrow(Clone::clone)
}

/// The current device. If there is none yet, opens the one that `RIGEL_DEVICE` names, by default the first GPU.
pub fn current() -> Result<Device> {
    if let Some(device) = CURRENT.with_borrow(|devices| devices.first().cloned()) {
        return Ok(device);
    }
    let mut default = DEFAULT.lock();
    match &*default {
        Some(device) => Ok(device.clone()),
        None => Ok(default.insert(Device::from_env()?).clone()),
    }
}

/// The devices over which this thread's work is shared out, or the current one; none if it is not open yet.
pub(crate) fn known() -> Vec<Device> {
    let devices = CURRENT.with_borrow(Clone::clone);
    if devices.is_empty() { DEFAULT.lock().clone().into_iter().collect() } else { devices }
}

/// The devices over which this thread's work is shared out, or the current one.
pub(crate) fn team() -> Result<Vec<Device>> {
    let first = current()?;
    let devices = CURRENT.with_borrow(Clone::clone);
    Ok(if devices.is_empty() { vec![first] } else { devices })
}

/// [`current`], for functions that can't return an error.
pub(crate) fn device() -> Device {
    current().or_fail("open a device (SimdBackend needs none)")
}

/// Identifies that [`load_kernels`] was called for a device.
#[derive(Clone, PartialEq, Eq, Hash)]
struct KernelsLoaded;

/// Compiles the backend's kernels for a GPU, or loads them from the cache, on all cores, and pins memory for uploads,
/// once. On the emulated device, where compilers take longer than proofs, each operation does so when it is first used.
///
/// Every prover begins with twiddles, so it is called there.
pub(crate) fn load_kernels(device: &Device) -> Result<()> {
    if device.kind() != DeviceKind::Emulated {
        device.kept(&KernelsLoaded, |device| {
            std::thread::scope(|scope| {
                // A copy that needs the memory says so if it is not to be had.
                scope.spawn(|| device.prepare_copies().ok());
                let interpreter = scope.spawn(|| compile_interpreter::<QM31>(device));
                warm_circle::<Blake2s>(device)?;
                interpreter.join().unwrap_or_else(|panic| resume_unwind(panic))?;
                Ok(((), 0))
            })
        })?;
    }
    Ok(())
}

/// The stream for all of the backend's work on a device.
pub(crate) fn stream(device: &Device) -> Stream {
    device.compute().or_fail("open a stream")
}

/// [`stream`] of each device.
pub(crate) fn streams(devices: &[Device]) -> Vec<Stream> {
    devices.iter().map(stream).collect()
}
