//! The runtime's own tests, on every device there is.

mod addresses;
mod blas;
mod captures;
mod compile;
mod exchange;
mod faults;
mod foreign;
mod gathering;
mod graphs;
mod growth;
mod memory;
mod peers;
mod pool;
mod selection;
mod soundness;
mod streams;

use rigel_gpu::{Kernel, Source, Stream};

/// Kernel text of a test.
fn source(name: &str, text: &str) -> Source {
    // SAFETY: the kernels of these tests keep to their buffers when launched as they are, or go astray on the emulated
    // device, which catches that.
    unsafe { Source::new(name, text) }
}

/// A kernel that takes a while before it writes `value` to `n` numbers: (to, n, value, rounds).
fn slow_fill(stream: &Stream) -> Kernel {
    let text = "__global__ void slow_fill(unsigned *to, unsigned n, unsigned value, unsigned rounds) {
        unsigned x = value;
        for (unsigned i = 0; i < rounds; ++i) x = x * 1664525u + 1013904223u;
        for (unsigned i = 0; i < rounds; ++i) x = (x - 1013904223u) * 4276115653u;
        for (unsigned i = threadIdx.x; i < n; i += blockDim.x) to[i] = x;
    }";
    let source = source("slow_fill.cu", text).kernel("slow_fill");
    stream.device().compile(&source).unwrap().kernel("slow_fill").unwrap()
}
