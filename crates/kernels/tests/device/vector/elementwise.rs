//! Element-wise arithmetic against upstream's operators.

use rigel_gpu::Stream;
use rigel_kernels::Matrix;
use rigel_kernels::field::*;
use rigel_kernels::vector::elementwise::*;

use crate::oracle::{Oracle, assert_says, download, random_columns, random_elements, upload, zip_with};
use crate::support::{on_each_device, rng};

/// One value, odd rows, rows of whole vectors, and several blocks; one column and several.
const SIZES: [(usize, usize); 5] = [(1, 1), (5, 3), (8, 2), (1_027, 2), (4_096, 3)];

fn check_sums<F: Field + Oracle<Base = F>>(stream: &Stream) {
    for (rows, columns) in SIZES {
        let mut rng = rng(rows as u64);
        let (x, y) = (random_columns::<F>(&mut rng, rows, columns), random_columns::<F>(&mut rng, rows, columns));
        let (mut a, b) = (upload(stream, &x), upload(stream, &y));
        let what = format!("{} {rows} x {columns}", F::NAME);
        let sum = zip_with(&x, &y, |x, y| x + y);
        assert_eq!(download::<F>(stream, &add(stream, &a, &b).unwrap()), sum, "{what}");
        let difference = zip_with(&x, &y, |x, y| x - y);
        assert_eq!(download::<F>(stream, &sub(stream, &a, &b).unwrap()), difference, "{what}");
        let negation = zip_with(&x, &y, |x, _| -x);
        assert_eq!(download::<F>(stream, &neg(stream, &a).unwrap()), negation, "{what}");

        add_assign(stream, &mut a, &b).unwrap();
        assert_eq!(download::<F>(stream, &a), sum, "{what}, in place");
        sub_assign(stream, &mut a, &b).unwrap();
        assert_eq!(download::<F>(stream, &a), x, "{what}, in place");
        neg_assign(stream, &mut a).unwrap();
        assert_eq!(download::<F>(stream, &a), negation, "{what}, in place");
    }
}

fn check_products<E: Oracle>(stream: &Stream) {
    for (rows, columns) in SIZES {
        let mut rng = rng(rows as u64);
        let (x, y) = (random_columns::<E>(&mut rng, rows, columns), random_columns::<E>(&mut rng, rows, columns));
        let (mut m, n) = (upload(stream, &x), upload(stream, &y));
        let [a, b] = random_elements::<E>(&mut rng, 2)[..] else { unreachable!() };
        let what = format!("{} {rows} x {columns}", E::NAME);
        let product = zip_with(&x, &y, |x, y| x * y);
        assert_eq!(download::<E>(stream, &mul::<E>(stream, &m, &n).unwrap()), product, "{what}");
        let scaled = zip_with(&x, &y, |x, _| x * a.theirs());
        assert_eq!(download::<E>(stream, &scale(stream, &m, a).unwrap()), scaled, "{what}");
        let combined = zip_with(&x, &y, |x, y| x * a.theirs() + y * b.theirs());
        assert_eq!(download::<E>(stream, &combine(stream, a, &m, b, &n).unwrap()), combined, "{what}");

        combine_assign(stream, a, &mut m, b, &n).unwrap();
        assert_eq!(download::<E>(stream, &m), combined, "{what}, in place");
        let mut m = upload(stream, &x);
        mul_assign::<E>(stream, &mut m, &n).unwrap();
        assert_eq!(download::<E>(stream, &m), product, "{what}, in place");
        let mut m = upload(stream, &x);
        scale_assign(stream, &mut m, a).unwrap();
        assert_eq!(download::<E>(stream, &m), scaled, "{what}, in place");
    }
}

#[test]
fn sums_equal_plonky3() {
    on_each_device(|stream| {
        check_sums::<BabyBear>(stream);
        check_sums::<KoalaBear>(stream);
        check_sums::<Goldilocks>(stream);
    });
}

#[test]
fn sums_equal_stwo() {
    on_each_device(check_sums::<Mersenne31>);
}

