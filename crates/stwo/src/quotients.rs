//! Quotients of openings, for FRI.

use num_traits::Zero;
use rigel_gpu::{Error, Result, Stream};
use rigel_kernels::field::{Mersenne31, QM31, Ring};
use rigel_kernels::fri::circle_fold;
use rigel_kernels::open::circle_quotients::{self, Numerators};
use rigel_kernels::transform::circle;
use rigel_kernels::{Columns, Matrix};
use stwo::core::fields::cm31::CM31;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::{self as secure, SecureField};
use stwo::core::pcs::quotients::{ColumnSampleBatch, NumeratorData};
use stwo::core::poly::circle::{CanonicCoset, CircleDomain};
use stwo::prover::QuotientOps;
use stwo::prover::backend::Column;
use stwo::prover::pcs::quotient_ops::AccumulatedNumerators;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::{CircleEvaluation, SecureEvaluation};
use stwo::prover::poly::twiddles::TwiddleTree;
use stwo::prover::secure_column::SecureColumnByCoords;

use crate::CudaBackend;
use crate::accumulation::{from_slabs, into_slabs_on, spread_slabs};
use crate::batch::{Batch, set_query_domain};
use crate::blocks::{LEAST_ROWS, shared_out};
use crate::column::{BaseColumn, by_device, devices_of};
use crate::deferred::transfer::{bring, neighbours};
use crate::device::{stream, team};
use crate::domain::block_of;
use crate::failure::OrFail;
use crate::field::Twin;
use crate::joined::{Joined, coordinates, runs};
use crate::poly::{Evaluation, evaluate_shared_out, interpolate_shared_out};
use crate::report::{gathered, phase};
use crate::twiddles::{of_coset, over_devices};

/// [`circle_quotients::accumulate`] of columns of which some are in host memory: the sum of those of a few at a time.
fn accumulate_in_batches(
    stream: &Stream,
    columns: &[&BaseColumn],
    terms: &[(usize, QM31)],
    constant: QM31,
    rows: usize,
) -> Result<Matrix<Mersenne31>> {
    let mut sums: Option<Matrix<Mersenne31>> = None;
    for run in neighbours(columns) {
        let here = terms.iter().filter(|(column, _)| run.contains(column));
        let here: Vec<(usize, QM31)> = here.map(|&(column, factor)| (column - run.start, factor)).collect();
        if here.is_empty() {
            continue;
        }
        let brought = bring(columns, run.clone())?;
        let matrix = brought.columns(columns[run.start].len())?;
        let constant = if sums.is_none() { constant } else { QM31::ZERO };
        let part = circle_quotients::accumulate(stream, &[matrix], &here, constant, rows)?;
        match &mut sums {
            None => sums = Some(part),
            // Lifting to the same length is the identity.
            Some(sums) => circle_fold::lift_add(stream, sums.values_mut().view_mut(), part.values().view())?,
        }
    }
    sums.ok_or_else(|| Error::shape("CudaBackend", "a point at which no column is opened"))
}

/// The coefficients of the numerators of one point: `sum (c f - b) = sum c f - sum b`.
///
/// Over the complex extension, let the point's y be `y0 + y1 u`, and the value and the random coefficient of a column
/// be `v0 + v1 u` and r. Upstream's coefficients are `a = -2 r v1 u`, `b = 2 r (v1 y0 - v0 y1) u` and `c = -2 r y1 u`.
/// So their sums follow from `sum r v0` and `sum r v1`, which costs less than a and b of each column.
struct Numerator {
    /// The sum of all a.
    linear: SecureField,
    /// The sum of all b.
    constant: SecureField,
    /// The columns and their c.
    terms: Vec<(usize, QM31)>,
}

