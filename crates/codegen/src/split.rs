//! The division of a graph's values among kernels.
//!
//! An output that depends on few values (no more than half of [`Split::nodes`], constants not counted) shares a kernel
//! with the outputs that it has most in common with, as long as all that they depend on stays within the limit. What
//! kernels have in common, each computes.
//!
//! Outputs that depend on more, such as the rounds of a permutation, one built on the other, would be computed over and
//! over. They are computed together, each value once, and cut: the values in the order in which they are computed
//! become several kernels, and what is live across a cut goes through scratch columns.

use std::collections::{BTreeMap, HashMap, HashSet};

use rigel_gpu::{Device, DeviceKind};
use rigel_kernels::field::Element;

use crate::graph::{ExpressionGraph, Value};
use crate::output::Output;

/// The bound of a kernel's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The values that a kernel computes or reads, about; 0 counts as 1.
    ///
    /// Larger kernels compute less twice, but need more registers, and a compiler's time grows faster than they
    /// do. On a GPU sizes from 100 to 1,000 hardly differ; at 2,000 registers spill.
    pub nodes: usize,
}

impl Default for Split {
    fn default() -> Self {
        Self { nodes: 500 }
    }
}

impl Split {
    /// The bound that suits a device: 500 on a GPU, and 2,000 on the emulated device, which has no registers to
    /// save, and whose compiler takes about as long for the headers as for 500 values.
    pub fn of(device: &Device) -> Self {
        match device.kind() {
            DeviceKind::Emulated => Self { nodes: 2_000 },
            _ => Self::default(),
        }
    }
}

/// A step of a kernel; the steps are executed in order.
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
    pub(crate) fn new<E: Element>(graph: &ExpressionGraph<E>, outputs: &[Output], split: Split) -> Self {
        let limit = split.nodes.max(1);
        let mut plan = Self::default();
        let Groups { groups, large } = Groups::new(graph, outputs, limit);
        plan.kernels.extend(groups.into_iter().map(|group| in_order(graph, outputs, group)));
        plan.cut(graph, outputs, in_order(graph, outputs, large), limit);
        plan
    }

    /// Adds a list of steps that is too long for one kernel.
    fn cut<E: Element>(&mut self, graph: &ExpressionGraph<E>, outputs: &[Output], steps: Vec<Step>, limit: usize) {
        let uses = Uses::new(graph, outputs, &steps);
        let mut columns = Columns::default();
        let mut start = 0;
        while start < steps.len() {
            let end = uses.best_cut(start, limit);
            let mut kernel = Vec::new();
            let mut here = HashSet::new();
            // What is read from memory is read where it is first used.
            let is_load = |step: &Step| matches!(*step, Step::Compute(value) if graph.node(value).is_load());
            for step in steps[start..end].iter().filter(|step| !is_load(step)) {
                let missing = uses.of(step).into_iter().filter(|&value| here.insert(value));
                kernel.extend(missing.map(|value| match columns.of.get(&value) {
                    Some(&column) => Step::Recall(value, column),
                    None => Step::Compute(value),
                }));
                kernel.push(step.clone());
                if let Step::Compute(value) = *step {
                    here.insert(value);
                    if uses.is_kept(value, end) {
                        kernel.push(Step::Keep(value, columns.take(value, graph.words(value))));
                    }
                }
            }
            if !kernel.is_empty() {
                self.kernels.push(kernel);
            }
            // Only now: a column that this kernel reads must not be written by it.
            columns.give_back(graph, |value| !uses.is_kept(value, end));
            start = end;
        }
        self.scratch_columns = self.scratch_columns.max(columns.count);
    }
}

/// All values that some outputs need, each once and after what it is computed from, and each output after its value.
pub(crate) fn in_order<E: Element>(
    graph: &ExpressionGraph<E>,
    outputs: &[Output],
    chosen: impl IntoIterator<Item = usize>,
) -> Vec<Step> {
    let mut walk = Walk::new(graph);
    for index in chosen {
        walk.visit(outputs[index].value());
        walk.steps.push(Step::Emit(index));
    }
    walk.steps
}

/// Outputs that share a kernel, and those that depend on too much for that.
struct Groups {
    groups: Vec<Vec<usize>>,
    large: Vec<usize>,
}

impl Groups {
    /// A value that more outputs than this depend on says little about which belong together.
    const MOST_USERS: usize = 64;

