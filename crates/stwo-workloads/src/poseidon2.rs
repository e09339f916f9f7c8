//! A chain of Poseidon2 permutations of 16 elements, 8 per row.
//!
//! The permutation is the one of the Poseidon2 paper with x^5, 4 + 14 + 4 rounds, the external matrix from circ(2,
//! 3, 1, 1), and the internal one 1 + diag(-2, 2^0, 2^1, .., 2^8, 2^10, 2^12, 2^13, .., 2^16). Plonky3 has the
//! same matrices. The round constants are this project's own: the first words below P of SplitMix64's finalizer
//! over a counter, see [`Constants`].
//!
//! An S-box takes two columns, x^2 and x^5, so that no constraint has a degree above 3. The matrices are linear
//! and take no columns. An instance uses its input and yields its output. All of these cancel except the ends of
//! the chain, which are public.

use std::ops::{Add, AddAssign, Mul};
use std::sync::{LazyLock, OnceLock};

use num_traits::One;
use stwo::core::fields::FieldExpOps;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, RelationEntry};

use crate::lookup::{Elements, fraction, relations};
use crate::random::Random;
use crate::statement::{Air, Statement, provable};
use crate::witness::{HostColumn, field, fill};
use crate::{Workload, check_size};
use rigel_statements::stwo::LOG_PERMUTATIONS;

relations!(PermutationElements: 16);

/// The number of elements of a state.
pub const WIDTH: usize = 16;
/// The number of full rounds before the partial rounds, and again after them.
pub const HALF_FULL_ROUNDS: usize = 4;
/// Partial rounds.
pub const PARTIAL_ROUNDS: usize = 14;
/// The logarithm of the number of permutations per row.
pub const LOG_INSTANCES: u32 = LOG_PERMUTATIONS;
const INSTANCES: usize = 1 << LOG_INSTANCES;
/// The number of columns of an instance: its input, and two per S-box.
const COLUMNS: usize = WIDTH + 2 * (2 * HALF_FULL_ROUNDS * WIDTH + PARTIAL_ROUNDS);

/// A state of the permutation.
pub type State = [BaseField; WIDTH];

/// The round constants: element i of the list (first full rounds, partial rounds, last full rounds) is number i of
/// stream 0 of the seed "poseidon" in ASCII.
#[derive(Clone, Debug)]
pub struct Constants {
    /// The full rounds before the partial ones.
    pub first: [State; HALF_FULL_ROUNDS],
    /// The partial rounds.
    pub partial: [BaseField; PARTIAL_ROUNDS],
    /// The full rounds after the partial ones.
    pub last: [State; HALF_FULL_ROUNDS],
}

/// The constants of all permutations here.
pub static CONSTANTS: LazyLock<Constants> = LazyLock::new(|| {
    let random = Random::new(u64::from_be_bytes(*b"poseidon"), 0);
    let mut constants = (0..).map(|index| random.field(index));
    let mut next = || constants.next().expect("the stream is infinite");
    let first = std::array::from_fn(|_| std::array::from_fn(|_| next()));
    let partial = std::array::from_fn(|_| next());
    let last = std::array::from_fn(|_| std::array::from_fn(|_| next()));
    Constants { first, partial, last }
});

/// The diagonal that the internal matrix adds to the matrix of ones.
static DIAGONAL: LazyLock<State> = LazyLock::new(|| {
    let shifts = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 15, 16];
    std::array::from_fn(|i| if i == 0 { field(P - 2) } else { field(1 << shifts[i - 1]) })
});

/// The arithmetic that the matrices need: sums, and products with constants.
trait Linear: Clone + Add<Output = Self> + AddAssign + Mul<BaseField, Output = Self> {}
impl<F: Clone + Add<Output = F> + AddAssign + Mul<BaseField, Output = F>> Linear for F {}

/// The external matrix: circ(2, 3, 1, 1) on each block of four elements, then the sum over all blocks is added to
/// each block.
fn external<F: Linear>(state: &mut [F; WIDTH]) {
    for four in state.as_chunks_mut::<4>().0 {
        let x = four.clone();
        let sum = x[0].clone() + x[1].clone() + x[2].clone() + x[3].clone();
        for (i, y) in four.iter_mut().enumerate() {
            let next = x[(i + 1) % 4].clone();
            *y = sum.clone() + x[i].clone() + next.clone() + next;
        }
    }
    let sums: [F; 4] = std::array::from_fn(|i| {
        state[i].clone() + state[i + 4].clone() + state[i + 8].clone() + state[i + 12].clone()
    });
    for (i, x) in state.iter_mut().enumerate() {
        *x += sums[i % 4].clone();
    }
}

/// The internal matrix: the sum of all elements plus each element times its diagonal entry.
fn internal<F: Linear>(state: &mut [F; WIDTH]) {
    let sum = state[1..].iter().fold(state[0].clone(), |sum, x| sum + x.clone());
    for (x, &scale) in state.iter_mut().zip(&*DIAGONAL) {
        *x = sum.clone() + x.clone() * scale;
    }
}

