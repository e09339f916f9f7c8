//! Circle transforms against Stwo's on the CPU.

use rigel_gpu::{Buffer, DeviceKind, Stream};
use rigel_kernels::Columns;
use rigel_kernels::field::Mersenne31;
use rigel_kernels::transform::circle::{self, Twiddles};
use stwo::core::circle::Coset;
use stwo::core::fields::m31::BaseField;
use stwo::core::poly::circle::{CanonicCoset, CircleDomain};
use stwo::prover::backend::CpuBackend;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::{CircleCoefficients, CircleEvaluation, PolyOps};
use stwo::prover::poly::twiddles::{TwiddleBuffer, TwiddleTree};

use crate::support::{on_each_device, random, rng};

fn theirs(values: &[Mersenne31]) -> Vec<BaseField> {
    values.iter().map(|&value| BaseField::from(rigel_kernels::field::Field::word(value))).collect()
}

fn ours(values: &[BaseField]) -> Vec<Mersenne31> {
    values.iter().map(|value| Mersenne31::new(value.0)).collect()
}

/// A domain with its twiddles: upstream's own, and a tower on the device.
struct Domain {
    domain: CircleDomain,
    tree: TwiddleTree<CpuBackend>,
    forward: Buffer<Mersenne31>,
    inverse: Buffer<Mersenne31>,
}

impl Domain {
    /// A domain whose twiddles on the device are the last ones of `root`'s tower.
    fn within(stream: &Stream, domain: CircleDomain, root: Coset) -> Self {
        Self::with(stream, domain, &CpuBackend::precompute_twiddles(root))
    }

    fn with(stream: &Stream, domain: CircleDomain, tower: &TwiddleTree<CpuBackend>) -> Self {
        let forward = stream.upload(&ours(&tower.twiddles)).unwrap();
        let inverse = stream.upload(&ours(&tower.itwiddles)).unwrap();
        Self { domain, tree: CpuBackend::precompute_twiddles(domain.half_coset), forward, inverse }
    }

    fn canonic(stream: &Stream, log_size: u32) -> Self {
        let domain = CanonicCoset::new(log_size).circle_domain();
        Self::within(stream, domain, domain.half_coset)
    }

    fn twiddles(&self, inverse: bool) -> Twiddles<'_> {
        let tower = if inverse { self.inverse.view() } else { self.forward.view() };
        let initial = self.domain.half_coset.initial;
        Twiddles { tower, initial: [Mersenne31::new(initial.x.0), Mersenne31::new(initial.y.0)] }
    }

    /// Interpolation of random columns, in place and out of place.
    fn check_interpolation(&self, stream: &Stream, columns: usize) {
        let rows = self.domain.size();
        let values: Vec<Mersenne31> = random(&mut rng(rows as u64 + 1), rows * columns);
        let expected: Vec<Mersenne31> = values
            .chunks(rows)
            .flat_map(|column| {
                let evaluation =
                    CircleEvaluation::<CpuBackend, _, BitReversedOrder>::new(self.domain, theirs(column));
                ours(&CpuBackend::interpolate(evaluation, &self.tree).coeffs)
            })
            .collect();
        let what = format!("interpolation, {rows} x {columns}");
        let mut found = stream.upload(&values).unwrap();
        let mut moved = stream.alloc(values.len()).unwrap();
        let from = Columns::new(found.view(), rows).unwrap();
        circle::interpolate_into(stream, moved.view_mut(), from, self.twiddles(true)).unwrap();
        assert_same(&moved.to_vec(stream).unwrap(), &expected, &what);
        assert_same(&found.to_vec(stream).unwrap(), &values, "input is kept");
        circle::interpolate(stream, found.view_mut(), rows, self.twiddles(true)).unwrap();
        assert_same(&found.to_vec(stream).unwrap(), &expected, &format!("{what} in place"));
    }

    /// Evaluation of random columns of 2^`log_rows` coefficients.
    fn check_evaluation(&self, stream: &Stream, log_rows: u32, columns: usize) {
        let rows = 1 << log_rows;
        let coefficients: Vec<Mersenne31> = random(&mut rng(rows as u64), rows * columns);
        let expected: Vec<Mersenne31> = coefficients
            .chunks(rows)
            .flat_map(|column| {
                let polynomial = CircleCoefficients::<CpuBackend>::new(theirs(column));
                ours(&CpuBackend::evaluate(&polynomial, self.domain, &self.tree).values)
            })
            .collect();
        let uploaded = stream.upload(&coefficients).unwrap();
        let mut found = stream.alloc(expected.len()).unwrap();
        let from = Columns::new(uploaded.view(), rows).unwrap();
        let log_domain = self.domain.log_size();
        circle::evaluate_into(stream, found.view_mut(), log_domain, from, self.twiddles(false)).unwrap();
        let what = format!("evaluation, {rows} x {columns} on 2^{log_domain}");
        assert_same(&found.to_vec(stream).unwrap(), &expected, &what);
    }
}

