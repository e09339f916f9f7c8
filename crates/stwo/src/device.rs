//! Which device the backend works on.
//!
//! Stwo's backend is a type, and its operations are functions without a place for a device. So there is one that is
//! meant: the one of the enclosing [`on`], or else the process' own, opened when it is first needed.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use rigel_gpu::{Device, Result, Stream};

use crate::failure::OrFail;

thread_local! {
    static CURRENT: RefCell<Option<Device>> = const { RefCell::new(None) };
}

/// The process' own device.
static DEFAULT: Mutex<Option<Device>> = Mutex::new(None);

/// Runs `work` with this device as the one that [`CudaBackend`](crate::CudaBackend) works on, on this thread.
///
/// Columns, twiddles and trees stay on the device they were made on; to mix those of two devices is refused when a
/// kernel meets both. Several threads can work on several devices. Columns that `work` makes on other threads, such as
/// rayon's, are made on the process' own device unless `on` is called there too; what upstream's prover does on them is
/// taken care of.
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
    // Also if `work` panics.
    struct Outer(Option<Device>);
    impl Drop for Outer {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _outer = Outer(CURRENT.replace(Some(device.clone())));
    work()
}

/// The device that the backend works on here. Opens the one that `RIGEL_DEVICE` names (the first GPU if it names none)
/// if there is none yet.
pub fn current() -> Result<Device> {
    if let Some(device) = CURRENT.with_borrow(Clone::clone) {
        return Ok(device);
    }
    let mut default = DEFAULT.lock().unwrap_or_else(PoisonError::into_inner);
    match &*default {
        Some(device) => Ok(device.clone()),
        None => Ok(default.insert(Device::from_env()?).clone()),
    }
}

/// The device that the backend works on here, if it has worked on one.
pub(crate) fn known() -> Option<Device> {
    let default = || DEFAULT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    CURRENT.with_borrow(Clone::clone).or_else(default)
}

/// As [`current`], where there is no way to return an error.
pub(crate) fn device() -> Device {
    current().or_fail("open a device (SimdBackend needs none)")
}

/// The stream that all of the backend's work on a device is queued on.
pub(crate) fn stream(device: &Device) -> Stream {
    device.compute().or_fail("open a stream")
}
