//! The [`Driver`] trait, the interface between the engine and a device, and its two implementations.

pub(crate) mod cuda;
mod driver;
pub(crate) mod emulated;

pub(crate) use driver::{
    BlasDriver, Chain, CodeDriver, CopyDriver, DevicePtr, Driver, Function, Gemm, GemmSide, GraphDriver, Grid,
    Image, Launch, MemoryDriver, Occupancy, PeerCopy, PeerDriver, QueueDriver, Raw, Strides, Unit, kernel_number,
};
pub use driver::{BlasType, Parameter, Passing};
