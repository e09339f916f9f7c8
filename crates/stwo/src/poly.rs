//! Circle polynomials: transforms, and values at points.

use std::collections::{BTreeMap, BTreeSet};

use rigel_gpu::{Buffer, Device, Error, Result};
use rigel_kernels::Columns;
use rigel_kernels::field::Mersenne31;
use rigel_kernels::fri::circle_fold;
use rigel_kernels::transform::circle::{self, Twiddles};
use stwo::core::circle::{CirclePoint, Coset};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::{CanonicCoset, CircleDomain};
use stwo::core::poly::utils::get_folding_alphas;
use stwo::prover::Poly;
use stwo::prover::backend::{Backend, Column};
use stwo::prover::mempool::BaseColumnPool;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::{CircleCoefficients, CircleEvaluation, PolyOps};
use stwo::prover::poly::twiddles::TwiddleTree;

use crate::CudaBackend;
use crate::batch::{Batch, Form, Opening};
use crate::blocks;
use crate::column::{BaseColumn, Blocks, Plan, SecureColumn};
use crate::deferred::transfer::{neighbours, to_host};
use crate::deferred::{Deferred, HostColumn, batch_bytes};
use crate::device::{device, known, load_kernels, stream, team};
use crate::failure::OrFail;
use crate::field::{Twin, secure};
use crate::joined::{into_joined, runs, split, split_values};
use crate::report::phase;
use crate::twiddles::{self, over_devices};

pub(crate) type Evaluation = CircleEvaluation<CudaBackend, BaseField, BitReversedOrder>;
type Coefficients = CircleCoefficients<CudaBackend>;

/// The twiddles of a domain on a device, from a tower that contains them.
pub(crate) fn of_domain<'a>(
    tower: &'a twiddles::Twiddles,
    domain: CircleDomain,
    device: &Device,
) -> Result<Twiddles<'a>> {
    Ok(Twiddles { tower: tower.tower_on(device)?, initial: domain.half_coset.initial.twin() })
}

/// Columns that are shared out for interpolation: a share of them whole on each device, or if they are few or short, as
/// they are. Without several devices nothing moves.
fn to_homes(columns: Vec<Evaluation>) -> Result<Vec<Evaluation>> {
    let devices = team()?;
    if devices.len() == 1 {
        return Ok(columns);
    }
    let mut homes = Vec::with_capacity(columns.len());
    for alike in columns.chunk_by(|a, b| a.domain == b.domain) {
        homes.extend(blocks::homes(alike.len(), alike[0].domain.size())?);
    }
    // A column that is interpolated alone goes where its maker wants it, or stays where it is.
    if let ([column], [home]) = (&columns[..], &mut homes[..]) {
        let at = column.values.blocks().map_or_else(|| column.values.device(), Blocks::home);
        if devices.iter().any(|device| device.is(at)) {
            *home = at.clone();
        }
    }
    let (domains, values): (Vec<_>, Vec<_>) =
        columns.into_iter().map(|column| (column.domain, column.values)).unzip();
    let values = blocks::bring(values, &homes)?;
    Ok(domains.into_iter().zip(values).map(|(domain, values)| Evaluation::new(domain, values)).collect())
}

/// Interpolates contiguous columns of one domain: in place, or in a copy if clones of them have the same memory.
fn interpolate_run(
    columns: Vec<BaseColumn>,
    domain: CircleDomain,
    twiddles: &TwiddleTree<CudaBackend>,
) -> Result<impl Iterator<Item = Coefficients>> {
    let rows = domain.size();
    let stream = stream(columns[0].device());
    let mut values = into_joined(columns)?;
    let twiddles = of_domain(&twiddles.itwiddles, domain, stream.device())?;
    circle::interpolate(&stream, values.view_mut(), rows, twiddles)?;
    Ok(split(values, rows).into_iter().map(Coefficients::new))
}

/// The evaluations of polynomials of one size, contiguous in memory: in `room` if it has that length, else in new
/// memory.
fn evaluate_same(
    polynomials: &[&BaseColumn],
    domain: CircleDomain,
    twiddles: &TwiddleTree<CudaBackend>,
    room: Option<Buffer<Mersenne31>>,
) -> Result<Vec<BaseColumn>> {
    let (rows, size) = (polynomials[0].len(), domain.size());
    let stream = stream(polynomials[0].device());
    let mut values = match room.filter(|room| room.len() == size * polynomials.len()) {
        Some(room) => room,
        None => stream.alloc(size * polynomials.len())?,
    };
    for (first, run) in runs(polynomials) {
        let to = values.range_mut(first * size..(first + run.len() / rows) * size)?;
        let twiddles = of_domain(&twiddles.twiddles, domain, stream.device())?;
        circle::evaluate_into(&stream, to, domain.log_size(), Columns::new(run, rows)?, twiddles)?;
    }
    Ok(split_values(values, domain, rows))
}

