//! Streams, events and graphs.

use super::*;

const ADD: &str = "
    __global__ void add(unsigned* p, unsigned n) { p[threadIdx.x] += n; }
    __global__ void mul(unsigned* p, unsigned n) { p[threadIdx.x] *= n; }";

fn record(rig: &Rig, work: impl FnOnce()) -> Raw {
    rig.driver.begin_capture(rig.stream).unwrap();
    work();
    rig.driver.end_capture(rig.stream).unwrap()
}

#[test]
fn graphs_replay_and_update() {
    let rig = Rig::standard();
    let [add, mul] = &rig.functions(ADD, &["add", "mul"])[..] else { unreachable!() };
    let at = rig.upload(&[1u32; 32]);
    let event = rig.driver.create_event(true).unwrap();
    let graph = record(&rig, || {
        rig.launch(add, grid(1, 32), arguments![at, 4u32]).unwrap();
        rig.driver.record_event(event, rig.stream).unwrap();
        rig.launch(mul, grid(1, 32), arguments![at, 3u32]).unwrap();
    });
    assert_eq!(rig.download::<u32>(at, 32), [1; 32], "recording runs nothing");
    let executable = rig.driver.instantiate(graph).unwrap();
    rig.driver.launch_graph(executable, rig.stream).unwrap();
    rig.driver.launch_graph(executable, rig.stream).unwrap();
    assert_eq!(rig.download::<u32>(at, 32), [57; 32]);

    let other = record(&rig, || {
        rig.launch(add, grid(1, 16), arguments![at, 1u32]).unwrap();
        rig.driver.wait_event(rig.stream, event).unwrap();
        rig.launch(mul, grid(1, 16), arguments![at, 2u32]).unwrap();
    });
    assert!(rig.driver.update(executable, other).unwrap());
    rig.driver.destroy_graph(graph);
    rig.driver.destroy_graph(other);
    rig.driver.launch_graph(executable, rig.stream).unwrap();
    assert_eq!(rig.download::<u32>(at, 32), [[116; 16], [57; 16]].concat());

    for work in [vec![mul, add], vec![add], vec![]] {
        let graph = record(&rig, || {
            work.iter().for_each(|f| rig.launch(f, grid(1, 1), arguments![at, 1u32]).unwrap());
        });
        assert!(!rig.driver.update(executable, graph).unwrap());
    }
    rig.driver.destroy_executable(executable);
    assert!(rig.driver.launch_graph(executable, rig.stream).is_err());
}

#[test]
fn copies_are_recorded() {
    let rig = Rig::standard();
    let (a, b) = (rig.upload(&[5u32; 4]), rig.upload(&[6u32; 4]));
    let graph = record(&rig, || {
        // SAFETY: both buffers have 16 bytes.
        unsafe {
            rig.driver.copy(rig.stream, b, a, 8).unwrap();
            rig.driver.fill(rig.stream, a, 1, 4).unwrap();
        }
    });
    assert_eq!(rig.download::<u32>(b, 4), [6; 4]);
    let executable = rig.driver.instantiate(graph).unwrap();
    rig.driver.launch_graph(executable, rig.stream).unwrap();
    assert_eq!(rig.download::<u32>(b, 4), [5, 5, 6, 6]);
    assert_eq!(rig.download::<u32>(a, 4), [0x0101_0101, 5, 5, 5]);
}

#[test]
fn waiting_spoils_a_recording() {
    let rig = Rig::standard();
    rig.driver.begin_capture(rig.stream).unwrap();
    assert!(matches!(rig.driver.synchronize(rig.stream), Err(Error::Driver { .. })));
    assert!(rig.driver.end_capture(rig.stream).is_err());
    assert!(rig.driver.end_capture(rig.stream).is_err(), "the stream runs again");
    rig.driver.synchronize(rig.stream).unwrap();
}

#[test]
fn events_measure_time() {
    let rig = Rig::standard();
    let (a, b) = (rig.driver.create_event(true).unwrap(), rig.driver.create_event(true).unwrap());
    rig.driver.record_event(a, rig.stream).unwrap();
    assert!(rig.driver.elapsed(a, b).is_err());
    rig.check_usable();
    rig.driver.record_event(b, rig.stream).unwrap();
    assert!(rig.driver.event_done(b).unwrap());
    assert!(rig.driver.elapsed(a, b).unwrap() > 0.0);
    assert!(rig.driver.elapsed(b, a).unwrap() < 0.0);
}

#[test]
fn modules_outlive_their_handle_in_graphs() {
    let rig = Rig::standard();
    let image = rig.image(ADD, &["add"]).unwrap();
    let module = rig.driver.load("test.cu", &image).unwrap();
    let add = rig.driver.function(module, &image.symbols[0], "add").unwrap();
    let at = rig.upload(&[1u32]);
    let graph = record(&rig, || rig.launch(&add, grid(1, 1), arguments![at, 4u32]).unwrap());
    let executable = rig.driver.instantiate(graph).unwrap();
    rig.driver.unload(module);
    assert!(rig.launch(&add, grid(1, 1), arguments![at, 4u32]).is_err());
    rig.driver.launch_graph(executable, rig.stream).unwrap();
    assert_eq!(rig.download::<u32>(at, 1), [5]);
}
