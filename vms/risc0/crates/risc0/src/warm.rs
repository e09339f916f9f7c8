//! Compiling kernels ahead of the first proof.

use rigel_codegen::program;
use rigel_gpu::{Device, DeviceKind};

use crate::circuit::{Circuit, Program};
use crate::device;
use crate::error::Result;

/// Compiles all kernels of proofs of segments of up to 2^`po2` rows, or finds them in the device's cache, and
/// returns the number of those that are generated from the circuit. Nothing in them depends on the program. Only
/// those that make the data columns depend on the number of rows: they are compiled for 2^`po2` here, and for
/// others when a segment has them.
///
/// The device may be one that only compiles ([`Device::compile_only`]).
///
/// # Errors
/// Those of the device's compiler.
pub fn warm(device: &Device, po2: u32) -> Result<usize> {
    let circuit = Circuit::get()?;
    rigel_kernels::registry::warm_risc_zero(device)?;
    if device.kind() != DeviceKind::Emulated {
        device::data_witness(device, po2)?;
    }
    let compile = |name: &str, made: &Program| {
        let program = program(device, name, &made.graph, &made.outputs)?;
        Ok::<_, rigel_gpu::Error>(program.compiled(device)?.kernels())
    };
    let accumulation = &circuit.accumulation;
    Ok(compile("risc0", &circuit.constraints)?
        + compile("risc0_terms", &accumulation.fractions)?
        + compile("risc0_elements", &accumulation.elements)?)
}
