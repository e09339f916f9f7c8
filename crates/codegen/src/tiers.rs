//! Programs that are ready at once: interpreted until their kernels are compiled.

use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, Condvar, OnceLock, PoisonError};

use rigel_gpu::testing::check_compilers;
use rigel_gpu::{Device, DeviceKind, Error, Lock, Result, Stream, background};
use rigel_kernels::field::Element;

use crate::bindings::{Bindings, Rows};
use crate::graph::ExpressionGraph;
use crate::interpret::{Instructions, InterpretedGraph, compile_interpreter};
use crate::output::Output;
use crate::program::{CompiledGraph, Texts, check};
use crate::quick::QuickHasher;
use crate::split::Split;

/// Graphs of fewer values have few kernels, which are loaded from the cache at once.
const SLOW_TO_LOAD: usize = 2_000;
/// Interpreting this many values, in all rows together, takes less time than loading kernels does.
const QUICK_TO_INTERPRET: usize = 1 << 33;

/// The policy that decides when programs are interpreted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interpretation {
    /// Runs wait for the compiler.
    Never,
    /// Programs are interpreted while kernels that are in no cache are being compiled.
    UntilCompiled,
    /// Kernels are compiled only on request.
    Always,
}

impl Interpretation {
    /// `RIGEL_INTERPRET`, or what suits the device: on the emulated one, which is there to test kernels, runs wait.
    fn of(device: &Device) -> Result<Self> {
        match std::env::var("RIGEL_INTERPRET").unwrap_or_default().as_str() {
            "" if device.kind() == DeviceKind::Emulated => Ok(Self::Never),
            "" | "until-compiled" => Ok(Self::UntilCompiled),
            "never" => Ok(Self::Never),
            "always" => Ok(Self::Always),
            other => Err(Error::shape(
                "RIGEL_INTERPRET",
                format!("{other:?} is none of `never`, `until-compiled` and `always`"),
            )),
        }
    }
}

/// The outputs of a graph as a program for a device.
///
/// Its kernels are compiled in the background, on all cores. A run does not wait for the compiler: until all of them
/// are there, it is interpreted ([`InterpretedGraph`]). Kernels from the disk cache are there in some milliseconds, so
/// a run waits for those, unless interpreting it takes less. The environment variable `RIGEL_INTERPRET` (`never`,
/// `until-compiled`, `always`) decides otherwise. On the emulated device runs wait for the compiler.
pub struct GraphProgram<E: Element> {
    name: String,
    graph: ExpressionGraph<E>,
    outputs: Vec<Output>,
    kernels: Lock<Kernels<E>>,
    changed: Condvar,
    /// The instructions, made when they are first needed.
    instructions: OnceLock<Option<Instructions<E>>>,
    interpreted: Lock<Option<Arc<InterpretedGraph<E>>>>,
}

/// The state of a program's kernels.
enum Kernels<E: Element> {
    /// No thread works on the kernels.
    Missing,
    /// A thread finds out what they are and whether they are in the cache, or loads them.
    Near,
    /// A thread compiles them, which takes long.
    Compiling,
    /// The kernels are loaded, or can't be compiled.
    Done(Result<Arc<CompiledGraph<E>>>),
}

/// A hash of a graph and its outputs, and a number that tells apart those with the same hash.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    hash: u64,
    attempt: u32,
}

/// The program of a graph, which the device keeps for reuse ([`Device::kept`]). Kernels are called `name_0`,
/// `name_1`, ..
pub fn program<E: Element>(
    device: &Device,
    name: &str,
    graph: &ExpressionGraph<E>,
    outputs: &[Output],
) -> Result<Arc<GraphProgram<E>>> {
    check(name, graph, outputs)?;
    let mut hasher = BuildHasherDefault::<QuickHasher>::default().build_hasher();
    graph.hash(&mut hasher);
    outputs.hash(&mut hasher);
    let mut key = Key { hash: hasher.finish(), attempt: 0 };
    loop {
        let program = device.kept(&key, |_| Ok((GraphProgram::new(name, graph, outputs), 0)))?;
        if program.graph == *graph && program.outputs == outputs {
            match Interpretation::of(device)? {
                Interpretation::Never => {
                    program.compiled(device)?;
                }
                Interpretation::UntilCompiled => program.start(device),
                Interpretation::Always => {}
            }
            return Ok(program);
        }
        key.attempt += 1;
    }
}

impl<E: Element> GraphProgram<E> {
    fn new(name: &str, graph: &ExpressionGraph<E>, outputs: &[Output]) -> Self {
        Self {
            name: name.to_owned(),
            graph: graph.clone(),
            outputs: outputs.to_vec(),
            kernels: Lock::new(Kernels::Missing),
            changed: Condvar::new(),
            instructions: OnceLock::new(),
            interpreted: Lock::default(),
        }
    }

