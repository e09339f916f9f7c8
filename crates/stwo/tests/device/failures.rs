//! Failures give an error that names the cause, and the device stays usable.

use rigel_gpu::{Device, Emulation, Error, Options};
use rigel_stwo::{BaseColumn, Policy, catch, with_fallback};
use rigel_stwo_workloads::{AllWorkloads, InteractionSource, Workload, benchmark_config, prove, twiddles};
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::prover::backend::Column;
use stwo::prover::mempool::BaseColumnPool;
use stwo::prover::poly::circle::{CircleCoefficients, PolyOps};

use crate::random::{Cuda, bases, evaluation, on_devices, rng};

fn proof(log_size: u32) -> Result<usize, Error> {
    catch(|| {
        let statement = Cuda::statement(Workload::WideFibonacci, log_size, 1).unwrap();
        let config = benchmark_config();
        let twiddles = twiddles::<Cuda>(statement.log_rows(), &config);
        let witness = statement.witness();
        let source = InteractionSource::Generate;
        let proof = prove::<Cuda, Blake2sMerkleChannel>(&*statement, &witness, config, false, &twiddles, source);
        postcard::to_allocvec(&proof.unwrap()).unwrap().len()
    })
}

#[test]
fn a_trace_beyond_memory() {
    on_devices(|stream| {
        let device = stream.device();
        let expected = proof(5).unwrap();
        let in_use = device.memory_stats().in_use;
        device.set_memory_limit(Some(in_use + (1 << 20)));
        let error = proof(12).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        // All memory was freed, and smaller proofs work.
        device.set_memory_limit(None);
        assert_eq!(proof(5).unwrap(), expected);
    });
}

#[test]
fn the_cpu_where_the_policy_allows_it() {
    on_devices(|stream| {
        let device = stream.device();
        let make = |log_size| move || proof(log_size).unwrap_or(0);
        let (on_device, report) = with_fallback(Ok(device.clone()), Policy::AUTO, make(5), || 0).unwrap();
        assert!(on_device > 0 && report.fallbacks.is_empty(), "{report}");
        assert!(report.launches > 0);

        device.set_memory_limit(Some(device.memory_stats().in_use + (1 << 20)));
        let error = with_fallback(Ok(device.clone()), Policy::default(), or_fail_proof(12), || 0).err();
        assert!(matches!(error, Some(Error::OutOfMemory { .. })), "{error:?}");
        let (made, report) = with_fallback(Ok(device.clone()), Policy::AUTO, or_fail_proof(12), || 7).unwrap();
        device.set_memory_limit(None);
        assert_eq!((made, report.device.as_str(), report.fallbacks[0].ran_on), (7, "cpu", "CPU"));

        // What is wrong on the CPU, too, is an error.
        let wrong = || Error::Shape { operation: "columns", detail: "a column too few".into() };
        let refused =
            with_fallback(Ok(device.clone()), Policy::AUTO, || rigel_stwo::or_fail(Err(wrong()), "prove"), || 7);
        assert!(matches!(refused, Err(Error::Shape { .. })), "{:?}", refused.err());

        let missing = || Err(Error::Disabled);
        assert!(
            with_fallback(missing(), Policy { cpu_on_failure: true, ..Policy::default() }, || 0, || 7).is_err()
        );
        assert_eq!(with_fallback(missing(), Policy::AUTO, || 0, || 7).unwrap().0, 7);
    });
}

/// A proof whose failure is a panic of the backend.
fn or_fail_proof(log_size: u32) -> impl FnOnce() -> usize {
    move || rigel_stwo::or_fail(proof(log_size), "prove")
}

#[test]
fn a_device_that_is_lost() {
    // Lose the device at several points of a proof.
    for after in [0, 3, 20, 45] {
        let emulation = Emulation { lost_after: Some(after), ..Emulation::default() };
        let device: Device = Device::emulated(&emulation, &Options::from_env().unwrap()).unwrap().remove(0);
        let error = rigel_stwo::on(&device, || proof(6)).unwrap_err();
        assert!(matches!(error, Error::DeviceLost { .. }), "after {after} launches: {error}");
    }
}

#[test]
fn a_panic_names_the_task_and_the_cause() {
    on_devices(|_| {
        let small = Cuda::precompute_twiddles(CanonicCoset::new(3).half_coset());
        let column = evaluation::<Cuda>(CanonicCoset::new(8).circle_domain(), &bases(&mut rng(1), 256));
        let work = std::panic::AssertUnwindSafe(|| column.interpolate_with_twiddles(&small));
        let Err(panic) = std::panic::catch_unwind(work) else { panic!("the twiddles are too few") };
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.starts_with("CudaBackend could not interpolate a column: "), "{message}");
        assert!(message.contains("2^8"), "{message}");
    });
}

#[test]
fn columns_of_the_wrong_length() {
    on_devices(|_| {
        let wrong = |work: &(dyn Fn() + std::panic::RefUnwindSafe)| std::panic::catch_unwind(work).is_err();
        assert!(wrong(&|| drop(evaluation::<Cuda>(CanonicCoset::new(4).circle_domain(), &bases(&mut rng(1), 8)))));
        assert!(wrong(&|| drop(CircleCoefficients::<Cuda>::new(BaseColumn::zeros(12)))));
        let twiddles = Cuda::precompute_twiddles(CanonicCoset::new(6).half_coset());
        let polynomial = CircleCoefficients::<Cuda>::new(bases(&mut rng(1), 16).into_iter().collect());
        let smaller = catch(|| {
            Cuda::evaluate(&polynomial, CanonicCoset::new(3).circle_domain(), &twiddles);
        });
        let error = smaller.unwrap_err().to_string();
        assert!(error.contains("2^3") && error.contains("2^4"), "{error}");
        // The device works afterwards.
        let pool = BaseColumnPool::new();
        let evaluated = Cuda::evaluate_polynomials(vec![polynomial], 1, &twiddles, false, &pool);
        assert_eq!(evaluated[0].evals.values.len(), 32);
    });
}

#[test]
fn columns_of_another_device() {
    let devices =
        Device::emulated(&Emulation { devices: 2, ..Emulation::default() }, &Options::from_env().unwrap())
            .unwrap();
    let column = rigel_stwo::on(&devices[0], || bases(&mut rng(1), 64).into_iter().collect::<BaseColumn>());
    let twiddles = rigel_stwo::on(&devices[1], || Cuda::precompute_twiddles(CanonicCoset::new(6).half_coset()));
    let domain = CanonicCoset::new(6).circle_domain();
    let mixed = rigel_stwo::on(&devices[1], || {
        catch(|| {
            let evaluation = stwo::prover::poly::circle::CircleEvaluation::new(domain, column);
            Cuda::interpolate(evaluation, &twiddles)
        })
    });
    let error = mixed.unwrap_err().to_string();
    assert!(error.contains("emulated:0") && error.contains("emulated:1"), "{error}");
}
