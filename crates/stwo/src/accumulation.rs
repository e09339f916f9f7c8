//! Sums of columns.

use num_traits::One;
use rigel_gpu::Result;
use rigel_kernels::Matrix;
use rigel_kernels::field::Mersenne31;
use rigel_kernels::fri::circle_fold;
use stwo::core::fields::qm31::SecureField;
use stwo::prover::AccumulationOps;
use stwo::prover::backend::Column;
use stwo::prover::secure_column::SecureColumnByCoords;

use crate::CudaBackend;
use crate::column::BaseColumn;
use crate::device::stream;
use crate::failure::OrFail;
use crate::joined::{Joined, coordinates, into_joined};
use crate::report::phase;

type Coordinates = SecureColumnByCoords<CudaBackend>;

/// Four coordinate columns as one slab: one buffer with coordinate after coordinate.
pub(crate) fn into_slab(columns: Coordinates) -> Result<Matrix<Mersenne31>> {
    let rows = columns.len();
    Matrix::new(into_joined(columns.columns.into())?, rows, 4)
}

/// Takes the columns out, leaving empty ones.
pub(crate) fn take(columns: &mut Coordinates) -> Coordinates {
    let rooms = columns.columns.each_ref().map(|column| BaseColumn::room(column.device(), column.len()));
    std::mem::replace(columns, Coordinates { columns: rooms })
}

impl AccumulationOps for CudaBackend {
    fn accumulate(column: &mut Coordinates, other: &Coordinates) {
        let _phase = phase("accumulate");
        assert_eq!(column.len(), other.len(), "columns of one length");
        let mut add = || {
            let stream = stream(column.columns[0].device());
            let mut sum = into_slab(take(column))?;
            // Lifting to the same length is the identity.
            circle_fold::lift_add(&stream, sum.values_mut().view_mut(), Joined::slab(other).view())?;
            *column = coordinates(sum);
            Ok(())
        };
        let added: Result<()> = add();
        added.or_fail("add columns");
    }

    fn generate_secure_powers(felt: SecureField, n_powers: usize) -> Vec<SecureField> {
        std::iter::successors(Some(SecureField::one()), |power| Some(*power * felt)).take(n_powers).collect()
    }

    fn lift_and_accumulate(cols: Vec<Coordinates>) -> Option<Coordinates> {
        let _phase = phase("accumulate");
        let mut columns = cols.into_iter();
        let mut sum = columns.next()?;
        for column in columns {
            let add = || {
                let stream = stream(column.columns[0].device());
                let mut longer = into_slab(column)?;
                circle_fold::lift_add(&stream, longer.values_mut().view_mut(), Joined::slab(&sum).view())?;
                Ok(coordinates(longer))
            };
            let added: Result<_> = add();
            sum = added.or_fail("lift and add columns");
        }
        Some(sum)
    }
}
