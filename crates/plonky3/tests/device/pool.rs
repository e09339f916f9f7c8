//! Many proofs over several devices.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use p3_field::PrimeCharacteristicRing;
use p3_koala_bear::KoalaBear;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::{Device, Emulation, Options};
use rigel_plonky3::{Error, Policy, Proven, Prover, Queue, prove, prove_batch, setup_batch};

use crate::airs::fibonacci_from;
use crate::configs::{self, Fri};
use crate::small::{Small, numbers};
use crate::support::{self, bytes};
use crate::tables::{self, Squares};

type Witness = (RowMajorMatrix<KoalaBear>, Vec<KoalaBear>);

fn witness(first: u32, rows: usize) -> Witness {
    fibonacci_from(KoalaBear::from_u32(first), KoalaBear::ONE, rows)
}

fn devices(emulation: &Emulation) -> Vec<Device> {
    Device::emulated(emulation, &Options::from_env().unwrap()).unwrap()
}

/// A prover of the same configuration on each device.
macro_rules! provers {
    ($devices:expr, $policy:expr) => {{
        let fri = Fri::default();
        let prover = |device: &Device| {
            Arc::new(support::prover(device, &configs::koala_bear_sponge(fri), fri).with_policy($policy))
        };
        $devices.iter().map(prover).collect::<Vec<_>>()
    }};
}

