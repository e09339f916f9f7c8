//! Compiled graphs, kept for as long as their device, and what they are run on.

use std::sync::{Arc, Mutex};

use rigel_codegen::{Bindings, Folded, Graph, Input, Output, Program, Rows, Split};
use rigel_gpu::{Buffer, Device, Result, Stream, View};
use rigel_kernels::element::Element;
use rigel_kernels::{Columns, Matrix};

use crate::constraints::input;

/// The programs compiled for a device, by the graph they were compiled from.
struct Programs<E: Element>(Mutex<Vec<Arc<Entry<E>>>>);

struct Entry<E: Element> {
    graph: Graph<E>,
    outputs: Vec<Output>,
    program: Arc<Program<E>>,
}

/// The program of a graph: compiled, taken from the cache on disk, or at hand since the last proof.
pub(crate) fn compiled<E: Element>(
    device: &Device,
    name: &str,
    graph: &Graph<E>,
    outputs: &[Output],
) -> Result<Arc<Program<E>>> {
    let programs = device.program(|_| Ok(Programs::<E>(Mutex::default())))?;
    let lock = || programs.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let same = |entry: &&Arc<Entry<E>>| entry.graph == *graph && entry.outputs == outputs;
    if let Some(entry) = lock().iter().find(same) {
        return Ok(entry.program.clone());
    }
    let _span = tracing::info_span!("rigel", compile = name).entered();
    let program = Arc::new(Program::compile(device, name, graph, outputs, Split::of(device))?);
    let entry = Entry { graph: graph.clone(), outputs: outputs.to_vec(), program: program.clone() };
    lock().push(Arc::new(entry));
    Ok(program)
}

/// The matrices and parameters that a table's expressions read.
pub(crate) struct Inputs<'a, E: Element> {
    pub(crate) main: Columns<'a, E::Base>,
    pub(crate) preprocessed: Option<Columns<'a, E::Base>>,
    pub(crate) permutation: Option<Columns<'a, E::Base>>,
    pub(crate) selectors: Columns<'a, E::Base>,
    /// With the logarithm of the period.
    pub(crate) periodic: Option<(Columns<'a, E::Base>, u32)>,
    pub(crate) publics: Option<View<'a, E::Base>>,
    pub(crate) extension: Option<View<'a, E>>,
}

impl<'a, E: Element> Inputs<'a, E> {
    fn bindings(&self) -> Bindings<'a, E> {
        let mut bindings = Bindings::new();
        // A place that no expression reads is filled with the trace.
        let mut inputs = [Input::from(self.main); 5];
        let mut place = |at: usize, columns: Option<Columns<'a, E::Base>>| {
            if let Some(columns) = columns {
                inputs[at] = columns.into();
            }
        };
        place(input::PREPROCESSED, self.preprocessed);
        place(input::PERMUTATION, self.permutation);
        place(input::SELECTORS, Some(self.selectors));
        if let Some((columns, log_period)) = self.periodic {
            inputs[input::PERIODIC] = Input::from(columns).repeating(log_period);
        }
        bindings.inputs = inputs.to_vec();
        bindings.parameters = self.publics;
        bindings.extension_parameters = self.extension;
        bindings
    }

    /// Runs a program that stores columns, over the rows of the trace in their natural order.
    pub(crate) fn store(
        &self,
        stream: &Stream,
        program: &Program<E>,
        outputs: &mut [&mut Matrix<E::Base>],
    ) -> Result<()> {
        let mut bindings = self.bindings();
        bindings.outputs = outputs.iter_mut().map(|matrix| (&mut **matrix).into()).collect();
        program.run(stream, Rows::Natural { rows: self.main.rows() }, &bindings)
    }

    /// Runs a program that folds constraints, over a bit-reversed domain of 2^`log_rows` rows on which a row of the
    /// trace is 2^`log_step` rows from the next.
    pub(crate) fn fold(
        &self,
        stream: &Stream,
        program: &Program<E>,
        (log_rows, log_step): (u32, u32),
        weights: &Buffer<E>,
        folded: Folded<'_, E::Base>,
    ) -> Result<()> {
        let bindings = self.bindings().weights(weights).folded(folded);
        program.run(stream, Rows::BitReversed { log_rows, log_step }, &bindings)
    }
}
