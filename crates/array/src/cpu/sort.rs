//! The order that sorts rows.

use std::cmp::Ordering;

use rayon::prelude::*;
use rigel_codegen::map::Type;

use super::number::with_type;
use super::slices::elements;

/// The places of each row of `n` keys in increasing order of the keys: stable, with NaN last.
///
/// # Panics
/// If the type has no order.
pub(crate) fn order(of: Type, n: usize, keys: &[u8], out: &mut [i64]) {
    with_type!(ordered of, T => {
        // SAFETY: any bytes are numbers of these types.
        let keys = unsafe { elements::<T>(keys) };
        rows(&keys, n, out);
    })
    .expect("a type with an order");
}

#[allow(clippy::eq_op)] // only NaN differs from itself
fn rows<T: Copy + PartialOrd + Send + Sync>(keys: &[T], n: usize, out: &mut [i64]) {
    out.par_chunks_mut(n).zip(keys.par_chunks(n)).for_each(|(out, keys)| {
        out.iter_mut().zip(0..).for_each(|(place, i)| *place = i);
        out.sort_by(|&a, &b| {
            let (a, b) = (keys[a as usize], keys[b as usize]);
            a.partial_cmp(&b).unwrap_or_else(|| match (a != a, b != b) {
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ => Ordering::Equal,
            })
        });
    });
}
