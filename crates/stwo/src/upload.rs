//! Uploads host columns.

use std::sync::Arc;

use rigel_gpu::{Device, Kernel, Result, Shape, Stream, ViewMut};
use rigel_kernels::code::source;
use rigel_kernels::field::Mersenne31;
use stwo::core::fields::m31::{BaseField, P};
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::CircleEvaluation;

use crate::CudaBackend;
use crate::blocks::homes;
use crate::deferred::{Deferred, HostColumn, batch_bytes};
use crate::device::{current, stream};
use crate::joined::split;
use crate::report::phase;

/// Uploads host columns to the [current](crate::current) device through pinned memory. Consecutive columns of the
/// same length become contiguous, so that transforms and hashes process them together. Within
/// [`in_column_batches`](crate::in_column_batches) the host keeps a copy instead, which goes up wherever it is read.
/// [Over several devices](crate::over), each gets a share of the columns of a length.
///
/// ```
/// use rigel_gpu::{Device, Selector};
/// use stwo::core::fields::m31::{BaseField, P};
/// use stwo::core::poly::circle::CanonicCoset;
/// use stwo::prover::backend::Column;
/// use stwo::prover::backend::simd::SimdBackend;
/// use stwo::prover::poly::circle::CircleEvaluation;
/// use stwo::prover::poly::BitReversedOrder;
///
/// # fn main() -> rigel_gpu::Result<()> {
/// let device = Device::open(Selector::Emulated(0))?; // or Device::from_env()
/// let domain = CanonicCoset::new(4).circle_domain();
/// let column = (0..16).map(BaseField::from_u32_unchecked).collect();
/// let trace = vec![CircleEvaluation::<SimdBackend, BaseField, BitReversedOrder>::new(domain, column)];
/// let there = rigel_stwo::on(&device, || rigel_stwo::upload(&trace))?;
/// assert_eq!(there[0].values.to_cpu(), trace[0].values.to_cpu());
/// # Ok(())
/// # }
/// ```
pub fn upload(
    columns: &[CircleEvaluation<SimdBackend, BaseField, BitReversedOrder>],
) -> Result<Vec<CircleEvaluation<CudaBackend, BaseField, BitReversedOrder>>> {
    let _phase = phase("upload");
    let mut uploaded = Vec::with_capacity(columns.len());
    for alike in columns.chunk_by(|a, b| a.domain.size() == b.domain.size()) {
        let rows = alike[0].domain.size();
        if let Some(bytes) = batch_bytes() {
            // Upstream's vectors may hold 2^31 - 1 for zero.
            let words = alike.iter().flat_map(|column| column.values.as_slice());
            let words = words.map(|word| Mersenne31::new(if word.0 == P { 0 } else { word.0 })).collect();
            let values = Deferred::plain(&current()?, HostColumn::split(words, rows), bytes);
            let there = alike.iter().zip(values);
            uploaded.extend(there.map(|(column, values)| CircleEvaluation::new(column.domain, values)));
            continue;
        }
        let homes = homes(alike.len(), rows)?;
        let mut rest = alike;
        for of_device in homes.chunk_by(|a, b| a.is(b)) {
            let (share, others) = rest.split_at(of_device.len());
            rest = others;
            let stream = stream(&of_device[0]);
            let mut words = stream.alloc::<u32>(rows * share.len())?;
            let slices: Vec<&[u32]> =
                share.iter().map(|column| bytemuck::cast_slice(column.values.as_slice())).collect();
            stream.write_joined(&mut words, &slices)?;
            let mut words = words.cast::<Mersenne31>()?;
            canonical(&stream, words.view_mut())?;
            let there = share.iter().zip(split(words, rows));
            uploaded.extend(there.map(|(column, values)| CircleEvaluation::new(column.domain, values)));
        }
    }
    Ok(uploaded)
}

/// The key of the compiled kernel.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Canonical;

/// The kernel that uploads end with.
pub(crate) fn kernel(device: &Device) -> Result<Arc<Kernel>> {
    device.kept(&Canonical, |device| {
        // SAFETY: the kernel accesses the `count` words that its one pointer leads to.
        let text = unsafe { source("canonical.cu", include_str!("../cuda/canonical.cu")) };
        Ok((device.compile(&text.kernel("canonical"))?.kernel("canonical")?, 0))
    })
}

/// Replaces 2^31 - 1 by 0: upstream's vectors may hold either for zero.
fn canonical(stream: &Stream, words: ViewMut<'_, Mersenne31>) -> Result<()> {
    let len = words.len();
    if len == 0 {
        return Ok(());
    }
    kernel(stream.device())?.launch(stream, Shape::cover(len.div_ceil(4), 256)?, (words, len as u64))
}
