//! Statements, as seen by a prover and by a verifier.

use num_traits::Zero;
use rigel_gpu::Device;
use rigel_stwo::ComponentSize;
use stwo::core::air::Component;
use stwo::core::channel::Channel;
use stwo::core::fields::qm31::SecureField;
use stwo::core::pcs::PcsConfig;
use stwo::prover::ComponentProver;
use stwo::prover::backend::Backend;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{FrameworkComponent, FrameworkEval, ORIGINAL_TRACE_IDX, TraceLocationAllocator};

use crate::Workload;
use crate::logup::LogUp;
use crate::lookup::Elements;
use crate::witness::{ComponentColumns, HostColumn, Witness};

/// A statement to prove: a set of components, with public values and a witness.
///
/// A component's columns are adjacent in each tree, in the order of [`airs`](Self::airs). All
/// constraints have degree at most 3, so each component's degree bound is twice its rows: upstream commits to the
/// composition polynomial as two halves, which are then as long as the longest columns.
pub trait Statement: Send + Sync {
    /// The workload.
    fn workload(&self) -> Workload;

    /// A one-sentence description of the statement.
    fn description(&self) -> String;

    /// The rows of each component, as powers of two.
    fn log_sizes(&self) -> Vec<u32>;

    /// The public values, as words.
    fn publics(&self) -> Vec<u32>;

    /// A copy of the statement that claims these public values where its own take long to compute and the proof
    /// shows them anyway: a chain's end. `None` if there are none. The result's [`publics`](Self::publics) are to
    /// be compared.
    fn claiming(&self, _publics: &[u32]) -> Option<Box<dyn Statement>> {
        None
    }

    /// The names of the preprocessed columns, in the order of their tree.
    fn preprocessed_ids(&self) -> Vec<PreProcessedColumnId> {
        Vec::new()
    }

    /// The preprocessed columns.
    fn preprocessed(&self) -> Vec<HostColumn> {
        Vec::new()
    }

    /// The columns of the trace.
    fn trace(&self) -> Vec<HostColumn>;

    /// The number of relations. With none there is no interaction tree.
    fn relations(&self) -> usize {
        0
    }

    /// The AIRs of the components, in their order.
    fn airs(&self, elements: &Elements) -> Vec<Box<dyn Air>>;

    /// The components, for the verifier. `claimed_sums` has one sum for each, all zero if there are no relations.
    fn components(&self, elements: &Elements, claimed_sums: &[SecureField]) -> Vec<Box<dyn Component>> {
        let mut places = TraceLocationAllocator::new_with_preprocessed_columns(&self.preprocessed_ids());
        let airs = with_sums(self.airs(elements), claimed_sums);
        airs.map(|(air, sum)| air.component(&mut places, sum)).collect()
    }

    /// The sum of the fractions of public entries. This and the claimed sums must sum to zero.
    fn public_sum(&self, _elements: &Elements) -> SecureField {
        SecureField::zero()
    }

    /// The witness. It can be generated once and proved any number of times.
    fn witness(&self) -> Witness {
        let components = component_columns(self).into();
        Witness { preprocessed: self.preprocessed(), trace: self.trace(), components }
    }

    /// The rows of the highest component, as a power of two.
    fn log_rows(&self) -> u32 {
        self.log_sizes().into_iter().max().expect("a statement has a component")
    }

    /// The number of columns in the preprocessed, the trace and the interaction tree.
    fn columns(&self) -> [usize; 3] {
        let mut count = [self.preprocessed_ids().len(), 0, 0];
        for component in placeholder_components(self) {
            let bounds = component.trace_log_degree_bounds();
            for (count, tree) in count.iter_mut().zip(bounds.iter()).skip(1) {
                *count += tree.len();
            }
        }
        count
    }
}

/// Components with placeholders of lookup elements and claimed sums, to ask them for their columns.
pub(crate) fn placeholder_components<S: Statement + ?Sized>(statement: &S) -> Vec<Box<dyn Component>> {
    statement.components(&Elements::placeholder(statement.relations()), &no_sums(statement))
}

/// A zero for each component, if its sum is not known yet or not needed.
pub(crate) fn no_sums<S: Statement + ?Sized>(statement: &S) -> Vec<SecureField> {
    vec![SecureField::zero(); statement.log_sizes().len()]
}

/// The columns of each component.
fn component_columns<S: Statement + ?Sized>(statement: &S) -> Vec<ComponentColumns> {
    let mut end = 0;
    let columns = |component: Box<dyn Component>| {
        let start = end;
        end += component.trace_log_degree_bounds().get(ORIGINAL_TRACE_IDX).map_or(0, Vec::len);
        ComponentColumns { trace: start..end, preprocessed: component.preprocessed_column_indices() }
    };
    placeholder_components(statement).into_iter().map(columns).collect()
}

/// AIRs with the claimed sums of their components.
fn with_sums<T>(airs: Vec<T>, claimed_sums: &[SecureField]) -> impl Iterator<Item = (T, SecureField)> {
    assert_eq!(airs.len(), claimed_sums.len(), "each component has a claimed sum");
    airs.into_iter().zip(claimed_sums.iter().copied())
}

/// An AIR of a statement.
pub trait Air {
    /// Makes the AIR's component, which gets the next columns of each tree.
    fn component(
        self: Box<Self>,
        places: &mut TraceLocationAllocator,
        claimed_sum: SecureField,
    ) -> Box<dyn Component>;
}

