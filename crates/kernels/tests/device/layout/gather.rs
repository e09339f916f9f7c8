//! Gathered values against the values themselves.

use rand::RngExt;
use rand::distr::{Distribution, StandardUniform};
use rigel_gpu::{Buffer, Plain, Stream, View};
use rigel_kernels::field::{Field, Mersenne31};
use rigel_kernels::layout::gather::{Rows, rows_into, words};

use crate::oracle::assert_says;
use crate::support::{on_each_device, random, rng};

/// Elements of thousands of columns of many lengths, in any order, some repeated; in several blocks.
#[test]
fn elements_of_many_columns() {
    on_each_device(|stream| {
        let mut rng = rng(1);
        let columns: Vec<Vec<Mersenne31>> =
            (0..1_500).map(|i| random(&mut rng, [1, 2, 3, 8, 33, 100][i % 6])).collect();
        let buffers: Vec<Buffer<Mersenne31>> =
            columns.iter().map(|column| stream.upload(column).unwrap()).collect();
        let sources: Vec<View<'_, Mersenne31>> = buffers.iter().map(Buffer::view).collect();
        for count in [0, 1, 31, 256, 5_000] {
            let picks: Vec<[u32; 2]> = (0..count)
                .map(|_| {
                    let source = rng.random_range(0..columns.len());
                    [source as u32, rng.random_range(0..columns[source].len()) as u32]
                })
                .collect();
            let expected: Vec<u32> = picks.iter().map(|&[s, i]| columns[s as usize][i as usize].word()).collect();
            let before = stream.device().activity();
            let found = words(stream, &sources, &picks, 1).unwrap().to_vec(stream).unwrap();
            let after = stream.device().activity();
            assert_eq!(found, expected, "{count} picks");
            assert_eq!(after.launches - before.launches, u64::from(count > 0));
            let uploads = if count > 0 { 2 } else { 0 };
            assert_eq!((after.uploads - before.uploads, after.downloads - before.downloads), (uploads, 1));
        }
    });
}

/// Digests of parts of layers, and values of other sizes.
#[test]
fn values_of_several_words() {
    on_each_device(|stream| {
        let mut rng = rng(2);
        let digests: Vec<[u8; 32]> = (0..300).map(|_| rng.random()).collect();
        let buffer = stream.upload(&digests).unwrap();
        let layers = [buffer.view(), buffer.range(256..).unwrap(), buffer.range(299..).unwrap()];
        let picks: Vec<[u32; 2]> = (0..100).map(|k| [[0, 299 - k], [1, k % 44], [2, 0]][k as usize % 3]).collect();
        let first = [0, 256, 299];
        let expected: Vec<[u8; 32]> =
            picks.iter().map(|&[s, i]| digests[first[s as usize] + i as usize]).collect();
        let found = words(stream, &layers, &picks, 8).unwrap().cast::<[u8; 32]>().unwrap();
        assert_eq!(found.to_vec(stream).unwrap(), expected);

        let triples: Vec<[u32; 3]> = (0..50).map(|_| rng.random()).collect();
        let buffer = stream.upload(&triples).unwrap();
        let found = words(stream, &[buffer.view()], &[[0, 49], [0, 0], [0, 17]], 3).unwrap();
        assert_eq!(found.to_vec(stream).unwrap(), [triples[49], triples[0], triples[17]].concat());
    });
}

#[test]
fn values_out_of_range_are_refused() {
    on_each_device(|stream| {
        let buffer = stream.upload(&[1u32, 2, 3]).unwrap();
        let sources = [buffer.view()];
        assert_says(words(stream, &sources, &[[0, 0], [0, 3]], 1), &["gather::words", "value 3", "which has 3"]);
        assert_says(words(stream, &sources, &[[0, u32::MAX]], 1), &["value 4294967295"]);
        assert_says(words(stream, &sources, &[[1, 0]], 1), &["source 1 does not exist; there are 1"]);
        assert_says(words(stream, &sources, &[[0, 0]], 2), &["2 words", "4 bytes"]);
        let bytes = stream.upload(&[1u8]).unwrap();
        assert_says(words(stream, &[bytes.view()], &[[0, 0]], 0), &["0 words", "1 bytes"]);
    });
}