/// The evaluations of polynomials of one size: in blocks over several devices, or whole on the current one.
pub(crate) fn evaluate_shared_out(
    polynomials: &[&BaseColumn],
    domain: CircleDomain,
    twiddles: &TwiddleTree<CudaBackend>,
) -> Result<Vec<BaseColumn>> {
    if let Some(devices) = blocks::shared_out(domain.size())? {
        return blocks::extend(polynomials, domain, twiddles, &devices);
    }
    if team()?.len() == 1 {
        return evaluate_same(polynomials, domain, twiddles, None);
    }
    let first = vec![device(); polynomials.len()];
    let there = blocks::bring(polynomials.iter().map(|&column| column.clone()).collect(), &first)?;
    evaluate_same(&there.iter().collect::<Vec<_>>(), domain, twiddles, None)
}

/// The evaluations of polynomials of one size, of which some may have been made in advance. Over several devices they
/// are made anew, since they are in blocks there.
fn evaluate_missing(
    polynomials: &[&BaseColumn],
    domain: CircleDomain,
    twiddles: &TwiddleTree<CudaBackend>,
) -> Result<Vec<BaseColumn>> {
    let made: Vec<_> = polynomials.iter().map(|polynomial| polynomial.take_extension(domain)).collect();
    if team()?.len() > 1 || made.iter().all(Option::is_none) {
        drop(made);
        return evaluate_shared_out(polynomials, domain, twiddles);
    }
    let missing = polynomials.iter().zip(&made).filter(|(_, made)| made.is_none());
    let missing: Vec<&BaseColumn> = missing.map(|(polynomial, _)| *polynomial).collect();
    let values = match missing.is_empty() {
        true => Vec::new(),
        false => evaluate_same(&missing, domain, twiddles, None)?,
    };
    let mut values = values.into_iter();
    Ok(made.into_iter().map(|made| made.or_else(|| values.next()).expect("one for each")).collect())
}

/// Interpolates columns on the devices that share them out, as many together as are contiguous and have one domain.
pub(crate) fn interpolate_shared_out(
    columns: Vec<Evaluation>,
    twiddles: &TwiddleTree<CudaBackend>,
) -> Result<Vec<Coefficients>> {
    let columns = to_homes(columns)?;
    let mut starts: Vec<usize> = runs(&columns.iter().map(|column| &column.values).collect::<Vec<_>>())
        .into_iter()
        .map(|(first, _)| first)
        .collect();
    let changes = columns.windows(2).enumerate().filter(|(_, pair)| pair[0].domain != pair[1].domain);
    starts.extend(changes.map(|(i, _)| i + 1));
    starts.sort_unstable();
    starts.dedup();
    starts.push(columns.len());
    let (mut coefficients, mut rest) = (Vec::with_capacity(columns.len()), columns.into_iter());
    for bounds in starts.windows(2) {
        let domain = rest.as_slice()[0].domain;
        let run = rest.by_ref().take(bounds[1] - bounds[0]).map(|column| column.values).collect();
        coefficients.extend(interpolate_run(run, domain, twiddles)?);
    }
    Ok(coefficients)
}

/// Interpolates columns, of which some may be in host memory.
pub(crate) fn interpolate_all(
    columns: Vec<Evaluation>,
    twiddles: &TwiddleTree<CudaBackend>,
) -> Result<Vec<Coefficients>> {
    if columns.iter().any(|column| column.values.place().is_some()) {
        return interpolate_mixed(columns, twiddles);
    }
    let _phase = phase("interpolate");
    interpolate_shared_out(columns, twiddles)
}

/// Interpolates columns of which some are in host memory, where their coefficients stay, too.
fn interpolate_mixed(columns: Vec<Evaluation>, twiddles: &TwiddleTree<CudaBackend>) -> Result<Vec<Coefficients>> {
    let mut coefficients = Vec::with_capacity(columns.len());
    let mut rest = columns.into_iter().peekable();
    while let Some(first) = rest.next() {
        let is_deferred = first.values.place().is_some();
        let mut alike = vec![first];
        while let Some(next) = rest.next_if(|next| next.values.place().is_some() == is_deferred) {
            alike.push(next);
        }
        coefficients.extend(match is_deferred {
            true => interpolate_deferred(&alike, twiddles)?,
            false => interpolate_all(alike, twiddles)?,
        });
    }
    Ok(coefficients)
}

