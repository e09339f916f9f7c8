//! The Poseidon2 AIRs: a launch that writes each cell once and reads the inputs.

use rigel_gpu::{Shape, Stream};
use rigel_kernels::Matrix;
use rigel_kernels::field::Ring;
use rigel_kernels::hash::poseidon2::{HALF_FULL_ROUNDS, Poseidon2Shape, RoundConstants};

use super::{THREADS, kernel};
use crate::base::error::{Error, Result};
use crate::upstream::field::DeviceField;
use crate::upstream::poseidon2::DevicePermutation;

/// The shape of a Poseidon2 AIR's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poseidon2Rows {
    /// Permutations in a row: `VECTOR_LEN` of `VectorizedPoseidon2Air`, 1 of `Poseidon2Air`.
    pub permutations: usize,
    /// Upstream's `SBOX_REGISTERS`: 0, or 1 where the S-box is x^7.
    pub registers: usize,
}

/// The trace of `p3_poseidon2_air::VectorizedPoseidon2Air`, or of `Poseidon2Air`, for these inputs, on the device: the
/// matrix that upstream's `generate_vectorized_trace_rows` and `generate_trace_rows` make on the host. The number of
/// rows is a power of two.
///
/// `P` names the field's permutation of this width, as `Poseidon2KoalaBear<16>`; the AIR has its rounds. `constants`
/// are the AIR's, by [`round_constants`](crate::round_constants).
///
/// The stream need not be waited for; see [`Trace::Device`](crate::Trace::Device).
pub fn poseidon2<V, P, const WIDTH: usize>(
    stream: &Stream,
    inputs: &[[V; WIDTH]],
    constants: &RoundConstants<V::Device>,
    shape: Poseidon2Rows,
) -> Result<Matrix<V::Device>>
where
    V: DeviceField,
    P: DevicePermutation<V>,
{
    let Poseidon2Rows { permutations, registers } = shape;
    // Checks the numbers of constants.
    P::Shape::constants(constants)?;
    // The S-box of KoalaBear is x^3.
    let most_registers = usize::from(V::Device::NAME != "KoalaBear");
    if WIDTH != P::Shape::WIDTH
        || registers > most_registers
        || !(1..=usize::from(u16::MAX)).contains(&permutations)
    {
        return Err(Error::Unsupported(format!(
            "{permutations} permutations per row of width {WIDTH} with {registers} registers per S-box; this \
             permutation of {} has width {} and at most {most_registers} registers, and a row 1 to {} permutations",
            V::Device::NAME,
            P::Shape::WIDTH,
            u16::MAX
        )));
    }
    let rows = inputs.len() / permutations;
    if !rows.is_power_of_two() || !inputs.len().is_multiple_of(permutations) {
        return Err(Error::Height { table: 0, rows });
    }
    let columns =
        WIDTH + 2 * HALF_FULL_ROUNDS * WIDTH * (registers + 1) + P::Shape::PARTIAL_ROUNDS * (registers + 1);
    let mut trace = Matrix::alloc(stream, rows, columns * permutations)?;
    let elements = stream.upload(V::as_device(inputs.as_flattened()))?;
    let RoundConstants { initial, partial, terminal } = constants;
    let constants: Vec<V::Device> =
        initial.iter().flatten().chain(partial).chain(terminal.iter().flatten()).copied().collect();
    let constants = stream.upload(&constants)?;
    let name = format!("poseidon2_trace<{}, {WIDTH}, {registers}>", V::Device::NAME);
    // SAFETY: the kernel writes `rows` values of each of the trace's columns, and reads the inputs and as many
    // constants as the permutation has, which were checked.
    let kernel = unsafe { kernel(stream, "witness/poseidon2.cu", include_str!("poseidon2.cu"), &name)? };
    let launch = Shape::cover(rows, THREADS)?.rows(permutations as u32);
    let arguments = (trace.values_mut(), &elements, &constants, rows as u64, columns as u32);
    kernel.launch(stream, launch, arguments)?;
    Ok(trace)
}
