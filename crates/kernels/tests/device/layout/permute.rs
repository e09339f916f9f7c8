//! Transposes, bit reversal and gathered rows against upstream's.

use p3_matrix::dense::RowMajorMatrix;
use p3_util::reverse_slice_index_bits;
use rand::RngExt;
use rigel_gpu::{Plain, Stream};
use rigel_kernels::Matrix;
use rigel_kernels::field::{Goldilocks, KoalaBear};
use rigel_kernels::layout::permute::*;

use crate::oracle::assert_says;
use crate::support::{on_each_device, random, rng};

/// All values are different, so that a misplaced value is noticed.
fn numbered<T: Plain>(len: usize, number: impl Fn(usize) -> T) -> Vec<T> {
    (0..len).map(number).collect()
}

fn check_transposes<T>(stream: &Stream, rows: usize, columns: usize, number: impl Fn(usize) -> T)
where
    T: Plain + Default + std::fmt::Debug + PartialEq,
{
    let values = numbered(rows * columns, number);
    let theirs = RowMajorMatrix::new(values.clone(), columns).transpose();
    let row_major = stream.upload(&values).unwrap();
    let matrix = to_columns(stream, &row_major, columns).unwrap();
    assert_eq!((matrix.rows(), matrix.columns()), (rows, columns));
    assert!(matrix.to_vec(stream).unwrap() == theirs.values, "{rows} x {columns}");
    assert!(to_rows(stream, &matrix).unwrap().to_vec(stream).unwrap() == values, "{rows} x {columns} and back");
}

fn check_reversal<T>(stream: &Stream, log_rows: u32, columns: usize, number: impl Fn(usize) -> T)
where
    T: Plain + std::fmt::Debug + PartialEq,
{
    let mut values = numbered(columns << log_rows, number);
    let matrix = Matrix::upload(stream, &values, 1 << log_rows).unwrap();
    let found = bit_reverse(stream, &matrix).unwrap().to_vec(stream).unwrap();
    values.chunks_mut(1 << log_rows).for_each(reverse_slice_index_bits);
    assert!(found == values, "2^{log_rows} x {columns}");
}

#[test]
fn transposes_equal_plonky3() {
    on_each_device(|stream| {
        for (rows, columns) in [(1, 1), (64, 64), (65, 63), (130, 257), (1_000, 33)] {
            check_transposes(stream, rows, columns, |i| i as u32);
            check_transposes(stream, rows, columns, |i| (i as u64) << 33 | i as u64);
        }
    });
}

#[test]
fn narrow_and_flat_transposes_equal_plonky3() {
    on_each_device(|stream| {
        for (rows, columns) in [(1, 5_000), (5_000, 1), (3, 4_099), (4_099, 3), (2, 2), (4_099, 4), (17, 900)] {
            check_transposes(stream, rows, columns, |i| i as u32);
            check_transposes(stream, rows, columns, |i| (i as u64) << 33 | i as u64);
        }
    });
}

#[test]
fn field_elements_are_moved_as_they_are() {
    on_each_device(|stream| {
        let mut rng = rng(1);
        let words: Vec<Goldilocks> = (0..35).map(|_| Goldilocks::new(rng.random::<u64>() | 0xf << 60)).collect();
        let matrix = to_columns(stream, &stream.upload(&words).unwrap(), 5).unwrap();
        let back = to_rows(stream, &matrix).unwrap().to_vec(stream).unwrap();
        use rigel_kernels::field::Field;
        let raw = |values: &[Goldilocks]| values.iter().map(|value| value.word()).collect::<Vec<_>>();
        assert_eq!(raw(&back), raw(&words));
    });
}

#[test]
fn short_columns_are_reversed_as_plonky3_does() {
    on_each_device(|stream| {
        for log_rows in 0..=9 {
            check_reversal(stream, log_rows, 3, |i| i as u32);
            check_reversal(stream, log_rows, 1, |i| (i as u64) << 40 | i as u64);
        }
    });
}

#[test]
fn long_columns_are_reversed_as_plonky3_does() {
    on_each_device(|stream| {
        for log_rows in 10..=15 {
            check_reversal(stream, log_rows, 2, |i| i as u32);
            check_reversal(stream, log_rows, 3, |i| (i as u64) << 40 | i as u64);
        }
    });
}

#[test]
fn reversal_goes_into_a_part_of_a_buffer() {
    on_each_device(|stream| {
        let mut values: Vec<KoalaBear> = random(&mut rng(2), 3 << 12);
        let matrix = Matrix::upload(stream, &values, 1 << 12).unwrap();
        let mut room = stream.zeros::<KoalaBear>(5 + (3 << 12)).unwrap();
        bit_reverse_into(stream, room.range_mut(5..).unwrap(), &matrix).unwrap();
        values.chunks_mut(1 << 12).for_each(reverse_slice_index_bits);
        let found = room.to_vec(stream).unwrap();
        assert!(found[..5] == [KoalaBear::default(); 5] && found[5..] == values);
    });
}

