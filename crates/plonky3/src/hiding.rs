//! The randomness of proofs that hide the trace, as in upstream's `HidingFriPcs` and `MerkleTreeHidingMmcs`.
//!
//! Every second row of a committed matrix is random, and so are its last columns; the chunks of the quotient have
//! random multiples of their vanishing polynomials added; a random polynomial joins the openings; every leaf of a tree
//! ends with random elements, its salt. Upstream draws all of that from generators of type `StdRng`, which is ChaCha,
//! so the device computes any part of their streams ([`uniform`]). The order of the draws is upstream's: with the same
//! seeds the proofs are equal.

use p3_commit::PolynomialSpace;
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_field::{
    BasedVectorSpace, Field as _, PrimeCharacteristicRing, TwoAdicField, batch_multiplicative_inverse,
};
use p3_fri::HidingFriProverError;
use p3_util::reverse_bits_len;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rigel_gpu::Lock;
use rigel_kernels::commit::mask;
use rigel_kernels::field::{Element, Field, Ring};
use rigel_kernels::layout::permute;
use rigel_kernels::transform::ntt::{self, Order};
use rigel_kernels::vector::{elementwise, powers, scale, uniform};
use rigel_kernels::{Columns, Matrix};

use crate::config::{Base, DeviceConfig, Ext};
use crate::error::{Error, Result};
use crate::field::DeviceField;
use crate::prover::{Prover, Session};
use crate::trace::Resident;

/// The stream of `rand`'s `StdRng`, computed on the device. Make one as upstream's generator is made: `from_seed`,
/// `seed_from_u64` and `from_rng` of [`SeedableRng`] give the same stream as those of `StdRng`.
///
/// As with upstream, a proof hides the trace only if nobody can guess the seed, and no seed may serve twice: not in two
/// provers, and not in a prover and in the configuration with which upstream proves.
pub struct Keystream {
    key: [u32; 8],
    /// The number of words of 32 bits that were drawn.
    position: u64,
}

impl SeedableRng for Keystream {
    type Seed = [u8; 32];

    fn from_seed(seed: [u8; 32]) -> Self {
        let word = |i: usize| u32::from_le_bytes([seed[4 * i], seed[4 * i + 1], seed[4 * i + 2], seed[4 * i + 3]]);
        Self { key: std::array::from_fn(word), position: 0 }
    }
}

impl Keystream {
    /// The stream that upstream's `clone` of a hiding PCS or of a hiding tree gives to the clone. Configurations give
    /// a clone of the trees to FRI, so its stream is a fork of the trees' one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        let mut seed = [0; 32];
        self.key
            .iter()
            .zip(seed.chunks_exact_mut(4))
            .for_each(|(word, to)| to.copy_from_slice(&word.to_le_bytes()));
        let mut theirs = StdRng::from_seed(seed);
        for _ in 0..self.position {
            theirs.next_u32();
        }
        self.position += 8;
        Self::from_rng(&mut theirs)
    }
}

impl std::fmt::Debug for Keystream {
    /// Shows the stream without its key, which nobody may see.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keystream").field("position", &self.position).finish_non_exhaustive()
    }
}

/// The parameters of a hiding configuration that upstream keeps private, for
/// [`Prover::hiding`](crate::Prover::hiding).
#[derive(Debug)]
pub struct Hiding {
    random_codewords: usize,
    masks: Lock<Keystream>,
    input_salts: Lock<Keystream>,
    fri_salts: Lock<Keystream>,
}

impl Hiding {
    /// `random_codewords` is that of the PCS. The streams stand for the generators of the PCS, of its trees and of the
    /// trees of FRI.
    pub fn new(random_codewords: usize, pcs: Keystream, trees: Keystream, fri_trees: Keystream) -> Self {
        let [masks, input_salts, fri_salts] = [pcs, trees, fri_trees].map(Lock::new);
        Self { random_codewords, masks, input_salts, fri_salts }
    }

