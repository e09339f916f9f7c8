//! Openings against upstream's cosets, interpolation and arithmetic.

use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_field::{ExtensionField, TwoAdicField};
use p3_matrix::dense::RowMajorMatrix;
use p3_matrix::interpolation::Interpolate;
use p3_util::{reverse_bits_len, reverse_slice_index_bits};
use rigel_gpu::Stream;
use rigel_kernels::domain::points::coset_points;
use rigel_kernels::field::{self, *};
use rigel_kernels::layout::slab::to_slab;
use rigel_kernels::open::opening::*;
use rigel_kernels::{Columns, Matrix};

use crate::oracle::{Oracle, assert_says, download, random_columns, random_elements, upload};
use crate::support::{on_each_device, rng};

/// Upstream's points of the coset in bit-reversed order.
fn their_points<U: TwoAdicField>(log_n: usize) -> Vec<U> {
    let mut points: Vec<U> = TwoAdicMultiplicativeCoset::new(U::GENERATOR, log_n).unwrap().iter().collect();
    reverse_slice_index_bits(&mut points);
    points
}

#[test]
fn points_equal_plonky3() {
    fn check<F: field::Field + Oracle<Base = F>>(stream: &Stream)
    where
        F::Theirs: TwoAdicField,
    {
        for log_n in [0, 1, 2, 3, 8, 13] {
            let found = coset_points::<F>(stream, log_n).unwrap().to_vec(stream).unwrap();
            let expected: Vec<F> = their_points(log_n as usize).into_iter().map(F::ours).collect();
            assert_eq!(found, expected, "{} 2^{log_n}", F::NAME);
        }
    }
    on_each_device(|stream| {
        check::<KoalaBear>(stream);
        check::<BabyBear>(stream);
        check::<Goldilocks>(stream);
        assert_says(coset_points::<KoalaBear>(stream, 25), &["points::coset_points", "2^25", "at most 2^24"]);
    });
}

fn lift<E: Oracle>(x: E::Base) -> E::Theirs {
    let mut parts = vec![E::Base::ZERO; E::DEGREE];
    parts[0] = x;
    E::from_parts(&parts).unwrap().theirs()
}

#[test]
fn denominators_equal_plonky3() {
    fn check<E: Oracle>(stream: &Stream) {
        for n in [1, 3, 4, 1_024, 5_001] {
            let mut rng = rng(n as u64);
            let points = random_elements::<E::Base>(&mut rng, n);
            let z = random_elements::<E>(&mut rng, 1)[0];
            let differences: Vec<_> = points.iter().map(|&x| z.theirs() - lift::<E>(x)).collect();
            let expected: Vec<E> = E::inverses(&differences).into_iter().map(E::ours).collect();
            let points = stream.upload(&points).unwrap();
            let found = inverse_denominators::<E>(stream, points.view(), z).unwrap();
            assert_eq!(download::<E>(stream, &found), [expected], "{} {n}", E::NAME);
        }
    }
    on_each_device(|stream| {
        check::<KoalaBear4>(stream);
        check::<BabyBear4>(stream);
        check::<Goldilocks2>(stream);
        check::<Goldilocks3>(stream);
        check::<Goldilocks>(stream);
    });
}

#[test]
fn the_inverse_denominator_of_a_point_is_zero() {
    on_each_device(|stream| {
        let points = coset_points::<BabyBear>(stream, 3).unwrap();
        let at = points.to_vec(stream).unwrap()[5];
        let found = inverse_denominators::<BabyBear>(stream, points.view(), at).unwrap().to_vec(stream).unwrap();
        let zeros: Vec<usize> = (0..8).filter(|&i| found[i] == BabyBear::ZERO).collect();
        assert_eq!(zeros, [5]);
    });
}

