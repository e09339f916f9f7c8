//! Openings on circle domains against Stwo's.

use rigel_kernels::domain::circle_domain::Domain;
use rigel_kernels::field::{Mersenne31, QM31};
use rigel_kernels::open::circle_opening::*;
use rigel_kernels::open::opening::evaluate;
use rigel_kernels::{Columns, Matrix};
use stwo::core::circle::Coset;
use stwo::core::poly::circle::{CanonicCoset, CircleDomain};
use stwo::core::utils::bit_reverse_index;
use stwo::prover::backend::CpuBackend;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::{CircleCoefficients, CircleEvaluation, PolyOps};

use crate::domain::circle_domain::{our_domain, ours, secure_point, theirs};
use crate::oracle::{Oracle, assert_says, download, random_columns, upload};
use crate::support::{on_each_device, rng};

/// The evaluations of all columns with a slab of weights.
fn evaluated(stream: &rigel_gpu::Stream, columns: &[Vec<Mersenne31>], weights: &Matrix<Mersenne31>) -> Vec<QM31> {
    let columns = upload(stream, columns);
    let found = evaluate::<QM31>(stream, Columns::from(&columns), &[weights]).unwrap().to_vec(stream).unwrap();
    found.chunks(4).map(|value| QM31(value.try_into().unwrap())).collect()
}

/// Two points; part of a warp; several blocks.
#[test]
fn weights_equal_stwo() {
    on_each_device(|stream| {
        for log_size in [1, 2, 3, 6, 7, 8, 11] {
            let (point, p) = secure_point(u128::from(log_size) + 17);
            let coset = CanonicCoset::new(log_size);
            let expected = CpuBackend::barycentric_weights(coset, point);
            let found = barycentric_weights(stream, Domain::canonic(log_size).unwrap(), p).unwrap();
            assert_eq!(download::<QM31>(stream, &found), [ours::<QM31>(&expected)], "2^{log_size}");

            let columns = random_columns::<Mersenne31>(&mut rng(u64::from(log_size)), 1 << log_size, 3);
            let values: Vec<QM31> = columns
                .iter()
                .map(|column| {
                    let evals = CircleEvaluation::<CpuBackend, _, BitReversedOrder>::new(
                        coset.circle_domain(),
                        theirs(column),
                    );
                    QM31::ours(CpuBackend::barycentric_eval_at_point(&evals, &expected))
                })
                .collect();
            assert_eq!(evaluated(stream, &columns, &found), values, "2^{log_size}");
        }
    });
}

/// The weights of blocks of a domain's rows are blocks of its weights.
#[test]
fn weights_of_blocks() {
    on_each_device(|stream| {
        for (log_size, log_blocks) in [(4, 1), (6, 2), (9, 3)] {
            let (point, p) = secure_point(u128::from(log_size) + 5);
            let coset = CanonicCoset::new(log_size);
            let expected = ours::<QM31>(&CpuBackend::barycentric_weights(coset, point));
            let half = coset.circle_domain().half_coset;
            let block = |k: usize| {
                let first = half.initial_index + half.step_size * bit_reverse_index(k, log_blocks);
                let block = CircleDomain::new(Coset::new(first, half.log_size - log_blocks));
                let found = barycentric_weights_of(stream, log_size, our_domain(block), p).unwrap();
                download::<QM31>(stream, &found).remove(0)
            };
            let found: Vec<QM31> = (0..1 << log_blocks).flat_map(block).collect();
            assert_eq!(found, expected, "2^{log_blocks} blocks of 2^{log_size}");
        }
        let (_, p) = secure_point(1);
        let part = our_domain(CanonicCoset::new(6).circle_domain());
        assert_says(barycentric_weights_of(stream, 5, part, p), &["2^6 points of 2^5"]);
    });
}

