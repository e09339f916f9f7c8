//! XORs and sums of words by table lookups.
//!
//! A row of the first component has words x and y of two limbs of `bits` bits each, the limbs of z = x ^ y, and
//! the sum s = x + y - carry 2^(2 bits). It looks up each limb's triple in the XOR table, which also range-checks
//! the limbs, and s in the range [0, 2^(2 bits)).
//!
//! The second component is the tables, one row for each pair (a, b) of limbs, in preprocessed columns. It yields
//! (a, b, a ^ b) to one relation and the number a 2^bits + b, which covers the whole range, to the other, each as
//! often as it was used.

use std::sync::atomic::{AtomicU32, Ordering};

use num_traits::One;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, RelationEntry};

use crate::lookup::{Elements, relations};
use crate::random::Random;
use crate::statement::{Air, Statement, provable};
use crate::witness::{HostColumn, field, fill, host_column};
use crate::{Workload, check_size};
use rigel_statements::stwo::{TABLE_COLUMNS, limb_bits};

relations!(XorElements: 3, RangeElements: 1);

/// Columns of a row of words: the limbs of x, y and z, low before high, and the carry.
const COLUMNS: usize = 7;

/// 2^`log_rows` pairs of words with their XOR and their sum.
#[derive(Clone, Debug)]
pub struct Xor {
    log_rows: u32,
    bits: u32,
    seed: u64,
}

impl Xor {
    /// Limbs of 8 bits, or fewer if the tables would be higher than the component that looks into them.
    pub fn new(log_rows: u32, seed: u64) -> Result<Self, crate::BadSize> {
        Self::with_bits(log_rows, limb_bits(log_rows), seed)
    }

    /// Limbs of `bits` bits, 2 to 8: tables of 2^(2 bits) rows.
    pub fn with_bits(log_rows: u32, bits: u32, seed: u64) -> Result<Self, crate::BadSize> {
        check_size(Workload::Xor, "log rows", log_rows)?;
        crate::check("bits of a limb", u64::from(bits), 2..=8)?;
        Ok(Self { log_rows, bits, seed })
    }

    /// The words x and y of a row.
    fn words(&self, row: usize) -> [u32; 2] {
        let random = Random::new(self.seed, 0);
        [2 * row, 2 * row + 1].map(|index| random.word(index) >> (32 - 2 * self.bits))
    }

    fn evals(&self, elements: &Elements) -> (WordsEval, TablesEval) {
        let xor = XorElements::from(elements.relation(0));
        let range = RangeElements::from(elements.relation(1));
        let words = WordsEval { log_rows: self.log_rows, bits: self.bits, xor: xor.clone(), range: range.clone() };
        (words, TablesEval { bits: self.bits, xor, range })
    }
}

impl Statement for Xor {
    fn workload(&self) -> Workload {
        Workload::Xor
    }

    fn description(&self) -> String {
        format!("2^{} XORs and sums of {} bits, by tables of 2^{1} rows", self.log_rows, 2 * self.bits)
    }

    fn log_sizes(&self) -> Vec<u32> {
        vec![self.log_rows, 2 * self.bits]
    }

    fn publics(&self) -> Vec<u32> {
        vec![self.bits]
    }

    fn preprocessed_ids(&self) -> Vec<PreProcessedColumnId> {
        table_ids(self.bits).to_vec()
    }

    fn preprocessed(&self) -> Vec<HostColumn> {
        table(self.bits)
    }

    fn trace(&self) -> Vec<HostColumn> {
        let (xors, ranges) = (Uses::new(self.bits), Uses::new(self.bits));
        let mask = (1 << self.bits) - 1;
        let limbs = |word: u32| [word & mask, word >> self.bits];
        let mut columns = fill(self.log_rows, COLUMNS, |row, cells| {
            let [x, y] = self.words(row);
            for (limb, (a, b)) in limbs(x).into_iter().zip(limbs(y)).enumerate() {
                let all = [a, b, xors.xor(a, b)];
                for (word, value) in all.into_iter().enumerate() {
                    cells[2 * word + limb] = field(value);
                }
            }
            let carry = (x + y) >> (2 * self.bits);
            cells[COLUMNS - 1] = field(carry);
            ranges.add((x + y - (carry << (2 * self.bits))) as usize);
        });
        columns.extend([xors.column(), ranges.column()]);
        columns
    }

