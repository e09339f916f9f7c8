//! Upstream's circuit as expressions for the device.
//!
//! The shim instantiates upstream's templates with a type that records what is done to it; here the record becomes
//! graphs: the constraints, and the accumulation columns. They are made once in a process.

use std::collections::{BTreeMap, HashSet};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rigel_codegen::{ExpressionGraph, Output, Value};
use rigel_kernels::field::{BabyBear, Field, Ring, RiscZero4};

use crate::error::{Error, Result};
use crate::shim::{self, RecordedConstraint, RecordedNode, RecordedTerm, Recording};

/// The matrices that the graphs read: data columns, accumulation columns, and the points of the domain.
const DATA: usize = 0;
const ACCUM: usize = 1;
const POINTS: usize = 2;

/// Upstream's circuit.
pub(crate) struct Circuit {
    record: Record,
    pub(crate) constraints: Program,
    pub(crate) accumulation: Accumulation,
}

/// A graph, and what is done with its values.
pub(crate) struct Program {
    pub(crate) graph: ExpressionGraph<RiscZero4>,
    pub(crate) outputs: Vec<Output>,
}

/// The recording of the circuit.
pub(crate) struct Record {
    pub(crate) nodes: Vec<RecordedNode>,
    pub(crate) constraints: Vec<RecordedConstraint>,
    pub(crate) terms: Vec<RecordedTerm>,
    pub(crate) data_columns: usize,
    pub(crate) accum_columns: usize,
    /// The accumulation columns that arguments fill; the others belong to the big-integer accumulator.
    pub(crate) argument_columns: usize,
    pub(crate) globals: usize,
    pub(crate) mixes: usize,
    /// The block type of big integers.
    pub(crate) big_integers: usize,
}

/// The accumulation columns that arguments fill, for rows without big integers.
///
/// A row's block type has a list of terms; two of them at a time make one element of the row, n0 / d0 + n1 / d1. All
/// types are computed for all rows, and one is selected: of the type's selectors exactly one is 1.
pub(crate) struct Accumulation {
    /// Element k as a fraction: the numerator in the columns from 4 k on of output 0, the denominator in those of
    /// output 1.
    pub(crate) fractions: Program,
    /// The elements, from numerators (input 0) and inverse denominators (input 1), in all columns but the first
    /// four of output 0, with the columns of an unused big-integer accumulator; their sum, whose running sum the
    /// first four columns are, is output 1.
    pub(crate) elements: Program,
    /// The number of elements of a row.
    pub(crate) count: usize,
}

/// The operations of recorded nodes, in the order of the shim's enumeration.
pub(crate) mod operation {
    pub(crate) const CONSTANT: u32 = 0;
    pub(crate) const DATA: u32 = 1;
    pub(crate) const ACCUM: u32 = 2;
    pub(crate) const ACCUM_BEFORE: u32 = 3;
    pub(crate) const GLOBAL: u32 = 4;
    pub(crate) const MIX: u32 = 5;
    pub(crate) const POINT: u32 = 6;
    pub(crate) const ADD: u32 = 7;
    pub(crate) const SUB: u32 = 8;
    pub(crate) const MUL: u32 = 9;
    pub(crate) const NEG: u32 = 10;
    pub(crate) const ELEMENT: u32 = 11;
}

impl Circuit {
    /// The circuit, which the first call records.
    pub(crate) fn get() -> Result<Arc<Self>> {
        static CIRCUIT: OnceLock<Arc<Circuit>> = OnceLock::new();
        static RECORDING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = RECORDING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(circuit) = CIRCUIT.get() {
            return Ok(circuit.clone());
        }
        let record = Record::make()?;
        let constraints = record.constraints()?;
        let accumulation = Accumulation::new(&record)?;
        Ok(CIRCUIT.get_or_init(|| Arc::new(Self { record, constraints, accumulation })).clone())
    }

    /// The recording from which the programs are made.
    pub(crate) fn record(&self) -> &Record {
        &self.record
    }
}

