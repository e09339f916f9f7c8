//! Quotients on circle domains against Stwo's.

use rigel_gpu::Stream;
use rigel_kernels::field::{Mersenne31, QM31, Ring};
use rigel_kernels::layout::slab::to_slab;
use rigel_kernels::open::circle_quotients::*;
use rigel_kernels::{Columns, Matrix};
use stwo::core::circle::CirclePoint;
use stwo::core::fields::qm31::SecureField;
use stwo::core::pcs::quotients::{ColumnSampleBatch, NumeratorData, denominator_inverses, quotient_constants};
use stwo::core::poly::circle::{CanonicCoset, CircleDomain};
use stwo::core::utils::bit_reverse_index;
use stwo::prover::QuotientOps;
use stwo::prover::backend::CpuBackend;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::{CircleEvaluation, PolyOps};

use crate::domain::circle_domain::{our_domain, ours, secure_point, theirs};
use crate::oracle::{Oracle, assert_says, download, random_columns, random_elements, upload};
use crate::support::{on_each_device, rng};

/// Upstream's numerators of columns opened at two points, some at both, one twice.
fn check_accumulation(stream: &Stream, log_size: u32, log_blowup: u32, columns: usize) {
    let mut rng = rng(u64::from(log_size) * 1_000 + columns as u64);
    let domain = CanonicCoset::new(log_size).circle_domain();
    let values = random_columns::<Mersenne31>(&mut rng, 1 << log_size, columns);
    let batches: Vec<ColumnSampleBatch> = (0..2)
        .map(|k| {
            let (point, _) = secure_point(k + 5);
            let numbers = (0..columns).filter(|i| i % 3 != k as usize).chain([0]);
            let data = numbers.map(|column_index| {
                let [sample_value, random_coeff] = random_elements::<QM31>(&mut rng, 2)[..] else {
                    unreachable!()
                };
                NumeratorData {
                    column_index,
                    sample_value: sample_value.theirs(),
                    random_coeff: random_coeff.theirs(),
                }
            });
            ColumnSampleBatch { point, cols_vals_randpows: data.collect() }
        })
        .collect();
    let evaluations: Vec<_> = values
        .iter()
        .map(|column| CircleEvaluation::<CpuBackend, _, BitReversedOrder>::new(domain, theirs(column)))
        .collect();
    let mut expected = vec![];
    CpuBackend::accumulate_numerators(
        &evaluations.iter().collect::<Vec<_>>(),
        &batches,
        &mut expected,
        log_blowup,
    );

    // The columns of three matrices, one of them twice as long.
    let cuts = [0, columns / 3, columns / 2, columns];
    let matrices: Vec<Matrix<Mersenne31>> = cuts
        .windows(2)
        .enumerate()
        .filter(|(_, cut)| cut[0] < cut[1])
        .map(|(i, cut)| {
            let mut part = values[cut[0]..cut[1]].to_vec();
            if i == 1 {
                part.iter_mut().for_each(|column| column.extend_from_within(..));
            }
            upload(stream, &part)
        })
        .collect();
    let matrices: Vec<_> = matrices.iter().map(Columns::from).collect();
    let constants = quotient_constants(&batches).line_coeffs;
    let of_point = |(batch, coefficients): (&ColumnSampleBatch, &Vec<(_, _, _)>)| {
        let columns = batch.cols_vals_randpows.iter().zip(coefficients);
        let terms: Vec<_> = columns.map(|(data, &(_, _, c))| (data.column_index, QM31::ours(c))).collect();
        let constant = coefficients.iter().fold(QM31::ZERO, |sum, &(_, b, _)| sum + QM31::ours(b));
        (terms, constant)
    };
    let points: Vec<_> = batches.iter().zip(&constants).map(of_point).collect();
    let points: Vec<_> = points.iter().map(|(terms, constant)| (&terms[..], *constant)).collect();
    let found = accumulate_points(stream, &matrices, &points, 1 << (log_size - log_blowup)).unwrap();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        let expected = ours::<QM31>(&expected.partial_numerators_acc.to_vec());
        assert_eq!(download::<QM31>(stream, found), [expected], "2^{log_size} of {columns}");
    }
}

