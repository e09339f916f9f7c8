//! Running sums and products of rows: `out[i] = x[0] o .. o x[i]`, with o addition or multiplication, for each of
//! `rows` rows of n elements of any arithmetic type.
//!
//! Tiles of 1,024 elements are scanned by a block each, then their totals in the same way, and the totals of earlier
//! tiles are joined to each tile. That reads and writes each element twice, in three launches up to 2^20 elements per
//! row. The order in which elements are joined depends only on n. For prover columns, [`crate::vector::scan`] moves
//! each element once.

use rigel_gpu::{Error, Result, Shape, Stream, View, ViewMut};

use super::matmul;
use crate::code::{Instances, KernelFile, Operation};

/// The operation that joins two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Join {
    /// `x + y`.
    Sum,
    /// `x y`.
    Product,
}

/// The running sums or products of rows of `n` elements of the type `of`, one of
/// [`matmul::TYPES`].
pub fn accumulate(
    stream: &Stream,
    of: &str,
    join: Join,
    n: usize,
    from: View<'_, u8>,
    mut out: ViewMut<'_, u8>,
) -> Result<()> {
    let of = matmul::known(NAME, of)?;
    if from.len() != out.len() || n == 0 || !from.len().is_multiple_of(n * of.bytes) {
        let detail = format!("{} bytes to {}, in rows of {n} of {}", from.len(), out.len(), of.name);
        return Err(Error::shape(NAME, detail));
    }
    let rows = from.len() / (n * of.bytes);
    if rows == 0 {
        return Ok(());
    }
    let kernels = Accumulate::kernels(stream.device(), (of.name, join))?;
    let tiles = n.div_ceil(TILE);
    let blocks = rows.checked_mul(tiles).and_then(|blocks| u32::try_from(blocks).ok());
    let blocks = blocks.filter(|&blocks| blocks <= i32::MAX as u32).ok_or_else(|| {
        Error::shape(NAME, format!("{rows} rows of {n} elements exceed the limit of a launch; split them"))
    })?;
    let shape = Shape::new(blocks, THREADS as u32);
    let mut totals = stream.alloc::<u8>(blocks as usize * of.bytes)?;
    let sizes = (n as u64, tiles as u64);
    kernels[0].launch(stream, shape, (out.reborrow(), from, &mut totals, sizes.0, sizes.1))?;
    if tiles == 1 {
        return Ok(());
    }
    let mut running = stream.alloc::<u8>(totals.len())?;
    accumulate(stream, of.name, join, tiles, totals.view(), running.view_mut())?;
    kernels[1].launch(stream, shape, (out, &running, sizes.0, sizes.1))
}

const NAME: &str = "accumulate";
/// Threads per block, and elements of a thread.
const THREADS: usize = 256;
const PER_THREAD: usize = 4;
const TILE: usize = THREADS * PER_THREAD;

/// A module for each type, by its C++ name, and way to join.
pub(crate) struct Accumulate;

impl Operation for Accumulate {
    type Variant = (&'static str, Join);

    const FILE: KernelFile = KernelFile {
        path: "number/accumulate.cu",
        text: include_str!("accumulate.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64), ("PER_THREAD", PER_THREAD as u64)],
    };

    fn instances((name, join): Self::Variant) -> Instances {
        let join = match join {
            Join::Sum => "Sums",
            Join::Product => "Products",
        };
        let kernels = ["tiles", "shift"].map(|kernel| format!("accumulate_{kernel}<{name}, {join}>"));
        let instances = Instances::new(kernels);
        let is_field = matmul::known(NAME, name).is_ok_and(|of| of.is_field);
        if is_field { instances.define("ACCUMULATE_FIELD", "1") } else { instances }
    }

    /// Nothing to compile in advance: provers use `vector/scan`.
    fn warmed() -> Vec<Self::Variant> {
        Vec::new()
    }

    fn on_demand() -> Vec<Self::Variant> {
        matmul::TYPES.into_iter().flat_map(|of| [(of, Join::Sum), (of, Join::Product)]).collect()
    }
}
