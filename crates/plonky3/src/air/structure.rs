//! The structure of an AIR's constraints, as a hash.
//!
//! [`StructureBuilder`] evaluates an AIR with hashes in place of expressions: a column is a number, and a sum is a hash
//! of its two terms. So the result depends on how the constraints are written, not only on the polynomials that they
//! are. That matters, because upstream derives the number of quotient chunks from the expressions: `x^4 - x^4 + x` and
//! `x` are the same polynomial with different degrees. An evaluation allocates nothing for an operation and takes about
//! as long as that of a few rows.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::iter::{Product, Sum};
use std::marker::PhantomData;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use p3_air::symbolic::AirLayout;
use p3_air::{AirBuilder, ExtensionBuilder, PermutationAirBuilder, RowWindow};
use p3_field::{Algebra, ExtensionField, Field, InjectiveMonomial, PrimeCharacteristicRing};
use p3_lookup::{Count, InteractionBuilder};

/// A hash of 128 bits, in two independent halves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Structure([u64; 2]);

/// The fractional parts of the square roots of 2, 3, 5 and 7, which are odd. They are the same in all processes,
/// because the compiler hashes the constants of a ring. Nobody chooses a process's AIRs so that they collide.
const KEYS: [[u64; 2]; 2] =
    [[0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b], [0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1]];

impl Structure {
    const fn leaf(kind: u64, index: u64) -> Self {
        Self([kind, index]).with(kind, Self([index, kind]))
    }

    /// The hash of an operation on this and another hash, in this order.
    const fn with(self, operation: u64, other: Self) -> Self {
        let mut out = [0; 2];
        let mut half = 0;
        while half < 2 {
            let left = self.0[half] ^ KEYS[half][0] ^ (operation << 56 | operation);
            let right = other.0[half].rotate_left(32) ^ KEYS[half][1];
            let product = left as u128 * right as u128;
            // The operands are added, because a product loses one that meets a zero.
            out[half] = (product as u64) ^ ((product >> 64) as u64) ^ left.wrapping_add(right.rotate_left(17));
            half += 1;
        }
        Self(out)
    }

    fn of_constant(value: &impl Hash) -> Self {
        let mut hasher = Words(Self::leaf(leaf::CONSTANT, 0));
        value.hash(&mut hasher);
        hasher.0
    }
}

/// Hashes what a constant consists of.
struct Words(Structure);

impl Hasher for Words {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = self.0.with(operation::WORD, Structure([word, !word]));
    }

    fn finish(&self) -> u64 {
        self.0.0[0]
    }
}

/// The kinds of leaves.
mod leaf {
    pub(super) const CONSTANT: u64 = 1;
    pub(super) const MAIN: u64 = 2;
    pub(super) const PREPROCESSED: u64 = 3;
    pub(super) const PERIODIC: u64 = 4;
    pub(super) const PUBLIC: u64 = 5;
    pub(super) const SELECTOR: u64 = 6;
    pub(super) const PERMUTATION: u64 = 7;
    pub(super) const CHALLENGE: u64 = 8;
    pub(super) const PERMUTATION_VALUE: u64 = 9;
    /// Constants that are known without a field.
    pub(super) const SMALL: u64 = 10;
}

/// The operations.
mod operation {
    pub(super) const ADD: u64 = 1;
    pub(super) const SUB: u64 = 2;
    pub(super) const MUL: u64 = 3;
    pub(super) const NEG: u64 = 4;
    pub(super) const WORD: u64 = 5;
    pub(super) const LIFT: u64 = 6;
    pub(super) const BASE_CONSTRAINT: u64 = 7;
    pub(super) const EXTENSION_CONSTRAINT: u64 = 8;
}

/// An expression over the field, known by how it is written.
#[derive(Clone, Copy, Debug)]
pub struct Term<F>(Structure, PhantomData<F>);

/// An expression over the extension field, known by how it is written.
#[derive(Clone, Copy, Debug)]
pub struct ExtensionTerm<F, EF>(Structure, PhantomData<(F, EF)>);

