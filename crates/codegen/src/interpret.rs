//! Graphs that run without a compiler: one kernel for each field reads a list of instructions.
//!
//! An interpreted graph computes what the compiled one does, some ten times slower, and is ready at once, where
//! hundreds of kernels take a compiler seconds. So it bridges the time until they are compiled.

use std::any::TypeId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rigel_gpu::{Argument, ArgumentList, Arguments, Buffer, Device, Kernel, Result, Shape as Grid, Stream, View};
use rigel_kernels::code::parameters::{Parameters, parameters};
use rigel_kernels::code::source;
use rigel_kernels::field::Element;

use crate::bindings::{Bindings, Rows};
use crate::graph::{ExpressionGraph, FieldKind, Node, Value};
use crate::output::Output;
use crate::print::{LaunchNumbers, MATRICES, Needs, head};
use crate::quick::QuickMap;
use crate::split::{Step, in_order};

/// Threads of a block.
const THREADS: u32 = 128;
/// The most different offsets of rows, 0 included.
const OFFSETS: usize = 16;
/// Bytes of shared memory for the slots of one thread. With rows, pointers and what the system reserves, a block takes
/// 27 KiB, so that eight share a multiprocessor of 228 KiB.
const NEAR_BYTES: usize = 144;
/// The most bytes of global memory for slots.
const MOST_FAR_BYTES: usize = 256 << 20;
/// Blocks that a multiprocessor runs at once.
const RESIDENT_BLOCKS: u32 = 8;

parameters! {
    /// The length of a list of instructions, and the offsets that its columns refer to by number.
    #[derive(Default)]
    struct Tape = "Tape" => {
        instructions: u32,
        offsets: u32,
        folds: u32,
        padding: u32,
        offset: [i32; OFFSETS],
    }
}

/// The operations, in the order of the enumeration in `interpret.cu`.
#[derive(Clone, Copy)]
enum Operation {
    Add,
    Sub,
    Mul,
    Neg,
    AddExtension,
    SubExtension,
    MulExtension,
    MulExtensionByBase,
    NegExtension,
    Fold,
    FoldExtension,
    Store,
    StoreExtension,
}

/// The source of an operand, in the order of the enumeration in `interpret.cu`.
#[derive(Clone, Copy)]
enum From {
    Slot,
    Column,
    Constant,
    Parameter,
}

/// An operand: its description in 12 bits, and its index.
type Operand = (u32, u32);

/// A graph's outputs as instructions.
pub struct Instructions<E: Element> {
    /// One more than are executed: the kernel reads ahead.
    list: Vec<[u32; 4]>,
    /// The constants, at least one: a buffer is not empty.
    constants: Vec<E::Base>,
    offsets: Vec<i32>,
    needs: Needs,
    /// The slots of a thread.
    slots: usize,
}

impl<E: Element> Instructions<E> {
    /// The instructions of a graph. `None` if it reads columns at more than 16 offsets, or has more than [`MATRICES`]
    /// matrices.
    pub fn new(graph: &ExpressionGraph<E>, outputs: &[Output]) -> Option<Self> {
        let Assembler { list, mut constants, offsets, needs, slots, .. } =
            Assembler::new(graph).assemble(outputs)?;
        constants.push(E::Base::default());
        Some(Self { list, constants, offsets, needs, slots: slots.count })
    }
}

/// A graph's outputs as instructions in a device's memory.
pub struct InterpretedGraph<E: Element> {
    kernel: Kernel,
    needs: Needs,
    tape: Tape,
    instructions: Buffer<[u32; 4]>,
    constants: Buffer<E::Base>,
    slots: usize,
}

impl<E: Element> InterpretedGraph<E> {
    /// Uploads instructions.
    pub fn new(stream: &Stream, instructions: &Instructions<E>) -> Result<Self> {
        let Instructions { list, constants, offsets, needs, slots } = instructions;
        let mut tape = Tape {
            instructions: list.len() as u32 - 1,
            offsets: offsets.len() as u32,
            folds: u32::from(needs.folds),
            ..Tape::default()
        };
        tape.offset[..offsets.len()].copy_from_slice(offsets);
        let kernel = kernel::<E>(stream.device())?;
        let (instructions, constants) = (stream.upload(list)?, stream.upload(constants)?);
        // Other streams may run them next.
        stream.synchronize()?;
        Ok(Self { kernel, needs: needs.clone(), tape, instructions, constants, slots: *slots })
    }

