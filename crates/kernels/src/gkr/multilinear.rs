//! Multilinear polynomials in k variables over Stwo's fields, as their 2^k values on the hypercube: the operations of
//! `MleOps` and `GkrOps`. The first variable is the highest bit of a value's index.
//!
//! - [`fix_first_variable`]: `out[i] = (1 - r) m[i] + r m[i + n/2]`
//! - [`eq_evals`]: `out[x] = v eq(x, y)`, where `eq(x, y) = prod_i (x_i y_i + (1 - x_i)(1 - y_i))`
//! - [`products`]: `out[i] = m[2i] m[2i + 1]`, the next layer of a grand product
//! - [`fractions`]: `a'[i] / c'[i] = a[2i] / c[2i] + a[2i + 1] / c[2i + 1]`, the next layer of a sum of fractions,
//!   as `a[2i] c[2i + 1] + a[2i + 1] c[2i]` over `c[2i] c[2i + 1]`
//! - [`product_sums`], [`fraction_sums`]: for the sumcheck between two layers, `sum_i eq[i] g(t, i)` at t = 0 and
//!   t = 2, where g(t, .) is the next layer of the layer whose first variable is t
//!
//! Values over the extension are slabs ([`crate::layout::slab`]). Each operation is one launch that reads and writes
//! each value once; sums have a second, small launch that adds the partial sums of the blocks, and end with a download
//! of eight words, for which the call waits. A term of a sum of fractions costs ten products of the extension and 144
//! bytes, or six and 80 where the numerators are one. Results do not depend on timing.

use rigel_gpu::{Buffer, Error, Result, Shape, Stream, View};

use crate::code::{Instances, KernelFile, Operation, parameters};
use crate::field::{Element, Mersenne31, QM31, Ring};
use crate::layout::matrix::{Matrix, log2_rows};
use crate::layout::slab::slab_length;
use crate::vector::reduce;

