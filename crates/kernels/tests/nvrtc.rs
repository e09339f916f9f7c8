//! Compiles every kernel for GPUs without one: `RIGEL_CHECK_NVRTC=sm_80,sm_90,sm_120` names the architectures.

use std::sync::atomic::{AtomicUsize, Ordering};

use rigel_gpu::Lock;
use rigel_gpu::testing::check_compilers;
use rigel_kernels::registry::sources;

#[test]
fn every_kernel_compiles_for_every_architecture() {
    let compilers = check_compilers().unwrap_or_else(|error| panic!("{error}"));
    if compilers.is_empty() {
        println!("skipped: RIGEL_CHECK_NVRTC names no architecture");
        return;
    }
    let sources = sources();
    let jobs: Vec<_> =
        compilers.iter().flat_map(|device| sources.iter().map(move |source| (device, source))).collect();
    let (next, failures) = (AtomicUsize::new(0), Lock::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((device, source)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = device.compile(source) {
                        failures.lock().push(format!(
                            "{}: {:?}: {error}",
                            device.properties().name,
                            source.kernels()
                        ));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner();
    assert!(failures.is_empty(), "{} of {} do not compile:\n{}", failures.len(), jobs.len(), failures.join("\n"));
}
