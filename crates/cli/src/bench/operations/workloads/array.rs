//! Arrays: element-wise operations, fused expressions, reductions, products, transforms, and the overhead of small
//! operations.

use rigel_array::{Array, Axes, Device, Error, Result, Type, name};
use rigel_gpu::Stream;

use super::count;
use crate::bench::Size;
use crate::bench::operations::measure::{Bar, Bench, Case, Cost, Figures};

/// The bar for element-wise operations.
const ELEMENTWISE: Bar = Bar::ShareOfCopy(0.85);
/// The bar for a fused expression.
const FUSED: Bar = Bar::ShareOfCopy(0.80);
/// Gigabytes per second from ordinary host memory to the device.
const UPLOAD: Bar = Bar::AtLeast(20.0);

/// The types whose element-wise operations have a bar.
const TYPES: [Type; 9] = [
    Type::F32,
    Type::F64,
    Type::C128,
    Type::Mersenne31,
    Type::BabyBear,
    Type::KoalaBear,
    Type::Goldilocks,
    Type::KoalaBear4,
    Type::Goldilocks2,
];

pub fn cases(size: Size) -> Vec<Case> {
    let bytes = size.pick(1 << 30, 1 << 14);
    let mut cases = Vec::new();
    for of in TYPES {
        let n = bytes / of.bytes();
        cases.push(elementwise(format!("{} + {}", name(of), name(of)), of, n, |x, y| x.add(y)));
        cases.push(elementwise(format!("{} * {}", name(of), name(of)), of, n, |x, y| x.mul(y)));
    }
    cases.push(elementwise("float64 / float64".into(), Type::F64, bytes / 8, |x, y| x.div(y)));
    cases.push(unary("exp float32", Type::F32, &[bytes / 4], |x| x.exp()));
    cases.push(unary("sin float64", Type::F64, &[bytes / 8], |x| x.sin()));
    cases.push(unary("abs complex128", Type::C128, &[bytes / 16], |x| x.abs()));
    cases.push(unary("goldilocks * 3", Type::Goldilocks, &[bytes / 8], |x| x.mul(3)));
    for of in [Type::F32, Type::F64, Type::C128, Type::KoalaBear, Type::Goldilocks] {
        cases.push(fused(of, bytes / 2 / of.bytes()));
    }
    let side = size.pick(1 << 14, 64);
    cases.push(unary("float32 matrix + row", Type::F32, &[side, side], |x| x.add(&x.index(&[0.into()])?)));
    cases.push(unary("float32 transpose, copied", Type::F32, &[side, side], |x| x.transpose().copy()));
    for (text, axes) in [("all", None), ("axis 0", Some(0)), ("axis 1", Some(1))] {
        cases.push(sum(format!("sum float32, {text}"), Type::F32, side, axes));
    }
    cases.push(sum("sum goldilocks, all".into(), Type::Goldilocks, side, None));
    let order = size.pick(4096, 48);
    for of in [Type::F32, Type::F64, Type::C128] {
        cases.push(matmul(of, order, false));
        cases.push(matmul(of, order, true));
    }
    for of in [Type::KoalaBear, Type::Goldilocks] {
        cases.push(matmul(of, order, false));
    }
    for of in [Type::KoalaBear, Type::Goldilocks] {
        let n = size.pick(1 << 20, 1 << 8);
        cases.push(field(format!("NTT {}", name(of)), of, n, |x| x.ntt()));
        cases.push(field(format!("LDE {}, blowup 2", name(of)), of, n, |x| x.lde(1, None)));
        cases.push(field(format!("inverse {}", name(of)), of, size.pick(1 << 24, 1 << 8), |x| x.inverse()));
    }
    cases.push(upload(Type::C128, size.pick(1 << 26, 1 << 10)));
    cases.push(small("float32 + float32, enqueued", |x| x.add(x)));
    cases.push(small("a * b + 1, fused, enqueued", |x| (x.lazy() * x + 1.0).eval()));
    cases
}

/// The engine's error, which the bench reports.
fn plain(error: Error) -> rigel_gpu::Error {
    match error {
        Error::Gpu(error) => error,
        other => rigel_gpu::Error::shape("array", other.to_string()),
    }
}

fn random(bench: &Bench, shape: &[usize], of: Type, seed: u64) -> rigel_gpu::Result<Array> {
    Array::random(shape, of, seed, &Device::from(bench.device().clone())).map_err(plain)
}

fn shape_of(shape: &[usize]) -> String {
    shape.iter().map(|&length| count(length)).collect::<Vec<_>>().join(" x ")
}

/// A case of an operation that returns an array.
fn timed(bench: &Bench, bytes: f64, mut work: impl FnMut() -> Result<Array>) -> rigel_gpu::Result<Figures> {
    bench.measure_bandwidth(Cost::bytes(bytes), |_: &Stream| work().map(drop).map_err(plain))
}