/// The values of a multilinear polynomial.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Values over the base field: a column.
    Base(View<'a, Mersenne31>),
    /// Values over the extension: a slab.
    Extension(View<'a, Mersenne31>),
}

/// The numerators of a layer of fractions, as many as there are denominators.
#[derive(Clone, Copy, Debug)]
pub enum Numerators<'a> {
    /// All are one (`LogUpSingles`).
    One,
    /// Numerators over the base field: a column (`LogUpMultiplicities`).
    Base(View<'a, Mersenne31>),
    /// Numerators over the extension: a slab (`LogUpGeneric`).
    Extension(View<'a, Mersenne31>),
}

/// Fixes the first variable of a polynomial of n values, n a power of two of at least 2, to `assignment`: a slab of n /
/// 2 values.
pub fn fix_first_variable(stream: &Stream, values: Values<'_>, assignment: QM31) -> Result<Matrix<Mersenne31>> {
    const NAME: &str = "multilinear::fix_first_variable";
    let (kernel, n, values) = match values {
        Values::Base(values) => (FIX_BASE, slab_length::<Mersenne31>(NAME, values)?, values),
        Values::Extension(values) => (FIX_EXTENSION, slab_length::<QM31>(NAME, values)?, values),
    };
    let half = halved(NAME, n, 1)?;
    let mut out = Matrix::alloc(stream, half, QM31::DEGREE)?;
    let shape = Shape::cover(half.div_ceil(4), THREADS)?;
    let kernels = Multilinear::kernels(stream.device(), ())?;
    kernels[kernel].launch(stream, shape, (out.values_mut(), values, half as u64, assignment))?;
    Ok(out)
}

/// `v eq(x, y)` for all x in {0, 1}^k, k = `y.len()` at most 31: a slab of 2^k values, where the last element of y
/// corresponds to the lowest bit of the index.
pub fn eq_evals(stream: &Stream, y: &[QM31], v: QM31) -> Result<Matrix<Mersenne31>> {
    if y.len() > MOST_VARIABLES {
        return Err(Error::shape(
            "multilinear::eq_evals",
            format!("{} variables; at most {MOST_VARIABLES} are supported", y.len()),
        ));
    }
    let mut factors = EqFactors { at_zero: [QM31::ONE; EQ_BITS], at_one: [QM31::ZERO; EQ_BITS], start: v };
    for (bit, &y) in y.iter().rev().enumerate() {
        (factors.at_zero[bit], factors.at_one[bit]) = (QM31::ONE - y, y);
    }
    let mut out = Matrix::alloc(stream, 1 << y.len(), QM31::DEGREE)?;
    let tiles = out.rows().div_ceil(EQ_TILE);
    // Blocks take several tiles once there are eight blocks per multiprocessor.
    let full = stream.device().properties().multiprocessors as usize * 8;
    let log_turns = (tiles / full).checked_ilog2().unwrap_or(0).min(MOST_LOG_TURNS);
    let shape = Shape::new((tiles >> log_turns) as u32, THREADS);
    let kernels = Multilinear::kernels(stream.device(), ())?;
    kernels[EQ_EVALS].launch(stream, shape, (out.values_mut(), y.len() as u32, log_turns, factors))?;
    Ok(out)
}

/// The layer above a layer of products: a slab of n values, n a power of two of at least 2, becomes one of n / 2.
pub fn products(stream: &Stream, layer: View<'_, Mersenne31>) -> Result<Matrix<Mersenne31>> {
    const NAME: &str = "multilinear::products";
    let half = halved(NAME, slab_length::<QM31>(NAME, layer)?, 1)?;
    let mut out = Matrix::alloc(stream, half, QM31::DEGREE)?;
    let shape = Shape::cover(half.div_ceil(2), THREADS)?;
    let kernels = Multilinear::kernels(stream.device(), ())?;
    kernels[NEXT_PRODUCTS].launch(stream, shape, (out.values_mut(), layer, half as u64))?;
    Ok(out)
}

/// The layer above a layer of fractions: numerators over a slab of n denominators, n a power of two of at least 2,
/// become a slab of n / 2 numerators and one of n / 2 denominators.
pub fn fractions(
    stream: &Stream,
    numerators: Numerators<'_>,
    denominators: View<'_, Mersenne31>,
) -> Result<(Matrix<Mersenne31>, Matrix<Mersenne31>)> {
    const NAME: &str = "multilinear::fractions";
    let n = slab_length::<QM31>(NAME, denominators)?;
    let half = halved(NAME, n, 1)?;
    let kernel = NEXT_FRACTIONS + numerators.index();
    let numerators = numerators.values(NAME, n)?;
    let mut above = Matrix::alloc(stream, half, QM31::DEGREE)?;
    let mut below = Matrix::alloc(stream, half, QM31::DEGREE)?;
    let shape = Shape::cover(half.div_ceil(2), THREADS)?;
    let arguments = (above.values_mut(), below.values_mut(), numerators, denominators, half as u64);
    Multilinear::kernels(stream.device(), ())?[kernel].launch(stream, shape, arguments)?;
    Ok((above, below))
}

/// `sum_i eq[i] m(t, i, 0) m(t, i, 1)` at t = 0 and at t = 2, i < n / 4, for a layer m of n values, n a power of two of
/// at least 4. The slab `eq_evals` may have more than n / 4 values; only the first n / 4 are used.
///
/// This is the argument of upstream's `correct_sum_as_poly_in_first_variable`, up to the oracle's correction factor.
pub fn product_sums(
    stream: &Stream,
    eq_evals: View<'_, Mersenne31>,
    layer: View<'_, Mersenne31>,
) -> Result<[QM31; 2]> {
    const NAME: &str = "multilinear::product_sums";
    let terms = Terms::new(NAME, eq_evals, slab_length::<QM31>(NAME, layer)?)?;
    let kernels = Multilinear::kernels(stream.device(), ())?;
    terms.sums(stream, |shape, parts| kernels[PRODUCT_SUMS].launch(stream, shape, (parts, eq_evals, terms, layer)))
}

/// `sum_i eq[i] (a(t, i) + lambda c(t, i))` at t = 0 and at t = 2, i < n / 4, where a / c is the sum of the
/// fractions at (t, i, 0) and (t, i, 1), numerators over n denominators. Sizes are as for [`product_sums`].
pub fn fraction_sums(
    stream: &Stream,
    eq_evals: View<'_, Mersenne31>,
    numerators: Numerators<'_>,
    denominators: View<'_, Mersenne31>,
    lambda: QM31,
) -> Result<[QM31; 2]> {
    const NAME: &str = "multilinear::fraction_sums";
    let n = slab_length::<QM31>(NAME, denominators)?;
    let terms = Terms::new(NAME, eq_evals, n)?;
    let kernels = Multilinear::kernels(stream.device(), ())?;
    let kernel = &kernels[FRACTION_SUMS + numerators.index()];
    let numerators = numerators.values(NAME, n)?;
    terms.sums(stream, |shape, parts| {
        kernel.launch(stream, shape, (parts, eq_evals, terms, numerators, denominators, lambda))
    })
}

/// Threads per block.
const THREADS: u32 = 256;
/// The maximum number of variables of `eq_evals`, the elements per tile, and the maximum number of tiles per block, as
/// a logarithm.
const MOST_VARIABLES: usize = 31;
const EQ_BITS: usize = 32;
const EQ_TILE: usize = 1024;
const MOST_LOG_TURNS: u32 = 5;
/// Terms that a block adds per iteration.
const TURN: usize = 512;
/// The maximum number of blocks of a sum: as many partial sums as the second launch adds directly.
const MOST_PARTS: usize = 1024;

/// n / 2^times for a layer of n values, checked to be a power of two that leaves at least one.
fn halved(operation: &'static str, n: usize, times: u32) -> Result<usize> {
    let log_n = log2_rows(operation, n)?;
    if log_n < times {
        return Err(Error::shape(
            operation,
            format!("a layer of {n} values; there must be at least {}", 1 << times),
        ));
    }
    Ok(n >> times)
}

impl<'a> Numerators<'a> {
    /// The index of this kind of numerators in [`NUMERATORS`].
    fn index(self) -> usize {
        match self {
            Self::One => 0,
            Self::Base(_) => 1,
            Self::Extension(_) => 2,
        }
    }

    /// The values in memory, if any, checked to be n.
    fn values(self, operation: &'static str, n: usize) -> Result<Option<View<'a, Mersenne31>>> {
        let (values, count) = match self {
            Self::One => return Ok(None),
            Self::Base(values) => (values, slab_length::<Mersenne31>(operation, values)?),
            Self::Extension(values) => (values, slab_length::<QM31>(operation, values)?),
        };
        if count != n {
            return Err(Error::shape(
                operation,
                format!("{count} numerators over {n} denominators; the numbers must be equal"),
            ));
        }
        Ok(Some(values))
    }
}

parameters! {
    /// The factors for each bit of an index.
    struct EqFactors = "EqFactors" => {
        at_zero: [QM31; EQ_BITS],
        at_one: [QM31; EQ_BITS],
        start: QM31,
    }
}

parameters! {
    /// The weights of a sum: the first `terms` of a slab of `stride`.
    struct Terms = "Terms" => {
        terms: u64,
        stride: u64,
    }
}

impl Terms {
    /// The terms of a layer of n values, with their weights in this slab.
    fn new(operation: &'static str, eq_evals: View<'_, Mersenne31>, n: usize) -> Result<Self> {
        let terms = halved(operation, n, 2)?;
        let weights = slab_length::<QM31>(operation, eq_evals)?;
        if weights < terms {
            return Err(Error::shape(
                operation,
                format!("{weights} values of eq for a layer of {n}; there must be at least {terms}"),
            ));
        }
        Ok(Self { terms: terms as u64, stride: weights as u64 })
    }

    /// Two sums over the terms: `parts` writes eight coefficients per block, column by column.
    fn sums(
        self,
        stream: &Stream,
        parts: impl FnOnce(Shape, &mut Buffer<Mersenne31>) -> Result<()>,
    ) -> Result<[QM31; 2]> {
        // Two or three blocks fit on a multiprocessor: six make whole waves either way.
        let full = stream.device().properties().multiprocessors as usize * 6;
        let blocks = (self.terms as usize).div_ceil(TURN).min(full).min(MOST_PARTS);
        let mut matrix = Matrix::alloc(stream, blocks, 2 * QM31::DEGREE)?;
        parts(Shape::new(blocks as u32, THREADS), matrix.values_mut())?;
        let sums = if blocks == 1 { matrix.into_values() } else { reduce::sums(stream, &matrix)? };
        let words = sums.to_vec(stream)?;
        Ok(std::array::from_fn(|s| QM31(std::array::from_fn(|d| words[s * QM31::DEGREE + d]))))
    }
}

pub(crate) struct Multilinear;

/// The kernels, in the order in which they are compiled; those of fractions by the type of numerators.
const FIX_BASE: usize = 0;
const FIX_EXTENSION: usize = 1;
const EQ_EVALS: usize = 2;
const NEXT_PRODUCTS: usize = 3;
const PRODUCT_SUMS: usize = 4;
const NEXT_FRACTIONS: usize = 5;
const FRACTION_SUMS: usize = NEXT_FRACTIONS + NUMERATORS.len();

/// The types of numerators in `multilinear.cu`.
const NUMERATORS: [&str; 3] = ["One", Mersenne31::NAME, QM31::NAME];

impl Operation for Multilinear {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "gkr/multilinear.cu",
        text: include_str!("multilinear.cu"),
        constants: &[
            ("BLOCK_THREADS", THREADS as u64),
            ("EQ_BITS", EQ_BITS as u64),
            ("EQ_TILE", EQ_TILE as u64),
            ("MOST_TURNS", 1 << MOST_LOG_TURNS),
            ("TERMS_PER_TURN", TURN as u64),
        ],
    };

    fn instances((): ()) -> Instances {
        let mut kernels: Vec<String> = [
            "fix_first_variable<Mersenne31>",
            "fix_first_variable<QM31>",
            "eq_evals",
            "next_products",
            "product_sums",
        ]
        .map(String::from)
        .into();
        for name in ["next_fractions", "fraction_sums"] {
            kernels.extend(NUMERATORS.map(|numerators| format!("{name}<{numerators}>")));
        }
        Instances::new(kernels).takes::<EqFactors>().takes::<Terms>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