/// Interpolates columns in host memory.
fn interpolate_deferred(columns: &[Evaluation], twiddles: &TwiddleTree<CudaBackend>) -> Result<Vec<Coefficients>> {
    let _phase = phase("interpolate");
    let mut coefficients = Vec::with_capacity(columns.len());
    for columns in columns.chunk_by(|a, b| a.domain == b.domain) {
        let domain = columns[0].domain;
        let values: Vec<&BaseColumn> = columns.iter().map(|column| &column.values).collect();
        for run in neighbours(&values) {
            let place = values[run.start].place().expect("a column in host memory");
            let (stream, rows) = (stream(place.of.device()), domain.size());
            let mut words = place.of.read(place.index..place.index + run.len())?;
            let twiddles = of_domain(&twiddles.itwiddles, domain, stream.device())?;
            circle::interpolate(&stream, words.view_mut(), rows, twiddles)?;
            let kept = HostColumn::split(words.to_vec(&stream)?, rows);
            let made = Deferred::plain(place.of.device(), kept, place.of.batch_bytes());
            coefficients.extend(made.into_iter().map(Coefficients::new));
        }
    }
    Ok(coefficients)
}

/// The evaluations of polynomials of one size, which the host keeps as coefficients.
fn deferred_values(
    polynomials: &[&BaseColumn],
    domain: CircleDomain,
    twiddles: &TwiddleTree<CudaBackend>,
    batch_bytes: usize,
) -> Result<Vec<BaseColumn>> {
    if team()?.len() > 1 {
        let detail = "columns are kept in host memory for one device only; leave out in_column_batches, or over";
        return Err(Error::shape("rigel_stwo::over", detail));
    }
    let device = polynomials[0].device();
    let of = (&twiddles.twiddles, domain);
    Ok(Deferred::extended(device, to_host(polynomials)?, of, batch_bytes))
}

/// Drops the pooled columns of this size that earlier proofs returned. The device's arena reuses their memory and
/// can allocate the columns of a tree contiguously, which single columns of a pool are not.
fn drain(pool: &BaseColumnPool<CudaBackend>, log_size: u32) {
    while !pool.take_or_alloc(log_size).is_blank() {}
}

impl PolyOps for CudaBackend {
    type Twiddles = twiddles::Twiddles;

    fn interpolate(evaluation: Evaluation, twiddles: &TwiddleTree<Self>) -> Coefficients {
        let _phase = phase("interpolate");
        let mut one = interpolate_shared_out(vec![evaluation], twiddles).or_fail("interpolate a column");
        one.remove(0)
    }

    fn interpolate_columns(columns: Vec<Evaluation>, twiddles: &TwiddleTree<Self>) -> Vec<Coefficients> {
        interpolate_all(columns, twiddles).or_fail("interpolate columns")
    }

    fn eval_at_point(polynomial: &Coefficients, point: CirclePoint<SecureField>) -> SecureField {
        let at = Opening { form: Form::Coefficients, log_size: polynomial.log_size(), point };
        polynomial.coeffs.ask_batch(|batch, place| batch.sample(place, at))
    }

    fn barycentric_weights(coset: CanonicCoset, point: CirclePoint<SecureField>) -> SecureColumn {
        let plan = Plan::BarycentricWeights { log_size: coset.log_size(), point };
        SecureColumn::planned(coset.size(), plan)
    }

    fn barycentric_eval_at_point(evaluation: &Evaluation, weights: &SecureColumn) -> SecureField {
        assert_eq!(evaluation.values.len(), weights.len(), "a weight for each value");
        evaluation.values.ask_batch(|batch, place| match weights.point() {
            Some(point) => {
                let log_size = evaluation.domain.log_size();
                batch.sample(place, Opening { form: Form::Values, log_size, point })
            }
            None => batch.weighted(place, weights),
        })
    }

    fn eval_at_point_by_folding(
        evaluation: &Evaluation,
        point: CirclePoint<SecureField>,
        twiddles: &TwiddleTree<Self>,
    ) -> SecureField {
        let _phase = phase("evaluate at points");
        let fold = || {
            let log_size = evaluation.domain.log_size();
            let mut alphas = get_folding_alphas(point, log_size as usize).into_iter().rev().map(Twin::twin);
            let mut alpha = || alphas.next().expect("one per fold");
            let stream = stream(evaluation.values.device());
            let tower = twiddles.itwiddles.tower_on(stream.device())?;
            let initial = evaluation.domain.half_coset.initial.twin();
            let values = evaluation.values.view();
            let mut layer = circle_fold::base_circle_to_line(&stream, values, alpha(), tower, initial)?;
            while layer.rows() > 1 {
                layer = circle_fold::line(&stream, layer.values().view(), alpha(), tower, 1)?;
            }
            let value = rigel_kernels::layout::slab::from_slab(&layer.values().to_vec(&stream)?);
            Ok(secure(value.expect("one element")[0]) / BaseField::from_u32_unchecked(1 << log_size))
        };
        let value: Result<_> = fold();
        value.or_fail("evaluate a column by folding")
    }

