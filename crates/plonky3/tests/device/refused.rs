//! Invalid input gives an error with the numbers, and the next proof is correct.

use p3_air::{BoundaryEnd, BoundaryPublic};
use p3_field::PrimeCharacteristicRing;
use p3_goldilocks::Goldilocks;
use p3_koala_bear::KoalaBear;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::testing::on_each_device;
use rigel_gpu::{Device, Selector};
use rigel_kernels::Matrix;
use rigel_plonky3::{
    DeviceField, Error, Instance, Policy, Prover, Result, plan_batch, prove, prove_batch, prove_with_preprocessed,
    setup_batch, setup_preprocessed,
};

use crate::airs::{Bound, Periods, Steps, fibonacci};
use crate::configs::{self, Fri};
use crate::small::{Small, numbers};
use crate::support::{self, Filled, airs, heights, instances};
use crate::tables::{self, Table};

macro_rules! refused {
    ($result:expr, $error:pat, $($words:literal),+) => {
        match $result {
            Ok(_) => panic!("{} was not refused", stringify!($result)),
            Err(error) => {
                assert!(matches!(error, $error), "{error:?}");
                let text = error.to_string();
                $( assert!(text.contains($words), "{text:?} does not say {:?}", $words); )+
            }
        }
    };
}

fn matrix(rows: usize, width: usize) -> RowMajorMatrix<KoalaBear> {
    RowMajorMatrix::new(vec![KoalaBear::ONE; rows * width], width)
}

/// Debug builds name the row, as upstream's do.
#[test]
#[cfg(debug_assertions)]
fn traces_that_do_not_satisfy_the_air() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let config = configs::koala_bear_sponge(fri);
        let prover = support::prover(stream.device(), &config, fri);
        let cpu = Prover::cpu(config, &fri.parameters(()), fri.cap_height).unwrap();
        let (mut trace, publics) = fibonacci(8);
        trace.values[2 * 5] += KoalaBear::ONE;
        for prover in [&prover, &cpu] {
            let refusal = prove(prover, &numbers(), &trace, &publics);
            refused!(refusal, Error::Unsatisfied { table: 0, row: 4, .. }, "row 4", "#");
        }

        let mut squares = tables::Squares::new(1, 16);
        let mut batch = vec![tables::numbers(4), squares.pairs(8, false), squares.table()];
        let key = setup_batch(&prover, &support::airs(&batch), &support::heights(&batch)).unwrap();
        support::check_batch(stream.device(), prover.config(), fri, &batch);
        batch[0].trace.values[2] += KoalaBear::ONE;
        let refusal = prove_batch(&prover, &instances(&batch), &key);
        refused!(refusal, Error::Unsatisfied { table: 0, row: 0, .. }, "table 0");
        batch[0] = tables::numbers(4);
        batch[1].trace.values[0] += KoalaBear::ONE;
        refused!(prove_batch(&prover, &instances(&batch), &key), Error::Lookup { .. }, "squares");
    });
}

/// A key is for the AIRs that it was made for.
#[test]
fn keys_of_other_airs() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let batch = [tables::numbers(4), tables::steps(4, true)];
        let key = setup_batch(&prover, &support::airs(&batch), &[2, 2]).unwrap();
        let swapped = [tables::steps(4, true), tables::numbers(4)];
        let refusal = prove_batch(&prover, &instances(&swapped), &key);
        refused!(refusal, Error::Preprocessed { table: 0, .. }, "the key was made for", "3 public values");
    });
}

#[test]
fn traces() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let (trace, publics) = fibonacci(8);
        let air = numbers();
        let right = || support::check_with(&prover, &air, &trace, &publics);

        refused!(
            prove(&prover, &air, matrix(3, 2), &publics),
            Error::Height { table: 0, rows: 3 },
            "3 rows",
            "power of two"
        );
        right();
        refused!(prove(&prover, &air, matrix(0, 2), &publics), Error::Height { rows: 0, .. }, "0 rows");
        refused!(
            prove(&prover, &air, matrix(8, 3), &publics),
            Error::Width { table: 0, expected: 2, found: 3 },
            "3 columns",
            "2"
        );
        right();
        refused!(
            prove(&prover, &air, &trace, &publics[..2]),
            Error::PublicValues { table: 0, expected: 3, found: 2 },
            "2 public values",
            "3"
        );
        right();
        let bound = Bound([BoundaryPublic::new(0, BoundaryEnd::Last, 0)]);
        refused!(
            prove(&prover, &Small::from(bound), matrix(8, 1), &publics[..1]),
            Error::Unsupported(_),
            "table 0",
            "constraints"
        );
        for (length, words) in [(3, "length 3"), (16, "length 16")] {
            let air = Small::Periods(Periods::new(&[2, length]));
            let error = prove(&prover, &air, matrix(8, 3), &[]).err().expect("a bad period");
            assert!(matches!(error, Error::Unsupported(_)) && error.to_string().contains(words), "{error}");
        }
        right();
    });
}

