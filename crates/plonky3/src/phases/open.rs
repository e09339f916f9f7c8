//! Openings: the values of committed polynomials at points outside the domain, and the proof that they are
//! correct.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use p3_commit::OpenedValues;
use p3_field::PrimeCharacteristicRing;
use p3_field::dot_product;
use p3_fri::{FriParameters, FriProverError, PcsProverTranscript, PcsShape};
use p3_uni_stark::StarkGenericConfig;
use rigel_gpu::{Buffer, Fetch, View};
use rigel_kernels::domain::block::Block;
use rigel_kernels::domain::points;
use rigel_kernels::field::{Element, Ring};
use rigel_kernels::open::multi_opening::{self, Claims, Evaluation};
use rigel_kernels::open::opening::{self, Claim};
use rigel_kernels::vector::powers;
use rigel_kernels::{Columns, Matrix};

use crate::base::error::{Error, Result};
use crate::columns::extended::Extended;
use crate::columns::masks;
use crate::phases::fri;
use crate::phases::gathered::{Gathered, with_room};
use crate::phases::round::Round;
use crate::prover::session::Session;
use crate::prover::session::are_small;
use crate::upstream::challenger::Searching;
use crate::upstream::config::{Base, DeviceConfig, Ext};
use crate::upstream::field::DeviceExtension;
use crate::upstream::transcript::Unfinished;

/// A committed matrix, or a block of one, and the points at which its columns are opened.
pub(crate) struct Claimed<'a, SC: DeviceConfig> {
    pub(crate) lde: &'a Extended<'a, SC>,
    pub(crate) points: &'a [SC::Challenge],
}

/// The values of a matrix's columns, by point.
pub(crate) type ColumnValues<SC> = Vec<Vec<<SC as StarkGenericConfig>::Challenge>>;

/// All matrices of some commitments.
fn claimed<'a, SC: DeviceConfig>(rounds: &'a [Round<'_, SC>]) -> Vec<Claimed<'a, SC>> {
    let of_round = |round: &'a Round<'_, SC>| {
        let pairs = round.committed.ldes.iter().zip(&round.points);
        pairs.map(|(lde, points)| Claimed { lde, points })
    };
    rounds.iter().flat_map(of_round).collect()
}

/// Opens all commitments: the values, and a proof that `sum_i alpha^i (p_i(z_i) - p_i(x)) / (z_i - x)` is of low
/// degree.
pub(crate) fn open<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    rounds: &[Round<'_, SC>],
    challenger: &mut Searching<'_, SC::Challenger>,
) -> Result<(OpenedValues<SC::Challenge>, SC::OpeningProof)> {
    check_heights(session, rounds)?;
    let matrices = claimed(rounds);
    let domain = Domain::new(session, &matrices, 0)?;
    let evaluated = evaluate(session, &matrices, &domain)?;
    // Upstream hashes the shape of the values. The device evaluates meanwhile.
    let mut transcript = Unfinished::new(PcsProverTranscript::<_, SC::Value, SC::Challenge>::new(
        challenger,
        shape(session, rounds),
    ));
    let mut found = evaluated.wait(&matrices)?.into_iter();
    let mut values: OpenedValues<SC::Challenge> =
        rounds.iter().map(|round| found.by_ref().take(round.points.len()).collect()).collect();
    transcript.claimed_openings(&values);
    let (alpha, batch_witness) = transcript.batch_phase();
    let reduced = reduce(session, &matrices, &domain, &values.iter().flatten().collect::<Vec<_>>(), alpha)?;
    drop(domain);
    let batch_witness = batch_witness.unwrap_or(SC::Value::ZERO);
    let proof =
        transcript.delegate(|challenger| fri::prove(session, rounds, reduced, batch_witness, challenger))?;
    transcript.into_inner().finish();
    let mut random = Vec::with_capacity(rounds.len());
    for (round, values) in rounds.iter().zip(&mut values) {
        let split = |values: &mut Vec<SC::Challenge>| values.split_off(values.len() - round.random_columns);
        random.push(values.iter_mut().map(|points| points.iter_mut().map(split).collect()).collect());
    }
    Ok((values, SC::opening_proof(proof, random)))
}

/// The shape of the values of all commitments.
fn shape<SC: DeviceConfig>(session: &Session<'_, SC>, rounds: &[Round<'_, SC>]) -> PcsShape {
    let of_matrix = |(lde, points): (&Extended<'_, SC>, &Vec<_>)| vec![lde.columns(); points.len()];
    let of_round = |round: &Round<'_, SC>| round.committed.ldes.iter().zip(&round.points).map(of_matrix).collect();
    PcsShape {
        claimed_evaluation_counts: rounds.iter().map(of_round).collect(),
        batch_pow_bits: session.prover.fri.batch_proof_of_work_bits,
    }
}

/// Upstream's conditions: every matrix is higher than the final polynomial on its domain, and high enough to hide.
fn check_heights<SC: DeviceConfig>(session: &Session<'_, SC>, rounds: &[Round<'_, SC>]) -> Result<()> {
    let fri = &session.prover.fri;
    for round in rounds {
        for (lde, points) in round.committed.ldes.iter().zip(&round.points) {
            masks::check_budget(session.prover, lde.rows() >> fri.log_blowup >> 1, points.len())?;
        }
    }
    let ldes = rounds.iter().flat_map(|round| &round.committed.ldes);
    check_final_height(fri, ldes.map(|lde| lde.log_rows() as usize))
}

