//! Segments of a run, and their preflight by upstream's C++.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use risc0_circuit_rv32im::execute::Segment;
use risc0_circuit_rv32im_sys::{
    PreflightContext, RawDigestEntry, RawMemoryImage, RawPage, RawSegment, RawSlice, SegmentContext, ffi_wrap_ptr,
    ffi_wrap_ptr_mut, risc0_circuit_rv32im_m3_preflight_free, risc0_circuit_rv32im_m3_segment_free,
    risc0_circuit_rv32im_m3_segment_new, risc0_circuit_rv32im_m3_segment_preflight,
};
use risc0_zkp::field::baby_bear::Elem;

use crate::error::{Error, Result};
use crate::shim::{self, PreflightParts};
use crate::{MAX_PO2, MIN_PO2};

/// The rows of a segment, ready to be proven.
///
/// It may be made on any thread; a prover takes it from there.
pub struct Preflight {
    context: NonNull<PreflightContext>,
    po2: u32,
}

// SAFETY: upstream's preflight is plain memory that nobody changes after it is made, and that any thread may free.
unsafe impl Send for Preflight {}
// SAFETY: as above.
unsafe impl Sync for Preflight {}

impl Preflight {
    /// Runs a segment again, as upstream's prover needs it.
    ///
    /// # Errors
    /// A size that upstream does not support, and what upstream's emulator says.
    pub fn new(segment: &Segment) -> Result<Self> {
        let po2 = segment.po2;
        if !(MIN_PO2..=MAX_PO2).contains(&po2) {
            return Err(Error::SegmentSize { po2 });
        }
        let context = Context::new(segment)?;
        let preflight = ffi_wrap_ptr(|| {
            // SAFETY: the context is upstream's own, and nobody else has it.
            unsafe { risc0_circuit_rv32im_m3_segment_preflight(context.0.as_ptr(), po2 as usize) }
        })
        .map_err(|error| Error::Preflight(error.to_string()))?;
        let context = NonNull::new(preflight.cast_mut());
        Ok(Self { context: context.ok_or_else(|| Error::Preflight("it has no result".into()))?, po2 })
    }

    /// The logarithm of the number of rows.
    pub fn po2(&self) -> u32 {
        self.po2
    }

    /// The number of the program's own cycles.
    pub fn cycles(&self) -> u32 {
        self.parts().cycles
    }

    pub(crate) fn context(&self) -> *const PreflightContext {
        self.context.as_ptr()
    }

    pub(crate) fn parts(&self) -> PreflightParts {
        let mut parts = MaybeUninit::uninit();
        // SAFETY: the context is upstream's own; the shim fills all of the struct.
        unsafe {
            shim::rigel_risc0_preflight(self.context.as_ptr(), parts.as_mut_ptr());
            parts.assume_init()
        }
    }
}

impl Drop for Preflight {
    fn drop(&mut self) {
        // SAFETY: it is ours, and freed once.
        unsafe { risc0_circuit_rv32im_m3_preflight_free(self.context.as_ptr()) };
    }
}

/// Upstream's copy of a segment.
struct Context(NonNull<SegmentContext>);

impl Context {
    fn new(segment: &Segment) -> Result<Self> {
        let pages: Vec<RawPage> = segment
            .partial_image
            .pages
            .iter()
            .map(|(&addr, page)| RawPage { addr, data: page.data().as_ptr().cast() })
            .collect();
        let mut image = segment.partial_image.clone();
        let digests: Vec<RawDigestEntry> = image
            .digests()
            .map(|(&idx, digest)| {
                let words = digest.as_words();
                let digest = std::array::from_fn(|i| Elem::new(words[i]).as_u32_montgomery());
                RawDigestEntry { idx, digest }
            })
            .collect();
        let reads: Vec<RawSlice<u8>> = segment.read_record.iter().map(|record| raw(record)).collect();
        let raw_segment = RawSegment {
            image: RawMemoryImage { pages: raw(&pages), digests: raw(&digests) },
            reads: raw(&reads),
            writes: raw(&segment.write_record),
            insn_counter: segment.insn_counter,
            povw_nonce: segment.povw_nonce.map(|nonce| nonce.to_u32s()).unwrap_or_default(),
        };
        // SAFETY: all slices live during the call, which copies them.
        let context = ffi_wrap_ptr_mut(|| unsafe { risc0_circuit_rv32im_m3_segment_new(&raw_segment) });
        context.map(Self).map_err(|error| Error::Preflight(error.to_string()))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it is ours, and freed once.
        unsafe { risc0_circuit_rv32im_m3_segment_free(self.0.as_ptr()) };
    }
}

fn raw<T>(values: &[T]) -> RawSlice<T> {
    RawSlice { ptr: values.as_ptr(), len: values.len() }
}
