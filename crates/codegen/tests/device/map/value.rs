//! One number of any type, and what every operation makes of it.

use super::complex;
use rand::RngExt;
use rand::rngs::SmallRng;
use rigel_codegen::map::{Binary, Complex, Type, Unary};
use rigel_gpu::{Plain, bytes_of};
use rigel_kernels::field::{self as twin, Element, Extension, Field, Ring};

macro_rules! values {
    ($($of:ident($rust:ty)),*) => {
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Value { Bool(bool), $($of($rust)),* }

        impl Value {
            pub(super) fn of(self) -> Type {
                match self { Self::Bool(_) => Type::Bool, $(Self::$of(_) => Type::$of),* }
            }

            pub(super) fn bytes(self) -> Vec<u8> {
                match self { Self::Bool(x) => vec![x.into()], $(Self::$of(x) => bytes_of(&[x]).to_vec()),* }
            }

            pub(super) fn from_bytes(of: Type, bytes: &[u8]) -> Self {
                match of {
                    Type::Bool => Self::Bool(bytes[0] != 0),
                    $(Type::$of => Self::$of(plain(bytes)),)*
                    narrow => unreachable!("{narrow:?} is narrow"),
                }
            }
        }
    };
}
values! {
    I32(i32), I64(i64), U32(u32), U64(u64), F32(f32), F64(f64), C128(Complex), Mersenne31(twin::Mersenne31),
    BabyBear(twin::BabyBear), KoalaBear(twin::KoalaBear), Goldilocks(twin::Goldilocks), CM31(twin::CM31),
    QM31(twin::QM31), BabyBear4(twin::BabyBear4), KoalaBear4(twin::KoalaBear4), Goldilocks2(twin::Goldilocks2),
    Goldilocks3(twin::Goldilocks3)
}
use Value::*;

fn plain<T: Plain + Default>(bytes: &[u8]) -> T {
    let mut value = [T::default()];
    rigel_gpu::bytes_of_mut(&mut value).copy_from_slice(bytes);
    value[0]
}

/// Runs `then` for a value of any of the fields, and `other` for every other value.
macro_rules! for_fields {
    ($value:expr, $x:ident, $wrap:ident => $then:expr, else $other:expr) => {
        match $value {
            Mersenne31($x) => {
                let $wrap = Mersenne31;
                $then
            }
            BabyBear($x) => {
                let $wrap = BabyBear;
                $then
            }
            KoalaBear($x) => {
                let $wrap = KoalaBear;
                $then
            }
            Goldilocks($x) => {
                let $wrap = Goldilocks;
                $then
            }
            CM31($x) => {
                let $wrap = CM31;
                $then
            }
            QM31($x) => {
                let $wrap = QM31;
                $then
            }
            BabyBear4($x) => {
                let $wrap = BabyBear4;
                $then
            }
            KoalaBear4($x) => {
                let $wrap = KoalaBear4;
                $then
            }
            Goldilocks2($x) => {
                let $wrap = Goldilocks2;
                $then
            }
            Goldilocks3($x) => {
                let $wrap = Goldilocks3;
                $then
            }
            _ => $other,
        }
    };
}

/// The bytes of many values.
pub(super) fn to_bytes(values: &[Value]) -> Vec<u8> {
    values.iter().flat_map(|value| value.bytes()).collect()
}

fn random_element<E: Element>(rng: &mut SmallRng) -> E {
    let parts: Vec<E::Base> = (0..E::DEGREE)
        .map(|_| match rng.random_range(0..8) {
            0 => E::Base::ZERO,
            1 => -E::Base::ONE,
            _ => E::Base::from_u64(rng.random()),
        })
        .collect();
    E::from_parts(&parts).unwrap()
}

fn float(rng: &mut SmallRng) -> f64 {
    const SPECIAL: [f64; 9] = [0.0, -0.0, 1.0, -1.0, 0.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 3.0];
    match rng.random_range(0..3) {
        0 => SPECIAL[rng.random_range(0..SPECIAL.len())],
        1 => rng.random_range(-1.0..1.0),
        _ => rng.random_range(-9.0..9.0),
    }
}

