//! Gathered values against the values themselves.

use rand::RngExt;
use rigel_gpu::{Buffer, View};
use rigel_kernels::field::{Field, Mersenne31};
use rigel_kernels::layout::gather::words;

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
