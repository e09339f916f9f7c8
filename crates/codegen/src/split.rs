//! Which values each kernel computes.
//!
//! Outputs are taken in order. They share a kernel as long as the union of what they depend on, counted in values
//! that are no constants, stays within [`Split::nodes`]; a kernel computes anew what an earlier one has computed
//! too. What a single output depends on may exceed the limit, up to twice. Beyond that it is cut: its values in the
//! order in which they are computed become several kernels, and what is live across a cut goes through scratch
//! columns.

use std::collections::{BTreeMap, HashMap, HashSet};

use rigel_gpu::{Device, Kind};
use rigel_kernels::element::Element;

use crate::graph::{Graph, Value};
use crate::program::Output;

/// How large kernels become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The values that a kernel computes or reads, about; 0 counts as 1.
    ///
    /// Larger kernels compute less twice, but need more registers and take longer to compile. On a GPU 200 to 1,000
    /// hardly differ, and at 2,000 registers spill.
    pub nodes: usize,
}

impl Default for Split {
    fn default() -> Self {
        Self { nodes: 500 }
    }
}

impl Split {
    /// What suits a device.
    pub fn of(device: &Device) -> Self {
        match device.kind() {
            Kind::Emulated => Self { nodes: 1_000 },
            _ => Self::default(),
        }
    }
}

/// What one kernel does, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Reads the value, or computes it from values of earlier steps.
    Compute(Value),
    /// Reads the value from a scratch column.
    Recall(Value, usize),
    /// Writes the value to a scratch column.
    Keep(Value, usize),
    /// Does what the output with this index asks for.
    Emit(usize),
}

/// The kernels, and the scratch columns that they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) kernels: Vec<Vec<Step>>,
    pub(crate) scratch_columns: usize,
}

impl Plan {
    pub(crate) fn new<E: Element>(graph: &Graph<E>, outputs: &[Output], split: Split) -> Self {
        let limit = split.nodes.max(1);
        let mut plan = Self::default();
        let mut open = Walk::new(graph);
        let mut oversized = Walk::new(graph);
        for (index, output) in outputs.iter().enumerate() {
            let value = output.value();
            let mut alone = Walk::new(graph);
            let walk = if open.try_visit(value, limit) {
                &mut open
            } else if alone.try_visit(value, limit.saturating_mul(2)) {
                plan.kernels.extend(std::mem::replace(&mut open, alone).into_kernel());
                &mut open
            } else {
                oversized.try_visit(value, usize::MAX);
                &mut oversized
            };
            walk.steps.push(Step::Emit(index));
        }
        plan.kernels.extend(open.into_kernel());
        plan.cut(graph, outputs, oversized.steps, limit);
        plan
    }

    /// Adds a list of steps that is too long for one kernel.
    fn cut<E: Element>(&mut self, graph: &Graph<E>, outputs: &[Output], steps: Vec<Step>, limit: usize) {
        let uses = Uses::new(graph, outputs, &steps);
        let mut columns = Columns::default();
        let mut start = 0;
        while start < steps.len() {
            let end = uses.best_cut(start, limit);
            let mut kernel = Vec::new();
            let mut here = HashSet::new();
            for step in &steps[start..end] {
                let missing = uses.of(step).into_iter().filter(|&value| here.insert(value));
                kernel.extend(missing.map(|value| match columns.of.get(&value) {
                    Some(&column) => Step::Recall(value, column),
                    None => Step::Compute(value),
                }));
                if let Step::Compute(value) = *step {
                    // What is only read may have been read for an earlier step of this kernel.
                    if here.insert(value) {
                        kernel.push(step.clone());
                    }
                    if uses.is_kept(value, end) {
                        kernel.push(Step::Keep(value, columns.take(value, graph.words(value))));
                    }
                } else {
                    kernel.push(step.clone());
                }
            }
            self.kernels.push(kernel);
            // Only now: a column that this kernel reads must not be written by it.
            columns.give_back(graph, |value| !uses.is_kept(value, end));
            start = end;
        }
        self.scratch_columns = self.scratch_columns.max(columns.count);
    }
}

/// A depth-first walk that lists each value after what it is computed from.
struct Walk<'a, E: Element> {
    graph: &'a Graph<E>,
    steps: Vec<Step>,
    seen: HashSet<Value>,
}

impl<'a, E: Element> Walk<'a, E> {
    fn new(graph: &'a Graph<E>) -> Self {
        Self { graph, steps: Vec::new(), seen: HashSet::new() }
    }