impl Record {
    /// Records the circuit. The shim's recording is not for several threads at once.
    fn make() -> Result<Self> {
        let mut recording = MaybeUninit::<Recording>::uninit();
        // SAFETY: the shim fills the struct unless it returns an error, which is a string.
        let recording = unsafe {
            let failure = shim::rigel_risc0_record(recording.as_mut_ptr());
            if !failure.is_null() {
                return Err(Error::Circuit(CStr::from_ptr(failure).to_string_lossy().into_owned()));
            }
            recording.assume_init()
        };
        // SAFETY: the arrays are the shim's until the next recording, and have these lengths.
        let (nodes, constraints, terms) = unsafe {
            (
                std::slice::from_raw_parts(recording.nodes, recording.node_count).to_vec(),
                std::slice::from_raw_parts(recording.constraints, recording.constraint_count).to_vec(),
                std::slice::from_raw_parts(recording.terms, recording.term_count).to_vec(),
            )
        };
        let Recording { data_columns, accum_columns, argument_columns, globals, mixes, big_integers, .. } =
            recording;
        Ok(Self {
            nodes,
            constraints,
            terms,
            data_columns,
            accum_columns,
            argument_columns,
            globals,
            mixes,
            big_integers,
        })
    }

    /// The nodes that some values depend on, themselves among them.
    fn needed(&self, roots: impl Iterator<Item = u32>) -> Result<HashSet<u32>> {
        let mut needed = HashSet::new();
        let mut open: Vec<u32> = roots.collect();
        while let Some(id) = open.pop() {
            if !needed.insert(id) {
                continue;
            }
            let node = self.nodes.get(id as usize).ok_or_else(|| unknown(id))?;
            let operands = match node.operation {
                operation::ADD | operation::SUB | operation::MUL => &node.operands[..2],
                operation::NEG => &node.operands[..1],
                operation::ELEMENT => &node.operands[..],
                _ => &[],
            };
            open.extend(operands);
        }
        Ok(needed)
    }

