//! Random graphs over every field and extension.

use rand::RngExt;
use rand::rngs::SmallRng;
use rigel_codegen::{CompiledGraph, Rows, Split};
use rigel_gpu::testing::on_each_device;
use rigel_gpu::{DeviceKind, Stream};
use rigel_kernels::field::{
    BabyBear4, Element, Field, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4, QM31, Ring,
};

use crate::mirror::{Data, Mirror, Table, random, random_elements, rng};

const COLUMNS: usize = 6;
const PARAMETERS: usize = 3;
const WEIGHTS: usize = 5;

fn random_mirror<E: Element>(rng: &mut SmallRng, len: usize) -> Mirror<E> {
    let mut mirror = Mirror::new();
    mirror.constant(E::Base::from_u64(rng.random()));
    mirror.constant(E::Base::ONE);
    let constant = random_elements::<E>(rng, 1)[0];
    mirror.extension_constant(constant);
    while mirror.len() < len / 4 {
        match rng.random_range(0..8) {
            0..=3 => mirror.column(0, rng.random_range(0..COLUMNS), rng.random_range(-1..3)),
            4 => mirror.extension_column(1, rng.random_range(0..COLUMNS), rng.random_range(-1..2)),
            5 => mirror.column(2, rng.random_range(0..2), 0),
            6 => mirror.parameter(rng.random_range(0..PARAMETERS)),
            _ => mirror.extension_parameter(rng.random_range(0..PARAMETERS)),
        };
    }
    while mirror.len() < len {
        // A recent value with any, so that expressions become deep and share much.
        let n = mirror.len();
        let (a, b) = (n - 1 - rng.random_range(0..4), rng.random_range(0..n));
        let (a, b) = if rng.random() { (a, b) } else { (b, a) };
        match rng.random_range(0..12) {
            0..=3 => mirror.add(a, b),
            4..=6 => mirror.sub(a, b),
            7..=10 => mirror.mul(a, b),
            _ => mirror.neg(a),
        };
    }
    let mut column = 0;
    for i in 0..8 {
        let expression = mirror.len() * (i + 1) / 8 - 1;
        mirror.fold(expression, i % WEIGHTS);
        if i % 3 == 0 {
            mirror.store(expression, 1, column);
            column += E::DEGREE;
        } else if i % 3 == 1 {
            mirror.store_extension(expression, 0, i / 3 * E::DEGREE);
        }
    }
    mirror
}

fn data<E: Element>(rng: &mut SmallRng, rows: Rows, log_period: u32, log_block: u32) -> Data<E> {
    let count = rows.count();
    Data {
        rows,
        // Of the first, a prefix of each column.
        inputs: vec![
            Table::random(rng, count + 5, COLUMNS),
            Table::random(rng, count, COLUMNS + E::DEGREE),
            Table::repeating(rng, log_period, 2),
        ],
        parameters: random(rng, PARAMETERS),
        extension_parameters: random_elements(rng, PARAMETERS),
        weights: random_elements(rng, WEIGHTS),
        log_block,
        log_scale: log_block,
        output_columns: vec![3 * E::DEGREE, 3 * E::DEGREE],
    }
}

/// One program for all orders and numbers of rows.
fn check<E: Element>(stream: &Stream, len: usize, split: Split) -> CompiledGraph<E> {
    let mut rng = rng(len as u64);
    let mirror = random_mirror::<E>(&mut rng, len);
    let reversed = |log_rows, log_step| Rows::BitReversed { log_rows, log_step };
    let rows = reversed(9, 1);
    let program = data(&mut rng, rows, 3, 7).check(stream, &mirror, "random", split);
    for (rows, log_period, log_block) in [
        (Rows::Natural { rows: 300 }, 2, 8),
        (Rows::Natural { rows: 512 }, 4, 9),
        (Rows::Natural { rows: 1 }, 0, 0),
        (reversed(6, 6), 6, 0),
        (reversed(0, 0), 0, 3),
    ] {
        data(&mut rng, rows, log_period, log_block).check_run(stream, &mirror, &program);
    }
    program
}

/// Checks a program of kernels so small that the graph must be cut.
fn check_cut<E: Element>(stream: &Stream, len: usize, nodes: usize) {
    let program = check::<E>(stream, len, Split { nodes });
    assert!(program.kernels() > 1 && program.scratch_columns() > 0, "{program:?}");
}

#[test]
fn koala_bear() {
    on_each_device(|stream| {
        assert_eq!(check::<KoalaBear4>(stream, 400, Split::of(stream.device())).kernels(), 1);
        check_cut::<KoalaBear4>(stream, 120, 15);
        check::<KoalaBear>(stream, 60, Split { nodes: 40 });
    });
}

#[test]
fn baby_bear() {
    on_each_device(|stream| check_cut::<BabyBear4>(stream, 120, 30));
}

#[test]
fn goldilocks() {
    on_each_device(|stream| {
        check::<Goldilocks2>(stream, 200, Split { nodes: 60 });
        check_cut::<Goldilocks3>(stream, 120, 25);
    });
}

#[test]
fn mersenne_31() {
    on_each_device(|stream| check_cut::<QM31>(stream, 120, 30));
}

/// Random graphs that are compiled on a GPU only, where it is quick.
#[test]
fn many_on_a_gpu() {
    on_each_device(|stream| {
        if stream.device().kind() == DeviceKind::Cuda {
            for len in [50, 300, 1_000, 2_000] {
                check::<KoalaBear4>(stream, len, Split { nodes: len / 3 });
                check::<Goldilocks2>(stream, len, Split { nodes: len / 2 });
                check::<QM31>(stream, len, Split { nodes: len / 7 });
            }
        }
    });
}

/// Rows of circle domains, at offsets that wrap, and factors for a part of a block each.
#[test]
fn circle_domains() {
    let rng = rng(5);
    let mut mirror = Mirror::<QM31>::new();
    let mut sum = mirror.column(0, 0, 0);
    for (column, offset) in [(1, 1), (0, -1), (1, 2), (2, -3), (0, 7)] {
        let next = mirror.column(0, column, offset);
        let product = mirror.mul(sum, next);
        sum = mirror.add(product, next);
    }
    mirror.fold(sum, 0);
    mirror.store_extension(sum, 0, 0);
    on_each_device(|stream| {
        for (log_rows, log_trace) in [(1, 1), (2, 1), (4, 4), (5, 4), (9, 9), (9, 8), (9, 6), (9, 1)] {
            let data = Data {
                rows: Rows::Circle { log_rows, log_trace },
                inputs: vec![Table::random(&mut rng.clone(), (1 << log_rows) + 4, 3)],
                parameters: Vec::new(),
                extension_parameters: Vec::new(),
                weights: random_elements(&mut rng.clone(), 1),
                log_block: log_rows,
                log_scale: log_trace,
                output_columns: vec![4],
            };
            data.check(stream, &mirror, "circle", Split::of(stream.device()));
        }
    });
}
