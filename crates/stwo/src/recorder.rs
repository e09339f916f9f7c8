//! A component's constraints as an expression graph.
//!
//! The framework evaluates constraints over any type with field arithmetic. [`Base`] and [`Extension`] are nodes
//! of a
//! [`ExpressionGraph`], so evaluating with them records the constraints.
//!
//! Base-field constants are part of the expressions, except for placeholders of constants that differ from instance to
//! instance ([`Template`](crate::Template)). Other secure-field constants, such as lookup elements, are drawn from the
//! channel and differ from proof to proof. Both become parameters, so that the compiled kernels stay the same.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub};
use std::sync::Arc;

use num_traits::{One, Zero};
use rigel_codegen::{ExpressionGraph, Value};
use rigel_kernels::field::{Element, Mersenne31, QM31, Ring};
use stwo::core::Fraction;
use stwo::core::fields::FieldExpOps;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::{SECURE_EXTENSION_DEGREE, SecureField};
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, INTERACTION_TRACE_IDX, PREPROCESSED_TRACE_IDX};

use crate::field::Twin;
use crate::recorded::{Expressions, Recorded};

/// The component that constraints are recorded from.
pub(crate) struct Source<'a, E> {
    pub(crate) eval: &'a E,
    /// The placeholders in `eval`, and the constants that they stand for.
    pub(crate) constants: &'a [(BaseField, BaseField)],
    /// The logarithm of the component's number of rows. That of `eval` may be a placeholder.
    pub(crate) log_size: u32,
}

impl<'a, E: FrameworkEval> Source<'a, E> {
    /// The component itself: all its base-field constants are part of the expressions.
    pub(crate) fn own(eval: &'a E) -> Self {
        Self { eval, constants: &[], log_size: eval.log_size() }
    }

    /// Records the constraints. Column k of tree t is column k of input t; the k-th read of a preprocessed column is
    /// column `preprocessed[k]` of input 0.
    pub(crate) fn record(&self, preprocessed: &[usize], claimed_sum: SecureField) -> Recorded {
        let recording = Recording { constants: Constants::new(self.constants), ..Recording::default() };
        let outer = RECORDING.replace(Some(recording));
        let recorder = self.eval.evaluate(Recorder {
            next_column: NextColumn::default(),
            preprocessed,
            share: self.share(claimed_sum),
            pending: Vec::new(),
            constraints: Vec::new(),
            fractions: Vec::new(),
        });
        assert!(recorder.pending.is_empty(), "the lookups of a component are added but not finalized");
        let constraints = recorder.constraints.into_iter().map(|value| value.0).collect();
        let fractions = recorder.fractions.into_iter().map(|(above, below)| (above.0, below.0)).collect();
        let Recording { graph, constants } = RECORDING.replace(outer).expect("put there above");
        let expressions = Expressions { graph, constraints, fractions, ..Expressions::default() };
        let base_parameters = self.base_parameters();
        Recorded { expressions: Arc::new(expressions), parameters: constants.parameters, base_parameters }
    }

    /// The value that each row subtracts from the running sum.
    pub(crate) fn share(&self, claimed_sum: SecureField) -> SecureField {
        claimed_sum / BaseField::from_u32_unchecked(1 << self.log_size)
    }

    /// The values of the base parameters.
    pub(crate) fn base_parameters(&self) -> Vec<BaseField> {
        self.constants.iter().map(|&(_, value)| value).collect()
    }
}

