//! Sources, modules, launches and the cache.

use rigel_gpu::testing::on_each_device;
use rigel_gpu::{Device, Emulation, Error, LaunchPolicy, Options, Shape};

use crate::source;

const SCALE: &str = "template <class T> __global__ void scale(T *x, T by, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}";

#[test]
fn templates_headers_and_defines_compile() {
    on_each_device(|stream| {
        let apply = source(
            "apply.cu",
            "#include \"lib/plus.h\"\n__global__ void apply(int *x) { x[threadIdx.x] = plus(x[threadIdx.x]); }",
        )
        .header("lib/plus.h", "__device__ int plus(int x) { return x + AMOUNT; }")
        .define("AMOUNT", "40")
        .kernel("apply");
        let kernel = stream.device().compile(&apply).unwrap().kernel("apply").unwrap();
        let mut x = stream.upload(&[1, 2, 3]).unwrap();
        kernel.launch(stream, Shape::new(1, 3), (&mut x,)).unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [41, 42, 43]);

        let source = source("scale.cu", SCALE).kernel("scale<float>").kernel("scale<unsigned long long>");
        let module = stream.device().compile(&source).unwrap();
        let mut wide = stream.upload(&[3u64; 5]).unwrap();
        let kernel = module.kernel("scale<unsigned long long>").unwrap();
        kernel.launch(stream, kernel.cover(5).unwrap(), (&mut wide, 1u64 << 40, 5u32)).unwrap();
        assert_eq!(wide.to_vec(stream).unwrap(), [3 << 40; 5]);
    });
}

#[test]
fn wrong_arguments_are_errors_before_anything_runs() {
    on_each_device(|stream| {
        let source = source("scale.cu", SCALE).kernel("scale<float>");
        let kernel = stream.device().compile(&source).unwrap().kernel("scale<float>").unwrap();
        let mut x = stream.upload(&[1f32; 4]).unwrap();
        let shape = Shape::new(1, 4);
        let error = kernel.launch(stream, shape, (&mut x, 2f32)).unwrap_err().to_string();
        assert!(error.contains("takes 3 arguments, got 2"), "{error}");
        let error = kernel.launch(stream, shape, (&mut x, 2f64, 4u32)).unwrap_err().to_string();
        assert!(error.contains("argument 1") && error.contains("4 bytes, got 8"), "{error}");
        kernel.launch(stream, shape, (&mut x, 2f32, 4u32)).unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [2f32; 4]);
    });
}

#[test]
fn impossible_shapes_are_errors() {
    on_each_device(|stream| {
        let source = source("scale.cu", SCALE).kernel("scale<float>");
        let kernel = stream.device().compile(&source).unwrap().kernel("scale<float>").unwrap();
        let mut x = stream.upload(&[1f32; 4]).unwrap();
        for shape in [
            Shape::new(1, 0),
            Shape::new(1, 4096),
            Shape::new(1, 32).rows(70_000),
            Shape::new(1, 32).shared(1 << 30),
        ] {
            let error = kernel.launch(stream, shape, (&mut x, 2f32, 4u32)).unwrap_err();
            assert!(matches!(error, Error::LaunchShape { .. }), "{error}");
        }
        kernel.launch(stream, Shape::new(0, 32), (&mut x, 2f32, 4u32)).unwrap();
        assert_eq!(x.to_vec(stream).unwrap(), [1f32; 4], "no blocks, no work");
    });
}

#[test]
fn a_kernel_that_does_not_compile_shows_its_line() {
    on_each_device(|stream| {
        let text = "__global__ void broken(int *x) {\n    int y = 1;\n    x[0] = yy + 1;\n}";
        let error = stream.device().compile(&source("broken.cu", text).kernel("broken")).unwrap_err();
        let Error::Compile { unit, log, .. } = &error else { panic!("{error}") };
        assert_eq!(unit, "broken.cu");
        assert!(log.contains("broken.cu") && log.contains('3') && log.contains("x[0] = yy + 1"), "{log}");
        let missing = source("scale.cu", SCALE).kernel("scale<nothing>");
        assert!(matches!(stream.device().compile(&missing), Err(Error::Compile { .. })));
        let module = stream.device().compile(&source("scale.cu", SCALE).kernel("scale<int>")).unwrap();
        let error = module.kernel("scale<float>").unwrap_err().to_string();
        assert!(error.contains("it has scale<int>"), "{error}");
    });
}

