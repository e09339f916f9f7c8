//! Eight tables connected by 20 lookups, as in a virtual machine.
//!
//! | table | rows | lookups |
//! |---|---|---|
//! | range | 2^(K-4) | provides every number below its height |
//! | xor | 2^(K-4), rounded up to an even power | provides every `a, b, a ^ b` |
//! | memory | 2^(K-3) | provides `address, value` |
//! | five machines | 2^(K-4) to 2^K | look up a number in range and a XOR, and shuffle a column (a local lookup) |
//!
//! The two largest machines also read the memory at one of two addresses, or not at all (an exclusive lookup).

use p3_air::{Air, AirBuilder, BaseAir, PermutationAirBuilder, WindowAccess};
use p3_field::{PrimeCharacteristicRing, PrimeField64};
use p3_lookup::{Count, InteractionBuilder};
use p3_matrix::dense::RowMajorMatrix;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rayon::prelude::*;

/// One of the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LookupAir {
    /// The numbers below 2^`log_rows`, and how often each is looked up.
    Range { log_rows: u32 },
    /// All pairs of numbers of half as many bits, their XOR, and how often each is looked up.
    Xor { log_rows: u32 },
    /// Addresses, values, and how often each is read.
    Memory { log_rows: u32 },
    /// A machine, which may read the memory.
    Machine { log_rows: u32, reads: bool },
}

/// The columns of a machine.
#[derive(Clone, Copy)]
enum Column {
    Left,
    Right,
    Xor,
    /// A number in range.
    Number,
    /// The numbers of [`Self::Number`] in another order.
    Shuffled,
    /// Accumulates the operations of the rows before.
    State,
    First,
    Second,
    FirstAddress,
    FirstValue,
    SecondAddress,
    SecondValue,
}

const COLUMNS: usize = 6;
const COLUMNS_WITH_READS: usize = 12;

/// The tables, the largest of 2^`log_rows` rows.
pub(crate) fn airs(log_rows: u32) -> Vec<LookupAir> {
    let least = log_rows - 4;
    let machine = |log_rows, reads| LookupAir::Machine { log_rows, reads };
    vec![
        LookupAir::Range { log_rows: least },
        LookupAir::Xor { log_rows: least.next_multiple_of(2) },
        LookupAir::Memory { log_rows: least + 1 },
        machine(least, false),
        machine(least + 1, false),
        machine(least + 2, false),
        machine(least + 3, true),
        machine(least + 4, true),
    ]
}

/// The number of preprocessed values of all tables, and the rows of the highest such table as a power of two.
pub fn preprocessed(log_rows: u32) -> (usize, u32) {
    let provided = airs(log_rows).into_iter().map(|air| (air.provided(0).len(), air.log_rows()));
    provided
        .filter(|&(width, _)| width > 0)
        .fold((0, 0), |(cells, highest), (width, log_rows)| (cells + (width << log_rows), highest.max(log_rows)))
}

/// The content of the memory.
fn memory_value(address: u64) -> u64 {
    (address * address + 7) & 0xffff
}

impl LookupAir {
    pub(crate) fn log_rows(self) -> u32 {
        match self {
            Self::Range { log_rows }
            | Self::Xor { log_rows }
            | Self::Memory { log_rows }
            | Self::Machine { log_rows, .. } => log_rows,
        }
    }

    /// The tuple that a row of a table provides; empty for a machine.
    fn provided(self, row: u64) -> Vec<u64> {
        match self {
            Self::Range { .. } => vec![row],
            Self::Xor { log_rows } => {
                let bits = log_rows / 2;
                let (left, right) = (row >> bits, row & ((1 << bits) - 1));
                vec![left, right, left ^ right]
            }
            Self::Memory { .. } => vec![row, memory_value(row)],
            Self::Machine { .. } => Vec::new(),
        }
    }

    fn bus(self) -> &'static str {
        match self {
            Self::Range { .. } => "range",
            Self::Xor { .. } => "xor",
            Self::Memory { .. } => "memory",
            Self::Machine { .. } => "",
        }
    }
}

impl<F: PrimeCharacteristicRing + Send + Sync> BaseAir<F> for LookupAir {
    fn width(&self) -> usize {
        match self {
            Self::Machine { reads: false, .. } => COLUMNS,
            Self::Machine { reads: true, .. } => COLUMNS_WITH_READS,
            _ => 1,
        }
    }

    fn preprocessed_trace(&self) -> Option<RowMajorMatrix<F>> {
        let width = self.provided(0).len();
        let row = |row| self.provided(row).into_iter().map(F::from_u64);
        (width > 0).then(|| RowMajorMatrix::new((0..1u64 << self.log_rows()).flat_map(row).collect(), width))
    }

    fn preprocessed_width(&self) -> usize {
        self.provided(0).len()
    }

    fn preprocessed_next_row_columns(&self) -> Vec<usize> {
        Vec::new()
    }

    fn main_next_row_columns(&self) -> Vec<usize> {
        match self {
            Self::Machine { .. } => vec![Column::State as usize],
            _ => Vec::new(),
        }
    }
}