/// A polynomial is determined by its values on a block of a larger domain: Stwo's values at the point are those of its
/// coefficients.
#[test]
fn weights_of_a_block_evaluate_polynomials_with_fewer_coefficients() {
    on_each_device(|stream| {
        for (log_size, added_bits) in [(1, 1), (2, 1), (3, 2), (6, 1), (9, 3)] {
            let (point, p) = secure_point(u128::from(log_size) + 29);
            let coefficients = random_columns::<Mersenne31>(&mut rng(u64::from(log_size)), 1 << log_size, 3);
            let domain = CanonicCoset::new(log_size + added_bits).circle_domain();
            let twiddles = CpuBackend::precompute_twiddles(domain.half_coset);
            let (values, expected): (Vec<Vec<Mersenne31>>, Vec<QM31>) = coefficients
                .iter()
                .map(|column| {
                    let poly = CircleCoefficients::<CpuBackend>::new(theirs(column));
                    let values = poly.evaluate_with_twiddles(domain, &twiddles).values;
                    (ours(&values), QM31::ours(CpuBackend::eval_at_point(&poly, point)))
                })
                .unzip();
            let half = domain.half_coset;
            for index in 0..1 << added_bits {
                let first = half.initial_index + half.step_size * bit_reverse_index(index, added_bits);
                let block = CircleDomain::new(Coset::new(first, half.log_size - added_bits));
                let weights = barycentric_weights(stream, our_domain(block), p).unwrap();
                let rows = index << log_size..(index + 1) << log_size;
                let of_block: Vec<Vec<Mersenne31>> =
                    values.iter().map(|column| column[rows.clone()].to_vec()).collect();
                assert_eq!(evaluated(stream, &of_block, &weights), expected, "block {index} of 2^{log_size}");
            }
        }
    });
}

/// One element; part of a vector; part of a warp's elements, and several warps; bits above a warp's elements.
#[test]
fn bases_evaluate_as_stwo() {
    on_each_device(|stream| {
        for log_size in [0, 1, 2, 3, 7, 8, 10, 11, 14] {
            let (point, p) = secure_point(u128::from(log_size) + 3);
            let weights = basis(stream, log_size, p).unwrap();
            assert_eq!((weights.rows(), weights.columns()), (1 << log_size, 4));
            let columns = random_columns::<Mersenne31>(&mut rng(u64::from(log_size)), 1 << log_size, 2);
            let values: Vec<QM31> = columns
                .iter()
                .map(|column| {
                    let poly = CircleCoefficients::<CpuBackend>::new(theirs(column));
                    QM31::ours(CpuBackend::eval_at_point(&poly, point))
                })
                .collect();
            assert_eq!(evaluated(stream, &columns, &weights), values, "2^{log_size}");
        }
    });
}

/// A point of the domain has no opening: all its weights are zero.
#[test]
fn points_of_the_domain_have_no_weights() {
    on_each_device(|stream| {
        let at = CanonicCoset::new(5).circle_domain().at(11);
        let p = [at.x, at.y].map(|x| QM31::from(Mersenne31::ours(x)));
        let found = barycentric_weights(stream, Domain::canonic(5).unwrap(), p).unwrap().to_vec(stream).unwrap();
        assert_eq!(found, vec![Mersenne31::new(0); 128]);
    });
}

#[test]
fn wrong_sizes_are_refused() {
    on_each_device(|stream| {
        let (_, p) = secure_point(1);
        let canonic = |log_size| barycentric_weights(stream, Domain::canonic(log_size)?, p);
        assert_says(canonic(0), &["one point"]);
        assert_says(canonic(31), &["2^30 points"]);
        let mut twice = Domain::canonic(3).unwrap();
        twice.half.initial = [Mersenne31::new(1), Mersenne31::new(0)];
        assert_says(barycentric_weights(stream, twice, p), &["has points on an axis"]);
        assert_says(basis(stream, 31, p), &["circle_opening::basis", "2^31 elements", "at most 2^30"]);
    });
}
