//! Circle polynomials.

use num_traits::One;
use rigel_gpu::DeviceKind;
use stwo::core::circle::Coset;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::{CanonicCoset, CircleDomain};
use stwo::core::vcs_lifted::blake2_merkle::{Blake2sM31MerkleHasher, Blake2sMerkleHasher};
use stwo::core::vcs_lifted::merkle_hasher::MerkleHasherLifted;
use stwo::prover::Poly;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::backend::{Backend, Col, Column};
use stwo::prover::mempool::BaseColumnPool;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::{CircleCoefficients, CircleEvaluation, PolyOps};
use stwo::prover::poly::twiddles::{TwiddleBuffer, TwiddleTree};
use stwo::prover::vcs_lifted::ops::MerkleOpsLifted;
use stwo::prover::vcs_lifted::prover::MerkleProverLifted;

use crate::random::{Cpu, Cuda, bases, column, evaluation, on_devices, point, rng};

fn canonic(log_size: u32) -> CircleDomain {
    CanonicCoset::new(log_size).circle_domain()
}

fn coefficients<B: PolyOps>(values: &[BaseField]) -> CircleCoefficients<B> {
    CircleCoefficients::new(column::<B, _>(values))
}

#[test]
fn interpolation_and_evaluation() {
    on_devices(|_| {
        for log_size in 1..=13 {
            let values = bases(&mut rng(log_size.into()), 1 << log_size);
            let domain = canonic(log_size);
            let expected = evaluation::<Cpu>(domain, &values).interpolate();
            let found = evaluation::<Cuda>(domain, &values).interpolate();
            assert_eq!(found.coeffs.to_cpu(), expected.coeffs, "2^{log_size}");
            assert_eq!(found.evaluate(domain).values.to_cpu(), values, "2^{log_size}");
            for blowup in 1..=3 {
                let larger = canonic(log_size + blowup);
                let expected = expected.evaluate(larger).values;
                assert_eq!(found.evaluate(larger).values.to_cpu(), expected, "2^{log_size} to {blowup} more");
            }
        }
    });
}

#[test]
fn many_columns_at_once() {
    on_devices(|_| {
        let mut rng = rng(1);
        let twiddles = Cuda::precompute_twiddles(canonic(12).half_coset);
        let host = Cpu::precompute_twiddles(canonic(12).half_coset);
        let logs = [4, 4, 7, 4, 10, 10, 10, 1, 2];
        let values: Vec<_> = logs.iter().map(|&log| bases(&mut rng, 1 << log)).collect();
        let evaluations = |i: usize| evaluation::<Cuda>(canonic(logs[i]), &values[i]);
        let found = Cuda::interpolate_columns((0..logs.len()).map(evaluations).collect(), &twiddles);
        let expected: Vec<_> = (0..logs.len())
            .map(|i| evaluation::<Cpu>(canonic(logs[i]), &values[i]).interpolate_with_twiddles(&host))
            .collect();
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.coeffs.to_cpu(), expected.coeffs);
        }
        // With and without pooled memory from an earlier proof.
        let pool = BaseColumnPool::new();
        for store in [false, true] {
            let found: Vec<_> =
                found.iter().map(|polynomial| coefficients::<Cuda>(&polynomial.coeffs.to_cpu())).collect();
            let evaluated = Cuda::evaluate_polynomials(found, 2, &twiddles, store, &pool);
            for (polynomial, expected) in evaluated.into_iter().zip(&expected) {
                let log_size = expected.log_size() + 2;
                assert_eq!(polynomial.evals.domain, canonic(log_size));
                assert_eq!(polynomial.evals.values.to_cpu(), expected.evaluate(canonic(log_size)).values);
                assert_eq!(polynomial.coeffs.is_some(), store);
                pool.give_back(log_size, polynomial.evals.values);
            }
        }
    });
}

#[test]
fn clones_of_interpolated_columns_keep_their_values() {
    on_devices(|_| {
        let (domain, mut rng) = (canonic(6), rng(5));
        let twiddles = Cuda::precompute_twiddles(domain.half_coset);
        let host: Vec<_> = (0..5).map(|_| evaluation::<SimdBackend>(domain, &bases(&mut rng, 64))).collect();
        let columns = rigel_stwo::upload(&host).unwrap();
        // Some are shared and some are not, in one run of memory.
        let clones = columns[1..3].to_vec();
        let alone: Vec<_> = Cuda::interpolate_columns(rigel_stwo::upload(&host).unwrap(), &twiddles);
        let shared = Cuda::interpolate_columns(columns, &twiddles);
        for (found, expected) in shared.iter().zip(&alone) {
            assert_eq!(found.coeffs.to_cpu(), expected.coeffs.to_cpu());
        }
        for (clone, original) in clones.iter().zip(&host[1..]) {
            assert_eq!(clone.values.to_cpu(), original.values.to_cpu());
        }
    });
}

