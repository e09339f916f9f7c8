//! Extensions over several devices against those of one.

use rigel_gpu::Stream;
use rigel_gpu::testing::groups;
use rigel_kernels::field::{BabyBear, Goldilocks, KoalaBear};
use rigel_kernels::transform::ntt::{self, Order, TwoAdic};
use rigel_kernels::transform::spread;
use rigel_kernels::{Columns, Matrix};

use crate::support::{random, rng};

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
        }
    }
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
