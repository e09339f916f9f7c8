//! Quotients of openings, for FRI.

use rigel_gpu::{Error, Result, Stream};
use rigel_kernels::field::{Mersenne31, QM31, Ring};
use rigel_kernels::fri::circle_fold;
use rigel_kernels::open::circle_quotients::{self, Numerators};
use rigel_kernels::transform::circle;
use rigel_kernels::{Columns, Matrix};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::pcs::quotients::{ColumnSampleBatch, quotient_constants};
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::QuotientOps;
use stwo::prover::backend::Column;
use stwo::prover::pcs::quotient_ops::AccumulatedNumerators;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::{CircleEvaluation, SecureEvaluation};
use stwo::prover::poly::twiddles::TwiddleTree;

use crate::CudaBackend;
use crate::batch::{Batch, set_query_domain};
use crate::column::BaseColumn;
use crate::deferred::{bring, neighbours};
use crate::device::stream;
use crate::failure::OrFail;
use crate::field::Twin;
use crate::joined::{Joined, coordinates, runs};
use crate::report::phase;
use crate::twiddles::of_coset;

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
struct Numerator {
    /// The sum of all a.
    linear: SecureField,
    /// The sum of all b.
    constant: SecureField,
    /// The columns and their c.
    terms: Vec<(usize, QM31)>,
}

impl Numerator {
    fn new(batch: &ColumnSampleBatch, coefficients: &[(SecureField, SecureField, SecureField)]) -> Self {
        let (mut linear, mut constant) = (SecureField::default(), SecureField::default());
        let mut terms = Vec::with_capacity(coefficients.len());
        for (column, &(a, b, c)) in batch.cols_vals_randpows.iter().zip(coefficients) {
            linear += a;
            constant += b;
            terms.push((column.column_index, c.twin()));
        }
        Self { linear, constant, terms }
    }
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
        let coefficients = quotient_constants(sample_batches).line_coeffs;
        let batches = sample_batches.iter().zip(&coefficients);
        let batches: Vec<Numerator> = batches.map(|(batch, terms)| Numerator::new(batch, terms)).collect();
        let accumulate = || -> Result<Vec<Matrix<Mersenne31>>> {
            let stream = stream(values[0].device());
            if deferred {
                let sums = |batch: &Numerator| {
                    accumulate_in_batches(&stream, &values, &batch.terms, batch.constant.twin(), rows)
                };
                return batches.iter().map(sums).collect();
            }
            let columns = runs(&values).into_iter().map(|(_, run)| Columns::new(run, values[0].len()));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let points: Vec<_> = batches.iter().map(|batch| (&batch.terms[..], batch.constant.twin())).collect();
            circle_quotients::accumulate_points(&stream, &columns, &points, rows)
        };
        let sums = accumulate().or_fail("accumulate the numerators of quotients");
        for ((batch, numerator), sums) in sample_batches.iter().zip(&batches).zip(sums) {
            accumulated_numerators_vec.push(AccumulatedNumerators {
                sample_point: batch.point,
                partial_numerators_acc: coordinates(sums),
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
            let stream = stream(accs[0].partial_numerators_acc.columns[0].device());
            let domain = CanonicCoset::new(lifting_log_size).circle_domain();
            let (subdomain, _) = domain.split(log_blowup_factor);
            let slabs: Vec<_> = accs.iter().map(|acc| Joined::slab(&acc.partial_numerators_acc)).collect();
            let numerators: Vec<_> = accs
                .iter()
                .zip(&slabs)
                .map(|(acc, slab)| Numerators {
                    point: acc.sample_point.twin(),
                    values: slab.view(),
                    linear: acc.first_linear_term_acc.twin(),
                })
                .collect();
            let mut quotients = circle_quotients::combine(&stream, &numerators, subdomain.twin())?;
            // Extend from the subdomain to the whole domain.
            let (rows, initial) = (subdomain.size(), subdomain.half_coset.initial.twin());
            let of_subdomain = of_coset(stream.device(), subdomain.half_coset)?;
            let tower = of_subdomain.itwiddles.tower()?;
            let values = quotients.values_mut().view_mut();
            circle::interpolate(&stream, values, rows, circle::Twiddles { tower, initial })?;
            let mut extended = Matrix::alloc(&stream, domain.size(), quotients.columns())?;
            let twiddles =
                circle::Twiddles { tower: twiddles.twiddles.tower()?, initial: domain.half_coset.initial.twin() };
            let (to, log_domain) = (extended.values_mut().view_mut(), domain.log_size());
            circle::evaluate_into(&stream, to, log_domain, Columns::from(&quotients), twiddles)?;
            Ok(SecureEvaluation::new(domain, coordinates(extended)))
        };
        let quotients: SecureEvaluation<Self, _> = combine().or_fail("compute quotients");
        Batch::of_layer(quotients.values.columns.each_ref(), None);
        set_query_domain(lifting_log_size);
        quotients
    }
}
