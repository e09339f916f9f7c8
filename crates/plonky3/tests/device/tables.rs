//! Tables of batches, under one AIR type so that they can be combined freely.

use std::borrow::Cow;

use p3_air::{Air, BaseAir, WindowAccess};
use p3_field::{Field, PrimeCharacteristicRing, PrimeField64};
use p3_lookup::{Count, InteractionBuilder, LookupBus, PermutationCheckBus};
use p3_matrix::dense::RowMajorMatrix;
use rand::RngExt;
use rand::rngs::SmallRng;

use crate::airs::{Fibonacci, Power, Steps, fibonacci};
use crate::support::Filled;

/// A table.
#[derive(Clone, Debug)]
pub(crate) enum Table<F> {
    /// Has public values and no lookups.
    Fibonacci,
    /// Has preprocessed columns whose next row is read, and no lookups.
    Steps(Steps),
    /// Has constraints of any degree, and no lookups.
    Power(Power),
    /// Provides the preprocessed `i, i^2` on the bus "squares", with the multiplicity in its one column.
    Squares { rows: usize },
    /// Looks up two squares per row. With a cubic constraint the quotient has room to pack both into one column.
    Pairs { cubic: bool },
    /// Looks up a square per row, in the first two of its columns; each other column is the square of the one before.
    Wide { width: usize },
    /// Looks up a square in each two of its columns.
    Many { lookups: usize },
    /// Looks up one of two squares or none, as exclusive branches.
    Either,
    /// Looks up squares of a periodic column.
    Clocked { period: Vec<F> },
    /// Sends the preprocessed `i`, its successor and a column times a public value on the bus "links".
    Chain { rows: usize },
    /// Receives what chains send, in any order; some rows receive nothing.
    Links,
    /// Two local lookups: a column against a permuted one, and a column and its next row against permuted pairs.
    Shuffled,
    /// Local lookups on the first row, on the last, and on all but the last.
    Selected,
    /// Sends tuples of a width that no other table has on that bus.
    WrongWidth,
    /// Sends tuples of two widths on one bus.
    TwoWidths,
    /// Sends a periodic column, which upstream's lookups can't read.
    PeriodicLookup,
}

const SQUARES: LookupBus<'static> = LookupBus::new("squares");
const LINKS: PermutationCheckBus<'static> = PermutationCheckBus::new("links");

impl<F: Field> BaseAir<F> for Table<F> {
    fn width(&self) -> usize {
        match self {
            Self::Fibonacci | Self::Steps(_) | Self::Power(_) | Self::Clocked { .. } => 2,
            Self::Squares { .. } | Self::Chain { .. } | Self::WrongWidth | Self::TwoWidths => 1,
            Self::PeriodicLookup => 1,
            Self::Pairs { .. } | Self::Links | Self::Shuffled => 4,
            Self::Either => 6,
            Self::Selected => 5,
            Self::Wide { width } => *width,
            Self::Many { lookups } => 2 * lookups,
        }
    }

    fn num_public_values(&self) -> usize {
        match self {
            Self::Fibonacci => 3,
            Self::Chain { .. } | Self::Shuffled => 1,
            _ => 0,
        }
    }

    fn preprocessed_trace(&self) -> Option<RowMajorMatrix<F>> {
        let of_rows = |rows: &usize, row: &dyn Fn(usize) -> Vec<F>| {
            let values: Vec<F> = (0..*rows).flat_map(row).collect();
            let width = values.len() / rows;
            Some(RowMajorMatrix::new(values, width))
        };
        match self {
            Self::Steps(steps) => steps.preprocessed_trace(),
            Self::Squares { rows } => of_rows(rows, &|i| vec![F::from_usize(i), F::from_usize(i * i)]),
            Self::Chain { rows } => of_rows(rows, &|i| vec![F::from_usize(i)]),
            _ => None,
        }
    }

    fn preprocessed_width(&self) -> usize {
        match self {
            Self::Steps(_) | Self::Squares { .. } => 2,
            Self::Chain { .. } => 1,
            _ => 0,
        }
    }