/// The arithmetic of a term with itself.
macro_rules! ring {
    ([$($bounds:tt)*], $term:ty, $of:ty) => {
        impl<$($bounds)*> $term {
            const fn new(structure: Structure) -> Self {
                Self(structure, PhantomData)
            }

            const fn small(number: u64) -> Self {
                Self::new(Structure::leaf(leaf::SMALL, number))
            }

            fn constant(value: &impl Hash) -> Self {
                Self::new(Structure::of_constant(value))
            }
        }

        impl<$($bounds)*> Default for $term {
            fn default() -> Self {
                Self::ZERO
            }
        }

        impl<$($bounds)*, T: Into<Self>> Add<T> for $term {
            type Output = Self;
            fn add(self, other: T) -> Self {
                Self::new(self.0.with(operation::ADD, other.into().0))
            }
        }

        impl<$($bounds)*, T: Into<Self>> Sub<T> for $term {
            type Output = Self;
            fn sub(self, other: T) -> Self {
                Self::new(self.0.with(operation::SUB, other.into().0))
            }
        }

        impl<$($bounds)*, T: Into<Self>> Mul<T> for $term {
            type Output = Self;
            fn mul(self, other: T) -> Self {
                Self::new(self.0.with(operation::MUL, other.into().0))
            }
        }

        impl<$($bounds)*> Neg for $term {
            type Output = Self;
            fn neg(self) -> Self {
                Self::new(self.0.with(operation::NEG, self.0))
            }
        }

        impl<$($bounds)*, T: Into<Self>> AddAssign<T> for $term {
            fn add_assign(&mut self, other: T) {
                *self = *self + other;
            }
        }

        impl<$($bounds)*, T: Into<Self>> SubAssign<T> for $term {
            fn sub_assign(&mut self, other: T) {
                *self = *self - other;
            }
        }

        impl<$($bounds)*, T: Into<Self>> MulAssign<T> for $term {
            fn mul_assign(&mut self, other: T) {
                *self = *self * other;
            }
        }

        impl<$($bounds)*, T: Into<Self>> Sum<T> for $term {
            fn sum<I: Iterator<Item = T>>(terms: I) -> Self {
                terms.map(Into::into).reduce(|sum, term| sum + term).unwrap_or(Self::ZERO)
            }
        }

        impl<$($bounds)*, T: Into<Self>> Product<T> for $term {
            fn product<I: Iterator<Item = T>>(factors: I) -> Self {
                factors.map(Into::into).reduce(|product, factor| product * factor).unwrap_or(Self::ONE)
            }
        }

        impl<$($bounds)*> PrimeCharacteristicRing for $term {
            type PrimeSubfield = <$of as PrimeCharacteristicRing>::PrimeSubfield;

            const ZERO: Self = Self::small(0);
            const ONE: Self = Self::small(1);
            const TWO: Self = Self::small(2);
            const NEG_ONE: Self = Self::small(u64::MAX);

            fn from_prime_subfield(value: Self::PrimeSubfield) -> Self {
                Self::constant(&value)
            }
        }
    };
}

ring!([F: Field], Term<F>, F);
ring!([F: Field, EF: ExtensionField<F>], ExtensionTerm<F, EF>, EF);

impl<F: Field> From<F> for Term<F> {
    fn from(value: F) -> Self {
        Self::constant(&value)
    }
}

impl<F: Field> Algebra<F> for Term<F> {}

impl<F: Field + InjectiveMonomial<N>, const N: u64> InjectiveMonomial<N> for Term<F> {}

impl<F: Field, EF: ExtensionField<F>> From<EF> for ExtensionTerm<F, EF> {
    fn from(value: EF) -> Self {
        Self::constant(&value)
    }
}

impl<F: Field, EF: ExtensionField<F>> Algebra<EF> for ExtensionTerm<F, EF> {}

impl<F: Field, EF: ExtensionField<F>> From<Term<F>> for ExtensionTerm<F, EF> {
    fn from(term: Term<F>) -> Self {
        Self::new(term.0.with(operation::LIFT, term.0))
    }
}

impl<F: Field, EF: ExtensionField<F>> Algebra<Term<F>> for ExtensionTerm<F, EF> {}

/// The leaves of an AIR's expressions.
pub(crate) struct Leaves<F, EF> {
    main: [Vec<Term<F>>; 2],
    preprocessed: [Vec<Term<F>>; 2],
    periodic: Vec<Term<F>>,
    publics: Vec<Term<F>>,
    permutation: [Vec<ExtensionTerm<F, EF>>; 2],
    challenges: Vec<ExtensionTerm<F, EF>>,
    permutation_values: Vec<ExtensionTerm<F, EF>>,
}

impl<F: Field, EF: ExtensionField<F>> Leaves<F, EF> {
    /// The leaves of an AIR with this layout. The columns of lookups are upstream's own: an AIR does not see how
    /// many there are.
    pub(crate) fn new(layout: &AirLayout) -> Self {
        let terms = |kind: u64, count: usize, row: u64| {
            (0..count as u64).map(|index| Term::new(Structure::leaf(kind, index << 1 | row))).collect()
        };
        let lookups = |kind: u64, count: u64, row: u64| {
            (0..count).map(|index| ExtensionTerm::new(Structure::leaf(kind, index << 1 | row))).collect()
        };
        Self {
            main: [0, 1].map(|row| terms(leaf::MAIN, layout.main_width, row)),
            preprocessed: [0, 1].map(|row| terms(leaf::PREPROCESSED, layout.preprocessed_width, row)),
            periodic: terms(leaf::PERIODIC, layout.num_periodic_columns, 0),
            publics: terms(leaf::PUBLIC, layout.num_public_values, 0),
            permutation: [0, 1].map(|row| lookups(leaf::PERMUTATION, 1, row)),
            challenges: lookups(leaf::CHALLENGE, 2, 0),
            permutation_values: lookups(leaf::PERMUTATION_VALUE, 2, 0),
        }
    }

