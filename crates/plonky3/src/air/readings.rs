//! AIRs that a prover has read, and how it knows them again.
//!
//! Reading an AIR takes longer than proving few rows of it. Its type does not say whether it was read before: AIRs may
//! have fields. So its constraints are evaluated with hashes in place of expressions, which takes microseconds
//! ([`crate::air::structure`]). Two AIRs of one type are the same one if all their constraints are written in the same
//! way. The same polynomials in another form are read again: upstream counts the chunks of the quotient by the form.

use std::any::type_name;
use std::collections::HashMap;
use std::sync::Arc;

use p3_air::symbolic::AirLayout;
use p3_air::{Air, BaseAir};
use rigel_gpu::Lock;

use crate::air::constraints::Constraints;
use crate::air::structure::{Leaves, Structure, StructureBuilder};
use crate::upstream::config::DeviceConfig;

/// The constraints that a prover has read, with their kernels.
pub(crate) struct Readings<SC: DeviceConfig> {
    kept: Lock<Kept<SC>>,
    /// Whether constraints are kept without kernels: each of several devices looks its own up.
    without_kernels: bool,
}

type Kept<SC> = HashMap<(Kind, Structure), Arc<Constraints<SC>>>;

/// The facts on which an AIR's constraints depend, besides the AIR's fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    /// The type's name. Types of one name are told apart by their constraints.
    air: &'static str,
    widths: [usize; 4],
    /// The degree that the AIR states.
    degree: Option<usize>,
    /// The number of rows, if there are periodic columns, and their periods: their degree depends on both.
    periods: Option<(usize, Vec<usize>)>,
    /// The batch key and the table whose lookups are part of the constraints.
    lookups: Option<(u64, usize)>,
    /// Whether they are for batches of columns, which have kernels of their own.
    in_batches: bool,
}

impl Kind {
    /// The kind of a table's constraints. In a batch, `lookups` has the number of the key and the table's index.
    pub(crate) fn new<V: Clone, A: BaseAir<V>>(
        air: &A,
        layout: &AirLayout,
        rows: usize,
        lookups: Option<(u64, usize)>,
    ) -> Self {
        let &AirLayout { preprocessed_width, main_width, num_public_values, num_periodic_columns, .. } = layout;
        let widths = [preprocessed_width, main_width, num_public_values, num_periodic_columns];
        let periods = || air.periodic_columns().iter().map(Vec::len).collect();
        let periods = (num_periodic_columns > 0).then(|| (rows, periods()));
        let (air, degree) = (type_name::<A>(), air.max_constraint_degree());
        Self { air, widths, degree, periods, lookups, in_batches: false }
    }

    /// The kind of these constraints for batches of columns.
    pub(crate) fn in_batches(&self) -> Self {
        Self { in_batches: true, ..self.clone() }
    }

    /// The kind of these constraints for whole extended traces.
    fn whole(&self) -> Self {
        Self { in_batches: false, ..self.clone() }
    }
}

/// The largest number of tables whose constraints are kept.
const MOST_READINGS: usize = 256;

impl<SC: DeviceConfig> Default for Readings<SC> {
    fn default() -> Self {
        Self { kept: Lock::default(), without_kernels: false }
    }
}

impl<SC: DeviceConfig> Readings<SC> {
    /// An empty set for proofs over several devices.
    pub(crate) fn without_kernels() -> Self {
        Self { without_kernels: true, ..Self::default() }
    }

    /// Whether any AIR of this kind was read: most likely it is the same one.
    pub(crate) fn has(&self, kind: &Kind) -> bool {
        let whole = kind.whole();
        self.kept.lock().keys().any(|(kept, _)| kept == kind || *kept == whole)
    }

    /// The constraints of an AIR: those that were read before, or else what `read` returns, which is kept. Constraints
    /// without kernels are not kept, unless none of that kind have any: the next proof compiles them, or tries again.
    pub(crate) fn of(
        &self,
        kind: &Kind,
        structure: Structure,
        read: impl FnOnce() -> Constraints<SC>,
    ) -> Arc<Constraints<SC>> {
        if let Some(constraints) = self.kept(kind, structure) {
            return constraints;
        }
        let constraints = Arc::new(read());
        if self.without_kernels || kind.in_batches || constraints.is_compiled() {
            let mut kept = self.kept.lock();
            if kept.len() == MOST_READINGS
                && let Some(any) = kept.keys().next().cloned()
            {
                kept.remove(&any);
            }
            kept.insert((kind.clone(), structure), constraints.clone());
        }
        constraints
    }

    /// The kept constraints of a kind. For batches of columns, constraints for whole traces will do.
    fn kept(&self, kind: &Kind, structure: Structure) -> Option<Arc<Constraints<SC>>> {
        let kept = self.kept.lock();
        let of_kind = |kind: &Kind| kept.get(&(kind.clone(), structure)).cloned();
        of_kind(kind).or_else(|| of_kind(&kind.whole()).filter(|_| kind.in_batches))
    }

    /// The hash of the lookups of an AIR of a batch that was read and kept.
    pub(crate) fn lookups(&self, kind: &Kind, structure: Structure) -> Option<u64> {
        self.kept(kind, structure).or_else(|| self.kept(&kind.in_batches(), structure))?.lookups
    }

    /// Forgets an AIR, which is read again in the next proof.
    pub(crate) fn forget(&self, kind: &Kind, structure: Structure) {
        let mut kept = self.kept.lock();
        for kind in [kind.whole(), kind.in_batches()] {
            kept.remove(&(kind, structure));
        }
    }

    /// The structure of an AIR's constraints. Its lookups are not part of it: [`crate::air::contents`] has their hash.
    pub(crate) fn structure<A>(air: &A, layout: &AirLayout) -> Structure
    where
        A: for<'a> Air<StructureBuilder<'a, SC::Value, SC::Challenge>>,
    {
        let leaves = Leaves::new(layout);
        let mut builder = leaves.builder();
        air.eval(&mut builder);
        builder.structure()
    }
}
