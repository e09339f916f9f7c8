//! Tests of where proofs are made, and of what their reports say about it.

use p3_koala_bear::KoalaBear;
use p3_matrix::Matrix as _;
use rigel_gpu::testing::on_each_device;
use rigel_kernels::Matrix;
use rigel_plonky3::{
    DeviceField, Error, Policy, Prover, Report, prove, prove_batch, prove_with_preprocessed, setup_batch,
    setup_preprocessed,
};

use crate::airs::{Steps, fibonacci};
use crate::configs::{self, Fri};
use crate::small::{Small, numbers};
use crate::support::{self, airs, bytes, heights, instances, upstream};
use crate::tables;

/// Asserts that the CPU made a proof, for a reason that contains these words.
fn assert_on_cpu(report: &Report, words: &[&str]) {
    assert_eq!(report.device, "cpu");
    assert!(report.phases.is_empty() && report.total_ms > 0.0);
    let [fallback] = report.fallbacks.as_slice() else { panic!("{:?}", report.fallbacks) };
    assert_eq!((fallback.part, fallback.ran_on), ("the proof", "CPU"));
    let shown = report.to_string();
    for word in words {
        assert!(fallback.reason.contains(word) && shown.contains(word), "{shown} does not say {word:?}");
    }
}

#[test]
fn small_proofs_go_to_the_cpu_if_asked() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        assert_eq!(prover.policy(), Policy::default());
        let prover = prover.with_policy(Policy { cpu_below_cells: 33, ..Policy::default() });
        for (rows, on_cpu) in [(16, true), (32, false)] {
            let (trace, publics) = fibonacci(rows);
            let expected = support::expected(prover.config(), &numbers(), &trace, &publics);
            let proven = upstream(|| prove(&prover, &numbers(), &trace, &publics).unwrap());
            assert!(bytes(&proven.proof) == expected);
            if on_cpu {
                assert_on_cpu(&proven.report, &["32 cells", "33"]);
            } else {
                assert_eq!(proven.report.device, stream.device().to_string());
                assert!(proven.report.fallbacks.is_empty());
            }
        }
    });
}

#[test]
fn proofs_that_the_device_cannot_make_fall_back_to_the_cpu_if_allowed() {
    on_each_device(|stream| {
        let device = stream.device();
        let fri = Fri::default();
        let policy = Policy { cpu_on_failure: true, ..Policy::default() };
        let prover = support::prover(device, &configs::koala_bear_sponge(fri), fri).with_policy(policy);
        let (trace, publics) = fibonacci(32);
        let expected = support::expected(prover.config(), &numbers(), &trace, &publics);
        let matrix =
            Matrix::upload(stream, KoalaBear::as_device(&trace.transpose().values), trace.height()).unwrap();
        device.set_memory_limit(Some(device.memory_stats().in_use + 2048));
        let proven = upstream(|| prove(&prover, &numbers(), &trace, &publics).unwrap());
        assert!(bytes(&proven.proof) == expected);
        assert_on_cpu(&proven.report, &["needs", "are free"]);
        device.set_memory_limit(None);
        let proven = prove(&prover, &numbers(), &matrix, &publics).unwrap();
        assert!(bytes(&proven.proof) == expected && proven.report.fallbacks.is_empty());

        // Invalid input does not fall back.
        let error = prove(&prover, &numbers(), &trace, &[]).err();
        assert!(matches!(error, Some(Error::PublicValues { .. })), "{error:?}");
    });
}

#[test]
fn a_trace_on_the_device_is_read_back() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri)
            .with_policy(Policy { cpu_below_cells: 1 << 20, ..Policy::AUTO });
        let (trace, publics) = fibonacci::<KoalaBear>(32);
        let expected = support::expected(prover.config(), &numbers(), &trace, &publics);
        let matrix =
            Matrix::upload(stream, KoalaBear::as_device(&trace.transpose().values), trace.height()).unwrap();
        let proven = upstream(|| prove(&prover, &numbers(), &matrix, &publics).unwrap());
        assert!(bytes(&proven.proof) == expected);
        assert_on_cpu(&proven.report, &["64 cells"]);
    });
}

#[test]
fn batches_and_preprocessed_columns_on_the_cpu() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let config = configs::koala_bear_sponge(fri);
        let on_device = support::prover(stream.device(), &config, fri)
            .with_policy(Policy { cpu_below_cells: usize::MAX, ..Policy::default() });
        let cpu = Prover::cpu(config.clone(), &fri.parameters(()), fri.cap_height).unwrap();
        let tables = tables::chain::<KoalaBear>(1, 8);
        let expected_batch = support::expected_batch(&config, &tables);
        let steps = Steps { rows: 8, reads_next: true };
        let (air, trace) = (Small::from(steps.clone()), steps.trace());
        let expected = support::expected(&config, &air, &trace, &[]);
        for (prover, reason) in [(&on_device, "cells"), (&cpu, "made for the CPU")] {
            let key = setup_batch(prover, &airs(&tables), &heights(&tables)).unwrap();
            let proven = upstream(|| prove_batch(prover, &instances(&tables), &key).unwrap());
            assert!(bytes(&proven.proof) == expected_batch);
            assert_on_cpu(&proven.report, &[reason]);

            let key = setup_preprocessed(prover, &air, 3).unwrap();
            let proven = upstream(|| prove_with_preprocessed(prover, &air, &trace, &[], key.as_ref()).unwrap());
            assert!(bytes(&proven.proof) == expected);
            assert_on_cpu(&proven.report, &[reason]);
        }
    });
}
