//! The [`Driver`] trait, the interface between the engine and a device, and its two implementations.

pub(crate) mod cuda;
mod driver;
pub(crate) mod emulated;

pub(crate) use driver::{
    BlasDriver, CodeDriver, CopyDriver, DevicePtr, Driver, Function, Gemm, GemmSide, GraphDriver, Grid, Image,
    MemoryDriver, Occupancy, PeerDriver, QueueDriver, Raw, Unit,
};
pub use driver::{BlasType, Parameter, Passing};
