//! Columns on the device.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rigel_gpu::{Buffer, Device, Error, Lock, Result, View, ViewMut};
use rigel_kernels::Matrix;
use rigel_kernels::commit::lifted::LiftedInParts;
use rigel_kernels::field::{Mersenne31, QM31};
use rigel_kernels::hash::Blake2s;
use rigel_kernels::layout::slab::{from_slab, to_slab};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::{SECURE_EXTENSION_DEGREE, SecureField};
use stwo::core::poly::circle::CircleDomain;

use crate::batch::Batch;
use crate::copies::copy;
use crate::device::{device, stream};
use crate::failure::OrFail;
use crate::field::{Twin, base, secure};
use crate::words::Words;

mod elements;
mod location;

pub(crate) use location::{Blocks, Plan, by_device, devices_of, parts_on};

/// A column of base field elements on the device.
pub type BaseColumn = DeviceColumn<BaseField>;

/// A column of secure field elements on the device, stored as a slab: coordinate after coordinate.
pub type SecureColumn = DeviceColumn<SecureField>;

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
}

impl BaseColumn {
    /// The number that identifies the column with its content among all others.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Records that the column is opened together with others, as number `place` among them.
    pub(crate) fn open_with(&self, batch: &Arc<Batch>, place: usize) {
        *self.batch.lock() = Some((batch.clone(), place));
    }

    /// The columns with which it is opened, and its place among them.
    pub(crate) fn opened_with(&self) -> Option<(Arc<Batch>, usize)> {
        self.batch.lock().clone()
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

impl<T: Value> fmt::Debug for DeviceColumn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.words.get().map(Words::device).or_else(|| self.rest.get()?.device.get());
        let place = device.map_or("no device yet".into(), ToString::to_string);
        write!(f, "DeviceColumn<{}>({} on {place})", std::any::type_name::<T>(), self.len)
    }
}
