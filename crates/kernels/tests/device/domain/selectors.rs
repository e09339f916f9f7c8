//! Selectors against upstream's.

use std::sync::Arc;

use p3_commit::PolynomialSpace;
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_field::{PrimeCharacteristicRing, TwoAdicField};
use p3_util::reverse_bits_len;
use rigel_gpu::Stream;
use rigel_kernels::domain::block::Block;
use rigel_kernels::domain::points::{block_points, coset_points, kept_points};
use rigel_kernels::domain::selectors::{
    inverse_vanishing, kept_on_block, kept_on_trace, on_block, on_coset, on_trace,
};
use rigel_kernels::field::{BabyBear, Field, Goldilocks, KoalaBear};

use crate::oracle::{Oracle, assert_says, download};
use crate::support::on_each_device;

fn check<F: Field + Oracle<Base = F>>(stream: &Stream, log_n: u32, log_q: u32)
where
    F::Theirs: TwoAdicField,
{
    let log_rows = (log_n + log_q) as usize;
    let trace = TwoAdicMultiplicativeCoset::new(F::Theirs::ONE, log_n as usize).unwrap();
    let theirs = trace.selectors_on_coset(trace.create_disjoint_domain(1 << log_rows));
    let reversed = |column: Vec<F::Theirs>| -> Vec<F> {
        (0..column.len()).map(|row| F::ours(column[reverse_bits_len(row, log_rows)])).collect()
    };
    // More points than the coset has.
    let points = coset_points::<F>(stream, log_n + log_q + 1).unwrap();
    let found = on_coset(stream, points.view(), log_n, log_q).unwrap();
    let expected = [theirs.is_first_row, theirs.is_last_row, theirs.is_transition].map(reversed);
    assert_eq!(download::<F>(stream, &found), expected, "{} 2^{log_n}, 2^{log_q}", F::NAME);

    let values = inverse_vanishing::<F>(log_n, log_q);
    let found: Vec<F> = (0..1usize << log_rows).map(|row| values[row >> log_n]).collect();
    assert_eq!(found, reversed(theirs.inv_vanishing), "{} 2^{log_n}, 2^{log_q}", F::NAME);
}

#[test]
fn selectors_equal_plonky3() {
    on_each_device(|stream| {
        for log_n in [0, 1, 2, 5, 9] {
            for log_q in 0..=3 {
                check::<KoalaBear>(stream, log_n, log_q);
                check::<BabyBear>(stream, log_n, log_q);
                check::<Goldilocks>(stream, log_n, log_q);
            }
        }
    });
}

#[test]
fn a_trace_has_ones_and_zeros() {
    fn check<F: Field + Oracle<Base = F>>(stream: &Stream) {
        for log_n in [0, 1, 3, 10] {
            let last = (1 << log_n) - 1;
            let column = |one: &dyn Fn(usize) -> bool| -> Vec<F> {
                (0..=last).map(|row| F::from_u64(u64::from(one(row)))).collect()
            };
            let expected = [column(&|row| row == 0), column(&|row| row == last), column(&|row| row != last)];
            assert_eq!(
                download::<F>(stream, &on_trace(stream, log_n).unwrap()),
                expected,
                "{} 2^{log_n}",
                F::NAME
            );
        }
    }
    on_each_device(|stream| {
        check::<KoalaBear>(stream);
        check::<BabyBear>(stream);
        check::<Goldilocks>(stream);
    });
}

#[test]
fn missing_points_are_refused() {
    on_each_device(|stream| {
        let points = coset_points::<KoalaBear>(stream, 3).unwrap();
        assert_says(on_coset(stream, points.view(), 2, 2), &["selectors::on_coset", "8 points", "coset of 16"]);
        assert_says(on_coset(stream, points.view(), 20, 5), &["2^25 points", "at most 2^24"]);
        assert_says(on_trace::<KoalaBear>(stream, 25), &["selectors::on_trace", "2^25"]);
    });
}

/// The values of short domains are made once, and each field, block and trace has its own.
#[test]
fn values_of_short_domains_are_kept() {
    fn check<F: Field + Oracle<Base = F>>(stream: &Stream) {
        for (index, log_rows, log_n) in [(0, 6, 5), (1, 6, 5), (0, 6, 4), (0, 14, 13), (0, 15, 14)] {
            let block = Block { index, log_rows };
            let points = block_points::<F>(stream, block).unwrap();
            let kept = [(); 2].map(|()| kept_points::<F>(stream, block).unwrap());
            assert_eq!(kept[1].to_vec(stream).unwrap(), points.to_vec(stream).unwrap());
            let selectors = on_block(stream, points.view(), block, log_n).unwrap();
            let of_block = [(); 2].map(|()| kept_on_block::<F>(stream, block, log_n).unwrap());
            assert_eq!(
                download::<F>(stream, &of_block[1]),
                download::<F>(stream, &selectors),
                "{block:?}, 2^{log_n}"
            );
            let is_short = log_rows <= 14;
            assert_eq!(Arc::ptr_eq(&kept[0], &kept[1]), is_short, "{block:?}");
            assert_eq!(Arc::ptr_eq(&of_block[0], &of_block[1]), is_short, "{block:?}");
        }
        for log_n in [0, 5, 14, 15] {
            let of_trace = [(); 2].map(|()| kept_on_trace::<F>(stream, log_n).unwrap());
            let expected = on_trace::<F>(stream, log_n).unwrap();
            assert_eq!(download::<F>(stream, &of_trace[1]), download::<F>(stream, &expected), "2^{log_n}");
            assert_eq!(Arc::ptr_eq(&of_trace[0], &of_trace[1]), log_n <= 14, "2^{log_n}");
        }
    }
    on_each_device(|stream| {
        check::<KoalaBear>(stream);
        check::<BabyBear>(stream);
        check::<Goldilocks>(stream);
    });
}
