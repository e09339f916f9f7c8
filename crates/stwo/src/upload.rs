//! Uploads host columns, as they are or as polynomials.

use std::cmp::Reverse;
use std::sync::Arc;

use rigel_gpu::{Device, DeviceKind, Error, Kernel, Result, Shape, Stream, ViewMut};
use rigel_kernels::Columns;
use rigel_kernels::code::source;
use rigel_kernels::commit::lifted::{BLOCK, LiftedInParts};
use rigel_kernels::field::Mersenne31;
use rigel_kernels::hash::Blake2s;
use rigel_kernels::layout::parts::Parts;
use rigel_kernels::transform::circle;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::poly::circle::{CanonicCoset, CircleDomain};
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::{CircleCoefficients, CircleEvaluation};
use stwo::prover::poly::twiddles::TwiddleTree;

use crate::CudaBackend;
use crate::blocks::homes;
use crate::column::{BaseColumn, Leaves};
use crate::deferred::{Deferred, HostColumn, batch_bytes};
use crate::device::{current, stream, team};
use crate::joined::{split, split_values};
use crate::poly;
use crate::report::{phase, phase_of};

/// A column in host memory.
type HostEvaluation = CircleEvaluation<SimdBackend, BaseField, BitReversedOrder>;

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
    columns: &[HostEvaluation],
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
            let mut words = stream.alloc(rows * share.len())?;
            write(&stream, words.view_mut(), &share.iter().collect::<Vec<_>>())?;
            canonical(&stream, words.view_mut())?;
            let there = share.iter().zip(split(words, rows));
            uploaded.extend(there.map(|(column, values)| CircleEvaluation::new(column.domain, values)));
        }
    }
    Ok(uploaded)
}

/// Uploads host columns as polynomials, for upstream's `TreeBuilder::extend_polys`. Columns that have arrived are
/// interpolated, extended for a commitment with this blowup factor, and, if all have one length, hashed into the tree's
/// leaves while the rest travels. So it takes less time than [`upload`] and `extend_evals`, which give the same proof.
///
/// The extensions and leaves are kept with the polynomials until a tree is made of them, in as much memory as it takes
/// then. The leaves serve if these columns are the first of the tree, and it is not lifted to a larger domain; if there
/// is no memory for them beside the coefficients, they are hashed with the tree. The evaluations of an earlier proof in
/// a `BaseColumnPool` of upstream's are not reused for the extensions. A blowup factor that is not that of the
/// commitment scheme costs time and changes nothing else. Within [`in_column_batches`](crate::in_column_batches) and
/// [over several devices](crate::over), columns are uploaded first and interpolated then.
///
/// ```
/// use rigel_gpu::{Device, Selector};
/// use stwo::core::fields::m31::{BaseField, P};
/// use stwo::core::poly::circle::CanonicCoset;
/// use stwo::prover::backend::Column;
/// use stwo::prover::backend::simd::SimdBackend;
/// use stwo::prover::poly::circle::{CircleEvaluation, PolyOps};
/// use stwo::prover::poly::BitReversedOrder;
/// use rigel_stwo::CudaBackend;
///
/// # fn main() -> rigel_gpu::Result<()> {
/// let device = Device::open(Selector::Emulated(0))?; // or Device::from_env()
/// let domain = CanonicCoset::new(4).circle_domain();
/// let column = (0..16).map(BaseField::from_u32_unchecked).collect();
/// let trace = vec![CircleEvaluation::<SimdBackend, BaseField, BitReversedOrder>::new(domain, column)];
/// let polynomials = rigel_stwo::on(&device, || {
///     // In a proof, those of the commitment scheme. A blowup factor of 2^1 doubles the domain.
///     let twiddles = CudaBackend::precompute_twiddles(CanonicCoset::new(5).circle_domain().half_coset);
///     rigel_stwo::upload_polynomials(&trace, 1, &twiddles)
/// })?;
/// let twiddles = SimdBackend::precompute_twiddles(domain.half_coset);
/// let expected = trace[0].clone().interpolate_with_twiddles(&twiddles);
/// assert_eq!(polynomials[0].coeffs.to_cpu(), expected.coeffs.to_cpu());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Twiddles of a smaller domain than the extended columns have, too little memory, a lost device.
pub fn upload_polynomials(
    columns: &[HostEvaluation],
    log_blowup_factor: u32,
    twiddles: &TwiddleTree<CudaBackend>,
) -> Result<Vec<CircleCoefficients<CudaBackend>>> {
    if batch_bytes().is_some() || team()?.len() > 1 {
        return poly::interpolate_all(upload(columns)?, twiddles);
    }
    let stream = stream(&current()?);
    let device = stream.device();
    let lane = device.new_stream()?;
    // The longest first. Those of one length become contiguous, as they are in the tree.
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|&i| Reverse(columns[i].domain.log_size()));
    let mut groups = Vec::new();
    for alike in order.chunk_by(|&a, &b| columns[a].domain == columns[b].domain) {
        let extended = extended_domain(columns[alike[0]].domain, log_blowup_factor, twiddles)?;
        let words = stream.alloc::<Mersenne31>(columns[alike[0]].domain.size() * alike.len())?;
        groups.push((alike, extended, words, stream.alloc::<Mersenne31>(extended.size() * alike.len())?));
    }
    // Copies overlap everything from here on.
    lane.wait_for(&stream)?;
    let mut polynomials: Vec<Option<CircleCoefficients<_>>> = columns.iter().map(|_| None).collect();
    for (alike, extended, mut words, mut values) in groups {
        let of_domain: Vec<&HostEvaluation> = alike.iter().map(|&i| &columns[i]).collect();
        let (rows, size) = (of_domain[0].domain.size(), extended.size());
        let parts = parts(alike.len(), rows, least_in_parts(device));
        // Other columns of the tree might be shorter, and would come first.
        let is_tree = alike.len() == columns.len() && !parts.is_one();
        let leaves = is_tree.then(|| LiftedInParts::<Blake2s>::new(&stream, extended.log_size()));
        let mut leaves = match leaves.transpose() {
            Err(Error::OutOfMemory { .. }) => None,
            leaves => leaves?,
        };
        for part in parts {
            let mut arriving = words.range_mut(part.start * rows..part.end * rows)?;
            {
                let _phase = phase_of(&lane, "upload");
                write(&lane, arriving.reborrow(), &of_domain[part.clone()])?;
            }
            stream.wait_for(&lane)?;
            let mut to = values.range_mut(part.start * size..part.end * size)?;
            extend(&stream, arriving, to.reborrow(), (of_domain[0].domain, extended), twiddles)?;
            // The last part is absorbed when the tree is made.
            if let Some(leaves) = leaves.as_mut().filter(|_| part.end < alike.len()) {
                let _phase = phase("merkle tree");
                leaves.absorb(&stream, &[Columns::new(to.view(), size)?])?;
            }
        }
        let values = split_values(values, extended, rows);
        if let Some(begun) = leaves {
            let columns = values[..begun.absorbed()].iter().map(BaseColumn::id).collect();
            values[0].keep_leaves(Leaves { begun, columns });
        }
        let made = split(words, rows).into_iter().zip(values);
        for (&i, (coefficients, values)) in alike.iter().zip(made) {
            coefficients.keep_extension(extended, values);
            polynomials[i] = Some(CircleCoefficients::new(coefficients));
        }
    }
    Ok(polynomials.into_iter().map(|made| made.expect("one for each column")).collect())
}

