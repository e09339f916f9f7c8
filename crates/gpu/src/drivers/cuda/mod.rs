//! NVIDIA GPUs, through the CUDA driver and NVRTC.
//!
//! Both libraries are loaded at run time, so building needs no toolkit. Calls go through cudarc's raw bindings,
//! whose lazy loader panics if a library or a symbol is missing. So [`library`] comes first: it finds the
//! libraries, checks that they have every symbol this module calls, and returns an error if not. Nothing else in
//! this module calls a library that has not passed that check.
//!
//! | file | content |
//! |---|---|
//! | `library.rs`, `search.rs` | finding libcuda and libnvrtc, and their versions; the search paths |
//! | `cublas.rs` | cuBLAS: finding it, and matrix products |
//! | `failure.rs` | mapping of driver codes to errors |
//! | `context.rs` | one device: [`Driver`], its context and its properties |
//! | `queue.rs` | streams and events |
//! | `memory.rs`, `foreign.rs` | reserved ranges and the memory mapped to them; memory of other libraries |
//! | `copy.rs` | copies between host and device |
//! | `code.rs`, `cubin.rs` | modules, functions and launches; the check for truncated binaries |
//! | `graph.rs`, `chain.rs` | capture, instantiation and update of graphs; graphs of kernels in a row |
//! | `peer.rs` | other devices |
//! | `nvrtc.rs`, `diagnostics.rs` | compiling, and error messages with source lines |
//! | `signature.rs` | how a kernel takes its parameters |
//! | `compile_only.rs` | compiling for a GPU that is not there |
//! | `status.rs` | the report of `rigel doctor` |

mod chain;
mod code;
pub(crate) mod compile_only;
mod context;
mod copy;
mod cubin;
mod cublas;
mod diagnostics;
mod failure;
mod foreign;
mod graph;
mod library;
mod memory;
mod nvrtc;
mod peer;
mod queue;
mod search;
mod signature;
mod status;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::base::{DeviceKind, Error, Lock, Result};
use crate::drivers::Driver;

use context::Cuda;

pub use cublas::{CublasStatus, cublas_status};
pub use status::{Status, status};

/// The number of CUDA devices; at least one, or [`Error::Unavailable`].
pub(crate) fn count() -> Result<u32> {
    library::device_count()
}

/// Opens a device, with its primary context if `context` is 0, else with one of its own. While it is open, further
/// calls with the same numbers return the same one.
pub(crate) fn open(ordinal: u32, context: u32) -> Result<Arc<dyn Driver>> {
    let count = count()?;
    if ordinal >= count {
        return Err(Error::NoSuchDevice { kind: DeviceKind::Cuda, ordinal, count });
    }
    let mut opened = OPENED.lock();
    if let Some(driver) = opened.get(&(ordinal, context)).and_then(Weak::upgrade) {
        return Ok(driver);
    }
    let driver = Arc::new(Cuda::open(ordinal, context)?);
    opened.insert((ordinal, context), Arc::downgrade(&driver));
    Ok(driver)
}

/// The open devices by their number and that of their context. A device finds a peer, given as `&dyn Driver`, through
/// this map.
static OPENED: Lock<BTreeMap<(u32, u32), Weak<Cuda>>> = Lock::new(BTreeMap::new());

fn opened(opening: (u32, u32)) -> Option<Arc<Cuda>> {
    OPENED.lock().get(&opening).and_then(Weak::upgrade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_driver_gets_errors() {
        match count() {
            Ok(count) => {
                assert!(count > 0);
                assert!(matches!(open(count, 0), Err(Error::NoSuchDevice { .. })));
            }
            Err(error) => {
                assert!(matches!(error, Error::Unavailable { .. }), "{error}");
                assert!(matches!(open(0, 0), Err(Error::Unavailable { .. })));
                assert!(status().devices.is_err());
            }
        }
    }
}
