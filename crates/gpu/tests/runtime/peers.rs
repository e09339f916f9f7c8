//! Several devices.

use rigel_gpu::{Device, Emulation, Error, Link, Options, Pieces, Route, Topology};

/// Two emulated devices, and every CUDA device where there are several.
fn groups() -> Vec<Vec<Device>> {
    let options = Options::from_env().unwrap();
    let emulation = Emulation { devices: 2, ..Emulation::default() };
    let cuda = match Device::all_cuda(&options) {
        Err(Error::Unavailable { .. }) => Vec::new(),
        devices => devices.unwrap(),
    };
    let mut groups = vec![Device::emulated(&emulation, &options).unwrap()];
    groups.extend((!cuda.is_empty()).then_some(cuda));
    groups
}

#[test]
fn buffers_travel_between_devices_by_every_route() {
    for devices in groups() {
        let values: Vec<u32> = (0..300_001).collect();
        for from in &devices {
            for to in &devices {
                for route in [Route::Auto, Route::Host] {
                    let (source, target) = (from.compute().unwrap(), to.compute().unwrap());
                    let buffer = source.upload(&values).unwrap();
                    let copy = buffer.to_device(&source, &target, route).unwrap();
                    drop(buffer);
                    assert!(copy.device().is(to));
                    assert!(copy.to_vec(&target).unwrap() == values, "{from} to {to}, {route:?}");
                }
            }
        }
    }
}

#[test]
fn pieces_of_matrices_travel_between_devices() {
    for devices in groups() {
        let values: Vec<u32> = (0..700).collect();
        for (from, to) in devices.iter().flat_map(|from| devices.iter().map(move |to| (from, to))) {
            for route in [Route::Auto, Route::Host] {
                let (source, target) = (from.compute().unwrap(), to.compute().unwrap());
                let buffer = source.upload(&values).unwrap();
                let mut room = target.zeros::<u32>(40).unwrap();
                let pieces = Pieces { count: 5, length: 3, from_stride: 100, to_stride: 8 };
                source
                    .send(buffer.range(7..).unwrap(), &target, room.range_mut(1..).unwrap(), pieces, route)
                    .unwrap();
                let mut expected = [0; 40];
                for piece in 0..5 {
                    expected[1 + 8 * piece..][..3].copy_from_slice(&values[7 + 100 * piece..][..3]);
                }
                assert_eq!(room.to_vec(&target).unwrap(), expected, "{from} to {to}, {route:?}");

                let too_long = Pieces { count: 8, ..pieces };
                let error = source.send(&buffer, &target, &mut room, too_long, route).unwrap_err().to_string();
                assert!(error.contains("room for 40"), "{error}");
                for overlapping in [Pieces { from_stride: 2, ..pieces }, Pieces { to_stride: 2, ..pieces }] {
                    source.send(&buffer, &target, &mut room, overlapping, route).expect_err("overlapping pieces");
                }
            }
        }
    }
}

#[test]
fn buffers_travel_between_kinds_of_device() {
    let groups = groups();
    let all: Vec<&Device> = groups.iter().flatten().collect();
    for from in &all {
        for to in &all {
            let (source, target) = (from.compute().unwrap(), to.compute().unwrap());
            let buffer = source.upload(&[1u64, 2, 3]).unwrap();
            let copy = buffer.to_device(&source, &target, Route::Auto).unwrap();
            assert_eq!(copy.to_vec(&target).unwrap(), [1, 2, 3], "{from} to {to}");
        }
    }
}

#[test]
fn a_topology_is_measured() {
    for devices in groups() {
        let topology = Topology::measure(&devices, 8 << 20).unwrap();
        for from in 0..devices.len() {
            assert_eq!(topology.links[from][from], Link::Same);
            for to in 0..devices.len() {
                let rate = topology.gigabytes_per_second[from][to];
                assert!(rate.is_finite() && rate > 0.0, "{from} to {to}: {rate}");
                assert_eq!(topology.links[from][to], topology.links[to][from]);
            }
        }
    }
}
