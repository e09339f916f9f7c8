//! Several devices.

use rigel_gpu::{Device, Emulation, Error, Link, Options, Route, Topology};

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
