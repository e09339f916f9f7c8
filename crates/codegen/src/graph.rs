//! Expressions over a field and its extension, each distinct value once.

use std::hash::{Hash, Hasher};

use rigel_kernels::field::{Element, Field, Ring};

use crate::quick::QuickMap;

mod parts;

pub use parts::ColumnsRead;

/// A value of an [`ExpressionGraph`]: one number for each row, in the base field or in the extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(u32);

impl Value {
    /// The value's index among the graph's values.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The field that a value lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldKind {
    /// The base field F.
    Base,
    /// The extension E.
    Extension,
}

/// The definition of a value: a constant, a load, or an operation on other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// An index into the graph's constants.
    Constant(usize),
    Column {
        input: usize,
        column: usize,
        offset: i32,
    },
    ExtensionColumn {
        input: usize,
        first_column: usize,
        offset: i32,
    },
    Parameter(usize),
    ExtensionParameter(usize),
    Add(Value, Value),
    Sub(Value, Value),
    Mul(Value, Value),
    Neg(Value),
}

impl Node {
    /// The values that the node is computed from.
    pub(crate) fn operands(self) -> impl Iterator<Item = Value> {
        let (a, b) = match self {
            Self::Add(a, b) | Self::Sub(a, b) | Self::Mul(a, b) => (Some(a), Some(b)),
            Self::Neg(a) => (Some(a), None),
            _ => (None, None),
        };
        a.into_iter().chain(b)
    }

    /// Whether it is read from memory.
    pub(crate) fn is_load(self) -> bool {
        !matches!(self, Self::Constant(_)) && self.operands().next().is_none()
    }
}

/// The most coefficients of an extension.
const MOST_PARTS: usize = 8;

#[derive(Clone, Copy)]
struct Entry {
    node: Node,
    kind: FieldKind,
    /// Words that are live at most while it is computed, if nothing were shared (Sethi and Ullman's number).
    need: u32,
    /// The longest path down to a leaf.
    height: u32,
    /// Whether its second operand is better computed first.
    second_first: bool,
}

/// Expressions over a base field F = `E::Base` and its extension E, as an acyclic graph in which each distinct
/// value is one node.
///
/// Every constructor looks whether the value is there already (operands of + and * in either order), computes
/// with constants at once, and applies
/// `x + 0 = x - 0 = x * 1 = x`, `0 - x = x * (-1) = -x`, `x * 0 = x - x = 0`, `-(-x) = x`, `-(x - y) = y - x`,
/// `x + (-y) = x - y`, `x - (-y) = x + y`, and writes `x - c` as `x + (-c)` for a constant c.
/// Operands of different kinds may be mixed: base with extension gives extension, at the price of the mixed
/// operation.
///
/// The same calls in the same order give the same values, and kernels with the same text.
///
/// ```
/// use rigel_codegen::{ExpressionGraph, FieldKind};
/// use rigel_kernels::field::{Field, KoalaBear, KoalaBear4};
///
/// let mut graph = ExpressionGraph::<KoalaBear4>::new();
/// let x = graph.column(0, 3, 0);
/// let next = graph.column(0, 3, 1);
/// let gamma = graph.extension_parameter(0);
/// let one = graph.constant(KoalaBear::from_u64(1));
///
/// let step = graph.sub(next, x);
/// assert_eq!(graph.kind(step), FieldKind::Base);
/// let scaled = graph.mul(step, gamma);
/// assert_eq!(graph.kind(scaled), FieldKind::Extension);
/// assert_eq!(graph.mul(gamma, step), scaled);
/// assert_eq!(graph.mul(scaled, one), scaled);
/// ```
///
/// # Panics
/// Its methods panic if they are given a value that another graph, with more values, has made.
#[derive(Clone)]
pub struct ExpressionGraph<E: Element> {
    entries: Vec<Entry>,
    constants: Vec<E>,
    numbers: QuickMap<Node, Value>,
    constant_numbers: QuickMap<[u64; MOST_PARTS], Value>,
}

/// Graphs are equal if they have the same values under the same numbers.
impl<E: Element> PartialEq for ExpressionGraph<E> {
    fn eq(&self, other: &Self) -> bool {
        let nodes = self.entries.iter().map(|entry| entry.node);
        self.len() == other.len()
            && self.constants == other.constants
            && nodes.eq(other.entries.iter().map(|entry| entry.node))
    }
}

impl<E: Element> Eq for ExpressionGraph<E> {}

