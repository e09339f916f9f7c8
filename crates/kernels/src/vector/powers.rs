//! The powers of an element: `out[i] = start x^i` for i < n, as one column (a slab, see [`crate::layout::slab`]).
//!
//! One launch that fills the device and writes each element once. A thread computes its first power by squaring and
//! spends one product on each further element; from about n = 2^20 on it is memory-bound.

use std::marker::PhantomData;

use rigel_gpu::{Error, Result, Shape, Stream};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::Element;
use crate::layout::matrix::Matrix;

/// `start, start x, start x^2, ..`: n elements.
pub fn powers<E: Element>(stream: &Stream, start: E, x: E, n: usize) -> Result<Matrix<E::Base>> {
    if n == 0 {
        return Err(Error::shape("powers", "n is 0; it must be at least 1"));
    }
    let mut out = Matrix::alloc(stream, n, E::DEGREE)?;
    let vector = 16 / size_of::<E::Base>();
    // Eight blocks of 256 threads fill a multiprocessor.
    let most = stream.device().properties().multiprocessors as usize * 8;
    let blocks = n.div_ceil(THREADS * vector).min(most);
    let step = x.pow((blocks * THREADS * vector) as u64);
    let kernel = Powers::<E>::kernel(stream.device(), ())?;
    let shape = Shape::new(blocks as u32, THREADS as u32);
    kernel.launch(stream, shape, (out.values_mut(), n as u64, start, x, step))?;
    Ok(out)
}

/// Threads per block.
const THREADS: usize = 256;

pub(crate) struct Powers<E>(PhantomData<E>);

impl<E: Element> Operation for Powers<E> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "vector/powers.cu",
        text: include_str!("powers.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::one(format!("powers<{}>", E::NAME))
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
