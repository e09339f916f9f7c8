//! Batches of tables over several devices.

use p3_field::PrimeField64;
use rand::RngExt;
use rigel_gpu::testing::groups;
use rigel_gpu::{Device, Emulation, Options};
use rigel_kernels::Matrix;
use rigel_kernels::layout::permute;
use rigel_plonky3::{
    DeviceField, Error, Instance, Policy, plan_batch, prove_batch, setup_batch, setup_preprocessed,
};

use crate::airs::Steps;
use crate::configs::{self, Fri};
use crate::support::{
    Filled, airs, bytes, check_batch_with, expected_batch, heights, instances, prover, rng, upstream,
};
use crate::tables::{Squares, Table, chain, numbers, powers, selected, shuffled, steps};
use crate::{devices, over};

type Tables<F> = Vec<Filled<Table<F>, F>>;

/// All kinds of lookups, preprocessed and periodic columns, public values, and heights from 1 to 64.
fn mixed<F: PrimeField64>() -> Tables<F> {
    let mut squares = Squares::new(1, 16);
    let packed = squares.pairs(64, true);
    let unpacked = squares.pairs(2, false);
    let either = squares.either(32);
    let clocked = squares.clocked(16, &[3, 1, 2, 9]);
    let one = squares.pairs(1, true);
    let [links, chain] = chain(2, 4);
    vec![
        numbers(1),
        packed,
        squares.table(),
        numbers(16),
        unpacked,
        either,
        clocked,
        steps(2, true),
        links,
        shuffled(3, 8),
        chain,
        selected(8),
        one,
    ]
}

/// Blocks that are larger than a trace, of its size and smaller; tables with fewer rows than devices; caps above,
/// at and below the subtrees' roots.
#[test]
fn heights_and_blowups() {
    for (count, log_blowup, cap_height, max_log_arity) in [(2, 1, 0, 3), (4, 1, 3, 1), (8, 2, 1, 2)] {
        let fri = Fri { log_blowup, cap_height, max_log_arity, ..Fri::default() };
        let config = configs::koala_bear_sponge(fri).with_lookup_proof_of_work_bits(2);
        for devices in groups(count).unwrap() {
            check_batch_with(&over(&devices, &config, fri), &mixed());
        }
    }
}

#[test]
fn another_field_and_hash() {
    for devices in groups(4).unwrap() {
        let fri = Fri::default();
        let mut squares = Squares::new(6, 8);
        let tables = [squares.pairs(16, true), squares.table(), numbers(4), numbers(1)];
        check_batch_with(&over(&devices, &configs::goldilocks3_poseidon2(fri), fri), &tables);
    }
}

/// Batches without lookups, with preprocessed columns of a short table alone, and with folds that tables join on
/// all devices and on the first.
#[test]
fn few_tables_and_many_rows() {
    for devices in groups(4).unwrap() {
        let fri = Fri { max_log_arity: 1, ..Fri::default() };
        let prover = over(&devices, &configs::koala_bear_sponge(fri), fri);
        check_batch_with(&prover, &[numbers(8)]);
        check_batch_with(&prover, &[numbers(4), steps(1, false)]);
        check_batch_with(&prover, &[numbers(1 << 10), numbers(1 << 9), shuffled(1, 1 << 8), shuffled(2, 1)]);
        let mut squares = Squares::new(2, 64);
        let wide = squares.wide(16, 200);
        check_batch_with(&prover, &[wide, squares.table(), numbers(1 << 9)]);
    }
}

/// Random heights, blowups, caps and folds, on 1, 2, 4 and 8 devices.
#[test]
fn random() {
    let mut rng = rng(7);
    let devices = devices(8);
    for seed in 0..4 {
        let log_rows = |rng: &mut rand::rngs::SmallRng| rng.random_range(0..7);
        let fri = Fri {
            log_blowup: rng.random_range(1..4),
            cap_height: rng.random_range(0..5),
            max_log_arity: rng.random_range(1..5),
            ..Fri::default()
        };
        let mut squares = Squares::new(seed, 1 << log_rows(&mut rng));
        let mut tables: Tables<_> = vec![squares.pairs(1 << log_rows(&mut rng), rng.random())];
        tables.push(squares.either(1 << log_rows(&mut rng)));
        tables.push(squares.table());
        tables.push(shuffled(seed, 1 << log_rows(&mut rng)));
        tables.push(steps(1 << log_rows(&mut rng), rng.random()));
        tables.push(numbers(8 << log_rows(&mut rng)));
        let devices = &devices[..1 << (seed % 4)];
        check_batch_with(&over(devices, &configs::koala_bear_sponge(fri), fri), &tables);
    }
}