impl Value {
    /// A random value, with zeros, extremes and what is not a number among them. Of floats that go to integers, see
    /// [`Self::fits`].
    pub(super) fn random(of: Type, rng: &mut SmallRng) -> Self {
        let small = rng.random_bool(0.5);
        let integer: u64 = match rng.random_range(0..6) {
            0 => 0,
            1 => 1 << 63,
            2 => u64::MAX,
            _ if small => rng.random_range(0..40u64).wrapping_sub(20),
            _ => rng.random(),
        };
        match of {
            Type::Bool => Bool(rng.random()),
            Type::I32 => I32(if integer == 1 << 63 { i32::MIN } else { integer as i32 }),
            Type::I64 => I64(integer as i64),
            Type::U32 => U32(integer as u32),
            Type::U64 => U64(integer),
            Type::F32 => F32(float(rng) as f32),
            Type::F64 => F64(float(rng)),
            Type::C128 => {
                let part =
                    |rng: &mut SmallRng| [0.25, -0.75, 1.5, rng.random_range(-3.0..3.0)][rng.random_range(0..4)];
                C128(Complex { re: part(rng), im: part(rng) })
            }
            Type::Mersenne31 => Mersenne31(random_element(rng)),
            Type::BabyBear => BabyBear(random_element(rng)),
            Type::KoalaBear => KoalaBear(random_element(rng)),
            Type::Goldilocks => Goldilocks(random_element(rng)),
            Type::CM31 => CM31(random_element(rng)),
            Type::QM31 => QM31(random_element(rng)),
            Type::BabyBear4 => BabyBear4(random_element(rng)),
            Type::KoalaBear4 => KoalaBear4(random_element(rng)),
            Type::Goldilocks2 => Goldilocks2(random_element(rng)),
            Type::Goldilocks3 => Goldilocks3(random_element(rng)),
            narrow => unreachable!("{narrow:?} is narrow"),
        }
    }

    /// A small value that sums and products of many stay exact or close with.
    pub(super) fn mild(of: Type, rng: &mut SmallRng) -> Self {
        match of {
            Type::F32 => F32(rng.random_range(0.5..1.5)),
            Type::F64 => F64(rng.random_range(0.5..1.5)),
            Type::C128 => {
                let angle: f64 = rng.random_range(-1.0..1.0);
                C128(Complex { re: angle.cos(), im: angle.sin() })
            }
            _ => Self::random(of, rng),
        }
    }

    /// Whether a conversion to this type is defined for the value itself: NumPy's of a float that does not fit is not.
    pub(super) fn fits(self, to: Type) -> bool {
        let x = match self {
            F32(x) => x.into(),
            F64(x) => x,
            C128(x) => x.re,
            _ => return true,
        };
        match to {
            Type::I32 | Type::I64 => x.is_finite(),
            Type::U32 | Type::U64 => x.is_finite() && x > -1.0,
            _ => true,
        }
    }

    /// Whether the values are equal, or close for floats; `scale` is the size of what was added up, where results
    /// can cancel.
    pub(super) fn is_close(self, other: Self, scale: f64) -> bool {
        let close = |a: f64, b: f64, size: f64, epsilon: f64| {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= epsilon * size.max(scale)
        };
        match (self, other) {
            (Bool(a), Bool(b)) => a == b,
            (I32(a), I32(b)) => a == b,
            (I64(a), I64(b)) => a == b,
            (U32(a), U32(b)) => a == b,
            (U64(a), U64(b)) => a == b,
            (F32(a), F32(b)) => close(a.into(), b.into(), b.abs().into(), 4e-6),
            (F64(a), F64(b)) => close(a, b, b.abs(), 1e-13),
            (C128(a), C128(b)) => {
                let size = b.re.hypot(b.im);
                close(a.re, b.re, size, 1e-11) && close(a.im, b.im, size, 1e-11)
            }
            (Mersenne31(a), Mersenne31(b)) => a == b,
            (BabyBear(a), BabyBear(b)) => a == b,
            (KoalaBear(a), KoalaBear(b)) => a == b,
            (Goldilocks(a), Goldilocks(b)) => a == b,
            (CM31(a), CM31(b)) => a == b,
            (QM31(a), QM31(b)) => a == b,
            (BabyBear4(a), BabyBear4(b)) => a == b,
            (KoalaBear4(a), KoalaBear4(b)) => a == b,
            (Goldilocks2(a), Goldilocks2(b)) => a == b,
            (Goldilocks3(a), Goldilocks3(b)) => a == b,
            _ => false,
        }
    }

