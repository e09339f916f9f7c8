//! An AIR's constraints as an expression graph.
//!
//! Upstream evaluates the AIR once on symbolic variables. The resulting trees with shared branches become the
//! nodes of an [`ExpressionGraph`]. Constraint j of K is an output with the weight `alpha^(K-1-j)`.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use p3_air::symbolic::{
    AirLayout, BaseEntry, BaseLeaf, ConstraintLayout, ExtEntry, ExtLeaf, SymbolicAirBuilder, SymbolicExpr,
    SymbolicExpression, SymbolicExpressionExt, constraint_degree_from_poly_degree,
};
use p3_air::{Air, BaseAir};
use p3_field::Algebra;
use p3_lookup::{InteractionSymbolicBuilder, LogUpGadget, Lookup, LookupProtocol};
use p3_util::log2_ceil_usize;
use rigel_codegen::{ColumnsRead, ExpressionGraph, GraphProgram, Output, QuickMap, Split, Value, scratch_columns};
use rigel_gpu::{Device, Lock, Result as GpuResult};
use rigel_kernels::field::Element;

use crate::air::contents::hash_lookups;
use crate::air::fractions::Fractions;
use crate::upstream::config::{DeviceConfig, Ext};
use crate::upstream::field::{DeviceExtension, DeviceField};

/// Expressions of so many values take longer to free than a thread takes to start.
const SLOW_TO_FREE: usize = 2_000;
/// Bytes of the stack on which they are freed. Only what is used takes memory.
const STACK_TO_FREE: usize = 64 << 20;

/// The matrices that constraints read.
pub(crate) mod input {
    /// The trace.
    pub(crate) const MAIN: usize = 0;
    /// The preprocessed trace.
    pub(crate) const PREPROCESSED: usize = 1;
    /// The lookups' running sum and fractions.
    pub(crate) const PERMUTATION: usize = 2;
    /// First row, last row, transition.
    pub(crate) const SELECTORS: usize = 3;
    /// Periodic columns.
    pub(crate) const PERIODIC: usize = 4;
    /// The next rows of the trace, if they are in a matrix of their own.
    pub(crate) const NEXT: usize = 5;
    /// The next rows of the preprocessed trace, likewise.
    pub(crate) const NEXT_PREPROCESSED: usize = 6;
    /// The next rows of the lookups' columns, likewise.
    pub(crate) const NEXT_PERMUTATION: usize = 7;
    /// The number of matrices.
    pub(crate) const COUNT: usize = 8;
}

/// Kernels of a graph, or why there are none.
pub(crate) type Program<SC> = GpuResult<Arc<GraphProgram<Ext<SC>>>>;

/// Constraints, ready to be compiled.
pub(crate) struct Constraints<SC: DeviceConfig> {
    pub(crate) graph: ExpressionGraph<Ext<SC>>,
    pub(crate) outputs: Vec<Output>,
    /// The logarithm of the number of quotient chunks.
    pub(crate) log_chunks: usize,
    /// The kernels, if they were compiled ahead of their use, and the device that they are for.
    program: Option<(Device, Program<SC>)>,
    /// The kernels of proofs over several devices.
    programs: Programs<SC>,
    /// The constraints with the next rows in matrices of their own, made when they are first needed.
    next_apart: OnceLock<Vec<NextApart<SC>>>,
    /// The constraints in parts, with the number of columns that was asked for.
    parts: Lock<Option<Parts<SC>>>,
    widest: OnceLock<usize>,
    /// The columns that the prover's kernels pass to each other, and those of next rows on their way between devices.
    pub(crate) passed: OnceLock<(usize, usize)>,
    /// The columns of the table's lookups, if it has any.
    pub(crate) fractions: Option<Fractions<SC>>,
    /// The hash of the lookups that the AIR of a batch states.
    pub(crate) lookups: Option<u64>,
    /// Upstream's expressions. Freeing them takes as long as building them: see [`Self::free_symbols`].
    symbols: Lock<Option<Box<dyn Any + Send>>>,
}

type Parts<SC> = (usize, Arc<[Narrow<SC>]>);