    /// Adds values, and what they depend on, to a graph. The result has the value of each node that was needed.
    pub(crate) fn add_to(
        &self,
        graph: &mut ExpressionGraph<RiscZero4>,
        roots: impl Iterator<Item = u32>,
    ) -> Result<Vec<Option<Value>>> {
        let needed = self.needed(roots)?;
        let mut values: Vec<Option<Value>> = vec![None; self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate().filter(|(id, _)| needed.contains(&(*id as u32))) {
            let [a, b, ..] = node.operands;
            let value = |id: u32| values.get(id as usize).copied().flatten().ok_or_else(|| unknown(id));
            let new = match node.operation {
                operation::CONSTANT => graph.constant(BabyBear::from_u64(a.into())),
                operation::DATA => graph.column(DATA, a as usize, 0),
                operation::ACCUM => graph.column(ACCUM, a as usize, 0),
                operation::ACCUM_BEFORE => graph.column(ACCUM, a as usize, -1),
                operation::GLOBAL => graph.parameter(a as usize),
                operation::MIX => graph.extension_parameter(a as usize),
                operation::POINT => graph.column(POINTS, 0, 0),
                operation::ADD => graph.add(value(a)?, value(b)?),
                operation::SUB => graph.sub(value(a)?, value(b)?),
                operation::MUL => graph.mul(value(a)?, value(b)?),
                operation::NEG => graph.neg(value(a)?),
                operation::ELEMENT => match self.adjacent(node.operands) {
                    Some((column, offset)) => graph.extension_column(ACCUM, column, offset),
                    None => {
                        let mut sum = value(a)?;
                        for (power, &id) in node.operands.iter().enumerate().skip(1) {
                            let mut unit = [BabyBear::ZERO; 4];
                            unit[power] = BabyBear::ONE;
                            let unit = graph.extension_constant(RiscZero4(unit));
                            let term = graph.mul(value(id)?, unit);
                            sum = graph.add(sum, term);
                        }
                        sum
                    }
                },
                other => return Err(Error::Circuit(format!("operation {other} is unknown"))),
            };
            values[id] = Some(new);
        }
        Ok(values)
    }

    /// The constraints, each times its condition, in the order of their weights.
    fn constraints(&self) -> Result<Program> {
        let mut graph = ExpressionGraph::new();
        let roots = self.constraints.iter().flat_map(|constraint| [constraint.value, constraint.condition]);
        let values = self.add_to(&mut graph, roots)?;
        let mut outputs = Vec::with_capacity(self.constraints.len());
        for (weight, constraint) in self.constraints.iter().enumerate() {
            let value = |id: u32| values[id as usize].ok_or_else(|| unknown(id));
            let (value, condition) = (value(constraint.value)?, value(constraint.condition)?);
            outputs.push(Output::Fold { value: graph.mul(value, condition), weight });
        }
        Ok(Program { graph, outputs })
    }

    /// The first column and the offset, if four nodes are neighbouring accumulation columns.
    fn adjacent(&self, ids: [u32; 4]) -> Option<(usize, i32)> {
        let nodes = ids.map(|id| self.nodes[id as usize]);
        let offset = match nodes[0].operation {
            operation::ACCUM => 0,
            operation::ACCUM_BEFORE => -1,
            _ => return None,
        };
        let first = nodes[0].operands[0];
        let is_next = |(i, node): (usize, &RecordedNode)| {
            node.operation == nodes[0].operation && node.operands[0] == first + i as u32
        };
        nodes.iter().enumerate().all(is_next).then_some((first as usize, offset))
    }
}

impl Accumulation {
    fn new(record: &Record) -> Result<Self> {
        let mut graph = ExpressionGraph::new();
        let roots = record.terms.iter().flat_map(|term| [term.selector, term.numerator, term.denominator]);
        let values = record.add_to(&mut graph, roots)?;
        let value = |id: u32| values[id as usize].ok_or_else(|| unknown(id));

        let mut blocks: BTreeMap<u32, Vec<&RecordedTerm>> = BTreeMap::new();
        for term in &record.terms {
            blocks.entry(term.block).or_default().push(term);
        }
        let count = blocks.values().map(|terms| terms.len().div_ceil(2)).max().unwrap_or(0);
        if 4 * (count + 1) != record.argument_columns {
            let columns = record.argument_columns;
            return Err(Error::Circuit(format!("{count} elements of a row in {columns} columns")));
        }
        let mut outputs = Vec::new();
        for k in 0..count {
            let (zero, one) = (graph.constant(BabyBear::ZERO), graph.constant(BabyBear::ONE));
            // Where no block type with this element is selected, it is 0 / 1.
            let (mut numerator, mut denominator, mut unselected) = (zero, zero, one);
            for terms in blocks.values().filter(|terms| terms.len() > 2 * k) {
                let selector = value(terms[2 * k].selector)?;
                let (mut top, mut bottom) = (value(terms[2 * k].numerator)?, value(terms[2 * k].denominator)?);
                if let Some(second) = terms.get(2 * k + 1) {
                    let (n1, d1) = (value(second.numerator)?, value(second.denominator)?);
                    let (left, right) = (graph.mul(top, d1), graph.mul(n1, bottom));
                    top = graph.add(left, right);
                    bottom = graph.mul(bottom, d1);
                }
                let (top, bottom) = (graph.mul(top, selector), graph.mul(bottom, selector));
                numerator = graph.add(numerator, top);
                denominator = graph.add(denominator, bottom);
                unselected = graph.sub(unselected, selector);
            }
            let denominator = graph.add(denominator, unselected);
            outputs.push(Output::StoreExtension { value: numerator, output: 0, column: 4 * k });
            outputs.push(Output::StoreExtension { value: denominator, output: 1, column: 4 * k });
        }
        let elements = Self::elements(record, count);
        Ok(Self { fractions: Program { graph, outputs }, elements, count })
    }

