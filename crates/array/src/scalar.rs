//! Scalars, and type promotion.

use rigel_codegen::map::{Complex, Complex64, Half, Number, NumberKind, Type};
use rigel_gpu::bytes_of;
use rigel_kernels::field::{
    BabyBear, BabyBear4, CM31, Element, Field, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4,
    Mersenne31, QM31, Ring,
};

use crate::error::{Error, Result};

/// A number as an operand. It takes the array's type if that can hold its kind: `1` becomes a float with floats
/// and a field element with field elements, while `0.5` converts integers to f64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// True or false.
    Bool(bool),
    /// An integer. `i128::MIN` and `i128::MAX` also stand for all integers beyond them.
    Int(i128),
    /// A float.
    Float(f64),
    /// A complex number.
    Complex(Complex),
    /// An element of a fixed type, by its words in memory.
    Element(Type, [u64; 3]),
}

impl Scalar {
    /// Whether it is not zero; NaN is not.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Complex(value) => value.re != 0.0 || value.im != 0.0,
            Self::Element(_, words) => words.iter().any(|word| *word != 0),
        }
    }

    /// A scalar of this type.
    pub fn element<T: Number>(value: T) -> Self {
        Self::Element(T::TYPE, words(bytes_of(&[value])))
    }

    /// The scalar's type if there is no array operand.
    pub fn natural_type(&self) -> Type {
        match *self {
            Self::Bool(_) => Type::Bool,
            Self::Int(value) if value > i64::MAX.into() => Type::U64,
            Self::Int(_) => Type::I64,
            Self::Float(_) => Type::F64,
            Self::Complex(_) => Type::C128,
            Self::Element(of, _) => of,
        }
    }

    /// The type of an operation on it and an array of type `array`.
    pub(crate) fn type_beside(&self, array: Type) -> Result<Type> {
        let refused = || Err(Error::of_type(format!("{self} can't be combined with {}", name(array))));
        match (self, array.kind()) {
            (Self::Element(of, _), _) => promote(*of, array),
            (Self::Bool(_), NumberKind::Field) => refused(),
            (Self::Bool(_), _) => Ok(array),
            (Self::Int(_), NumberKind::Bool) => Ok(Type::I64),
            (Self::Int(_), _) => Ok(array),
            (Self::Float(_), NumberKind::Float | NumberKind::Complex) => Ok(array),
            (Self::Float(_), NumberKind::Bool | NumberKind::Integer) => Ok(Type::F64),
            (Self::Complex(_), NumberKind::Field) | (Self::Float(_), NumberKind::Field) => refused(),
            (Self::Complex(_), _) if matches!(array, Type::F16 | Type::F32 | Type::C64) => Ok(Type::C64),
            (Self::Complex(_), _) => Ok(Type::C128),
        }
    }

    /// The scalar's words in memory as an element of the given type.
    pub(crate) fn words_as(&self, of: Type) -> Result<[u64; 3]> {
        let lost = || Error::of_type(format!("{self} is not a value of {}", name(of)));
        Ok(match (*self, of.kind()) {
            (Self::Element(own, words), _) if own == of => words,
            // A field's first coefficients.
            (Self::Element(own, words), NumberKind::Field) if own.embeds_in(of) => words,
            (Self::Int(value), NumberKind::Field) => integer_in_field(value, of),
            (Self::Bool(value), _) if of == Type::Bool => words(&[u8::from(value)]),
            (Self::Int(value), NumberKind::Bool) => words(&[u8::from(value != 0)]),
            (Self::Bool(value), NumberKind::Integer) => integer(value.into(), of).ok_or_else(lost)?,
            (Self::Int(value), NumberKind::Integer) => integer(value, of).ok_or_else(|| {
                let what = match value {
                    i128::MIN | i128::MAX => "an integer of more than 127 bits".to_owned(),
                    _ => value.to_string(),
                };
                Error::Range(format!("{what} is outside the range of {}", name(of)))
            })?,
            (_, NumberKind::Float) => {
                let value = self.real().ok_or_else(lost)?;
                match of {
                    Type::F16 => words(bytes_of(&[Half::from(value)])),
                    Type::F32 => words(bytes_of(&[value as f32])),
                    _ => words(bytes_of(&[value])),
                }
            }
            (_, NumberKind::Complex) => {
                let value = match *self {
                    Self::Complex(value) => value,
                    _ => Complex { re: self.real().ok_or_else(lost)?, im: 0.0 },
                };
                if of == Type::C64 {
                    words(bytes_of(&[Complex64::from(value)]))
                } else {
                    words(bytes_of(&[value]))
                }
            }
            _ => return Err(lost()),
        })
    }

    fn real(&self) -> Option<f64> {
        match *self {
            Self::Bool(value) => Some(f64::from(u8::from(value))),
            Self::Int(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            Self::Complex(_) | Self::Element(..) => None,
        }
    }

    /// The number with these words in memory; an extension element stays an element.
    pub(crate) fn of_words(of: Type, words: [u64; 3]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        match of {
            Type::Bool => Self::Bool(bytes[0] != 0),
            Type::I8 => Self::Int((words[0] as i8).into()),
            Type::I16 => Self::Int((words[0] as i16).into()),
            Type::I32 => Self::Int((words[0] as i32).into()),
            Type::U8 => Self::Int((words[0] as u8).into()),
            Type::U16 => Self::Int((words[0] as u16).into()),
            Type::U32 => Self::Int((words[0] as u32).into()),
            Type::I64 => Self::Int((words[0] as i64).into()),
            Type::U64 => Self::Int(words[0].into()),
            Type::F16 => Self::Float(f32::from(Half(words[0] as u16)).into()),
            Type::F32 => Self::Float(f32::from_bits(words[0] as u32).into()),
            Type::F64 => Self::Float(f64::from_bits(words[0])),
            Type::C64 => {
                let [re, im] = [words[0], words[0] >> 32].map(|bits| f32::from_bits(bits as u32));
                Self::Complex(Complex64 { re, im }.into())
            }
            Type::C128 => Self::Complex(Complex { re: f64::from_bits(words[0]), im: f64::from_bits(words[1]) }),
            _ if of.degree() == 1 => Self::Int(coefficients(of, words)[0].into()),
            // Goldilocks has several representations of a number; use the canonical one.
            _ => Self::Element(of, canonical(of, words)),
        }
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Complex(Complex { re, im }) => write!(f, "{re:?}{im:+?}j"),
            Self::Element(of, words) if of.is_field() => {
                let parts: Vec<String> = coefficients(of, words).iter().map(u64::to_string).collect();
                if parts.len() == 1 { f.write_str(&parts[0]) } else { write!(f, "[{}]", parts.join(", ")) }
            }
            Self::Element(of, words) => Self::of_words(of, words).fmt(f),
        }
    }
}

