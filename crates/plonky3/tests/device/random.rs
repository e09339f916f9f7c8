//! Random AIRs: the proof equals upstream's for arbitrary expressions.
//!
//! A column is free, or holds the value of an expression over the current and next row of earlier columns,
//! preprocessed and periodic columns, public values and constants. Its constraint is the difference times a random
//! filter, so it holds for any filter. The filter may use selectors, which upstream's trace check and quotient
//! scale differently.

use std::borrow::Cow;

use p3_air::{Air, AirBuilder, BaseAir, WindowAccess};
use p3_field::{Field, PrimeCharacteristicRing, PrimeField64};
use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use rand::RngExt;
use rand::rngs::SmallRng;
use rigel_gpu::testing::on_each_device;

use crate::configs::{self, Fri};
use crate::small::Small;
use crate::support;

#[derive(Clone, Debug)]
enum Expression {
    Current(usize),
    Next(usize),
    Preprocessed(usize),
    NextPreprocessed(usize),
    Periodic(usize),
    Public(usize),
    Constant(u64),
    FirstRow,
    LastRow,
    Transition,
    Add(Box<Expression>, Box<Expression>),
    Sub(Box<Expression>, Box<Expression>),
    Mul(Box<Expression>, Box<Expression>),
    Neg(Box<Expression>),
}

/// The values of a row that an expression can read.
struct Window<E> {
    current: Vec<E>,
    next: Vec<E>,
    preprocessed: Vec<E>,
    next_preprocessed: Vec<E>,
    periodic: Vec<E>,
    publics: Vec<E>,
    /// First row, last row, transition.
    selectors: [E; 3],
}

impl Expression {
    fn eval<E: PrimeCharacteristicRing>(&self, window: &Window<E>) -> E {
        match self {
            Self::Current(column) => window.current[*column].clone(),
            Self::Next(column) => window.next[*column].clone(),
            Self::Preprocessed(column) => window.preprocessed[*column].clone(),
            Self::NextPreprocessed(column) => window.next_preprocessed[*column].clone(),
            Self::Periodic(column) => window.periodic[*column].clone(),
            Self::Public(index) => window.publics[*index].clone(),
            Self::Constant(value) => E::from_u64(*value),
            Self::FirstRow => window.selectors[0].clone(),
            Self::LastRow => window.selectors[1].clone(),
            Self::Transition => window.selectors[2].clone(),
            Self::Add(x, y) => x.eval(window) + y.eval(window),
            Self::Sub(x, y) => x.eval(window) - y.eval(window),
            Self::Mul(x, y) => x.eval(window) * y.eval(window),
            Self::Neg(x) => -x.eval(window),
        }
    }
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct Random<F> {
    free: usize,
    /// The expression of each further column, and the filter of its constraint.
    columns: Vec<(Expression, Expression)>,
    preprocessed: Option<RowMajorMatrix<F>>,
    periodic: Vec<Vec<F>>,
}

const PUBLICS: usize = 2;
const PREPROCESSED: usize = 2;
const PERIODIC: usize = 2;

/// Draws expressions over the first `columns` columns.
struct Draw<'a> {
    rng: &'a mut SmallRng,
    columns: usize,
    preprocessed: bool,
    periodic: bool,
}

impl Draw<'_> {
    fn leaf(&mut self, degree: usize) -> Expression {
        let column = self.rng.random_range(0..self.columns);
        let constant = if self.rng.random() { self.rng.random() } else { self.rng.random_range(0..3) };
        match self.rng.random_range(0..if degree == 0 { 2 } else { 9 }) {
            0 => Expression::Constant(constant),
            1 => Expression::Public(self.rng.random_range(0..PUBLICS)),
            2 if self.preprocessed => Expression::Preprocessed(self.rng.random_range(0..PREPROCESSED)),
            3 if self.preprocessed => Expression::NextPreprocessed(self.rng.random_range(0..PREPROCESSED)),
            4 if self.periodic => Expression::Periodic(self.rng.random_range(0..PERIODIC)),
            2..=5 => Expression::Next(column),
            _ => Expression::Current(column),
        }
    }

    /// An expression of at most this degree and size.
    fn expression(&mut self, degree: usize, size: usize) -> Expression {
        if size <= 1 {
            return self.leaf(degree);
        }
        let split = self.rng.random_range(1..size);
        match self.rng.random_range(0..8) {
            0 => Expression::Neg(Box::new(self.expression(degree, size - 1))),
            1..=2 => Expression::Add(self.boxed(degree, split), self.boxed(degree, size - split)),
            3 => Expression::Sub(self.boxed(degree, split), self.boxed(degree, size - split)),
            _ => {
                let first = self.rng.random_range(0..=degree);
                Expression::Mul(self.boxed(first, split), self.boxed(degree - first, size - split))
            }
        }
    }

    fn boxed(&mut self, degree: usize, size: usize) -> Box<Expression> {
        Box::new(self.expression(degree, size))
    }

    /// A filter of at most this degree, with at most one factor that is zero on the last row only.
    fn filter(&mut self, degree: usize) -> Expression {
        let rest = self.boxed(degree.saturating_sub(1), 3);
        let selector = Box::new(match self.rng.random_range(0..4) {
            0 if degree > 0 => Expression::FirstRow,
            1 if degree > 0 => Expression::LastRow,
            2 => Expression::Transition,
            _ => return self.expression(degree, 2),
        });
        match self.rng.random_range(0..2) {
            0 => Expression::Mul(selector, rest),
            _ => Expression::Sub(rest, selector),
        }
    }
}

