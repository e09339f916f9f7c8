//! Reductions of element-wise expressions.
//!
//! Chunks of a fixed size are reduced, and the parts are joined as a tree. So the result is the same on any number
//! of threads, and the error of a sum grows with the logarithm of its length. If inputs are contiguous along the
//! reduced axes, a chunk is folded to one value; if they are contiguous along the kept axes, rows are joined
//! element by element.

use rayon::prelude::*;
use rigel_codegen::map::{Expression, Reduction};

use super::evaluate::{PARALLEL_PLACES, Target, evaluate};
use super::moves;
use super::operation::{Folds, folds, neutral};
use super::plan::{Cut, Operand, Plan, Scalar, Scratch, alignment, check, chunk_places, number_strides, operands};
use super::space::{Area, Space, row_major};

/// The number of rows that are joined sequentially; more are joined as a tree.
const ROWS_IN_TURN: usize = 128;
/// The number of elements of a task that reduces several chunks.
const TASK_PLACES: usize = 64 << 10;

/// Memory for partial results, disjoint for each task.
#[derive(Clone, Copy)]
struct Parts(*mut u8);

// SAFETY: tasks write to disjoint memory.
unsafe impl Sync for Parts {}

impl Parts {
    /// # Safety
    /// The memory has at least `byte` bytes.
    unsafe fn at(&self, byte: usize) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.add(byte) }
    }
}

/// `count` values of `size` bytes, aligned for all types.
fn parts(count: usize, size: usize) -> Vec<u64> {
    vec![0; (count * size).div_ceil(8)]
}

/// Runs tasks, on all threads if that pays off.
fn for_each(tasks: usize, places: usize, work: impl Fn(usize) + Sync + Send) {
    if places < PARALLEL_PLACES {
        (0..tasks).for_each(work);
    } else {
        (0..tasks).into_par_iter().for_each(work);
    }
}

/// `out[o]` = the reduction over r of `expression(o, r)`, where r are the last `reduced` axes of `shape` and o the
/// axes before. The results are row-major.
///
/// # Safety
/// During the call, any thread can read the operands' elements at all indices, and nothing writes to them.
///
/// # Panics
/// If the operands, scalars, strides or results do not match the expression and the shape, if the reduction is not
/// defined for the expression's type, or for a minimum or maximum of no values.
pub(crate) unsafe fn reduce(
    expression: &Expression,
    reduction: Reduction,
    shape: &[usize],
    reduced: usize,
    inputs: &[Operand<'_>],
    scalars: &[Scalar],
    out: &mut [u8],
) {
    check(expression, shape, inputs, scalars);
    let of = expression.type_of(expression.result());
    let size = of.bytes();
    let kept = shape.len().checked_sub(reduced).expect("no more reduced axes than axes");
    let folds = folds(reduction, of).expect("a reduction that is defined for the type");
    let outputs: usize = shape[..kept].iter().product();
    let length: usize = shape[kept..].iter().product();
    assert_eq!(out.len(), outputs * size, "a place for each result");
    if outputs == 0 {
        return;
    }
    if length == 0 {
        return neutral(reduction, of, out).expect("values to take an extreme of");
    }
    if length == 1 {
        let inputs: Vec<Operand<'_>> =
            inputs.iter().map(|input| Operand { strides: &input.strides[..kept], ..*input }).collect();
        let strides = row_major(&shape[..kept]);
        let target = Target { memory: out.as_mut_ptr(), offset: 0, strides: &strides };
        // SAFETY: `out` is borrowed, so no operand overlaps it; the caller guarantees the rest.
        return unsafe { evaluate(expression, &shape[..kept], &inputs, scalars, target) };
    }
    if !out.as_ptr().addr().is_multiple_of(alignment(of)) {
        let mut aligned = parts(outputs, size);
        let bytes = rigel_gpu::bytes_of_mut(&mut aligned);
        // SAFETY: guaranteed by the caller.
        unsafe { reduce(expression, reduction, shape, reduced, inputs, scalars, &mut bytes[..out.len()]) };
        out.copy_from_slice(&bytes[..out.len()]);
        return;
    }
    let job = Job { expression, folds, shape, kept, outputs, length, inputs, scalars, size };
    // SAFETY: guaranteed by the caller; the job's sizes match.
    unsafe { if job.prefers_columns() { job.columns(out) } else { job.rows(out) } }
}

/// A reduction of at least one value.
struct Job<'a> {
    expression: &'a Expression,
    folds: Folds,
    shape: &'a [usize],
    kept: usize,
    outputs: usize,
    length: usize,
    inputs: &'a [Operand<'a>],
    scalars: &'a [Scalar],
    size: usize,
}

