//! The loop of each operation for each type it is defined for.

use rigel_codegen::map::{Binary, Complex, Complex64, NumberKind, Reduction, Type, Unary};

use super::complex;
use super::loops::{self, Loop, binary, binary_call, unary, unary_call};
use super::number::{Arithmetic, Ordered, Rounded, Shifted, Truth, with_type};

/// A loop of one function of one argument.
macro_rules! one {
    ($of:ty, $f:expr) => {
        // SAFETY: the caller upholds the contract of `Loop`.
        (|call| unsafe { unary::<$of, _>(call, $f) }) as Loop
    };
    (call $of:ty, $f:expr) => {
        // SAFETY: the caller upholds the contract of `Loop`.
        (|call| unsafe { unary_call::<$of, _>(call, $f) }) as Loop
    };
}

/// A loop of one function of two arguments.
macro_rules! two {
    ($of:ty, $f:expr) => {
        // SAFETY: the caller upholds the contract of `Loop`.
        (|call| unsafe { binary::<$of, $of, _>(call, $f) }) as Loop
    };
    (call $of:ty, $other:ty, $f:expr) => {
        // SAFETY: the caller upholds the contract of `Loop`.
        (|call| unsafe { binary_call::<$of, $other, _>(call, $f) }) as Loop
    };
}

/// The loop of a unary operation on a type; `None` if it is not defined.
pub(crate) fn unary_loop(operation: Unary, of: Type) -> Option<Loop> {
    operation.result(of)?;
    match of.kind() {
        NumberKind::Bool => Some(one!(Truth, |x: Truth| Truth::from(!x.holds()))),
        NumberKind::Field => with_type!(field of, T => one!(T, |x: T| x.neg())),
        NumberKind::Integer => match operation {
            Unary::Neg => with_type!(integer of, T => one!(T, |x: T| x.neg())),
            Unary::Abs => match of {
                Type::I32 => Some(one!(i32, |x: i32| x.wrapping_abs())),
                Type::I64 => Some(one!(i64, |x: i64| x.wrapping_abs())),
                _ => with_type!(integer of, T => one!(T, |x: T| x)),
            },
            Unary::Imag => with_type!(integer of, T => one!(T, |_: T| 0 as T)),
            _ => with_type!(integer of, T => one!(T, |x: T| x)),
        },
        NumberKind::Float => float_loop(operation, of),
        NumberKind::Complex => complex_loop(operation),
    }
}

fn float_loop(operation: Unary, of: Type) -> Option<Loop> {
    with_type!(float of, T => match operation {
        Unary::Neg => one!(T, |x: T| -x),
        Unary::Abs => one!(T, |x: T| x.abs()),
        Unary::Sqrt => one!(T, |x: T| x.sqrt()),
        Unary::Floor => one!(T, |x: T| x.floor()),
        Unary::Ceil => one!(T, |x: T| x.ceil()),
        Unary::Conj | Unary::Real => one!(T, |x: T| x),
        Unary::Imag => one!(T, |_: T| 0.0 as T),
        Unary::IsNan => one!(T, |x: T| Truth::from(x.is_nan())),
        Unary::IsFinite => one!(T, |x: T| Truth::from(x.is_finite())),
        Unary::Exp => one!(call T, |x: T| x.exp()),
        Unary::Log => one!(call T, |x: T| x.ln()),
        Unary::Sin => one!(call T, |x: T| x.sin()),
        Unary::Cos => one!(call T, |x: T| x.cos()),
        Unary::Tan => one!(call T, |x: T| x.tan()),
        Unary::Asin => one!(call T, |x: T| x.asin()),
        Unary::Acos => one!(call T, |x: T| x.acos()),
        Unary::Atan => one!(call T, |x: T| x.atan()),
        Unary::Sinh => one!(call T, |x: T| x.sinh()),
        Unary::Cosh => one!(call T, |x: T| x.cosh()),
        Unary::Tanh => one!(call T, |x: T| x.tanh()),
        Unary::Not => return None,
    })
}

