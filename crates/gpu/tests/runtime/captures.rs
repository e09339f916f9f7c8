//! Captures: what they keep, and how they end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use rigel_gpu::testing::on_each_device;
use rigel_gpu::{Device, DeviceKind, Graph, Shape, cublas_status};

use crate::slow_fill;

#[test]
fn a_graph_keeps_the_pinned_memory_it_copies() {
    on_each_device(|stream| {
        let device = stream.device();
        let mut target = stream.zeros::<u32>(1000).unwrap();
        let graph = {
            let mut pinned = device.pinned::<u32>(1000).unwrap();
            pinned.slice().unwrap().fill(7);
            Graph::capture(stream, |stream| stream.write_pinned(&mut target, &mut pinned)).unwrap()
        };
        // Memory that the graph did not keep would be handed out here.
        let mut others: Vec<_> = (0..4).map(|_| device.pinned::<u32>(1000).unwrap()).collect();
        others.iter_mut().for_each(|other| other.slice().unwrap().fill(1));
        graph.replay(stream).unwrap();
        assert_eq!(target.to_vec(stream).unwrap(), [7; 1000]);
    });
}

#[test]
fn the_host_waits_for_a_replay_that_writes_its_memory() {
    on_each_device(|stream| {
        let fill = slow_fill(stream);
        let mut source = stream.zeros::<u32>(1000).unwrap();
        let mut pinned = stream.device().pinned::<u32>(1000).unwrap();
        let graph = Graph::capture(stream, |stream| {
            fill.launch(stream, Shape::new(1, 32), (&mut source, 1000u32, 9u32, 1_000_000u32))?;
            stream.read_pinned(&source, &mut pinned)
        })
        .unwrap();
        assert_eq!(*pinned.slice().unwrap(), [0; 1000], "nothing ran yet");
        for _ in 0..2 {
            pinned.slice().unwrap().fill(1);
            graph.replay(stream).unwrap();
            assert_eq!(*pinned.slice().unwrap(), [9; 1000]);
        }
        // An unrelated upload finds nothing of the capture.
        assert_eq!(stream.upload(&vec![3u32; 1 << 18]).unwrap().to_vec(stream).unwrap(), vec![3; 1 << 18]);
    });
}

#[test]
fn a_graph_does_not_copy_memory_that_the_host_has_borrowed() {
    on_each_device(|stream| {
        let source = stream.upload(&[4u32; 8]).unwrap();
        let mut pinned = stream.device().pinned::<u32>(8).unwrap();
        let graph = Graph::capture(stream, |stream| stream.read_pinned(&source, &mut pinned)).unwrap();
        let slice = pinned.slice().unwrap();
        let error = graph.replay(stream).unwrap_err().to_string();
        assert!(error.contains("drop the slice"), "{error}");
        assert_eq!(*slice, [0; 8]);
        drop(slice);
        graph.replay(stream).unwrap();
        assert_eq!(*pinned.slice().unwrap(), [4; 8]);
    });
}

#[test]
fn another_thread_can_not_join_a_capture() {
    on_each_device(|stream| {
        let device = stream.device();
        let captured = device.new_stream().unwrap();
        let graph = Graph::capture(&captured, |captured| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // The same stream refuses; the rest of the device works.
                    let error = captured.zeros::<u32>(4).unwrap_err().to_string();
                    assert!(error.contains("another thread is capturing"), "{error}");
                    let own = device.new_stream().unwrap();
                    assert_eq!(own.zeros::<u32>(4).unwrap().to_vec(&own).unwrap(), [0; 4]);
                    device.synchronize().unwrap();
                });
            });
            captured.zeros::<u32>(4).map(drop)
        })
        .unwrap();
        graph.replay(&captured).unwrap();
        captured.synchronize().unwrap();
    });
}

