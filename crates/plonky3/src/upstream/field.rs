//! Upstream's field types and their device counterparts.
//!
//! Both have the same memory representation, so a slice of one is a slice of the other: traces are uploaded and
//! opened rows downloaded without conversion.

use p3_baby_bear::BabyBear;
use p3_field::extension::{BinomialExtensionField, CubicTrinomialExtensionField};
use p3_field::{ExtensionField, PrimeField64, TwoAdicField};
use p3_goldilocks::Goldilocks;
use p3_koala_bear::KoalaBear;
use rigel_kernels::field;
use rigel_kernels::field::Element;
use rigel_kernels::transform::ntt::TwoAdic;

/// A Plonky3 base field that the kernels support.
///
/// # Safety
///
/// `Device` has the size, alignment and memory representation of `Self`: the bytes of any value of one type are a
/// valid value of the other and represent the same element.
pub unsafe trait DeviceField: PrimeField64 + TwoAdicField {
    /// The device counterpart.
    type Device: TwoAdic + Element<Base = Self::Device>;

    /// Views a slice as the device type.
    fn as_device(values: &[Self]) -> &[Self::Device] {
        // SAFETY: the trait's contract.
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
    }

    /// Views a slice of the device type as elements.
    fn from_device(values: &[Self::Device]) -> &[Self] {
        // SAFETY: the trait's contract.
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
    }

    /// Converts one element to the device type.
    fn twin(self) -> Self::Device {
        Self::as_device(&[self])[0]
    }
}

// SAFETY: both are transparent over a u32 in Montgomery form with R = 2^32.
unsafe impl DeviceField for KoalaBear {
    type Device = field::KoalaBear;
}
// SAFETY: both are transparent over a u32 in Montgomery form with R = 2^32.
unsafe impl DeviceField for BabyBear {
    type Device = field::BabyBear;
}
// SAFETY: both are transparent over a u64, any representative of the class.
unsafe impl DeviceField for Goldilocks {
    type Device = field::Goldilocks;
}

/// A Plonky3 extension field that the kernels support, with the same polynomial and basis.
pub trait DeviceExtension<V: DeviceField>: ExtensionField<V> {
    /// The device counterpart.
    type Device: Element<Base = V::Device>;

    /// Converts an element to the device type.
    fn to_device(self) -> Self::Device {
        let parts = V::as_device(self.as_basis_coefficients_slice());
        Self::Device::from_parts(parts).expect("the device counterpart has the same degree")
    }

    /// The elements whose coefficients are stored consecutively in `words`.
    fn from_words(words: &[V::Device]) -> Vec<Self> {
        let element =
            |parts| Self::from_basis_coefficients_slice(V::from_device(parts)).expect("chunks of the degree");
        words.chunks_exact(Self::DIMENSION).map(element).collect()
    }
}

impl DeviceExtension<KoalaBear> for BinomialExtensionField<KoalaBear, 4> {
    type Device = field::KoalaBear4;
}
impl DeviceExtension<BabyBear> for BinomialExtensionField<BabyBear, 4> {
    type Device = field::BabyBear4;
}
impl DeviceExtension<Goldilocks> for BinomialExtensionField<Goldilocks, 2> {
    type Device = field::Goldilocks2;
}
impl DeviceExtension<Goldilocks> for CubicTrinomialExtensionField<Goldilocks> {
    type Device = field::Goldilocks3;
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use rigel_kernels::field::Field;

    use super::*;

    fn twins_agree<V: DeviceField, E: DeviceExtension<V>>() {
        let mut rng = SmallRng::seed_from_u64(1);
        assert_eq!((size_of::<V>(), align_of::<V>()), (size_of::<V::Device>(), align_of::<V::Device>()));
        for value in [0, 1, V::ORDER_U64 - 1].into_iter().chain((0..100).map(|_| rng.random())) {
            let element = V::from_u64(value);
            assert_eq!(element.twin().to_u64(), element.as_canonical_u64());
            assert_eq!(V::from_device(&[V::Device::from_u64(value)])[0], element);
        }
        let mut random = || E::from_basis_coefficients_fn(|_| V::from_u64(rng.random()));
        let (a, b) = (random(), random());
        let product = a.to_device() * b.to_device();
        assert_eq!(E::from_words(product.parts()), [a * b]);
    }

    #[test]
    fn twins_are_the_same_elements() {
        twins_agree::<KoalaBear, BinomialExtensionField<KoalaBear, 4>>();
        twins_agree::<BabyBear, BinomialExtensionField<BabyBear, 4>>();
        twins_agree::<Goldilocks, BinomialExtensionField<Goldilocks, 2>>();
        twins_agree::<Goldilocks, CubicTrinomialExtensionField<Goldilocks>>();
    }
}
