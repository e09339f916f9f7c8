//! Buffers of upstream's prover: device memory, and what of it is also, or only, on the host.
//!
//! Upstream asks for results in natural order and bit-reverses matrices in passes of their own. Rigel's transforms
//! give evaluations in bit-reversed order and coefficients in natural order, which is the opposite of what
//! upstream's give. So a buffer notes in which order its columns are stored, bit reversal changes the note, and
//! values move only where somebody needs them in the other order.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;

use rigel_gpu::{Buffer, Error, Result, Stream, View, ViewMut};
use rigel_kernels::Matrix;
use rigel_kernels::layout::permute::bit_reverse_into;

/// The largest buffer that has a copy on the host once the device has written to it.
const SMALL: usize = 1 << 20;

/// A buffer, whose address is the handle that the shim has.
pub(crate) struct Memory(RefCell<Contents>);

/// The contents of a buffer, and where they are.
pub(crate) struct Contents {
    words: usize,
    device: Option<Buffer<u32>>,
    /// Whether the device's memory has the content.
    on_device: bool,
    /// The logarithm of the length of the columns that are stored in bit-reversed order in the device's memory.
    reversed: Option<u32>,
    host: Host,
    /// A query has been noted whose result upstream reads before it is there.
    pub(crate) awaits_query: bool,
    /// Whether nobody reads the content after it has been copied to another buffer.
    pub(crate) is_for_copy: bool,
    /// The bytes that the host has copied between buffers and upstream, of all buffers of a HAL.
    copied: Rc<Cell<u64>>,
}

/// A copy of the content on the host.
enum Host {
    Nothing,
    Words(Vec<u32>),
    /// The first bytes of the content, in memory that outlives the proof.
    Borrowed(*const u8, usize),
}

impl Memory {
    /// A buffer of zeros.
    pub(crate) fn new(bytes: usize, copied: Rc<Cell<u64>>) -> Self {
        let words = bytes.div_ceil(4);
        Self(RefCell::new(Contents {
            words,
            device: None,
            on_device: false,
            reversed: None,
            host: Host::Nothing,
            awaits_query: false,
            is_for_copy: false,
            copied,
        }))
    }

    /// The content, for one operation.
    pub(crate) fn contents(&self) -> Result<RefMut<'_, Contents>> {
        self.0.try_borrow_mut().map_err(|_| wrong("an operation reads and writes the same buffer".into()))
    }
}

impl Contents {
    /// Forgets the content: the buffer holds zeros.
    pub(crate) fn clear(&mut self) {
        self.on_device = false;
        self.reversed = None;
        self.host = Host::Nothing;
    }

    /// Gives the device's memory back. What is not on the host is lost: the buffer holds zeros.
    pub(crate) fn give_back(&mut self) {
        self.device = None;
        self.on_device = false;
        self.reversed = None;
    }

    /// Replaces the content by words on the host.
    pub(crate) fn set_host(&mut self, words: Vec<u32>) {
        self.clear();
        self.host = Host::Words(words);
    }

    /// Replaces the content by bytes that stay where they are until the proof is done. What lies beyond them is zero.
    pub(crate) fn borrow_host(&mut self, bytes: *const u8, len: usize) {
        self.clear();
        self.host = Host::Borrowed(bytes, len);
    }

    /// Ends a borrow of host memory; the content is zero again.
    pub(crate) fn end_borrow(&mut self) {
        if matches!(self.host, Host::Borrowed(..)) {
            self.host = Host::Nothing;
        }
    }

    /// Writes a part of the content.
    pub(crate) fn write(&mut self, stream: &Stream, offset: usize, bytes: &[u8]) -> Result<()> {
        let (first, end) = self.words_of(offset, bytes.len())?;
        self.count(bytes.len());
        let words = words(bytes);
        if end - first == self.words {
            self.set_host(words);
            return Ok(());
        }
        if 4 * self.words <= SMALL {
            let mut all = self.download(stream)?;
            all[first..end].copy_from_slice(&words);
            self.set_host(all);
            return Ok(());
        }
        stream.write(self.device_mut(stream)?.range(first..end)?, &words)
    }

