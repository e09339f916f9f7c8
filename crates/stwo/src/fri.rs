//! FRI folds.

use rigel_gpu::{Result, Stream, View};
use rigel_kernels::Matrix;
use rigel_kernels::field::Mersenne31;
use rigel_kernels::fri::circle_fold;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::line::LineDomain;
use stwo::prover::fri::FriOps;
use stwo::prover::line::LineEvaluation;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::SecureEvaluation;
use stwo::prover::poly::twiddles::TwiddleTree;
use stwo::prover::secure_column::SecureColumnByCoords;

use crate::CudaBackend;
use crate::accumulation::from_slabs;
use crate::batch::Batch;
use crate::blocks::{LEAST_ROWS, bring};
use crate::device::stream;
use crate::failure::OrFail;
use crate::field::{Twin, secure};
use crate::joined::{Joined, coordinates};
use crate::report::phase;

/// Folds the values of a layer: each block with its twiddles, until blocks are small; then the first device has the
/// layer.
fn fold_layer(
    values: &SecureColumnByCoords<CudaBackend>,
    twiddles: &TwiddleTree<CudaBackend>,
    halvings: u32,
    fold: impl Fn(&Stream, View<'_, Mersenne31>, View<'_, Mersenne31>) -> Result<Matrix<Mersenne31>>,
) -> Result<SecureColumnByCoords<CudaBackend>> {
    let whole;
    let mut slabs = Joined::slabs(values);
    let blocks = slabs.len();
    // A block that would be folded to less than one row.
    if blocks > 1 && (values.len() / blocks) >> halvings == 0 {
        whole = to_first(values.clone())?;
        slabs = Joined::slabs(&whole);
    }
    if let [slab] = &slabs[..] {
        let stream = stream(&slab.view().device());
        let folded = fold(&stream, slab.view(), twiddles.itwiddles.tower_on(stream.device())?)?;
        return Ok(coordinates(folded));
    }
    let mut folded = Vec::with_capacity(blocks);
    for (k, slab) in slabs.iter().enumerate() {
        let stream = stream(&slab.view().device());
        folded.push(fold(&stream, slab.view(), twiddles.itwiddles.block(k, blocks)?)?);
    }
    let is_small = folded[0].rows() < LEAST_ROWS;
    let folded = from_slabs(folded);
    if is_small { to_first(folded) } else { Ok(folded) }
}

/// A layer on the first device.
fn to_first(values: SecureColumnByCoords<CudaBackend>) -> Result<SecureColumnByCoords<CudaBackend>> {
    let first = vec![values.columns[0].device().clone(); 4];
    let columns = bring(values.columns.into(), &first)?.try_into();
    Ok(SecureColumnByCoords { columns: columns.expect("four coordinates") })
}

impl FriOps for CudaBackend {
    fn fold_line(
        eval: &LineEvaluation<Self>,
        alpha: SecureField,
        twiddles: &TwiddleTree<Self>,
        fold_step: u32,
    ) -> LineEvaluation<Self> {
        let _phase = phase("fold");
        let from = Batch::layer_of(&eval.values.columns.each_ref());
        let folded = fold_layer(&eval.values, twiddles, fold_step, |stream, slab, tower| {
            circle_fold::line(stream, slab, alpha.twin(), tower, fold_step)
        });
        let domain = eval.domain().repeated_double(fold_step);
        let folded = LineEvaluation::new(domain, folded.or_fail("fold a line"));
        if let Some(from) = from {
            from.folded(fold_step);
        }
        Batch::of_layer(folded.values.columns.each_ref(), None);
        folded
    }

    fn fold_circle_into_line(
        src: &SecureEvaluation<Self, BitReversedOrder>,
        alpha: SecureField,
        twiddles: &TwiddleTree<Self>,
    ) -> LineEvaluation<Self> {
        let _phase = phase("fold");
        let from = Batch::layer_of(&src.values.columns.each_ref());
        // Only tiny domains, which are never in blocks, read the first point.
        let initial = src.domain.half_coset.initial.twin();
        let folded = fold_layer(&src.values, twiddles, 1, |stream, slab, tower| {
            circle_fold::circle_to_line(stream, slab, alpha.twin(), tower, initial)
        });
        let domain = LineDomain::new(src.domain.half_coset);
        let folded = LineEvaluation::new(domain, folded.or_fail("fold a circle into a line"));
        if let Some(from) = &from {
            from.folded(1);
        }
        Batch::of_layer(folded.values.columns.each_ref(), from.as_ref());
        folded
    }

    fn decompose(
        eval: &SecureEvaluation<Self, BitReversedOrder>,
    ) -> (SecureEvaluation<Self, BitReversedOrder>, SecureField) {
        let slab = Joined::slab(&eval.values);
        let stream = stream(eval.values.columns[0].device());
        let (values, lambda) = circle_fold::decompose(&stream, slab.view()).or_fail("decompose a polynomial");
        (SecureEvaluation::new(eval.domain, coordinates(values)), secure(lambda))
    }
}
