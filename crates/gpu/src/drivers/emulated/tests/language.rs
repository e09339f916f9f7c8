//! Tests of the meaning of CUDA C++ on the emulated device.

use super::*;
use crate::drivers::emulated::{Execution, ThreadOrder};

#[test]
fn vectors_add() {
    let rig = Rig::standard();
    let text = "__global__ void add(const unsigned* __restrict__ a, const unsigned* b, unsigned* c, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) c[i] = a[i] + b[i];
    }";
    let n = 100_003u32;
    let a: Vec<u32> = (0..n).map(|_| rand::random()).collect();
    let b: Vec<u32> = (0..n).map(|_| rand::random()).collect();
    let (da, db, dc) = (rig.upload(&a), rig.upload(&b), rig.alloc::<u32>(n as usize));
    let add = rig.function(text, "add");
    assert_eq!(add.parameters.iter().map(|p| p.bytes).collect::<Vec<_>>(), [8, 8, 8, 4]);
    rig.launch(&add, grid(n.div_ceil(256), 256), arguments![da, db, dc, n]).unwrap();
    let expected: Vec<u32> = a.iter().zip(&b).map(|(a, b)| a.wrapping_add(*b)).collect();
    assert_eq!(rig.download::<u32>(dc, n as usize), expected);
}

const SHARED: &str = r#"
    typedef unsigned u32;
    struct Word { u32 v; typedef u32 T; };
    template <class F, u32 N>
    __global__ void transpose(const typename F::T* in, typename F::T* out) {
        __shared__ typename F::T tile[N][N + 1];
        __shared__ u32 columns; // one more array, of one element
        if (threadIdx.x == 0 && threadIdx.y == 0) columns = N;
        tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * N + threadIdx.x];
        __syncthreads();
        out[threadIdx.y * columns + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
    }
    __global__ void reverse(u32* p) {
        extern __shared__ __align__(16) u32 all[];
        u32 i = threadIdx.x;
        all[i] = p[blockIdx.x * blockDim.x + i];
        __syncthreads();
        p[blockIdx.x * blockDim.x + i] = all[blockDim.x - 1 - i];
    }
    extern __shared__ u32 global_name[];
    __device__ u32& nth(u32 i) { return global_name[i]; }
    __global__ void reverse_too(u32* p) {
        nth(threadIdx.x) = p[threadIdx.x];
        __syncthreads();
        p[threadIdx.x] = nth(blockDim.x - 1 - threadIdx.x);
    }"#;

fn shared_memory(emulation: Emulation) {
    let rig = Rig::new(emulation);
    let kernels = ["transpose<Word, 8>", "transpose<Word, 16>", "reverse", "reverse_too"];
    let functions = rig.functions(SHARED, &kernels);
    for (function, n) in functions.iter().zip([8u32, 16]) {
        let input: Vec<u32> = (0..n * n).collect();
        let (from, to) = (rig.upload(&input), rig.alloc::<u32>((n * n) as usize));
        let grid = Grid { blocks: [1; 3], threads: [n, n, 1], shared: 0 };
        rig.launch(function, grid, arguments![from, to]).unwrap();
        let expected: Vec<u32> = (0..n * n).map(|i| i % n * n + i / n).collect();
        assert_eq!(rig.download::<u32>(to, (n * n) as usize), expected);
    }
    for (function, blocks) in functions[2..].iter().zip([5u32, 1]) {
        let at = rig.upload(&(0..blocks * 96).collect::<Vec<u32>>());
        let grid = Grid { blocks: [blocks, 1, 1], threads: [96, 1, 1], shared: 96 * 4 };
        rig.launch(function, grid, arguments![at]).unwrap();
        let expected: Vec<u32> = (0..blocks * 96).map(|i| i / 96 * 96 + 95 - i % 96).collect();
        assert_eq!(rig.download::<u32>(at, expected.len()), expected);
    }
}

#[test]
fn shared_memory_is_shared() {
    let one = Emulation { workers: 1, ..Emulation::default() };
    shared_memory(one.clone());
    shared_memory(Emulation { checked: false, ..one.clone() });
    shared_memory(Emulation { order: ThreadOrder::Shuffled(3), ..one.clone() });
    if cfg!(target_arch = "x86_64") {
        shared_memory(Emulation { execution: Execution::Threads, ..one });
    }
}

