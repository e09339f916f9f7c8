//! The operations of the HAL, by their subject: each takes upstream's buffers to Rigel's kernels.

mod combine;
mod commit;
mod constraints;
pub(crate) mod queries;
mod transform;
mod witness;

pub(crate) use witness::ACCUMULATION_PARTS;

use rigel_gpu::{Error, Result, View, ViewMut};
use rigel_kernels::field::{BabyBear, Field};

/// Upstream's root of unity of order 2^27, of which all others are powers.
pub(crate) const ROOT: BabyBear = BabyBear::new(137);
/// Upstream's shift of the domain on which columns are committed.
pub(crate) const SHIFT: BabyBear = BabyBear::new(3);

/// Words as elements of the base field.
fn base(view: View<'_, u32>) -> Result<View<'_, BabyBear>> {
    view.cast()
}

/// Words as elements of the base field, to be changed.
fn base_mut(view: ViewMut<'_, u32>) -> Result<ViewMut<'_, BabyBear>> {
    view.cast()
}

/// Converts stored words to elements of the base field.
fn base_elements(words: &[u32]) -> Vec<BabyBear> {
    words.iter().map(|&word| BabyBear::from_word(word)).collect()
}

fn wrong(detail: String) -> Error {
    Error::shape("RISC Zero's HAL", detail)
}
