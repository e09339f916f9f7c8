//! Batch inversion: `out[i] = 1 / x[i]` for every element of a matrix, and 0 where `x[i] = 0`.
//!
//! Matrices are over a base field, or slabs over an extension (see [`crate::layout::slab`]). One launch reads and
//! writes each element once, by Montgomery's trick: about three products per element, and one inversion for every 8
//! threads with their 4 to 24 elements each.

use std::marker::PhantomData;

use rigel_gpu::{Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation, parameters};
use crate::field::Element;
use crate::layout::grid::column_batches;
use crate::layout::matrix::Matrix;
use crate::layout::slab::element_columns;

/// The inverse of each element; zero stays zero.
pub fn invert<E: Element>(stream: &Stream, matrix: &Matrix<E::Base>) -> Result<Matrix<E::Base>> {
    element_columns::<E>("inverse::invert", matrix)?;
    let mut out = Matrix::alloc(stream, matrix.rows(), matrix.columns())?;
    run::<E>(stream, &mut out, Some(matrix))?;
    Ok(out)
}

/// Inverts each element in place; zero stays zero.
pub fn invert_assign<E: Element>(stream: &Stream, matrix: &mut Matrix<E::Base>) -> Result<()> {
    element_columns::<E>("inverse::invert_assign", matrix)?;
    run::<E>(stream, matrix, None)
}

/// Writes `1 / (z - points[i])` for each (z, n) of `slabs` and i < n, and 0 where z is a point: slabs of n
/// elements, one after the other, which fill `out`. It reads the points directly, so the differences are never
/// stored.
pub(crate) fn invert_differences<E: Element>(
    stream: &Stream,
    mut out: ViewMut<'_, E::Base>,
    points: View<'_, E::Base>,
    slabs: &[(E, usize)],
) -> Result<()> {
    const NAME: &str = "inverse::invert_differences";
    if let Some((_, n)) = slabs.iter().find(|(_, n)| *n > points.len()) {
        let detail = format!("a slab of {n} elements for {} points; there must be at most as many", points.len());
        return Err(Error::shape(NAME, detail));
    }
    let total = slabs.iter().map(|(_, n)| n * E::DEGREE).sum::<usize>();
    if out.len() != total {
        let detail = format!("room for {} coefficients; the slabs have {total}", out.len());
        return Err(Error::shape(NAME, detail));
    }
    let kernel = Inverse::<E>::kernel(stream.device(), Operand::Differences)?;
    let mut place = 0;
    for slabs in slabs.chunks(MOST_SLABS) {
        let mut differences = Differences { z: [E::ZERO; _], n: [0; _], place: [0; _] };
        for (i, &(z, n)) in slabs.iter().enumerate() {
            (differences.z[i], differences.n[i], differences.place[i]) = (z, n as u64, place as u64);
            place += n * E::DEGREE;
        }
        let longest = slabs.iter().map(|(_, n)| *n).max().unwrap_or(0);
        let shape = shape::<E>(longest)?.rows(slabs.len() as u32);
        kernel.launch(stream, shape, (out.reborrow(), points, differences))?;
    }
    Ok(())
}

parameters! {
    /// Slabs of differences of elements and points.
    struct Differences<E: Element> = format!("Differences<{}>", E::NAME) => {
        z: [E; MOST_SLABS],
        n: [u64; MOST_SLABS],
        place: [u64; MOST_SLABS],
    }
}

/// The maximum number of slabs of differences per launch.
const MOST_SLABS: usize = 16;

/// Threads per block.
const THREADS: u32 = 256;

/// Vectors of 16 bytes per thread and coefficient, and blocks per multiprocessor (which bounds the registers of a
/// thread): the fastest on an H200. The more elements are in flight, the better the latency of the inversions is
/// hidden.
const fn plan<E: Element>() -> (usize, usize) {
    match (E::DEGREE, size_of::<E::Base>()) {
        (1, 4) => (6, 4),
        (1, _) => (8, 4),
        (2, 4) => (4, 3),
        (2, _) => (4, 4),
        _ => (2, 3),
    }
}

/// The number of blocks for n elements of a slab.
fn shape<E: Element>(n: usize) -> Result<Shape> {
    Shape::cover(n.div_ceil(plan::<E>().0 * 16 / size_of::<E::Base>()), THREADS)
}

/// The operand: elements, or the differences of an element and points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operand {
    Elements,
    Differences,
}

pub(crate) struct Inverse<E>(PhantomData<E>);

impl<E: Element> Operation for Inverse<E> {
    type Variant = Operand;

    const FILE: KernelFile = KernelFile {
        path: "vector/inverse.cu",
        text: include_str!("inverse.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64), ("MOST_SLABS", MOST_SLABS as u64)],
    };

    fn instances(operand: Operand) -> Instances {
        let (runs, blocks) = plan::<E>();
        match operand {
            Operand::Elements => Instances::one(format!("invert<{}, {runs}, {blocks}>", E::NAME)),
            // Three blocks, so that the differences of 64-bit fields need not spill.
            Operand::Differences => {
                Instances::one(format!("invert_differences<{}, {runs}, {}>", E::NAME, blocks.min(3)))
                    .takes::<Differences<E>>()
            }
        }
    }

    fn warmed() -> Vec<Operand> {
        vec![Operand::Elements, Operand::Differences]
    }
}

/// Inverts `from`, or without it `out` in place.
fn run<E: Element>(stream: &Stream, out: &mut Matrix<E::Base>, from: Option<&Matrix<E::Base>>) -> Result<()> {
    let (rows, columns) = (out.rows(), out.columns());
    // Over a base field all columns are treated as one.
    let slab = if E::DEGREE == 1 { rows * columns } else { rows * E::DEGREE };
    let n = slab / E::DEGREE;
    let shape = shape::<E>(n)?;
    let kernel = Inverse::<E>::kernel(stream.device(), Operand::Elements)?;
    for batch in column_batches(rows * columns / slab) {
        let part = batch.start * slab..batch.end * slab;
        let from = from.map(|from| from.values().range(part.clone())).transpose()?;
        let out = out.values_mut().range_mut(part)?;
        kernel.launch(stream, shape.rows(batch.len() as u32), (out, from, n as u64))?;
    }
    Ok(())
}