macro_rules! scalars_from {
    ($($of:ty => $variant:ident),*) => { $(
        impl From<$of> for Scalar {
            fn from(value: $of) -> Self {
                Self::$variant(value.into())
            }
        }
    )* };
}
scalars_from!(bool => Bool, i32 => Int, i64 => Int, u32 => Int, u64 => Int);
scalars_from!(f32 => Float, f64 => Float, Complex => Complex);

/// Little-endian bytes as words.
pub(crate) fn words(bytes: &[u8]) -> [u64; 3] {
    let mut all = [0; 24];
    all[..bytes.len()].copy_from_slice(bytes);
    std::array::from_fn(|i| u64::from_le_bytes(std::array::from_fn(|j| all[8 * i + j])))
}

fn integer(value: i128, of: Type) -> Option<[u64; 3]> {
    Some(match of {
        Type::I8 => words(&i8::try_from(value).ok()?.to_le_bytes()),
        Type::I16 => words(&i16::try_from(value).ok()?.to_le_bytes()),
        Type::U8 => words(&u8::try_from(value).ok()?.to_le_bytes()),
        Type::U16 => words(&u16::try_from(value).ok()?.to_le_bytes()),
        Type::I32 => words(&i32::try_from(value).ok()?.to_le_bytes()),
        Type::U32 => words(&u32::try_from(value).ok()?.to_le_bytes()),
        Type::I64 => words(&i64::try_from(value).ok()?.to_le_bytes()),
        _ => words(&u64::try_from(value).ok()?.to_le_bytes()),
    })
}