/// Constraints, or addends of them, that read only a few columns of N matrices.
pub(crate) struct Part<SC: DeviceConfig, const N: usize> {
    /// The columns of each matrix, in order: the i-th one is column i of the part's matrix.
    pub(crate) columns: [Vec<usize>; N],
    graph: ExpressionGraph<Ext<SC>>,
    outputs: Vec<Output>,
    programs: Programs<SC>,
}

/// Constraints that read only a few columns of the trace and of the lookups.
type Narrow<SC> = Part<SC, 2>;

/// Constraints that read few columns of the trace, of the preprocessed trace and of the lookups in the next row, which
/// is in a matrix of its own.
pub(crate) type NextApart<SC> = Part<SC, 3>;

impl<SC: DeviceConfig, const N: usize> Part<SC, N> {
    /// The kernels for a device.
    pub(crate) fn program(&self, device: &Device) -> Program<SC> {
        self.programs.of(device, &self.graph, &self.outputs)
    }

    /// The number of columns that the kernels pass to each other.
    pub(crate) fn scratch(&self, split: Split) -> usize {
        scratch_columns(&self.graph, &self.outputs, split)
    }
}

/// The kernels of a graph for each device. A device knows its graphs by a hash, which takes longer than a launch.
pub(crate) struct Programs<SC: DeviceConfig>(Lock<Vec<OfDevice<SC>>>);

type OfDevice<SC> = (Device, Arc<GraphProgram<Ext<SC>>>);

impl<SC: DeviceConfig> Default for Programs<SC> {
    fn default() -> Self {
        Self(Lock::default())
    }
}

impl<SC: DeviceConfig> Programs<SC> {
    fn of(&self, device: &Device, graph: &ExpressionGraph<Ext<SC>>, outputs: &[Output]) -> Program<SC> {
        let mut kept = self.0.lock();
        if let Some((_, program)) = kept.iter().find(|(of, _)| of.is(device)) {
            return Ok(program.clone());
        }
        let program = rigel_codegen::program(device, "constraints", graph, outputs)?;
        kept.push((device.clone(), program.clone()));
        Ok(program)
    }
}

impl<SC: DeviceConfig> Constraints<SC> {
    /// Frees upstream's expressions of these tables: many of them, which takes milliseconds, beside the proof.
    pub(crate) fn free_symbols(tables: &[Arc<Self>]) {
        let (mut symbols, mut values) = (Vec::new(), 0);
        for table in tables {
            if let Some(of_table) = table.symbols.lock().take() {
                symbols.push(of_table);
                values += table.graph.len();
            }
        }
        if values < SLOW_TO_FREE {
            return drop(symbols);
        }
        // Nobody waits for this thread, not even the process's end. Expressions are freed by a recursion as deep as
        // they are, so it has a large stack, as the thread that read the AIR may have had. Without a thread they are
        // freed here, with the closure.
        let thread = std::thread::Builder::new().name("rigel-free".to_owned()).stack_size(STACK_TO_FREE);
        let _ = thread.spawn(move || drop(symbols));
    }

    /// The number of constraints.
    pub(crate) fn count(&self) -> usize {
        self.outputs.len()
    }

    /// Compiles the kernels, or finds them in a cache, ahead of their use. [`Self::program`] returns the result.
    pub(crate) fn compile(&mut self, device: &Device) {
        if self.count() > 0 {
            self.program = Some((device.clone(), self.program(device)));
        }
        if let Some(fractions) = &mut self.fractions {
            fractions.compile(device);
        }
    }

    /// Whether [`Self::compile`] has compiled all kernels.
    pub(crate) fn is_compiled(&self) -> bool {
        (self.count() == 0 || matches!(self.program, Some((_, Ok(_)))))
            && self.fractions.as_ref().is_none_or(Fractions::is_compiled)
    }

    /// The kernels.
    pub(crate) fn program(&self, device: &Device) -> Program<SC> {
        match &self.program {
            Some((compiled_for, program)) if compiled_for.is(device) => program.clone(),
            _ => rigel_codegen::program(device, "constraints", &self.graph, &self.outputs),
        }
    }

