//! Cairo programs, run for a proof.

use std::fs;
use std::path::Path;
use std::time::Instant;

use cairo_air::air::PublicMemory;
use cairo_vm::Felt252;
use cairo_vm::cairo_run::{CairoRunConfig, cairo_run_program_with_initial_scope};
use cairo_vm::hint_processor::builtin_hint_processor::builtin_hint_processor_definition::BuiltinHintProcessor;
use cairo_vm::types::builtin_name::BuiltinName;
use cairo_vm::types::exec_scope::ExecutionScopes;
use cairo_vm::types::layout_name::LayoutName;
use cairo_vm::types::program::Program as VmProgram;
use cairo_vm::vm::errors::cairo_run_errors::CairoRunError;
use cairo_vm::vm::errors::vm_errors::VirtualMachineError;
use cairo_vm::vm::errors::vm_exception::VmException;
use cairo_vm::vm::runners::cairo_runner::{CairoRunner, RunResources};
use serde_json::Value;
use stwo_cairo_adapter::{ProverInput, PublicSegmentContext};

use crate::adapter::adapt;
use crate::error::{Error, Result};
use crate::executable;
use crate::program_input::input_hints;
use crate::verify::Statement;

/// A compiled program: the JSON that `cairo-compile --proof_mode` writes for Cairo 0, or a Cairo 1 executable, which
/// `scarb build` makes for an `executable` target.
///
/// ```
/// // A program that is not one gives an error that says why.
/// let error = rigel_cairo::Program::from_json(b"{}").err().expect("an empty object is none");
/// assert!(error.to_string().contains("the program cannot be run for a proof"), "{error}");
/// ```
pub struct Program {
    vm: VmProgram,
    hints: Hints,
}

/// The hints of a program.
enum Hints {
    /// The hints' code.
    Cairo0(Vec<String>),
    Cairo1(executable::Hints),
}

/// The options of a program's run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The arguments: for Cairo 0 the value that hints of the program read as `program_input`; for Cairo 1 an array of
    /// field elements, as `Serde` writes the arguments of the executable function.
    pub program_input: Option<Value>,
    /// The largest number of steps; none for no limit.
    pub max_steps: Option<usize>,
}

/// A program's run.
pub struct Run {
    /// The input of the prover.
    pub input: ProverInput,
    /// The number of steps.
    pub steps: usize,
    /// The time of the virtual machine, in milliseconds.
    pub vm_ms: f64,
    /// The time of the adapter, in milliseconds.
    pub adapt_ms: f64,
}

/// Builtins in the order in which `main` has to declare those that it uses.
const BUILTINS: [BuiltinName; 11] = [
    BuiltinName::output,
    BuiltinName::pedersen,
    BuiltinName::range_check,
    BuiltinName::ecdsa,
    BuiltinName::bitwise,
    BuiltinName::ec_op,
    BuiltinName::keccak,
    BuiltinName::poseidon,
    BuiltinName::range_check96,
    BuiltinName::add_mod,
    BuiltinName::mul_mod,
];

