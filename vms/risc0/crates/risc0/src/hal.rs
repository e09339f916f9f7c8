//! The HAL behind upstream's prover: what the shim calls, and what a proof leaves behind.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use rigel_gpu::{Error, Fallback, Recorder, Report, Result, Stream};
use rigel_kernels::field::{BabyBear, Field, RiscZero4};

use crate::circuit::Circuit;
use crate::memory::{Contents, Memory};
use crate::operations::queries::Query;
use crate::shim::{MatrixPart, Operations, Part, PreflightParts, Words};

/// The state of the HAL. One thread uses it at a time.
pub(crate) struct Hal {
    pub(crate) stream: Stream,
    pub(crate) circuit: Arc<Circuit>,
    /// Whether every result is compared with upstream's: then queries are answered at once, in place of when all of
    /// them are known, and buffers keep their content, in place of only while upstream's prover needs it.
    pub(crate) compares: bool,
    /// Whether the device makes the data columns.
    pub(crate) makes_witness: bool,
    pub(crate) queries: RefCell<Vec<Query>>,
    pub(crate) fallbacks: RefCell<Vec<Fallback>>,
    /// Whether rows of the segment accumulate big integers.
    pub(crate) has_big_integers: Cell<bool>,
    /// Host memory that stays valid for the whole proof, as address and length.
    lent: RefCell<Vec<(usize, usize)>>,
    /// The buffers that the shim has not released.
    buffers: RefCell<BTreeSet<*const Memory>>,
    /// The bytes that the host has copied between buffers and upstream in this proof.
    copied: Rc<Cell<u64>>,
    recorder: RefCell<Option<Recorder>>,
    /// The last failure's message, and whether the shim has yet to hear of it.
    error: RefCell<CString>,
    failed: Cell<bool>,
}

impl Hal {
    pub(crate) fn new(stream: Stream, circuit: Arc<Circuit>, compares: bool, makes_witness: bool) -> Self {
        Self {
            stream,
            circuit,
            compares,
            makes_witness,
            queries: RefCell::default(),
            fallbacks: RefCell::default(),
            has_big_integers: Cell::new(false),
            lent: RefCell::default(),
            buffers: RefCell::default(),
            copied: Rc::default(),
            recorder: RefCell::default(),
            error: RefCell::default(),
            failed: Cell::new(false),
        }
    }

    /// Begins a proof of a preflight, whose memory does not change until the end.
    pub(crate) fn begin(&self, preflight: &PreflightParts) {
        let PreflightParts { rows, row_bytes, aux, aux_bytes, block_counts, block_types, .. } = *preflight;
        // SAFETY: the preflight has this many counts.
        let counts = unsafe { std::slice::from_raw_parts(block_counts, block_types) };
        let big_integers = counts.get(self.circuit.record().big_integers);
        self.has_big_integers.set(big_integers.is_none_or(|&count| count > 0));
        self.queries.borrow_mut().clear();
        self.fallbacks.borrow_mut().clear();
        self.failed.set(false);
        self.copied.set(0);
        *self.lent.borrow_mut() = vec![(rows as usize, row_bytes), (aux as usize, aux_bytes)];
        *self.recorder.borrow_mut() = Some(Recorder::new(&self.stream));
    }