// SAFETY: any thread can read the operands, guaranteed by the caller of `reduce`.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    /// The innermost of these axes with a length above 1.
    fn innermost(&self, axes: std::ops::Range<usize>) -> Option<usize> {
        axes.rev().find(|&axis| self.shape[axis] > 1)
    }

    /// Whether more inputs are contiguous along the kept axes than along the reduced ones.
    fn prefers_columns(&self) -> bool {
        let (Some(kept), Some(reduced)) =
            (self.innermost(0..self.kept), self.innermost(self.kept..self.shape.len()))
        else {
            return false;
        };
        let balance: i32 = self
            .inputs
            .iter()
            .map(|input| {
                let (kept, reduced) = (input.strides[kept].unsigned_abs(), input.strides[reduced].unsigned_abs());
                match (kept, reduced) {
                    (0, _) | (_, 0) => 0,
                    _ => i32::from(kept < reduced) - i32::from(reduced < kept),
                }
            })
            .sum();
        balance > 0
    }

    /// # Safety
    /// As for [`reduce`].
    unsafe fn plan(&self, order: &[usize], walls: &[usize], cut: impl Fn(&Space) -> Cut) -> Plan {
        let counts = number_strides(self.expression, self.shape);
        let all = operands(self.expression, self.inputs, &counts, None);
        let space = Space::new(self.shape, order, walls, &all);
        let cut = cut(&space);
        // SAFETY: guaranteed by the caller.
        unsafe { Plan::new(self.expression, space, cut, self.inputs, self.scalars, self.inputs.len()) }
    }

    /// The values of an area, contiguous.
    ///
    /// # Safety
    /// As for [`Plan::run`]; `room` has space for the values.
    unsafe fn values(&self, plan: &Plan, area: Area, scratch: &mut Scratch, room: &mut Vec<u64>) -> *const u8 {
        // SAFETY: guaranteed by the caller.
        let source = unsafe { plan.run(area, scratch, None) };
        if !source.uniform {
            return source.start;
        }
        room.resize((area.count() * self.size).div_ceil(8), 0);
        // SAFETY: the memory was allocated above.
        unsafe { moves::fill(source.start, self.size, room.as_mut_ptr().cast(), area.count()) };
        room.as_ptr().cast()
    }

    /// Folds each chunk to one value, or to one value for each of several results.
    ///
    /// # Safety
    /// As for [`reduce`]; there is more than one value to reduce, and `out` is aligned.
    unsafe fn rows(&self, out: &mut [u8]) {
        let places = chunk_places(self.expression);
        let order: Vec<usize> = (0..self.shape.len()).collect();
        // A row that fills a large part of a chunk gets its own chunk, so that it need not be gathered.
        let long = |space: &Space| space.columns() >= places / 4;
        let cut = |space: &Space| if long(space) { Cut::PartsOfRows } else { Cut::WholeRows };
        // SAFETY: guaranteed by the caller.
        let plan = unsafe { self.plan(&order, &[self.kept], cut) };
        let columns = plan.space.columns();
        let rows = self.length / columns;
        let total = self.outputs * self.length;
        let (fold, size) = (self.folds.fold, self.size);
        let target = Parts(out.as_mut_ptr());

        let whole = if long(&plan.space) { rows == 1 && columns <= places } else { self.length <= places };
        if whole {
            let group = if long(&plan.space) { 1 } else { places / self.length };
            for_each(self.outputs.div_ceil(group), total, |task| {
                let first = task * group;
                let count = group.min(self.outputs - first);
                let area = Area { row: first * rows, rows: count * rows, column: 0, columns };
                // SAFETY: the area has the values of `count` results, and the target has space for them.
                Scratch::with(|scratch| unsafe {
                    let mut room = Vec::new();
                    let values = self.values(&plan, area, scratch, &mut room);
                    fold(values, self.length, target.at(first * size), count);
                });
            });
            return;
        }

        let (height, width) = if long(&plan.space) {
            (1, columns.div_ceil(columns.div_ceil(places)).next_multiple_of(16).min(places))
        } else {
            (places / columns, columns)
        };
        let (down, across) = (rows.div_ceil(height), columns.div_ceil(width));
        let chunks = down * across;
        let mut partial = parts(self.outputs * chunks, size);
        let partials = Parts(partial.as_mut_ptr().cast());
        for_each(self.outputs * chunks, total, |task| {
            let (output, chunk) = (task / chunks, task % chunks);
            let (row, column) = (chunk / across * height, chunk % across * width);
            let area = Area {
                row: output * rows + row,
                rows: height.min(rows - row),
                column,
                columns: width.min(columns - column),
            };
            // SAFETY: the area is inside the space, and each task has space for its part.
            Scratch::with(|scratch| unsafe {
                let mut room = Vec::new();
                let values = self.values(&plan, area, scratch, &mut room);
                fold(values, area.count(), partials.at(task * size), 1);
            });
        });
        // SAFETY: each result has the same number of parts, and the target has space for the results.
        unsafe { fold(partial.as_ptr().cast(), chunks, target.0, self.outputs) };
    }

    /// The first kept axis that merges with the kept axes after it for all operands.
    fn first_column_axis(&self, all: &[&[isize]]) -> usize {
        let mut first = self.kept;
        let mut inner: Option<usize> = None;
        for axis in (0..self.kept).rev() {
            if self.shape[axis] > 1 {
                let merges = |inner: usize| all.iter().all(|o| o[axis] == o[inner] * self.shape[inner] as isize);
                if inner.is_some_and(|inner| !merges(inner)) {
                    break;
                }
                inner = Some(axis);
            }
            first = axis;
        }
        first
    }

    /// Joins rows of neighbouring results.
    ///
    /// # Safety
    /// As for [`Self::rows`].
    unsafe fn columns(&self, out: &mut [u8]) {
        let places = chunk_places(self.expression);
        let counts = number_strides(self.expression, self.shape);
        let split = self.first_column_axis(&operands(self.expression, self.inputs, &counts, None));
        let order: Vec<usize> = (0..split).chain(self.kept..self.shape.len()).chain(split..self.kept).collect();
        let walls = [split, split + self.shape.len() - self.kept];
        let long = |space: &Space| space.columns() >= places / 4;
        let cut = |space: &Space| if long(space) { Cut::PartsOfRows } else { Cut::WholeRows };
        // SAFETY: guaranteed by the caller.
        let plan = unsafe { self.plan(&order, &walls, cut) };
        let (size, columns) = (self.size, plan.space.columns());
        let groups = self.outputs / columns;
        let (height, width) =
            if long(&plan.space) { (1, columns.min(places)) } else { (places / columns, columns) };
        let stretch = if height == 1 { ROWS_IN_TURN } else { height * (TASK_PLACES / (height * width)).max(1) };
        let (stretches, across) = (self.length.div_ceil(stretch), columns.div_ceil(width));

        let single = stretches == 1;
        let mut partial = if single { Vec::new() } else { parts(groups * stretches * columns, size) };
        let partials = Parts(if single { out.as_mut_ptr() } else { partial.as_mut_ptr().cast() });
        for_each(groups * stretches * across, self.outputs * self.length, |task| {
            let (piece, column) = (task / across, task % across * width);
            let (group, first) = (piece / stretches, piece % stretches * stretch);
            let last = (first + stretch).min(self.length);
            let width = width.min(columns - column);
            // SAFETY: each task has space for its part, and the areas are inside the space.
            Scratch::with(|scratch| unsafe {
                let into = partials.at((piece * columns + column) * size);
                let (mut room, mut tile) = (Vec::new(), Vec::new());
                for row in (first..last).step_by(height) {
                    let rows = height.min(last - row);
                    let area = Area { row: group * self.length + row, rows, column, columns: width };
                    let mut values = self.values(&plan, area, scratch, &mut room);
                    if rows > 1 {
                        values = self.join_rows(values, rows, width, &mut tile);
                    }
                    if row == first {
                        values.copy_to_nonoverlapping(into, width * size);
                    } else {
                        (self.folds.join)(into, values, width);
                    }
                }
            });
        });
        if !single {
            let mut tile = Vec::new();
            for group in 0..groups {
                // SAFETY: a group has a row of parts for each stretch, and a row of results.
                unsafe {
                    let rows = partials.at(group * stretches * columns * size);
                    let row = self.join_rows(rows, stretches, columns, &mut tile);
                    row.copy_to_nonoverlapping(out.as_mut_ptr().add(group * columns * size), columns * size);
                }
            }
        }
    }

    /// Joins several rows to one: joins the lower half with the upper half until one row is left.
    ///
    /// # Safety
    /// There are `rows` rows of `width` values, which do not overlap `tile`.
    unsafe fn join_rows(&self, values: *const u8, rows: usize, width: usize, tile: &mut Vec<u64>) -> *const u8 {
        let bytes = width * self.size;
        let mut left = rows.div_ceil(2);
        tile.resize((left * bytes).div_ceil(8), 0);
        let start = tile.as_mut_ptr().cast::<u8>();
        // SAFETY: the tile has space for the lower half, and its halves are disjoint.
        unsafe {
            values.copy_to_nonoverlapping(start, left * bytes);
            (self.folds.join)(start, values.add(left * bytes), (rows - left) * width);
            while left > 1 {
                let half = left.div_ceil(2);
                (self.folds.join)(start, start.add(half * bytes), (left - half) * width);
                left = half;
            }
        }
        start
    }
}
