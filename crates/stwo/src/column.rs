//! Columns on the device.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rigel_gpu::{Buffer, Device, Error, Lock, Result, View, ViewMut};
use rigel_kernels::Matrix;
use rigel_kernels::commit::lifted::LiftedInParts;
use rigel_kernels::field::{Mersenne31, QM31};
use rigel_kernels::hash::Blake2s;
use rigel_kernels::layout::permute;
use rigel_kernels::layout::slab::{from_slab, to_slab};
use rigel_kernels::open::circle_opening;
use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::{SECURE_EXTENSION_DEGREE, SecureField};
use stwo::core::poly::circle::{CanonicCoset, CircleDomain};
use stwo::prover::backend::{Column, ColumnOps};

use crate::CudaBackend;
use crate::batch::{Batch, Held, next_element};
use crate::blocks::Blocks;
use crate::deferred::Place;
use crate::device::{device, stream};
use crate::failure::OrFail;
use crate::field::{Twin, base, secure};
use crate::report::{gathered, phase_on};
use crate::words::Words;

/// A column of base field elements on the device.
pub type BaseColumn = DeviceColumn<BaseField>;

/// A column of secure field elements on the device, stored as a slab: coordinate after coordinate.
pub type SecureColumn = DeviceColumn<SecureField>;

/// A column of at most this length is downloaded as a whole when one of its elements is read.
const SMALL: usize = 64;

/// An element type of columns: `COORDINATES` base field words per element.
pub trait Value: Copy + fmt::Debug + Send + Sync + 'static {
    /// The number of coordinates of an element.
    const COORDINATES: usize;

    /// Converts elements to words, coordinate after coordinate.
    fn to_words(values: &[Self]) -> Vec<Mersenne31>;
    /// Converts words, coordinate after coordinate, to elements.
    fn from_words(words: &[Mersenne31]) -> Vec<Self>;
}

impl Value for BaseField {
    const COORDINATES: usize = 1;

    fn to_words(values: &[Self]) -> Vec<Mersenne31> {
        values.iter().map(|value| value.twin()).collect()
    }

    fn from_words(words: &[Mersenne31]) -> Vec<Self> {
        words.iter().map(|&word| base(word)).collect()
    }
}

impl Value for SecureField {
    const COORDINATES: usize = SECURE_EXTENSION_DEGREE;

    fn to_words(values: &[Self]) -> Vec<Mersenne31> {
        to_slab::<QM31>(&values.iter().map(|value| value.twin()).collect::<Vec<_>>())
    }

    fn from_words(words: &[Mersenne31]) -> Vec<Self> {
        let elements = from_slab::<QM31>(words).expect("a whole number of elements");
        elements.into_iter().map(secure).collect()
    }
}

/// A column of field elements on the device.
///
/// Coordinate c of element i is word `c * len + i` of its memory. The memory is allocated at the first write or
/// read, so a column that is never used, or zeros that are overwritten, cost nothing. A clone has the same memory until
/// one of the two is written to. As long as it does, it keeps the memory of all columns allocated that were uploaded
/// or computed together with them.
///
/// In a proof [over several devices](crate::over), a column may be in blocks of rows, one on each. Then
/// [`Self::device`] is the first of them, and [`Self::view`] gathers the column there.
pub struct DeviceColumn<T: Value> {
    // Proofs make and move tens of thousands of columns, so what few of them have is elsewhere.
    len: usize,
    /// Unique to this column and its current content.
    id: u64,
    /// The logarithm of the number of coefficients that determine values on a canonic domain, if it is known.
    log_coefficients: Option<u8>,
    /// Empty until the memory is allocated.
    words: OnceLock<Words>,
    /// Shared with the clones that have the same memory, once there were any.
    clones: OnceLock<Arc<()>>,
    /// The columns that are opened together with this one.
    batch: Lock<Option<(Arc<Batch>, usize)>>,
    /// Empty until something is there.
    rest: OnceLock<Box<Rest<T>>>,
}

