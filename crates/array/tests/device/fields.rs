//! Inverses, transforms and commitments: equal on every device, and equal to their definitions.

use rigel_array::{Array, Error, Hash, Scalar, Type};
use rigel_kernels::field::{Field, Goldilocks, KoalaBear};

use crate::{counting, devices, on_each_device, random, scalars};

const FIELDS: [Type; 10] = [
    Type::Mersenne31,
    Type::BabyBear,
    Type::KoalaBear,
    Type::Goldilocks,
    Type::CM31,
    Type::QM31,
    Type::BabyBear4,
    Type::KoalaBear4,
    Type::Goldilocks2,
    Type::Goldilocks3,
];

#[test]
fn an_element_times_its_inverse_is_one() {
    on_each_device(|device| {
        for of in FIELDS {
            let x = random(&[3, 41], of, 3, device);
            let ones = Array::ones(&[3, 41], of, device).unwrap();
            assert_eq!(scalars(&x.mul(x.inverse().unwrap()).unwrap()), scalars(&ones), "{of:?}");
            let y = random(&[41], of, 4, device);
            let back = x.div(&y).unwrap().mul(&y).unwrap();
            assert_eq!(scalars(&back), scalars(&x), "{of:?}");
            assert_eq!(scalars(&x.pow(-2).unwrap().mul(&x).unwrap()), scalars(&x.inverse().unwrap()), "{of:?}");
            assert_eq!(scalars(&x.div(3).unwrap().mul(3).unwrap()), scalars(&x), "{of:?}");
        }
    });
}

#[test]
fn zero_has_no_inverse() {
    on_each_device(|device| {
        let x = counting(&[5], device).astype(Type::BabyBear).unwrap();
        match x.inverse() {
            Err(Error::NotInvertible { zeros: 1, elements: 5, .. }) => {}
            other => panic!("{other:?}"),
        }
        assert!(matches!(x.div(&x), Err(Error::NotInvertible { .. })));
        assert!(matches!(x.div(0), Err(Error::NotInvertible { .. })));
    });
}

#[test]
fn integers_go_to_fields_and_back() {
    on_each_device(|device| {
        let whole = Array::from_slice(&[-1i64, 0, 1, i64::MAX, i64::MIN], &[5], device).unwrap();
        for of in [Type::Mersenne31, Type::BabyBear, Type::KoalaBear, Type::Goldilocks] {
            let p = of.modulus().unwrap() as i128;
            let back = whole.astype(of).unwrap().astype(Type::U64).unwrap().to_vec::<u64>().unwrap();
            let expected: Vec<u64> =
                [-1, 0, 1, i64::MAX.into(), i64::MIN.into()].map(|x: i128| x.rem_euclid(p) as u64).to_vec();
            assert_eq!(back, expected, "{of:?}");
        }
        let x = random(&[4], Type::Goldilocks, 1, device);
        let lifted = x.astype(Type::Goldilocks2).unwrap().coefficients().unwrap();
        assert_eq!(lifted.shape(), [4, 2]);
        assert_eq!(scalars(&lifted.index(&[rigel_array::Index::ALL, 0.into()]).unwrap()), scalars(&x));
    });
}

#[test]
fn transforms_evaluate_polynomials() {
    fn check<F: Field>(of: Type, device: &rigel_array::Device) {
        let n = 8;
        let x = random(&[2, n], of, 5, device);
        let values = scalars(&x.ntt().unwrap());
        let coefficients: Vec<F> = scalars(&x).iter().map(element).collect();
        let w = F::two_adic_generator(3);
        for batch in 0..2 {
            for j in 0..n {
                let at = w.pow(j as u64);
                let expected = (0..n).fold(F::ZERO, |sum, i| sum + coefficients[batch * n + i] * at.pow(i as u64));
                assert_eq!(element::<F>(&values[batch * n + j]), expected);
            }
        }
        assert_eq!(scalars(&x.ntt().unwrap().intt().unwrap()), scalars(&x));
        // The extension with shift 1 has the original values at every second point.
        let extended = x.lde(1, Some(1)).unwrap();
        let every = rigel_array::Index::Range { start: None, stop: None, step: 2 };
        let second = extended.index(&[rigel_array::Index::ALL, every]).unwrap();
        assert_eq!(scalars(&second), scalars(&x));
    }
    fn element<F: Field>(scalar: &Scalar) -> F {
        let Scalar::Int(value) = *scalar else { panic!("{scalar}") };
        F::from_u64(value as u64)
    }
    on_each_device(|device| {
        check::<KoalaBear>(Type::KoalaBear, device);
        check::<Goldilocks>(Type::Goldilocks, device);
    });
}

#[test]
fn transforms_and_roots_agree_on_all_devices() {
    let [first, others @ ..] = &devices()[..] else { unreachable!() };
    for of in [Type::BabyBear, Type::KoalaBear, Type::Goldilocks, Type::KoalaBear4, Type::Goldilocks3] {
        for shape in [&[1][..], &[64], &[3, 16], &[2, 2, 8]] {
            let x = random(shape, of, 6, first);
            for device in others {
                let there = x.to(device).unwrap();
                let same =
                    |a: Array, b: Array| assert_eq!(scalars(&a), scalars(&b), "{of:?} {shape:?} on {device}");
                same(x.ntt().unwrap(), there.ntt().unwrap());
                same(x.intt().unwrap(), there.intt().unwrap());
                same(x.lde(2, None).unwrap(), there.lde(2, None).unwrap());
            }
        }
    }
    for (of, hash) in [
        (Type::Mersenne31, Hash::Keccak),
        (Type::Goldilocks2, Hash::Keccak),
        (Type::KoalaBear, Hash::Poseidon2),
        (Type::BabyBear4, Hash::Poseidon2),
        (Type::Goldilocks, Hash::Poseidon2),
        (Type::QM31, Hash::Blake2s),
    ] {
        for shape in [&[1][..], &[32], &[8, 3], &[16, 2, 5]] {
            let x = random(shape, of, 8, first);
            let root = x.merkle_root(hash).unwrap();
            for device in others {
                assert_eq!(x.to(device).unwrap().merkle_root(hash).unwrap(), root, "{of:?} {hash:?} {shape:?}");
            }
        }
    }
}
