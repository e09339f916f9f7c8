//! Which workloads are offered over which fields and hashes, and what is compiled for them ahead of time.

use clap::ValueEnum;
use rigel_gpu::{Device, Selector};
use rigel_plonky3::Policy;
use rigel_workloads::{Choice, Field, Fri, Hash, Workload};

#[test]
fn every_combination_is_there_or_is_said_not_to_be() {
    let mut offered = 0;
    for &workload in Workload::value_variants() {
        for &field in Field::value_variants() {
            for &hash in Hash::value_variants() {
                let log_rows = workload.default_log_rows();
                let choice = Choice { workload, log_rows, field, hash, fri: Fri::default() };
                let made = choice.statement().is_ok();
                assert_eq!(made, choice.check().is_ok(), "{choice}");
                offered += usize::from(made);
            }
        }
    }
    assert_eq!(offered, if cfg!(feature = "full") { 20 } else { 5 });
}

#[test]
fn what_is_compiled_ahead_is_what_a_proof_needs() {
    for workload in [Workload::Fibonacci, Workload::Lookups] {
        let fri = Fri { queries: 2, pow_bits: 1, batch_pow_bits: 1, ..Fri::default() };
        let choice = Choice { workload, log_rows: 6, field: Field::KoalaBear, hash: Hash::Keccak, fri };
        let [ahead, alone] = [true, false].map(|ahead| {
            let device = Device::open(Selector::Emulated(0)).unwrap();
            let mut statement = choice.statement().unwrap();
            statement.generate();
            let kernels = if ahead { statement.compile(&device).unwrap() } else { 0 };
            assert_eq!(kernels > 0, ahead, "{workload}");
            statement.prepare(Some(&device), Policy::default()).unwrap();
            statement.prove().unwrap();
            device.keep_stats().values
        });
        // A program with another text would be one value more that the device keeps.
        assert_eq!(ahead, alone, "{workload}");
    }
}