    /// The number of instructions for each row.
    pub fn instructions(&self) -> usize {
        self.tape.instructions as usize
    }

    /// Computes the outputs of all rows.
    pub fn run(&self, stream: &Stream, rows: Rows, bindings: &mut Bindings<'_, E>) -> Result<()> {
        let numbers = bindings.numbers(rows, &self.needs)?;
        let far = self.slots.saturating_sub(near_slots::<E>());
        let block_bytes = far * THREADS as usize * size_of::<E::Base>();
        let most_blocks = (MOST_FAR_BYTES / block_bytes.max(1)).clamp(1, u32::MAX as usize) as u32;
        let resident = stream.device().properties().multiprocessors.max(1) * RESIDENT_BLOCKS;
        let blocks = Grid::cover(rows.count(), THREADS)?.blocks[0].min(resident).min(most_blocks);
        let mut slots = stream.alloc::<E::Base>((far * (blocks * THREADS) as usize).max(1))?;
        let (instructions, constants) = (self.instructions.view(), self.constants.view());
        let launch = Launch { program: self, instructions, constants, numbers, bindings, slots: &mut slots };
        self.kernel.launch(stream, Grid::new(blocks, THREADS), launch)
    }
}

impl<E: Element> std::fmt::Debug for InterpretedGraph<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InterpretedGraph<{}>({} instructions)", E::NAME, self.instructions())
    }
}

/// The slots of a thread that are in shared memory.
fn near_slots<E: Element>() -> usize {
    NEAR_BYTES / size_of::<E::Base>()
}

/// The key of the interpreter of a field. Its type is private, so that nobody else gets the kernel from the device.
#[derive(Clone, PartialEq, Eq, Hash)]
struct InterpreterOf(TypeId);

/// The interpreter of a field.
fn kernel<E: Element>(device: &Device) -> Result<Kernel> {
    let kernel = device.kept(&InterpreterOf(TypeId::of::<E>()), |device| {
        let text = format!(
            "{}constexpr u32 THREADS = {THREADS}, OFFSETS = {OFFSETS}, NEAR_SLOTS = {};\n{}\n{}",
            head::<E>(),
            near_slots::<E>(),
            include_str!("interpret.cu"),
            Tape::layout().assertions()
        );
        // SAFETY: the kernel accesses a row of each matrix, in columns and rows that `Bindings::numbers` has checked
        // for all instructions of a list, and its own slots. It does not leave this module, whose only launch passes
        // these numbers.
        let text = unsafe { source("interpret.cu", &text) };
        Ok((device.compile(&text.kernel("interpret"))?.kernel("interpret")?, 0))
    })?;
    Ok((*kernel).clone())
}

/// Compiles the interpreter of a field, or finds it in the cache.
pub fn compile_interpreter<E: Element>(device: &Device) -> Result<()> {
    kernel::<E>(device).map(|_| ())
}

/// The arguments in the order of the kernel's parameters. What the instructions use is there: the bindings were
/// checked. For what they do not use, the kernel gets a pointer that it does not follow.
struct Launch<'a, 'b, E: Element> {
    program: &'a InterpretedGraph<E>,
    instructions: View<'a, [u32; 4]>,
    constants: View<'a, E::Base>,
    numbers: LaunchNumbers,
    bindings: &'a mut Bindings<'b, E>,
    slots: &'a mut Buffer<E::Base>,
}

impl<E: Element> Arguments for Launch<'_, '_, E> {
    fn push_all<'a>(&'a self, list: &mut ArgumentList<'a>) {
        let Self { program, instructions, constants, numbers, bindings, slots } = self;
        numbers.push(list);
        program.tape.push(list);
        instructions.push(list);
        constants.push(list);
        for index in 0..MATRICES {
            match bindings.inputs.get(index).filter(|_| program.needs.inputs.contains_key(&index)) {
                Some(input) => input.values.push(list),
                None => constants.push(list),
            }
        }
        for index in 0..MATRICES {
            match bindings.outputs.get(index).filter(|_| program.needs.outputs.contains_key(&index)) {
                Some(output) => output.values.push(list),
                None => slots.push(list),
            }
        }
        bindings.parameters.push(list);
        bindings.extension_parameters.push(list);
        bindings.weights.push(list);
        match bindings.folded.as_ref().filter(|_| program.needs.folds) {
            Some(folded) => {
                folded.scale.push(list);
                folded.values.push(list);
            }
            None => {
                constants.push(list);
                slots.push(list);
            }
        }
        slots.push(list);
    }
}

