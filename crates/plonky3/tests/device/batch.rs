//! Several tables in one proof.

use p3_field::PrimeField64;
use rigel_gpu::testing::on_each_device;

use crate::configs::{self, Fri};
use crate::support::{Filled, check_batch};
use crate::tables::{Squares, Table, chain, numbers, powers, selected, shuffled, steps};

type Tables<F> = Vec<Filled<Table<F>, F>>;

/// All kinds of lookups of squares, with tables without lookups before and between them, each at its own height.
fn squares<F: PrimeField64>() -> Tables<F> {
    let mut squares = Squares::new(1, 16);
    let packed = squares.pairs(64, true);
    let unpacked = squares.pairs(8, false);
    let either = squares.either(32);
    let clocked = squares.clocked(16, &[3, 1, 2, 9]);
    vec![packed, squares.table(), numbers(16), unpacked, either, clocked, steps(2, true)]
}

/// Tuples of three widths that read the next row, preprocessed columns, public values and selectors.
fn links<F: PrimeField64>() -> Tables<F> {
    let [links, chain] = chain(2, 16);
    vec![links, shuffled(3, 8), chain, selected(8), numbers(4)]
}

macro_rules! each {
    ($($name:ident: $config:ident, $($tables:expr),*;)*) => { $(
        #[test]
        fn $name() {
            on_each_device(|stream| {
                let fri = Fri::default();
                let config =
                    configs::$config(fri).with_lookup_proof_of_work_bits(4).with_ood_proof_of_work_bits(3);
                $( check_batch(stream.device(), &config, fri, &$tables); )*
            });
        }
    )* };
}
each! {
    koala_bear_sponge: koala_bear_sponge, squares(), links();
    koala_bear_poseidon2: koala_bear_poseidon2, squares(), links();
    goldilocks2_sponge: goldilocks2_sponge, squares(), links();
    goldilocks3_poseidon2: goldilocks3_poseidon2, squares();
    baby_bear_poseidon2: baby_bear_poseidon2, links();
}

#[test]
fn lookups_on_one_bus_share_columns() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let columns = check_batch(stream.device(), &configs::koala_bear_sponge(fri), fri, &squares());
        assert_eq!(columns, [1, 1, 0, 2, 1, 1, 0]);
    });
}

#[test]
fn one_table() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let config = configs::koala_bear_sponge(fri);
        for table in [numbers(16), numbers(1), steps(8, true), steps(8, false), shuffled(5, 8), shuffled(5, 1)] {
            check_batch(stream.device(), &config, fri, &[table]);
        }
    });
}

#[test]
fn many_heights() {
    on_each_device(|stream| {
        // Every fold meets a lower table, and caps are higher than the lowest trees.
        let fri = Fri { log_blowup: 2, max_log_arity: 4, cap_height: 5, ..Fri::default() };
        let tables = [numbers(32), numbers(4), numbers(1), steps(16, false), numbers(256), numbers(4)];
        check_batch(stream.device(), &configs::koala_bear_sponge(fri), fri, &tables);
        check_batch(stream.device(), &configs::koala_bear_poseidon2(fri), fri, &tables);
    });
}

/// Quotients of two and four chunks beyond a blowup of two, with lookups and preprocessed columns.
#[test]
fn degrees_beyond_the_blowup() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let mut tables = squares();
        tables.insert(1, powers(16, 5));
        tables.push(powers(4, 9));
        check_batch(stream.device(), &configs::koala_bear_sponge(fri), fri, &tables);
    });
}

#[test]
fn a_larger_blowup() {
    on_each_device(|stream| {
        let fri = Fri { log_blowup: 3, max_log_arity: 1, ..Fri::default() };
        let config = configs::koala_bear_sponge(fri);
        check_batch(stream.device(), &config, fri, &links());
        // Quotients of one chunk, two and four.
        let mut tables = squares();
        tables.insert(1, powers(16, 5));
        check_batch(stream.device(), &config, fri, &tables);
    });
}
