//! Prepares an expression to run on the areas of a space, chunk by chunk.
//!
//! Each node of a chunk is a loop that writes to a slot, a buffer that stays in the L1 cache. Contiguous operands
//! are read in place, values that are the same for all elements are computed once, and a slot is reused as soon as
//! no later node reads it.

use std::cell::Cell;

use rigel_codegen::map::{Expression, Id, Node, Type};

use super::convert::convert_loop;
use super::loops::{Call, Loop, Source};
use super::moves;
use super::operation::{binary_loop, select_loop, unary_loop};
use super::space::{Area, MAX_AXES, Space, row_major};

/// An array to read: offset and strides count elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand<'a> {
    /// The memory's first byte.
    pub(crate) memory: *const u8,
    /// The offset of the element at index 0 of all axes.
    pub(crate) offset: usize,
    /// The strides of the axes.
    pub(crate) strides: &'a [isize],
}

/// The little-endian bytes of a scalar.
pub(crate) type Scalar = [u64; 3];

/// The size of a slot in bytes.
const SLOT_BYTES: usize = 16 << 10;
/// The largest number of elements of a chunk.
const MOST_PLACES: usize = 2048;

/// Scratch memory, aligned for all types and vectors.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// The scratch memory of a thread, reused between chunks.
#[derive(Default)]
pub(crate) struct Scratch {
    lines: Vec<Line>,
    sources: Vec<Source>,
}

impl Scratch {
    /// Runs `work` with this thread's scratch memory. A nested call gets a new one.
    pub(crate) fn with<R>(work: impl FnOnce(&mut Self) -> R) -> R {
        thread_local!(static KEPT: Cell<Scratch> = Cell::default());
        let mut scratch = KEPT.take();
        let result = work(&mut scratch);
        KEPT.set(scratch);
        result
    }
}

/// The shape of a plan's areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Parts of single rows.
    PartsOfRows,
    /// Several whole rows.
    WholeRows,
    /// Any boxes.
    Boxes,
}

/// The way in which a chunk reads an operand's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// The elements are contiguous and read in place.
    InPlace,
    /// One element for the whole chunk.
    Single,
    /// The elements are gathered first.
    Gathered,
}

enum Step {
    /// An input's elements, with the origin of its strides.
    Input { input: usize, origin: *const u8, size: usize, access: Access },
    /// The row-major indices, and the operand of the space that has their strides.
    Numbers { operand: usize },
    /// A loop over earlier nodes.
    Compute { run: Loop, arguments: [usize; 3] },
}

/// A step of every chunk: the node it computes and the slot it can write to.
struct Work {
    step: Step,
    node: usize,
    slot: usize,
}

/// An expression bound to operands.
pub(crate) struct Plan {
    pub(crate) space: Space,
    works: Vec<Work>,
    /// The values of nodes that are the same in all chunks.
    fixed: Vec<Source>,
    /// The memory that `fixed` points to.
    _values: Vec<[u64; 4]>,
    result: usize,
    slots: usize,
    slot_bytes: usize,
}

// SAFETY: the pointers refer to operands, which the creator of a plan keeps readable (from any thread) while it
// runs, and to values that the plan owns and only reads.
unsafe impl Sync for Plan {}

/// Asserts that the operands, scalars and strides match the expression and the shape.
///
/// # Panics
/// If they do not match.
pub(crate) fn check(expression: &Expression, shape: &[usize], inputs: &[Operand<'_>], scalars: &[Scalar]) {
    assert!(shape.len() <= MAX_AXES, "{} axes; the maximum is {MAX_AXES}", shape.len());
    assert_eq!(inputs.len(), expression.inputs().len(), "an operand for each input");
    assert_eq!(scalars.len(), expression.scalars().len(), "a value for each scalar");
    assert!(inputs.iter().all(|input| input.strides.len() == shape.len()), "a stride for each axis");
}

/// The number of elements of a chunk, so that a node's values fit into a slot.
pub(crate) fn chunk_places(expression: &Expression) -> usize {
    let largest = expression.nodes().iter().map(|(_, of)| of.bytes()).max().unwrap_or(8);
    (SLOT_BYTES / largest).min(MOST_PLACES)
}

/// Whether the expression reads the indices.
fn counts_places(expression: &Expression) -> bool {
    expression.nodes().iter().any(|(node, _)| *node == Node::Index)
}

/// The strides for a space: those of the inputs, of the row-major indices in `shape`, and `more`.
pub(crate) fn operands<'a>(
    expression: &Expression,
    inputs: &[Operand<'a>],
    numbers: &'a [isize],
    more: Option<&'a [isize]>,
) -> Vec<&'a [isize]> {
    let numbers = counts_places(expression).then_some(numbers);
    inputs.iter().map(|input| input.strides).chain(more).chain(numbers).collect()
}

