//! Safe code can't break memory, whatever it calls.

use rigel_gpu::testing::{devices, on_each_device};
use rigel_gpu::{Buffer, Device, Emulation, Error, Graph, Kernel, Options, Recorder, Shape, Stream, View};

use crate::{slow_fill, source};

#[test]
fn lengths_that_overflow_are_errors() {
    on_each_device(|stream| {
        let device = stream.device();
        for len in [1 << 60, 1 << 61, (1 << 61) + 1, usize::MAX] {
            assert!(device.pinned::<u64>(len).is_err(), "{len} pinned values");
            assert!(stream.alloc::<u64>(len).is_err(), "{len} values");
        }
        assert!(device.pinned::<u8>(usize::MAX / 2).is_err());
        assert!(device.pinned::<u8>(usize::MAX / 2 + 2).is_err());
    });
}

#[test]
fn times_of_different_devices_are_not_compared() {
    let emulation = Emulation { devices: 2, ..Emulation::default() };
    let mut streams: Vec<Stream> = Device::emulated(&emulation, &Options::from_env().unwrap())
        .unwrap()
        .iter()
        .chain(&devices().unwrap())
        .map(|device| device.compute().unwrap())
        .collect();
    let last = streams.pop().unwrap();
    let start = last.record_time().unwrap();
    for stream in streams {
        let end = stream.record_time().unwrap();
        assert!(matches!(end.since(&start), Err(Error::WrongDevice { .. })));
    }
    let untimed = last.record().unwrap();
    untimed.synchronize().unwrap();
    assert!(untimed.since(&start).unwrap_err().to_string().contains("record_time"));
}

/// `out[i] = in[i] + by`.
fn add(stream: &Stream) -> Kernel {
    let text =
        "__global__ void add(unsigned long long *out, const unsigned long long *in, unsigned long long by) {
        out[threadIdx.x] = in[threadIdx.x] + by;
    }";
    stream.device().compile(&source("add_to.cu", text).kernel("add")).unwrap().kernel("add").unwrap()
}

#[test]
fn numbers_do_not_pass_for_pointers_nor_pointers_for_numbers() {
    on_each_device(|stream| {
        let add = add(stream);
        let (mut x, y) = (stream.upload(&[1u64; 4]).unwrap(), stream.upload(&[2u64; 4]).unwrap());
        let shape = Shape::new(1, 4);
        let refused = |result: rigel_gpu::Result<()>, why: &str| {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Arguments { .. }), "{error}");
            assert!(error.to_string().contains(why), "{error}");
        };
        let address = x.address();
        refused(add.launch(stream, shape, (address, &y, 1u64)), "argument 0 (counted from 0) is a pointer");
        refused(add.launch(stream, shape, (&mut x, address, 1u64)), "argument 1 (counted from 0) is a pointer");
        refused(add.launch(stream, shape, (&mut x, &y, &y)), "argument 2 (counted from 0) is a value");
        refused(add.launch(stream, shape, (&mut x, &y, 1u32)), "has 8 bytes, got 4");
        refused(add.launch(stream, shape, (&mut x, &y)), "takes 3 arguments");
        add.launch(stream, shape, (&mut x, &y, 1u64)).unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [3; 4]);
    });
}

#[test]
fn only_what_is_borrowed_mutably_is_written() {
    on_each_device(|stream| {
        let add = add(stream);
        let (mut x, mut y) = (stream.upload(&[1u64; 4]).unwrap(), stream.upload(&[2u64; 4]).unwrap());
        let shape = Shape::new(1, 4);
        for result in [add.launch(stream, shape, (&x, &y, 1u64)), add.launch(stream, shape, (x.view(), &y, 1u64))]
        {
            assert!(result.unwrap_err().to_string().contains("is written to, got a buffer for reading"));
        }
        assert_eq!(x.to_vec(stream).unwrap(), [1; 4]);
        add.launch(stream, shape, (&mut x, y.view_mut(), 1u64)).unwrap();
        add.launch(stream, shape, (y.view_mut(), x.view(), 1u64)).unwrap();
        assert_eq!(y.to_vec(stream).unwrap(), [4; 4]);
    });
}