    pub(super) fn unary(self, operation: Unary) -> Self {
        macro_rules! integer {
            ($wrap:ident, $x:ident, $abs:expr) => {
                match operation {
                    Unary::Neg => $wrap($x.wrapping_neg()),
                    Unary::Abs => $wrap($abs),
                    Unary::Conj | Unary::Real => $wrap($x),
                    Unary::Imag => $wrap(0),
                    _ => unreachable!("{operation:?}"),
                }
            };
        }
        macro_rules! float {
            ($wrap:ident, $x:ident) => {
                match operation {
                    Unary::Neg => $wrap(-$x),
                    Unary::Abs => $wrap($x.abs()),
                    Unary::Exp => $wrap($x.exp()),
                    Unary::Log => $wrap($x.ln()),
                    Unary::Sqrt => $wrap($x.sqrt()),
                    Unary::Sin => $wrap($x.sin()),
                    Unary::Cos => $wrap($x.cos()),
                    Unary::Tan => $wrap($x.tan()),
                    Unary::Asin => $wrap($x.asin()),
                    Unary::Acos => $wrap($x.acos()),
                    Unary::Atan => $wrap($x.atan()),
                    Unary::Sinh => $wrap($x.sinh()),
                    Unary::Cosh => $wrap($x.cosh()),
                    Unary::Tanh => $wrap($x.tanh()),
                    Unary::Floor => $wrap($x.floor()),
                    Unary::Ceil => $wrap($x.ceil()),
                    Unary::Conj | Unary::Real => $wrap($x),
                    Unary::Imag => $wrap(0.0),
                    Unary::IsNan => Bool($x.is_nan()),
                    Unary::IsFinite => Bool($x.is_finite()),
                    Unary::Not => unreachable!("{operation:?}"),
                }
            };
        }
        match self {
            Bool(x) => Bool(!x),
            I32(x) => integer!(I32, x, x.wrapping_abs()),
            I64(x) => integer!(I64, x, x.wrapping_abs()),
            U32(x) => integer!(U32, x, x),
            U64(x) => integer!(U64, x, x),
            F32(x) => float!(F32, x),
            F64(x) => float!(F64, x),
            C128(x) => match operation {
                Unary::Abs => F64(x.re.hypot(x.im)),
                Unary::Real => F64(x.re),
                Unary::Imag => F64(x.im),
                Unary::IsNan => Bool(x.re.is_nan() || x.im.is_nan()),
                Unary::IsFinite => Bool(x.re.is_finite() && x.im.is_finite()),
                _ => C128(complex::unary(operation, x)),
            },
            field => for_fields!(field, x, wrap => wrap(-x), else unreachable!()),
        }
    }

