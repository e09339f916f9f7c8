//! Compiling kernels ahead of the first proof.

use rigel_codegen::program;
use rigel_gpu::{Device, DeviceKind};

use crate::circuit::{Circuit, Program};
use crate::device;
use crate::error::{Error, Result};

/// Compiles all kernels, or finds them in the device's cache, and returns the number of those that are generated from
/// the circuit. Nothing in them depends on the program or the size of its segments.
///
/// The device may be one that only compiles ([`Device::compile_only`]).
///
/// # Errors
/// The errors of the device's compiler.
pub fn warm(device: &Device) -> Result<usize> {
    let circuit = Circuit::get()?;
    let compile = |name: &str, made: &Program| {
        let program = program(device, name, &made.graph, &made.outputs)?;
        Ok::<_, rigel_gpu::Error>(program.compiled(device)?.kernels())
    };
    let accumulation = &circuit.accumulation;
    std::thread::scope(|scope| {
        // The witness is one module, which one core compiles beside the others.
        let witness = scope.spawn(|| match device.kind() {
            DeviceKind::Emulated => Ok(()),
            _ => device::data_witness(device, circuit.record().data_columns).map(|_| ()),
        });
        let kernels = compile("risc0", &circuit.constraints)?
            + compile("risc0_terms", &accumulation.fractions)?
            + compile("risc0_elements", &accumulation.elements)?;
        rigel_kernels::registry::warm_risc_zero(device)?;
        witness.join().map_err(|_| Error::Prover("the witness's compilation panicked".into()))??;
        Ok(kernels)
    })
}