    pub(crate) fn builder(&self) -> StructureBuilder<'_, F, EF> {
        let [local, next] = &self.preprocessed;
        StructureBuilder {
            leaves: self,
            preprocessed: RowWindow::from_two_rows(local, next),
            structure: Structure::default(),
        }
    }
}

/// Reads how the constraints of an AIR are written. An AIR that is generic over its builder implements
/// [`Air`](p3_air::Air) for this one, too.
pub struct StructureBuilder<'a, F, EF> {
    leaves: &'a Leaves<F, EF>,
    preprocessed: RowWindow<'a, Term<F>>,
    structure: Structure,
}

impl<F, EF> Debug for StructureBuilder<'_, F, EF> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StructureBuilder").field("structure", &self.structure).finish_non_exhaustive()
    }
}

impl<F, EF> StructureBuilder<'_, F, EF> {
    /// The hash of all constraints, in their order.
    pub(crate) fn structure(&self) -> Structure {
        self.structure
    }
}

impl<'a, F: Field, EF: ExtensionField<F>> AirBuilder for StructureBuilder<'a, F, EF> {
    type F = F;
    type Expr = Term<F>;
    type Var = Term<F>;
    type PreprocessedWindow = RowWindow<'a, Term<F>>;
    type MainWindow = RowWindow<'a, Term<F>>;
    type PublicVar = Term<F>;
    type PeriodicVar = Term<F>;

    fn main(&self) -> Self::MainWindow {
        let [local, next] = &self.leaves.main;
        RowWindow::from_two_rows(local, next)
    }

    fn preprocessed(&self) -> &Self::PreprocessedWindow {
        &self.preprocessed
    }

    fn is_first_row(&self) -> Term<F> {
        Term::new(Structure::leaf(leaf::SELECTOR, 0))
    }

    fn is_last_row(&self) -> Term<F> {
        Term::new(Structure::leaf(leaf::SELECTOR, 1))
    }

    fn is_transition(&self) -> Term<F> {
        Term::new(Structure::leaf(leaf::SELECTOR, 2))
    }

    fn assert_zero<I: Into<Term<F>>>(&mut self, term: I) {
        self.structure = self.structure.with(operation::BASE_CONSTRAINT, term.into().0);
    }

    fn public_values(&self) -> &[Term<F>] {
        &self.leaves.publics
    }

    fn periodic_values(&self) -> &[Term<F>] {
        &self.leaves.periodic
    }
}

impl<F: Field, EF: ExtensionField<F>> ExtensionBuilder for StructureBuilder<'_, F, EF> {
    type EF = EF;
    type ExprEF = ExtensionTerm<F, EF>;
    type VarEF = ExtensionTerm<F, EF>;

    fn assert_zero_ext<I: Into<ExtensionTerm<F, EF>>>(&mut self, term: I) {
        self.structure = self.structure.with(operation::EXTENSION_CONSTRAINT, term.into().0);
    }
}

impl<'a, F: Field, EF: ExtensionField<F>> PermutationAirBuilder for StructureBuilder<'a, F, EF> {
    type MP = RowWindow<'a, ExtensionTerm<F, EF>>;
    type RandomVar = ExtensionTerm<F, EF>;
    type PermutationVar = ExtensionTerm<F, EF>;

    fn permutation(&self) -> Self::MP {
        let [local, next] = &self.leaves.permutation;
        RowWindow::from_two_rows(local, next)
    }

    fn permutation_randomness(&self) -> &[Self::RandomVar] {
        &self.leaves.challenges
    }

    fn permutation_values(&self) -> &[Self::PermutationVar] {
        &self.leaves.permutation_values
    }
}

/// Lookups are not part of the structure: the hash of an AIR's contents has theirs.
impl<F: Field, EF: ExtensionField<F>> InteractionBuilder for StructureBuilder<'_, F, EF> {
    fn push_interaction<E: Into<Term<F>>>(
        &mut self,
        _bus_name: &str,
        fields: impl IntoIterator<Item = E>,
        _count: impl Into<Count<Term<F>>>,
    ) {
        fields.into_iter().for_each(drop);
    }

    fn push_local_interaction(&mut self, tuples: impl IntoIterator<Item = (Vec<Term<F>>, Count<Term<F>>)>) {
        tuples.into_iter().for_each(drop);
    }
}