/// Two rows; warps that share rows and warps that do not; several blocks; more terms than are staged at once.
#[test]
fn numerators_equal_stwo() {
    on_each_device(|stream| {
        for (log_size, log_blowup, columns) in
            [(2, 1, 1), (3, 0, 5), (6, 1, 9), (8, 2, 40), (12, 1, 6), (4, 1, 700)]
        {
            check_accumulation(stream, log_size, log_blowup, columns);
        }
    });
}

/// Rows that are not whole vectors, of columns at any offset.
#[test]
fn numerators_are_their_formula() {
    on_each_device(|stream| {
        let mut rng = rng(9);
        let values = random_columns::<Mersenne31>(&mut rng, 203, 5);
        let matrix = upload(stream, &values);
        let coefficients = random_elements::<QM31>(&mut rng, 6);
        let terms: Vec<_> = [3, 1, 3, 0, 4].into_iter().zip(coefficients.iter().copied()).collect();
        for rows in [1, 2, 7, 128, 131, 203] {
            let expected: Vec<QM31> = (0..rows)
                .map(|r| {
                    let sum = terms.iter().fold(QM31::ZERO, |sum, &(i, c)| sum + c * QM31::from(values[i][r]));
                    sum - coefficients[5]
                })
                .collect();
            let found = accumulate(stream, &[Columns::from(&matrix)], &terms, coefficients[5], rows).unwrap();
            assert_eq!(download::<QM31>(stream, &found), [expected], "{rows} rows");
        }
    });
}

/// The numerators of some points, of these lengths.
struct Opened {
    points: Vec<(CirclePoint<SecureField>, [QM31; 2])>,
    values: Vec<Vec<QM31>>,
    linears: Vec<QM31>,
}

impl Opened {
    fn new(log_lengths: &[u32]) -> Self {
        let mut rng = rng(log_lengths.iter().fold(1, |seed, &l| seed * 31 + u64::from(l)));
        Self {
            points: (0..log_lengths.len()).map(|k| secure_point(k as u128 + 11)).collect(),
            values: log_lengths.iter().map(|&l| random_elements(&mut rng, 1 << l)).collect(),
            linears: random_elements(&mut rng, log_lengths.len()),
        }
    }

    fn combine(&self, stream: &Stream, domain: CircleDomain) -> Matrix<Mersenne31> {
        // Slabs that do not start at multiples of 16 bytes, if their number is odd.
        let slabs: Vec<_> = self
            .values
            .iter()
            .enumerate()
            .map(|(k, values)| {
                let mut slab = vec![Mersenne31::ZERO; k % 2];
                slab.extend(to_slab(values));
                stream.upload(&slab).unwrap()
            })
            .collect();
        let numerators: Vec<_> = (0..slabs.len())
            .map(|k| Numerators {
                point: self.points[k].1,
                values: slabs[k].range(k % 2..).unwrap(),
                linear: self.linears[k],
            })
            .collect();
        combine(stream, &numerators, our_domain(domain)).unwrap()
    }

    /// Upstream's loop.
    fn expected(&self, domain: CircleDomain) -> Vec<QM31> {
        let log_size = domain.log_size();
        let points: Vec<_> = self.points.iter().map(|(point, _)| *point).collect();
        (0..domain.size())
            .map(|row| {
                let at = domain.at(bit_reverse_index(row, log_size));
                let inverses = denominator_inverses(&points, at);
                let terms =
                    self.values.iter().zip(&self.linears).zip(inverses).map(|((values, linear), inverse)| {
                        let ratio = log_size - values.len().ilog2();
                        let lifted = values[(row >> (ratio + 1) << 1) + (row & 1)];
                        (lifted.theirs() - linear.theirs() * at.y).mul_cm31(inverse)
                    });
                QM31::ours(terms.fold(QM31::ZERO.theirs(), |sum, term| sum + term))
            })
            .collect()
    }
}