/// A list of instructions in the making. Its methods return `None` if the graph is beyond the interpreter.
struct Assembler<'a, E: Element> {
    graph: &'a ExpressionGraph<E>,
    list: Vec<[u32; 4]>,
    constants: Vec<E::Base>,
    offsets: Vec<i32>,
    needs: Needs,
    slots: Slots,
    /// The slot that holds each value now, or the place of a constant; indexed by value.
    place_of: Vec<u32>,
}

/// The place of a value that has none.
const NOWHERE: u32 = u32::MAX;

/// The slots of a thread.
#[derive(Default)]
struct Slots {
    /// Free slots in groups, by their number. The first are in shared memory, so they are taken first.
    free: QuickMap<usize, BinaryHeap<Reverse<u32>>>,
    count: usize,
}

impl Slots {
    fn take(&mut self, words: usize) -> u32 {
        if let Some(Reverse(slot)) = self.free.get_mut(&words).and_then(BinaryHeap::pop) {
            return slot;
        }
        self.count += words;
        (self.count - words) as u32
    }

    fn give_back(&mut self, words: usize, slot: u32) {
        self.free.entry(words).or_default().push(Reverse(slot));
    }
}

impl<'a, E: Element> Assembler<'a, E> {
    fn new(graph: &'a ExpressionGraph<E>) -> Self {
        Self {
            graph,
            list: Vec::new(),
            constants: Vec::new(),
            offsets: Vec::new(),
            needs: Needs::default(),
            slots: Slots::default(),
            place_of: vec![NOWHERE; graph.len()],
        }
    }

    fn assemble(mut self, outputs: &[Output]) -> Option<Self> {
        let graph = self.graph;
        let steps = in_order(graph, outputs, 0..outputs.len());
        let in_slot = |value: &Value| graph.is_computed(*value) && !graph.node(*value).is_load();
        let uses = |step: &Step| {
            let (operands, output) = match *step {
                Step::Compute(value) => (Some(graph.node(value).operands()), None),
                Step::Emit(index) => (None, Some(outputs[index].value())),
                _ => (None, None),
            };
            operands.into_iter().flatten().chain(output).filter(in_slot)
        };
        let mut last_use = vec![0; graph.len()];
        for (at, step) in steps.iter().enumerate() {
            uses(step).for_each(|value| last_use[value.index()] = at);
        }
        for (at, step) in steps.iter().enumerate() {
            // Operands are read before the result is written, so that it may take the slot of one of them.
            match *step {
                Step::Compute(value) if in_slot(&value) => {
                    let (operation, a, b) = self.operation(value)?;
                    self.release(uses(step), at, &last_use);
                    let slot = self.slots.take(graph.words(value));
                    self.place_of[value.index()] = slot;
                    self.push(operation, slot, a, b);
                }
                Step::Emit(index) => {
                    self.emit(outputs[index])?;
                    self.release(uses(step), at, &last_use);
                }
                _ => {}
            }
        }
        self.list.push([0; 4]);
        Some(self)
    }

    /// Frees the slots of values that are used for the last time.
    fn release(&mut self, values: impl Iterator<Item = Value>, at: usize, last_use: &[usize]) {
        for value in values.filter(|value| last_use[value.index()] == at) {
            // Both operands may be the same value.
            let slot = std::mem::replace(&mut self.place_of[value.index()], NOWHERE);
            if slot != NOWHERE {
                self.slots.give_back(self.graph.words(value), slot);
            }
        }
    }

    fn push(&mut self, operation: Operation, to: u32, a: Operand, b: Operand) {
        self.list.push([operation as u32 | a.0 << 8 | b.0 << 20, to, a.1, b.1]);
    }

    /// The operation that computes a value, and its operands.
    fn operation(&mut self, value: Value) -> Option<(Operation, Operand, Operand)> {
        let kind = self.graph.kind(value);
        let (a, b, base, extension) = match self.graph.node(value) {
            Node::Add(a, b) => (a, b, Operation::Add, Operation::AddExtension),
            Node::Sub(a, b) => (a, b, Operation::Sub, Operation::SubExtension),
            Node::Mul(a, b) if self.graph.kind(a) != self.graph.kind(b) => {
                let (a, b) = if self.graph.kind(a) == FieldKind::Base { (b, a) } else { (a, b) };
                let operands = (self.operand(a, FieldKind::Extension)?, self.operand(b, FieldKind::Base)?);
                return Some((Operation::MulExtensionByBase, operands.0, operands.1));
            }
            Node::Mul(a, b) => (a, b, Operation::Mul, Operation::MulExtension),
            Node::Neg(a) => {
                let operation = if kind == FieldKind::Base { Operation::Neg } else { Operation::NegExtension };
                return Some((operation, self.operand(a, kind)?, (0, 0)));
            }
            leaf => unreachable!("a leaf is read where it is used: {leaf:?}"),
        };
        let operation = if kind == FieldKind::Base { base } else { extension };
        Some((operation, self.operand(a, kind)?, self.operand(b, kind)?))
    }

