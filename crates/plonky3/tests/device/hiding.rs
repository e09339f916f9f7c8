//! Proofs that hide the trace: with the same seeds, upstream's bytes.

use p3_koala_bear::KoalaBear;
use p3_matrix::Matrix as _;
use p3_uni_stark::verify_with_preprocessed;
use rigel_gpu::Device;
use rigel_gpu::testing::on_each_device;
use rigel_plonky3::{
    Error, Prover, Report, plan, plan_batch, prove, prove_batch, prove_with_preprocessed, setup_batch,
    setup_preprocessed,
};

use crate::airs::{Periods, Power, Steps, fibonacci};
use crate::configs::{self, Fri};
use crate::memory::{self, Pascal};
use crate::small::{Small, numbers};
use crate::support::{self, Filled};
use crate::tables::{Squares, Table, chain, selected, shuffled, steps};

/// FRI with so few queries that short traces can hide.
const FRI: Fri = Fri {
    log_blowup: 1,
    log_final_poly_len: 0,
    max_log_arity: 3,
    num_queries: 3,
    pow_bits: [3, 0, 4],
    cap_height: 2,
};

/// Asserts that a fresh configuration proves the same with upstream and with the device.
macro_rules! check {
    ($device:expr, $config:ident, $fri:expr, $air:expr, $trace:expr, $publics:expr) => {{
        let (fri, air, trace, publics) = ($fri, $air, $trace, $publics);
        let expected = support::expected(&configs::$config(fri), &air, &trace, &publics);
        let config = configs::$config(fri);
        let prover =
            Prover::hiding($device.clone(), config, &fri.parameters(()), fri.cap_height, configs::streams())
                .unwrap();
        let preprocessed = setup_preprocessed(&prover, &air, support::log_rows(&trace)).unwrap();
        let proven = prove_with_preprocessed(&prover, &air, &trace, &publics, preprocessed.as_ref()).unwrap();
        let (rows, width) = (trace.height(), trace.width());
        assert!(support::bytes(&proven.proof) == expected, "the proofs of {rows} rows of {width} columns differ");
        let key = preprocessed.as_ref().map(|preprocessed| preprocessed.verifier_key());
        verify_with_preprocessed(prover.config(), &air, &proven.proof, &publics, key).unwrap();
    }};
}

#[test]
fn one_table() {
    on_each_device(|stream| {
        let device = stream.device();
        let (trace, publics) = fibonacci(64);
        check!(device, koala_bear_hiding, FRI, numbers(), trace, publics);
        let (trace, publics) = fibonacci(32);
        check!(device, baby_bear_hiding, FRI, numbers(), trace, publics);
        let (trace, publics) = fibonacci(64);
        check!(device, goldilocks_hiding, FRI, numbers(), trace, publics);
    });
}

/// Quotients of two chunks to eight, of which the larger lie beyond the extended trace.
#[test]
fn degrees() {
    on_each_device(|stream| {
        for log_blowup in [1, 2] {
            for degree in [1, 2, 3, 5] {
                let power = Power { degree, hint: None };
                let (air, trace) = (Small::from(power.clone()), power.trace::<KoalaBear>(32));
                check!(stream.device(), koala_bear_hiding, Fri { log_blowup, ..FRI }, air, trace, vec![]);
            }
        }
    });
}

#[test]
fn preprocessed_and_periodic_columns() {
    on_each_device(|stream| {
        let steps = Steps { rows: 32, reads_next: true };
        let (air, trace) = (Small::from(steps.clone()), steps.trace::<KoalaBear>());
        check!(stream.device(), koala_bear_hiding, FRI, air, trace, vec![]);
        let periods = Periods::new(&[4, 1, 16, 2]);
        let trace = periods.trace(32);
        check!(stream.device(), koala_bear_hiding, FRI, Small::<KoalaBear>::Periods(periods), trace, vec![]);
    });
}

/// A second proof of one prover goes on in the streams where the first ended, as upstream does.
#[test]
fn proofs_one_after_the_other() {
    on_each_device(|stream| {
        let config = configs::koala_bear_hiding(FRI);
        let (trace, publics) = fibonacci::<KoalaBear>(32);
        let expected: Vec<_> = (0..2).map(|_| support::expected(&config, &numbers(), &trace, &publics)).collect();
        assert_ne!(expected[0], expected[1]);
        let (device, config) = (stream.device().clone(), configs::koala_bear_hiding(FRI));
        let prover =
            Prover::hiding(device, config, &FRI.parameters(()), FRI.cap_height, configs::streams()).unwrap();
        for expected in expected {
            let proof = prove(&prover, &numbers(), &trace, &publics).unwrap().proof;
            assert!(support::bytes(&proof) == expected);
        }
    });
}

#[test]
fn several_tables_with_lookups() {
    on_each_device(|stream| {
        let mut squares = Squares::new(1, 32);
        let (packed, either) = (squares.pairs(64, true), squares.either(32));
        let tables: Vec<Filled<Table<KoalaBear>, KoalaBear>> =
            vec![packed, squares.table(), either, steps(32, true)];
        check_batch(stream.device(), &tables);
        let [links, chain] = chain(2, 32);
        check_batch(stream.device(), &[links, shuffled(3, 64), chain, selected(32)]);
    });
}