    /// Ends a proof, whether it succeeded or not: its report, and the bytes that the host has copied.
    pub(crate) fn end(&self) -> Result<(Report, u64)> {
        self.lent.borrow_mut().clear();
        let mut failed = None;
        for &memory in self.buffers.borrow().iter() {
            // SAFETY: `release` removes a buffer from the list before it frees it.
            match unsafe { &*memory }.contents() {
                Ok(mut contents) => {
                    contents.end_borrow();
                    // Upstream writes everything anew in each proof, but for small lists that are on the host.
                    contents.give_back();
                }
                // The others' borrows end all the same.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let Some(recorder) = self.recorder.borrow_mut().take() else { return Ok(Default::default()) };
        let mut report = recorder.finish()?;
        report.fallbacks = self.fallbacks.borrow_mut().drain(..).collect();
        Ok((report, self.copied.get()))
    }

    /// Notes that a part of the proof ran on the CPU.
    pub(crate) fn ran_on_cpu(&self, part: &'static str, reason: &str) {
        let fallback = Fallback { part, ran_on: "CPU", reason: reason.to_owned() };
        let mut fallbacks = self.fallbacks.borrow_mut();
        if !fallbacks.contains(&fallback) {
            fallbacks.push(fallback);
        }
    }

    /// The operations for the shim. They refer to this HAL, which must not move and must outlive its provers.
    pub(crate) fn operations(&self) -> Operations {
        Operations {
            state: std::ptr::from_ref(self).cast_mut().cast(),
            error,
            allocate,
            release,
            write,
            read,
            copy,
            zero,
            hash_rows,
            hash_fold,
            query,
            bit_reverse,
            expand,
            interpolate,
            shift,
            evaluate,
            combine,
            subtract,
            divide,
            finalize,
            fold,
            data_witness,
            accum_witness,
            eval_check,
            synchronize,
        }
    }

    /// Runs an operation as a phase of the report. A failure, or a panic, becomes the error that the shim asks for.
    fn run(&self, phase: &'static str, work: impl FnOnce() -> Result<()>) -> bool {
        if self.failed.get() {
            return false;
        }
        let text = match catch_unwind(AssertUnwindSafe(|| self.phase(phase, work))) {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error.to_string(),
            Err(panic) => match panic.downcast_ref::<String>() {
                Some(text) => text.clone(),
                None => panic.downcast_ref::<&str>().map_or("a panic", |text| text).to_owned(),
            },
        };
        *self.error.borrow_mut() = CString::new(text.replace('\0', " ")).unwrap_or_default();
        self.failed.set(true);
        false
    }

    /// Does work as a phase of the report, unless the phase has no name.
    pub(crate) fn phase<R>(&self, phase: &'static str, work: impl FnOnce() -> Result<R>) -> Result<R> {
        match &*self.recorder.borrow() {
            Some(recorder) if !phase.is_empty() => recorder.phase(phase, &self.stream, work),
            _ => work(),
        }
    }

    fn write(&self, to: Part, from: *const u8) -> Result<()> {
        let lent = self.lent.borrow().contains(&(from as usize, to.size));
        let mut contents = to.contents()?;
        if lent && to.offset == 0 {
            contents.borrow_host(from, to.size);
            return Ok(());
        }
        // SAFETY: the shim passes as many bytes as it says.
        contents.write(&self.stream, to.offset, unsafe { std::slice::from_raw_parts(from, to.size) })
    }

    fn read(&self, from: Part, to: *mut u8) -> Result<()> {
        // SAFETY: the shim passes zeros, as many bytes as it says.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to, from.size) };
        from.contents()?.read(&self.stream, from.offset, bytes)
    }

    fn copy(&self, to: Part, from: Part) -> Result<()> {
        let (mut target, mut source) = (to.contents()?, from.contents()?);
        if target.is_whole(to.offset, to.size) && source.is_whole(from.offset, from.size) {
            return target.copy_from(&self.stream, &mut source);
        }
        let (target_words, source_words) =
            (target.words_of(to.offset, to.size)?, source.words_of(from.offset, from.size)?);
        let source = source.view(&self.stream)?.range(source_words.0..source_words.1)?;
        let target = target.device_mut(&self.stream)?.range(target_words.0..target_words.1)?;
        self.stream.copy(target, source)
    }

    fn zero(&self, part: Part) -> Result<()> {
        let mut contents = part.contents()?;
        if contents.is_whole(part.offset, part.size) {
            contents.clear();
            return Ok(());
        }
        let (first, end) = contents.words_of(part.offset, part.size)?;
        self.stream.fill_bytes(contents.device_mut(&self.stream)?.range(first..end)?, 0)
    }
}

impl Part {
    /// The buffer's content.
    pub(crate) fn contents(&self) -> Result<std::cell::RefMut<'_, Contents>> {
        // SAFETY: the shim passes handles that `allocate` gave it and that it has not released.
        unsafe { &*self.buffer }.contents()
    }

    /// The words of a small array on the host.
    pub(crate) fn host_words(&self, stream: &Stream) -> Result<Vec<u32>> {
        let mut contents = self.contents()?;
        let (first, end) = contents.words_of(self.offset, self.size)?;
        Ok(contents.host_words(stream)?[first..end].to_vec())
    }

    /// The elements of a small array of the extension.
    pub(crate) fn host_elements(&self, stream: &Stream) -> Result<Vec<RiscZero4>> {
        let words = self.host_words(stream)?;
        Ok(words.chunks_exact(4).map(|words| element([words[0], words[1], words[2], words[3]])).collect())
    }
}

impl MatrixPart {
    /// The buffer's content.
    pub(crate) fn contents(&self) -> Result<std::cell::RefMut<'_, Contents>> {
        // SAFETY: as above.
        unsafe { &*self.buffer }.contents()
    }

    /// The logarithm of the number of rows.
    pub(crate) fn log_rows(&self) -> Result<u32> {
        if !self.rows.is_power_of_two() {
            let detail = format!("{} rows; the number must be a power of two", self.rows);
            return Err(Error::shape("RISC Zero's HAL", detail));
        }
        Ok(self.rows.trailing_zeros())
    }
}

/// An element of the extension from its stored words.
pub(crate) fn element(words: [u32; 4]) -> RiscZero4 {
    RiscZero4(words.map(BabyBear::from_word))
}

