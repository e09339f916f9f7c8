//! Host field types against upstream: stored forms, ring operations, inverses, generators. Reductions against the
//! remainder.

use std::array;

use p3_field::extension::{BinomialExtensionField, CubicTrinomialExtensionField};
use p3_field::{BasedVectorSpace, PrimeField64, TwoAdicField};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use stwo::core::fields::FieldExpOps;

use super::*;

/// Integers around the boundaries of carries, borrows and reductions, then random ones.
fn integers(seed: u64) -> Vec<u64> {
    let mut values = vec![0, 1, 2, 3];
    for order in
        [BabyBear::ORDER, KoalaBear::ORDER, Mersenne31::ORDER, Goldilocks::ORDER, 1 << 31, 1 << 32, 1 << 63]
    {
        values.extend((0..5).map(|i| order.wrapping_add(i).wrapping_sub(2)));
    }
    values.extend([u64::MAX - 1, u64::MAX]);
    let mut rng = SmallRng::seed_from_u64(seed);
    values.extend((0..50).map(|_| rng.random::<u64>()));
    values
}

/// A host field and upstream's type of the same prime field, related by the canonical integer.
fn check_field<F: Field, U: PrimeField64>(word: impl Fn(U) -> F::Word) {
    assert_eq!(F::ORDER, U::ORDER_U64);
    assert_eq!(size_of::<F>(), size_of::<U>());
    assert_eq!(F::GENERATOR.to_u64(), U::GENERATOR.as_canonical_u64());
    assert_eq!((F::ZERO.to_u64(), F::ONE.to_u64()), (0, 1));
    assert!(F::ZERO.inverse().is_none());

    let values = integers(1);
    for &a in &values {
        let (x, u) = (F::from_u64(a), U::from_u64(a));
        assert_eq!(x.to_u64(), u.as_canonical_u64());
        assert_eq!(F::from_word(word(u)), x, "stored form of {a}");
        assert_eq!(F::from_word(x.word()), x);
        assert_eq!((-x).to_u64(), (-u).as_canonical_u64());
        assert_eq!(x.pow(a).to_u64(), u.exp_u64(a).as_canonical_u64());
        assert_eq!(x.inverse().map(F::to_u64), u.try_inverse().map(|inverse| inverse.as_canonical_u64()));
        for &b in &values {
            let (y, v) = (F::from_u64(b), U::from_u64(b));
            assert_eq!((x + y).to_u64(), (u + v).as_canonical_u64());
            assert_eq!((x - y).to_u64(), (u - v).as_canonical_u64());
            assert_eq!((x * y).to_u64(), (u * v).as_canonical_u64());
            assert_eq!(x == y, u == v);
        }
    }
}

fn check_two_adic<F: Field, U: PrimeField64 + TwoAdicField>() {
    assert_eq!(F::TWO_ADICITY as usize, U::TWO_ADICITY);
    for bits in 0..=F::TWO_ADICITY {
        assert_eq!(F::two_adic_generator(bits).to_u64(), U::two_adic_generator(bits as usize).as_canonical_u64());
    }
}

#[test]
fn base_fields_equal_plonky3() {
    // SAFETY: upstream's 31-bit fields and Goldilocks are `repr(transparent)` over the stored integer.
    let word32 = |pointer: *const u32| unsafe { *pointer };
    check_field::<BabyBear, p3_baby_bear::BabyBear>(|u| word32((&raw const u).cast()));
    check_field::<KoalaBear, p3_koala_bear::KoalaBear>(|u| word32((&raw const u).cast()));
    check_field::<Mersenne31, p3_mersenne_31::Mersenne31>(|u| word32((&raw const u).cast()));
    // SAFETY: as above.
    check_field::<Goldilocks, p3_goldilocks::Goldilocks>(|u| unsafe { *(&raw const u).cast::<u64>() });
    check_two_adic::<BabyBear, p3_baby_bear::BabyBear>();
    check_two_adic::<KoalaBear, p3_koala_bear::KoalaBear>();
    check_two_adic::<Goldilocks, p3_goldilocks::Goldilocks>();
    assert_eq!(Mersenne31::two_adic_generator(1), -Mersenne31::ONE);
}

/// A host extension against an oracle given by three functions on canonical coefficients.
fn check_extension<E: Extension>(
    product: impl Fn(&[u64], &[u64]) -> Vec<u64>,
    inverse: impl Fn(&[u64]) -> Vec<u64>,
) {
    let mut rng = SmallRng::seed_from_u64(2);
    let edges = integers(3);
    let mut element = || -> E {
        let coefficients: Vec<_> =
            (0..E::DEGREE).map(|_| E::Base::from_u64(edges[rng.random_range(0..edges.len())])).collect();
        E::from_coefficients(&coefficients).expect("as many coefficients as the degree")
    };
    let canonical = |e: E| e.coefficients().iter().map(|c| c.to_u64()).collect::<Vec<_>>();

    assert!(E::ZERO.inverse().is_none());
    assert!(E::from_coefficients(&[]).is_none());
    for _ in 0..200 {
        let (a, b, scalar) = (element(), element(), E::Base::from_u64(edges[7]));
        assert_eq!(canonical(a * b), product(&canonical(a), &canonical(b)));
        assert_eq!(a * scalar, a * E::from(scalar));
        assert_eq!(a + scalar, a + E::from(scalar));
        assert_eq!(a - b + b, a);
        assert_eq!(-a + a, E::ZERO);
        assert_eq!(a.pow(3), a * a * a);
        if a != E::ZERO {
            let inverted = a.inverse().expect("nonzero");
            assert_eq!(canonical(inverted), inverse(&canonical(a)));
            assert_eq!(inverted * a, E::ONE);
        }
    }
}