/// Traces on different devices.
#[test]
fn traces_on_devices() {
    let fri = Fri::default();
    let config = configs::koala_bear_sponge(fri);
    let mut squares = Squares::new(4, 4);
    let tables: Tables<_> = vec![squares.pairs(16, true), squares.pairs(1, true), squares.table(), shuffled(2, 8)];
    let expected = expected_batch(&config, &tables);
    for devices in groups(4).unwrap() {
        let prover = over(&devices, &config, fri);
        let key = setup_batch(&prover, &airs(&tables), &heights(&tables)).unwrap();
        let upload = |(k, table): (usize, &Filled<Table<_>, _>)| -> Matrix<_> {
            let stream = devices[k % 4].new_stream().unwrap();
            let rows = stream.upload(DeviceField::as_device(&table.trace.values)).unwrap();
            permute::to_columns(&stream, &rows, table.trace.width).unwrap()
        };
        let traces: Vec<Matrix<_>> = tables.iter().enumerate().map(upload).collect();
        let instance = |(table, trace)| -> Instance<'_, _, _> {
            let Filled { air, publics, .. }: &Filled<_, _> = table;
            Instance::new(air, trace, publics.clone())
        };
        let instances: Vec<_> = tables.iter().zip(&traces).map(instance).collect();
        let proven = prove_batch(&prover, &instances, &key).unwrap();
        assert!(bytes(&proven.proof) == expected);
    }
}

/// Memory adds up over the devices. At this size all columns travel between the devices at once, which takes room.
#[test]
fn memory() {
    let fri = Fri::default();
    let config = configs::koala_bear_sponge(fri);
    let mut squares = Squares::new(3, 1 << 9);
    let wide = squares.wide(1 << 9, 100);
    let tables: Tables<_> = vec![wide, squares.table(), numbers(1 << 8)];
    let devices = devices(4);
    let made = |devices: &[Device]| {
        let prover = over(devices, &config, fri);
        let key = setup_batch(&prover, &airs(&tables), &heights(&tables)).unwrap();
        prove_batch(&prover, &instances(&tables), &key).unwrap()
    };
    let (single, split) = (made(&devices[..1]), made(&devices));
    assert!(bytes(&single.proof) == bytes(&split.proof));
    for share in &split.report.devices {
        let of_one = share.peak_bytes as f64 / single.report.peak_bytes as f64;
        println!("{}: {} bytes, {of_one:.2} of one device's", share.device, share.peak_bytes);
        assert!(of_one <= 0.45, "{} took {of_one:.2} of the memory of one device", share.device);
        let phases: Vec<&str> = share.phases.iter().map(|phase| phase.name).collect();
        assert!(["lookups", "exchange", "constraints"].iter().all(|name| phases.contains(name)), "{phases:?}");
    }
}

/// A key has no more than the commitment where no lookup reads the columns.
#[test]
fn memory_of_a_key() {
    let fri = Fri::default();
    let devices = devices(2);
    let prover = over(&devices, &configs::koala_bear_sponge(fri), fri);
    let air = Steps { rows: 1 << 9, reads_next: true };
    let in_use = || -> Vec<usize> { devices.iter().map(|device| device.memory_stats().in_use).collect() };
    // What devices keep for all proofs, such as roots of unity, is there from now on.
    drop(setup_preprocessed(&prover, &air, 9).unwrap());
    drop(setup_batch(&prover, std::slice::from_ref(&air), &[9]).unwrap());
    let before = in_use();
    let single = setup_preprocessed(&prover, &air, 9).unwrap();
    let with_commitment = in_use();
    drop(single);
    assert_eq!(in_use(), before);
    let _key = setup_batch(&prover, &[air], &[9]).unwrap();
    assert!(before.iter().zip(&with_commitment).all(|(before, with)| before < with));
    assert_eq!(in_use(), with_commitment);
}

