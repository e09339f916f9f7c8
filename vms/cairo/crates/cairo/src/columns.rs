//! Columns of upstream's types.

use stwo::core::fields::m31::BaseField;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::CircleEvaluation;

/// A column of a backend.
pub(crate) type Evaluation<B> = CircleEvaluation<B, BaseField, BitReversedOrder>;

/// A column in host memory, as upstream's witness makes it.
pub(crate) type HostColumn = Evaluation<SimdBackend>;