    /// Reads a part of the content into bytes that are zero. Waits for the stream if the part is on the device only.
    pub(crate) fn read(&mut self, stream: &Stream, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let (first, end) = self.words_of(offset, bytes.len())?;
        self.count(bytes.len());
        match &self.host {
            Host::Words(words) => bytes.copy_from_slice(rigel_gpu::bytes_of(&words[first..end])),
            // The part alone: a preflight has hundreds of megabytes, of which upstream reads a few words.
            Host::Borrowed(lent, len) => {
                // SAFETY: whoever called `borrow_host` keeps the bytes until the proof is done, and then ends the
                // borrow.
                let lent = unsafe { std::slice::from_raw_parts(*lent, *len) };
                let there = &lent[offset.min(*len)..(offset + bytes.len()).min(*len)];
                bytes[..there.len()].copy_from_slice(there);
            }
            Host::Nothing if self.on_device => {
                self.arrange(stream, None)?;
                let mut words = vec![0u32; end - first];
                stream.read(self.device_view()?.range(first..end)?, &mut words)?;
                bytes.copy_from_slice(rigel_gpu::bytes_of(&words));
            }
            Host::Nothing => {}
        }
        Ok(())
    }

    fn count(&self, bytes: usize) {
        self.copied.set(self.copied.get() + bytes as u64);
    }

    /// All words of the content. Waits for the stream, unless they are on the host.
    pub(crate) fn download(&mut self, stream: &Stream) -> Result<Vec<u32>> {
        self.count(4 * self.words);
        match &self.host {
            Host::Words(words) => Ok(words.clone()),
            Host::Borrowed(bytes, len) => {
                // SAFETY: whoever called `borrow_host` keeps the bytes until the proof is done, and then ends the
                // borrow.
                let mut all = words(unsafe { std::slice::from_raw_parts(*bytes, *len) });
                all.resize(self.words, 0);
                Ok(all)
            }
            Host::Nothing if !self.on_device => Ok(vec![0; self.words]),
            Host::Nothing => {
                self.arrange(stream, None)?;
                self.device_view()?.to_vec(stream)
            }
        }
    }

    /// The words on the host, read from the device if they are not there yet.
    pub(crate) fn host_words(&mut self, stream: &Stream) -> Result<&[u32]> {
        if !matches!(self.host, Host::Words(_)) {
            let words = self.download(stream)?;
            self.host = Host::Words(words);
        }
        match &self.host {
            Host::Words(words) => Ok(words),
            _ => Err(wrong("the content is not on the host".into())),
        }
    }

    /// The content on the host, if it is there.
    pub(crate) fn host_bytes(&self) -> Option<*const u8> {
        match &self.host {
            Host::Words(words) => Some(words.as_ptr().cast()),
            Host::Borrowed(bytes, _) => Some(*bytes),
            Host::Nothing => None,
        }
    }

    /// Makes the device's memory hold the content.
    fn load(&mut self, stream: &Stream) -> Result<()> {
        if self.on_device {
            return Ok(());
        }
        let mut device = match self.device.take() {
            Some(device) => device,
            None => stream.alloc(self.words)?,
        };
        let filled = match &self.host {
            Host::Nothing => stream.fill_bytes(&mut device, 0),
            Host::Words(words) => stream.write(&mut device, words),
            Host::Borrowed(bytes, len) if bytes.cast::<u32>().is_aligned() && len.is_multiple_of(4) => {
                // SAFETY: whoever called `borrow_host` keeps the bytes until the proof is done, and then ends the
                // borrow; they are aligned, and every bit pattern is a word.
                let words = unsafe { std::slice::from_raw_parts(bytes.cast::<u32>(), len / 4) };
                let split = device.view_mut().split_at(words.len());
                split.and_then(|(head, tail)| {
                    stream.write(head, words)?;
                    stream.fill_bytes(tail, 0)
                })
            }
            Host::Borrowed(..) => self.download(stream).and_then(|words| stream.write(&mut device, &words)),
        };
        self.device = Some(device);
        filled?;
        self.on_device = true;
        self.reversed = None;
        Ok(())
    }

