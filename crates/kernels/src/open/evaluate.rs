//! Polynomials in coefficient form, evaluated at points of the extension: `out[k] = sum_r c_k[r] x_k^r`, where
//! `c_k` is a column of a matrix over the base field.
//!
//! Each column is read once for each of its points, and a product of the base with the extension is spent on each
//! coefficient. The powers of a point are computed once, as a slab of the matrix's height. Three launches for each
//! distinct point.

use std::marker::PhantomData;

use rigel_gpu::{Error, Result, Shape, Stream, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::Element;
use crate::layout::columns::Columns;
use crate::vector::powers::powers;

/// Evaluates column `queries[k].0` at the point `queries[k].1`, for all k.
pub fn evaluate_into<E: Element>(
    stream: &Stream,
    mut out: ViewMut<'_, E>,
    coefficients: Columns<'_, E::Base>,
    queries: &[(u32, E)],
) -> Result<()> {
    const NAME: &str = "evaluate::evaluate_into";
    if out.len() != queries.len() {
        return Err(Error::shape(NAME, format!("{} values into room for {}", queries.len(), out.len())));
    }
    if let Some((column, _)) = queries.iter().find(|(column, _)| *column as usize >= coefficients.columns()) {
        let detail = format!("column {column} does not exist; the matrix has {}", coefficients.columns());
        return Err(Error::shape(NAME, detail));
    }
    let mut points: Vec<E> = Vec::new();
    for &(_, x) in queries {
        if !points.contains(&x) {
            points.push(x);
        }
    }
    let rows = coefficients.rows();
    let tiles = rows.div_ceil(THREADS as usize * ROWS);
    let kernels = Evaluate::<E>::kernels(stream.device(), ())?;
    for x in points {
        let (slots, columns): (Vec<u32>, Vec<u32>) = queries
            .iter()
            .enumerate()
            .filter(|(_, (_, point))| *point == x)
            .map(|(slot, (column, _))| (slot as u32, *column))
            .unzip();
        let count = columns.len();
        let (slots, columns) = (stream.upload(&slots)?, stream.upload(&columns)?);
        let powers = powers(stream, E::ONE, x, rows)?;
        let mut partial = stream.alloc::<E>(tiles * count)?;
        let shape = Shape::cover(tiles, 1)?.threads(THREADS).rows(count.div_ceil(GROUP) as u32);
        let arguments =
            (&mut partial, coefficients.values(), powers.values(), &columns, rows as u64, count as u32);
        kernels[0].launch(stream, shape, arguments)?;
        let shape = Shape::cover(count, THREADS / 32)?.threads(THREADS);
        kernels[1].launch(stream, shape, (out.reborrow(), &partial, &slots, tiles as u32, count as u32))?;
    }
    Ok(())
}

/// Threads per block.
const THREADS: u32 = 256;

/// Rows of a thread, whose powers it holds, and columns of a block.
const ROWS: usize = 8;
const GROUP: usize = 32;

pub(crate) struct Evaluate<E>(PhantomData<E>);

impl<E: Element> Operation for Evaluate<E> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "open/evaluate.cu",
        text: include_str!("evaluate.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::new([
            format!("evaluate_tiles<{}, {ROWS}, {GROUP}>", E::NAME),
            format!("evaluate_sum<{}>", E::NAME),
        ])
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
