//! A key is bound to the preprocessed values and the lookups of its AIRs, on devices and on the CPU.

use p3_air::{Air, AirBuilder, BaseAir, WindowAccess};
use p3_batch_stark::verify_batch;
use p3_field::{Field, PrimeCharacteristicRing};
use p3_koala_bear::KoalaBear;
use p3_lookup::{Count, InteractionBuilder};
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::testing::on_each_device;
use rigel_plonky3::{
    Error, Instance, Policy, Prover, prove_batch, prove_with_preprocessed, setup_batch, setup_preprocessed,
};

use crate::configs::{self, Fri};
use crate::support;

/// One column that equals the preprocessed `first, first + 1, ..`.
#[derive(Clone, Copy, Debug)]
struct Counting {
    first: usize,
}

/// A [`Counting`] with a lookup of its column among the preprocessed values, both plus `offset`.
#[derive(Clone, Copy, Debug)]
struct Looking {
    numbers: Counting,
    offset: u32,
    has_lookup: bool,
}

const ROWS: usize = 8;

impl Counting {
    fn trace<F: Field>(self) -> RowMajorMatrix<F> {
        RowMajorMatrix::new((0..ROWS).map(|row| F::from_usize(self.first + row)).collect(), 1)
    }
}

impl<F: Field> BaseAir<F> for Counting {
    fn width(&self) -> usize {
        1
    }

    fn preprocessed_trace(&self) -> Option<RowMajorMatrix<F>> {
        Some(self.trace())
    }

    fn preprocessed_width(&self) -> usize {
        1
    }
}

impl<AB: AirBuilder> Air<AB> for Counting
where
    AB::F: Field,
{
    fn eval(&self, builder: &mut AB) {
        let found = builder.main().current(0).unwrap();
        let expected = builder.preprocessed().current(0).unwrap();
        builder.assert_eq(found, expected);
    }
}

impl<F: Field> BaseAir<F> for Looking {
    fn width(&self) -> usize {
        1
    }

    fn preprocessed_trace(&self) -> Option<RowMajorMatrix<F>> {
        self.numbers.preprocessed_trace()
    }

    fn preprocessed_width(&self) -> usize {
        1
    }
}

impl<AB: InteractionBuilder> Air<AB> for Looking
where
    AB::F: Field,
{
    fn eval(&self, builder: &mut AB) {
        self.numbers.eval(builder);
        if self.has_lookup {
            let offset = AB::Expr::from_u32(self.offset);
            let found = builder.main().current(0).unwrap().into() + offset.clone();
            let expected = builder.preprocessed().current(0).unwrap().into() + offset;
            builder.push_local_interaction([
                (vec![found], 1.into()),
                (vec![expected], Count::provided(-AB::Expr::ONE)),
            ]);
        }
    }
}

#[test]
fn other_preprocessed_values() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let config = configs::koala_bear_sponge(fri);
        let cpu = Prover::cpu(configs::koala_bear_sponge(fri), &fri.parameters(()), fri.cap_height).unwrap();
        for prover in [support::prover(stream.device(), &config, fri), cpu] {
            let (air, other) = (Counting { first: 3 }, Counting { first: 4 });
            let key = setup_preprocessed(&prover, &air, 3).unwrap().unwrap();
            let prove = |air: &Counting| {
                prove_with_preprocessed(&prover, air, air.trace::<KoalaBear>(), &[], Some(&key)).map(|_| ())
            };
            for refusal in [prove(&other), key.check_air(&other)] {
                let Err(error @ Error::Preprocessed { table: 0, .. }) = refusal else { panic!("{refusal:?}") };
                assert!(error.to_string().contains("other preprocessed values"), "{error}");
            }
            prove(&air).unwrap();
            key.check_air(&air).unwrap();
        }
    });
}

#[test]
fn other_lookups_in_a_batch() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let config = configs::koala_bear_sponge(fri);
        let cpu = Prover::cpu(configs::koala_bear_sponge(fri), &fri.parameters(()), fri.cap_height).unwrap();
        for prover in [support::prover(stream.device(), &config, fri), cpu] {
            let first = Looking { numbers: Counting { first: 3 }, offset: 5, has_lookup: true };
            let second = Looking { has_lookup: false, ..first };
            let airs = [first, second];
            let setup = || setup_batch(&prover, &airs, &[3, 3]).unwrap();
            let prove = |airs: &[Looking; 2], key: &_| {
                let instances = airs.each_ref().map(|air| Instance::new(air, air.numbers.trace(), vec![]));
                prove_batch(&prover, &instances, key)
            };
            let (key, values) = (setup(), Looking { numbers: Counting { first: 4 }, ..second });
            for refusal in [prove(&[first, values], &key).map(|_| ()), key.check_airs(&[first, values])] {
                let Err(error @ Error::Preprocessed { table: 1, .. }) = refusal else { panic!("{refusal:?}") };
                assert!(error.to_string().contains("other preprocessed values"), "{error}");
            }
            let others = [
                (0, [Looking { offset: 6, ..first }, second]),
                (0, [second, second]),
                (1, [first, Looking { has_lookup: true, ..second }]),
            ];
            for (at, others) in others {
                let key = setup();
                // A second proof with the same key is refused, too, and one of the right AIRs is made after them.
                for refusal in
                    [prove(&others, &key).map(|_| ()), prove(&others, &key).map(|_| ()), key.check_airs(&others)]
                {
                    let Err(error @ Error::Lookup { table, .. }) = refusal else { panic!("{refusal:?}") };
                    assert!(table == at && error.to_string().contains("other lookups"), "{error}");
                }
                prove(&airs, &key).unwrap();
            }
            key.check_airs(&airs).unwrap();
            let proof = prove(&airs, &key).unwrap().proof;
            verify_batch(prover.config(), &airs, &proof, &[vec![], vec![]], key.common()).unwrap();
            // On the CPU after a proof on the device, whose reading says nothing about other AIRs.
            let prover = prover.with_policy(Policy { cpu_below_cells: usize::MAX, ..Policy::default() });
            let prove = |airs: [Looking; 2]| {
                let instances = airs.each_ref().map(|air| Instance::new(air, air.numbers.trace(), vec![]));
                prove_batch(&prover, &instances, &key)
            };
            let refusal = prove([Looking { offset: 6, ..first }, second]).map(|_| ());
            assert!(matches!(refusal, Err(Error::Lookup { table: 0, .. })), "{refusal:?}");
            assert_eq!(prove(airs).unwrap().report.device, "cpu");
        }
    });
}
