//! Launches that are submitted together.

use std::time::Duration;

use rigel_gpu::testing::chains::{Effort, check};
use rigel_gpu::testing::faults::{Call, Faults, Injection};
use rigel_gpu::testing::on_each_device;
use rigel_gpu::{Buffer, DeviceKind, Error, Graph, Kernel, Options, Selector, Shape, Stream};

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

/// Kernels with few and many bytes of parameters, and with more local memory the later they are loaded, from many
/// threads, whose streams come and go: a chain that was made of other kernels must not run them.
#[test]
fn kernels_of_all_kinds_are_gathered() {
    on_each_device(|stream| {
        let is_gpu = stream.device().kind() == DeviceKind::Cuda;
        let (threads, depths, rounds) = if is_gpu { (24, 10, 100) } else { (4, 1, 3) };
        let effort = Effort { threads, depths, rounds, time: Duration::ZERO };
        assert_eq!(check(stream.device(), effort).unwrap(), u64::from(threads * depths * rounds));
    });
}

/// `rigel doctor` finds a driver that says that it has launched what it has not.
#[test]
fn a_driver_that_spoils_chains_is_found() {
    let injection = Injection::over(Selector::Emulated(0), Options::from_env().unwrap()).unwrap();
    let (device, faults) = injection.open();
    let effort = Effort { threads: 1, depths: 1, rounds: 20, time: Duration::ZERO };
    faults.swallow(Call::Chain, 1);
    let error = check(&device, effort).unwrap_err();
    assert!(matches!(error, Error::Fault { .. }), "{error}");
    assert_eq!(faults.struck(), 1);
    faults.arm(Call::Chain, 1);
    let error = check(&device, effort).unwrap_err().to_string();
    assert!(Faults::is_named_in(&error), "{error}");
    // Without chains, no driver can spoil them.
    let options = Options { chains: false, ..Options::from_env().unwrap() };
    let (device, faults) = Injection::over(Selector::Emulated(0), options).unwrap().open();
    faults.swallow(Call::Chain, 1);
    assert_eq!(check(&device, effort).unwrap(), 20);
    assert_eq!((faults.struck(), faults.calls().of(Call::Chain)), (0, 0));
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
