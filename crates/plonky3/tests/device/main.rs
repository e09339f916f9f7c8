//! Proofs of the device against upstream's, byte for byte.

mod airs;
mod configs;
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
            let report = support::check(stream.device(), &configs::koala_bear_sponge(fri), fri, &Fibonacci, &trace, &publics);
            println!("{report}");
        }
    });
}
