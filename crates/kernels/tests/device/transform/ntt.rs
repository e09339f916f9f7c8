//! Transforms against Plonky3's.

use p3_dft::{NaiveDft, Radix2DFTSmallBatch, TwoAdicSubgroupDft};
use p3_field::TwoAdicField;
use p3_matrix::Matrix as _;
use p3_matrix::bitrev::BitReversibleMatrix;
use p3_matrix::dense::RowMajorMatrix;
use rand::RngExt;
use rigel_gpu::Stream;
use rigel_kernels::field::{BabyBear, Field, Goldilocks, KoalaBear, Ring};
use rigel_kernels::transform::ntt::{self, Order, TwoAdic};
use rigel_kernels::{Columns, Matrix};

use crate::support::{Upstream, on_each_device, random, rng};

/// A random matrix: column-major on the device, and row-major for upstream.
fn pair<F: Upstream>(
    stream: &Stream,
    seed: u64,
    rows: usize,
    columns: usize,
) -> (Matrix<F>, RowMajorMatrix<F::P3>) {
    pair_of(stream, random(&mut rng(seed), rows * columns), rows)
}

fn pair_of<F: Upstream>(stream: &Stream, values: Vec<F>, rows: usize) -> (Matrix<F>, RowMajorMatrix<F::P3>) {
    let columns = values.len() / rows;
    let row_major = (0..values.len()).map(|i| values[i % columns * rows + i / columns].upstream()).collect();
    (Matrix::upload(stream, &values, rows).unwrap(), RowMajorMatrix::new(row_major, columns))
}

fn assert_same<F: Upstream>(stream: &Stream, ours: &Matrix<F>, theirs: &RowMajorMatrix<F::P3>, what: &str) {
    assert_eq!((ours.rows(), ours.columns()), (theirs.height(), theirs.width()), "{what}");
    let values = ours.to_vec(stream).unwrap();
    for column in 0..ours.columns() {
        for row in 0..ours.rows() {
            let (ours, theirs) =
                (values[column * ours.rows() + row].upstream(), theirs.values[row * theirs.width() + column]);
            assert_eq!(ours, theirs, "{what}: row {row}, column {column}");
        }
    }
}

fn reversed<T: Clone + Send + Sync>(matrix: RowMajorMatrix<T>) -> RowMajorMatrix<T> {
    matrix.bit_reverse_rows().to_row_major_matrix()
}

/// All directions and orders of one size.
fn check_size<F: Upstream + TwoAdic>(stream: &Stream, log_rows: u32, columns: usize)
where
    F::P3: TwoAdicField,
{
    let (ours, theirs) = pair::<F>(stream, u64::from(log_rows), 1 << log_rows, columns);
    check_matrix(stream, &ours, theirs);
}

/// All directions and orders of one matrix.
fn check_matrix<F: Upstream + TwoAdic>(stream: &Stream, ours: &Matrix<F>, theirs: RowMajorMatrix<F::P3>)
where
    F::P3: TwoAdicField,
{
    let (log_rows, columns) = (ours.rows().ilog2(), ours.columns());
    let dft = Radix2DFTSmallBatch::<F::P3>::default();
    let shift = F::GENERATOR.pow(u64::from(log_rows) + 1);
    let what = |text: &str| format!("{} {text}, 2^{log_rows} x {columns}", F::NAME);

    let plain = dft.dft_batch(theirs.clone()).to_row_major_matrix();
    let found = ntt::forward(stream, ours, F::ONE, Order::Natural).unwrap();
    assert_same(stream, &found, &plain, &what("forward"));
    let back = ntt::inverse(stream, &found, F::ONE, Order::Natural).unwrap();
    assert_same(stream, &back, &theirs, &what("inverse"));

    let coset = dft.coset_dft_batch(theirs.clone(), shift.upstream()).to_row_major_matrix();
    let found = ntt::forward(stream, ours, shift, Order::BitReversed).unwrap();
    assert_same(stream, &found, &reversed(coset), &what("coset forward, bit-reversed"));
    let back = ntt::inverse(stream, &found, shift, Order::BitReversed).unwrap();
    assert_same(stream, &back, &theirs, &what("coset inverse, bit-reversed"));
}

fn check_extension<F: Upstream + TwoAdic>(stream: &Stream, log_rows: u32, columns: usize, added_bits: u32)
where
    F::P3: TwoAdicField,
{
    let dft = Radix2DFTSmallBatch::<F::P3>::default();
    let shift = F::GENERATOR;
    let (ours, theirs) = pair::<F>(stream, u64::from(log_rows), 1 << log_rows, columns);
    let extended = dft.coset_lde_batch(theirs, added_bits as usize, shift.upstream()).to_row_major_matrix();
    let what = format!("{} extension by {added_bits}, 2^{log_rows} x {columns}", F::NAME);
    let (natural, bit_reversed) = (Order::Natural, Order::BitReversed);
    let found = ntt::extend(stream, &ours, added_bits, shift, natural, natural).unwrap();
    assert_same(stream, &found, &extended, &what);
    let found = ntt::extend(stream, &ours, added_bits, shift, natural, bit_reversed).unwrap();
    assert_same(stream, &found, &reversed(extended), &what);
}

