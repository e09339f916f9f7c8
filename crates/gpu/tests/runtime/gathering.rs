//! Launches that are submitted together.

use rigel_gpu::testing::on_each_device;
use rigel_gpu::{DeviceKind, Graph, Kernel, Shape, Stream};

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
        let flip = |x: &mut rigel_gpu::Buffer<u32>| flip.launch(stream, Shape::new(1, 32), (x, 6u32)).unwrap();
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

/// Many threads, each with streams that come and go, set and launch their chains while others run, and while modules
/// with kernels that need more local memory are loaded.
#[test]
fn many_streams_gather_at_once() {
    on_each_device(|stream| {
        let device = stream.device();
        let rounds = if device.kind() == DeviceKind::Cuda { 1500 } else { 6 };
        let prove = |thread: u32| {
            let mut kernels = kernels(stream);
            for round in 0..rounds {
                if round % 100 == thread {
                    kernels[1] = deep(stream, 64 << (thread % 4));
                }
                let stream = device.new_stream().unwrap();
                let _gathering = stream.gather();
                let before = device.new_stream().unwrap();
                let slow = before.upload(&vec![thread; 1 << 18]).unwrap();
                // Chains wait for another stream, so that many are under way at a time.
                stream.wait_for(&before).unwrap();
                let (found, expected) = run(&stream, &kernels, 16 + (thread * 31 + round * 7) % 90);
                assert_eq!(found, expected, "thread {thread}, round {round}");
                drop(slow);
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..12 {
                scope.spawn(move || prove(thread));
            }
        });
    });
}

/// `x = x ^ by`, by way of an array in local memory.
fn deep(stream: &Stream, words: u32) -> Kernel {
    let text = format!(
        "__global__ void flip(unsigned *x, unsigned by) {{
            volatile unsigned a[{words}];
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            for (unsigned k = 0; k < {words}; ++k) a[(k + i) % {words}] = by;
            x[i] ^= a[x[i] % {words}];
        }}"
    );
    stream.device().compile(&source("deep.cu", &text).kernel("flip")).unwrap().kernel("flip").unwrap()
}
