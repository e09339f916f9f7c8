//! Conversions between types, see [`rigel_codegen::map::Node::Convert`].

use rigel_codegen::map::{Complex, Complex64, Half, NumberKind, Type};
use rigel_kernels::field::{
    BabyBear, BabyBear4, CM31, Field, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4, Mersenne31,
    QM31,
};

use super::loops::{Loop, unary};
use super::number::{Arithmetic, Truth, with_type};

/// A number that is not a field element.
trait Plain: Copy + 'static {
    fn is_nonzero(self) -> bool;
    fn to_i32(self) -> i32;
    fn to_i64(self) -> i64;
    fn to_u32(self) -> u32;
    fn to_u64(self) -> u64;
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    fn imaginary(self) -> f64;
}

macro_rules! plain {
    ($($of:ty, $x:ident: $nonzero:expr, $value:expr, $imaginary:expr;)*) => { $(
        impl Plain for $of {
            #[inline(always)]
            fn is_nonzero(self) -> bool {
                let $x = self;
                $nonzero
            }
            #[inline(always)]
            fn to_i32(self) -> i32 {
                let $x = self;
                $value as i32
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                let $x = self;
                $value as i64
            }
            #[inline(always)]
            fn to_u32(self) -> u32 {
                let $x = self;
                // Negative floats wrap around, as negative integers do.
                $value as i64 as u32
            }
            #[inline(always)]
            fn to_u64(self) -> u64 {
                let $x = self;
                match $value as u64 {
                    // A negative float, which `as` saturates to zero, or zero itself.
                    0 => $value as i64 as u64,
                    positive => positive,
                }
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                let $x = self;
                $value as f32
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                let $x = self;
                $value as f64
            }
            #[inline(always)]
            fn imaginary(self) -> f64 {
                let $x = self;
                $imaginary
            }
        }
    )* };
}

plain! {
    Truth, x: x.holds(), x.holds() as u8, { let _ = x; 0.0 };
    i32, x: x != 0, x, { let _ = x; 0.0 };
    i64, x: x != 0, x, { let _ = x; 0.0 };
    u32, x: x != 0, x, { let _ = x; 0.0 };
    u64, x: x != 0, x, { let _ = x; 0.0 };
    f32, x: x != 0.0, x, { let _ = x; 0.0 };
    f64, x: x != 0.0, x, { let _ = x; 0.0 };
    Complex, x: x.re != 0.0 || x.im != 0.0, x.re, x.im;
}

/// An integer modulo p, also for negative integers.
trait Integer: Plain {
    fn modulo<F: Field>(self) -> F;
}

macro_rules! integers {
    ($($of:ty)*) => { $(
        impl Integer for $of {
            #[inline(always)]
            fn modulo<F: Field>(self) -> F {
                F::from_u64(self.to_u64())
            }
        }
    )* };
}
integers!(Truth u32 u64);

macro_rules! signed {
    ($($of:ty)*) => { $(
        impl Integer for $of {
            #[inline(always)]
            fn modulo<F: Field>(self) -> F {
                let size = F::from_u64(self.unsigned_abs() as u64);
                if self < 0 { -size } else { size }
            }
        }
    )* };
}
signed!(i32 i64);

/// A loop of one function.
macro_rules! from {
    ($of:ty, $f:expr) => {
        // SAFETY: the caller upholds the contract of `Loop`.
        (|call| unsafe { unary::<$of, _>(call, $f) }) as Loop
    };
}

/// The loop for a conversion; `None` if it is not defined.
pub(crate) fn convert_loop(from: Type, to: Type) -> Option<Loop> {
    if from.is_narrow() || to.is_narrow() {
        return narrow_loop(from, to);
    }
    match (from.kind(), to.kind()) {
        (NumberKind::Field, NumberKind::Field) => embed_loop(from, to),
        (NumberKind::Field, NumberKind::Bool) => {
            with_type!(field from, T => from!(T, |x: T| Truth::from(x != <T as Arithmetic>::ZERO)))
        }
        (NumberKind::Field, _) => with_type!(prime from, T => prime_loop::<T>(to))?,
        (NumberKind::Bool, NumberKind::Field) => modulo_loop::<Truth>(to),
        (_, NumberKind::Field) => with_type!(integer from, T => modulo_loop::<T>(to))?,
        _ => match from {
            Type::C128 => plain_loop::<Complex>(to),
            _ => with_type!(ordered from, T => plain_loop::<T>(to))?,
        },
    }
}

