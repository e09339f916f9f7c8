//! Programs that were compiled before.

use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use rigel_gpu::testing::check_compilers;
use rigel_gpu::{Device, Result};
use rigel_kernels::field::Element;

use crate::graph::ExpressionGraph;
use crate::program::{CompiledGraph, Output};
use crate::quick::QuickHasher;
use crate::split::Split;

/// A hash of a graph and its outputs, and a number that tells apart those with the same hash.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    hash: u64,
    attempt: u32,
}

/// The program of a graph: compiled, taken from the cache on disk, or at hand since it was last asked for. The device
/// keeps it for reuse ([`Device::kept`]).
pub fn compiled<E: Element>(
    device: &Device,
    name: &str,
    graph: &ExpressionGraph<E>,
    outputs: &[Output],
) -> Result<Arc<CompiledGraph<E>>> {
    let mut hasher = BuildHasherDefault::<QuickHasher>::default().build_hasher();
    graph.hash(&mut hasher);
    outputs.hash(&mut hasher);
    let mut key = Key { hash: hasher.finish(), attempt: 0 };
    loop {
        let program = device.kept(&key, |device| {
            let _span = tracing::info_span!("rigel", compile = name).entered();
            for checker in check_compilers()? {
                CompiledGraph::compile(checker, name, graph, outputs, Split::of(checker))?;
            }
            Ok((CompiledGraph::compile(device, name, graph, outputs, Split::of(device))?, 0))
        })?;
        if program.computes(graph, outputs) {
            return Ok(program);
        }
        key.attempt += 1;
    }
}