impl Numerator {
    fn new(batch: &ColumnSampleBatch) -> Self {
        let secure::QM31(y0, y1) = batch.point.y;
        assert!(!y1.is_zero(), "columns are opened at a point over the base field: {:?}", batch.point);
        let double_u = secure::QM31(CM31::zero(), CM31::from(BaseField::from_u32_unchecked(2)));
        let c = -double_u.mul_cm31(y1);
        let (mut sum_0, mut sum_1) = (SecureField::zero(), SecureField::zero());
        let mut terms = Vec::with_capacity(batch.cols_vals_randpows.len());
        for &NumeratorData { column_index, sample_value: secure::QM31(v0, v1), random_coeff } in
            &batch.cols_vals_randpows
        {
            sum_0 += random_coeff.mul_cm31(v0);
            sum_1 += random_coeff.mul_cm31(v1);
            terms.push((column_index, (random_coeff * c).twin()));
        }
        let constant = (sum_1.mul_cm31(y0) - sum_0.mul_cm31(y1)) * double_u;
        Self { linear: -sum_1 * double_u, constant, terms }
    }
}

/// The quotients on a subdomain, in blocks if any numerators are.
fn combine_on_subdomain(
    accs: Vec<AccumulatedNumerators<CudaBackend>>,
    subdomain: CircleDomain,
) -> Result<SecureColumnByCoords<CudaBackend>> {
    let columns = accs.iter().flat_map(|acc| &acc.partial_numerators_acc.columns);
    let devices =
        devices_of(columns).unwrap_or_else(|| vec![accs[0].partial_numerators_acc.columns[0].device().clone()]);
    let spread = |acc: AccumulatedNumerators<CudaBackend>| {
        Ok(AccumulatedNumerators {
            partial_numerators_acc: spread_slabs(acc.partial_numerators_acc, &devices)?,
            ..acc
        })
    };
    let accs = accs.into_iter().map(spread).collect::<Result<Vec<_>>>()?;
    let slabs: Vec<_> = accs.iter().map(|acc| Joined::slabs(&acc.partial_numerators_acc)).collect();
    let mut combined = Vec::with_capacity(devices.len());
    for (k, device) in devices.iter().enumerate() {
        let numerators = accs.iter().zip(&slabs).map(|(acc, slabs)| Numerators {
            point: acc.sample_point.twin(),
            values: slabs[k].view(),
            linear: acc.first_linear_term_acc.twin(),
        });
        let block = block_of(subdomain, k, devices.len());
        combined.push(circle_quotients::combine(&stream(device), &numerators.collect::<Vec<_>>(), block.twin())?);
    }
    Ok(from_slabs(combined))
}

impl QuotientOps for CudaBackend {
    fn accumulate_numerators(
        columns: &[&CircleEvaluation<Self, BaseField, BitReversedOrder>],
        sample_batches: &[ColumnSampleBatch],
        accumulated_numerators_vec: &mut Vec<AccumulatedNumerators<Self>>,
        log_blowup_factor: u32,
    ) {
        let _phase = phase("quotients");
        let values: Vec<_> = columns.iter().map(|column| &column.values).collect();
        let rows = columns[0].domain.size();
        let deferred = values.iter().any(|column| column.place().is_some());
        let rows = rows >> log_blowup_factor;
        let batches: Vec<Numerator> = sample_batches.iter().map(Numerator::new).collect();
        // For each batch its sums, or those of its blocks.
        let accumulate = || -> Result<Vec<Vec<Matrix<Mersenne31>>>> {
            if deferred {
                let stream = stream(values[0].device());
                let sums = |batch: &Numerator| {
                    let constant = batch.constant.twin();
                    Ok(vec![accumulate_in_batches(&stream, &values, &batch.terms, constant, rows)?])
                };
                return batches.iter().map(sums).collect();
            }
            let points: Vec<_> = batches.iter().map(|batch| (&batch.terms[..], batch.constant.twin())).collect();
            let mut sums: Vec<Vec<Matrix<Mersenne31>>> = batches.iter().map(|_| Vec::new()).collect();
            // The first rows are those of the first blocks, or a part of the first one.
            let blocks = by_device(&values).unwrap_or_else(|| vec![values.clone()]);
            let block_rows = rows.min(blocks[0][0].len());
            for columns in &blocks[..rows / block_rows] {
                let stream = stream(columns[0].device());
                let matrices = runs(columns).into_iter().map(|(_, run)| Columns::new(run, columns[0].len()));
                let matrices = matrices.collect::<Result<Vec<_>>>()?;
                let made = circle_quotients::accumulate_points(&stream, &matrices, &points, block_rows)?;
                sums.iter_mut().zip(made).for_each(|(sums, made)| sums.push(made));
            }
            Ok(sums)
        };
        let sums = accumulate().or_fail("accumulate the numerators of quotients");
        for ((batch, numerator), sums) in sample_batches.iter().zip(&batches).zip(sums) {
            accumulated_numerators_vec.push(AccumulatedNumerators {
                sample_point: batch.point,
                partial_numerators_acc: from_slabs(sums),
                first_linear_term_acc: numerator.linear,
            });
        }
    }

