//! Opening devices, and what is said when that fails.

use rigel_gpu::{Device, DeviceKind, Error, LaunchPolicy, Options, Pooling, Selector, Selectors};

#[test]
fn the_emulated_device_opens_and_says_what_it_is() {
    let device = Device::open(Selector::Emulated(0)).unwrap();
    let properties = device.properties();
    assert_eq!(properties.kind, DeviceKind::Emulated);
    assert!(properties.multiprocessors >= 1 && properties.warp == 32);
    let memory = device.memory().unwrap();
    assert!(memory.free <= memory.total && memory.total == properties.memory_bytes);
    assert_eq!(device.to_string(), "emulated:0");
}

#[test]
fn none_is_an_error_that_says_so() {
    assert!(matches!(Device::open(Selector::None), Err(Error::Disabled)));
}

#[test]
fn a_number_that_does_not_exist_is_an_error() {
    let error = Device::open(Selector::Emulated(9)).unwrap_err();
    assert!(matches!(error, Error::NoSuchDevice { kind: DeviceKind::Emulated, ordinal: 9, .. }), "{error}");
    match Device::open(Selector::Cuda(99)) {
        Err(Error::NoSuchDevice { ordinal: 99, .. }) => {}
        Err(Error::Unavailable { reason, advice }) => assert!(!reason.is_empty() && !advice.is_empty()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_list_opens_devices_that_are_peers() {
    let open = |names: &str| names.parse::<Selectors>().unwrap().open();
    let devices = open("emulated:0,emulated:2,emulated:0#1").unwrap();
    let names: Vec<String> = devices.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["emulated:0", "emulated:2", "emulated:0#1"]);
    assert_eq!(open("emulated").unwrap().len(), 1);
    assert!(matches!(open("emulated:0,emulated:64"), Err(Error::NoSuchDevice { ordinal: 64, .. })));
    assert!(matches!(open("none"), Err(Error::Disabled)));
    match open("all") {
        Ok(devices) => assert_eq!(devices.len(), Device::list().len()),
        Err(error) => assert!(matches!(error, Error::Unavailable { .. }), "{error}"),
    }
}

#[test]
fn the_list_is_empty_or_opens() {
    for properties in Device::list() {
        let device = Device::open(Selector::Cuda(properties.ordinal)).unwrap();
        assert_eq!(device.properties(), &properties);
    }
}

#[test]
fn the_status_of_cuda_never_panics() {
    let status = rigel_gpu::cuda_status();
    if let Err(error) = &status.driver {
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(status.devices.is_err());
    }
}

#[test]
fn options_have_their_defaults_where_nothing_is_set() {
    let set = |name| std::env::var(name).is_ok_and(|value| !value.is_empty());
    let options = Options::from_env().unwrap();
    assert!(set("RIGEL_MEMORY_LIMIT") || options.memory_limit.is_none());
    assert!(set("RIGEL_POOL") || options.pooling == Pooling::Arena);
    assert!(set("RIGEL_LAUNCH") || options.launch_policy == LaunchPolicy::Occupancy);
    assert!(options.staging.chunk >= 1 << 20 && (1..=8).contains(&options.staging.threads));
}
