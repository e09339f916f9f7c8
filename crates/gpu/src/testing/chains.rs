//! Whether the device's driver runs gathered launches with their own kernels and arguments.
//!
//! Kernels with few and many bytes of parameters, and with more local memory the later they are loaded, are launched
//! together from many threads, whose streams come and go. On a driver that spoils chains, results are wrong, or the
//! device reports illegal or misaligned addresses, within a second.

use std::time::{Duration, Instant};

use crate::base::{Error, Result};
use crate::code::{Kernel, Shape, Source};
use crate::device::Device;
use crate::memory::Buffer;
use crate::work::Stream;

const VALUES: usize = 1 << 12;

const TEXT: &str = "template <int W> struct Table { unsigned w[W]; };
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

/// The size of a search for wrong launches.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Threads that launch at the same time.
    pub threads: u32,
    /// Kernels with local memory, each of which has twice as much as the one before; at most 10.
    pub depths: u32,
    /// The rounds of each thread with each of them: at least so many,
    pub rounds: u32,
    /// and until they have taken so long.
    pub time: Duration,
}

/// Gathers launches of many kernels and compares their results with the host's. Returns the number of rounds.
///
/// # Errors
/// A wrong value, as [`Error::Fault`], or the driver's error.
pub fn check(device: &Device, effort: Effort) -> Result<u64> {
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..effort.threads).map(|thread| scope.spawn(move || run(device, thread, effort))).collect();
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Error::Panicked("a thread that gathers launches".into())))
        });
        // All threads are waited for, whatever the first one says.
        let ended: Vec<Result<u64>> = ended.collect();
        ended.into_iter().sum()
    })
}

/// The rounds of one thread.
fn run(device: &Device, thread: u32, effort: Effort) -> Result<u64> {
    let kernel = |name: &str| {
        // SAFETY: each thread changes one of `VALUES` values.
        let source = unsafe { Source::new("kinds.cu", TEXT) }.kernel(name);
        device.compile(&source)?.kernel(name)
    };
    let tables = [kernel("mix<1>")?, kernel("mix<60>")?, kernel("mix<250>")?, kernel("mix<900>")?];
    let mut state = thread * 7919 + 1;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let mut rounds = 0;
    for depth in 0..effort.depths.min(10) {
        let deep = kernel(&format!("deep<{}>", 4 << depth))?;
        let (began, first) = (Instant::now(), rounds);
        while rounds < first + u64::from(effort.rounds) || began.elapsed() < effort.time {
            let stream = device.new_stream()?;
            let _gathering = stream.gather();
            for _ in 0..1 + random(4) {
                let mut expected: Vec<u32> = (0..VALUES as u32).collect();
                let mut x = stream.upload(&expected)?;
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
                    }?;
                }
                if x.to_vec(&stream)? != expected {
                    let detail =
                        format!("wrong values after {length} gathered launches (thread {thread}, round {rounds})");
                    return Err(Error::Fault { kernel: "mix and deep".into(), detail });
                }
            }
            rounds += 1;
        }
    }
    Ok(rounds)
}

/// `x = 5 x + table[x % W] + table[W - 1]`, with the table among the kernel's parameters, and in a copy in local memory
/// if it is deep.
fn mix<const W: usize>(
    stream: &Stream,
    kernel: &Kernel,
    x: &mut Buffer<u32>,
    expected: &mut [u32],
    seed: u32,
) -> Result<()> {
    let table: [u32; W] = std::array::from_fn(|i| seed.wrapping_mul(2 * i as u32 + 1));
    kernel.launch(stream, Shape::new(VALUES as u32 / 128, 128), (x, table))?;
    for value in expected {
        *value = value.wrapping_mul(5).wrapping_add(table[*value as usize % W]).wrapping_add(table[W - 1]);
    }
    Ok(())
}
