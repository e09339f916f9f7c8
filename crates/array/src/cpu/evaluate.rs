//! Element-wise expressions over arrays.

use rayon::prelude::*;
use rigel_codegen::map::Expression;

use super::moves;
use super::plan::{Cut, Operand, Plan, Scalar, Scratch, alignment, check, chunk_places};
use super::plan::{number_strides, operands};
use super::space::{Area, Space};

/// An array to write: offset and strides count elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// The memory's first byte.
    pub(crate) memory: *mut u8,
    /// The offset of the element at index 0 of all axes.
    pub(crate) offset: usize,
    /// The strides of the axes.
    pub(crate) strides: &'a [isize],
}

/// The least work that pays off on several threads.
pub(crate) const PARALLEL_PLACES: usize = 32 << 10;

/// The division of a space into areas.
#[derive(Clone, Copy, Debug)]
struct Tiling {
    cut: Cut,
    /// The rows of an area.
    rows: usize,
    /// Areas do not cross multiples of this many rows.
    block: usize,
    /// The columns of an area.
    columns: usize,
}

impl Tiling {
    /// Areas of about `places` elements. If an operand is contiguous along another axis than the columns, an area
    /// spans several rows and columns, so that every cache line that is loaded is used.
    fn new(space: &Space, operands: usize, places: usize) -> Self {
        let (rows, columns) = (space.rows(), space.columns());
        let crosswise = |o: usize| {
            let (step, row_step) = (space.step(o).unsigned_abs(), space.row_step(o).unsigned_abs());
            step > 1 && row_step > 0 && row_step < step
        };
        let rank = space.lengths().len();
        if rank >= 2 && columns >= 16 && (0..operands).any(crosswise) {
            let block = space.lengths()[rank - 2];
            let height = block.min(32);
            return Self { cut: Cut::Boxes, rows: height, block, columns: columns.min(places / height) };
        }
        if rank < 2 || columns >= places / 4 {
            let parts = columns.div_ceil(places);
            let columns = columns.div_ceil(parts).next_multiple_of(16).min(places);
            return Self { cut: Cut::PartsOfRows, rows: 1, block: 1, columns };
        }
        Self { cut: Cut::WholeRows, rows: places / columns, block: rows, columns }
    }

    fn areas(&self, space: &Space) -> usize {
        space.rows() / self.block * self.block.div_ceil(self.rows) * space.columns().div_ceil(self.columns)
    }

    fn area(&self, space: &Space, number: usize) -> Area {
        let columns = space.columns();
        let across = columns.div_ceil(self.columns);
        let down = self.block.div_ceil(self.rows);
        let (number, part) = (number / across, number % across);
        let within = number % down * self.rows;
        let column = part * self.columns;
        Area {
            row: number / down * self.block + within,
            rows: self.rows.min(self.block - within),
            column,
            columns: self.columns.min(columns - column),
        }
    }
}

/// Writes the results.
struct Writer {
    origin: *mut u8,
    size: usize,
    operand: usize,
    /// Whether an area's results are contiguous, so that loops can write them directly.
    direct: bool,
}

// SAFETY: areas are disjoint, so threads write to different elements.
unsafe impl Sync for Writer {}