    pub(super) fn binary(self, operation: Binary, other: Self) -> Self {
        macro_rules! compare {
            ($x:ident, $y:ident) => {
                match operation {
                    Binary::Eq => Bool($x == $y),
                    Binary::Ne => Bool($x != $y),
                    Binary::Lt => Bool($x < $y),
                    Binary::Le => Bool($x <= $y),
                    Binary::Gt => Bool($x > $y),
                    Binary::Ge => Bool($x >= $y),
                    _ => unreachable!("{operation:?}"),
                }
            };
        }
        macro_rules! integer {
            ($wrap:ident, $rust:ty, $x:ident) => {{
                if let (Binary::Pow, U64(mut exponent)) = (operation, other) {
                    let (mut power, mut result): ($rust, $rust) = ($x, 1);
                    while exponent != 0 {
                        result = if exponent & 1 == 1 { power.wrapping_mul(result) } else { result };
                        power = power.wrapping_mul(power);
                        exponent >>= 1;
                    }
                    return $wrap(result);
                }
                let $wrap(y) = other else { unreachable!() };
                let floor = || floor_div($x.into(), y.into()).unwrap_or((0, 0));
                match operation {
                    Binary::Add => $wrap($x.wrapping_add(y)),
                    Binary::Sub => $wrap($x.wrapping_sub(y)),
                    Binary::Mul => $wrap($x.wrapping_mul(y)),
                    Binary::FloorDiv => $wrap(floor().0 as $rust),
                    Binary::Remainder => $wrap(floor().1 as $rust),
                    Binary::Min => $wrap($x.min(y)),
                    Binary::Max => $wrap($x.max(y)),
                    Binary::And => $wrap($x & y),
                    Binary::Or => $wrap($x | y),
                    Binary::Xor => $wrap($x ^ y),
                    Binary::ShiftLeft => {
                        let past = !(0..<$rust>::BITS as i128).contains(&i128::from(y));
                        $wrap(if past { 0 } else { $x.wrapping_shl(y as u32) })
                    }
                    Binary::ShiftRight => {
                        let past = !(0..<$rust>::BITS as i128).contains(&i128::from(y));
                        $wrap(if past { ((i128::from($x)) >> 100) as $rust } else { $x >> y })
                    }
                    _ => compare!($x, y),
                }
            }};
        }
        macro_rules! float {
            ($wrap:ident, $x:ident) => {{
                let $wrap(y) = other else { unreachable!() };
                // As Python's: the remainder has the divisor's sign.
                let remainder = || {
                    let rest = $x % y;
                    if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest }
                };
                match operation {
                    Binary::Add => $wrap($x + y),
                    Binary::Sub => $wrap($x - y),
                    Binary::Mul => $wrap($x * y),
                    Binary::Div => $wrap($x / y),
                    Binary::Pow => $wrap($x.powf(y)),
                    Binary::FloorDiv if y == 0.0 => $wrap($x / y),
                    Binary::FloorDiv if y.is_infinite() && $x.is_finite() => {
                        $wrap(if $x != 0.0 && ($x < 0.0) != (y < 0.0) { -1.0 } else { 0.0 })
                    }
                    Binary::FloorDiv => $wrap((($x - remainder()) / y).round()),
                    Binary::Remainder => $wrap(remainder()),
                    Binary::Min | Binary::Max if $x.is_nan() => $wrap($x),
                    Binary::Min | Binary::Max if y.is_nan() => $wrap(y),
                    Binary::Min => $wrap($x.min(y)),
                    Binary::Max => $wrap($x.max(y)),
                    _ => compare!($x, y),
                }
            }};
        }
        match (self, other) {
            (Bool(x), Bool(y)) => match operation {
                Binary::And | Binary::Min => Bool(x && y),
                Binary::Or | Binary::Max => Bool(x || y),
                Binary::Xor => Bool(x != y),
                _ => compare!(x, y),
            },
            (U64(x), U64(y)) if operation == Binary::Random => U64(split_mix(y, x)),
            (I32(x), _) => integer!(I32, i32, x),
            (I64(x), _) => integer!(I64, i64, x),
            (U32(x), _) => integer!(U32, u32, x),
            (U64(x), _) => integer!(U64, u64, x),
            (F32(x), _) => float!(F32, x),
            (F64(x), _) => float!(F64, x),
            (C128(x), C128(y)) => match operation {
                Binary::Eq => Bool(x == y),
                Binary::Ne => Bool(x != y),
                _ => C128(complex::binary(operation, x, y)),
            },
            (field, _) => for_fields!(field, x, wrap => {
                if let (Binary::Pow, U64(exponent)) = (operation, other) {
                    return wrap(x.pow(exponent));
                }
                let y = plain(&other.bytes());
                match operation {
                    Binary::Add => wrap(x + y),
                    Binary::Sub => wrap(x - y),
                    Binary::Mul => wrap(x * y),
                    Binary::Eq => Bool(x == y),
                    Binary::Ne => Bool(x != y),
                    _ => unreachable!("{operation:?}"),
                }
            }, else unreachable!()),
        }
    }

    /// The value in another type.
    pub(super) fn convert(self, to: Type) -> Self {
        if self.of() == to {
            return self;
        }
        if to == Type::Bool {
            return Bool(match self {
                F32(x) => x != 0.0,
                F64(x) => x != 0.0,
                C128(x) => x != Complex::default(),
                Bool(x) => x,
                I32(x) => x != 0,
                I64(x) => x != 0,
                U32(x) => x != 0,
                U64(x) => x != 0,
                field => for_fields!(field, x, _wrap => x != Default::default(), else unreachable!()),
            });
        }
        let real = match self {
            F32(x) => Some(f64::from(x)),
            F64(x) => Some(x),
            C128(x) => Some(x.re),
            _ => None,
        };
        if let Some(x) = real {
            return match to {
                Type::I32 => I32(x as i32),
                Type::I64 => I64(x as i64),
                Type::U32 => U32(x as u32),
                Type::U64 => U64(x as u64),
                Type::F32 => F32(x as f32),
                Type::F64 => F64(x),
                _ => C128(Complex { re: x, im: 0.0 }),
            };
        }
        let integer: i128 = match self {
            Bool(x) => x.into(),
            I32(x) => x.into(),
            I64(x) => x.into(),
            U32(x) => x.into(),
            U64(x) => x.into(),
            Mersenne31(x) => x.to_u64().into(),
            BabyBear(x) => x.to_u64().into(),
            KoalaBear(x) => x.to_u64().into(),
            Goldilocks(x) => x.to_u64().into(),
            CM31(x) => return QM31(extend(x.coefficients())),
            _ => unreachable!("{self:?}"),
        };
        let modulo = |p: u64| integer.rem_euclid(p.into()) as u64;
        match to {
            Type::I32 => I32(integer as i32),
            Type::I64 => I64(integer as i64),
            Type::U32 => U32(integer as u32),
            Type::U64 => U64(integer as u64),
            Type::F32 => F32(integer as f32),
            Type::F64 => F64(integer as f64),
            Type::C128 => C128(Complex { re: integer as f64, im: 0.0 }),
            _ => {
                let n = modulo(to.modulus().unwrap());
                match to {
                    Type::Mersenne31 => Mersenne31(Field::from_u64(n)),
                    Type::BabyBear => BabyBear(Field::from_u64(n)),
                    Type::KoalaBear => KoalaBear(Field::from_u64(n)),
                    Type::Goldilocks => Goldilocks(Field::from_u64(n)),
                    Type::CM31 => CM31(extend(&[Field::from_u64(n)])),
                    Type::QM31 => QM31(extend(&[Field::from_u64(n)])),
                    Type::BabyBear4 => BabyBear4(extend(&[Field::from_u64(n)])),
                    Type::KoalaBear4 => KoalaBear4(extend(&[Field::from_u64(n)])),
                    Type::Goldilocks2 => Goldilocks2(extend(&[Field::from_u64(n)])),
                    _ => Goldilocks3(extend(&[Field::from_u64(n)])),
                }
            }
        }
    }
}

/// The element with these lowest coefficients.
fn extend<E: Extension>(lowest: &[E::Base]) -> E {
    let mut parts = lowest.to_vec();
    parts.resize(E::DEGREE, E::Base::ZERO);
    E::from_coefficients(&parts).unwrap()
}

/// The quotient rounded down, and what it leaves; `None` by zero.
fn floor_div(x: i128, y: i128) -> Option<(i128, i128)> {
    let rest = x.checked_rem(y)?;
    let off = i128::from(rest != 0 && (rest < 0) != (y < 0));
    Some((x / y - off, rest + off * y))
}

/// Output number `place` of SplitMix64: its state grows by a constant each time.
fn split_mix(seed: u64, place: u64) -> u64 {
    let step = 0x9e37_79b9_7f4a_7c15u64;
    let mut z = seed.wrapping_add(step.wrapping_mul(place.wrapping_add(1)));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
