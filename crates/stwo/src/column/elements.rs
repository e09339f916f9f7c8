//! The elements of columns, as upstream's `Column` and `ColumnOps` read and write them.

use rigel_gpu::{Buffer, Result};
use rigel_kernels::Matrix;
use rigel_kernels::field::Mersenne31;
use rigel_kernels::layout::permute;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::prover::backend::{Column, ColumnOps};

use super::{BaseColumn, DeviceColumn, SecureColumn, Value};
use crate::CudaBackend;
use crate::batch::{Batch, next_element};
use crate::device::{device, stream};
use crate::failure::OrFail;

/// A column of at most this length is downloaded as a whole when one of its elements is read.
const SMALL: usize = 64;

impl<T: Value> DeviceColumn<T> {
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
