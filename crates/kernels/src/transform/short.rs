//! Low-degree extensions of many matrices, the short ones of them in one launch.
//!
//! A proof of many small tables extends a few columns of each. One by one they take two launches or more each, which
//! last longer than their arithmetic. Here a thread block extends one column to one coset, of whichever matrix: a
//! launch for up to 32 matrices, and an upload of their addresses. The interpolation is repeated for every coset, so
//! this is for few columns; [`ntt::extend`] extends the others.

use std::marker::PhantomData;
use std::sync::Arc;

use rigel_gpu::{Buffer, Result, Shape, Stream};

use crate::code::{Instances, KernelFile, Operation, parameters};
use crate::domain::kept::kept;
use crate::field::{Element, Field};
use crate::layout::columns::Columns;
use crate::layout::matrix::Matrix;
use crate::transform::ntt::{self, Order, TwoAdic};
use crate::vector::powers;

/// Columns to extend: evaluations on the subgroup H of as many points.
#[derive(Clone, Copy, Debug)]
pub struct Extension<'a, F: Field> {
    /// The evaluations.
    pub evaluations: Columns<'a, F>,
    /// The order of the evaluations.
    pub order: Order,
    /// The shift of the coset on which the result has evaluations.
    pub shift: F,
}

impl<F: TwoAdic> Extension<'_, F> {
    fn log_rows(&self) -> u32 {
        self.evaluations.rows().trailing_zeros()
    }

    /// Whether it is one for the launch of many.
    fn is_short(&self, added_bits: u32) -> bool {
        let (rows, columns) = (self.evaluations.rows(), self.evaluations.columns());
        added_bits <= MOST_ADDED_BITS
            && rows.is_power_of_two()
            && self.log_rows() <= MOST_LOG_ROWS
            && (1..=MOST_BLOCKS).contains(&(columns << added_bits))
    }
}

