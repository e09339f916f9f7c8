//! The operations on values, and the types for which each exists.

use super::types::{NumberKind, Type};

/// An operation on one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unary {
    /// `-x`. Not of booleans.
    Neg,
    /// `!x`, of booleans.
    Not,
    /// `|x|`: of a complex number its length, a float. Not of fields.
    Abs,
    /// The exponential function. This and the functions up to `Atanh` are of floats and complex numbers.
    Exp,
    /// The natural logarithm.
    Log,
    /// The square root.
    Sqrt,
    /// The sine.
    Sin,
    /// The cosine.
    Cos,
    /// The tangent.
    Tan,
    /// The inverse of the sine.
    Asin,
    /// The inverse of the cosine.
    Acos,
    /// The inverse of the tangent.
    Atan,
    /// The hyperbolic sine.
    Sinh,
    /// The hyperbolic cosine.
    Cosh,
    /// The hyperbolic tangent.
    Tanh,
    /// The largest integer that is not above x. This and `Ceil`, of floats.
    Floor,
    /// The smallest integer that is not below x.
    Ceil,
    /// The complex conjugate; of integers and floats, the value itself.
    Conj,
    /// The real part.
    Real,
    /// The imaginary part.
    Imag,
    /// Whether x is not a number, of floats and complex numbers.
    IsNan,
    /// Whether x is finite, of floats and complex numbers.
    IsFinite,
}

impl Unary {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Neg,
        Self::Not,
        Self::Abs,
        Self::Exp,
        Self::Log,
        Self::Sqrt,
        Self::Sin,
        Self::Cos,
        Self::Tan,
        Self::Asin,
        Self::Acos,
        Self::Atan,
        Self::Sinh,
        Self::Cosh,
        Self::Tanh,
        Self::Floor,
        Self::Ceil,
        Self::Conj,
        Self::Real,
        Self::Imag,
        Self::IsNan,
        Self::IsFinite,
    ];

    /// The operation's name, in Rust, Python and kernels alike.
    pub fn name(self) -> &'static str {
        match self {
            Self::Neg => "neg",
            Self::Not => "logical_not",
            Self::Abs => "abs",
            Self::Exp => "exp",
            Self::Log => "log",
            Self::Sqrt => "sqrt",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Tan => "tan",
            Self::Asin => "asin",
            Self::Acos => "acos",
            Self::Atan => "atan",
            Self::Sinh => "sinh",
            Self::Cosh => "cosh",
            Self::Tanh => "tanh",
            Self::Floor => "floor",
            Self::Ceil => "ceil",
            Self::Conj => "conj",
            Self::Real => "real",
            Self::Imag => "imag",
            Self::IsNan => "isnan",
            Self::IsFinite => "isfinite",
        }
    }

    /// The type of the result for an operand of this type; `None` where the operation is not defined.
    pub fn result(self, of: Type) -> Option<Type> {
        let kind = of.kind();
        let continuous = matches!(kind, NumberKind::Float | NumberKind::Complex);
        let ordinary = !matches!(kind, NumberKind::Field | NumberKind::Bool);
        let real = match of {
            Type::C64 => Type::F32,
            Type::C128 => Type::F64,
            _ => of,
        };
        match self {
            Self::Neg => (kind != NumberKind::Bool).then_some(of),
            Self::Not => (kind == NumberKind::Bool).then_some(of),
            Self::Abs | Self::Real | Self::Imag => ordinary.then_some(real),
            Self::Conj => ordinary.then_some(of),
            Self::Floor | Self::Ceil => (kind == NumberKind::Float).then_some(of),
            Self::IsNan | Self::IsFinite => continuous.then_some(Type::Bool),
            _ => continuous.then_some(of),
        }
    }
}

/// An operation on two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binary {
    /// `x + y`. Not of booleans, as all up to `Pow`.
    Add,
    /// `x - y`.
    Sub,
    /// `x y`.
    Mul,
    /// `x / y`, of floats and complex numbers. (Integers are converted first; fields take a batch of inverses.)
    Div,
    /// `x^y`: of floats and complex numbers with an exponent of the same type; of fields and integers with an exponent
    /// of type U64.
    Pow,
    /// The quotient rounded down, of integers (by zero: zero) and floats.
    FloorDiv,
    /// The remainder of `FloorDiv`, with the divisor's sign, of integers (by zero: zero) and floats.
    Remainder,
    /// The smaller value; not a number, if one is not. Of booleans, integers and floats, as `Max`.
    Min,
    /// The larger value; not a number, if one is not.
    Max,
    /// Whether x equals y. Of all types, as `Ne`.
    Eq,
    /// Whether x differs from y.
    Ne,
    /// Whether x is below y. This and the next three, of booleans, integers and floats.
    Lt,
    /// Whether x is at most y.
    Le,
    /// Whether x is above y.
    Gt,
    /// Whether x is at least y.
    Ge,
    /// The bits that both have, of booleans and integers, as `Or` and `Xor`.
    And,
    /// The bits that at least one has.
    Or,
    /// The bits that one of the two has.
    Xor,
    /// `x 2^y`, of integers, wrapping around; 0 where y is negative or at least the number of bits.
    ShiftLeft,
    /// `x / 2^y` rounded down, of integers; where y is negative or at least the number of bits, the sign: 0 or -1.
    ShiftRight,
    /// 64 random bits for the place x and the seed y, both U64: output number x of the generator SplitMix64 with that
    /// seed, `mix(y + (x + 1) 0x9e3779b97f4a7c15)`.
    Random,
}

