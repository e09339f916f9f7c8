//! Cairo 1 executables, the artifacts of `scarb build` for an `executable` target.
//!
//! An executable is run from its standalone entry point, which has the layout of a Cairo 0 program in proof mode:
//! `ap += <builtins>`, a call, and a jump to itself. The virtual machine's own processor runs the hints of Cairo's
//! core library. What belongs to the runner is here: the arguments, the segments of dictionaries, and what a program
//! prints or panics with.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use cairo_lang_casm::assembler::AssembledCairoProgram;
use cairo_lang_casm::hints::{CoreHint, CoreHintBase, ExternalHint, Hint};
use cairo_lang_casm::operand::{CellRef, DerefOrImmediate, Operation, Register, ResOperand};
use cairo_vm::Felt252;
use cairo_vm::hint_processor::cairo_1_hint_processor::hint_processor::Cairo1HintProcessor;
use cairo_vm::hint_processor::hint_processor_definition::{HintProcessorLogic, HintReference};
use cairo_vm::serde::deserialize_program::{ApTracking, FlowTrackingData, HintParams};
use cairo_vm::types::builtin_name::BuiltinName;
use cairo_vm::types::exec_scope::ExecutionScopes;
use cairo_vm::types::program::Program as VmProgram;
use cairo_vm::types::relocatable::{MaybeRelocatable, Relocatable};
use cairo_vm::vm::errors::hint_errors::HintError;
use cairo_vm::vm::errors::vm_errors::VirtualMachineError;
use cairo_vm::vm::runners::cairo_runner::{ResourceTracker, RunResources};
use cairo_vm::vm::vm_core::VirtualMachine;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::program_input::felts;

/// The parts of `cairo-lang-executable`'s artifact that the runner needs.
#[derive(Deserialize)]
struct Executable {
    program: AssembledCairoProgram,
    entrypoints: Vec<EntryPoint>,
}

#[derive(Deserialize)]
struct EntryPoint {
    builtins: Vec<BuiltinName>,
    offset: usize,
    kind: String,
}

/// The hints of an executable, by the instruction before which they run.
pub(crate) type Hints = Vec<(usize, Vec<Hint>)>;

/// The jump to itself, at which a run ends, lies after `ap += <builtins>` and the call, two words each.
const END: usize = 4;

/// Reads an executable.
pub(crate) fn read(artifact: Value) -> Result<(VmProgram, Hints)> {
    let executable: Executable = serde_json::from_value(artifact).map_err(|error| {
        Error::Program(format!("not an executable that this version of cairo-lang-casm (2.15) reads: {error}"))
    })?;
    let Some(entry) = executable.entrypoints.into_iter().find(|entry| entry.kind == "Standalone") else {
        return Err(Error::Program(
            "the executable has no standalone entry point; build it without syscalls".into(),
        ));
    };
    let AssembledCairoProgram { bytecode, hints } = executable.program;
    let data = bytecode.iter().map(|word| Felt252::from(word).into()).collect();
    let by_place = hints.iter().map(|(place, _)| (*place, vec![parameters(*place)])).collect();
    let start = entry.offset;
    let Some(end) = start.checked_add(END).filter(|end| *end < bytecode.len()) else {
        let words = bytecode.len();
        return Err(Error::Program(format!("its entry point, {start}, is not within its {words} words")));
    };
    let program = VmProgram::new_for_proof(
        entry.builtins,
        data,
        start,
        end,
        by_place,
        Default::default(),
        HashMap::new(),
        Vec::new(),
        None,
    );
    Ok((program.map_err(|error| Error::Program(error.to_string()))?, hints))
}

/// The virtual machine knows hints by their code, which here is their place.
fn parameters(place: usize) -> HintParams {
    let flow_tracking_data =
        FlowTrackingData { ap_tracking: ApTracking::default(), reference_ids: HashMap::new() };
    HintParams { code: place.to_string(), accessible_scopes: Vec::new(), flow_tracking_data }
}

/// Runs the hints of an executable.
pub(crate) struct Runner<'a> {
    hints: HashMap<usize, &'a [Hint]>,
    core: Cairo1HintProcessor,
    arguments: Vec<MaybeRelocatable>,
    /// The values that the program returned or panicked with, once it has.
    returned: Option<Vec<Felt252>>,
}

