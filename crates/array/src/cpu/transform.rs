//! Number-theoretic transforms of rows, by Plonky3's fastest for few polynomials at a time: the same as
//! [`rigel_kernels::transform::ntt`], with evaluations in natural order.

use std::sync::OnceLock;

use p3_dft::{Radix2DFTSmallBatch, TwoAdicSubgroupDft};
use p3_field::{PrimeField64, TwoAdicField};
use p3_matrix::Matrix;
use p3_matrix::dense::RowMajorMatrix;
use rayon::prelude::*;
use rigel_codegen::map::Type;

use super::slices::{elements, with_elements_mut};
use crate::field::Transform;

/// The number of values per call: short rows are transformed together, as the columns of a matrix.
const GROUP_VALUES: usize = 1 << 14;

/// Transforms rows of `length` elements each, a power of two, over a prime field with roots of unity of the
/// required orders.
///
/// # Panics
/// If the field is not BabyBear, KoalaBear or Goldilocks, or the lengths of `from` and `to` do not match the
/// transform.
pub(crate) fn transform(of: Type, transform: Transform, shift: u64, length: usize, from: &[u8], to: &mut [u8]) {
    macro_rules! of_field {
        ($field:ty) => {{
            static KNOWN: OnceLock<Radix2DFTSmallBatch<$field>> = OnceLock::new();
            let dft = KNOWN.get_or_init(Default::default);
            // SAFETY: upstream's field is one word in the same representation as in arrays.
            let from = unsafe { elements::<$field>(from) };
            // SAFETY: as above.
            unsafe { with_elements_mut(to, |to| rows(dft, transform, shift, length, &from, to)) }
        }};
    }
    match of {
        Type::BabyBear => of_field!(p3_baby_bear::BabyBear),
        Type::KoalaBear => of_field!(p3_koala_bear::KoalaBear),
        Type::Goldilocks => of_field!(p3_goldilocks::Goldilocks),
        other => unreachable!("{other:?} has no roots of unity of these orders"),
    }
}

fn rows<F: TwoAdicField + PrimeField64 + Ord>(
    dft: &Radix2DFTSmallBatch<F>,
    transform: Transform,
    shift: u64,
    length: usize,
    from: &[F],
    to: &mut [F],
) {
    let shift = F::from_int(shift);
    let longer = match transform {
        Transform::Extend { log_blowup } => length << log_blowup,
        Transform::Forward | Transform::Inverse => length,
    };
    assert_eq!(from.len() / length * longer, to.len(), "a place for each value");
    let group = (GROUP_VALUES / longer).max(1);
    from.par_chunks(group * length).zip(to.par_chunks_mut(group * longer)).for_each(|(from, to)| {
        let count = from.len() / length;
        let columns = RowMajorMatrix::new(transposed(from, count, length), count);
        let done = match transform {
            Transform::Forward => dft.coset_dft_batch(columns, shift).to_row_major_matrix(),
            Transform::Inverse => dft.coset_idft_batch(columns, shift),
            Transform::Extend { log_blowup } => {
                dft.coset_lde_batch(columns, log_blowup as usize, shift).to_row_major_matrix()
            }
        };
        if count == 1 {
            to.copy_from_slice(&done.values);
        } else {
            for (r, row) in to.chunks_exact_mut(longer).enumerate() {
                for (x, values) in row.iter_mut().zip(done.values.chunks_exact(count)) {
                    *x = values[r];
                }
            }
        }
    });
}

/// The transpose of a matrix.
fn transposed<F: Copy>(values: &[F], rows: usize, columns: usize) -> Vec<F> {
    if rows == 1 {
        return values.to_vec();
    }
    (0..columns).flat_map(|c| (0..rows).map(move |r| values[r * columns + c])).collect()
}