/// A kernel may take a buffer that is not there as a null pointer, for reading only.
#[test]
fn a_missing_buffer_is_a_null_pointer() {
    on_each_device(|stream| {
        let text = "__global__ void set(unsigned *out, const unsigned *in) { *out = in ? *in : 7; }";
        let set = stream.device().compile(&source("set.cu", text).kernel("set")).unwrap().kernel("set").unwrap();
        let (mut out, one) = (stream.zeros::<u32>(1).unwrap(), stream.upload(&[1u32]).unwrap());
        set.launch(stream, Shape::new(1, 1), (&mut out, None::<View<'_, u32>>)).unwrap();
        assert_eq!(out.to_vec(stream).unwrap(), [7]);
        set.launch(stream, Shape::new(1, 1), (&mut out, Some(one.view()))).unwrap();
        assert_eq!(out.to_vec(stream).unwrap(), [1]);
    });
}

#[test]
fn what_was_written_may_change_at_once() {
    on_each_device(|stream| {
        let fill = slow_fill(stream);
        let mut blocker = stream.alloc::<u32>(1).unwrap();
        // From ordinary memory and from memory that happens to be pinned; small, and through staging.
        for len in [16usize, 1 << 14, 1 << 17] {
            let mut target = stream.zeros::<u32>(len).unwrap();
            let mut pinned = stream.device().pinned::<u32>(len).unwrap();
            let mut values = pinned.slice().unwrap();
            values.fill(5);
            fill.launch(stream, Shape::new(1, 32), (&mut blocker, 1u32, 1u32, 3_000_000u32)).unwrap();
            stream.write(&mut target, &values).unwrap();
            values.fill(6);
            assert!(target.to_vec(stream).unwrap().iter().all(|&value| value == 5), "{len} values");
        }
    });
}

#[test]
fn casts_need_alignment() {
    on_each_device(|stream| {
        let bytes = stream.zeros::<u8>(20).unwrap();
        let (head, tail) = bytes.split_at(4).unwrap();
        assert!(head.cast::<u32>().is_ok());
        let (four, rest) = tail.split_at(4).unwrap();
        assert!(four.cast::<u32>().is_ok());
        assert!(rest.cast::<u64>().unwrap_err().to_string().contains("12 bytes"));
        let (_, odd) = stream.zeros::<u8>(9).unwrap().split_at(1).unwrap();
        assert!(odd.cast::<u64>().unwrap_err().to_string().contains("aligned to 8"));
    });
}

/// A device closes only after its work. On a GPU a kernel would else go on writing to memory that is unmapped.
#[test]
fn a_device_closes_after_its_work() {
    for selector in devices().unwrap().iter().map(|device| device.to_string().parse().unwrap()) {
        for handles in 0..3 {
            let device = Device::open(selector).unwrap();
            let stream = if handles == 0 { device.compute() } else { device.new_stream() }.unwrap();
            let mut buffer: Buffer<u32> = stream.alloc(1 << 16).unwrap();
            slow_fill(&stream)
                .launch(&stream, Shape::new(1, 32), (&mut buffer, 1u32 << 16, 3u32, 3_000_000u32))
                .unwrap();
            // Whoever goes last closes the device.
            match handles {
                0 => drop((buffer, stream, device)),
                1 => drop((device, buffer, stream)),
                _ => drop((stream, device, buffer)),
            }
            let device = Device::open(selector).unwrap();
            let stream = device.compute().unwrap();
            assert_eq!(stream.upload(&[1u32, 2]).unwrap().to_vec(&stream).unwrap(), [1, 2]);
        }
    }
}

/// A buffer that is left alone finds its device, and its device works.
#[test]
fn a_buffer_keeps_its_device() {
    for selector in devices().unwrap().iter().map(|device| device.to_string().parse().unwrap()) {
        let buffer = {
            let stream = Device::open(selector).unwrap().compute().unwrap();
            stream.upload(&[1u32, 2, 3]).unwrap()
        };
        let device = buffer.device();
        assert!(device.is(&buffer.device()));
        assert_eq!(buffer.to_vec(&device.compute().unwrap()).unwrap(), [1, 2, 3]);
    }
}

#[test]
fn reports_measure_their_own_peak() {
    on_each_device(|stream| {
        let outer = Recorder::new(stream);
        drop(stream.alloc::<u8>(1 << 20).unwrap());
        let inner = Recorder::new(stream);
        drop(stream.alloc::<u8>(1 << 16).unwrap());
        let (inner, outer) = (inner.finish().unwrap(), outer.finish().unwrap());
        assert!((1 << 16..1 << 17).contains(&inner.peak_bytes), "{}", inner.peak_bytes);
        assert!(outer.peak_bytes >= 1 << 20, "{}", outer.peak_bytes);
    });
}

#[test]
fn a_panic_elsewhere_leaves_the_device_usable() {
    on_each_device(|stream| {
        let device = stream.device().clone();
        let thread = std::thread::spawn(move || {
            let _kept =
                device.kept(&"poison", |_| -> rigel_gpu::Result<(u32, usize)> { panic!("while it is made") });
        });
        assert!(thread.join().is_err());
        let made = stream.device().kept(&"poison", |_| Ok((3u32, 0))).unwrap();
        assert_eq!(*made, 3);
        let graph = Graph::capture(stream, |_| Ok(())).unwrap();
        graph.replay(stream).unwrap();
    });
}
