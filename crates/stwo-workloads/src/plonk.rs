//! A circuit of additions and multiplications, fixed in preprocessed columns.
//!
//! Gate i has wires a_i, b_i, c_i and a selector op_i. It constrains the values on the wires by
//!
//!   c = op (a + b) + (1 - op) a b
//!
//! Equal wires carry equal values: each gate uses (a_i, value) and (b_i, value), and yields (c_i, value) as often
//! as the wire c_i is used. Only one gate yields a wire, or it is one of the two inputs, so it has one value.
//! Inputs and output are public.

use num_traits::One;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, RelationEntry};

use crate::lookup::{Elements, fraction, relations};
use crate::random::Random;
use crate::statement::{Air, Statement, provable};
use crate::witness::{HostColumn, field, fill};
use crate::{Workload, check_size};
use rigel_statements::stwo::CIRCUIT_COLUMNS;

relations!(WireElements: 2);

/// The names of the preprocessed columns.
pub(crate) const CIRCUIT: [&str; CIRCUIT_COLUMNS] = ["plonk_a_wire", "plonk_b_wire", "plonk_c_wire", "plonk_op"];

/// The number of inputs: the first wires, which no gate yields.
const INPUTS: usize = 2;

/// A gate. Its output is wire [`INPUTS`] + its own number.
#[derive(Clone, Copy, Debug)]
struct Gate {
    a: u32,
    b: u32,
    /// Whether the gate is an addition; otherwise it is a multiplication.
    add: bool,
}

/// A circuit of 2^`log_gates` gates maps two public inputs to one public output.
#[derive(Clone, Debug)]
pub struct Plonk {
    log_gates: u32,
    gates: Vec<Gate>,
    /// The number of uses of each wire, including the public use of the output.
    uses: Vec<u32>,
    inputs: [BaseField; INPUTS],
    output: BaseField,
}

impl Plonk {
    /// A circuit and inputs derived from the seed. Each gate takes the wire before its own and any earlier one.
    pub fn new(log_gates: u32, seed: u64) -> Result<Self, crate::BadSize> {
        check_size(Workload::Plonk, "log gates", log_gates)?;
        let [random, values] = [0, 1].map(|stream| Random::new(seed, stream));
        let gates: Vec<Gate> = (0..1usize << log_gates)
            .map(|i| {
                let wires = (i + INPUTS) as u64;
                let any = (u64::from(random.word(2 * i)) * wires) >> 32;
                Gate { a: wires as u32 - 1, b: any as u32, add: random.word(2 * i + 1) & 1 == 0 }
            })
            .collect();
        let mut uses = vec![0; gates.len() + INPUTS];
        for gate in &gates {
            uses[gate.a as usize] += 1;
            uses[gate.b as usize] += 1;
        }
        *uses.last_mut().expect("inputs are wires") += 1;
        let inputs = std::array::from_fn(|i| values.field(i));
        let mut circuit = Self { log_gates, gates, uses, inputs, output: field(0) };
        circuit.output = *circuit.values().last().expect("inputs are wires");
        Ok(circuit)
    }

    /// Claims that the circuit gives another output on these inputs.
    pub fn giving(self, output: BaseField) -> Self {
        Self { output, ..self }
    }

    /// The output.
    pub fn output(&self) -> BaseField {
        self.output
    }

    /// The value on each wire.
    fn values(&self) -> Vec<BaseField> {
        let mut values = self.inputs.to_vec();
        for gate in &self.gates {
            let [a, b] = [gate.a, gate.b].map(|wire| values[wire as usize]);
            values.push(if gate.add { a + b } else { a * b });
        }
        values
    }

    fn evals(&self, elements: &Elements) -> PlonkEval {
        PlonkEval { log_rows: self.log_gates, elements: WireElements::from(elements.relation(0)) }
    }
}

impl Statement for Plonk {
    fn workload(&self) -> Workload {
        Workload::Plonk
    }

    fn description(&self) -> String {
        format!("a circuit of 2^{} additions and multiplications", self.log_gates)
    }

    fn log_sizes(&self) -> Vec<u32> {
        vec![self.log_gates]
    }

    fn publics(&self) -> Vec<u32> {
        self.inputs.iter().chain([&self.output]).map(|value| value.0).collect()
    }

    fn preprocessed_ids(&self) -> Vec<PreProcessedColumnId> {
        CIRCUIT.map(circuit_id).to_vec()
    }

    fn preprocessed(&self) -> Vec<HostColumn> {
        fill(self.log_gates, CIRCUIT.len(), |row, cells| {
            let Gate { a, b, add } = self.gates[row];
            cells.copy_from_slice(&[a, b, (row + INPUTS) as u32, u32::from(add)].map(field));
        })
    }

    fn trace(&self) -> Vec<HostColumn> {
        let values = self.values();
        fill(self.log_gates, 4, |row, cells| {
            let Gate { a, b, .. } = self.gates[row];
            let c = row + INPUTS;
            cells.copy_from_slice(&[field(self.uses[c]), values[a as usize], values[b as usize], values[c]]);
        })
    }

    fn relations(&self) -> usize {
        1
    }

    fn airs(&self, elements: &Elements) -> Vec<Box<dyn Air>> {
        vec![Box::new(self.evals(elements))]
    }

    fn public_sum(&self, elements: &Elements) -> SecureField {
        let wires = elements.relation::<2>(0);
        let entry =
            |wire: usize, multiplicity, value| fraction(&wires, multiplicity, &[field(wire as u32), value]);
        let output = entry(self.gates.len() + INPUTS - 1, BaseField::one(), self.output);
        let inputs = self.inputs.iter().enumerate();
        inputs.fold(output, |sum, (wire, &value)| sum - entry(wire, field(self.uses[wire]), value))
    }
}

provable!(Plonk, [PlonkEval], |gates| vec![Box::new(gates)]);

/// The name of a column of the circuit.
fn circuit_id(name: &str) -> PreProcessedColumnId {
    PreProcessedColumnId { id: name.to_string() }
}

/// The AIR: one gate per row.
#[derive(Clone, Debug)]
pub struct PlonkEval {
    log_rows: u32,
    elements: WireElements,
}

impl FrameworkEval for PlonkEval {
    fn log_size(&self) -> u32 {
        self.log_rows
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.log_rows + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
        let [a_wire, b_wire, c_wire, op] = CIRCUIT.map(|name| eval.get_preprocessed_column(circuit_id(name)));
        let [uses, a, b, c] = std::array::from_fn(|_| eval.next_trace_mask());

        let product = a.clone() * b.clone();
        eval.add_constraint(c.clone() - product.clone() - op * (a.clone() + b.clone() - product));

        let one = E::EF::one();
        eval.add_to_relation(RelationEntry::new(&self.elements, one.clone(), &[a_wire, a]));
        eval.add_to_relation(RelationEntry::new(&self.elements, one, &[b_wire, b]));
        eval.add_to_relation(RelationEntry::new(&self.elements, -E::EF::from(uses), &[c_wire, c]));
        eval.finalize_logup_in_pairs();
        eval
    }
}