fn assert_same(found: &[Mersenne31], expected: &[Mersenne31], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let different = found.iter().zip(expected).position(|(a, b)| a != b);
    if let Some(i) = different {
        panic!("{what}: word {i} is {:?}, not {:?}", found[i], expected[i]);
    }
}

fn check_size(stream: &Stream, log_size: u32, columns: usize) {
    let domain = Domain::canonic(stream, log_size);
    domain.check_interpolation(stream, columns);
    domain.check_evaluation(stream, log_size, columns);
}

#[test]
fn small_sizes_equal_stwo() {
    on_each_device(|stream| {
        for log_size in 1..=14 {
            check_size(stream, log_size, 1);
            check_size(stream, log_size, 3);
        }
    });
}

#[test]
fn many_small_columns_equal_stwo() {
    on_each_device(|stream| {
        for (log_size, columns) in [(1, 300), (2, 131), (3, 1_100), (5, 700), (8, 70), (11, 5)] {
            check_size(stream, log_size, columns);
        }
    });
}

#[test]
fn strided_passes_equal_stwo() {
    on_each_device(|stream| [15, 16, 17, 18, 19].iter().for_each(|&log_size| check_size(stream, log_size, 2)));
}

#[test]
fn large_strided_passes_equal_stwo() {
    on_each_device(|stream| {
        // Each larger one takes seconds on the emulated device.
        let largest = if stream.device().kind() == DeviceKind::Cuda { 22 } else { 20 };
        (20..=largest).for_each(|log_size| check_size(stream, log_size, 1));
    });
}

#[test]
fn larger_domains_equal_stwo() {
    on_each_device(|stream| {
        for (log_rows, columns) in [(1, 3), (2, 3), (3, 5), (4, 2), (8, 3), (9, 40), (12, 2), (13, 2), (16, 1)] {
            for blowup in 1..=3 {
                Domain::canonic(stream, log_rows + blowup).check_evaluation(stream, log_rows, columns);
            }
        }
        Domain::canonic(stream, 13).check_evaluation(stream, 1, 2);
    });
}

#[test]
fn a_larger_tower_serves_smaller_domains() {
    on_each_device(|stream| {
        let root = CanonicCoset::new(17).circle_domain().half_coset;
        for log_size in [1, 2, 3, 7, 12, 13, 15] {
            let domain = Domain::within(stream, CanonicCoset::new(log_size).circle_domain(), root);
            domain.check_interpolation(stream, 2);
            domain.check_evaluation(stream, log_size, 2);
            domain.check_evaluation(stream, 1.max(log_size - 1), 2);
        }
    });
}

#[test]
fn subdomains_that_are_not_canonic_equal_stwo() {
    on_each_device(|stream| {
        for (log_size, log_parts) in [(3, 1), (4, 2), (5, 1), (10, 2), (14, 1), (16, 3)] {
            let whole = CanonicCoset::new(log_size).circle_domain();
            let tree = CpuBackend::precompute_twiddles(whole.half_coset);
            let part = whole.split(log_parts).0;
            let extract = |buffer: &Vec<BaseField>| {
                TwiddleBuffer::<BitReversedOrder>::extract_subdomain_twiddles(
                    buffer,
                    log_size,
                    log_size - log_parts,
                )
            };
            let tree = TwiddleTree {
                root_coset: part.half_coset,
                twiddles: extract(&tree.twiddles),
                itwiddles: extract(&tree.itwiddles),
            };
            let domain = Domain::with(stream, part, &tree);
            domain.check_interpolation(stream, 3);
            domain.check_evaluation(stream, part.log_size(), 3);
            domain.check_evaluation(stream, 1.max(part.log_size() - 1), 3);
        }
    });
}