#[test]
fn refused() {
    let fri = Fri::default();
    let config = configs::koala_bear_sponge(fri);
    let devices = devices(4);
    let split = over(&devices, &config, fri);
    let short: Tables<_> = vec![numbers(2), steps(1, false)];
    let steep: Tables<_> = vec![numbers(8), powers(16, 5)];
    for (tables, words) in [(&short, ["4 devices", "2 rows"]), (&steep, ["table 1 has 4 chunks", "blowup of 2"])] {
        let key = setup_batch(&split, &airs(tables), &heights(tables)).unwrap();
        let error = prove_batch(&split, &instances(tables), &key).err().unwrap();
        assert!(matches!(error, Error::Devices(_)), "{error:?}");
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
        let unplanned = plan_batch(&split, &airs(tables), &key).unwrap_err();
        assert_eq!(unplanned.to_string(), error.to_string());
    }
    // The quotient of a table that one device has may be of any degree.
    check_batch_with(&split, &[numbers(8), powers(1, 5)]);

    // The CPU has no such limits.
    let lenient = over(&devices, &config, fri).with_policy(Policy { cpu_on_failure: true, ..Policy::default() });
    let key = setup_batch(&lenient, &airs(&short), &heights(&short)).unwrap();
    let proven = upstream(|| prove_batch(&lenient, &instances(&short), &key).unwrap());
    assert!(bytes(&proven.proof) == expected_batch(&config, &short));
    assert!(proven.report.fallbacks[0].reason.contains("2 rows"), "{:?}", proven.report.fallbacks);

    // Preprocessed columns are where the prover that set them up has them.
    let tables: Tables<_> = vec![steps(8, true)];
    let single = prover(&devices[0], &config, fri);
    let halves = [&devices[..2], &devices[2..]].map(|devices| over(devices, &config, fri));
    let swapped = over(&[devices[1].clone(), devices[0].clone()], &config, fri);
    let reopened = over(&crate::devices(2), &config, fri);
    let other = |fri| over(&devices, &configs::koala_bear_sponge(fri), fri);
    let blowup = other(Fri { log_blowup: fri.log_blowup + 1, ..fri });
    let cap = other(Fri { cap_height: fri.cap_height + 1, ..fri });
    for (makes, proves, words) in [
        (&single, &split, ["1 (emulated:0)", "this one has 4"]),
        (&split, &single, ["4 (emulated:0", "this one has 1"]),
        (&halves[0], &halves[1], ["2 (emulated:0, emulated:1)", "this one has 2 (emulated:2, emulated:3)"]),
        (&halves[0], &swapped, ["2 (emulated:0, emulated:1)", "this one has 2 (emulated:1, emulated:0)"]),
        (&halves[0], &reopened, ["other devices", "opened another time"]),
        (&blowup, &split, ["a blowup of 2^2", "this one has 2^1"]),
        (&split, &blowup, ["a blowup of 2^1", "this one has 2^2"]),
        (&cap, &split, ["a cap height of 3", "this one has 2; call setup_batch with this prover"]),
    ] {
        let key = setup_batch(makes, &airs(&tables), &heights(&tables)).unwrap();
        let error = prove_batch(proves, &instances(&tables), &key).err().unwrap();
        assert!(matches!(error, Error::Preprocessed { table: 0, .. }), "{error:?}");
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
    }
    // No policy takes the wrong key for a failure of the device.
    let key = setup_batch(&single, &airs(&tables), &heights(&tables)).unwrap();
    let error = prove_batch(&lenient, &instances(&tables), &key).err().unwrap();
    assert!(matches!(error, Error::Preprocessed { table: 0, .. }), "{error:?}");
}

/// Wherever in a proof a device is lost, the error names it.
#[test]
fn a_lost_device() {
    let fri = Fri::default();
    let config = configs::koala_bear_sponge(fri);
    let mut squares = Squares::new(5, 4);
    let tables: Tables<_> = vec![squares.pairs(16, true), squares.table(), shuffled(2, 1)];
    let options = Options::from_env().unwrap();
    let mut made = 0;
    for after in [30, 80, 1000] {
        let emulation = Emulation { devices: 2, lost_after: Some(after), ..Emulation::default() };
        let second = Device::emulated(&emulation, &options).unwrap().remove(1);
        let prover = over(&[devices(1).remove(0), second], &config, fri);
        let proven = setup_batch(&prover, &airs(&tables), &heights(&tables))
            .and_then(|key| prove_batch(&prover, &instances(&tables), &key));
        match proven {
            Ok(_) => made += 1,
            Err(error) => assert!(error.to_string().contains("emulated:1 was lost"), "{after}: {error}"),
        }
    }
    assert!((1..=2).contains(&made), "{made} of 3 proofs were made");
}
