//! Tests of how blocks and threads run.

use super::*;
use crate::drivers::emulated::ThreadOrder;

#[test]
fn threads_may_leave_before_a_barrier() {
    let rig = Rig::standard();
    let text = "__global__ void k(unsigned* p) {
        __shared__ unsigned sum;
        if (threadIdx.x >= 40) return;
        if (threadIdx.x == 0) sum = 0;
        __syncthreads();
        atomicAdd(&sum, 1);
        if (threadIdx.x % 2) return;
        __syncthreads();
        if (threadIdx.x == 0) p[blockIdx.x] = sum + __ballot_sync(~0u, 1);
        else __ballot_sync(~0u, 1);
    }";
    let at = rig.alloc::<u32>(300);
    rig.launch(&rig.function(text, "k"), grid(300, 100), arguments![at]).unwrap();
    assert_eq!(rig.download::<u32>(at, 300), vec![0x5555_5555 + 40; 300]);
}

#[test]
fn blocks_of_all_shapes() {
    let rig = Rig::standard();
    let text = "__global__ void k(unsigned* p) {
        unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
        __shared__ unsigned seen[1024];
        seen[t] = t;
        __syncthreads();
        unsigned n = blockDim.x * blockDim.y * blockDim.z;
        p[b * n + t] = b * 10000 + seen[n - 1 - t];
    }";
    let k = rig.function(text, "k");
    for (blocks, threads) in [([1, 1, 1], [1, 1, 1]), ([3, 2, 5], [4, 3, 5]), ([7, 1, 1], [1024, 1, 1])] {
        let (count, n): (u32, u32) = (blocks.iter().product(), threads.iter().product());
        let at = rig.alloc::<u32>((count * n) as usize);
        rig.launch(&k, Grid { blocks, threads, shared: 0 }, arguments![at]).unwrap();
        let expected: Vec<u32> = (0..count * n).map(|i| i / n * 10000 + n - 1 - i % n).collect();
        assert_eq!(rig.download::<u32>(at, expected.len()), expected);
    }
}

/// A prefix sum in one pass: each block waits for the sum of those before it.
const LOOK_BACK: &str = "
    __global__ void scan(const unsigned* in, unsigned* out, volatile unsigned long long* state, unsigned* ticket) {
        __shared__ unsigned long long before;
        __shared__ unsigned block;
        if (threadIdx.x == 0) block = atomicAdd(ticket, 1);
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned long long s = 0;
            if (block > 0) while (!((s = state[block - 1]) >> 63)) __threadfence();
            before = s & ~(1ull << 63);
            unsigned long long own = 0;
            for (unsigned i = 0; i < blockDim.x; i++) own += in[block * blockDim.x + i];
            __threadfence();
            state[block] = 1ull << 63 | (before + own);
        }
        __syncthreads();
        unsigned sum = before;
        for (unsigned i = 0; i <= threadIdx.x; i++) sum += in[block * blockDim.x + i];
        out[block * blockDim.x + threadIdx.x] = sum;
    }";

#[test]
fn blocks_may_wait_for_blocks_before_them() {
    for workers in [1, 4] {
        let rig = Rig::new(Emulation { workers, ..Emulation::default() });
        let (blocks, threads) = (500u32, 64u32);
        let input: Vec<u32> = (0..blocks * threads).map(|i| i % 7).collect();
        let (from, to) = (rig.upload(&input), rig.alloc::<u32>(input.len()));
        let (state, ticket) = (rig.upload(&vec![0u64; blocks as usize]), rig.upload(&[0u32]));
        let scan = rig.function(LOOK_BACK, "scan");
        rig.launch(&scan, grid(blocks, threads), arguments![from, to, state, ticket]).unwrap();
        let expected: Vec<u32> = input
            .iter()
            .scan(0, |sum, x| {
                *sum += x;
                Some(*sum)
            })
            .collect();
        assert_eq!(rig.download::<u32>(to, input.len()), expected);
    }
}

#[test]
fn blocks_do_not_wait_for_a_block_that_failed() {
    let rig = Rig::new(Emulation { workers: 4, ..Emulation::default() });
    let text = "__global__ void k(volatile unsigned* flags, unsigned* started) {
        if (blockIdx.x == 0) {
            while (atomicAdd(started, 0) < 1) {}
            __trap();
        }
        if (threadIdx.x == 0) { atomicAdd(started, 1); while (flags[blockIdx.x - 1] == 0) {} }
        __syncthreads();
        flags[blockIdx.x] = 1;
    }";
    let (flags, started) = (rig.upload(&[0u32; 4096]), rig.upload(&[0u32]));
    let detail = rig.fault(&rig.function(text, "k"), grid(4096, 8), arguments![flags, started]);
    assert!(detail.contains("block (0, 0, 0): __trap()"), "{detail}");
}

#[test]
fn threads_of_one_block_may_poll_each_other() {
    let rig = Rig::standard();
    let text = "__global__ void k(unsigned* flag, unsigned* out) {
        if (threadIdx.x == 0) { while (atomicAdd(flag, 0) != 31) {} *out = 7; }
        else atomicAdd(flag, 1);
        if (threadIdx.x == 1) while (*(volatile unsigned*)out != 7) __nanosleep(100);
    }";
    let (flag, out) = (rig.upload(&[0u32]), rig.upload(&[0u32]));
    rig.launch(&rig.function(text, "k"), grid(1, 32), arguments![flag, out]).unwrap();
    assert_eq!(rig.download::<u32>(out, 1), [7]);
}

