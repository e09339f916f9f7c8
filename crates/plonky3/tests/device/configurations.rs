//! Every supported configuration, at the smallest heights and at one that spans several blocks.

use rigel_gpu::testing::on_each_device;

use crate::airs::fibonacci_from;
use crate::configs::{self, Fri};
use crate::small::numbers;
use crate::support;

macro_rules! each {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            on_each_device(|stream| {
                // Caps of 2^4 digests, higher than the trees of the smallest traces and of the last folds.
                let fri = Fri { cap_height: 4, ..Fri::default() };
                let prover = support::prover(stream.device(), &configs::$name(fri), fri);
                for log_rows in [3, 0, 1, 2, 8] {
                    let value = |x: u32| p3_field::PrimeCharacteristicRing::from_u32(x);
                    let (trace, publics) = fibonacci_from(value(log_rows), value(1), 1 << log_rows);
                    support::check_with(&prover, &numbers(), &trace, &publics);
                }
            });
        }
    )* };
}
each! {
    koala_bear_sponge koala_bear_bytes koala_bear_poseidon2 koala_bear_poseidon2_wide
    baby_bear_sponge baby_bear_bytes baby_bear_poseidon2 baby_bear_poseidon2_narrow
    goldilocks2_sponge goldilocks2_bytes goldilocks2_poseidon2
    goldilocks3_sponge goldilocks3_poseidon2 goldilocks3_poseidon2_wide
}
