//! Every operation for every type it is defined for, against the operators of Rust and of the host fields.

use rigel_codegen::map::{Binary, Complex, Expression, Type, Unary};
use rigel_gpu::{Plain, bytes_of};
use rigel_kernels::field::{
    BabyBear, BabyBear4, CM31, Extension, Field, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4,
    Mersenne31, QM31, Ring,
};

use super::{Random, evaluate_flat, rng, scalar};
use crate::cpu::convert::convert_loop;
use crate::cpu::operation::{binary_loop, random, select_loop, unary_loop};

const COUNT: usize = 3000;

/// Equality in which NaN equals NaN.
trait Same: PartialEq + std::fmt::Debug {
    fn same(&self, other: &Self) -> bool {
        self == other
    }
}

macro_rules! same {
    ($($of:ty)*) => { $(impl Same for $of {})* };
}
same!(u8 i32 i64 u32 u64 Mersenne31 BabyBear KoalaBear Goldilocks);
same!(CM31 QM31 BabyBear4 KoalaBear4 Goldilocks2 Goldilocks3);

impl Same for f32 {
    fn same(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits() || (self.is_nan() && other.is_nan())
    }
}
impl Same for f64 {
    fn same(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits() || (self.is_nan() && other.is_nan())
    }
}
impl Same for Complex {
    fn same(&self, other: &Self) -> bool {
        self.re.same(&other.re) && self.im.same(&other.im)
    }
}

fn check_binary<A: Random, B: Random, R: Same + Plain + Default>(operation: Binary, expected: impl Fn(A, B) -> R) {
    let mut rng = rng(operation as u64 + 100 * A::OF as u64);
    let (a, b) = (A::many(&mut rng, COUNT), B::many(&mut rng, COUNT));
    for uniform in [None, Some(0), Some(1)] {
        let mut e = Expression::new();
        let (mut inputs, mut scalars) = (Vec::new(), Vec::new());
        let x = if uniform == Some(0) {
            scalars.push(scalar(a[7]));
            e.scalar(A::OF)
        } else {
            inputs.push(bytes_of(&a));
            e.input(A::OF)
        };
        let y = if uniform == Some(1) {
            scalars.push(scalar(b[7]));
            e.scalar(B::OF)
        } else {
            inputs.push(bytes_of(&b));
            e.input(B::OF)
        };
        let result = e.binary(operation, x, y).unwrap();
        assert_eq!(e.type_of(result).bytes(), size_of::<R>());
        let found: Vec<R> = evaluate_flat(&e, &inputs, &scalars, COUNT);
        for (i, found) in found.iter().enumerate() {
            let (x, y) = (a[if uniform == Some(0) { 7 } else { i }], b[if uniform == Some(1) { 7 } else { i }]);
            let expected = expected(x, y);
            assert!(found.same(&expected), "{operation:?} of {x:?} and {y:?}: {found:?}, not {expected:?}");
        }
    }
}

fn check_unary<A: Random, R: Same + Plain + Default>(operation: Unary, expected: impl Fn(A) -> R) {
    let a = A::many(&mut rng(operation as u64), COUNT);
    let mut e = Expression::new();
    let x = e.input(A::OF);
    e.unary(operation, x).unwrap();
    let found: Vec<R> = evaluate_flat(&e, &[bytes_of(&a)], &[], COUNT);
    for (&x, found) in a.iter().zip(&found) {
        assert!(found.same(&expected(x)), "{operation:?} of {x:?}: {found:?}, not {:?}", expected(x));
    }
}

#[test]
fn there_is_a_loop_for_all_that_is_defined() {
    for of in Type::ALL {
        assert!(select_loop(of).is_some());
        if of.is_narrow() {
            assert!(convert_loop(of, of.wide()).is_some() && convert_loop(of.wide(), of).is_some(), "{of:?}");
            continue;
        }
        for operation in Unary::ALL {
            assert_eq!(
                unary_loop(operation, of).is_some(),
                operation.result(of).is_some(),
                "{operation:?} {of:?}"
            );
        }
        for operation in Binary::ALL {
            let defined = Type::ALL.iter().any(|&other| operation.result(of, other).is_some());
            assert_eq!(binary_loop(operation, of).is_some(), defined, "{operation:?} {of:?}");
        }
        for to in Type::ALL.into_iter().filter(|&to| to != of && !to.is_narrow()) {
            assert_eq!(convert_loop(of, to).is_some(), Expression::converts(of, to), "{of:?} to {to:?}");
        }
    }
}