    /// The kernels for one of several devices.
    pub(crate) fn program_on(&self, device: &Device) -> Program<SC> {
        self.programs.of(device, &self.graph, &self.outputs)
    }

    /// The constraints in parts that each read at most about `columns` columns of the trace and of the lookups. The
    /// latest parts are kept.
    pub(crate) fn by_columns(&self, columns: usize) -> Arc<[Narrow<SC>]> {
        let mut kept = self.parts.lock();
        match &*kept {
            Some((of, parts)) if *of == columns => parts.clone(),
            _ => kept.insert((columns, self.cut(columns).into())).1.clone(),
        }
    }

    /// The number of columns that the widest part reads, if parts are to read as few as `columns`.
    pub(crate) fn widest(&self, columns: usize) -> usize {
        let read = |part: Narrow<SC>| part.columns.iter().map(Vec::len).sum();
        *self.widest.get_or_init(|| self.cut(columns).into_iter().map(read).max().unwrap_or(0))
    }

    /// Sums over more columns of lookups than `columns`, which is that of all fractions of a row, are taken apart. Wide
    /// constraints of the AIR itself are not: they may be sums of thousands of products, each of which would be read
    /// and computed by itself.
    fn cut(&self, columns: usize) -> Vec<Narrow<SC>> {
        let mut graph = self.graph.clone();
        let mut lookups = ColumnsRead::new([input::PERMUTATION]);
        let mut narrow = |graph: &ExpressionGraph<Ext<SC>>, value| {
            let [read] = lookups.of(graph, value);
            read.len() <= columns
        };
        let addends = |output: &Output| match *output {
            Output::Fold { value, weight } => {
                graph.addends(value, &mut narrow).into_iter().map(|value| Output::Fold { value, weight }).collect()
            }
            store => vec![store],
        };
        let outputs: Vec<Output> = self.outputs.iter().flat_map(addends).collect();
        let part = |([mut main, lookups], outputs): ([BTreeSet<usize>; 2], Vec<Output>)| {
            if main.is_empty() {
                main.insert(0);
            }
            let columns = [main, lookups].map(Vec::from_iter);
            let (part, values) = graph.with_columns(&values_of(&outputs), input::MAIN, &columns[0]);
            let (graph, values) = part.with_columns(&values, input::PERMUTATION, &columns[1]);
            Part { columns, graph, outputs: placed(&outputs, &values), programs: Programs::default() }
        };
        let read = ColumnsRead::new([input::MAIN, input::PERMUTATION]);
        grouped(&graph, &outputs, read, columns).into_iter().map(part).collect()
    }

    /// The constraints with the next rows in matrices of their own, in parts that each read at most about `columns`
    /// columns of the trace there. The first call decides how many.
    pub(crate) fn next_apart(&self, columns: usize) -> &[NextApart<SC>] {
        self.next_apart.get_or_init(|| {
            let (graph, values) = self.graph.with_next(&values_of(&self.outputs), input::MAIN, input::NEXT);
            let (graph, values) = graph.with_next(&values, input::PREPROCESSED, input::NEXT_PREPROCESSED);
            let (graph, values) = graph.with_next(&values, input::PERMUTATION, input::NEXT_PERMUTATION);
            let part = |([read], outputs): ([BTreeSet<usize>; 1], Vec<Output>)| {
                let columns: Vec<usize> = read.into_iter().collect();
                let (part, values) = graph.with_columns(&values_of(&outputs), input::NEXT, &columns);
                let (part, values, preprocessed) = compacted(&part, &values, input::NEXT_PREPROCESSED);
                let (graph, values, lookups) = compacted(&part, &values, input::NEXT_PERMUTATION);
                let (columns, outputs) = ([columns, preprocessed, lookups], placed(&outputs, &values));
                Part { columns, graph, outputs, programs: Programs::default() }
            };
            let outputs = placed(&self.outputs, &values);
            grouped(&graph, &outputs, ColumnsRead::new([input::NEXT]), columns).into_iter().map(part).collect()
        })
    }