impl Program {
    /// Reads a compiled program.
    ///
    /// # Errors
    /// A file that can't be read, and those of [`from_json`](Self::from_json).
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = fs::read(path).map_err(|error| Error::File { path: path.into(), error })?;
        Self::from_json(&text)
    }

    /// A compiled program from its JSON.
    ///
    /// # Errors
    /// JSON of something else, or of a program that was not compiled in proof mode or does not declare the output.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let json: Value =
            serde_json::from_slice(text).map_err(|error| Error::Program(format!("not JSON: {error}")))?;
        let (vm, hints) = if json.get("entrypoints").is_some() {
            let (vm, hints) = executable::read(json)?;
            (vm, Hints::Cairo1(hints))
        } else {
            let hints = hints(&json)?;
            let vm =
                VmProgram::from_bytes(text, Some("main")).map_err(|error| Error::Program(error.to_string()))?;
            let is_label = |name: &str| vm.get_identifier(&format!("__main__.{name}")).is_some();
            if !(is_label("__start__") && is_label("__end__")) {
                return Err(Error::Program("compile it with `cairo-compile --proof_mode`".into()));
            }
            (vm, Hints::Cairo0(hints))
        };
        let declared: Vec<&BuiltinName> = vm.iter_builtins().collect();
        let in_order: Vec<&BuiltinName> = BUILTINS.iter().filter(|name| declared.contains(name)).collect();
        if declared != in_order || declared.first() != Some(&&BuiltinName::output) {
            let names = |names: &mut dyn Iterator<Item = &BuiltinName>| {
                names.map(|name| name.to_str()).collect::<Vec<_>>().join(" ")
            };
            return Err(Error::Program(format!(
                "it declares %builtins {}; it must declare `output`, and others only in this order: {}",
                names(&mut declared.into_iter()),
                names(&mut BUILTINS.iter())
            )));
        }
        Ok(Self { vm, hints })
    }

    /// Checks that a proof's public memory holds this program.
    pub(crate) fn check(&self, memory: &PublicMemory) -> Result<()> {
        let proven: Vec<Felt252> = memory.program.iter().map(|(_, words)| felt(words)).collect();
        let own: Vec<Felt252> = self.vm.iter_data().filter_map(|value| value.get_int_ref().copied()).collect();
        if own != proven {
            return Err(Error::Rejected(format!(
                "it is of another program: {} words, and the given one has {}; its hash is {}",
                proven.len(),
                own.len(),
                Statement::new(memory)?.program_hash
            )));
        }
        Ok(())
    }

    /// Runs the program for a proof, and adapts the run for the prover.
    ///
    /// # Errors
    /// A program that fails, does not end within the limit, or has hints that the virtual machine does not know.
    pub fn run(&self, options: &RunOptions) -> Result<Run> {
        let began = Instant::now();
        let runner = self.execute(options)?;
        let vm_ms = began.elapsed().as_secs_f64() * 1e3;
        let steps = runner.get_relocatable_trace().map_or(0, <[_]>::len);

        let began = Instant::now();
        let mut input = adapt(&runner)?;
        // The adapter takes all builtins to be declared.
        let declared: Vec<BuiltinName> = self.vm.iter_builtins().copied().collect();
        input.public_segment_context = PublicSegmentContext::new(&declared);
        let adapt_ms = began.elapsed().as_secs_f64() * 1e3;
        Ok(Run { input, steps, vm_ms, adapt_ms })
    }

    /// Runs the program on the virtual machine.
    pub(crate) fn execute(&self, options: &RunOptions) -> Result<CairoRunner> {
        let config = CairoRunConfig {
            trace_enabled: true,
            relocate_trace: false,
            layout: LayoutName::all_cairo_stwo,
            fill_holes: true,
            proof_mode: true,
            disable_trace_padding: true,
            ..CairoRunConfig::default()
        };
        let mut scopes = ExecutionScopes::new();
        let resources = options.max_steps.map_or_else(RunResources::default, RunResources::new);
        let arguments = options.program_input.as_ref();
        match &self.hints {
            Hints::Cairo0(hints) => {
                scopes.insert_value("program_object", self.vm.clone());
                let mut hints = BuiltinHintProcessor::new(input_hints(hints, arguments)?, resources);
                cairo_run_program_with_initial_scope(&self.vm, &config, &mut hints, scopes)
                    .map_err(|error| failure(&error, options))
            }
            Hints::Cairo1(hints) => {
                let mut hints = executable::Runner::new(hints, arguments, resources)?;
                cairo_run_program_with_initial_scope(&self.vm, &config, &mut hints, scopes).map_err(|error| {
                    match failure(&error, options) {
                        // The program has its results, or its panic, before it ends.
                        limit @ Error::TooManySteps { .. } => limit,
                        other => hints.panic().map_or(other, Error::Run),
                    }
                })
            }
        }
    }
}

/// Reads a prover input, the JSON that upstream's adapter writes.
///
/// # Errors
/// A file that can't be read, or holds something else.
pub fn read_prover_input(path: impl AsRef<Path>) -> Result<ProverInput> {
    let path = path.as_ref();
    let text = fs::read(path).map_err(|error| Error::File { path: path.into(), error })?;
    let parsed = serde_json::from_slice(&text);
    parsed.map_err(|error| Error::Content { path: path.into(), detail: format!("not a prover input: {error}") })
}

/// The code of all hints of a compiled Cairo 0 program.
fn hints(json: &Value) -> Result<Vec<String>> {
    let Some(hints) = json.get("hints").and_then(Value::as_object) else {
        return Err(Error::Program(
            "neither a compiled Cairo 0 program nor an executable: it has no hints".into(),
        ));
    };
    let of_pc = hints.values().filter_map(Value::as_array).flatten();
    Ok(of_pc.filter_map(|hint| hint.get("code")?.as_str().map(ToString::to_string)).collect())
}

/// A value of a proof's public memory.
fn felt(words: &[u32; 8]) -> Felt252 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Felt252::from_bytes_le_slice(&bytes)
}

fn failure(error: &CairoRunError, options: &RunOptions) -> Error {
    let cause = match error {
        CairoRunError::VirtualMachine(cause)
        | CairoRunError::VmException(VmException { inner_exc: cause, .. }) => Some(cause),
        _ => None,
    };
    match (cause, options.max_steps) {
        (Some(VirtualMachineError::UnfinishedExecution), Some(limit)) => Error::TooManySteps { limit },
        _ => Error::Run(error.to_string().trim_end().to_string()),
    }
}
