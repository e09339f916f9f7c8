//! The current device of the backend.
//!
//! Stwo's backend is a type, and its functions have no device parameter. So there is a current device: that of the
//! enclosing [`on`], or else the process's default device, opened when it is first needed.

use std::cell::RefCell;
use std::panic::resume_unwind;

use rigel_codegen::compile_interpreter;
use rigel_gpu::{Device, DeviceKind, Lock, Result, Stream};
use rigel_kernels::field::QM31;
use rigel_kernels::hash::Blake2s;
use rigel_kernels::registry::warm_circle;

use crate::failure::OrFail;

thread_local! {
    static CURRENT: RefCell<Option<Device>> = const { RefCell::new(None) };
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
    // Restores the outer device even if `work` panics.
    struct Outer(Option<Device>);
    impl Drop for Outer {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _outer = Outer(CURRENT.replace(Some(device.clone())));
    work()
}

/// The current device. If there is none yet, opens the one that `RIGEL_DEVICE` names, by default the first GPU.
pub fn current() -> Result<Device> {
    if let Some(device) = CURRENT.with_borrow(Clone::clone) {
        return Ok(device);
    }
    let mut default = DEFAULT.lock();
    match &*default {
        Some(device) => Ok(device.clone()),
        None => Ok(default.insert(Device::from_env()?).clone()),
    }
}

/// The current device, if it is already open.
pub(crate) fn known() -> Option<Device> {
    let default = || DEFAULT.lock().clone();
    CURRENT.with_borrow(Clone::clone).or_else(default)
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
                scope.spawn(|| device.pin_staging().ok());
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