impl<AB: PermutationAirBuilder + InteractionBuilder> Air<AB> for LookupAir
where
    AB::F: PrimeCharacteristicRing + Send + Sync,
{
    fn eval(&self, builder: &mut AB) {
        match *self {
            Self::Machine { reads, .. } => machine(builder, reads),
            table => {
                let preprocessed = builder.preprocessed();
                let fields: Vec<AB::Expr> =
                    preprocessed.current_slice().iter().map(|&value| value.into()).collect();
                let count: AB::Expr = builder.main().current(0).expect("one column").into();
                builder.push_interaction(table.bus(), fields, Count::provided(-count));
            }
        }
    }
}

fn machine<AB: PermutationAirBuilder + InteractionBuilder>(builder: &mut AB, reads: bool) {
    let main = builder.main();
    let at = |column: Column| -> AB::Expr { main.current(column as usize).expect("a column").into() };
    let next_state = main.next(Column::State as usize).expect("a column");

    let step = at(Column::State) + at(Column::Left) * at(Column::Right) + at(Column::Xor);
    builder.when_transition().assert_eq(next_state, step);
    builder.push_interaction("xor", [at(Column::Left), at(Column::Right), at(Column::Xor)], 1);
    builder.push_interaction("range", [at(Column::Number)], 1);
    builder.push_local_interaction([
        (vec![at(Column::Number)], Count::bounded(AB::Expr::ONE, 1)),
        (vec![at(Column::Shuffled)], Count::provided(-AB::Expr::ONE)),
    ]);
    if !reads {
        return;
    }
    let (first, second) = (at(Column::First), at(Column::Second));
    builder.assert_bool(first.clone());
    builder.assert_bool(second.clone());
    builder.assert_zero(first.clone() * second.clone());
    builder.push_exclusive_interaction(
        "memory",
        [
            (first, Count::bounded(AB::Expr::ONE, 1), vec![at(Column::FirstAddress), at(Column::FirstValue)]),
            (second, Count::bounded(AB::Expr::ONE, 1), vec![at(Column::SecondAddress), at(Column::SecondValue)]),
        ],
    );
}

/// The operation of a machine in one row.
struct Step {
    left: u64,
    right: u64,
    number: u64,
    /// 0 and 1 read at that address, 2 reads nothing.
    read: usize,
    addresses: [u64; 2],
}

/// Traces that satisfy all constraints and lookups. They are deterministic.
pub(crate) fn witness<V: PrimeField64>(airs: &[LookupAir]) -> Vec<RowMajorMatrix<V>> {
    let [numbers, xors, memory] = [0, 1, 2].map(|table| airs[table].log_rows());
    let steps: Vec<Vec<Step>> = airs
        .par_iter()
        .enumerate()
        .map(|(table, air)| match air {
            LookupAir::Machine { log_rows, .. } => steps(table as u64, *log_rows, [numbers, xors, memory]),
            _ => Vec::new(),
        })
        .collect();

    let mut counts = [numbers, xors, memory].map(|log_rows| vec![0u64; 1 << log_rows]);
    for (air, steps) in airs.iter().zip(&steps) {
        for step in steps {
            counts[0][step.number as usize] += 1;
            counts[1][(step.left << (xors / 2) | step.right) as usize] += 1;
            if let (LookupAir::Machine { reads: true, .. }, Some(&address)) = (air, step.addresses.get(step.read))
            {
                counts[2][address as usize] += 1;
            }
        }
    }
    let table = |table: usize| match airs[table] {
        LookupAir::Machine { reads, .. } => machine_trace(&steps[table], reads),
        _ => RowMajorMatrix::new(counts[table].iter().map(|&count| V::from_u64(count)).collect(), 1),
    };
    (0..airs.len()).into_par_iter().map(table).collect()
}

fn steps(table: u64, log_rows: u32, [numbers, xors, memory]: [u32; 3]) -> Vec<Step> {
    let mut rng = SmallRng::seed_from_u64(super::SEED + table);
    let mut below = |bits: u32| rng.random::<u64>() & ((1 << bits) - 1);
    let step = |_| Step {
        left: below(xors / 2),
        right: below(xors / 2),
        number: below(numbers),
        read: (below(2) as usize).min(2),
        addresses: [below(memory), below(memory)],
    };
    (0..1u64 << log_rows).map(step).collect()
}

fn machine_trace<V: PrimeField64>(steps: &[Step], reads: bool) -> RowMajorMatrix<V> {
    let width = if reads { COLUMNS_WITH_READS } else { COLUMNS };
    let mut values = Vec::with_capacity(steps.len() * width);
    let mut state = V::ZERO;
    for (row, step) in steps.iter().enumerate() {
        let xor = step.left ^ step.right;
        let shuffled = steps[(row + steps.len() / 2 + 1) % steps.len()].number;
        values.extend([step.left, step.right, xor, step.number, shuffled].map(V::from_u64));
        values.push(state);
        state += V::from_u64(step.left) * V::from_u64(step.right) + V::from_u64(xor);
        if reads {
            let flags = [step.read == 0, step.read == 1].map(V::from_bool);
            values.extend(flags);
            values.extend(
                step.addresses.into_iter().flat_map(|address| [address, memory_value(address)].map(V::from_u64)),
            );
        }
    }
    RowMajorMatrix::new(values, width)
}