#[test]
fn columns_of_the_host_and_of_the_device_in_one_list() {
    on_devices(|_| {
        let mut rng = rng(6);
        let twiddles = Cuda::precompute_twiddles(canonic(9).half_coset);
        let logs = [6, 6, 5, 9, 9, 9, 6, 5, 5];
        let host: Vec<_> =
            logs.map(|log| evaluation::<SimdBackend>(canonic(log), &bases(&mut rng, 1 << log))).into();
        let upload = |range: std::ops::Range<usize>| rigel_stwo::upload(&host[range]).unwrap();
        let expected = Cuda::interpolate_columns(upload(0..9), &twiddles);
        let kept = |range| rigel_stwo::in_column_batches(100, || upload(range));
        let list = [kept(0..3), upload(3..6), kept(6..8), upload(8..9)].into_iter().flatten().collect();
        let (found, report) = rigel_stwo::measure(|| Cuda::interpolate_columns(list, &twiddles)).unwrap();
        // The device's columns of 2^9 values are not copied; those of the host come one by one.
        assert!(report.peak_bytes < 4 << 9, "{} bytes", report.peak_bytes);
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found.coeffs.to_cpu(), expected.coeffs.to_cpu(), "column {i}");
        }
    });
}

#[test]
fn subdomains_and_their_twiddles() {
    on_devices(|_| {
        let (domain, parts) = (canonic(9), 2);
        let (subdomain, _) = domain.split(parts);
        let values = bases(&mut rng(2), subdomain.size());
        let expected = evaluation::<Cpu>(subdomain, &values).interpolate();
        for log_tower in [9, 11] {
            let tower = Cuda::precompute_twiddles(canonic(log_tower).half_coset);
            let twiddles = TwiddleTree::<Cuda> {
                root_coset: subdomain.half_coset,
                twiddles: TwiddleBuffer::empty(),
                itwiddles: tower.itwiddles.extract_subdomain_twiddles(domain.log_size(), subdomain.log_size()),
            };
            let found = evaluation::<Cuda>(subdomain, &values).interpolate_with_twiddles(&twiddles);
            assert_eq!(found.coeffs.to_cpu(), expected.coeffs);
            assert_eq!(
                found.evaluate_with_twiddles(domain, &tower).values.to_cpu(),
                expected.evaluate(domain).values
            );
        }
    });
}

#[test]
fn values_at_points() {
    on_devices(|_| {
        for log_size in 1..=12 {
            let mut rng = rng(log_size.into());
            let (values, point) = (bases(&mut rng, 1 << log_size), point(&mut rng));
            let domain = canonic(log_size);
            let expected = evaluation::<Cpu>(domain, &values).interpolate().eval_at_point(point);
            let there = evaluation::<Cuda>(domain, &values);
            let twiddles = Cuda::precompute_twiddles(domain.half_coset);
            assert_eq!(there.eval_at_point_by_folding(point, &twiddles), expected, "2^{log_size} by folding");

            let weights = Cuda::barycentric_weights(CanonicCoset::new(log_size), point);
            let same = Cpu::barycentric_weights(CanonicCoset::new(log_size), point);
            assert_eq!(weights.to_cpu(), same, "weights of 2^{log_size}");
            assert_eq!(there.barycentric_eval_at_point(&weights), expected, "2^{log_size} by weights");
            assert_eq!(there.interpolate().eval_at_point(point), expected, "2^{log_size} by coefficients");
        }
    });
}

#[test]
fn values_of_one_column_at_two_points() {
    on_devices(|_| {
        let mut rng = rng(9);
        let values = bases(&mut rng, 256);
        let there = evaluation::<Cuda>(canonic(8), &values).interpolate();
        let here = evaluation::<Cpu>(canonic(8), &values).interpolate();
        for point in [point(&mut rng), point(&mut rng)] {
            assert_eq!(there.eval_at_point(point), here.eval_at_point(point));
            assert_eq!(there.eval_at_point(point), here.eval_at_point(point));
        }
    });
}

