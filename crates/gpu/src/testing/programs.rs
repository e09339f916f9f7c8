//! Small programs whose calls of the driver fail in tests.

use crate::base::{Result, bytes_of};
use crate::code::{Kernel, Shape, Source};
use crate::device::Device;
use crate::testing::faults::Program;

/// `x = 3 x + by` and `x = x ^ by`.
///
/// # Safety
/// They are launched with as many threads as `x` has elements.
pub unsafe fn kernels(device: &Device) -> Result<[Kernel; 2]> {
    const TEXT: &str = "__global__ void step(unsigned *x, unsigned by) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = 3 * x[i] + by;
}
__global__ void flip(unsigned *x, unsigned by) { x[blockIdx.x * blockDim.x + threadIdx.x] ^= by; }";
    // SAFETY: each thread changes one of the elements, of which there are as many as threads, as the caller promises.
    let source = unsafe { Source::new("faults.cu", TEXT) }.kernel("step").kernel("flip");
    let module = device.compile(&source)?;
    Ok([module.kernel("step")?, module.kernel("flip")?])
}

/// Memory that gathered launches write, and that another library uses on a stream of its own and gives back.
pub fn transfer() -> Program {
    const N: u32 = 1 << 10;
    let values: Vec<u32> = (0..N).collect();
    let mut given = values.clone();
    (0..4).for_each(|by| given.iter_mut().for_each(|x| *x = x.wrapping_mul(3).wrapping_add(by) ^ by));
    let expected: Vec<u32> = given.iter().map(|x| x ^ 2 ^ 4).collect();
    Program::new("transfer", bytes_of(&expected).to_vec(), move |device: &Device| {
        // SAFETY: `shape` has a thread for each element.
        let [step, flip] = unsafe { kernels(device) }?;
        let stream = device.compute()?;
        let shape = Shape::new(4, N / 4);
        let mut x = stream.upload(&values)?;
        let theirs = device.new_stream()?;
        let handle = theirs.raw_handle();
        let gathering = stream.gather();
        for by in 0..4u32 {
            step.launch(&stream, shape, (&mut x, by))?;
            flip.launch(&stream, shape, (&mut x, by))?;
        }
        // SAFETY: the stream is open.
        unsafe { stream.release_to(handle) }?;
        // The other library copies the memory, which it takes for its own: it does not see the engine's errors.
        // SAFETY: `x` outlives the buffer, and the streams wait for each other.
        let mut adopted = unsafe { device.adopt(x.address(), x.bytes(), Box::new(())) }?;
        let mut copy = theirs.alloc::<u8>(x.bytes())?;
        theirs.copy(&mut copy, &adopted)?;
        let found = copy.to_vec(&theirs)?;
        if found != bytes_of(&given) {
            // At once, because a later error would hide that they are wrong.
            return Ok(found);
        }
        flip.launch(&theirs, shape, (&mut adopted, 2u32))?;
        // SAFETY: the stream is open.
        unsafe { stream.wait_foreign(handle) }?;
        theirs.synchronize()?;
        drop(adopted);
        flip.launch(&stream, shape, (&mut x, 4u32))?;
        let found = x.to_vec(&stream)?;
        drop(gathering);
        device.reclaim(&x)?;
        drop(x);
        // The driver is asked when the device next works, and this may take the memory.
        let found = stream.upload(&found)?.to_vec(&stream)?;
        Ok(bytes_of(&found).to_vec())
    })
}
