//! AIR features: degrees, preprocessed and periodic columns, constraints within one row, no constraints.

use p3_field::PrimeCharacteristicRing;
use p3_koala_bear::KoalaBear;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::testing::on_each_device;
use rigel_plonky3::{prove, prove_with_preprocessed, setup_preprocessed};

use crate::airs::{Free, Periods, Power, Steps, fibonacci};
use crate::configs::{self, Fri};
use crate::small::{Small, numbers};
use crate::support;

/// A quotient of more chunks than the blowup lies beyond the extended trace, which is then extrapolated.
#[test]
fn degrees() {
    on_each_device(|stream| {
        for log_blowup in 1..=3 {
            let fri = Fri { log_blowup, ..Fri::default() };
            let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
            for (degree, log_chunks) in [(1, 0), (2, 0), (3, 1), (4, 2), (5, 2)] {
                let power = Power { degree, hint: None };
                let air = Small::from(power.clone());
                for rows in [16, 1] {
                    let trace = power.trace(rows);
                    support::check_with(&prover, &air, &trace, &[]);
                    let proof = prove(&prover, &air, &trace, &[]).unwrap().proof;
                    assert_eq!(proof.opened_values.quotient_chunks.len(), 1 << log_chunks);
                    assert!(proof.opened_values.trace_next.is_none());
                }
            }
        }
    });
}

#[test]
fn a_larger_degree_than_needed() {
    on_each_device(|stream| {
        let fri = Fri { log_blowup: 3, ..Fri::default() };
        for hint in [1, 4, 9] {
            let power = Power { degree: 2, hint: Some(hint) };
            let config = configs::goldilocks2_sponge(fri);
            support::check(stream.device(), &config, fri, &Small::from(power.clone()), &power.trace(8), &[]);
        }
    });
}

#[test]
fn no_constraints() {
    on_each_device(|stream| {
        let fri = Fri::default();
        for rows in [1, 8] {
            let trace = RowMajorMatrix::new((0..3 * rows).map(KoalaBear::from_usize).collect(), 3);
            support::check(
                stream.device(),
                &configs::koala_bear_poseidon2(fri),
                fri,
                &Small::from(Free),
                &trace,
                &[],
            );
        }
    });
}

#[test]
fn preprocessed_columns() {
    on_each_device(|stream| {
        let fri = Fri { log_blowup: 2, ..Fri::default() };
        let (koala_bear, goldilocks) = (configs::koala_bear_sponge(fri), configs::goldilocks3_sponge(fri));
        for (rows, reads_next) in [(16, true), (16, false), (1, true), (2, false)] {
            let steps = Steps { rows, reads_next };
            support::check(stream.device(), &koala_bear, fri, &Small::from(steps.clone()), &steps.trace(), &[]);
            support::check(stream.device(), &goldilocks, fri, &Small::from(steps.clone()), &steps.trace(), &[]);
        }
    });
}

/// One commitment to preprocessed columns serves any number of proofs.
#[test]
fn preprocessed_columns_are_set_up_once() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let steps = Steps { rows: 8, reads_next: true };
        let (air, trace) = (Small::from(steps.clone()), steps.trace());
        let expected = support::expected(prover.config(), &air, &trace, &[]);
        let key = setup_preprocessed(&prover, &air, 3).unwrap().unwrap();
        for _ in 0..2 {
            let proof = prove_with_preprocessed(&prover, &air, &trace, &[], Some(&key)).unwrap().proof;
            assert!(support::bytes(&proof) == expected);
        }
        assert!(setup_preprocessed(&prover, &numbers(), 3).unwrap().is_none());
        let (trace, publics) = fibonacci(8);
        support::check_with(&prover, &numbers(), &trace, &publics);
    });
}

#[test]
fn periodic_columns() {
    on_each_device(|stream| {
        let fri = Fri { log_blowup: 2, ..Fri::default() };
        let (koala_bear, goldilocks) = (configs::koala_bear_sponge(fri), configs::goldilocks2_poseidon2(fri));
        for (rows, lengths) in [
            (16, vec![4, 1, 16, 2]),
            (16, vec![16, 8, 4, 2]),
            (16, vec![2, 2, 1, 1]),
            (16, vec![1, 1, 1, 1]),
            (1, vec![1, 1, 1, 1]),
        ] {
            let periods = Periods::new(&lengths);
            let trace = periods.trace(rows);
            support::check(stream.device(), &koala_bear, fri, &Small::Periods(periods), &trace, &[]);
            let periods = Periods::new(&lengths);
            let trace = periods.trace(rows);
            support::check(stream.device(), &goldilocks, fri, &Small::Periods(periods), &trace, &[]);
        }
    });
}