#[test]
fn more_coefficients_and_halves() {
    on_devices(|_| {
        let values = bases(&mut rng(4), 128);
        let extended = coefficients::<Cuda>(&values).extend(10);
        assert_eq!(extended.coeffs.to_cpu(), coefficients::<Cpu>(&values).extend(10).coeffs);
        let (low, high) = coefficients::<Cuda>(&values).split_at_mid();
        assert_eq!((low.coeffs.to_cpu(), high.coeffs.to_cpu()), (values[..64].to_vec(), values[64..].to_vec()));
    });
}

#[test]
fn twiddles_of_any_coset() {
    on_devices(|_| {
        for domain in [canonic(1), canonic(2), canonic(6), canonic(11).split(3).0] {
            let found = Cuda::precompute_twiddles(domain.half_coset);
            let values = bases(&mut rng(5), domain.size());
            let there = evaluation::<Cuda>(domain, &values).interpolate_with_twiddles(&found);
            assert_eq!(there.coeffs.to_cpu(), evaluation::<Cpu>(domain, &values).interpolate().coeffs);
        }
    });
}

#[test]
fn a_domain_larger_than_the_twiddles_is_refused() {
    on_devices(|_| {
        let small = Cuda::precompute_twiddles(canonic(5).half_coset);
        let values = bases(&mut rng(6), 64);
        let refused =
            rigel_stwo::catch(|| evaluation::<Cuda>(canonic(6), &values).interpolate_with_twiddles(&small));
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("2^6") && error.contains("16"), "{error}");
        let polynomial = coefficients::<Cuda>(&values);
        let refused = rigel_stwo::catch(|| polynomial.evaluate_with_twiddles(canonic(7), &small));
        assert!(refused.is_err());
        // The device stays usable.
        assert_eq!(polynomial.evaluate(canonic(6)).values.len(), 64);
    });
}

#[test]
fn uploaded_columns_are_canonical() {
    on_devices(|_| {
        let mut values = bases(&mut rng(7), 256);
        let mut host = column::<SimdBackend, _>(&values);
        // Arithmetic on upstream's vectors may represent zero as 2^31 - 1.
        for i in [0, 17, 255] {
            host.as_mut_slice()[i] = BaseField::from_u32_unchecked((1 << 31) - 1);
            values[i] = BaseField::default();
        }
        let host = CircleEvaluation::<SimdBackend, BaseField, BitReversedOrder>::new(canonic(8), host);
        let short = evaluation::<SimdBackend>(canonic(4), &values[..16]);
        let there = rigel_stwo::upload(&[host.clone(), short, host]).unwrap();
        assert_eq!(there[0].values.to_cpu(), values);
        assert_eq!(there[1].values.to_cpu(), values[..16]);
        assert_eq!(there[2].values.to_cpu(), values);
        assert!(rigel_stwo::upload(&[]).unwrap().is_empty());
    });
}

#[test]
fn uploaded_polynomials_are_extended_already() {
    on_devices(|_| {
        let mut rng = rng(8);
        let twiddles = Cuda::precompute_twiddles(canonic(12).half_coset);
        let logs = [4, 4, 7, 4, 10, 10, 9, 10, 1, 2, 7];
        let mut values: Vec<_> = logs.iter().map(|&log| bases(&mut rng, 1 << log)).collect();
        let mut host: Vec<_> =
            values.iter().zip(logs).map(|(values, log)| evaluation::<SimdBackend>(canonic(log), values)).collect();
        host[5].values.as_mut_slice()[3] = BaseField::from_u32_unchecked((1 << 31) - 1);
        values[5][3] = BaseField::default();
        let expected: Vec<_> = values
            .iter()
            .zip(logs)
            .map(|(values, log)| evaluation::<Cpu>(canonic(log), values).interpolate())
            .collect();
        for blowup in [0, 1, 2] {
            let polynomials = rigel_stwo::upload_polynomials(&host, blowup, &twiddles).unwrap();
            for (found, expected) in polynomials.iter().zip(&expected) {
                assert_eq!(found.coeffs.to_cpu(), expected.coeffs);
            }
            let clones = polynomials.clone();
            let evaluate = |polynomials| {
                let pool = BaseColumnPool::new();
                rigel_stwo::measure(|| Cuda::evaluate_polynomials(polynomials, blowup, &twiddles, true, &pool))
                    .unwrap()
            };
            let (there, report) = evaluate(polynomials);
            assert_eq!(report.launches, 0, "the values are there already");
            let (made, report) = evaluate(clones);
            assert!(report.launches > 0, "clones have coefficients only");
            for (both, expected) in there.iter().zip(&made).zip(&expected) {
                let domain = canonic(expected.log_size() + blowup);
                for found in [&both.0.evals, &both.1.evals] {
                    assert_eq!(found.domain, domain);
                    assert_eq!(found.values.to_cpu(), expected.evaluate(domain).values);
                }
            }
        }
        assert!(rigel_stwo::upload_polynomials(&[], 1, &twiddles).unwrap().is_empty());
        let error = rigel_stwo::upload_polynomials(&host, 3, &twiddles).unwrap_err().to_string();
        assert!(error.contains("2^10 rows") && error.contains("2^13") && error.contains("2^12"), "{error}");
        assert!(rigel_stwo::upload_polynomials(&host, u32::MAX, &twiddles).is_err());
    });
}

