//! Selectors against upstream's.

use p3_commit::PolynomialSpace;
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_field::{PrimeCharacteristicRing, TwoAdicField};
use p3_util::reverse_bits_len;
use rigel_gpu::Stream;
use rigel_kernels::domain::points::coset_points;
use rigel_kernels::domain::selectors::{inverse_vanishing, on_coset, on_trace};
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
