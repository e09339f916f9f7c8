//! Sums of fractions whose denominators are inverted, as the columns of a LogUp argument hold them.

use std::marker::PhantomData;

use rigel_gpu::{Error, Result, Shape, Stream};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::Element;
use crate::layout::matrix::Matrix;
use crate::layout::slab::element_columns;

/// Replaces the numerators by sums along each row: with n_k and i_k the elements of a row of slab k of the two
/// matrices, `n_k = n_0 i_0 + n_1 i_1 + .. + n_k i_k`.
///
/// One launch, one thread a row. It reads both matrices and writes one of them.
pub fn running_sums<E: Element>(
    stream: &Stream,
    numerators: &mut Matrix<E::Base>,
    inverses: &Matrix<E::Base>,
) -> Result<()> {
    const NAME: &str = "fractions::running_sums";
    let slabs = element_columns::<E>(NAME, numerators)?;
    let (rows, columns) = (numerators.rows(), numerators.columns());
    if (inverses.rows(), inverses.columns()) != (rows, columns) {
        let detail = format!(
            "numerators of {rows} x {columns} and inverses of {} x {}; they must have the same shape",
            inverses.rows(),
            inverses.columns()
        );
        return Err(Error::shape(NAME, detail));
    }
    let slabs =
        u32::try_from(slabs).map_err(|_| Error::shape(NAME, format!("{slabs} slabs; 2^32 are too many")))?;
    let kernel = &Fractions::<E>::kernels(stream.device(), ())?[0];
    let shape = Shape::cover(rows, THREADS)?;
    kernel.launch(stream, shape, (numerators.values_mut(), inverses.values(), rows as u64, slabs))
}

/// Threads per block. Few rows are spread over many multiprocessors.
const THREADS: u32 = 64;

/// The kernel for one element type.
pub(crate) struct Fractions<E>(PhantomData<E>);

impl<E: Element> Operation for Fractions<E> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "vector/fractions.cu",
        text: include_str!("fractions.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::new([format!("running_sums<{}>", E::NAME)])
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