/// Checks an extension as [`check_extension`] does, with upstream's extension `V` of `U` as the oracle.
fn check_plonky3_extension<E: Extension, U: PrimeField64, V: BasedVectorSpace<U> + p3_field::Field>() {
    let up = |a: &[u64]| V::from_basis_coefficients_fn(|i| U::from_u64(a[i]));
    let down = |v: V| v.as_basis_coefficients_slice().iter().map(|c: &U| c.as_canonical_u64()).collect::<Vec<_>>();
    check_extension::<E>(|a, b| down(up(a) * up(b)), |a| down(up(a).inverse()));
}

#[test]
fn extensions_equal_plonky3() {
    use p3_baby_bear::BabyBear as B;
    use p3_goldilocks::Goldilocks as G;
    use p3_koala_bear::KoalaBear as K;
    check_plonky3_extension::<BabyBear4, B, BinomialExtensionField<B, 4>>();
    check_plonky3_extension::<KoalaBear4, K, BinomialExtensionField<K, 4>>();
    check_plonky3_extension::<Goldilocks2, G, BinomialExtensionField<G, 2>>();
    check_plonky3_extension::<Goldilocks3, G, CubicTrinomialExtensionField<G>>();
}

#[test]
fn extensions_equal_stwo() {
    use stwo::core::fields::{cm31, m31::M31, qm31};
    let complex = |a: &[u64]| cm31::CM31(M31(a[0] as u32), M31(a[1] as u32));
    let complex_down = |c: cm31::CM31| vec![c.0.0 as u64, c.1.0 as u64];
    check_extension::<CM31>(|a, b| complex_down(complex(a) * complex(b)), |a| complex_down(complex(a).inverse()));

    let secure = |a: &[u64]| qm31::QM31::from_m31_array(array::from_fn(|i| M31(a[i] as u32)));
    let secure_down = |q: qm31::QM31| q.to_m31_array().iter().map(|c| c.0 as u64).collect::<Vec<_>>();
    check_extension::<QM31>(|a, b| secure_down(secure(a) * secure(b)), |a| secure_down(secure(a).inverse()));
}

/// Sums of products that are reduced once, against sums of reduced products; includes the largest stored forms.
#[test]
fn dot_is_the_sum_of_products() {
    fn of_length<F: Field, const D: usize>(elements: &[F]) {
        for a in elements.windows(D) {
            for b in elements.windows(D).rev().step_by(3) {
                let expected = a.iter().zip(b).fold(F::ZERO, |sum, (&x, &y)| sum + x * y);
                assert_eq!(F::dot::<D>(array::from_fn(|i| a[i]), array::from_fn(|i| b[i])), expected);
            }
        }
    }
    fn of<F: Field>(largest: F::Word) {
        let mut elements = vec![F::from_word(largest); 9];
        elements.extend(integers(4).into_iter().map(F::from_u64));
        of_length::<F, 1>(&elements);
        of_length::<F, 2>(&elements);
        of_length::<F, 3>(&elements);
        of_length::<F, 4>(&elements);
        of_length::<F, 5>(&elements);
        of_length::<F, 9>(&elements);
    }
    of::<BabyBear>(BabyBear::ORDER as u32 - 1);
    of::<KoalaBear>(KoalaBear::ORDER as u32 - 1);
    of::<Mersenne31>(Mersenne31::ORDER as u32 - 1);
    of::<Goldilocks>(u64::MAX);
}

/// Reductions of wide integers against the remainder, at the ends of their ranges and in between.
#[test]
fn reductions_equal_the_remainder() {
    macro_rules! montgomery {
        ($($field:ty)*) => { $(
            let p = <$field>::ORDER;
            let bound = p << 32;
            let edges = [bound - 1, bound, bound + 1, bound - p, 2 * (p - 1) * (p - 1)];
            for x in integers(5).into_iter().chain(edges) {
                let settled = <$field>::settle(x);
                assert_eq!(settled % p, x % p);
                assert!(settled as u128 + 2 * (p as u128 - 1).pow(2) < 1 << 64, "room after {x:#x}");
                let twice = <$field>::settle(settled);
                assert!(twice < bound, "{x:#x}");
                let word = <$field>::montgomery_reduce(twice).word() as u64;
                assert!(word < p);
                assert_eq!((word << 32) % p, x % p, "{x:#x}");
            }
        )* };
    }
    montgomery!(BabyBear KoalaBear);

    for x in integers(6) {
        let settled = Mersenne31::settle(x);
        assert_eq!(settled % Mersenne31::ORDER, x % Mersenne31::ORDER);
        assert!(settled < 1 << 34);
    }
    for high in integers(7) {
        for low in integers(8) {
            let x = (high as u128) << 64 | low as u128;
            assert_eq!(Goldilocks::reduce(x).to_u64() as u128, x % Goldilocks::ORDER as u128, "{x:#x}");
        }
    }
}

/// RISC Zero's extension: X^4 = -11, and inverses.
#[test]
fn risc_zero_extension() {
    let x = RiscZero4([BabyBear::ZERO, BabyBear::ONE, BabyBear::ZERO, BabyBear::ZERO]);
    assert_eq!(x.pow(4), RiscZero4::from(-BabyBear::from_u64(11)));
    let mut rng = SmallRng::seed_from_u64(11);
    for _ in 0..20 {
        let a = RiscZero4(array::from_fn(|_| BabyBear::from_u64(rng.random())));
        assert_eq!(a * a.inverse().unwrap(), RiscZero4::ONE);
    }
}
