//! The backends that a Cairo program is proven on.

use std::collections::BTreeSet;
use std::sync::Arc;

use cairo_air::cairo_components::CairoComponents;
use cairo_air::claims::{CairoClaim, CairoInteractionClaim};
use cairo_air::relations::CommonLookupElements;
use rigel_stwo::CudaBackend;
use stwo::core::fields::qm31::SecureField;
use stwo::prover::ComponentProver;
use stwo::prover::backend::Backend;
use stwo::prover::backend::simd::SimdBackend;
use stwo_cairo_adapter::ProverInput;
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::PreProcessedTrace;
use stwo_cairo_prover::utils::cairo_provers;
use stwo_cairo_prover::witness::cairo_claim_generator::CairoInteractionClaimGenerator;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;

use crate::clock::Clock;
use crate::columns::{Evaluation, HostColumn};
use crate::components::{device_lookups, device_provers, interaction_claim};
use crate::error::{Error, Result};
use crate::witness::{BaseTrace, device, host};

/// The inputs from which the lookups of a proof are made.
pub(crate) struct Lookups<'a, B: Backend> {
    pub(crate) claim: &'a CairoClaim,
    pub(crate) elements: &'a CommonLookupElements,
    /// The preprocessed columns before their extension, and their names.
    pub(crate) fixed: &'a [Evaluation<B>],
    pub(crate) ids: &'a [PreProcessedColumnId],
    /// The base trace before its extension, if the backend keeps it.
    pub(crate) trace: Vec<Evaluation<B>>,
    /// Upstream's generator, which has the values of all lookups in host memory, if upstream made the trace.
    pub(crate) generator: Option<CairoInteractionClaimGenerator>,
}

/// A backend that a Cairo program is proven on.
pub(crate) trait CairoBackend: Backend {
    /// The base trace of a run. `fixed` are the preprocessed columns that the backend keeps. Upstream's code makes the
    /// components in `on_host`, whatever the backend could do.
    fn base_trace(
        input: ProverInput,
        preprocessed: &Arc<PreProcessedTrace>,
        fixed: &[Evaluation<Self>],
        on_host: &BTreeSet<String>,
        clock: &Clock,
    ) -> Result<BaseTrace<Self>>;

    /// The columns on the backend.
    fn adopt(columns: Vec<HostColumn>) -> Result<Vec<Evaluation<Self>>>;

    /// The columns that the lookups are made from, kept while the trace is committed to.
    fn keep(columns: &[Evaluation<Self>]) -> Vec<Evaluation<Self>>;

    /// The columns of the lookups, and the sums.
    fn lookups(lookups: Lookups<'_, Self>) -> Result<(Vec<Evaluation<Self>>, CairoInteractionClaim)>;

    /// Calls `work` with the components as provers of the backend.
    fn with_provers<R>(components: &CairoComponents, work: impl FnOnce(&[&dyn ComponentProver<Self>]) -> R) -> R;
}

impl CairoBackend for CudaBackend {
    fn base_trace(
        input: ProverInput,
        preprocessed: &Arc<PreProcessedTrace>,
        fixed: &[Evaluation<Self>],
        on_host: &BTreeSet<String>,
        _: &Clock,
    ) -> Result<BaseTrace<Self>> {
        device::generate(input, preprocessed, fixed, on_host)
    }

    fn adopt(columns: Vec<HostColumn>) -> Result<Vec<Evaluation<Self>>> {
        Ok(rigel_stwo::upload(&columns)?)
    }

    fn keep(columns: &[Evaluation<Self>]) -> Vec<Evaluation<Self>> {
        // Shares the memory.
        columns.to_vec()
    }

    fn lookups(lookups: Lookups<'_, Self>) -> Result<(Vec<Evaluation<Self>>, CairoInteractionClaim)> {
        let Lookups { claim, elements, fixed, ids, trace, generator } = lookups;
        // The device takes the values from the columns themselves.
        drop(generator);
        let unknown = interaction_claim(claim, SecureField::default);
        let components = CairoComponents::new(claim, elements, &unknown, ids);
        let (columns, sums) = device_lookups(&components, fixed, &trace)?;
        let mut sums = sums.into_iter();
        let claim = interaction_claim(claim, || sums.next().expect("a sum for each component"));
        Ok((columns, claim))
    }

    fn with_provers<R>(components: &CairoComponents, work: impl FnOnce(&[&dyn ComponentProver<Self>]) -> R) -> R {
        let provers = device_provers(components);
        work(&provers.iter().map(|prover| &**prover as _).collect::<Vec<_>>())
    }
}

impl CairoBackend for SimdBackend {
    fn base_trace(
        input: ProverInput,
        preprocessed: &Arc<PreProcessedTrace>,
        _: &[Evaluation<Self>],
        _: &BTreeSet<String>,
        clock: &Clock,
    ) -> Result<BaseTrace<Self>> {
        clock.on_host("base trace", || host::generate(input, preprocessed))
    }

    fn adopt(columns: Vec<HostColumn>) -> Result<Vec<Evaluation<Self>>> {
        Ok(columns)
    }

    fn keep(_: &[Evaluation<Self>]) -> Vec<Evaluation<Self>> {
        Vec::new()
    }

    fn lookups(lookups: Lookups<'_, Self>) -> Result<(Vec<Evaluation<Self>>, CairoInteractionClaim)> {
        let generator = lookups.generator.ok_or(Error::Unsatisfied("upstream did not make the trace"))?;
        Ok(generator.write_interaction_trace(lookups.elements))
    }

    fn with_provers<R>(components: &CairoComponents, work: impl FnOnce(&[&dyn ComponentProver<Self>]) -> R) -> R {
        work(&cairo_provers(components))
    }
}