/// The strides of the row-major indices.
pub(crate) fn number_strides(expression: &Expression, shape: &[usize]) -> Vec<isize> {
    if counts_places(expression) { row_major(shape) } else { Vec::new() }
}

impl Plan {
    /// A plan for areas of this cut. The operands of the space are those of [`operands`]; operand `numbers` has
    /// the strides of the row-major indices.
    ///
    /// # Safety
    /// The inputs' elements at all indices of the space can be read.
    pub(crate) unsafe fn new(
        expression: &Expression,
        space: Space,
        cut: Cut,
        inputs: &[Operand<'_>],
        scalars: &[Scalar],
        numbers: usize,
    ) -> Self {
        let nodes = expression.nodes();
        let result = expression.result().index();
        let mut uses = vec![0u32; nodes.len()];
        uses[result] = 1;
        for at in (0..nodes.len()).rev() {
            if uses[at] > 0 {
                read_by(nodes[at].0, |a| uses[a] += 1);
            }
        }
        let largest = nodes.iter().map(|(_, of)| of.bytes()).max().unwrap_or(8);
        let mut plan = Self {
            space,
            works: Vec::with_capacity(nodes.len()),
            fixed: vec![Source::NONE; nodes.len()],
            _values: vec![[0; 4]; nodes.len()],
            result,
            slots: 0,
            slot_bytes: (chunk_places(expression) * largest).next_multiple_of(64),
        };
        let values = plan._values.as_mut_ptr();
        // The nodes that are the same in all chunks.
        let mut known = vec![false; nodes.len()];
        let mut slots = vec![usize::MAX; nodes.len()];
        let mut free = Vec::new();
        for (at, &(node, of)) in nodes.iter().enumerate() {
            if uses[at] == 0 {
                continue;
            }
            // SAFETY: there is a value for each node.
            let value = unsafe { values.add(at) }.cast::<u8>();
            let mut fix = |source: *const u8| {
                // SAFETY: a value has at most 24 bytes, and so many can be read at the source, guaranteed by the
                // caller.
                unsafe { source.copy_to_nonoverlapping(value, of.bytes()) };
                plan.fixed[at] = Source { start: value, uniform: true };
                known[at] = true;
            };
            let step = match node {
                Node::Scalar(number) => {
                    fix(scalars[number as usize].as_ptr().cast());
                    continue;
                }
                Node::Input(number) => {
                    let number = number as usize;
                    let input = &inputs[number];
                    // SAFETY: the element at the offset is inside the memory, guaranteed by the caller.
                    let origin = unsafe { input.memory.add(input.offset * of.bytes()) };
                    if plan.space.is_uniform(number) {
                        fix(origin);
                        continue;
                    }
                    let access = access(&plan.space, number, cut, origin.addr(), of);
                    Step::Input { input: number, origin, size: of.bytes(), access }
                }
                Node::Index => Step::Numbers { operand: numbers },
                _ => {
                    let run = find_loop(expression, node, of);
                    let mut arguments = [usize::MAX; 3];
                    let mut count = 0;
                    read_by(node, |a| {
                        arguments[count] = a;
                        count += 1;
                    });
                    if arguments[..count].iter().all(|&a| known[a]) {
                        let mut call = Call { out: value, sources: [Source::NONE; 3], count: 1 };
                        for (source, &a) in call.sources.iter_mut().zip(&arguments[..count]) {
                            *source = plan.fixed[a];
                        }
                        // SAFETY: one value of each argument's type, and space for one of the result's.
                        unsafe { run(&call) };
                        plan.fixed[at] = Source { start: value, uniform: true };
                        known[at] = true;
                        continue;
                    }
                    Step::Compute { run, arguments }
                }
            };
            let needs_slot = !matches!(step, Step::Input { access: Access::InPlace | Access::Single, .. });
            if needs_slot {
                slots[at] = free.pop().unwrap_or_else(|| {
                    plan.slots += 1;
                    plan.slots - 1
                });
            }
            if let Step::Compute { arguments, .. } = &step {
                for &a in arguments.iter().take_while(|&&a| a != usize::MAX) {
                    uses[a] -= 1;
                    if uses[a] == 0 && slots[a] != usize::MAX {
                        free.push(slots[a]);
                    }
                }
            }
            plan.works.push(Work { step, node: at, slot: slots[at] });
        }
        plan
    }

    /// The inputs that are read in place, which loops must not overwrite.
    pub(crate) fn inputs_in_place(&self) -> impl Iterator<Item = usize> {
        self.works.iter().filter_map(|work| match work.step {
            Step::Input { input, access: Access::InPlace | Access::Single, .. } => Some(input),
            _ => None,
        })
    }

    /// The values of an area, row by row. Computed values are written to `to` if it is given. Otherwise the result
    /// is valid until the scratch memory is used again.
    ///
    /// # Safety
    /// The operands can be read. The area is inside the space, has the plan's cut, and has at most
    /// [`chunk_places`] elements. `to` is aligned for the result's type, has space for the values, and overlaps no
    /// input that is read in place.
    pub(crate) unsafe fn run(&self, area: Area, scratch: &mut Scratch, to: Option<*mut u8>) -> Source {
        let lines = self.slots * self.slot_bytes / 64;
        if scratch.lines.len() < lines {
            scratch.lines.resize(lines, Line([0; 64]));
        }
        scratch.sources.clear();
        scratch.sources.extend_from_slice(&self.fixed);
        let memory = scratch.lines.as_mut_ptr().cast::<u8>();
        for work in &self.works {
            let room = match to {
                Some(to) if work.node == self.result => to,
                _ if work.slot == usize::MAX => std::ptr::null_mut(),
                // SAFETY: the scratch memory has all slots.
                _ => unsafe { memory.add(work.slot * self.slot_bytes) },
            };
            let source = match work.step {
                Step::Input { input, origin, size, access } => match access {
                    Access::InPlace | Access::Single => {
                        // SAFETY: the area is inside the operand.
                        let start = unsafe { origin.offset(self.space.start(input, area) * size as isize) };
                        Source { start, uniform: access == Access::Single }
                    }
                    Access::Gathered => {
                        // SAFETY: the area is inside the operand, and the slot has space for it.
                        unsafe { moves::gather(&self.space, input, area, origin, size, room) };
                        Source { start: room, uniform: false }
                    }
                },
                Step::Numbers { operand } => {
                    // SAFETY: the slot has space for one number per element of the area.
                    unsafe { moves::numbers(&self.space, operand, area, room.cast()) };
                    Source { start: room, uniform: false }
                }
                Step::Compute { run, arguments } => {
                    let mut call = Call { out: room, sources: [Source::NONE; 3], count: area.count() };
                    for (source, &a) in call.sources.iter_mut().zip(&arguments) {
                        if a != usize::MAX {
                            *source = scratch.sources[a];
                        }
                    }
                    // SAFETY: the arguments were computed before, for as many elements; slots in use are disjoint.
                    unsafe { run(&call) };
                    Source { start: room, uniform: false }
                }
            };
            scratch.sources[work.node] = source;
        }
        scratch.sources[self.result]
    }
}

/// Determines how chunks of this cut read an operand's elements.
fn access(space: &Space, operand: usize, cut: Cut, origin: usize, of: Type) -> Access {
    let aligned = origin.is_multiple_of(alignment(of));
    match (cut, space.step(operand)) {
        _ if !aligned => Access::Gathered,
        (Cut::PartsOfRows, 1) => Access::InPlace,
        (Cut::PartsOfRows, 0) => Access::Single,
        (Cut::WholeRows, _) if space.is_flat(operand) => Access::InPlace,
        _ => Access::Gathered,
    }
}

/// The alignment of a type's elements.
pub(crate) fn alignment(of: Type) -> usize {
    match of.base() {
        Type::C64 => 4,
        Type::C128 => 8,
        base => base.bytes(),
    }
}

/// Calls `visit` with each node that this one reads.
fn read_by(node: Node, mut visit: impl FnMut(usize)) {
    let mut each = |id: Id| visit(id.index());
    match node {
        Node::Input(_) | Node::Scalar(_) | Node::Index => {}
        Node::Unary(_, a) | Node::Convert(a) => each(a),
        Node::Binary(_, a, b) => [a, b].into_iter().for_each(each),
        Node::Select(c, a, b) => [c, a, b].into_iter().for_each(each),
    }
}

fn find_loop(expression: &Expression, node: Node, of: Type) -> Loop {
    let found = match node {
        Node::Unary(operation, a) => unary_loop(operation, expression.type_of(a)),
        Node::Binary(operation, a, _) => binary_loop(operation, expression.type_of(a)),
        Node::Select(..) => select_loop(of),
        Node::Convert(a) => convert_loop(expression.type_of(a), of),
        Node::Input(_) | Node::Scalar(_) | Node::Index => None,
    };
    found.unwrap_or_else(|| {
        unreachable!("{node:?} of {of:?}: expressions contain only operations that are defined")
    })
}