#[test]
fn products_equal_plonky3() {
    on_each_device(|stream| {
        check_products::<BabyBear>(stream);
        check_products::<KoalaBear>(stream);
        check_products::<Goldilocks>(stream);
    });
}

#[test]
fn extension_products_equal_plonky3() {
    on_each_device(|stream| {
        check_products::<BabyBear4>(stream);
        check_products::<KoalaBear4>(stream);
        check_products::<Goldilocks2>(stream);
        check_products::<Goldilocks3>(stream);
    });
}

#[test]
fn products_equal_stwo() {
    on_each_device(|stream| {
        check_products::<Mersenne31>(stream);
        check_products::<CM31>(stream);
        check_products::<QM31>(stream);
    });
}

#[test]
fn goldilocks_takes_any_word_of_the_class() {
    on_each_device(|stream| {
        let words =
            [0, 1, Goldilocks::ORDER - 1, Goldilocks::ORDER, Goldilocks::ORDER + 1, u64::MAX - 1, u64::MAX];
        let pairs: Vec<_> = words.iter().flat_map(|&a| words.map(|b| (a, b))).collect();
        let x: Vec<_> = pairs.iter().map(|&(a, _)| Goldilocks::from_word(a)).collect();
        let y: Vec<_> = pairs.iter().map(|&(_, b)| Goldilocks::from_word(b)).collect();
        let (x, y) = (vec![x], vec![y]);
        let (m, n) = (upload(stream, &x), upload(stream, &y));
        let found = [
            add(stream, &m, &n).unwrap(),
            sub(stream, &m, &n).unwrap(),
            mul::<Goldilocks>(stream, &m, &n).unwrap(),
        ];
        let expected =
            [zip_with(&x, &y, |x, y| x + y), zip_with(&x, &y, |x, y| x - y), zip_with(&x, &y, |x, y| x * y)];
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(download::<Goldilocks>(stream, found), expected);
        }
    });
}

#[test]
fn a_sum_over_an_extension_is_one_of_coefficients() {
    on_each_device(|stream| {
        let mut rng = rng(3);
        let (x, y) = (random_columns::<QM31>(&mut rng, 77, 3), random_columns::<QM31>(&mut rng, 77, 3));
        let sum = add(stream, &upload(stream, &x), &upload(stream, &y)).unwrap();
        assert_eq!(download::<QM31>(stream, &sum), zip_with(&x, &y, |x, y| x + y));
    });
}

#[test]
fn scalars_zero_and_one() {
    on_each_device(|stream| {
        let x = random_columns::<Goldilocks3>(&mut rng(4), 100, 1);
        let m = upload(stream, &x);
        let same = scale(stream, &m, Goldilocks3::ONE).unwrap();
        assert_eq!(download::<Goldilocks3>(stream, &same), x);
        let none = combine(stream, Goldilocks3::ZERO, &m, Goldilocks3::ZERO, &m).unwrap();
        assert!(download::<Goldilocks3>(stream, &none)[0].iter().all(|&value| value == Goldilocks3::ZERO));
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let matrix = |rows, columns| Matrix::<KoalaBear>::zeros(stream, rows, columns).unwrap();
        assert_says(add(stream, &matrix(4, 2), &matrix(2, 4)), &["elementwise::add", "4 x 2", "2 x 4"]);
        assert_says(mul_assign::<KoalaBear>(stream, &mut matrix(4, 2), &matrix(4, 1)), &["mul_assign", "4 x 1"]);
        assert_says(neg(stream, &matrix(0, 3)), &["0 rows"]);
        assert_says(neg(stream, &matrix(3, 0)), &["0 columns"]);
        let odd = mul::<KoalaBear4>(stream, &matrix(4, 6), &matrix(4, 6));
        assert_says(odd, &["6 columns", "KoalaBear4", "multiple of 4"]);
        let sum = add(stream, &matrix(4, 2), &matrix(4, 2)).unwrap();
        assert_eq!(sum.to_vec(stream).unwrap(), [KoalaBear::ZERO; 8]);
    });
}
