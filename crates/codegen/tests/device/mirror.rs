//! Expressions that exist twice: in a graph, and as a plain list that the host evaluates row by row.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rigel_codegen::{
    Bindings, CompiledGraph, ExpressionGraph, FieldKind, Folded, Input, Instructions, InterpretedGraph, Output,
    RowMap, Rows, Split, Target, Value,
};
use rigel_gpu::Stream;
use rigel_kernels::field::{Element, Field, Ring};
use stwo::core::utils::{
    bit_reverse_index, circle_domain_index_to_coset_index, coset_index_to_circle_domain_index,
    offset_bit_reversed_circle_domain_index,
};

/// An expression as it was asked for, without any simplification.
#[derive(Clone, Copy)]
enum Op<E> {
    Constant(E),
    Column { input: usize, column: usize, offset: i32, columns: usize },
    Parameter(usize),
    ExtensionParameter(usize),
    Add(usize, usize),
    Sub(usize, usize),
    Mul(usize, usize),
    Neg(usize),
}

/// A graph and what it should compute.
pub(crate) struct Mirror<E: Element> {
    pub(crate) graph: ExpressionGraph<E>,
    ops: Vec<Op<E>>,
    values: Vec<Value>,
    pub(crate) outputs: Vec<Output>,
    /// The expression of each output.
    sources: Vec<usize>,
}

