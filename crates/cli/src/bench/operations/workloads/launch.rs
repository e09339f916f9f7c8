//! The cost of launching: one by one, gathered and as a graph.

use rigel_gpu::{Buffer, Graph, Kernel, Result, Shape, Source, Stream};

use crate::bench::Size;
use crate::bench::operations::measure::{Bar, Bench, Case, Figures};

const TEXT: &str = "__global__ void touch(unsigned *x) { x[threadIdx.x] += 1; }";

pub fn cases(size: Size) -> Vec<Case> {
    let kernels = size.pick(200, 20);
    let shape = format!("{kernels} small kernels");
    vec![
        Case::new("launches one by one", shape.clone(), move |bench| {
            let mut chain = Chain::new(bench, kernels)?;
            let milliseconds = chain.one_by_one(bench)?;
            Ok(Figures::new(milliseconds, 1e3 * milliseconds / kernels as f64, "µs a kernel"))
        }),
        Case::new("launches gathered", shape.clone(), move |bench| {
            let _gathering = bench.stream.gather();
            let milliseconds = Chain::new(bench, kernels)?.one_by_one(bench)?;
            Ok(Figures::new(milliseconds, 1e3 * milliseconds / kernels as f64, "µs a kernel"))
        }),
        Case::new("launches in a graph", shape.clone(), move |bench| {
            let milliseconds = Chain::new(bench, kernels)?.as_graph(bench)?;
            Ok(Figures::new(milliseconds, 1e3 * milliseconds / kernels as f64, "µs a kernel"))
        }),
        Case::new("graph against launches", shape, move |bench| {
            let mut chain = Chain::new(bench, kernels)?;
            let single = chain.one_by_one(bench)?;
            let graph = chain.as_graph(bench)?;
            Ok(Figures::new(graph, 100.0 * graph / single, "% of the time").bar(Bar::AtMost(40.0)))
        }),
    ]
}

/// A chain of dependent kernels that do almost nothing: the time of the chain is the launch overhead.
struct Chain {
    touch: Kernel,
    values: Buffer<u32>,
    kernels: usize,
}

impl Chain {
    fn new(bench: &Bench, kernels: usize) -> Result<Self> {
        // SAFETY: each of the 32 threads of a launch changes its element of a buffer of 32.
        let source = unsafe { Source::new("launch.cu", TEXT) };
        let touch = bench.device().compile(&source.kernel("touch"))?.kernel("touch")?;
        Ok(Self { touch, values: bench.stream.zeros(32)?, kernels })
    }

    fn enqueue(&mut self, stream: &Stream) -> Result<()> {
        (0..self.kernels).try_for_each(|_| self.touch.launch(stream, Shape::new(1, 32), (&mut self.values,)))
    }

    fn one_by_one(&mut self, bench: &Bench) -> Result<f64> {
        bench.wall_time(|stream| self.enqueue(stream))
    }

    fn as_graph(&mut self, bench: &Bench) -> Result<f64> {
        let graph = Graph::capture(&bench.stream, |stream| self.enqueue(stream))?;
        bench.wall_time(|stream| graph.replay(stream))
    }
}
