//! Seals and receipts.

use std::collections::BTreeSet;

use rigel_gpu::{Device, Emulation, Options, Selector};
use rigel_risc0::{Preflight, Prover, compare_operations, verify, verify_seal};

use crate::support::{busiest_segment, devices, guest, options};

/// Every operation of the HAL gives what upstream's CPU HAL gives, on random values.
#[test]
fn operations_equal_upstream() {
    for device in devices() {
        compare_operations(&device, 7).unwrap();
    }
}

/// A whole proof, with the witness, equals upstream's at every operation of the HAL.
#[test]
fn a_whole_proof_equals_upstream_step_by_step() {
    let segment = busiest_segment(&guest("sort"), &options(&100u32.to_le_bytes(), 13));
    for device in devices() {
        Prover::comparing(&device, true).unwrap().prove_segment(&segment).unwrap();
    }
}

/// Seals equal those of upstream's CPU prover, word for word, and upstream's verifier accepts them. A second proof with
/// the same prover is the same. A changed word is refused. The host touches roots, openings and queries, not columns:
/// the preflight of such a segment alone has 6 MiB, its columns 12.
#[test]
fn seals_equal_upstream() {
    let number = 100u32.to_le_bytes();
    let guests: [(&str, &[u8]); 5] = [
        ("sha256", b"to be hashed"),
        ("fibonacci", &number),
        ("sort", &number),
        ("memory", &number),
        ("echo", b"to the journal"),
    ];
    let devices = devices();
    let provers: Vec<Prover> =
        devices.iter().map(|device| Prover::new(std::slice::from_ref(device)).unwrap()).collect();
    for (i, (name, input)) in guests.into_iter().enumerate() {
        let preflight = Preflight::new(&busiest_segment(&guest(name), &options(input, 13))).unwrap();
        let theirs = Prover::on_cpu().prove_preflight(&preflight).unwrap().seal;
        for (device, prover) in devices.iter().zip(&provers) {
            for _ in i.min(1)..2 {
                let mut ours = prover.prove_preflight(&preflight).unwrap();
                assert!(ours.seal == theirs, "{name} on {device}");
                assert!(ours.host_bytes < 2 << 20, "the host copied {} bytes", ours.host_bytes);
                assert!(ours.report.bytes_down < 1 << 20, "{} bytes came back", ours.report.bytes_down);
                assert!(ours.report.downloads <= 16, "{} copies back", ours.report.downloads);
                // The plan is by the row; tables for transforms are beside it.
                let (peak, planned) = (ours.report.peak_bytes, prover.segment_bytes(13).unwrap());
                assert!(peak > planned / 2 && peak < planned + (4 << 20), "{peak} bytes, planned {planned}");
                verify_seal(&ours.seal).unwrap();
                let middle = ours.seal.len() / 2;
                ours.seal[middle] ^= 1;
                assert!(verify_seal(&ours.seal).is_err());
            }
        }
    }
}

/// A run of several segments, which two devices share, becomes a receipt for its journal and image, and for no other.
/// Programs that fail, do not end, or miss their input say so, and are no reason for the next proof to fail.
#[test]
fn receipts_are_accepted() {
    let program = guest("fibonacci");
    let run = options(&1_000u32.to_le_bytes(), 14);
    let emulation = Emulation { devices: 2, ..Emulation::from_env().unwrap() };
    let devices = Device::emulated(&emulation, &Options::from_env().unwrap()).unwrap();
    let prover = Prover::new(&devices).unwrap();
    let failures = [
        (guest("fails"), run.clone(), "this guest fails on purpose"),
        (guest("endless"), rigel_risc0::RunOptions { max_cycles: Some(20_000), ..run.clone() }, "did not end"),
        (guest("fibonacci"), options(b"1", 14), "the input is no number of four bytes"),
    ];
    for (program, options, why) in failures {
        let failure = prover.prove(&program, &options).unwrap_err().to_string();
        assert!(failure.contains(why), "{failure}");
    }
    let proven = prover.prove(&program, &run).unwrap();
    assert!(proven.segments.len() > 1);
    let used: BTreeSet<&str> = proven.segments.iter().map(|segment| &*segment.report.device).collect();
    assert_eq!(used.len(), 2, "{used:?}");
    assert_eq!(proven.run.journal[..4], 1_000u32.to_le_bytes());
    for segment in &proven.segments {
        let names: Vec<&str> = segment.stages.iter().map(|stage| stage.name).collect();
        assert_eq!(names, ["execute", "preflight", "prove", "verify"]);
    }
    verify(&proven.receipt, program.image_id()).unwrap();

    assert!(verify(&proven.receipt, guest("sort").image_id()).is_err());
    let mut other = proven.receipt.clone();
    other.journal.bytes[0] ^= 1;
    assert!(verify(&other, program.image_id()).is_err());
    assert!(Prover::new(&[]).is_err_and(|error| error.to_string().contains("no devices")));
    let device = Device::open(Selector::Emulated(0)).unwrap();
    assert!(Prover::new(&[device.clone(), device]).is_err_and(|error| error.to_string().contains("twice")));
}