/// The state that few columns have.
struct Rest<T: Value> {
    /// The device of a column without memory; empty until it is known.
    device: OnceLock<Device>,
    /// The computation of the words at the first read; zeros if `None`.
    plan: Option<Plan>,
    /// The FRI layer whose packed rows it holds.
    packed_from: Lock<Option<Arc<Batch>>>,
    /// The elements of a small column that was downloaded.
    read: OnceLock<Vec<T>>,
    /// The values of a column of coefficients on a domain, if they were computed in advance.
    extension: Lock<Option<(CircleDomain, DeviceColumn<T>)>>,
    /// The leaves of a tree that were begun in advance, kept by its first column.
    leaves: Lock<Option<Leaves>>,
}

/// The leaves of a tree that have absorbed its first columns.
pub(crate) struct Leaves {
    pub(crate) begun: LiftedInParts<Blake2s>,
    /// The ids of these columns, in order.
    pub(crate) columns: Vec<u64>,
}

impl<T: Value> Rest<T> {
    fn new(device: OnceLock<Device>, plan: Option<Plan>) -> Self {
        let (packed_from, extension, leaves) = (Lock::new(None), Lock::new(None), Lock::new(None));
        Self { device, plan, packed_from, read: OnceLock::new(), extension, leaves }
    }
}

/// Words that are computed when they are first needed. Upstream requests weights on threads that have no current
/// device and uses them together with columns that have one.
#[derive(Clone)]
pub(crate) enum Plan {
    /// The barycentric weights of a canonic domain of 2^`log_size` points for a point outside of it.
    BarycentricWeights { log_size: u32, point: CirclePoint<SecureField> },
    /// A column that is kept in host memory.
    Deferred(Place),
    /// A column in blocks on several devices. Whoever needs it whole gathers it on the first one.
    Blocks(Blocks),
}

impl Plan {
    fn make(&self, device: &Device) -> Result<Buffer<Mersenne31>> {
        match self {
            Self::BarycentricWeights { log_size, point } => {
                let _phase = phase_on(std::slice::from_ref(device), "barycentric weights");
                let domain = CanonicCoset::new(*log_size).circle_domain().twin();
                let slab = circle_opening::barycentric_weights(&stream(device), domain, point.twin())?;
                Ok(slab.into_values())
            }
            Self::Deferred(place) => place.of.read(place.index..place.index + 1),
            Self::Blocks(blocks) => {
                gathered(device, "columns in blocks", "an operation reads whole columns");
                blocks.gather(device)
            }
        }
    }
}

/// The first of so many ids.
fn next_ids(count: usize) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(count as u64, Ordering::Relaxed)
}

impl<T: Value> DeviceColumn<T> {
    fn new(id: u64, len: usize, words: OnceLock<Words>, rest: OnceLock<Box<Rest<T>>>) -> Self {
        Self { len, id, log_coefficients: None, words, clones: OnceLock::new(), batch: Lock::new(None), rest }
    }

    /// A column without memory.
    fn without_words(len: usize, device: OnceLock<Device>, plan: Option<Plan>) -> Self {
        Self::new(next_ids(1), len, OnceLock::new(), OnceLock::from(Box::new(Rest::new(device, plan))))
    }

    /// A column over memory that a kernel has filled with canonical words (below 2^31 - 1). A secure column has
    /// four coordinates, one after the other.
    pub fn from_buffer(words: Buffer<Mersenne31>) -> Result<Self> {
        if !words.len().is_multiple_of(T::COORDINATES) {
            return Err(Error::shape(
                "DeviceColumn::from_buffer",
                format!("{} words are not a multiple of the {} words of an element", words.len(), T::COORDINATES),
            ));
        }
        let words = Words::new(words.device(), words);
        Ok(Self::new(next_ids(1), words.len() / T::COORDINATES, OnceLock::from(words), OnceLock::new()))
    }

    /// A column of a matrix's words.
    pub(crate) fn from_matrix(matrix: Matrix<Mersenne31>) -> Self {
        Self::from_buffer(matrix.into_values()).or_fail("make a column")
    }

    /// An uninitialized column on a device, not allocated yet.
    pub(crate) fn room(device: &Device, len: usize) -> Self {
        Self::without_words(len, OnceLock::from(device.clone()), None)
    }

