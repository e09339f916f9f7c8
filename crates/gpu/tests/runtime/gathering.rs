//! Launches that are submitted together.

use rigel_gpu::testing::on_each_device;
use rigel_gpu::{Buffer, DeviceKind, Graph, Kernel, Shape, Stream};

use crate::source;

/// `x = 3 x + by`, with an argument before and after `by`, so that wrong offsets show; and `x = x ^ by`.
fn kernels(stream: &Stream) -> [Kernel; 2] {
    let text = "struct Wide { unsigned char first; unsigned long long second; };
        __global__ void step(Wide wide, unsigned *x, unsigned by, unsigned char last) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            x[i] = 3 * x[i] + by + wide.first + (unsigned)wide.second + last;
        }
        __global__ void flip(unsigned *x, unsigned by) { x[blockIdx.x * blockDim.x + threadIdx.x] ^= by; }";
    let module = stream.device().compile(&source("gather.cu", text).kernel("step").kernel("flip")).unwrap();
    ["step", "flip"].map(|name| module.kernel(name).unwrap())
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Wide {
    first: u8,
    padding: [u8; 7],
    second: u64,
}

// SAFETY: no padding, and every bit pattern is valid.
unsafe impl rigel_gpu::Plain for Wide {}

/// Launches both kernels in turn, over grids of changing size, and computes what they must give.
fn run(stream: &Stream, [step, flip]: &[Kernel; 2], launches: u32) -> (Vec<u32>, Vec<u32>) {
    const N: usize = 64;
    let mut expected: Vec<u32> = (0..N as u32).collect();
    let mut x = stream.upload(&expected).unwrap();
    for by in 0..launches {
        let blocks = 1 + by % 2;
        let shape = Shape::new(blocks, N as u32 / 2);
        let seen = &mut expected[..N / 2 * blocks as usize];
        if by % 3 == 2 {
            flip.launch(stream, shape, (&mut x, by)).unwrap();
            seen.iter_mut().for_each(|value| *value ^= by);
        } else {
            let wide = Wide { first: 5, padding: [0; 7], second: 1 << 20 | u64::from(by) };
            step.launch(stream, shape, (wide, &mut x, by, 9u8)).unwrap();
            let add = by.wrapping_add(5 + (1 << 20 | by)).wrapping_add(9);
            seen.iter_mut().for_each(|value| *value = value.wrapping_mul(3).wrapping_add(add));
        }
    }
    (x.to_vec(stream).unwrap(), expected)
}

#[test]
fn gathered_launches_run_in_order_with_their_own_arguments() {
    on_each_device(|stream| {
        let kernels = kernels(stream);
        for launches in [1, 2, 3, 15, 16, 17, 40] {
            let gathering = stream.gather();
            for _ in 0..3 {
                let (found, expected) = run(stream, &kernels, launches);
                assert_eq!(found, expected, "{launches} launches");
            }
            drop(gathering);
            let (found, expected) = run(stream, &kernels, launches);
            assert_eq!(found, expected, "{launches} launches, no longer gathered");
        }
    });
}

#[test]
fn other_work_comes_after_what_was_gathered() {
    on_each_device(|stream| {
        let [_, flip] = kernels(stream);
        let other = stream.device().new_stream().unwrap();
        let _gathering = stream.gather();
        let mut x = stream.upload(&[1u32; 32]).unwrap();
        let mut copy = stream.zeros::<u32>(32).unwrap();
        let flip = |x: &mut Buffer<u32>| flip.launch(stream, Shape::new(1, 32), (x, 6u32)).unwrap();
        flip(&mut x);
        stream.copy(&mut copy, &x).unwrap();
        flip(&mut x);
        stream.fill_bytes(copy.range_mut(..1).unwrap(), 0).unwrap();
        assert_eq!(copy.to_vec(stream).unwrap()[..2], [0, 7]);
        // Another stream, and the host, wait for launches that are gathered.
        flip(&mut x);
        other.wait_for(stream).unwrap();
        assert_eq!(other.download(&x).unwrap(), [7; 32]);
        flip(&mut x);
        stream.synchronize().unwrap();
        flip(&mut x);
        let event = stream.record().unwrap();
        event.synchronize().unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [7; 32]);
        // A capture begins after them, and its launches are recorded one by one.
        flip(&mut x);
        let graph = Graph::capture(stream, |_| {
            flip(&mut x);
            Ok(())
        })
        .unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [1; 32]);
        graph.replay(stream).unwrap();
        flip(&mut x);
        assert_eq!(x.to_vec(stream).unwrap(), [1; 32]);
    });
}

#[test]
fn a_stream_that_closes_submits_what_was_gathered() {
    on_each_device(|stream| {
        let [_, flip] = kernels(stream);
        let mut x = stream.upload(&[1u32; 32]).unwrap();
        stream.synchronize().unwrap();
        let other = stream.device().new_stream().unwrap();
        let gathering = other.gather();
        flip.launch(&other, Shape::new(1, 32), (&mut x, 6u32)).unwrap();
        drop(other);
        drop(gathering);
        stream.device().synchronize().unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [7; 32]);
    });
}

const VALUES: usize = 1 << 12;

