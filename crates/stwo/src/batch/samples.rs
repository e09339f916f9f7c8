//! Values of columns at points.
//!
//! Upstream opens all columns of a tree at the same points of the longest domain, and asks for them column by column. A
//! column that is 2^k times shorter is evaluated at the point doubled k times. So a request for one column determines
//! the points of all columns of at most its length, and the first one evaluates these columns, too: with one list of
//! launches and one copy back.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, RwLock, RwLockWriteGuard, TryLockError};

use rigel_gpu::{Buffer, Device, Error, Lock, Result, Stream};
use rigel_kernels::field::{Element, Mersenne31, QM31, Ring};
use rigel_kernels::open::{circle_opening, opening};
use rigel_kernels::{Columns, Matrix};
use stwo::core::circle::CirclePoint;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CanonicCoset;

use super::Batch;
use crate::device::stream;
use crate::domain::block_of;
use crate::failure::OrFail;
use crate::field::{Twin, secure};
use crate::held::Held;
use crate::report::phase_on;

/// The bytes of columns that the first request at a further point evaluates, which takes microseconds on a GPU; they
/// grow by a factor of 8 with each request.
const FIRST_WINDOW: usize = 64 << 20;

/// The number of columns that such a request evaluates whatever their length: the coordinates of a secure column.
const LEAST_COLUMNS: usize = 4;

/// The largest number of points and lengths for which values are cached if no proof ends in between.
const MOST_POINTS: usize = 4096;

/// The lock that is held while columns from host memory are on the device to be evaluated.
static BRINGING: Lock<()> = Lock::new(());

/// The meaning of a column's elements. Either way, its value at a point is a weighted sum of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// The coefficients of a polynomial.
    Coefficients,
    /// The values of a polynomial on the canonic domain of the column's length.
    Values,
}

impl Form {
    /// The slab of weights for columns of 2^`log_size` elements, or for block `index` of `blocks` of their elements.
    /// Where whole columns of values come from fewer coefficients, 2^`log_coefficients`, the weights are for the first
    /// of these values alone, which determine the polynomials.
    fn weights(
        self,
        stream: &Stream,
        log_size: u32,
        log_coefficients: u32,
        point: OpenedPoint,
        (index, blocks): (usize, usize),
    ) -> Result<Matrix<Mersenne31>> {
        match self {
            Self::Coefficients if blocks == 1 => circle_opening::basis(stream, log_size, point.twin()),
            Self::Coefficients => {
                Err(Error::shape("CudaBackend", "coefficients in blocks; a column of them must be whole"))
            }
            Self::Values => {
                let domain = CanonicCoset::new(log_size).circle_domain();
                if blocks == 1 {
                    let parts = 1 << (log_size - log_coefficients.max(self.least_log()));
                    return circle_opening::barycentric_weights(
                        stream,
                        block_of(domain, 0, parts).twin(),
                        point.twin(),
                    );
                }
                let block = block_of(domain, index, blocks);
                circle_opening::barycentric_weights_of(stream, log_size, block.twin(), point.twin())
            }
        }
    }

    /// The logarithm of the least length of a column of this form.
    fn least_log(self) -> u32 {
        match self {
            Self::Coefficients => 0,
            Self::Values => 1,
        }
    }
}

type OpenedPoint = CirclePoint<SecureField>;

/// A point at which columns of 2^`log_size` elements are evaluated.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Opening {
    pub(crate) form: Form,
    pub(crate) log_size: u32,
    pub(crate) point: OpenedPoint,
}

impl Opening {
    /// The corresponding opening for columns of half the length.
    fn halved(self) -> Self {
        Self { log_size: self.log_size - 1, point: self.point.double(), ..self }
    }

    /// The openings of columns of this length and of all shorter ones, from the longest.
    fn and_shorter(self) -> impl Iterator<Item = Self> {
        let next = |opening: &Self| (opening.log_size > opening.form.least_log()).then(|| opening.halved());
        std::iter::successors(Some(self), next)
    }
}

/// The values of a batch's columns at points.
#[derive(Default)]
pub(super) struct Samples {
    known: Lock<HashMap<Opening, Arc<Values>>>,
    /// The lock that is held for writing while columns are evaluated.
    evaluating: RwLock<()>,
    lengths: OnceLock<Lengths>,
}

/// The lengths of a batch's columns.
struct Lengths {
    /// The number of columns of each length.
    counts: BTreeMap<usize, usize>,
    /// The number of each column among those of its length.
    ranks: Vec<usize>,
}

/// The values of an opening, which are those of all columns of its length, in order.
struct Values {
    values: Vec<OnceLock<SecureField>>,
    /// The bytes of columns that the next request evaluates.
    window: AtomicUsize,
}

