//! A custom kernel in a few lines: compile CUDA C++ text and launch it.
//!
//! `cargo run --example vector_add` uses the first CUDA device, or the emulated device if there is none.

use rigel_gpu::{Device, Result, Selector, Source};

const TEXT: &str = r#"
__global__ void add(const float *a, const float *b, float *sum, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = a[i] + b[i];
}
"#;

fn main() -> Result<()> {
    let device = Device::from_env().or_else(|reason| {
        println!("{reason}\nRunning on the emulated device instead.");
        Device::open(Selector::Emulated(0))
    })?;
    let stream = device.compute()?;
    // SAFETY: each thread reads and writes one element below `n`, which is the length of all three buffers.
    let source = unsafe { Source::new("add.cu", TEXT) }.kernel("add");
    let add = device.compile(&source)?.kernel("add")?;

    let n = 1 << 20;
    let a = stream.upload(&(0..n).map(|i| i as f32).collect::<Vec<_>>())?;
    let b = stream.upload(&vec![0.5f32; n])?;
    let mut sum = stream.alloc::<f32>(n)?;
    let (_, milliseconds) = stream.time(|| add.launch(&stream, add.cover(n)?, (&a, &b, &mut sum, n as u32)))?;
    let sum = sum.to_vec(&stream)?;
    println!("{}: {n} sums in {milliseconds:.3} ms; the last is {}", device.properties().name, sum[n - 1]);
    Ok(())
}