fn check_batch(device: &Device, tables: &[Filled<Table<KoalaBear>, KoalaBear>]) {
    let expected = support::expected_batch(&configs::koala_bear_hiding(FRI), tables);
    let config = configs::koala_bear_hiding(FRI);
    let prover =
        Prover::hiding(device.clone(), config, &FRI.parameters(()), FRI.cap_height, configs::streams()).unwrap();
    let airs = support::airs(tables);
    let key = setup_batch(&prover, &airs, &support::heights(tables)).unwrap();
    let proven = prove_batch(&prover, &support::instances(tables), &key).unwrap();
    assert!(support::bytes(&proven.proof) == expected, "the proofs of {} tables differ", tables.len());
    let publics: Vec<Vec<KoalaBear>> = tables.iter().map(|table| table.publics.clone()).collect();
    p3_batch_stark::verify_batch(prover.config(), &airs, &proven.proof, &publics, key.common()).unwrap();
}

#[test]
fn what_can_not_hide_is_refused() {
    on_each_device(|stream| {
        let device = stream.device();
        let config = || configs::koala_bear_hiding(FRI);
        let prover =
            Prover::hiding(device.clone(), config(), &FRI.parameters(()), FRI.cap_height, configs::streams())
                .unwrap();
        let (trace, publics) = fibonacci::<KoalaBear>(16);
        let before = device.activity();
        let error = prove(&prover, &numbers(), &trace, &publics).err().unwrap();
        assert!(matches!(error, Error::Hiding(_)), "{error}");
        // It is refused before any work.
        let after = device.activity();
        assert_eq!((after.launches, after.uploads), (before.launches, before.uploads));
        let (parameters, unsalted) = (FRI.parameters(()), configs::koala_bear_unsalted(FRI));
        let error =
            Prover::hiding(device.clone(), unsalted, &parameters, FRI.cap_height, configs::streams()).err();
        assert!(error.unwrap().to_string().contains("0 elements of salt"));
        let error = Prover::new(device.clone(), config(), &FRI.parameters(()), FRI.cap_height).err().unwrap();
        assert!(error.to_string().contains("Prover::hiding"), "{error}");
        let plain = configs::koala_bear_sponge(FRI);
        let error =
            Prover::hiding(device.clone(), plain, &FRI.parameters(()), FRI.cap_height, configs::streams()).err();
        assert!(error.unwrap().to_string().contains("Prover::new"));
        let wrong = Fri { num_queries: 4, ..FRI };
        let error =
            Prover::hiding(device.clone(), config(), &wrong.parameters(()), FRI.cap_height, configs::streams())
                .err();
        assert!(matches!(error, Some(Error::Configuration(_))), "{error:?}");
    });
}

/// A proof in batches of columns, with less memory than the extended trace takes, has the same bytes.
#[test]
fn in_batches_of_columns() {
    on_each_device(|stream| {
        let device = stream.device();
        let fri = Fri { log_blowup: 3, ..FRI };
        let trace = memory::trace(1 << 8);
        let expected = support::expected(&configs::koala_bear_hiding(fri), &Pascal, &trace, &[]);
        let config = configs::koala_bear_hiding(fri);
        let (parameters, cap_height) = (fri.parameters(()), fri.cap_height);
        let prover = Prover::hiding(device.clone(), config, &parameters, cap_height, configs::streams()).unwrap();
        let planned = plan(&prover, &Pascal, 8).unwrap();
        device.set_memory_limit(Some(device.memory_stats().in_use + planned.peak().bytes * 2 / 3));
        let proven = prove(&prover, &Pascal, &trace, &[]).unwrap();
        device.set_memory_limit(None);
        assert!(support::bytes(&proven.proof) == expected);
        let Report { fallbacks, peak_bytes, .. } = proven.report;
        assert!(fallbacks[0].ran_on.contains("batches"), "{fallbacks:?}");
        assert!(peak_bytes <= planned.peak().bytes * 2 / 3, "{peak_bytes} taken\n{planned}");
    });
}

/// A proof of several tables in batches of columns has the same bytes: lookups read the traces themselves, and
/// trees have the hidden ones.
#[test]
fn lookups_in_batches_of_columns() {
    on_each_device(|stream| {
        let device = stream.device();
        let fri = Fri { log_blowup: 2, ..FRI };
        let mut squares = Squares::new(5, 64);
        let mut tables: Vec<Filled<Table<KoalaBear>, KoalaBear>> =
            vec![squares.wide(1 << 8, 150), squares.many(1 << 7, 6), shuffled(6, 1 << 7)];
        tables.push(squares.table());
        let expected = support::expected_batch(&configs::koala_bear_hiding(fri), &tables);
        let (parameters, cap_height) = (fri.parameters(()), fri.cap_height);
        let airs = support::airs(&tables);
        // Each keystream goes on where the key and the proof before have left it, so a prover makes one of each.
        let prepared = || {
            let config = configs::koala_bear_hiding(fri);
            let prover =
                Prover::hiding(device.clone(), config, &parameters, cap_height, configs::streams()).unwrap();
            let key = setup_batch(&prover, &airs, &support::heights(&tables)).unwrap();
            (prover, key)
        };
        let (prover, key) = prepared();
        let whole = plan_batch(&prover, &airs, &key).unwrap();
        for percent in [100, 86] {
            let ((prover, key), before) = (prepared(), device.memory_stats().in_use);
            let limit = whole.peak().bytes * percent / 100;
            device.set_memory_limit(Some(before + limit));
            let proven = prove_batch(&prover, &support::instances(&tables), &key);
            device.set_memory_limit(None);
            let proven = proven.unwrap_or_else(|error| panic!("{percent} %: {error}\n{whole}"));
            assert!(support::bytes(&proven.proof) == expected, "{percent} %");
            let Report { fallbacks, peak_bytes, .. } = proven.report;
            assert_eq!(fallbacks.is_empty(), percent == 100, "{fallbacks:?}");
            assert!(peak_bytes <= limit, "{peak_bytes} of {limit} taken\n{whole}");
        }
    });
}