    fn elements(record: &Record, count: usize) -> Program {
        let mut graph = ExpressionGraph::new();
        let (zero, one) = (graph.constant(BabyBear::ZERO), graph.constant(BabyBear::ONE));
        let mut outputs = Vec::new();
        let mut sum = zero;
        for k in 0..count {
            let (numerator, inverse) = (graph.extension_column(0, 4 * k, 0), graph.extension_column(1, 4 * k, 0));
            let value = graph.mul(numerator, inverse);
            sum = graph.add(sum, value);
            outputs.push(Output::StoreExtension { value, output: 0, column: 4 * (k + 1) });
        }
        outputs.push(Output::StoreExtension { value: sum, output: 1, column: 0 });
        // The big-integer accumulator of a row without big integers: the operation is the first of a one-hot list, then
        // come the elements local, poly and total, which are 0, and term, which is 1 and the last but one.
        let ones = [record.argument_columns, record.accum_columns - 8];
        for column in record.argument_columns..record.accum_columns {
            let value = if ones.contains(&column) { one } else { zero };
            outputs.push(Output::Store { value, output: 0, column });
        }
        Program { graph, outputs }
    }
}

fn unknown(id: u32) -> Error {
    Error::Circuit(format!("value {id} is used before it is known"))
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    unsafe extern "C" {
        fn rigel_risc0_constraints_at(
            values: *const [u32; 4],
            globals: *const u32,
            accum_mix: *const [u32; 4],
            mix: *const [u32; 4],
            z: *const [u32; 4],
            out: *mut [u32; 4],
        );
    }

    fn words(x: &RiscZero4) -> [u32; 4] {
        x.0.map(Field::word)
    }

    /// The recorded constraints, evaluated at random values of columns, equal upstream's own evaluation.
    #[test]
    fn constraints_equal_upstream_at_random_points() {
        let circuit = Circuit::get().unwrap();
        let record = circuit.record();
        for seed in 0..3 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut base = || BabyBear::from_u64(rng.random());
            let mut many = |count: usize| -> Vec<RiscZero4> {
                (0..count).map(|_| RiscZero4(std::array::from_fn(|_| base()))).collect()
            };
            let (data, accum) = (many(record.data_columns), many(record.accum_columns));
            let (before, mixes) = (many(record.accum_columns), many(record.mixes));
            let [mix, z] = many(2)[..] else { unreachable!() };
            let globals: Vec<BabyBear> = (0..record.globals).map(|_| base()).collect();

            let mut values: Vec<RiscZero4> = Vec::new();
            for node in &record.nodes {
                let [a, b, ..] = node.operands;
                let value = |id: u32| values[id as usize];
                values.push(match node.operation {
                    operation::CONSTANT => BabyBear::from_u64(a.into()).into(),
                    operation::DATA => data[a as usize],
                    operation::ACCUM => accum[a as usize],
                    operation::ACCUM_BEFORE => before[a as usize],
                    operation::GLOBAL => globals[a as usize].into(),
                    operation::MIX => mixes[a as usize],
                    operation::POINT => z * BabyBear::from_u64(3),
                    operation::ADD => value(a) + value(b),
                    operation::SUB => value(a) - value(b),
                    operation::MUL => value(a) * value(b),
                    operation::NEG => -value(a),
                    operation::ELEMENT => {
                        let x = RiscZero4([BabyBear::ZERO, BabyBear::ONE, BabyBear::ZERO, BabyBear::ZERO]);
                        node.operands.iter().rev().fold(RiscZero4::ZERO, |sum, &id| sum * x + value(id))
                    }
                    other => panic!("operation {other}"),
                });
            }
            let (mut sum, mut weight) = (RiscZero4::ZERO, RiscZero4::ONE);
            for constraint in &record.constraints {
                sum += weight * values[constraint.value as usize] * values[constraint.condition as usize];
                weight *= mix;
            }

            // Upstream has the value one row before only of the columns that are read there.
            let mut openings: Vec<[u32; 4]> = data.iter().map(words).collect();
            for (i, (here, before)) in accum.iter().zip(&before).enumerate() {
                openings.push(words(here));
                if i < 4 || i >= record.argument_columns {
                    openings.push(words(before));
                }
            }
            let globals: Vec<u32> = globals.into_iter().map(Field::word).collect();
            let mixes: Vec<[u32; 4]> = mixes.iter().map(words).collect();
            let (mix, z, mut theirs) = (words(&mix), words(&z), [0; 4]);
            // SAFETY: the arrays have the lengths of the circuit.
            unsafe {
                rigel_risc0_constraints_at(
                    openings.as_ptr(),
                    globals.as_ptr(),
                    mixes.as_ptr(),
                    &mix,
                    &z,
                    &mut theirs,
                );
            }
            assert_eq!(words(&sum), theirs);
        }
        assert_eq!(record.constraints.len(), circuit.constraints.outputs.len());
    }
}
