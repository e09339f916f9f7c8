//! Each row of a matrix times a factor of its own: `values[c][r] *= factors[r]`, in place.
//!
//! One launch for up to 65,535 columns; each value is read and written once, the factors come from the cache.

use std::marker::PhantomData;

use rigel_gpu::{Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::Field;
use crate::layout::grid::column_batches;

/// Multiplies the rows of columns of `factors.len()` values each, stored one after the other.
pub fn scale_rows<F: Field>(stream: &Stream, mut values: ViewMut<'_, F>, factors: View<'_, F>) -> Result<()> {
    let rows = factors.len();
    if rows == 0 || !values.len().is_multiple_of(rows) {
        let detail = format!("{} values are no columns of {rows} rows, one for each factor", values.len());
        return Err(Error::shape("scale::scale_rows", detail));
    }
    let kernel = Scale::<F>::kernel(stream.device(), ())?;
    let vector = 16 / size_of::<F>();
    for batch in column_batches(values.len() / rows) {
        let shape = Shape::cover(rows.div_ceil(vector), THREADS)?.rows(batch.len() as u32);
        let columns = values.reborrow().range(batch.start * rows..batch.end * rows)?;
        kernel.launch(stream, shape, (columns, factors, rows as u64))?;
    }
    Ok(())
}

/// Threads per block.
const THREADS: u32 = 256;

pub(crate) struct Scale<F>(PhantomData<F>);

impl<F: Field> Operation for Scale<F> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "vector/scale.cu",
        text: include_str!("scale.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::one(format!("scale_rows<{}>", F::NAME))
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
