//! Components that were recorded before, and how they are known again.
//!
//! Recording a component takes longer than proving few rows of it. Its type does not say whether it was recorded
//! before: components have fields. So its constraints and fractions are evaluated with random numbers in place of
//! columns and parameters, which is less work. If they have other values, they are other polynomials; if they
//! have the same values, they are the same ones, but for a probability of less than 2^-60. The numbers are random for
//! each process, so that no component can be made to match another.

use std::any::type_name;
use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub};
use std::sync::{Arc, LazyLock};

use num_traits::{One, Zero};
use rigel_gpu::{Device, Result};
use stwo::core::Fraction;
use stwo::core::fields::FieldExpOps;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::{SECURE_EXTENSION_DEGREE, SecureField};
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, INTERACTION_TRACE_IDX, PREPROCESSED_TRACE_IDX};

use crate::recorded::{Expressions, Recorded};
use crate::recorder::{Constant, Constants, NextColumn, Source, lookups};

/// Makes the numbers of a process unpredictable.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));

/// A variable of the expressions, for which a random number is substituted.
enum Variable {
    Column {
        tree: usize,
        column: usize,
        offset: isize,
    },
    BaseParameter(usize),
    Parameter(usize),
    /// The factor by which the values of constraints are combined.
    Factor,
}

impl Variable {
    /// The variable's random number, always the same one in a process.
    fn number(self) -> SecureField {
        let [kind, first, second] = match self {
            Self::Column { tree, column, offset } => [tree as u64 + 3, column as u64, offset as u64],
            Self::BaseParameter(index) => [0, index as u64, 0],
            Self::Parameter(index) => [1, index as u64, 0],
            Self::Factor => [2, 0, 0],
        };
        let state = [kind, first, second].into_iter().fold(*SEED, |state, word| mix(state ^ word));
        let [low, high] = [mix(state ^ 1), mix(state ^ 2)];
        let element = |bits: u64| BaseField::reduce(bits & u64::from(P));
        SecureField::from_m31_array([low, low >> 32, high, high >> 32].map(element))
    }
}

/// A permutation of words in which every bit depends on all others (the step of SplitMix64).
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The fingerprint by which the expressions of components are told apart.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Fingerprint {
    /// The type's name. Types of one name are told apart by their constraints.
    eval: &'static str,
    /// The places of the preprocessed columns.
    preprocessed: Vec<usize>,
    /// The number of constraints, fractions and parameters.
    counts: [usize; 3],
    /// The combined values of constraints, numerators and denominators.
    values: SecureField,
}

/// A component's fingerprint, and what of it differs from proof to proof.
#[derive(Clone)]
pub(crate) struct Reading {
    fingerprint: Fingerprint,
    parameters: Vec<SecureField>,
    claimed_sum: SecureField,
    next_column: NextColumn,
}

impl Reading {
    /// The number of columns of a tree that the component reads; one that it reads twice counts twice.
    pub(crate) fn columns(&self, tree: usize) -> usize {
        self.next_column.count(tree)
    }
}

/// Expressions that a device keeps, unless their parameters are numbered in another order than a reading's.
struct Known(Option<Arc<Expressions>>);

impl<E: FrameworkEval> Source<'_, E> {
    /// Reads the component. `preprocessed` is as in [`record`](Self::record), but there may be too few.
    pub(crate) fn read(&self, preprocessed: &[usize], claimed_sum: SecureField) -> Reading {
        let numbers = Numbers { constants: Constants::new(self.constants), parameters: Vec::new() };
        let outer = READING.replace(Some(numbers));
        let reader = self.eval.evaluate(Reader {
            next_column: NextColumn::default(),
            preprocessed,
            share: self.share(claimed_sum),
            pending: Vec::new(),
            constraints: Vec::new(),
            fractions: Vec::new(),
        });
        let parameters = READING.replace(outer).expect("put there above").constants.parameters;
        let Reader { next_column, constraints, fractions, pending, .. } = reader;
        assert!(pending.is_empty(), "the lookups of a component are added but not finalized");
        let counts = [constraints.len(), fractions.len(), parameters.len()];
        let factor = Variable::Factor.number();
        let fractions = fractions.into_iter().flat_map(|(above, below)| [above, below]);
        let values = constraints.into_iter().chain(fractions);
        let values = values.fold(SecureField::zero(), |sum, value| sum * factor + value.0);
        let fingerprint =
            Fingerprint { eval: type_name::<E>(), preprocessed: preprocessed.to_vec(), counts, values };
        Reading { fingerprint, parameters, claimed_sum, next_column }
    }

    /// The recording of a component that was read: with the expressions that the device keeps of an earlier one, or
    /// else new.
    pub(crate) fn recorded(&self, device: &Device, reading: Reading) -> Result<Recorded> {
        let Reading { fingerprint, parameters, claimed_sum, .. } = reading;
        let record = || self.record(&fingerprint.preprocessed, claimed_sum);
        let known = device.kept(&fingerprint, |_| {
            let Recorded { expressions, parameters: recorded, .. } = record();
            Ok((Known((recorded == parameters).then_some(expressions)), 0))
        })?;
        Ok(match &known.0 {
            Some(expressions) => {
                let base_parameters = self.base_parameters();
                Recorded { expressions: expressions.clone(), parameters, base_parameters }
            }
            None => record(),
        })
    }
}