#[test]
fn columns_need_not_be_aligned() {
    on_each_device(|stream| {
        for log_size in [3, 6, 10, 12, 13, 14] {
            let domain = Domain::canonic(stream, log_size);
            let rows = domain.domain.size();
            let values: Vec<Mersenne31> = random(&mut rng(7), rows * 2 + 1);
            let mut whole = stream.upload(&values).unwrap();
            circle::interpolate(stream, whole.range_mut(1..).unwrap(), rows, domain.twiddles(true)).unwrap();
            let mut aligned = stream.upload(&values[1..]).unwrap();
            circle::interpolate(stream, aligned.view_mut(), rows, domain.twiddles(true)).unwrap();
            assert_same(&whole.to_vec(stream).unwrap()[1..], &aligned.to_vec(stream).unwrap(), "interpolation");
            assert_eq!(whole.to_vec(stream).unwrap()[0], values[0]);
            let from = Columns::new(aligned.view(), rows).unwrap();
            let to = whole.range_mut(1..).unwrap();
            circle::evaluate_into(stream, to, log_size, from, domain.twiddles(false)).unwrap();
            assert_same(&whole.to_vec(stream).unwrap(), &values, "there and back");
        }
    });
}

#[test]
fn the_largest_values_stay_canonical() {
    on_each_device(|stream| {
        for log_size in [5, 12, 14] {
            let domain = Domain::canonic(stream, log_size);
            let rows = domain.domain.size();
            for last in [0, 1] {
                // p - 1 everywhere, or at every other point with zeros between.
                let values: Vec<Mersenne31> = (0..rows as u32)
                    .map(|i| Mersenne31::new(if i & last == last { 0x7fff_fffe } else { 0 }))
                    .collect();
                let evaluation =
                    CircleEvaluation::<CpuBackend, _, BitReversedOrder>::new(domain.domain, theirs(&values));
                let expected = ours(&CpuBackend::interpolate(evaluation, &domain.tree).coeffs);
                let mut found = stream.upload(&values).unwrap();
                circle::interpolate(stream, found.view_mut(), rows, domain.twiddles(true)).unwrap();
                assert_same(&found.to_vec(stream).unwrap(), &expected, "interpolation of extremes");
            }
        }
    });
}

#[test]
fn an_input_without_columns_needs_no_launch() {
    on_each_device(|stream| {
        let domain = Domain::canonic(stream, 12);
        let mut none = stream.alloc::<Mersenne31>(0).unwrap();
        circle::interpolate(stream, none.view_mut(), 1 << 12, domain.twiddles(true)).unwrap();
        let empty = stream.alloc::<Mersenne31>(0).unwrap();
        let from = Columns::new(empty.view(), 1 << 11).unwrap();
        circle::evaluate_into(stream, none.view_mut(), 12, from, domain.twiddles(false)).unwrap();
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let domain = Domain::canonic(stream, 5);
        let mut values = stream.zeros::<Mersenne31>(96).unwrap();
        let mut refused = |rows: usize, words: &[&str]| {
            let error = circle::interpolate(stream, values.view_mut(), rows, domain.twiddles(true)).unwrap_err();
            assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
        };
        refused(12, &["12 rows", "power of two"]);
        refused(0, &["0 rows"]);
        refused(1, &["2^0 rows"]);
        refused(64, &["96 values", "64 rows"]);

        let coefficients = stream.zeros::<Mersenne31>(128).unwrap();
        let mut room = stream.zeros::<Mersenne31>(128).unwrap();
        let mut refused = |rows: usize, log_domain: u32, words: &[&str]| {
            let from = Columns::new(coefficients.view(), rows).unwrap();
            let to = room.view_mut();
            let error = circle::evaluate_into(stream, to, log_domain, from, domain.twiddles(false)).unwrap_err();
            assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
        };
        refused(64, 6, &["a domain of 2^6 points needs 2^5 twiddles; the tower has 16"]);
        refused(32, 4, &["2^5 coefficients", "2^4 points"]);
        refused(16, 5, &["the output has 128 values", "8 columns of 2^5 points need 256"]);
        refused(1, 3, &["2^0 rows"]);
        refused(2, 40, &["2^40 points"]);

        let mut short = stream.zeros::<Mersenne31>(64).unwrap();
        let from = Columns::new(coefficients.view(), 32).unwrap();
        let error = circle::interpolate_into(stream, short.view_mut(), from, domain.twiddles(true))
            .unwrap_err()
            .to_string();
        assert!(error.contains("the output has 64 values"), "{error}");

        let axis = Twiddles { initial: [Mersenne31::new(1), Mersenne31::new(0)], ..domain.twiddles(true) };
        let error = circle::interpolate(stream, short.view_mut(), 2, axis).unwrap_err().to_string();
        assert!(error.contains("on an axis"), "{error}");
        domain.check_interpolation(stream, 2);
    });
}
