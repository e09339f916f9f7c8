//! The points of cosets of roots of unity.

use std::marker::PhantomData;
use std::sync::Arc;

use rigel_gpu::{Buffer, Result, Shape, Stream};

use crate::code::{Instances, KernelFile, Operation};
use crate::domain::block::Block;
use crate::domain::kept::kept;
use crate::domain::roots::{ORDERS, ReversedPowers, check_domain};
use crate::field::Field;

/// The 2^`log_n` points `GENERATOR w^rev(i)` of a coset in bit-reversed order, w the root of unity of that order. A
/// smaller coset is a prefix of them.
pub fn coset_points<F: Field>(stream: &Stream, log_n: u32) -> Result<Buffer<F>> {
    block_points(stream, Block::whole(log_n))
}

/// The points of a block of rows of such a coset.
pub fn block_points<F: Field>(stream: &Stream, block: Block) -> Result<Buffer<F>> {
    check_domain::<F>("points::coset_points", block.log_rows)?;
    let n = block.rows();
    let mut points = stream.alloc(n)?;
    let shape = Shape::cover(n.div_ceil(16 / size_of::<F>()), THREADS)?;
    let arguments = (&mut points, n as u64, F::GENERATOR * block.shift::<F>(), ReversedPowers::<F>::new());
    CosetPoints::<F>::kernel(stream.device(), ())?.launch(stream, shape, arguments)?;
    Ok(points)
}

/// [`block_points`]. The device keeps those of short blocks, which all proofs of a size read.
pub fn kept_points<F: Field>(stream: &Stream, block: Block) -> Result<Arc<Buffer<F>>> {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Points(Block);
    check_domain::<F>("points::coset_points", block.log_rows)?;
    kept(stream, Points(block), block.rows(), || block_points(stream, block))
}

/// Threads per block.
const THREADS: u32 = 256;

/// The points of cosets of one field.
pub(crate) struct CosetPoints<F>(PhantomData<F>);

impl<F: Field> Operation for CosetPoints<F> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "domain/points.cu",
        text: include_str!("points.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64), ("ROOT_ORDERS", ORDERS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::one(format!("coset_points<{}>", F::NAME)).takes::<ReversedPowers<F>>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
