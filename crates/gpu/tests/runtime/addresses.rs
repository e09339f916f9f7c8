//! Lists of addresses, for kernels that read more buffers than a launch has arguments.

use rigel_gpu::testing::on_each_device;
use rigel_gpu::{Buffer, Device, DeviceKind, Emulation, Error, Graph, Kernel, Options, Shape, Stream, View};

use crate::source;

/// `out[i]` is the value at `index` of buffer i, after so many rounds of waiting.
fn pick(stream: &Stream) -> Kernel {
    let text =
        "__global__ void pick(unsigned *out, const unsigned *const *buffers, unsigned count, unsigned index,
                                     unsigned rounds) {
        unsigned x = index;
        for (unsigned i = 0; i < rounds; ++i) x = x * 1664525u + 1013904223u;
        for (unsigned i = 0; i < rounds; ++i) x = (x - 1013904223u) * 4276115653u;
        for (unsigned i = threadIdx.x; i < count; i += blockDim.x) out[i] = buffers[i][x];
    }";
    stream.device().compile(&source("pick.cu", text).kernel("pick")).unwrap().kernel("pick").unwrap()
}

fn run(stream: &Stream, buffers: &[View<'_, u32>], index: u32, rounds: u32) -> rigel_gpu::Result<Buffer<u32>> {
    let list = stream.addresses(buffers)?;
    let mut out = stream.alloc(buffers.len())?;
    let arguments = (&mut out, &list, buffers.len() as u32, index, rounds);
    pick(stream).launch(stream, Shape::new(1, 64), arguments)?;
    Ok(out)
}

/// Thousands of buffers, the same one several times, and parts of one.
#[test]
fn kernels_read_through_a_list() {
    on_each_device(|stream| {
        let buffers: Vec<Buffer<u32>> =
            (0..2_000).map(|i| stream.upload(&[i, i + 10_000, i + 20_000]).unwrap()).collect();
        let mut views: Vec<View<'_, u32>> = buffers.iter().map(Buffer::view).collect();
        views.push(views[7]);
        views.push(buffers[8].range(1..).unwrap());
        let mut expected: Vec<u32> = (10_000..12_000).collect();
        expected.extend([10_007, 20_008]);
        assert_eq!(run(stream, &views, 1, 0).unwrap().to_vec(stream).unwrap(), expected);
    });
}

/// Memory given back while a kernel reads it through a list goes to another stream only after that kernel.
#[test]
fn memory_read_through_a_list_is_not_overtaken() {
    on_each_device(|stream| {
        let (reader, other) = (stream.device().new_stream().unwrap(), stream.device().new_stream().unwrap());
        for round in 0..5u32 {
            let buffers: Vec<Buffer<u32>> =
                (0..4).map(|_| stream.upload(&vec![round; 1 << 14]).unwrap()).collect();
            reader.wait_for(stream).unwrap();
            let views: Vec<View<'_, u32>> = buffers.iter().map(Buffer::view).collect();
            let out = run(&reader, &views, 5, 100_000).unwrap();
            drop(buffers);
            let _zeros: Vec<Buffer<u32>> = (0..4).map(|_| other.zeros(1 << 14).unwrap()).collect();
            assert_eq!(out.to_vec(&reader).unwrap(), [round; 4], "round {round}");
        }
    });
}

/// The emulated device checks what is read through a list as it checks what is read through an argument.
#[test]
fn a_step_past_the_end_is_reported() {
    on_each_device(|stream| {
        if stream.device().kind() != DeviceKind::Emulated {
            return;
        }
        let buffers = [stream.upload(&[1u32, 2]).unwrap(), stream.upload(&[3u32]).unwrap()];
        let error = run(stream, &buffers.each_ref().map(Buffer::view), 1, 0).unwrap_err().to_string();
        assert!(error.contains("reads 4 bytes") && error.contains("a buffer of 4 bytes"), "{error}");
    });
}

#[test]
fn a_list_is_of_one_device_and_outside_graphs() {
    on_each_device(|stream| {
        let x = stream.upload(&[1u32]).unwrap();
        let error =
            Graph::capture(stream, |stream| stream.addresses(&[x.view()]).map(|_| ())).unwrap_err().to_string();
        assert!(error.contains("capture"), "{error}");
    });
    let emulation = Emulation { devices: 2, ..Emulation::default() };
    let devices = Device::emulated(&emulation, &Options::from_env().unwrap()).unwrap();
    let streams: Vec<Stream> = devices.iter().map(|device| device.compute().unwrap()).collect();
    let x = streams[1].upload(&[1u32]).unwrap();
    assert!(matches!(streams[0].addresses(&[x.view()]), Err(Error::WrongDevice { .. })));
}
