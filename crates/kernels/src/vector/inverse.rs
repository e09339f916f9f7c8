//! Batch inversion: `out[i] = 1 / x[i]` for every element of a matrix, and 0 where `x[i] = 0`.
//!
//! Matrices over a base field, or slabs over an extension (see [`crate::field::element`]). One launch that reads and
//! writes each element once, by Montgomery's trick: about three products an element, and one inversion for every 8
//! threads with their 4 to 24 elements each.

use std::marker::PhantomData;
use std::sync::Arc;

use rigel_gpu::{Device, Kernel, Result, Shape, Stream, View, ViewMut};

use crate::code::source;
use crate::field::Element;
use crate::layout::grid::column_batches;
use crate::layout::matrix::Matrix;
use crate::layout::slab::element_columns;

/// The inverse of each element; zero stays zero.
pub fn invert<E: Element>(stream: &Stream, matrix: &Matrix<E::Base>) -> Result<Matrix<E::Base>> {
    element_columns::<E>("inverse::invert", matrix)?;
    let mut out = Matrix::alloc(stream, matrix.rows(), matrix.columns())?;
    Program::<E>::of(stream.device())?.run(stream, &mut out, Some(matrix))?;
    Ok(out)
}

/// Inverts each element in place; zero stays zero.
pub fn invert_assign<E: Element>(stream: &Stream, matrix: &mut Matrix<E::Base>) -> Result<()> {
    element_columns::<E>("inverse::invert_assign", matrix)?;
    Program::<E>::of(stream.device())?.run(stream, matrix, None)
}

/// `out[i] = 1 / (z - points[i])`, and 0 where z is a point: a slab of as many elements as there are points. It
/// reads the points, not the differences.
pub(crate) fn invert_differences<E: Element>(
    stream: &Stream,
    out: ViewMut<'_, E::Base>,
    points: View<'_, E::Base>,
    z: E,
) -> Result<()> {
    let shape = shape::<E>(points.len())?;
    Differences::<E>::of(stream.device())?.0.launch(stream, shape, (out, points, z, points.len() as u64))
}

/// Threads of a block, as in `inverse.cu`.
const THREADS: u32 = 256;

/// Vectors of 16 bytes that a thread takes of each coefficient, and the blocks that share a multiprocessor (which
/// bounds the registers of a thread): what was fastest on an H200. The more elements are under way, the better the
/// inversions hide.
const fn plan<E: Element>() -> (usize, usize) {
    match (E::DEGREE, size_of::<E::Base>()) {
        (1, 4) => (6, 4),
        (1, _) => (8, 4),
        (2, 4) => (4, 3),
        (2, _) => (4, 4),
        _ => (2, 3),
    }
}

/// The blocks for n elements of a slab.
fn shape<E: Element>(n: usize) -> Result<Shape> {
    Shape::cover(n.div_ceil(plan::<E>().0 * 16 / size_of::<E::Base>()), THREADS)
}

/// Compiles what the operation needs for elements of this type.
pub(crate) fn warm<E: Element>(device: &Device) -> Result<()> {
    Program::<E>::of(device).map(|_| ())
}

/// Compiles the inversion of differences.
pub(crate) fn warm_differences<E: Element>(device: &Device) -> Result<()> {
    Differences::<E>::of(device).map(|_| ())
}

struct Differences<E>(Kernel, PhantomData<E>);

impl<E: Element> Differences<E> {
    fn of(device: &Device) -> Result<Arc<Self>> {
        device.program(|device| {
            // Three blocks, so that the differences of 64-bit fields need not spill.
            let (runs, blocks) = plan::<E>();
            let name = format!("invert_differences<{}, {runs}, {}>", E::NAME, blocks.min(3));
            let module = device.compile(&source("inverse.cu", include_str!("inverse.cu")).kernel(&name))?;
            Ok(Self(module.kernel(&name)?, PhantomData))
        })
    }
}

struct Program<E>(Kernel, PhantomData<E>);

impl<E: Element> Program<E> {
    fn of(device: &Device) -> Result<Arc<Self>> {
        device.program(|device| {
            let (runs, blocks) = plan::<E>();
            let name = format!("invert<{}, {runs}, {blocks}>", E::NAME);
            let module = device.compile(&source("inverse.cu", include_str!("inverse.cu")).kernel(&name))?;
            Ok(Self(module.kernel(&name)?, PhantomData))
        })
    }

    fn run(&self, stream: &Stream, out: &mut Matrix<E::Base>, from: Option<&Matrix<E::Base>>) -> Result<()> {
        let (rows, columns) = (out.rows(), out.columns());
        // Over a base field all columns are one.
        let slab = if E::DEGREE == 1 { rows * columns } else { rows * E::DEGREE };
        let n = slab / E::DEGREE;
        let out = out.values().view();
        let from = from.map_or(out, |from| from.values().view());
        let shape = shape::<E>(n)?;
        for batch in column_batches(rows * columns / slab) {
            let part = batch.start * slab..batch.end * slab;
            let (out, from) = (out.range(part.clone())?, from.range(part)?);
            self.0.launch(stream, shape.rows(batch.len() as u32), (out, from, n as u64))?;
        }
        Ok(())
    }
}
