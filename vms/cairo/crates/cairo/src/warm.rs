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
/// Those of the device's compiler.
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