/// Runs a generic function for the Rust type of a field.
macro_rules! for_field {
    ($of:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $of {
            Type::Mersenne31 => $function::<Mersenne31>($($argument),*),
            Type::BabyBear => $function::<BabyBear>($($argument),*),
            Type::KoalaBear => $function::<KoalaBear>($($argument),*),
            Type::Goldilocks => $function::<Goldilocks>($($argument),*),
            Type::CM31 => $function::<CM31>($($argument),*),
            Type::QM31 => $function::<QM31>($($argument),*),
            Type::BabyBear4 => $function::<BabyBear4>($($argument),*),
            Type::KoalaBear4 => $function::<KoalaBear4>($($argument),*),
            Type::Goldilocks2 => $function::<Goldilocks2>($($argument),*),
            Type::Goldilocks3 => $function::<Goldilocks3>($($argument),*),
            other => unreachable!("{other:?} is not a field"),
        }
    };
}

fn integer_in_field(value: i128, of: Type) -> [u64; 3] {
    fn element<E: Element>(value: i128) -> [u64; 3] {
        let mut parts = vec![E::Base::ZERO; E::DEGREE];
        parts[0] = E::Base::from_u64(value.rem_euclid(E::Base::ORDER.into()) as u64);
        words(bytes_of(&parts))
    }
    for_field!(of, element(value))
}

/// The coefficients of a field element, each in `0..p`, lowest power first.
pub(crate) fn coefficients(of: Type, element: [u64; 3]) -> Vec<u64> {
    fn parts<E: Element>(words: [u64; 3]) -> Vec<u64> {
        let mut value = [E::ZERO];
        let bytes = rigel_gpu::bytes_of_mut(&mut value);
        let all: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.copy_from_slice(&all[..size_of::<E>()]);
        value[0].parts().iter().map(|part| part.to_u64()).collect()
    }
    for_field!(of, parts(element))
}

/// The words of an element with each coefficient in `0..p`.
fn canonical(of: Type, element: [u64; 3]) -> [u64; 3] {
    fn rebuilt<E: Element>(parts: &[u64]) -> [u64; 3] {
        let parts: Vec<E::Base> = parts.iter().map(|&part| E::Base::from_u64(part)).collect();
        words(bytes_of(&parts))
    }
    for_field!(of, rebuilt(&coefficients(of, element)))
}

/// The name of a type, as in Python.
pub fn name(of: Type) -> &'static str {
    match of {
        Type::Bool => "bool",
        Type::I8 => "int8",
        Type::I16 => "int16",
        Type::I32 => "int32",
        Type::I64 => "int64",
        Type::U8 => "uint8",
        Type::U16 => "uint16",
        Type::U32 => "uint32",
        Type::U64 => "uint64",
        Type::F16 => "float16",
        Type::F32 => "float32",
        Type::F64 => "float64",
        Type::C64 => "complex64",
        Type::C128 => "complex128",
        Type::Mersenne31 => "mersenne31",
        Type::BabyBear => "babybear",
        Type::KoalaBear => "koalabear",
        Type::Goldilocks => "goldilocks",
        Type::CM31 => "cm31",
        Type::QM31 => "qm31",
        Type::BabyBear4 => "babybear4",
        Type::KoalaBear4 => "koalabear4",
        Type::Goldilocks2 => "goldilocks2",
        Type::Goldilocks3 => "goldilocks3",
    }
}

/// The type with this name. Case, `-` and `_` are ignored (`KoalaBear`, `mersenne-31`).
pub fn type_named(text: &str) -> Result<Type> {
    let plain: String = text.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect();
    Type::ALL.into_iter().find(|&of| name(of) == plain).ok_or_else(|| {
        let known: Vec<_> = Type::ALL.into_iter().map(name).collect();
        Error::of_type(format!("unknown type {text:?}; supported: {}", known.join(", ")))
    })
}