fn complex_loop(operation: Unary) -> Option<Loop> {
    Some(match operation {
        Unary::Neg => one!(Complex, |z: Complex| z.neg()),
        Unary::Abs => one!(call Complex, complex::abs),
        Unary::Exp => one!(call Complex, complex::exp),
        Unary::Log => one!(call Complex, complex::log),
        Unary::Sqrt => one!(call Complex, complex::sqrt),
        Unary::Sin => one!(call Complex, complex::sin),
        Unary::Cos => one!(call Complex, complex::cos),
        Unary::Tan => one!(call Complex, complex::tan),
        Unary::Asin => one!(call Complex, complex::asin),
        Unary::Acos => one!(call Complex, complex::acos),
        Unary::Atan => one!(call Complex, complex::atan),
        Unary::Sinh => one!(call Complex, complex::sinh),
        Unary::Cosh => one!(call Complex, complex::cosh),
        Unary::Tanh => one!(call Complex, complex::tanh),
        Unary::Conj => one!(Complex, |z: Complex| complex::complex(z.re, -z.im)),
        Unary::Real => one!(Complex, |z: Complex| z.re),
        Unary::Imag => one!(Complex, |z: Complex| z.im),
        Unary::IsNan => one!(Complex, |z: Complex| Truth::from(z.re.is_nan() || z.im.is_nan())),
        Unary::IsFinite => one!(Complex, |z: Complex| Truth::from(z.re.is_finite() && z.im.is_finite())),
        Unary::Not | Unary::Floor | Unary::Ceil => return None,
    })
}

/// The loop of a binary operation on a type (the second operand may be an exponent); `None` if it is not defined.
pub(crate) fn binary_loop(operation: Binary, of: Type) -> Option<Loop> {
    match operation {
        Binary::Add => with_type!(arithmetic of, T => two!(T, |x: T, y: T| Arithmetic::add(x, y))),
        Binary::Sub => with_type!(arithmetic of, T => two!(T, |x: T, y: T| Arithmetic::sub(x, y))),
        Binary::Mul => with_type!(arithmetic of, T => two!(T, |x: T, y: T| Arithmetic::mul(x, y))),
        Binary::Div if of == Type::C128 => Some(two!(Complex, complex::div)),
        Binary::Div => with_type!(float of, T => two!(T, |x: T, y: T| x / y)),
        Binary::Pow => match of.kind() {
            NumberKind::Float => with_type!(float of, T => two!(call T, T, |x: T, y: T| x.powf(y))),
            NumberKind::Complex => Some(two!(call Complex, Complex, complex::pow)),
            _ => with_type!(exact of, T => two!(call T, u64, |x: T, y: u64| x.power(y))),
        },
        Binary::FloorDiv => with_type!(rounded of, T => two!(call T, T, |x: T, y: T| x.floor_div(y))),
        Binary::Remainder => with_type!(rounded of, T => two!(call T, T, |x: T, y: T| x.remainder(y))),
        Binary::Min => with_type!(ordered of, T => two!(T, |x: T, y: T| x.smaller(y))),
        Binary::Max => with_type!(ordered of, T => two!(T, |x: T, y: T| x.larger(y))),
        Binary::Eq => with_type!(any of, T => two!(T, |x: T, y: T| Truth::from(x == y))),
        Binary::Ne => with_type!(any of, T => two!(T, |x: T, y: T| Truth::from(x != y))),
        Binary::Lt => with_type!(ordered of, T => two!(T, |x: T, y: T| Truth::from(x < y))),
        Binary::Le => with_type!(ordered of, T => two!(T, |x: T, y: T| Truth::from(x <= y))),
        Binary::Gt => with_type!(ordered of, T => two!(T, |x: T, y: T| Truth::from(x > y))),
        Binary::Ge => with_type!(ordered of, T => two!(T, |x: T, y: T| Truth::from(x >= y))),
        Binary::And if of == Type::Bool => {
            Some(two!(Truth, |x: Truth, y: Truth| Truth::from(x.holds() & y.holds())))
        }
        Binary::Or if of == Type::Bool => {
            Some(two!(Truth, |x: Truth, y: Truth| Truth::from(x.holds() | y.holds())))
        }
        Binary::Xor if of == Type::Bool => {
            Some(two!(Truth, |x: Truth, y: Truth| Truth::from(x.holds() ^ y.holds())))
        }
        Binary::And => with_type!(integer of, T => two!(T, |x: T, y: T| x & y)),
        Binary::Or => with_type!(integer of, T => two!(T, |x: T, y: T| x | y)),
        Binary::Xor => with_type!(integer of, T => two!(T, |x: T, y: T| x ^ y)),
        Binary::ShiftLeft => with_type!(integer of, T => two!(T, |x: T, y: T| x.shift_left(y))),
        Binary::ShiftRight => with_type!(integer of, T => two!(T, |x: T, y: T| x.shift_right(y))),
        Binary::Random => (of == Type::U64).then_some(two!(u64, random)),
    }
}

