//! The measured peak rates of the device: bytes copied and 32-bit integer instructions.

use rigel_gpu::{Kernel, Result, Source, Stream};
use serde::Serialize;

use super::measure::{Cost, Instructions};
use crate::bandwidth::{Way, median_of, milliseconds};
use crate::bench::Size;

/// The rates from which floors are computed.
#[derive(Clone, Debug, Serialize)]
pub struct Ceilings {
    /// Bytes read and written by a large copy within the device.
    pub copy_gigabytes_per_second: f64,
    /// Logic and shift instructions (LOP3, SHF) of all threads.
    pub logic_per_second: f64,
    /// Multiply-add instructions (IMAD) of all threads.
    pub multiply_per_second: f64,
}

impl Ceilings {
    pub fn measure(stream: &Stream, size: Size, repeat: usize) -> Result<Self> {
        let bytes = size.pick(1 << 30, 16 << 20);
        let copy = Way::Within.traffic(bytes) / milliseconds(stream, Way::Within, bytes, repeat)? / 1e6;
        let chains = Chains::new(stream)?;
        let steps = size.pick(4096, 64);
        Ok(Self {
            copy_gigabytes_per_second: copy,
            logic_per_second: chains.rate(stream, &chains.logic, steps, repeat)?,
            multiply_per_second: chains.rate(stream, &chains.multiply, steps, repeat)?,
        })
    }

    /// Instructions per second of both units together.
    pub fn integer_per_second(&self) -> f64 {
        self.logic_per_second + self.multiply_per_second
    }

    /// Milliseconds that `bytes` take at copy bandwidth.
    pub fn memory_milliseconds(&self, bytes: f64) -> f64 {
        bytes / self.copy_gigabytes_per_second / 1e6
    }

    /// The minimum milliseconds for a cost, and which ceiling determines it. `None` for a zero cost.
    pub fn floor(&self, cost: &Cost) -> Option<(f64, &'static str)> {
        let Instructions { logic, multiply, .. } = cost.instructions;
        let parts = [
            (self.memory_milliseconds(cost.bytes), "memory"),
            (logic / self.logic_per_second * 1e3, "logic"),
            (multiply / self.multiply_per_second * 1e3, "multiply"),
            (cost.instructions.total() / self.integer_per_second() * 1e3, "integer"),
        ];
        parts.into_iter().filter(|(floor, _)| *floor > 0.0).max_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// Kernels that execute only one kind of instruction, in independent chains: enough per thread to hide an instruction's
/// latency, and enough threads to fill the device.
pub struct Chains {
    logic: Kernel,
    pub multiply: Kernel,
}

/// Instructions per step of a thread: the number of chains times the instructions of each.
const STEP: f64 = 8.0 * 16.0;

const TEXT: &str = r"
typedef unsigned u32;

// Each round is two instructions: SHF, LOP3.
struct Logic {
    static const int ROUNDS = 8;
    static __device__ __forceinline__ u32 round(u32 x, u32 a, u32 b) { return (__funnelshift_l(x, x, 7) & a) ^ b; }
};

// Each round is one IMAD.
struct Multiply {
    static const int ROUNDS = 16;
    static __device__ __forceinline__ u32 round(u32 x, u32 a, u32 b) { return x * a + b; }
};

template <class Operation>
__global__ void chains(u32 *out, u32 a, u32 b, u32 steps) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    u32 x[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = thread + i;
#pragma unroll 1
    for (u32 step = 0; step < steps; ++step) {
#pragma unroll
        for (int r = 0; r < Operation::ROUNDS; ++r) {
#pragma unroll
            for (int i = 0; i < 8; ++i) x[i] = Operation::round(x[i], a, b);
        }
    }
    u32 sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += x[i];
    out[thread] = sum;
}
";

impl Chains {
    pub fn new(stream: &Stream) -> Result<Self> {
        let names = ["chains<Logic>", "chains<Multiply>"];
        // SAFETY: each thread writes the element of its index, and the buffer has one for every thread.
        let source = unsafe { Source::new("ceilings.cu", TEXT) };
        let module = stream.device().compile(&source.kernel(names[0]).kernel(names[1]))?;
        Ok(Self { logic: module.kernel(names[0])?, multiply: module.kernel(names[1])? })
    }

    /// Instructions per second.
    fn rate(&self, stream: &Stream, kernel: &Kernel, steps: u32, repeat: usize) -> Result<f64> {
        let mut threads = 0;
        let milliseconds = median_of(repeat, || {
            let (ran, milliseconds) = stream.time(|| Self::launch(stream, kernel, steps))?;
            threads = ran;
            Ok(f64::from(milliseconds))
        })?;
        Ok(threads as f64 * f64::from(steps) * STEP / milliseconds * 1e3)
    }

    /// Fills the device once, with `steps` steps per thread. Returns the number of threads.
    pub fn launch(stream: &Stream, kernel: &Kernel, steps: u32) -> Result<usize> {
        let shape = kernel.fill(u32::MAX as usize)?;
        let threads = shape.blocks[0] as usize * shape.threads[0] as usize;
        let mut out = stream.alloc::<u32>(threads)?;
        kernel.launch(stream, shape, (&mut out, 0x9e37_79b9u32, 0x7f4a_7c15u32, steps))?;
        Ok(threads)
    }
}
