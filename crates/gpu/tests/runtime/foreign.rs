//! Memory and streams of others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rigel_gpu::testing::{are_pooled, on_each_device};
use rigel_gpu::{Buffer, DeviceKind, Error, Graph, Kernel, Result, Selectors, Shape, Stream};

use crate::source;

/// Repeats `work` until no other test of this process captures: until then memory does not come back from others,
/// so that work on it fails, and so does what needs its room.
fn once_nobody_captures<T>(work: impl Fn() -> Result<T>) -> T {
    let began = Instant::now();
    loop {
        match work() {
            Err(Error::OutOfMemory { .. } | Error::Driver { operation: "cuCtxRecordEvent", .. })
                if began.elapsed() < Duration::from_secs(30) =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            done => return done.unwrap(),
        }
    }
}

/// Adds 1 to each value, after so many rounds of waiting.
fn increment(stream: &Stream) -> Kernel {
    let text = "__global__ void increment(unsigned *x, unsigned n, unsigned rounds) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        unsigned y = i;
        for (unsigned r = 0; r < rounds; ++r) y = y * 1664525u + 1013904223u;
        for (unsigned r = 0; r < rounds; ++r) y = (y - 1013904223u) * 4276115653u;
        x[y] += 1;
    }";
    let source = source("increment.cu", text).kernel("increment");
    stream.device().compile(&source).unwrap().kernel("increment").unwrap()
}

fn run(stream: &Stream, x: &mut Buffer<u8>, rounds: u32) {
    let n = (x.len() / 4) as u32;
    increment(stream).launch(stream, Shape::cover(n as usize, 128).unwrap(), (x, n, rounds)).unwrap();
}

/// Keeps memory as another library would, and counts when it lets go.
struct Keeper {
    _memory: Buffer<u32>,
    gone: Arc<AtomicUsize>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.gone.fetch_add(1, Ordering::SeqCst);
    }
}

/// Memory with these values, adopted, and the count of owners that are gone.
fn adopted(stream: &Stream, values: &[u32]) -> (Buffer<u8>, Arc<AtomicUsize>) {
    let memory = stream.upload(values).unwrap();
    stream.synchronize().unwrap();
    let gone = Arc::new(AtomicUsize::new(0));
    let (address, bytes) = (memory.address(), memory.bytes());
    assert_eq!(memory.view().address(), address);
    let owner = Box::new(Keeper { _memory: memory, gone: gone.clone() });
    // SAFETY: the owner keeps the memory, and nobody else uses it.
    (unsafe { stream.device().adopt(address, bytes, owner) }.unwrap(), gone)
}

#[test]
fn adopted_memory_is_read_and_written() {
    on_each_device(|stream| {
        let before = stream.device().memory_stats().in_use;
        let (mut x, gone) = adopted(stream, &[5; 300]);
        run(stream, &mut x, 0);
        let x = x.cast::<u32>().unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [6; 300]);
        let (head, tail) = x.split_at(100).unwrap();
        drop(head);
        assert_eq!(tail.to_vec(stream).unwrap(), [6; 200]);
        assert_eq!(gone.load(Ordering::SeqCst), 0);
        drop(tail);
        stream.synchronize().unwrap();
        assert_eq!(gone.load(Ordering::SeqCst), 1);
        assert_eq!(stream.device().memory_stats().in_use, before);
    });
}

