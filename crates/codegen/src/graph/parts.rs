//! Parts of a graph, with other loads.

use std::collections::{BTreeMap, BTreeSet};

use rigel_kernels::field::{Element, Ring};

use super::{ExpressionGraph, Node, Value};
use crate::quick::QuickMap;

/// Walks what values depend on, one value after another, without a list of all that was seen for each.
#[derive(Default)]
struct Walk {
    /// The number of the walk that has seen each value last.
    seen: Vec<u32>,
    number: u32,
    stack: Vec<Value>,
}

impl Walk {
    /// Calls `visit` with all values that these depend on, and with these, once each.
    fn visit<E: Element>(
        &mut self,
        graph: &ExpressionGraph<E>,
        values: impl IntoIterator<Item = Value>,
        mut visit: impl FnMut(Value, Node),
    ) {
        self.seen.resize(graph.len(), 0);
        self.number += 1;
        self.stack.extend(values);
        while let Some(value) = self.stack.pop() {
            if std::mem::replace(&mut self.seen[value.index()], self.number) != self.number {
                let node = graph.node(value);
                visit(value, node);
                self.stack.extend(node.operands());
            }
        }
    }
}

/// Finds the columns of some matrices that values of a graph depend on, for many values.
pub struct ColumnsRead<const N: usize> {
    inputs: [usize; N],
    walk: Walk,
}

impl<const N: usize> ColumnsRead<N> {
    /// A search for the columns of the matrices with these numbers.
    pub fn new(inputs: [usize; N]) -> Self {
        Self { inputs, walk: Walk::default() }
    }

    /// The columns of each matrix that a value depends on.
    pub fn of<E: Element>(&mut self, graph: &ExpressionGraph<E>, value: Value) -> [BTreeSet<usize>; N] {
        let mut columns = [const { BTreeSet::new() }; N];
        let place = |input| self.inputs.iter().position(|&of| of == input);
        self.walk.visit(graph, [value], |_, node| match node {
            Node::Column { input, column, .. } => {
                if let Some(at) = place(input) {
                    columns[at].insert(column);
                }
            }
            Node::ExtensionColumn { input, first_column, .. } => {
                if let Some(at) = place(input) {
                    columns[at].extend(first_column..first_column + E::DEGREE);
                }
            }
            _ => {}
        });
        columns
    }
}

impl<E: Element> ExpressionGraph<E> {
    /// The columns of the matrix `input` that a value depends on. [`ColumnsRead`] is quicker for many values.
    pub fn columns_of(&self, value: Value, input: usize) -> BTreeSet<usize> {
        let [columns] = ColumnsRead::new([input]).of(self, value);
        columns
    }

    /// Values whose sum is `value`: itself if it is `narrow`, else what sums, differences and products with a narrow
    /// factor are made of, taken apart until it is. What can't be taken apart stays as it is.
    ///
    /// So a sum over many columns can be computed some columns at a time.
    pub fn addends(&mut self, value: Value, mut narrow: impl FnMut(&Self, Value) -> bool) -> Vec<Value> {
        let mut addends = Vec::new();
        // `value` is the sum of these values times their coefficients, and of the addends. The latest comes first:
        // what a value is computed from was made before it, so its coefficient is complete when its turn comes.
        let mut rest = BTreeMap::from([(value, self.constant(E::Base::ONE))]);
        while let Some((value, coefficient)) = rest.pop_last() {
            let is_wide = !narrow(self, value);
            let parts = match self.node(value) {
                Node::Add(a, b) if is_wide => vec![(a, coefficient), (b, coefficient)],
                Node::Sub(a, b) if is_wide => vec![(a, coefficient), (b, self.neg(coefficient))],
                Node::Neg(a) if is_wide => vec![(a, self.neg(coefficient))],
                Node::Mul(a, b) if is_wide && narrow(self, a) => vec![(b, self.mul(coefficient, a))],
                Node::Mul(a, b) if is_wide && narrow(self, b) => vec![(a, self.mul(coefficient, b))],
                _ => {
                    addends.push(self.mul(coefficient, value));
                    continue;
                }
            };
            for (part, more) in parts {
                let coefficient = rest.get(&part).map_or(more, |&before| self.add(before, more));
                rest.insert(part, coefficient);
            }
        }
        addends
    }

    /// The part of the graph that these values depend on, with the columns of the matrix `input` numbered anew: column
    /// `columns[i]` becomes column i. Returns the part and the values' places in it.
    ///
    /// So what reads few columns of a wide matrix can be run on a matrix of those columns alone. Extension columns of
    /// `input` must find their neighbours in `columns`, in order.
    ///
    /// # Panics
    /// If a column that is read is not among `columns`, which must be sorted.
    pub fn with_columns(&self, values: &[Value], input: usize, columns: &[usize]) -> (Self, Vec<Value>) {
        let place = |column: usize| columns.binary_search(&column).expect("a column of the part");
        self.part(values, |leaf| match leaf {
            Node::Column { input: of, column, offset } if of == input => {
                Node::Column { input, column: place(column), offset }
            }
            Node::ExtensionColumn { input: of, first_column, offset } if of == input => {
                Node::ExtensionColumn { input, first_column: place(first_column), offset }
            }
            leaf => leaf,
        })
    }

