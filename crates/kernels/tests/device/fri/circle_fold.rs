//! Folding on circle and line domains against Stwo's.

use rigel_gpu::{Buffer, Stream};
use rigel_kernels::Matrix;
use rigel_kernels::domain::circle_domain::twiddles_and_inverses;
use rigel_kernels::field::{Mersenne31, QM31, Ring};
use rigel_kernels::fri::circle_fold::*;
use rigel_kernels::layout::slab::to_slab;
use stwo::core::circle::Coset;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::poly::line::LineDomain;
use stwo::prover::AccumulationOps;
use stwo::prover::backend::CpuBackend;
use stwo::prover::fri::FriOps;
use stwo::prover::line::LineEvaluation;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::{PolyOps, SecureEvaluation};

use crate::domain::circle_domain::{our_coset, our_domain, ours, theirs};
use crate::oracle::{Oracle, assert_says, download, random_elements, upload};
use crate::support::{on_each_device, rng};

/// The inverse twiddles of a coset of 2^12 points; all other cosets here are doublings of it.
fn tower(stream: &Stream) -> Buffer<Mersenne31> {
    twiddles_and_inverses(stream, our_coset(Coset::half_odds(12))).unwrap().1
}

/// Domains whose y coordinates come from their first point, and others; several blocks.
#[test]
fn circle_folds_equal_stwo() {
    on_each_device(|stream| {
        let tower = tower(stream);
        for log_size in [1, 2, 3, 4, 5, 8, 12] {
            let mut rng = rng(u64::from(log_size));
            let domain = CanonicCoset::new(log_size).circle_domain();
            let initial = our_domain(domain).half.initial;
            let twiddles = CpuBackend::precompute_twiddles(domain.half_coset);
            let alpha = random_elements::<QM31>(&mut rng, 1)[0];
            let fold = |values: &[QM31]| {
                let values = SecureEvaluation::new(domain, theirs(values).into_iter().collect());
                let folded = CpuBackend::fold_circle_into_line(&values, alpha.theirs(), &twiddles);
                ours::<QM31>(&folded.values.to_vec())
            };

            let values = random_elements::<QM31>(&mut rng, 1 << log_size);
            let slab = upload(stream, std::slice::from_ref(&values));
            let found = circle_to_line(stream, slab.values().view(), alpha, tower.view(), initial).unwrap();
            assert_eq!(download::<QM31>(stream, &found), [fold(&values)], "2^{log_size}");

            let values = random_elements::<Mersenne31>(&mut rng, 1 << log_size);
            let column = upload(stream, std::slice::from_ref(&values));
            let found = base_circle_to_line(stream, column.values().view(), alpha, tower.view(), initial).unwrap();
            let values: Vec<_> = values.into_iter().map(QM31::from).collect();
            assert_eq!(download::<QM31>(stream, &found), [fold(&values)], "2^{log_size} over the base field");
        }
    });
}

#[test]
fn line_folds_equal_stwo() {
    on_each_device(|stream| {
        let tower = tower(stream);
        for log_size in [1, 2, 3, 4, 5, 6, 9, 12] {
            let mut rng = rng(u64::from(log_size));
            let domain = LineDomain::new(Coset::half_odds(log_size));
            let twiddles = CpuBackend::precompute_twiddles(domain.coset());
            let values = random_elements::<QM31>(&mut rng, 1 << log_size);
            let alpha = random_elements::<QM31>(&mut rng, 1)[0];
            let evaluation = LineEvaluation::<CpuBackend>::new(domain, theirs(&values).into_iter().collect());
            // A slab at an arbitrary offset in a buffer, and one that is aligned.
            let mut anywhere = vec![Mersenne31::ZERO; 3];
            anywhere.extend(to_slab(&values));
            let anywhere = stream.upload(&anywhere).unwrap();
            let slab = upload(stream, &[values]);
            for steps in 1..=log_size.min(6) {
                let expected = CpuBackend::fold_line(&evaluation, alpha.theirs(), &twiddles, steps);
                let expected = [ours::<QM31>(&expected.values.to_vec())];
                for view in [slab.values().view(), anywhere.range(3..).unwrap()] {
                    let found = line(stream, view, alpha, tower.view(), steps).unwrap();
                    assert_eq!(download::<QM31>(stream, &found), expected, "2^{log_size} by 2^{steps}");
                }
            }
        }
    });
}

