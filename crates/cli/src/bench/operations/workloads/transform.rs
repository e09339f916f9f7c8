//! Number-theoretic transforms, circle transforms and low-degree extension.

use rigel_kernels::Columns;
use rigel_kernels::field::{BabyBear, Goldilocks, KoalaBear, Mersenne31, Ring};
use rigel_kernels::transform::circle::{self, Twiddles};
use rigel_kernels::transform::ntt::{self, Order, TwoAdic};

use super::count;
use crate::bench::Size;
use crate::bench::operations::instructions::{self, Counted};
use crate::bench::operations::measure::{Bar, Case, Cost};

pub fn cases(size: Size) -> Vec<Case> {
    let log_rows = size.pick(20, 10);
    let mut cases = vec![
        extend::<KoalaBear>(log_rows, 1, size.pick(64, 4), Some(Bar::TimesMemory(2.0))),
        extend::<BabyBear>(log_rows, 1, size.pick(64, 4), None),
        extend::<Goldilocks>(log_rows, 2, size.pick(20, 2), Some(Bar::TimesMemory(2.5))),
    ];
    let sizes: &[u32] = size.pick(&[10, 12, 14, 16, 18, 20, 22, 24], &[8, 11]);
    let points = size.pick(1 << 26, 1 << 12);
    for &log_rows in sizes {
        cases.push(single::<KoalaBear>(log_rows, points >> log_rows, false));
    }
    for &log_rows in sizes {
        cases.push(single::<KoalaBear>(log_rows, points >> log_rows, true));
    }
    let log_rows = size.pick(20, 8);
    cases.push(single::<Goldilocks>(log_rows, (points / 2) >> log_rows, false));
    cases.push(single::<Goldilocks>(log_rows, (points / 2) >> log_rows, true));
    let (small, large, columns) = size.pick((20, 22, 100), (8, 14, 3));
    cases.push(circle_interpolate(small, columns, None));
    cases.push(circle_interpolate(large, columns, Some(Bar::TimesMemory(2.0))));
    cases.push(circle_evaluate(small, small + 1, columns, None));
    cases.push(circle_evaluate(large, large, columns, Some(Bar::TimesMemory(2.0))));
    cases.push(circle_evaluate(large, large + 1, columns, None));
    cases
}

/// Passes over memory: one pass computes as many levels as fit in a block's shared memory.
fn passes(log_rows: u32) -> f64 {
    f64::from(log_rows.div_ceil(10).max(1))
}

/// One transform of each column, natural order to bit-reversed order or back.
fn single<F: Counted + TwoAdic>(log_rows: u32, columns: usize, inverse: bool) -> Case {
    let columns = columns.max(1);
    let rows = 1usize << log_rows;
    let name = format!("{} NTT {}", if inverse { "inverse" } else { "forward" }, F::NAME);
    Case::new(name, format!("2^{log_rows}, {} columns", count(columns)), move |bench| {
        let points = (rows * columns) as f64;
        let bytes = 2.0 * passes(log_rows) * points * size_of::<F>() as f64;
        let cost = Cost::bytes(bytes).instructions(instructions::transform::<F>(points, log_rows));
        let input = bench.random_matrix::<F>(rows, columns)?;
        bench.measure(cost, points, "G elements/s", |stream| {
            let output = if inverse {
                ntt::inverse(stream, &input, F::ONE, Order::BitReversed)
            } else {
                ntt::forward(stream, &input, F::ONE, Order::BitReversed)
            };
            output.map(drop)
        })
    })
}

/// Natural order to bit-reversed order on the coset that Plonky3 commits to.
fn extend<F: Counted + TwoAdic>(log_rows: u32, added_bits: u32, columns: usize, bar: Option<Bar>) -> Case {
    let (rows, extended) = (1usize << log_rows, 1usize << (log_rows + added_bits));
    let shape = format!("2^{log_rows} -> 2^{}, {columns} columns", log_rows + added_bits);
    Case::new(format!("extend {}", F::NAME), shape, move |bench| {
        let (points, results) = ((rows * columns) as f64, (extended * columns) as f64);
        // Inverse passes read and write the input's size. The first forward pass reads it once and writes the
        // output's size, which the others read and write.
        let passes = passes(log_rows);
        let values = 2.0 * passes * points + points + results + 2.0 * (passes - 1.0) * results;
        let cost = Cost::bytes(values * size_of::<F>() as f64)
            .instructions(instructions::transform::<F>(points + results, log_rows));
        let input = bench.random_matrix::<F>(rows, columns)?;
        let figures = bench.measure(cost, results, "G elements/s", |stream| {
            ntt::extend(stream, &input, added_bits, F::GENERATOR, Order::Natural, Order::BitReversed).map(drop)
        })?;
        Ok(figures.bar(bar))
    })
}

/// Passes over memory of a circle transform.
fn circle_passes(log_rows: u32) -> f64 {
    1.0 + f64::from(log_rows.saturating_sub(13).div_ceil(10))
}

/// Evaluations to coefficients, in place. The work is the same whatever the twiddles are, so they are random.
fn circle_interpolate(log_rows: u32, columns: usize, bar: Option<Bar>) -> Case {
    let rows = 1usize << log_rows;
    Case::new("circle interpolate", format!("2^{log_rows}, {columns} columns"), move |bench| {
        let points = (rows * columns) as f64;
        let bytes = 2.0 * circle_passes(log_rows) * points * size_of::<Mersenne31>() as f64;
        let cost = Cost::bytes(bytes).instructions(instructions::circle_transform(points, log_rows));
        let tower = bench.random::<Mersenne31>(rows / 2)?;
        let mut values = bench.random::<Mersenne31>(rows * columns)?;
        let figures = bench.measure(cost, points, "G elements/s", |stream| {
            let twiddles = Twiddles { tower: tower.view(), initial: [Mersenne31::ONE; 2] };
            circle::interpolate(stream, values.view_mut(), rows, twiddles)
        })?;
        Ok(figures.bar(bar))
    })
}

/// Coefficients to evaluations on a domain of the same or a larger size.
fn circle_evaluate(log_rows: u32, log_domain: u32, columns: usize, bar: Option<Bar>) -> Case {
    let (rows, domain) = (1usize << log_rows, 1usize << log_domain);
    let shape = format!("2^{log_rows} -> 2^{log_domain}, {columns} columns");
    Case::new("circle evaluate", shape, move |bench| {
        let (points, results) = ((rows * columns) as f64, (domain * columns) as f64);
        // The first pass reads the coefficients once and writes the result's size, which the others read and
        // write.
        let values = points + results + 2.0 * (circle_passes(log_rows) - 1.0) * results;
        let cost = Cost::bytes(values * size_of::<Mersenne31>() as f64)
            .instructions(instructions::circle_transform(results, log_rows));
        let tower = bench.random::<Mersenne31>(domain / 2)?;
        let coefficients = bench.random::<Mersenne31>(rows * columns)?;
        let mut out = bench.stream.alloc::<Mersenne31>(domain * columns)?;
        let figures = bench.measure(cost, results, "G elements/s", |stream| {
            let twiddles = Twiddles { tower: tower.view(), initial: [Mersenne31::ONE; 2] };
            let from = Columns::new(coefficients.view(), rows)?;
            circle::evaluate_into(stream, out.view_mut(), log_domain, from, twiddles)
        })?;
        Ok(figures.bar(bar))
    })
}