fn check_ring<T: Random + Ring + Same>() {
    check_binary::<T, T, T>(Binary::Add, |x, y| x + y);
    check_binary::<T, T, T>(Binary::Sub, |x, y| x - y);
    check_binary::<T, T, T>(Binary::Mul, |x, y| x * y);
    check_binary::<T, u64, T>(Binary::Pow, |x, y| x.pow(y));
    check_binary::<T, T, u8>(Binary::Eq, |x, y| (x == y) as u8);
    check_binary::<T, T, u8>(Binary::Ne, |x, y| (x != y) as u8);
    check_unary::<T, T>(Unary::Neg, |x| -x);
}

#[test]
fn arithmetic_of_fields() {
    check_ring::<Mersenne31>();
    check_ring::<BabyBear>();
    check_ring::<KoalaBear>();
    check_ring::<Goldilocks>();
    check_ring::<CM31>();
    check_ring::<QM31>();
    check_ring::<BabyBear4>();
    check_ring::<KoalaBear4>();
    check_ring::<Goldilocks2>();
    check_ring::<Goldilocks3>();
}

macro_rules! check_ordered {
    ($($of:ty)*) => { $(
        check_binary::<$of, $of, u8>(Binary::Eq, |x, y| (x == y) as u8);
        check_binary::<$of, $of, u8>(Binary::Ne, |x, y| (x != y) as u8);
        check_binary::<$of, $of, u8>(Binary::Lt, |x, y| (x < y) as u8);
        check_binary::<$of, $of, u8>(Binary::Le, |x, y| (x <= y) as u8);
        check_binary::<$of, $of, u8>(Binary::Gt, |x, y| (x > y) as u8);
        check_binary::<$of, $of, u8>(Binary::Ge, |x, y| (x >= y) as u8);
    )* };
}

macro_rules! check_integers {
    ($($of:ty: $wide:ty),*) => { $(
        check_binary::<$of, $of, $of>(Binary::Add, |x, y| x.wrapping_add(y));
        check_binary::<$of, $of, $of>(Binary::Sub, |x, y| x.wrapping_sub(y));
        check_binary::<$of, $of, $of>(Binary::Mul, |x, y| x.wrapping_mul(y));
        check_binary::<$of, $of, $of>(Binary::Min, |x, y| x.min(y));
        check_binary::<$of, $of, $of>(Binary::Max, |x, y| x.max(y));
        check_binary::<$of, u64, $of>(Binary::Pow, |x, y| (0..64).rev().fold(1 as $of, |r, bit| {
            let r = r.wrapping_mul(r);
            if y >> bit & 1 == 1 { r.wrapping_mul(x) } else { r }
        }));
        // For a positive divisor, the Euclidean quotient is the floor; for a negative one, negate both operands.
        check_binary::<$of, $of, $of>(Binary::FloorDiv, |x, y| {
            let (x, y) = if (y as $wide) < 0 { (-(x as $wide), -(y as $wide)) } else { (x as $wide, y as $wide) };
            if y == 0 { 0 } else { x.div_euclid(y) as $of }
        });
        check_binary::<$of, $of, $of>(Binary::Remainder, |x, y| {
            let (x, y) = (x as $wide, y as $wide);
            if y == 0 { 0 } else { (y.signum() * (y.signum() * x).rem_euclid(y.abs())) as $of }
        });
        check_unary::<$of, $of>(Unary::Neg, |x| x.wrapping_neg());
        check_unary::<$of, $of>(Unary::Abs, |x| (x as i128).unsigned_abs() as $of);
        check_unary::<$of, $of>(Unary::Conj, |x| x);
        check_unary::<$of, $of>(Unary::Real, |x| x);
        check_unary::<$of, $of>(Unary::Imag, |_| 0);
    )* };
}

#[test]
fn arithmetic_of_integers() {
    check_integers!(i32: i128, i64: i128, u32: i128, u64: i128);
    check_ordered!(i32 i64 u32 u64);
}