/// Upstream's condition on the heights of extended matrices, as logarithms.
pub(crate) fn check_final_height(
    fri: &FriParameters<()>,
    log_heights: impl IntoIterator<Item = usize>,
) -> Result<()> {
    if fri.log_final_poly_len == 0 {
        return Ok(());
    }
    let log_final_height =
        fri.log_final_poly_len.checked_add(fri.log_blowup).ok_or(FriProverError::FinalHeightOverflow)?;
    match log_heights.into_iter().find(|&log_height| log_height <= log_final_height) {
        Some(log_input_height) => {
            Err(Error::Fri(FriProverError::InputHeightTooSmall { log_input_height, log_final_height }))
        }
        None => Ok(()),
    }
}

/// The coset of the highest matrix and, for each opening point, `1 / (z - x)` on as many of its points as the
/// highest matrix opened there has rows. All are bit-reversed, so a prefix is the domain of a lower matrix.
///
/// Where the matrices are blocks of higher ones, all of one height, it is block `index` of their coset.
pub(crate) struct Domain<SC: DeviceConfig> {
    coset: Arc<Buffer<Base<SC>>>,
    points: Vec<(SC::Challenge, Matrix<Base<SC>>)>,
}

impl<SC: DeviceConfig> Domain<SC> {
    pub(crate) fn new(session: &Session<'_, SC>, matrices: &[Claimed<'_, SC>], index: usize) -> Result<Self> {
        let mut highest: Vec<(SC::Challenge, usize)> = Vec::new();
        for Claimed { lde, points } in matrices {
            for &z in *points {
                match highest.iter_mut().find(|(point, _)| *point == z) {
                    Some((_, rows)) => *rows = lde.rows().max(*rows),
                    None => highest.push((z, lde.rows())),
                }
            }
        }
        let rows = matrices.iter().map(|matrix| matrix.lde.rows()).max().unwrap_or(1);
        session.phase("denominators", || {
            let block = Block { index, log_rows: rows.trailing_zeros() };
            let coset = points::kept_points::<Base<SC>>(&session.stream, block)?;
            let slabs: Vec<_> = highest.iter().map(|(z, rows)| (z.to_device(), *rows)).collect();
            let inverses = opening::all_inverse_denominators::<Ext<SC>>(&session.stream, coset.view(), &slabs)?;
            let points = highest.into_iter().map(|(z, _)| z).zip(inverses).collect();
            Ok(Self { coset, points })
        })
    }

    fn inverses(&self, z: SC::Challenge) -> &Matrix<Base<SC>> {
        &self.points.iter().find(|(point, _)| *point == z).expect("contains every point of the matrices").1
    }
}