/// The element that the shim points to.
fn read_element(words: Words) -> RiscZero4 {
    // SAFETY: the shim points to the four words of a value that lives during the call.
    element(unsafe { *words })
}

fn hal<'a>(state: *mut c_void) -> &'a Hal {
    // SAFETY: the state is a HAL that outlives its provers (see `Hal::operations`), and one thread uses it.
    unsafe { &*state.cast::<Hal>() }
}

extern "C" fn error(state: *mut c_void) -> *const c_char {
    let hal = hal(state);
    hal.failed.set(false);
    let text = hal.error.borrow();
    let text: &CStr = &text;
    text.as_ptr()
}

extern "C" fn allocate(state: *mut c_void, bytes: usize) -> *const Memory {
    let hal = hal(state);
    let memory: *const Memory = Box::into_raw(Box::new(Memory::new(bytes, hal.copied.clone())));
    hal.buffers.borrow_mut().insert(memory);
    memory
}

extern "C" fn release(state: *mut c_void, memory: *const Memory) {
    if hal(state).buffers.borrow_mut().remove(&memory) {
        // SAFETY: `allocate` gave it to the shim, which has not released it before.
        drop(unsafe { Box::from_raw(memory.cast_mut()) });
    }
}

extern "C" fn read(state: *mut c_void, from: Part, to: *mut c_void) -> bool {
    // The seal gets the answer to a query when all queries are known.
    let is_query = from.contents().is_ok_and(|contents| contents.awaits_query);
    is_query || hal(state).run("read back", || hal(state).read(from, to.cast()))
}

/// Operations that the shim calls, each with its phase in the report.
macro_rules! operations {
    ($($name:ident($($argument:ident: $type:ty),*) in $phase:literal => |$hal:ident| $work:expr;)*) => { $(
        extern "C" fn $name(state: *mut c_void $(, $argument: $type)*) -> bool {
            let $hal = hal(state);
            $hal.run($phase, || $work)
        }
    )* };
}

operations! {
    write(to: Part, from: *const c_void) in "" => |hal| hal.write(to, from.cast());
    copy(to: Part, from: Part) in "copies" => |hal| hal.copy(to, from);
    zero(part: Part) in "" => |hal| hal.zero(part);
    hash_rows(digests: Part, matrix: MatrixPart) in "row hashes" => |hal| hal.hash_rows(digests, matrix);
    hash_fold(parents: Part, children: Part) in "trees" => |hal| hal.hash_fold(parents, children);
    query(out: Part, matrix: MatrixPart, tree: Part, top: usize, index: usize) in ""
        => |hal| hal.query(out, matrix, tree, top, index);
    bit_reverse(matrix: MatrixPart) in "bit reversal" => |hal| hal.bit_reverse(matrix);
    expand(out: MatrixPart, coefficients: MatrixPart) in "extension" => |hal| hal.expand(out, coefficients);
    interpolate(matrix: MatrixPart) in "interpolation" => |hal| hal.interpolate(matrix);
    shift(matrix: MatrixPart) in "shift" => |hal| hal.shift(matrix);
    evaluate(out: Part, coefficients: MatrixPart, columns: Part, points: Part) in "openings"
        => |hal| hal.evaluate(out, coefficients, columns, points);
    combine(combos: MatrixPart, coefficients: MatrixPart, which: Part, start: Words, mix: Words) in "combinations"
        => |hal| hal.combine(combos, coefficients, which, read_element(start), read_element(mix));
    subtract(combos: MatrixPart, values: Part, infos: Part, mix: Words) in "combinations"
        => |hal| hal.subtract(combos, values, infos, read_element(mix));
    divide(combos: MatrixPart, infos: Part) in "division" => |hal| hal.divide(combos, infos);
    finalize(out: MatrixPart, combos: MatrixPart) in "combinations" => |hal| hal.finalize(out, combos);
    fold(out: MatrixPart, coefficients: MatrixPart, mix: Words) in "FRI folds"
        => |hal| hal.fold(out, coefficients, read_element(mix));
    data_witness(data: MatrixPart, globals: Part, rows: Part, aux: Part, tables: Part) in ""
        => |hal| hal.data_witness(data, globals, rows, aux, tables);
    accum_witness(accum: MatrixPart, data: MatrixPart, globals: Part, mix: Part) in "accumulation"
        => |hal| hal.accum_witness(accum, data, globals, mix);
    eval_check(check: MatrixPart, data: MatrixPart, accum: MatrixPart, globals: Part, accum_mix: Part, mix: Words)
        in "constraints" => |hal| hal.eval_check(check, data, accum, globals, accum_mix, read_element(mix));
    synchronize() in "" => |hal| { let _ = hal; Ok(()) };
}
