//! The operations as methods and operators, on expressions and on arrays. An operation on an array is an
//! expression of one operation that is evaluated immediately.

use rigel_codegen::map::{Binary, Unary};

use crate::array::Array;
use crate::error::Result;
use crate::lazy::Lazy;

macro_rules! operators {
    ($($trait:ident $method:ident)*) => { $(
        impl<R: Into<Lazy>> std::ops::$trait<R> for Lazy {
            type Output = Self;

            fn $method(self, other: R) -> Self {
                self.binary(Binary::$trait, other)
            }
        }
    )* };
}
operators!(Add add Sub sub Mul mul Div div);

impl std::ops::Neg for Lazy {
    type Output = Self;

    fn neg(self) -> Self {
        self.unary(Unary::Neg)
    }
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $method:ident $operation:ident)*) => {
        impl Lazy { $(
            $(#[$doc])*
            pub fn $method(self) -> Self {
                self.unary(Unary::$operation)
            }
        )* }

        impl Array { $(
            $(#[$doc])*
            pub fn $method(&self) -> Result<Self> {
                self.lazy().unary(Unary::$operation).eval()
            }
        )* }
    };
}
unary_methods! {
    /// The absolute value.
    abs Abs
    /// The exponential function.
    exp Exp
    /// The natural logarithm.
    log Log
    /// The square root.
    sqrt Sqrt
    /// The sine.
    sin Sin
    /// The cosine.
    cos Cos
    /// The tangent.
    tan Tan
    /// The inverse sine.
    asin Asin
    /// The inverse cosine.
    acos Acos
    /// The inverse tangent.
    atan Atan
    /// The hyperbolic sine.
    sinh Sinh
    /// The hyperbolic cosine.
    cosh Cosh
    /// The hyperbolic tangent.
    tanh Tanh
    /// The largest integer that is at most x.
    floor Floor
    /// The smallest integer that is at least x.
    ceil Ceil
    /// The complex conjugate.
    conj Conj
    /// The real part.
    real Real
    /// The imaginary part.
    imag Imag
    /// Whether x is NaN.
    isnan IsNan
    /// Whether x is finite.
    isfinite IsFinite
    /// The negation of a boolean.
    logical_not Not
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $method:ident $operation:ident)*) => {
        impl Lazy { $(
            $(#[$doc])*
            pub fn $method(self, other: impl Into<Self>) -> Self {
                self.binary(Binary::$operation, other)
            }
        )* }

        impl Array { $(
            $(#[$doc])*
            pub fn $method(&self, other: impl Into<Lazy>) -> Result<Self> {
                self.lazy().binary(Binary::$operation, other).eval()
            }
        )* }
    };
}
binary_methods! {
    /// `x^y`. Exponents of field elements are integers; a negative exponent inverts.
    pow Pow
    /// The quotient rounded down.
    floor_div FloorDiv
    /// The remainder of [`floor_div`](Self::floor_div), with the sign of the divisor.
    remainder Remainder
    /// The smaller of two.
    minimum Min
    /// The larger of two.
    maximum Max
    /// Whether x equals y.
    eq Eq
    /// Whether x differs from y.
    ne Ne
    /// Whether x is less than y.
    lt Lt
    /// Whether x is at most y.
    le Le
    /// Whether x is greater than y.
    gt Gt
    /// Whether x is at least y.
    ge Ge
    /// The bits that both integers, or booleans, have.
    bitwise_and And
    /// The bits that at least one has.
    bitwise_or Or
    /// The bits that exactly one has.
    bitwise_xor Xor
    /// `x 2^y` for integers, wrapping around; 0 if y is negative or at least the number of bits.
    left_shift ShiftLeft
    /// `x / 2^y` rounded down for integers; the sign, 0 or -1, if y is negative or at least the number of bits.
    right_shift ShiftRight
}

macro_rules! logical_methods {
    ($($(#[$doc:meta])* $method:ident $operation:ident)*) => {
        impl Lazy { $(
            $(#[$doc])*
            pub fn $method(self, other: impl Into<Self>) -> Self {
                self.truth().binary(Binary::$operation, other.into().truth())
            }
        )* }

        impl Array { $(
            $(#[$doc])*
            pub fn $method(&self, other: impl Into<Lazy>) -> Result<Self> {
                self.lazy().$method(other).eval()
            }
        )* }
    };
}
logical_methods! {
    /// Whether both are true, or not zero.
    logical_and And
    /// Whether at least one is true, or not zero.
    logical_or Or
    /// Whether exactly one is true, or not zero.
    logical_xor Xor
}

impl Array {
    /// Makes the array an expression.
    pub fn lazy(&self) -> Lazy {
        Lazy::from(self)
    }

    /// An operation on every element.
    pub fn unary(&self, operation: Unary) -> Result<Self> {
        self.lazy().unary(operation).eval()
    }

    /// An operation on every pair of elements, after broadcasting.
    pub fn binary(&self, operation: Binary, other: impl Into<Lazy>) -> Result<Self> {
        self.lazy().binary(operation, other).eval()
    }

    /// `x + y`.
    pub fn add(&self, other: impl Into<Lazy>) -> Result<Self> {
        self.binary(Binary::Add, other)
    }

    /// `x - y`.
    pub fn sub(&self, other: impl Into<Lazy>) -> Result<Self> {
        self.binary(Binary::Sub, other)
    }

    /// `x y`, element by element.
    pub fn mul(&self, other: impl Into<Lazy>) -> Result<Self> {
        self.binary(Binary::Mul, other)
    }

    /// `x / y`: as f64 for integers; for a field, an error if any y is zero.
    pub fn div(&self, other: impl Into<Lazy>) -> Result<Self> {
        self.binary(Binary::Div, other)
    }

    /// `-x`.
    pub fn neg(&self) -> Result<Self> {
        self.unary(Unary::Neg)
    }

    /// The elements of `self` where `condition` is true, those of `other` elsewhere.
    pub fn select(&self, condition: &Self, other: impl Into<Lazy>) -> Result<Self> {
        self.lazy().select(condition, other).eval()
    }

    /// Writes `values`, broadcast and converted, to the elements of this array, which all arrays over its memory
    /// share.
    ///
    /// On the CPU the memory is locked while all cores write. So rayon tasks that assign to parts of one array can
    /// deadlock on one thread.
    pub fn assign(&self, values: impl Into<Lazy>) -> Result<()> {
        values.into().eval_into(self)
    }
}
