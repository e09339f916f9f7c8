//! Compiling kernels ahead of the first proof.

use cairo_air::cairo_components::CairoComponents;
use cairo_air::relations::CommonLookupElements;
use rigel_gpu::Device;
use stwo::core::channel::{Blake2sChannel, Channel};
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::PreProcessedTraceVariant;

use crate::components::{compile, every_component, interaction_claim};
use crate::error::{Error, Result};
use crate::panics::{caught, message};
use crate::witness;

/// Compiles the kernels of all components that programs of this variant can have, or finds them in the device's
/// cache, and returns their number. No later proof compiles kernels of components: nothing in them depends on the
/// program.
///
/// The device may be one that only compiles ([`Device::compile_only`]).
///
/// # Errors
/// The errors of the device's compiler.
pub fn warm(device: &Device, variant: PreProcessedTraceVariant) -> Result<usize> {
    let compile_all = || {
        let claim = every_component(variant);
        // Elements and sums are parameters of the kernels. As in a proof, they are not in the base field and differ.
        let channel = &mut Blake2sChannel::default();
        let elements = CommonLookupElements::draw(channel);
        let sums = interaction_claim(&claim, || channel.draw_secure_felt());
        let preprocessed = variant.to_preprocessed_trace();
        let components = || CairoComponents::new(&claim, &elements, &sums, &preprocessed.ids());
        Ok::<_, rigel_gpu::Error>(
            compile(components, device, &preprocessed.log_sizes())? + witness::compile(device)?,
        )
    };
    match caught(compile_all) {
        Ok(kernels) => Ok(kernels?),
        Err(panic) => Err(Error::Upstream(message(&*panic))),
    }
}

#[cfg(test)]
mod tests {
    use rigel_gpu::Selector;

    use super::*;
    use crate::components::sized_claim;

    /// The starts of segments, and the part of the table of large values that a component is, are parameters of
    /// kernels.
    #[test]
    fn other_segments_and_parts_compile_nothing() {
        let variant = PreProcessedTraceVariant::CanonicalWithoutPedersen;
        let device = Device::open(Selector::Emulated(0)).unwrap();
        let channel = &mut Blake2sChannel::default();
        let elements = CommonLookupElements::draw(channel);
        let draw = channel.draw_secure_felt();
        let preprocessed = variant.to_preprocessed_trace();
        let modules = |segment: u32, parts: usize, log_size: u32| {
            let names = ["add_mod_builtin", "mul_mod_builtin", "range_check96_builtin", "ec_op_builtin"];
            let sizes = |name: &str| match name {
                "memory_id_to_big" => Some(vec![log_size; parts]),
                name => names.contains(&name).then(|| vec![log_size]),
            };
            let mut claim = sized_claim(sizes);
            claim.add_mod_builtin.as_mut().unwrap().add_mod_builtin_segment_start = segment;
            claim.mul_mod_builtin.as_mut().unwrap().mul_mod_builtin_segment_start = segment + 1;
            claim.range_check96_builtin.as_mut().unwrap().range_check96_builtin_segment_start = segment + 2;
            claim.ec_op_builtin.as_mut().unwrap().ec_op_builtin_segment_start = segment + 3;
            let mut sum = draw;
            let sums = interaction_claim(&claim, || {
                sum += draw * draw;
                sum
            });
            let before = device.cache().stats();
            let components = || CairoComponents::new(&claim, &elements, &sums, &preprocessed.ids());
            compile(components, &device, &preprocessed.log_sizes()).unwrap();
            let after = device.cache().stats();
            after.compiled + after.hits - before.compiled - before.hits
        };
        assert_ne!(modules(1_000, 1, 6), 0);
        assert_eq!(modules(777_777, 3, 6), 0);
        assert_eq!(modules(5, 2, 9), 0);
    }
}