thread_local! {
    /// The recording that is in progress on this thread.
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Recording {
    graph: ExpressionGraph<QM31>,
    constants: Constants,
}

fn with<R>(work: impl FnOnce(&mut Recording) -> R) -> R {
    RECORDING.with_borrow_mut(|recording| {
        work(recording.as_mut().expect("recorded values are used only during the recording, on its thread"))
    })
}

impl Recording {
    fn base(&mut self, constant: BaseField) -> Value {
        match self.constants.base(constant) {
            Constant::Base(value) => self.graph.constant(value.twin()),
            Constant::BaseParameter(index) => self.graph.parameter(index),
            Constant::Parameter(index) => self.graph.extension_parameter(index),
        }
    }

    fn secure(&mut self, constant: SecureField) -> Value {
        match self.constants.secure(constant) {
            Constant::Base(value) => self.graph.constant(value.twin()),
            Constant::BaseParameter(index) => self.graph.parameter(index),
            Constant::Parameter(index) => self.graph.extension_parameter(index),
        }
    }
}

/// The constants of a component, as parameters or as parts of its expressions.
#[derive(Default)]
pub(crate) struct Constants {
    /// The values of the extension parameters.
    pub(crate) parameters: Vec<SecureField>,
    known: HashMap<SecureField, usize>,
    /// The index of the parameter that was asked for after each parameter.
    followers: Vec<Option<usize>>,
    /// The index of the parameter that was asked for last.
    last: Option<usize>,
    /// The index of the base parameter that a constant stands for.
    placeholders: HashMap<BaseField, usize>,
}

/// The form that a constant takes in a recording.
pub(crate) enum Constant {
    /// A constant of the expressions.
    Base(BaseField),
    /// The base parameter with this index.
    BaseParameter(usize),
    /// The extension parameter with this index.
    Parameter(usize),
}

impl Constants {
    /// An empty set of parameters; the placeholders stand for base parameters.
    pub(crate) fn new(constants: &[(BaseField, BaseField)]) -> Self {
        let places = constants.iter().enumerate().map(|(index, &(placeholder, _))| (placeholder, index));
        Self { placeholders: places.collect(), ..Self::default() }
    }

    pub(crate) fn base(&self, constant: BaseField) -> Constant {
        match self.placeholders.get(&constant) {
            Some(&index) => Constant::BaseParameter(index),
            None => Constant::Base(constant),
        }
    }

    pub(crate) fn secure(&mut self, constant: SecureField) -> Constant {
        let [first, rest @ ..] = constant.to_m31_array();
        if rest.iter().all(Zero::is_zero) {
            return self.base(first);
        }
        // A lookup combines its values with the same elements in the same order as the lookup before it, so the
        // parameter is likely the one that followed the last one before.
        let follower = self.last.and_then(|last| self.followers[last]);
        if let Some(likely) = follower.filter(|&likely| self.parameters[likely] == constant) {
            self.last = Some(likely);
            return Constant::Parameter(likely);
        }
        let next = self.parameters.len();
        let index = *self.known.entry(constant).or_insert(next);
        if index == next {
            self.push(constant);
        }
        if let Some(last) = self.last {
            self.followers[last] = Some(index);
        }
        self.last = Some(index);
        Constant::Parameter(index)
    }

    /// A parameter of its own, whatever its value, and its index.
    pub(crate) fn push(&mut self, parameter: SecureField) -> usize {
        self.parameters.push(parameter);
        self.followers.push(None);
        self.parameters.len() - 1
    }
}

/// A recorded base-field value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base(Value);

/// A recorded secure-field value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extension(Value);

/// A type that wraps a node of the graph.
trait Operand {
    fn value(self, recording: &mut Recording) -> Value;
}

impl Operand for Base {
    fn value(self, _: &mut Recording) -> Value {
        self.0
    }
}

impl Operand for Extension {
    fn value(self, _: &mut Recording) -> Value {
        self.0
    }
}

impl Operand for BaseField {
    fn value(self, recording: &mut Recording) -> Value {
        recording.base(self)
    }
}

impl Operand for SecureField {
    fn value(self, recording: &mut Recording) -> Value {
        recording.secure(self)
    }
}

fn binary(
    a: impl Operand,
    b: impl Operand,
    operation: impl FnOnce(&mut ExpressionGraph<QM31>, Value, Value) -> Value,
) -> Value {
    with(|recording| {
        let (a, b) = (a.value(recording), b.value(recording));
        operation(&mut recording.graph, a, b)
    })
}

macro_rules! operators {
    ($($a:ident $b:ident -> $c:ident;)*) => { $(
        impl Add<$b> for $a {
            type Output = $c;
            fn add(self, other: $b) -> $c {
                $c(binary(self, other, ExpressionGraph::add))
            }
        }
        impl Sub<$b> for $a {
            type Output = $c;
            fn sub(self, other: $b) -> $c {
                $c(binary(self, other, ExpressionGraph::sub))
            }
        }
        impl Mul<$b> for $a {
            type Output = $c;
            fn mul(self, other: $b) -> $c {
                $c(binary(self, other, ExpressionGraph::mul))
            }
        }
    )* };
}

operators! {
    Base Base -> Base;
    Base BaseField -> Base;
    Base SecureField -> Extension;
    Extension Extension -> Extension;
    Extension Base -> Extension;
    Extension BaseField -> Extension;
    Extension SecureField -> Extension;
}

macro_rules! elements {
    ($($element:ident of $constant:ident;)*) => { $(
        impl Neg for $element {
            type Output = Self;
            fn neg(self) -> Self {
                Self(with(|recording| recording.graph.neg(self.0)))
            }
        }
        impl AddAssign for $element {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl MulAssign for $element {
            fn mul_assign(&mut self, other: Self) {
                *self = *self * other;
            }
        }
        impl From<$constant> for $element {
            fn from(constant: $constant) -> Self {
                Self(with(|recording| constant.value(recording)))
            }
        }
        impl Zero for $element {
            fn zero() -> Self {
                $constant::zero().into()
            }
            fn is_zero(&self) -> bool {
                with(|recording| recording.graph.as_constant(self.0)) == Some(QM31::ZERO)
            }
        }
        impl One for $element {
            fn one() -> Self {
                $constant::one().into()
            }
        }
    )* };
}

elements! {
    Base of BaseField;
    Extension of SecureField;
}

impl AddAssign<BaseField> for Base {
    fn add_assign(&mut self, constant: BaseField) {
        *self = *self + constant;
    }
}

impl From<Base> for Extension {
    fn from(value: Base) -> Self {
        Self(value.0)
    }
}

impl FieldExpOps for Base {
    /// # Panics
    /// If the value is not a constant: constraints are polynomials in the columns.
    fn inverse(&self) -> Self {
        let constant = with(|recording| recording.graph.as_constant(self.0));
        let inverse = constant.and_then(|constant| constant.parts()[0].inverse());
        let inverse: Mersenne31 =
            inverse.expect("a constraint divides by zero or by a value that depends on the row");
        Self(with(|recording| recording.graph.constant(inverse)))
    }
}

/// The number of columns of each tree that were read.
#[derive(Clone, Default)]
pub(crate) struct NextColumn(Vec<usize>);

impl NextColumn {
    /// The next column of a tree. Those of the preprocessed tree are at these places, and the rest where it is read.
    pub(crate) fn next(&mut self, tree: usize, preprocessed: &[usize]) -> usize {
        if self.0.len() <= tree {
            self.0.resize(tree + 1, 0);
        }
        let column = self.0[tree];
        self.0[tree] += 1;
        let places = if tree == PREPROCESSED_TRACE_IDX { preprocessed } else { &[] };
        places.get(column).copied().unwrap_or(column)
    }

    /// The number of columns of a tree that were read.
    pub(crate) fn count(&self, tree: usize) -> usize {
        self.0.get(tree).copied().unwrap_or(0)
    }
}

/// The evaluator that is passed to the framework.
pub(crate) struct Recorder<'a> {
    next_column: NextColumn,
    preprocessed: &'a [usize],
    share: SecureField,
    pending: Vec<Fraction<Extension, Extension>>,
    constraints: Vec<Extension>,
    fractions: Vec<(Extension, Extension)>,
}

impl Recorder<'_> {
    /// The value that each row subtracts from the running sum. It is a parameter even if it is zero or one, so
    /// that the kernels stay the same.
    fn share(&mut self) -> Extension {
        with(|recording| {
            let index = recording.constants.push(self.share);
            Extension(recording.graph.extension_parameter(index))
        })
    }
}