#[test]
fn a_tree_of_columns_of_which_some_are_extended_already() {
    on_devices(|_| {
        let mut rng = rng(11);
        let twiddles = Cuda::precompute_twiddles(canonic(10).half_coset);
        let values: Vec<_> = (0..6).map(|_| bases(&mut rng, 256)).collect();
        let host: Vec<_> = values.iter().map(|values| evaluation::<SimdBackend>(canonic(8), values)).collect();
        let plain = |i: usize| Cuda::interpolate_columns(rigel_stwo::upload(&host[i..=i]).unwrap(), &twiddles);
        let extended = |i: usize, blowup| rigel_stwo::upload_polynomials(&host[i..=i], blowup, &twiddles).unwrap();
        let list = [plain(0), extended(1, 2), extended(2, 1), plain(3), extended(4, 2), extended(5, 2)];
        let before = rigel_stwo::current().unwrap().memory_stats().in_use;
        let pool = BaseColumnPool::new();
        let found = Cuda::evaluate_polynomials(list.into_iter().flatten().collect(), 2, &twiddles, true, &pool);
        // What was extended for another commitment is gone, though the coefficients stay.
        let after = rigel_stwo::current().unwrap().memory_stats().in_use;
        assert_eq!(after - before, 4 * (3 * 1024 - 512), "three more columns of 1,024 values, one of 512 less");
        for (found, values) in found.iter().zip(&values) {
            let expected = evaluation::<Cpu>(canonic(8), values).interpolate().evaluate(canonic(10));
            assert_eq!(found.evals.values.to_cpu(), expected.values);
        }
    });
}

#[test]
fn values_of_changed_coefficients_are_computed() {
    on_devices(|_| {
        let twiddles = Cuda::precompute_twiddles(canonic(7).half_coset);
        let values = bases(&mut rng(9), 64);
        let host = [evaluation::<SimdBackend>(canonic(6), &values)];
        let mut polynomials = rigel_stwo::upload_polynomials(&host, 1, &twiddles).unwrap();
        let mut expected = evaluation::<Cpu>(canonic(6), &values).interpolate();
        expected.coeffs[5] = values[0];
        polynomials[0].coeffs.set(5, values[0]);
        let found = polynomials[0].evaluate_with_twiddles(canonic(7), &twiddles);
        assert_eq!(found.values.to_cpu(), expected.evaluate(canonic(7)).values);
        // Values on one domain are not those on another.
        let polynomials = rigel_stwo::upload_polynomials(&host, 1, &twiddles).unwrap();
        let found = polynomials[0].evaluate_with_twiddles(canonic(6), &twiddles);
        assert_eq!(found.values.to_cpu(), values);
    });
}

/// The value at a point of values on the canonic domain of 2^7 points.
fn at_point<B: Backend>(values: Col<B, BaseField>) -> SecureField {
    let at = point(&mut rng(12));
    let weights = B::barycentric_weights(CanonicCoset::new(7), at);
    B::barycentric_eval_at_point(&CircleEvaluation::new(canonic(7), values), &weights)
}

