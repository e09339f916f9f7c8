//! Devices to test on, and random input.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rigel_kernels::field::Field;

pub(crate) use rigel_gpu::testing::on_each_device;

/// A generator with a fixed seed, so that a failure can be reproduced.
pub(crate) fn rng(seed: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed)
}

/// Random field elements.
pub(crate) fn random<F: Field>(rng: &mut SmallRng, len: usize) -> Vec<F> {
    (0..len).map(|_| F::from_u64(rng.random())).collect()
}

/// A field and upstream's type for it.
pub(crate) trait Upstream: Field {
    /// Plonky3's field.
    type P3: p3_field::PrimeField64;

    /// Converts the element to upstream's type.
    fn upstream(self) -> Self::P3;
}

macro_rules! upstream {
    ($($ours:ident = $theirs:ty),*) => { $(
        impl Upstream for rigel_kernels::field::$ours {
            type P3 = $theirs;

            fn upstream(self) -> Self::P3 {
                p3_field::integers::QuotientMap::from_int(self.to_u64())
            }
        }
    )* };
}
upstream!(
    BabyBear = p3_baby_bear::BabyBear,
    KoalaBear = p3_koala_bear::KoalaBear,
    Goldilocks = p3_goldilocks::Goldilocks,
    Mersenne31 = p3_mersenne_31::Mersenne31
);