    /// Computes the outputs of all rows, with the kernels if they are compiled.
    pub fn run(&self, stream: &Stream, rows: Rows, bindings: &mut Bindings<'_, E>) -> Result<()> {
        let device = stream.device();
        if self.is_interpreted(device, rows.count())? {
            match self.interpret(stream, rows, bindings) {
                Ok(true) => return Ok(()),
                // Only the kernels can do it.
                Ok(false) | Err(Error::OutOfMemory { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.compiled(device)?.run(stream, rows, bindings)
    }

    /// The kernels, once they are compiled or loaded.
    pub fn compiled(&self, device: &Device) -> Result<Arc<CompiledGraph<E>>> {
        let mut kernels = self.kernels.lock();
        loop {
            match &*kernels {
                Kernels::Done(result) => return result.clone(),
                Kernels::Missing => break,
                Kernels::Near | Kernels::Compiling => {
                    kernels = self.changed.wait(kernels).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        *kernels = Kernels::Near;
        drop(kernels);
        self.make(device)
    }

    /// Compiles or loads the kernels in the background, if no thread does.
    fn start(self: &Arc<Self>, device: &Device) {
        let mut kernels = self.kernels.lock();
        if !matches!(*kernels, Kernels::Missing) {
            return;
        }
        *kernels = Kernels::Near;
        drop(kernels);
        let task = Task { program: self.clone(), device: device.clone(), is_begun: false };
        background::spawn("rigel-compile", move || task.run());
        // Beside it, because a run may need them before the kernels are there.
        self.instructions();
    }

    /// Whether a run over so many rows is to be interpreted now. Unless that is quick, waits until it is known whether
    /// the kernels are in the cache, and if they are, until they are loaded.
    fn is_interpreted(&self, device: &Device, rows: usize) -> Result<bool> {
        match Interpretation::of(device)? {
            Interpretation::Never => return Ok(false),
            Interpretation::UntilCompiled => {}
            Interpretation::Always => return Ok(true),
        }
        let values = self.graph.len();
        let is_quick = values >= SLOW_TO_LOAD && values.saturating_mul(rows) <= QUICK_TO_INTERPRET;
        let waits = |kernels: &mut Kernels<E>| matches!(kernels, Kernels::Near) && !is_quick;
        let kernels = self.changed.wait_while(self.kernels.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        Ok(matches!(*kernels, Kernels::Near | Kernels::Compiling))
    }

    /// The program for the interpreter, unless it is beyond it.
    fn instructions(&self) -> Option<&Instructions<E>> {
        self.instructions.get_or_init(|| Instructions::new(&self.graph, &self.outputs)).as_ref()
    }

    /// Runs without the kernels, unless the graph is beyond the interpreter.
    fn interpret(&self, stream: &Stream, rows: Rows, bindings: &mut Bindings<'_, E>) -> Result<bool> {
        let known = self.interpreted.lock().clone();
        let interpreted = match known {
            Some(known) => known,
            None => {
                let Some(instructions) = self.instructions() else { return Ok(false) };
                let new = Arc::new(InterpretedGraph::new(stream, instructions)?);
                // Not kept if the kernels have come meanwhile: nobody would free it.
                let kernels = self.kernels.lock();
                if !matches!(*kernels, Kernels::Done(_)) {
                    self.interpreted.lock().get_or_insert_with(|| new.clone());
                }
                new
            }
        };
        interpreted.run(stream, rows, bindings)?;
        stream.device().count_interpreted();
        Ok(true)
    }

    /// Compiles or loads the kernels. The state is `Near` before, and not after.
    fn make(&self, device: &Device) -> Result<Arc<CompiledGraph<E>>> {
        let _span = tracing::info_span!("rigel", compile = self.name.as_str()).entered();
        // Left behind if the compiler panics.
        let mut state = Leaving { program: self, state: Kernels::Missing };
        let made = self.make_kernels(device).map(Arc::new);
        match &made {
            Ok(_) | Err(Error::Compile { .. }) => state.state = Kernels::Done(made.clone()),
            // The next to need the kernels tries again: memory may be free then.
            Err(_) => {}
        }
        drop(state);
        self.interpreted.lock().take();
        if let Err(error) = &made
            && !background::is_stopping()
        {
            tracing::warn!("the kernels of {} could not be compiled: {error}", self.name);
        }
        made
    }

    fn make_kernels(&self, device: &Device) -> Result<CompiledGraph<E>> {
        if background::is_stopping() {
            return Err(Error::Disabled);
        }
        for checker in check_compilers()? {
            Texts::new(&self.name, &self.graph, &self.outputs, Split::of(checker))?.compile(checker, false)?;
        }
        let texts = Texts::new(&self.name, &self.graph, &self.outputs, Split::of(device))?;
        let are_cached = texts.are_cached(device)?;
        if !are_cached {
            self.set(Kernels::Compiling);
            // A run that does not wait needs the interpreter first. If it fails, that run says so.
            if Interpretation::of(device)? == Interpretation::UntilCompiled && background::is_background() {
                let _ = compile_interpreter::<E>(device);
            }
        }
        texts.compile(device, are_cached)
    }

    fn set(&self, state: Kernels<E>) {
        *self.kernels.lock() = state;
        self.changed.notify_all();
    }
}

/// Sets a program's state when dropped.
struct Leaving<'a, E: Element> {
    program: &'a GraphProgram<E>,
    state: Kernels<E>,
}

impl<E: Element> Drop for Leaving<'_, E> {
    fn drop(&mut self) {
        self.program.set(std::mem::replace(&mut self.state, Kernels::Missing));
    }
}

/// A program to be compiled in the background.
struct Task<E: Element> {
    program: Arc<GraphProgram<E>>,
    device: Device,
    is_begun: bool,
}

impl<E: Element> Task<E> {
    fn run(mut self) {
        self.is_begun = true;
        // An error is in the program's state, or the next to need the kernels meets it again.
        let _ = self.program.make(&self.device);
    }
}

impl<E: Element> Drop for Task<E> {
    /// Resets the program's kernels if there was no thread for the task, so that the next to need them compiles
    /// them.
    fn drop(&mut self) {
        if !self.is_begun {
            self.program.set(Kernels::Missing);
        }
    }
}

impl<E: Element> std::fmt::Debug for GraphProgram<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GraphProgram<{}>({}, {} values)", E::NAME, self.name, self.graph.len())
    }
}
