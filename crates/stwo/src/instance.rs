//! Components whose constants differ from instance to instance.
//!
//! Base-field constants are part of a component's kernels. Some of them belong to the AIR; others to the instance,
//! such as the address at which a table begins. The framework's constraints do not tell them apart. A [`Template`]
//! does: it is the same component with placeholders in place of the instance's constants. The kernels are recorded
//! from the template and get the constants as parameters, so they are compiled once for all instances.

use rigel_gpu::{Device, Result};
use stwo::core::ColumnVec;
use stwo::core::air::Component;
use stwo::core::air::accumulation::PointEvaluationAccumulator;
use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::pcs::TreeVec;
use stwo::prover::{ComponentProver, DomainEvaluationAccumulator, Trace};
use stwo_constraint_framework::{FrameworkComponent, FrameworkEval};

use crate::CudaBackend;
use crate::column::BaseColumn;
use crate::component::{compile_from, evaluate_quotients};
use crate::logup::{PendingInteraction, start_from};
use crate::plan::ComponentSize;
use crate::recorder::Source;

/// A component with placeholders for the constants of an instance.
///
/// Its constraints have to be those of the instance when every constant that equals a placeholder is replaced. So the
/// placeholders must differ from each other and from the AIR's own constants: large numbers without a meaning serve.
/// The number of rows may be one of the constants: that of `eval` is not used otherwise.
#[derive(Clone, Debug)]
pub struct Template<E> {
    /// The component with placeholders.
    pub eval: E,
    /// The placeholders, and the instance's constants.
    pub constants: Vec<(BaseField, BaseField)>,
}

/// A component of a proof, whose kernels are recorded from a template if it has one.
///
/// It takes the component's place among the provers of upstream's `prove`.
pub struct Instance<'a, E: FrameworkEval> {
    component: &'a FrameworkComponent<E>,
    template: Option<Template<E>>,
}

impl<'a, E: FrameworkEval> Instance<'a, E> {
    /// A component, and its template if some of its constants differ from instance to instance.
    pub fn new(component: &'a FrameworkComponent<E>, template: Option<Template<E>>) -> Self {
        Self { component, template }
    }

    /// Starts the LogUp columns as [`start_interaction_trace`](crate::start_interaction_trace) does.
    ///
    /// # Errors
    /// The errors of [`start_interaction_trace`](crate::start_interaction_trace).
    pub fn start_interaction_trace(
        &self,
        preprocessed: &[&BaseColumn],
        trace: &[&BaseColumn],
    ) -> Result<PendingInteraction> {
        start_from(&self.source(), preprocessed, trace)
    }

    /// Compiles the component's kernels as [`compile`](crate::compile) does.
    ///
    /// # Errors
    /// The errors of [`compile`](crate::compile).
    pub fn compile(&self, device: &Device, preprocessed: &[u32]) -> Result<usize> {
        compile_from(device, self.component, &self.source(), preprocessed)
    }

    /// The component's size, as by [`ComponentSize::of`].
    pub fn size(&self, device: &Device) -> ComponentSize {
        ComponentSize::recorded(device, self.component, &self.source(), self.component.claimed_sum())
    }

    fn source(&self) -> Source<'_, E> {
        let own = Source::own(&**self.component);
        match &self.template {
            Some(template) => Source { eval: &template.eval, constants: &template.constants, ..own },
            None => own,
        }
    }
}

impl<E: FrameworkEval> ComponentProver<CudaBackend> for Instance<'_, E> {
    fn evaluate_constraint_quotients_on_domain(
        &self,
        trace: &Trace<'_, CudaBackend>,
        evaluation_accumulator: &mut DomainEvaluationAccumulator<CudaBackend>,
    ) {
        evaluate_quotients(self.component, &self.source(), trace, evaluation_accumulator);
    }
}

impl<E: FrameworkEval> Component for Instance<'_, E> {
    fn n_constraints(&self) -> usize {
        self.component.n_constraints()
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.component.max_constraint_log_degree_bound()
    }

    fn trace_log_degree_bounds(&self) -> TreeVec<ColumnVec<u32>> {
        self.component.trace_log_degree_bounds()
    }

    fn mask_points(
        &self,
        point: CirclePoint<SecureField>,
        max_log_degree_bound: u32,
    ) -> TreeVec<ColumnVec<Vec<CirclePoint<SecureField>>>> {
        self.component.mask_points(point, max_log_degree_bound)
    }

    fn preprocessed_column_indices(&self) -> ColumnVec<usize> {
        Component::preprocessed_column_indices(self.component)
    }

    fn evaluate_constraint_quotients_at_point(
        &self,
        point: CirclePoint<SecureField>,
        mask: &TreeVec<ColumnVec<Vec<SecureField>>>,
        evaluation_accumulator: &mut PointEvaluationAccumulator,
        max_log_degree_bound: u32,
    ) {
        self.component.evaluate_constraint_quotients_at_point(
            point,
            mask,
            evaluation_accumulator,
            max_log_degree_bound,
        );
    }
}