    /// A column whose elements are computed when they are needed.
    pub(crate) fn planned(len: usize, plan: Plan) -> Self {
        Self::without_words(len, OnceLock::new(), Some(plan))
    }

    fn plan(&self) -> Option<&Plan> {
        self.rest.get()?.plan.as_ref()
    }

    fn rest(&self) -> &Rest<T> {
        self.rest.get_or_init(|| Box::new(Rest::new(OnceLock::new(), None)))
    }

    /// The column's place in host memory, if the host keeps it and the device does not have it, too.
    pub(crate) fn place(&self) -> Option<&Place> {
        match self.plan() {
            Some(Plan::Deferred(place)) if self.words.get().is_none() => Some(place),
            _ => None,
        }
    }

    /// The column's blocks, if it is in blocks on several devices.
    pub(crate) fn blocks(&self) -> Option<&Blocks> {
        match self.plan() {
            Some(Plan::Blocks(blocks)) => Some(blocks),
            _ => None,
        }
    }

    /// The point whose barycentric weights it holds, if it was made so and not written to.
    pub(crate) fn point(&self) -> Option<CirclePoint<SecureField>> {
        match self.plan() {
            Some(Plan::BarycentricWeights { point, .. }) => Some(*point),
            _ => None,
        }
    }

    /// Keeps the values on a domain of the polynomial that has these coefficients, until they are taken or the
    /// coefficients change.
    pub(crate) fn keep_extension(&self, domain: CircleDomain, values: Self) {
        *self.rest().extension.lock() = Some((domain, values));
    }

    /// Takes the values that were kept. Those on another domain are dropped.
    pub(crate) fn take_extension(&self, domain: CircleDomain) -> Option<Self> {
        let (of, values) = self.rest.get()?.extension.lock().take()?;
        (of == domain).then_some(values)
    }

    /// Keeps leaves that have absorbed this column and the next ones, until they are taken or the column changes.
    pub(crate) fn keep_leaves(&self, leaves: Leaves) {
        *self.rest().leaves.lock() = Some(leaves);
    }

    /// Takes the leaves that were kept.
    pub(crate) fn take_leaves(&self) -> Option<Leaves> {
        self.rest.get()?.leaves.lock().take()
    }

    /// The device that holds it.
    pub fn device(&self) -> &Device {
        match self.words.get() {
            Some(words) => words.device(),
            None => self.rest().device.get_or_init(device),
        }
    }

    /// Whether it is known to be zero because nothing was written yet.
    pub(crate) fn is_blank(&self) -> bool {
        self.words.get().is_none() && self.plan().is_none()
    }

    /// The column's words, which are made if they are not there yet.
    fn words(&self) -> &Words {
        self.words.get_or_init(|| {
            let device = self.device();
            let zeros = || stream(device).zeros(self.len * T::COORDINATES);
            let words = self.plan().map_or_else(zeros, |plan| plan.make(device)).or_fail("make a column");
            Words::new(device.clone(), words)
        })
    }

