//! Seals and receipts.

use rigel_risc0::{Preflight, Prover, verify, verify_seal};

use crate::support::{devices, first_segment, guest, options};

/// Every operation of the HAL gives what upstream's CPU HAL gives, in a whole proof.
#[test]
fn operations_equal_upstream() {
    let segment = first_segment(&guest("fibonacci"), &options(&1_000u32.to_le_bytes(), 13));
    for device in devices() {
        Prover::comparing(&device, true).unwrap().prove_segment(&segment).unwrap();
    }
}

/// Seals equal those of upstream's CPU prover, word for word, and upstream's verifier accepts them. A second proof with
/// the same prover is the same. A changed word is refused.
#[test]
fn seals_equal_upstream() {
    let segment = first_segment(&guest("sha256"), &options(b"to be hashed", 13));
    let preflight = Preflight::new(&segment).unwrap();
    let theirs = Prover::on_cpu().prove_preflight(&preflight).unwrap().seal;
    for device in devices() {
        let prover = Prover::new(&[device.clone()]).unwrap();
        for _ in 0..2 {
            let mut ours = prover.prove_preflight(&preflight).unwrap().seal;
            assert!(ours == theirs, "{device}");
            verify_seal(&ours).unwrap();
            let middle = ours.len() / 2;
            ours[middle] ^= 1;
            assert!(verify_seal(&ours).is_err());
        }
    }
}

/// A run of several segments becomes a receipt for its journal and image, and for no other.
#[test]
fn receipts_are_accepted() {
    let program = guest("fibonacci");
    let options = options(&1_000u32.to_le_bytes(), 14);
    let prover = Prover::new(&devices()[..1]).unwrap();
    // A program that fails is no reason for the next proof to fail.
    let failure = prover.prove(&guest("fails"), &options).unwrap_err().to_string();
    assert!(failure.contains("this guest fails on purpose"), "{failure}");
    let proven = prover.prove(&program, &options).unwrap();
    assert!(proven.segments.len() > 1);
    assert_eq!(proven.run.journal[..4], 1_000u32.to_le_bytes());
    verify(&proven.receipt, program.image_id()).unwrap();

    assert!(verify(&proven.receipt, guest("sort").image_id()).is_err());
    let mut other = proven.receipt.clone();
    other.journal.bytes[0] ^= 1;
    assert!(verify(&other, program.image_id()).is_err());
}