/// `out[i] = expression(i)` for every index i of `shape`, on all threads if there are many.
///
/// # Safety
/// During the call, any thread can read the operands' elements and write the target's elements at all indices, and
/// nothing else writes to either. The target overlaps no operand, except that an operand may have the same
/// elements at the same indices.
///
/// # Panics
/// If the number of operands, scalars or strides does not match the expression and the shape.
pub(crate) unsafe fn evaluate(
    expression: &Expression,
    shape: &[usize],
    inputs: &[Operand<'_>],
    scalars: &[Scalar],
    out: Target<'_>,
) {
    check(expression, shape, inputs, scalars);
    assert_eq!(out.strides.len(), shape.len(), "a stride for each axis");
    let of = expression.type_of(expression.result());
    let size = of.bytes();
    if shape.contains(&0) {
        return;
    }
    // The longest strides of the result are outermost, so that it is written in memory order.
    let mut order: Vec<usize> = (0..shape.len()).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(out.strides[axis].unsigned_abs()));
    let counts = number_strides(expression, shape);
    let all = operands(expression, inputs, &counts, Some(out.strides));
    let space = Space::new(shape, &order, &[], &all);
    let written = inputs.len();
    let tiling = Tiling::new(&space, written + 1, chunk_places(expression));
    // SAFETY: guaranteed by the caller.
    let plan = unsafe { Plan::new(expression, space, tiling.cut, inputs, scalars, written + 1) };

    // SAFETY: the element at the offset is inside the memory, guaranteed by the caller.
    let origin = unsafe { out.memory.add(out.offset * size) };
    let side_by_side = match tiling.cut {
        Cut::PartsOfRows => plan.space.step(written) == 1 || plan.space.lengths().is_empty(),
        Cut::WholeRows => plan.space.is_flat(written),
        Cut::Boxes => false,
    };
    let apart = |input: usize| {
        let (start, end) = span(&inputs[input], shape, expression.inputs()[input].bytes());
        let out = Operand { memory: out.memory, offset: out.offset, strides: out.strides };
        let (out_start, out_end) = span(&out, shape, size);
        end <= out_start || out_end <= start
    };
    let direct = side_by_side && origin.addr().is_multiple_of(alignment(of)) && plan.inputs_in_place().all(apart);
    let writer = Writer { origin, size, operand: written, direct };

    let work = |number: usize| {
        let area = tiling.area(&plan.space, number);
        // SAFETY: the area has the cut of the plan, and the caller guarantees the rest.
        Scratch::with(|scratch| unsafe { write(&plan, &writer, area, scratch) });
    };
    let areas = tiling.areas(&plan.space);
    let places = plan.space.rows() * plan.space.columns();
    if places < PARALLEL_PLACES {
        (0..areas).for_each(work);
    } else {
        (0..areas).into_par_iter().with_min_len(4).for_each(work);
    }
}

/// Computes an area's results and writes them.
///
/// # Safety
/// As for [`evaluate`] and [`Plan::run`].
unsafe fn write(plan: &Plan, writer: &Writer, area: Area, scratch: &mut Scratch) {
    let Writer { origin, size, operand, direct } = *writer;
    // SAFETY: the target has an element for each index of the area; contiguous results start at the first.
    unsafe {
        let first = origin.offset(plan.space.start(operand, area) * size as isize);
        let source = plan.run(area, scratch, direct.then_some(first));
        match (source.uniform, direct) {
            (false, true) if source.start == first => {}
            (false, true) => source.start.copy_to(first, area.count() * size),
            (true, true) => moves::fill(source.start, size, first, area.count()),
            (false, false) => moves::scatter(&plan.space, operand, area, origin, size, source.start),
            (true, false) => {
                plan.space.segments(operand, area, |s| {
                    let step = plan.space.step(operand);
                    for r in 0..s.rows as isize {
                        for c in 0..area.columns as isize {
                            let place = s.start + r * s.row_stride + c * step;
                            source.start.copy_to(origin.offset(place * size as isize), size);
                        }
                    }
                });
            }
        }
    }
}

/// The address range of an operand's elements.
fn span(operand: &Operand<'_>, shape: &[usize], size: usize) -> (usize, usize) {
    let (mut low, mut high) = (operand.offset as isize, operand.offset as isize);
    for (&length, &stride) in shape.iter().zip(operand.strides) {
        let reach = (length as isize - 1) * stride;
        *(if reach < 0 { &mut low } else { &mut high }) += reach;
    }
    let start = operand.memory.addr();
    (start + low as usize * size, start + (high as usize + 1) * size)
}
