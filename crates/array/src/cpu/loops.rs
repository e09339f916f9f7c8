//! Loops over a chunk of elements: one monomorphic loop for each operation and type.
//!
//! A loop reads up to three sources, each either contiguous elements or one element for the whole chunk, and
//! writes contiguous results. If the processor has AVX2, arithmetic uses a version compiled for it, with the same
//! results.

use std::mem::MaybeUninit;
use std::slice;

/// A source of a loop: contiguous elements, or one element for the whole chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// The first element, aligned as its type is.
    pub(crate) start: *const u8,
    /// Whether one element is used for all.
    pub(crate) uniform: bool,
}

impl Source {
    /// A source without elements.
    pub(crate) const NONE: Self = Self { start: std::ptr::null(), uniform: true };
}

/// The arguments of a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Memory for the results, aligned for their type; no source overlaps it.
    pub(crate) out: *mut u8,
    /// The operands; those after the operation's last are ignored.
    pub(crate) sources: [Source; 3],
    /// The number of results.
    pub(crate) count: usize,
}

/// A loop over a chunk.
///
/// # Safety
/// The sources hold `count` elements (or one, if uniform) of the loop's types, `out` has space for `count`
/// results, all are aligned, and `out` overlaps no source.
pub(crate) type Loop = unsafe fn(&Call);

/// The elements of a source.
///
/// # Safety
/// As for [`Loop`], for the source with this number.
#[inline(always)]
unsafe fn read<'a, T>(call: Call, source: usize) -> &'a [T] {
    let Source { start, uniform } = call.sources[source];
    // SAFETY: the caller guarantees this many aligned elements.
    unsafe { slice::from_raw_parts(start.cast(), if uniform { 1 } else { call.count }) }
}

/// The memory for the results.
///
/// # Safety
/// As for [`Loop`].
#[inline(always)]
unsafe fn room<'a, R>(call: Call) -> &'a mut [MaybeUninit<R>] {
    // SAFETY: the caller guarantees the memory, and that nothing else refers to it.
    unsafe { slice::from_raw_parts_mut(call.out.cast(), call.count) }
}

#[inline(always)]
unsafe fn unary_body<A: Copy, R: Copy>(call: &Call, f: impl Fn(A) -> R) {
    // SAFETY: guaranteed by the caller.
    let (a, out) = unsafe { (read::<A>(*call, 0), room::<R>(*call)) };
    if call.sources[0].uniform {
        out.fill(MaybeUninit::new(f(a[0])));
        return;
    }
    for (out, &a) in out.iter_mut().zip(a) {
        out.write(f(a));
    }
}

#[inline(always)]
unsafe fn binary_body<A: Copy, B: Copy, R: Copy>(call: &Call, f: impl Fn(A, B) -> R) {
    // SAFETY: guaranteed by the caller.
    let (a, b, out) = unsafe { (read::<A>(*call, 0), read::<B>(*call, 1), room::<R>(*call)) };
    match (call.sources[0].uniform, call.sources[1].uniform) {
        (true, true) => out.fill(MaybeUninit::new(f(a[0], b[0]))),
        (true, false) => {
            let a = a[0];
            for (out, &b) in out.iter_mut().zip(b) {
                out.write(f(a, b));
            }
        }
        (false, true) => {
            let b = b[0];
            for (out, &a) in out.iter_mut().zip(a) {
                out.write(f(a, b));
            }
        }
        (false, false) => {
            for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
                out.write(f(a, b));
            }
        }
    }
}