/// Some rows of matrices of these shapes (rows, columns, rows read) against rows taken on the host.
fn check_rows<T>(stream: &Stream, shapes: &[(usize, usize, usize)])
where
    T: Plain + PartialEq + std::fmt::Debug,
    StandardUniform: Distribution<T>,
{
    let mut rng = rng(shapes.len() as u64);
    let (mut matrices, mut expected) = (Vec::new(), Vec::new());
    for &(rows, columns, read) in shapes {
        let values: Vec<T> = (0..rows * columns).map(|_| rng.random()).collect();
        let indices: Vec<u32> = (0..read).map(|_| rng.random_range(0..rows as u32)).collect();
        let row = |&row: &u32| values.iter().skip(row as usize).step_by(rows);
        expected.extend(indices.iter().flat_map(row).copied());
        matrices.push((stream.upload(&values).unwrap(), rows, indices));
    }
    let matrices: Vec<Rows<'_, T>> = matrices
        .iter()
        .map(|(values, rows, indices)| Rows { values: Buffer::view(values), rows: *rows, indices })
        .collect();
    let mut out = stream.alloc::<T>(expected.len()).unwrap();
    let before = stream.device().activity();
    rows_into(stream, out.view_mut(), &matrices).unwrap();
    let after = stream.device().activity();
    let work = u64::from(!expected.is_empty());
    assert_eq!((after.launches - before.launches, after.uploads - before.uploads), (work, 2 * work));
    assert_eq!(out.to_vec(stream).unwrap(), expected, "{shapes:?}");
}

/// One matrix, and up to fifty of several heights and widths, some of which are not read; in one block and in several.
#[test]
fn rows_of_many_matrices() {
    on_each_device(|stream| {
        let many: Vec<(usize, usize, usize)> = (0..50)
            .map(|i| ([1, 2, 64, 100, 4_096][i % 5], [1, 4, 33, 301][i % 4], [7, 0, 1, 20][i / 2 % 4]))
            .collect();
        let lists =
            [&[][..], &[(1, 1, 1)], &[(5, 3, 0)], &[(64, 301, 50)], &[(8, 2, 0), (4, 4, 1), (2, 1, 0)], &many];
        for shapes in lists {
            check_rows::<u32>(stream, shapes);
            check_rows::<u64>(stream, shapes);
            check_rows::<[u8; 32]>(stream, shapes);
        }
    });
}

#[test]
fn rows_that_do_not_exist_or_fit_are_refused() {
    on_each_device(|stream| {
        let values = stream.zeros::<u32>(24).unwrap();
        let mut room = stream.alloc::<u32>(100).unwrap();
        let rows = |rows, indices| Rows { values: values.view(), rows, indices };
        let mut read =
            |length, matrices: &[Rows<'_, u32>]| rows_into(stream, room.range_mut(..length).unwrap(), matrices);
        let whole = rows(8, &[0, 7]);
        assert_says(read(5, &[whole]), &["gather::rows_into", "6 values of 1 matrices into room for 5"]);
        assert_says(read(1, &[]), &["0 values of 0 matrices into room for 1"]);
        assert_says(read(12, &[whole, rows(8, &[0, 8])]), &["row 8 does not exist in matrix 1, which has 8 rows"]);
        assert_says(read(6, &[whole, rows(7, &[])]), &["matrix 1 has 24 values and 7 rows"]);
        assert_says(read(6, &[whole, rows(0, &[])]), &["matrix 1 has 24 values and 0 rows"]);
        assert_says(read(6, &[whole, rows(25, &[])]), &["matrix 1 has 24 values and 25 rows"]);

        let halves = stream.zeros::<u16>(4).unwrap();
        let rows = Rows { values: halves.view(), rows: 2, indices: &[1] };
        let mut room = stream.alloc::<u16>(2).unwrap();
        assert_says(rows_into(stream, room.view_mut(), &[rows]), &["2 bytes", "multiple of 4"]);
    });
}
