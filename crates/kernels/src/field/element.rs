//! Elements of a base field or of one of its extensions, so that an operation is written once for both.

use super::{
    BabyBear, BabyBear4, CM31, Extension, Field, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4,
    Mersenne31, QM31, Ring, RiscZero4,
};

/// An element of a base field (degree 1) or of an extension.
pub trait Element: Ring {
    /// The field of the coefficients.
    type Base: Field + Element<Base = Self::Base>;
    /// The number of coefficients.
    const DEGREE: usize;

    /// The coefficients, lowest power first.
    fn parts(&self) -> &[Self::Base];
    /// The element with these coefficients, lowest power first; `None` if there are not [`Self::DEGREE`].
    fn from_parts(parts: &[Self::Base]) -> Option<Self>;
}

macro_rules! base_elements {
    ($($field:ty)*) => { $(
        impl Element for $field {
            type Base = Self;
            const DEGREE: usize = 1;

            fn parts(&self) -> &[Self] {
                std::slice::from_ref(self)
            }

            fn from_parts(parts: &[Self]) -> Option<Self> {
                match parts {
                    [element] => Some(*element),
                    _ => None,
                }
            }
        }
    )* };
}
base_elements!(BabyBear KoalaBear Mersenne31 Goldilocks);

macro_rules! extension_elements {
    ($($extension:ty)*) => { $(
        impl Element for $extension {
            type Base = <Self as Extension>::Base;
            const DEGREE: usize = <Self as Extension>::DEGREE;

            fn parts(&self) -> &[<Self as Extension>::Base] {
                self.coefficients()
            }

            fn from_parts(parts: &[<Self as Extension>::Base]) -> Option<Self> {
                Self::from_coefficients(parts)
            }
        }
    )* };
}
extension_elements!(BabyBear4 RiscZero4 KoalaBear4 Goldilocks2 Goldilocks3 CM31 QM31);
