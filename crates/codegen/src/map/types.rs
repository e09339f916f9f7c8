//! The types of array elements.

use rigel_kernels::field::{
    BabyBear, BabyBear4, CM31, Element, Field, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4,
    Mersenne31, QM31,
};

/// The type of an array's elements.
///
/// Integers of 8 and 16 bits, F16 and C64 are *narrow*: they are only stored. An expression computes in the type that
/// [`Type::wide`] names, and rounds or truncates the result of each operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// True or false, one byte, 1 or 0.
    Bool,
    /// A signed integer of 8 bits.
    I8,
    /// A signed integer of 16 bits.
    I16,
    /// A signed integer of 32 bits.
    I32,
    /// A signed integer of 64 bits.
    I64,
    /// An unsigned integer of 8 bits.
    U8,
    /// An unsigned integer of 16 bits.
    U16,
    /// An unsigned integer of 32 bits.
    U32,
    /// An unsigned integer of 64 bits.
    U64,
    /// A floating-point number of 16 bits: a sign, 5 bits of exponent, 10 of mantissa.
    F16,
    /// A floating-point number of 32 bits.
    F32,
    /// A floating-point number of 64 bits.
    F64,
    /// A complex number of two 32-bit floating-point numbers, real part first.
    C64,
    /// A complex number of two 64-bit floating-point numbers, real part first.
    C128,
    /// 2^31 - 1.
    Mersenne31,
    /// 2^31 - 2^27 + 1.
    BabyBear,
    /// 2^31 - 2^24 + 1.
    KoalaBear,
    /// 2^64 - 2^32 + 1.
    Goldilocks,
    /// Mersenne-31 with i^2 = -1.
    CM31,
    /// CM31 with u^2 = 2 + i.
    QM31,
    /// BabyBear's extension of degree 4.
    BabyBear4,
    /// KoalaBear's extension of degree 4.
    KoalaBear4,
    /// Goldilocks' extension of degree 2.
    Goldilocks2,
    /// Goldilocks' extension of degree 3.
    Goldilocks3,
}

/// The kind of number that a type holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumberKind {
    /// True or false.
    Bool,
    /// Integers, which wrap around.
    Integer,
    /// Floating-point numbers.
    Float,
    /// Complex floating-point numbers.
    Complex,
    /// Elements of a finite field.
    Field,
}

/// The facts that describe a field's type.
struct FieldFacts {
    name: &'static str,
    bytes: usize,
    degree: usize,
    order: u64,
    two_adicity: u32,
}

fn facts<E: Element>() -> FieldFacts {
    FieldFacts {
        name: E::NAME,
        bytes: size_of::<E>(),
        degree: E::DEGREE,
        order: E::Base::ORDER,
        two_adicity: E::Base::TWO_ADICITY,
    }
}

impl Type {
    /// All types.
    pub const ALL: [Self; 24] = [
        Self::Bool,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::C64,
        Self::C128,
        Self::Mersenne31,
        Self::BabyBear,
        Self::KoalaBear,
        Self::Goldilocks,
        Self::CM31,
        Self::QM31,
        Self::BabyBear4,
        Self::KoalaBear4,
        Self::Goldilocks2,
        Self::Goldilocks3,
    ];

    fn facts(self) -> Option<FieldFacts> {
        Some(match self {
            Self::Mersenne31 => facts::<Mersenne31>(),
            Self::BabyBear => facts::<BabyBear>(),
            Self::KoalaBear => facts::<KoalaBear>(),
            Self::Goldilocks => facts::<Goldilocks>(),
            Self::CM31 => facts::<CM31>(),
            Self::QM31 => facts::<QM31>(),
            Self::BabyBear4 => facts::<BabyBear4>(),
            Self::KoalaBear4 => facts::<KoalaBear4>(),
            Self::Goldilocks2 => facts::<Goldilocks2>(),
            Self::Goldilocks3 => facts::<Goldilocks3>(),
            _ => return None,
        })
    }

    /// The kind of number that the type holds.
    pub fn kind(self) -> NumberKind {
        match self {
            Self::Bool => NumberKind::Bool,
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => NumberKind::Integer,
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => NumberKind::Integer,
            Self::F16 | Self::F32 | Self::F64 => NumberKind::Float,
            Self::C64 | Self::C128 => NumberKind::Complex,
            _ => NumberKind::Field,
        }
    }

    /// The type in which operations on elements of this type are computed: itself, except for narrow types.
    pub fn wide(self) -> Self {
        match self {
            Self::I8 | Self::I16 => Self::I32,
            Self::U8 | Self::U16 => Self::U32,
            Self::F16 => Self::F32,
            Self::C64 => Self::C128,
            other => other,
        }
    }