/// The constants of a reading, and the random numbers that its parameters stand for.
struct Numbers {
    constants: Constants,
    parameters: Vec<SecureField>,
}

impl Numbers {
    /// The random number of a parameter.
    fn parameter(&mut self, index: usize) -> Number {
        while self.parameters.len() <= index {
            self.parameters.push(Variable::Parameter(self.parameters.len()).number());
        }
        Number(self.parameters[index])
    }

    fn operand(&mut self, constant: Constant) -> Operand {
        match constant {
            Constant::Base(value) => Operand::Base(value),
            Constant::BaseParameter(index) => Operand::Number(Number(Variable::BaseParameter(index).number())),
            Constant::Parameter(index) => Operand::Number(self.parameter(index)),
        }
    }
}

thread_local! {
    /// The numbers of the reading that is in progress on this thread.
    static READING: RefCell<Option<Numbers>> = const { RefCell::new(None) };
}

fn with<R>(work: impl FnOnce(&mut Numbers) -> R) -> R {
    READING.with_borrow_mut(|numbers| {
        work(numbers.as_mut().expect("numbers are used only during a reading, on its thread"))
    })
}

/// A value of the base field or the secure field, with random numbers for columns and parameters.
#[derive(Clone, Copy, Debug)]
struct Number(SecureField);

/// An operand that stays in the base field if it is there, which makes products cheaper.
enum Operand {
    Base(BaseField),
    Number(Number),
}

impl From<BaseField> for Operand {
    fn from(constant: BaseField) -> Self {
        with(|numbers| {
            let constant = numbers.constants.base(constant);
            numbers.operand(constant)
        })
    }
}

impl From<SecureField> for Operand {
    fn from(constant: SecureField) -> Self {
        with(|numbers| {
            let constant = numbers.constants.secure(constant);
            numbers.operand(constant)
        })
    }
}

impl From<Operand> for Number {
    fn from(operand: Operand) -> Self {
        match operand {
            Operand::Base(value) => Self(value.into()),
            Operand::Number(number) => number,
        }
    }
}

impl From<BaseField> for Number {
    fn from(constant: BaseField) -> Self {
        Operand::from(constant).into()
    }
}

impl From<SecureField> for Number {
    fn from(constant: SecureField) -> Self {
        Operand::from(constant).into()
    }
}

macro_rules! operators {
    ($($operator:ident $method:ident;)*) => { $(
        impl $operator for Number {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                Self(self.0.$method(other.0))
            }
        }
        impl $operator<Operand> for Number {
            type Output = Self;
            fn $method(self, other: Operand) -> Self {
                match other {
                    Operand::Base(value) => Self(self.0.$method(value)),
                    Operand::Number(number) => self.$method(number),
                }
            }
        }
        impl $operator<BaseField> for Number {
            type Output = Self;
            fn $method(self, other: BaseField) -> Self {
                self.$method(Operand::from(other))
            }
        }
        impl $operator<SecureField> for Number {
            type Output = Self;
            fn $method(self, other: SecureField) -> Self {
                self.$method(Operand::from(other))
            }
        }
    )* };
}

operators! {
    Add add;
    Sub sub;
    Mul mul;
}

impl Neg for Number {
    type Output = Self;

    fn neg(self) -> Self {
        Self(-self.0)
    }
}

impl AddAssign for Number {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl AddAssign<BaseField> for Number {
    fn add_assign(&mut self, constant: BaseField) {
        *self = *self + constant;
    }
}

impl MulAssign for Number {
    fn mul_assign(&mut self, other: Self) {
        *self = *self * other;
    }
}

impl Zero for Number {
    fn zero() -> Self {
        BaseField::zero().into()
    }

    fn is_zero(&self) -> bool {
        self.0.is_zero()
    }
}

impl One for Number {
    fn one() -> Self {
        BaseField::one().into()
    }
}

impl FieldExpOps for Number {
    fn inverse(&self) -> Self {
        Self(self.0.inverse())
    }
}

/// The evaluator that is passed to the framework.
struct Reader<'a> {
    next_column: NextColumn,
    preprocessed: &'a [usize],
    share: SecureField,
    pending: Vec<Fraction<Number, Number>>,
    constraints: Vec<Number>,
    fractions: Vec<(Number, Number)>,
}

impl Reader<'_> {
    /// The number that each row subtracts from the running sum: a parameter, as in a recording.
    fn share(&mut self) -> Number {
        with(|numbers| {
            let index = numbers.constants.push(self.share);
            numbers.parameter(index)
        })
    }
}

impl EvalAtRow for Reader<'_> {
    type F = Number;
    type EF = Number;

    fn get_preprocessed_column(&mut self, _: PreProcessedColumnId) -> Number {
        let [value] = self.next_interaction_mask(PREPROCESSED_TRACE_IDX, [0]);
        value
    }

    fn next_interaction_mask<const N: usize>(&mut self, tree: usize, offsets: [isize; N]) -> [Number; N] {
        let column = self.next_column.next(tree, self.preprocessed);
        offsets.map(|offset| Number(Variable::Column { tree, column, offset }.number()))
    }

    fn add_constraint<G>(&mut self, constraint: G)
    where
        Number: Mul<G, Output = Number> + From<G>,
    {
        self.constraints.push(constraint.into());
    }

    fn combine_ef(values: [Number; SECURE_EXTENSION_DEGREE]) -> Number {
        Number(SecureField::from_partial_evals(values.map(|value| value.0)))
    }

    lookups!();
}