#[test]
fn decompositions_equal_stwo() {
    on_each_device(|stream| {
        for log_size in [1, 2, 3, 7, 12] {
            let values = random_elements::<QM31>(&mut rng(u64::from(log_size)), 1 << log_size);
            let domain = CanonicCoset::new(log_size).circle_domain();
            let evaluation: SecureEvaluation<CpuBackend, BitReversedOrder> =
                SecureEvaluation::new(domain, theirs(&values).into_iter().collect());
            let (rest, lambda) = CpuBackend::decompose(&evaluation);
            let slab = upload(stream, &[values]);
            let (found, found_lambda) = decompose(stream, slab.values().view()).unwrap();
            assert_eq!(found_lambda, QM31::ours(lambda), "2^{log_size}");
            assert_eq!(download::<QM31>(stream, &found), [ours::<QM31>(&rest.values.to_vec())], "2^{log_size}");
        }
    });
}

/// Each ratio, and a chain of columns.
#[test]
fn lifted_sums_equal_stwo() {
    on_each_device(|stream| {
        for logs in [&[1u32, 1][..], &[1, 2], &[1, 5], &[2, 3, 3, 5, 9], &[9, 12]] {
            let mut rng = rng(u64::from(logs[0]));
            let columns: Vec<Vec<QM31>> =
                logs.iter().map(|&log| random_elements(&mut rng, 1usize << log)).collect();
            let expected = columns.iter().map(|column| theirs(column).into_iter().collect()).collect();
            let expected = CpuBackend::lift_and_accumulate(expected).unwrap();
            let mut columns = columns.into_iter().map(|column| upload(stream, &[column]));
            let first = columns.next().unwrap();
            let sum = columns.fold(first, |sum, mut column| {
                lift_add(stream, column.values_mut().view_mut(), sum.values().view()).unwrap();
                column
            });
            assert_eq!(download::<QM31>(stream, &sum), [ours::<QM31>(&expected.to_vec())], "{logs:?}");
        }
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let slab = |n: usize| Matrix::<Mersenne31>::zeros(stream, n, 4).unwrap();
        let (tower, short, odd) = (
            stream.zeros::<Mersenne31>(16).unwrap(),
            stream.zeros::<Mersenne31>(8).unwrap(),
            stream.zeros::<Mersenne31>(24).unwrap(),
        );
        let (alpha, initial) = (QM31::ONE, [Mersenne31::ONE, Mersenne31::ZERO]);
        let circle = |n, tower: &Buffer<Mersenne31>| {
            circle_to_line(stream, slab(n).values().view(), alpha, tower.view(), initial)
        };
        assert_says(circle(1, &tower), &["circle_fold::circle_to_line", "one point"]);
        assert_says(circle(6, &tower), &["6 rows", "power of two"]);
        assert_says(circle(2, &tower), &["has y = 0"]);
        assert_says(circle(32, &short), &["8 twiddles for 16 points"]);
        assert_says(circle(32, &odd), &["24 twiddles", "a power of two"]);
        assert!(circle(32, &tower).is_ok());
        let base = base_circle_to_line(stream, short.range(..1).unwrap(), alpha, tower.view(), initial);
        assert_says(base, &["circle_fold::base_circle_to_line", "one point"]);

        let fold = |n, steps| line(stream, slab(n).values().view(), alpha, tower.view(), steps);
        assert_says(fold(8, 0), &["circle_fold::line", "0 halvings of 8 values", "from 1 to 3"]);
        assert_says(fold(8, 4), &["4 halvings of 8 values"]);
        assert_says(fold(32, 1), &["16 twiddles for 32 points"]);
        assert_says(
            decompose(stream, slab(1).values().view()).map(|_| ()),
            &["circle_fold::decompose", "one value"],
        );
        let add = |n, m| lift_add(stream, slab(n).values_mut().view_mut(), slab(m).values().view());
        assert_says(add(8, 16), &["circle_fold::lift_add", "cannot add 16 values to 8"]);
        assert_says(add(8, 1), &["cannot add 1 values to 8"]);
        assert_says(add(12, 4), &["12 rows", "power of two"]);
    });
}
