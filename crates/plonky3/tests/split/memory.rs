//! The memory of each device is as planned, and a proof that does not fit is refused before it begins.

use rigel_gpu::Device;
use rigel_plonky3::{Error, Plan, Report, plan, plan_batch, prove, prove_batch, setup_batch};

use crate::air::Mixed;
use crate::configs::{self, Fri};
use crate::support::{Filled, airs, bytes, heights, instances};
use crate::tables::{Squares, Table, numbers, shuffled};
use crate::{devices, over};

/// Compares a proof's memory with its plan, with exactly as much memory as it says, and with a byte less.
fn compare<P: PartialEq + std::fmt::Debug>(
    devices: &[Device],
    what: &str,
    plan: impl Fn() -> Plan,
    prove: impl Fn() -> rigel_plonky3::Result<(P, Report)>,
) {
    // The first proof leaves tables of roots behind.
    let (expected, _) = prove().unwrap();
    let peak = plan().peak().bytes;
    let in_use: Vec<usize> = devices.iter().map(|device| device.memory_stats().in_use).collect();
    let limit = |less: usize| {
        for (device, in_use) in devices.iter().zip(&in_use) {
            device.set_memory_limit(Some(in_use + peak - less));
        }
    };
    limit(0);
    let planned = plan();
    assert!(planned.fits(), "{what}\n{planned}");
    let (made, report) = prove().unwrap();
    assert!(made == expected, "{what}");
    let taken: Vec<usize> = report.devices.iter().map(|share| share.peak_bytes).collect();
    assert_eq!(taken.len(), devices.len());
    assert!(taken.iter().all(|taken| *taken <= peak), "{what}: {taken:?} taken\n{planned}");
    assert!(taken.iter().all(|taken| taken * 10 >= peak * 6), "{what}: {taken:?} taken\n{planned}");
    assert!(taken.iter().any(|taken| taken * 10 >= peak * 8), "{what}: {taken:?} taken\n{planned}");

    limit(1);
    let refused = prove().unwrap_err();
    let Error::DoesNotFit { needed, available, .. } = refused else { panic!("{what}: {refused}") };
    assert_eq!((needed, available), (peak, peak - 1), "{what}");
    devices.iter().for_each(|device| device.set_memory_limit(None));
}

#[test]
fn one_table() {
    for count in [2, 4, 8] {
        let devices = devices(count);
        for (log_blowup, more, log_rows) in [(1, 300, 10), (2, 20, 12), (3, 150, 9), (1, 3, 13)] {
            let fri = Fri { log_blowup, ..Fri::default() };
            let prover = over(&devices, &configs::koala_bear_sponge(fri), fri);
            let air = Mixed { more, ..Mixed::default() };
            let (trace, publics) = air.trace(1 << log_rows);
            let what = format!("{count} devices, {more} columns of 2^{log_rows} rows, blowup 2^{log_blowup}");
            compare(
                &devices,
                &what,
                || plan(&prover, &air, log_rows).unwrap(),
                || prove(&prover, &air, &trace, &publics).map(|proven| (bytes(&proven.proof), proven.report)),
            );
        }
    }
}

#[test]
fn batches_with_lookups() {
    for count in [2, 4, 8] {
        let devices = devices(count);
        let mut squares = Squares::new(2, 1 << 9);
        let wide = squares.wide(1 << 9, 100);
        let pairs = squares.pairs(1 << 11, true);
        let first: Vec<Filled<Table<_>, _>> = vec![wide, pairs, squares.table(), numbers(1 << 10), shuffled(2, 1)];
        let second = vec![shuffled(1, 1 << 12), numbers(1 << 12)];
        for (log_blowup, tables) in [(1, &first), (2, &first), (1, &second)] {
            let fri = Fri { log_blowup, ..Fri::default() };
            let prover = over(&devices, &configs::koala_bear_sponge(fri), fri);
            let key = setup_batch(&prover, &airs(tables), &heights(tables)).unwrap();
            let what = format!("{count} devices, {} tables, blowup 2^{log_blowup}", tables.len());
            compare(
                &devices,
                &what,
                || plan_batch(&prover, &airs(tables), &key).unwrap(),
                || {
                    let proven = prove_batch(&prover, &instances(tables), &key)?;
                    Ok((bytes(&proven.proof), proven.report))
                },
            );
        }
    }
}