/// The values of all columns at their points, by barycentric interpolation on the first `rows >> log_blowup` rows,
/// which determine the polynomial.
fn evaluate<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    matrices: &[Claimed<'_, SC>],
    domain: &Domain<SC>,
) -> Result<Evaluated<SC>> {
    let coset = |lde: &Extended<'_, SC>| Block::whole(lde.log_rows() - session.log_blowup());
    session.phase("open", || sums(session, matrices, domain, coset, Share::ALL))
}

/// A share of a matrix's columns, of `of` equal ones.
#[derive(Clone, Copy)]
pub(crate) struct Share {
    pub(crate) index: usize,
    pub(crate) of: usize,
}

impl Share {
    const ALL: Self = Self { index: 0, of: 1 };

    /// The columns.
    pub(crate) fn columns(self, width: usize) -> Range<usize> {
        width * self.index / self.of..width * (self.index + 1) / self.of
    }
}

/// A point, a coset, and the weights of the values there in the value at the point.
type Weights<SC> = ((<SC as StarkGenericConfig>::Challenge, Block), Matrix<Base<SC>>);

/// The sums of a share of all columns times the weights of their points, over the rows of `coset` of a matrix, which
/// determine a polynomial, or all rows of a block that has fewer of them.
pub(crate) fn sums<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    matrices: &[Claimed<'_, SC>],
    domain: &Domain<SC>,
    coset: impl Fn(&Extended<'_, SC>) -> Block,
    share: Share,
) -> Result<Evaluated<SC>> {
    let stream = &session.stream;
    let count = |Claimed { lde, points }: &Claimed<'_, SC>| share.columns(lde.columns()).len() * points.len();
    let mut sums = Gathered::new(stream, Ext::<SC>::DEGREE * matrices.iter().map(count).sum::<usize>())?;
    match are_short(matrices) {
        true => sum_together(session, &mut sums, matrices, domain, coset, share)?,
        false => sum_each(session, &mut sums, matrices, domain, coset, share)?,
    }
    let fetched = sums.fetch(stream)?;
    Ok(Evaluated { sums, share, fetched })
}

/// Whether matrices are so short, and so small together, that they are opened in one launch: a launch for each would
/// take longer than reading them.
fn are_short<SC: DeviceConfig>(matrices: &[Claimed<'_, SC>]) -> bool {
    const MOST_ROWS: usize = 1 << 14;
    // A launch has room for many times as many.
    const MOST_OPENINGS: usize = 1 << 12;
    let is_short = |lde: &Extended<'_, SC>| matches!(lde, Extended::Whole(_)) && lde.rows() <= MOST_ROWS;
    let bytes = |lde: &Extended<'_, SC>| lde.rows() * lde.columns() * size_of::<Base<SC>>();
    matrices.iter().all(|matrix| is_short(matrix.lde))
        && matrices.iter().map(|matrix| matrix.points.len()).sum::<usize>() <= MOST_OPENINGS
        && are_small(matrices.iter().map(|matrix| bytes(matrix.lde)).sum())
}

/// The [`sums`] of short matrices, in one launch.
fn sum_together<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    sums: &mut Gathered<Base<SC>>,
    matrices: &[Claimed<'_, SC>],
    domain: &Domain<SC>,
    coset: impl Fn(&Extended<'_, SC>) -> Block,
    share: Share,
) -> Result<()> {
    let mut evaluations = Vec::with_capacity(matrices.len());
    for Claimed { lde, points } in matrices {
        let (matrix, share) = (lde.whole(), share.columns(lde.columns()));
        if share.is_empty() || points.is_empty() {
            continue;
        }
        evaluations.push(Evaluation {
            matrix: Columns::new(matrix.column_range(share.start, share.end)?, matrix.rows())?,
            coset: coset(lde),
            points: points.iter().map(|&z| (z.to_device(), domain.inverses(z))).collect(),
        });
    }
    let lengths = |of: &Evaluation<'_, Ext<SC>>| Ext::<SC>::DEGREE * of.matrix.columns() * of.points.len();
    let rooms = sums.rooms(evaluations.iter().map(lengths))?;
    Ok(multi_opening::evaluate(&session.stream, rooms, domain.coset.view(), &evaluations)?)
}

/// The [`sums`] of long matrices, one after the other, and some columns at a time where they are not in memory.
fn sum_each<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    sums: &mut Gathered<Base<SC>>,
    matrices: &[Claimed<'_, SC>],
    domain: &Domain<SC>,
    coset: impl Fn(&Extended<'_, SC>) -> Block,
    share: Share,
) -> Result<()> {
    let stream = &session.stream;
    let mut weights: Vec<Weights<SC>> = Vec::new();
    for Claimed { lde, points } in matrices {
        let (coset, share) = (coset(lde), share.columns(lde.columns()));
        if share.is_empty() || points.is_empty() {
            continue;
        }
        for &z in *points {
            if !weights.iter().any(|(of, _)| *of == (z, coset)) {
                let (places, inverses) = (domain.coset.view(), domain.inverses(z));
                let count = lde.rows().min(coset.rows());
                let made =
                    opening::block_weights::<Ext<SC>>(stream, places, inverses, z.to_device(), coset, count)?;
                weights.push(((z, coset), made));
            }
        }
        let of = |z: &SC::Challenge| &weights.iter().find(|(of, _)| *of == (*z, coset)).expect("made above").1;
        let weights: Vec<View<'_, Base<SC>>> = points.iter().map(|z| of(z).values().view()).collect();
        lde.each(session, |first, columns| {
            let within = |column: usize| column.clamp(first, first + columns.columns()) - first;
            let (start, end) = (within(share.start), within(share.end));
            if start < end {
                let columns = Columns::new(columns.column_range(start, end)?, columns.rows())?;
                let room = sums.room(Ext::<SC>::DEGREE * columns.columns() * weights.len())?;
                opening::evaluate_slabs_into::<Ext<SC>>(stream, room, columns, &weights)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The sums that give columns' values at points, on their way to the host.
pub(crate) struct Evaluated<SC: DeviceConfig> {
    sums: Gathered<Base<SC>>,
    share: Share,
    fetched: Fetch<Base<SC>>,
}

impl<SC: DeviceConfig> Evaluated<SC> {
    /// The values of the columns of these matrices. Waits for the device.
    pub(crate) fn wait(self, matrices: &[Claimed<'_, SC>]) -> Result<Vec<ColumnValues<SC>>> {
        let (share, fetched) = (self.share, self.fetched.wait()?);
        let mut values = self.sums.by_room(&fetched);
        // Results come batch by batch: all columns of a batch at the first point, then at the next.
        let of_matrix = |Claimed { lde, points }: &Claimed<'_, SC>| {
            let width = share.columns(lde.columns()).len();
            let mut at_points = with_room(points.len(), lde.columns());
            while at_points.first().is_some_and(|values| values.len() < width) {
                let words = values.next().expect("one result per batch");
                for (words, values) in words.chunks_exact(words.len() / points.len()).zip(&mut at_points) {
                    values.extend(SC::Challenge::from_words(words));
                }
            }
            at_points
        };
        Ok(matrices.iter().map(of_matrix).collect())
    }
}

/// The reduced openings of each height in descending order: `sum alpha^i (p_i(z_i) - p_i(x)) / (z_i - x)` over all
/// columns of that height and their points, where i counts within the height.
pub(crate) fn reduce<'a, SC: DeviceConfig>(
    session: &Session<'_, SC>,
    matrices: &'a [Claimed<'a, SC>],
    domain: &Domain<SC>,
    values: &[&'a ColumnValues<SC>],
    alpha: SC::Challenge,
) -> Result<Vec<Matrix<Base<SC>>>> {
    let stream = &session.stream;
    session.phase("reduce", || {
        let widest = matrices.iter().map(|matrix| matrix.lde.columns()).max().unwrap_or(1);
        let powers = powers::powers(stream, Ext::<SC>::ONE, alpha.to_device(), widest)?;
        let powers = powers.values().view();
        // By height, the next power of alpha.
        let mut next = BTreeMap::new();
        let combined = |(matrix, values): (&'a Claimed<'a, SC>, &&'a ColumnValues<SC>)| {
            let next = next.entry(matrix.lde.rows()).or_insert(SC::Challenge::ONE);
            let count = (matrix.lde.columns() * matrix.points.len()) as u64;
            Combined { matrix, values, scale: std::mem::replace(next, *next * alpha.exp_u64(count)) }
        };
        let combined: Vec<_> = matrices.iter().zip(values).map(combined).collect();
        if !are_short(matrices) {
            return reduce_each(session, &combined, domain, powers, alpha);
        }
        let claims = |combined: &Combined<'a, SC>| {
            let matrix = combined.matrix.lde.whole();
            Claims { matrix: matrix.into(), claims: combined.claims(domain, alpha, 0..matrix.columns()) }
        };
        Ok(multi_opening::quotients(stream, powers, &combined.iter().map(claims).collect::<Vec<_>>())?)
    })
}

/// [`reduce`] for long matrices, one after the other, and some columns at a time where they are not in memory.
fn reduce_each<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    combined: &[Combined<'_, SC>],
    domain: &Domain<SC>,
    powers: View<'_, Base<SC>>,
    alpha: SC::Challenge,
) -> Result<Vec<Matrix<Base<SC>>>> {
    let stream = &session.stream;
    // By height: the sums so far, if there are any.
    let mut heights = BTreeMap::new();
    for combined in combined {
        let lde = combined.matrix.lde;
        let sums = heights.entry(Reverse(lde.rows())).or_insert(None);
        lde.each(session, |first, columns| {
            let claims = combined.claims(domain, alpha, first..first + columns.columns());
            match sums {
                Some(sums) => opening::accumulate_quotients(stream, sums, columns.into(), powers, &claims)?,
                None => *sums = Some(opening::quotients::<Ext<SC>>(stream, columns.into(), powers, &claims)?),
            }
            Ok(())
        })?;
    }
    let whole = |(Reverse(rows), sums): (_, Option<_>)| match sums {
        Some(sums) => Ok(sums),
        None => Ok(Matrix::zeros(stream, rows, Ext::<SC>::DEGREE)?),
    };
    heights.into_iter().map(whole).collect()
}

/// A matrix in the random combination of its height, where its first column has the factor `scale`.
struct Combined<'a, SC: DeviceConfig> {
    matrix: &'a Claimed<'a, SC>,
    values: &'a ColumnValues<SC>,
    scale: SC::Challenge,
}

impl<SC: DeviceConfig> Combined<'_, SC> {
    /// The claims on the combination of some columns, one for each point.
    fn claims<'d>(
        &self,
        domain: &'d Domain<SC>,
        alpha: SC::Challenge,
        columns: Range<usize>,
    ) -> Vec<Claim<'d, Ext<SC>>> {
        let Claimed { lde, points } = self.matrix;
        let (mut scale, width) =
            (self.scale * alpha.exp_u64(columns.start as u64), alpha.exp_u64(lde.columns() as u64));
        let claim = |(&z, values): (&SC::Challenge, &Vec<SC::Challenge>)| {
            let value: SC::Challenge = dot_product(alpha.powers(), values[columns.clone()].iter().copied());
            let next = scale * width;
            let scale = std::mem::replace(&mut scale, next);
            Claim { scale: scale.to_device(), value: value.to_device(), inverses: domain.inverses(z) }
        };
        points.iter().zip(self.values).map(claim).collect()
    }
}
