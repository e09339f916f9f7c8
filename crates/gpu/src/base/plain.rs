//! The types that device memory can hold.

use super::error::{Error, Result};

/// Plain data: any bit pattern is a valid value, and there is no padding.
///
/// Device memory holds only plain data, so a faulty kernel can produce wrong numbers but never an invalid Rust
/// value.
///
/// # Safety
/// Implement it only for types without padding, pointers or invalid bit patterns (so not for `bool`, `char` or
/// most enums). A `#[repr(C)]` or `#[repr(transparent)]` struct of plain fields without padding qualifies.
pub unsafe trait Plain: Copy + Send + Sync + 'static {
    /// A check of the type, which everything that sees values as bytes evaluates when it is compiled.
    ///
    /// The default checks nothing. `parameters!` of `rigel-kernels` defines structs in safe code, and whether a generic
    /// one has padding is known only for each of its instances: there this is an assertion.
    const CHECK: () = ();
}

macro_rules! plain {
    ($($t:ty)*) => { $(
        // SAFETY: numbers have no padding and no invalid bit patterns.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);

// SAFETY: an array has no padding between its elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {
    const CHECK: () = T::CHECK;
}

/// The values as bytes.
pub fn bytes_of<T: Plain>(values: &[T]) -> &[u8] {
    const { T::CHECK };
    // SAFETY: plain data has no padding, so every byte is initialised.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), std::mem::size_of_val(values)) }
}

/// The values as mutable bytes.
pub fn bytes_of_mut<T: Plain>(values: &mut [T]) -> &mut [u8] {
    const { T::CHECK };
    // SAFETY: as in `bytes_of`; and any bytes written are a valid value of plain data.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), std::mem::size_of_val(values)) }
}

/// A vector of `len` values that the caller is about to overwrite.
///
/// The memory comes from `calloc`, so its pages are faulted in by the threads that fill the vector, in parallel.
pub(crate) fn zeroed_vec<T: Plain>(len: usize) -> Result<Vec<T>> {
    let full = || Error::shape("Stream::download", format!("the host has no memory for {len} values"));
    let layout = std::alloc::Layout::array::<T>(len).map_err(|_| full())?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout is not empty; the memory is zeroed, which is a valid value of plain data, and has exactly
    // the layout that the vector will free.
    unsafe {
        let memory = std::alloc::alloc_zeroed(layout);
        if memory.is_null() {
            return Err(full());
        }
        Ok(Vec::from_raw_parts(memory.cast(), len, len))
    }
}
