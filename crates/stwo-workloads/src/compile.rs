//! Compiling a statement's kernels ahead of its first proof.

use std::panic::resume_unwind;

use rigel_gpu::{Device, Result};
use stwo::core::fields::qm31::SecureField;
use stwo::prover::backend::Backend;

use crate::lookup::Elements;
use crate::statement::Provable;

/// Compiles the kernels of all components, if the backend has any, or finds them in the device's cache, and returns
/// their number. The device may be one that only compiles.
pub fn compile<B: Backend>(statement: &dyn Provable<B>, device: &Device) -> Result<usize> {
    let preprocessed: Vec<u32> = statement.preprocessed().iter().map(|column| column.domain.log_size()).collect();
    // Not in the base field, and all different, as the values of a proof are.
    let elements = Elements::placeholder(statement.relations());
    let components = 0..statement.log_sizes().len();
    let sums: Vec<SecureField> =
        components.clone().map(|i| SecureField::from_u32_unchecked(i as u32, 5, 6, 7)).collect();
    // All at once: one component alone does not keep all cores busy to its end.
    let compiled: Vec<Result<usize>> = std::thread::scope(|scope| {
        let compile = |component: usize| {
            let (elements, sums, preprocessed) = (&elements, &sums, &preprocessed);
            scope.spawn(move || statement.provers(elements, sums)[component].compile(device, preprocessed))
        };
        let threads: Vec<_> = components.map(compile).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    compiled.into_iter().sum()
}
