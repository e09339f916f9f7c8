//! Exchanges between two, three, four and eight devices, and their errors.

use rigel_gpu::testing::groups;
use rigel_gpu::{
    Buffer, Exchange, Interconnect, Piece, Recorder, Rehearsal, Result, Shape, Stream, all_gather, all_to_all,
    exchange,
};

/// Runs a test on the streams of each group of so many devices.
fn on_each_group(count: u32, test: impl Fn(Vec<Stream>)) {
    for devices in groups(count).unwrap() {
        test(devices.iter().map(|device| device.compute().unwrap()).collect());
    }
}

fn upload(streams: &[Stream], values: impl Fn(usize) -> Vec<u32>) -> Vec<Buffer<u32>> {
    streams.iter().enumerate().map(|(k, stream)| stream.upload(&values(k)).unwrap()).collect()
}

#[test]
fn every_device_gets_all_shares() {
    for count in [1, 2, 3, 4, 8] {
        on_each_group(count, |streams| {
            // Device k has k values: the first has none.
            let share = |k: usize| (0..k as u32).map(|i| 100 * k as u32 + i).collect::<Vec<_>>();
            let shares = upload(&streams, share);
            let all: Vec<u32> = (0..count as usize).flat_map(share).collect();
            let mut gathered: Vec<_> =
                streams.iter().map(|stream| stream.alloc::<u32>(all.len()).unwrap()).collect();
            let views: Vec<_> = shares.iter().map(Buffer::view).collect();
            let before = streams[count as usize - 1].device().activity().bytes_sent;
            all_gather(&streams, &views, gathered.iter_mut().map(Buffer::view_mut).collect()).unwrap();
            for (stream, gathered) in streams.iter().zip(&gathered) {
                assert_eq!(gathered.to_vec(stream).unwrap(), all);
            }
            // The last device sends its share to each of the others.
            let sent = streams[count as usize - 1].device().activity().bytes_sent - before;
            assert_eq!(sent, 4 * u64::from(count - 1) * u64::from(count - 1));
        });
    }
}

#[test]
fn blocks_go_to_their_devices() {
    for count in [1usize, 2, 4, 8] {
        on_each_group(count as u32, |streams| {
            let block = |from: usize, to: usize| (0..3).map(move |i| (1_000 * from + 10 * to + i) as u32);
            let blocks = upload(&streams, |from| (0..count).flat_map(|to| block(from, to)).collect());
            let mut received: Vec<_> =
                streams.iter().map(|stream| stream.alloc::<u32>(3 * count).unwrap()).collect();
            let views: Vec<_> = blocks.iter().map(Buffer::view).collect();
            all_to_all(&streams, &views, received.iter_mut().map(Buffer::view_mut).collect()).unwrap();
            for (to, (stream, received)) in streams.iter().zip(&received).enumerate() {
                let expected: Vec<u32> = (0..count).flat_map(|from| block(from, to)).collect();
                assert_eq!(received.to_vec(stream).unwrap(), expected);
            }
        });
    }
}

/// Rows of columns travel as runs, from runs or whole columns to either: every device gets whole columns from blocks of
/// rows, or blocks of rows from whole columns.
#[test]
fn runs_go_to_their_places() {
    const COLUMNS: usize = 3;
    for count in [1usize, 2, 4, 8] {
        on_each_group(count as u32, |streams| {
            // Value (column, row) of blocks of 5 rows, of which the last is not part of the columns.
            let rows = 4 * count;
            let value = |column: usize, row: usize| (1_000 * column + row) as u32;
            let block = |k: usize| {
                let column = |column| (4 * k..4 * k + 5).map(move |row| value(column, row));
                (0..COLUMNS).flat_map(column).collect::<Vec<u32>>()
            };
            let blocks = upload(&streams, block);
            let mut wholes: Vec<_> =
                streams.iter().map(|stream| stream.zeros::<u32>(COLUMNS * rows).unwrap()).collect();
            let mut pieces = Vec::new();
            for (to, whole) in wholes.iter_mut().enumerate() {
                let targets = whole.view_mut().split_runs(rows, &vec![4; count]).unwrap();
                for (from, (block, target)) in blocks.iter().zip(targets).enumerate() {
                    pieces.push(Piece::new(from, to, block.view().runs(5, 0..4).unwrap(), target));
                }
            }
            exchange(&streams, pieces).unwrap();
            let expected: Vec<u32> =
                (0..COLUMNS).flat_map(|column| (0..rows).map(move |row| value(column, row))).collect();
            for (stream, whole) in streams.iter().zip(&wholes) {
                assert_eq!(whole.to_vec(stream).unwrap(), expected);
            }
            // Back from the next device, without the first row; the last column's rows from one run.
            let mut received: Vec<_> =
                streams.iter().map(|stream| stream.zeros::<u32>(3 * COLUMNS + 3 * 2).unwrap()).collect();
            let mut pieces = Vec::new();
            for (to, room) in received.iter_mut().enumerate() {
                let from = (to + 1) % count;
                let source = wholes[from].view();
                let (packed, apart) = room.view_mut().split_at(3 * COLUMNS).unwrap();
                pieces.push(Piece::new(from, to, source.runs(rows, 4 * to + 1..4 * to + 4).unwrap(), packed));
                let apart = apart.split_runs(2, &[1]).unwrap().remove(0);
                pieces.push(Piece::new(from, to, source.range(4 * to + 1..4 * to + 4).unwrap(), apart));
            }
            exchange(&streams, pieces).unwrap();
            for (to, (stream, room)) in streams.iter().zip(&received).enumerate() {
                let run = |column: usize| (4 * to + 1..4 * to + 4).map(move |row| value(column, row));
                let apart = run(0).flat_map(|value| [value, 0]);
                let expected: Vec<u32> = (0..COLUMNS).flat_map(run).chain(apart).collect();
                assert_eq!(room.to_vec(stream).unwrap(), expected);
            }
        });
    }
}

