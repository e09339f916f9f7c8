//! User kernels.

use rigel_array::{Argument, Array, Device, Error, Grid, Kernel, Type};

use crate::{counting, on_each_device, random, scalars};

const SAXPY: &str = "__global__ void saxpy(const float *x, float *y, float a, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}";

fn saxpy() -> Kernel {
    // SAFETY: it accesses the first n elements of two arrays, which have as many.
    unsafe { Kernel::new(SAXPY, "saxpy") }.on_cpu(|_, arguments| {
        let [Argument::Array(x), Argument::Array(y), Argument::Float(a), _] = arguments else {
            panic!("{arguments:?}")
        };
        y.assign(x.lazy() * *a + *y)
    })
}

#[test]
fn a_kernel_runs_where_its_arrays_are() {
    on_each_device(|device| {
        let x = counting(&[500], device).astype(Type::F32).unwrap();
        let y = Array::ones(&[500], Type::F32, device).unwrap();
        let arguments = [(&x).into(), (&y).into(), Argument::Float(2.0), Argument::Int(500)];
        saxpy().launch(Grid::cover(500, 128).unwrap(), &arguments).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), (0..500).map(|i| 2.0 * i as f32 + 1.0).collect::<Vec<_>>());
    });
}

#[test]
fn fields_have_their_headers() {
    on_each_device(|device| {
        if device.is_cpu() {
            return;
        }
        let text = "#include \"field/koala_bear.cuh\"
             template <class F> __global__ void square(F *x, unsigned long long n) {
                 unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
                 if (i < n) x[i] = x[i] * x[i];
             }";
        // SAFETY: it accesses the first n elements of an array, which has as many.
        let square = unsafe { Kernel::new(text, "square<KoalaBear>") };
        let x = random(&[100], Type::KoalaBear, 1, device);
        let expected = x.mul(&x).unwrap();
        square.launch(Grid::cover(100, 32).unwrap(), &[(&x).into(), 100u64.into()]).unwrap();
        assert_eq!(scalars(&x), scalars(&expected));
    });
}

#[test]
fn invalid_launches_give_errors() {
    on_each_device(|device| {
        let (x, grid) = (random(&[8, 8], Type::F32, 1, device), Grid::cover(8, 32).unwrap());
        let strided = x.transpose();
        let launch = |arguments: &[Argument<'_>]| saxpy().launch(grid, arguments);
        assert!(matches!(launch(&[(&strided).into()]), Err(Error::Shape(_))));
        assert!(matches!(launch(&[1.0f32.into()]), Err(Error::Shape(_))));
        if let Device::Gpu(_) = device {
            let wide = [(&x).into(), (&x).into(), Argument::Int(1 << 40), Argument::Int(8)];
            assert!(matches!(launch(&wide), Err(Error::Type(_))));
            assert!(matches!(launch(&[(&x).into()]), Err(Error::Gpu(rigel_gpu::Error::Arguments { .. }))));
            let here = random(&[8], Type::F32, 1, &Device::Cpu);
            let mixed = launch(&[(&x).into(), (&here).into(), 1.0f32.into(), 8u32.into()]);
            assert!(matches!(mixed, Err(Error::Devices { .. })));
            // SAFETY: it does not compile.
            let broken = unsafe { Kernel::new("__global__ void broken() { nothing; }", "broken") };
            let error = broken.launch(grid, &[(&x).into()]).unwrap_err();
            assert!(
                matches!(&error, Error::Gpu(rigel_gpu::Error::Compile { log, .. }) if log.contains("nothing"))
            );
        } else {
            // SAFETY: as in `saxpy`.
            let error = unsafe { Kernel::new(SAXPY, "saxpy") }.launch(grid, &[(&x).into()]).unwrap_err();
            assert!(error.to_string().contains("no version for that"), "{error}");
        }
    });
}
