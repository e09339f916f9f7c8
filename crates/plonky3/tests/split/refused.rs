//! Devices that can't make a proof together, and devices that are lost.

use rigel_gpu::{Device, Emulation, Options};
use rigel_plonky3::{Error, Policy, Prover, plan, prove, prove_with_preprocessed, setup_preprocessed};

use crate::air::Mixed;
use crate::configs::{self, Fri};
use crate::support::{bytes, check_with, expected, upstream};
use crate::{devices, over};

#[test]
fn wrong_devices() {
    let fri = Fri::default();
    let config = configs::koala_bear_sponge(fri);
    let refused = |devices: &[Device], words: &[&str]| {
        let error = Prover::over(devices, config.clone(), &fri.parameters(()), fri.cap_height).err().unwrap();
        assert!(matches!(error, Error::Devices(_)), "{error:?}");
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
    };
    let devices = devices(4);
    refused(&[], &["no devices"]);
    refused(&devices[..3], &["3 devices", "power of two", "such as 2"]);
    refused(&[devices[1].clone(), devices[1].clone()], &["emulated:1", "twice"]);
    // The same device, opened again.
    refused(&[devices[0].clone(), crate::devices(1)[0].clone()], &["emulated:0", "twice"]);
}

#[test]
fn more_devices_than_rows_and_too_high_degrees() {
    let fri = Fri::default();
    let prover = over(&devices(4), &configs::koala_bear_sponge(fri), fri);
    let refused = |air: Mixed, rows: usize, words: &[&str]| {
        let (trace, publics) = air.trace(rows);
        let error = prove(&prover, &air, &trace, &publics).err().unwrap();
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
        let unplanned = plan(&prover, &air, rows.ilog2() as usize).unwrap_err();
        assert_eq!(unplanned.to_string(), error.to_string());
    };
    refused(Mixed::default(), 2, &["4 devices", "2 rows"]);
    refused(Mixed { degree: 5, ..Mixed::default() }, 16, &["4 chunks", "blowup of 2"]);

    // The CPU has no such limits.
    let prover = prover.with_policy(Policy { cpu_on_failure: true, ..Policy::default() });
    for (air, rows, word) in
        [(Mixed::default(), 2, "2 rows"), (Mixed { degree: 5, ..Mixed::default() }, 16, "4 chunks")]
    {
        let (trace, publics) = air.trace(rows);
        let expected = expected(prover.config(), &air, &trace, &publics);
        let proven = upstream(|| prove(&prover, &air, &trace, &publics).unwrap());
        assert!(bytes(&proven.proof) == expected);
        assert!(proven.report.fallbacks[0].reason.contains(word), "{:?}", proven.report.fallbacks);
    }
}

/// Preprocessed columns are where the prover that set them up has them, which need not be where a proof reads them.
#[test]
fn preprocessed_columns_of_other_devices() {
    let fri = Fri::default();
    let config = configs::koala_bear_sponge(fri);
    let devices = devices(4);
    let air = Mixed { preprocessed: Some(16), ..Mixed::default() };
    let (trace, publics) = air.trace(16);
    for (found, needed) in [(1, 2), (2, 1), (2, 4), (4, 2)] {
        let key = setup_preprocessed(&over(&devices[..found], &config, fri), &air, 4).unwrap().unwrap();
        let prover = over(&devices[..needed], &config, fri);
        let error = prove_with_preprocessed(&prover, &air, &trace, &publics, Some(&key)).err().unwrap();
        assert!(matches!(error, Error::Preprocessed { table: 0, .. }), "{error:?}");
        for words in [format!("other devices: {found} (emulated:0"), format!("this one has {needed} (emulated:0")]
        {
            assert!(error.to_string().contains(&words), "{error}");
        }
        check_with(&prover, &air, &trace, &publics);
    }
    let key = setup_preprocessed(&over(&devices[..2], &config, fri), &air, 4).unwrap().unwrap();
    let prover = over(&devices[2..], &config, fri);
    let error = prove_with_preprocessed(&prover, &air, &trace, &publics, Some(&key)).err().unwrap();
    assert!(matches!(error, Error::Preprocessed { table: 0, .. }), "{error:?}");
    let words = "other devices: 2 (emulated:0, emulated:1), this one has 2 (emulated:2, emulated:3); call \
                 setup_preprocessed";
    assert!(error.to_string().contains(words), "{error}");
}

/// The error names the lost device, or the policy proves on the CPU and the report says why.
#[test]
fn a_lost_device() {
    let options = Options::from_env().unwrap();
    let fri = Fri::default();
    let config = configs::koala_bear_sponge(fri);
    let air = Mixed::default();
    let (trace, publics) = air.trace(16);
    let lost = || {
        let emulation = Emulation { devices: 2, lost_after: Some(20), ..Emulation::default() };
        let second = Device::emulated(&emulation, &options).unwrap().remove(1);
        over(&[devices(1).remove(0), second], &config, fri)
    };
    let error = prove(&lost(), &air, &trace, &publics).err().unwrap();
    assert!(error.to_string().contains("emulated:1 was lost"), "{error}");

    let prover = lost().with_policy(Policy { cpu_on_failure: true, ..Policy::default() });
    let expected = expected(&config, &air, &trace, &publics);
    let proven = upstream(|| prove(&prover, &air, &trace, &publics).unwrap());
    assert!(bytes(&proven.proof) == expected);
    assert!(proven.report.fallbacks[0].reason.contains("emulated:1 was lost"), "{:?}", proven.report.fallbacks);
}
