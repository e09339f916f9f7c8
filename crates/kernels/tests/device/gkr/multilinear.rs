//! Multilinear polynomials and the layers of GKR against Stwo's CPU backend.

use std::borrow::Cow;

use rand::rngs::SmallRng;
use rigel_gpu::{Buffer, Stream, View};
use rigel_kernels::field::{Element, Mersenne31, QM31, Ring};
use rigel_kernels::gkr::multilinear::{
    Numerators, Values, eq_evals, fix_first_variable, fraction_sums, fractions, product_sums, products,
};
use rigel_kernels::layout::slab::to_slab;
use stwo::core::fields::m31::M31;
use stwo::core::fields::qm31::SecureField;
use stwo::prover::backend::CpuBackend;
use stwo::prover::lookups::gkr_prover::{
    EqEvals, GkrMultivariatePolyOracle, GkrOps, Layer, correct_sum_as_poly_in_first_variable,
};
use stwo::prover::lookups::mle::{Mle, MleOps};

use crate::oracle::{Oracle, assert_says, download, random_elements};
use crate::support::{on_each_device, random, rng};

/// Numbers of variables: from 1 to a number that takes several blocks.
const VARIABLES: std::ops::RangeInclusive<u32> = 1..=13;

/// The number of variables that makes each block of a sum loop.
fn large(stream: &Stream) -> u32 {
    let turn = stream.device().properties().multiprocessors * 6 * 512;
    turn.next_power_of_two().ilog2() + 2
}

fn theirs<E: Oracle>(values: &[E]) -> Vec<E::Theirs> {
    values.iter().map(|x| x.theirs()).collect()
}

fn ours(values: &[SecureField]) -> Vec<Vec<QM31>> {
    vec![values.iter().map(|&x| QM31::ours(x)).collect()]
}

/// A slab that starts `before` words into a buffer.
fn slab<E: Element<Base = Mersenne31>>(stream: &Stream, values: &[E], before: usize) -> Buffer<Mersenne31> {
    let mut words = vec![Mersenne31::ZERO; before];
    words.extend(to_slab(values));
    stream.upload(&words).unwrap()
}

/// A column of either field, on the device and upstream.
struct Column<E: Oracle> {
    buffer: Buffer<Mersenne31>,
    before: usize,
    theirs: Vec<E::Theirs>,
}

impl<E: Oracle + Element<Base = Mersenne31>> Column<E> {
    fn random(stream: &Stream, rng: &mut SmallRng, variables: u32, before: usize) -> Self {
        let values = random_elements::<E>(rng, 1 << variables);
        Self { buffer: slab(stream, &values, before), before, theirs: theirs(&values) }
    }

    fn view(&self) -> View<'_, Mersenne31> {
        self.buffer.range(self.before..).unwrap()
    }
}

impl Column<QM31> {
    fn mle(&self) -> Mle<CpuBackend, SecureField> {
        Mle::new(self.theirs.clone())
    }
}

impl Column<Mersenne31> {
    fn mle(&self) -> Mle<CpuBackend, M31> {
        Mle::new(self.theirs.clone())
    }
}

/// A layer of each kind with this many variables, whose columns start `before` words into their buffers.
struct Layers {
    multiplicities: Column<Mersenne31>,
    numerators: Column<QM31>,
    denominators: Column<QM31>,
}

impl Layers {
    fn random(stream: &Stream, variables: u32, before: usize) -> Self {
        let rng = &mut rng(u64::from(variables) + 100 * before as u64);
        Self {
            multiplicities: Column::random(stream, rng, variables, before),
            numerators: Column::random(stream, rng, variables, before),
            denominators: Column::random(stream, rng, variables, before),
        }
    }

    fn product(&self) -> Layer<CpuBackend> {
        Layer::GrandProduct(self.denominators.mle())
    }

