//! Programs that were compiled before.

use std::sync::{Arc, Mutex, PoisonError};

use rigel_gpu::{Device, Result};
use rigel_kernels::field::Element;

use crate::graph::Graph;
use crate::program::{Output, Program};
use crate::split::Split;

/// The programs compiled for a device, by the graph they were compiled from.
struct Known<E: Element>(Mutex<Vec<Entry<E>>>);

struct Entry<E: Element> {
    graph: Graph<E>,
    outputs: Vec<Output>,
    program: Arc<Program<E>>,
}

/// How many programs are kept for a device; the one that was asked for longest ago makes room.
const MOST_KNOWN: usize = 256;

/// The program of a graph: compiled, taken from the cache on disk, or at hand since it was last asked for. It is kept for
/// as long as the device.
pub fn compiled<E: Element>(
    device: &Device,
    name: &str,
    graph: &Graph<E>,
    outputs: &[Output],
) -> Result<Arc<Program<E>>> {
    let known = device.program(|_| Ok(Known::<E>(Mutex::default())))?;
    let lock = || known.0.lock().unwrap_or_else(PoisonError::into_inner);
    {
        let mut known = lock();
        if let Some(at) = known.iter().position(|entry| entry.graph == *graph && entry.outputs == outputs) {
            let entry = known.remove(at);
            let program = entry.program.clone();
            known.push(entry);
            return Ok(program);
        }
    }
    let _span = tracing::info_span!("rigel", compile = name).entered();
    let program = Arc::new(Program::compile(device, name, graph, outputs, Split::of(device))?);
    let mut known = lock();
    if known.len() == MOST_KNOWN {
        known.remove(0);
    }
    known.push(Entry { graph: graph.clone(), outputs: outputs.to_vec(), program: program.clone() });
    Ok(program)
}
