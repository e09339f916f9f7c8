//! Prefix sums and products against a running total of upstream's.

use rigel_gpu::Stream;
use rigel_kernels::Matrix;
use rigel_kernels::field::*;
use rigel_kernels::vector::scan::{
    Bound, prefix_products, prefix_products_assign, prefix_sums, prefix_sums_assign, prefix_sums_into,
};

use crate::oracle::{Oracle, assert_says, download, random_columns, upload};
use crate::support::{on_each_device, rng};

/// Running totals of each column, before (exclusive) or after each element.
fn running<E: Oracle>(
    columns: &[Vec<E>],
    bound: Bound,
    start: E,
    join: impl Fn(E::Theirs, E::Theirs) -> E::Theirs,
) -> Vec<Vec<E>> {
    let column = |column: &Vec<E>| {
        let mut total = start.theirs();
        let mut step = |&value: &E| {
            let before = total;
            total = join(total, value.theirs());
            E::ours(if bound == Bound::Inclusive { total } else { before })
        };
        column.iter().map(&mut step).collect()
    };
    columns.iter().map(column).collect()
}

fn check_sums<F: Field + Oracle<Base = F>>(stream: &Stream, bound: Bound, rows: usize, columns: usize) {
    let x = random_columns::<F>(&mut rng(rows as u64), rows, columns);
    let expected = running(&x, bound, F::ZERO, |a, b| a + b);
    let found = prefix_sums(stream, &upload(stream, &x), bound).unwrap();
    assert!(download::<F>(stream, &found) == expected, "{} {rows} x {columns}, {bound:?}", F::NAME);
}

fn check_products<E: Oracle>(stream: &Stream, bound: Bound, rows: usize, columns: usize) {
    let x = random_columns::<E>(&mut rng(rows as u64), rows, columns);
    let expected = running(&x, bound, E::ONE, |a, b| a * b);
    let found = prefix_products::<E>(stream, &upload(stream, &x), bound).unwrap();
    assert!(download::<E>(stream, &found) == expected, "{} {rows} x {columns}, {bound:?}", E::NAME);
}

/// One value; odd; one tile of up to 8192, just below and above; several tiles, odd and even, in several columns.
const SIZES: [(usize, usize); 6] = [(1, 1), (3, 2), (8_192, 1), (8_193, 2), (9_001, 3), (24_576, 2)];

#[test]
fn sums_equal_plonky3() {
    on_each_device(|stream| {
        for (rows, columns) in SIZES {
            check_sums::<BabyBear>(stream, Bound::Inclusive, rows, columns);
            check_sums::<KoalaBear>(stream, Bound::Exclusive, rows, columns);
            check_sums::<Goldilocks>(stream, Bound::Inclusive, rows, columns);
        }
    });
}

#[test]
fn sums_equal_stwo() {
    on_each_device(|stream| {
        for (rows, columns) in SIZES {
            check_sums::<Mersenne31>(stream, Bound::Inclusive, rows, columns);
            check_sums::<Mersenne31>(stream, Bound::Exclusive, rows, columns);
        }
    });
}

#[test]
fn products_equal_plonky3() {
    on_each_device(|stream| {
        for (rows, columns) in SIZES {
            check_products::<BabyBear>(stream, Bound::Exclusive, rows, columns);
            check_products::<KoalaBear>(stream, Bound::Inclusive, rows, columns);
            check_products::<Goldilocks>(stream, Bound::Inclusive, rows, columns);
            check_products::<Goldilocks>(stream, Bound::Exclusive, rows, columns);
        }
    });
}

#[test]
fn products_over_quartic_extensions_equal_plonky3() {
    on_each_device(|stream| {
        for (rows, columns) in SIZES {
            check_products::<BabyBear4>(stream, Bound::Inclusive, rows, columns);
            check_products::<KoalaBear4>(stream, Bound::Exclusive, rows, columns);
        }
    });
}

#[test]
fn products_over_goldilocks_extensions_equal_plonky3() {
    on_each_device(|stream| {
        for (rows, columns) in SIZES {
            check_products::<Goldilocks2>(stream, Bound::Inclusive, rows, columns);
            check_products::<Goldilocks3>(stream, Bound::Exclusive, rows, columns);
        }
    });
}

#[test]
fn products_equal_stwo() {
    on_each_device(|stream| {
        for (rows, columns) in SIZES {
            check_products::<Mersenne31>(stream, Bound::Inclusive, rows, columns);
            check_products::<CM31>(stream, Bound::Exclusive, rows, columns);
            check_products::<QM31>(stream, Bound::Inclusive, rows, columns);
        }
    });
}

/// Scans of more tiles than a warp looks back over at once: 40 of 3072 and of 4096 elements.
#[test]
fn look_back_goes_beyond_one_warp() {
    on_each_device(|stream| {
        check_products::<KoalaBear4>(stream, Bound::Inclusive, 40 * 3_072 + 17, 1);
        check_sums::<Goldilocks>(stream, Bound::Exclusive, 40 * 4_096, 1);
    });
}

