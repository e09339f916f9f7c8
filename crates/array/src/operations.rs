//! The operations by name and by operator, on expressions and on arrays. An array's is an expression of one operation,
//! evaluated at once.

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
    /// `|x|`; of complex numbers their length.
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
    /// The inverse of the sine.
    asin Asin
    /// The inverse of the cosine.
    acos Acos
    /// The inverse of the tangent.
    atan Atan
    /// The hyperbolic sine.
    sinh Sinh
    /// The hyperbolic cosine.
    cosh Cosh
    /// The hyperbolic tangent.
    tanh Tanh
    /// The largest integer that is not above x.
    floor Floor
    /// The smallest integer that is not below x.
    ceil Ceil
    /// The complex conjugate.
    conj Conj
    /// The real part.
    real Real
    /// The imaginary part.
    imag Imag
    /// Whether x is not a number.
    isnan IsNan
    /// Whether x is finite.
    isfinite IsFinite
    /// Not x, of booleans.
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
    /// `x^y`. Exponents of fields are integers; negative ones take the inverse.
    pow Pow
    /// The quotient rounded down.
    floor_div FloorDiv
    /// What [`floor_div`](Self::floor_div) leaves, with the divisor's sign.
    remainder Remainder
    /// The smaller of two.
    minimum Min
    /// The larger of two.
    maximum Max
    /// Whether x equals y.
    eq Eq
    /// Whether x differs from y.
    ne Ne
    /// Whether x is below y.
    lt Lt
    /// Whether x is at most y.
    le Le
    /// Whether x is above y.
    gt Gt
    /// Whether x is at least y.
    ge Ge
    /// Whether both are true.
    logical_and And
    /// Whether at least one is true.
    logical_or Or
    /// Whether one of the two is true.
    logical_xor Xor
}

impl Array {
    /// This array as an expression, to build a larger one from.
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

    /// `x / y`: of integers as f64, of a field with inverses, for which no y may be zero.
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

    /// Writes `values`, broadcast and converted, to the elements of this array, and so of all that share its memory.
    ///
    /// On the CPU the memory is locked while all cores write: rayon tasks that assign to parts of one array would wait for
    /// each other on one thread.
    pub fn assign(&self, values: impl Into<Lazy>) -> Result<()> {
        values.into().eval_into(self)
    }
}