#[test]
fn memory_of_another_device_is_refused() {
    let emulation = Emulation { devices: 2, ..Emulation::default() };
    let devices = Device::emulated(&emulation, &Options::from_env().unwrap()).unwrap();
    let streams: Vec<_> = devices.iter().map(|device| device.compute().unwrap()).collect();
    let kernel = devices[0].compile(&source("scale.cu", SCALE).kernel("scale<float>")).unwrap();
    let kernel = kernel.kernel("scale<float>").unwrap();
    let mut x = streams[1].upload(&[1f32]).unwrap();
    let error = kernel.launch(&streams[0], Shape::new(1, 1), (&mut x, 2f32, 1u32)).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
    assert!(error.to_string().contains("emulated:1") && error.to_string().contains("to_device"), "{error}");
    let mut y = streams[0].alloc::<f32>(1).unwrap();
    assert!(matches!(streams[0].copy(&mut y, &x), Err(Error::WrongDevice { .. })));
    assert!(matches!(x.to_vec(&streams[0]), Err(Error::WrongDevice { .. })));
}

#[test]
fn the_cache_serves_a_second_device_and_survives_damage() {
    let folder = tempfile::tempdir().unwrap();
    on_each_device(|stream| {
        let selector = stream.device().to_string().parse().unwrap();
        let open = || {
            let options = Options { cache: Some(folder.path().into()), ..Options::from_env().unwrap() };
            Device::open_with(selector, options).unwrap()
        };
        let source = source("scale.cu", SCALE).define("UNUSED", "1").kernel("scale<int>");
        let run = |device: &Device| {
            let stream = device.compute().unwrap();
            let kernel = device.compile(&source).unwrap().kernel("scale<int>").unwrap();
            let mut x = stream.upload(&[21i32]).unwrap();
            kernel.launch(&stream, Shape::new(1, 1), (&mut x, 2i32, 1u32)).unwrap();
            assert_eq!(x.to_vec(&stream).unwrap(), [42]);
            device.cache().stats()
        };
        assert_eq!(run(&open()).compiled, 1);
        let second = run(&open());
        assert_eq!((second.compiled, second.hits), (0, 1));
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        }
        let third = run(&open());
        assert_eq!(third.compiled, 1);
        assert!(third.damaged >= 1);
    });
}

#[test]
fn a_cache_that_cannot_be_written_still_compiles() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let options = Options { cache: Some(file.join("cache")), ..Options::from_env().unwrap() };
    let device = Device::emulated(&Emulation::default(), &options).unwrap().remove(0);
    device.compile(&source("scale.cu", SCALE).kernel("scale<int>")).unwrap();
    assert!(device.cache().stats().problem.is_some());
}

#[test]
fn the_launch_policy_is_one_switch() {
    on_each_device(|stream| {
        let device = stream.device();
        let source = source("scale.cu", SCALE).kernel("scale<float>");
        let kernel = device.compile(&source).unwrap().kernel("scale<float>").unwrap();
        let n = 100_003;
        let mut x = stream.upload(&vec![1f32; n]).unwrap();
        for policy in [LaunchPolicy::Occupancy, LaunchPolicy::Fixed(256), LaunchPolicy::Fixed(96)] {
            device.set_launch_policy(policy);
            let shape = kernel.cover(n).unwrap();
            if let LaunchPolicy::Fixed(threads) = policy {
                assert_eq!(shape.threads[0], threads);
            }
            kernel.launch(stream, shape, (&mut x, 2f32, n as u32)).unwrap();
        }
        assert!(x.to_vec(stream).unwrap().iter().all(|&v| v == 8.0));
        let fill = kernel.fill(usize::MAX >> 8).unwrap();
        assert!(fill.blocks[0] >= device.properties().multiprocessors);
    });
}

#[test]
fn sources_compile_at_the_same_time() {
    on_each_device(|stream| {
        std::thread::scope(|scope| {
            for i in 0..4 {
                scope.spawn(move || {
                    let source = source("scale.cu", SCALE).define("SALT", format!("{i}")).kernel("scale<int>");
                    stream.device().compile(&source).unwrap().kernel("scale<int>").unwrap();
                });
            }
        });
    });
}