#[test]
fn more_rows_than_roots_of_unity() {
    on_each_device(|stream| {
        let fri = Fri { log_blowup: 6, ..Fri::default() };
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let (_, publics) = fibonacci(1);
        refused!(
            prove(&prover, &numbers(), matrix(1 << 19, 2), &publics),
            Error::TooManyRows { table: 0, log_rows: 19, log_blowup: 6, log_limit: 24 },
            "2^19 rows",
            "2^6",
            "2^24"
        );
        let tables = [Table::Fibonacci, Table::Fibonacci];
        refused!(
            setup_batch(&prover, &tables, &[3, 19]),
            Error::TooManyRows { table: 1, log_rows: 19, .. },
            "2^19 rows"
        );
        let steps = Small::from(Steps { rows: 8, reads_next: true });
        refused!(setup_preprocessed(&prover, &steps, 64), Error::TooManyRows { log_rows: 64, .. }, "2^64");
        let (trace, publics) = fibonacci(4);
        support::check_with(&prover, &numbers(), &trace, &publics);
    });
}

/// The device's transforms end where those of upstream go on: the plan refuses that, as the proof does.
#[test]
fn more_rows_than_the_device_transforms() {
    on_each_device(|stream| {
        let fri = Fri { log_blowup: 1, ..Fri::default() };
        let prover = support::prover(stream.device(), &configs::goldilocks2_sponge(fri), fri);
        let tables: [Table<Goldilocks>; 1] = [Table::Fibonacci];
        let key = setup_batch(&prover, &tables, &[25]).unwrap();
        refused!(
            plan_batch(&prover, &tables, &key),
            Error::TooManyRows { table: 0, log_rows: 25, log_limit: 25, .. },
            "2^25 rows"
        );
    });
}

#[test]
fn preprocessed_columns() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let steps = Steps { rows: 8, reads_next: true };
        let (air, trace) = (Small::from(steps.clone()), steps.trace());
        let right = || support::check_with(&prover, &air, &trace, &[]);
        let with = |air: &_, trace: &_, publics: &[_], key| {
            prove_with_preprocessed(&prover, air, trace, publics, Some(key)).map(|_| ())
        };

        refused!(
            prove(&prover, &air, &trace, &[]),
            Error::Preprocessed { table: 0, .. },
            "2 preprocessed columns",
            "setup_preprocessed"
        );
        right();
        refused!(
            setup_preprocessed(&prover, &air, 4),
            Error::Preprocessed { table: 0, .. },
            "8 preprocessed rows",
            "2^4"
        );
        let key = setup_preprocessed(&prover, &air, 3).unwrap().unwrap();
        let (other, publics) = fibonacci(8);
        refused!(
            with(&numbers(), &other, &publics, &key),
            Error::Preprocessed { table: 0, .. },
            "2 preprocessed columns",
            "0"
        );
        right();
        let longer = Steps { rows: 16, reads_next: true };
        refused!(
            with(&Small::from(longer.clone()), &longer.trace(), &[], &key),
            Error::Preprocessed { table: 0, .. },
            "2^3",
            "2^4"
        );
        right();
        // An AIR of the same type and shape with other constraints.
        let local = Steps { rows: 8, reads_next: false };
        refused!(
            with(&Small::from(local.clone()), &local.trace(), &[], &key),
            Error::Preprocessed { table: 0, .. },
            "other constraints"
        );
        right();

        // Set up by a prover without a device, or on another device.
        let cpu = Prover::cpu(configs::koala_bear_sponge(fri), &fri.parameters(()), fri.cap_height).unwrap();
        let key = setup_preprocessed(&cpu, &air, 3).unwrap().unwrap();
        refused!(with(&air, &trace, &[], &key), Error::Preprocessed { table: 0, .. }, "CPU");
        right();
        let elsewhere = Device::open(Selector::Emulated(0)).unwrap();
        let elsewhere = support::prover(&elsewhere, &configs::koala_bear_sponge(fri), fri);
        let key = setup_preprocessed(&elsewhere, &air, 3).unwrap().unwrap();
        refused!(
            with(&air, &trace, &[], &key),
            Error::Preprocessed { table: 0, .. },
            "other devices",
            "emulated:0"
        );
        right();
    });
}