impl<'a> Runner<'a> {
    /// A runner that gives the program these arguments: field elements, as `Serde` writes them.
    pub(crate) fn new(hints: &'a Hints, arguments: Option<&Value>, resources: RunResources) -> Result<Self> {
        let arguments = arguments.map_or(Ok(Vec::new()), felts);
        let arguments = arguments.map_err(|reason| Error::Program(format!("its arguments: {reason}")))?;
        Ok(Self {
            hints: hints.iter().map(|(place, hints)| (*place, hints.as_slice())).collect(),
            // All dictionaries but the first are in temporary segments, as the executable's last lines expect.
            core: Cairo1HintProcessor::new(&[], resources, true),
            arguments: arguments.into_iter().map(Into::into).collect(),
            returned: None,
        })
    }

    /// The message that a failed run panicked with.
    pub(crate) fn panic(&self) -> Option<String> {
        self.returned.as_deref().map(|data| format!("it panicked: {}", text(data)))
    }

    fn execute(&mut self, vm: &mut VirtualMachine, scopes: &mut ExecutionScopes, hint: &Hint) -> HintResult<()> {
        match hint {
            Hint::External(ExternalHint::WriteRunParam { dst, .. }) => {
                let (place, array) = (cell(vm, dst)?, vm.add_memory_segment());
                let end = vm.load_data(array, &self.arguments)?;
                vm.insert_value(place, array)?;
                vm.insert_value((place + 1)?, end)?;
            }
            Hint::External(ExternalHint::AddRelocationRule { src, dst }) => {
                let (from, to) = (pointer(vm, src)?, pointer(vm, dst)?);
                vm.add_relocation_rule(from, to.into())?;
            }
            Hint::External(ExternalHint::AddMarker { start, end }) => {
                self.returned = Some(values(vm, start, end)?);
            }
            // It notes where a panic began, for debuggers.
            Hint::External(ExternalHint::AddTrace { .. }) => {}
            // The standard output is the report's.
            Hint::Core(CoreHintBase::Core(CoreHint::DebugPrint { start, end })) => {
                eprint!("{}", text(&values(vm, start, end)?));
            }
            _ => self.core.execute(vm, scopes, hint)?,
        }
        Ok(())
    }
}

type HintResult<T> = std::result::Result<T, HintError>;

impl<'a> HintProcessorLogic for Runner<'a> {
    fn compile_hint(
        &self,
        code: &str,
        _: &ApTracking,
        _: &HashMap<String, usize>,
        _: &[HintReference],
        _: &[String],
        _: Arc<HashMap<String, Felt252>>,
    ) -> std::result::Result<Box<dyn Any>, VirtualMachineError> {
        let hints = code.parse().ok().and_then(|place: usize| self.hints.get(&place));
        let hints = hints.ok_or_else(|| VirtualMachineError::CompileHintFail(code.into()))?;
        Ok(Box::new(hints.to_vec()))
    }

    fn execute_hint(
        &mut self,
        vm: &mut VirtualMachine,
        scopes: &mut ExecutionScopes,
        hints: &Box<dyn Any>,
    ) -> HintResult<()> {
        let hints: &Vec<Hint> = hints.downcast_ref().ok_or(HintError::WrongHintData)?;
        hints.iter().try_for_each(|hint| self.execute(vm, scopes, hint))
    }
}

impl ResourceTracker for Runner<'_> {
    fn consumed(&self) -> bool {
        self.core.consumed()
    }

    fn consume_step(&mut self) {
        self.core.consume_step();
    }

    fn get_n_steps(&self) -> Option<usize> {
        self.core.get_n_steps()
    }

    fn run_resources(&self) -> &RunResources {
        self.core.run_resources()
    }
}

/// The address of a cell.
fn cell(vm: &VirtualMachine, cell: &CellRef) -> HintResult<Relocatable> {
    let base = match cell.register {
        Register::AP => vm.get_ap(),
        Register::FP => vm.get_fp(),
    };
    Ok((base + i32::from(cell.offset))?)
}

/// The pointer in a cell, or a constant number of cells behind it.
fn pointer(vm: &VirtualMachine, operand: &ResOperand) -> HintResult<Relocatable> {
    match operand {
        ResOperand::Deref(from) => Ok(vm.get_relocatable(cell(vm, from)?)?),
        ResOperand::BinOp(sum) if sum.op == Operation::Add => match &sum.b {
            DerefOrImmediate::Immediate(offset) => {
                Ok((vm.get_relocatable(cell(vm, &sum.a)?)? + &Felt252::from(&offset.value))?)
            }
            DerefOrImmediate::Deref(_) => Err(HintError::UnknownHint(format!("{operand} is no pointer").into())),
        },
        _ => Err(HintError::UnknownHint(format!("{operand} is no pointer").into())),
    }
}

/// The values between two pointers.
fn values(vm: &VirtualMachine, start: &ResOperand, end: &ResOperand) -> HintResult<Vec<Felt252>> {
    let (start, end) = (pointer(vm, start)?, pointer(vm, end)?);
    let values = vm.get_integer_range(start, (end - start)?)?;
    Ok(values.into_iter().map(|value| *value).collect())
}