impl<E: Element> Hash for ExpressionGraph<E> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.entries.iter().for_each(|entry| entry.node.hash(hasher));
        self.constants.iter().flat_map(Element::parts).for_each(|part| part.to_u64().hash(hasher));
    }
}

impl<E: Element> Default for ExpressionGraph<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Element> ExpressionGraph<E> {
    /// A graph without values.
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            constants: Vec::new(),
            numbers: QuickMap::default(),
            constant_numbers: QuickMap::default(),
        }
    }

    /// The number of values, constants and loads among them.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The field that a value lies in.
    pub fn kind(&self, value: Value) -> FieldKind {
        self.entries[value.0 as usize].kind
    }

    /// The constant that a value is, if it is one.
    pub fn as_constant(&self, value: Value) -> Option<E> {
        match self.node(value) {
            Node::Constant(index) => Some(self.constants[index]),
            _ => None,
        }
    }

    /// The matrix, column and offset of a value that reads a column of the base field.
    pub fn as_column(&self, value: Value) -> Option<(usize, usize, i32)> {
        match self.node(value) {
            Node::Column { input, column, offset } => Some((input, column, offset)),
            _ => None,
        }
    }

    // --- leaves -------------------------------------------------------------------------------------------

    /// The constant c of the base field.
    pub fn constant(&mut self, c: E::Base) -> Value {
        self.extension_constant(embed(c))
    }

    /// The constant c of the extension. If its upper coefficients are zero, it is a constant of the base field.
    pub fn extension_constant(&mut self, c: E) -> Value {
        let mut key = [0; MOST_PARTS];
        key.iter_mut().zip(c.parts()).for_each(|(word, part)| *word = part.to_u64());
        if let Some(&known) = self.constant_numbers.get(&key) {
            return known;
        }
        let kind = if key[1..].iter().all(|&part| part == 0) { FieldKind::Base } else { FieldKind::Extension };
        self.constants.push(c);
        let value = self.push(Node::Constant(self.constants.len() - 1), kind);
        self.constant_numbers.insert(key, value);
        value
    }

    /// The value of a column of the matrix `input`, `offset` rows further (see [`Rows`](crate::Rows)).
    pub fn column(&mut self, input: usize, column: usize, offset: i32) -> Value {
        self.number(Node::Column { input, column, offset }, FieldKind::Base)
    }

    /// The extension's value in the `DEGREE` neighbouring columns of the matrix `input` from `first_column` on,
    /// lowest coefficient first, `offset` rows further.
    pub fn extension_column(&mut self, input: usize, first_column: usize, offset: i32) -> Value {
        if E::DEGREE == 1 {
            return self.column(input, first_column, offset);
        }
        self.number(Node::ExtensionColumn { input, first_column, offset }, FieldKind::Extension)
    }

    /// The base parameter with this index: the same for all rows, and known only at the launch.
    pub fn parameter(&mut self, index: usize) -> Value {
        self.number(Node::Parameter(index), FieldKind::Base)
    }

    /// The extension parameter with this index.
    pub fn extension_parameter(&mut self, index: usize) -> Value {
        self.number(Node::ExtensionParameter(index), Self::EXTENSION)
    }

    // --- arithmetic ---------------------------------------------------------------------------------------

    /// a + b.
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        match (self.as_constant(a), self.as_constant(b)) {
            (Some(x), Some(y)) => return self.extension_constant(x + y),
            (Some(zero), _) if zero == E::ZERO => return b,
            (_, Some(zero)) if zero == E::ZERO => return a,
            _ => {}
        }
        match (self.node(a), self.node(b)) {
            (_, Node::Neg(y)) => self.sub(a, y),
            (Node::Neg(x), _) => self.sub(b, x),
            _ => self.number(Node::Add(a.min(b), a.max(b)), self.joint(a, b)),
        }
    }

    /// a - b.
    pub fn sub(&mut self, a: Value, b: Value) -> Value {
        if a == b {
            return self.extension_constant(E::ZERO);
        }
        match (self.as_constant(a), self.as_constant(b)) {
            (Some(x), Some(y)) => return self.extension_constant(x - y),
            (Some(zero), _) if zero == E::ZERO => return self.neg(b),
            (_, Some(y)) => {
                let negative = self.extension_constant(-y);
                return self.add(a, negative);
            }
            _ => {}
        }
        match self.node(b) {
            Node::Neg(y) => self.add(a, y),
            _ => self.number(Node::Sub(a, b), self.joint(a, b)),
        }
    }

    /// a b.
    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        let (x, y) = (self.as_constant(a), self.as_constant(b));
        if let (Some(x), Some(y)) = (x, y) {
            return self.extension_constant(x * y);
        }
        for (factor, other) in [(x, b), (y, a)] {
            match factor {
                Some(zero) if zero == E::ZERO => return self.extension_constant(E::ZERO),
                Some(one) if one == E::ONE => return other,
                Some(minus_one) if minus_one == -E::ONE => return self.neg(other),
                _ => {}
            }
        }
        self.number(Node::Mul(a.min(b), a.max(b)), self.joint(a, b))
    }

    /// -a.
    pub fn neg(&mut self, a: Value) -> Value {
        if let Some(x) = self.as_constant(a) {
            return self.extension_constant(-x);
        }
        match self.node(a) {
            Node::Neg(x) => x,
            Node::Sub(x, y) => self.sub(y, x),
            Node::Add(x, y) if self.as_constant(x).is_some() => {
                let negative = self.neg(x);
                self.sub(negative, y)
            }
            Node::Add(x, y) if self.as_constant(y).is_some() => {
                let negative = self.neg(y);
                self.sub(negative, x)
            }
            _ => self.number(Node::Neg(a), self.kind(a)),
        }
    }

    // --- inside -------------------------------------------------------------------------------------------

    /// An extension of degree 1 is its base field.
    const EXTENSION: FieldKind = if E::DEGREE == 1 { FieldKind::Base } else { FieldKind::Extension };

    pub(crate) fn node(&self, value: Value) -> Node {
        self.entries[value.0 as usize].node
    }

    /// Whether a value is one of this graph's.
    pub(crate) fn contains(&self, value: Value) -> bool {
        (value.0 as usize) < self.entries.len()
    }

    /// Whether a value takes an instruction: all but constants do.
    pub(crate) fn is_computed(&self, value: Value) -> bool {
        !matches!(self.node(value), Node::Constant(_))
    }

    /// The base elements of a value.
    pub(crate) fn words(&self, value: Value) -> usize {
        match self.kind(value) {
            FieldKind::Base => 1,
            FieldKind::Extension => E::DEGREE,
        }
    }

    /// The values that a value is computed from, constants left out, in the order that keeps fewer words live.
    pub(crate) fn operands(&self, value: Value) -> impl Iterator<Item = Value> {
        let entry = &self.entries[value.0 as usize];
        let mut operands = entry.node.operands();
        let (mut first, mut second) = (operands.next(), operands.next());
        if entry.second_first {
            std::mem::swap(&mut first, &mut second);
        }
        first.into_iter().chain(second).filter(|&operand| self.is_computed(operand))
    }

    fn joint(&self, a: Value, b: Value) -> FieldKind {
        self.kind(a).max(self.kind(b))
    }

    fn number(&mut self, node: Node, kind: FieldKind) -> Value {
        if let Some(&known) = self.numbers.get(&node) {
            return known;
        }
        let value = self.push(node, kind);
        self.numbers.insert(node, value);
        value
    }

    fn push(&mut self, node: Node, kind: FieldKind) -> Value {
        let value = Value(u32::try_from(self.entries.len()).expect("fewer than 2^32 values"));
        let words = if kind == FieldKind::Base { 1 } else { E::DEGREE as u32 };
        let mut entry = Entry { node, kind, need: words, height: 0, second_first: false };
        // Of a constant nothing is live.
        let costs = |operand: Value| {
            let entry = &self.entries[operand.0 as usize];
            match entry.node {
                Node::Constant(_) => (0, 0, 0),
                _ => (entry.need, self.words(operand) as u32, entry.height + 1),
            }
        };
        let mut operands = node.operands().map(costs);
        if let Some((need_a, words_a, height_a)) = operands.next() {
            let (need_b, words_b, height_b) = operands.next().unwrap_or((0, 0, 0));
            let (a_first, b_first) = (need_a.max(words_a + need_b), need_b.max(words_b + need_a));
            entry.second_first = (b_first, height_a) < (a_first, height_b);
            entry.need = words.max(a_first.min(b_first));
            entry.height = height_a.max(height_b);
        }
        self.entries.push(entry);
        value
    }
}