/// The conversion between a narrow type and its wide type. Integers are truncated, floats are rounded.
fn narrow_loop(from: Type, to: Type) -> Option<Loop> {
    Some(match (from, to) {
        (Type::I8, Type::I32) => from!(i8, i32::from),
        (Type::I32, Type::I8) => from!(i32, |x: i32| x as i8),
        (Type::I16, Type::I32) => from!(i16, i32::from),
        (Type::I32, Type::I16) => from!(i32, |x: i32| x as i16),
        (Type::U8, Type::U32) => from!(u8, u32::from),
        (Type::U32, Type::U8) => from!(u32, |x: u32| x as u8),
        (Type::U16, Type::U32) => from!(u16, u32::from),
        (Type::U32, Type::U16) => from!(u32, |x: u32| x as u16),
        (Type::F16, Type::F32) => from!(Half, f32::from),
        (Type::F32, Type::F16) => from!(f32, <Half as From<f32>>::from),
        (Type::F64, Type::F16) => from!(f64, <Half as From<f64>>::from),
        (Type::C64, Type::C128) => from!(Complex64, <Complex as From<Complex64>>::from),
        (Type::C128, Type::C64) => from!(Complex, <Complex64 as From<Complex>>::from),
        _ => return None,
    })
}

fn plain_loop<S: Plain>(to: Type) -> Option<Loop> {
    Some(match to {
        Type::Bool => from!(S, |x: S| Truth::from(x.is_nonzero())),
        Type::I32 => from!(S, |x: S| x.to_i32()),
        Type::I64 => from!(S, |x: S| x.to_i64()),
        Type::U32 => from!(S, |x: S| x.to_u32()),
        Type::U64 => from!(S, |x: S| x.to_u64()),
        Type::F32 => from!(S, |x: S| x.to_f32()),
        Type::F64 => from!(S, |x: S| x.to_f64()),
        Type::C128 => from!(S, |x: S| Complex { re: x.to_f64(), im: x.imaginary() }),
        _ => return None,
    })
}

fn prime_loop<F: Field>(to: Type) -> Option<Loop> {
    with_type!(integer to, T => from!(F, |x: F| x.to_u64() as T))
}

fn modulo_loop<S: Integer>(to: Type) -> Option<Loop> {
    Some(match to {
        Type::Mersenne31 => from!(S, |x: S| x.modulo::<Mersenne31>()),
        Type::BabyBear => from!(S, |x: S| x.modulo::<BabyBear>()),
        Type::KoalaBear => from!(S, |x: S| x.modulo::<KoalaBear>()),
        Type::Goldilocks => from!(S, |x: S| x.modulo::<Goldilocks>()),
        Type::CM31 => from!(S, |x: S| CM31::from(x.modulo::<Mersenne31>())),
        Type::QM31 => from!(S, |x: S| QM31::from(x.modulo::<Mersenne31>())),
        Type::BabyBear4 => from!(S, |x: S| BabyBear4::from(x.modulo::<BabyBear>())),
        Type::KoalaBear4 => from!(S, |x: S| KoalaBear4::from(x.modulo::<KoalaBear>())),
        Type::Goldilocks2 => from!(S, |x: S| Goldilocks2::from(x.modulo::<Goldilocks>())),
        Type::Goldilocks3 => from!(S, |x: S| Goldilocks3::from(x.modulo::<Goldilocks>())),
        _ => return None,
    })
}

fn embed_loop(from: Type, to: Type) -> Option<Loop> {
    Some(match (from, to) {
        (Type::Mersenne31, Type::CM31) => from!(Mersenne31, CM31::from),
        (Type::Mersenne31, Type::QM31) => from!(Mersenne31, <QM31 as From<Mersenne31>>::from),
        (Type::CM31, Type::QM31) => from!(CM31, |x: CM31| QM31::from(x)),
        (Type::BabyBear, Type::BabyBear4) => from!(BabyBear, BabyBear4::from),
        (Type::KoalaBear, Type::KoalaBear4) => from!(KoalaBear, KoalaBear4::from),
        (Type::Goldilocks, Type::Goldilocks2) => from!(Goldilocks, Goldilocks2::from),
        (Type::Goldilocks, Type::Goldilocks3) => from!(Goldilocks, Goldilocks3::from),
        _ => return None,
    })
}