thread_local! {
    /// The id of the batch, the opening and the values that this thread read last. Upstream asks for the value of each
    /// of thousands of columns on all its threads, which would wait for each other in `Samples::known`.
    static LAST: RefCell<Option<(u64, Opening, Arc<Values>)>> = const { RefCell::new(None) };
}

impl Samples {
    /// Begins to evaluate columns; `None` if another thread did so, which has ended now.
    ///
    /// Most of upstream's threads wait for one that evaluates. Threads that wait to read a lock are woken together,
    /// those that wait to write it one after another.
    fn begin(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        match self.evaluating.try_write() {
            Ok(begun) => Some(begun),
            // A thread that panicked left the values that it did not evaluate unknown.
            Err(TryLockError::Poisoned(begun)) => Some(begun.into_inner()),
            Err(TryLockError::WouldBlock) => {
                drop(self.evaluating.read());
                None
            }
        }
    }

    pub(super) fn forget(&self) {
        self.known.lock().clear();
    }
}

impl Batch {
    /// The value of column `place`, which has the opening's length and form.
    pub(crate) fn sample(&self, place: usize, at: Opening) -> SecureField {
        let rank = self.lengths().ranks[place];
        let _evaluating = loop {
            if let Some(value) = self.known_value(rank, at) {
                return value;
            }
            if let Some(begun) = self.samples.begin() {
                break begun;
            }
        };
        let openings = self.openings(at);
        let values = &openings[0].1;
        // Another thread may have evaluated it meanwhile.
        if let Some(&value) = values.values[rank].get() {
            return value;
        }
        let window = values.window.load(Ordering::Relaxed);
        let places = self.window(place, &openings, window);
        self.evaluate(&places, &openings).or_fail("evaluate columns at a point");
        openings.iter().for_each(|(_, of)| of.window.store(window.saturating_mul(8), Ordering::Relaxed));
        *values.values[rank].get().expect("evaluated above")
    }

    fn lengths(&self) -> &Lengths {
        self.samples.lengths.get_or_init(|| {
            let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
            let rank = |column: &Held| {
                let count = counts.entry(column.len()).or_default();
                *count += 1;
                *count - 1
            };
            let ranks = self.columns.iter().map(rank).collect();
            Lengths { counts, ranks }
        })
    }

    /// The value of the column with this number among those of the opening's length, if it is known.
    fn known_value(&self, rank: usize, at: Opening) -> Option<SecureField> {
        LAST.with_borrow_mut(|last| {
            let of = |last: &&(u64, Opening, Arc<Values>)| (last.0, last.1) == (self.id, at);
            let values = match last.as_ref().filter(of) {
                Some((.., values)) => values,
                None => &last.insert((self.id, at, self.openings(at).swap_remove(0).1)).2,
            };
            values.values[rank].get().copied()
        })
    }

    /// The values that are known so far of this opening and of those of shorter columns.
    fn openings(&self, at: Opening) -> Vec<(Opening, Arc<Values>)> {
        let counts = &self.lengths().counts;
        let count = |opening: Opening| Some((opening, *counts.get(&(1 << opening.log_size))?));
        let openings: Vec<(Opening, usize)> = at.and_shorter().filter_map(count).collect();
        let mut known = self.samples.known.lock();
        if known.len() >= MOST_POINTS {
            known.clear();
        }
        // Usually all columns are opened at the first point, and only some at further points. Shorter columns may have
        // been opened at this point before.
        let first = if known.is_empty() { usize::MAX } else { FIRST_WINDOW };
        let before = openings.iter().find_map(|(opening, _)| known.get(opening));
        let window = before.map_or(first, |values| values.window.load(Ordering::Relaxed));
        let mut values_of = |(opening, count)| {
            let values = || Values { values: vec![OnceLock::new(); count], window: AtomicUsize::new(window) };
            (opening, known.entry(opening).or_insert_with(|| Arc::new(values())).clone())
        };
        openings.into_iter().map(&mut values_of).collect()
    }

    /// The columns to evaluate together with column `place`, in order: the following ones, and after the last the
    /// first, that have one of these openings and are not known yet, up to this number of bytes.
    fn window(&self, place: usize, openings: &[(Opening, Arc<Values>)], bytes: usize) -> Vec<usize> {
        let of_length: BTreeMap<usize, &Values> =
            openings.iter().map(|(opening, values)| (1 << opening.log_size, &**values)).collect();
        let ranks = &self.lengths().ranks;
        let wanted = |&place: &usize| {
            let values = of_length.get(&self.columns[place].len());
            values.is_some_and(|values| values.values[ranks[place]].get().is_none())
        };
        let mut taken = 0usize;
        let fits = |(i, place): &(usize, usize)| {
            taken += self.columns[*place].len() * size_of::<Mersenne31>();
            *i < LEAST_COLUMNS || taken <= bytes
        };
        let following = (place..self.columns.len()).chain(0..place).filter(wanted).enumerate();
        let mut places: Vec<usize> = following.take_while(fits).map(|(_, place)| place).collect();
        places.sort_unstable();
        places
    }

