//! Sums, products and extremes of expressions.
//!
//! Threads lie along the axes on which neighbours in memory lie: along the reduced ones ("rows"), or along those of the
//! outputs ("columns"). Where outputs are too few to fill the device, each is made in several parts, and a second
//! launch joins them. What is joined in which order depends on the shape and the device alone, so results do not
//! depend on timing. Inputs are read once.

use rigel_gpu::{Error, Result, Shape as Grid, Stream, ViewMut};

use super::expression::{Expression, Node};
use super::layout::{Axes, Class, Classes, MOST_GIVEN, count};
use super::operation::Reduction;
use super::print::{Form, REDUCTION_COUNTS, THREADS};
use super::program::{
    Operand, Scalar, Target, check_alignment, check_counts, check_inputs, check_words, evaluate, kernel,
};
use super::types::Type;

const REDUCE: &str = "map::reduce";

/// Joins the expression's values along the last `reduced` axes of `shape`, for each place of the axes before: these are
/// the outputs, and `out` has them in row-major order, in the expression's type. [`Node::Index`] counts the places
/// of the whole shape.
///
/// Without values, a sum is 0 and a product is 1; there is no smallest or largest then, which is an error. Without
/// outputs nothing happens.
#[allow(clippy::too_many_arguments)] // the same as `evaluate`, and how to reduce
pub fn reduce(
    stream: &Stream,
    expression: &Expression,
    reduction: Reduction,
    shape: &[usize],
    reduced: usize,
    inputs: &[Operand<'_>],
    scalars: &[Scalar],
    out: ViewMut<'_, u8>,
) -> Result<()> {
    check_counts(REDUCE, expression, inputs, scalars)?;
    let of = expression.type_of(expression.result());
    if !reduction.is_defined(of) {
        let detail = format!("there is no {} of values of type {of:?}", reduction.name());
        return Err(Error::shape(REDUCE, detail));
    }
    let Some(outer) = shape.len().checked_sub(reduced) else {
        let detail = format!("{reduced} axes are to be reduced; the shape has {}", shape.len());
        return Err(Error::shape(REDUCE, detail));
    };
    let (outputs, values) = (count(REDUCE, &shape[..outer])?, count(REDUCE, &shape[outer..])?);
    if outputs == 0 {
        return Ok(());
    }
    let bytes = outputs.checked_mul(of.bytes());
    if bytes.is_none_or(|bytes| out.len() < bytes) {
        let detail = format!("{outputs} outputs of {} bytes do not fit {} bytes", of.bytes(), out.len());
        return Err(Error::shape(REDUCE, detail));
    }
    check_alignment(REDUCE, || "the result".into(), out.view(), of)?;
    if values == 0 {
        return neutral(stream, reduction, of, outputs, out);
    }
    count(REDUCE, shape)?;
    let views = check_inputs(REDUCE, expression, shape, inputs)?;
    let layout = Layout::new(expression, shape, outer, inputs)?;
    let fit = if layout.along_outputs() {
        Fit::columns(stream, &layout)
    } else {
        Fit::rows(stream, &layout, expression)
    };

    let (ranks, wide) = ([layout.outer.rank as u8, layout.reduced.rank as u8], layout.is_wide());
    let form = match fit.along_outputs {
        true => Form::Columns { reduction, outer: ranks[0], reduced: ranks[1], wide },
        false => Form::Rows { reduction, outer: ranks[0], reduced: ranks[1], wide },
    };
    let kernel = kernel(stream.device(), expression, form, layout.classes)?;
    let words = layout.words(fit, scalars);
    check_words(REDUCE, &words)?;
    let grid = Grid::cover(fit.blocks, 1)?;
    if fit.parts == 1 {
        return kernel.launch(stream, grid, &views, out, &words);
    }
    let mut parts = stream.alloc::<u8>(outputs * fit.parts * of.bytes())?;
    kernel.launch(stream, grid, &views, parts.view_mut(), &words)?;

    let strides = if fit.along_outputs { [1, outputs as isize] } else { [fit.parts as isize, 1] };
    let mut values = Expression::new();
    values.input(of);
    let parts = Operand { memory: parts.view(), offset: 0, strides: &strides };
    reduce(stream, &values, reduction, &[outputs, fit.parts], 1, &[parts], &[], out)
}

/// Writes the reduction of no values: 0 for sums, 1 for products. Minima and maxima of none are an error.
fn neutral(stream: &Stream, reduction: Reduction, of: Type, outputs: usize, out: ViewMut<'_, u8>) -> Result<()> {
    let number = match reduction {
        Reduction::Sum => 0,
        Reduction::Product => 1,
        Reduction::Min | Reduction::Max => {
            let detail = format!("the {} of no values does not exist", reduction.name());
            return Err(Error::shape(REDUCE, detail));
        }
    };
    let mut expression = Expression::new();
    let scalar = expression.scalar(Type::U32);
    let Some(value) = expression.convert(of, scalar) else {
        return Err(Error::shape(REDUCE, format!("there is no number {number} of type {of:?}")));
    };
    expression.set_result(value);
    let target = Target { memory: out, offset: 0, strides: &[1] };
    evaluate(stream, &expression, &[outputs], &[], &[[number, 0, 0]], target)
}

/// The axes of the outputs and those that are reduced, with the inputs' strides.
struct Layout {
    outer: Axes,
    reduced: Axes,
    /// The class of each input along the reduced axes.
    classes: Classes,
}

impl Layout {
    fn new(expression: &Expression, shape: &[usize], outer: usize, inputs: &[Operand<'_>]) -> Result<Self> {
        let stride = |k: usize, axis: usize| inputs[k].strides[axis];
        let outer_axes = Axes::merged(REDUCE, shape, 0..outer, inputs.len(), stride)?;
        let uses_index = expression.nodes().iter().any(|&(node, _)| node == Node::Index);
        let mut order = [0; MOST_GIVEN];
        let order = &mut order[outer..shape.len()];
        order.iter_mut().enumerate().for_each(|(i, axis)| *axis = outer + i);
        if let (false, Some(first)) = (uses_index, inputs.first()) {
            // A sum does not depend on the order: the one in which the first input lies in memory.
            order.sort_by_key(|&axis| std::cmp::Reverse(first.strides[axis].unsigned_abs()));
        }
        let reduced = Axes::merged(REDUCE, shape, order.iter().copied(), inputs.len(), stride)?;
        let classes = reduced.classes();
        Ok(Self { outer: outer_axes, reduced, classes })
    }

    fn inputs(&self) -> usize {
        self.reduced.strides.len()
    }

    fn is_wide(&self) -> bool {
        let places = self.outer.count().saturating_mul(self.reduced.count());
        !(self.outer.is_small() && self.reduced.is_small() && places < 1 << 31)
    }

    /// Whether more inputs are contiguous along the outputs than along what is reduced.
    fn along_outputs(&self) -> bool {
        let unit = |axes: &Axes| {
            let inner = axes.rank.checked_sub(1);
            inner.map_or(0, |inner| axes.strides.iter().filter(|strides| strides[inner].abs() == 1).count())
        };
        unit(&self.outer) > unit(&self.reduced)
    }

    /// The words that the kernel takes, in the order that [`Form::Rows`] says.
    fn words(&self, fit: Fit, scalars: &[Scalar]) -> Vec<u64> {
        let mut words = Vec::with_capacity(REDUCTION_COUNTS + 8 * self.inputs() + 3 * scalars.len());
        let (outputs, values) = (self.outer.count(), self.reduced.count());
        words.extend(
            [outputs, values, fit.parts, fit.length, fit.log_threads, fit.column_blocks].map(|n| n as u64),
        );
        self.outer.push_lengths(&mut words);
        self.reduced.push_lengths(&mut words);
        for input in 0..self.inputs() {
            self.outer.push_strides(input, &mut words);
            if self.classes.of(input) == Class::Strided {
                self.reduced.push_strides(input, &mut words);
            }
        }
        words.extend(scalars.iter().flatten());
        words
    }
}

/// The distribution of a reduction over the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fit {
    along_outputs: bool,
    /// Parts of an output, and the values of each but the last.
    parts: usize,
    length: usize,
    /// The logarithm of the threads of a part, or of the outputs of a block.
    log_threads: usize,
    /// Blocks that have all outputs, and all blocks.
    column_blocks: usize,
    blocks: usize,
}

/// Blocks of a multiprocessor that hide the memory's latency.
const BLOCKS: usize = 8;
/// The least number of values a thread should take, so that the second launch does not show.
const LEAST: usize = 8;

impl Fit {
    fn rows(stream: &Stream, layout: &Layout, expression: &Expression) -> Self {
        let blocks = stream.device().properties().multiprocessors as usize * BLOCKS;
        Self::rows_of(
            layout.outer.count(),
            layout.reduced.count(),
            super::print::Share::of(expression).width,
            blocks,
        )
    }

    /// A thread, a few, a warp or a block for an output, by the number of values; parts of it where that leaves the
    /// device empty.
    fn rows_of(outputs: usize, values: usize, width: usize, blocks: usize) -> Self {
        let turns = values.div_ceil(width);
        let is_few = outputs < blocks * THREADS / 32;
        let threads = match turns {
            0..=512 if !(is_few && turns > 64) => turns.div_ceil(4).next_power_of_two().min(32),
            513..=4096 if !is_few => 32,
            _ => THREADS,
        };
        let most = turns / (THREADS * LEAST);
        let parts = if threads == THREADS { (blocks / outputs).min(most).max(1) } else { 1 };
        // Parts begin at multiples of a block's step, so that they are aligned as the output's first value is.
        let length = values.div_ceil(parts).next_multiple_of(THREADS * width);
        let (length, parts) = if parts == 1 { (values, 1) } else { (length, values.div_ceil(length)) };
        Self {
            along_outputs: false,
            parts,
            length,
            log_threads: threads.trailing_zeros() as usize,
            column_blocks: 0,
            blocks: (outputs * parts).div_ceil(THREADS / threads),
        }
    }

    fn columns(stream: &Stream, layout: &Layout) -> Self {
        let blocks = stream.device().properties().multiprocessors as usize * BLOCKS;
        Self::columns_of(layout.outer.count(), layout.reduced.count(), blocks)
    }

    /// Fits a reduction along outputs: up to 64 outputs a block, the other threads for further values of them;
    /// where values are few, a thread for each output.
    fn columns_of(outputs: usize, values: usize, blocks: usize) -> Self {
        let widest = if values < 64 { THREADS } else { 64 };
        let width = outputs.next_power_of_two().min(widest);
        let column_blocks = outputs.div_ceil(width);
        let most = values / (THREADS / width * LEAST);
        let parts = (blocks / column_blocks).min(most).max(1);
        let length = values.div_ceil(parts);
        let parts = values.div_ceil(length);
        Self {
            along_outputs: true,
            parts,
            length,
            log_threads: width.trailing_zeros() as usize,
            column_blocks,
            blocks: column_blocks * parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use rigel_gpu::{Device, Selector, bytes_of};

    use super::*;

    #[test]
    fn parts_cover_the_values() {
        for outputs in [1, 2, 31, 33, 257, 5000, 1 << 20] {
            for values in [1, 2, 31, 32, 33, 255, 257, 5000, (1 << 17) + 3, 1 << 26] {
                for width in [1, 2, 4] {
                    let rows = Fit::rows_of(outputs, values, width, 1056);
                    let columns = Fit::columns_of(outputs, values, 1056);
                    for fit in [rows, columns] {
                        assert!(
                            fit.parts * fit.length >= values && (fit.parts - 1) * fit.length < values,
                            "{fit:?}"
                        );
                    }
                    assert!(rows.blocks * (THREADS >> rows.log_threads) >= outputs * rows.parts);
                    assert!(columns.column_blocks << columns.log_threads >= outputs);
                }
            }
        }
    }

    /// Kernels that count in 64 bits take the same words. (Arrays of 2^31 elements are too large for a test.)
    #[test]
    fn wide_kernels_do_the_same() -> Result<()> {
        let stream = Device::open(Selector::Emulated(0))?.compute()?;
        let mut expression = Expression::new();
        expression.input(Type::U32);
        let (shape, values) = ([3, 2, 40, 5], (0..1200u32).collect::<Vec<_>>());
        let memory = stream.upload(bytes_of(&values))?;
        let strides = [400, 200, 1, 40];
        let layout = Layout::new(
            &expression,
            &shape,
            2,
            &[Operand { memory: memory.view(), offset: 0, strides: &strides }],
        )?;
        let (outer, reduced) = (layout.outer.rank as u8, layout.reduced.rank as u8);
        let reduction = Reduction::Sum;
        let expected: Vec<u32> = values.chunks(200).map(|part| part.iter().sum()).collect();
        for wide in [false, true] {
            let rows = Form::Rows { reduction, outer, reduced, wide };
            let columns = Form::Columns { reduction, outer, reduced, wide };
            for (form, fit) in [(rows, Fit::rows_of(6, 200, 4, 1)), (columns, Fit::columns_of(6, 200, 1))] {
                let mut out = stream.alloc::<u8>(24)?;
                let kernel = kernel(stream.device(), &expression, form, layout.classes)?;
                let grid = Grid::cover(fit.blocks, 1)?;
                kernel.launch(&stream, grid, &[memory.view()], out.view_mut(), &layout.words(fit, &[]))?;
                assert_eq!(out.to_vec(&stream)?, bytes_of(&expected), "{form:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn one_output_fills_the_device() {
        assert!(Fit::rows_of(1, 1 << 26, 4, 1056).blocks > 1000);
        assert!(Fit::columns_of(3, 1 << 26, 1056).blocks > 1000);
        assert_eq!(Fit::rows_of(1, 1000, 4, 1056).parts, 1);
        assert_eq!(Fit::rows_of(1 << 20, 8, 4, 1056).log_threads, 0);
    }
}
