//! Extensions over several devices against those of one.

use rand::RngExt;
use rigel_gpu::Stream;
use rigel_gpu::testing::groups;
use rigel_kernels::domain::block::Block;
use rigel_kernels::field::{BabyBear, Goldilocks, KoalaBear};
use rigel_kernels::transform::ntt::{self, Order, TwoAdic};
use rigel_kernels::transform::spread;
use rigel_kernels::{Columns, Matrix};

use crate::support::{on_each_device, random, rng};

/// The streams of each group of so many devices.
fn streams(count: u32) -> Vec<Vec<Stream>> {
    let streams =
        |devices: Vec<_>| devices.iter().map(|device: &rigel_gpu::Device| device.compute().unwrap()).collect();
    groups(count).unwrap().into_iter().map(streams).collect()
}

/// Other streams of the same devices.
fn lanes(streams: &[Stream]) -> Vec<Stream> {
    streams.iter().map(|stream| stream.device().new_stream().unwrap()).collect()
}

fn check<F: TwoAdic>(streams: &[Stream], log_rows: u32, added_bits: u32, columns: usize, order: Order) {
    let rows = 1 << log_rows;
    let values: Vec<F> = random(&mut rng(u64::from(log_rows)), rows * columns);
    let whole = Matrix::upload(&streams[0], &values, rows).unwrap();
    let expected = ntt::extend(&streams[0], &whole, added_bits, F::GENERATOR, order, Order::BitReversed).unwrap();
    let expected = expected.to_vec(&streams[0]).unwrap();
    // Shares of different sizes: of fewer columns than devices, some have none.
    let starts: Vec<usize> = (0..=streams.len()).map(|k| columns * k / streams.len()).collect();
    let share = |(k, stream): (usize, &Stream)| {
        Matrix::upload(stream, &values[starts[k] * rows..starts[k + 1] * rows], rows).unwrap()
    };
    let shares: Vec<Matrix<F>> = streams.iter().enumerate().map(share).collect();
    let shares: Vec<Columns<'_, F>> =
        shares.iter().map(|share| Columns::new(share.values().view(), rows).unwrap()).collect();
    let lanes = lanes(streams);
    let blocks = spread::extend(streams, &lanes, &shares, added_bits, order).unwrap();
    let block_rows = (rows << added_bits) / streams.len();
    for (k, (stream, block)) in streams.iter().zip(&blocks).enumerate() {
        assert_eq!((block.rows(), block.columns()), (block_rows, columns));
        let block = block.to_vec(stream).unwrap();
        for column in 0..columns {
            let start = ((column * rows) << added_bits) + k * block_rows;
            let found = &block[column * block_rows..(column + 1) * block_rows];
            let context = format!("2^{log_rows} + {added_bits}, device {k} of {}, column {column}", streams.len());
            assert!(found == &expected[start..start + block_rows], "{context}");
        }
    }
}

#[test]
fn extensions_over_devices_equal_those_of_one() {
    for count in [1, 2, 4, 8] {
        for streams in streams(count) {
            for (log_rows, added_bits) in [(3, 0), (3, 1), (4, 2), (6, 1), (7, 3), (11, 1)] {
                check::<KoalaBear>(&streams, log_rows, added_bits, 5, Order::Natural);
            }
            check::<BabyBear>(&streams, 6, 1, 9, Order::BitReversed);
            check::<Goldilocks>(&streams, 6, 1, 9, Order::Natural);
            let mut rng = rng(u64::from(count));
            for _ in 0..6 {
                let (log_rows, added_bits) = (rng.random_range(3..14), rng.random_range(0..4));
                check::<KoalaBear>(&streams, log_rows, added_bits, rng.random_range(1..12), Order::BitReversed);
                check::<Goldilocks>(&streams, log_rows, added_bits, rng.random_range(1..12), Order::Natural);
            }
        }
    }
}