#[test]
fn booleans() {
    check_ordered!(u8);
    check_binary::<u8, u8, u8>(Binary::Min, |x, y| x & y);
    check_binary::<u8, u8, u8>(Binary::Max, |x, y| x | y);
    check_binary::<u8, u8, u8>(Binary::And, |x, y| x & y);
    check_binary::<u8, u8, u8>(Binary::Or, |x, y| x | y);
    check_binary::<u8, u8, u8>(Binary::Xor, |x, y| x ^ y);
    check_unary::<u8, u8>(Unary::Not, |x| 1 - x);
}

macro_rules! check_floats {
    ($($of:ty)*) => { $(
        check_binary::<$of, $of, $of>(Binary::Add, |x, y| x + y);
        check_binary::<$of, $of, $of>(Binary::Sub, |x, y| x - y);
        check_binary::<$of, $of, $of>(Binary::Mul, |x, y| x * y);
        check_binary::<$of, $of, $of>(Binary::Div, |x, y| x / y);
        check_binary::<$of, $of, $of>(Binary::Pow, |x, y| x.powf(y));
        check_unary::<$of, $of>(Unary::Neg, |x| -x);
        check_unary::<$of, $of>(Unary::Abs, |x| x.abs());
        check_unary::<$of, $of>(Unary::Exp, |x| x.exp());
        check_unary::<$of, $of>(Unary::Log, |x| x.ln());
        check_unary::<$of, $of>(Unary::Sqrt, |x| x.sqrt());
        check_unary::<$of, $of>(Unary::Sin, |x| x.sin());
        check_unary::<$of, $of>(Unary::Cos, |x| x.cos());
        check_unary::<$of, $of>(Unary::Tan, |x| x.tan());
        check_unary::<$of, $of>(Unary::Asin, |x| x.asin());
        check_unary::<$of, $of>(Unary::Acos, |x| x.acos());
        check_unary::<$of, $of>(Unary::Atan, |x| x.atan());
        check_unary::<$of, $of>(Unary::Sinh, |x| x.sinh());
        check_unary::<$of, $of>(Unary::Cosh, |x| x.cosh());
        check_unary::<$of, $of>(Unary::Tanh, |x| x.tanh());
        check_unary::<$of, $of>(Unary::Floor, |x| x.floor());
        check_unary::<$of, $of>(Unary::Ceil, |x| x.ceil());
        check_unary::<$of, $of>(Unary::Conj, |x| x);
        check_unary::<$of, $of>(Unary::Real, |x| x);
        check_unary::<$of, $of>(Unary::Imag, |_| 0.0);
        check_unary::<$of, u8>(Unary::IsNan, |x| x.is_nan() as u8);
        check_unary::<$of, u8>(Unary::IsFinite, |x| x.is_finite() as u8);
        check_binary::<$of, $of, $of>(Binary::Min, |x, y| match (x.is_nan(), y.is_nan()) {
            (false, false) => if y < x { y } else { x },
            _ => <$of>::NAN,
        });
        check_binary::<$of, $of, $of>(Binary::Max, |x, y| match (x.is_nan(), y.is_nan()) {
            (false, false) => if y > x { y } else { x },
            _ => <$of>::NAN,
        });
    )* };
}

#[test]
fn arithmetic_of_floats() {
    check_floats!(f32 f64);
    check_ordered!(f32 f64);
}

/// The results of NumPy's `floor_divide` and `remainder`.
#[test]
fn quotients_of_floats_are_rounded_down() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let cases = [
        (7.0, 2.0, 3.0, 1.0),
        (-7.0, 2.0, -4.0, 1.0),
        (7.0, -2.0, -4.0, -1.0),
        (-7.0, -2.0, 3.0, -1.0),
        (6.0, -2.0, -3.0, -0.0),
        (1.0, 0.1, 9.0, 0.09999999999999995),
        (0.0, -3.0, -0.0, -0.0),
        (1.0, inf, 0.0, 1.0),
        (-1.0, inf, -1.0, inf),
        (1.0, -inf, -1.0, -inf),
        (1.0, 0.0, inf, nan),
        (0.0, 0.0, nan, nan),
        (inf, 2.0, nan, nan),
        (nan, 2.0, nan, nan),
    ];
    for (x, y, quotient, remainder) in cases {
        for (operation, expected) in [(Binary::FloorDiv, quotient), (Binary::Remainder, remainder)] {
            let mut e = Expression::new();
            let (a, b) = (e.input(Type::F64), e.input(Type::F64));
            e.binary(operation, a, b).unwrap();
            let found: Vec<f64> = evaluate_flat(&e, &[bytes_of(&[x]), bytes_of(&[y])], &[], 1);
            assert!(found[0].same(&expected), "{operation:?} of {x} and {y}: {}, not {expected}", found[0]);
        }
    }
    // The remainder is between 0 and the divisor, and completes the quotient.
    let mut rng = rng(1);
    for _ in 0..COUNT {
        let (x, y) = (f32::random(&mut rng), f32::random(&mut rng));
        use crate::cpu::number::Rounded;
        let (quotient, left) = (x.floor_div(y), x.remainder(y));
        if x.is_finite() && y.is_finite() && y != 0.0 && quotient.abs() < 1e6 {
            assert!(left == 0.0 || (left < 0.0) == (y < 0.0), "{x} {y}");
            assert!(left.abs() <= y.abs(), "{x} {y}");
            assert!((quotient * y + left - x).abs() <= 1e-6 * (x.abs() + y.abs()), "{x} {y}");
        }
    }
}