#[test]
fn a_trace_on_another_device() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let elsewhere = Device::open(Selector::Emulated(0)).unwrap().compute().unwrap();
        let (trace, publics) = fibonacci::<KoalaBear>(8);
        let columns = trace.transpose();
        let matrix = Matrix::upload(&elsewhere, KoalaBear::as_device(&columns.values), 8).unwrap();
        refused!(
            prove(&prover, &numbers(), &matrix, &publics),
            Error::Gpu(rigel_gpu::Error::WrongDevice { .. }),
            "emulated:0"
        );
        support::check_with(&prover, &numbers(), &trace, &publics);
    });
}

#[test]
fn batches() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let tables = tables::chain::<KoalaBear>(1, 8);
        let (airs, log_rows) = (airs(&tables), heights(&tables));
        let key = setup_batch(&prover, &airs, &log_rows).unwrap();
        let expected = support::expected_batch(prover.config(), &tables);
        let right = || {
            let proof = prove_batch(&prover, &instances(&tables), &key).unwrap().proof;
            assert!(support::bytes(&proof) == expected);
        };
        let batch = |tables: &[Filled<Table<KoalaBear>, KoalaBear>]| -> Result<()> {
            prove_batch(&prover, &instances(tables), &key).map(|_| ())
        };

        refused!(setup_batch(&prover, &[] as &[Table<KoalaBear>], &[]), Error::EmptyBatch, "empty");
        refused!(batch(&[]), Error::EmptyBatch, "empty");
        refused!(
            setup_batch(&prover, &airs, &log_rows[..1]),
            Error::BatchLength { expected: 1, found: 2 },
            "1 instances",
            "2"
        );
        refused!(batch(&tables[..1]), Error::BatchLength { expected: 2, found: 1 }, "2 instances", "1");
        right();
        let mut wrong = tables.clone();
        wrong[1].trace = matrix(8, 2);
        refused!(batch(&wrong), Error::Width { table: 1, expected: 1, found: 2 }, "table 1");
        wrong[1].trace = matrix(7, 1);
        refused!(batch(&wrong), Error::Height { table: 1, rows: 7 }, "table 1", "7 rows");
        wrong[1].trace = matrix(16, 1);
        refused!(batch(&wrong), Error::Preprocessed { table: 1, .. }, "2^3 rows", "2^4");
        wrong[1] = tables[1].clone();
        wrong[1].publics.clear();
        refused!(batch(&wrong), Error::PublicValues { table: 1, expected: 1, found: 0 }, "table 1");
        right();

        refused!(setup_batch(&prover, &airs, &[4, 4]), Error::Preprocessed { table: 1, .. }, "8", "2^4");
        let cpu = Prover::cpu(configs::koala_bear_sponge(fri), &fri.parameters(()), fri.cap_height).unwrap();
        let without_device = setup_batch(&cpu, &airs, &log_rows).unwrap();
        refused!(
            prove_batch(&prover, &instances(&tables), &without_device),
            Error::Preprocessed { table: 1, .. },
            "CPU"
        );
        right();
    });
}

#[test]
fn lookups() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let setup = |airs: &[Table<KoalaBear>]| setup_batch(&prover, airs, &vec![3; airs.len()]).map(|_| ());
        refused!(
            setup(&[Table::Squares { rows: 8 }, Table::WrongWidth]),
            Error::Lookup { .. },
            "squares",
            "1",
            "2"
        );
        refused!(setup(&[Table::TwoWidths]), Error::Lookup { .. }, "squares", "1", "2");
        refused!(setup(&[Table::Fibonacci, Table::PeriodicLookup]), Error::Lookup { table: 1, .. }, "periodic");
        let tables = tables::chain::<KoalaBear>(1, 8);
        support::check_batch(stream.device(), prover.config(), fri, &tables);
    });
}

