//! Seals of segments.

use rigel_risc0::Prover;

use crate::support::{devices, first_segment, guest, options};

/// Every operation of the HAL gives what upstream's CPU HAL gives, in a whole proof.
#[test]
fn operations_equal_upstream() {
    let segment = first_segment(&guest("fibonacci"), &options(&1_000u32.to_le_bytes(), 13));
    for device in devices() {
        Prover::comparing(&device).unwrap().prove_segment(&segment).unwrap();
    }
}