    /// Goes on with other streams.
    pub(crate) fn replace(&self, other: Self) -> Result<()> {
        if other.random_codewords != self.random_codewords {
            let (ours, theirs) = (self.random_codewords, other.random_codewords);
            let detail = format!("{theirs} random codewords for a prover that was made with {ours}");
            return Err(Error::Unsupported(detail));
        }
        for (ours, theirs) in [
            (&self.masks, other.masks),
            (&self.input_salts, other.input_salts),
            (&self.fri_salts, other.fri_salts),
        ] {
            std::mem::swap(&mut *ours.lock(), &mut *theirs.lock());
        }
        Ok(())
    }

    /// Hiding with streams that no proof uses.
    pub(crate) fn for_check(&self) -> Self {
        let [pcs, trees, fri_trees] = [1, 2, 3].map(Keystream::seed_from_u64);
        Self::new(self.random_codewords, pcs, trees, fri_trees)
    }

    pub(crate) fn random_codewords(&self) -> usize {
        self.random_codewords
    }
}

/// The trees that a salt is for.
#[derive(Clone, Copy)]
pub(crate) enum Trees {
    Input,
    Fri,
}

/// A matrix of random elements, drawn row by row. Waits for the device.
fn draw<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    stream: &Lock<Keystream>,
    rows: usize,
    columns: usize,
) -> Result<Matrix<Base<SC>>> {
    let mut drawn = session.stream.alloc::<Base<SC>>(rows * columns)?;
    let mut from = stream.lock();
    from.position = uniform::fill(&session.stream, drawn.view_mut(), from.key, from.position)?;
    Ok(permute::to_columns(&session.stream, &drawn, columns)?)
}

/// The salts of the leaves of one matrix. `None` if the configuration does not hide.
pub(crate) fn salts<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    trees: Trees,
    rows: usize,
) -> Result<Option<Matrix<Base<SC>>>> {
    let Some(hiding) = session.prover.hiding_streams().filter(|_| SC::SALTS > 0) else { return Ok(None) };
    let stream = match trees {
        Trees::Input => &hiding.input_salts,
        Trees::Fri => &hiding.fri_salts,
    };
    draw(session, stream, rows, SC::SALTS).map(Some)
}

/// Upstream's condition on the number of random values: `2 (queries + degree * points)` for each column.
pub(crate) fn check_budget<SC: DeviceConfig>(
    prover: &Prover<SC>,
    mask_height: usize,
    num_opening_points: usize,
) -> Result<()> {
    let Some(hiding) = prover.hiding_streams() else { return Ok(()) };
    let (num_queries, extension_degree) = (prover.fri.num_queries, SC::Challenge::DIMENSION);
    if hiding.random_codewords < extension_degree {
        return Err(Error::Hiding(HidingFriProverError::InsufficientRandomCodewords {
            required: extension_degree,
            got: hiding.random_codewords,
        }));
    }
    if least_rows(num_queries, extension_degree, num_opening_points).is_none_or(|least| least > mask_height) {
        return Err(Error::Hiding(HidingFriProverError::HidingBudgetExceeded {
            mask_height,
            num_queries,
            num_opening_points,
            extension_degree,
        }));
    }
    Ok(())
}

/// The least number of rows with which a matrix can be opened at so many points.
pub(crate) fn least_rows(num_queries: usize, extension_degree: usize, points: usize) -> Option<usize> {
    extension_degree.checked_mul(points.max(1))?.checked_add(num_queries)?.checked_mul(2)
}

/// The matrix that is committed to in place of a trace: random rows between its rows, and random columns after its
/// columns.
pub(crate) struct Masked<'a, SC: DeviceConfig> {
    trace: Columns<'a, Base<SC>>,
    masks: Matrix<Base<SC>>,
    codewords: usize,
}

