//! Expressions with a type for every value.

use super::operation::{Binary, Unary};
use super::types::{NumberKind, Type};

/// A value of an [`Expression`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u32);

impl Id {
    /// The node's index among the expression's nodes. Operands come before what is computed from them.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The definition of a value: an input, a scalar, the index, or an operation on other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// The element of this input at the result's place.
    Input(u32),
    /// The scalar with this number, given at the launch.
    Scalar(u32),
    /// The result's place, counted in row-major order: a U64.
    Index,
    /// An operation on one value.
    Unary(Unary, Id),
    /// An operation on two.
    Binary(Binary, Id, Id),
    /// The second value where the first, a boolean, is true, the third elsewhere.
    Select(Id, Id, Id),
    /// A conversion to the node's type. A narrow type is converted only to and from its [`Type::wide`], and F16
    /// also from F64. Conversions that lose something are as NumPy's: floats to integers by truncation, complex
    /// numbers to their real part, anything to whether it is not zero. Integers go to fields modulo p; elements of
    /// prime fields go to integers as `0..p`; elements of a field to one that contains it.
    Convert(Id),
}

/// The formula of one element of a result: a list of nodes, each distinct one once.
///
/// Nodes compute in types that are not narrow: an operation on narrow ones is a conversion of its operands, the
/// operation, and a conversion of its result, which rounds or truncates it.
///
/// ```
/// use rigel_codegen::map::{Binary, Expression, Type};
///
/// // a b + c
/// let mut expression = Expression::new();
/// let [a, b, c] = [0; 3].map(|_| expression.input(Type::F32));
/// let product = expression.binary(Binary::Mul, a, b).unwrap();
/// let sum = expression.binary(Binary::Add, product, c).unwrap();
/// assert_eq!(expression.type_of(sum), Type::F32);
/// assert_eq!(expression.binary(Binary::And, a, b), None); // not defined for floats
/// expression.set_result(sum);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Expression {
    nodes: Vec<(Node, Type)>,
    inputs: Vec<Type>,
    scalars: Vec<Type>,
    result: Option<Id>,
}

impl Expression {
    /// An expression without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// A further input of this type.
    pub fn input(&mut self, of: Type) -> Id {
        self.inputs.push(of);
        self.push(Node::Input(self.inputs.len() as u32 - 1), of)
    }

    /// A further scalar of this type. Its value is given at the launch, so the kernel is the same for all.
    pub fn scalar(&mut self, of: Type) -> Id {
        self.scalars.push(of);
        self.push(Node::Scalar(self.scalars.len() as u32 - 1), of)
    }

    /// The result's place in row-major order, a U64.
    pub fn index(&mut self) -> Id {
        self.number(Node::Index, Type::U64)
    }

    /// An operation on one value; `None` where it is not defined for the value's type.
    pub fn unary(&mut self, operation: Unary, a: Id) -> Option<Id> {
        let of = operation.result(self.type_of(a))?;
        let a = self.widened(a);
        let computed = operation.result(self.type_of(a))?;
        let value = self.number(Node::Unary(operation, a), computed);
        self.convert(of, value)
    }

    /// An operation on two values; `None` where it is not defined for their types.
    pub fn binary(&mut self, operation: Binary, a: Id, b: Id) -> Option<Id> {
        let of = operation.result(self.type_of(a), self.type_of(b))?;
        let (a, b) = (self.widened(a), self.widened(b));
        let computed = operation.result(self.type_of(a), self.type_of(b))?;
        let value = self.number(Node::Binary(operation, a, b), computed);
        self.convert(of, value)
    }

    /// The value in the type that operations on it are computed in.
    fn widened(&mut self, a: Id) -> Id {
        let of = self.type_of(a);
        if of.is_narrow() { self.number(Node::Convert(a), of.wide()) } else { a }
    }

    /// `a` where `condition` is true, `b` elsewhere; `None` if that is no boolean, or a and b differ in type.
    pub fn select(&mut self, condition: Id, a: Id, b: Id) -> Option<Id> {
        let of = self.type_of(a);
        (self.type_of(condition) == Type::Bool && self.type_of(b) == of)
            .then(|| self.number(Node::Select(condition, a, b), of))
    }