    fn new<E: Element>(graph: &ExpressionGraph<E>, outputs: &[Output], limit: usize) -> Self {
        let mut large = Vec::new();
        // What each small output depends on, and the small outputs that depend on each value.
        let mut cones: Vec<Option<Vec<Value>>> = vec![None; outputs.len()];
        let mut users: Vec<Vec<u32>> = vec![Vec::new(); graph.len()];
        let mut walk = Walk::new(graph);
        for (index, output) in outputs.iter().enumerate() {
            walk.clear();
            if !walk.visit_at_most(output.value(), (limit / 2).max(1)) {
                large.push(index);
                continue;
            }
            let cone: Vec<Value> = walk.values().collect();
            for value in &cone {
                let users = &mut users[value.index()];
                if users.len() <= Self::MOST_USERS {
                    users.push(index as u32);
                }
            }
            cones[index] = Some(cone);
        }

        let mut groups = Vec::new();
        let mut next = 0;
        // How much of what an output depends on the group has, and in which group that was counted.
        let mut shared = vec![(0u32, 0u32); outputs.len()];
        let mut inside = vec![0u32; graph.len()];
        while let Some(first) = (next..outputs.len()).find(|&index| cones[index].is_some()) {
            next = first + 1;
            let number = groups.len() as u32 + 1;
            let (mut group, mut size) = (Vec::new(), 0);
            let mut near: Vec<u32> = Vec::new();
            let mut joining = Some(first);
            while let Some(index) = joining {
                let cone = cones[index].take().expect("not yet in a group");
                for value in cone {
                    if std::mem::replace(&mut inside[value.index()], number) == number {
                        continue;
                    }
                    size += 1;
                    let users = &users[value.index()];
                    for &user in users.iter().filter(|_| users.len() <= Self::MOST_USERS) {
                        let (count, counted_in) = &mut shared[user as usize];
                        if std::mem::replace(counted_in, number) != number {
                            *count = 0;
                            near.push(user);
                        }
                        *count += 1;
                    }
                }
                group.push(index);
                near.retain(|&user| cones[user as usize].is_some());
                joining = Self::nearest(&near, &cones, &shared, limit - size.min(limit)).or_else(|| {
                    let in_order = (next..outputs.len()).find(|&index| cones[index].is_some())?;
                    let fits = cones[in_order].as_ref().is_some_and(|cone| size + cone.len() <= limit);
                    fits.then_some(in_order)
                });
            }
            groups.push(group);
        }
        Self { groups, large }
    }

    /// The output of which the group has the largest part, of those that fit in the room left.
    fn nearest(near: &[u32], cones: &[Option<Vec<Value>>], shared: &[(u32, u32)], room: usize) -> Option<usize> {
        let part = |&user: &u32| {
            let cone = cones[user as usize].as_ref()?.len();
            let count = shared[user as usize].0 as usize;
            (cone - count <= room).then_some(((count << 16) / cone.max(1), std::cmp::Reverse(user)))
        };
        near.iter().filter_map(part).max().map(|(_, std::cmp::Reverse(user))| user as usize)
    }
}

/// A depth-first walk that lists each value after what it is computed from.
struct Walk<'a, E: Element> {
    graph: &'a ExpressionGraph<E>,
    steps: Vec<Step>,
    /// The round in which each value was seen; [`Self::clear`] begins a new one.
    seen: Vec<u32>,
    round: u32,
}

impl<'a, E: Element> Walk<'a, E> {
    fn new(graph: &'a ExpressionGraph<E>) -> Self {
        Self { graph, steps: Vec::new(), seen: vec![0; graph.len()], round: 1 }
    }

    fn clear(&mut self) {
        self.steps.clear();
        self.round += 1;
    }

    /// The values listed.
    fn values(&self) -> impl Iterator<Item = Value> {
        self.steps.iter().filter_map(|step| match *step {
            Step::Compute(value) => Some(value),
            _ => None,
        })
    }

    /// Lists what is missing for a value.
    fn visit(&mut self, value: Value) {
        self.visit_at_most(value, usize::MAX);
    }

    /// Lists what is missing for a value, or gives up once more than `limit` values are listed.
    fn visit_at_most(&mut self, value: Value, limit: usize) -> bool {
        if !self.graph.is_computed(value) {
            return true;
        }
        let mut begun = 0;
        let mut stack = vec![(value, false)];
        while let Some((value, operands_done)) = stack.pop() {
            if operands_done {
                self.steps.push(Step::Compute(value));
                continue;
            }
            if std::mem::replace(&mut self.seen[value.index()], self.round) == self.round {
                continue;
            }
            begun += 1;
            if begun > limit {
                return false;
            }
            stack.push((value, true));
            let operands = self.graph.operands(value);
            let first = stack.len();
            stack.extend(operands.map(|operand| (operand, false)));
            stack[first..].reverse();
        }
        true
    }
}

/// The uses of the values of a list of steps.
struct Uses<'a, E: Element> {
    graph: &'a ExpressionGraph<E>,
    outputs: &'a [Output],
    /// The last step that uses a value.
    last: HashMap<Value, usize>,
    /// The words that must be kept if the list is cut before a step.
    live: Vec<usize>,
}