/// The first word of a `ByteArray` in what is printed or panicked with.
const BYTE_ARRAY: &str = "0x46a6158a16a947e5916b2a2ca68501a45e93d7110e81aa2d6438b1c57c879a3";

/// Values as a person reads them: byte arrays and short strings as text, others as numbers.
fn text(mut values: &[Felt252]) -> String {
    let mut parts = Vec::new();
    while let [first, after @ ..] = values {
        let (part, rest) = byte_array(values).unwrap_or_else(|| (number(first), after));
        parts.push(part);
        values = rest;
    }
    parts.join(", ")
}

/// A value as a number, with the short string that it may be.
fn number(value: &Felt252) -> String {
    let bytes = value.to_bytes_be();
    let bytes = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    let is_text = !bytes.is_empty() && bytes.iter().all(|byte| *byte == b' ' || byte.is_ascii_graphic());
    let short_string = if is_text { format!(" ('{}')", String::from_utf8_lossy(bytes)) } else { String::new() };
    format!("{value:#x}{short_string}")
}

/// The text of a byte array at the beginning, and what is behind it: words of 31 bytes after their number, a shorter
/// word and its length.
fn byte_array(values: &[Felt252]) -> Option<(String, &[Felt252])> {
    let [mark, count, rest @ ..] = values else { return None };
    let count: usize =
        (*mark == Felt252::from_hex(BYTE_ARRAY).ok()?).then(|| count.to_biguint().try_into().ok())??;
    let (words, rest) = rest.split_at_checked(count)?;
    let [last, length, rest @ ..] = rest else { return None };
    let length: usize = length.to_biguint().try_into().ok().filter(|length| *length < 32)?;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_bytes_be()[1..].to_vec()).collect();
    bytes.extend(&last.to_bytes_be()[32 - length..]);
    Some((String::from_utf8_lossy(&bytes).into_owned(), rest))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::program::{Program, RunOptions};

    fn run(arguments: Value, max_steps: Option<usize>) -> Result<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/built/census.json");
        let options = RunOptions { program_input: Some(arguments), max_steps };
        let mut runner = Program::read(path)?.execute(&options)?;
        let mut output = String::new();
        runner.vm.write_output(&mut output).unwrap();
        Ok(output)
    }

    /// The outputs are those of `cairo-execute --prebuilt --print-outputs --args 6,5,3,5,9,5,3`.
    #[test]
    fn outputs_are_those_of_upstreams_runner() {
        let expected = "3\n36\n12\n\
                        884815845543921690619916109073603549722244228519724441998301147541121974772\n\
                        -1182407623468823618475745650659459930847406913660836575131014899507958866399\n";
        assert_eq!(run(json!([6, 5, 3, 5, 9, 5, 3]), None).unwrap(), expected);
    }

    #[test]
    fn failures_say_what_failed() {
        let error = |arguments, limit| run(arguments, limit).unwrap_err().to_string();
        assert_eq!(error(json!([0]), None), "the program failed: it panicked: a census needs at least one value");
        assert!(error(json!([3, 1]), None).contains("Failed to deserialize param #0"));
        assert!(error(json!([[1]]), None).contains("its arguments: [1] is not a field element"));
        assert!(error(json!([1, 1]), Some(100)).contains("did not end within 100 steps"));
    }

    #[test]
    fn other_artifacts_are_refused() {
        let refused = |artifact| read(artifact).err().unwrap().to_string();
        let program = json!({ "bytecode": ["0x1"], "hints": [] });
        assert!(refused(json!({ "program": program, "entrypoints": [] })).contains("no standalone entry point"));
        let unknown = json!({ "bytecode": [], "hints": [[0, [{ "Unheard": {} }]]] });
        assert!(refused(json!({ "program": unknown, "entrypoints": [] })).contains("cairo-lang-casm (2.15)"));
    }

    #[test]
    fn values_are_shown_as_text_and_numbers() {
        let mark = Felt252::from_hex(BYTE_ARRAY).unwrap();
        let word = |text: &str| Felt252::from_bytes_be_slice(text.as_bytes());
        let long =
            [mark, 1.into(), word("a sentence of thirty-one letters"[..31].trim_end()), word("s."), 2.into()];
        let values = [&long[..], &[word("overflow"), 7.into()]].concat();
        assert_eq!(text(&values), "a sentence of thirty-one letters., 0x6f766572666c6f77 ('overflow'), 0x7");
        // Half a byte array is shown as numbers.
        assert_eq!(text(&[mark]), BYTE_ARRAY);
    }
}