/// Evaluates the polynomials of degree below 2^`log_h` given by the first rows of a matrix of `rows` rows.
fn check_evaluation<E: Oracle, U: TwoAdicField>(
    stream: &Stream,
    log_h: usize,
    rows: usize,
    columns: usize,
    points: usize,
) where
    E::Theirs: ExtensionField<U>,
    E::Base: Oracle<Theirs = U>,
{
    let mut rng = rng((log_h * 1_000 + columns) as u64);
    let h = 1 << log_h;
    let matrix = random_columns::<E::Base>(&mut rng, rows, columns);
    let zs = random_elements::<E>(&mut rng, points);
    let natural = (0..h).flat_map(|i| {
        let row = reverse_bits_len(i, log_h);
        matrix.iter().map(move |column| column[row].theirs())
    });
    let natural = RowMajorMatrix::new(natural.collect(), columns);
    let expected: Vec<E::Base> = zs
        .iter()
        .flat_map(|z| natural.interpolate_coset(U::GENERATOR, z.theirs()))
        .flat_map(|y| E::ours(y).parts().to_vec())
        .collect();

    // Points and denominators of a larger coset, as matrices of several heights share them.
    let points = coset_points::<E::Base>(stream, log_h as u32 + 1).unwrap();
    let weights: Vec<_> = zs
        .iter()
        .map(|&z| {
            let inverses = inverse_denominators::<E>(stream, points.view(), z).unwrap();
            barycentric_weights::<E>(stream, points.view(), &inverses, z, log_h as u32).unwrap()
        })
        .collect();
    let matrix = upload(stream, &matrix);
    let found = evaluate::<E>(stream, Columns::from(&matrix), &weights.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(found.to_vec(stream).unwrap(), expected, "{} 2^{log_h} of {rows} x {columns}", E::NAME);
}

fn check_evaluations<E: Oracle, U: TwoAdicField>(stream: &Stream)
where
    E::Theirs: ExtensionField<U>,
    E::Base: Oracle<Theirs = U>,
{
    // One row; all rows; an odd height above; several parts; several warps and blocks of columns.
    for (log_h, rows, columns, points) in
        [(0, 1, 1, 1), (1, 4, 3, 2), (3, 8, 5, 3), (6, 131, 7, 2), (11, 4_096, 3, 2), (8, 512, 33, 2)]
    {
        check_evaluation::<E, U>(stream, log_h, rows, columns, points);
    }
}

#[test]
fn evaluations_equal_plonky3() {
    on_each_device(|stream| {
        check_evaluations::<KoalaBear4, p3_koala_bear::KoalaBear>(stream);
        check_evaluations::<BabyBear4, p3_baby_bear::BabyBear>(stream);
        check_evaluations::<Goldilocks2, p3_goldilocks::Goldilocks>(stream);
        check_evaluations::<Goldilocks3, p3_goldilocks::Goldilocks>(stream);
        check_evaluations::<Goldilocks, p3_goldilocks::Goldilocks>(stream);
    });
}

/// The sums of quotients by their formula.
fn check_quotients<E: Oracle>(stream: &Stream, rows: usize, columns: usize, claims: usize) {
    let mut rng = rng((rows * 1_000 + columns) as u64);
    let matrix = random_columns::<E::Base>(&mut rng, rows, columns);
    let reduced = random_elements::<E>(&mut rng, rows);
    let powers = random_elements::<E>(&mut rng, columns + 2);
    let scales = random_elements::<E>(&mut rng, claims);
    let values = random_elements::<E>(&mut rng, claims);
    let inverses: Vec<_> = (0..claims).map(|k| random_elements::<E>(&mut rng, rows + k)).collect();
    let expected: Vec<E> = (0..rows)
        .map(|r| {
            let terms = matrix.iter().zip(&powers).map(|(column, power)| power.theirs() * lift::<E>(column[r]));
            let m = terms.fold(E::ZERO.theirs(), |sum, term| sum + term);
            let quotient = |k: usize| scales[k].theirs() * (values[k].theirs() - m) * inverses[k][r].theirs();
            E::ours((0..claims).fold(E::ZERO.theirs(), |sum, k| sum + quotient(k)))
        })
        .collect();
    let added: Vec<E> = expected.iter().zip(&reduced).map(|(a, b)| E::ours(a.theirs() + b.theirs())).collect();

    let matrix = upload(stream, &matrix);
    let powers = stream.upload(&to_slab(&powers)).unwrap();
    let inverses: Vec<_> = inverses.into_iter().map(|slab| upload(stream, &[slab])).collect();
    let claims: Vec<_> =
        (0..claims).map(|k| Claim { scale: scales[k], value: values[k], inverses: &inverses[k] }).collect();
    let what = format!("{} {rows} x {columns}, {} claims", E::NAME, claims.len());
    let found = quotients::<E>(stream, Columns::from(&matrix), powers.view(), &claims).unwrap();
    assert_eq!(download::<E>(stream, &found), [expected], "{what}");
    let mut found = upload(stream, &[reduced]);
    accumulate_quotients::<E>(stream, &mut found, Columns::from(&matrix), powers.view(), &claims).unwrap();
    assert_eq!(download::<E>(stream, &found), [added], "{what}, added");
}

/// One value; rows that are not whole vectors; several blocks; warps that share rows; more columns than are staged at
/// once.
#[test]
fn quotients_equal_plonky3() {
    fn check<E: Oracle>(stream: &Stream) {
        for (rows, columns, claims) in
            [(1, 1, 1), (7, 3, 2), (64, 4, 1), (2_050, 5, 2), (1_024, 17, 3), (256, 67, 2), (128, 1_031, 1)]
        {
            check_quotients::<E>(stream, rows, columns, claims);
        }
    }
    on_each_device(|stream| {
        check::<KoalaBear4>(stream);
        check::<BabyBear4>(stream);
        check::<Goldilocks2>(stream);
        check::<Goldilocks3>(stream);
        check::<KoalaBear>(stream);
    });
}

/// The quotient of a true claim is a polynomial: evaluated at a second point it agrees with the values there.
#[test]
fn a_true_claim_divides() {
    on_each_device(|stream| {
        let mut rng = rng(3);
        let (log_h, log_n) = (5, 7);
        let [z, other, alpha] = random_elements::<KoalaBear4>(&mut rng, 3)[..] else { unreachable!() };
        let coefficients = random_columns::<KoalaBear>(&mut rng, 1 << log_h, 6);
        let at = |x: KoalaBear4| -> KoalaBear4 {
            coefficients.iter().rev().fold(KoalaBear4::ZERO, |sum, column| {
                let p = column.iter().rev().fold(KoalaBear4::ZERO, |p, &c| p * x + KoalaBear4::from(c));
                sum * alpha + p
            })
        };
        let points = coset_points::<KoalaBear>(stream, log_n).unwrap();
        let xs = points.to_vec(stream).unwrap();
        let evaluate_at =
            |x: KoalaBear, column: &Vec<KoalaBear>| column.iter().rev().fold(KoalaBear::ZERO, |p, &c| p * x + c);
        let rows: Vec<Vec<KoalaBear>> =
            coefficients.iter().map(|column| xs.iter().map(|&x| evaluate_at(x, column)).collect()).collect();
        let matrix = upload(stream, &rows);
        let powers = rigel_kernels::vector::powers::powers(stream, KoalaBear4::ONE, alpha, 6).unwrap();
        let inverses = inverse_denominators(stream, points.view(), z).unwrap();
        let claim = Claim { scale: KoalaBear4::ONE, value: at(z), inverses: &inverses };
        let quotient = quotients(stream, Columns::from(&matrix), powers.values().view(), &[claim]).unwrap();

        let inverses = inverse_denominators(stream, points.view(), other).unwrap();
        let weights = barycentric_weights(stream, points.view(), &inverses, other, log_h).unwrap();
        let parts = evaluate::<KoalaBear4>(stream, Columns::from(&quotient), &[&weights]).unwrap();
        let parts = parts.to_vec(stream).unwrap();
        // The four columns of the quotient are its coefficients over 1, X, X^2, X^3.
        let basis = |d: usize| KoalaBear4(std::array::from_fn(|i| KoalaBear::from_u64(u64::from(i == d))));
        let found = (0..4).fold(KoalaBear4::ZERO, |sum, d| {
            sum + KoalaBear4(parts[4 * d..4 * d + 4].try_into().unwrap()) * basis(d)
        });
        assert_eq!(found * (z - other), at(z) - at(other));
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let matrix = |rows, columns| Matrix::<KoalaBear>::zeros(stream, rows, columns).unwrap();
        let (z, points) = (KoalaBear4::ONE, coset_points::<KoalaBear>(stream, 3).unwrap());
        let none = points.range(..0).unwrap();
        assert_says(inverse_denominators(stream, none, z), &["opening::inverse_denominators", "at least one"]);
        let weights =
            |inverses: &Matrix<KoalaBear>, log_h| barycentric_weights(stream, points.view(), inverses, z, log_h);
        assert_says(weights(&matrix(4, 4), 3), &["opening::barycentric_weights", "4 x 4", "8 x 4"]);
        assert_says(weights(&matrix(16, 4), 4), &["8 points for 16 weights"]);

        let (eight, narrow) = (matrix(8, 3), matrix(8, 1));
        let evaluate = |weights: &[&Matrix<KoalaBear>]| {
            evaluate::<KoalaBear4>(stream, Columns::from(&eight), weights).map(|_| ())
        };
        assert_says(evaluate(&[]), &["opening::evaluate", "no weights"]);
        let (weights, mut room) = (matrix(8, 4), stream.zeros(7).unwrap());
        let columns = Columns::new(weights.values().view(), 8).unwrap();
        let slab = [weights.values().view()];
        let narrow_room = evaluate_slabs_into::<KoalaBear4>(stream, room.view_mut(), columns, &slab);
        assert_says(narrow_room, &["room for 7 coefficients of 4 results"]);
        assert_says(evaluate(&[&matrix(16, 4)]), &["16 weights for 8 rows"]);
        assert_says(evaluate(&[&matrix(8, 4), &matrix(4, 4)]), &["4 x 4 together with weights of 8 x 4"]);
        assert_says(evaluate(&[&narrow]), &["8 x 1 together with weights of 8 x 4"]);

        let accumulate = |mut reduced: Matrix<KoalaBear>, powers: usize, inverses: &Matrix<KoalaBear>| {
            let powers = matrix(powers, 4);
            let claim = Claim { scale: z, value: z, inverses };
            let columns = Columns::from(&eight);
            accumulate_quotients::<KoalaBear4>(stream, &mut reduced, columns, powers.values().view(), &[claim])
        };
        let slab = matrix(8, 4);
        assert_says(accumulate(matrix(4, 4), 3, &slab), &["opening::accumulate_quotients", "4 x 4 for 8 rows"]);
        assert_says(accumulate(matrix(8, 4), 2, &slab), &["2 powers for 3 columns"]);
        assert_says(accumulate(matrix(8, 4), 3, &matrix(4, 4)), &["inverses of 4 x 4", "8 x 4"]);
        assert!(accumulate(matrix(8, 4), 3, &slab).is_ok());
    });
}
