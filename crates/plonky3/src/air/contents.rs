//! The contents that a key is bound to besides its AIRs' types, widths and constraints: their preprocessed values
//! and their lookups.
//!
//! The device proves with the key's columns and lookups, the CPU may commit to those of the AIR again. So a key for
//! other ones is an error, found by hashes that are made at setup. Comparing must not slow a proof down:
//!
//! - [`p3_air::BaseAir::preprocessed_trace`] makes the whole matrix. A thread makes and hashes it beside the proof, but
//!   not if it is so large that the proof might wait for it, nor if it is so small that the thread takes longer.
//! - Lookups are known by reading the AIR symbolically. The device does that once for a key, and compares then; the CPU
//!   does it in every proof.
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::panic::resume_unwind;
use std::sync::{Arc, LazyLock};
use std::thread;

use p3_air::symbolic::{AirLayout, BaseLeaf, SymbolicExpr, SymbolicExpression};
use p3_air::{Air, BaseAir};
use p3_field::{ExtensionField, Field};
use p3_lookup::InteractionSymbolicBuilder;
use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use rigel_codegen::QuickMap;

use crate::base::error::{Error, Result};

/// Makes the hashes of a process unpredictable. All provers have the same, so that the hashes in a key of one are those
/// of the AIR in a proof of another.
pub(crate) static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The largest number of preprocessed values of a table that each proof compares, in builds without debug assertions.
/// They are made and hashed beside the proof.
const MOST_VALUES: usize = 1 << 20;

/// The most values that are made and compared before the proof. To hash a few hundred takes a microsecond, to
/// start a thread 75 on an H200's host.
const FEW_VALUES: usize = 1 << 12;

/// Hashes of an AIR's preprocessed values and lookups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contents {
    preprocessed: Option<Values>,
    lookups: u64,
}

/// The number of values and their hash.
#[derive(Clone, Copy, Debug)]
struct Values {
    count: usize,
    hash: u64,
}

/// The preprocessed values that are compared.
#[derive(Clone, Copy)]
pub(crate) enum Extent {
    /// The values that a proof does not wait for; all of them in debug builds.
    Usual,
    All,
}

impl Contents {
    /// The contents of an AIR without lookups that has these preprocessed columns.
    pub(crate) fn of_values<V: Field>(preprocessed: Option<&RowMajorMatrix<V>>) -> Self {
        Self { preprocessed: preprocessed.map(Values::of), lookups: 0 }
    }

    /// The contents of an AIR of a batch, which has these preprocessed columns.
    pub(crate) fn of_table<V, E, A>(air: &A, preprocessed: Option<&RowMajorMatrix<V>>) -> Self
    where
        V: Field,
        E: ExtensionField<V>,
        A: Air<InteractionSymbolicBuilder<V, E>>,
    {
        Self { lookups: lookups_of::<V, E, A>(air), ..Self::of_values(preprocessed) }
    }

    /// Checks the preprocessed values of an AIR.
    pub(crate) fn check_values<V: Field>(self, table: usize, air: &impl BaseAir<V>, extent: Extent) -> Result<()> {
        let Some(values) = self.preprocessed else { return Ok(()) };
        let is_compared = match extent {
            Extent::All => true,
            Extent::Usual => cfg!(debug_assertions) || values.count <= MOST_VALUES,
        };
        if is_compared && air.preprocessed_trace().is_none_or(|trace| Values::of(&trace).hash != values.hash) {
            let detail =
                "the key was made for an AIR of this type with other preprocessed values; make one for this AIR";
            return Err(Error::Preprocessed { table, detail: detail.into() });
        }
        Ok(())
    }

    /// Checks the lookups of an AIR, by the hash that was made when it was read, or else by reading it.
    pub(crate) fn check_lookups<V, E, A>(self, table: usize, air: &A, read: Option<u64>) -> Result<()>
    where
        V: Field,
        E: ExtensionField<V>,
        A: Air<InteractionSymbolicBuilder<V, E>>,
    {
        if read.unwrap_or_else(|| lookups_of::<V, E, A>(air)) == self.lookups {
            return Ok(());
        }
        let detail = "the key was made for an AIR of this type with other lookups; make one for this AIR";
        Err(Error::Lookup { table, detail: detail.into() })
    }
}

impl Values {
    fn of<V: Field>(matrix: &RowMajorMatrix<V>) -> Self {
        let mut hasher = SEED.build_hasher();
        (matrix.width(), matrix.height()).hash(&mut hasher);
        V::hash_slice(&matrix.values, &mut hasher);
        Self { count: matrix.values.len(), hash: hasher.finish() }
    }
}