/// The pieces of an exchange in which every device gets all shares.
fn all_shares<'a>(shares: &'a [Buffer<u32>], rooms: &'a mut [Buffer<u32>]) -> Vec<Piece<'a, u32>> {
    let mut pieces = Vec::new();
    for (to, room) in rooms.iter_mut().enumerate() {
        let mut rest = room.view_mut();
        for (from, share) in shares.iter().enumerate() {
            let (target, tail) = rest.split_at(share.len()).unwrap();
            pieces.push(Piece::new(from, to, share.view(), target));
            rest = tail;
        }
    }
    pieces
}

/// Each device's work, the bytes between them and the waits of the host are written down, and nothing else changes.
#[test]
fn a_rehearsal_times_each_device_alone() {
    on_each_group(2, |streams| {
        let devices: Vec<_> = streams.iter().map(|stream| stream.device().clone()).collect();
        let kernels: Vec<_> = streams.iter().map(crate::slow_fill).collect();
        let recorders: Vec<_> = streams.iter().map(Recorder::new).collect();
        let rehearsal = Rehearsal::new(&devices).unwrap();
        assert!(Rehearsal::new(&devices).is_err(), "one at a time");
        let mut shares: Vec<_> = streams.iter().map(|stream| stream.alloc::<u32>(64).unwrap()).collect();
        for (k, (stream, kernel)) in streams.iter().zip(&kernels).enumerate() {
            let fill = || kernel.launch(stream, Shape::new(1, 32), (&mut shares[k], 64u32, k as u32, 20_000u32));
            recorders[k].phase::<_, rigel_gpu::Error>("fill", stream, fill).unwrap();
        }
        let mut rooms: Vec<_> = streams.iter().map(|stream| stream.alloc::<u32>(128).unwrap()).collect();
        exchange(&streams, all_shares(&shares, &mut rooms)).unwrap();
        let expected: Vec<u32> = [[0; 64], [1; 64]].concat();
        let found: Vec<Vec<u32>> =
            streams.iter().zip(&rooms).map(|(stream, room)| room.to_vec(stream)).collect::<Result<_>>().unwrap();
        assert!(found.iter().all(|found| *found == expected));
        let steps = rehearsal.finish().unwrap();
        assert_eq!(steps.sent(), (512, 2));
        let alone = steps.alone();
        let fill = &alone.iter().find(|(name, _)| *name == "fill").expect("a phase").1;
        assert!(fill.len() == 2 && fill.iter().all(|ms| *ms > 0.0), "{alone:?}");
        let all: f64 = alone.iter().flat_map(|(_, ms)| ms).sum();
        let [fast, slow] = [Interconnect::NVLINK_4, Interconnect::PCIE_4].map(|links| steps.on(links).total_ms);
        assert!(fast < slow && fill.iter().all(|ms| *ms <= fast), "{fast} and {slow} ms, alone {all} ms");
        // It is over, and nobody watches.
        drop(Rehearsal::new(&devices).unwrap());
    });
}