    /// The constraints of an AIR alone.
    pub(crate) fn of_air<A>(air: &A, layout: AirLayout, rows: usize) -> Self
    where
        A: Air<SymbolicAirBuilder<SC::Value>>,
    {
        let mut builder = SymbolicAirBuilder::<SC::Value>::new(layout);
        air.eval(&mut builder);
        let (base, extension) = (builder.base_constraints(), builder.extension_constraints());
        let degree = degree(air, layout, rows, &base, &extension);
        let layout = builder.constraint_layout();
        Self::new(degree, &base, &extension, &layout, Box::new(builder), |graph, constant| {
            graph.constant(constant.twin())
        })
    }

    /// The constraints of an AIR and of its lookups.
    pub(crate) fn of_air_and_lookups<A>(
        air: &A,
        layout: AirLayout,
        rows: usize,
        lookups: &[Lookup<SC::Value>],
    ) -> Self
    where
        A: Air<InteractionSymbolicBuilder<SC::Value, SC::Challenge>>,
        SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
    {
        let gadget = LogUpGadget::new();
        let layout = AirLayout {
            permutation_width: if lookups.is_empty() { 0 } else { lookups.len() + 1 },
            num_permutation_challenges: lookups.len() * gadget.num_challenges(),
            num_permutation_values: usize::from(!lookups.is_empty()),
            ..layout
        };
        let mut builder = InteractionSymbolicBuilder::<SC::Value, SC::Challenge>::new(layout);
        gadget.eval_air_and_lookups(air, &mut builder, lookups);
        let (base, extension) = (builder.base_constraints(), builder.extension_constraints());
        let degree = degree(air, layout, rows, &base, &extension);
        let (layout, stated) = (builder.constraint_layout(), hash_lookups(&builder));
        let constraints = Self::new(degree, &base, &extension, &layout, Box::new(builder), |graph, constant| {
            graph.extension_constant(constant.to_device())
        });
        let fractions = (!lookups.is_empty()).then(|| Fractions::new(lookups));
        Self { fractions, lookups: Some(stated), ..constraints }
    }

    fn new<X: p3_field::ExtensionField<SC::Value>>(
        degree: usize,
        base: &[SymbolicExpression<SC::Value>],
        extension: &[SymbolicExpressionExt<SC::Value, X>],
        layout: &ConstraintLayout,
        symbols: Box<dyn Any + Send>,
        constant: impl Fn(&mut ExpressionGraph<Ext<SC>>, X) -> Value,
    ) -> Self {
        let last = layout.total_constraints().saturating_sub(1);
        let mut lowering = Lowering::<SC>::new();
        let mut values = vec![None; layout.total_constraints()];
        for (constraint, &index) in base.iter().zip(&layout.base_indices) {
            values[index] = Some(lowering.base(constraint));
        }
        let mut seen = QuickMap::default();
        for (constraint, &index) in extension.iter().zip(&layout.ext_indices) {
            values[index] = Some(lowering.extension(constraint, &mut seen, &constant));
        }
        let output = |(index, value): (usize, Option<Value>)| Output::Fold {
            value: value.expect("every constraint is over the base field or the extension"),
            weight: last - index,
        };
        let outputs = values.into_iter().enumerate().map(output).collect();
        // As in upstream: the degree is at least 2, and the number of chunks a power of two. The masks of a hiding
        // proof raise the degree by one and double the number.
        let hiding = usize::from(SC::HIDING);
        let log_chunks = log2_ceil_usize((degree + hiding).max(2) - 1) + hiding;
        let symbols = Lock::new(Some(symbols));
        let next_apart = OnceLock::new();
        Self {
            graph: lowering.graph,
            outputs,
            log_chunks,
            program: None,
            programs: Programs::default(),
            next_apart,
            parts: Lock::default(),
            widest: OnceLock::new(),
            passed: OnceLock::new(),
            fractions: None,
            lookups: None,
            symbols,
        }
    }
}