impl Binary {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::Pow,
        Self::FloorDiv,
        Self::Remainder,
        Self::Min,
        Self::Max,
        Self::Eq,
        Self::Ne,
        Self::Lt,
        Self::Le,
        Self::Gt,
        Self::Ge,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::ShiftLeft,
        Self::ShiftRight,
        Self::Random,
    ];

    /// The operation's name, in Rust, Python and kernels alike.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
            Self::Pow => "pow",
            Self::FloorDiv => "floor_div",
            Self::Remainder => "remainder",
            Self::Min => "minimum",
            Self::Max => "maximum",
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::Lt => "lt",
            Self::Le => "le",
            Self::Gt => "gt",
            Self::Ge => "ge",
            Self::And => "bitwise_and",
            Self::Or => "bitwise_or",
            Self::Xor => "bitwise_xor",
            Self::ShiftLeft => "left_shift",
            Self::ShiftRight => "right_shift",
            Self::Random => "random",
        }
    }

    /// The type of the result for operands of these types; `None` where the operation is not defined.
    pub fn result(self, a: Type, b: Type) -> Option<Type> {
        let kind = a.kind();
        let same = a == b;
        match self {
            Self::Add | Self::Sub | Self::Mul => (same && kind != NumberKind::Bool).then_some(a),
            Self::Div => (same && matches!(kind, NumberKind::Float | NumberKind::Complex)).then_some(a),
            Self::Pow => match kind {
                NumberKind::Float | NumberKind::Complex => same.then_some(a),
                NumberKind::Field | NumberKind::Integer => (b == Type::U64).then_some(a),
                NumberKind::Bool => None,
            },
            Self::FloorDiv | Self::Remainder => {
                (same && matches!(kind, NumberKind::Integer | NumberKind::Float)).then_some(a)
            }
            Self::Min | Self::Max => (same && is_ordered(a)).then_some(a),
            Self::Eq | Self::Ne => same.then_some(Type::Bool),
            Self::Lt | Self::Le | Self::Gt | Self::Ge => (same && is_ordered(a)).then_some(Type::Bool),
            Self::And | Self::Or | Self::Xor => {
                (same && matches!(kind, NumberKind::Bool | NumberKind::Integer)).then_some(a)
            }
            Self::ShiftLeft | Self::ShiftRight => (same && kind == NumberKind::Integer).then_some(a),
            Self::Random => (same && a == Type::U64).then_some(a),
        }
    }
}

fn is_ordered(of: Type) -> bool {
    matches!(of.kind(), NumberKind::Bool | NumberKind::Integer | NumberKind::Float)
}

/// An operation that combines many values to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reduction {
    /// The sum; 0 of none.
    Sum,
    /// The product; 1 of none.
    Product,
    /// The smallest; there must be one. Not a number, if one is not.
    Min,
    /// The largest; there must be one. Not a number, if one is not.
    Max,
}

impl Reduction {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Product, Self::Min, Self::Max];

    /// The operation that joins two values.
    pub fn step(self) -> Binary {
        match self {
            Self::Sum => Binary::Add,
            Self::Product => Binary::Mul,
            Self::Min => Binary::Min,
            Self::Max => Binary::Max,
        }
    }

    /// The reduction's name, in Rust and Python alike.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Product => "prod",
            Self::Min => "min",
            Self::Max => "max",
        }
    }

    /// Whether values of this type can be reduced. Values of narrow types are converted first: [`Type::wide`].
    pub fn is_defined(self, of: Type) -> bool {
        !of.is_narrow() && self.step().result(of, of) == Some(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_complete() {
        assert!(Unary::ALL.iter().enumerate().all(|(i, &operation)| operation as usize == i));
        assert!(Binary::ALL.iter().enumerate().all(|(i, &operation)| operation as usize == i));
        assert!(Type::ALL.iter().enumerate().all(|(i, &of)| of as usize == i));
    }
}
