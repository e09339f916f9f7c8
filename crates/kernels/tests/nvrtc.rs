//! Whether every kernel compiles for GPUs, on a machine without one: `RIGEL_CHECK_NVRTC=sm_80,sm_90,sm_120` names the
//! architectures.

use rigel_gpu::testing::check_compilers;
use rigel_kernels::registry::compile_all;

#[test]
fn every_kernel_compiles_for_every_architecture() {
    let compilers = check_compilers().unwrap_or_else(|error| panic!("{error}"));
    if compilers.is_empty() {
        println!("skipped: RIGEL_CHECK_NVRTC names no architecture");
    }
    for device in compilers {
        let modules = compile_all(device).unwrap_or_else(|error| panic!("{}: {error}", device.properties().name));
        assert!(modules > 400, "{modules} modules");
    }
}
