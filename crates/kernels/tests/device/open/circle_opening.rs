//! Openings on circle domains against Stwo's.

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
            let found = barycentric_weights(stream, log_size, p).unwrap();
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

/// At a point of the domain there is no opening: all weights are zero.
#[test]
fn points_of_the_domain_have_no_weights() {
    on_each_device(|stream| {
        let at = CanonicCoset::new(5).circle_domain().at(11);
        let p = [at.x, at.y].map(|x| QM31::from(Mersenne31::ours(x)));
        let found = barycentric_weights(stream, 5, p).unwrap().to_vec(stream).unwrap();
        assert_eq!(found, vec![Mersenne31::new(0); 128]);
    });
}

#[test]
fn wrong_sizes_are_refused() {
    on_each_device(|stream| {
        let (_, p) = secure_point(1);
        assert_says(barycentric_weights(stream, 0, p), &["one point"]);
        assert_says(barycentric_weights(stream, 31, p), &["2^30 points"]);
        assert_says(basis(stream, 31, p), &["circle_opening::basis", "2^31 elements", "at most 2^30"]);
    });
}
