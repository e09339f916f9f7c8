//! Byte equality for shapes of traces, blowups, caps and folds; reports and memory.

use p3_keccak_air::{KeccakAir, generate_trace_rows};
use p3_matrix::dense::RowMajorMatrix;
use rand::RngExt;
use rigel_gpu::Device;
use rigel_gpu::testing::groups;
use rigel_kernels::Matrix;
use rigel_kernels::layout::permute;
use rigel_plonky3::{DeviceField, prove};

use crate::air::Mixed;
use crate::configs::{self, Fri};
use crate::support::{bytes, check_with, expected, prover, rng};
use crate::{devices, over};

/// Blocks that are larger than the trace, of its size, and smaller, down to two rows; folds on all devices and on one.
#[test]
fn heights_and_blowups() {
    for devices in [1, 2, 4, 8].into_iter().flat_map(|count| groups(count).unwrap()) {
        for (log_blowup, degree, cap_height) in [(1, 3, 2), (1, 2, 0), (2, 3, 4), (3, 2, 1), (3, 9, 3)] {
            let fri = Fri { log_blowup, cap_height, ..Fri::default() };
            let prover = over(&devices, &configs::koala_bear_sponge(fri), fri);
            let air = Mixed { degree, ..Mixed::default() };
            for rows in [8, 32] {
                let (trace, publics) = air.trace(rows);
                check_with(&prover, &air, &trace, &publics);
            }
        }
        let fri = Fri { log_final_poly_len: 2, max_log_arity: 2, cap_height: 1, ..Fri::default() };
        let prover = over(&devices, &configs::koala_bear_sponge(fri), fri);
        let (trace, publics) = Mixed::default().trace(1 << 10);
        check_with(&prover, &Mixed::default(), &trace, &publics);
    }
}

#[test]
fn features_of_airs() {
    for devices in [2, 8].into_iter().flat_map(|count| groups(count).unwrap()) {
        let fri = Fri::default();
        let prover = over(&devices, &configs::koala_bear_sponge(fri), fri);
        for air in [
            Mixed { steps: false, ..Mixed::default() },
            Mixed { period: Some(1), ..Mixed::default() },
            Mixed { period: Some(16), ..Mixed::default() },
            Mixed { preprocessed: Some(16), period: Some(4), ..Mixed::default() },
            // More columns than a part of the trace has, and than a part of the constraints reads in the next row.
            Mixed { more: 150, ..Mixed::default() },
        ] {
            let (trace, publics) = air.trace(16);
            check_with(&prover, &air, &trace, &publics);
        }
        let fri = Fri { log_blowup: 2, ..Fri::default() };
        let prover = over(&devices, &configs::goldilocks2_sponge(fri), fri);
        let air = Mixed { preprocessed: Some(64), period: Some(2), ..Mixed::default() };
        let (trace, publics) = air.trace(64);
        check_with(&prover, &air, &trace, &publics);
    }
}

#[test]
fn keccak() {
    let mut rng = rng(1);
    let inputs: Vec<[u64; 25]> = (0..2).map(|_| rng.random()).collect();
    let trace = generate_trace_rows(inputs, 0);
    // With as many devices as the blowup, the kernels of the constraints are those of one device.
    for (count, log_blowup) in [(2, 1), (4, 2)] {
        let fri = Fri { log_blowup, ..Fri::default() };
        for devices in groups(count).unwrap() {
            let prover = over(&devices, &configs::koala_bear_sponge(fri), fri);
            check_with(&prover, &KeccakAir {}, &trace, &[]);
        }
    }
}

/// A trace on any of the devices, written by work that may still be running.
#[test]
fn a_trace_on_a_device() {
    for devices in groups(4).unwrap() {
        let fri = Fri::default();
        let prover = over(&devices, &configs::koala_bear_sponge(fri), fri);
        let air = Mixed::default();
        let (trace, publics): (RowMajorMatrix<_>, _) = air.trace(32);
        let expected = expected(prover.config(), &air, &trace, &publics);
        for device in &devices {
            let stream = device.new_stream().unwrap();
            let rows = stream.upload(DeviceField::as_device(&trace.values)).unwrap();
            let matrix: Matrix<_> = permute::to_columns(&stream, &rows, trace.width).unwrap();
            let proven = prove(&prover, &air, &matrix, &publics).unwrap();
            assert!(bytes(&proven.proof) == expected, "the trace is on {device}");
        }
    }
}

