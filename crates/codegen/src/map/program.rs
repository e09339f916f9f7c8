//! Expressions as compiled kernels, and their evaluation.
//!
//! A kernel is compiled when an expression is first evaluated with operands that lie in memory in some way, and kept
//! with the device. A launch of a kernel that is known builds no text: it merges axes, looks the kernel up by a hash of
//! the expression, and fills in the words that the kernel takes.

use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use rigel_gpu::testing::check_compilers;
use rigel_gpu::{
    Argument, ArgumentList, Arguments, Device, Error, Kernel, Result, Shape as Grid, Stream, View, ViewMut,
};

use super::expression::{Expression, Node};
use super::layout::{Axes, Class, Classes, MOST_AXES, MOST_GIVEN, MOST_OPERANDS, check_reach, count};
use super::print::{Form, SIDE, Share, THREADS, print, strided_tile};
use super::types::Type;
use crate::quick::QuickHasher;

/// An array in device memory that is read: the element at the place `(i, j, ..)` is number
/// `offset + i strides[0] + j strides[1] + ..` of `memory`, which begins at a multiple of the element's alignment.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The memory.
    pub memory: View<'a, u8>,
    /// The element at the first place.
    pub offset: usize,
    /// The distance, in elements, of neighbours along each axis; 0 where an axis is broadcast.
    pub strides: &'a [isize],
}

/// An array in device memory that is written; as [`Operand`]. No two places are the same element.
#[derive(Debug)]
pub struct Target<'a> {
    /// The memory.
    pub memory: ViewMut<'a, u8>,
    /// The element at the first place.
    pub offset: usize,
    /// The distance, in elements, of neighbours along each axis.
    pub strides: &'a [isize],
}

/// The value of a scalar: its bytes, the lowest first.
pub type Scalar = [u64; 3];

/// The most words that a kernel takes beside its pointers: what every device has room for among a launch's parameters.
const MOST_WORDS: usize = 448;

const EVALUATE: &str = "map::evaluate";

