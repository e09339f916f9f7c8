//! Operations that only move values.

use rigel_gpu::Result;
use rigel_kernels::Matrix;
use rigel_kernels::field::{Field, Goldilocks, KoalaBear};
use rigel_kernels::layout::gather::{self, Rows};
use rigel_kernels::layout::permute;

use super::{count, matrix_bytes};
use crate::bench::Size;
use crate::bench::operations::measure::{Bench, Case, Cost, Figures};

pub fn cases(size: Size) -> Vec<Case> {
    let (rows, columns) = size.pick((1 << 20, 128), (1 << 8, 8));
    let wide = size.pick(2633, 33);
    let log_tall = size.pick(22, 10);
    let (tall, few) = (1 << log_tall, size.pick(32, 4));
    let queries = size.pick(1 << 16, 64);
    vec![
        case("rows to columns", rows, columns, to_columns::<KoalaBear>),
        case("rows to columns", rows / 4, wide / size.pick(8, 1), to_columns::<KoalaBear>),
        case("rows to columns, 64-bit", rows, columns / 2, to_columns::<Goldilocks>),
        case("columns to rows", rows, columns, to_rows::<KoalaBear>),
        case("columns to rows, 64-bit", rows, columns / 2, to_rows::<Goldilocks>),
        case("bit reversal", tall, few, bit_reverse::<KoalaBear>),
        case("bit reversal, 64-bit", tall, few / 2, bit_reverse::<Goldilocks>),
        Case::new("gather rows", format!("{} of {} x {columns}", count(queries), count(rows)), move |bench| {
            gather(bench, rows, columns, queries)
        }),
        Case::new(
            "gather rows of 32 matrices",
            format!("100 of {} x {few} each", count(rows >> 8)),
            move |bench| gather_of_many(bench, rows >> 8, few),
        ),
    ]
}

fn case(name: &str, rows: usize, columns: usize, run: fn(&Bench, usize, usize) -> Result<Figures>) -> Case {
    Case::new(name, format!("{} x {columns}", count(rows)), move |bench| run(bench, rows, columns))
}

/// Each value is read once and written once.
fn moved<F: Field>(rows: usize, columns: usize) -> Cost {
    Cost::bytes(2.0 * matrix_bytes::<F>(rows, columns))
}

fn to_columns<F: Field>(bench: &Bench, rows: usize, columns: usize) -> Result<Figures> {
    let input = bench.random::<F>(rows * columns)?;
    bench.measure_bandwidth(moved::<F>(rows, columns), |stream| {
        permute::to_columns(stream, &input, columns).map(drop)
    })
}

fn to_rows<F: Field>(bench: &Bench, rows: usize, columns: usize) -> Result<Figures> {
    let input = bench.random_matrix::<F>(rows, columns)?;
    bench.measure_bandwidth(moved::<F>(rows, columns), |stream| permute::to_rows(stream, &input).map(drop))
}

fn bit_reverse<F: Field>(bench: &Bench, rows: usize, columns: usize) -> Result<Figures> {
    let input = bench.random_matrix::<F>(rows, columns)?;
    bench.measure_bandwidth(moved::<F>(rows, columns), |stream| permute::bit_reverse(stream, &input).map(drop))
}

/// Memory is read 32 bytes at a time, of which a gather from a column-major matrix uses one word.
const SECTOR: usize = 32;

fn gather(bench: &Bench, rows: usize, columns: usize, queries: usize) -> Result<Figures> {
    let input = bench.random_matrix::<KoalaBear>(rows, columns)?;
    let indices = bench.random_indices(queries, rows)?;
    let cost = Cost::bytes((queries * columns * (SECTOR + size_of::<KoalaBear>())) as f64);
    bench.measure_bandwidth(cost, |stream| permute::gather_rows(stream, &input, &indices).map(drop))
}

/// The queried rows of many small matrices, as a proof of many tables reads them: bound by its launch and uploads.
fn gather_of_many(bench: &Bench, rows: usize, columns: usize) -> Result<Figures> {
    const MATRICES: usize = 32;
    const QUERIES: usize = 100;
    let matrices: Vec<Matrix<KoalaBear>> =
        (0..MATRICES).map(|_| bench.random_matrix(rows, columns)).collect::<Result<_>>()?;
    let indices: Vec<u32> = (0..QUERIES).map(|query| (query * 977 % rows) as u32).collect();
    let values = MATRICES * QUERIES * columns;
    let cost = Cost::bytes((values * (SECTOR + size_of::<KoalaBear>())) as f64);
    bench.measure_bandwidth(cost, |stream| {
        let read = matrices.iter().map(|matrix| {
            let (values, rows) = (matrix.values().view(), matrix.rows());
            Rows { values, rows, indices: &indices }
        });
        let all: Vec<Rows<'_, KoalaBear>> = read.collect();
        gather::rows_into(stream, stream.alloc(values)?.view_mut(), &all)
    })
}
