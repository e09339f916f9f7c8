//! The [`Driver`] trait, the interface between the engine and a device, its two implementations, and one whose calls
//! fail on purpose.

pub(crate) mod cuda;
mod driver;
pub(crate) mod emulated;
pub(crate) mod injected;

pub(crate) use driver::{
    BlasDriver, Chain, CodeDriver, CopyDriver, DevicePtr, Driver, Function, Gemm, GemmSide, GraphDriver, Grid,
    Image, Launch, MemoryDriver, Occupancy, PeerCopy, PeerDriver, QueueDriver, Raw, Strides, Unit, kernel_number,
};
pub use driver::{BlasType, Parameter, Passing};
