//! Captured work.

use rigel_gpu::testing::on_each_device;
use rigel_gpu::{Graph, Kernel, Recapture, Shape, Stream, ViewMut};

use crate::source;

fn add(stream: &Stream) -> Kernel {
    let text = "__global__ void add(unsigned *x, unsigned by) { x[threadIdx.x] += by; }";
    stream.device().compile(&source("add.cu", text).kernel("add")).unwrap().kernel("add").unwrap()
}

#[test]
fn capture_records_and_replay_runs() {
    on_each_device(|stream| {
        let add = add(stream);
        let mut x = stream.upload(&[0u32; 8]).unwrap();
        let graph = Graph::capture(stream, |stream| {
            (1..=10u32).try_for_each(|by| add.launch(stream, Shape::new(1, 8), (&mut x, by)))
        })
        .unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [0; 8], "nothing ran yet");
        graph.replay(stream).unwrap();
        graph.replay(stream).unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [110; 8]);
    });
}

#[test]
fn other_arguments_update_the_graph() {
    on_each_device(|stream| {
        let add = add(stream);
        let (mut x, mut y) = (stream.upload(&[0u32; 8]).unwrap(), stream.upload(&[100u32; 8]).unwrap());
        let once = |stream: &Stream, to: ViewMut<'_, u32>, by: u32| add.launch(stream, Shape::new(1, 8), (to, by));
        let mut graph = Graph::capture(stream, |stream| once(stream, x.view_mut(), 1)).unwrap();
        graph.replay(stream).unwrap();
        let updated = graph.recapture(stream, |stream| once(stream, y.view_mut(), 5)).unwrap();
        assert_eq!(updated, Recapture::Updated);
        graph.replay(stream).unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [1; 8]);
        assert_eq!(y.to_vec(stream).unwrap(), [105; 8]);
        let mut twice = |stream: &Stream| {
            add.launch(stream, Shape::new(1, 8), (&mut x, 1u32))?;
            add.launch(stream, Shape::new(1, 8), (&mut y, 1u32))
        };
        assert_eq!(graph.recapture(stream, &mut twice).unwrap(), Recapture::Rebuilt);
        graph.replay(stream).unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [2; 8]);
        assert_eq!(y.to_vec(stream).unwrap(), [106; 8]);
        // One of as many kernels is another one.
        let text = "__global__ void subtract(unsigned *x, unsigned by) { x[threadIdx.x] -= by; }";
        let source = source("subtract.cu", text).kernel("subtract");
        let subtract = stream.device().compile(&source).unwrap().kernel("subtract").unwrap();
        let mut other = |stream: &Stream| {
            add.launch(stream, Shape::new(1, 8), (&mut x, 1u32))?;
            subtract.launch(stream, Shape::new(1, 8), (&mut y, 6u32))
        };
        assert_eq!(graph.recapture(stream, &mut other).unwrap(), Recapture::Rebuilt);
        graph.replay(stream).unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [3; 8]);
        assert_eq!(y.to_vec(stream).unwrap(), [100; 8]);
    });
}

#[test]
fn a_graph_keeps_the_memory_it_uses() {
    on_each_device(|stream| {
        let add = add(stream);
        let mut out = stream.zeros::<u32>(8).unwrap();
        let graph = {
            let inner = stream.upload(&[7u32; 8]).unwrap();
            Graph::capture(stream, |stream| {
                let mut scratch = stream.alloc::<u32>(8)?;
                stream.copy(&mut scratch, &inner)?;
                add.launch(stream, Shape::new(1, 8), (&mut scratch, 1u32))?;
                add.launch(stream, Shape::new(1, 8), (&mut out, 2u32))
            })
            .unwrap()
        };
        // Memory that the graph did not keep would be handed out here.
        let others: Vec<_> = (0..50).map(|_| stream.upload(&[0u32; 8]).unwrap()).collect();
        graph.replay(stream).unwrap();
        assert!(others.iter().all(|other| other.to_vec(stream).unwrap() == [0; 8]));
        assert_eq!(out.to_vec(stream).unwrap(), [2; 8]);
        let before = stream.device().memory_stats().in_use;
        drop(graph);
        assert!(stream.device().memory_stats().in_use < before);
    });
}

#[test]
fn a_failed_capture_leaves_the_stream_usable() {
    on_each_device(|stream| {
        let add = add(stream);
        let mut x = stream.upload(&[0u32; 8]).unwrap();
        let error = Graph::capture(stream, |stream| {
            add.launch(stream, Shape::new(1, 8), (&mut x, 1u32))?;
            stream.upload(&[1u32]).map(|_| ())
        })
        .unwrap_err();
        assert!(error.to_string().contains("capture"), "{error}");
        add.launch(stream, Shape::new(1, 8), (&mut x, 3u32)).unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [3; 8]);
    });
}