    /// The layers of fractions.
    fn fractions(&self) -> [(Numerators<'_>, Layer<CpuBackend>); 3] {
        let denominators = self.denominators.mle();
        [
            (Numerators::One, Layer::LogUpSingles { denominators: denominators.clone() }),
            (
                Numerators::Base(self.multiplicities.view()),
                Layer::LogUpMultiplicities {
                    numerators: self.multiplicities.mle(),
                    denominators: denominators.clone(),
                },
            ),
            (
                Numerators::Extension(self.numerators.view()),
                Layer::LogUpGeneric { numerators: self.numerators.mle(), denominators },
            ),
        ]
    }
}

/// Each number of variables, with columns at any word offset.
fn each_layer(check: impl Fn(&Stream, u32, &Layers)) {
    on_each_device(|stream| {
        for variables in VARIABLES {
            for before in [0, 1, 2] {
                check(stream, variables, &Layers::random(stream, variables, before));
            }
        }
        let variables = large(stream);
        check(stream, variables, &Layers::random(stream, variables, 0));
    });
}

#[test]
fn a_fixed_variable_equals_stwo() {
    each_layer(|stream, variables, layers| {
        let r = random_elements::<QM31>(&mut rng(5), 1)[0];
        let base = CpuBackend::fix_first_variable(layers.multiplicities.mle(), r.theirs());
        let found = fix_first_variable(stream, Values::Base(layers.multiplicities.view()), r).unwrap();
        assert_eq!((found.rows(), found.columns()), (1 << (variables - 1), 4));
        assert_eq!(download::<QM31>(stream, &found), ours(&base), "{variables} variables, base");
        let extension = CpuBackend::fix_first_variable(layers.numerators.mle(), r.theirs());
        let found = fix_first_variable(stream, Values::Extension(layers.numerators.view()), r).unwrap();
        assert_eq!(download::<QM31>(stream, &found), ours(&extension), "{variables} variables, extension");
    });
}

/// Checks up to enough variables for each block to compute several tiles.
#[test]
fn eq_evals_equal_stwo() {
    on_each_device(|stream| {
        let several = stream.device().properties().multiprocessors.next_power_of_two().ilog2() + 14;
        for variables in (0..=13).chain([several]) {
            let values = random_elements::<QM31>(&mut rng(u64::from(variables)), variables as usize + 1);
            let (v, y) = values.split_last().unwrap();
            let expected = CpuBackend::gen_eq_evals(&theirs(y), v.theirs());
            let found = eq_evals(stream, y, *v).unwrap();
            assert!(download::<QM31>(stream, &found) == ours(&expected), "{variables} variables");
        }
    });
}

#[test]
fn next_layers_equal_stwo() {
    each_layer(|stream, variables, layers| {
        let denominators = layers.denominators.view();
        let Layer::GrandProduct(expected) = layers.product().next_layer().unwrap() else { panic!("of one kind") };
        let found = products(stream, denominators).unwrap();
        assert_eq!(download::<QM31>(stream, &found), ours(&expected), "{variables} variables");
        for (numerators, layer) in layers.fractions() {
            let Layer::LogUpGeneric { numerators: above, denominators: below } = layer.next_layer().unwrap()
            else {
                panic!("fractions become fractions over the extension")
            };
            let found = fractions(stream, numerators, denominators).unwrap();
            assert_eq!(download::<QM31>(stream, &found.0), ours(&above), "{variables} variables, {numerators:?}");
            assert_eq!(download::<QM31>(stream, &found.1), ours(&below), "{variables} variables, {numerators:?}");
        }
    });
}

/// The polynomial that upstream makes from its own sums, and the same from ours, with exactly as many values of eq as
/// there are terms and with more.
#[test]
fn sums_equal_stwo() {
    each_layer(|stream, variables, layers| {
        if variables < 2 {
            return;
        }
        for more in [0, 2] {
            let scalars = random_elements::<QM31>(&mut rng(9), (variables + 2 + more) as usize);
            let ([lambda, correction, claim], y) = scalars.split_first_chunk().unwrap();
            let scalars = [lambda, correction, claim].map(|x| x.theirs());
            let eq = EqEvals::<CpuBackend>::generate(&theirs(y));
            let on_device = eq_evals(stream, &y[1..], QM31::ONE - y[0]).unwrap();
            let check = |input_layer: Layer<CpuBackend>, found: [QM31; 2]| {
                let kind = format!("{input_layer:?}").chars().take(20).collect::<String>();
                let [lambda, correction, claim] = scalars;
                let oracle = GkrMultivariatePolyOracle {
                    eq_evals: Cow::Borrowed(&eq),
                    input_layer,
                    eq_fixed_var_correction: correction,
                    lambda,
                };
                let expected = CpuBackend::sum_as_poly_in_first_variable(&oracle, claim);
                let [at_0, at_2] = found.map(|sum| sum.theirs() * correction);
                let found =
                    correct_sum_as_poly_in_first_variable(at_0, at_2, claim, eq.y(), variables as usize - 1);
                assert_eq!(found[..], expected[..], "{variables} variables and {more} more, {kind}");
            };
            let (eq, denominators) = (on_device.values().view(), layers.denominators.view());
            check(layers.product(), product_sums(stream, eq, denominators).unwrap());
            for (numerators, layer) in layers.fractions() {
                check(layer, fraction_sums(stream, eq, numerators, denominators, *lambda).unwrap());
            }
        }
    });
}

/// Sums take two launches and one download, one launch where one block is enough.
#[test]
fn sums_are_downloaded_once() {
    on_each_device(|stream| {
        for (variables, launches) in [(4, 1), (large(stream), 2)] {
            let layer = stream.upload(&random::<Mersenne31>(&mut rng(3), 4 << variables)).unwrap();
            let eq = eq_evals(stream, &vec![QM31::ONE; variables as usize - 2], QM31::ONE).unwrap();
            let before = stream.device().activity();
            product_sums(stream, eq.values().view(), layer.view()).unwrap();
            let after = stream.device().activity();
            assert_eq!((after.launches - before.launches, after.downloads - before.downloads), (launches, 1));
        }
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let words = stream.zeros::<Mersenne31>(64).unwrap();
        let slab = |n: usize| words.range(..4 * n).unwrap();
        let fix = |values| fix_first_variable(stream, values, QM31::ONE);
        assert_says(
            fix(Values::Base(words.range(..1).unwrap())),
            &["fix_first_variable", "1 values", "be at least 2"],
        );
        assert_says(fix(Values::Base(words.range(..6).unwrap())), &["6 rows", "power of two"]);
        assert_says(fix(Values::Extension(words.range(..6).unwrap())), &["6 values", "QM31"]);
        assert_says(fix(Values::Extension(slab(1))), &["1 values", "be at least 2"]);
        assert_says(eq_evals(stream, &[QM31::ONE; 32], QM31::ONE), &["eq_evals", "32 variables", "at most 31"]);
        assert_says(products(stream, slab(1)), &["multilinear::products", "1 values"]);
        assert_says(products(stream, slab(0)), &["0 values"]);
        let add = |numerators, n| fractions(stream, numerators, slab(n));
        assert_says(add(Numerators::One, 1), &["multilinear::fractions", "1 values"]);
        assert_says(add(Numerators::Base(slab(1)), 8), &["4 numerators over 8 denominators"]);
        assert_says(add(Numerators::Extension(slab(2)), 8), &["2 numerators over 8 denominators"]);
        assert_says(
            product_sums(stream, slab(4), slab(2)),
            &["multilinear::product_sums", "2 values", "be at least 4"],
        );
        assert_says(product_sums(stream, slab(2), slab(16)), &["2 values of eq", "layer of 16", "at least 4"]);
        let sums = |numerators| fraction_sums(stream, slab(4), numerators, slab(8), QM31::ONE);
        assert_says(sums(Numerators::Base(slab(4))), &["fraction_sums", "16 numerators over 8"]);
    });
}