impl<E: FrameworkEval + 'static> Air for E {
    fn component(
        self: Box<Self>,
        places: &mut TraceLocationAllocator,
        claimed_sum: SecureField,
    ) -> Box<dyn Component> {
        Box::new(FrameworkComponent::new(places, *self, claimed_sum))
    }
}

/// An AIR that backend B can prove. Its lookups do not need a component, which upstream reads the whole AIR to make.
pub trait ProvableAir<B: Backend>: LogUp<B> {
    /// Makes the AIR's component as [`Air::component`] does, for the prover.
    fn prover(
        self: Box<Self>,
        places: &mut TraceLocationAllocator,
        claimed_sum: SecureField,
    ) -> Box<dyn Prover<B>>;
}

impl<B: Backend, E: FrameworkEval + LogUp<B> + 'static> ProvableAir<B> for E
where
    FrameworkComponent<E>: Prover<B>,
{
    fn prover(
        self: Box<Self>,
        places: &mut TraceLocationAllocator,
        claimed_sum: SecureField,
    ) -> Box<dyn Prover<B>> {
        Box::new(FrameworkComponent::new(places, *self, claimed_sum))
    }
}

/// A component that backend B can prove.
///
/// As with upstream's `ComponentProver<B>`, a backend implements it once for `FrameworkComponent<E>`, for all E.
pub trait Prover<B: Backend>: ComponentProver<B> {
    /// Compiles the kernels of the component's constraints and lookups, if the backend has any, and returns their
    /// number. `preprocessed` has the logarithms of the lengths of all preprocessed columns.
    fn compile(&self, _device: &Device, _preprocessed: &[u32]) -> rigel_gpu::Result<usize> {
        Ok(0)
    }

    /// The component's needs on the backend's device while it is proved, if the backend has one.
    fn size(&self, _device: &Device) -> Option<ComponentSize> {
        None
    }
}

/// A statement that backend B can prove.
pub trait Provable<B: Backend>: Statement {
    /// The AIRs of [`Statement::airs`], for the prover.
    fn provable_airs(&self, elements: &Elements) -> Vec<Box<dyn ProvableAir<B>>>;

    /// The components of [`Statement::components`], for the prover.
    fn provers(&self, elements: &Elements, claimed_sums: &[SecureField]) -> Vec<Box<dyn Prover<B>>> {
        let mut places = TraceLocationAllocator::new_with_preprocessed_columns(&self.preprocessed_ids());
        let airs = with_sums(self.provable_airs(elements), claimed_sums);
        airs.map(|(air, sum)| air.prover(&mut places, sum)).collect()
    }
}

/// Implements [`Provable`] for a statement with these AIRs. The pattern destructures the result of its method `evals`,
/// and the expression boxes the AIRs.
macro_rules! provable {
    ($statement:ty, [$($eval:ty),+], |$evals:pat_param| $boxes:expr) => {
        impl<B> $crate::statement::Provable<B> for $statement
        where
            B: stwo::prover::backend::Backend,
            $($eval: $crate::statement::ProvableAir<B>,)+
        {
            fn provable_airs(
                &self,
                elements: &$crate::Elements,
            ) -> Vec<Box<dyn $crate::statement::ProvableAir<B>>> {
                let $evals = self.evals(elements);
                $boxes
            }
        }
    };
}
pub(crate) use provable;

/// The configuration for proving a statement. If the given one does not set the size of the trees and the
/// preprocessed columns are shorter than the longest ones, all trees get the size of the longest columns.
///
/// In a preprocessed tree that is lower by a factor of 2^k, upstream maps query q to (q >> (k + 1) << 1) + (q &
/// 1). This does not preserve the order of queries, on which its decommitments rely: for k = 1, queries 1 and 2
/// become 1 and 0, and the verifier computes another root. It happens if two queries fall into one block of 2^(k +
/// 1), which is rare in large domains and common in small ones. Trees of the same size are not affected.
pub(crate) fn lifted<S: Statement + ?Sized>(statement: &S, config: PcsConfig) -> PcsConfig {
    if config.lifting_log_size.is_some() || statement.preprocessed_ids().is_empty() {
        return config;
    }
    let components = placeholder_components(statement);
    // A component's preprocessed columns are as long as its other columns.
    let reads = components.iter().filter(|component| !component.preprocessed_column_indices().is_empty());
    let longest = reads.map(|component| component.max_constraint_log_degree_bound() - 1).max();
    lifted_above(statement, config, longest)
}

/// The configuration of [`lifted`] where the length of the longest preprocessed column is known, as a power of
/// two. Some component reads it: upstream's verifier refuses preprocessed columns that none reads.
pub(crate) fn lifted_above<S: Statement + ?Sized>(
    statement: &S,
    mut config: PcsConfig,
    longest: Option<u32>,
) -> PcsConfig {
    if config.lifting_log_size.is_none() && longest.is_some_and(|longest| longest < statement.log_rows()) {
        config.lifting_log_size = Some(statement.log_rows() + config.fri_config.log_blowup_factor);
    }
    config
}

/// Begins the transcript: mixes in the configuration, the statement and its public values.
pub(crate) fn introduce<S: Statement + ?Sized>(channel: &mut impl Channel, statement: &S, config: &PcsConfig) {
    config.mix_into(channel);
    let sizes = statement.log_sizes();
    let publics = statement.publics();
    let mut words = vec![statement.workload() as u32, sizes.len() as u32];
    words.extend(sizes);
    words.push(publics.len() as u32);
    words.extend(publics);
    channel.mix_u32s(&words);
}
