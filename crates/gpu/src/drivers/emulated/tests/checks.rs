//! Accesses that a kernel must not make, and memory.

use super::*;

const STRAY: &str = "
    __global__ void read(const unsigned char* p, unsigned at, unsigned* out) { *out = p[at]; }
    __global__ void write(unsigned* p, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i <= n) p[i] = i;
    }
    __global__ void wide(uint4* p, unsigned at) { p[at] = make_uint4(1, 2, 3, 4); }
    __global__ void add(unsigned* p, unsigned at) { atomicAdd(p + at, 1); }
    __global__ void before(unsigned* p) { p[-1] = 0; }
    __global__ void odd(char* p) { *(unsigned*)(p + 2) = 0; }
    __global__ void copy(char* p, unsigned n) { memset(p, 0, n); }";

#[test]
fn strays_in_buffers() {
    let rig = Rig::standard();
    let kernels = ["read", "write", "wide", "add", "before", "odd", "copy"];
    let [read, write, wide, add, before, odd, copy] = &rig.functions(STRAY, &kernels)[..] else { unreachable!() };
    let (bytes, out, words) = (rig.alloc::<u8>(13), rig.alloc::<u32>(1), rig.alloc::<u32>(100));

    rig.launch(read, grid(1, 1), arguments![bytes, 12u32, out]).unwrap();
    let detail = rig.fault(read, grid(1, 1), arguments![bytes, 13u32, out]);
    assert!(detail.contains("thread (0, 0, 0) of block (0, 0, 0) reads 1 bytes at 0x"), "{detail}");
    assert!(detail.contains("which ends 1 bytes past the end of a buffer of 13 bytes"), "{detail}");

    rig.launch(write, grid(4, 32), arguments![words, 99u32]).unwrap();
    let detail = rig.fault(write, grid(4, 32), arguments![words, 100u32]);
    assert!(detail.contains("thread (4, 0, 0) of block (3, 0, 0) writes 4 bytes"), "{detail}");
    assert!(detail.contains("4 bytes past the end of a buffer of 400 bytes"), "{detail}");

    rig.launch(wide, grid(1, 1), arguments![words, 24u32]).unwrap();
    assert!(
        rig.fault(wide, grid(1, 1), arguments![words, 25u32]).contains("past the end of a buffer of 400 bytes")
    );
    rig.launch(add, grid(1, 1), arguments![words, 99u32]).unwrap();
    assert!(rig.fault(add, grid(1, 1), arguments![words, 100u32]).contains("4 bytes past the end"));
    assert!(
        rig.fault(before, grid(1, 1), arguments![words]).contains("4 bytes before the start of a buffer of 400")
    );
    assert!(rig.fault(odd, grid(1, 1), arguments![words]).contains("not a multiple of 4"));
    rig.launch(copy, grid(1, 1), arguments![words, 400u32]).unwrap();
    assert!(rig.fault(copy, grid(1, 1), arguments![words, 401u32]).contains("1 bytes past the end"));
}

#[test]
fn bytes_may_be_moved_from_anywhere() {
    let rig = Rig::standard();
    let text = "
        struct __attribute__((packed)) Packed { char c; unsigned long long v; };
        __global__ void k(const char* p, unsigned long long* out) {
            memcpy(out, p + 1, 8);
            __builtin_memcpy(out + 1, p + 3, 8);
            out[2] = ((const Packed*)p)->v;
        }";
    let (from, to) = (rig.upload(&[7u8; 16]), rig.alloc::<u64>(3));
    rig.launch(&rig.function(text, "k"), grid(1, 1), arguments![from, to]).unwrap();
    assert_eq!(rig.download::<u64>(to, 3), [0x0707_0707_0707_0707; 3]);
}

#[test]
fn strays_in_shared_memory() {
    let rig = Rig::standard();
    let text = "
        __global__ void fixed(unsigned at) {
            __shared__ unsigned a[3][5];
            __shared__ unsigned b[7];
            b[at] = a[2][at];
        }
        __global__ void dynamic(unsigned at) { extern __shared__ unsigned char d[]; d[at] = 1; }
        __global__ void large() { __shared__ unsigned char a[49153]; a[threadIdx.x] = 1; }";
    let [fixed, dynamic, large] = &rig.functions(text, &["fixed", "dynamic", "large"])[..] else { unreachable!() };
    rig.launch(fixed, grid(3, 1), arguments![4u32]).unwrap();
    let detail = rig.fault(fixed, grid(1, 1), arguments![5u32]);
    assert!(detail.contains("reads 4 bytes"), "{detail}");
    assert!(detail.contains("4 bytes past the end of a shared array of 60 bytes (__shared__ a)"), "{detail}");
    let shape = Grid { shared: 21, ..grid(2, 1) };
    rig.launch(dynamic, shape, arguments![20u32]).unwrap();
    let detail = rig.fault(dynamic, shape, arguments![21u32]);
    assert!(
        detail.contains("1 bytes past the end of a shared array of 21 bytes (dynamic shared memory)"),
        "{detail}"
    );
    assert!(rig.fault(large, grid(1, 1), arguments![]).contains("49153 bytes of static shared memory"));
}

