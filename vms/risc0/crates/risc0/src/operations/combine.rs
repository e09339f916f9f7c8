//! The operations from openings to FRI: values at points, combinations, their division, and folds.

use std::collections::BTreeMap;

use rigel_gpu::Result;
use rigel_kernels::Columns;
use rigel_kernels::field::{Ring, RiscZero4};
use rigel_kernels::fri::fold_coefficients::fold_into;
use rigel_kernels::open::deep::{add_at, combine_into, divide_assign, sum_into};
use rigel_kernels::open::evaluate::evaluate_into;

use super::{base, base_mut, wrong};
use crate::hal::{Hal, element};
use crate::shim::{MatrixPart, Part};

impl Hal {
    /// The values of columns at points, the k-th column at the k-th point.
    pub(crate) fn evaluate(&self, out: Part, coefficients: MatrixPart, columns: Part, points: Part) -> Result<()> {
        let columns = columns.host_words(&self.stream)?;
        let points = points.host_elements(&self.stream)?;
        let queries: Vec<(u32, RiscZero4)> = columns.into_iter().zip(points).collect();
        let mut values = coefficients.contents()?;
        let values = Columns::new(base(values.view(&self.stream)?)?, coefficients.rows)?;
        let mut target = out.contents()?;
        let target = target.overwrite(&self.stream, None)?.cast()?;
        evaluate_into(&self.stream, target, values, &queries)
    }

    /// Adds `start mix^i` times column i to the combination that it belongs to.
    pub(crate) fn combine(
        &self,
        combos: MatrixPart,
        coefficients: MatrixPart,
        which: Part,
        start: RiscZero4,
        mix: RiscZero4,
    ) -> Result<()> {
        if combos.rows != coefficients.rows {
            return Err(wrong(format!("columns of {} rows added to {}", coefficients.rows, combos.rows)));
        }
        let mut terms: BTreeMap<u32, Vec<(u32, RiscZero4)>> = BTreeMap::new();
        let mut weight = start;
        for (column, combo) in which.host_words(&self.stream)?.into_iter().enumerate() {
            terms.entry(combo).or_default().push((column as u32, weight));
            weight *= mix;
        }
        let mut values = coefficients.contents()?;
        let values = Columns::new(base(values.view(&self.stream)?)?, coefficients.rows)?;
        let mut target = combos.contents()?;
        let mut target = target.device_mut(&self.stream)?.cast::<RiscZero4>()?;
        for (combo, terms) in terms {
            let first = combo as usize * combos.rows;
            let polynomial = target.reborrow().range(first..first + combos.rows)?;
            combine_into(&self.stream, polynomial, values, &terms)?;
        }
        Ok(())
    }

    /// Subtracts the interpolated openings, with the weights of their columns, from the lowest coefficients.
    pub(crate) fn subtract(&self, combos: MatrixPart, values: Part, infos: Part, mix: RiscZero4) -> Result<()> {
        let values = values.host_elements(&self.stream)?;
        // Group, column, combination and index of the coefficient.
        let infos = infos.host_words(&self.stream)?;
        let infos: Vec<&[u32]> = infos.chunks_exact(4).collect();
        let mut sums: BTreeMap<u64, RiscZero4> = BTreeMap::new();
        let mut weight = RiscZero4::ONE;
        for (i, (info, &value)) in infos.iter().zip(&values).enumerate() {
            let position = u64::from(info[2]) * combos.rows as u64 + u64::from(info[3]);
            *sums.entry(position).or_default() -= weight * value;
            if infos.get(i + 1).is_some_and(|next| next[..2] != info[..2]) {
                weight *= mix;
            }
        }
        let sums: Vec<(u64, RiscZero4)> = sums.into_iter().collect();
        add_at(&self.stream, combos.contents()?.device_mut(&self.stream)?.cast()?, &sums)
    }

    /// Divides combinations by X - z; nothing may remain.
    pub(crate) fn divide(&self, combos: MatrixPart, infos: Part) -> Result<()> {
        let infos = infos.host_words(&self.stream)?;
        let mut target = combos.contents()?;
        let mut target = target.device_mut(&self.stream)?.cast::<RiscZero4>()?;
        let mut remainders = self.stream.alloc::<RiscZero4>(infos.len() / 5)?;
        for (i, info) in infos.chunks_exact(5).enumerate() {
            let first = info[0] as usize * combos.rows;
            let polynomial = target.reborrow().range(first..first + combos.rows)?;
            let remainder =
                divide_assign(&self.stream, polynomial, element([info[1], info[2], info[3], info[4]]))?;
            self.stream.copy(remainders.range_mut(i..=i)?, &remainder)?;
        }
        match remainders.to_vec(&self.stream)?.iter().position(|&remainder| remainder != RiscZero4::ZERO) {
            Some(i) => Err(wrong(format!("division {i} of the openings leaves a remainder"))),
            None => Ok(()),
        }
    }

    /// The sum of the combinations, the polynomial for FRI.
    pub(crate) fn finalize(&self, out: MatrixPart, combos: MatrixPart) -> Result<()> {
        let mut polynomials = combos.contents()?;
        let polynomials = polynomials.view(&self.stream)?.cast()?;
        let mut target = out.contents()?;
        sum_into::<RiscZero4>(&self.stream, base_mut(target.overwrite(&self.stream, None)?)?, polynomials)
    }

    /// Folds a polynomial by 16.
    pub(crate) fn fold(&self, out: MatrixPart, coefficients: MatrixPart, mix: RiscZero4) -> Result<()> {
        let mut values = coefficients.contents()?;
        values.arrange(&self.stream, Some(coefficients.log_rows()?))?;
        let mut target = out.contents()?;
        let target = base_mut(target.overwrite(&self.stream, Some(out.log_rows()?))?)?;
        fold_into(&self.stream, target, base(values.stored()?)?, mix)
    }
}
