//! FRI folds.

use rigel_kernels::fri::circle_fold;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::line::LineDomain;
use stwo::prover::fri::FriOps;
use stwo::prover::line::LineEvaluation;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::SecureEvaluation;
use stwo::prover::poly::twiddles::TwiddleTree;

use crate::CudaBackend;
use crate::batch::Batch;
use crate::device::stream;
use crate::failure::OrFail;
use crate::field::{Twin, secure};
use crate::joined::{Joined, coordinates};
use crate::report::phase;

impl FriOps for CudaBackend {
    fn fold_line(
        eval: &LineEvaluation<Self>,
        alpha: SecureField,
        twiddles: &TwiddleTree<Self>,
        fold_step: u32,
    ) -> LineEvaluation<Self> {
        let _phase = phase("fold");
        let columns = eval.values.columns.each_ref();
        let from = Batch::layer_of(&columns);
        let slab = Joined::slab(&eval.values);
        let folded = twiddles.itwiddles.tower().and_then(|tower| {
            circle_fold::line(&stream(columns[0].device()), slab.view(), alpha.twin(), tower, fold_step)
        });
        let domain = eval.domain().repeated_double(fold_step);
        let folded = LineEvaluation::new(domain, coordinates(folded.or_fail("fold a line")));
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
        let columns = src.values.columns.each_ref();
        let from = Batch::layer_of(&columns);
        let slab = Joined::slab(&src.values);
        let folded = twiddles.itwiddles.tower().and_then(|tower| {
            let initial = src.domain.half_coset.initial.twin();
            circle_fold::circle_to_line(&stream(columns[0].device()), slab.view(), alpha.twin(), tower, initial)
        });
        let domain = LineDomain::new(src.domain.half_coset);
        let folded = LineEvaluation::new(domain, coordinates(folded.or_fail("fold a circle into a line")));
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