/// A trace of which each device has some rows.
#[test]
fn a_trace_in_blocks_of_rows() {
    let fri = Fri::default();
    let config = configs::koala_bear_sponge(fri);
    let air = Mixed::default();
    let (trace, publics): (RowMajorMatrix<_>, _) = air.trace(32);
    let expected = expected(&config, &air, &trace, &publics);
    let blocks = |devices: &[Device], count: usize| -> Vec<Matrix<_>> {
        let parts = trace.values.chunks(trace.values.len() / count).zip(devices.iter().cycle());
        let upload = |(rows, device): (&[_], &Device)| {
            let stream = device.new_stream().unwrap();
            let rows = stream.upload(DeviceField::as_device(rows)).unwrap();
            permute::to_columns(&stream, &rows, trace.width).unwrap()
        };
        parts.map(upload).collect()
    };
    for count in [1, 2, 4] {
        for devices in groups(count).unwrap() {
            let prover = over(&devices, &config, fri);
            let proven = prove(&prover, &air, &*blocks(&devices, count as usize), &publics).unwrap();
            assert!(bytes(&proven.proof) == expected, "{count} devices");
        }
    }
    let devices = devices(2);
    let refused = |devices: &[Device], blocks: &[Matrix<_>]| {
        prove(&over(devices, &config, fri), &air, blocks, &publics).err().expect("it is refused").to_string()
    };
    let error = refused(&devices, &blocks(&devices, 4));
    assert!(error.contains("4 for a prover of 2 devices"), "{error}");
    let error = refused(&devices[..1], &blocks(&devices, 2));
    assert!(error.contains("2 for a prover of 1 devices"), "{error}");
    let mut unequal = blocks(&devices, 2);
    unequal.pop();
    unequal.extend(blocks(&devices[1..], 4).pop());
    let error = refused(&devices, &unequal);
    assert!(error.contains("(16, ") && error.contains("(8, "), "{error}");
    assert!(refused(&devices, &[]).contains("none; there must be one for each device"));
    let elsewhere = blocks(&groups(2).unwrap()[0], 2);
    let error = refused(&devices, &elsewhere);
    assert!(error.contains("not one of the proof's devices"), "{error}");
}

/// Memory adds up, and the report says what each device took and sent.
#[test]
fn memory_and_reports() {
    let fri = Fri::default();
    let config = configs::koala_bear_sponge(fri);
    let air = Mixed { more: 300, ..Mixed::default() };
    let (trace, publics) = air.trace(1 << 10);
    let devices = devices(4);
    let single = prove(&prover(&devices[0], &config, fri), &air, &trace, &publics).unwrap();
    let split = prove(&over(&devices, &config, fri), &air, &trace, &publics).unwrap();
    assert!(bytes(&single.proof) == bytes(&split.proof));
    assert!(single.report.devices.is_empty() && single.report.bytes_sent == 0);

    let report = split.report;
    let names: Vec<&str> = report.devices.iter().map(|share| share.device.as_str()).collect();
    assert_eq!(names, devices.iter().map(ToString::to_string).collect::<Vec<_>>());
    for share in &report.devices {
        let of_one = share.peak_bytes as f64 / single.report.peak_bytes as f64;
        println!("{}: {} bytes, {of_one:.2} of one device's", share.device, share.peak_bytes);
        assert!(of_one <= 0.35, "{} took {of_one:.2} of the memory of one device", share.device);
        assert!(share.peak_bytes <= report.peak_bytes);
        let phases: Vec<&str> = share.phases.iter().map(|phase| phase.name).collect();
        for name in ["extend", "hash", "exchange", "constraints", "open", "reduce", "fold", "query"] {
            assert!(phases.contains(&name), "{phases:?} lacks {name}");
        }
        // The values of its columns for each other device, at least: a quarter of the columns and of the 2^11 rows.
        let values = 3 * (air.more / 4) * (1 << 9) * 4;
        assert!(share.bytes_sent as usize >= values, "{} sent {} bytes", share.device, share.bytes_sent);
    }
    assert_eq!(report.bytes_sent, report.devices.iter().map(|share| share.bytes_sent).sum::<u64>());
    assert!(report.to_string().contains("sent to other devices"), "{report}");
}