#[test]
fn many_short_columns_take_one_launch() {
    on_each_device(|stream| {
        let before = stream.device().activity().launches;
        check_sums::<KoalaBear>(stream, Bound::Inclusive, 9, 301);
        assert_eq!(stream.device().activity().launches, before + 1);
        check_products::<QM31>(stream, Bound::Exclusive, 5, 77);
    });
}

/// Only columns of several tiles need memory, besides the result, for what tiles publish.
#[test]
fn columns_of_one_tile_publish_nothing() {
    on_each_device(|stream| {
        for (rows, allocations) in [(8_192, 1), (8_193, 2)] {
            let x = random_columns::<KoalaBear>(&mut rng(3), rows, 3);
            let (expected, x) = (running(&x, Bound::Inclusive, KoalaBear::ZERO, |a, b| a + b), upload(stream, &x));
            let count = || {
                let stats = stream.device().memory_stats();
                stats.hits + stats.misses
            };
            let before = count();
            let found = prefix_sums(stream, &x, Bound::Inclusive).unwrap();
            assert_eq!(count() - before, allocations, "{rows} rows");
            assert!(download::<KoalaBear>(stream, &found) == expected, "{rows} rows");
        }
    });
}

#[test]
fn in_place_is_the_same() {
    on_each_device(|stream| {
        let x = random_columns::<Goldilocks2>(&mut rng(8), 5_000, 2);
        let mut matrix = upload(stream, &x);
        prefix_products_assign::<Goldilocks2>(stream, &mut matrix, Bound::Exclusive).unwrap();
        let expected = running(&x, Bound::Exclusive, Goldilocks2::ONE, |a, b| a * b);
        assert!(download::<Goldilocks2>(stream, &matrix) == expected);

        // Sums over an extension are sums of its coefficients.
        let mut matrix = upload(stream, &x);
        prefix_sums_assign(stream, &mut matrix, Bound::Inclusive).unwrap();
        let expected = running(&x, Bound::Inclusive, Goldilocks2::ZERO, |a, b| a + b);
        assert!(download::<Goldilocks2>(stream, &matrix) == expected);
    });
}

#[test]
fn products_stay_zero_after_a_zero() {
    on_each_device(|stream| {
        let mut x = random_columns::<BabyBear4>(&mut rng(9), 6_000, 1);
        x[0][3_000] = BabyBear4::ZERO;
        let found = prefix_products::<BabyBear4>(stream, &upload(stream, &x), Bound::Inclusive).unwrap();
        let found = &download::<BabyBear4>(stream, &found)[0];
        assert!(found[..3_000].iter().all(|&value| value != BabyBear4::ZERO));
        assert!(found[3_000..].iter().all(|&value| value == BabyBear4::ZERO));
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let matrix = |rows, columns| Matrix::<Mersenne31>::zeros(stream, rows, columns).unwrap();
        assert_says(prefix_sums(stream, &matrix(0, 2), Bound::Inclusive), &["scan::prefix_sums", "0 rows"]);
        assert_says(prefix_sums(stream, &matrix(2, 0), Bound::Inclusive), &["0 columns"]);
        let uneven = prefix_products::<QM31>(stream, &matrix(4, 6), Bound::Inclusive);
        assert_says(
            uneven,
            &["scan::prefix_products", "6 columns", "over QM31 the number must be a multiple of 4"],
        );
        let sums = prefix_sums(stream, &matrix(4, 6), Bound::Inclusive).unwrap();
        assert_eq!(sums.to_vec(stream).unwrap(), [Mersenne31::ZERO; 24]);
    });
}

/// Sums go into some columns of a wider matrix, which begin at any value and whose neighbours stay as they are.
#[test]
fn sums_go_into_columns_of_another_matrix() {
    on_each_device(|stream| {
        for (rows, columns) in SIZES {
            let x = random_columns::<KoalaBear>(&mut rng(5), rows, columns);
            let mut wide = random_columns::<KoalaBear>(&mut rng(6), rows, columns + 2);
            let (from, mut to) = (upload(stream, &x), upload(stream, &wide));
            let between = to.column_range_mut(1, columns + 1).unwrap();
            prefix_sums_into(stream, between, &from, Bound::Exclusive).unwrap();
            wide.splice(1..=columns, running(&x, Bound::Exclusive, KoalaBear::ZERO, |a, b| a + b));
            assert!(download::<KoalaBear>(stream, &to) == wide, "{rows} x {columns}");
            let short = to.column_range_mut(0, columns + 2).unwrap();
            let room = format!("room for {}", rows * (columns + 2));
            assert_says(prefix_sums_into(stream, short, &from, Bound::Exclusive), &["scan::prefix_sums", &room]);
        }
    });
}