/// The permutation. `sbox(x, constant)` returns (x + constant)^5 and may record intermediate values.
fn rounds<F: Linear>(state: &mut [F; WIDTH], mut sbox: impl FnMut(F, BaseField) -> F) {
    let full = |state: &mut [F; WIDTH], constants: &State, sbox: &mut dyn FnMut(F, BaseField) -> F| {
        for (x, &constant) in state.iter_mut().zip(constants) {
            *x = sbox(x.clone(), constant);
        }
        external(state);
    };
    let Constants { first, partial, last } = &*CONSTANTS;
    external(state);
    for constants in first {
        full(state, constants, &mut sbox);
    }
    for &constant in partial {
        state[0] = sbox(state[0].clone(), constant);
        internal(state);
    }
    for constants in last {
        full(state, constants, &mut sbox);
    }
}

/// The permutation of a state.
pub fn permute(mut state: State) -> State {
    rounds(&mut state, |x, constant| {
        let x = x + constant;
        x.square().square() * x
    });
    state
}

/// A chain of 2^`log_permutations` permutations from one public state to another.
#[derive(Clone, Debug)]
pub struct Poseidon2 {
    log_rows: u32,
    first: State,
    /// Takes a permutation after another to compute, which a verifier never does.
    last: OnceLock<State>,
}

impl Poseidon2 {
    /// A chain from a state derived from the seed.
    pub fn new(log_permutations: u32, seed: u64) -> Result<Self, crate::BadSize> {
        check_size(Workload::Poseidon2, "log permutations", log_permutations)?;
        let random = Random::new(seed, 0);
        let first = std::array::from_fn(|i| random.field(i));
        Ok(Self { log_rows: log_permutations - LOG_INSTANCES, first, last: OnceLock::new() })
    }

    /// Claims that the chain ends in another state.
    pub fn ending_in(self, last: State) -> Self {
        Self { last: last.into(), ..self }
    }

    /// The state that the chain ends in.
    pub fn last(&self) -> State {
        *self.last.get_or_init(|| (0..INSTANCES << self.log_rows).fold(self.first, |state, _| permute(state)))
    }

    fn evals(&self, elements: &Elements) -> Poseidon2Eval {
        Poseidon2Eval { log_rows: self.log_rows, elements: PermutationElements::from(elements.relation(0)) }
    }
}

impl Statement for Poseidon2 {
    fn workload(&self) -> Workload {
        Workload::Poseidon2
    }

    fn description(&self) -> String {
        format!("a chain of 2^{} Poseidon2 permutations, {INSTANCES} per row", self.log_rows + LOG_INSTANCES)
    }

    fn log_sizes(&self) -> Vec<u32> {
        vec![self.log_rows]
    }

    fn publics(&self) -> Vec<u32> {
        self.first.iter().chain(&self.last()).map(|value| value.0).collect()
    }

    fn claiming(&self, publics: &[u32]) -> Option<Box<dyn Statement>> {
        let last = std::array::from_fn(|i| BaseField::from(publics.get(WIDTH + i).copied().unwrap_or(0)));
        Some(Box::new(self.clone().ending_in(last)))
    }

    fn trace(&self) -> Vec<HostColumn> {
        // The chain is sequential; the cells of each permutation are then filled in parallel.
        let states = std::iter::successors(Some(self.first), |&state| Some(permute(state)));
        let inputs: Vec<State> = states.take(INSTANCES << self.log_rows).collect();
        self.last.get_or_init(|| permute(inputs[inputs.len() - 1]));
        fill(self.log_rows, INSTANCES * COLUMNS, |row, cells| {
            for (cells, &input) in cells.chunks_exact_mut(COLUMNS).zip(&inputs[row * INSTANCES..]) {
                let (start, boxes) = cells.split_at_mut(WIDTH);
                start.copy_from_slice(&input);
                let mut boxes = boxes.iter_mut();
                let mut write = |value| *boxes.next().expect("two columns per S-box") = value;
                rounds(&mut { input }, |x, constant| {
                    let x = x + constant;
                    let square = x.square();
                    let fifth = square.square() * x;
                    write(square);
                    write(fifth);
                    fifth
                });
            }
        })
    }

    fn relations(&self) -> usize {
        1
    }

    fn airs(&self, elements: &Elements) -> Vec<Box<dyn Air>> {
        vec![Box::new(self.evals(elements))]
    }

    fn public_sum(&self, elements: &Elements) -> SecureField {
        let states = elements.relation::<WIDTH>(0);
        fraction(&states, BaseField::one(), &self.last()) - fraction(&states, BaseField::one(), &self.first)
    }
}

provable!(Poseidon2, [Poseidon2Eval], |permutations| vec![Box::new(permutations)]);

/// The AIR: 8 permutations per row.
#[derive(Clone, Debug)]
pub struct Poseidon2Eval {
    log_rows: u32,
    elements: PermutationElements,
}

impl FrameworkEval for Poseidon2Eval {
    fn log_size(&self) -> u32 {
        self.log_rows
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.log_rows + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
        for _ in 0..INSTANCES {
            let input: [E::F; WIDTH] = std::array::from_fn(|_| eval.next_trace_mask());
            let mut state = input.clone();
            rounds(&mut state, |x, constant| {
                let x = x + E::F::from(constant);
                let square = eval.next_trace_mask();
                let fifth = eval.next_trace_mask();
                eval.add_constraint(square.clone() - x.square());
                eval.add_constraint(fifth.clone() - square.square() * x);
                fifth
            });
            eval.add_to_relation(RelationEntry::new(&self.elements, E::EF::one(), &input));
            eval.add_to_relation(RelationEntry::new(&self.elements, -E::EF::one(), &state));
        }
        eval.finalize_logup_in_pairs();
        eval
    }
}