/// `x = 5 x + table[x % W] + table[W - 1]`, with the table among the kernel's parameters, and in a copy in local memory
/// if it is deep.
fn mix<const W: usize>(stream: &Stream, kernel: &Kernel, x: &mut Buffer<u32>, expected: &mut [u32], seed: u32) {
    let table: [u32; W] = std::array::from_fn(|i| seed.wrapping_mul(2 * i as u32 + 1));
    kernel.launch(stream, Shape::new(VALUES as u32 / 128, 128), (x, table)).unwrap();
    for value in expected {
        *value = value.wrapping_mul(5).wrapping_add(table[*value as usize % W]).wrapping_add(table[W - 1]);
    }
}

/// Kernels with few and many bytes of parameters, and with more local memory the later they are loaded, from many
/// threads, whose streams come and go: a chain that was made of other kernels must not run them.
#[test]
fn kernels_of_all_kinds_are_gathered() {
    let text = "template <int W> struct Table { unsigned w[W]; };
        template <int W> __global__ void mix(unsigned *x, const __grid_constant__ Table<W> table) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            x[i] = 5 * x[i] + table.w[x[i] % W] + table.w[W - 1];
        }
        template <int D> __global__ void deep(unsigned *x, const __grid_constant__ Table<4> table) {
            volatile unsigned copy[D];
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            for (int k = 0; k < D; ++k) copy[(k + i) % D] = table.w[(k + i) % D % 4];
            x[i] = 5 * x[i] + copy[x[i] % 4] + copy[3];
        }";
    on_each_device(|stream| {
        let device = stream.device();
        let (threads, rounds) = if device.kind() == DeviceKind::Cuda { (24, 1000) } else { (4, 3) };
        let kernel = |name: &str| {
            let source = source("kinds.cu", text).kernel(name);
            device.compile(&source).unwrap().kernel(name).unwrap()
        };
        let run = |thread: u32| {
            let tables = ["mix<1>", "mix<60>", "mix<250>", "mix<900>"].map(kernel);
            let mut deep = tables[0].clone();
            let mut state = thread * 7919 + 1;
            let mut random = move |below: u32| {
                state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                (state >> 8) % below
            };
            for round in 0..rounds {
                if round % 100 == 0 {
                    deep = kernel(&format!("deep<{}>", 4 << (round / 100)));
                }
                let stream = device.new_stream().unwrap();
                let _gathering = stream.gather();
                for _ in 0..1 + random(4) {
                    let mut expected: Vec<u32> = (0..VALUES as u32).collect();
                    let mut x = stream.upload(&expected).unwrap();
                    // Few different sequences, so that chains are used again.
                    let (mut sequence, length) = (random(8), 2 + random(20));
                    for _ in 0..length {
                        let (x, expected, seed) = (&mut x, &mut expected, random(1 << 24));
                        sequence = (sequence * 5 + 1) % 8191;
                        match sequence % 13 % 5 {
                            0 => mix::<1>(&stream, &tables[0], x, expected, seed),
                            1 => mix::<60>(&stream, &tables[1], x, expected, seed),
                            2 => mix::<250>(&stream, &tables[2], x, expected, seed),
                            3 => mix::<900>(&stream, &tables[3], x, expected, seed),
                            _ => mix::<4>(&stream, &deep, x, expected, seed),
                        }
                    }
                    assert_eq!(x.to_vec(&stream).unwrap(), expected, "thread {thread}, round {round}");
                }
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || run(thread));
            }
        });
    });
}

#[test]
fn small_copies_are_in_the_order_of_launches() {
    on_each_device(|stream| {
        stream.device().prepare_copies().unwrap();
        let kernels = kernels(stream);
        let text = "__global__ void busy(unsigned *x, unsigned rounds) {
            unsigned value = x[threadIdx.x];
            for (unsigned i = 0; i < rounds; ++i) value = value * 1664525 + 1013904223;
            x[threadIdx.x] = value;
        }";
        let busy =
            stream.device().compile(&source("busy.cu", text).kernel("busy")).unwrap().kernel("busy").unwrap();
        let rounds: u32 = if stream.device().kind() == DeviceKind::Cuda { 200_000 } else { 200 };
        let gathering = stream.gather();
        for round in 0..20u32 {
            let (found, expected) = run(stream, &kernels, round);
            assert_eq!(found, expected);
            // Sizes on both sides of every limit, with a kernel before the read that takes longer than the host looks.
            for count in [1usize, 16, 17, 128, 129, 992, 993, 16_368, 16_369] {
                let values: Vec<u32> = (0..count as u32).map(|i| i ^ round).collect();
                let mut there = stream.upload(&values).unwrap();
                if count == 17 {
                    busy.launch(stream, Shape::new(1, 17), (&mut there, rounds)).unwrap();
                    let step = |x: u32| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let last = |&x: &u32| (0..rounds).fold(x, |x, _| step(x));
                    assert_eq!(there.to_vec(stream).unwrap(), values.iter().map(last).collect::<Vec<_>>());
                } else {
                    assert_eq!(there.to_vec(stream).unwrap(), values, "{count} words");
                }
                stream.fill_bytes(&mut there, 0xab).unwrap();
                assert!(there.to_vec(stream).unwrap().iter().all(|&word| word == 0xabab_abab), "{count} words");
            }
            if round == 10 {
                stream.device().trim();
            }
        }
        drop(gathering);
        // Two threads that read from one stream.
        let numbers: Vec<u32> = (0..1000).collect();
        let there = stream.upload(&numbers).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..200).for_each(|_| assert_eq!(there.to_vec(stream).unwrap(), numbers)));
            }
        });
    });
}