impl<'a, SC: DeviceConfig> Masked<'a, SC> {
    /// Draws the masks of a trace.
    pub(crate) fn new(session: &Session<'_, SC>, hiding: &Hiding, trace: Columns<'a, Base<SC>>) -> Result<Self> {
        let codewords = hiding.random_codewords;
        let masks = draw(session, &hiding.masks, trace.rows(), trace.columns() + 2 * codewords)?;
        Ok(Self { trace, masks, codewords })
    }

    /// Preprocessed columns, which are known to all: the rows between are zeros, and no columns are added.
    pub(crate) fn public(session: &Session<'_, SC>, trace: Columns<'a, Base<SC>>) -> Result<Self> {
        let masks = Matrix::zeros(&session.stream, trace.rows(), trace.columns())?;
        Ok(Self { trace, masks, codewords: 0 })
    }

    /// The number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.trace.columns() + self.codewords
    }

    /// Some of the columns.
    pub(crate) fn matrix(
        &self,
        session: &Session<'_, SC>,
        columns: std::ops::Range<usize>,
    ) -> Result<Matrix<Base<SC>>> {
        let masks = (&self.masks).into();
        Ok(mask::interleave(&session.stream, self.trace, masks, self.codewords, columns)?)
    }

    /// All columns, extended. They are made and extended some at a time.
    pub(crate) fn extend(&self, session: &Session<'_, SC>) -> Result<Matrix<Base<SC>>> {
        const PART_BYTES: usize = 256 << 20;
        let rows = 2 * self.trace.rows();
        let part = (PART_BYTES / (rows * size_of::<Base<SC>>())).max(1);
        let mut out = Matrix::alloc(&session.stream, rows << session.log_blowup(), self.columns())?;
        for first in (0..self.columns()).step_by(part) {
            let end = self.columns().min(first + part);
            let columns = self.matrix(session, first..end)?;
            let to = out.column_range_mut(first, end)?;
            let (added_bits, shift) = (session.log_blowup(), Base::<SC>::GENERATOR);
            ntt::extend_into(&session.stream, to, &columns, added_bits, shift, Order::Natural)?;
        }
        Ok(out)
    }
}

/// A matrix, and the trace that it hides.
type WithTrace<'a, V> = (Resident<'a, V>, Option<Resident<'a, V>>);

/// The matrix that is committed to in batches of columns, and the trace itself if that is another one.
pub(crate) fn masked<'a, SC: DeviceConfig>(
    session: &Session<'_, SC>,
    trace: Resident<'a, SC::Value>,
) -> Result<WithTrace<'a, SC::Value>> {
    let Some(hiding) = session.prover.hiding_streams() else { return Ok((trace, None)) };
    let matrix = {
        let masked = Masked::new(session, hiding, trace.whole().into())?;
        masked.matrix(session, 0..masked.columns())?
    };
    Ok((Resident::Brought(matrix), Some(trace)))
}

/// The random polynomials that join the openings, extended: for each table as many as the extension has coefficients,
/// and the random columns of every matrix.
pub(crate) fn random_polynomial<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    hiding: &Hiding,
    rows: usize,
) -> Result<Matrix<Base<SC>>> {
    let random = draw(session, &hiding.masks, 2 * rows, hiding.random_codewords + Ext::<SC>::DEGREE)?;
    let shift = Base::<SC>::GENERATOR;
    Ok(crate::extended::extend(session, (&random).into(), shift, Order::Natural)?)
}

