//! Buffers, pools and copies.

use rigel_gpu::testing::{are_pooled, on_each_device};
use rigel_gpu::{Buffer, Device, Emulation, Error, Options, Pooling, Staging, View};

#[test]
fn what_goes_up_comes_back() {
    on_each_device(|stream| {
        // Below and above the size at which copies are staged, and not a whole number of chunks.
        for len in [0, 1, 3, 1000, 65_536, 700_001, 3_000_017] {
            let values: Vec<u32> = (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761)).collect();
            let buffer = stream.upload(&values).unwrap();
            assert_eq!(buffer.to_vec(stream).unwrap(), values, "{len} values");
        }
    });
}

#[test]
fn slices_go_up_as_one() {
    on_each_device(|stream| {
        let values: Vec<u32> = (0..700_001u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        // Empty ones, some shorter and some longer than a chunk, none at its borders.
        let mut slices = Vec::new();
        let mut rest = &values[..];
        for len in [0, 1, 5, 300_000, 0, 17, 65_536, 1, 250_000, 0] {
            let (slice, tail) = rest.split_at(len);
            slices.push(slice);
            rest = tail;
        }
        slices.push(rest);
        let mut buffer = stream.zeros(values.len()).unwrap();
        stream.write_joined(&mut buffer, &slices).unwrap();
        assert_eq!(buffer.to_vec(stream).unwrap(), values);
        let error = stream.write_joined(&mut buffer, &slices[1..5]).unwrap_err().to_string();
        assert!(error.contains("300006 values do not fit a destination of 700001"), "{error}");
        stream.write_joined::<u32>(&mut stream.alloc(0).unwrap(), &[]).unwrap();
    });
}

#[test]
fn ranges_are_parts() {
    on_each_device(|stream| {
        let mut buffer = stream.upload(&[0u64, 1, 2, 3, 4, 5, 6, 7]).unwrap();
        assert_eq!(buffer.range(2..5).unwrap().to_vec(stream).unwrap(), [2, 3, 4]);
        assert_eq!(buffer.range(2..).unwrap().range(..=1).unwrap().to_vec(stream).unwrap(), [2, 3]);
        stream.write(buffer.range_mut(6..8).unwrap(), &[60, 70]).unwrap();
        let (mut head, tail) = buffer.view_mut().split_at(2).unwrap();
        stream.copy(head.reborrow(), tail.view().range(4..6).unwrap()).unwrap();
        assert_eq!(buffer.to_vec(stream).unwrap(), [60, 70, 2, 3, 4, 5, 60, 70]);
        for wrong in [buffer.range(3..9), buffer.range(9..)] {
            assert!(wrong.unwrap_err().to_string().contains("of 8 values"));
        }
    });
}

#[test]
fn mismatched_lengths_are_errors() {
    on_each_device(|stream| {
        let mut buffer = stream.zeros::<u32>(4).unwrap();
        let error = stream.write(&mut buffer, &[1, 2, 3]).unwrap_err().to_string();
        assert!(error.contains("3 values do not fit a destination of 4"), "{error}");
        assert!(stream.read(&buffer, &mut [0; 5]).is_err());
        let other = stream.zeros::<u32>(5).unwrap();
        assert!(stream.copy(&mut buffer, &other).is_err());
        assert!(stream.zeros::<u8>(7).unwrap().cast::<u32>().is_err());
        assert_eq!(buffer.cast::<u64>().unwrap().to_vec(stream).unwrap(), [0, 0]);
    });
}

#[test]
fn pinned_memory_copies_both_ways() {
    on_each_device(|stream| {
        let device = stream.device();
        let mut up = device.pinned::<u32>(100_000).unwrap();
        up.slice().unwrap().iter_mut().enumerate().for_each(|(i, v)| *v = i as u32);
        let mut buffer = stream.alloc::<u32>(100_000).unwrap();
        stream.write_pinned(&mut buffer, &mut up).unwrap();
        let mut down = device.pinned::<u32>(100_000).unwrap();
        stream.read_pinned(&buffer, &mut down).unwrap();
        assert_eq!(*down.slice().unwrap(), *up.slice().unwrap());

        let mut part = stream.download_pinned(buffer.range(10..20).unwrap()).unwrap();
        stream.write_pinned_from(buffer.range_mut(..4).unwrap(), &part, 6).unwrap();
        assert_eq!(*part.slice().unwrap(), *(10..20).collect::<Vec<u32>>());
        assert_eq!(buffer.range(..5).unwrap().to_vec(stream).unwrap(), [16, 17, 18, 19, 4]);
        for start in [7, usize::MAX] {
            let error = stream.write_pinned_from(buffer.range_mut(..4).unwrap(), &part, start).unwrap_err();
            assert!(error.to_string().contains("of 10"), "{error}");
        }
    });
}

#[test]
fn a_repeated_workload_asks_the_driver_for_nothing() {
    if !are_pooled() {
        return;
    }
    on_each_device(|stream| {
        let device = stream.device();
        let values = vec![7u32; 1 << 20];
        let round = || {
            let a = stream.upload(&values).unwrap();
            let b = stream.zeros::<u64>(12_345).unwrap();
            let c = stream.alloc::<u8>(1 << 22).unwrap();
            assert_eq!(a.to_vec(stream).unwrap(), values);
            drop((a, b, c));
        };
        round();
        let (memory, pinned) = (device.memory_stats(), device.pinned_stats());
        (0..20).for_each(|_| round());
        let (after, pinned_after) = (device.memory_stats(), device.pinned_stats());
        assert_eq!(after.driver_calls, memory.driver_calls);
        assert_eq!(after.hit_rate_since(&memory), 1.0);
        assert!(pinned_after.hit_rate_since(&pinned) >= 0.8, "{pinned_after:?}");
        assert_eq!(after.in_use, memory.in_use);
        assert!(after.peak >= (1 << 22) * 2);
    });
}

#[test]
fn a_limit_is_an_error_with_the_numbers() {
    on_each_device(|stream| {
        let device = stream.device();
        device.set_memory_limit(Some(1 << 20));
        let held = stream.alloc::<u8>(600 << 10).unwrap();
        match stream.alloc::<u8>(600 << 10) {
            Err(Error::OutOfMemory { requested, in_use, limit, free, .. }) => {
                assert_eq!(requested, 600 << 10);
                assert!((600 << 10..601 << 10).contains(&in_use));
                assert_eq!(limit, Some(1 << 20));
                assert!(free <= 424 << 10);
            }
            other => panic!("{other:?}"),
        }
        drop(held);
        stream.alloc::<u8>(600 << 10).expect("the memory came back");
        device.set_memory_limit(None);
        stream.alloc::<u8>(2 << 20).expect("there is no limit");
    });
}

#[test]
fn more_than_there_is_is_an_error_and_the_next_call_works() {
    on_each_device(|stream| {
        let total = stream.device().properties().memory_bytes;
        for bytes in [total + 1, total * 16, usize::MAX / 2, usize::MAX] {
            let error = stream.alloc::<u8>(bytes).unwrap_err();
            assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        }
        assert!(matches!(stream.alloc::<u64>(usize::MAX), Err(Error::Shape { .. })));
        assert_eq!(stream.upload(&[1u8, 2]).unwrap().to_vec(stream).unwrap(), [1, 2]);
    });
}

#[test]
fn memory_held_in_advance_serves_later() {
    if !are_pooled() {
        return;
    }
    on_each_device(|stream| {
        let device = stream.device();
        device.hold(64 << 20).unwrap();
        let before = device.memory_stats();
        assert!(before.held >= 64 << 20);
        let _a = stream.alloc::<u8>(30 << 20).unwrap();
        let _b = stream.alloc::<u8>(30 << 20).unwrap();
        assert_eq!(device.memory_stats().driver_calls, before.driver_calls);
    });
}

#[test]
fn direct_pooling_gives_each_buffer_its_own_allocation() {
    let options = Options { pooling: Pooling::Direct, ..Options::from_env().unwrap() };
    let device = Device::emulated(&Emulation::default(), &options).unwrap().remove(0);
    let stream = device.compute().unwrap();
    let before = device.memory_stats();
    drop(stream.zeros::<u8>(10).unwrap());
    drop(stream.zeros::<u8>(10).unwrap());
    assert_eq!(device.memory_stats().driver_calls - before.driver_calls, 4);
}

#[test]
fn any_staging_gives_the_same_bytes() {
    on_each_device(|stream| {
        let values: Vec<u8> = (0..5_000_011usize).map(|i| (i * i) as u8).collect();
        for (chunk, threads) in [(4096, 3), (100_000, 1), (1 << 20, 8)] {
            stream.device().set_staging(Staging { chunk, threads });
            let buffer = stream.upload(&values).unwrap();
            assert!(buffer.to_vec(stream).unwrap() == values, "{chunk} bytes, {threads} threads");
        }
    });
}

/// Some columns of a row-major matrix arrive as a row-major matrix of their own, staged or not.
#[test]
fn columns_of_a_matrix_travel_alone() {
    on_each_device(|stream| {
        for (rows, width) in [(1, 1), (3, 7), (1000, 33), (40_000, 19)] {
            let matrix: Vec<u32> = (0..rows * width).map(|i| i as u32 ^ 0x5a5a).collect();
            for columns in [0..width, 0..width / 2, width / 3..width, width - 1..width, width..width] {
                let expected: Vec<u32> =
                    matrix.chunks(width).flat_map(|row| row[columns.clone()].iter().copied()).collect();
                let mut found = stream.alloc::<u32>(expected.len()).unwrap();
                stream.write_columns(&mut found, &matrix, width, columns).unwrap();
                assert_eq!(found.to_vec(stream).unwrap(), expected);
            }
        }
        let mut room = stream.alloc::<u32>(2).unwrap();
        let mut refused =
            |rows: &[u32], columns| stream.write_columns(&mut room, rows, 2, columns).unwrap_err().to_string();
        assert!(refused(&[1, 2, 3], 0..1).contains("3 values are not a multiple of the"));
        assert!(refused(&[1, 2], 1..3).contains("columns 1..3 of 2"));
        assert!(refused(&[1, 2], 0..1).contains("1 values do not fit a destination of 2"));
    });
}

#[test]
fn parts_of_a_buffer_own_its_memory_together() {
    on_each_device(|stream| {
        let held = |stream: &rigel_gpu::Stream| stream.device().memory_stats().in_use;
        let before = held(stream);
        let buffer = stream.upload(&(0..1000u32).collect::<Vec<_>>()).unwrap();
        let wrong = stream.zeros::<u32>(7).unwrap().split(&[3, 5]).unwrap_err().to_string();
        assert!(wrong.contains("7 values in 2 parts"), "{wrong}");
        let mut parts = buffer.split(&[10, 0, 490, 500]).unwrap();
        stream.fill_bytes(&mut parts[2], 0).unwrap();
        assert_eq!(parts[0].to_vec(stream).unwrap(), (0..10).collect::<Vec<_>>());
        assert_eq!(parts[3].to_vec(stream).unwrap(), (500..1000).collect::<Vec<_>>());

        let shared = parts[3].share();
        let last = parts.pop().unwrap();
        assert_eq!(View::join([last.view(), parts[0].view()]).map(|view| view.len()), None);
        let (head, tail) = last.split_at(1).unwrap();
        let Err(mut swapped) = Buffer::join(vec![tail, head]) else { panic!("they do not follow each other") };
        swapped.reverse();
        parts.extend(swapped);
        let whole = Buffer::join(parts).unwrap();
        let expected: Vec<u32> = (0..1000).map(|i| if (10..500).contains(&i) { 0 } else { i }).collect();
        assert_eq!(whole.to_vec(stream).unwrap(), expected);

        // The memory goes back with its last owner.
        drop(whole);
        assert!(held(stream) > before);
        assert_eq!(shared.view().range(..2).unwrap().to_vec(stream).unwrap(), [500, 501]);
        // SAFETY: it is written and read on one stream, in order.
        let mut second = unsafe { shared.view().range(1..2).unwrap().share().into_buffer() };
        stream.fill_bytes(&mut second, 0).unwrap();
        assert_eq!(shared.view().range(..3).unwrap().to_vec(stream).unwrap(), [500, 0, 502]);
        drop(shared);
        assert!(held(stream) > before);
        drop(second);
        assert_eq!(held(stream), before);
        assert!(Buffer::<u32>::join(Vec::new()).is_err());
    });
}
