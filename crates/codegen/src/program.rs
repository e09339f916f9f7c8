//! Graphs as compiled kernels.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, PoisonError};

use rigel_gpu::{
    Argument, ArgumentList, Arguments, Buffer, Device, Error, Kernel, Lock, Result, Shape as Grid, Source, Stream,
    View, background,
};
use rigel_kernels::code::source;
use rigel_kernels::field::Element;

use crate::bindings::{Bindings, Rows};
use crate::graph::ExpressionGraph;
use crate::output::Output;
use crate::print::{LaunchNumbers, MATRICES, Needs, THREADS, print};
use crate::split::{Plan, Split};

/// A graph's outputs as kernels, compiled for one device.
///
/// For each row, every output is computed from the inputs at that row and its neighbours. It costs a read of
/// each column that is used (once a kernel and offset), the arithmetic of the graph (more where kernels compute
/// the same), and a write of each output. Folded sums are read and written once more for each further kernel
/// that adds to them.
pub struct CompiledGraph<E: Element> {
    parts: Vec<Part>,
    needs: Needs,
    scratch_columns: usize,
    element: PhantomData<E>,
}

struct Part {
    /// The kernel. It trusts the numbers that it is launched with, so only [`CompiledGraph::run`] launches it.
    kernel: Kernel,
    needs: Needs,
}

impl<E: Element> CompiledGraph<E> {
    /// Splits, prints and compiles (or finds in the cache) what the outputs need, on all cores. Kernels are
    /// called `name_0`, `name_1`, ..
    pub fn compile(
        device: &Device,
        name: &str,
        graph: &ExpressionGraph<E>,
        outputs: &[Output],
        split: Split,
    ) -> Result<Self> {
        Texts::new(name, graph, outputs, split)?.compile(device, false)
    }

    /// The number of kernels, each of which is one launch of [`run`](Self::run).
    pub fn kernels(&self) -> usize {
        self.parts.len()
    }

    /// The columns that a kernel reads, by input; `None` if there is no such kernel.
    pub fn inputs_of(&self, kernel: usize) -> Option<&BTreeMap<usize, BTreeSet<usize>>> {
        self.parts.get(kernel).map(|part| &part.needs.inputs)
    }

    /// Columns of base elements that a run allocates for values that pass from one kernel to another.
    pub fn scratch_columns(&self) -> usize {
        self.scratch_columns
    }

    /// Computes the outputs of all rows.
    pub fn run(&self, stream: &Stream, rows: Rows, bindings: &mut Bindings<'_, E>) -> Result<()> {
        let mut numbers = bindings.numbers(rows, &self.needs)?;
        let cells = self.scratch_columns.checked_mul(rows.count());
        let cells =
            cells.ok_or_else(|| Error::shape("CompiledGraph::run", "too many rows for the scratch columns"))?;
        let mut scratch = if cells == 0 { None } else { Some(stream.alloc::<E::Base>(cells)?) };
        let grid = Grid::cover(rows.count(), THREADS)?;
        for Part { kernel, needs } in &self.parts {
            kernel.launch(stream, grid, Launch { numbers, needs, bindings, scratch: scratch.as_mut() })?;
            if needs.folds {
                numbers.accumulate = 1;
            }
        }
        Ok(())
    }
}

impl<E: Element> std::fmt::Debug for CompiledGraph<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CompiledGraph<{}>({} kernels)", E::NAME, self.kernels())
    }
}

/// The arguments of one kernel, in the order in which [`print`] declares them. What it needs is there: the
/// bindings were checked.
struct Launch<'a, 'b, E: Element> {
    numbers: LaunchNumbers,
    needs: &'a Needs,
    bindings: &'a mut Bindings<'b, E>,
    scratch: Option<&'a mut Buffer<E::Base>>,
}

impl<E: Element> Arguments for Launch<'_, '_, E> {
    fn push_all<'a>(&'a self, list: &mut ArgumentList<'a>) {
        let Self { numbers, needs, bindings, scratch } = self;
        numbers.push(list);
        needs.inputs.keys().for_each(|&input| bindings.inputs[input].values.push(list));
        needs.outputs.keys().for_each(|&output| bindings.outputs[output].values.push(list));
        push_if(needs.parameters > 0, &bindings.parameters, list);
        push_if(needs.extension_parameters > 0, &bindings.extension_parameters, list);
        push_if(needs.folds, &bindings.weights, list);
        if let (true, Some(folded)) = (needs.folds, &bindings.folded) {
            folded.scale.push(list);
            folded.values.push(list);
        }
        if let (true, Some(scratch)) = (needs.scratch, scratch) {
            scratch.push(list);
        }
    }
}

fn push_if<'a, T: rigel_gpu::Plain>(needed: bool, view: &'a Option<View<'_, T>>, list: &mut ArgumentList<'a>) {
    if let (true, Some(view)) = (needed, view) {
        view.push(list);
    }
}

/// The text of each kernel, as [`CompiledGraph::compile`] compiles it.
pub fn texts<E: Element>(
    name: &str,
    graph: &ExpressionGraph<E>,
    outputs: &[Output],
    split: Split,
) -> Result<Vec<String>> {
    let plan = plan(name, graph, outputs, split)?;
    let text = |i| print_kernel(name, graph, outputs, &plan, i).map(|kernel| kernel.text);
    (0..plan.kernels.len()).map(text).collect()
}