/// Functions compiled twice: for any processor of the architecture, and for one with AVX2.
macro_rules! widened {
    ($($(#[$doc:meta])* $name:ident, $wide:ident, $body:ident: [$($generic:ident),*], $function:ty,
        ($($argument:ident: $of:ty),*);)*) => { $(
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        unsafe fn $wide<$($generic: Copy),*>($($argument: $of,)* f: $function) {
            // SAFETY: guaranteed by the caller.
            unsafe { $body($($argument,)* f) }
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// As for [`Loop`].
        pub(crate) unsafe fn $name<$($generic: Copy),*>($($argument: $of,)* f: $function) {
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2; the caller guarantees the rest.
                return unsafe { $wide($($argument,)* f) };
            }
            // SAFETY: guaranteed by the caller.
            unsafe { $body($($argument,)* f) }
        }
    )* };
}

widened! {
    /// `out[i] = f(a[i])`.
    unary, unary_wide, unary_body: [A, R], impl Fn(A) -> R, (call: &Call);
    /// `out[i] = f(a[i], b[i])`.
    binary, binary_wide, binary_body: [A, B, R], impl Fn(A, B) -> R, (call: &Call);
    /// See [`fold_body`].
    fold, fold_wide, fold_body: [T], impl Fn(T, T) -> T + Copy,
        (values: *const u8, len: usize, out: *mut u8, count: usize);
    /// See [`join_body`].
    join, join_wide, join_body: [T], impl Fn(T, T) -> T, (into: *mut u8, values: *const u8, count: usize);
}

/// [`unary`] for functions that are not inlined.
///
/// # Safety
/// As for [`Loop`].
pub(crate) unsafe fn unary_call<A: Copy, R: Copy>(call: &Call, f: impl Fn(A) -> R) {
    // SAFETY: guaranteed by the caller.
    unsafe { unary_body(call, f) }
}

/// [`binary`] for functions that are not inlined.
///
/// # Safety
/// As for [`Loop`].
pub(crate) unsafe fn binary_call<A: Copy, B: Copy, R: Copy>(call: &Call, f: impl Fn(A, B) -> R) {
    // SAFETY: guaranteed by the caller.
    unsafe { binary_body(call, f) }
}

/// `out[i] = if condition[i] { a[i] } else { b[i] }`.
///
/// # Safety
/// As for [`Loop`].
pub(crate) unsafe fn select<T: Copy>(call: &Call) {
    // SAFETY: guaranteed by the caller.
    let (c, a, b, out) =
        unsafe { (read::<u8>(*call, 0), read::<T>(*call, 1), read::<T>(*call, 2), room::<T>(*call)) };
    let at = |source: usize, i: usize| if call.sources[source].uniform { 0 } else { i };
    for (i, out) in out.iter_mut().enumerate() {
        let (a, b) = (a[at(1, i)], b[at(2, i)]);
        out.write(if c[at(0, i)] != 0 { a } else { b });
    }
}

/// The number of elements summed in one loop. More are summed as a tree, so that errors grow with the logarithm.
const BLOCK: usize = 512;
/// The number of partial sums of a loop.
const LANES: usize = 16;

/// `f` over `values`, which are not empty.
#[inline(always)]
fn fold_slice<T: Copy>(values: &[T], f: impl Fn(T, T) -> T + Copy) -> T {
    if values.len() < 2 * LANES {
        let (&first, rest) = values.split_first().expect("values to fold");
        return rest.iter().fold(first, |sum, &x| f(sum, x));
    }
    let (first, rest) = values.split_at(LANES);
    let mut lanes: [T; LANES] = first.try_into().expect("as many as lanes");
    let mut chunks = rest.chunks_exact(LANES);
    for chunk in &mut chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = f(*lane, x);
        }
    }
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            lanes[i] = f(lanes[i], lanes[i + width]);
        }
    }
    chunks.remainder().iter().fold(lanes[0], |sum, &x| f(sum, x))
}

/// `out[i]` = f over the elements `[i len, (i + 1) len)` of `values`, in an order that depends only on `len`.
///
/// # Safety
/// `values` holds `len count` elements and `out` has space for `count`; both are aligned and disjoint.
#[inline(always)]
unsafe fn fold_body<T: Copy>(
    values: *const u8,
    len: usize,
    out: *mut u8,
    count: usize,
    f: impl Fn(T, T) -> T + Copy,
) {
    // SAFETY: guaranteed by the caller.
    let (values, out) = unsafe {
        (
            slice::from_raw_parts(values.cast::<T>(), len * count),
            slice::from_raw_parts_mut(out.cast::<MaybeUninit<T>>(), count),
        )
    };
    for (out, values) in out.iter_mut().zip(values.chunks_exact(len)) {
        if len <= BLOCK {
            out.write(fold_slice(values, f));
            continue;
        }
        // A tree over blocks: the sum of 2^k blocks waits at index k for its sibling.
        let mut waiting = [None; usize::BITS as usize];
        for block in values.chunks(BLOCK) {
            let mut sum = fold_slice(block, f);
            let mut level = 0;
            while let Some(sibling) = waiting[level].take() {
                sum = f(sibling, sum);
                level += 1;
            }
            waiting[level] = Some(sum);
        }
        let sum = waiting.into_iter().flatten().reduce(|later, earlier| f(earlier, later));
        out.write(sum.expect("at least one block"));
    }
}

/// `into[i] = f(into[i], values[i])`.
///
/// # Safety
/// Both hold `count` elements, aligned and disjoint.
#[inline(always)]
unsafe fn join_body<T: Copy>(into: *mut u8, values: *const u8, count: usize, f: impl Fn(T, T) -> T) {
    // SAFETY: guaranteed by the caller.
    let (into, values) = unsafe {
        (slice::from_raw_parts_mut(into.cast::<T>(), count), slice::from_raw_parts(values.cast::<T>(), count))
    };
    for (into, &x) in into.iter_mut().zip(values) {
        *into = f(*into, x);
    }
}