/// Slow work on the targets before an exchange does not overwrite what arrives, and what slow work writes to the
/// sources is there when the receivers read it.
#[test]
fn exchanges_wait_for_both_sides() {
    const LENGTH: usize = 1 << 12;
    for count in [2, 4] {
        on_each_group(count, |streams| {
            let kernels: Vec<_> = streams.iter().map(crate::slow_fill).collect();
            let lanes: Vec<_> = streams.iter().map(|stream| stream.device().new_stream().unwrap()).collect();
            let all = LENGTH * streams.len();
            // The first round may load what makes the second one quick.
            for round in [0, 100] {
                let mut shares: Vec<_> =
                    streams.iter().map(|stream| stream.zeros::<u32>(LENGTH).unwrap()).collect();
                let mut rooms: Vec<_> = streams.iter().map(|stream| stream.zeros::<u32>(all).unwrap()).collect();
                streams.iter().for_each(|stream| stream.synchronize().unwrap());
                for (k, (stream, kernel)) in streams.iter().zip(&kernels).enumerate() {
                    // The later the device, the slower.
                    let rounds = 20_000 * (k as u32 + 1);
                    let shape = Shape::new(1, 32);
                    let value = round + k as u32;
                    kernel.launch(stream, shape, (&mut shares[k], LENGTH as u32, value, rounds)).unwrap();
                    kernel.launch(stream, shape, (&mut rooms[k], all as u32, 99u32, rounds)).unwrap();
                }
                if round == 0 {
                    let views: Vec<_> = shares.iter().map(Buffer::view).collect();
                    all_gather(&streams, &views, rooms.iter_mut().map(Buffer::view_mut).collect()).unwrap();
                } else {
                    // Beside other work, on streams of its own.
                    let pieces = all_shares(&shares, &mut rooms);
                    let exchange = Exchange::begin(&streams, &lanes, pieces).unwrap();
                    for (stream, kernel) in streams.iter().zip(&kernels) {
                        let mut other = stream.alloc::<u32>(32).unwrap();
                        kernel.launch(stream, Shape::new(1, 32), (&mut other, 32u32, 1u32, 20_000u32)).unwrap();
                    }
                    exchange.join(&streams).unwrap();
                    // What is sent may be written again.
                    for (stream, share) in streams.iter().zip(&mut shares) {
                        stream.fill_bytes(share, 0xff).unwrap();
                    }
                }
                for (stream, room) in streams.iter().zip(&rooms) {
                    let found = room.to_vec(stream).unwrap();
                    for (k, share) in found.chunks(LENGTH).enumerate() {
                        let wrong = share.iter().find(|value| **value != round + k as u32);
                        assert_eq!(wrong, None, "from {k} to {} of {count}, round {round}", stream.device());
                    }
                }
            }
        });
    }
    // A driver that takes many copies with one call has not refused any.
    let status = rigel_gpu::cuda_status();
    if status.version.is_ok_and(|version| version.starts_with("13")) {
        assert!(status.peer_copies.unwrap().starts_with("one call"));
    }
}

#[test]
fn pieces_that_do_not_fit_are_refused() {
    let streams: Vec<Stream> = groups(2).unwrap()[0].iter().map(|device| device.compute().unwrap()).collect();
    let [short, long] = [2, 3].map(|n| streams[0].zeros::<u32>(n).unwrap());
    let mut room = streams[1].zeros::<u32>(3).unwrap();
    let mut error = |from, to, source: &Buffer<u32>| {
        let piece = Piece::new(from, to, source.view(), room.view_mut());
        exchange(&streams, vec![piece]).unwrap_err().to_string()
    };
    assert!(error(0, 1, &short).contains("2 values from 0 do not fit a room of 3 in 1"));
    assert!(error(0, 2, &long).contains("there are 2"));
    let runs = |stride, lengths: &[usize]| {
        let mut room = streams[1].zeros::<u32>(6)?;
        let target = room.view_mut().split_runs(stride, lengths)?.remove(0);
        exchange(&streams, vec![Piece::new(0, 1, long.view().runs(3, 0..2)?, target)])
    };
    assert!(runs(3, &[2]).unwrap_err().to_string().contains("2 values from 0 do not fit a room of 4 in 1"));
    assert!(runs(6, &[2]).is_ok());
    let apart = long.view().runs(1, 0..1).unwrap();
    let mut short_room = streams[1].zeros::<u32>(2).unwrap();
    let refused = streams[1].copy(&mut short_room, apart).unwrap_err().to_string();
    assert!(refused.contains("3 runs of 1 values do not fit a destination of 2 values"), "{refused}");
    assert!(runs(6, &[2, 5]).unwrap_err().to_string().contains("values 2..7 of every 6 of 6"));
    assert!(runs(4, &[2]).unwrap_err().to_string().contains("values 0..2 of every 4 of 6"));
    let misplaced = error(1, 0, &long);
    let names = [0, 1].map(|k: usize| streams[k].device().to_string());
    assert!(names.iter().all(|name| misplaced.contains(name)), "{misplaced}");
    let mut rooms = [streams[0].zeros::<u32>(4).unwrap(), streams[1].zeros::<u32>(6).unwrap()];
    let views = [short.view(), room.view()];
    let rooms = rooms.iter_mut().map(Buffer::view_mut).collect();
    let error = all_gather(&streams, &views, rooms).unwrap_err().to_string();
    assert!(error.contains("5 values in all, into a room of 4"), "{error}");
    let error = all_to_all(&streams, &views, Vec::new()).unwrap_err().to_string();
    assert!(error.contains("2 shares and 0 rooms for 2 streams"), "{error}");
}
