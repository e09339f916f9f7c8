//! Random field elements, generated on the device.

use rigel_gpu::{Buffer, Device, Kernel, Result, Source, Stream};
use rigel_kernels::field::Field;

/// Fills device memory with field elements in stored form.
pub struct Random {
    narrow: Kernel,
    wide: Kernel,
}

const TEXT: &str = r"
// SplitMix64: a bijection of 64-bit integers whose bits pass for random.
__device__ unsigned long long mix(unsigned long long x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

template <class Word>
__global__ void random_below(Word *out, unsigned long long n, unsigned long long bound) {
    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        out[i] = (Word)(mix(i) % bound);
}
";

impl Random {
    pub fn new(device: &Device) -> Result<Self> {
        let names = ["random_below<unsigned>", "random_below<unsigned long long>"];
        // SAFETY: each thread writes elements below the length that it is given.
        let source = unsafe { Source::new("random.cu", TEXT) };
        let module = device.compile(&source.kernel(names[0]).kernel(names[1]))?;
        Ok(Self { narrow: module.kernel(names[0])?, wide: module.kernel(names[1])? })
    }

    /// Field elements.
    pub fn elements<F: Field>(&self, stream: &Stream, len: usize) -> Result<Buffer<F>> {
        if size_of::<F>() == size_of::<u32>() {
            self.indices(stream, len, F::ORDER)?.cast()
        } else {
            let mut words = stream.alloc::<u64>(len)?;
            self.wide.launch(stream, self.wide.fill(len)?, (&mut words, len as u64, F::ORDER))?;
            words.cast()
        }
    }

    /// Numbers below `bound`.
    pub fn indices(&self, stream: &Stream, len: usize, bound: u64) -> Result<Buffer<u32>> {
        let mut words = stream.alloc::<u32>(len)?;
        self.narrow.launch(stream, self.narrow.fill(len)?, (&mut words, len as u64, bound))?;
        Ok(words)
    }
}