/// Output number `place` of SplitMix64 with this seed.
#[inline(always)]
pub(crate) fn random(place: u64, seed: u64) -> u64 {
    let mut z = seed.wrapping_add(place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The loop that selects between two values.
pub(crate) fn select_loop(of: Type) -> Option<Loop> {
    match of {
        Type::I8 | Type::U8 => Some(loops::select::<u8> as Loop),
        Type::I16 | Type::U16 | Type::F16 => Some(loops::select::<u16> as Loop),
        Type::C64 => Some(loops::select::<Complex64> as Loop),
        _ => with_type!(any of, T => loops::select::<T> as Loop),
    }
}

/// The loops of a reduction of values of a type.
#[derive(Clone, Copy)]
pub(crate) struct Folds {
    /// `values, len, out, count`: see [`loops::fold`].
    pub(crate) fold: unsafe fn(*const u8, usize, *mut u8, usize),
    /// `into, values, count`: see [`loops::join`].
    pub(crate) join: unsafe fn(*mut u8, *const u8, usize),
}

/// The two loops of one function.
macro_rules! folds {
    ($of:ty, $f:expr) => {
        Folds {
            // SAFETY: the caller upholds the contract.
            fold: |values, len, out, count| unsafe { loops::fold::<$of>(values, len, out, count, $f) },
            // SAFETY: the caller upholds the contract.
            join: |into, values, count| unsafe { loops::join::<$of>(into, values, count, $f) },
        }
    };
}

/// The loops of a reduction; `None` if it is not defined.
pub(crate) fn folds(reduction: Reduction, of: Type) -> Option<Folds> {
    match reduction {
        Reduction::Sum => with_type!(arithmetic of, T => folds!(T, |x: T, y: T| Arithmetic::add(x, y))),
        Reduction::Product => with_type!(arithmetic of, T => folds!(T, |x: T, y: T| Arithmetic::mul(x, y))),
        Reduction::Min => with_type!(ordered of, T => folds!(T, |x: T, y: T| x.smaller(y))),
        Reduction::Max => with_type!(ordered of, T => folds!(T, |x: T, y: T| x.larger(y))),
    }
}

/// Fills `out` with the result of an empty reduction; `None` if it has none.
pub(crate) fn neutral(reduction: Reduction, of: Type, out: &mut [u8]) -> Option<()> {
    fn fill<T: Copy>(out: &mut [u8], value: T) {
        // SAFETY: numbers have no padding, so each byte of the value is initialized.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const value).cast::<u8>(), size_of::<T>()) };
        out.chunks_exact_mut(bytes.len()).for_each(|place| place.copy_from_slice(bytes));
    }
    match reduction {
        Reduction::Sum => with_type!(arithmetic of, T => fill(out, <T as Arithmetic>::ZERO)),
        Reduction::Product => with_type!(arithmetic of, T => fill(out, <T as Arithmetic>::ONE)),
        Reduction::Min | Reduction::Max => None,
    }
}
