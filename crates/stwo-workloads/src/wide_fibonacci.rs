//! Wide Fibonacci: each row is its own sequence a_{i+2} = a_i^2 + a_{i+1}^2, with one column for each number.

use stwo::core::fields::FieldExpOps;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval};

use crate::lookup::Elements;
use crate::random::Random;
use crate::statement::{Air, Statement, provable};
use crate::witness::{HostColumn, fill};
use crate::{Workload, check_size};

/// The default number of columns.
pub const COLUMNS: usize = 100;

/// 2^`log_rows` sequences of `columns` numbers, each with two first numbers that only the prover knows.
#[derive(Clone, Debug)]
pub struct WideFibonacci {
    log_rows: u32,
    columns: usize,
    seed: u64,
}

impl WideFibonacci {
    /// Sequences of [`COLUMNS`] numbers.
    pub fn new(log_rows: u32, seed: u64) -> Result<Self, crate::BadSize> {
        Self::with_columns(log_rows, COLUMNS, seed)
    }

    /// Sequences of `columns` numbers, at least 3.
    pub fn with_columns(log_rows: u32, columns: usize, seed: u64) -> Result<Self, crate::BadSize> {
        check_size(Workload::WideFibonacci, "log rows", log_rows)?;
        crate::check("columns", columns as u64, 3..=1 << 16)?;
        Ok(Self { log_rows, columns, seed })
    }

    fn evals(&self, _: &Elements) -> WideFibonacciEval {
        WideFibonacciEval { log_rows: self.log_rows, columns: self.columns }
    }
}

impl Statement for WideFibonacci {
    fn workload(&self) -> Workload {
        Workload::WideFibonacci
    }

    fn description(&self) -> String {
        format!("2^{} sequences of {} numbers, a'' = a^2 + a'^2", self.log_rows, self.columns)
    }

    fn log_sizes(&self) -> Vec<u32> {
        vec![self.log_rows]
    }

    fn publics(&self) -> Vec<u32> {
        vec![self.columns as u32]
    }

    fn trace(&self) -> Vec<HostColumn> {
        let random = Random::new(self.seed, 0);
        fill(self.log_rows, self.columns, |row, cells| {
            cells[0] = random.field(2 * row);
            cells[1] = random.field(2 * row + 1);
            for i in 2..cells.len() {
                cells[i] = cells[i - 2].square() + cells[i - 1].square();
            }
        })
    }

    fn airs(&self, elements: &Elements) -> Vec<Box<dyn Air>> {
        vec![Box::new(self.evals(elements))]
    }
}

provable!(WideFibonacci, [WideFibonacciEval], |sequences| vec![Box::new(sequences)]);

/// The AIR: a_{i+2} = a_i^2 + a_{i+1}^2 for each i.
#[derive(Clone, Debug)]
pub struct WideFibonacciEval {
    log_rows: u32,
    columns: usize,
}

impl FrameworkEval for WideFibonacciEval {
    fn log_size(&self) -> u32 {
        self.log_rows
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.log_rows + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
        let mut a = eval.next_trace_mask();
        let mut b = eval.next_trace_mask();
        for _ in 2..self.columns {
            let c = eval.next_trace_mask();
            eval.add_constraint(c.clone() - (a.square() + b.square()));
            (a, b) = (b, c);
        }
        eval
    }
}