impl<'a, E: Element> Uses<'a, E> {
    fn new(graph: &'a ExpressionGraph<E>, outputs: &'a [Output], steps: &[Step]) -> Self {
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

    /// The end of the next kernel: of the longer half of the possible lengths, the one that keeps the fewest
    /// words.
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

    fn give_back<E: Element>(&mut self, graph: &ExpressionGraph<E>, done: impl Fn(Value) -> bool) {
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

    /// Every value is there before it is used, in every kernel, and a scratch column holds what is read from
    /// it.
    fn check(graph: &ExpressionGraph<KoalaBear4>, outputs: &[Output], nodes: usize) -> Plan {
        let plan = Plan::new(graph, outputs, Split { nodes });
        let mut emitted = vec![0; outputs.len()];
        let mut scratch = HashMap::new();
        for kernel in &plan.kernels {
            let mut known = HashSet::new();
            let mut recalled = HashSet::new();
            let mut unused = HashSet::new();
            for step in kernel {
                match *step {
                    Step::Compute(value) => {
                        unused.insert(value);
                        graph.operands(value).for_each(|operand| {
                            unused.remove(&operand);
                        });
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
                        unused.remove(&value);
                        for word in 0..graph.words(value) {
                            assert!(column + word < plan.scratch_columns);
                            assert!(!recalled.contains(&(column + word)));
                            scratch.insert(column + word, (value, word));
                        }
                    }
                    Step::Emit(index) => {
                        let value = outputs[index].value();
                        assert!(!graph.is_computed(value) || known.contains(&value));
                        unused.remove(&value);
                        emitted[index] += 1;
                    }
                }
            }
            assert!(unused.is_empty(), "computed for nothing");
        }
        assert!(emitted.iter().all(|&times| times == 1));
        plan
    }

    fn chain(graph: &mut ExpressionGraph<KoalaBear4>, links: usize) -> Value {
        let mut value = graph.column(0, 0, 0);
        for link in 0..links {
            let other = graph.column(0, link % 7 + 1, 0);
            value = if link % 2 == 0 { graph.mul(value, other) } else { graph.add(value, other) };
        }
        value
    }

    #[test]
    fn a_long_chain_is_cut_where_one_value_is_live() {
        let mut graph = ExpressionGraph::new();
        let value = chain(&mut graph, 100_000);
        let outputs = [Output::Fold { value, weight: 0 }];
        let plan = check(&graph, &outputs, 500);
        assert!((200..=450).contains(&plan.kernels.len()), "{} kernels", plan.kernels.len());
        assert_eq!(plan.scratch_columns, 2);
        assert_eq!(check(&graph, &outputs, usize::MAX).kernels.len(), 1);
    }

    #[test]
    fn outputs_share_kernels_up_to_the_limit() {
        let mut graph = ExpressionGraph::new();
        let outputs: Vec<Output> = (0..100)
            .map(|i| {
                let (a, b) = (graph.column(0, 2 * i, 0), graph.column(0, 2 * i + 1, 0));
                Output::Fold { value: graph.mul(a, b), weight: i }
            })
            .collect();
        assert_eq!(check(&graph, &outputs, 300).kernels.len(), 1);
        assert_eq!(check(&graph, &outputs, 30).kernels.len(), 10);
        assert_eq!(check(&graph, &outputs, 6).kernels.len(), 50);
        let plan = check(&graph, &outputs, 1);
        assert!(plan.kernels.len() >= 100 && plan.scratch_columns > 0);
    }

    /// Outputs that read the same columns share a kernel, however far apart they are.
    #[test]
    fn outputs_join_those_they_have_most_in_common_with() {
        let mut graph = ExpressionGraph::new();
        let mut product = |i: usize, j: usize| {
            let (a, b) = (graph.column(0, 10 * i + j, 0), graph.column(0, 10 * i + (j + 1) % 10, 0));
            graph.mul(a, b)
        };
        let values: Vec<Value> =
            (0..10).flat_map(|j| (0..10).map(move |i| (i, j))).map(|(i, j)| product(i, j)).collect();
        let outputs: Vec<Output> = values.iter().map(|&value| Output::Fold { value, weight: 0 }).collect();
        let plan = check(&graph, &outputs, 20);
        let computed = plan.kernels.iter().flatten().filter(|step| matches!(step, Step::Compute(_))).count();
        assert_eq!((plan.kernels.len(), computed), (10, 200));
    }

    /// Values built one on the other are computed once.
    #[test]
    fn outputs_along_a_chain_are_cut() {
        let mut graph = ExpressionGraph::new();
        let mut value = graph.column(0, 0, 0);
        let mut outputs = Vec::new();
        for link in 1..2_000 {
            let other = graph.column(0, link % 7, 0);
            let product = graph.mul(value, other);
            value = graph.add(product, other);
            outputs.push(Output::Fold { value, weight: link });
        }
        let plan = check(&graph, &outputs, 200);
        let computed = plan.kernels.iter().flatten().filter(|step| matches!(step, Step::Compute(_))).count();
        assert!(computed < 5_000, "{computed} values computed for {}", graph.len());
    }

    #[test]
    fn wide_graphs_are_cut_at_any_size() {
        let mut graph = ExpressionGraph::new();
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
        let mut graph = ExpressionGraph::new();
        let value = graph.constant(rigel_kernels::field::Field::from_u64(3));
        let plan = check(&graph, &[Output::Store { value, output: 0, column: 0 }], 1);
        assert_eq!(plan.kernels, [vec![Step::Emit(0)]]);
        assert!(Plan::new(&graph, &[], Split::default()).kernels.is_empty());
    }
}