const WARPS: &str = r#"
    typedef unsigned u32;
    typedef unsigned long long u64;
    __global__ void warps(u64* out, u32* total, double* sum) {
        u32 t = threadIdx.x, lane = t % 32;
        u64* o = out + t * 20;
        o[0] = __shfl_sync(0xffffffffu, (u64)t << 33, 5);
        o[1] = __shfl_up_sync(0xffffffffu, t, 3);
        o[2] = __shfl_down_sync(0xffffffffu, t, 3, 16);
        o[3] = __shfl_xor_sync(0xffffffffu, (unsigned char)t, 9);
        o[4] = __ballot_sync(0xffffffffu, lane % 3 == 0);
        o[5] = __any_sync(0xffffffffu, lane == 40);
        o[6] = __all_sync(0xffffffffu, lane < 32);
        o[7] = __reduce_add_sync(0xffffffffu, lane);
        o[8] = __reduce_max_sync(0xffffffffu, lane);
        o[9] = __reduce_min_sync(0xffffffffu, lane + 7);
        o[10] = __reduce_or_sync(0xffffffffu, 1u << lane);
        if (lane < 7) o[11] = __shfl_sync(0x7fu, lane, 6);
        else if (lane < 9) o[11] = __ballot_sync(0x180u, lane == 8);
        else o[11] = 0;
        __syncwarp();
        o[12] = __syncthreads_count(t % 5 == 0);
        o[13] = __syncthreads_or(t == 70);
        o[14] = __syncthreads_and(t != 70);
        atomicAdd(total, 1);
        atomicMax(total + 1, t);
        atomicMin(total + 2, t + 3);
        atomicXor(total + 3, t);
        atomicOr(total + 4, 1u << lane);
        while (atomicCAS(total + 5, t, t + 1) != t) {}
        atomicAdd(sum, 0.5);
        __shared__ u32 local;
        if (t == 0) local = 0;
        __syncthreads();
        atomicAdd(&local, t);
        __syncthreads();
        o[15] = local;
    }"#;

fn warp_operations(emulation: Emulation) {
    let rig = Rig::new(emulation);
    let n = 96u32;
    let out = rig.upload(&vec![0u64; n as usize * 20]);
    let total = rig.upload(&[0, 0, u32::MAX, 0, 0, 0]);
    let sum = rig.upload(&[0.0f64]);
    rig.launch(&rig.function(WARPS, "warps"), grid(1, n), arguments![out, total, sum]).unwrap();
    let out = rig.download::<u64>(out, n as usize * 20);
    for t in 0..n as u64 {
        let (lane, warp) = (t % 32, t / 32 * 32);
        let o = &out[t as usize * 20..][..20];
        let group = if lane < 7 {
            6
        } else if lane < 9 {
            0x100
        } else {
            0
        };
        let multiples: u64 = (0..32).filter(|l| l % 3 == 0).map(|l| 1 << l).sum();
        let expected = [
            (warp + 5) << 33,
            if lane < 3 { t } else { t - 3 },
            if lane % 16 < 13 { t + 3 } else { t },
            t ^ 9,
            multiples,
            0,
            1,
            496,
            31,
            7,
            0xffff_ffff,
            group,
            20,
            1,
            0,
            (n as u64 - 1) * n as u64 / 2,
        ];
        assert_eq!(&o[..16], &expected, "thread {t}");
    }
    let xor = (0..n).fold(0, |a, b| a ^ b);
    assert_eq!(rig.download::<u32>(total, 6), [n, n - 1, 3, xor, u32::MAX, n]);
    assert_eq!(rig.download::<f64>(sum, 1), [n as f64 / 2.0]);
}

#[test]
fn warps_and_atomics() {
    warp_operations(Emulation::default());
    warp_operations(Emulation { checked: false, ..Emulation::default() });
    warp_operations(Emulation { order: ThreadOrder::Shuffled(11), ..Emulation::default() });
    if cfg!(target_arch = "x86_64") {
        warp_operations(Emulation { execution: Execution::Threads, ..Emulation::default() });
    }
}

