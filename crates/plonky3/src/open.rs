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
use rigel_gpu::{Buffer, Fetch, Plain, Stream, View, ViewMut};
use rigel_kernels::domain::block::Block;
use rigel_kernels::domain::points;
use rigel_kernels::field::{Element, Ring};
use rigel_kernels::open::opening::{self, Claim};
use rigel_kernels::vector::powers;
use rigel_kernels::{Columns, Matrix};

use crate::challenger::Searching;
use crate::commit::Committed;
use crate::config::{Base, DeviceConfig, Ext};
use crate::error::{Error, Result};
use crate::extended::Extended;
use crate::field::DeviceExtension;
use crate::fri;
use crate::hiding::{self, Hiding};
use crate::prover::Session;
use crate::transcript::Unfinished;

/// A commitment and, for each of its matrices, the points at which its columns are opened.
pub(crate) struct Round<'a, SC: DeviceConfig> {
    pub(crate) committed: &'a Committed<'a, SC>,
    pub(crate) points: Vec<Vec<SC::Challenge>>,
    /// The number of random columns at the end of each matrix, whose values go into the proof of the openings.
    pub(crate) random_columns: usize,
}

impl<'a, SC: DeviceConfig> Round<'a, SC> {
    /// Columns that a proof may have to hide.
    pub(crate) fn new(
        session: &Session<'_, SC>,
        committed: &'a Committed<'a, SC>,
        points: Vec<Vec<SC::Challenge>>,
    ) -> Self {
        let random_columns = session.prover.hiding_streams().map_or(0, Hiding::random_codewords);
        Self { committed, points, random_columns }
    }

    /// Preprocessed columns.
    pub(crate) fn public(committed: &'a Committed<'a, SC>, points: Vec<Vec<SC::Challenge>>) -> Self {
        Self { committed, points, random_columns: 0 }
    }
}

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
            hiding::check_budget(session.prover, lde.rows() >> fri.log_blowup >> 1, points.len())?;
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
            let invert = |&(z, rows): &(SC::Challenge, usize)| {
                let inverses = opening::inverse_denominators::<Ext<SC>>(
                    &session.stream,
                    coset.range(..rows)?,
                    z.to_device(),
                )?;
                Ok((z, inverses))
            };
            let points = highest.iter().map(invert).collect::<Result<_>>()?;
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
    let mut weights: Vec<Weights<SC>> = Vec::new();
    for Claimed { lde, points } in matrices {
        let (coset, share) = (coset(lde), share.columns(lde.columns()));
        if share.is_empty() {
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
    let fetched = sums.fetch(stream)?;
    Ok(Evaluated { sums, share, fetched })
}

/// Such sums, on their way to the host.
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

/// For each height in descending order, `sum alpha^i (p_i(z_i) - p_i(x)) / (z_i - x)` over all columns of that
/// height and their points, where i counts within the height.
pub(crate) fn reduce<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    matrices: &[Claimed<'_, SC>],
    domain: &Domain<SC>,
    values: &[&ColumnValues<SC>],
    alpha: SC::Challenge,
) -> Result<Vec<Matrix<Base<SC>>>> {
    let stream = &session.stream;
    session.phase("reduce", || {
        let widest = matrices.iter().map(|matrix| matrix.lde.columns()).max().unwrap_or(1);
        let powers = powers::powers(stream, Ext::<SC>::ONE, alpha.to_device(), widest)?;
        // By height: the sums so far, if there are any, and the next power of alpha.
        let mut heights = BTreeMap::new();
        for (Claimed { lde, points }, values) in matrices.iter().zip(values) {
            let (sums, next) = heights.entry(Reverse(lde.rows())).or_insert((None, SC::Challenge::ONE));
            let width = alpha.exp_u64(lde.columns() as u64);
            lde.each(session, |first, columns| {
                let mut scale = *next * alpha.exp_u64(first as u64);
                let mut claims = Vec::with_capacity(points.len());
                for (&z, values) in points.iter().zip(*values) {
                    let values = &values[first..first + columns.columns()];
                    let value: SC::Challenge = dot_product(alpha.powers(), values.iter().copied());
                    let inverses = domain.inverses(z);
                    claims.push(Claim { scale: scale.to_device(), value: value.to_device(), inverses });
                    scale *= width;
                }
                let (columns, powers) = (columns.into(), powers.values().view());
                match sums {
                    Some(sums) => opening::accumulate_quotients(stream, sums, columns, powers, &claims)?,
                    None => *sums = Some(opening::quotients::<Ext<SC>>(stream, columns, powers, &claims)?),
                }
                Ok(())
            })?;
            *next *= width.exp_u64(points.len() as u64);
        }
        let whole = |(Reverse(rows), (sums, _)): (_, (Option<_>, _))| match sums {
            Some(sums) => Ok(sums),
            None => Ok(Matrix::zeros(stream, rows, Ext::<SC>::DEGREE)?),
        };
        heights.into_iter().map(whole).collect()
    })
}

/// So many vectors, each with room for `capacity` values. (A clone of an empty vector has no room.)
pub(crate) fn with_room<T>(count: usize, capacity: usize) -> Vec<Vec<T>> {
    (0..count).map(|_| Vec::with_capacity(capacity)).collect()
}

/// What the device gathers from many places, in one buffer, so that one copy downloads all of it.
pub(crate) struct Gathered<T: Plain> {
    values: Buffer<T>,
    lengths: Vec<usize>,
    end: usize,
}

impl<T: Plain> Gathered<T> {
    pub(crate) fn new(stream: &Stream, total: usize) -> Result<Self> {
        Ok(Self { values: stream.alloc(total)?, lengths: Vec::new(), end: 0 })
    }

    /// Room for the next `length` values.
    pub(crate) fn room(&mut self, length: usize) -> Result<ViewMut<'_, T>> {
        self.rooms([length])
    }

    /// Room for the next values, of all these lengths.
    pub(crate) fn rooms(&mut self, lengths: impl IntoIterator<Item = usize>) -> Result<ViewMut<'_, T>> {
        let (start, first) = (self.end, self.lengths.len());
        self.lengths.extend(lengths);
        self.end += self.lengths[first..].iter().sum::<usize>();
        Ok(self.values.range_mut(start..self.end)?)
    }

    /// Begins to copy all values to the host.
    pub(crate) fn fetch(&self, stream: &Stream) -> Result<Fetch<T>> {
        Ok(stream.fetch(&self.values)?)
    }

    /// All values, once they are on the host, by room.
    pub(crate) fn by_room<'v>(&'v self, values: &'v [T]) -> impl Iterator<Item = &'v [T]> {
        let mut rest = values;
        self.lengths.iter().map(move |&length| rest.split_off(..length).expect("as many as there is room for"))
    }

    /// The values by room. Waits for the device.
    pub(crate) fn download(self, stream: &Stream) -> Result<Vec<Vec<T>>> {
        let all = self.values.to_vec(stream)?;
        Ok(self.by_room(&all).map(<[T]>::to_vec).collect())
    }
}