    /// Whether elements of this type are only stored: operations convert them to another type.
    pub fn is_narrow(self) -> bool {
        self.wide() != self
    }

    /// Whether it holds integers that are never negative.
    pub fn is_unsigned(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    /// Whether it holds elements of a finite field.
    pub fn is_field(self) -> bool {
        self.kind() == NumberKind::Field
    }

    /// The size of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::C64 => 8,
            Self::C128 => 16,
            _ => self.facts().map_or(0, |facts| facts.bytes),
        }
    }

    /// The alignment in bytes of an element's address.
    pub fn alignment(self) -> usize {
        self.bytes() / self.degree()
    }

    /// The type's C++ name in kernels.
    pub fn cuda_name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::F16 => "Half",
            Self::C64 => "Complex64",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F32 => "float",
            Self::F64 => "double",
            Self::C128 => "Complex",
            _ => self.facts().map_or("", |facts| facts.name),
        }
    }

    /// The number of coefficients of a field's element over its prime field; 1 for all other types.
    pub fn degree(self) -> usize {
        self.facts().map_or(1, |facts| facts.degree)
    }

    /// The prime field of a field's coefficients; itself for all other types.
    pub fn base(self) -> Self {
        match self {
            Self::CM31 | Self::QM31 => Self::Mersenne31,
            Self::BabyBear4 => Self::BabyBear,
            Self::KoalaBear4 => Self::KoalaBear,
            Self::Goldilocks2 | Self::Goldilocks3 => Self::Goldilocks,
            other => other,
        }
    }

    /// The prime p of a field; `None` for all other types.
    pub fn modulus(self) -> Option<u64> {
        self.facts().map(|facts| facts.order)
    }

    /// The largest k for which the prime field has a root of unity of order 2^k; 0 for types that are no field.
    pub fn two_adicity(self) -> u32 {
        self.facts().map_or(0, |facts| facts.two_adicity)
    }

    /// Whether `self` is a field that `other` contains: itself, or an extension of its prime field.
    pub fn embeds_in(self, other: Self) -> bool {
        self.is_field()
            && (self == other
                || (self.degree() == 1 && other.base() == self)
                || (self, other) == (Self::CM31, Self::QM31))
    }
}

/// The type that a Rust type stands for.
macro_rules! types_of {
    ($($rust:ty => $of:ident),* $(,)?) => { $(
        // SAFETY: the two have the same form; a test compares their sizes and alignments.
        unsafe impl Number for $rust {
            const TYPE: Type = Type::$of;
        }
    )*

        /// The types with the sizes and alignments of the Rust types.
        #[cfg(test)]
        const LAYOUTS: &[(Type, usize, usize)] = &[$((Type::$of, size_of::<$rust>(), align_of::<$rust>())),*];
    };
}

/// A Rust type whose values are elements of arrays of the type [`Self::TYPE`], bit for bit.
///
/// # Safety
///
/// A value has the size and the form of an element of `TYPE`, and no larger alignment: memory of arrays is read and
/// written as slices of such values.
pub unsafe trait Number: rigel_gpu::Plain + Default + PartialEq + std::fmt::Debug {
    /// The type of arrays of it.
    const TYPE: Type;
}

/// A complex number of two 64-bit floating-point numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    /// The real part.
    pub re: f64,
    /// The imaginary part.
    pub im: f64,
}

// SAFETY: two numbers without a gap.
unsafe impl rigel_gpu::Plain for Complex {}

/// A complex number of two 32-bit floating-point numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex64 {
    /// The real part.
    pub re: f32,
    /// The imaginary part.
    pub im: f32,
}

// SAFETY: two numbers without a gap.
unsafe impl rigel_gpu::Plain for Complex64 {}

impl From<Complex64> for Complex {
    #[inline(always)]
    fn from(z: Complex64) -> Self {
        Self { re: z.re.into(), im: z.im.into() }
    }
}

impl From<Complex> for Complex64 {
    /// Rounds both parts.
    #[inline(always)]
    fn from(z: Complex) -> Self {
        Self { re: z.re as f32, im: z.im as f32 }
    }
}

/// A floating-point number of 16 bits, by its bits. Two are equal if their bits are, so NaN equals itself.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Half(pub u16);

// SAFETY: a number.
unsafe impl rigel_gpu::Plain for Half {}

