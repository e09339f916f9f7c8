//! A machine whose state is a point (x, y): one component steps along x, another one of half the height along y.
//!
//! A row uses its state and yields the next one. All states in between cancel, including the private state where
//! the second component continues from the first. The first and the last state remain, and are public.

use num_traits::One;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, RelationEntry};

use crate::lookup::{Elements, fraction, relations};
use crate::random::Random;
use crate::statement::{Air, Statement, provable};
use crate::witness::{HostColumn, field, fill};
use crate::{Workload, check_size};

relations!(StateElements: 2);

/// A state (x, y).
pub type State = [BaseField; 2];

/// A run of 2^`log_steps` steps along x, then half as many along y, from one public state to another.
#[derive(Clone, Debug)]
pub struct StateMachine {
    log_steps: u32,
    first: State,
    last: State,
}

impl StateMachine {
    /// A run from a state derived from the seed.
    pub fn new(log_steps: u32, seed: u64) -> Result<Self, crate::BadSize> {
        check_size(Workload::StateMachine, "log steps", log_steps)?;
        let random = Random::new(seed, 0);
        let first = [random.field(0), random.field(1)];
        let last = [first[0] + field(1 << log_steps), first[1] + field(1 << (log_steps - 1))];
        Ok(Self { log_steps, first, last })
    }

    /// Claims that the run ends in another state.
    pub fn ending_in(self, last: State) -> Self {
        Self { last, ..self }
    }

    /// The state that the run ends in.
    pub fn last(&self) -> State {
        self.last
    }

    fn evals(&self, elements: &Elements) -> [StepEval; 2] {
        let elements = StateElements::from(elements.relation(0));
        let sizes = [self.log_steps, self.log_steps - 1];
        std::array::from_fn(|axis| StepEval { log_rows: sizes[axis], axis, elements: elements.clone() })
    }
}

impl Statement for StateMachine {
    fn workload(&self) -> Workload {
        Workload::StateMachine
    }

    fn description(&self) -> String {
        format!("2^{} steps along x, then 2^{} along y", self.log_steps, self.log_steps - 1)
    }

    fn log_sizes(&self) -> Vec<u32> {
        vec![self.log_steps, self.log_steps - 1]
    }

    fn publics(&self) -> Vec<u32> {
        self.first.iter().chain(&self.last).map(|value| value.0).collect()
    }

    fn trace(&self) -> Vec<HostColumn> {
        let [x, y] = self.first;
        let turn = x + field(1 << self.log_steps);
        let mut columns = fill(self.log_steps, 2, |row, cells| cells.copy_from_slice(&[x + field(row as u32), y]));
        columns.extend(fill(self.log_steps - 1, 2, |row, cells| {
            cells.copy_from_slice(&[turn, y + field(row as u32)]);
        }));
        columns
    }

    fn relations(&self) -> usize {
        1
    }

    fn airs(&self, elements: &Elements) -> Vec<Box<dyn Air>> {
        let [along_x, along_y] = self.evals(elements);
        vec![Box::new(along_x), Box::new(along_y)]
    }

    fn public_sum(&self, elements: &Elements) -> SecureField {
        let states = elements.relation::<2>(0);
        fraction(&states, BaseField::one(), &self.last) - fraction(&states, BaseField::one(), &self.first)
    }
}

provable!(StateMachine, [StepEval], |[along_x, along_y]| vec![Box::new(along_x), Box::new(along_y)]);

/// The AIR of steps along one axis: a row uses (x, y) and yields the state one step on.
#[derive(Clone, Debug)]
pub struct StepEval {
    log_rows: u32,
    axis: usize,
    elements: StateElements,
}

impl FrameworkEval for StepEval {
    fn log_size(&self) -> u32 {
        self.log_rows
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.log_rows + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
        let state = [eval.next_trace_mask(), eval.next_trace_mask()];
        let mut next = state.clone();
        next[self.axis] += BaseField::one();
        eval.add_to_relation(RelationEntry::new(&self.elements, E::EF::one(), &state));
        eval.add_to_relation(RelationEntry::new(&self.elements, -E::EF::one(), &next));
        eval.finalize_logup_in_pairs();
        eval
    }
}
