//! Points, selectors, weights and next rows of blocks against those of whole domains.

use rigel_gpu::Stream;
use rigel_kernels::Matrix;
use rigel_kernels::domain::block::Block;
use rigel_kernels::domain::points::{block_points, coset_points};
use rigel_kernels::domain::selectors::{on_block, on_coset};
use rigel_kernels::field::{Field, Goldilocks, Goldilocks2, KoalaBear, KoalaBear4, Ring};
use rigel_kernels::layout::permute::{join_rows, join_rows_into, take_columns, take_next};
use rigel_kernels::layout::slab::from_slab;
use rigel_kernels::open::opening::{barycentric_weights, block_weights, inverse_denominators};

use crate::oracle::{Oracle, random_elements};
use crate::support::{on_each_device, random, rng};

/// The rows of a block of each column of a matrix with 2^`log_rows` rows.
fn part<F: Field>(values: &[F], log_rows: u32, block: Block) -> Vec<F> {
    values
        .chunks_exact(1 << log_rows)
        .flat_map(|column| &column[block.first()..][..block.rows()])
        .copied()
        .collect()
}

fn check<E: Oracle>(stream: &Stream, log_n: u32, log_q: u32)
where
    E::Base: Oracle<Base = E::Base>,
{
    let log_rows = log_n + log_q;
    let z = random_elements::<E>(&mut rng(3), 1)[0];
    let points = coset_points::<E::Base>(stream, log_rows).unwrap();
    let selectors = on_coset(stream, points.view(), log_n, log_q).unwrap().to_vec(stream).unwrap();
    let inverses = inverse_denominators::<E>(stream, points.view(), z).unwrap();
    let weights = barycentric_weights(stream, points.view(), &inverses, z, log_rows).unwrap();
    let [points, weights] = [points.to_vec(stream).unwrap(), weights.to_vec(stream).unwrap()];
    for log_block in 0..=log_rows {
        for index in 0..1 << (log_rows - log_block) {
            let block = Block { index, log_rows: log_block };
            let found = block_points::<E::Base>(stream, block).unwrap();
            assert_eq!(found.to_vec(stream).unwrap(), part(&points, log_rows, block), "{block:?}");
            let inverses = inverse_denominators::<E>(stream, found.view(), z).unwrap();
            let rows = block.rows();
            let some = block_weights(stream, found.view(), &inverses, z, Block::whole(log_rows), rows).unwrap();
            assert_eq!(some.to_vec(stream).unwrap(), part(&weights, log_rows, block), "{block:?}");
            let some = on_block(stream, found.view(), block, log_n).unwrap();
            assert_eq!(some.to_vec(stream).unwrap(), part(&selectors, log_rows, block), "{block:?}");
        }
    }
    // A polynomial of degree below n has the same value at z, whichever coset of n points it is given on.
    let degree = (1u64 << log_n) - 1;
    for index in 0..1 << log_q {
        let coset = Block { index, log_rows: log_n };
        let points = block_points::<E::Base>(stream, coset).unwrap();
        let inverses = inverse_denominators::<E>(stream, points.view(), z).unwrap();
        let weights = block_weights(stream, points.view(), &inverses, z, coset, coset.rows()).unwrap();
        let weights = from_slab::<E>(&weights.to_vec(stream).unwrap()).unwrap();
        let mut value = E::ZERO;
        for (weight, point) in weights.into_iter().zip(points.to_vec(stream).unwrap()) {
            let power = point.pow(degree);
            let terms: Vec<E::Base> = weight.parts().iter().map(|&part| part * power).collect();
            value += E::from_parts(&terms).unwrap();
        }
        assert_eq!(value, z.pow(degree), "{coset:?}");
    }
}

#[test]
fn blocks_are_parts_of_the_whole() {
    on_each_device(|stream| {
        check::<KoalaBear4>(stream, 3, 1);
        check::<KoalaBear4>(stream, 5, 2);
        check::<Goldilocks2>(stream, 4, 0);
    });
}

