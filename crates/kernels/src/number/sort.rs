//! The order that sorts rows of numbers: `out[i]` is the place in its row of the i-th smallest element. Equal elements
//! stay in their order, and NaN comes last, as in NumPy.
//!
//! A bitonic network over rows padded to a power of two: with n = 2^k elements per row and tiles of 2^10, one launch
//! sorts the tiles, and each of the (k - 10)(k - 9) / 2 + (k - 10) further launches reads and writes 4 bytes and reads
//! a key per element.

use rigel_gpu::{Buffer, Error, Result, Shape, Stream, View};

use crate::code::{Instances, KernelFile, Operation};

/// The types that can be sorted, by their C++ names, with their sizes.
const KEYS: [(&str, usize); 7] =
    [("bool", 1), ("i32", 4), ("u32", 4), ("i64", 8), ("u64", 8), ("float", 4), ("double", 8)];

/// The order that sorts each row of `n` elements of the type `of`: bool, i32, u32, i64, u64, float or double.
pub fn order(stream: &Stream, of: &str, n: usize, keys: View<'_, u8>) -> Result<Buffer<i64>> {
    let supported = || KEYS.map(|(name, _)| name).join(", ");
    let Some(&(of, bytes)) = KEYS.iter().find(|(name, _)| *name == of) else {
        return Err(Error::shape(NAME, format!("elements of {of:?} have no order; supported: {}", supported())));
    };
    if n == 0 || !keys.len().is_multiple_of(n * bytes) {
        return Err(Error::shape(NAME, format!("{} bytes of keys in rows of {n} of {of}", keys.len())));
    }
    if n > 1 << 30 {
        return Err(Error::shape(NAME, format!("rows of {n} elements; at most 2^30 are supported")));
    }
    let rows = keys.len() / (n * bytes);
    let mut out = stream.alloc::<i64>(rows * n)?;
    if rows == 0 {
        return Ok(out);
    }
    let padded = n.next_power_of_two().max(2);
    let mut order = stream.alloc::<u32>(rows * padded)?;
    let kernels = Sort::kernels(stream.device(), of)?;
    let length = padded.min(TILE);
    let sizes = (n as u32, padded as u32);
    let tiles = shape(rows * (padded / length))?;
    kernels[0].launch(stream, tiles, (&mut order, keys, sizes.0, sizes.1, length as u32))?;
    let mut size = 2 * length;
    while size <= padded {
        let pairs = rows * padded / 2;
        let mut stride = size / 2;
        while stride >= TILE {
            let arguments = (&mut order, keys, sizes.0, sizes.1, size as u32, stride as u32, pairs as u64);
            kernels[1].launch(stream, shape(pairs.div_ceil(THREADS))?, arguments)?;
            stride /= 2;
        }
        kernels[2].launch(stream, tiles, (&mut order, keys, sizes.0, sizes.1, size as u32))?;
        size *= 2;
    }
    let count = rows * n;
    let shape = shape(count.div_ceil(THREADS))?;
    kernels[3].launch(stream, shape, (&mut out, &order, sizes.0, sizes.1, count as u64))?;
    Ok(out)
}

fn shape(blocks: usize) -> Result<Shape> {
    match u32::try_from(blocks) {
        Ok(blocks) if blocks <= i32::MAX as u32 => Ok(Shape::new(blocks, THREADS as u32)),
        _ => Err(Error::shape(NAME, format!("{blocks} blocks exceed the limit of a launch; sort fewer rows"))),
    }
}

const NAME: &str = "sort::order";
/// Threads per block, and entries that a block sorts in shared memory.
const THREADS: usize = 256;
const TILE: usize = 4 * THREADS;

/// A module for each type of key, by its C++ name.
pub(crate) struct Sort;

impl Operation for Sort {
    type Variant = &'static str;

    const FILE: KernelFile = KernelFile {
        path: "number/sort.cu",
        text: include_str!("sort.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances(name: &'static str) -> Instances {
        Instances::new(["tiles", "far", "near", "out"].map(|kernel| format!("sort_{kernel}<{name}>")))
            .assert(format!("TILE == {TILE}"))
    }

    /// Nothing to compile in advance: provers do not sort.
    fn warmed() -> Vec<&'static str> {
        Vec::new()
    }

    fn on_demand() -> Vec<&'static str> {
        KEYS.map(|(name, _)| name).to_vec()
    }
}