/// The owner goes after the kernel that uses its memory, whoever waits for that.
#[test]
fn an_owner_outlives_the_work() {
    on_each_device(|stream| {
        let (mut x, gone) = adopted(stream, &[1; 1 << 12]);
        let other = stream.device().new_stream().unwrap();
        run(&other, &mut x, 200_000);
        drop(x);
        other.synchronize().unwrap();
        assert_eq!(gone.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_graph_keeps_adopted_memory() {
    on_each_device(|stream| {
        let (mut x, gone) = adopted(stream, &[1; 64]);
        let kernel = increment(stream);
        let graph = Graph::capture(stream, |stream| {
            kernel.launch(stream, Shape::new(1, 64), (&mut x, 64u32, 0u32))?;
            drop(x);
            Ok(())
        })
        .unwrap();
        graph.replay(stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(gone.load(Ordering::SeqCst), 0);
        drop(graph);
        stream.synchronize().unwrap();
        assert_eq!(gone.load(Ordering::SeqCst), 1);
    });
}

/// Memory given back while its stream records a graph of other work goes with the work that used it before.
#[test]
fn a_capture_of_other_work_does_not_keep_an_owner() {
    on_each_device(|stream| {
        let (mut x, gone) = adopted(stream, &[1; 64]);
        run(stream, &mut x, 0);
        let graph = Graph::capture(stream, |_| {
            drop(x);
            Ok(())
        });
        stream.synchronize().unwrap();
        assert_eq!(gone.load(Ordering::SeqCst), 1);
        drop(graph);
    });
}

#[test]
fn what_is_not_the_devices_memory_is_refused() {
    on_each_device(|stream| {
        let device = stream.device();
        let host = [0u8; 16];
        let here = stream.upload(&[1u32; 4]).unwrap();
        // SAFETY: nothing is done with the memory.
        let adopt = |address, bytes| unsafe { device.adopt(address, bytes, Box::new(())) };
        for (address, bytes) in [(host.as_ptr() as u64, 16), (0, 1), (u64::MAX, 2), (here.address(), 1 << 50)] {
            let error = adopt(address, bytes).unwrap_err();
            assert!(matches!(error, Error::Shape { operation: "Device::adopt", .. }), "{error}");
        }
        assert!(adopt(here.address(), 16).is_ok());
        assert!(adopt(0, 0).unwrap().is_empty());
        if device.kind() == DeviceKind::Emulated {
            assert!(adopt(here.address() + 4, 12).is_ok());
            assert!(adopt(here.address(), 17).unwrap_err().to_string().contains("not in a live buffer"));
            let freed = here.address();
            drop(here);
            assert!(adopt(freed, 16).unwrap_err().to_string().contains("not in a live buffer"));
        }
    });
}

/// Work is ordered with foreign streams; another stream of the engine plays the foreign one.
#[test]
fn work_is_ordered_with_foreign_streams() {
    on_each_device(|stream| {
        let theirs = stream.device().new_stream().unwrap();
        for handle in [theirs.raw_handle(), 0, 1, 2] {
            let mut x = stream.zeros::<u32>(1 << 12).unwrap().cast::<u8>().unwrap();
            // SAFETY: the handles are a live stream of this device and the default streams.
            let wait = || unsafe { stream.wait_foreign(handle) }.unwrap();
            // SAFETY: as above.
            let release = || unsafe { stream.release_to(handle) }.unwrap();
            run(stream, &mut x, 100_000);
            release();
            if handle == theirs.raw_handle() {
                run(&theirs, &mut x, 100_000);
                wait();
                run(stream, &mut x, 0);
                assert_eq!(x.cast::<u32>().unwrap().to_vec(stream).unwrap(), [3; 1 << 12]);
            } else {
                wait();
            }
        }
        // SAFETY: as above.
        let error = Graph::capture(stream, |stream| unsafe { stream.wait_foreign(0) }).unwrap_err();
        assert!(error.to_string().contains("wait_foreign"), "{error}");
    });
}

/// Memory that another library's kernel reads and gives back without waiting is reused after the kernel, on
/// whatever stream. A stream of another opening of the device plays the other library: memory use there is not
/// known here.
#[test]
fn memory_that_another_library_read_is_reused_after_its_kernel() {
    on_each_device(|stream| {
        let device = stream.device();
        let theirs = device.new_stream().unwrap();
        let other = device.new_stream().unwrap();
        // The memory is large, so that nothing else has room; the kernel reads its beginning.
        const LEN: usize = 1 << 20;
        const READ: usize = 1 << 12;
        // The emulated device is idle when a call returns.
        let (times, rounds) = if device.kind() == DeviceKind::Cuda { (4, 200_000) } else { (1, 1) };
        for _ in 0..times {
            let x = stream.upload(&vec![7u32; LEN]).unwrap();
            let at = x.address();
            // SAFETY: the handle is that of a live stream of this device.
            unsafe { stream.release_to(theirs.raw_handle()) }.unwrap();
            // SAFETY: `x` is kept until it is reclaimed below.
            let mut seen = unsafe { device.adopt(at, 4 * READ, Box::new(())) }.unwrap();
            run(&theirs, &mut seen, rounds);
            let seen = seen.cast::<u32>().unwrap();
            let mut copied = theirs.zeros::<u32>(READ).unwrap();
            theirs.copy(copied.view_mut(), seen.view()).unwrap();
            // Nothing else has room for the next user.
            device.trim();
            device.set_memory_limit(Some(device.memory_stats().in_use));
            device.reclaim(x.view()).unwrap();
            drop(x);
            // The next user takes the same memory and overwrites it.
            let next = once_nobody_captures(|| other.upload(&vec![1u32; LEN]));
            assert!(next.address() == at || !are_pooled(), "the memory is taken again");
            device.set_memory_limit(None);
            assert_eq!(next.to_vec(&other).unwrap(), vec![1; LEN]);
            assert_eq!(copied.to_vec(&theirs).unwrap(), vec![8; READ], "the kernel saw what was there before");
        }
        // What nobody else uses is taken back at once by the next work, and a device closes with what it took back.
        let x = stream.zeros::<u32>(16).unwrap();
        device.reclaim(x.view()).unwrap();
        assert_eq!(once_nobody_captures(|| x.to_vec(stream)), [0; 16]);
        device.reclaim(x.view()).unwrap();
    });
}

/// CUDA would end a capture if it were asked now for all work of the context.
#[test]
fn memory_comes_back_without_ending_a_capture() {
    on_each_device(|stream| {
        let (device, other) = (stream.device(), stream.device().new_stream().unwrap());
        let x = stream.upload(&[3u32; 16]).unwrap();
        let mut y = stream.zeros::<u32>(1 << 10).unwrap().cast::<u8>().unwrap();
        stream.synchronize().unwrap();
        device.reclaim(x.view()).unwrap();
        let graph = Graph::capture(stream, |stream| {
            assert_eq!(other.upload(&[5u32; 16])?.to_vec(&other)?, [5; 16], "other work goes on");
            let used = x.to_vec(&other);
            assert_eq!(
                used.is_err(),
                device.kind() == DeviceKind::Cuda,
                "nothing orders it with the library's work"
            );
            run(stream, &mut y, 0);
            Ok(())
        })
        .unwrap();
        assert_eq!(once_nobody_captures(|| x.to_vec(stream)), [3; 16]);
        graph.replay(stream).unwrap();
        assert_eq!(y.cast::<u32>().unwrap().to_vec(stream).unwrap(), [1; 1 << 10]);
    });
}

/// A library that waits for a stream's handle sees all that was launched on the stream before.
#[test]
fn a_stream_whose_handle_is_known_has_no_launches_that_wait() {
    on_each_device(|stream| {
        let own = stream.device().new_stream().unwrap();
        let mut x = own.zeros::<u32>(1 << 12).unwrap().cast::<u8>().unwrap();
        own.synchronize().unwrap();
        let before = stream.device().activity();
        let submitted = || stream.device().activity().submissions - before.submissions;
        let gathering = own.gather();
        run(&own, &mut x, 0);
        assert_eq!(submitted(), 0, "gathered");
        own.raw_handle();
        assert_eq!(submitted(), 1);
        run(&own, &mut x, 0);
        assert_eq!(submitted(), 2, "no longer gathered");
        drop(gathering);
        assert_eq!(x.cast::<u32>().unwrap().to_vec(&own).unwrap(), [2; 1 << 12]);
    });
}

/// A context that other libraries do not share: their default streams are not its default streams.
#[test]
fn openings_with_a_context_of_their_own_are_refused() {
    for name in ["emulated:0", "cuda:0"] {
        let devices = match format!("{name},{name}#1").parse::<Selectors>().unwrap().open() {
            Err(Error::Unavailable { .. }) => continue,
            devices => devices.unwrap(),
        };
        let stream = devices[1].compute().unwrap();
        let memory = stream.upload(&[1u32, 2]).unwrap();
        stream.synchronize().unwrap();
        // SAFETY: the memory lives until the end of the test, and the handle is that of the default stream.
        let refusals = unsafe {
            let adopted = devices[1].adopt(memory.address(), 8, Box::new(())).map(drop);
            [adopted, stream.wait_foreign(1), stream.release_to(1)]
        };
        for refusal in refusals {
            let error = refusal.unwrap_err().to_string();
            assert!(error.contains(&format!("{name}#1 has a context of its own")), "{error}");
            assert!(error.contains(&format!("open {name} instead")), "{error}");
        }
        // SAFETY: as above.
        unsafe { devices[0].compute().unwrap().wait_foreign(1) }.unwrap();
    }
}
