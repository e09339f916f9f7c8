//! The types of array elements.

use rigel_kernels::field::{
    BabyBear, BabyBear4, CM31, Element, Field, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4,
    Mersenne31, QM31,
};

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// True or false, one byte, 1 or 0.
    Bool,
    /// A signed integer of 32 bits.
    I32,
    /// A signed integer of 64 bits.
    I64,
    /// An unsigned integer of 32 bits.
    U32,
    /// An unsigned integer of 64 bits.
    U64,
    /// A floating-point number of 32 bits.
    F32,
    /// A floating-point number of 64 bits.
    F64,
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

/// What sort of number a type holds.
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

/// What a field's type is known by.
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
    pub const ALL: [Self; 18] = [
        Self::Bool,
        Self::I32,
        Self::I64,
        Self::U32,
        Self::U64,
        Self::F32,
        Self::F64,
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

    /// What sort of number it holds.
    pub fn kind(self) -> NumberKind {
        match self {
            Self::Bool => NumberKind::Bool,
            Self::I32 | Self::I64 | Self::U32 | Self::U64 => NumberKind::Integer,
            Self::F32 | Self::F64 => NumberKind::Float,
            Self::C128 => NumberKind::Complex,
            _ => NumberKind::Field,
        }
    }

    /// Whether it holds elements of a finite field.
    pub fn is_field(self) -> bool {
        self.kind() == NumberKind::Field
    }

    /// The size of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
            Self::C128 => 16,
            _ => self.facts().map_or(0, |facts| facts.bytes),
        }
    }

    /// What the address of an element must be a multiple of.
    pub fn alignment(self) -> usize {
        self.bytes() / self.degree()
    }

    /// Its C++ type in kernels.
    pub fn cuda_name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
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
        impl Number for $rust {
            const TYPE: Type = Type::$of;
        }
    )* };
}

/// A Rust type whose values are elements of arrays of the type [`Self::TYPE`], bit for bit.
pub trait Number: rigel_gpu::Plain + Default + PartialEq + std::fmt::Debug {
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

types_of! {
    i32 => I32, i64 => I64, u32 => U32, u64 => U64, f32 => F32, f64 => F64, Complex => C128,
    Mersenne31 => Mersenne31, BabyBear => BabyBear, KoalaBear => KoalaBear, Goldilocks => Goldilocks,
    CM31 => CM31, QM31 => QM31, BabyBear4 => BabyBear4, KoalaBear4 => KoalaBear4,
    Goldilocks2 => Goldilocks2, Goldilocks3 => Goldilocks3,
}