/// One block of an evaluation's rows is written elsewhere, whether blocks have whole runs of the last pass or not.
#[test]
fn a_block_of_rows_is_written_apart() {
    fn check<F: TwoAdic>(stream: &Stream, log_rows: u32, added_bits: u32, block: Block) {
        const COLUMNS: usize = 5;
        let (rows, m) = (1usize << (log_rows + added_bits), block.rows());
        let values: Vec<F> = random(&mut rng(u64::from(log_rows)), COLUMNS << log_rows);
        let coefficients = Matrix::upload(stream, &values, 1 << log_rows).unwrap();
        let shift = F::GENERATOR;
        let [mut whole, mut out] = [(); 2].map(|()| stream.zeros::<F>(COLUMNS * rows).unwrap());
        let columns: Columns<'_, F> = (&coefficients).into();
        ntt::evaluate_coset_into(stream, whole.view_mut(), columns, added_bits, shift).unwrap();
        let mut room = stream.zeros::<F>(COLUMNS * m).unwrap();
        let (to, own) = (out.view_mut(), room.view_mut());
        ntt::evaluate_coset_apart(stream, to, columns, added_bits, shift, block, own).unwrap();
        let [whole, out, room] = [&whole, &out, &room].map(|buffer| buffer.to_vec(stream).unwrap());
        for column in 0..COLUMNS {
            let (whole, out) = (&whole[column * rows..][..rows], &out[column * rows..][..rows]);
            let range = block.first()..block.first() + m;
            assert!(room[column * m..][..m] == whole[range.clone()], "2^{log_rows} + {added_bits}, {block:?}");
            assert!(out[..range.start] == whole[..range.start] && out[range.end..] == whole[range.end..]);
        }
        let mut short = stream.zeros::<F>(COLUMNS * m - 1).unwrap();
        let mut out = stream.zeros::<F>(COLUMNS * rows).unwrap();
        let mut refused = |block: Block, room| {
            let out = out.view_mut();
            ntt::evaluate_coset_apart(stream, out, columns, added_bits, shift, block, room).is_err()
        };
        assert!(refused(block, short.view_mut()));
        let mut room = stream.zeros::<F>(COLUMNS * m).unwrap();
        assert!(refused(Block { index: rows / m, ..block }, room.view_mut()));
    }
    on_each_device(|stream| {
        let mut rng = rng(3);
        for log_rows in [2, 4, 5, 9, 10, 11, 12, 14] {
            for added_bits in [0, 1, 2] {
                let log_block = rng.random_range(0..=log_rows + added_bits);
                let index = rng.random_range(0..1usize << (log_rows + added_bits - log_block));
                let block = Block { index, log_rows: log_block };
                check::<KoalaBear>(stream, log_rows, added_bits, block);
                check::<Goldilocks>(stream, log_rows, added_bits, block);
            }
        }
        // Three passes.
        check::<KoalaBear>(stream, 21, 0, Block { index: 2, log_rows: 19 });
    });
}

#[test]
fn what_can_not_be_spread_is_refused() {
    let streams = streams(4).remove(0);
    let shares: Vec<Matrix<KoalaBear>> =
        streams.iter().map(|stream| Matrix::zeros(stream, 2, 1).unwrap()).collect();
    let columns: Vec<Columns<'_, KoalaBear>> = shares.iter().map(Into::into).collect();
    let error = |streams: &[Stream], columns: &[Columns<'_, KoalaBear>], added_bits| {
        spread::extend(streams, &lanes(streams), columns, added_bits, Order::Natural).unwrap_err().to_string()
    };
    assert!(error(&streams[..3], &columns[..3], 1).contains("over 3 devices; the number must be a power of two"));
    assert!(error(&streams, &columns, 0).contains("2^1 rows over 4 devices"));
    assert!(error(&streams, &columns[..2], 1).contains("one of each"));
    let higher = Matrix::<KoalaBear>::zeros(&streams[3], 4, 1).unwrap();
    let unequal = [columns[0], columns[1], columns[2], (&higher).into()];
    assert!(error(&streams, &unequal, 1).contains("columns of 2 and of 4 rows"));
}