#[test]
fn the_smallest_transform_is_the_definition() {
    on_each_device(|stream| {
        let (ours, theirs) = pair::<KoalaBear>(stream, 1, 2, 3);
        let found = ntt::forward(stream, &ours, KoalaBear::GENERATOR, Order::Natural).unwrap();
        let shift = KoalaBear::GENERATOR.upstream();
        assert_same(stream, &found, &NaiveDft.coset_dft_batch(theirs, shift), "naive");
    });
}

#[test]
fn one_row_is_its_own_transform() {
    on_each_device(|stream| {
        let (ours, theirs) = pair::<Goldilocks>(stream, 1, 1, 3);
        let found = ntt::forward(stream, &ours, Goldilocks::GENERATOR, Order::Natural).unwrap();
        assert_same(stream, &found, &theirs, "forward");
        let found = ntt::inverse(stream, &ours, Goldilocks::GENERATOR, Order::Natural).unwrap();
        assert_same(stream, &found, &theirs, "inverse");
    });
}

#[test]
fn koala_bear_in_registers() {
    on_each_device(|stream| (1..=4).for_each(|log_rows| check_size::<KoalaBear>(stream, log_rows, 5)));
}

#[test]
fn koala_bear_in_one_pass() {
    on_each_device(|stream| (5..=10).for_each(|log_rows| check_size::<KoalaBear>(stream, log_rows, 3)));
}

#[test]
fn koala_bear_in_two_passes() {
    on_each_device(|stream| (11..=17).for_each(|log_rows| check_size::<KoalaBear>(stream, log_rows, 2)));
}

#[test]
fn koala_bear_in_two_full_passes() {
    on_each_device(|stream| check_size::<KoalaBear>(stream, 20, 1));
}

#[test]
fn koala_bear_in_three_passes() {
    on_each_device(|stream| check_size::<KoalaBear>(stream, 21, 1));
}

#[test]
fn baby_bear() {
    on_each_device(|stream| {
        [1, 3, 5, 8, 11, 13].iter().for_each(|&log_rows| check_size::<BabyBear>(stream, log_rows, 3))
    });
}

#[test]
fn goldilocks_in_registers_and_one_pass() {
    on_each_device(|stream| (1..=10).for_each(|log_rows| check_size::<Goldilocks>(stream, log_rows, 3)));
}

#[test]
fn goldilocks_in_two_passes() {
    on_each_device(|stream| {
        [11, 14, 15, 18].iter().for_each(|&log_rows| check_size::<Goldilocks>(stream, log_rows, 2))
    });
}

#[test]
fn one_pass_over_several_blocks() {
    on_each_device(|stream| {
        for log_rows in 5..=10 {
            check_size::<KoalaBear>(stream, log_rows, 37);
            check_size::<Goldilocks>(stream, log_rows, 37);
        }
    });
}

/// Sums of these words carry and their differences borrow more than once, which random words almost never do.
#[test]
fn goldilocks_words_around_the_modulus_and_zero() {
    on_each_device(|stream| {
        let words = [0, 1, (1 << 32) - 1, 1 << 32, Goldilocks::ORDER - 1, Goldilocks::ORDER, u64::MAX];
        for log_rows in [1u32, 2, 3, 4, 5, 7, 8, 9, 10, 11] {
            let mut rng = rng(u64::from(log_rows));
            let values = (0..3 << log_rows).map(|_| Goldilocks::from_u64(words[rng.random_range(0..words.len())]));
            let (ours, theirs) = pair_of(stream, values.collect(), 1 << log_rows);
            check_matrix(stream, &ours, theirs);
        }
    });
}

#[test]
fn koala_bear_extension() {
    on_each_device(|stream| {
        for (log_rows, columns, added_bits) in
            [(0, 2, 1), (1, 1, 1), (3, 7, 2), (6, 5, 1), (10, 3, 3), (12, 33, 1)]
        {
            check_extension::<KoalaBear>(stream, log_rows, columns, added_bits);
        }
    });
}

#[test]
fn baby_bear_extension() {
    on_each_device(|stream| check_extension::<BabyBear>(stream, 11, 3, 2));
}

#[test]
fn goldilocks_extension() {
    on_each_device(|stream| {
        for (log_rows, columns, added_bits) in [(2, 3, 0), (5, 4, 1), (9, 3, 2), (13, 5, 2)] {
            check_extension::<Goldilocks>(stream, log_rows, columns, added_bits);
        }
    });
}

