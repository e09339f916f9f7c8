//! Kernels that are upstream's own headers, compiled for the device when they are first used.

use std::sync::Arc;

use rigel_gpu::{Device, Kernel, Result};
use rigel_kernels::code::source;

include!(concat!(env!("OUT_DIR"), "/upstream.rs"));

/// Threads per block; it divides every number of rows.
pub(crate) const THREADS: u32 = 128;

/// The key of [`data_witness`] for this number of columns. Its type is private, so that nobody else gets the kernels
/// from the device.
#[derive(Clone, PartialEq, Eq, Hash)]
struct DataWitness(usize);

/// The kernels that make the data columns of segments of any size: one that sets rows, and one that completes them.
pub(crate) fn data_witness(device: &Device, columns: usize) -> Result<Arc<Vec<Kernel>>> {
    device.kept(&DataWitness(columns), |device| {
        // SAFETY: upstream's code accesses the columns of its own row, which are in the thread's memory (`witness.cu`
        // checks their number), the row's part of `aux`, the globals and the tables, within the sizes that upstream's
        // prover has given them.
        let mut text = unsafe { source("risc0/witness.cu", include_str!("witness.cu")) };
        for (name, header) in source_headers() {
            text = text.header(name, header);
        }
        let names = ["set_rows", "finalize_rows"];
        text = text.define("BLOCK_THREADS", THREADS.to_string()).define("COLUMNS", columns.to_string());
        for name in names {
            text = text.kernel(name);
        }
        let module = device.compile(&text)?;
        let kernels = names.iter().map(|name| module.kernel(name)).collect::<Result<Vec<_>>>()?;
        Ok((kernels, 0))
    })
}

/// This crate's headers and upstream's, by the names under which they are included.
fn source_headers() -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = [
        ("rigel_risc0/field.cuh", include_str!("field.cuh")),
        ("cstdint", include_str!("cstdint.h")),
        ("array", include_str!("array.h")),
    ];
    own.into_iter().chain(UPSTREAM.iter().copied())
}