    /// Evaluates columns that each have one of these openings: the columns or blocks on each device there.
    fn evaluate(&self, places: &[usize], openings: &[(Opening, Arc<Values>)]) -> Result<()> {
        let mut sums: Vec<Sums> = Vec::new();
        for &place in places {
            let column = &self.columns[place];
            for device in (0..column.blocks()).map(|block| column.device(block)) {
                if !sums.iter().any(|sums| sums.stream.device().is(device)) {
                    let stream = stream(device);
                    let values = stream.alloc(QM31::DEGREE * places.len())?;
                    sums.push(Sums { stream, values, indices: Vec::with_capacity(places.len()) });
                }
            }
        }
        let devices: Vec<Device> = sums.iter().map(|sums| sums.stream.device().clone()).collect();
        let _phase = phase_on(&devices, "evaluate at points");
        // Upstream's threads ask for several trees at once; the plan has room for the columns of one.
        let deferred = places.iter().any(|&place| matches!(self.columns[place], Held::Deferred(..)));
        let _one_at_a_time = deferred.then(|| BRINGING.lock());
        // The columns of each length, as indices of `places`.
        let mut by_length: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, &place) in places.iter().enumerate() {
            by_length.entry(self.columns[place].len()).or_default().push(index);
        }
        let mut values: Vec<Option<&Arc<Values>>> = vec![None; places.len()];
        for (opening, of_opening) in openings {
            let rows = 1usize << opening.log_size;
            let Some(alike) = by_length.remove(&rows) else { continue };
            alike.iter().for_each(|&index| values[index] = Some(of_opening));
            for sums in &mut sums {
                // A device has one block of a column, or all of it.
                let block_here = |&index: &usize| {
                    let column = &self.columns[places[index]];
                    let here = |block: &usize| column.device(*block).is(sums.stream.device());
                    (0..column.blocks()).find(here).map(|block| (index, (block, column.blocks())))
                };
                let here: Vec<(usize, (usize, usize))> = alike.iter().filter_map(block_here).collect();
                for alike in here.chunk_by(|a, b| a.1 == b.1) {
                    let block = alike[0].1;
                    let here: Vec<usize> = alike.iter().map(|&(index, _)| places[index]).collect();
                    let log_coefficients = here.iter().map(|&place| self.columns[place].log_coefficients()).max();
                    let weights = opening.form.weights(
                        &sums.stream,
                        opening.log_size,
                        log_coefficients.expect("a column"),
                        opening.point,
                        block,
                    )?;
                    let mut rest = &here[..];
                    while !rest.is_empty() {
                        // One launch reads a run of contiguous columns.
                        let run = self.run(rest, block.0)?;
                        let columns = Columns::new(run.view(), rows / block.1)?;
                        let start = QM31::DEGREE * (sums.indices.len() + here.len() - rest.len());
                        let to = sums.values.range_mut(start..start + QM31::DEGREE * columns.columns())?;
                        opening::evaluate_slabs_into::<QM31>(
                            &sums.stream,
                            to,
                            columns,
                            &[weights.values().view()],
                        )?;
                        rest = &rest[columns.columns()..];
                    }
                    sums.indices.extend(alike.iter().map(|&(index, _)| index));
                }
            }
        }
        let mut totals = vec![QM31::ZERO; places.len()];
        for Sums { stream, values, indices } in sums {
            let words = values.range(..QM31::DEGREE * indices.len())?.to_vec(&stream)?;
            for (index, element) in indices.into_iter().zip(words.chunks_exact(QM31::DEGREE)) {
                totals[index] += QM31::from_parts(element).expect("four coordinates");
            }
        }
        let ranks = &self.lengths().ranks;
        for ((&place, total), values) in places.iter().zip(totals).zip(values) {
            if let Some(values) = values {
                values.values[ranks[place]].get_or_init(|| secure(total));
            }
        }
        Ok(())
    }
}

/// The sums of columns, or of blocks of them, on a device.
struct Sums {
    stream: Stream,
    values: Buffer<Mersenne31>,
    /// The indices of the columns whose sums they are.
    indices: Vec<usize>,
}