    /// The value in another type; `None` where there is no such conversion.
    pub fn convert(&mut self, to: Type, a: Id) -> Option<Id> {
        let from = self.type_of(a);
        if from == to {
            return Some(a);
        }
        if !Self::converts(from, to) {
            return None;
        }
        // A node converts a narrow type to its wide one or back, or between types that are not narrow.
        let wide = self.widened(a);
        let last = match (to, self.type_of(wide)) {
            // A double is rounded to a half at once; so is what only a double can hold.
            (Type::F16, from) if from != Type::F32 => Type::F64,
            _ => to.wide(),
        };
        let value = if self.type_of(wide) == last { wide } else { self.number(Node::Convert(wide), last) };
        Some(if last == to { value } else { self.number(Node::Convert(value), to) })
    }

    /// Whether values of one type can be converted to another (see [`Node::Convert`]).
    pub fn converts(from: Type, to: Type) -> bool {
        match (from.kind(), to.kind()) {
            (NumberKind::Field, NumberKind::Field) => from.embeds_in(to),
            (NumberKind::Field, NumberKind::Integer) => from.degree() == 1,
            (NumberKind::Field, kind) => kind == NumberKind::Bool,
            (kind, NumberKind::Field) => matches!(kind, NumberKind::Bool | NumberKind::Integer),
            _ => true,
        }
    }

    /// The type of a value.
    pub fn type_of(&self, value: Id) -> Type {
        self.nodes[value.index()].1
    }

    /// The nodes with their types, operands first.
    pub fn nodes(&self) -> &[(Node, Type)] {
        &self.nodes
    }

    /// The types of the inputs, in order.
    pub fn inputs(&self) -> &[Type] {
        &self.inputs
    }

    /// The types of the scalars, in order.
    pub fn scalars(&self) -> &[Type] {
        &self.scalars
    }

    /// Says which value is the result.
    pub fn set_result(&mut self, value: Id) {
        self.result = Some(value);
    }

    /// The value that is the result: the one that was said to be, or else the last.
    ///
    /// # Panics
    /// If there are no values.
    pub fn result(&self) -> Id {
        self.result
            .unwrap_or_else(|| Id(self.nodes.len().checked_sub(1).expect("an expression with values") as u32))
    }

    /// The node's value: the one there is, or a new one. Few nodes make an expression, so the search is short.
    fn number(&mut self, node: Node, of: Type) -> Id {
        match self.nodes.iter().position(|&known| known == (node, of)) {
            Some(index) => Id(index as u32),
            None => self.push(node, of),
        }
    }

    fn push(&mut self, node: Node, of: Type) -> Id {
        self.nodes.push((node, of));
        Id(self.nodes.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes compute with no narrow type, and convert one only to and from its wide type, or a double to a half.
    fn check(expression: &Expression) {
        for &(node, of) in expression.nodes() {
            let from = |id: Id| expression.type_of(id);
            match node {
                Node::Unary(_, a) => assert!(!of.is_narrow() && !from(a).is_narrow(), "{expression:?}"),
                Node::Binary(_, a, b) => {
                    assert!([of, from(a), from(b)].iter().all(|of| !of.is_narrow()), "{expression:?}");
                }
                Node::Convert(a) => {
                    let narrows = of.wide() == from(a) || (from(a), of) == (Type::F64, Type::F16);
                    let plain = !of.is_narrow() && !from(a).is_narrow();
                    assert!(plain || narrows || from(a).wide() == of, "{:?} to {of:?}", from(a));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn narrow_types_are_only_stored() {
        for of in Type::ALL {
            for operation in Unary::ALL {
                let mut expression = Expression::new();
                let x = expression.input(of);
                let value = expression.unary(operation, x);
                assert_eq!(value.map(|value| expression.type_of(value)), operation.result(of));
                check(&expression);
            }
            for (operation, other) in Binary::ALL.into_iter().flat_map(|o| [(o, of), (o, Type::U64)]) {
                let mut expression = Expression::new();
                let [x, y] = [of, other].map(|of| expression.input(of));
                let value = expression.binary(operation, x, y);
                assert_eq!(value.map(|value| expression.type_of(value)), operation.result(of, other));
                check(&expression);
            }
            for to in Type::ALL {
                let mut expression = Expression::new();
                let x = expression.input(of);
                let value = expression.convert(to, x);
                assert_eq!(value.is_some(), of == to || Expression::converts(of, to), "{of:?} to {to:?}");
                assert!(value.is_none_or(|value| expression.type_of(value) == to));
                check(&expression);
            }
        }
    }
}