/// Writes the expression's value at every place of `shape` to `out`. It is one launch, which reads each element that an
/// input has once where inputs are contiguous. An input may be `out` itself, element for element; it may not
/// overlap it in another way.
///
/// A shape without places does nothing.
pub fn evaluate(
    stream: &Stream,
    expression: &Expression,
    shape: &[usize],
    inputs: &[Operand<'_>],
    scalars: &[Scalar],
    out: Target<'_>,
) -> Result<()> {
    check_counts(EVALUATE, expression, inputs, scalars)?;
    let places = count(EVALUATE, shape)?;
    if places == 0 {
        return Ok(());
    }
    let views = check_inputs(EVALUATE, expression, shape, inputs)?;
    let Target { memory, offset, strides } = out;
    let size = expression.type_of(expression.result()).bytes();
    check_reach(EVALUATE, || "the result".into(), shape, (offset, strides), (memory.len(), size))?;
    if shape.iter().zip(strides).any(|(&length, &stride)| length > 1 && stride == 0) {
        let detail =
            format!("the result has strides {strides:?} for a shape of {shape:?}: places share an element");
        return Err(Error::shape(EVALUATE, detail));
    }
    let out = memory.range(offset * size..)?;
    check_alignment(EVALUATE, || "the result".into(), out.view(), expression.type_of(expression.result()))?;

    let stride = |k: usize, axis: usize| inputs.get(k).map_or(strides, |input| input.strides)[axis];
    let operands = inputs.len() + 1;
    let uses_index = expression.nodes().iter().any(|&(node, _)| node == Node::Index);
    let axes = if uses_index || strides.is_sorted_by(|a, b| a.unsigned_abs() >= b.unsigned_abs()) {
        Axes::merged(EVALUATE, shape, 0..shape.len(), operands, stride)?
    } else {
        // In the order in which the result lies in memory, so that neighbouring threads write neighbours.
        let mut order = [0; MOST_GIVEN];
        let order = &mut order[..shape.len()];
        order.iter_mut().enumerate().for_each(|(i, axis)| *axis = i);
        order.sort_by_key(|&axis| std::cmp::Reverse(strides[axis].unsigned_abs()));
        Axes::merged(EVALUATE, shape, order.iter().copied(), operands, stride)?
    };
    let classes = axes.classes();
    let mut words = Vec::with_capacity(16 + 3 * scalars.len());

    if !classes.any_strided() {
        let kernel = kernel(stream.device(), expression, Form::Flat, classes)?;
        words.push(places as u64);
        words.extend(scalars.iter().flatten());
        return kernel.launch(stream, Grid::cover(places, kernel.tile)?, &views, out, &words);
    }
    let is_copy = matches!(expression.nodes()[expression.result().index()].0, Node::Input(_)) && inputs.len() == 1;
    if let (false, Some(plane)) = (uses_index, Plane::of(&axes)) {
        let arguments = Given { views: &views, scalars, out };
        return match is_copy {
            true => plane.copy(stream, expression, &axes, arguments),
            false => plane.evaluate(stream, expression, &axes, arguments),
        };
    }
    let form = Form::Strided { rank: axes.rank as u8, wide: !axes.is_small() };
    let kernel = kernel(stream.device(), expression, form, classes)?;
    words.push(places as u64);
    axes.push_lengths(&mut words);
    for operand in (0..operands).filter(|&k| classes.of(k) == Class::Strided) {
        axes.push_strides(operand, &mut words);
    }
    words.extend(scalars.iter().flatten());
    check_words(EVALUATE, &words)?;
    kernel.launch(stream, Grid::cover(places, kernel.tile)?, &views, out, &words)
}

/// Two axes, along one of which the result is contiguous, and along the other an input.
struct Plane {
    /// The input's; the result's is the innermost.
    other: usize,
}

impl Plane {
    /// `None` where there is no such input, or a square of the plane would be mostly empty.
    fn of(axes: &Axes) -> Option<Self> {
        let inner = axes.rank.checked_sub(1)?;
        let (out, inputs) = axes.strides.split_last()?;
        let is_long = |axis: usize| axes.lengths[axis] >= SIDE / 2;
        if out[inner] != 1 || !is_long(inner) {
            return None;
        }
        let unit_axis = |x: &[isize; MOST_AXES]| (0..inner).find(|&axis| x[axis] == 1 && is_long(axis));
        let other = inputs.iter().filter(|x| x[inner].abs() > 1).find_map(unit_axis)?;
        Some(Self { other })
    }

    /// Squares along the innermost axis and the other.
    fn tiles(&self, axes: &Axes) -> [usize; 2] {
        [axes.rank - 1, self.other].map(|axis| axes.lengths[axis].div_ceil(SIDE))
    }

    /// An expression that does not use its place, over squares.
    fn evaluate(&self, stream: &Stream, expression: &Expression, axes: &Axes, arguments: Given<'_>) -> Result<()> {
        let (classes, tiles) = (axes.classes(), self.tiles(axes));
        let form = Form::Tiled { rank: axes.rank as u8, other: self.other as u8, wide: !axes.is_small() };
        let kernel = kernel(stream.device(), expression, form, classes)?;
        let mut words = Vec::with_capacity(32 + 3 * arguments.scalars.len());
        words.extend(tiles.map(|n| n as u64));
        axes.push_all_lengths(&mut words);
        for operand in (0..axes.strides.len()).filter(|&k| classes.of(k) != Class::Single) {
            axes.push_strides(operand, &mut words);
        }
        words.extend(arguments.scalars.iter().flatten());
        check_words(EVALUATE, &words)?;
        let plane = axes.lengths[axes.rank - 1] * axes.lengths[self.other];
        let blocks = axes.count() / plane * tiles[0] * tiles[1];
        kernel.launch(stream, Grid::cover(blocks, 1)?, arguments.views, arguments.out, &words)
    }

    /// A copy, through shared memory.
    fn copy(&self, stream: &Stream, expression: &Expression, axes: &Axes, arguments: Given<'_>) -> Result<()> {
        let (inner, other, tiles, wide) = (axes.rank - 1, self.other, self.tiles(axes), !axes.is_small());
        let rest = Axes::merged(
            EVALUATE,
            &axes.lengths[..axes.rank],
            (0..inner).filter(|&axis| axis != other),
            axes.strides.len(),
            |k, axis| axes.strides[k][axis],
        )?;
        let mut words = Vec::with_capacity(32);
        words.extend([axes.lengths[inner], axes.lengths[other], tiles[0], tiles[1]].map(|n| n as u64));
        words.extend([axes.strides[0][inner], axes.strides[1][other]].map(|stride| stride as u64));
        rest.push_lengths(&mut words);
        rest.push_strides(0, &mut words);
        rest.push_strides(1, &mut words);
        let form = Form::Transposed { rest: rest.rank as u8, wide };
        let kernel = kernel(stream.device(), expression, form, Classes::default())?;
        let blocks = rest.count() * tiles[0] * tiles[1];
        kernel.launch(stream, Grid::cover(blocks, 1)?, arguments.views, arguments.out, &words)
    }
}

/// The arguments of a launch beside its layout.
struct Given<'a> {
    views: &'a [View<'a, u8>],
    scalars: &'a [Scalar],
    out: ViewMut<'a, u8>,
}

