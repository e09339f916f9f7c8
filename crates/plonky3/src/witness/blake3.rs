//! Blake3Air: a launch that writes each cell once and reads 96 bytes for each row.

use rigel_gpu::{Shape, Stream};
use rigel_kernels::Matrix;
use rigel_kernels::field::Ring;

use super::{THREADS, kernel};
use crate::base::error::{Error, Result};
use crate::upstream::field::DeviceField;

/// The columns of Blake3Air.
const COLUMNS: usize = 32 * (16 + 8 + 4) + 16 + 7 * 4 * (16 + 32 * 8) + 32 * (4 + 16);

/// The trace of `p3_blake3_air::Blake3Air` for these inputs, on the device: the matrix that
/// `p3_blake3_air::generate_trace_rows` makes on the host. A row is one compression: 16 words of the block, and 8 of
/// the chaining value. The number of inputs is a power of two.
///
/// The stream need not be waited for; see [`Trace::Device`](crate::Trace::Device).
pub fn blake3<V: DeviceField>(stream: &Stream, inputs: &[[u32; 24]]) -> Result<Matrix<V::Device>> {
    let rows = inputs.len();
    if !rows.is_power_of_two() {
        return Err(Error::Height { table: 0, rows });
    }
    let mut trace = Matrix::alloc(stream, rows, COLUMNS)?;
    let words = stream.upload(inputs.as_flattened())?;
    let name = format!("blake3_trace<{}>", V::Device::NAME);
    // SAFETY: the kernel writes `rows` values of each of the trace's columns, and reads 24 words for each row.
    let kernel = unsafe { kernel(stream, "witness/blake3.cu", include_str!("blake3.cu"), &name)? };
    kernel.launch(stream, Shape::cover(rows, THREADS)?, (trace.values_mut(), &words, rows as u64))?;
    Ok(trace)
}
