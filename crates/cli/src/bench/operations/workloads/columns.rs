//! Operations along columns: inversion, scans, sums and dot products.

use rigel_kernels::field::{
    BabyBear, Element, Field, Goldilocks, Goldilocks2, KoalaBear, KoalaBear4, Mersenne31, QM31,
};
use rigel_kernels::vector::scan::Bound;
use rigel_kernels::vector::{inverse, reduce, scan};

use super::{count, matrix_bytes};
use crate::bench::Size;
use crate::bench::operations::instructions::Counted;
use crate::bench::operations::measure::{Bar, Case, Cost, Instructions};

const INVERSION_BAR: Bar = Bar::ShareOfCopy(0.5);
const SCAN_BAR: Bar = Bar::ShareOfCopy(0.6);

pub fn cases(size: Size) -> Vec<Case> {
    let (rows, columns) = size.pick((1 << 22, 32), (1 << 11, 2));
    vec![
        invert::<KoalaBear>(rows, columns),
        invert::<BabyBear>(rows, columns),
        invert::<Mersenne31>(rows, columns),
        invert::<Goldilocks>(rows, columns / 2),
        invert::<KoalaBear4>(rows, columns.div_ceil(4)),
        invert::<QM31>(rows, columns.div_ceil(4)),
        invert::<Goldilocks2>(rows, columns.div_ceil(4)),
        prefix_sums::<KoalaBear>(rows, columns),
        prefix_sums::<BabyBear>(rows, columns),
        prefix_sums::<Mersenne31>(rows, columns),
        prefix_sums::<Goldilocks>(rows, columns / 2),
        prefix_products::<KoalaBear>(rows, columns),
        prefix_products::<Goldilocks>(rows, columns / 2),
        prefix_products::<KoalaBear4>(rows, columns.div_ceil(4)),
        sums::<KoalaBear>(rows, columns),
        sums::<Goldilocks>(rows, columns / 2),
        dots::<KoalaBear>(rows, columns),
        dots::<KoalaBear4>(rows, columns),
        dots::<Goldilocks2>(rows, columns / 2),
    ]
}

fn shape(rows: usize, columns: usize) -> String {
    format!("{} x {columns}", count(rows))
}

/// Each element is read once and written once.
fn there_and_back<E: Counted>(rows: usize, columns: usize, each: Instructions) -> Cost {
    Cost::bytes(2.0 * matrix_bytes::<E::Base>(rows, columns * E::DEGREE))
        .instructions(each * (rows * columns) as f64)
}

fn invert<E: Counted>(rows: usize, columns: usize) -> Case {
    let columns = columns.max(1);
    Case::new(format!("batch inversion {}", E::NAME), shape(rows, columns), move |bench| {
        let cost = there_and_back::<E>(rows, columns, E::PRODUCT * 3.0);
        let input = bench.random_matrix(rows, columns * E::DEGREE)?;
        let run = |stream: &_| inverse::invert::<E>(stream, &input).map(drop);
        Ok(bench.measure_bandwidth(cost, run)?.bar(INVERSION_BAR))
    })
}

fn prefix_sums<F: Counted + Field + Element<Base = F>>(rows: usize, columns: usize) -> Case {
    let columns = columns.max(1);
    Case::new(format!("prefix sums {}", F::NAME), shape(rows, columns), move |bench| {
        let cost = there_and_back::<F>(rows, columns, F::SUM * 2.0);
        let input = bench.random_matrix::<F>(rows, columns)?;
        let run = |stream: &_| scan::prefix_sums(stream, &input, Bound::Inclusive).map(drop);
        Ok(bench.measure_bandwidth(cost, run)?.bar(SCAN_BAR))
    })
}

fn prefix_products<E: Counted>(rows: usize, columns: usize) -> Case {
    let columns = columns.max(1);
    Case::new(format!("prefix products {}", E::NAME), shape(rows, columns), move |bench| {
        let cost = there_and_back::<E>(rows, columns, E::PRODUCT * 2.0);
        let input = bench.random_matrix(rows, columns * E::DEGREE)?;
        let run = |stream: &_| scan::prefix_products::<E>(stream, &input, Bound::Inclusive).map(drop);
        Ok(bench.measure_bandwidth(cost, run)?.bar(SCAN_BAR))
    })
}

fn sums<F: Counted + Field + Element<Base = F>>(rows: usize, columns: usize) -> Case {
    let columns = columns.max(1);
    Case::new(format!("column sums {}", F::NAME), shape(rows, columns), move |bench| {
        let cost = Cost::bytes(matrix_bytes::<F>(rows, columns)).instructions(F::SUM * (rows * columns) as f64);
        let input = bench.random_matrix::<F>(rows, columns)?;
        bench.measure_bandwidth(cost, |stream| reduce::sums(stream, &input).map(drop))
    })
}

/// Base-field columns against weights in E, accumulated without reduction: one word multiplication per coefficient.
fn dots<E: Counted>(rows: usize, columns: usize) -> Case {
    let columns = columns.max(1);
    Case::new(format!("dot products {}", E::NAME), shape(rows, columns), move |bench| {
        let words = (size_of::<E::Base>() / size_of::<u32>()) as f64;
        let product = Instructions { multiply: words * words * E::DEGREE as f64, ..Instructions::default() };
        let bytes = matrix_bytes::<E::Base>(rows, columns) + matrix_bytes::<E::Base>(rows, E::DEGREE);
        let cost = Cost::bytes(bytes).instructions(product * (rows * columns) as f64);
        let input = bench.random_matrix(rows, columns)?;
        let weights = bench.random_matrix(rows, E::DEGREE)?;
        bench.measure_bandwidth(cost, |stream| reduce::dots::<E>(stream, &input, &weights).map(drop))
    })
}