// --- checks ---------------------------------------------------------------------------------------------------

/// Checks that there are as many inputs and scalars as the expression has, and a value in it.
pub(super) fn check_counts(
    operation: &'static str,
    expression: &Expression,
    inputs: &[Operand<'_>],
    scalars: &[Scalar],
) -> Result<()> {
    let wrong = |detail: String| Err(Error::shape(operation, detail));
    if expression.nodes().is_empty() {
        return wrong("the expression has no values".into());
    }
    let (wanted, given) = (expression.inputs().len(), inputs.len());
    if wanted != given {
        return wrong(format!("the expression has {wanted} inputs, {given} are given"));
    }
    let (wanted, given) = (expression.scalars().len(), scalars.len());
    if wanted != given {
        return wrong(format!("the expression has {wanted} scalars, {given} are given"));
    }
    if inputs.len() >= MOST_OPERANDS {
        let most = MOST_OPERANDS - 1;
        return wrong(format!(
            "{} inputs of one expression; there can be {most}: evaluate a part first",
            inputs.len()
        ));
    }
    Ok(())
}

/// The inputs from their first elements on; all elements lie within them.
pub(super) fn check_inputs<'a>(
    operation: &'static str,
    expression: &Expression,
    shape: &[usize],
    inputs: &[Operand<'a>],
) -> Result<Vec<View<'a, u8>>> {
    let mut views = Vec::with_capacity(inputs.len());
    for (k, (input, of)) in inputs.iter().zip(expression.inputs()).enumerate() {
        let (size, bytes) = (of.bytes(), input.memory.len());
        check_reach(operation, || format!("input {k}"), shape, (input.offset, input.strides), (bytes, size))?;
        let view = input.memory.range(input.offset * size..)?;
        check_alignment(operation, || format!("input {k}"), view, *of)?;
        views.push(view);
    }
    Ok(views)
}

/// Refuses memory whose address kernels could not read elements of this type from.
pub(super) fn check_alignment(
    operation: &'static str,
    what: impl FnOnce() -> String,
    memory: View<'_, u8>,
    of: Type,
) -> Result<()> {
    let (address, alignment) = (memory.address(), of.alignment());
    if address.is_multiple_of(alignment as u64) {
        return Ok(());
    }
    let detail = format!("{} begins at {address:#x}, which is not a multiple of {alignment} bytes", what());
    Err(Error::shape(operation, detail))
}

pub(super) fn check_words(operation: &'static str, words: &[u64]) -> Result<()> {
    if words.len() <= MOST_WORDS {
        return Ok(());
    }
    let detail = format!(
        "strides and scalars of {} words; a launch takes {MOST_WORDS}: evaluate a part of the expression first",
        words.len()
    );
    Err(Error::shape(operation, detail))
}

// --- kernels that are known -----------------------------------------------------------------------------------

/// The compiled kernel of an expression.
pub(super) struct MapKernel {
    expression: Expression,
    form: Form,
    classes: Classes,
    kernel: Kernel,
    /// Elements of a block, for the forms that cover places.
    tile: u32,
}

/// A hash of what a kernel is known by, and a number that tells apart those with the same hash.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    hash: u64,
    attempt: u32,
}

/// The kernel of an expression over operands of these classes: at hand, from the cache on disk, or compiled.
pub(super) fn kernel(
    device: &Device,
    expression: &Expression,
    form: Form,
    classes: Classes,
) -> Result<Arc<MapKernel>> {
    let mut hasher = BuildHasherDefault::<QuickHasher>::default().build_hasher();
    (form, classes).hash(&mut hasher);
    expression.hash(&mut hasher);
    let mut key = Key { hash: hasher.finish(), attempt: 0 };
    loop {
        let kernel =
            device.kept(&key, |device| Ok((MapKernel::compile(device, expression, form, classes)?, 0)))?;
        if kernel.form == form && kernel.classes == classes && kernel.expression == *expression {
            return Ok(kernel);
        }
        key.attempt += 1;
    }
}

