//! Transforms over the circle: equal to the evaluation of each basis function at each point.

use rigel_array::{Array, Device, Error, Index, Scalar, Type};
use rigel_kernels::field::{CM31, Field, Mersenne31, Ring};

use crate::{on_each_device, random, scalars};

fn elements(array: &Array) -> Vec<Mersenne31> {
    let element = |scalar: Scalar| match scalar {
        Scalar::Int(value) => Mersenne31::from_u64(value as u64),
        other => panic!("{other}"),
    };
    scalars(array).into_iter().map(element).collect()
}

/// `y^j0 x^j1 p(x)^j2 p(p(x))^j3 ..` with the bits of j.
fn basis(j: usize, x: Mersenne31, y: Mersenne31) -> Mersenne31 {
    let mut product = if j & 1 == 1 { y } else { Mersenne31::ONE };
    let (mut rest, mut x) = (j >> 1, x);
    while rest > 0 {
        if rest & 1 == 1 {
            product *= x;
        }
        x = x * x + x * x - Mersenne31::ONE;
        rest >>= 1;
    }
    product
}

/// Stwo's canonic coset of 2^log points in its circle domain's order: the odd multiples of the generator of order
/// 2^(log + 1) that the half coset takes, then their conjugates; here in bit-reversed order.
fn expected_points(log: u32) -> Vec<[Mersenne31; 2]> {
    let generator = CM31([Mersenne31::new(2), Mersenne31::new(1_268_011_823)]);
    let first = (0..31 - log - 1).fold(generator, |point, _| point * point);
    let power = |exponent: usize| (0..exponent).fold(CM31::ONE, |point, _| point * first);
    let natural: Vec<CM31> = (0..1usize << log)
        .map(|i| match i.checked_sub(1 << (log - 1)) {
            None => power(1 + 4 * i),
            Some(i) => {
                let CM31([x, y]) = power(1 + 4 * i);
                CM31([x, -y])
            }
        })
        .collect();
    (0..1usize << log).map(|i| natural[i.reverse_bits() >> (usize::BITS - log)].0).collect()
}

#[test]
fn points_are_those_of_canonic_cosets() {
    on_each_device(|device| {
        for log in 1..=6 {
            let points = elements(&Array::circle_points(1 << log, device).unwrap());
            let (x, y) = points.split_at(1 << log);
            let found: Vec<_> = x.iter().zip(y).map(|(&x, &y)| [x, y]).collect();
            assert_eq!(found, expected_points(log), "2^{log} points on {device}");
        }
    });
}

#[test]
fn transforms_evaluate_the_basis() {
    on_each_device(|device| {
        for log in 1..=5 {
            let n = 1usize << log;
            let coefficients = random(&[3, n], Type::Mersenne31, 4, device);
            let plain = elements(&coefficients);
            let direct = |log: u32| -> Vec<Mersenne31> {
                let points = expected_points(log);
                let at = |row: usize, [x, y]: [Mersenne31; 2]| {
                    (0..n).fold(Mersenne31::ZERO, |sum, j| sum + plain[row * n + j] * basis(j, x, y))
                };
                (0..3)
                    .flat_map(|row| points.iter().map(move |&point| (row, point)))
                    .map(|(r, p)| at(r, p))
                    .collect()
            };
            let values = coefficients.circle_ntt().unwrap();
            assert_eq!(elements(&values), direct(log), "2^{log} on {device}");
            assert_eq!(elements(&values.circle_intt().unwrap()), plain, "2^{log} on {device}");
            for blowup in 0..3 {
                let extended = values.circle_lde(blowup).unwrap();
                assert_eq!(extended.shape(), [3, n << blowup]);
                assert_eq!(
                    elements(&extended),
                    direct(log + blowup),
                    "2^{log} blown up by 2^{blowup} on {device}"
                );
            }
        }
    });
}

/// Devices agree on larger transforms, for which kernels take other passes and the CPU several threads.
#[test]
fn devices_agree() {
    let x = random(&[2, 1 << 14], Type::Mersenne31, 5, &Device::Cpu);
    let (forward, inverse) = (x.circle_ntt().unwrap(), x.circle_intt().unwrap());
    assert!(scalars(&forward.circle_intt().unwrap()) == scalars(&x));
    on_each_device(|device| {
        let there = x.to(device).unwrap();
        assert!(scalars(&there.circle_ntt().unwrap().to(&Device::Cpu).unwrap()) == scalars(&forward));
        assert!(scalars(&there.circle_intt().unwrap().to(&Device::Cpu).unwrap()) == scalars(&inverse));
    });
}

#[test]
fn extensions_are_transformed_by_coefficient() {
    on_each_device(|device| {
        let x = random(&[2, 8], Type::QM31, 6, device);
        let parts = x.circle_ntt().unwrap().coefficients().unwrap();
        for part in 0..4 {
            let index = [Index::Ellipsis, Index::At(part)];
            let alone = x.coefficients().unwrap().index(&index).unwrap().circle_ntt().unwrap();
            assert_eq!(scalars(&parts.index(&index).unwrap()), scalars(&alone));
        }
        assert_eq!(random(&[0, 8], Type::CM31, 1, device).circle_lde(1).unwrap().shape(), [0, 16]);
    });
}

#[test]
fn what_has_no_transform_is_refused() {
    on_each_device(|device| {
        let refused = |shape: &[usize], of| random(shape, of, 1, device).circle_ntt().unwrap_err();
        assert!(matches!(refused(&[4], Type::KoalaBear), Error::Type(text) if text.contains("ntt")));
        assert!(matches!(refused(&[4], Type::F64), Error::Type(_)));
        assert!(matches!(refused(&[6], Type::Mersenne31), Error::Shape(text) if text.contains("it is 6")));
        assert!(matches!(refused(&[1], Type::Mersenne31), Error::Shape(_)));
        assert!(matches!(refused(&[], Type::Mersenne31), Error::Shape(_)));
        let large = random(&[4], Type::Mersenne31, 1, device).circle_lde(27).unwrap_err().to_string();
        assert!(large.contains("2^29 points"), "{large}");
        assert!(Array::circle_points(3, device).is_err());
    });
}