#[test]
fn lanes_that_stand_together_are_active_together() {
    let rig = Rig::standard();
    let text = "__global__ void k(unsigned* out) {
        if (threadIdx.x % 4 == 1) out[threadIdx.x] = __activemask();
        else out[threadIdx.x] = 0;
    }";
    let out = rig.alloc::<u32>(32);
    rig.launch(&rig.function(text, "k"), grid(1, 32), arguments![out]).unwrap();
    let expected: Vec<u32> = (0..32).map(|t| if t % 4 == 1 { 0x2222_2222 } else { 0 }).collect();
    assert_eq!(rig.download::<u32>(out, 32), expected);
}

fn neighbours(order: ThreadOrder, barrier: &str) -> Vec<u32> {
    let rig = Rig::new(Emulation { order, ..Emulation::default() });
    let text = format!(
        "__global__ void k(unsigned* out) {{
            __shared__ unsigned s[128];
            s[threadIdx.x] = threadIdx.x * 3;
            {barrier}
            out[threadIdx.x] = s[(threadIdx.x + 127) % 128];
        }}"
    );
    let out = rig.alloc::<u32>(128);
    rig.launch(&rig.function(&text, "k"), grid(1, 128), arguments![out]).unwrap();
    rig.download(out, 128)
}

#[test]
fn another_order_shows_a_missing_barrier() {
    let expected: Vec<u32> = (0..128).map(|t| (t + 127) % 128 * 3).collect();
    assert_eq!(neighbours(ThreadOrder::Ascending, "__syncthreads();"), expected);
    for seed in 0..3 {
        assert_eq!(neighbours(ThreadOrder::Shuffled(seed), "__syncthreads();"), expected);
        let wrong = neighbours(ThreadOrder::Shuffled(seed), "");
        assert_ne!(wrong, expected);
        assert_eq!(wrong, neighbours(ThreadOrder::Shuffled(seed), ""), "a seed gives one order");
    }
}

#[test]
fn divergent_barriers_are_found() {
    let rig = Rig::standard();
    let text = "
        __global__ void some(unsigned*) {
            if (threadIdx.x < 31) __syncthreads();
            else __shfl_sync(~0u, 1, 0);
        }
        __global__ void warp(unsigned*) { if (threadIdx.x < 16) __syncwarp(); else __syncthreads(); }
        __global__ void mask(unsigned*) { __syncwarp(0xfffffffeu); }";
    let functions = rig.functions(text, &["some", "warp", "mask"]);
    let details = functions.iter().map(|f| rig.fault(f, grid(2, 32), arguments![0u64])).collect::<Vec<_>>();
    assert!(details[0].contains("barrier divergence in block ("), "{}", details[0]);
    assert!(details[0].contains("31 threads wait in __syncthreads"), "{}", details[0]);
    assert!(details[0].contains("1 thread waits in a shuffle with mask 0xffffffff (the first is (31, 0, 0))"));
    assert!(details[1].contains("16 threads wait in __syncwarp"), "{}", details[1]);
    assert!(details[2].contains("lane 0, which is not in the mask 0xfffffffe"), "{}", details[2]);
}

#[test]
fn launches_that_can_not_be() {
    let rig = Rig::standard();
    let k = rig.function("__global__ void k(unsigned*) {}", "k");
    for (grid, part) in [
        (grid(1, 1025), "[1025, 1, 1] threads"),
        (grid(0, 1), "[0, 1, 1] blocks"),
        (Grid { blocks: [1; 3], threads: [1, 1, 65], shared: 0 }, "64 in z"),
        (Grid { blocks: [1; 3], threads: [1; 3], shared: 1 << 20 }, "1048576 bytes"),
    ] {
        let error = rig.launch(&k, grid, arguments![0u64]).unwrap_err();
        assert!(matches!(&error, Error::LaunchShape { detail, .. } if detail.contains(part)), "{error}");
    }
    // SAFETY: too few arguments are refused.
    let error = unsafe { rig.driver.launch(rig.stream, k.raw, grid(1, 1), &[]) }.unwrap_err();
    assert!(matches!(error, Error::Arguments { .. }), "{error}");
}

#[test]
fn devices_work_side_by_side() {
    let drivers = open(&Emulation::default(), &[(0, 0), (1, 0)]).unwrap();
    let rigs: Vec<Rig> = drivers.into_iter().map(Rig::on).collect();
    std::thread::scope(|scope| {
        for rig in &rigs {
            scope.spawn(|| (0..5).for_each(|_| rig.check_usable()));
        }
    });
    let (a, b) = (rigs[0].upload(&[1u32, 2, 3]), rigs[1].alloc::<u32>(3));
    let copy = |runs: Strides| {
        let copy = PeerCopy { peer: &*rigs[1].driver, to: b, from: a, runs };
        // SAFETY: both buffers have 12 bytes.
        unsafe { rigs[0].driver.copy_to_peers(rigs[0].stream, &[copy]) }.unwrap();
        rigs[1].download::<u32>(b, 3)
    };
    assert_eq!(copy(Strides { bytes: 12, count: 1, to: 0, from: 0 }), [1, 2, 3]);
    assert_eq!(copy(Strides { bytes: 4, count: 2, to: 4, from: 8 }), [1, 3, 3]);
    assert_eq!(copy(Strides { bytes: 4, count: 2, to: 8, from: 4 }), [1, 3, 2]);
    let link = |a: usize, b: usize| rigs[a].driver.link(&*rigs[b].driver).unwrap();
    assert_eq!((link(0, 0), link(0, 1)), (crate::Link::Same, crate::Link::Pcie));
}