    /// Lists what is missing for a value, unless the number of values would then exceed `limit`.
    fn try_visit(&mut self, value: Value, limit: usize) -> bool {
        if !self.graph.is_computed(value) || self.seen.contains(&value) {
            return true;
        }
        let (steps, mut added) = (self.steps.len(), Vec::new());
        let mut stack = vec![(value, false)];
        while let Some((value, operands_done)) = stack.pop() {
            if operands_done {
                self.steps.push(Step::Compute(value));
                continue;
            }
            if !self.seen.insert(value) {
                continue;
            }
            added.push(value);
            if self.seen.len() > limit {
                self.steps.truncate(steps);
                for value in &added {
                    self.seen.remove(value);
                }
                return false;
            }
            stack.push((value, true));
            let operands: Vec<Value> = self.graph.operands(value).collect();
            stack.extend(operands.into_iter().rev().map(|operand| (operand, false)));
        }
        true
    }

    fn into_kernel(self) -> Option<Vec<Step>> {
        Some(self.steps).filter(|steps| !steps.is_empty())
    }
}

/// Where the values of a list of steps are used.
struct Uses<'a, E: Element> {
    graph: &'a Graph<E>,
    outputs: &'a [Output],
    /// The last step that uses a value.
    last: HashMap<Value, usize>,
    /// The words that must be kept if the list is cut before a step.
    live: Vec<usize>,
}

impl<'a, E: Element> Uses<'a, E> {
    fn new(graph: &'a Graph<E>, outputs: &'a [Output], steps: &[Step]) -> Self {
        let mut uses = Self { graph, outputs, last: HashMap::new(), live: Vec::new() };
        for (at, step) in steps.iter().enumerate() {
            for value in uses.of(step) {
                uses.last.insert(value, at);
            }
        }
        let mut change = vec![0isize; steps.len() + 2];
        for (at, step) in steps.iter().enumerate() {
            if let Step::Compute(value) = *step
                && uses.is_kept(value, at + 1)
            {
                change[at + 1] += graph.words(value) as isize;
                change[uses.last[&value] + 1] -= graph.words(value) as isize;
            }
        }
        let mut live = 0;
        uses.live = change[..=steps.len()]
            .iter()
            .map(|change| {
                live += change;
                live as usize
            })
            .collect();
        uses
    }

    /// The values that a step needs.
    fn of(&self, step: &Step) -> Vec<Value> {
        match *step {
            Step::Compute(value) => self.graph.operands(value).collect(),
            Step::Emit(index) => {
                Some(self.outputs[index].value()).into_iter().filter(|&v| self.graph.is_computed(v)).collect()
            }
            Step::Recall(..) | Step::Keep(..) => Vec::new(),
        }
    }

    /// Whether a value that is computed before the step `end` must be kept for it or a later one. What is read
    /// from memory is read again instead.
    fn is_kept(&self, value: Value, end: usize) -> bool {
        !self.graph.node(value).is_load() && self.last.get(&value).is_some_and(|&last| last >= end)
    }

    /// Where to cut next: of the longer half of the possible lengths, the one that keeps the fewest words.
    fn best_cut(&self, start: usize, limit: usize) -> usize {
        let steps = self.live.len() - 1;
        if limit >= steps - start {
            return steps;
        }
        (start + limit / 2 + 1..=start + limit).rev().min_by_key(|&end| self.live[end]).unwrap_or(steps)
    }
}

/// The scratch columns in use.
#[derive(Default)]
struct Columns {
    /// The first column of a kept value. Ordered, so that columns are given back in one order.
    of: BTreeMap<Value, usize>,
    /// Free columns in groups, by their number.
    free: BTreeMap<usize, Vec<usize>>,
    count: usize,
}

impl Columns {
    fn take(&mut self, value: Value, words: usize) -> usize {
        let column = self.free.get_mut(&words).and_then(Vec::pop).unwrap_or_else(|| {
            self.count += words;
            self.count - words
        });
        self.of.insert(value, column);
        column
    }