    /// The column's words, for reading by kernels.
    pub fn view(&self) -> View<'_, Mersenne31> {
        self.words().view()
    }

    /// The column's words, for reading together with other memory of a device.
    pub(crate) fn view_on(&self, device: &Device) -> View<'_, Mersenne31> {
        if self.words.get().is_none() {
            self.rest().device.get_or_init(|| device.clone());
        }
        self.view()
    }

    /// The column's words, for writing by kernels.
    pub fn view_mut(&mut self) -> ViewMut<'_, Mersenne31> {
        let words = self.owned();
        self.replace(words);
        self.words.get_mut().and_then(Words::view_mut).expect("no other column has the memory")
    }

    /// The memory of the column; a copy if a clone has it too.
    pub fn into_buffer(self) -> Buffer<Mersenne31> {
        self.owned()
    }

    /// The column's memory, for a caller who lets go of the column; a copy if a clone has it too.
    fn owned(&self) -> Buffer<Mersenne31> {
        let words = self.view();
        if self.is_shared() {
            return copy(words).or_fail("copy a column");
        }
        // SAFETY: no clone has this column's words, columns beside it have others, and the caller lets go of it.
        unsafe { words.share().into_buffer() }
    }

    /// Whether a clone has the same memory.
    pub(crate) fn is_shared(&self) -> bool {
        self.clones.get().is_some_and(|clones| Arc::strong_count(clones) > 1)
    }

    /// Replaces the words by those of the same number of elements, and discards everything known about the content.
    pub(crate) fn replace(&mut self, words: Buffer<Mersenne31>) {
        debug_assert_eq!(words.len(), self.len * T::COORDINATES);
        let words = Words::new(self.device().clone(), words);
        *self = Self::new(next_ids(1), self.len, OnceLock::from(words), OnceLock::new());
    }

    fn read_all(&self) -> Vec<T> {
        if self.is_blank() {
            return T::from_words(&vec![Mersenne31::new(0); self.len * T::COORDINATES]);
        }
        if let Some(blocks) = self.blocks() {
            let parts = blocks.parts().iter().map(|part| part.view().to_vec(&stream(part.device())));
            let words: Result<Vec<_>> = parts.collect();
            return T::from_words(&words.or_fail("read a column").concat());
        }
        let stream = stream(self.device());
        let words = match self.place() {
            Some(place) => place.of.read(place.index..place.index + 1).and_then(|words| words.to_vec(&stream)),
            None => self.view().to_vec(&stream),
        };
        T::from_words(&words.or_fail("read a column"))
    }

    /// Downloads one element, with a copy for each coordinate.
    fn read_one(&self, index: usize) -> T {
        if let Some((part, index)) = self.blocks().map(|blocks| blocks.place(index)) {
            let word = part.view().range(index..index + 1).and_then(|one| one.to_vec(&stream(part.device())));
            return T::from_words(&word.or_fail("read an element"))[0];
        }
        let stream = stream(self.device());
        let brought =
            self.place().map(|place| place.of.read(place.index..place.index + 1).or_fail("read a column"));
        let view = brought.as_ref().map_or_else(|| self.view(), Buffer::view);
        let word = |c: usize| -> Result<Mersenne31> {
            let at = c * self.len + index;
            Ok(view.range(at..at + 1)?.to_vec(&stream)?[0])
        };
        let words: Result<Vec<_>> = (0..T::COORDINATES).map(word).collect();
        T::from_words(&words.or_fail("read an element"))[0]
    }

    /// Reads one element: from the cached small column, or with a copy of its own.
    fn read_alone(&self, index: usize) -> T {
        assert!(index < self.len, "element {index} of a column of {}", self.len);
        if self.len <= SMALL {
            return self.rest().read.get_or_init(|| self.read_all())[index];
        }
        self.read_one(index)
    }

    fn zeroed(len: usize) -> Self {
        Self::room(&device(), len)
    }

    fn write(&mut self, index: usize, value: T) {
        assert!(index < self.len, "element {index} of a column of {}", self.len);
        let (stream, len) = (stream(self.device()), self.len);
        for (c, word) in T::to_words(&[value]).into_iter().enumerate() {
            let at = c * len + index;
            let place = self.view_mut().range(at..at + 1);
            place.and_then(|place| stream.write(place, &[word])).or_fail("write an element");
        }
    }
}

impl BaseColumn {
    /// The number that identifies the column with its content among all others.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Reads an element that is not the next one of those that were prefetched.
    fn read_out_of_turn(&self, index: usize) -> BaseField {
        assert!(index < self.len, "element {index} of a column of {}", self.len);
        if let Some(values) = self.rest.get().and_then(|rest| rest.read.get()) {
            return values[index];
        }
        let opened = {
            let batch = self.batch.lock();
            batch.as_ref().and_then(|(batch, place)| batch.element(*place, index))
        };
        opened.unwrap_or_else(|| self.read_alone(index))
    }

    /// Records that the column is opened together with others, as number `place` among them.
    pub(crate) fn open_with(&self, batch: &Arc<Batch>, place: usize) {
        *self.batch.lock() = Some((batch.clone(), place));
    }

    /// The columns with which it is opened, and its place among them.
    pub(crate) fn opened_with(&self) -> Option<(Arc<Batch>, usize)> {
        self.batch.lock().clone()
    }