impl<F: PrimeField64> Random<F> {
    /// An AIR whose constraints have at most this degree, for traces of `rows` rows.
    fn new(rng: &mut SmallRng, degree: usize, rows: usize) -> Self {
        let (with_preprocessed, with_periodic) = (rng.random(), rng.random());
        let free = rng.random_range(1..4);
        let computed = rng.random_range(1..12);
        let mut columns = Vec::with_capacity(computed);
        for column in 0..computed {
            let mut draw =
                Draw { rng, columns: free + column, preprocessed: with_preprocessed, periodic: with_periodic };
            let of_filter = draw.rng.random_range(0..degree);
            let size = draw.rng.random_range(1..14);
            columns.push((draw.expression(degree - of_filter, size), draw.filter(of_filter)));
        }
        let mut random = |len: usize| -> Vec<F> { (0..len).map(|_| F::from_u64(rng.random())).collect() };
        let preprocessed =
            with_preprocessed.then(|| RowMajorMatrix::new(random(PREPROCESSED * rows), PREPROCESSED));
        let periodic = if with_periodic { vec![random(rows.min(4)), random(rows.min(2))] } else { Vec::new() };
        Self { free, columns, preprocessed, periodic }
    }

    fn trace(&self, rng: &mut SmallRng, rows: usize, publics: &[F]) -> RowMajorMatrix<F> {
        let mut columns: Vec<Vec<F>> =
            (0..self.free).map(|_| (0..rows).map(|_| F::from_u64(rng.random())).collect()).collect();
        for (expression, _) in &self.columns {
            let row = |columns: &[Vec<F>], at: usize| -> Vec<F> { columns.iter().map(|c| c[at % rows]).collect() };
            let preprocessed = |at: usize| match &self.preprocessed {
                Some(matrix) => matrix.row_slice(at % rows).unwrap().to_vec(),
                None => Vec::new(),
            };
            let value = |at: usize| {
                expression.eval(&Window {
                    current: row(&columns, at),
                    next: row(&columns, at + 1),
                    preprocessed: preprocessed(at),
                    next_preprocessed: preprocessed(at + 1),
                    periodic: self.periodic.iter().map(|column| column[at % column.len()]).collect(),
                    publics: publics.to_vec(),
                    selectors: [F::ZERO; 3],
                })
            };
            let values = (0..rows).map(value).collect();
            columns.push(values);
        }
        let values = (0..rows).flat_map(|at| columns.iter().map(move |column| column[at])).collect();
        RowMajorMatrix::new(values, columns.len())
    }
}

impl<F: Field> BaseAir<F> for Random<F> {
    fn width(&self) -> usize {
        self.free + self.columns.len()
    }

    fn preprocessed_trace(&self) -> Option<RowMajorMatrix<F>> {
        self.preprocessed.clone()
    }

    fn preprocessed_width(&self) -> usize {
        self.preprocessed.as_ref().map_or(0, |_| PREPROCESSED)
    }

    fn num_periodic_columns(&self) -> usize {
        self.periodic.len()
    }

    fn periodic_columns(&self) -> Cow<'_, [Vec<F>]> {
        Cow::Borrowed(&self.periodic)
    }

    fn num_public_values(&self) -> usize {
        PUBLICS
    }
}

impl<AB: AirBuilder> Air<AB> for Random<AB::F>
where
    AB::F: Field,
{
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        let all = |row: &[AB::Var]| -> Vec<AB::Expr> { row.iter().map(|&value| value.into()).collect() };
        // Upstream's window over zero columns can't be read.
        let (preprocessed, next_preprocessed) = match &self.preprocessed {
            None => (Vec::new(), Vec::new()),
            Some(_) => {
                let window = builder.preprocessed().clone();
                (all(window.current_slice()), all(window.next_slice()))
            }
        };
        let window = Window {
            current: all(main.current_slice()),
            next: all(main.next_slice()),
            preprocessed,
            next_preprocessed,
            periodic: builder.periodic_values().iter().map(|&value| value.into()).collect(),
            publics: builder.public_values().iter().map(|&value| value.into()).collect(),
            selectors: [builder.is_first_row(), builder.is_last_row(), builder.is_transition()],
        };
        for (column, (expression, filter)) in self.columns.iter().enumerate() {
            let difference = expression.eval(&window) - window.current[self.free + column].clone();
            builder.assert_zero(difference * filter.eval(&window));
        }
    }
}

macro_rules! each {
    ($($name:ident: $config:ident, seeds $seeds:expr;)*) => { $(
        #[test]
        fn $name() {
            on_each_device(|stream| {
                let fri = Fri { log_blowup: 2, ..Fri::default() };
                let prover = support::prover(stream.device(), &configs::$config(fri), fri);
                for seed in $seeds {
                    let mut rng = support::rng(seed);
                    let degree = rng.random_range(1..=5);
                    let rows = 1 << rng.random_range(0..7);
                    let random = Random::new(&mut rng, degree, rows);
                    let publics: Vec<_> =
                        (0..PUBLICS).map(|_| PrimeCharacteristicRing::from_u64(rng.random())).collect();
                    let trace = random.trace(&mut rng, rows, &publics);
                    println!("seed {seed}: degree {degree}, {rows} rows of {} columns", trace.width());
                    support::check_with(&prover, &Small::Random(random), &trace, &publics);
                }
            });
        }
    )* };
}
each! {
    koala_bear: koala_bear_sponge, seeds 0..5;
    baby_bear: baby_bear_poseidon2, seeds 10..14;
    goldilocks_2: goldilocks2_sponge, seeds 20..24;
    goldilocks_3: goldilocks3_poseidon2, seeds 30..32;
}