    fn extend(polynomial: &Coefficients, log_size: u32) -> Coefficients {
        assert!(log_size >= polynomial.log_size(), "a polynomial can only be extended to more coefficients");
        let extend = || {
            let from = &polynomial.coeffs;
            let stream = stream(from.device());
            let mut coefficients = stream.alloc(1 << log_size)?;
            stream.copy(coefficients.range_mut(..from.len())?, from.view())?;
            stream.fill_bytes(coefficients.range_mut(from.len()..)?, 0)?;
            BaseColumn::from_buffer(coefficients)
        };
        Coefficients::new(extend().or_fail("extend a polynomial"))
    }

    fn evaluate(polynomial: &Coefficients, domain: CircleDomain, twiddles: &TwiddleTree<Self>) -> Evaluation {
        let _phase = phase("evaluate");
        let mut values =
            evaluate_shared_out(&[&polynomial.coeffs], domain, twiddles).or_fail("evaluate a polynomial");
        Evaluation::new(domain, values.remove(0))
    }

    fn evaluate_into(
        polynomial: &Coefficients,
        domain: CircleDomain,
        twiddles: &TwiddleTree<Self>,
        buffer: BaseColumn,
    ) -> Evaluation {
        assert_eq!(buffer.len(), domain.size(), "room for each value");
        if known().len() > 1 {
            return Self::evaluate(polynomial, domain, twiddles);
        }
        let _phase = phase("evaluate");
        let room = (!buffer.is_blank() && !buffer.is_shared()).then(|| buffer.into_buffer());
        let mut values =
            evaluate_same(&[&polynomial.coeffs], domain, twiddles, room).or_fail("evaluate a polynomial");
        Evaluation::new(domain, values.remove(0))
    }

    fn evaluate_polynomials(
        polynomials: Vec<Coefficients>,
        log_blowup_factor: u32,
        twiddles: &TwiddleTree<Self>,
        store_polynomials_coefficients: bool,
        pool: &BaseColumnPool<Self>,
    ) -> Vec<Poly<Self>>
    where
        Self: Backend,
    {
        let _phase = phase("evaluate");
        // Those of each size, in order.
        let mut evaluations = BTreeMap::new();
        for log_size in polynomials.iter().map(Coefficients::log_size).collect::<BTreeSet<u32>>() {
            let domain = CanonicCoset::new(log_size + log_blowup_factor).circle_domain();
            let of_size = polynomials.iter().filter(|polynomial| polynomial.log_size() == log_size);
            let same: Vec<&BaseColumn> = of_size.map(|polynomial| &polynomial.coeffs).collect();
            drain(pool, domain.log_size());
            let values = match batch_bytes() {
                Some(bytes) => {
                    same.iter().for_each(|polynomial| drop(polynomial.take_extension(domain)));
                    deferred_values(&same, domain, twiddles, bytes)
                }
                None => evaluate_missing(&same, domain, twiddles),
            };
            evaluations.insert(log_size, (domain, values.or_fail("evaluate polynomials").into_iter()));
        }
        if store_polynomials_coefficients {
            // The polynomials are evaluated at the same points.
            Batch::of_trace(&polynomials.iter().map(|polynomial| &polynomial.coeffs).collect::<Vec<_>>());
        }
        let with_values = |polynomial: Coefficients| {
            let (domain, values) = evaluations.get_mut(&polynomial.log_size()).expect("one for each size");
            let evaluation = Evaluation::new(*domain, values.next().expect("one for each polynomial"));
            Poly::new(store_polynomials_coefficients.then_some(polynomial), evaluation)
        };
        polynomials.into_iter().map(with_values).collect()
    }

    fn precompute_twiddles(coset: Coset) -> TwiddleTree<Self> {
        let _phase = phase("twiddles");
        let devices = team().or_fail("open a device (SimdBackend needs none)");
        devices.iter().try_for_each(load_kernels).or_fail("compile the backend's kernels");
        over_devices(&devices, coset).or_fail("make twiddles")
    }

    fn split_at_mid(polynomial: Coefficients) -> (Coefficients, Coefficients) {
        let (low, high) = polynomial.coeffs.split_at_mid();
        (Coefficients::new(low), Coefficients::new(high))
    }
}
