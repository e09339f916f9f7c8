//! AIRs that a prover has read, and how it knows them again.
//!
//! Reading an AIR takes longer than proving few rows of it. Its type does not say whether it was read before: AIRs may
//! have fields. So its constraints are evaluated at random points, which takes microseconds. If they have other values
//! there, they are other polynomials; if they have the same values, they are the same ones, but for a probability of
//! less than 2^-60, that of two hashes being equal by chance. Two AIRs of one type with the same constraints as
//! polynomials count as the same one, although their expressions may be written differently.

use std::any::type_name;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use p3_air::symbolic::AirLayout;
use p3_air::{Air, BaseAir, RowWindow};
use p3_batch_stark::folder::ProverConstraintFolderWithLookups;
use p3_field::{BasedVectorSpace, PackedFieldExtension, PackedValue, PrimeCharacteristicRing, PrimeField64};
use p3_matrix::dense::RowMajorMatrixView;
use p3_uni_stark::{PackedChallenge, PackedVal, ProverConstraintFolder};
use rigel_gpu::Lock;

use crate::config::DeviceConfig;
use crate::constraints::Constraints;

/// Makes the points and the hashes of a process unpredictable. All provers have the same, so that the fingerprint in a
/// key of one is that of the AIR in a proof of another.
pub(crate) static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The constraints that a prover has read, with their kernels.
pub(crate) struct Readings<SC: DeviceConfig> {
    kept: Lock<Kept<SC>>,
    /// Whether constraints are kept without kernels: each of several devices looks its own up.
    without_kernels: bool,
}

type Kept<SC> = HashMap<(Kind, Fingerprint), Arc<Constraints<SC>>>;

/// What else than the AIR's fields matters to its constraints.
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

    /// The same constraints for batches of columns.
    pub(crate) fn in_batches(&self) -> Self {
        Self { in_batches: true, ..self.clone() }
    }

    /// The same constraints for whole extended traces.
    fn whole(&self) -> Self {
        Self { in_batches: false, ..self.clone() }
    }
}

/// A hash of the values of an AIR's constraints at random points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint(u64);

/// The largest number of tables whose constraints are kept.
const MOST_READINGS: usize = 256;

/// The number of random bits in each variable: the values of two polynomials of low degree at that many are as good as
/// never equal.
const POINT_BITS: usize = 120;

impl<SC: DeviceConfig> Default for Readings<SC> {
    fn default() -> Self {
        Self { kept: Lock::default(), without_kernels: false }
    }
}

impl<SC: DeviceConfig> Readings<SC> {
    /// For proofs over several devices.
    pub(crate) fn without_kernels() -> Self {
        Self { without_kernels: true, ..Self::default() }
    }

    /// Whether any AIR of this kind was read: most likely it is the same one.
    pub(crate) fn has(&self, kind: &Kind) -> bool {
        let whole = kind.whole();
        self.kept.lock().keys().any(|(kept, _)| kept == kind || *kept == whole)
    }

    /// The constraints of an AIR: those that were read before, or else what `read` returns, which is kept if the AIR
    /// has a fingerprint. Constraints without kernels are not kept, unless none of that kind have any: the next proof
    /// compiles them, or tries again.
    pub(crate) fn of(
        &self,
        kind: &Kind,
        fingerprint: Option<Fingerprint>,
        read: impl FnOnce() -> Constraints<SC>,
    ) -> Arc<Constraints<SC>> {
        let Some(fingerprint) = fingerprint else { return Arc::new(read()) };
        let key = (kind.clone(), fingerprint);
        if let Some(constraints) = self.kept(kind, fingerprint) {
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
            kept.insert(key, constraints.clone());
        }
        constraints
    }

    /// What was kept of a kind. For batches of columns, constraints for whole traces will do.
    fn kept(&self, kind: &Kind, fingerprint: Fingerprint) -> Option<Arc<Constraints<SC>>> {
        let kept = self.kept.lock();
        let of_kind = |kind: &Kind| kept.get(&(kind.clone(), fingerprint)).cloned();
        of_kind(kind).or_else(|| of_kind(&kind.whole()).filter(|_| kind.in_batches))
    }

    /// The hash of the lookups of an AIR of a batch that was read and kept.
    pub(crate) fn lookups(&self, kind: &Kind, fingerprint: Option<Fingerprint>) -> Option<u64> {
        let fingerprint = fingerprint?;
        self.kept(kind, fingerprint).or_else(|| self.kept(&kind.in_batches(), fingerprint))?.lookups
    }

    /// Forgets an AIR, which is read again in the next proof.
    pub(crate) fn forget(&self, kind: &Kind, fingerprint: Option<Fingerprint>) {
        if let Some(fingerprint) = fingerprint {
            let mut kept = self.kept.lock();
            for kind in [kind.whole(), kind.in_batches()] {
                kept.remove(&(kind, fingerprint));
            }
        }
    }