impl<E: Element> Mirror<E> {
    pub(crate) fn new() -> Self {
        Self {
            graph: ExpressionGraph::new(),
            ops: Vec::new(),
            values: Vec::new(),
            outputs: Vec::new(),
            sources: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    fn push(&mut self, op: Op<E>, value: Value) -> usize {
        self.ops.push(op);
        self.values.push(value);
        self.ops.len() - 1
    }

    pub(crate) fn constant(&mut self, c: E::Base) -> usize {
        let value = self.graph.constant(c);
        self.push(Op::Constant(embed(c)), value)
    }

    pub(crate) fn extension_constant(&mut self, c: E) -> usize {
        let value = self.graph.extension_constant(c);
        self.push(Op::Constant(c), value)
    }

    pub(crate) fn column(&mut self, input: usize, column: usize, offset: i32) -> usize {
        let value = self.graph.column(input, column, offset);
        self.push(Op::Column { input, column, offset, columns: 1 }, value)
    }

    pub(crate) fn extension_column(&mut self, input: usize, column: usize, offset: i32) -> usize {
        let value = self.graph.extension_column(input, column, offset);
        self.push(Op::Column { input, column, offset, columns: E::DEGREE }, value)
    }

    pub(crate) fn parameter(&mut self, index: usize) -> usize {
        let value = self.graph.parameter(index);
        self.push(Op::Parameter(index), value)
    }

    pub(crate) fn extension_parameter(&mut self, index: usize) -> usize {
        let value = self.graph.extension_parameter(index);
        self.push(Op::ExtensionParameter(index), value)
    }

    pub(crate) fn add(&mut self, a: usize, b: usize) -> usize {
        let value = self.graph.add(self.values[a], self.values[b]);
        self.push(Op::Add(a, b), value)
    }

    pub(crate) fn sub(&mut self, a: usize, b: usize) -> usize {
        let value = self.graph.sub(self.values[a], self.values[b]);
        self.push(Op::Sub(a, b), value)
    }

    pub(crate) fn mul(&mut self, a: usize, b: usize) -> usize {
        let value = self.graph.mul(self.values[a], self.values[b]);
        self.push(Op::Mul(a, b), value)
    }

    pub(crate) fn neg(&mut self, a: usize) -> usize {
        let value = self.graph.neg(self.values[a]);
        self.push(Op::Neg(a), value)
    }

    pub(crate) fn is_base(&self, expression: usize) -> bool {
        self.graph.kind(self.values[expression]) == FieldKind::Base
    }

    pub(crate) fn fold(&mut self, expression: usize, weight: usize) {
        self.outputs.push(Output::Fold { value: self.values[expression], weight });
        self.sources.push(expression);
    }

    pub(crate) fn store(&mut self, expression: usize, output: usize, column: usize) {
        self.outputs.push(Output::Store { value: self.values[expression], output, column });
        self.sources.push(expression);
    }

    pub(crate) fn store_extension(&mut self, expression: usize, output: usize, column: usize) {
        self.outputs.push(Output::StoreExtension { value: self.values[expression], output, column });
        self.sources.push(expression);
    }

    /// All expressions at a storage row.
    fn evaluate(&self, data: &Data<E>, row: usize) -> Vec<E> {
        let mut values: Vec<E> = Vec::with_capacity(self.ops.len());
        for op in &self.ops {
            let value = match *op {
                Op::Constant(c) => c,
                Op::Column { input, column, offset, columns } => {
                    let mut parts = vec![E::Base::ZERO; E::DEGREE];
                    for (d, part) in parts.iter_mut().enumerate().take(columns) {
                        *part = data.inputs[input].at(data.rows, row, column + d, offset);
                    }
                    E::from_parts(&parts).unwrap()
                }
                Op::Parameter(i) => embed(data.parameters[i]),
                Op::ExtensionParameter(i) => data.extension_parameters[i],
                Op::Add(a, b) => values[a] + values[b],
                Op::Sub(a, b) => values[a] - values[b],
                Op::Mul(a, b) => values[a] * values[b],
                Op::Neg(a) => -values[a],
            };
            values.push(value);
        }
        values
    }
}

/// A matrix on the host.
pub(crate) struct Table<F> {
    values: Vec<F>,
    stride: usize,
    map: RowMap,
}

impl<F: Field> Table<F> {
    pub(crate) fn random(rng: &mut SmallRng, stride: usize, columns: usize) -> Self {
        Self { values: random(rng, stride * columns), stride, map: RowMap::Same }
    }

    pub(crate) fn repeating(rng: &mut SmallRng, log_period: u32, columns: usize) -> Self {
        let map = RowMap::Repeating { log_period };
        Self { values: random(rng, columns << log_period), stride: 1 << log_period, map }
    }

    fn at(&self, rows: Rows, row: usize, column: usize, offset: i32) -> F {
        if let Rows::Circle { log_rows, log_trace } = rows {
            return self.values[column * self.stride + circle_row(row, log_rows, log_trace, offset)];
        }
        let n = rows.count() as i64;
        let reversed = |row: usize, bits: u32| match rows {
            Rows::BitReversed { .. } if bits > 0 => row.reverse_bits() >> (usize::BITS - bits),
            _ => row,
        };
        let (bits, step) = match rows {
            Rows::Natural { .. } => (0, 1),
            Rows::BitReversed { log_rows, log_step } => (log_rows, 1 << log_step),
            Rows::Circle { .. } => unreachable!("a circle domain has rows of its own"),
        };
        let natural = (reversed(row, bits) as i64 + i64::from(offset) * step).rem_euclid(n) as usize;
        let row = match self.map {
            RowMap::Same => reversed(natural, bits),
            RowMap::Repeating { log_period } => reversed(natural % (1 << log_period), log_period),
        };
        self.values[column * self.stride + row]
    }
}

/// The row of a circle domain at an offset on the trace, as Stwo finds it.
fn circle_row(row: usize, log_rows: u32, log_trace: u32, offset: i32) -> usize {
    if log_rows > log_trace {
        return offset_bit_reversed_circle_domain_index(row, log_trace, log_rows, offset as isize);
    }
    let place = circle_domain_index_to_coset_index(bit_reverse_index(row, log_rows), log_rows);
    let place = (place as i64 + i64::from(offset)).rem_euclid(1 << log_rows) as usize;
    bit_reverse_index(coset_index_to_circle_domain_index(place, log_rows), log_rows)
}

/// The data that a program is run on.
pub(crate) struct Data<E: Element> {
    pub(crate) rows: Rows,
    pub(crate) inputs: Vec<Table<E::Base>>,
    pub(crate) parameters: Vec<E::Base>,
    pub(crate) extension_parameters: Vec<E>,
    pub(crate) weights: Vec<E>,
    pub(crate) log_block: u32,
    pub(crate) log_scale: u32,
    pub(crate) output_columns: Vec<usize>,
}

impl<E: Element> Data<E> {
    /// Compiles and runs the program, and compares all that it writes with the host.
    pub(crate) fn check(&self, stream: &Stream, mirror: &Mirror<E>, name: &str, split: Split) -> CompiledGraph<E> {
        let program =
            CompiledGraph::compile(stream.device(), name, &mirror.graph, &mirror.outputs, split).unwrap();
        self.check_run(stream, mirror, &program);
        program
    }

    /// Runs a program that is compiled, and its interpretation, and compares all that they write with the host.
    pub(crate) fn check_run(&self, stream: &Stream, mirror: &Mirror<E>, program: &CompiledGraph<E>) {
        self.compare(stream, mirror, |bindings| program.run(stream, self.rows, bindings).unwrap());
        let instructions = Instructions::new(&mirror.graph, &mirror.outputs).unwrap();
        let interpreted = InterpretedGraph::new(stream, &instructions).unwrap();
        self.compare(stream, mirror, |bindings| interpreted.run(stream, self.rows, bindings).unwrap());
    }

    /// Compares all that a run writes with the host.
    fn compare(&self, stream: &Stream, mirror: &Mirror<E>, run: impl FnOnce(&mut Bindings<'_, E>)) {
        let rows = self.rows.count();
        let blocks = rows.div_ceil(1 << self.log_block);
        let scale: Vec<E::Base> = random(&mut rng(9), rows.div_ceil(1 << self.log_scale));
        let mut folded = stream.upload(&vec![E::Base::ONE; (blocks * E::DEGREE) << self.log_block]).unwrap();
        let inputs: Vec<_> = self.inputs.iter().map(|table| stream.upload(&table.values).unwrap()).collect();
        let mut outputs: Vec<_> =
            self.output_columns.iter().map(|&n| stream.zeros::<E::Base>(n * rows).unwrap()).collect();
        let parameters = stream.upload(&self.parameters).unwrap();
        let extension_parameters = stream.upload(&self.extension_parameters).unwrap();
        let weights = stream.upload(&self.weights).unwrap();
        let scale_there = stream.upload(&scale).unwrap();

        let mut bindings = Bindings::new()
            .parameters(&parameters)
            .extension_parameters(&extension_parameters)
            .weights(&weights)
            .folded(Folded {
                values: folded.view_mut(),
                scale: scale_there.view(),
                log_scale: self.log_scale,
                log_block: self.log_block,
                accumulate: false,
            });
        for (values, table) in inputs.iter().zip(&self.inputs) {
            bindings = bindings.input(Input { values: values.view(), stride: table.stride, map: table.map });
        }
        for output in &mut outputs {
            bindings = bindings.output(Target { values: output.view_mut(), stride: rows });
        }
        run(&mut bindings);

        let folded = folded.to_vec(stream).unwrap();
        let found: Vec<Vec<E::Base>> = outputs.iter().map(|output| output.to_vec(stream).unwrap()).collect();
        let mut expected: Vec<Vec<E::Base>> =
            found.iter().map(|output| vec![E::Base::ZERO; output.len()]).collect();
        for row in 0..rows {
            let values = mirror.evaluate(self, row);
            let mut sum = E::ZERO;
            for (output, &source) in mirror.outputs.iter().zip(&mirror.sources) {
                let (output, column, columns) = match *output {
                    Output::Fold { weight, .. } => {
                        sum += self.weights[weight] * values[source];
                        continue;
                    }
                    Output::Store { output, column, value } if mirror.graph.kind(value) == FieldKind::Base => {
                        (output, column, 1)
                    }
                    Output::Store { output, column, .. } | Output::StoreExtension { output, column, .. } => {
                        (output, column, E::DEGREE)
                    }
                };
                for d in 0..columns {
                    expected[output][(column + d) * rows + row] = values[source].parts()[d];
                }
            }
            if mirror.outputs.iter().any(|output| matches!(output, Output::Fold { .. })) {
                let block = row >> self.log_block;
                let sum = sum * embed(scale[row >> self.log_scale]);
                for d in 0..E::DEGREE {
                    let at = ((block * E::DEGREE + d) << self.log_block) + row % (1 << self.log_block);
                    assert_eq!(folded[at], sum.parts()[d], "{}: row {row}, coefficient {d}", E::NAME);
                }
            }
        }
        for (output, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let wrong = (0..found.len()).find(|&i| found[i] != expected[i]);
            let place = wrong.map(|i| (i / rows, i % rows));
            assert_eq!(place, None, "{}: the first wrong column and row of output {output}", E::NAME);
        }
    }
}

fn embed<E: Element>(c: E::Base) -> E {
    let mut parts = vec![E::Base::ZERO; E::DEGREE];
    parts[0] = c;
    E::from_parts(&parts).unwrap()
}

/// A generator with a fixed seed: a failure can be run again.
pub(crate) fn rng(seed: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed)
}

/// Random elements of a base field.
pub(crate) fn random<F: Field>(rng: &mut SmallRng, len: usize) -> Vec<F> {
    (0..len).map(|_| F::from_u64(rng.random())).collect()
}

/// Random elements of an extension.
pub(crate) fn random_elements<E: Element>(rng: &mut SmallRng, len: usize) -> Vec<E> {
    (0..len).map(|_| E::from_parts(&random(rng, E::DEGREE)).unwrap()).collect()
}
