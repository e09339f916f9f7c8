//! Many proofs over several devices, of which some are lost.

use std::sync::Arc;

use rigel_gpu::{Device, Emulation, Error, Options};
use rigel_stwo::{Policy, Queue};
use rigel_stwo_workloads::{AllWorkloads, InteractionSource, Workload, benchmark_config, prove, twiddles};
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::prover::backend::simd::SimdBackend;

use crate::random::Cuda;

const LOG_SIZE: u32 = 5;

/// Two emulated devices; `lost`, by number, is lost after some launches of its first proof.
fn devices(lost: &[usize]) -> Vec<Device> {
    let options = Options::from_env().unwrap();
    let open = |number: usize| {
        let lost_after = lost.contains(&number).then_some(20);
        let emulation = Emulation { devices: 2, lost_after, ..Emulation::default() };
        Device::emulated(&emulation, &options).unwrap().remove(number)
    };
    [0, 1].map(open).to_vec()
}

macro_rules! proof {
    ($backend:ty, $seed:expr, $twiddles:expr) => {{
        let statement = <$backend>::statement(Workload::WideFibonacci, LOG_SIZE, $seed).unwrap();
        let (witness, source) = (statement.witness(), InteractionSource::Generate);
        let config = benchmark_config();
        let proof =
            prove::<$backend, Blake2sMerkleChannel>(&*statement, &witness, config, false, $twiddles, source);
        postcard::to_allocvec(&proof.unwrap()).unwrap()
    }};
}

/// Upstream's proof.
fn upstream(seed: u64) -> Vec<u8> {
    let log_rows = SimdBackend::statement(Workload::WideFibonacci, LOG_SIZE, seed).unwrap().log_rows();
    proof!(SimdBackend, seed, &twiddles::<SimdBackend>(log_rows, &benchmark_config()))
}

#[test]
fn proofs_over_devices() {
    for lost in [&[] as &[usize], &[1]] {
        let queue = Queue::over(&devices(lost)).unwrap();
        let log_rows = Cuda::statement(Workload::WideFibonacci, LOG_SIZE, 0).unwrap().log_rows();
        let each = Arc::new(queue.each(|| twiddles::<Cuda>(log_rows, &benchmark_config())).unwrap());
        let submit = |seed: u64| {
            let each = each.clone();
            queue.submit(0, move || Ok(proof!(Cuda, seed, each.here()?)))
        };
        let tickets: Vec<_> = (0..4).map(submit).collect();
        let mut moves = Vec::new();
        for (seed, ticket) in (0..).zip(tickets) {
            let (proof, report) = queue.wait(ticket).unwrap().unwrap();
            assert!(proof == upstream(seed), "the proof of {seed} differs");
            assert!(report.launches > 0 && report.fallbacks.is_empty(), "{report}");
            moves.extend(report.moves.into_iter().map(|lost| lost.from));
        }
        assert!(queue.next().is_none());
        let shares = queue.shares();
        assert_eq!(shares.iter().map(|share| share.jobs).sum::<u64>(), 4);
        match lost {
            [] => assert!(moves.is_empty() && shares.iter().all(|share| share.lost.is_none()), "{shares:?}"),
            _ => {
                assert_eq!(moves, ["emulated:1"]);
                assert!(shares[0].lost.is_none() && shares[1].lost.is_some(), "{shares:?}");
            }
        }
    }
}

/// A queue whose devices are all lost falls back to the CPU only if the policy says so.
#[test]
fn without_a_device_left() {
    let queue = Queue::over(&devices(&[0, 1])).unwrap();
    let log_rows = SimdBackend::statement(Workload::WideFibonacci, LOG_SIZE, 0).unwrap().log_rows();
    let on_device = move |seed| proof!(Cuda, seed, &twiddles::<Cuda>(log_rows, &benchmark_config()));
    // The first proof waits for the second to begin, so that each loses a device.
    let (begin, begun) = std::sync::mpsc::channel::<()>();
    let strict = queue.submit(0, move || {
        let _ = begun.recv();
        Ok(on_device(1))
    });
    let mut begin = Some(begin);
    let lenient_on_device = move || {
        drop(begin.take());
        Ok(on_device(2))
    };
    let lenient = queue.submit_with_fallback(0, Policy::AUTO, lenient_on_device, || upstream(2));
    let error = queue.wait(strict).unwrap().err().unwrap();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    let (proof, report) = queue.wait(lenient).unwrap().unwrap();
    assert!(proof == upstream(2));
    assert!(report.device == "cpu" && report.fallbacks[0].reason.contains("was lost"), "{report}");
    assert!(!report.moves.is_empty() && queue.shares().iter().all(|share| share.lost.is_some()), "{report}");
}

#[test]
fn what_is_refused_and_what_is_cancelled() {
    let devices = devices(&[]);
    assert!(Queue::<()>::over(&[]).is_err());
    assert!(Queue::<()>::over(&[devices[0].clone(), devices[0].clone()]).is_err());

    let queue = Queue::over(&devices[..1]).unwrap();
    let each = queue.each(|| 1).unwrap();
    let error = rigel_stwo::on(&devices[1], || each.here().err()).unwrap();
    assert!(error.to_string().contains("emulated:1 is not a device"), "{error}");

    // The second one waits, until the first one is told to end.
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let first = queue.submit(0, move || {
        ended.recv().unwrap();
        Ok(())
    });
    let second = queue.submit(0, || Ok(()));
    assert!(queue.cancel(second));
    assert!(matches!(queue.wait(second).unwrap(), Err(Error::Cancelled)));
    end.send(()).unwrap();
    queue.wait(first).unwrap().unwrap();
}
