//! Tests that a device's caches are bounded, and that their memory can be given back.

use std::sync::Arc;

use rigel_gpu::testing::{are_pooled, devices, on_each_device};
use rigel_gpu::{Device, Graph, KeepLimits, Shape};

use crate::{slow_fill, source};

#[test]
fn modules_make_room_for_others() {
    on_each_device(|stream| {
        let device = Device::open(stream.device().to_string().parse().unwrap()).unwrap();
        device.set_keep_limits(KeepLimits { values: 3, bytes: 0 });
        let stream = device.compute().unwrap();
        let mut x = stream.zeros::<u32>(1).unwrap();
        for round in 0..6 {
            let text = format!("__global__ void set(unsigned *x) {{ *x = {round}; }}");
            let module = device.compile(&source("set.cu", &text).kernel("set")).unwrap();
            module.kernel("set").unwrap().launch(&stream, Shape::new(1, 1), (&mut x,)).unwrap();
        }
        assert_eq!(x.to_vec(&stream).unwrap(), [5]);
        let stats = device.keep_stats();
        assert_eq!((stats.values, stats.evicted), (3, 3));
    });
}

/// Code that a graph refers to stays loaded.
#[test]
fn a_graph_keeps_its_code() {
    on_each_device(|stream| {
        let device = Device::open(stream.device().to_string().parse().unwrap()).unwrap();
        let stream = device.compute().unwrap();
        let mut x = stream.zeros::<u32>(4).unwrap();
        let graph = {
            let fill = slow_fill(&stream);
            let arguments = |x| (x, 4u32, 6u32, 1000u32);
            Graph::capture(&stream, |stream| fill.launch(stream, Shape::new(1, 4), arguments(&mut x))).unwrap()
        };
        device.trim();
        assert_eq!(device.keep_stats().values, 1, "the module is in use");
        graph.replay(&stream).unwrap();
        assert_eq!(x.to_vec(&stream).unwrap(), [6; 4]);
        drop(graph);
        device.trim();
        assert_eq!(device.keep_stats().values, 0);
    });
}

#[test]
fn values_are_shared_while_they_are_kept() {
    on_each_device(|stream| {
        let device = stream.device();
        let table = |key: u32| {
            device.kept(&("growth", key), |device| Ok((device.compute()?.zeros::<u8>(256)?, 256))).unwrap()
        };
        let (first, again, other) = (table(1), table(1), table(2));
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
        assert!(device.keep_stats().bytes >= 512);
        let error = device.kept(&"growth fails", |_| -> rigel_gpu::Result<(u8, usize)> {
            Err(rigel_gpu::Error::shape("growth", "not made"))
        });
        assert!(error.is_err());
        assert_eq!(*device.kept(&"growth fails", |_| Ok((1u8, 0))).unwrap(), 1, "a failure is not kept");
    });
}

#[test]
fn trim_gives_memory_back() {
    for open in devices().unwrap() {
        let device = Device::open(open.to_string().parse().unwrap()).unwrap();
        let stream = device.compute().unwrap();
        if !are_pooled() {
            return;
        }
        let keep = stream.upload(&[1u32, 2, 3]).unwrap();
        drop(stream.zeros::<u8>(64 << 20).unwrap());
        drop(stream.zeros::<u8>(100 << 20).unwrap());
        let mut pinned = device.pinned::<u8>(8 << 20).unwrap();
        drop(pinned.slice().unwrap());
        drop(pinned);
        stream.synchronize().unwrap();
        let (held, pinned) = (device.memory_stats().held, device.pinned_stats().held);
        let (memory_back, pinned_back) = device.trim();
        assert!(memory_back >= 64 << 20, "{memory_back} of {held} bytes");
        assert!(pinned_back >= 8 << 20, "{pinned_back} of {pinned} bytes");
        assert_eq!(device.memory_stats().held, held - memory_back);
        assert_eq!(device.pinned_stats().held, pinned - pinned_back);
        // What was in use is as it was, and there is room again.
        assert_eq!(keep.to_vec(&stream).unwrap(), [1, 2, 3]);
        let again = stream.zeros::<u8>(100 << 20).unwrap();
        assert!(again.to_vec(&stream).unwrap().iter().all(|&byte| byte == 0));
        assert_eq!(keep.to_vec(&stream).unwrap(), [1, 2, 3]);
    }
}

/// Uploads that nobody waits for pin two blocks a host thread in the first round, and none after it.
#[test]
fn repeated_uploads_pin_no_more_memory() {
    on_each_device(|stream| {
        let device = Device::open(stream.device().to_string().parse().unwrap()).unwrap();
        let stream = device.compute().unwrap();
        let fill = slow_fill(&stream);
        let values = vec![3u32; 8 << 20];
        let round = || {
            let mut to = stream.upload(&values).unwrap();
            stream.upload(&values[..100]).unwrap();
            fill.launch(&stream, Shape::new(1, 32), (&mut to, 100u32, 1u32, 10_000u32)).unwrap();
            device.pinned_stats().driver_calls
        };
        // Two staging blocks a thread, and one for small uploads.
        let calls = round();
        assert!(calls <= 2 * device.staging().threads as u64 + 1, "{calls} blocks");
        for _ in 0..20 {
            assert_eq!(round(), calls);
        }
        stream.synchronize().unwrap();
    });
}
