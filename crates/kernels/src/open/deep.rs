//! Combinations of polynomials in coefficient form, and their division by `X - z`: how RISC Zero turns openings
//! into one polynomial for FRI.
//!
//! - [`combine_into`]: `out[r] += sum_k weights[k] c_k[r]`, for columns of a matrix over the base field
//! - [`add_at`]: adds to single coefficients
//! - [`divide_assign`]: the quotient of a polynomial by `X - z`, in place, and the remainder
//! - [`sum_into`]: the sum of polynomials, as a slab
//!
//! Polynomials over the extension are arrays of elements. Every operation reads and writes each element once, but for
//! the division, which reads twice.

use std::marker::PhantomData;

use rigel_gpu::{Buffer, Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::Element;
use crate::layout::columns::Columns;

/// Adds columns of a matrix, each times its weight, to a polynomial.
pub fn combine_into<E: Element>(
    stream: &Stream,
    out: ViewMut<'_, E>,
    matrix: Columns<'_, E::Base>,
    terms: &[(u32, E)],
) -> Result<()> {
    const NAME: &str = "deep::combine_into";
    if out.len() != matrix.rows() {
        let detail = format!("columns of {} rows into {} coefficients", matrix.rows(), out.len());
        return Err(Error::shape(NAME, detail));
    }
    if let Some((column, _)) = terms.iter().find(|(column, _)| *column as usize >= matrix.columns()) {
        let detail = format!("column {column} does not exist; the matrix has {}", matrix.columns());
        return Err(Error::shape(NAME, detail));
    }
    if terms.is_empty() {
        return Ok(());
    }
    let (columns, weights): (Vec<u32>, Vec<E>) = terms.iter().copied().unzip();
    let (columns, weights) = (stream.upload(&columns)?, stream.upload(&weights)?);
    let rows = matrix.rows();
    let arguments = (out, matrix.values(), &columns, &weights, terms.len() as u32, rows as u64);
    kernel::<E>(stream, Step::Combine, Shape::cover(rows, THREADS)?, arguments)
}

/// Adds to single coefficients, given by their positions, of which no two are equal.
pub fn add_at<E: Element>(stream: &Stream, values: ViewMut<'_, E>, addends: &[(u64, E)]) -> Result<()> {
    const NAME: &str = "deep::add_at";
    let (mut positions, elements): (Vec<u64>, Vec<E>) = addends.iter().copied().unzip();
    let (at, addends) = (stream.upload(&positions)?, stream.upload(&elements)?);
    positions.sort_unstable();
    if positions.last().is_some_and(|&last| last >= values.len() as u64)
        || positions.windows(2).any(|pair| pair[0] == pair[1])
    {
        let detail = format!("positions must be below {} and differ", values.len());
        return Err(Error::shape(NAME, detail));
    }
    if positions.is_empty() {
        return Ok(());
    }
    let shape = Shape::cover(positions.len(), THREADS)?;
    kernel::<E>(stream, Step::AddAt, shape, (values, &at, &addends, positions.len() as u32))
}

/// The sum of polynomials of `out.len() / DEGREE` coefficients each, stored one after the other.
pub fn sum_into<E: Element>(stream: &Stream, out: ViewMut<'_, E::Base>, polynomials: View<'_, E>) -> Result<()> {
    let rows = out.len() / E::DEGREE;
    if rows == 0
        || out.len() != rows * E::DEGREE
        || !polynomials.len().is_multiple_of(rows)
        || polynomials.is_empty()
    {
        let detail = format!("{} coefficients are no polynomials for {} values", polynomials.len(), out.len());
        return Err(Error::shape("deep::sum_into", detail));
    }
    let count = (polynomials.len() / rows) as u32;
    kernel::<E>(stream, Step::Sum, Shape::cover(rows, THREADS)?, (out, polynomials, count, rows as u64))
}

/// Divides a polynomial by `X - z` in place: the quotient's highest coefficient is zero. Returns the remainder,
/// which the device has yet to compute.
pub fn divide_assign<E: Element>(stream: &Stream, mut polynomial: ViewMut<'_, E>, z: E) -> Result<Buffer<E>> {
    let n = polynomial.len();
    let tile = THREADS as usize * RUN;
    let count = n.div_ceil(tile);
    let mut tiles = stream.alloc::<E>(count.max(1))?;
    let mut remainder = stream.alloc::<E>(1)?;
    let shape = Shape::new(count as u32, THREADS);
    kernel::<E>(stream, Step::DivideTiles, shape, (&mut tiles, polynomial.view(), z, n as u64))?;
    let step = z.pow(tile as u64);
    kernel::<E>(stream, Step::DivideCarries, Shape::new(1, 1), (&mut tiles, &mut remainder, step, count as u32))?;
    kernel::<E>(stream, Step::DivideWrite, shape, (polynomial.reborrow(), &tiles, z, n as u64))?;
    Ok(remainder)
}

/// Threads per block.
const THREADS: u32 = 256;

/// Coefficients of a thread in a division.
const RUN: usize = 8;

/// The kernels, in the order in which they are compiled.
#[derive(Clone, Copy)]
enum Step {
    Combine,
    AddAt,
    Sum,
    DivideTiles,
    DivideCarries,
    DivideWrite,
}

fn kernel<E: Element>(
    stream: &Stream,
    step: Step,
    shape: Shape,
    arguments: impl rigel_gpu::Arguments,
) -> Result<()> {
    Deep::<E>::kernels(stream.device(), ())?[step as usize].launch(stream, shape, arguments)
}

pub(crate) struct Deep<E>(PhantomData<E>);

impl<E: Element> Operation for Deep<E> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "open/deep.cu",
        text: include_str!("deep.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        let element = E::NAME;
        Instances::new([
            format!("combine_columns<{element}>"),
            format!("add_at<{element}>"),
            format!("sum_polynomials<{element}>"),
            format!("divide_tiles<{element}, {RUN}>"),
            format!("divide_carries<{element}>"),
            format!("divide_write<{element}, {RUN}>"),
        ])
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