/// Two points and four; each ratio; several warps and blocks; more points than one launch takes; a subdomain.
#[test]
fn combinations_equal_stwo() {
    on_each_device(|stream| {
        for (log_size, log_lengths) in [
            (1, &[1][..]),
            (2, &[2, 1]),
            (5, &[5, 4, 3, 2, 1]),
            (7, &[7, 5]),
            (9, &[3, 9, 8, 8, 9, 1]),
            (12, &[12, 10]),
        ] {
            let opened = Opened::new(log_lengths);
            let domains = [
                CanonicCoset::new(log_size).circle_domain(),
                CanonicCoset::new(log_size + 2).circle_domain().split(2).0,
            ];
            for domain in domains {
                let found = opened.combine(stream, domain);
                assert_eq!(download::<QM31>(stream, &found), [opened.expected(domain)], "2^{log_size}");
            }
        }
    });
}

/// Interpolated on the subdomain and evaluated on the domain, the combination equals upstream's result.
#[test]
fn a_combination_extends_to_stwos() {
    use stwo::prover::pcs::quotient_ops::AccumulatedNumerators;

    on_each_device(|stream| {
        let (log_size, log_blowup) = (7, 1);
        let opened = Opened::new(&[6, 4]);
        let domain = CanonicCoset::new(log_size).circle_domain();
        let accumulations = (0..2)
            .map(|k| AccumulatedNumerators::<CpuBackend> {
                sample_point: opened.points[k].0,
                partial_numerators_acc: theirs(&opened.values[k]).into_iter().collect(),
                first_linear_term_acc: opened.linears[k].theirs(),
            })
            .collect();
        let twiddles = CpuBackend::precompute_twiddles(domain.half_coset);
        let expected = CpuBackend::compute_quotients_and_combine(accumulations, log_size, log_blowup, &twiddles);

        let (subdomain, _) = domain.split(log_blowup);
        let found = opened.combine(stream, subdomain).to_vec(stream).unwrap();
        for (column, expected) in found.chunks(subdomain.size()).zip(&expected.values.columns) {
            let evaluation = CircleEvaluation::<CpuBackend, _, BitReversedOrder>::new(subdomain, theirs(column));
            assert_eq!(&evaluation.interpolate().evaluate(domain).values, expected);
        }
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let matrix = Matrix::<Mersenne31>::zeros(stream, 8, 3).unwrap();
        let sum =
            |terms: &[(usize, QM31)], rows| accumulate(stream, &[Columns::from(&matrix)], terms, QM31::ONE, rows);
        assert_says(sum(&[], 8), &["circle_quotients::accumulate", "0 terms of 8 rows over 3 columns"]);
        assert_says(sum(&[(0, QM31::ONE)], 0), &["1 terms of 0 rows"]);
        assert_says(sum(&[(0, QM31::ONE)], 9), &["9 rows asked for; a column has only 8"]);
        assert_says(sum(&[(3, QM31::ONE)], 8), &["column 3 does not exist; there are 3"]);

        let domain = our_domain(CanonicCoset::new(3).circle_domain());
        let slab = |n: usize| Matrix::<Mersenne31>::zeros(stream, n, 4).unwrap();
        let try_combine = |n: usize| {
            let slab = slab(n);
            let (_, point) = secure_point(1);
            combine(stream, &[Numerators { point, values: slab.values().view(), linear: QM31::ONE }], domain)
        };
        assert_says(combine(stream, &[], domain), &["circle_quotients::combine", "no numerators"]);
        assert_says(try_combine(16), &["16 numerators for 2^3 points"]);
        assert_says(try_combine(1), &["1 numerators for 2^3 points"]);
        assert_says(try_combine(6), &["6 rows", "power of two"]);
        assert!(try_combine(2).is_ok());
    });
}
