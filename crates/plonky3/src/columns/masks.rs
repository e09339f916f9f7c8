//! The masks of proofs that hide the trace: salts, random rows and columns, and multiples of vanishing polynomials that
//! are added to the quotient. The order of the draws is upstream's ([`Hiding`]).

use p3_commit::PolynomialSpace;
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_field::{
    BasedVectorSpace, Field as _, PrimeCharacteristicRing, TwoAdicField, batch_multiplicative_inverse,
};
use p3_fri::HidingFriProverError;
use p3_util::reverse_bits_len;
use rigel_gpu::Lock;
use rigel_kernels::commit::mask;
use rigel_kernels::field::{Element, Field, Ring};
use rigel_kernels::layout::permute;
use rigel_kernels::transform::ntt::{self, Order};
use rigel_kernels::vector::{elementwise, powers, scale, uniform};
use rigel_kernels::{Columns, Matrix};

use crate::base::error::{Error, Result};
use crate::columns::trace::Resident;
use crate::prover::Prover;
use crate::prover::session::Session;
use crate::upstream::config::{Base, DeviceConfig, Ext};
use crate::upstream::field::DeviceField;
use crate::upstream::hiding::{Hiding, Keystream};

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
    Ok(crate::columns::extended::extend(session, (&random).into(), shift, Order::Natural)?)
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
