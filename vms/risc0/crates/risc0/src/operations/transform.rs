//! Transforms between evaluations and coefficients.
//!
//! Upstream's coefficients are in bit-reversed order and its evaluations in natural order. Here both are stored the
//! other way round (see [`crate::memory`]).

use rigel_gpu::Result;
use rigel_kernels::Columns;
use rigel_kernels::field::{BabyBear, Ring};
use rigel_kernels::transform::ntt::{self, Order};
use rigel_kernels::vector::powers::powers;
use rigel_kernels::vector::scale::scale_rows;

use super::{ROOT, SHIFT, base, base_mut, wrong};
use crate::hal::Hal;
use crate::shim::MatrixPart;

impl Hal {
    /// The columns in bit-reversed order.
    pub(crate) fn bit_reverse(&self, matrix: MatrixPart) -> Result<()> {
        matrix.contents()?.reverse(&self.stream, matrix.log_rows()?)
    }

    /// Coefficients in place of evaluations.
    pub(crate) fn interpolate(&self, matrix: MatrixPart) -> Result<()> {
        let log_rows = matrix.log_rows()?;
        let mut values = matrix.contents()?;
        let order = match values.settle(&self.stream, log_rows)? {
            Some(_) => Order::BitReversed,
            None => Order::Natural,
        };
        let values = base_mut(values.stored_mut(Some(log_rows))?)?;
        ntt::inverse_assign(&self.stream, values, matrix.rows, order, ROOT)
    }

    /// Coefficient k times 3^k: evaluations will be on the coset of 3.
    pub(crate) fn shift(&self, matrix: MatrixPart) -> Result<()> {
        let log_rows = matrix.log_rows()?;
        let mut values = matrix.contents()?;
        values.arrange(&self.stream, Some(log_rows))?;
        let factors = powers(&self.stream, BabyBear::ONE, SHIFT, matrix.rows)?;
        scale_rows(&self.stream, base_mut(values.stored_mut(Some(log_rows))?)?, factors.values().view())
    }

    /// Evaluations on a larger domain.
    pub(crate) fn expand(&self, out: MatrixPart, coefficients: MatrixPart) -> Result<()> {
        let (log_out, log_rows) = (out.log_rows()?, coefficients.log_rows()?);
        if out.columns != coefficients.columns || log_out < log_rows {
            return Err(wrong(format!(
                "{} x {} coefficients evaluated to {} x {}",
                coefficients.rows, coefficients.columns, out.rows, out.columns
            )));
        }
        let mut values = coefficients.contents()?;
        values.arrange(&self.stream, Some(log_rows))?;
        let values = Columns::new(base(values.stored()?)?, coefficients.rows)?;
        let mut target = out.contents()?;
        let target = base_mut(target.overwrite(&self.stream, Some(log_out))?)?;
        ntt::evaluate_into(&self.stream, target, values, log_out - log_rows, ROOT)
    }
}