#[test]
fn values_that_change_come_from_more_coefficients() {
    on_devices(|_| {
        let values = bases(&mut rng(11), 1 << 4);
        let twiddles = Cuda::precompute_twiddles(canonic(7).half_coset);
        let extended = || coefficients::<Cuda>(&values).evaluate_with_twiddles(canonic(7), &twiddles).values;
        let mut on_host = coefficients::<Cpu>(&values).evaluate(canonic(7)).values;
        let unchanged = at_point::<Cpu>(on_host.clone());
        assert_eq!(at_point::<Cuda>(extended()), unchanged);
        let (mut changed, clone) = (extended(), extended());
        let mut changed_clone = clone.clone();
        for column in [&mut changed, &mut changed_clone] {
            column.set(127, values[0]);
        }
        on_host[127] = values[0];
        let expected = at_point::<Cpu>(on_host);
        assert_eq!([changed, changed_clone].map(at_point::<Cuda>), [expected; 2]);
        assert_eq!(at_point::<Cuda>(clone), unchanged);
        // Values on another domain are not those of the polynomial on the canonic one.
        let other = CircleDomain::new(Coset::new(canonic(9).half_coset.initial_index, 6));
        let values = coefficients::<Cuda>(&values).evaluate(other).values;
        let on_host = values.to_cpu();
        assert_eq!(at_point::<Cuda>(values), at_point::<Cpu>(on_host));
    });
}

/// The root of the tree over columns.
fn root<B, H>(columns: &[Poly<B>], log_leaves: u32) -> H::Hash
where
    B: Backend + MerkleOpsLifted<H>,
    H: MerkleHasherLifted,
{
    let columns = columns.iter().map(|column| &column.evals.values).collect();
    MerkleProverLifted::<B, H>::commit(columns, log_leaves, 0).root()
}

#[test]
fn polynomials_that_arrive_in_parts() {
    type Blake = Blake2sMerkleHasher;
    type Reduced = Blake2sM31MerkleHasher;
    on_devices(|stream| {
        // 64 columns, of which 32 arrive first, and then 16 twice: as many bytes as travel in parts on this device.
        let log_rows = if stream.device().kind() == DeviceKind::Emulated { 14 } else { 22 };
        let log_leaves = log_rows + 1;
        let mut rng = rng(10);
        let mut host = || evaluation::<SimdBackend>(canonic(log_rows), &bases(&mut rng, 1 << log_rows));
        let host: Vec<_> = (0..64).map(|_| host()).collect();
        let twiddles = Cuda::precompute_twiddles(canonic(log_leaves).half_coset);
        let evaluate =
            |polynomials| Cuda::evaluate_polynomials(polynomials, 1, &twiddles, false, &BaseColumnPool::new());
        let plain = evaluate(Cuda::interpolate_columns(rigel_stwo::upload(&host).unwrap(), &twiddles));
        let in_parts = || evaluate(rigel_stwo::upload_polynomials(&host, 1, &twiddles).unwrap());
        let found = in_parts();
        for i in [0, 31, 32, 47, 48, 63] {
            assert!(found[i].evals.values.to_cpu() == plain[i].evals.values.to_cpu(), "column {i}");
        }
        // The leaves have absorbed the first two parts by now, and serve once.
        let of_all = root::<_, Blake>(&plain, log_leaves);
        assert_eq!(root::<_, Blake>(&found, log_leaves), of_all);
        assert_eq!(root::<_, Blake>(&found, log_leaves), of_all);
        drop(found);
        assert_eq!(root::<_, Reduced>(&in_parts(), log_leaves), root::<_, Reduced>(&plain, log_leaves));
        // Trees that are not the one that was begun: of a larger domain, of fewer, changed or moved columns.
        assert_eq!(root::<_, Blake>(&in_parts(), log_leaves + 1), root::<_, Blake>(&plain, log_leaves + 1));
        for count in [20, 48] {
            let expected = root::<_, Blake>(&plain[..count], log_leaves);
            assert_eq!(root::<_, Blake>(&in_parts()[..count], log_leaves), expected, "{count} columns");
        }
        for changed in [0, 47, 63] {
            let mut columns = in_parts();
            let values = &mut columns[changed].evals.values;
            let (old, new) = (values.at(5), values.at(5) + BaseField::one());
            values.set(5, new);
            assert_ne!(root::<_, Blake>(&columns, log_leaves), of_all, "column {changed}");
            columns[changed].evals.values.set(5, old);
            assert_eq!(root::<_, Blake>(&columns, log_leaves), of_all, "column {changed}");
        }
        let mut columns = in_parts();
        columns.swap(3, 4);
        assert_ne!(root::<_, Blake>(&columns, log_leaves), of_all);
        // A tree with other first columns frees the leaves that waited for one, and takes as much memory.
        let mut columns = in_parts();
        columns.rotate_left(1);
        let in_use = || stream.device().memory_stats().in_use;
        let before = in_use();
        root::<_, Blake>(&columns, log_leaves);
        assert!(in_use() <= before, "{before} bytes before the tree, {} after it", in_use());
    });
}