/// The lookups of an evaluator with fields `pending`, `fractions` and a method `share`.
///
/// Each batch but the last has a column with the sum so far within its row; the last column is a running sum over all
/// rows. Each row subtracts its share of the total, so that the running sum is cyclic.
macro_rules! lookups {
    () => {
        fn write_logup_frac(&mut self, fraction: Fraction<Self::EF, Self::EF>) {
            self.pending.push(fraction);
        }

        fn finalize_logup_batched(&mut self, batching: &Vec<usize>) {
            let pending = std::mem::take(&mut self.pending);
            assert_eq!(batching.len(), pending.len(), "a batch for each fraction");
            let last = *batching.iter().max().expect("at least one fraction");
            let mut previous = Self::EF::zero();
            let mut sums: Vec<Option<Fraction<Self::EF, Self::EF>>> = vec![None; last + 1];
            for (&batch, fraction) in batching.iter().zip(pending) {
                sums[batch] = Some(sums[batch].map_or(fraction, |sum| sum + fraction));
            }
            for (batch, sum) in sums.into_iter().enumerate() {
                let fraction = sum.expect("batches are numbered from 0 without gaps");
                self.fractions.push((fraction.numerator, fraction.denominator));
                let step = if batch < last {
                    let [current] = self.next_extension_interaction_mask(INTERACTION_TRACE_IDX, [0]);
                    let step = current - previous;
                    previous = current;
                    step
                } else {
                    let [before, current] = self.next_extension_interaction_mask(INTERACTION_TRACE_IDX, [-1, 0]);
                    let share = self.share();
                    current - before - previous + share
                };
                self.add_constraint(step * fraction.denominator - fraction.numerator);
            }
        }

        fn finalize_logup(&mut self) {
            self.finalize_logup_batched(&(0..self.pending.len()).collect());
        }

        fn finalize_logup_in_pairs(&mut self) {
            self.finalize_logup_batched(&(0..self.pending.len()).map(|i| i / 2).collect());
        }
    };
}
pub(crate) use lookups;

