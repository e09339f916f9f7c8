//! Sums of columns.

use num_traits::One;
use rigel_gpu::{Device, Error, Result};
use rigel_kernels::Matrix;
use rigel_kernels::field::Mersenne31;
use rigel_kernels::fri::circle_fold;
use stwo::core::fields::qm31::SecureField;
use stwo::prover::AccumulationOps;
use stwo::prover::backend::Column;
use stwo::prover::secure_column::SecureColumnByCoords;

use crate::CudaBackend;
use crate::blocks;
use crate::column::{BaseColumn, by_device};
use crate::device::stream;
use crate::failure::OrFail;
use crate::joined::{Joined, coordinates, into_joined};
use crate::report::phase;

type Coordinates = SecureColumnByCoords<CudaBackend>;

/// Four coordinate columns as one slab, or as one slab for each of their blocks: one buffer with coordinate after
/// coordinate.
pub(crate) fn into_slabs(columns: Coordinates) -> Result<Vec<Matrix<Mersenne31>>> {
    let rows = columns.len();
    if by_device(&columns.columns.each_ref()).is_none() {
        return Ok(vec![Matrix::new(into_joined(columns.columns.into())?, rows, 4)?]);
    }
    let mut parts: Vec<_> = columns.columns.into_iter().map(|column| column.into_blocks().into_iter()).collect();
    let mut slabs = Vec::new();
    while let Some(part) = parts.iter_mut().map(Iterator::next).collect::<Option<Vec<_>>>() {
        let rows = part[0].len();
        slabs.push(Matrix::new(into_joined(part)?, rows, 4)?);
    }
    Ok(slabs)
}

/// The coordinate columns of a slab, or of those of their blocks.
pub(crate) fn from_slabs(mut slabs: Vec<Matrix<Mersenne31>>) -> Coordinates {
    if slabs.len() == 1 {
        return coordinates(slabs.remove(0));
    }
    let (rows, devices) = (slabs[0].rows(), slabs.iter().map(|slab| slab.values().device().clone()));
    let devices: Vec<Device> = devices.collect();
    blocks::coordinates(slabs.into_iter().map(Matrix::into_values).collect(), rows, &devices)
}

/// Coordinate columns in blocks on these devices, or whole on the only one: as they are or copied there.
pub(crate) fn spread_slabs(columns: Coordinates, devices: &[Device]) -> Result<Coordinates> {
    let columns = blocks::spread(&columns.columns.each_ref(), devices)?.try_into();
    Ok(Coordinates { columns: columns.expect("four coordinates") })
}

/// [`into_slabs`] of columns that are copied to these devices if they are elsewhere: a slab for each device.
pub(crate) fn into_slabs_on(columns: Coordinates, devices: &[Device]) -> Result<Vec<Matrix<Mersenne31>>> {
    let slabs = into_slabs(spread_slabs(columns, devices)?)?;
    same_blocks(slabs.len(), devices.len())?;
    Ok(slabs)
}

/// Refuses columns in other blocks than what they are computed with: there would be rows that nothing is added to.
fn same_blocks(found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let detail = format!(
        "columns in {found} blocks with columns in {expected}; make all columns of a proof within a scope of the \
         same devices"
    );
    Err(Error::shape("rigel_stwo::over", detail))
}

/// Takes the columns out, leaving empty ones.
pub(crate) fn take(columns: &mut Coordinates) -> Coordinates {
    let rooms = columns.columns.each_ref().map(|column| BaseColumn::room(column.device(), column.len()));
    std::mem::replace(columns, Coordinates { columns: rooms })
}

/// Adds a shorter slab, lifted, to each slab.
fn lift_add(slabs: &mut [Matrix<Mersenne31>], shorter: &Coordinates) -> Result<()> {
    let shorter = Joined::slabs(shorter);
    same_blocks(shorter.len(), slabs.len())?;
    for (slab, shorter) in slabs.iter_mut().zip(shorter) {
        let stream = stream(&slab.values().device());
        circle_fold::lift_add(&stream, slab.values_mut().view_mut(), shorter.view())?;
    }
    Ok(())
}

impl AccumulationOps for CudaBackend {
    fn accumulate(column: &mut Coordinates, other: &Coordinates) {
        let _phase = phase("accumulate");
        assert_eq!(column.len(), other.len(), "columns of one length");
        let mut add = || {
            let mut sums = into_slabs(take(column))?;
            let devices: Vec<Device> = sums.iter().map(|slab| slab.values().device().clone()).collect();
            // Lifting to the same length is the identity.
            lift_add(&mut sums, &spread_slabs(other.clone(), &devices)?)?;
            *column = from_slabs(sums);
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
                let mut longer = into_slabs(column)?;
                let devices: Vec<Device> = longer.iter().map(|slab| slab.values().device().clone()).collect();
                lift_add(&mut longer, &spread_slabs(sum, &devices)?)?;
                Ok(from_slabs(longer))
            };
            let added: Result<_> = add();
            sum = added.or_fail("lift and add columns");
        }
        Some(sum)
    }
}