#[test]
fn gathered_rows_are_those_of_the_matrix() {
    on_each_device(|stream| {
        for (rows, columns) in [(1, 1), (100, 3), (64, 301)] {
            let values = numbered(rows * columns, |i| i as u32);
            let matrix = Matrix::upload(stream, &values, rows).unwrap();
            let mut rng = rng(3);
            let indices: Vec<u32> = (0..50).map(|_| rng.random_range(0..rows as u32)).collect();
            let found = gather_rows_at(stream, &matrix, &indices).unwrap().to_vec(stream).unwrap();
            let row = |&index: &u32| (0..columns).map(move |c| (c * rows) as u32 + index);
            assert_eq!(found, indices.iter().flat_map(row).collect::<Vec<_>>(), "{rows} x {columns}");
            let mut room = stream.alloc::<u32>(50 * columns).unwrap();
            let sent = stream.upload(&indices).unwrap();
            let values = matrix.values().view();
            gather_columns_into(stream, room.view_mut(), values, rows, sent.view()).unwrap();
            let column = |c: usize| indices.iter().map(move |index| (c * rows) as u32 + index);
            let expected: Vec<u32> = (0..columns).flat_map(column).collect();
            assert_eq!(room.to_vec(stream).unwrap(), expected, "{rows} x {columns} by columns");
        }
    });
}

#[test]
fn wide_values_are_gathered_too() {
    on_each_device(|stream| {
        let values: Vec<Goldilocks> = random(&mut rng(4), 30);
        let matrix = Matrix::upload(stream, &values, 10).unwrap();
        let found = gather_rows_at(stream, &matrix, &[9, 0, 9]).unwrap().to_vec(stream).unwrap();
        let row = |r: usize| [values[r], values[10 + r], values[20 + r]];
        assert_eq!(found, [row(9), row(0), row(9)].concat());
        assert!(gather_rows_at(stream, &matrix, &[]).unwrap().is_empty());
    });
}

#[test]
fn a_row_out_of_range_is_refused_or_zero() {
    on_each_device(|stream| {
        let matrix = Matrix::upload(stream, &[1u32, 2, 3, 4], 2).unwrap();
        assert_says(
            gather_rows_at(stream, &matrix, &[0, 2]),
            &["gather_rows_at", "row 2 does not exist; the matrix has 2 rows"],
        );
        let indices = stream.upload(&[1, 2, u32::MAX, 0]).unwrap();
        let found = gather_rows(stream, &matrix, &indices).unwrap().to_vec(stream).unwrap();
        assert_eq!(found, [2, 4, 0, 0, 0, 0, 1, 3]);
        let mut room = stream.alloc::<u32>(8).unwrap();
        let values = matrix.values().view();
        gather_columns_into(stream, room.view_mut(), values, 2, indices.view()).unwrap();
        assert_eq!(room.to_vec(stream).unwrap(), [2, 0, 0, 1, 4, 0, 0, 3]);
        assert_says(
            gather_columns_into(stream, room.range_mut(1..).unwrap(), values, 2, indices.view()),
            &["gather_columns", "4 rows of 2 values into room for 7"],
        );
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let matrix = |rows, columns| Matrix::<u32>::zeros(stream, rows, columns).unwrap();
        let buffer = |len| stream.zeros::<u32>(len).unwrap();
        assert_says(to_columns(stream, &buffer(10), 3), &["to_columns", "10 values", "3 columns"]);
        assert_says(to_columns(stream, &buffer(10), 0), &["0 columns"]);
        assert_says(to_columns(stream, &buffer(0), 2), &["0 values"]);
        assert_says(to_rows(stream, &matrix(0, 2)), &["to_rows", "0 rows"]);
        assert_says(bit_reverse(stream, &matrix(6, 2)), &["bit_reverse", "6 rows", "power of two"]);
        assert_says(bit_reverse(stream, &matrix(0, 2)), &["0 rows"]);
        assert_says(bit_reverse(stream, &matrix(4, 0)), &["0 columns"]);
        let mut short = buffer(7);
        assert_says(
            bit_reverse_into(stream, short.view_mut(), &matrix(4, 2)),
            &["the output has 7 values, the matrix 8"],
        );
        assert_says(gather_rows_at(stream, &matrix(0, 1), &[0]), &["gather_rows_at", "0 rows"]);
        let (values, mut room) = (buffer(24), buffer(3));
        let part = gather_rows_at_into(stream, room.view_mut(), values.view(), 7, &[0]);
        assert_says(part, &["gather_rows_at", "24 values, 7 rows and 3 columns"]);
        assert_says(to_rows(stream, &Matrix::<u16>::zeros(stream, 2, 2).unwrap()), &["2 bytes", "4 and 8"]);
        assert_eq!(to_rows(stream, &matrix(3, 2)).unwrap().to_vec(stream).unwrap(), [0; 6]);
    });
}

/// Three columns of a third of eight, modulo 2^64, come to eight values and reach far beyond them.
#[test]
fn blocks_whose_size_overflows_are_refused() {
    on_each_device(|stream| {
        let stride = 8usize.wrapping_mul(0xaaaa_aaaa_aaaa_aaab);
        assert_eq!(stride.wrapping_mul(3), 8);
        let (blocks, mut out) = (stream.upload(&[1u32; 8]).unwrap(), stream.alloc::<u32>(8).unwrap());
        let joined = join_rows_into(stream, out.view_mut(), blocks.view(), (3, 1..2), stride, 8);
        assert_says(joined, &["8 values", "whole blocks of 3 columns"]);
    });
}
