//! Several devices.

use rigel_gpu::{Device, Error, Link, Route, Selectors, Topology};

/// Two emulated devices, one of them opened twice; every CUDA device, and the first of them opened three times.
fn groups() -> Vec<Vec<Device>> {
    let open = |names: &str| names.parse::<Selectors>().unwrap().open();
    let mut groups = vec![open("emulated:0,emulated:1,emulated:1#1").unwrap()];
    for names in ["all", "cuda:0,cuda:0#1,cuda:0#2"] {
        match open(names) {
            Err(Error::Unavailable { .. }) => {}
            devices => groups.push(devices.unwrap()),
        }
    }
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
