//! Proofs of the device against upstream's, byte for byte.

mod airs;
mod configs;
mod memory;
mod support;

use rigel_gpu::testing::on_each_device;

use airs::{Fibonacci, fibonacci};
use configs::Fri;

#[test]
fn fibonacci_is_upstreams() {
    on_each_device(|stream| {
        for log_rows in [3, 0, 1, 5, 8] {
            let fri = Fri::default();
            let (trace, publics) = fibonacci(1 << log_rows);
            let report = support::check(
                stream.device(),
                &configs::koala_bear_sponge(fri),
                fri,
                &Fibonacci,
                &trace,
                &publics,
            );
            println!("{report}");
        }
    });
}

#[test]
fn keccak_is_upstreams() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let trace = p3_keccak_air::generate_trace_rows(vec![[1; 25]], 0);
        let began = std::time::Instant::now();
        let report = support::check(
            stream.device(),
            &configs::koala_bear_sponge(fri),
            fri,
            &p3_keccak_air::KeccakAir {},
            &trace,
            &[],
        );
        println!("{report} {:?}", began.elapsed());
    });
}
