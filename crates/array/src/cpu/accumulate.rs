//! Running sums and products of rows, each from its first element to its last.

use rayon::prelude::*;
use rigel_codegen::map::Type;
use rigel_kernels::number::accumulate::Join;

use super::number::{Arithmetic, with_type};
use super::slices::{elements, with_elements_mut};

/// The running sums or products of rows of `n` elements.
///
/// # Panics
/// If the type has no sums, or the lengths differ.
pub(crate) fn accumulate(of: Type, join: Join, n: usize, from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a place for each element");
    with_type!(arithmetic of, T => {
        let join = match join {
            Join::Sum => <T as Arithmetic>::add,
            Join::Product => <T as Arithmetic>::mul,
        };
        // SAFETY: any bytes are numbers of these types.
        let from = unsafe { elements::<T>(from) };
        // SAFETY: as above.
        unsafe { with_elements_mut::<T, _>(to, |to| rows(&from, to, n, join)) }
    })
    .expect("a type with sums");
}

fn rows<T: Copy + Send + Sync>(from: &[T], to: &mut [T], n: usize, join: fn(T, T) -> T) {
    to.par_chunks_mut(n).zip(from.par_chunks(n)).for_each(|(to, from)| {
        let mut running = from[0];
        to[0] = running;
        for (to, &x) in to[1..].iter_mut().zip(&from[1..]) {
            running = join(running, x);
            *to = running;
        }
    });
}