    /// The fingerprint of an AIR alone. There is none for one with constraints over the field and over the extension.
    pub(crate) fn fingerprint<A>(air: &A, layout: &AirLayout) -> Option<Fingerprint>
    where
        A: for<'a> Air<ProverConstraintFolder<'a, SC>>,
    {
        Self::hash_values(layout, |points| {
            let mut folder = points.folder();
            air.eval(&mut folder);
            folder
        })
    }

    /// The fingerprint of an AIR in a batch. Its lookups are not part of it: [`crate::contents`] has their hash.
    pub(crate) fn fingerprint_in_batch<A>(air: &A, layout: &AirLayout) -> Option<Fingerprint>
    where
        A: for<'a> Air<ProverConstraintFolderWithLookups<'a, SC>>,
    {
        Self::hash_values(layout, |points| {
            // The columns of lookups are upstream's own: an AIR does not see how many there are.
            let mut folder = ProverConstraintFolderWithLookups {
                inner: points.folder(),
                permutation: RowMajorMatrixView::new(&points.permutation, 1),
                permutation_challenges: &points.permutation,
                permutation_values: &points.permutation,
            };
            air.eval(&mut folder);
            folder.inner
        })
    }

    fn hash_values(
        layout: &AirLayout,
        eval: impl for<'a> Fn(&'a Points<SC>) -> ProverConstraintFolder<'a, SC>,
    ) -> Option<Fingerprint> {
        // All lanes have the same public values.
        let lanes = if layout.num_public_values > 0 { 1 } else { PackedVal::<SC>::WIDTH };
        let rounds = POINT_BITS.div_ceil(lanes * SC::Value::ORDER_U64.ilog2().min(u32::BITS) as usize);
        let mut hasher = SEED.build_hasher();
        for round in 0..rounds {
            let points = Points::random(layout, SEED.hash_one(round));
            let folder = eval(&points);
            // The folder does not tell the order of those over the field among those over the extension.
            if !folder.base_constraints.is_empty() && !folder.ext_constraints.is_empty() {
                return None;
            }
            hasher.write_usize(folder.base_constraints.len());
            for value in PackedVal::<SC>::unpack_slice(&folder.base_constraints) {
                value.hash(&mut hasher);
            }
            hasher.write_usize(folder.ext_constraints.len());
            PackedChallenge::<SC>::to_ext_iter(folder.ext_constraints).for_each(|value| value.hash(&mut hasher));
        }
        Some(Fingerprint(hasher.finish()))
    }
}

/// Random values of everything that constraints read.
struct Points<SC: DeviceConfig> {
    widths: [usize; 2],
    main: Vec<PackedVal<SC>>,
    preprocessed: Vec<PackedVal<SC>>,
    periodic: Vec<PackedVal<SC>>,
    publics: Vec<SC::Value>,
    selectors: [PackedVal<SC>; 3],
    permutation: Vec<PackedChallenge<SC>>,
}

impl<SC: DeviceConfig> Points<SC> {
    fn random(layout: &AirLayout, mut state: u64) -> Self {
        // SplitMix64.
        let mut value = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            SC::Value::from_u32((mixed ^ (mixed >> 31)) as u32)
        };
        let publics = (0..layout.num_public_values).map(|_| value()).collect();
        let mut packed = || PackedVal::<SC>::from_fn(|_| value());
        let mut row = |width: usize| -> Vec<PackedVal<SC>> { (0..width).map(|_| packed()).collect() };
        let (main, preprocessed) = (row(2 * layout.main_width), row(2 * layout.preprocessed_width));
        let periodic = row(layout.num_periodic_columns);
        let selectors = [packed(), packed(), packed()];
        let mut element = || SC::Challenge::from_basis_coefficients_fn(|_| value());
        let mut lanes = || -> Vec<SC::Challenge> { (0..PackedVal::<SC>::WIDTH).map(|_| element()).collect() };
        let permutation = (0..2).map(|_| PackedChallenge::<SC>::from_ext_slice(&lanes())).collect();
        let widths = [layout.main_width, layout.preprocessed_width];
        Self { widths, main, preprocessed, periodic, publics, selectors, permutation }
    }

    /// Upstream's evaluation of constraints, with no constraints yet.
    fn folder(&self) -> ProverConstraintFolder<'_, SC> {
        let preprocessed = RowMajorMatrixView::new(&self.preprocessed, self.widths[1]);
        let [is_first_row, is_last_row, is_transition] = self.selectors;
        ProverConstraintFolder {
            main: RowMajorMatrixView::new(&self.main, self.widths[0]),
            preprocessed,
            preprocessed_window: RowWindow::from_view(&preprocessed),
            periodic_values: &self.periodic,
            public_values: &self.publics,
            is_first_row,
            is_last_row,
            is_transition,
            base_alpha_powers: &[],
            ext_alpha_powers: &[],
            base_constraints: Vec::new(),
            ext_constraints: Vec::new(),
            constraint_index: 0,
            constraint_count: 0,
        }
    }
}