impl EvalAtRow for Recorder<'_> {
    type F = Base;
    type EF = Extension;

    fn get_preprocessed_column(&mut self, _: PreProcessedColumnId) -> Base {
        let [value] = self.next_interaction_mask(PREPROCESSED_TRACE_IDX, [0]);
        value
    }

    fn next_interaction_mask<const N: usize>(&mut self, interaction: usize, offsets: [isize; N]) -> [Base; N] {
        let column = self.next_column.next(interaction, self.preprocessed);
        offsets.map(|offset| {
            let offset = i32::try_from(offset).expect("an offset of less than 2^31 rows");
            Base(with(|recording| recording.graph.column(interaction, column, offset)))
        })
    }

    fn add_constraint<G>(&mut self, constraint: G)
    where
        Extension: Mul<G, Output = Extension> + From<G>,
    {
        self.constraints.push(Extension::from(constraint));
    }

    fn combine_ef(values: [Base; SECURE_EXTENSION_DEGREE]) -> Extension {
        // Four consecutive columns are read together, as one extension column.
        let column = with(|recording| {
            let at = values.map(|value| recording.graph.as_column(value.0));
            let (tree, first, offset) = at[0]?;
            let together = (0..SECURE_EXTENSION_DEGREE).all(|d| at[d] == Some((tree, first + d, offset)));
            together.then(|| recording.graph.extension_column(tree, first, offset))
        });
        if let Some(column) = column {
            return Extension(column);
        }
        let unit = |d: usize| {
            let unit: [Mersenne31; 4] =
                std::array::from_fn(|i| if i == d { Mersenne31::ONE } else { Mersenne31::ZERO });
            QM31::from_parts(&unit).expect("four coordinates")
        };
        Extension(with(|recording| {
            let graph = &mut recording.graph;
            (1..SECURE_EXTENSION_DEGREE).fold(values[0].0, |sum, d| {
                let unit = graph.extension_constant(unit(d));
                let part = graph.mul(values[d].0, unit);
                graph.add(sum, part)
            })
        }))
    }

    lookups!();
}
