//! Slabs: columns of field elements of any degree, on the host. `slab.cuh` is the device counterpart.
//!
//! A slab is a column of n elements of degree D, stored as D adjacent columns over the base field: coefficient d of
//! element i is at `d n + i`.

use rigel_gpu::{Error, Result, View};

use crate::field::{Element, Ring};
use crate::layout::matrix::Matrix;

/// The slab of a column of elements.
pub fn to_slab<E: Element>(elements: &[E]) -> Vec<E::Base> {
    (0..E::DEGREE).flat_map(|d| elements.iter().map(move |element| element.parts()[d])).collect()
}

/// The elements of a slab; `None` if its length is not a multiple of the degree.
pub fn from_slab<E: Element>(slab: &[E::Base]) -> Option<Vec<E>> {
    let n = slab.len() / E::DEGREE;
    if n * E::DEGREE != slab.len() {
        return None;
    }
    let element = |i| E::from_parts(&(0..E::DEGREE).map(|d| slab[d * n + i]).collect::<Vec<_>>());
    (0..n).map(element).collect()
}

/// Embeds an element of the base field in the extension.
pub(crate) fn constant<E: Element>(x: E::Base) -> E {
    let mut parts = vec![E::Base::ZERO; E::DEGREE];
    parts[0] = x;
    E::from_parts(&parts).expect("as many coefficients as the degree")
}

/// The number of elements of a slab, which must not be empty.
pub(crate) fn slab_length<E: Element>(operation: &'static str, slab: View<'_, E::Base>) -> Result<usize> {
    if slab.is_empty() || !slab.len().is_multiple_of(E::DEGREE) {
        return Err(Error::shape(
            operation,
            format!(
                "{} values are not a slab over {}; the number must be a positive multiple of {}",
                slab.len(),
                E::NAME,
                E::DEGREE
            ),
        ));
    }
    Ok(slab.len() / E::DEGREE)
}

/// The number of columns of elements of a matrix over the base field, which must not be empty.
pub(crate) fn element_columns<E: Element>(operation: &'static str, matrix: &Matrix<E::Base>) -> Result<usize> {
    let (rows, columns) = (matrix.rows(), matrix.columns());
    if rows == 0 || columns == 0 {
        return Err(Error::shape(
            operation,
            format!("a matrix of {rows} rows and {columns} columns has no values"),
        ));
    }
    if columns % E::DEGREE != 0 {
        return Err(Error::shape(
            operation,
            format!(
                "{columns} columns over the base field; over {} the number must be a multiple of {}",
                E::NAME,
                E::DEGREE
            ),
        ));
    }
    Ok(columns / E::DEGREE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Goldilocks, Goldilocks2};

    #[test]
    fn slabs_keep_coefficients_together() {
        let [a, b, c, d] = [1, 2, 3, 4].map(Goldilocks::new);
        let elements = [Goldilocks2([a, b]), Goldilocks2([c, d])];
        assert_eq!(to_slab(&elements), [a, c, b, d]);
        assert_eq!(from_slab::<Goldilocks2>(&[a, c, b, d]).unwrap(), elements);
        assert!(from_slab::<Goldilocks2>(&[a, b, c]).is_none());
        assert_eq!(to_slab(&[a, b]), [a, b]);
        assert!(Goldilocks::from_parts(&[]).is_none());
    }
}
