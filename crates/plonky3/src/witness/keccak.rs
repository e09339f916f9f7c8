//! KeccakAir: a launch that writes each cell once and reads 200 bytes for each 24 rows.

use rigel_gpu::{Shape, Stream};
use rigel_kernels::Matrix;
use rigel_kernels::field::Ring;

use super::{THREADS, kernel};
use crate::base::error::Result;
use crate::upstream::field::DeviceField;

/// The columns of KeccakAir.
const COLUMNS: usize = 2_633;
/// The rows of one permutation.
const ROUNDS: usize = 24;

/// The trace of `p3_keccak_air::KeccakAir` for these inputs, on the device: the matrix that
/// `p3_keccak_air::generate_trace_rows` makes on the host. Its height is the next power of two of 24 rows per input;
/// the rows after the last input are permutations of zeros.
///
/// The stream need not be waited for; see [`Trace::Device`](crate::Trace::Device).
pub fn keccak<V: DeviceField>(stream: &Stream, inputs: &[[u64; 25]]) -> Result<Matrix<V::Device>> {
    let rows = (inputs.len() * ROUNDS).next_power_of_two();
    let mut trace = Matrix::alloc(stream, rows, COLUMNS)?;
    let words = match inputs {
        // A kernel takes no empty buffer.
        [] => stream.upload(&[0u64; 25])?,
        inputs => stream.upload(inputs.as_flattened())?,
    };
    let name = format!("keccak_trace<{}>", V::Device::NAME);
    // SAFETY: the kernel writes `rows` values of each of the trace's columns, and reads 25 words of each of the inputs,
    // whose numbers are passed below.
    let kernel = unsafe { kernel(stream, "witness/keccak.cu", include_str!("keccak.cu"), &name)? };
    let arguments = (trace.values_mut(), &words, inputs.len() as u64, rows as u64);
    kernel.launch(stream, Shape::cover(rows, THREADS)?, arguments)?;
    Ok(trace)
}