/// Captures stay valid whatever another user of the same GPU opens and closes meanwhile, cuBLAS included.
#[test]
fn other_users_open_and_close_during_captures() {
    on_each_device(|stream| {
        let captured = stream.device().new_stream().unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let own = Device::open(stream.device().to_string().parse().unwrap()).unwrap();
                    let blas = own.blas();
                    assert_eq!(blas.is_ok(), own.kind() == DeviceKind::Cuda && cublas_status().is_ok());
                    let own = own.new_stream().unwrap();
                    assert_eq!(own.zeros::<u32>(4).unwrap().to_vec(&own).unwrap(), [0; 4]);
                }
            });
            for _ in 0..50 {
                let graph = Graph::capture(&captured, |captured| {
                    let mut x = captured.alloc::<u32>(4)?;
                    (0..20).try_for_each(|value| captured.fill_bytes(&mut x, value))
                });
                let replayed = graph.and_then(|graph| graph.replay(&captured));
                if replayed.is_err() {
                    done.store(true, Ordering::Relaxed);
                }
                replayed.unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        captured.synchronize().unwrap();
    });
}

#[test]
fn a_panic_ends_a_capture() {
    on_each_device(|stream| {
        let captured = stream.device().new_stream().unwrap();
        let mut x = captured.zeros::<u32>(4).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            Graph::capture(&captured, |captured| {
                captured.fill_bytes(&mut x, 1)?;
                panic!("while the stream is captured")
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(x.to_vec(&captured).unwrap(), [0; 4], "what was recorded did not run");
        captured.fill_bytes(&mut x, 2).unwrap();
        assert_eq!(x.to_vec(&captured).unwrap(), [0x0202_0202; 4]);
    });
}

#[test]
fn a_capture_does_not_spread_to_other_streams() {
    on_each_device(|stream| {
        let device = stream.device();
        let (captured, other) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let outside = other.record().unwrap();
        let error = Graph::capture(&captured, |captured| other.wait(&captured.record()?)).unwrap_err().to_string();
        assert!(error.contains("only the stream under capture"), "{error}");
        let error = Graph::capture(&captured, |captured| captured.wait(&outside)).unwrap_err().to_string();
        assert!(error.contains("wait before the capture begins"), "{error}");
        for stream in [&captured, &other] {
            assert_eq!(stream.zeros::<u32>(2).unwrap().to_vec(stream).unwrap(), [0; 2]);
        }
    });
}

#[test]
fn the_host_can_not_wait_for_what_is_recorded() {
    on_each_device(|stream| {
        let captured = stream.device().new_stream().unwrap();
        let graph = Graph::capture(&captured, |captured| {
            assert!(captured.synchronize().unwrap_err().to_string().contains("under capture"));
            let event = captured.record()?;
            assert!(event.synchronize().unwrap_err().to_string().contains("graph capture"));
            assert!(event.is_done().is_err());
            captured.wait(&event)?;
            captured.zeros::<u8>(8).map(drop)
        })
        .unwrap();
        graph.replay(&captured).unwrap();
        captured.synchronize().unwrap();
    });
}

/// Memory that a capture allocates must be idle: the graph may run on any stream.
#[test]
fn a_graph_runs_on_any_stream() {
    on_each_device(|stream| {
        let fill = slow_fill(stream);
        let other = stream.device().new_stream().unwrap();
        for round in 0..3u32 {
            // Given back while a kernel of `stream` still writes it.
            let mut busy = stream.alloc::<u32>(1 << 12).unwrap();
            fill.launch(stream, Shape::new(1, 32), (&mut busy, 1u32 << 12, 77u32, 1_000_000u32)).unwrap();
            drop(busy);
            let mut out = other.alloc::<u32>(1 << 12).unwrap();
            let graph = Graph::capture(stream, |stream| {
                let mut scratch = stream.alloc::<u32>(1 << 12)?;
                fill.launch(stream, Shape::new(1, 32), (&mut scratch, 1u32 << 12, round, 1u32))?;
                stream.copy(&mut out, &scratch)
            })
            .unwrap();
            graph.replay(&other).unwrap();
            assert!(out.to_vec(&other).unwrap().iter().all(|&value| value == round));
        }
    });
}
