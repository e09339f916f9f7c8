//! GKR layers and multilinear polynomials.

use rigel_gpu::{Device, Result};
use rigel_kernels::gkr::multilinear::{self, Values};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::prover::lookups::gkr_prover::{
    GkrMultivariatePolyOracle, GkrOps, Layer, correct_sum_as_poly_in_first_variable,
};
use stwo::prover::lookups::mle::{Mle, MleOps};
use stwo::prover::lookups::sumcheck::MultivariatePolyOracle;
use stwo::prover::lookups::utils::UnivariatePoly;

use crate::CudaBackend;
use crate::blocks::words_on;
use crate::column::SecureColumn;
use crate::device::{device, stream};
use crate::failure::OrFail;
use crate::field::{Twin, secure};
use crate::joined::Joined;

/// Elements as a multilinear polynomial.
fn mle(slab: rigel_kernels::Matrix<rigel_kernels::field::Mersenne31>) -> Mle<CudaBackend, SecureField> {
    Mle::new(SecureColumn::from_matrix(slab))
}

/// The numerators of a layer of fractions, on a device.
enum NumeratorWords<'a> {
    Extension(Joined<'a>),
    Base(Joined<'a>),
    One,
}

impl<'a> NumeratorWords<'a> {
    fn on(device: &Device, layer: &'a Layer<CudaBackend>) -> Result<Self> {
        Ok(match layer {
            Layer::LogUpGeneric { numerators, .. } => Self::Extension(words_on(numerators, device)?),
            // An uploaded column may be on any of the devices that share columns out.
            Layer::LogUpMultiplicities { numerators, .. } => Self::Base(words_on(numerators, device)?),
            Layer::LogUpSingles { .. } | Layer::GrandProduct(_) => Self::One,
        })
    }

    fn values(&self) -> multilinear::Numerators<'_> {
        match self {
            Self::Extension(words) => multilinear::Numerators::Extension(words.view()),
            Self::Base(words) => multilinear::Numerators::Base(words.view()),
            Self::One => multilinear::Numerators::One,
        }
    }
}

impl MleOps<BaseField> for CudaBackend {
    fn fix_first_variable(polynomial: Mle<Self, BaseField>, assignment: SecureField) -> Mle<Self, SecureField> {
        let stream = stream(polynomial.device());
        let fixed = multilinear::fix_first_variable(&stream, Values::Base(polynomial.view()), assignment.twin());
        mle(fixed.or_fail("fix a variable"))
    }
}

impl MleOps<SecureField> for CudaBackend {
    fn fix_first_variable(polynomial: Mle<Self, SecureField>, assignment: SecureField) -> Mle<Self, SecureField> {
        let stream = stream(polynomial.device());
        let fixed =
            multilinear::fix_first_variable(&stream, Values::Extension(polynomial.view()), assignment.twin());
        mle(fixed.or_fail("fix a variable"))
    }
}

impl GkrOps for CudaBackend {
    fn gen_eq_evals(y: &[SecureField], v: SecureField) -> Mle<Self, SecureField> {
        let y: Vec<_> = y.iter().map(|y| y.twin()).collect();
        mle(multilinear::eq_evals(&stream(&device()), &y, v.twin()).or_fail("evaluate eq"))
    }

    fn next_layer(layer: &Layer<Self>) -> Layer<Self> {
        let next = || -> Result<_> {
            Ok(match layer {
                Layer::GrandProduct(values) => {
                    Layer::GrandProduct(mle(multilinear::products(&stream(values.device()), values.view())?))
                }
                Layer::LogUpGeneric { denominators, .. }
                | Layer::LogUpMultiplicities { denominators, .. }
                | Layer::LogUpSingles { denominators } => {
                    let stream = stream(denominators.device());
                    let numerators = NumeratorWords::on(stream.device(), layer)?;
                    let (above, below) =
                        multilinear::fractions(&stream, numerators.values(), denominators.view())?;
                    Layer::LogUpGeneric { numerators: mle(above), denominators: mle(below) }
                }
            })
        };
        next().or_fail("make the next layer")
    }

    fn sum_as_poly_in_first_variable(
        h: &GkrMultivariatePolyOracle<'_, Self>,
        claim: SecureField,
    ) -> UnivariatePoly<SecureField> {
        let n_variables = h.n_variables();
        assert_ne!(n_variables, 0, "the polynomial has no variables");
        let sums = || match &h.input_layer {
            Layer::GrandProduct(values) => {
                let stream = stream(values.device());
                let eq_evals = words_on(&h.eq_evals, stream.device())?;
                multilinear::product_sums(&stream, eq_evals.view(), values.view())
            }
            layer @ (Layer::LogUpGeneric { denominators, .. }
            | Layer::LogUpMultiplicities { denominators, .. }
            | Layer::LogUpSingles { denominators }) => {
                let stream = stream(denominators.device());
                let eq_evals = words_on(&h.eq_evals, stream.device())?;
                let (above, below) = (NumeratorWords::on(stream.device(), layer)?, denominators.view());
                multilinear::fraction_sums(&stream, eq_evals.view(), above.values(), below, h.lambda.twin())
            }
        };
        let [at_0, at_2] = sums().or_fail("sum over the first variable");
        let corrected = [at_0, at_2].map(|sum| secure(sum) * h.eq_fixed_var_correction);
        correct_sum_as_poly_in_first_variable(corrected[0], corrected[1], claim, h.eq_evals.y(), n_variables)
    }
}
