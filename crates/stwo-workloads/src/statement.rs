//! Statements, as seen by a prover and by a verifier.

use num_traits::Zero;
use stwo::core::air::Component;
use stwo::core::channel::Channel;
use stwo::core::fields::qm31::SecureField;
use stwo::core::pcs::PcsConfig;
use stwo::prover::ComponentProver;
use stwo::prover::backend::Backend;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;

use crate::Workload;
use crate::logup::LogUp;
use crate::lookup::Elements;
use crate::witness::{HostColumn, Witness};

/// Something to prove: a set of components, with public values and a witness.
///
/// A component's columns are adjacent in each tree, in the order of [`components`](Self::components). All
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

    /// The components, for the verifier. `claimed_sums` has one sum for each, all zero if there are no relations.
    fn components(&self, elements: &Elements, claimed_sums: &[SecureField]) -> Vec<Box<dyn Component>>;

    /// The sum of the fractions of public entries. This and the claimed sums must sum to zero.
    fn public_sum(&self, _elements: &Elements) -> SecureField {
        SecureField::zero()
    }

    /// The witness. It can be generated once and proved any number of times.
    fn witness(&self) -> Witness {
        Witness { preprocessed: self.preprocessed(), trace: self.trace() }
    }

    /// The rows of the highest component, as a power of two.
    fn log_rows(&self) -> u32 {
        self.log_sizes().into_iter().max().expect("a statement has a component")
    }

    /// The number of columns in the preprocessed, the trace and the interaction tree.
    fn columns(&self) -> [usize; 3] {
        let sums = vec![SecureField::zero(); self.log_sizes().len()];
        let mut count = [self.preprocessed_ids().len(), 0, 0];
        for component in self.components(&Elements::placeholder(self.relations()), &sums) {
            let bounds = component.trace_log_degree_bounds();
            for (count, tree) in count.iter_mut().zip(bounds.iter()).skip(1) {
                *count += tree.len();
            }
        }
        count
    }
}

/// A component that backend B can prove.
pub trait Prover<B: Backend>: ComponentProver<B> + LogUp<B> {}

impl<B: Backend, T: ComponentProver<B> + LogUp<B>> Prover<B> for T {}

/// A statement that backend B can prove.
pub trait Provable<B: Backend>: Statement {
    /// The components of [`Statement::components`], for the prover.
    fn provers(&self, elements: &Elements, claimed_sums: &[SecureField]) -> Vec<Box<dyn Prover<B>>>;
}

/// Implements [`Provable`] for a statement with components of these AIRs. The pattern destructures the result of
/// its method `assemble`, and the expression boxes the components.
macro_rules! provable {
    ($statement:ty, [$($eval:ty),+], |$components:pat_param| $boxes:expr) => {
        impl<B> $crate::statement::Provable<B> for $statement
        where
            B: stwo::prover::backend::Backend,
            $(stwo_constraint_framework::FrameworkComponent<$eval>: $crate::statement::Prover<B>,)+
        {
            fn provers(
                &self,
                elements: &$crate::Elements,
                claimed_sums: &[stwo::core::fields::qm31::SecureField],
            ) -> Vec<Box<dyn $crate::statement::Prover<B>>> {
                let $components = self.assemble(elements, claimed_sums);
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
    let sums = vec![SecureField::zero(); statement.log_sizes().len()];
    let components = statement.components(&Elements::placeholder(statement.relations()), &sums);
    // A component's preprocessed columns are as long as its other columns.
    let reads = components.iter().filter(|component| !component.preprocessed_column_indices().is_empty());
    let longest = reads.map(|component| component.max_constraint_log_degree_bound() - 1).max();
    lifted_above(statement, config, longest)
}

/// As [`lifted`], where the length of the longest preprocessed column is known, as a power of two. Some component reads
/// it: upstream's verifier refuses preprocessed columns that none reads.
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
