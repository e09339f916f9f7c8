//! Real threads under ThreadSanitizer.
#![cfg(target_arch = "x86_64")]

use super::*;
use crate::drivers::emulated::Execution;

fn rig() -> Rig {
    Rig::new(Emulation { execution: Execution::Threads, ..Emulation::default() })
}

fn sum(barrier: &str) -> String {
    format!(
        "__global__ void sum(const unsigned* in, unsigned* out) {{
            __shared__ unsigned s[64];
            unsigned t = threadIdx.x;
            s[t] = in[blockIdx.x * 64 + t];
            {barrier}
            for (unsigned d = 32; d > 0; d /= 2) {{
                if (t < d) s[t] += s[t + d];
                __syncthreads();
            }}
            if (t == 0) out[blockIdx.x] = s[0];
        }}"
    )
}

#[test]
fn a_missing_barrier_is_a_race() {
    let rig = rig();
    let (input, out) = (rig.upload(&(0..128).collect::<Vec<u32>>()), rig.alloc::<u32>(2));
    rig.launch(&rig.function(&sum("__syncthreads();"), "sum"), grid(2, 64), arguments![input, out]).unwrap();
    assert_eq!(rig.download::<u32>(out, 2), [2016, 6112]);

    let detail = rig.fault(&rig.function(&sum(""), "sum"), grid(2, 64), arguments![input, out]);
    assert!(detail.starts_with("data race: in block (0, 0, 0), thread ("), "{detail}");
    assert!(detail.contains("at test.cu:4") && detail.contains("at test.cu:7"), "{detail}");
}

#[test]
fn races_on_device_memory() {
    let rig = rig();
    let text = "__global__ void k(unsigned* p) { p[0] = threadIdx.x; }";
    let at = rig.upload(&[0u32]);
    let detail = rig.fault(&rig.function(text, "k"), grid(1, 2), arguments![at]);
    assert!(detail.contains("writes 4 bytes at test.cu:1"), "{detail}");
    rig.launch(&rig.function(text, "k"), grid(3, 1), arguments![at]).unwrap();
}

#[test]
fn threads_that_wait_for_ever_or_stop() {
    let rig = rig();
    let text = "
        __global__ void some(unsigned*) { if (threadIdx.x < 31) __syncthreads(); else __syncwarp(); }
        __global__ void stop(unsigned*) { if (threadIdx.x == 2) __trap(); }
        __global__ void leave(unsigned*) {
            if (threadIdx.x % 3 == 0) return;
            __syncthreads();
            if (threadIdx.x % 3 == 1) return;
            __syncwarp();
            __syncthreads();
        }";
    let [some, stop, leave] = &rig.functions(text, &["some", "stop", "leave"])[..] else { unreachable!() };
    assert!(rig.fault(some, grid(1, 32), arguments![0u64]).contains("barrier divergence"));
    let detail = rig.fault(stop, grid(1, 32), arguments![0u64]);
    assert!(detail.contains("thread (2, 0, 0) of block (0, 0, 0): __trap()"), "{detail}");
    rig.launch(leave, grid(2, 96), arguments![0u64]).unwrap();
}