/// The result of `prove`, with the `check` of these contents on a thread beside it, or before it if they are few
/// values. Its error is the first: a proof with another key fails in other ways, too.
pub(crate) fn beside<T>(
    contents: &[Contents],
    check: impl FnOnce() -> Result<()> + Send,
    prove: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let values = contents.iter().filter_map(|contents| contents.preprocessed.map(|values| values.count));
    if values.sum::<usize>() <= FEW_VALUES {
        check()?;
        return prove();
    }
    thread::scope(|scope| {
        let checking = scope.spawn(check);
        let proven = prove();
        checking.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        proven
    })
}

/// The hash of an AIR's lookups, which is read for it.
fn lookups_of<V, E, A>(air: &A) -> u64
where
    V: Field,
    E: ExtensionField<V>,
    A: Air<InteractionSymbolicBuilder<V, E>>,
{
    let mut builder = InteractionSymbolicBuilder::new(AirLayout::from_air(air));
    air.eval(&mut builder);
    hash_lookups(&builder)
}

/// The hash of the lookups of an AIR that was read.
pub(crate) fn hash_lookups<V: Field, E: ExtensionField<V>>(read: &InteractionSymbolicBuilder<V, E>) -> u64 {
    let mut expressions = Expressions { seen: QuickMap::default() };
    let mut hasher = SEED.build_hasher();
    hasher.write_usize(read.local_interactions().len());
    for local in read.local_interactions() {
        hasher.write_usize(local.tuples.len());
        for (fields, count) in &local.tuples {
            let (count, weight) = count.clone().into_parts();
            expressions.tuple(fields, &count, weight, &mut hasher);
        }
    }
    hasher.write_usize(read.global_interactions().len());
    for global in read.global_interactions() {
        global.bus_name.hash(&mut hasher);
        expressions.tuple(&global.fields, &global.count, global.count_weight, &mut hasher);
    }
    hasher.write_usize(read.exclusive_interactions().len());
    for exclusive in read.exclusive_interactions() {
        exclusive.bus_name.hash(&mut hasher);
        hasher.write_usize(exclusive.branches.len());
        for branch in &exclusive.branches {
            hasher.write_u64(expressions.hash(&branch.flag));
            expressions.tuple(&branch.fields, &branch.count, branch.count_weight, &mut hasher);
        }
    }
    hasher.finish()
}

/// Hashes of expressions, each shared part of which is hashed once.
struct Expressions<V> {
    seen: QuickMap<*const SymbolicExpression<V>, u64>,
}

impl<V: Field> Expressions<V> {
    /// One tuple that is looked up or provided, with its multiplicity.
    fn tuple(
        &mut self,
        fields: &[SymbolicExpression<V>],
        count: &SymbolicExpression<V>,
        weight: u32,
        hasher: &mut impl Hasher,
    ) {
        (fields.len(), weight).hash(hasher);
        fields.iter().chain([count]).for_each(|expression| hasher.write_u64(self.hash(expression)));
    }

    fn hash(&mut self, expression: &SymbolicExpression<V>) -> u64 {
        SEED.hash_one(match expression {
            SymbolicExpr::Leaf(BaseLeaf::Variable(variable)) => {
                (0, SEED.hash_one((variable.entry, variable.index)), 0)
            }
            SymbolicExpr::Leaf(BaseLeaf::Constant(constant)) => (1, SEED.hash_one(constant), 0),
            SymbolicExpr::Leaf(BaseLeaf::IsFirstRow) => (2, 0, 0),
            SymbolicExpr::Leaf(BaseLeaf::IsLastRow) => (3, 0, 0),
            SymbolicExpr::Leaf(BaseLeaf::IsTransition) => (4, 0, 0),
            SymbolicExpr::Add { x, y, .. } => (5, self.shared(x), self.shared(y)),
            SymbolicExpr::Sub { x, y, .. } => (6, self.shared(x), self.shared(y)),
            SymbolicExpr::Mul { x, y, .. } => (7, self.shared(x), self.shared(y)),
            SymbolicExpr::Neg { x, .. } => (8, self.shared(x), 0),
        })
    }

    fn shared(&mut self, expression: &Arc<SymbolicExpression<V>>) -> u64 {
        if let Some(&known) = self.seen.get(&Arc::as_ptr(expression)) {
            return known;
        }
        let hash = self.hash(expression);
        self.seen.insert(Arc::as_ptr(expression), hash);
        hash
    }
}
