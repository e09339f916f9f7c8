//! Poseidon2 with constants of the user's own.

use p3_baby_bear::Poseidon2BabyBear;
use p3_goldilocks::{
    Goldilocks, Poseidon2Goldilocks, default_goldilocks_poseidon2_8, default_goldilocks_poseidon2_12,
};
use p3_koala_bear::{Poseidon2KoalaBear, default_koalabear_poseidon2_16};
use p3_poseidon2::ExternalLayerConstants;
use rand::RngExt;
use rand::distr::StandardUniform;
use rand::rngs::SmallRng;
use rigel_gpu::testing::on_each_device;
use rigel_plonky3::{Error, Poseidon2, Prover, round_constants};

use crate::airs::fibonacci;
use crate::configs::{self, Fri};
use crate::small::numbers;
use crate::support;

#[test]
fn constants_are_read_from_the_configuration() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let mut rng = support::rng(1);
        let mut narrow = || Poseidon2KoalaBear::<16>::new_from_rng_128(&mut rng);
        let config = configs::koala_bear_poseidon2_of(&narrow(), &narrow(), &narrow(), fri);
        let (trace, publics) = fibonacci(32);
        support::check(stream.device(), &config, fri, &numbers(), &trace, &publics);
        // Default constants in the trees, others in the challenger, and the other way round.
        let default = default_koalabear_poseidon2_16();
        let own = narrow();
        for (trees, challenger) in [(&default, &own), (&own, &default)] {
            let config = configs::koala_bear_poseidon2_of(trees, trees, challenger, fri);
            let report = support::check(stream.device(), &config, fri, &numbers(), &trace, &publics);
            assert!(report.fallbacks.is_empty(), "{report}");
        }
        let config = configs::koala_bear_poseidon2_wide_of(
            &Poseidon2KoalaBear::<32>::new_from_rng_128(&mut rng),
            &Poseidon2KoalaBear::<24>::new_from_rng_128(&mut rng),
            &Poseidon2KoalaBear::<24>::new_from_rng_128(&mut rng),
            fri,
        );
        support::check(stream.device(), &config, fri, &numbers(), &trace, &publics);
        let config = configs::baby_bear_poseidon2_of(
            &Poseidon2BabyBear::<24>::new_from_rng_128(&mut rng),
            &Poseidon2BabyBear::<16>::new_from_rng_128(&mut rng),
            &Poseidon2BabyBear::<16>::new_from_rng_128(&mut rng),
            fri,
        );
        let (trace, publics) = fibonacci(32);
        support::check(stream.device(), &config, fri, &numbers(), &trace, &publics);
    });
}

/// The constants that upstream's `new_from_rng_128` draws.
fn drawn<const WIDTH: usize>(rng: &mut SmallRng) -> (ExternalLayerConstants<Goldilocks, WIDTH>, Vec<Goldilocks>)
where
    StandardUniform: rand::distr::Distribution<[Goldilocks; WIDTH]>,
{
    let external = ExternalLayerConstants::new_from_rng(8, rng);
    (external, rng.sample_iter::<Goldilocks, _>(StandardUniform).take(22).collect())
}

#[test]
fn goldilocks_constants_are_given() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let rows = Poseidon2Goldilocks::<12>::new_from_rng_128(&mut support::rng(1));
        let nodes = Poseidon2Goldilocks::<8>::new_from_rng_128(&mut support::rng(2));
        let config = configs::goldilocks_poseidon2_of(&rows, &nodes, &nodes, fri);
        let new = || Prover::new(stream.device().clone(), config.clone(), &fri.parameters(()), fri.cap_height);
        let error = new().map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Configuration(_)) && error.to_string().contains("with_hash"), "{error}");

        let (external, internal) = drawn::<12>(&mut support::rng(1));
        let rows = round_constants(&external, &internal);
        let (external, internal) = drawn::<8>(&mut support::rng(2));
        let nodes = round_constants(&external, &internal);
        let hash = Poseidon2::new(&rows, &nodes).unwrap();
        let device = stream.device().clone();
        let prover = Prover::with_hash(device, config, &fri.parameters(()), fri.cap_height, hash).unwrap();
        let (trace, publics) = fibonacci(32);
        let report = support::check_with(&prover, &numbers(), &trace, &publics);
        // The challenger's permutation is one of those given.
        assert!(report.fallbacks.is_empty(), "{report}");

        // Default constants need not be given.
        let (rows, nodes) = (default_goldilocks_poseidon2_12(), default_goldilocks_poseidon2_8());
        let config = configs::goldilocks_poseidon2_of(&rows, &nodes, &nodes, fri);
        support::check(stream.device(), &config, fri, &numbers(), &trace, &publics);
    });
}

/// A challenger over Goldilocks with constants that nobody gave: the host finds the witnesses, and the report says so.
#[test]
fn a_search_by_the_host_is_reported() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let (rows, nodes) = (default_goldilocks_poseidon2_12(), default_goldilocks_poseidon2_8());
        let own = Poseidon2Goldilocks::<8>::new_from_rng_128(&mut support::rng(2));
        let config = configs::goldilocks_poseidon2_of(&rows, &nodes, &own, fri);
        let (trace, publics) = fibonacci(32);
        let report = support::check(stream.device(), &config, fri, &numbers(), &trace, &publics);
        let [fallback] = &report.fallbacks[..] else { panic!("{report}") };
        assert_eq!((fallback.part, fallback.ran_on), ("proof of work", "CPU"));
        assert!(fallback.reason.contains("with_hash"), "{report}");
    });
}

#[test]
fn numbers_of_rounds_without_kernels_are_refused() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let own = Poseidon2KoalaBear::<16>::new_from_rng(8, 13, &mut support::rng(1));
        let config = configs::koala_bear_poseidon2_of(&own, &own, &own, fri);
        let made = Prover::new(stream.device().clone(), config, &fri.parameters(()), fri.cap_height);
        let error = made.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("13 partial") && error.contains("20 partial"), "{error}");
    });
}
