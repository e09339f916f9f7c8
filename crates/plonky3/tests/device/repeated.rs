//! Consecutive proofs, concurrent proofs, and proofs of traces on the device.

use std::any::type_name;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use p3_air::{Air, AirBuilder, BaseAir, WindowAccess};
use p3_batch_stark::verify_batch;
use p3_field::PrimeCharacteristicRing;
use p3_koala_bear::KoalaBear;
use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use p3_uni_stark::verify;
use rigel_gpu::Stream;
use rigel_gpu::testing::on_each_device;
use rigel_kernels::Matrix;
use rigel_plonky3::{DeviceField, Error, Instance, prove, prove_batch, setup_batch};

use crate::airs::{Periods, Power, fibonacci, fibonacci_from};
use crate::configs::{self, Fri};
use crate::small::numbers;
use crate::support::{self, bytes};
use crate::tables;

#[test]
fn the_same_proof_twice_is_the_same_bytes() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let (trace, publics) = fibonacci(64);
        let proofs = [0, 1, 2].map(|_| bytes(&prove(&prover, &numbers(), &trace, &publics).unwrap().proof));
        assert!(proofs[0] == proofs[1] && proofs[1] == proofs[2]);
    });
}

/// One column, each row `factor` times the one before. Counts how often its constraints are read.
#[derive(Clone)]
struct Multiples {
    factor: u32,
    readings: Arc<AtomicUsize>,
}

impl Multiples {
    fn new(factor: u32) -> Self {
        Self { factor, readings: Arc::default() }
    }

    fn trace(&self) -> RowMajorMatrix<KoalaBear> {
        let factor = KoalaBear::from_u32(self.factor);
        let rows = (0..32).scan(KoalaBear::ONE, |value, _| Some(std::mem::replace(value, *value * factor)));
        RowMajorMatrix::new(rows.collect(), 1)
    }

    fn take_readings(&self) -> usize {
        self.readings.swap(0, Ordering::Relaxed)
    }
}

impl<F> BaseAir<F> for Multiples {
    fn width(&self) -> usize {
        1
    }
}

impl<AB: AirBuilder> Air<AB> for Multiples {
    fn eval(&self, builder: &mut AB) {
        if type_name::<AB>().contains("Symbolic") {
            self.readings.fetch_add(1, Ordering::Relaxed);
        }
        let main = builder.main();
        let (local, next) = (main.current_slice()[0], main.next_slice()[0]);
        builder.when_transition().assert_eq(next, local * AB::F::from_u32(self.factor));
    }
}

#[test]
fn an_air_is_read_once_and_not_mistaken_for_another_of_its_type() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let airs = [Multiples::new(2), Multiples::new(3)];
        let expected = airs.each_ref().map(|air| support::expected(prover.config(), air, &air.trace(), &[]));
        for air in &airs {
            air.take_readings();
        }
        for _ in 0..2 {
            let proofs = airs.each_ref().map(|air| bytes(&prove(&prover, air, air.trace(), &[]).unwrap().proof));
            assert!(proofs == expected);
        }
        assert_eq!(airs.each_ref().map(Multiples::take_readings), [1, 1]);
        // Another value that is the same AIR.
        let twin = Multiples::new(3);
        assert!(bytes(&prove(&prover, &twin, twin.trace(), &[]).unwrap().proof) == expected[1]);
        assert_eq!(twin.take_readings(), 0);

        // The same in a batch.
        let key = setup_batch(&prover, &airs, &[5, 5]).unwrap();
        for air in &airs {
            air.take_readings();
        }
        let mut proofs = Vec::new();
        for _ in 0..3 {
            let instances = airs.each_ref().map(|air| Instance::new(air, air.trace(), vec![]));
            proofs.push(prove_batch(&prover, &instances, &key).unwrap().proof);
        }
        assert_eq!(airs.each_ref().map(Multiples::take_readings), [1, 1]);
        assert!(proofs.iter().all(|proof| bytes(proof) == bytes(&proofs[0])));
        verify_batch(prover.config(), &airs, &proofs[2], &[vec![], vec![]], key.common()).unwrap();
    });
}

#[test]
fn degrees_and_periods_tell_airs_apart() {
    on_each_device(|stream| {
        let fri = Fri { log_blowup: 3, ..Fri::default() };
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        for hint in [None, Some(5), None] {
            let air = Power { degree: 2, hint };
            let trace = air.trace(32);
            let proof = prove(&prover, &air, &trace, &[]).unwrap().proof;
            assert!(bytes(&proof) == support::expected(prover.config(), &air, &trace, &[]), "{hint:?}");
        }
        for period in [2, 32, 2] {
            let air = Periods::<KoalaBear>::new(&[period]);
            let trace = air.trace(32);
            let proof = prove(&prover, &air, &trace, &[]).unwrap().proof;
            assert!(bytes(&proof) == support::expected(prover.config(), &air, &trace, &[]), "{period}");
        }
    });
}

/// `y = x`, written with the difference of two equal products of `degree` factors, which cancel.
#[derive(Clone)]
struct Cancelled {
    degree: u64,
}

impl<F> BaseAir<F> for Cancelled {
    fn width(&self) -> usize {
        2
    }
}