    /// Asks the columns with which it is opened, by default only itself, for something of its place among them.
    ///
    /// Upstream's threads ask for thousands of columns of one batch. If each counted as an owner of the batch, they
    /// would wait for each other to count.
    pub(crate) fn ask_batch<R>(&self, ask: impl FnOnce(&Batch, usize) -> R) -> R {
        if self.batch.lock().is_none() {
            Batch::of_trace(&[self]).expect("a column");
        }
        let batch = self.batch.lock();
        let (batch, place) = batch.as_ref().expect("it was opened above at the latest");
        ask(batch, *place)
    }

    /// Records that the column holds packed rows of a FRI layer.
    pub(crate) fn pack_from(&self, layer: &Arc<Batch>) {
        *self.rest().packed_from.lock() = Some(layer.clone());
    }

    /// The FRI layer whose packed rows the column holds.
    pub(crate) fn packed_from(&self) -> Option<Arc<Batch>> {
        self.rest.get()?.packed_from.lock().clone()
    }

    /// Splits memory into columns of this length.
    pub(crate) fn split(words: Buffer<Mersenne31>, len: usize) -> Result<Vec<Self>> {
        let parts = Words::split(words, len)?;
        let ids = next_ids(parts.len())..;
        let column = |(words, id)| Self::new(id, len, OnceLock::from(words), OnceLock::new());
        Ok(parts.zip(ids).map(column).collect())
    }

    /// Records that the values are on a canonic domain and come from so many coefficients, a power of two.
    pub(crate) fn come_from(&mut self, coefficients: usize) {
        assert!(coefficients.is_power_of_two() && coefficients <= self.len, "{coefficients} of {}", self.len);
        self.log_coefficients = Some(coefficients.ilog2() as u8);
    }

    /// A column of this length that the host keeps.
    pub(crate) fn deferred(len: usize, place: Place) -> Self {
        let device = OnceLock::from(place.of.device().clone());
        Self::without_words(len, device, Some(Plan::Deferred(place)))
    }

    /// A column in blocks on several devices.
    pub(crate) fn in_blocks(blocks: Blocks) -> Self {
        let len = blocks.parts().len() * blocks.parts()[0].len();
        let device = OnceLock::from(blocks.first().clone());
        Self::without_words(len, device, Some(Plan::Blocks(blocks)))
    }

    /// Takes the column apart into its blocks.
    ///
    /// # Panics
    /// If it is not in blocks.
    pub(crate) fn into_blocks(self) -> Vec<Self> {
        match self.rest.into_inner().and_then(|rest| rest.plan) {
            Some(Plan::Blocks(blocks)) => blocks.into_parts(),
            _ => panic!("a column of {} in blocks", self.len),
        }
    }

    /// Writes the column to memory that follows the device's compute stream.
    pub(crate) fn write_to(&self, to: ViewMut<'_, Mersenne31>) -> Result<()> {
        match self.place() {
            Some(place) => place.write(to),
            None => stream(self.device()).copy(to, self.view()),
        }
    }

    /// A handle to the column's words that outlives the column.
    pub(crate) fn held(&self) -> Held {
        if let Some(blocks) = self.blocks() {
            return Held::Blocks(blocks.parts().iter().map(|part| part.words().clone()).collect());
        }
        match self.place() {
            Some(place) => Held::Deferred(place.clone()),
            None => Held::Here(self.words().clone(), self.log_coefficients),
        }
    }
}

impl<T: Value> Clone for DeviceColumn<T> {
    fn clone(&self) -> Self {
        let (words, clones) = match self.words.get() {
            Some(words) => {
                (OnceLock::from(words.clone()), OnceLock::from(self.clones.get_or_init(Arc::default).clone()))
            }
            None => Default::default(),
        };
        let rest = |rest: &Rest<T>| Box::new(Rest::new(rest.device.clone(), rest.plan.clone()));
        let rest = self.rest.get().map_or_else(OnceLock::new, |known| OnceLock::from(rest(known)));
        let log_coefficients = self.log_coefficients;
        Self { clones, log_coefficients, ..Self::new(next_ids(1), self.len, words, rest) }
    }
}