    fn device_view(&self) -> Result<View<'_, u32>> {
        self.device.as_ref().map(Buffer::view).ok_or_else(|| wrong("the content is not on the device".into()))
    }

    /// The order of columns of this length, if it is one of the two; otherwise the columns are put into natural order.
    /// Afterwards the content is on the device.
    pub(crate) fn settle(&mut self, stream: &Stream, log_rows: u32) -> Result<Option<u32>> {
        self.load(stream)?;
        if self.reversed != Some(log_rows) {
            self.arrange(stream, None)?;
        }
        Ok(self.reversed)
    }

    /// Puts the columns into this order: natural, or bit-reversed in columns of this length.
    pub(crate) fn arrange(&mut self, stream: &Stream, wanted: Option<u32>) -> Result<()> {
        self.load(stream)?;
        if self.reversed == wanted {
            return Ok(());
        }
        for log_rows in [self.reversed, wanted].into_iter().flatten() {
            let device = self.device.take().ok_or_else(|| wrong("the content is not on the device".into()))?;
            let (rows, len) = (1usize << log_rows, device.len());
            if !len.is_multiple_of(rows) {
                self.device = Some(device);
                return Err(wrong(format!("{len} words are no columns of 2^{log_rows} rows")));
            }
            let matrix = Matrix::new(device, rows, len / rows)?;
            let mut permuted = stream.alloc::<u32>(len)?;
            bit_reverse_into(stream, permuted.view_mut(), &matrix)?;
            self.device = Some(permuted);
        }
        self.reversed = wanted;
        Ok(())
    }

    /// Notes that the columns of the content are now read in the other order.
    pub(crate) fn reverse(&mut self, stream: &Stream, log_rows: u32) -> Result<()> {
        self.reversed = match self.settle(stream, log_rows)? {
            Some(_) => None,
            None => Some(log_rows),
        };
        self.host = Host::Nothing;
        Ok(())
    }

    /// The content on the device, in natural order.
    pub(crate) fn view(&mut self, stream: &Stream) -> Result<View<'_, u32>> {
        self.arrange(stream, None)?;
        self.device_view()
    }

    /// The content on the device, in the order in which it is stored.
    pub(crate) fn stored(&self) -> Result<View<'_, u32>> {
        self.device_view()
    }

    /// The content on the device, in natural order, to be changed.
    pub(crate) fn device_mut(&mut self, stream: &Stream) -> Result<ViewMut<'_, u32>> {
        self.arrange(stream, None)?;
        self.stored_mut(None)
    }

    /// The content on the device, to be changed as it is stored; afterwards it is in this order.
    pub(crate) fn stored_mut(&mut self, order: Option<u32>) -> Result<ViewMut<'_, u32>> {
        self.host = Host::Nothing;
        self.reversed = order;
        self.device.as_mut().map(Buffer::view_mut).ok_or_else(|| wrong("the content is not on the device".into()))
    }

    /// The device's memory, to be written over as a whole, in this order.
    pub(crate) fn overwrite(&mut self, stream: &Stream, order: Option<u32>) -> Result<ViewMut<'_, u32>> {
        if self.device.is_none() {
            self.device = Some(stream.alloc(self.words)?);
        }
        self.on_device = true;
        self.stored_mut(order)
    }

    /// Copies the whole content of another buffer of the same size, with its order.
    pub(crate) fn copy_from(&mut self, stream: &Stream, from: &mut Contents) -> Result<()> {
        if self.words != from.words {
            return Err(wrong(format!("{} words copied to {}", from.words, self.words)));
        }
        from.load(stream)?;
        let order = from.reversed;
        if std::mem::take(&mut from.is_for_copy) {
            self.clear();
            self.device = from.device.take();
            (self.on_device, self.reversed) = (true, order);
            from.clear();
            return Ok(());
        }
        let to = self.overwrite(stream, order)?;
        stream.copy(to, from.device_view()?)
    }

    /// Whether a range of bytes is the whole buffer.
    pub(crate) fn is_whole(&self, offset: usize, size: usize) -> bool {
        offset == 0 && size.div_ceil(4) == self.words
    }

    /// The words of a range of bytes.
    pub(crate) fn words_of(&self, offset: usize, size: usize) -> Result<(usize, usize)> {
        let end = offset.checked_add(size).filter(|end| *end <= 4 * self.words);
        match end {
            Some(end) if offset.is_multiple_of(4) && size.is_multiple_of(4) => Ok((offset / 4, end / 4)),
            _ => Err(wrong(format!("{size} bytes from {offset} on of a buffer of {} words", self.words))),
        }
    }
}

/// The words that bytes of any alignment hold.
fn words(bytes: &[u8]) -> Vec<u32> {
    let mut words = vec![0u32; bytes.len().div_ceil(4)];
    rigel_gpu::bytes_of_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
    words
}

fn wrong(detail: String) -> Error {
    Error::shape("RISC Zero's HAL", detail)
}