fn check_conversions<S: Random>(as_f64: impl Fn(S) -> f64, as_i128: impl Fn(S) -> i128) {
    let values: Vec<S> = S::many(&mut rng(S::OF as u64), COUNT);
    let others = Type::ALL.into_iter().filter(|&to| to != S::OF && !to.is_narrow());
    for to in others.filter(|&to| Expression::converts(S::OF, to)) {
        let mut e = Expression::new();
        let x = e.input(S::OF);
        e.convert(to, x).unwrap();
        let run = |count| evaluate_flat::<u8>(&e, &[bytes_of(&values)], &[], count);
        let _ = run;
        macro_rules! compare {
            ($of:ty, |$x:ident| $expected:expr, $skip:expr) => {{
                let found: Vec<$of> = evaluate_flat(&e, &[bytes_of(&values)], &[], COUNT);
                for (&$x, found) in values.iter().zip(&found) {
                    if $skip {
                        continue;
                    }
                    let expected: $of = $expected;
                    assert!(found.same(&expected), "{:?} to {to:?}: {found:?}, not {expected:?}", $x);
                }
            }};
        }
        let outside = |x: S, low: f64, high: f64| {
            matches!(S::OF, Type::F32 | Type::F64 | Type::C128) && !(as_f64(x) > low && as_f64(x) < high)
        };
        match to {
            Type::Bool => compare!(u8, |x| (as_f64(x) != 0.0) as u8, S::OF == Type::C128),
            Type::I32 => compare!(i32, |x| as_i128(x) as i32, outside(x, -2147483649.0, 2147483648.0)),
            Type::I64 => compare!(i64, |x| as_i128(x) as i64, outside(x, -9e18, 9e18)),
            Type::U32 => compare!(u32, |x| as_i128(x) as u32, outside(x, -1.0, 4294967296.0)),
            Type::U64 => compare!(u64, |x| as_i128(x) as u64, outside(x, -1.0, 1e19)),
            Type::F32 => compare!(
                f32,
                |x| if S::OF == Type::F64 || S::OF == Type::C128 { as_f64(x) as f32 } else { as_i128(x) as f32 },
                false
            ),
            Type::F64 => compare!(f64, |x| as_f64(x), false),
            Type::C128 => compare!(Complex, |x| Complex { re: as_f64(x), im: 0.0 }, false),
            Type::Mersenne31 => compare!(Mersenne31, |x| modulo(as_i128(x)), false),
            Type::BabyBear => compare!(BabyBear, |x| modulo(as_i128(x)), false),
            Type::KoalaBear => compare!(KoalaBear, |x| modulo(as_i128(x)), false),
            Type::Goldilocks => compare!(Goldilocks, |x| modulo(as_i128(x)), false),
            Type::CM31 => compare!(CM31, |x| constant(as_i128(x)), false),
            Type::QM31 => compare!(QM31, |x| constant(as_i128(x)), false),
            Type::BabyBear4 => compare!(BabyBear4, |x| constant(as_i128(x)), false),
            Type::KoalaBear4 => compare!(KoalaBear4, |x| constant(as_i128(x)), false),
            Type::Goldilocks2 => compare!(Goldilocks2, |x| constant(as_i128(x)), false),
            Type::Goldilocks3 => compare!(Goldilocks3, |x| constant(as_i128(x)), false),
            narrow => unreachable!("{narrow:?} is narrow"),
        }
    }
}

