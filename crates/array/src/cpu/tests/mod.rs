//! Array operations on the CPU against plain loops, the host fields and the emulated device.

mod complex;
mod fields;
mod layouts;
mod operations;
mod products;
mod reductions;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rigel_codegen::map::{Complex, Expression, Number, Type};
use rigel_gpu::{Plain, bytes_of, bytes_of_mut};
use rigel_kernels::field::{
    BabyBear, BabyBear4, CM31, Field, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4, Mersenne31,
    QM31,
};

use super::plan::{Operand, Scalar};
use super::space::row_major;
use super::{Target, evaluate};

fn rng(seed: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed)
}

/// Random values, including small and special ones.
trait Random: Plain + PartialEq + std::fmt::Debug {
    const OF: Type;
    fn random(rng: &mut SmallRng) -> Self;

    fn many(rng: &mut SmallRng, count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::random(rng)).collect()
    }
}

macro_rules! random {
    ($($of:ty: |$rng:ident| $value:expr;)*) => { $(
        impl Random for $of {
            const OF: Type = <$of as Number>::TYPE;

            fn random($rng: &mut SmallRng) -> Self {
                $value
            }
        }
    )* };
}

fn float(rng: &mut SmallRng) -> f64 {
    const SPECIAL: [f64; 10] =
        [0.0, -0.0, 1.0, -1.0, 0.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30, -1e-30];
    match rng.random_range(0..4) {
        0 => SPECIAL[rng.random_range(0..10)],
        1 => rng.random_range(-9i32..9) as f64,
        _ => rng.random_range(-4.0..4.0),
    }
}

/// Mostly random bits, sometimes only a few.
fn bits(rng: &mut SmallRng) -> u64 {
    let bits: u64 = rng.random();
    match bits % 4 {
        0 => (bits >> 61).wrapping_sub(2),
        1 => (bits >> 3) & 0xffff_ffff,
        _ => rng.random(),
    }
}

random! {
    i32: |rng| bits(rng) as i32;
    i64: |rng| bits(rng) as i64;
    u32: |rng| bits(rng) as u32;
    u64: |rng| bits(rng);
    f32: |rng| float(rng) as f32;
    f64: |rng| float(rng);
    Complex: |rng| Complex { re: float(rng), im: float(rng) };
    Mersenne31: |rng| Mersenne31::from_u64(bits(rng));
    BabyBear: |rng| BabyBear::from_u64(bits(rng));
    KoalaBear: |rng| KoalaBear::from_u64(bits(rng));
    Goldilocks: |rng| Goldilocks::from_u64(bits(rng));
    CM31: |rng| CM31([(); 2].map(|_| Random::random(rng)));
    QM31: |rng| QM31([(); 4].map(|_| Random::random(rng)));
    BabyBear4: |rng| BabyBear4([(); 4].map(|_| Random::random(rng)));
    KoalaBear4: |rng| KoalaBear4([(); 4].map(|_| Random::random(rng)));
    Goldilocks2: |rng| Goldilocks2([(); 2].map(|_| Random::random(rng)));
    Goldilocks3: |rng| Goldilocks3([(); 3].map(|_| Random::random(rng)));
}

/// Booleans are bytes.
impl Random for u8 {
    const OF: Type = Type::Bool;

    fn random(rng: &mut SmallRng) -> Self {
        rng.random_range(0..2)
    }
}

/// The bytes of a value as a scalar.
fn scalar<T: Plain>(value: T) -> Scalar {
    let mut scalar = [0; 3];
    bytes_of_mut(&mut scalar)[..size_of::<T>()].copy_from_slice(bytes_of(&[value]));
    scalar
}

/// Evaluates over contiguous inputs of one length, given as bytes.
fn evaluate_flat<R: Plain + Default>(
    expression: &Expression,
    inputs: &[&[u8]],
    scalars: &[Scalar],
    count: usize,
) -> Vec<R> {
    let strides = row_major(&[count]);
    let inputs: Vec<Operand<'_>> =
        inputs.iter().map(|bytes| Operand { memory: bytes.as_ptr(), offset: 0, strides: &strides }).collect();
    let mut out = vec![R::default(); count];
    let target = Target { memory: out.as_mut_ptr().cast(), offset: 0, strides: &strides };
    // SAFETY: inputs and result have `count` elements each.
    unsafe { evaluate(expression, &[count], &inputs, scalars, target) };
    out
}