#[test]
fn intrinsics() {
    let rig = Rig::standard();
    let text = r#"
        __constant__ unsigned table[4] = {3, 1, 4, 1};
        struct __align__(16) Pair { unsigned long long a, b; };
        __global__ void __launch_bounds__(1)
        all(unsigned long long* o, const __grid_constant__ Pair pair, uint4 q) {
            unsigned n = 0;
            o[n++] = __brev(1); o[n++] = __brevll(2); o[n++] = __clz(1); o[n++] = __clzll(0); o[n++] = __ffs(8);
            o[n++] = __popc(255); o[n++] = __popcll(~0ull); o[n++] = __umulhi(1u << 31, 6);
            o[n++] = __umul64hi(1ull << 63, 6); o[n++] = __byte_perm(0x33221100, 0x77665544, 0x7531);
            o[n++] = __funnelshift_l(0x80000001u, 5, 1); o[n++] = __funnelshift_r(1, 1, 1);
            o[n++] = __funnelshift_lc(1, 2, 40); o[n++] = min(3, 5u); o[n++] = max(7ull, 2ull);
            o[n++] = pair.a + pair.b; o[n++] = q.x + q.y + q.z + q.w; o[n++] = table[2];
            o[n++] = (unsigned long long)(1000 * sqrt(2.0)); o[n++] = (unsigned long long)(8 * rsqrtf(4.0f));
            uint4 v = make_uint4(1, 2, 3, 4); o[n++] = __ldg(&v).z; o[n++] = gridDim.x * 100 + blockDim.x;
            o[n++] = sizeof(ulonglong2) + alignof(uint4); o[n++] = RIGEL_EMULATED;
            #pragma unroll
            for (int i = 0; i < 2; i++) memcpy(o + n++, &pair.b, 8);
        }"#;
    let out = rig.alloc::<u64>(26);
    #[repr(align(16))]
    struct Aligned<T>(T);
    let (pair, quad) = (Aligned([40u64, 2]), Aligned([1u32, 2, 3, 4]));
    rig.launch(&rig.function(text, "all"), grid(1, 1), arguments![out, pair, quad]).unwrap();
    let expected = [
        1 << 31,
        1 << 62,
        31,
        64,
        4,
        8,
        64,
        3,
        3,
        0x77553311,
        11,
        0x8000_0000,
        1,
        3,
        7,
        42,
        10,
        4,
        1414,
        4,
        3,
        101,
        32,
        1,
        2,
        2,
    ];
    assert_eq!(rig.download::<u64>(out, 26), expected);
}

#[test]
fn headers_and_definitions() {
    let rig = Rig::standard();
    let unit = Unit {
        name: "dir/sum.cu".into(),
        text: "#include \"field/add.cuh\"\n__global__ void k(unsigned* p) { *p = sum(p) + EXTRA; }".into(),
        headers: vec![(
            "field/add.cuh".into(),
            "#pragma once\n__device__ unsigned sum(unsigned* p) { __shared__ unsigned s; s = *p; return s + 1; }"
                .into(),
        )],
        defines: vec![("EXTRA".into(), "40".into())],
        options: vec!["--maxrregcount=64".into()],
        kernels: vec!["k".into()],
    };
    let image = rig.driver.compile(&unit).unwrap();
    let module = rig.driver.load("sum.cu", &image).unwrap();
    let k = rig.driver.function(module, &image.symbols[0], "k").unwrap();
    let at = rig.upload(&[1u32]);
    rig.launch(&k, grid(1, 1), arguments![at]).unwrap();
    assert_eq!(rig.download::<u32>(at, 1), [42]);
    let error = rig.driver.function(module, "rigel_kernel_7", "nope").unwrap_err().to_string();
    assert_eq!(error, "module sum.cu has no kernel nope; it has k");
}

#[test]
fn compile_errors_show_the_line() {
    let rig = Rig::standard();
    let text = "\n__global__ void k(unsigned* p) {\n    __shared__ int s[4];\n    *p = undefined_name; // here\n}";
    let error = rig.image(text, &["k"]).unwrap_err().to_string();
    for part in
        ["test.cu does not compile", "test.cu:4:", "undefined_name", "4 |     *p = undefined_name; // here"]
    {
        assert!(error.contains(part), "{part:?} is missing in {error}");
    }
    assert!(!error.contains("/tmp") && !error.contains("rigel-emulated-"), "{error}");

    let error = rig.image("template <class T> __global__ void k(T*) {}", &["k<Nope>"]).unwrap_err().to_string();
    assert!(error.contains("kernel k<Nope>:1") && error.contains("Nope"), "{error}");

    let error = rig.image("__global__ void k() {\n __shared__ int a, b;\n}", &["k"]).unwrap_err().to_string();
    assert!(error.contains("test.cu:2: error: write one __shared__ variable"), "{error}");
    assert!(error.contains("2 |  __shared__ int a, b;"), "{error}");
}
