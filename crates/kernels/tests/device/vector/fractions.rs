//! Sums of fractions against upstream's operators.

use rigel_gpu::Stream;
use rigel_kernels::Matrix;
use rigel_kernels::field::QM31;
use rigel_kernels::vector::fractions::running_sums;

use crate::oracle::{assert_says, download, random_columns, upload, zip_with};
use crate::support::{on_each_device, rng};

/// One row, rows that fill no block, several blocks; slabs below, at and above those that are loaded together.
const SIZES: [(usize, usize); 6] = [(1, 1), (3, 4), (64, 5), (100, 3), (1_027, 8), (256, 21)];

#[test]
fn sums_run_along_rows() {
    on_each_device(|stream: &Stream| {
        for (rows, slabs) in SIZES {
            let mut rng = rng(rows as u64);
            let numerators = random_columns::<QM31>(&mut rng, rows, slabs);
            let inverses = random_columns::<QM31>(&mut rng, rows, slabs);
            let mut expected = zip_with(&numerators, &inverses, |x, y| x * y);
            for k in 1..slabs {
                expected[k] = zip_with(&expected[k - 1..k], &expected[k..=k], |x, y| x + y).remove(0);
            }
            let mut sums = upload::<QM31>(stream, &numerators);
            running_sums::<QM31>(stream, &mut sums, &upload::<QM31>(stream, &inverses)).unwrap();
            assert_eq!(download::<QM31>(stream, &sums), expected, "{rows} x {slabs}");
        }
    });
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    on_each_device(|stream: &Stream| {
        let mut sums = Matrix::zeros(stream, 8, 8).unwrap();
        let other = Matrix::zeros(stream, 8, 4).unwrap();
        assert_says(running_sums::<QM31>(stream, &mut sums, &other), &["8 x 8", "8 x 4"]);
        let mut ragged = Matrix::zeros(stream, 8, 6).unwrap();
        let inverses = Matrix::zeros(stream, 8, 6).unwrap();
        assert_says(running_sums::<QM31>(stream, &mut ragged, &inverses), &["6"]);
    });
}