    fn relations(&self) -> usize {
        2
    }

    fn airs(&self, elements: &Elements) -> Vec<Box<dyn Air>> {
        let (words, tables) = self.evals(elements);
        vec![Box::new(words), Box::new(tables)]
    }
}

provable!(Xor, [WordsEval, TablesEval], |(words, tables)| vec![Box::new(words), Box::new(tables)]);

/// The AIR of the words.
#[derive(Clone, Debug)]
pub struct WordsEval {
    log_rows: u32,
    bits: u32,
    xor: XorElements,
    range: RangeElements,
}

impl FrameworkEval for WordsEval {
    fn log_size(&self) -> u32 {
        self.log_rows
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.log_rows + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
        let mut word = || [eval.next_trace_mask(), eval.next_trace_mask()];
        let [x, y, z] = [word(), word(), word()];
        let carry = eval.next_trace_mask();
        eval.add_constraint(carry.clone() * (E::F::one() - carry.clone()));

        let join = |[low, high]: &[E::F; 2]| low.clone() + high.clone() * field(1 << self.bits);
        let sum = join(&x) + join(&y) - carry * field(1 << (2 * self.bits));
        for ((a, b), c) in x.into_iter().zip(y).zip(z) {
            eval.add_to_relation(RelationEntry::new(&self.xor, E::EF::one(), &[a, b, c]));
        }
        eval.add_to_relation(RelationEntry::new(&self.range, E::EF::one(), &[sum]));
        eval.finalize_logup_in_pairs();
        eval
    }
}

/// The AIR of the tables.
#[derive(Clone, Debug)]
pub struct TablesEval {
    bits: u32,
    xor: XorElements,
    range: RangeElements,
}

impl FrameworkEval for TablesEval {
    fn log_size(&self) -> u32 {
        2 * self.bits
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        2 * self.bits + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
        let triple = table_ids(self.bits).map(|id| eval.get_preprocessed_column(id));
        let [xors, ranges] = [eval.next_trace_mask(), eval.next_trace_mask()].map(E::EF::from);
        let number = triple[0].clone() * field(1 << self.bits) + triple[1].clone();
        eval.add_to_relation(RelationEntry::new(&self.xor, -xors, &triple));
        eval.add_to_relation(RelationEntry::new(&self.range, -ranges, &[number]));
        eval.finalize_logup_in_pairs();
        eval
    }
}

/// The names of the columns of [`table`].
pub(crate) fn table_ids(bits: u32) -> [PreProcessedColumnId; TABLE_COLUMNS] {
    ["a", "b", "c"].map(|column| PreProcessedColumnId { id: format!("xor{bits}_{column}") })
}

/// The XOR table of limbs of `bits` bits: row a 2^bits + b is (a, b, a ^ b).
pub(crate) fn table(bits: u32) -> Vec<HostColumn> {
    fill(2 * bits, TABLE_COLUMNS, |row, cells| {
        let (a, b) = (row as u32 >> bits, row as u32 & ((1 << bits) - 1));
        cells.copy_from_slice(&[a, b, a ^ b].map(field));
    })
}

/// The number of uses of each row of a table, counted by all threads concurrently.
pub(crate) struct Uses {
    bits: u32,
    counts: Vec<AtomicU32>,
}

impl Uses {
    /// Zero uses of a table of limbs of `bits` bits.
    pub(crate) fn new(bits: u32) -> Self {
        Self { bits, counts: (0..1 << (2 * bits)).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Uses the row of (a, b).
    pub(crate) fn xor(&self, a: u32, b: u32) -> u32 {
        self.add(((a << self.bits) | b) as usize);
        a ^ b
    }

    /// Uses a row.
    fn add(&self, row: usize) {
        self.counts[row].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts as a column of the table.
    pub(crate) fn column(self) -> HostColumn {
        let counts = self.counts.into_iter().map(|count| field(count.into_inner()));
        host_column(2 * self.bits, counts.collect())
    }
}
