//! Element-wise arithmetic and powers.

use rigel_gpu::LaunchPolicy;
use rigel_kernels::field::{
    BabyBear, Element, Field, Goldilocks, Goldilocks2, KoalaBear, KoalaBear4, Mersenne31, QM31,
};
use rigel_kernels::vector::{elementwise, powers};

use super::{count, matrix_bytes};
use crate::bench::Size;
use crate::bench::operations::instructions::Counted;
use crate::bench::operations::measure::{Bar, Case, Cost};

/// The bar for element-wise operations.
const BAR: Bar = Bar::ShareOfCopy(0.85);

const COLUMNS: usize = 16;

pub fn cases(size: Size) -> Vec<Case> {
    let rows = size.pick(1 << 23, 1 << 10);
    let few = size.pick(1 << 21, 1 << 8);
    let mut cases = Vec::new();
    cases.extend(of_field::<KoalaBear>(rows));
    cases.extend(of_field::<BabyBear>(rows));
    cases.extend(of_field::<Mersenne31>(rows));
    cases.extend(of_field::<Goldilocks>(rows / 2));
    cases.push(mul::<KoalaBear4>(few));
    cases.push(mul::<QM31>(few));
    cases.push(mul::<Goldilocks2>(few));
    cases.push(launched("elementwise add, occupancy", rows, LaunchPolicy::Occupancy));
    cases.push(launched("elementwise add, blocks of 256", rows, LaunchPolicy::Fixed(256)));
    cases.push(powers_of::<KoalaBear>(rows * COLUMNS));
    cases.push(powers_of::<KoalaBear4>(few * COLUMNS));
    cases.push(powers_of::<Goldilocks>(rows * COLUMNS / 2));
    cases
}

fn of_field<F: Counted + Field + Element<Base = F>>(rows: usize) -> [Case; 3] {
    [add::<F>(rows), mul::<F>(rows), scale::<F>(rows)]
}

fn shape(rows: usize) -> String {
    format!("{} x {COLUMNS}", count(rows))
}

fn add<F: Counted + Field + Element<Base = F>>(rows: usize) -> Case {
    Case::new(format!("elementwise add {}", F::NAME), shape(rows), move |bench| {
        let cost =
            Cost::bytes(3.0 * matrix_bytes::<F>(rows, COLUMNS)).instructions(F::SUM * (rows * COLUMNS) as f64);
        let (x, y) = (bench.random_matrix::<F>(rows, COLUMNS)?, bench.random_matrix::<F>(rows, COLUMNS)?);
        Ok(bench.measure_bandwidth(cost, |stream| elementwise::add(stream, &x, &y).map(drop))?.bar(BAR))
    })
}

fn mul<E: Counted>(rows: usize) -> Case {
    Case::new(format!("elementwise mul {}", E::NAME), shape(rows), move |bench| {
        let columns = COLUMNS * E::DEGREE;
        let cost = Cost::bytes(3.0 * matrix_bytes::<E::Base>(rows, columns))
            .instructions(E::PRODUCT * (rows * COLUMNS) as f64);
        let (x, y) = (bench.random_matrix(rows, columns)?, bench.random_matrix(rows, columns)?);
        Ok(bench.measure_bandwidth(cost, |stream| elementwise::mul::<E>(stream, &x, &y).map(drop))?.bar(BAR))
    })
}

fn scale<F: Counted + Field + Element<Base = F>>(rows: usize) -> Case {
    Case::new(format!("elementwise scale {}", F::NAME), shape(rows), move |bench| {
        let cost =
            Cost::bytes(2.0 * matrix_bytes::<F>(rows, COLUMNS)).instructions(F::PRODUCT * (rows * COLUMNS) as f64);
        let x = bench.random_matrix::<F>(rows, COLUMNS)?;
        let scale = |stream: &_| elementwise::scale(stream, &x, F::GENERATOR).map(drop);
        Ok(bench.measure_bandwidth(cost, scale)?.bar(BAR))
    })
}

/// A sum with a given policy for the block size.
fn launched(name: &str, rows: usize, policy: LaunchPolicy) -> Case {
    Case::new(name, shape(rows), move |bench| {
        let cost = Cost::bytes(3.0 * matrix_bytes::<KoalaBear>(rows, COLUMNS));
        let (x, y) = (bench.random_matrix(rows, COLUMNS)?, bench.random_matrix(rows, COLUMNS)?);
        let before = bench.device().launch_policy();
        bench.device().set_launch_policy(policy);
        let figures =
            bench.measure_bandwidth(cost, |stream| elementwise::add::<KoalaBear>(stream, &x, &y).map(drop));
        bench.device().set_launch_policy(before);
        figures
    })
}

fn powers_of<E: Counted>(n: usize) -> Case {
    Case::new(format!("powers {}", E::NAME), count(n), move |bench| {
        let cost = Cost::bytes(matrix_bytes::<E::Base>(n, E::DEGREE)).instructions(E::PRODUCT * n as f64);
        let (start, x) = (E::ONE + E::ONE, E::ONE + E::ONE + E::ONE);
        bench.measure_bandwidth(cost, |stream| powers::powers(stream, start, x, n).map(drop))
    })
}
