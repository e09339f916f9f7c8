//! The recording of a component: its expressions, with parameters and kernels.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rigel_codegen::{ExpressionGraph, GraphProgram, Value};
use rigel_gpu::Result;
use rigel_kernels::field::QM31;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

/// The recording of a component's constraints.
pub(crate) struct Recorded {
    pub(crate) expressions: Arc<Expressions>,
    /// The values of the extension parameters.
    pub(crate) parameters: Vec<SecureField>,
    /// The values of the base parameters.
    pub(crate) base_parameters: Vec<BaseField>,
}

/// A component's constraints and fractions, and the kernels made from them.
#[derive(Default)]
pub(crate) struct Expressions {
    pub(crate) graph: ExpressionGraph<QM31>,
    pub(crate) constraints: Vec<Value>,
    /// The numerator and denominator of the fraction that each LogUp column adds.
    pub(crate) fractions: Vec<(Value, Value)>,
    /// The constraints with neighbouring rows apart, once they were asked for.
    pub(crate) apart: OnceLock<Arc<Apart>>,
    /// The kernels of the constraints, once they were asked for.
    pub(crate) constraint_program: Program,
    /// The kernels of the fractions, once they were asked for.
    pub(crate) fraction_program: Program,
}

/// Constraints that read the neighbours of a row from a matrix of their own, in the same row.
pub(crate) struct Apart {
    /// `None` if no neighbour is read: they are the constraints that it belongs to.
    expressions: Option<Arc<Expressions>>,
    /// The contents of each column of that matrix: the tree, the column there and the offset; sorted by offsets.
    pub(crate) reads: Vec<(usize, usize, i32)>,
}

/// A program that is found or made once.
#[derive(Default)]
pub(crate) struct Program(OnceLock<Arc<GraphProgram<QM31>>>);

impl Program {
    pub(crate) fn get_or_make(
        &self,
        make: impl FnOnce() -> Result<Arc<GraphProgram<QM31>>>,
    ) -> Result<Arc<GraphProgram<QM31>>> {
        if let Some(program) = self.0.get() {
            return Ok(program.clone());
        }
        let program = make()?;
        Ok(self.0.get_or_init(|| program).clone())
    }
}

/// Some constraints or fractions of a component, and the columns of each tree that they read, in order. These alone are
/// the columns of the recording's inputs.
pub(crate) struct Part {
    pub(crate) recorded: Recorded,
    pub(crate) columns: Vec<Vec<usize>>,
    /// The indices of the constraints.
    pub(crate) constraints: Range<usize>,
}

impl Recorded {
    /// The columns of each tree that a value reads.
    fn columns_of(&self, value: Value, trees: usize) -> Vec<BTreeSet<usize>> {
        (0..trees).map(|tree| self.expressions.graph.columns_of(value, tree)).collect()
    }

    /// Splits the constraints into parts that each read at most `most` columns, or are one constraint.
    pub(crate) fn by_columns(&self, trees: usize, most: usize) -> Vec<Part> {
        let mut parts: Vec<(Vec<BTreeSet<usize>>, Range<usize>)> = Vec::new();
        for (i, &constraint) in self.expressions.constraints.iter().enumerate() {
            let read = self.columns_of(constraint, trees);
            if let Some((all, constraints)) = parts.last_mut() {
                let count: usize = all.iter().zip(&read).map(|(a, b)| a.union(b).count()).sum();
                if count <= most {
                    all.iter_mut().zip(read).for_each(|(all, read)| all.extend(read));
                    constraints.end += 1;
                    continue;
                }
            }
            parts.push((read, i..i + 1));
        }
        let part = |(columns, constraints): (Vec<BTreeSet<usize>>, Range<usize>)| {
            let values = &self.expressions.constraints[constraints.clone()];
            let (graph, values, columns) = self.reading(columns, values);
            let expressions = Expressions { graph, constraints: values, ..Expressions::default() };
            Part { recorded: self.with(expressions), columns, constraints }
        };
        parts.into_iter().map(part).collect()
    }

    /// The constraints with the neighbours of a row in a matrix of their own, which is input `trees`.
    pub(crate) fn neighbours_apart(&self, trees: usize) -> (Self, Arc<Apart>) {
        let apart = self.expressions.apart.get_or_init(|| {
            let Expressions { graph, constraints, .. } = &*self.expressions;
            let (graph, constraints, reads) = graph.with_neighbours(constraints, trees);
            // Without neighbours, the kernels are those of a whole domain.
            let apart = || Arc::new(Expressions { graph, constraints, ..Expressions::default() });
            Arc::new(Apart { expressions: (!reads.is_empty()).then(apart), reads })
        });
        let recorded = Self {
            expressions: apart.expressions.as_ref().unwrap_or(&self.expressions).clone(),
            parameters: self.parameters.clone(),
            base_parameters: self.base_parameters.clone(),
        };
        (recorded, apart.clone())
    }

    /// Whether fractions read columns in other rows than their own.
    pub(crate) fn fractions_read_neighbours(&self) -> bool {
        let Expressions { graph, fractions, .. } = &*self.expressions;
        let values: Vec<Value> = fractions.iter().flat_map(|&(above, below)| [above, below]).collect();
        graph.reads_neighbours(&values)
    }

    /// The number of columns that the constraint with the most columns reads.
    pub(crate) fn widest(&self, trees: usize) -> usize {
        let width = |&value: &Value| self.columns_of(value, trees).iter().map(BTreeSet::len).sum();
        self.expressions.constraints.iter().map(width).max().unwrap_or(0)
    }

    /// The fractions alone.
    pub(crate) fn only_fractions(&self, trees: usize) -> Part {
        let fractions = self.expressions.fractions.iter();
        let values: Vec<Value> = fractions.flat_map(|&(above, below)| [above, below]).collect();
        let mut columns = vec![BTreeSet::new(); trees];
        for &value in &values {
            columns.iter_mut().zip(self.columns_of(value, trees)).for_each(|(all, read)| all.extend(read));
        }
        let (graph, values, columns) = self.reading(columns, &values);
        let fractions = values.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let expressions = Expressions { graph, fractions, ..Expressions::default() };
        Part { recorded: self.with(expressions), columns, constraints: 0..0 }
    }

    /// The part of the graph that some values depend on, with the columns of each tree numbered anew.
    fn reading(
        &self,
        columns: Vec<BTreeSet<usize>>,
        values: &[Value],
    ) -> (ExpressionGraph<QM31>, Vec<Value>, Vec<Vec<usize>>) {
        let columns: Vec<Vec<usize>> = columns.into_iter().map(|set| set.into_iter().collect()).collect();
        let (mut graph, mut values) = self.expressions.graph.with_columns(values, 0, &columns[0]);
        for (tree, columns) in columns.iter().enumerate().skip(1) {
            (graph, values) = graph.with_columns(&values, tree, columns);
        }
        (graph, values, columns)
    }

    /// Other expressions with the same parameters.
    fn with(&self, expressions: Expressions) -> Self {
        Self {
            expressions: Arc::new(expressions),
            parameters: self.parameters.clone(),
            base_parameters: self.base_parameters.clone(),
        }
    }
}
