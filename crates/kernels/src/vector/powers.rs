//! The powers of an element: `out[i] = start x^i` for i < n, as one column (a slab, see [`crate::field::element`]).
//!
//! One launch that fills the device and writes each element once. A thread finds its first power by squaring and
//! spends one product on each further element; n is limited by memory from about 2^20 on.

use std::marker::PhantomData;
use std::sync::Arc;

use rigel_gpu::{Device, Error, Kernel, Result, Shape, Stream};

use crate::code::source;
use crate::field::Element;
use crate::layout::matrix::Matrix;

/// `start, start x, start x^2, ..`: n elements.
pub fn powers<E: Element>(stream: &Stream, start: E, x: E, n: usize) -> Result<Matrix<E::Base>> {
    if n == 0 {
        return Err(Error::shape("powers", "no powers are asked for; n must be at least 1"));
    }
    let program = Program::<E>::of(stream.device())?;
    let out = Matrix::alloc(stream, n, E::DEGREE)?;
    let vector = 16 / size_of::<E::Base>();
    // Eight blocks of 256 threads fill a multiprocessor.
    let most = stream.device().properties().multiprocessors as usize * 8;
    let blocks = n.div_ceil(THREADS * vector).min(most);
    let step = x.pow((blocks * THREADS * vector) as u64);
    program.0.launch(
        stream,
        Shape::new(blocks as u32, THREADS as u32),
        (out.values(), n as u64, start, x, step),
    )?;
    Ok(out)
}

/// Threads of a block, as in `powers.cu`.
const THREADS: usize = 256;

/// Compiles what the operation needs for elements of this type.
pub(crate) fn warm<E: Element>(device: &Device) -> Result<()> {
    Program::<E>::of(device).map(|_| ())
}

struct Program<E>(Kernel, PhantomData<E>);

impl<E: Element> Program<E> {
    fn of(device: &Device) -> Result<Arc<Self>> {
        device.program(|device| {
            let name = format!("powers<{}>", E::NAME);
            let module = device.compile(&source("powers.cu", include_str!("powers.cu")).kernel(&name))?;
            Ok(Self(module.kernel(&name)?, PhantomData))
        })
    }
}