/// Groups of constraints, in order, that each read at most about `columns` columns of some matrices; with the columns.
fn grouped<E: Element, const N: usize>(
    graph: &ExpressionGraph<E>,
    outputs: &[Output],
    mut columns_read: ColumnsRead<N>,
    columns: usize,
) -> Vec<([BTreeSet<usize>; N], Vec<Output>)> {
    let mut groups: Vec<([BTreeSet<usize>; N], Vec<Output>)> = Vec::new();
    for &output in outputs {
        let read = columns_read.of(graph, output.value());
        let together = |all: &[BTreeSet<usize>; N]| -> usize {
            all.iter().zip(&read).map(|(all, read)| all.union(read).count()).sum()
        };
        match groups.last_mut() {
            Some((all, outputs)) if together(all) <= columns => {
                all.iter_mut().zip(read).for_each(|(all, read)| all.extend(read));
                outputs.push(output);
            }
            _ => groups.push((read, vec![output])),
        }
    }
    groups
}

/// The graph of some values that reads only those columns of a matrix that they need, numbered anew; and these columns.
fn compacted<E: Element>(
    graph: &ExpressionGraph<E>,
    values: &[Value],
    input: usize,
) -> (ExpressionGraph<E>, Vec<Value>, Vec<usize>) {
    let columns: BTreeSet<usize> = values.iter().flat_map(|&value| graph.columns_of(value, input)).collect();
    let columns: Vec<usize> = columns.into_iter().collect();
    let (graph, values) = graph.with_columns(values, input, &columns);
    (graph, values, columns)
}

pub(crate) fn values_of(outputs: &[Output]) -> Vec<Value> {
    outputs.iter().map(|output| output.value()).collect()
}

/// Replaces the values of outputs by those of another graph.
pub(crate) fn placed(outputs: &[Output], values: &[Value]) -> Vec<Output> {
    let place = |(output, &value): (&Output, &Value)| match *output {
        Output::Fold { weight, .. } => Output::Fold { value, weight },
        Output::StoreExtension { output, column, .. } => Output::StoreExtension { value, output, column },
        Output::Store { output, column, .. } => Output::Store { value, output, column },
    };
    outputs.iter().zip(values).map(place).collect()
}

/// The largest degree of the constraints, as a multiple of the trace's degree, as upstream computes it.
fn degree<V: DeviceField, X: p3_field::ExtensionField<V>>(
    air: &impl BaseAir<V>,
    layout: AirLayout,
    rows: usize,
    base: &[SymbolicExpression<V>],
    extension: &[SymbolicExpressionExt<V, X>],
) -> usize {
    let degree = if layout.num_periodic_columns == 0 {
        let base = base.iter().map(SymbolicExpr::degree_multiple);
        base.chain(extension.iter().map(SymbolicExpr::degree_multiple)).max().unwrap_or(0)
    } else {
        let periods: Vec<usize> = air.periodic_columns().iter().map(Vec::len).collect();
        let base = base.iter().map(|constraint| constraint.poly_degree(rows, &periods));
        let extension = extension.iter().map(|constraint| constraint.poly_degree(rows, &periods));
        constraint_degree_from_poly_degree(base.chain(extension).max().unwrap_or(0), rows)
    };
    degree.max(air.max_constraint_degree().unwrap_or(0))
}

/// Lowers upstream's symbolic expressions to a graph. It visits shared branches once, keyed by address, so the
/// expressions must outlive it.
pub(crate) struct Lowering<SC: DeviceConfig> {
    pub(crate) graph: ExpressionGraph<Ext<SC>>,
    seen: QuickMap<*const SymbolicExpression<SC::Value>, Value>,
}

impl<SC: DeviceConfig> Lowering<SC> {
    pub(crate) fn new() -> Self {
        Self { graph: ExpressionGraph::new(), seen: QuickMap::default() }
    }

    pub(crate) fn base(&mut self, expression: &SymbolicExpression<SC::Value>) -> Value {
        match expression {
            SymbolicExpr::Leaf(leaf) => self.leaf(leaf),
            SymbolicExpr::Add { x, y, .. } => {
                let (x, y) = (self.branch(x), self.branch(y));
                self.graph.add(x, y)
            }
            SymbolicExpr::Sub { x, y, .. } => {
                let (x, y) = (self.branch(x), self.branch(y));
                self.graph.sub(x, y)
            }
            SymbolicExpr::Mul { x, y, .. } => {
                let (x, y) = (self.branch(x), self.branch(y));
                self.graph.mul(x, y)
            }
            SymbolicExpr::Neg { x, .. } => {
                let x = self.branch(x);
                self.graph.neg(x)
            }
        }
    }

