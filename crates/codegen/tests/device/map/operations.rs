//! Every operation and conversion, of every type it is defined for.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rigel_codegen::map::{Binary, Complex, Expression, Id, Type, Unary};
use rigel_gpu::Stream;
use rigel_gpu::testing::on_each_device;

use super::edges::TABLE;
use super::run::{Array, evaluated, scalar};
use super::value::Value;

/// A test of a type `of`: on values that are of this type, or on booleans, which are converted to it.
#[derive(Clone, Copy, Debug)]
enum Case {
    Unary(Unary),
    Binary(Binary),
    Power,
    Convert(Type),
}

fn cases(of: Type) -> Vec<Case> {
    let result = |result: Option<Type>| result == Some(of) || result == Some(Type::Bool);
    let mut cases = Vec::new();
    cases.extend(Unary::ALL.into_iter().filter(|operation| operation.result(of).is_some()).map(Case::Unary));
    cases.extend(Binary::ALL.into_iter().filter(|operation| result(operation.result(of, of))).map(Case::Binary));
    if of != Type::U64 && Binary::Pow.result(of, Type::U64).is_some() {
        cases.push(Case::Power);
    }
    let others = Type::ALL.into_iter().filter(|&from| from != of && !from.is_narrow());
    cases.extend(others.filter(|&from| Expression::converts(from, of)).map(Case::Convert));
    cases
}

/// All cases in one kernel: the element at place i is that of case i modulo their number.
fn check(stream: &Stream, of: Type) {
    let cases = cases(of);
    let mut rng = SmallRng::seed_from_u64(of as u64);
    let mut expression = Expression::new();
    let a = expression.input(of);
    let b = expression.input(of);
    let exponent = expression.input(Type::U64);
    let froms: Vec<(Type, Id)> = cases
        .iter()
        .filter_map(|case| match *case {
            Case::Convert(from) => Some((from, expression.input(from))),
            _ => None,
        })
        .collect();
    let index = expression.index();
    let count = expression.scalar(Type::U64);
    let turn = expression.binary(Binary::Remainder, index, count).unwrap();
    let (mut result, mut scalars) = (a, vec![scalar(Value::U64(cases.len() as u64))]);
    for (i, case) in cases.iter().enumerate() {
        let value = match *case {
            Case::Unary(operation) => expression.unary(operation, a).unwrap(),
            Case::Binary(operation) => expression.binary(operation, a, b).unwrap(),
            Case::Power => expression.binary(Binary::Pow, a, exponent).unwrap(),
            Case::Convert(from) => froms.iter().find(|&&(known, _)| known == from).unwrap().1,
        };
        let value = expression.convert(of, value).unwrap();
        let number = expression.scalar(Type::U64);
        scalars.push(scalar(Value::U64(i as u64)));
        let is_it = expression.binary(Binary::Eq, turn, number).unwrap();
        result = expression.select(is_it, value, result).unwrap();
    }
    expression.set_result(result);

    let n = cases.len() * 60 + 3;
    let mut column = |from: Type, fits: bool| -> Vec<Value> {
        (0..n)
            .map(|_| {
                loop {
                    let value = Value::random(from, &mut rng);
                    if !fits || value.fits(of) {
                        return value;
                    }
                }
            })
            .collect()
    };
    let mut columns = vec![column(of, false), column(of, false), column(Type::U64, false)];
    columns.extend(froms.iter().map(|&(from, _)| column(from, true)));
    let inputs: Vec<Array> = columns.iter().cloned().map(Array::flat).collect();
    let out = Array::flat(columns[0].clone());
    let got = evaluated(stream, &expression, &[n], &inputs, &scalars, &out).unwrap();
    for i in 0..n {
        let (case, x, y) = (cases[i % cases.len()], columns[0][i], columns[1][i]);
        let from = case_input(case, &froms).map(|k| columns[3 + k][i]);
        let expected = match case {
            Case::Unary(operation) => x.unary(operation),
            Case::Binary(operation) => x.binary(operation, y),
            Case::Power => x.binary(Binary::Pow, columns[2][i]),
            Case::Convert(_) => from.unwrap(),
        };
        let expected = expected.convert(of);
        assert!(got[i].is_close(expected, 0.0), "{case:?} {x:?} {y:?} {from:?}: {:?}, not {expected:?}", got[i]);
    }
}

fn case_input(case: Case, froms: &[(Type, Id)]) -> Option<usize> {
    match case {
        Case::Convert(from) => froms.iter().position(|&(known, _)| known == from),
        _ => None,
    }
}

fn check_all(types: &[Type]) {
    on_each_device(|stream| types.iter().for_each(|&of| check(stream, of)));
}

#[test]
fn booleans_and_integers() {
    check_all(&[Type::Bool, Type::I32, Type::I64, Type::U32, Type::U64]);
}

#[test]
fn floats_and_complex_numbers() {
    check_all(&[Type::F32, Type::F64, Type::C128]);
}

#[test]
fn prime_fields() {
    check_all(&[Type::Mersenne31, Type::BabyBear, Type::KoalaBear, Type::Goldilocks]);
}

#[test]
fn extensions() {
    check_all(&[Type::CM31, Type::QM31, Type::BabyBear4, Type::KoalaBear4, Type::Goldilocks2, Type::Goldilocks3]);
}

/// Each function at its own points, in one kernel; signs of zero count.
#[test]
fn complex_functions_at_their_edges() {
    let mut expression = Expression::new();
    let z = expression.input(Type::C128);
    let which = expression.input(Type::U32);
    let mut result = z;
    let mut scalars = Vec::new();
    for operation in Unary::ALL.into_iter().filter(|operation| TABLE.iter().any(|row| row.0 == *operation)) {
        let value = expression.unary(operation, z).unwrap();
        let number = expression.scalar(Type::U32);
        scalars.push(scalar(Value::U32(operation as u32)));
        let is_it = expression.binary(Binary::Eq, which, number).unwrap();
        result = expression.select(is_it, value, result).unwrap();
    }
    expression.set_result(result);
    let arguments: Vec<Value> = TABLE.iter().map(|&(_, (re, im), _)| Value::C128(Complex { re, im })).collect();
    let numbers = TABLE.iter().map(|row| Value::U32(row.0 as u32)).collect();
    let inputs = [Array::flat(arguments.clone()), Array::flat(numbers)];
    on_each_device(|stream| {
        let out = Array::flat(arguments.clone());
        let got = evaluated(stream, &expression, &[TABLE.len()], &inputs, &scalars, &out).unwrap();
        for (&got, &(operation, argument, (re, im))) in got.iter().zip(TABLE) {
            let Value::C128(z) = got else { unreachable!() };
            let close = |a: f64, b: f64| {
                a.is_sign_negative() == b.is_sign_negative() && (a == b || (a - b).abs() <= 1e-12 * b.abs())
            };
            assert!(close(z.re, re) && close(z.im, im), "{operation:?} {argument:?}: {z:?}, not ({re}, {im})");
        }
    });
}