    fn main_next_row_columns(&self) -> Vec<usize> {
        match self {
            Self::Fibonacci | Self::Steps(_) | Self::Shuffled | Self::Clocked { .. } | Self::Selected => {
                (0..BaseAir::<F>::width(self)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn preprocessed_next_row_columns(&self) -> Vec<usize> {
        match self {
            Self::Steps(steps) => BaseAir::<F>::preprocessed_next_row_columns(steps),
            Self::Chain { .. } => vec![0],
            _ => Vec::new(),
        }
    }

    fn num_periodic_columns(&self) -> usize {
        self.periodic_columns().len()
    }

    fn periodic_columns(&self) -> Cow<'_, [Vec<F>]> {
        match self {
            Self::Clocked { period } => Cow::Borrowed(std::slice::from_ref(period)),
            Self::PeriodicLookup => Cow::Owned(vec![vec![F::ONE]]),
            _ => Cow::Borrowed(&[]),
        }
    }
}

impl<AB: InteractionBuilder> Air<AB> for Table<AB::F>
where
    AB::F: Field,
{
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        let all = |row: &[AB::Var]| -> Vec<AB::Expr> { row.iter().map(|&value| value.into()).collect() };
        let (current, next) = (all(main.current_slice()), all(main.next_slice()));
        // Upstream's window over zero columns can't be read.
        let (fixed, next_fixed) = if self.preprocessed_width() == 0 {
            (Vec::new(), Vec::new())
        } else {
            let preprocessed = builder.preprocessed().clone();
            (all(preprocessed.current_slice()), all(preprocessed.next_slice()))
        };
        let publics: Vec<AB::Expr> = builder.public_values().iter().map(|&value| value.into()).collect();
        let at = |column: usize| current[column].clone();
        let provided = |expression: AB::Expr| Count::provided(-expression);
        let query = |expression: AB::Expr| Count::bounded(expression, 1);
        match self {
            Self::Fibonacci => Fibonacci.eval(builder),
            Self::Steps(steps) => steps.eval(builder),
            Self::Power(power) => power.eval(builder),
            Self::Squares { .. } => SQUARES.table_entry(builder, fixed, at(0)),
            Self::Pairs { cubic } => {
                if *cubic {
                    builder.assert_eq(at(0).cube(), at(0) * at(1));
                }
                SQUARES.lookup_key(builder, [at(0), at(1)], 1);
                SQUARES.lookup_key(builder, [at(2), at(3)], 1);
            }
            Self::Wide { width } => {
                for column in 1..*width {
                    builder.assert_eq(at(column), at(column - 1).square());
                }
                SQUARES.lookup_key(builder, [at(0), at(1)], 1);
            }
            Self::Many { lookups } => {
                for lookup in 0..*lookups {
                    SQUARES.lookup_key(builder, [at(2 * lookup), at(2 * lookup + 1)], 1);
                }
            }
            Self::Either => {
                builder.assert_bools([at(0), at(1)]);
                builder.assert_zero(at(0) * at(1));
                SQUARES.lookup_key_exclusive(builder, [(at(0), vec![at(2), at(3)]), (at(1), vec![at(4), at(5)])]);
            }
            Self::Clocked { .. } => {
                let periodic: AB::Expr = builder.periodic_values()[0].into();
                builder.assert_eq(at(0), periodic);
                builder.assert_eq(at(0).square(), at(1));
                SQUARES.lookup_key(builder, [at(0), at(1)], 1);
            }
            Self::Chain { .. } => {
                let message = [fixed[0].clone(), next_fixed[0].clone(), at(0) * publics[0].clone()];
                LINKS.send(builder, message, 1);
            }
            Self::Links => {
                builder.assert_bool(at(0));
                LINKS.receive(builder, [at(1), at(2), at(3)], query(at(0)));
            }
            Self::Shuffled => {
                builder.push_local_interaction([(vec![at(0)], 1.into()), (vec![at(1)], provided(AB::Expr::ONE))]);
                builder.push_local_interaction([
                    (vec![at(0) + publics[0].clone(), next[0].clone()], 1.into()),
                    (vec![at(2), at(3)], provided(AB::Expr::ONE)),
                ]);
            }
            Self::Selected => {
                // A nonzero selector is not 1, so both sides of a row use the same selector.
                for (column, selector) in [builder.is_first_row(), builder.is_transition(), builder.is_last_row()]
                    .into_iter()
                    .enumerate()
                {
                    builder.push_local_interaction([
                        (vec![at(0)], query(selector.clone())),
                        (vec![at(1)], provided(selector * at(2 + column))),
                    ]);
                }
            }
            Self::WrongWidth => SQUARES.lookup_key(builder, [at(0)], 1),
            Self::TwoWidths => {
                SQUARES.lookup_key(builder, [at(0)], 1);
                SQUARES.lookup_key(builder, [at(0), at(0)], 1);
            }
            Self::PeriodicLookup => {
                let periodic: AB::Expr = builder.periodic_values()[0].into();
                builder
                    .push_local_interaction([(vec![periodic], 1.into()), (vec![at(0)], provided(AB::Expr::ONE))]);
            }
        }
    }
}

/// A table of Fibonacci numbers.
pub(crate) fn numbers<F: PrimeField64>(rows: usize) -> Filled<Table<F>, F> {
    let (trace, publics) = fibonacci(rows);
    Filled { air: Table::Fibonacci, trace, publics }
}

/// A table with preprocessed columns.
pub(crate) fn steps<F: PrimeField64>(rows: usize, reads_next: bool) -> Filled<Table<F>, F> {
    let steps = Steps { rows, reads_next };
    Filled { trace: steps.trace(), air: Table::Steps(steps), publics: Vec::new() }
}

/// A table of powers.
pub(crate) fn powers<F: PrimeField64>(rows: usize, degree: usize) -> Filled<Table<F>, F> {
    let power = Power { degree, hint: None };
    Filled { trace: power.trace(rows), air: Table::Power(power), publics: Vec::new() }
}

/// Draws the tables that share the bus "squares" and counts their lookups.
pub(crate) struct Squares {
    rng: SmallRng,
    uses: Vec<usize>,
}

impl Squares {
    /// A table of the first `rows` squares.
    pub(crate) fn new(seed: u64, rows: usize) -> Self {
        Self { rng: crate::support::rng(seed), uses: vec![0; rows] }
    }

    fn of<F: PrimeField64>(&mut self, i: usize) -> [F; 2] {
        self.uses[i] += 1;
        [F::from_usize(i), F::from_usize(i * i)]
    }

    fn any<F: PrimeField64>(&mut self) -> [F; 2] {
        let i = self.rng.random_range(0..self.uses.len());
        self.of(i)
    }

    pub(crate) fn wide<F: PrimeField64>(&mut self, rows: usize, width: usize) -> Filled<Table<F>, F> {
        let row = |[first, _]: [F; 2]| std::iter::successors(Some(first), |x| Some(x.square())).take(width);
        let values = (0..rows).flat_map(|_| row(self.any::<F>())).collect();
        Filled { air: Table::Wide { width }, trace: RowMajorMatrix::new(values, width), publics: Vec::new() }
    }

    pub(crate) fn many<F: PrimeField64>(&mut self, rows: usize, lookups: usize) -> Filled<Table<F>, F> {
        let values = (0..rows * lookups).flat_map(|_| self.any::<F>()).collect();
        let trace = RowMajorMatrix::new(values, 2 * lookups);
        Filled { air: Table::Many { lookups }, trace, publics: Vec::new() }
    }

    pub(crate) fn pairs<F: PrimeField64>(&mut self, rows: usize, cubic: bool) -> Filled<Table<F>, F> {
        let values = (0..2 * rows).flat_map(|_| self.any::<F>()).collect();
        Filled { air: Table::Pairs { cubic }, trace: RowMajorMatrix::new(values, 4), publics: Vec::new() }
    }

    pub(crate) fn either<F: PrimeField64>(&mut self, rows: usize) -> Filled<Table<F>, F> {
        let mut values: Vec<F> = Vec::with_capacity(6 * rows);
        for _ in 0..rows {
            // The tuple of a branch that is not taken is arbitrary.
            let other = [F::from_u64(self.rng.random()), F::from_u64(self.rng.random())];
            let (flags, first, second) = match self.rng.random_range(0..3) {
                0 => ([F::ONE, F::ZERO], self.any(), other),
                1 => ([F::ZERO, F::ONE], other, self.any()),
                _ => ([F::ZERO, F::ZERO], other, other),
            };
            values.extend([flags, first, second].concat());
        }
        Filled { air: Table::Either, trace: RowMajorMatrix::new(values, 6), publics: Vec::new() }
    }

    pub(crate) fn clocked<F: PrimeField64>(&mut self, rows: usize, period: &[usize]) -> Filled<Table<F>, F> {
        let values = (0..rows).flat_map(|row| self.of::<F>(period[row % period.len()])).collect();
        let air = Table::Clocked { period: period.iter().copied().map(F::from_usize).collect() };
        Filled { air, trace: RowMajorMatrix::new(values, 2), publics: Vec::new() }
    }

    /// The table that provides all lookups so far.
    pub(crate) fn table<F: PrimeField64>(&self) -> Filled<Table<F>, F> {
        let values = self.uses.iter().copied().map(F::from_usize).collect();
        let air = Table::Squares { rows: self.uses.len() };
        Filled { air, trace: RowMajorMatrix::new(values, 1), publics: Vec::new() }
    }
}

/// A chain, and links that receive it in another order, with empty rows in between.
pub(crate) fn chain<F: PrimeField64>(seed: u64, rows: usize) -> [Filled<Table<F>, F>; 2] {
    let mut rng = crate::support::rng(seed);
    let public = F::from_u64(rng.random());
    let values: Vec<F> = (0..rows).map(|_| F::from_u64(rng.random())).collect();
    let link = |i: usize| [F::ONE, F::from_usize(i), F::from_usize((i + 1) % rows), values[i] * public];
    let links = (0..rows).rev().flat_map(|i| [link(i), [F::ZERO; 4]].concat()).collect();
    [
        Filled { air: Table::Links, trace: RowMajorMatrix::new(links, 4), publics: Vec::new() },
        Filled { air: Table::Chain { rows }, trace: RowMajorMatrix::new(values, 1), publics: vec![public] },
    ]
}

/// A table whose two local lookups hold.
pub(crate) fn shuffled<F: PrimeField64>(seed: u64, rows: usize) -> Filled<Table<F>, F> {
    let mut rng = crate::support::rng(seed);
    let public = F::from_u64(rng.random());
    let values: Vec<F> = (0..rows).map(|_| F::from_u64(rng.random())).collect();
    let row = |i: usize| {
        let (one, pair) = ((i + rows / 2) % rows, rows - 1 - i);
        [values[i], values[one], values[pair] + public, values[(pair + 1) % rows]]
    };
    let trace = RowMajorMatrix::new((0..rows).flat_map(row).collect(), 4);
    Filled { air: Table::Shuffled, trace, publics: vec![public] }
}

/// A table whose selected lookups hold, row by row.
pub(crate) fn selected<F: PrimeField64>(rows: usize) -> Filled<Table<F>, F> {
    let row = |i: usize| {
        let value = F::from_usize(i + 40);
        let selected = [i == 0, i + 1 < rows, i + 1 == rows];
        let [first, transition, last] = selected.map(F::from_bool);
        [value, value, first, transition, last]
    };
    let trace = RowMajorMatrix::new((0..rows).flat_map(row).collect(), 5);
    Filled { air: Table::Selected, trace, publics: Vec::new() }
}