    /// A value as an operand of an operation on elements of this kind.
    fn operand(&mut self, value: Value, wanted: FieldKind) -> Option<Operand> {
        let kind = self.graph.kind(value);
        let lifted = if wanted != kind { 4 } else { 0 };
        let described = |from: From, index: usize| Some((from as u32 | lifted, number(index)?));
        match self.graph.node(value) {
            Node::Constant(_) => {
                let place = self.constant(value);
                described(From::Constant, place)
            }
            Node::Parameter(index) => {
                self.needs.reads_parameter(index);
                described(From::Parameter, index)
            }
            // An extension of degree 1 has one kind of elements and two kinds of parameters.
            Node::ExtensionParameter(index) if kind == FieldKind::Base => {
                self.needs.reads_extension_parameter(index);
                Some((From::Parameter as u32 | 4, number(index)?))
            }
            Node::ExtensionParameter(index) => {
                self.needs.reads_extension_parameter(index);
                described(From::Parameter, index)
            }
            Node::Column { input, column, offset } => {
                self.needs.reads(input, column, 1, offset);
                let place = self.place(input, offset)?;
                described(From::Column, column).map(|(from, column)| (from | place, column))
            }
            Node::ExtensionColumn { input, first_column, offset } => {
                self.needs.reads(input, first_column, E::DEGREE, offset);
                let place = self.place(input, offset)?;
                described(From::Column, first_column).map(|(from, column)| (from | place, column))
            }
            _ => described(From::Slot, self.place_of[value.index()] as usize),
        }
    }

    /// The place of a constant's first coefficient. One of the base field has one, one of the extension all.
    fn constant(&mut self, value: Value) -> usize {
        let place = &mut self.place_of[value.index()];
        if *place == NOWHERE {
            *place = self.constants.len() as u32;
            let constant = self.graph.as_constant(value).expect("a constant");
            self.constants.extend(&constant.parts()[..self.graph.words(value)]);
        }
        *place as usize
    }

    /// The bits of a column's description that say which matrix and offset it has.
    fn place(&mut self, input: usize, offset: i32) -> Option<u32> {
        let known = self.offsets.iter().position(|&known| known == offset);
        let index = known.unwrap_or_else(|| {
            self.offsets.push(offset);
            self.offsets.len() - 1
        });
        (input < MATRICES && index < OFFSETS).then_some((input as u32) << 3 | (index as u32) << 6)
    }

    fn emit(&mut self, output: Output) -> Option<()> {
        let value = output.value();
        let kind = self.graph.kind(value);
        let a = self.operand(value, kind)?;
        match output {
            Output::Fold { weight, .. } => {
                self.needs.folds_with(weight);
                let base = kind == FieldKind::Base;
                let operation = if base { Operation::Fold } else { Operation::FoldExtension };
                self.push(operation, number(weight)?, a, (0, 0));
            }
            Output::Store { output, column, .. } => self.store(kind, output, column, a)?,
            Output::StoreExtension { output, column, .. } if E::DEGREE == 1 => {
                self.store(kind, output, column, a)?
            }
            Output::StoreExtension { output, column, .. } => {
                let a = self.operand(value, FieldKind::Extension)?;
                self.store(FieldKind::Extension, output, column, a)?;
            }
        }
        Some(())
    }

    fn store(&mut self, kind: FieldKind, output: usize, column: usize, a: Operand) -> Option<()> {
        if output >= MATRICES {
            return None;
        }
        let (operation, columns) = match kind {
            FieldKind::Base => (Operation::Store, 1),
            FieldKind::Extension => (Operation::StoreExtension, E::DEGREE),
        };
        self.needs.writes(output, column, columns);
        self.push(operation, number(column)?, a, (output as u32, 0));
        Some(())
    }
}

fn number(index: usize) -> Option<u32> {
    u32::try_from(index).ok()
}