#[test]
fn an_extension_of_bit_reversed_input_is_the_same() {
    on_each_device(|stream| {
        let (ours, _) = pair::<KoalaBear>(stream, 9, 1 << 11, 3);
        let shift = KoalaBear::GENERATOR;
        let reversed = rigel_kernels::layout::permute::bit_reverse(stream, &ours).unwrap();
        let a = ntt::extend(stream, &ours, 1, shift, Order::Natural, Order::BitReversed).unwrap();
        let b = ntt::extend(stream, &reversed, 1, shift, Order::BitReversed, Order::BitReversed).unwrap();
        assert_eq!(a.to_vec(stream).unwrap(), b.to_vec(stream).unwrap());
    });
}

#[test]
fn a_matrix_without_columns_needs_no_launch() {
    on_each_device(|stream| {
        let none = Matrix::<KoalaBear>::alloc(stream, 1 << 12, 0).unwrap();
        let found =
            ntt::extend(stream, &none, 1, KoalaBear::GENERATOR, Order::Natural, Order::BitReversed).unwrap();
        assert_eq!((found.rows(), found.columns()), (1 << 13, 0));
    });
}

#[test]
fn bad_sizes_are_errors_and_the_next_call_works() {
    on_each_device(|stream| {
        let shift = KoalaBear::GENERATOR;
        let odd = Matrix::<KoalaBear>::zeros(stream, 12, 2).unwrap();
        let error = ntt::forward(stream, &odd, shift, Order::Natural).unwrap_err().to_string();
        assert!(error.contains("12 rows") && error.contains("power of two"), "{error}");
        let empty = Matrix::<KoalaBear>::zeros(stream, 0, 2).unwrap();
        assert!(ntt::inverse(stream, &empty, shift, Order::Natural).is_err());
        let small = Matrix::<KoalaBear>::zeros(stream, 8, 1).unwrap();
        let error =
            ntt::extend(stream, &small, 22, shift, Order::Natural, Order::Natural).unwrap_err().to_string();
        assert!(error.contains("no root of unity"), "{error}");
        assert!(ntt::forward(stream, &small, KoalaBear::from_u64(0), Order::Natural).is_err());
        check_size::<KoalaBear>(stream, 3, 2);
    });
}

/// With another generator of the roots of unity, evaluations equal Horner's rule at its powers, and the inverse
/// undoes them.
#[test]
fn another_generator() {
    let generator = BabyBear::new(137);
    on_each_device(|stream| {
        for (log_rows, added_bits) in [(0, 1), (3, 2), (6, 2), (11, 1)] {
            let rows = 1usize << log_rows;
            let coefficients = random::<BabyBear>(&mut rng(u64::from(log_rows)), 2 * rows);
            let on_device = stream.upload(&coefficients).unwrap();
            let columns = Columns::new(on_device.view(), rows).unwrap();
            let points = rows << added_bits;
            let mut out = stream.alloc::<BabyBear>(2 * points).unwrap();
            ntt::evaluate_into(stream, out.view_mut(), columns, added_bits, generator).unwrap();
            let found = out.to_vec(stream).unwrap();
            let root = generator.pow(1 << (27 - log_rows - added_bits));
            for i in (0..points).step_by(1 + points / 97) {
                let x = root.pow(i as u64);
                let at = (i as u32).reverse_bits().checked_shr(32 - log_rows - added_bits).unwrap_or(0) as usize;
                for (column, coefficients) in coefficients.chunks(rows).enumerate() {
                    let value = coefficients.iter().rev().fold(BabyBear::ZERO, |sum, &c| sum * x + c);
                    assert_eq!(found[column * points + at], value, "2^{log_rows}, point {i}");
                }
            }
            // Of the larger domain: the upper coefficients are zero.
            ntt::inverse_assign(stream, out.view_mut(), points, Order::BitReversed, generator).unwrap();
            let mut expected = vec![BabyBear::ZERO; 2 * points];
            expected[..rows].copy_from_slice(&coefficients[..rows]);
            expected[points..points + rows].copy_from_slice(&coefficients[rows..]);
            assert_eq!(out.to_vec(stream).unwrap(), expected, "2^{log_rows}");
        }
        let mut values = stream.zeros::<BabyBear>(8).unwrap();
        let wrong = ntt::inverse_assign(stream, values.view_mut(), 8, Order::Natural, BabyBear::new(4));
        assert!(wrong.unwrap_err().to_string().contains("order 2^27"));
        let mut values = stream.zeros::<Goldilocks>(8).unwrap();
        let root = Goldilocks::two_adic_generator(32).pow(3);
        let wrong = ntt::inverse_assign(stream, values.view_mut(), 8, Order::Natural, root);
        assert!(wrong.unwrap_err().to_string().contains("no other generator"));
    });
}