/// Waits until it is set, in a job. If it never is, the job panics and the test fails, instead of waiting for ever.
fn await_set(flag: &OnceLock<()>, what: &str) {
    let began = Instant::now();
    while flag.get().is_none() {
        assert!(began.elapsed() < Duration::from_secs(300), "{what} within 300 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The launches that a prover makes when it is made.
fn launches_of_a_prover() -> u64 {
    let device = devices(&Emulation::default()).remove(0);
    let _provers = provers!([device.clone()], Policy::default());
    device.activity().launches
}

#[test]
fn proofs_are_those_of_one_device() {
    let expected: Vec<_> = {
        let fri = Fri::default();
        let config = configs::koala_bear_sponge(fri);
        (0..12)
            .map(|i| witness(i, 8 << (i % 3)))
            .map(|(t, p)| support::expected(&config, &numbers(), &t, &p))
            .collect()
    };
    for count in [2, 3, 4, 8] {
        let devices = devices(&Emulation { devices: count, memory_bytes: 1 << 30, ..Emulation::default() });
        let provers = provers!(devices, Policy::default());
        let queue = Queue::over(&provers, 1).unwrap();
        let air: Arc<Small<KoalaBear>> = Arc::new(numbers());
        let tickets: Vec<_> = (0..12u32)
            .map(|i| {
                let (trace, publics) = witness(i, 8 << (i % 3));
                queue.prove(&air, trace, publics)
            })
            .collect();
        for (ticket, expected) in tickets.into_iter().zip(&expected) {
            let Proven { proof, report } = queue.wait(ticket).unwrap().unwrap();
            assert!(bytes(&proof) == *expected, "{count} devices");
            assert!(report.moves.is_empty() && report.fallbacks.is_empty());
        }
        let shares = queue.shares();
        assert_eq!(shares.iter().map(|share| share.jobs).sum::<u64>(), 12);
        assert_eq!(shares.len(), count as usize);
    }
}

/// Proofs go on when a device is lost. The other devices wait until device 1 is lost, so that they do not make all
/// the proofs first.
#[test]
fn a_device_is_lost_in_the_middle_of_fifty_proofs() {
    let launches = launches_of_a_prover();
    let emulation =
        Emulation { devices: 3, lost_after: Some(launches + 150), lost_device: Some(1), ..Emulation::default() };
    // A policy for the CPU does not matter while another device is there.
    for policy in [Policy::default(), Policy { cpu_on_failure: true, ..Policy::default() }] {
        let devices = devices(&emulation);
        let provers = provers!(devices, policy);
        let queue = Queue::over(&provers, 2).unwrap();
        let air: Arc<Small<KoalaBear>> = Arc::new(numbers());
        let expected: Vec<_> = (0..5)
            .map(|i| witness(i, 16))
            .map(|(trace, publics)| support::expected(provers[0].config(), &*air, &trace, &publics))
            .collect();
        let lost = Arc::new(OnceLock::new());
        let tickets: Vec<_> = (0..50u32)
            .map(|i| {
                let ((trace, publics), air, lost) = (witness(i % 5, 16), air.clone(), lost.clone());
                let made = move |prover: &Prover<_>| {
                    let is_lost_one = prover.device().is_some_and(|device| device.to_string() == "emulated:1");
                    if !is_lost_one {
                        await_set(&lost, "device 1 was not lost");
                    }
                    let proven = prove(prover, &*air, &trace, &publics);
                    if is_lost_one && proven.is_err() {
                        lost.get_or_init(|| ());
                    }
                    proven
                };
                (queue.submit(1 << 20, made), i as usize % 5)
            })
            .collect();
        let mut moved = 0;
        for (ticket, i) in tickets {
            let Proven { proof, report } = queue.wait(ticket).unwrap().unwrap();
            assert!(bytes(&proof) == expected[i]);
            assert!(report.fallbacks.is_empty(), "{report}");
            if let [lost] = &report.moves[..] {
                moved += 1;
                assert!(lost.from == "emulated:1" && lost.reason.contains("lost after"), "{lost:?}");
                assert!(report.device != "emulated:1" && report.to_string().contains("began anew"), "{report}");
            }
        }
        let shares = queue.shares();
        assert!((1..=2).contains(&moved), "two proofs at once, and at least one of them was under way: {moved}");
        assert!(shares[1].lost.is_some() && shares[0].lost.is_none() && shares[2].lost.is_none(), "{shares:?}");
        assert_eq!(shares.iter().map(|share| share.jobs).sum::<u64>(), 50);
    }
}

#[test]
fn when_all_devices_are_lost_the_policy_decides() {
    let launches = launches_of_a_prover();
    let emulation = Emulation { devices: 2, lost_after: Some(launches + 60), ..Emulation::default() };
    for cpu_on_failure in [false, true] {
        let devices = devices(&emulation);
        let provers = provers!(devices, Policy { cpu_on_failure, ..Policy::default() });
        let queue = Queue::over(&provers, 1).unwrap();
        let air: Arc<Small<KoalaBear>> = Arc::new(numbers());
        let (trace, publics) = witness(3, 16);
        let tickets: Vec<_> = (0..8).map(|_| queue.prove(&air, trace.clone(), publics.clone())).collect();
        let made: Vec<_> = tickets.into_iter().map(|ticket| queue.wait(ticket).unwrap()).collect();
        assert!(queue.shares().iter().all(|share| share.lost.is_some()));
        let last = made.last().unwrap();
        match (cpu_on_failure, last) {
            (false, Err(Error::Gpu(rigel_gpu::Error::DeviceLost { .. }))) => {}
            (true, Ok(Proven { proof, report })) => {
                p3_uni_stark::verify(provers[0].config(), &*air, proof, &publics).unwrap();
                assert_eq!(report.device, "cpu");
                assert!(report.fallbacks[0].reason.contains("lost"), "{report}");
            }
            (_, made) => panic!("{:?}", made.as_ref().map(|made| &made.report)),
        }
        assert!(cpu_on_failure == made.iter().all(Result::is_ok));
        if cpu_on_failure {
            let reports = || made.iter().flatten().map(|made| &made.report);
            assert!(
                reports().any(|report| !report.moves.is_empty()),
                "one was under way when its device was lost"
            );
        }
    }
}

#[test]
fn batches_have_a_key_on_each_device() {
    let devices = devices(&Emulation { devices: 2, ..Emulation::default() });
    let provers = provers!(devices, Policy::default());
    let mut squares = Squares::new(1, 16);
    let batch = Arc::new(vec![squares.pairs::<KoalaBear>(32, true), squares.table(), tables::numbers(16)]);
    let expected = support::expected_batch(provers[0].config(), &batch);
    let queue = Queue::over(&provers, 1).unwrap();
    let (airs, heights) = (support::airs(&batch), support::heights(&batch));
    let keys = Arc::new(queue.each(|prover| setup_batch(prover, &airs, &heights)).unwrap());
    for _ in 0..6 {
        let (batch, keys) = (batch.clone(), keys.clone());
        queue.submit(1 << 20, move |prover| prove_batch(prover, &support::instances(&batch), keys.of(prover)?));
    }
    let mut made = 0;
    while let Some((_, proven)) = queue.next() {
        assert!(bytes(&proven.unwrap().proof) == expected);
        made += 1;
    }
    assert_eq!(made, 6);
    let stranger = support::prover(&self::devices(&Emulation::default())[0], provers[0].config(), Fri::default());
    assert!(matches!(keys.of(&stranger), Err(Error::Unsupported(_))));
}

/// Devices whose memory differs: the one that is too small for the proof gets none.
#[test]
fn small_memories() {
    let devices = devices(&Emulation { devices: 2, ..Emulation::default() });
    let provers = provers!(devices, Policy::default());
    devices[0].set_memory_limit(Some(devices[0].memory_stats().in_use + (64 << 10)));
    let queue = Queue::over(&provers, 2).unwrap();
    let air: Arc<Small<KoalaBear>> = Arc::new(numbers());
    let (trace, publics) = witness(1, 1 << 10);
    let expected = support::expected(provers[0].config(), &*air, &trace, &publics);
    for _ in 0..4 {
        queue.prove(&air, trace.clone(), publics.clone());
    }
    while let Some((_, proven)) = queue.next() {
        assert!(bytes(&proven.unwrap().proof) == expected);
    }
    let jobs: Vec<u64> = queue.shares().iter().map(|share| share.jobs).collect();
    assert_eq!(jobs, [0, 4]);
}

#[test]
fn proofs_on_several_devices_are_cancelled() {
    let devices = devices(&Emulation { devices: 2, ..Emulation::default() });
    let provers = provers!(devices, Policy::default());
    let queue = Queue::over(&provers, 1).unwrap();
    let air: Arc<Small<KoalaBear>> = Arc::new(numbers());
    let (trace, publics) = witness(1, 64);
    // The first two hold both devices until the last two are cancelled.
    let go_on = Arc::new(OnceLock::new());
    let tickets: Vec<_> = (0..10)
        .map(|i| {
            if i >= 2 {
                return queue.prove(&air, trace.clone(), publics.clone());
            }
            let (go_on, air, trace, publics) = (go_on.clone(), air.clone(), trace.clone(), publics.clone());
            queue.submit(1, move |prover| {
                await_set(&go_on, "the last proofs were not cancelled");
                prove(prover, &*air, &trace, &publics)
            })
        })
        .collect();
    assert!(queue.cancel(tickets[9]) && queue.cancel(tickets[8]));
    go_on.get_or_init(|| ());
    for (i, ticket) in tickets.into_iter().enumerate() {
        let made = queue.wait(ticket).unwrap();
        assert_eq!(made.is_ok(), i < 8, "{:?}", made.map(|made| made.report));
    }
    let tickets: Vec<_> = (0..4).map(|_| queue.prove(&air, trace.clone(), publics.clone())).collect();
    drop(queue);
    assert_eq!(tickets.len(), 4);
}

#[test]
fn wrong_queues_are_refused() {
    let fri = Fri::default();
    let device = devices(&Emulation::default()).remove(0);
    let provers = provers!([device], Policy::default());
    let cpu = Prover::cpu(configs::koala_bear_sponge(fri), &fri.parameters(()), fri.cap_height).unwrap();
    let (one, cpu) = (provers[0].clone(), Arc::new(cpu));
    let refused = |provers: &[Arc<_>], at_once| match Queue::<_, ()>::over(provers, at_once) {
        Err(error) => error.to_string(),
        Ok(queue) => panic!("{queue:?}"),
    };
    assert!(refused(&[], 1).contains("without provers"));
    assert!(refused(std::slice::from_ref(&one), 0).contains("at least 1"));
    assert!(refused(&[one.clone(), one.clone()], 1).contains("emulated:0 is there twice"));
    assert!(refused(&[one, cpu.clone()], 1).contains("the CPU"));
    assert!(Queue::<_, ()>::new(&cpu, 1).is_ok());
}