impl<E: Element> std::fmt::Debug for ExpressionGraph<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExpressionGraph<{}>({} values)", E::NAME, self.len())
    }
}

/// The element c + 0 X + 0 X^2 + ...
fn embed<E: Element>(c: E::Base) -> E {
    let mut parts = [E::Base::ZERO; MOST_PARTS];
    parts[0] = c;
    E::from_parts(&parts[..E::DEGREE]).expect("as many parts as the degree")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use rigel_kernels::field::{Goldilocks, Goldilocks2, KoalaBear, KoalaBear4};

    fn koala(x: u64) -> KoalaBear {
        KoalaBear::from_u64(x)
    }

    #[test]
    fn equal_values_are_one() {
        let mut g = ExpressionGraph::<KoalaBear4>::new();
        let (x, y) = (g.column(0, 0, 0), g.column(0, 1, 0));
        assert_eq!(g.column(0, 0, 0), x);
        assert_ne!(g.column(0, 0, 1), x);
        assert_ne!(g.column(1, 0, 0), x);
        assert_eq!(g.add(x, y), g.add(y, x));
        assert_eq!(g.mul(x, y), g.mul(y, x));
        assert_ne!(g.sub(x, y), g.sub(y, x));
        assert_ne!(g.parameter(0), g.extension_parameter(0));
        let before = g.len();
        g.add(y, x);
        assert_eq!(g.len(), before);
    }

    #[test]
    fn a_part_has_its_columns_numbered_anew() {
        let mut g = ExpressionGraph::<KoalaBear4>::new();
        let (a, b, c) = (g.column(0, 7, 0), g.column(0, 3, 1), g.column(1, 7, 0));
        let (sum, product) = (g.add(a, c), g.mul(a, b));
        let difference = g.sub(product, sum);
        assert_eq!(g.columns_of(sum, 0), BTreeSet::from([7]));
        assert_eq!(g.columns_of(difference, 0), BTreeSet::from([3, 7]));
        let (mut part, places) = g.with_columns(&[difference, sum], 0, &[3, 7]);
        let (a, b, c) = (part.column(0, 1, 0), part.column(0, 0, 1), part.column(1, 7, 0));
        let (sum, product) = (part.add(a, c), part.mul(a, b));
        assert_eq!(places, [part.sub(product, sum), sum]);
        assert_eq!(part.len(), g.len());
    }

    #[test]
    fn wide_sums_are_taken_apart() {
        let mut g = ExpressionGraph::<KoalaBear4>::new();
        let [a, b, c, d, s] = [0, 1, 2, 3, 9].map(|column| g.column(usize::from(column == 9), column, 0));
        let (pair, product) = (g.add(a, b), g.mul(a, c));
        let (sum, wide_product) = (g.add(pair, c), g.mul(pair, product));
        let (all, difference) = (g.sub(sum, d), g.sub(d, wide_product));
        let (selected, opposite) = (g.mul(all, s), g.neg(all));
        let narrow = |g: &ExpressionGraph<KoalaBear4>, value| g.columns_of(value, 0).len() <= 2;
        let addends = |g: &mut ExpressionGraph<KoalaBear4>, value| BTreeSet::from_iter(g.addends(value, narrow));
        // s (a + b + c - d)
        let minus_s = g.neg(s);
        let expected = [(s, pair), (s, c), (minus_s, d)].map(|(factor, value)| g.mul(factor, value));
        assert_eq!(addends(&mut g, selected), BTreeSet::from(expected));
        let expected = [g.neg(pair), g.neg(c), d];
        assert_eq!(addends(&mut g, opposite), BTreeSet::from(expected));
        assert_eq!(g.addends(pair, narrow), [pair]);
        // A product of two narrow factors is one addend, and one of two wide ones, too.
        let minus_pair = g.neg(pair);
        let expected = [d, g.mul(minus_pair, product)];
        assert_eq!(addends(&mut g, difference), BTreeSet::from(expected));
        assert_eq!(g.addends(wide_product, |g, value| g.columns_of(value, 0).len() <= 1), [wide_product]);
        // What is there twice is counted, not taken apart twice.
        let mut doubled = all;
        for _ in 0..60 {
            doubled = g.add(doubled, doubled);
        }
        let power = (0..60).fold(koala(1), |power, _| power + power);
        let (times, minus) = (g.constant(power), g.constant(-power));
        let expected = [(times, pair), (times, c), (minus, d)].map(|(factor, value)| g.mul(factor, value));
        assert_eq!(addends(&mut g, doubled), BTreeSet::from(expected));
    }

    #[test]
    fn next_rows_are_read_from_another_matrix() {
        let mut g = ExpressionGraph::<KoalaBear4>::new();
        let (a, b, c) = (g.column(0, 7, 0), g.column(0, 7, 1), g.column(1, 7, 1));
        let product = g.mul(a, b);
        let difference = g.sub(product, c);
        let (mut part, places) = g.with_next(&[difference], 0, 5);
        let (a, b, c) = (part.column(0, 7, 0), part.column(5, 7, 0), part.column(1, 7, 1));
        let product = part.mul(a, b);
        assert_eq!(places, [part.sub(product, c)]);
        assert_eq!(part.len(), g.len());
    }

    #[test]
    fn constants_are_folded() {
        let mut g = ExpressionGraph::<KoalaBear4>::new();
        let (a, b) = (g.constant(koala(5)), g.constant(koala(7)));
        for (value, expected) in
            [(g.add(a, b), koala(12)), (g.sub(a, b), -koala(2)), (g.mul(a, b), koala(35)), (g.neg(a), -koala(5))]
        {
            assert_eq!(g.as_constant(value).unwrap(), embed::<KoalaBear4>(expected));
            assert_eq!(g.constant(expected), value);
        }
    }

    #[test]
    fn an_extension_constant_with_upper_zeros_is_base() {
        let mut g = ExpressionGraph::<KoalaBear4>::new();
        let five = g.constant(koala(5));
        assert_eq!(g.extension_constant(embed(koala(5))), five);
        let i = KoalaBear4::from_parts(&[koala(0), koala(0), koala(1), koala(0)]).unwrap();
        let i = g.extension_constant(i);
        assert_eq!(g.kind(i), FieldKind::Extension);
        let square = g.mul(i, i);
        assert_eq!((g.kind(square), g.constant(koala(3))), (FieldKind::Base, square));
    }

    #[test]
    fn classes_not_words_are_compared() {
        let mut g = ExpressionGraph::<Goldilocks2>::new();
        assert_eq!(g.constant(Goldilocks::new(1)), g.constant(Goldilocks::new(Goldilocks::ORDER + 1)));
    }

    #[test]
    fn identities_hold() {
        let mut g = ExpressionGraph::<KoalaBear4>::new();
        let (x, y) = (g.column(0, 0, 0), g.extension_column(0, 1, 0));
        let (zero, one, minus_one) = (g.constant(koala(0)), g.constant(koala(1)), g.constant(-koala(1)));
        let (minus_x, minus_y) = (g.neg(x), g.neg(y));
        assert_eq!([g.add(x, zero), g.add(zero, x), g.sub(x, zero), g.mul(x, one), g.mul(one, x)], [x; 5]);
        assert_eq!([g.sub(zero, x), g.mul(x, minus_one), g.mul(minus_one, x)], [minus_x; 3]);
        assert_eq!([g.mul(y, zero), g.mul(zero, x), g.sub(y, y)], [zero; 3]);
        assert_eq!(g.neg(minus_x), x);
        let difference = g.sub(x, y);
        assert_eq!([g.add(x, minus_y), g.add(minus_y, x)], [difference; 2]);
        assert_eq!(g.sub(x, minus_y), g.add(x, y));
        assert_eq!(g.neg(difference), g.sub(y, x));
        assert_eq!(g.sub(x, one), g.add(minus_one, x));
        let less = g.sub(x, one);
        assert_eq!(g.neg(less), g.sub(one, x));
    }

    #[test]
    fn kinds_mix() {
        let mut g = ExpressionGraph::<KoalaBear4>::new();
        let (x, y) = (g.column(0, 0, 0), g.extension_column(0, 1, 0));
        for value in [g.add(x, y), g.sub(x, y), g.mul(y, x), g.neg(y)] {
            assert_eq!(g.kind(value), FieldKind::Extension);
        }
        let mut g = ExpressionGraph::<KoalaBear>::new();
        assert_eq!(g.extension_column(0, 1, 0), g.column(0, 1, 0));
        let parameter = g.extension_parameter(0);
        assert_eq!(g.kind(parameter), FieldKind::Base);
    }

    /// A chain whose other operands were made first is still walked down before they are read.
    #[test]
    fn the_side_that_needs_more_comes_first() {
        let mut g = ExpressionGraph::<KoalaBear4>::new();
        let columns: Vec<Value> = (0..10).map(|c| g.column(0, c, 0)).collect();
        let mut chain = g.mul(columns[0], columns[1]);
        for &column in &columns[2..] {
            let sum = g.add(column, chain);
            assert_eq!(g.operands(sum).collect::<Vec<_>>(), [chain, column]);
            chain = sum;
        }
    }
}
