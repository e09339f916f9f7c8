//! Matrix products by cuBLAS, where it is.

use rigel_gpu::testing::on_each_device;
use rigel_gpu::{
    Blas, BlasType, Buffer, DeviceKind, Error, GemmOperand, GemmShape, GemmTarget, Plain, Stream, cublas_status,
};

#[test]
fn what_is_missing_is_said() {
    on_each_device(|stream| match stream.device().blas() {
        Ok(blas) => {
            let status = cublas_status().unwrap();
            assert_eq!((blas.path(), blas.version()), (status.path.as_path(), status.version.as_str()));
            assert!(std::sync::Arc::ptr_eq(&blas, &stream.device().blas().unwrap()));
        }
        Err(Error::NoLibrary { library, reason, advice }) => {
            let emulated = stream.device().kind() == DeviceKind::Emulated;
            assert!(library == "cuBLAS" && (reason.contains("is not a GPU") == emulated), "{reason}");
            assert!(emulated || advice.contains("pip install nvidia-cublas"), "{advice}");
        }
        Err(error) => panic!("{error}"),
    });
}

/// A number whose products are exact here.
trait Small: Plain + PartialEq + std::fmt::Debug {
    const OF: BlasType;
    const ZERO: Self;

    fn of(number: i64) -> Self;
    fn product_plus(self, other: Self, sum: Self) -> Self;
}

macro_rules! reals {
    ($($real:ident = $of:ident),*) => { $(
        impl Small for $real {
            const OF: BlasType = BlasType::$of;
            const ZERO: Self = 0.0;

            fn of(number: i64) -> Self {
                (number % 11 - 5) as $real
            }

            fn product_plus(self, other: Self, sum: Self) -> Self {
                self * other + sum
            }
        }
    )* };
}
reals!(f32 = F32, f64 = F64);

impl Small for [f64; 2] {
    const OF: BlasType = BlasType::C128;
    const ZERO: Self = [0.0; 2];

    fn of(number: i64) -> Self {
        [f64::of(number), f64::of(number / 7)]
    }

    fn product_plus(self, [c, d]: Self, sum: Self) -> Self {
        let [a, b] = self;
        [sum[0] + a * c - b * d, sum[1] + a * d + b * c]
    }
}

fn check<T: Small>(stream: &Stream, blas: &Blas, shape: GemmShape, transposed: [bool; 2]) {
    let GemmShape { m, n, k, batch } = shape;
    let stored = |rows, columns, transposed| if transposed { (columns, rows) } else { (rows, columns) };
    let ((a_rows, a_columns), (b_rows, b_columns)) = (stored(m, k, transposed[0]), stored(k, n, transposed[1]));
    // Gaps behind rows; A has a matrix for each product, B one for all.
    let (a_leading, b_leading, c_leading) = (a_columns + 3, b_columns + 1, n + 2);
    let (a_stride, c_stride) = (a_rows * a_leading, m * c_leading);
    let numbers = |len: usize, step: i64| (0..len as i64).map(|i| T::of(i * step)).collect::<Vec<T>>();
    let (a, b) = (numbers(1 + batch * a_stride, 7), numbers(b_rows * b_leading, 13));
    let memory = [&a, &b].map(|values| stream.upload(values).unwrap().cast::<u8>().unwrap());
    let mut out: Buffer<u8> = stream.zeros(batch * c_stride * size_of::<T>()).unwrap();
    let operand = |which: usize, offset, leading, batch_stride| {
        let (memory, transposed) = (memory[which].view(), transposed[which]);
        GemmOperand { memory, offset, leading, batch_stride, transposed }
    };
    let target = GemmTarget { memory: out.view_mut(), offset: 0, leading: c_leading, batch_stride: c_stride };
    let factors = (operand(0, 1, a_leading, a_stride), operand(1, 0, b_leading, 0));
    blas.gemm(stream, T::OF, shape, factors.0, factors.1, target).unwrap();
    let found = out.cast::<T>().unwrap().to_vec(stream).unwrap();
    for (p, i, j) in (0..batch).flat_map(|p| (0..m).flat_map(move |i| (0..n).map(move |j| (p, i, j)))) {
        let at = |transposed, leading, row, column| {
            if transposed { column * leading + row } else { row * leading + column }
        };
        let term = |sum, l| {
            let left: T = a[1 + p * a_stride + at(transposed[0], a_leading, i, l)];
            left.product_plus(b[at(transposed[1], b_leading, l, j)], sum)
        };
        let expected = (0..k).fold(T::ZERO, term);
        assert_eq!(found[p * c_stride + i * c_leading + j], expected, "{shape:?} {transposed:?} [{p}][{i}, {j}]");
    }
}

#[test]
fn products_equal_a_loop() {
    on_each_device(|stream| {
        let blas = match stream.device().blas() {
            Ok(blas) => blas,
            Err(Error::NoLibrary { .. }) => return println!("skipped on {}: no cuBLAS", stream.device()),
            Err(error) => panic!("{error}"),
        };
        for (m, n, k, batch) in [(1, 1, 1, 1), (7, 5, 3, 1), (33, 17, 65, 3), (128, 64, 32, 2), (4, 6, 0, 2)] {
            let shape = GemmShape { m, n, k, batch };
            for transposed in [[false, false], [true, false], [false, true], [true, true]] {
                check::<f32>(stream, &blas, shape, transposed);
                check::<f64>(stream, &blas, shape, transposed);
                check::<[f64; 2]>(stream, &blas, shape, transposed);
            }
        }
    });
}