#[test]
fn memory() {
    on_each_device(|stream| {
        let device = stream.device();
        let fri = Fri::default();
        let prover = support::prover(device, &configs::koala_bear_sponge(fri), fri);
        let (trace, publics) = fibonacci(64);
        let make = || prove(&prover, &numbers(), &trace, &publics);
        make().unwrap();
        let before = device.memory_stats().in_use;
        // From far too little to enough.
        let (mut room, mut refusals) = (512, 0);
        loop {
            device.set_memory_limit(Some(before + room));
            match make() {
                Ok(_) => break,
                Err(error) => {
                    let full = matches!(
                        error,
                        Error::DoesNotFit { .. } | Error::Gpu(rigel_gpu::Error::OutOfMemory { .. })
                    );
                    assert!(full, "{error}");
                }
            }
            assert_eq!(device.memory_stats().in_use, before, "with room for {room}");
            refusals += 1;
            room += room / 4;
        }
        assert!(refusals > 5, "{refusals}");
        device.set_memory_limit(None);
        support::check_with(&prover, &numbers(), &trace, &publics);
    });
}

#[test]
fn configurations() {
    on_each_device(|stream| {
        let fri = Fri { log_blowup: 2, ..Fri::default() };
        let new = |config: Fri, given: Fri| {
            let config = configs::koala_bear_sponge(config);
            Prover::new(stream.device().clone(), config, &given.parameters(()), given.cap_height).map(|_| ())
        };
        new(fri, fri).unwrap();
        refused!(new(fri, Fri { log_blowup: 1, ..fri }), Error::Configuration(_), "`fri`", "`cap_height`");
        refused!(new(fri, Fri { log_blowup: 3, ..fri }), Error::Configuration(_), "`fri`");
        for cap_height in [0, 1, 3, 4] {
            refused!(new(fri, Fri { cap_height, ..fri }), Error::Configuration(_), "`cap_height`");
        }
        // What commitments do not show: upstream does not accept the opening.
        for given in [
            Fri { log_final_poly_len: 1, ..fri },
            Fri { max_log_arity: 2, ..fri },
            Fri { num_queries: 8, ..fri },
            Fri { pow_bits: [2, 0, 4], ..fri },
            Fri { pow_bits: [3, 1, 4], ..fri },
            Fri { pow_bits: [3, 0, 5], ..fri },
        ] {
            refused!(new(fri, given), Error::Configuration(_), "`fri`");
        }
        // Caps that are higher than small trees.
        let high = Fri { cap_height: 8, ..fri };
        new(high, high).unwrap();
        for cap_height in [7, 9] {
            refused!(new(high, Fri { cap_height, ..fri }), Error::Configuration(_), "`cap_height`");
        }
    });
}

/// A prover without a device checks its configuration too.
#[test]
fn configurations_on_the_cpu() {
    let fri = Fri { log_blowup: 2, ..Fri::default() };
    let cpu = |given: Fri| {
        Prover::cpu(configs::koala_bear_sponge(fri), &given.parameters(()), given.cap_height).map(|_| ())
    };
    cpu(fri).unwrap();
    for given in [
        Fri { log_blowup: 1, ..fri },
        Fri { log_blowup: 3, ..fri },
        Fri { log_final_poly_len: 1, ..fri },
        Fri { max_log_arity: 2, ..fri },
        Fri { num_queries: 8, ..fri },
        Fri { pow_bits: [2, 0, 4], ..fri },
        Fri { pow_bits: [3, 1, 4], ..fri },
        Fri { pow_bits: [3, 0, 5], ..fri },
        Fri { cap_height: 1, ..fri },
        Fri { cap_height: 3, ..fri },
    ] {
        refused!(cpu(given), Error::Configuration(_), "`fri`", "`cap_height`");
    }
}

