//! Rows with paths against indexing, and RISC Zero's trees.

use rigel_kernels::Columns;
use rigel_kernels::commit::merkle::compress_into;
use rigel_kernels::commit::queries::{open_into, query_words};
use rigel_kernels::commit::rows::hash_matrix_into;
use rigel_kernels::field::*;
use rigel_kernels::hash::RiscZeroPoseidon2;
use rigel_kernels::transform::ntt::Order;

use crate::oracle::assert_says;
use crate::support::{on_each_device, random, rng};

type Digest = [BabyBear; 8];

fn reversed(i: usize, bits: u32) -> usize {
    (0..bits).fold(0, |x, bit| x | (i >> bit & 1) << (bits - 1 - bit))
}

#[test]
fn queries_equal_indexing() {
    on_each_device(|stream| {
        let (log_rows, columns, levels) = (5u32, 19, 3);
        let rows = 1usize << log_rows;
        let mut rng = rng(5);
        let values = random::<BabyBear>(&mut rng, rows * columns);
        let tree: Vec<Digest> =
            (0..2 * rows).map(|_| random::<BabyBear>(&mut rng, 8).try_into().unwrap()).collect();
        let (matrix, digests) = (stream.upload(&values).unwrap(), stream.upload(&tree).unwrap());
        let matrix = Columns::new(matrix.view(), rows).unwrap();
        let indices = [0, 31, 6, 6];
        for order in [Order::Natural, Order::BitReversed] {
            let mut expected = Vec::new();
            for &index in &indices {
                let index = index as usize;
                let row = if order == Order::Natural { index } else { reversed(index, log_rows) };
                expected.extend((0..columns).map(|column| values[column * rows + row]));
                expected.extend((0..levels).flat_map(|level| tree[((rows + index) >> level) ^ 1]));
            }
            let mut out = stream.alloc::<BabyBear>(indices.len() * query_words(columns, levels)).unwrap();
            open_into(stream, out.view_mut(), matrix, order, digests.view(), levels, &indices).unwrap();
            assert_eq!(out.to_vec(stream).unwrap(), expected, "{order:?}");
            let beyond = open_into(stream, out.view_mut(), matrix, order, digests.view(), levels, &[0, 32, 6, 6]);
            assert_says(beyond, &["row 32", "32 rows"]);
        }
    });
}

/// The order in which rows are stored does not change digests, a row of two digests hashes to their compression, and a
/// partial block is one that zeros fill.
#[test]
fn risc_zero_hashes_agree() {
    on_each_device(|stream| {
        let (log_rows, columns) = (6u32, 21);
        let rows = 1usize << log_rows;
        let values = random::<BabyBear>(&mut rng(6), rows * columns);
        let hash = |values: &[BabyBear], order| {
            let values = stream.upload(values).unwrap();
            let mut digests = stream.alloc::<Digest>(rows).unwrap();
            let matrix = Columns::new(values.view(), rows).unwrap();
            hash_matrix_into::<RiscZeroPoseidon2, BabyBear>(stream, digests.view_mut(), matrix, order).unwrap();
            digests.to_vec(stream).unwrap()
        };
        let natural = hash(&values, Order::Natural);
        let stored: Vec<_> =
            (0..rows * columns).map(|i| values[i / rows * rows + reversed(i % rows, log_rows)]).collect();
        assert_eq!(hash(&stored, Order::BitReversed), natural);
        let mut padded = values.clone();
        padded.resize(rows * 32, BabyBear::ZERO);
        assert_eq!(hash(&padded, Order::Natural), natural);

        let pairs = hash(&values[..rows * 16], Order::Natural);
        let children: Vec<Digest> = (0..2 * rows)
            .map(|child| std::array::from_fn(|word| values[(child % 2 * 8 + word) * rows + child / 2]))
            .collect();
        let (children, mut parents) = (stream.upload(&children).unwrap(), stream.alloc::<Digest>(rows).unwrap());
        compress_into::<RiscZeroPoseidon2>(stream, parents.view_mut(), children.view()).unwrap();
        assert_eq!(parents.to_vec(stream).unwrap(), pairs);
    });
}