    fn branch(&mut self, expression: &Arc<SymbolicExpression<SC::Value>>) -> Value {
        // Most branches have one parent and need no entry.
        if Arc::strong_count(expression) == 1 {
            return self.base(expression);
        }
        if let Some(&value) = self.seen.get(&Arc::as_ptr(expression)) {
            return value;
        }
        let value = self.base(expression);
        self.seen.insert(Arc::as_ptr(expression), value);
        value
    }

    fn leaf(&mut self, leaf: &BaseLeaf<SC::Value>) -> Value {
        let graph = &mut self.graph;
        match leaf {
            BaseLeaf::Constant(constant) => graph.constant(constant.twin()),
            BaseLeaf::IsFirstRow => graph.column(input::SELECTORS, 0, 0),
            BaseLeaf::IsLastRow => graph.column(input::SELECTORS, 1, 0),
            BaseLeaf::IsTransition => graph.column(input::SELECTORS, 2, 0),
            BaseLeaf::Variable(variable) => match variable.entry {
                BaseEntry::Main { offset } => graph.column(input::MAIN, variable.index, offset as i32),
                BaseEntry::Preprocessed { offset } => {
                    graph.column(input::PREPROCESSED, variable.index, offset as i32)
                }
                BaseEntry::Periodic => graph.column(input::PERIODIC, variable.index, 0),
                BaseEntry::Public => graph.parameter(variable.index),
            },
        }
    }

    fn extension<X: p3_field::ExtensionField<SC::Value>>(
        &mut self,
        expression: &SymbolicExpressionExt<SC::Value, X>,
        seen: &mut QuickMap<*const SymbolicExpressionExt<SC::Value, X>, Value>,
        constant: &impl Fn(&mut ExpressionGraph<Ext<SC>>, X) -> Value,
    ) -> Value {
        if let Some(&value) = seen.get(&std::ptr::from_ref(expression)) {
            return value;
        }
        let mut operand = |expression| self.extension(expression, seen, constant);
        let value = match expression {
            SymbolicExpr::Leaf(ExtLeaf::Base(base)) => self.base(base),
            SymbolicExpr::Leaf(ExtLeaf::ExtConstant(element)) => constant(&mut self.graph, *element),
            SymbolicExpr::Leaf(ExtLeaf::ExtVariable(variable)) => match variable.entry {
                ExtEntry::Permutation { offset } => {
                    let first = variable.index * <Ext<SC> as Element>::DEGREE;
                    self.graph.extension_column(input::PERMUTATION, first, offset as i32)
                }
                ExtEntry::Challenge => self.graph.extension_parameter(parameter::challenge(variable.index)),
                ExtEntry::PermutationValue => self.graph.extension_parameter(parameter::TERMINAL),
            },
            SymbolicExpr::Add { x, y, .. } => {
                let (x, y) = (operand(x), operand(y));
                self.graph.add(x, y)
            }
            SymbolicExpr::Sub { x, y, .. } => {
                let (x, y) = (operand(x), operand(y));
                self.graph.sub(x, y)
            }
            SymbolicExpr::Mul { x, y, .. } => {
                let (x, y) = (operand(x), operand(y));
                self.graph.mul(x, y)
            }
            SymbolicExpr::Neg { x, .. } => {
                let x = operand(x);
                self.graph.neg(x)
            }
        };
        seen.insert(expression, value);
        value
    }
}

/// Indices of the extension-field parameters: the terminal, then the challenges of the lookups.
pub(crate) mod parameter {
    /// The sum of all fractions of a table.
    pub(crate) const TERMINAL: usize = 0;

    /// Challenge `index` of the table's lookups; there are two per lookup.
    pub(crate) const fn challenge(index: usize) -> usize {
        1 + index
    }
}