    fn give_back<E: Element>(&mut self, graph: &Graph<E>, done: impl Fn(Value) -> bool) {
        let free = &mut self.free;
        self.of.retain(|&value, &mut column| {
            if done(value) {
                free.entry(graph.words(value)).or_default().push(column);
            }
            !done(value)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rigel_kernels::field::KoalaBear4;

    /// Every value is there before it is used, in every kernel, and a scratch column holds what is read from it.
    fn check(graph: &Graph<KoalaBear4>, outputs: &[Output], nodes: usize) -> Plan {
        let plan = Plan::new(graph, outputs, Split { nodes });
        let mut emitted = vec![0; outputs.len()];
        let mut scratch = HashMap::new();
        for kernel in &plan.kernels {
            let mut known = HashSet::new();
            let mut recalled = HashSet::new();
            for step in kernel {
                match *step {
                    Step::Compute(value) => {
                        assert!(graph.operands(value).all(|operand| known.contains(&operand)));
                        assert!(known.insert(value), "computed twice");
                    }
                    Step::Recall(value, column) => {
                        for word in 0..graph.words(value) {
                            assert_eq!(scratch[&(column + word)], (value, word));
                            recalled.insert(column + word);
                        }
                        assert!(known.insert(value), "read twice");
                    }
                    Step::Keep(value, column) => {
                        assert!(known.contains(&value));
                        for word in 0..graph.words(value) {
                            assert!(column + word < plan.scratch_columns);
                            assert!(!recalled.contains(&(column + word)));
                            scratch.insert(column + word, (value, word));
                        }
                    }
                    Step::Emit(index) => {
                        let value = outputs[index].value();
                        assert!(!graph.is_computed(value) || known.contains(&value));
                        emitted[index] += 1;
                    }
                }
            }
        }
        assert!(emitted.iter().all(|&times| times == 1));
        plan
    }

    fn chain(graph: &mut Graph<KoalaBear4>, links: usize) -> Value {
        let mut value = graph.column(0, 0, 0);
        for link in 0..links {
            let other = graph.column(0, link % 7 + 1, 0);
            value = if link % 2 == 0 { graph.mul(value, other) } else { graph.add(value, other) };
        }
        value
    }

    #[test]
    fn a_long_chain_is_cut_where_one_value_is_live() {
        let mut graph = Graph::new();
        let value = chain(&mut graph, 100_000);
        let outputs = [Output::Fold { value, weight: 0 }];
        let plan = check(&graph, &outputs, 500);
        assert!((200..=450).contains(&plan.kernels.len()), "{} kernels", plan.kernels.len());
        assert_eq!(plan.scratch_columns, 2);
        assert_eq!(check(&graph, &outputs, usize::MAX).kernels.len(), 1);
    }

    #[test]
    fn outputs_share_kernels_up_to_the_limit() {
        let mut graph = Graph::new();
        let outputs: Vec<Output> = (0..100)
            .map(|i| {
                let (a, b) = (graph.column(0, 2 * i, 0), graph.column(0, 2 * i + 1, 0));
                Output::Fold { value: graph.mul(a, b), weight: i }
            })
            .collect();
        assert_eq!(check(&graph, &outputs, 300).kernels.len(), 1);
        assert_eq!(check(&graph, &outputs, 30).kernels.len(), 10);
        // Larger than the limit, but not twice: not cut.
        assert_eq!(check(&graph, &outputs, 2).kernels.len(), 100);
        let plan = check(&graph, &outputs, 1);
        assert!(plan.kernels.len() > 100 && plan.scratch_columns > 0);
    }

    #[test]
    fn wide_graphs_are_cut_at_any_size() {
        let mut graph = Graph::new();
        let mut level: Vec<Value> = (0..64).map(|column| graph.column(0, column, 0)).collect();
        let mut all = level.clone();
        for (round, shift) in [1, 7, 3, 11, 5].into_iter().enumerate() {
            let gamma = graph.extension_parameter(round);
            level = (0..64)
                .map(|i| {
                    let product = graph.mul(level[i], level[(i + shift) % 64]);
                    if i % 5 == 0 { graph.mul(product, gamma) } else { product }
                })
                .collect();
            all.extend(&level);
        }
        let outputs: Vec<Output> =
            all.iter().rev().step_by(9).map(|&value| Output::Fold { value, weight: 0 }).collect();
        for nodes in [0, 1, 2, 3, 10, 37, 100, 1_000] {
            check(&graph, &outputs, nodes);
        }
    }

    #[test]
    fn constants_need_no_steps() {
        let mut graph = Graph::new();
        let value = graph.constant(rigel_kernels::field::Field::from_u64(3));
        let plan = check(&graph, &[Output::Store { value, output: 0, column: 0 }], 1);
        assert_eq!(plan.kernels, [vec![Step::Emit(0)]]);
        assert!(Plan::new(&graph, &[], Split::default()).kernels.is_empty());
    }
}