#[test]
fn signals_are_faults() {
    for checked in [true, false] {
        let rig = Rig::new(Emulation { checked, ..Emulation::default() });
        let text = "
            __global__ void wild(unsigned* p) { p[threadIdx.x] = 1; }
            __global__ void divide(unsigned* p, unsigned n) { *p = 7 / n; }
            __device__ unsigned deep(volatile unsigned* p, unsigned n) {
                volatile unsigned a[100]; a[n % 100] = n;
                return n == 0 ? a[0] : deep(p, n - 1) + a[n % 100];
            }
            __global__ void stack(unsigned* p) { *p = deep(p, 1u << 20); }
            __global__ void stop(unsigned n) { assert(n == 7 && \"seven\"); __trap(); }";
        let kernels = ["wild", "divide", "stack", "stop"];
        let [wild, divide, stack, stop] = &rig.functions(text, &kernels)[..] else { unreachable!() };
        let at = rig.upload(&[0u32]);
        for _ in 0..3 {
            let detail = rig.fault(wild, grid(8, 64), arguments![0x1000u64]);
            assert!(detail.contains("uses address 0x1") && detail.contains("not device memory"), "{detail}");
            assert!(rig.fault(divide, grid(1, 1), arguments![at, 0u32]).contains("divides by zero"));
            assert!(rig.fault(stack, grid(1, 1), arguments![at]).contains("overflow its stack"));
        }
        let detail = rig.fault(stop, grid(1, 1), arguments![6u32]);
        assert!(detail.contains("assertion failed: n == 7") && detail.contains("test.cu:"), "{detail}");
        assert!(rig.fault(stop, grid(1, 1), arguments![7u32]).contains("__trap()"));
    }
}

#[test]
fn reserved_ranges() {
    let rig = Rig::new(Emulation { memory_bytes: 16 << 20, ..Emulation::default() });
    let unit = rig.driver.granularity();
    let base = rig.driver.reserve(64 * unit).unwrap();
    assert_eq!(base.0 as usize % unit, 0);
    rig.driver.map(base, 3 * unit).unwrap();
    assert_eq!(rig.driver.memory().unwrap().free, (16 << 20) - 3 * unit);
    match rig.driver.map(base.offset(3 * unit), 6 * unit).unwrap_err() {
        Error::OutOfMemory { requested, free, total, in_use, .. } => {
            assert_eq!((requested, free, total, in_use), (12 << 20, 10 << 20, 16 << 20, 6 << 20));
        }
        other => panic!("{other}"),
    }
    assert!(matches!(rig.driver.alloc(11 << 20), Err(Error::OutOfMemory { requested: 11534336, .. })));

    let text = "__global__ void get(const unsigned* p, unsigned* out) { *out = *p; }";
    let (get, out) = (rig.function(text, "get"), rig.alloc::<u32>(1));
    let at = base.offset(4096);
    assert!(rig.fault(&get, grid(1, 1), arguments![at, out]).contains("reads 4 bytes"));
    rig.driver.mark(at, 5, true);
    rig.launch(&get, grid(1, 1), arguments![at, out]).unwrap();
    assert_eq!(rig.download::<u32>(out, 1), [0xa5a5_a5a5], "fresh memory does not look like zeros");
    assert!(
        rig.fault(&get, grid(1, 1), arguments![at.offset(4), out])
            .contains("3 bytes past the end of a buffer of 5")
    );
    rig.driver.mark(at, 5, false);
    assert!(rig.fault(&get, grid(1, 1), arguments![at, out]).contains("0 bytes into a freed buffer of 5 bytes"));
    rig.driver.release(base, 64 * unit);
    assert_eq!(rig.driver.memory().unwrap().free, (16 << 20) - 4);
    assert!(rig.fault(&get, grid(1, 1), arguments![at, out]).contains("reads 4 bytes"));
    rig.driver.free(out);
    assert!(rig.fault(&get, grid(1, 1), arguments![at, out]).contains("reads 4 bytes"));
    assert_eq!(rig.driver.memory().unwrap().free, 16 << 20);
}

#[test]
fn shared_memory_is_not_what_the_last_block_left() {
    let rig = Rig::new(Emulation { workers: 1, ..Emulation::default() });
    let text = "__global__ void k(unsigned* p) {
        __shared__ unsigned s;
        extern __shared__ unsigned d[];
        p[blockIdx.x * 2] = s; p[blockIdx.x * 2 + 1] = d[0];
        s = 0; d[0] = 0;
    }";
    let out = rig.alloc::<u32>(6);
    rig.launch(&rig.function(text, "k"), Grid { shared: 4, ..grid(3, 1) }, arguments![out]).unwrap();
    assert_eq!(rig.download::<u32>(out, 6), [0xa5a5_a5a5; 6]);
}

#[test]
fn pinned_memory() {
    let rig = Rig::standard();
    let memory = rig.driver.alloc_pinned(1000).unwrap();
    assert_eq!(memory.as_ptr() as usize % 4096, 0);
    // SAFETY: the memory has 1000 bytes.
    unsafe { memory.as_ptr().write_bytes(7, 1000) };
    rig.driver.free_pinned(memory, 1000);
}