fn elementwise(text: String, of: Type, n: usize, work: fn(&Array, &Array) -> Result<Array>) -> Case {
    Case::new(text, count(n), move |bench| {
        let (x, y) = (random(bench, &[n], of, 1)?, random(bench, &[n], of, 2)?);
        Ok(timed(bench, 3.0 * x.bytes() as f64, || work(&x, &y))?.bar(ELEMENTWISE))
    })
}

fn unary(text: &str, of: Type, shape: &[usize], work: fn(&Array) -> Result<Array>) -> Case {
    let shape = shape.to_vec();
    Case::new(text, shape_of(&shape), move |bench| {
        let x = random(bench, &shape, of, 1)?;
        let out = work(&x).map_err(plain)?.bytes();
        Ok(timed(bench, (x.bytes() + out) as f64, || work(&x))?.bar(ELEMENTWISE))
    })
}

/// a b + c d - e: five arrays read, one written, in one launch.
fn fused(of: Type, n: usize) -> Case {
    Case::new(format!("a * b + c * d - e, {}, fused", name(of)), count(n), move |bench| {
        let arrays: Vec<Array> =
            (0..5).map(|seed| random(bench, &[n], of, seed)).collect::<rigel_gpu::Result<_>>()?;
        let [a, b, c, d, e] = &arrays[..] else { unreachable!("five arrays") };
        let work = || (a.lazy() * b + c.lazy() * d - e).eval();
        drop(work().map_err(plain)?);
        let before = bench.device().activity().launches;
        drop(work().map_err(plain)?);
        let launches = bench.device().activity().launches - before;
        if launches != 1 {
            return Err(rigel_gpu::Error::shape(
                "fused expression",
                format!("{launches} launches; it must take one"),
            ));
        }
        Ok(timed(bench, 6.0 * a.bytes() as f64, work)?.bar(FUSED))
    })
}

fn sum(text: String, of: Type, side: usize, axis: Option<isize>) -> Case {
    Case::new(text, shape_of(&[side, side]), move |bench| {
        let x = random(bench, &[side, side], of, 1)?;
        let axes = axis.map_or(Axes::All, Axes::from);
        timed(bench, x.bytes() as f64, || x.sum(axes.clone()))
    })
}

/// A square product; for fields, and if `own`, by Rigel's kernel.
fn matmul(of: Type, order: usize, own: bool) -> Case {
    let by = if own { ", own kernel" } else { "" };
    Case::new(format!("matmul {}{by}", name(of)), format!("{order} x {order}"), move |bench| {
        let [a, b] = [1, 2].map(|seed| random(bench, &[order, order], of, seed));
        let (a, b) = (a?, b?);
        let operations = 2.0 * (order as f64).powi(3) * if of == Type::C128 { 4.0 } else { 1.0 };
        let unit = if of.is_field() { "Gop/s" } else { "GFLOP/s" };
        bench.measure(Cost::default(), operations, unit, |_| {
            let product = if own { a.matmul_by_kernel(&b) } else { a.matmul(&b) };
            product.map(drop).map_err(plain)
        })
    })
}

fn field(text: String, of: Type, n: usize, work: fn(&Array) -> Result<Array>) -> Case {
    Case::new(text, count(n), move |bench| {
        let x = random(bench, &[n], of, 1)?;
        let out = work(&x).map_err(plain)?.bytes();
        timed(bench, (x.bytes() + out) as f64, || work(&x))
    })
}

fn upload(of: Type, n: usize) -> Case {
    Case::new(format!("upload {}, ordinary memory", name(of)), count(n), move |bench| {
        let (here, there) = (Device::Cpu, Device::from(bench.device().clone()));
        let x = Array::random(&[n], of, 1, &here).map_err(plain)?;
        let milliseconds = bench.wall_time(|_| x.to(&there).map(drop).map_err(plain))?;
        Ok(Figures::new(milliseconds, x.bytes() as f64 / milliseconds / 1e6, "GB/s").bar(UPLOAD))
    })
}

/// Host microseconds per operation on 1,000 elements, over 1,000 operations enqueued one after the other.
fn small(text: &str, work: fn(&Array) -> Result<Array>) -> Case {
    const TIMES: usize = 1000;
    Case::new(text, "1000 elements", move |bench| {
        let x = random(bench, &[1000], Type::F32, 1)?;
        let milliseconds =
            bench.wall_time(|_| (0..TIMES).try_for_each(|_| work(&x).map(drop)).map_err(plain))? / TIMES as f64;
        Ok(Figures::new(milliseconds, milliseconds * 1e3, "us"))
    })
}