    fn compute_quotients_and_combine(
        accs: Vec<AccumulatedNumerators<Self>>,
        lifting_log_size: u32,
        log_blowup_factor: u32,
        twiddles: &TwiddleTree<Self>,
    ) -> SecureEvaluation<Self, BitReversedOrder> {
        let _phase = phase("quotients");
        let combine = || -> Result<_> {
            let domain = CanonicCoset::new(lifting_log_size).circle_domain();
            let (subdomain, _) = domain.split(log_blowup_factor);
            let team = team()?;
            if team.len() > subdomain.size() {
                let detail = format!("{} devices for {} rows; give at most as many", team.len(), subdomain.size());
                return Err(Error::shape("rigel_stwo::over", detail));
            }
            if team.len() > 1 && shared_out(domain.size())?.is_none() {
                let reason = format!("its longest columns have fewer than {LEAST_ROWS} rows a device");
                gathered(&team[0], "the proof", &reason);
            }
            let combined = combine_on_subdomain(accs, subdomain)?;
            // Extend from the subdomain to the whole domain.
            let values = if team.len() == 1 {
                // Numerators of columns that were committed to over several devices are in blocks.
                let device = combined.columns[0].device().clone();
                let mut quotients = into_slabs_on(combined, &[device])?.remove(0);
                let stream = stream(&quotients.values().device());
                let (rows, initial) = (subdomain.size(), subdomain.half_coset.initial.twin());
                let of_subdomain = of_coset(stream.device(), subdomain.half_coset)?;
                let tower = of_subdomain.itwiddles.tower()?;
                let values = quotients.values_mut().view_mut();
                circle::interpolate(&stream, values, rows, circle::Twiddles { tower, initial })?;
                let mut extended = Matrix::alloc(&stream, domain.size(), quotients.columns())?;
                let initial = domain.half_coset.initial.twin();
                let twiddles = circle::Twiddles { tower: twiddles.twiddles.tower()?, initial };
                let (to, log_domain) = (extended.values_mut().view_mut(), domain.log_size());
                circle::evaluate_into(&stream, to, log_domain, Columns::from(&quotients), twiddles)?;
                coordinates(extended)
            } else {
                let inverses = over_devices(&team, subdomain.half_coset)?;
                let values = combined.columns.into_iter().map(|column| Evaluation::new(subdomain, column));
                let polynomials = interpolate_shared_out(values.collect(), &inverses)?;
                let coefficients: Vec<_> = polynomials.iter().map(|polynomial| &polynomial.coeffs).collect();
                let columns = evaluate_shared_out(&coefficients, domain, twiddles)?.try_into();
                SecureColumnByCoords { columns: columns.expect("four coordinates") }
            };
            Ok(SecureEvaluation::new(domain, values))
        };
        let quotients: SecureEvaluation<Self, _> = combine().or_fail("compute quotients");
        Batch::of_layer(quotients.values.columns.each_ref(), None);
        set_query_domain(lifting_log_size);
        quotients
    }
}