impl MapKernel {
    fn compile(device: &Device, expression: &Expression, form: Form, classes: Classes) -> Result<Self> {
        let _span = tracing::info_span!("rigel", compile = form.name()).entered();
        let source = print(expression, form, classes);
        for checker in check_compilers()? {
            checker.compile(&source)?;
        }
        let kernel = device.compile(&source)?.kernel(form.name())?;
        let tile = match form {
            Form::Flat => Share::of(expression).tile(),
            _ => strided_tile(expression),
        };
        Ok(Self { expression: expression.clone(), form, classes, kernel, tile: tile as u32 })
    }

    pub(super) fn launch<'a>(
        &self,
        stream: &Stream,
        grid: Grid,
        inputs: &[View<'a, u8>],
        out: ViewMut<'a, u8>,
        words: &[u64],
    ) -> Result<()> {
        self.kernel.launch(stream, grid.threads(THREADS as u32), Launch { inputs, out, words })
    }
}

/// The arguments of a launch.
struct Launch<'b, 'a> {
    inputs: &'b [View<'a, u8>],
    out: ViewMut<'a, u8>,
    words: &'b [u64],
}

impl Arguments for Launch<'_, '_> {
    fn push_all<'c>(&'c self, list: &mut ArgumentList<'c>) {
        self.inputs.iter().for_each(|input| input.push(list));
        self.out.push(list);
        list.words(self.words);
    }
}

#[cfg(test)]
mod tests {
    use rigel_gpu::{Selector, bytes_of};

    use super::*;
    use crate::map::Binary;

    #[test]
    fn elements_must_be_aligned() -> Result<()> {
        let stream = Device::open(Selector::Emulated(0))?.compute()?;
        let mut expression = Expression::new();
        let [a, b] = [0; 2].map(|_| expression.input(Type::U32));
        expression.binary(Binary::Add, a, b);
        let memory = stream.zeros::<u8>(65)?;
        let mut out = stream.zeros::<u8>(65)?;
        let mut run = |inputs: [usize; 2], to: usize| {
            let views = [memory.range(inputs[0]..)?, memory.range(inputs[1]..)?];
            let operands = views.map(|memory| Operand { memory, offset: 1, strides: &[1] });
            let target = Target { memory: out.range_mut(to..)?, offset: 0, strides: &[1] };
            evaluate(&stream, &expression, &[8], &operands, &[], target)
        };
        run([0, 4], 4)?;
        for (inputs, to, what) in [([0, 2], 0, "input 1"), ([3, 0], 0, "input 0"), ([0, 0], 1, "the result")] {
            let error = run(inputs, to).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("not a multiple of 4"), "{error}");
        }
        Ok(())
    }

    /// Kernels that count in 64 bits take the same words. (Arrays of 2^31 elements are too large for a test.)
    #[test]
    fn wide_kernels_do_the_same() -> Result<()> {
        let stream = Device::open(Selector::Emulated(0))?.compute()?;
        let mut expression = Expression::new();
        let [a, b] = [0; 2].map(|_| expression.input(Type::U32));
        expression.binary(Binary::Add, a, b);
        let values: Vec<u32> = (0..3 * 40 * 50).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
        let memory = stream.upload(bytes_of(&values))?;
        // a in order, b with its axes reversed.
        let strides = [[2000, 50, 1], [1, 3, 120], [2000, 50, 1]];
        let axes = Axes::merged("test", &[3, 40, 50], 0..3, 3, |k, axis| strides[k][axis])?;
        let classes = axes.classes();
        let place = |i: usize| i / 2000 + i / 50 % 40 * 3 + i % 50 * 120;
        let expected: Vec<u32> = (0..values.len()).map(|i| values[i].wrapping_add(values[place(i)])).collect();
        for wide in [false, true] {
            let kernel = kernel(stream.device(), &expression, Form::Strided { rank: 3, wide }, classes)?;
            let mut words = vec![values.len() as u64];
            axes.push_lengths(&mut words);
            axes.push_strides(1, &mut words);
            let mut out = stream.alloc::<u8>(4 * values.len())?;
            let grid = Grid::cover(values.len(), kernel.tile)?;
            kernel.launch(&stream, grid, &[memory.view(), memory.view()], out.view_mut(), &words)?;
            assert_eq!(out.to_vec(&stream)?, bytes_of(&expected));
        }
        Ok(())
    }
}