fn modulo<F: Field>(x: i128) -> F {
    F::from_u64(x.rem_euclid(F::ORDER as i128) as u64)
}

fn constant<E: Extension>(x: i128) -> E {
    E::from(modulo::<E::Base>(x))
}

#[test]
fn conversions() {
    check_conversions::<u8>(|x| x as f64, |x| x as i128);
    check_conversions::<i32>(|x| x as f64, |x| x as i128);
    check_conversions::<i64>(|x| x as f64, |x| x as i128);
    check_conversions::<u32>(|x| x as f64, |x| x as i128);
    check_conversions::<u64>(|x| x as f64, |x| x as i128);
    check_conversions::<f64>(|x| x, |x| x as i128);
    check_conversions::<Complex>(|x| x.re, |x| x.re as i128);
    check_conversions::<Mersenne31>(|x| x.to_u64() as f64, |x| x.to_u64() as i128);
    check_conversions::<BabyBear>(|x| x.to_u64() as f64, |x| x.to_u64() as i128);
    check_conversions::<KoalaBear>(|x| x.to_u64() as f64, |x| x.to_u64() as i128);
    check_conversions::<Goldilocks>(|x| x.to_u64() as f64, |x| x.to_u64() as i128);
}

#[test]
fn conversions_between_fields_and_to_truth() {
    let mut e = Expression::new();
    let x = e.input(Type::CM31);
    e.convert(Type::QM31, x).unwrap();
    let values = CM31::many(&mut rng(5), 100);
    let found: Vec<QM31> = evaluate_flat(&e, &[bytes_of(&values)], &[], 100);
    assert!(found.iter().zip(&values).all(|(y, x)| y.0[..2] == x.0 && y.0[2..] == [Mersenne31::ZERO; 2]));

    let mut e = Expression::new();
    let x = e.input(Type::C128);
    e.convert(Type::Bool, x).unwrap();
    let values = [(0.0, -0.0), (0.0, 1.0), (f64::NAN, 0.0), (-2.0, 0.0)].map(|(re, im)| Complex { re, im });
    assert_eq!(evaluate_flat::<u8>(&e, &[bytes_of(&values)], &[], 4), [0, 1, 1, 1]);

    let mut e = Expression::new();
    let x = e.input(Type::Goldilocks2);
    e.convert(Type::Bool, x).unwrap();
    // Zero may be stored as p.
    let zero = Goldilocks::new(Goldilocks::ORDER);
    let values = [Goldilocks2([zero, zero]), Goldilocks2([zero, Goldilocks::ONE])];
    assert_eq!(evaluate_flat::<u8>(&e, &[bytes_of(&values)], &[], 2), [0, 1]);
}

#[test]
fn choices() {
    fn check<T: Random + Same + Default>() {
        let mut rng = rng(9);
        let (c, a, b) = (u8::many(&mut rng, COUNT), T::many(&mut rng, COUNT), T::random(&mut rng));
        let mut e = Expression::new();
        let (x, y, z) = (e.input(Type::Bool), e.input(T::OF), e.scalar(T::OF));
        e.select(x, y, z).unwrap();
        let found: Vec<T> = evaluate_flat(&e, &[&c, bytes_of(&a)], &[scalar(b)], COUNT);
        assert!((0..COUNT).all(|i| found[i].same(if c[i] == 1 { &a[i] } else { &b })));
    }
    check::<u8>();
    check::<f32>();
    check::<i64>();
    check::<Complex>();
    check::<Goldilocks3>();
    check::<KoalaBear4>();
}

/// The first outputs of SplitMix64 with the seed 1234567.
#[test]
fn random_numbers() {
    assert_eq!(
        [0, 1, 2].map(|place| random(place, 1234567)),
        [6457827717110365317, 3203168211198807973, 9817491932198370423]
    );
    let mut e = Expression::new();
    let (place, seed) = (e.index(), e.scalar(Type::U64));
    e.binary(Binary::Random, place, seed).unwrap();
    let found: Vec<u64> = evaluate_flat(&e, &[], &[scalar(3u64)], 5000);
    assert!(found.iter().enumerate().all(|(i, &x)| x == random(i as u64, 3)));
}
