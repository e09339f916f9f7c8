//! Order between streams, time, and reuse of memory across them.

use rigel_gpu::testing::on_each_device;

use crate::slow_fill;

#[test]
fn a_stream_waits_for_another() {
    on_each_device(|stream| {
        let fill = slow_fill(stream);
        let other = stream.device().new_stream().unwrap();
        let mut buffer = stream.zeros::<u32>(64).unwrap();
        fill.launch(stream, rigel_gpu::Shape::new(1, 32), (&mut buffer, 64u32, 5u32, 200_000u32)).unwrap();
        other.wait_for(stream).unwrap();
        assert_eq!(buffer.to_vec(&other).unwrap(), [5; 64]);
    });
}

#[test]
fn memory_freed_under_a_running_kernel_is_not_overtaken() {
    on_each_device(|stream| {
        let fill = slow_fill(stream);
        let other = stream.device().new_stream().unwrap();
        for round in 0..5u32 {
            let mut a = stream.alloc::<u32>(1 << 16).unwrap();
            fill.launch(stream, rigel_gpu::Shape::new(1, 32), (&mut a, 1u32 << 16, round, 100_000u32)).unwrap();
            drop(a);
            // The other stream gets the same memory; its zeros must come after the slow kernel's values.
            let b = other.zeros::<u32>(1 << 16).unwrap();
            assert!(b.to_vec(&other).unwrap().iter().all(|&v| v == 0), "round {round}");
        }
    });
}

#[test]
fn time_passes_on_the_device() {
    on_each_device(|stream| {
        let fill = slow_fill(stream);
        let mut buffer = stream.zeros::<u32>(64).unwrap();
        let mut run = |rounds: u32| {
            let work = || fill.launch(stream, rigel_gpu::Shape::new(1, 32), (&mut buffer, 64u32, 1u32, rounds));
            stream.time(work).unwrap().1
        };
        run(10);
        let milliseconds = run(1_000_000);
        assert!(milliseconds.is_finite() && milliseconds > 0.0, "{milliseconds} ms");
    });
}

#[test]
fn events_say_when_they_are_done() {
    on_each_device(|stream| {
        let event = stream.record().unwrap();
        event.synchronize().unwrap();
        assert!(event.is_done().unwrap());
    });
}

#[test]
fn lanes_are_distinct_and_stable() {
    on_each_device(|stream| {
        let device = stream.device();
        let lanes = [device.compute().unwrap(), device.upload_lane().unwrap(), device.download_lane().unwrap()];
        let names: Vec<String> = lanes.iter().map(|lane| format!("{lane:?}")).collect();
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
        assert_eq!(format!("{:?}", device.compute().unwrap()), names[0]);
    });
}

#[test]
fn streams_come_and_go() {
    on_each_device(|stream| {
        let device = stream.device();
        for _ in 0..200 {
            device.new_stream().unwrap();
        }
        let open: Vec<_> = (0..100).map(|_| device.new_stream().unwrap()).collect();
        for stream in &open {
            assert_eq!(stream.zeros::<u8>(3).unwrap().to_vec(stream).unwrap(), [0; 3]);
        }
    });
}

#[test]
fn threads_share_a_device() {
    on_each_device(|stream| {
        let fill = slow_fill(stream);
        std::thread::scope(|scope| {
            for value in 0..4u32 {
                let (device, fill) = (stream.device(), &fill);
                scope.spawn(move || {
                    let own = device.new_stream().unwrap();
                    for _ in 0..10 {
                        let mut buffer = own.alloc::<u32>(1000).unwrap();
                        fill.launch(&own, rigel_gpu::Shape::new(1, 64), (&mut buffer, 1000u32, value, 10u32))
                            .unwrap();
                        assert_eq!(buffer.to_vec(&own).unwrap(), [value; 1000]);
                    }
                });
            }
        });
    });
}
