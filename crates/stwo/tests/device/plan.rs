//! Plans of device memory, and proofs that do not fit.

use rigel_gpu::{Device, Error};
use rigel_stwo::{Plan, measure, plan};
use rigel_stwo_workloads::{
    AllWorkloads, InteractionSource, Workload, benchmark_config, proof_size, prove, twiddles,
};
use stwo::core::pcs::PcsConfig;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::prover::backend::simd::SimdBackend;

use crate::proofs::{config, made};
use crate::random::{Cuda, on_devices};

fn planned(device: &Device, workload: Workload, log_size: u32, config: PcsConfig, store: bool) -> Plan {
    let statement = Cuda::statement(workload, log_size, 5).unwrap();
    plan(device, &proof_size(&*statement, device, config, store)).unwrap()
}

/// The proof of a workload, made as planned, with its peak of memory and whether its columns were on the host.
fn run(plan: &Plan, workload: Workload, log_size: u32) -> rigel_gpu::Result<(Vec<u8>, usize, bool)> {
    let prove = || made::<Cuda, Blake2sMerkleChannel>(workload, log_size, benchmark_config(), false);
    let (proof, report) = plan.run(prove)?;
    let in_batches = report.fallbacks.iter().any(|fallback| fallback.ran_on.contains("batches of columns"));
    Ok((proof, report.peak_bytes, in_batches))
}

/// A plan is not less than what a proof takes, and not much more.
#[test]
fn plans_are_of_what_proofs_take() {
    on_devices(|stream| {
        let device = stream.device();
        for (workload, log_size, config, store) in [
            (Workload::WideFibonacci, 11, benchmark_config(), false),
            // Large enough for leaves to be begun while columns travel, on the emulated device.
            (Workload::WideFibonacci, 14, benchmark_config(), false),
            (Workload::WideFibonacci, 10, config(2, 10, 0, 2), true),
            (Workload::Plonk, 12, benchmark_config(), false),
            (Workload::Plonk, 11, benchmark_config(), true),
            (Workload::StateMachine, 12, config(3, 10, 0, 1), false),
            (Workload::Xor, 11, benchmark_config(), false),
            (Workload::Poseidon2, 10, benchmark_config(), false),
        ] {
            let plan = planned(device, workload, log_size, config, store);
            assert!(plan.fits() && plan.batch_bytes.is_none(), "{plan}");
            let statement = Cuda::statement(workload, log_size, 5).unwrap();
            let (witness, twiddles) = (statement.witness(), twiddles::<Cuda>(statement.log_rows(), &config));
            let (_, report) = measure(|| {
                let source = InteractionSource::Generate;
                prove::<Cuda, Blake2sMerkleChannel>(&*statement, &witness, config, store, &twiddles, source)
                    .unwrap()
            })
            .unwrap();
            let (peak, planned) = (report.peak_bytes, plan.peak().bytes);
            let phases: Vec<_> = report.phases.iter().map(|phase| (phase.name, phase.memory_bytes)).collect();
            let what = format!("{workload} of 2^{log_size}: {peak} bytes taken, planned:\n{plan}\n{phases:?}");
            assert!(peak <= planned && planned <= peak * 3 / 2, "{what}");
        }
    });
}

#[test]
fn what_does_not_fit_is_proved_in_batches_or_refused_at_once() {
    on_devices(|stream| {
        let (device, workload, log_size) = (stream.device(), Workload::WideFibonacci, 12);
        let expected = made::<SimdBackend, Blake2sMerkleChannel>(workload, log_size, benchmark_config(), false);
        // What the device keeps for later proofs is there.
        made::<Cuda, Blake2sMerkleChannel>(workload, log_size, benchmark_config(), false);
        let planned = || planned(device, workload, log_size, benchmark_config(), false);
        let whole = planned().peak().bytes;
        let in_use = device.memory_stats().in_use;
        let limit = in_use + whole * 3 / 5;
        device.set_memory_limit(Some(limit));
        let plan = planned();
        let (proof, peak, in_batches) = run(&plan, workload, log_size).unwrap();
        assert!(proof == expected && in_batches, "{plan}");
        assert!(plan.batch_bytes.is_some() && in_use + peak <= limit, "{peak} bytes taken\n{plan}");

        // Too little even for the trees: nothing is tried.
        device.set_memory_limit(Some(in_use + (1 << 20)));
        let (plan, before) = (planned(), device.activity());
        let error = run(&plan, workload, log_size).unwrap_err();
        assert!(matches!(error, Error::DoesNotFit { available, .. } if available <= 1 << 20), "{error}");
        assert!(error.to_string().contains("B are available"), "{error}");
        let after = device.activity();
        assert_eq!((after.launches, after.uploads), (before.launches, before.uploads));
        device.set_memory_limit(None);
    });
}

/// A plan does not know of memory that is taken after it was made.
#[test]
fn memory_that_runs_out_in_the_middle() {
    on_devices(|stream| {
        let (device, workload, log_size) = (stream.device(), Workload::WideFibonacci, 12);
        let expected = made::<Cuda, Blake2sMerkleChannel>(workload, log_size, benchmark_config(), false);
        let plan = planned(device, workload, log_size, benchmark_config(), false);
        assert!(plan.batch_bytes.is_none());
        device.set_memory_limit(Some(device.memory_stats().in_use + plan.peak().bytes * 3 / 5));
        let (proof, _, in_batches) = run(&plan, workload, log_size).unwrap();
        device.set_memory_limit(None);
        assert!(proof == expected && in_batches);
    });
}