/// The result type of an operation on two types: as in NumPy for numbers; the extension for a field and its
/// extension.
pub fn promote(a: Type, b: Type) -> Result<Type> {
    if a == b {
        return Ok(a);
    }
    if a.is_field() || b.is_field() {
        return if a.embeds_in(b) {
            Ok(b)
        } else if b.embeds_in(a) {
            Ok(a)
        } else {
            Err(Error::of_type(format!("{} and {} can't be combined; convert one with astype", name(a), name(b))))
        };
    }
    Ok(match a.kind().max(b.kind()) {
        NumberKind::Integer => whole(a, b),
        NumberKind::Float => fraction(a).max(fraction(b)),
        _ => match fraction(a).max(fraction(b)) {
            Type::F64 => Type::C128,
            _ => Type::C64,
        },
    })
}

/// The smallest integer type with the values of both, of which one may be Bool; F64 if there is none.
fn whole(a: Type, b: Type) -> Type {
    const SIGNED: [Type; 4] = [Type::I8, Type::I16, Type::I32, Type::I64];
    if a == Type::Bool || (b != Type::Bool && a.is_unsigned() == b.is_unsigned()) {
        return if a.bytes() > b.bytes() { a } else { b };
    }
    if b == Type::Bool {
        return a;
    }
    let (unsigned, signed) = if a.is_unsigned() { (a, b) } else { (b, a) };
    let bytes = (2 * unsigned.bytes()).max(signed.bytes());
    SIGNED.into_iter().find(|of| of.bytes() == bytes).unwrap_or(Type::F64)
}

/// The smallest float type that numbers of a type are converted to beside floats: their own for floats, that of their
/// parts for complex numbers.
pub(crate) fn fraction(of: Type) -> Type {
    match of {
        Type::Bool | Type::I8 | Type::U8 | Type::F16 => Type::F16,
        Type::I16 | Type::U16 | Type::F32 | Type::C64 => Type::F32,
        _ => Type::F64,
    }
}

pub(crate) use for_field;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again() {
        for of in Type::ALL {
            assert_eq!(type_named(name(of)).unwrap(), of);
        }
        assert_eq!(type_named("Mersenne-31").unwrap(), Type::Mersenne31);
        assert!(type_named("float128").unwrap_err().to_string().contains("float32"));
    }

    #[test]
    fn promotion_is_numpys() {
        use Type::{F32, F64, Goldilocks, Goldilocks2, I32, I64, KoalaBear, U32, U64};
        for (a, b, joint) in [(F32, I32, F64), (I32, U32, I64), (I64, U64, F64), (U32, U64, U64), (I64, U32, I64)]
        {
            assert_eq!(promote(a, b).unwrap(), joint);
            assert_eq!(promote(b, a).unwrap(), joint);
        }
        assert_eq!(promote(Goldilocks, Goldilocks2).unwrap(), Goldilocks2);
        assert!(promote(Goldilocks, KoalaBear).is_err());
        assert!(promote(Goldilocks, F64).is_err());
    }

    #[test]
    fn integers_beside_fields_are_taken_modulo_p() {
        let minus_one = Scalar::Int(-1).words_as(Type::KoalaBear).unwrap();
        assert_eq!(coefficients(Type::KoalaBear, minus_one), [KoalaBear::ORDER - 1]);
        let in_extension = Scalar::Int(5).words_as(Type::Goldilocks3).unwrap();
        assert_eq!(coefficients(Type::Goldilocks3, in_extension), [5, 0, 0]);
        assert!(Scalar::Float(0.5).type_beside(Type::BabyBear).is_err());
        assert!(Scalar::Int(300).words_as(Type::I32).is_ok());
        assert!(Scalar::Int(1 << 40).words_as(Type::I32).is_err());
        assert!(Scalar::Int(300).words_as(Type::I8).is_err() && Scalar::Int(-1).words_as(Type::U8).is_err());
    }
}
