//! Whether long chains of one operation compile in seconds: `RIGEL_CHECK_NVRTC=compute_90` names the architecture.
//!
//! The compiler's analysis of ranges follows every path from an operation to what it was computed from, and their
//! number can double with each link of a chain.

use std::sync::mpsc;
use std::time::Duration;

use rigel_codegen::{CompiledGraph, ExpressionGraph, Output, Split, Value, compile_interpreter};
use rigel_gpu::testing::check_compilers;
use rigel_kernels::field::{BabyBear4, Element, Field, Goldilocks2, Goldilocks3, KoalaBear4, QM31};

/// The links of a chain.
const LINKS: usize = 60;

/// One chain takes the compiler a second, or longer than anybody waits. Machines that run tests are busy, and the
/// compiler works on the sources of the other tests first.
const MOST: Duration = Duration::from_secs(300);

type Link<E> = fn(&mut ExpressionGraph<E>, Value, Value) -> Value;

/// The next link of a chain, from the last one and a column.
fn families<E: Element>() -> [(&'static str, Link<E>); 10] {
    [
        ("doublings", |g, x, _| g.add(x, x)),
        ("doublings and sums", |g, x, column| {
            let double = g.add(x, x);
            g.add(double, column)
        }),
        ("products with a power of two", |g, x, _| {
            let power = g.constant(E::Base::from_u64(1 << 22));
            g.mul(power, x)
        }),
        ("carries of limbs", |g, x, column| {
            let power = g.constant(E::Base::from_u64(1 << 22));
            let sum = g.add(x, column);
            g.mul(sum, power)
        }),
        ("a value and its multiple", |g, x, _| {
            let three = g.constant(E::Base::from_u64(3));
            let multiple = g.mul(three, x);
            g.sub(multiple, x)
        }),
        ("squares", |g, x, _| g.mul(x, x)),
        ("negations", |g, x, column| {
            let minus = g.neg(x);
            g.sub(column, minus)
        }),
        ("sums", |g, x, column| g.add(x, column)),
        ("differences", |g, x, column| g.sub(column, x)),
        ("differences from a constant", |g, x, _| {
            let five = g.constant(E::Base::from_u64(5));
            g.sub(five, x)
        }),
    ]
}

fn check<E: Element>() {
    let compilers = check_compilers().unwrap_or_else(|error| panic!("{error}"));
    if compilers.is_empty() {
        println!("skipped: RIGEL_CHECK_NVRTC names no architecture");
    }
    // What takes long is the same for all architectures.
    for device in compilers.iter().take(1) {
        for (family, link) in families::<E>() {
            let mut graph = ExpressionGraph::<E>::new();
            let column = graph.column(0, 0, 0);
            let mut x = graph.column(0, 1, 0);
            let mut outputs = Vec::new();
            for weight in 0..LINKS {
                x = link(&mut graph, x, column);
                // Each link is also a constraint: x (x^2 - 1) = 0.
                let one = graph.constant(E::Base::from_u64(1));
                let square = graph.mul(x, x);
                let difference = graph.sub(square, one);
                outputs.push(Output::Fold { value: graph.mul(difference, x), weight });
            }
            // A thread of its own, because a compilation that has no end can't be stopped.
            let (done, result) = mpsc::channel();
            std::thread::spawn(move || {
                let split = Split { nodes: 10_000 };
                let compiled = CompiledGraph::compile(device, "chain", &graph, &outputs, split);
                let _ = done.send(compiled.map(|program| program.kernels()));
            });
            match result.recv_timeout(MOST) {
                Ok(kernels) => assert_eq!(kernels.unwrap_or_else(|error| panic!("{family}: {error}")), 1),
                Err(_) => panic!("{LINKS} {family} over {} take more than {MOST:?}", E::NAME),
            }
        }
    }
}

#[test]
fn chains_over_koala_bear() {
    check::<KoalaBear4>();
}

#[test]
fn chains_over_goldilocks() {
    check::<Goldilocks2>();
}

#[test]
fn chains_over_mersenne31() {
    check::<QM31>();
}

/// The interpreters compile for every architecture.
#[test]
fn interpreters() {
    for device in check_compilers().unwrap_or_else(|error| panic!("{error}")) {
        let compiled = compile_interpreter::<KoalaBear4>(device)
            .and_then(|()| compile_interpreter::<BabyBear4>(device))
            .and_then(|()| compile_interpreter::<Goldilocks2>(device))
            .and_then(|()| compile_interpreter::<Goldilocks3>(device))
            .and_then(|()| compile_interpreter::<QM31>(device));
        assert!(compiled.is_ok(), "{compiled:?}");
    }
}