    /// The part of the graph that these values depend on, with the columns of the matrix `input` that are read one row
    /// further read from the matrix `next` instead, in the same row. Returns the part and the values' places in it.
    ///
    /// So a block of rows can be computed whose next rows lie in another block.
    pub fn with_next(&self, values: &[Value], input: usize, next: usize) -> (Self, Vec<Value>) {
        self.part(values, |leaf| match leaf {
            Node::Column { input: of, column, offset: 1 } if of == input => {
                Node::Column { input: next, column, offset: 0 }
            }
            Node::ExtensionColumn { input: of, first_column, offset: 1 } if of == input => {
                Node::ExtensionColumn { input: next, first_column, offset: 0 }
            }
            leaf => leaf,
        })
    }

    /// Whether these values depend on columns at another offset than 0.
    pub fn reads_neighbours(&self, values: &[Value]) -> bool {
        self.cone(values.iter().copied()).into_iter().any(|value| match self.node(value) {
            Node::Column { offset, .. } | Node::ExtensionColumn { offset, .. } => offset != 0,
            _ => false,
        })
    }

    /// The part of the graph that these values depend on, with all columns that are read at another offset than 0 read
    /// from the matrix `apart` instead, in the same row. Returns the part, the values' places in it, and what the
    /// columns of `apart` hold: of which input the column, and at which offset, sorted by offsets.
    ///
    /// So a block of rows can be computed whose neighbours lie in other blocks.
    pub fn with_neighbours(&self, values: &[Value], apart: usize) -> (Self, Vec<Value>, Vec<(usize, usize, i32)>) {
        let mut read = BTreeSet::new();
        for value in self.cone(values.iter().copied()) {
            match self.node(value) {
                Node::Column { input, column, offset } if offset != 0 => {
                    read.insert((offset, input, column, 1));
                }
                Node::ExtensionColumn { input, first_column, offset } if offset != 0 => {
                    read.insert((offset, input, first_column, E::DEGREE));
                }
                _ => {}
            }
        }
        let (mut places, mut columns) = (QuickMap::default(), Vec::new());
        for (offset, input, first, count) in read {
            places.insert((offset, input, first, count), columns.len());
            columns.extend((first..first + count).map(|column| (input, column, offset)));
        }
        let (part, values) = self.part(values, |leaf| match leaf {
            Node::Column { input, column, offset } if offset != 0 => {
                Node::Column { input: apart, column: places[&(offset, input, column, 1)], offset: 0 }
            }
            Node::ExtensionColumn { input, first_column, offset } if offset != 0 => {
                let first_column = places[&(offset, input, first_column, E::DEGREE)];
                Node::ExtensionColumn { input: apart, first_column, offset: 0 }
            }
            leaf => leaf,
        });
        (part, values, columns)
    }

    /// The part of the graph that these values depend on, with other loads.
    fn part(&self, values: &[Value], load: impl Fn(Node) -> Node) -> (Self, Vec<Value>) {
        let mut part = Self::new();
        let mut places: QuickMap<Value, Value> = QuickMap::default();
        let mut cone = self.cone(values.iter().copied());
        // A value is made after what it is computed from.
        cone.sort_unstable();
        for value in cone {
            let made = match self.node(value) {
                Node::Constant(index) => part.extension_constant(self.constants[index]),
                Node::Add(a, b) => part.add(places[&a], places[&b]),
                Node::Sub(a, b) => part.sub(places[&a], places[&b]),
                Node::Mul(a, b) => part.mul(places[&a], places[&b]),
                Node::Neg(a) => part.neg(places[&a]),
                leaf => part.number(load(leaf), self.kind(value)),
            };
            places.insert(value, made);
        }
        (part, values.iter().map(|value| places[value]).collect())
    }

    /// All values that these depend on, and these.
    fn cone(&self, values: impl IntoIterator<Item = Value>) -> Vec<Value> {
        let mut cone = Vec::new();
        Walk::default().visit(self, values, |value, _| cone.push(value));
        cone
    }
}

#[cfg(test)]
mod tests {
    use rigel_kernels::field::QM31;

    use super::*;

    #[test]
    fn neighbours_are_read_from_a_matrix_of_their_own() {
        let mut graph = ExpressionGraph::<QM31>::new();
        let here = graph.column(0, 7, 0);
        let [before, after] = [-1, 2].map(|offset| graph.column(1, 3, offset));
        let next = graph.extension_column(2, 4, 2);
        let other = graph.column(1, 9, 1);
        let sum = graph.add(before, next);
        assert!(graph.reads_neighbours(&[sum]) && !graph.reads_neighbours(&[here]));

        // What no value depends on is not read.
        let (part, values, reads) = graph.with_neighbours(&[here, after, sum], 5);
        let of_extension = (4..8).map(|column| (2, column, 2));
        assert_eq!(reads, [(1, 3, -1), (1, 3, 2)].into_iter().chain(of_extension).collect::<Vec<_>>());
        assert_eq!([values[0], values[1]].map(|value| part.as_column(value)), [Some((0, 7, 0)), Some((5, 1, 0))]);
        assert_eq!(part.columns_of(values[2], 5), BTreeSet::from([0, 2, 3, 4, 5]));
        assert!(!part.reads_neighbours(&values));
        assert!(graph.reads_neighbours(&[other]));
    }
}