/// A copy of words in memory of its own.
pub(crate) fn copy(words: View<'_, Mersenne31>) -> Result<Buffer<Mersenne31>> {
    let stream = stream(&words.device());
    let mut copy = stream.alloc(words.len())?;
    stream.copy(&mut copy, words)?;
    Ok(copy)
}

impl<T: Value> fmt::Debug for DeviceColumn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.words.get().map(Words::device).or_else(|| self.rest.get()?.device.get());
        let place = device.map_or("no device yet".into(), ToString::to_string);
        write!(f, "DeviceColumn<{}>({} on {place})", std::any::type_name::<T>(), self.len)
    }
}

impl<T: Value> FromIterator<T> for DeviceColumn<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let words = T::to_words(&values.into_iter().collect::<Vec<_>>());
        let words = stream(&device()).upload(&words).or_fail("upload a column");
        Self::from_buffer(words).or_fail("make a column")
    }
}

impl Column<BaseField> for BaseColumn {
    fn zeros(len: usize) -> Self {
        Self::zeroed(len)
    }

    unsafe fn uninitialized(len: usize) -> Self {
        Self::zeroed(len)
    }

    fn to_cpu(&self) -> Vec<BaseField> {
        self.read_all()
    }

    fn len(&self) -> usize {
        self.len
    }

    /// Reads one element: from the prefetched values, from the cached small column, or with a copy of its own.
    #[inline]
    fn at(&self, index: usize) -> BaseField {
        next_element(self.id, index).unwrap_or_else(|| self.read_out_of_turn(index))
    }

    fn set(&mut self, index: usize, value: BaseField) {
        self.write(index, value);
    }

    fn split_at_mid(self) -> (Self, Self) {
        let (device, mid) = (self.device().clone(), self.len / 2);
        if self.is_blank() {
            return (Self::room(&device, mid), Self::room(&device, self.len - mid));
        }
        let (head, tail) = self.into_buffer().split_at(mid).or_fail("split a column");
        let column = |words| Self::from_buffer(words).or_fail("split a column");
        (column(head), column(tail))
    }
}

impl Column<SecureField> for SecureColumn {
    fn zeros(len: usize) -> Self {
        Self::zeroed(len)
    }

    unsafe fn uninitialized(len: usize) -> Self {
        Self::zeroed(len)
    }

    fn to_cpu(&self) -> Vec<SecureField> {
        self.read_all()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn at(&self, index: usize) -> SecureField {
        self.read_alone(index)
    }

    fn set(&mut self, index: usize, value: SecureField) {
        self.write(index, value);
    }

    /// Each half is a slab of its own, so the coordinates are copied.
    fn split_at_mid(self) -> (Self, Self) {
        let mid = self.len / 2;
        let part = |start: usize, end: usize| {
            let (stream, n) = (stream(self.device()), end - start);
            let mut words = stream.alloc(n * SecureField::COORDINATES)?;
            for c in 0..SecureField::COORDINATES {
                let from = self.view().range(c * self.len + start..c * self.len + end)?;
                stream.copy(words.range_mut(c * n..(c + 1) * n)?, from)?;
            }
            Self::from_buffer(words)
        };
        (part(0, mid).or_fail("split a column"), part(mid, self.len).or_fail("split a column"))
    }
}

fn bit_reverse<T: Value>(column: &mut DeviceColumn<T>) {
    let (device, len) = (column.device().clone(), column.len);
    assert!(len.is_power_of_two(), "bit reversal of a column of {len}, which is not a power of two");
    if column.is_blank() {
        return;
    }
    let words = std::mem::replace(column, DeviceColumn::room(&device, len)).into_buffer();
    let reversed = Matrix::new(words, len, T::COORDINATES)
        .and_then(|matrix| permute::bit_reverse(&stream(&device), &matrix))
        .or_fail("reverse a column's bits");
    column.replace(reversed.into_values());
}

impl ColumnOps<BaseField> for CudaBackend {
    type Column = BaseColumn;

    fn bit_reverse_column(column: &mut BaseColumn) {
        bit_reverse(column);
    }
}

impl ColumnOps<SecureField> for CudaBackend {
    type Column = SecureColumn;

    fn bit_reverse_column(column: &mut SecureColumn) {
        bit_reverse(column);
    }
}