/// A graph's kernels before they are compiled.
pub(crate) struct Texts<E: Element> {
    kernels: Vec<(Source, Needs)>,
    scratch_columns: usize,
    element: PhantomData<E>,
}

impl<E: Element> Texts<E> {
    /// Splits the graph and prints its kernels.
    pub(crate) fn new(name: &str, graph: &ExpressionGraph<E>, outputs: &[Output], split: Split) -> Result<Self> {
        let plan = plan(name, graph, outputs, split)?;
        let print = |i| {
            let Printed { name, text, needs } = print_kernel(name, graph, outputs, &plan, i)?;
            // SAFETY: `print` writes kernels that access a row of each matrix, in columns and rows that
            // `Bindings::numbers` has checked, and write only to outputs, sums and scratch. They do not leave this
            // module, whose only launch passes these numbers.
            let text = unsafe { source(&format!("{name}.cu"), &text) };
            Ok((text.kernel(&name), needs))
        };
        let kernels = (0..plan.kernels.len()).map(print).collect::<Result<_>>()?;
        Ok(Self { kernels, scratch_columns: plan.scratch_columns, element: PhantomData })
    }

    /// Whether all of them are in the device's cache.
    pub(crate) fn are_cached(&self, device: &Device) -> Result<bool> {
        for (text, _) in &self.kernels {
            if !device.is_cached(text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compiles them, or finds them in the cache, on all cores. `are_cached` says that there is nothing to compile.
    pub(crate) fn compile(self, device: &Device, are_cached: bool) -> Result<CompiledGraph<E>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let parts = on_all_cores(self.kernels.len(), |i| {
            // What is only loaded does not queue behind compilers.
            let _turn = (!are_cached).then(|| {
                background::yield_to_callers();
                Turn::new(cores)
            });
            if background::is_stopping() {
                return Err(Error::Disabled);
            }
            let (text, needs) = &self.kernels[i];
            let kernel = device.compile(text)?.kernel(&text.kernels()[0])?;
            Ok(Part { kernel, needs: needs.clone() })
        })?;
        let mut needs = Needs::default();
        parts.iter().for_each(|part| needs.join(&part.needs));
        Ok(CompiledGraph { parts, needs, scratch_columns: self.scratch_columns, element: PhantomData })
    }
}

/// The columns of base elements that a run of these outputs would allocate for values that pass from one kernel to
/// another, without compiling anything.
pub fn scratch_columns<E: Element>(graph: &ExpressionGraph<E>, outputs: &[Output], split: Split) -> usize {
    Plan::new(graph, outputs, split).scratch_columns
}

struct Printed {
    name: String,
    text: String,
    needs: Needs,
}

fn wrong<T>(detail: String) -> Result<T> {
    Err(Error::shape("CompiledGraph::compile", detail))
}

/// Checks the name of a program, and that its outputs are values of the graph.
pub(crate) fn check<E: Element>(name: &str, graph: &ExpressionGraph<E>, outputs: &[Output]) -> Result<()> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(is_word) {
        return wrong(format!("{name:?} is no name for kernels; write letters, digits and `_`"));
    }
    if let Some(output) = outputs.iter().find(|output| !graph.contains(output.value())) {
        return wrong(format!("{:?} is no value of this graph of {} values", output.value(), graph.len()));
    }
    Ok(())
}

/// The kernels' steps.
fn plan<E: Element>(name: &str, graph: &ExpressionGraph<E>, outputs: &[Output], split: Split) -> Result<Plan> {
    check(name, graph, outputs)?;
    Ok(Plan::new(graph, outputs, split))
}

/// Kernel `i` of a plan.
fn print_kernel<E: Element>(
    name: &str,
    graph: &ExpressionGraph<E>,
    outputs: &[Output],
    plan: &Plan,
    i: usize,
) -> Result<Printed> {
    let name = format!("{name}_{i}");
    let (text, needs) = print(&name, graph, outputs, &plan.kernels[i]);
    for (what, last) in [("input", needs.inputs.keys().last()), ("output", needs.outputs.keys().last())] {
        if let Some(last) = last.filter(|&&last| last >= MATRICES) {
            return wrong(format!("{what} {last} (counted from 0) is used; there can be {MATRICES}"));
        }
    }
    Ok(Printed { name, text, needs })
}

/// A compilation's turn: in the whole process no more run at once than there are cores, though several graphs may be
/// compiled at the same time.
struct Turn;

static TURNS: (Lock<usize>, Condvar) = (Lock::new(0), Condvar::new());

impl Turn {
    fn new(most: usize) -> Self {
        let full = |taken: &mut usize| *taken >= most;
        let mut taken = TURNS.1.wait_while(TURNS.0.lock(), full).unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TURNS.0.lock() -= 1;
        TURNS.1.notify_one();
    }
}

/// `make` of each number below `count`, on all cores. After an error no further one is begun.
fn on_all_cores<T: Send>(count: usize, make: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let made: Lock<BTreeMap<usize, Result<T>>> = Lock::default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let in_background = background::is_background();
    let work = || {
        if in_background {
            background::join();
        }
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                break;
            }
            let one = make(i);
            if one.is_err() {
                next.store(count, Ordering::Relaxed);
            }
            made.lock().insert(i, one);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..cores.min(count) {
            // If the system has no more threads, those that there are do the work.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    made.into_inner().into_values().collect()
}