#[test]
fn parameters_out_of_range() {
    let fri = Fri::default();
    on_each_device(|stream| {
        for given in [31, 32, 63, 64, usize::MAX] {
            for pow_bits in [[given, 0, 0], [0, given, 0], [0, 0, given]] {
                let fri = Fri { pow_bits, ..fri };
                let (config, parameters) = (configs::koala_bear_sponge(fri), fri.parameters(()));
                let cpu = Prover::cpu(config.clone(), &parameters, fri.cap_height).map(|_| ());
                refused!(cpu, Error::Unsupported(_), "proof_of_work_bits", "fewer than 31");
                let new = Prover::new(stream.device().clone(), config, &parameters, fri.cap_height).map(|_| ());
                refused!(new, Error::Unsupported(_), "proof_of_work_bits", "fewer than 31");
            }
        }
        let most = Fri { pow_bits: [4, 2, 12], ..fri };
        let accepted = Prover::cpu(configs::koala_bear_sponge(most), &most.parameters(()), most.cap_height);
        assert!(accepted.is_ok(), "bits of work in range");
        let ood = configs::koala_bear_sponge(fri).with_ood_proof_of_work_bits(31);
        let new = Prover::new(stream.device().clone(), ood, &fri.parameters(()), fri.cap_height).map(|_| ());
        refused!(new, Error::Unsupported(_), "ood_proof_of_work_bits", "31");
        for given in [
            Fri { log_final_poly_len: 25, ..fri },
            Fri { log_final_poly_len: usize::MAX, ..fri },
            Fri { log_blowup: 24, ..fri },
        ] {
            let config = configs::koala_bear_sponge(fri);
            let new = Prover::new(stream.device().clone(), config, &given.parameters(()), fri.cap_height);
            refused!(new.map(|_| ()), Error::Unsupported(_), "log_final_poly_len", "less than 24");
        }
    });
}

#[test]
fn traces_of_a_prover_without_a_device() {
    let fri = Fri::default();
    let cpu = Prover::cpu(configs::koala_bear_sponge(fri), &fri.parameters(()), fri.cap_height).unwrap();
    assert!(cpu.device().is_none());
    let table = tables::numbers::<KoalaBear>(8);
    let key = setup_batch(&cpu, &[Table::Fibonacci], &[3]).unwrap();
    let instance = Instance::new(&table.air, matrix(8, 3), table.publics.clone());
    refused!(prove_batch(&cpu, &[instance], &key), Error::Width { table: 0, .. }, "3 columns");
}

/// A device that is lost in any phase gives an error, or upstream's proof if the policy allows it. A reopened
/// device gives correct proofs.
#[test]
fn a_device_that_is_lost() {
    let fri = Fri::default();
    let config = configs::koala_bear_sponge(fri);
    let (trace, publics) = fibonacci(32);
    let expected = support::expected(&config, &numbers(), &trace, &publics);
    let open = |lost_after| {
        let emulation = rigel_gpu::Emulation { lost_after, ..rigel_gpu::Emulation::default() };
        let device = Device::emulated(&emulation, &rigel_gpu::Options::from_env().unwrap()).unwrap().remove(0);
        Prover::new(device, config.clone(), &fri.parameters(()), fri.cap_height)
    };
    // Count the launches of the configuration check and one proof.
    let prover = open(None).unwrap();
    let checked = prover.device().unwrap().activity().launches;
    prove(&prover, &numbers(), &trace, &publics).unwrap();
    let launches = prover.device().unwrap().activity().launches;
    assert!(launches > checked + 10);
    for lost_after in (checked..launches).step_by(3) {
        let prover = open(Some(lost_after)).unwrap();
        refused!(
            prove(&prover, &numbers(), &trace, &publics),
            Error::Gpu(rigel_gpu::Error::DeviceLost { .. }),
            "lost after"
        );
        let policy = Policy { cpu_on_failure: true, ..Policy::default() };
        let prover = open(Some(lost_after)).unwrap().with_policy(policy);
        let proven = support::upstream(|| prove(&prover, &numbers(), &trace, &publics).unwrap());
        assert!(support::bytes(&proven.proof) == expected);
        assert!(proven.report.fallbacks[0].reason.contains("lost"), "{}", proven.report);
    }
    refused!(open(Some(0)), Error::Gpu(rigel_gpu::Error::DeviceLost { .. }), "lost after 0 launches");
    let proven = prove(&open(None).unwrap(), &numbers(), &trace, &publics).unwrap();
    assert!(support::bytes(&proven.proof) == expected);
}
