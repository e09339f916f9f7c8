//! Tests of which workloads are offered over which fields and hashes.

use clap::ValueEnum;
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
                assert_eq!(made, choice.check().is_ok() && choice.built().is_ok(), "{choice}");
                offered += usize::from(made);
            }
        }
    }
    assert_eq!(offered, if cfg!(feature = "full") { 20 } else { 5 });
}
