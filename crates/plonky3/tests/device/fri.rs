//! FRI parameters, and proof of work in every place where a configuration can require it.

use p3_uni_stark::ProvingError;
use rigel_gpu::testing::on_each_device;
use rigel_plonky3::{Error, prove};

use crate::airs::fibonacci;
use crate::configs::{self, Fri};
use crate::small::numbers;
use crate::support;

fn check_all(rows: usize, parameters: impl IntoIterator<Item = Fri> + Clone) {
    on_each_device(|stream| {
        for fri in parameters.clone() {
            let (trace, publics) = fibonacci(rows);
            support::check(stream.device(), &configs::koala_bear_sponge(fri), fri, &numbers(), &trace, &publics);
            let (trace, publics) = fibonacci(rows);
            support::check(
                stream.device(),
                &configs::goldilocks2_poseidon2(fri),
                fri,
                &numbers(),
                &trace,
                &publics,
            );
        }
    });
}

#[test]
fn blowup_and_final_polynomial() {
    check_all(
        32,
        (1..=3).flat_map(|log_blowup| {
            (0..=3).map(move |log_final_poly_len| Fri { log_blowup, log_final_poly_len, ..Fri::default() })
        }),
    );
}

#[test]
fn arity_and_caps() {
    check_all(
        64,
        (1..=4).flat_map(|max_log_arity| {
            [0, 1, 4].map(|cap_height| Fri { max_log_arity, cap_height, log_final_poly_len: 1, ..Fri::default() })
        }),
    );
    // Leaves of several blocks of the hash, and a cap that no tree reaches.
    check_all(
        256,
        [(5, 0), (6, 2), (8, 40)].map(|(max_log_arity, cap_height)| Fri {
            max_log_arity,
            cap_height,
            ..Fri::default()
        }),
    );
}

#[test]
fn queries() {
    // One query, as many as there are rows, and so many that rows are queried twice.
    check_all(16, [1, 16, 40].map(|num_queries| Fri { num_queries, ..Fri::default() }));
}

#[test]
fn proof_of_work() {
    check_all(
        16,
        [[0, 0, 0], [5, 0, 0], [0, 4, 0], [0, 0, 6], [3, 2, 10]]
            .map(|pow_bits| Fri { pow_bits, ..Fri::default() }),
    );
}

#[test]
fn proof_of_work_outside_of_fri() {
    on_each_device(|stream| {
        let fri = Fri::default();
        for bits in [1, 7] {
            let (trace, publics) = fibonacci(16);
            let config = configs::koala_bear_sponge(fri).with_ood_proof_of_work_bits(bits);
            support::check(stream.device(), &config, fri, &numbers(), &trace, &publics);
            let (trace, publics) = fibonacci(16);
            let config = configs::baby_bear_poseidon2(fri).with_ood_proof_of_work_bits(bits);
            support::check(stream.device(), &config, fri, &numbers(), &trace, &publics);
        }
    });
}

#[test]
fn heights_that_fri_cannot_fold_give_the_error_of_upstream() {
    on_each_device(|stream| {
        let fri = Fri { log_final_poly_len: 3, ..Fri::default() };
        let config = configs::koala_bear_sponge(fri);
        let prover = support::prover(stream.device(), &config, fri);
        for log_rows in [0, 2, 3] {
            let (trace, publics) = fibonacci(1 << log_rows);
            let upstream = p3_uni_stark::prove(&config, &numbers(), trace.clone(), &publics);
            let Err(ProvingError::Pcs { source: expected, .. }) = upstream else { panic!("upstream proved it") };
            let Err(Error::Fri(found)) = prove(&prover, &numbers(), &trace, &publics) else {
                panic!("the device proved it")
            };
            assert_eq!(found, expected);
        }
        let (trace, publics) = fibonacci(16);
        support::check_with(&prover, &numbers(), &trace, &publics);
    });
}