/// Blocks of rows, with rows at their ends that do not count, become whole columns.
#[test]
fn blocks_of_rows_are_joined() {
    fn check<F: Field>(stream: &Stream, blocks: usize, columns: usize, rows: usize, stride: usize) {
        let values: Vec<F> = random(&mut rng(3), blocks * columns * stride);
        let place = |column: usize, block: usize| (block * columns + column) * stride;
        let expected: Vec<F> = (0..columns)
            .flat_map(|column| (0..blocks).map(move |block| place(column, block)))
            .flat_map(|first| values[first..first + rows].iter().copied())
            .collect();
        let buffer = stream.upload(&values).unwrap();
        let found = join_rows(stream, buffer.view(), columns, stride, rows).unwrap();
        assert_eq!((found.rows(), found.columns()), (blocks * rows, columns));
        assert_eq!(found.to_vec(stream).unwrap(), expected, "{blocks} blocks of {rows} rows");

        let (chosen, total) = (columns / 2..columns, blocks * rows);
        let mut some = stream.zeros::<F>(chosen.len() * total).unwrap();
        let of = (columns, chosen.clone());
        join_rows_into(stream, some.view_mut(), buffer.view(), of, stride, rows).unwrap();
        assert_eq!(some.to_vec(stream).unwrap(), expected[chosen.start * total..], "columns {chosen:?}");
        let beyond = (columns, chosen.start + 1..columns + 1);
        let error = join_rows_into(stream, some.view_mut(), buffer.view(), beyond, stride, rows).unwrap_err();
        assert!(error.to_string().contains(&format!("{} of {columns} and", columns + 1)), "{error}");
    }
    on_each_device(|stream| {
        for (blocks, columns, rows, stride) in
            [(1, 1, 1, 1), (4, 3, 8, 9), (8, 2, 1, 2), (2, 5, 256, 256), (3, 1, 4, 6)]
        {
            check::<KoalaBear>(stream, blocks, columns, rows, stride);
            check::<Goldilocks>(stream, blocks, columns, rows, stride);
        }
        let values = stream.zeros::<u32>(12).unwrap();
        let error = |columns, stride, rows| join_rows(stream, values.view(), columns, stride, rows).unwrap_err();
        assert!(error(5, 2, 2).to_string().contains("12 values; there must be whole blocks of 5 columns"));
        assert!(error(1, 3, 4).to_string().contains("of 3 values, of which 4 count"));
        assert!(join_rows(stream, values.view(), 1, 4, 3).is_err(), "not a power of two");
    });
}

/// The next row of the trace, wherever it is, comes from the block that [`Block::next`] names.
#[test]
fn next_rows_come_from_one_block() {
    fn check<F: Field>(stream: &Stream, log_trace: u32) {
        let rows = 1usize << log_trace;
        let columns = 3;
        let values: Vec<F> = random(&mut rng(7), columns * rows);
        let reverse = |row: usize, bits: u32| (0..bits).fold(0, |r, k| 2 * r + (row >> k & 1));
        for log_rows in 0..=log_trace {
            for index in 0..1 << (log_trace - log_rows) {
                let block = Block { index, log_rows };
                let (next, rotates) = block.next(log_trace);
                let matrix = Matrix::upload(stream, &part(&values, log_trace, next), next.rows()).unwrap();
                let chosen = [2, 0];
                let found = if rotates {
                    take_next(stream, &matrix, &chosen)
                } else {
                    take_columns(stream, &matrix, &chosen, next.rows())
                };
                let expected = chosen.iter().flat_map(|column| {
                    let values = &values;
                    (block.first()..block.first() + block.rows()).map(move |row| {
                        let next = reverse((reverse(row, log_trace) + 1) % rows, log_trace);
                        values[column * rows + next]
                    })
                });
                let expected: Vec<F> = expected.collect();
                assert_eq!(found.unwrap().to_vec(stream).unwrap(), expected, "{block:?}");
            }
        }
    }
    on_each_device(|stream| {
        check::<KoalaBear>(stream, 5);
        check::<Goldilocks>(stream, 3);
        let matrix = Matrix::<u32>::zeros(stream, 4, 2).unwrap();
        let error = take_next(stream, &matrix, &[2]).unwrap_err().to_string();
        assert!(error.contains("column 2 of a matrix of 2 columns"), "{error}");
    });
}