/// Interpolates columns that have arrived, in place, and evaluates them on a larger domain.
fn extend(
    stream: &Stream,
    mut columns: ViewMut<'_, Mersenne31>,
    values: ViewMut<'_, Mersenne31>,
    (domain, extended): (CircleDomain, CircleDomain),
    twiddles: &TwiddleTree<CudaBackend>,
) -> Result<()> {
    let rows = domain.size();
    {
        let _phase = phase("interpolate");
        canonical(stream, columns.reborrow())?;
        let twiddles = poly::of_domain(&twiddles.itwiddles, domain, stream.device())?;
        circle::interpolate(stream, columns.reborrow(), rows, twiddles)?;
    }
    let _phase = phase("evaluate");
    let twiddles = poly::of_domain(&twiddles.twiddles, extended, stream.device())?;
    circle::evaluate_into(stream, values, extended.log_size(), Columns::new(columns.view(), rows)?, twiddles)
}

/// The parts in which columns of one length travel.
pub(crate) fn parts(columns: usize, rows: usize, least_bytes: usize) -> Parts {
    Parts::few(columns, rows * size_of::<Mersenne31>(), BLOCK, least_bytes)
}

/// The least bytes of columns that travel in parts. Of 400 MB, three parts cost an H200's host a millisecond more than
/// the work that overlaps them takes; of 1.7 GB they gain two, and four parts with leaves two or three more. The
/// emulated device, which is there to test, has parts of small columns, too.
pub(crate) fn least_in_parts(device: &Device) -> usize {
    match device.kind() {
        DeviceKind::Emulated => 4 << 20,
        _ => 1 << 30,
    }
}

/// The domain on which a column is committed to.
fn extended_domain(
    domain: CircleDomain,
    log_blowup_factor: u32,
    twiddles: &TwiddleTree<CudaBackend>,
) -> Result<CircleDomain> {
    let (log_size, known) =
        (domain.log_size().saturating_add(log_blowup_factor), twiddles.root_coset.log_size() + 1);
    if log_size > known {
        let detail = format!(
            "2^{} rows extended by 2^{log_blowup_factor} have a domain of 2^{log_size}, and the twiddles are those of \
             2^{known}; precompute them for the larger one",
            domain.log_size()
        );
        return Err(Error::shape("rigel_stwo::upload_polynomials", detail));
    }
    Ok(CanonicCoset::new(log_size).circle_domain())
}

/// Copies host columns of one length to contiguous memory, where 2^31 - 1 may stand for zero.
fn write(stream: &Stream, to: ViewMut<'_, Mersenne31>, columns: &[&HostEvaluation]) -> Result<()> {
    let slices: Vec<&[u32]> =
        columns.iter().map(|column| bytemuck::cast_slice(column.values.as_slice())).collect();
    stream.write_joined(to.cast::<u32>()?, &slices)
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
