//! Running sums, orders and picked elements against plain loops.

use rand::RngExt;
use rigel_kernels::number::accumulate::{Join, accumulate};
use rigel_kernels::number::pick::{Words, put, take};
use rigel_kernels::number::sort::order;

use crate::oracle::assert_says;
use crate::support::{on_each_device, rng};

#[test]
fn running_sums_and_products_of_rows() {
    on_each_device(|stream| {
        let mut rng = rng(1);
        // One tile, several, and several levels of tiles.
        for (rows, n) in [(3, 1), (5, 3), (2, 1_024), (2, 1_025), (1, 1_024 * 1_024 + 5)] {
            let values: Vec<u64> = (0..rows * n).map(|_| rng.random()).collect();
            for join in [Join::Sum, Join::Product] {
                let from = stream.upload(&values).unwrap().cast::<u8>().unwrap();
                let mut out = stream.alloc::<u8>(from.len()).unwrap();
                accumulate(stream, "u64", join, n, from.view(), out.view_mut()).unwrap();
                let mut expected = values.clone();
                for row in expected.chunks_mut(n) {
                    for i in 1..n {
                        row[i] = match join {
                            Join::Sum => row[i - 1].wrapping_add(row[i]),
                            Join::Product => row[i - 1].wrapping_mul(row[i]),
                        };
                    }
                }
                assert_eq!(out.cast::<u64>().unwrap().to_vec(stream).unwrap(), expected, "{rows} {n} {join:?}");
            }
        }
    });
}

#[test]
fn orders_of_rows() {
    on_each_device(|stream| {
        let mut rng = rng(2);
        for (rows, n) in [(3, 1), (4, 5), (2, 1_024), (1, 1_025), (2, 5_000)] {
            let keys: Vec<i32> = (0..rows * n).map(|_| rng.random_range(-40..40)).collect();
            let buffer = stream.upload(&keys).unwrap().cast::<u8>().unwrap();
            let found = order(stream, "i32", n, buffer.view()).unwrap().to_vec(stream).unwrap();
            for (found, keys) in found.chunks(n).zip(keys.chunks(n)) {
                let mut expected: Vec<i64> = (0..n as i64).collect();
                expected.sort_by_key(|&place| keys[place as usize]);
                assert_eq!(found, expected, "{rows} {n}");
            }
        }
    });
}

#[test]
fn picked_elements_and_places_outside() {
    on_each_device(|stream| {
        let form = Words { bytes: 8, count: 3 };
        let values: Vec<[u64; 3]> = (0..700).map(|i| [i, i + 1_000, i + 2_000]).collect();
        let memory = stream.upload(&values).unwrap().cast::<u8>().unwrap();
        let places: Vec<i64> = (0..600).map(|i| (i * 37) % 700).chain([-1, 700]).collect();
        let listed = stream.upload(&places).unwrap();
        let mut out = stream.alloc::<u8>(places.len() * 24).unwrap();
        take(stream, form, memory.view(), listed.view(), out.view_mut()).unwrap();
        let taken = out.view().cast::<[u64; 3]>().unwrap();
        let expected: Vec<[u64; 3]> =
            places.iter().map(|&at| values.get(at as usize).copied().unwrap_or([0; 3])).collect();
        let mut found = vec![[0u64; 3]; places.len()];
        stream.read(taken, &mut found).unwrap();
        assert_eq!(found, expected);
        let mut to = stream.zeros::<u8>(700 * 24).unwrap();
        put(stream, form, to.view_mut(), listed.view(), out.view()).unwrap();
        let put = to.cast::<[u64; 3]>().unwrap().to_vec(stream).unwrap();
        for &at in &places[..600] {
            assert_eq!(put[at as usize], values[at as usize]);
        }
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let buffer = stream.zeros::<u8>(24).unwrap();
        let mut out = stream.zeros::<u8>(24).unwrap();
        let sum = |of: &str, n: usize, out: rigel_gpu::ViewMut<'_, u8>| {
            accumulate(stream, of, Join::Sum, n, buffer.view(), out)
        };
        assert_says(sum("u64", 2, out.view_mut()), &["24 bytes", "rows of 2"]);
        assert_says(sum("half", 3, out.view_mut()), &["unsupported element type"]);
        assert_says(order(stream, "Complex", 1, buffer.view()), &["no order"]);
        assert_says(order(stream, "i32", 0, buffer.view()), &["rows of 0"]);
        let places = stream.upload(&[0i64]).unwrap();
        let form = Words { bytes: 8, count: 1 };
        assert_says(take(stream, form, buffer.view(), places.view(), out.view_mut()), &["24 bytes for 1 places"]);
        let odd = Words { bytes: 3, count: 1 };
        assert_says(take(stream, odd, buffer.view(), places.view(), out.view_mut()), &["1 words of 3 bytes"]);
    });
}