impl<AB: AirBuilder> Air<AB> for Cancelled {
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        let [x, y]: [AB::Expr; 2] = [0, 1].map(|column| main.current_slice()[column].into());
        let product = || x.clone().exp_u64(self.degree);
        builder.assert_zero(product() - product() + x.clone() - y);
    }
}

/// Upstream derives the number of quotient chunks from how constraints are written.
#[test]
fn equal_polynomials_of_different_symbolic_degree_are_different_airs() {
    on_each_device(|stream| {
        let fri = Fri { log_blowup: 3, ..Fri::default() };
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let values = (0..64).map(|index| KoalaBear::from_u32(index / 2 + 5)).collect();
        let trace = RowMajorMatrix::new(values, 2);
        let airs = [2, 8, 3].map(|degree| Cancelled { degree });
        for air in &airs {
            support::check_with(&prover, air, &trace, &[]);
        }
        for degrees in [[2, 8], [8, 2]] {
            let table =
                |degree| support::Filled { air: Cancelled { degree }, trace: trace.clone(), publics: vec![] };
            support::check_batch_with(&prover, &degrees.map(table));
        }
    });
}

#[test]
fn two_proofs_at_once() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let make = &|first: u32, rows: usize| {
            let (trace, publics) = fibonacci_from(KoalaBear::from_u32(first), KoalaBear::ONE, rows);
            let proofs = [0, 1, 2].map(|_| bytes(&prove(&prover, &numbers(), &trace, &publics).unwrap().proof));
            (support::expected(prover.config(), &numbers(), &trace, &publics), proofs)
        };
        std::thread::scope(|scope| {
            let threads = [(5, 128), (9, 32)].map(|(first, rows)| scope.spawn(move || make(first, rows)));
            for thread in threads {
                let (expected, proofs) = thread.join().unwrap();
                assert!(proofs.iter().all(|proof| *proof == expected));
            }
        });
    });
}

/// A trace on the device, column after column.
fn on_device<V: DeviceField>(stream: &Stream, trace: &RowMajorMatrix<V>) -> Matrix<V::Device> {
    let columns = trace.transpose();
    Matrix::upload(stream, V::as_device(&columns.values), trace.height()).unwrap()
}

#[test]
fn a_trace_on_the_device_gives_the_same_proof() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let (trace, publics) = fibonacci(32);
        let expected = support::expected(prover.config(), &numbers(), &trace, &publics);
        let matrix = on_device(stream, &trace);
        for _ in 0..2 {
            let proof = prove(&prover, &numbers(), &matrix, &publics).unwrap().proof;
            assert!(bytes(&proof) == expected);
        }

        // One table of the batch on the device, the other on the host.
        let tables = tables::chain(7, 8);
        let expected = support::expected_batch(prover.config(), &tables);
        let key = setup_batch(&prover, &support::airs(&tables), &support::heights(&tables)).unwrap();
        let matrix = on_device(stream, &tables[1].trace);
        let instances = [
            Instance::new(&tables[0].air, &tables[0].trace, tables[0].publics.clone()),
            Instance::new(&tables[1].air, &matrix, tables[1].publics.clone()),
        ];
        for _ in 0..2 {
            let proof = prove_batch(&prover, &instances, &key).unwrap().proof;
            assert!(bytes(&proof) == expected);
        }
    });
}

/// The device does not check that a trace satisfies its constraints; the verifier does, and debug builds do.
#[test]
fn a_wrong_cell_gives_a_proof_that_does_not_verify() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let config = configs::koala_bear_sponge(fri);
        let prover = support::prover(stream.device(), &config, fri);
        let (trace, publics) = fibonacci(16);
        for cell in [0, 13, 31] {
            let mut wrong = trace.clone();
            wrong.values[cell] += KoalaBear::ONE;
            let made = prove(&prover, &numbers(), wrong, &publics);
            if cfg!(debug_assertions) {
                assert!(matches!(made, Err(Error::Unsatisfied { .. })), "cell {cell}");
            } else {
                verify(&config, &numbers(), &made.unwrap().proof, &publics).expect_err("a wrong trace");
            }
        }
        let mut wrong = publics.clone();
        wrong[2] += KoalaBear::ONE;
        let proof = prove(&prover, &numbers(), &trace, &publics).unwrap().proof;
        verify(&config, &numbers(), &proof, &wrong).expect_err("other public values");
        verify(&config, &numbers(), &proof, &publics).unwrap();

        // A table whose multiplicity of a square is one too high.
        let mut squares = tables::Squares::new(1, 16);
        let mut tables = [squares.pairs::<KoalaBear>(8, false), squares.table()];
        tables[1].trace.values[3] += KoalaBear::ONE;
        let airs = support::airs(&tables);
        let key = setup_batch(&prover, &airs, &support::heights(&tables)).unwrap();
        let made = prove_batch(&prover, &support::instances(&tables), &key);
        if cfg!(debug_assertions) {
            assert!(matches!(made, Err(Error::Lookup { .. })));
        } else {
            let proof = made.unwrap().proof;
            verify_batch(&config, &airs, &proof, &[vec![], vec![]], key.common()).expect_err("a wrong count");
        }
    });
}