/// Evaluations on the cosets `shift H'` of 2^`added_bits` times as many points, in bit-reversed order, as
/// [`ntt::extend`] gives them for each matrix.
///
/// Results of short matrices share one piece of memory, which is free when the last of them is dropped.
pub fn extend_all<F: TwoAdic + Element<Base = F>>(
    stream: &Stream,
    matrices: &[Extension<'_, F>],
    added_bits: u32,
) -> Result<Vec<Matrix<F>>> {
    let mut extended: Vec<Option<Matrix<F>>> = matrices.iter().map(|_| None).collect();
    let short: Vec<usize> = (0..matrices.len()).filter(|&i| matrices[i].is_short(added_bits)).collect();
    if !short.is_empty() {
        let roots = roots::<F>(stream, added_bits)?;
        for numbers in short.chunks(MOST_MATRICES) {
            let of_launch: Vec<Extension<'_, F>> = numbers.iter().map(|&i| matrices[i]).collect();
            for (&i, matrix) in numbers.iter().zip(extend_short(stream, &roots, &of_launch, added_bits)?) {
                extended[i] = Some(matrix);
            }
        }
    }
    let others = extended.into_iter().zip(matrices).map(|(extended, matrix)| match extended {
        Some(extended) => Ok(extended),
        None => {
            let Extension { evaluations, order, shift } = *matrix;
            ntt::extend(stream, evaluations, added_bits, shift, order, Order::BitReversed)
        }
    });
    others.collect()
}

/// The bytes of the roots that a device keeps for extensions of short matrices. Results have up to 31 values of gaps
/// each, besides.
pub fn kept_bytes<F: Field>(added_bits: u32) -> usize {
    if added_bits <= MOST_ADDED_BITS { size_of::<F>() << (MOST_LOG_ROWS + added_bits) } else { 0 }
}

/// Extends short matrices as [`extend_all`] does, in one launch.
fn extend_short<F: TwoAdic + Element<Base = F>>(
    stream: &Stream,
    roots: &Matrix<F>,
    matrices: &[Extension<'_, F>],
    added_bits: u32,
) -> Result<Vec<Matrix<F>>> {
    let mut list = ShortMatrices {
        shifts: [F::ZERO; MOST_MATRICES],
        scales: [F::ZERO; MOST_MATRICES],
        places: [0; MOST_MATRICES],
        blocks: [0; MOST_MATRICES],
        log_rows: [0; MOST_MATRICES],
        reversed: [0; MOST_MATRICES],
        count: matrices.len() as u32,
        log_cosets: added_bits,
    };
    // Results begin where any vector of a kernel that reads them may begin.
    let (mut lengths, mut total, mut blocks) = (Vec::with_capacity(2 * matrices.len()), 0, 0);
    for (i, matrix) in matrices.iter().enumerate() {
        let Extension { evaluations, order, shift } = *matrix;
        ntt::check_extension("short::extend_all", evaluations.rows(), added_bits, shift)?;
        list.shifts[i] = shift;
        list.scales[i] = ntt::scale(matrix.log_rows());
        (list.places[i], list.blocks[i]) = (total as u32, blocks as u32);
        list.log_rows[i] = matrix.log_rows();
        list.reversed[i] = u32::from(order == Order::BitReversed);
        let length = evaluations.values().len() << added_bits;
        let gap = length.next_multiple_of(ALIGNED_VALUES) - length;
        lengths.extend([length, gap]);
        total += length + gap;
        blocks += evaluations.columns() << added_bits;
    }
    let mut out = stream.alloc::<F>(total)?;
    let longest = matrices.iter().map(|matrix| matrix.evaluations.rows()).max().unwrap_or(1);
    let views: Vec<_> = matrices.iter().map(|matrix| matrix.evaluations.values()).collect();
    let sources = stream.addresses(&views)?;
    let padded = |values: usize| values + values / 32;
    let shared = (padded(longest) + padded(longest / 2) + 1) * size_of::<F>();
    let threads = (longest as u32 / 2).clamp(LEAST_THREADS, THREADS);
    let shape = Shape::cover(blocks, 1)?.threads(threads).shared(shared as u32);
    Short::<F>::kernel(stream.device(), ())?.launch(stream, shape, (&mut out, &sources, roots.values(), list))?;
    let parts = out.split(&lengths)?.into_iter().step_by(2);
    let matrix = |(part, matrix): (Buffer<F>, &Extension<'_, F>)| {
        Matrix::new(part, matrix.evaluations.rows() << added_bits, matrix.evaluations.columns())
    };
    parts.zip(matrices).map(matrix).collect()
}

/// The powers of the root of order 2^(`MOST_LOG_ROWS` + `added_bits`). The device keeps them as it keeps the values of
/// a domain of 2^`MOST_LOG_ROWS` points, although they are more: every short matrix needs them.
fn roots<F: TwoAdic + Element<Base = F>>(stream: &Stream, added_bits: u32) -> Result<Arc<Matrix<F>>> {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Roots(u32);
    let order = MOST_LOG_ROWS + added_bits;
    kept(stream, Roots(order), 1 << MOST_LOG_ROWS, || {
        powers::powers(stream, F::ONE, F::two_adic_generator(order), 1 << order)
    })
}

/// The most rows of a short matrix, as a logarithm.
const MOST_LOG_ROWS: u32 = 12;

/// The most bits by which a short matrix is extended, because its interpolation is repeated for every coset.
const MOST_ADDED_BITS: u32 = 4;

/// The most thread blocks of a short matrix. With more, transforms that read every value once per pass are faster.
const MOST_BLOCKS: usize = 512;

/// Matrices of one launch.
const MOST_MATRICES: usize = 32;

/// Threads of a block: a level of a transform of 2^12 points has 2^11 butterflies.
const THREADS: u32 = 512;
const LEAST_THREADS: u32 = 32;

/// Results begin at multiples of so many values, at least 128 bytes.
const ALIGNED_VALUES: usize = 32;

// Places in the result are words.
const _: () = assert!(MOST_MATRICES * (MOST_BLOCKS << MOST_LOG_ROWS) <= u32::MAX as usize);

parameters! {
    /// The matrices of a launch.
    struct ShortMatrices<F: Field> = format!("ShortMatrices<{}>", F::NAME) => {
        shifts: [F; MOST_MATRICES],
        scales: [F; MOST_MATRICES],
        places: [u32; MOST_MATRICES],
        blocks: [u32; MOST_MATRICES],
        log_rows: [u32; MOST_MATRICES],
        reversed: [u32; MOST_MATRICES],
        count: u32,
        log_cosets: u32,
    }
}

/// Extensions of short matrices over one field.
pub(crate) struct Short<F>(PhantomData<F>);

impl<F: TwoAdic> Operation for Short<F> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "transform/short.cu",
        text: include_str!("short.cu"),
        constants: &[
            ("BLOCK_THREADS", THREADS as u64),
            ("MOST_MATRICES", MOST_MATRICES as u64),
            ("MOST_LOG_ROWS", MOST_LOG_ROWS as u64),
        ],
    };

    fn instances((): ()) -> Instances {
        Instances::one(format!("extend_short<{}>", F::NAME)).takes::<ShortMatrices<F>>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