/// The chunks of a quotient, extended, with random columns and with random multiples of the polynomials that vanish
/// where the chunks are given: chunk i becomes `q_i + v_i t_i`, so that the quotient stays the same:
///
/// ```text
/// t_last = - sum_i c_i / c_last t_i        c_i = 1 / prod_{j != i} v_j(first point of chunk i)
/// ```
///
/// On the large coset, with `p = shift_i^n`, `v_i t_i` is `(p w^(n k) - 1) T(g w^k)`, T with the coefficients t_i. In
/// bit-reversed order the first factor is constant on blocks of n rows.
pub(crate) fn chunks<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    hiding: &Hiding,
    log_rows: u32,
    values: &[Columns<'_, Base<SC>>],
) -> Result<Vec<Matrix<Base<SC>>>> {
    let stream = &session.stream;
    let (rows, degree) = (1usize << log_rows, Ext::<SC>::DEGREE);
    let width = degree + hiding.random_codewords;
    let added_bits = session.log_blowup() + 1;
    let root = SC::Value::two_adic_generator(log_rows as usize + values.len().trailing_zeros() as usize);
    let starts: Vec<SC::Value> =
        (0..values.len()).map(|i| SC::Value::GENERATOR * root.exp_u64(i as u64)).collect();
    let ratios = mask_ratios(&starts, log_rows as usize);

    let codewords: Vec<Matrix<Base<SC>>> = (0..values.len())
        .map(|_| draw(session, &hiding.masks, rows, hiding.random_codewords))
        .collect::<Result<_>>()?;
    let mut masks: Vec<Matrix<Base<SC>>> =
        ratios.iter().map(|_| draw(session, &hiding.masks, rows, width)).collect::<Result<_>>()?;
    let mut last = Matrix::zeros(stream, rows, width)?;
    for (mask, &ratio) in masks.iter().zip(&ratios) {
        elementwise::combine_assign(stream, Base::<SC>::ONE, &mut last, (-ratio).twin(), mask)?;
    }
    masks.push(last);

    let shifts = powers::powers(stream, Base::<SC>::ONE, Base::<SC>::GENERATOR, rows)?;
    let generator = Base::<SC>::two_adic_generator(Base::<SC>::TWO_ADICITY);
    let mut extended = Vec::with_capacity(values.len());
    for (i, (mut mask, codewords)) in masks.into_iter().zip(codewords).enumerate() {
        let shift = SC::Value::GENERATOR / starts[i];
        let mut chunk = Matrix::alloc(stream, rows << added_bits, width)?;
        let to = chunk.column_range_mut(0, degree)?;
        ntt::extend_into(stream, to, values[i], added_bits, shift.twin(), Order::BitReversed)?;
        let to = chunk.column_range_mut(degree, width)?;
        ntt::extend_into(stream, to, &codewords, added_bits, shift.twin(), Order::Natural)?;

        scale::scale_rows(stream, mask.values_mut().view_mut(), shifts.values().view())?;
        let mut evaluated = Matrix::alloc(stream, rows << added_bits, width)?;
        let to = evaluated.values_mut().view_mut();
        ntt::evaluate_into(stream, to, (&mask).into(), added_bits, generator)?;
        let (power, step) = (shift.exp_u64(rows as u64), SC::Value::two_adic_generator(added_bits as usize));
        let factor = |block: usize| {
            let k = reverse_bits_len(block, added_bits as usize);
            (power * step.exp_u64(k as u64) - SC::Value::ONE).twin()
        };
        let factors: Vec<Base<SC>> = (0..1 << added_bits).map(factor).collect();
        mask::add_multiple(stream, &mut chunk, &evaluated, stream.upload(&factors)?.view())?;
        extended.push(chunk);
    }
    Ok(extended)
}

/// `c_i / c_last` for all chunks but the last, which begin at these points.
fn mask_ratios<V: DeviceField>(starts: &[V], log_rows: usize) -> Vec<V> {
    let domain = |&start: &V| TwoAdicMultiplicativeCoset::new(start, log_rows).expect("the height was checked");
    let vanishing = |i: usize| {
        let others = starts.iter().enumerate().filter(|(j, _)| *j != i);
        others.map(|(_, other)| domain(other).vanishing_poly_at_point(starts[i])).product::<V>()
    };
    let mut constants = batch_multiplicative_inverse(&(0..starts.len()).map(vanishing).collect::<Vec<V>>());
    let last = constants.pop().expect("a quotient has chunks").inverse();
    constants.into_iter().map(|constant| constant * last).collect()
}