impl From<Half> for f32 {
    #[inline(always)]
    fn from(x: Half) -> Self {
        let (sign, rest) = (u32::from(x.0 & 0x8000) << 16, u32::from(x.0 & 0x7fff));
        let magnitude = match rest {
            // Subnormal: a multiple of 2^-24.
            0..0x400 => (rest as Self * 2f32.powi(-24)).to_bits(),
            0x7c00.. => 0x7f80_0000 | rest << 13,
            _ => (rest << 13) + (112 << 23),
        };
        Self::from_bits(sign | magnitude)
    }
}

impl From<f32> for Half {
    /// Rounds to the nearest number, or to the even one of two.
    #[inline(always)]
    fn from(x: f32) -> Self {
        let bits = x.to_bits();
        let (sign, rest) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
        let magnitude = match rest {
            // Not a number: the upper bits of what it carries, and one that keeps it from being infinite.
            0x7f80_0001.. => 0x7e00 | (rest >> 13 & 0x1ff),
            // From 65520 on, the nearest number is infinite.
            0x477f_f000.. => 0x7c00,
            // Below 2^-14, multiples of 2^-24, the distance of neighbours from 0.5 on: the sum rounds to one.
            0..0x3880_0000 => (f32::from_bits(rest) + 0.5).to_bits() - 0.5f32.to_bits(),
            // Half a unit less one, or half a unit if the last bit that is kept is odd.
            _ => (rest - (112 << 23) + 0xfff + (rest >> 13 & 1)) >> 13,
        };
        Self((sign | magnitude) as u16)
    }
}

impl From<f64> for Half {
    /// Rounds once: what a float of 32 bits can't hold is kept in its last bit, which is far below the last bit of a
    /// half, so that it only decides ties.
    #[inline(always)]
    fn from(x: f64) -> Self {
        let near = x as f32;
        let exact = f64::from(near) == x || x.is_nan();
        // The neighbour towards zero, with its last bit set.
        let above = f64::from(near).abs() > x.abs();
        let odd = f32::from_bits((near.to_bits() - u32::from(above)) | 1);
        Self::from(if exact { near } else { odd })
    }
}

types_of! {
    i8 => I8, i16 => I16, u8 => U8, u16 => U16, Half => F16, Complex64 => C64,
    i32 => I32, i64 => I64, u32 => U32, u64 => U64, f32 => F32, f64 => F64, Complex => C128,
    Mersenne31 => Mersenne31, BabyBear => BabyBear, KoalaBear => KoalaBear, Goldilocks => Goldilocks,
    CM31 => CM31, QM31 => QM31, BabyBear4 => BabyBear4, KoalaBear4 => KoalaBear4,
    Goldilocks2 => Goldilocks2, Goldilocks3 => Goldilocks3,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a half, from its definition.
    fn value(bits: u16) -> f64 {
        let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
        let size = match exponent {
            0 => mantissa * 2f64.powi(-24),
            31 if mantissa == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
        };
        if bits >> 15 == 1 { -size } else { size }
    }

    #[test]
    fn elements_can_be_read_as_values_of_their_rust_types() {
        for &(of, bytes, alignment) in LAYOUTS {
            assert_eq!(of.bytes(), bytes, "{of:?}");
            assert!(of.alignment().is_multiple_of(alignment), "{of:?}");
        }
    }

    #[test]
    fn halves_are_exact_and_round_to_the_nearest() {
        for bits in 0..=u16::MAX {
            let (half, expected) = (Half(bits), value(bits));
            let float = f32::from(half);
            if expected.is_nan() {
                assert!(float.is_nan() && f32::from(Half::from(float)).is_nan());
                continue;
            }
            assert_eq!(f64::from(float).to_bits(), expected.to_bits(), "{bits:#x}");
            assert_eq!((Half::from(float), Half::from(expected)), (half, half));
            if expected.is_infinite() || expected == 0.0 {
                continue;
            }
            // Halfway to the next number away from zero, ties go to even bits; what is nearer goes there.
            let next = if bits & 0x7fff == 0x7bff { expected.signum() * 65536.0 } else { value(bits + 1) };
            let middle = (expected + next) / 2.0;
            let (below, above) = (middle * (1.0 - 1e-15), middle * (1.0 + 1e-15));
            let even = Half(bits + (bits & 1));
            assert_eq!(Half::from(middle as f32), even, "{middle}");
            assert_eq!(
                [below, middle, above].map(Half::from),
                [half, even, Half(bits + 1)],
                "{middle}, between {expected} and {next}"
            );
        }
        for (wide, bits) in [(1e300, 0x7c00), (-1e300, 0xfc00), (1e-300, 0), (-1e-300, 0x8000)] {
            assert_eq!(Half::from(wide), Half(bits));
        }
    }
}
