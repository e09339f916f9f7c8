//! Matrix products: floats by the crate `matrixmultiply`, integers and fields by blocks of 4 x 8 results whose
//! sums stay in registers. For 31-bit and 64-bit prime fields, products are summed before they are reduced.

use rayon::prelude::*;
use rigel_codegen::map::{Complex, Type};
use rigel_kernels::field::{
    BabyBear, BabyBear4, CM31, Field, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4, Mersenne31,
    QM31,
};

use super::moves;
use super::number::{Arithmetic, with_type};
use super::plan::alignment;
use super::space::{Area, Space};

/// A matrix to multiply: offset and strides count elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factor {
    /// The memory's first byte.
    pub(crate) memory: *const u8,
    /// The offset of the first element.
    pub(crate) offset: usize,
    /// The stride between rows.
    pub(crate) row_stride: isize,
    /// The stride between columns.
    pub(crate) column_stride: isize,
}

/// The smallest products that pay off on several threads.
const PARALLEL_PRODUCTS: usize = 1 << 17;
/// The rows of a register block.
const HEIGHT: usize = 4;
/// The columns of a register block.
const WIDTH: usize = 8;

/// A matrix with its strides, shared by threads.
#[derive(Clone, Copy)]
struct Shared<T> {
    start: *const T,
    row_stride: isize,
    column_stride: isize,
}

// SAFETY: it is only read.
unsafe impl<T: Sync> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// # Safety
    /// The matrix has that row and column.
    #[inline(always)]
    unsafe fn at(&self, row: usize, column: usize) -> *const T {
        let place = row as isize * self.row_stride + column as isize * self.column_stride;
        // SAFETY: guaranteed by the caller.
        unsafe { self.start.offset(place) }
    }
}

/// The memory of the product; each task writes its part.
#[derive(Clone, Copy)]
struct Product<T>(*mut T);

// SAFETY: tasks write to different parts.
unsafe impl<T: Send> Sync for Product<T> {}

impl<T> Product<T> {
    /// # Safety
    /// The product has that element.
    #[inline(always)]
    unsafe fn at(&self, place: usize) -> *mut T {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.add(place) }
    }
}

/// `C = A B` for A of m rows and k columns and B of k rows and n columns. C is row-major.
///
/// # Safety
/// During the call, any thread can read the factors' elements, and nothing writes to them.
///
/// # Panics
/// If the type is boolean, or `out` does not have exactly the size of m n elements.
pub(crate) unsafe fn matmul(of: Type, [m, n, k]: [usize; 3], a: Factor, b: Factor, out: &mut [u8]) {
    let size = of.bytes();
    assert_eq!(out.len(), m * n * size, "a place for each element of the product");
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        // Zero is all zero bytes in every type.
        return out.fill(0);
    }
    let align = alignment(of);
    if !out.as_ptr().addr().is_multiple_of(align) {
        let mut aligned = vec![0u64; out.len().div_ceil(8)];
        let bytes = &mut rigel_gpu::bytes_of_mut(&mut aligned)[..out.len()];
        // SAFETY: guaranteed by the caller.
        unsafe { matmul(of, [m, n, k], a, b, bytes) };
        return out.copy_from_slice(bytes);
    }
    let (mut room_a, mut room_b) = (Vec::new(), Vec::new());
    // SAFETY: the factors have so many rows and columns, guaranteed by the caller.
    let (a, b) =
        unsafe { (aligned(a, [m, k], size, align, &mut room_a), aligned(b, [k, n], size, align, &mut room_b)) };
    let c = out.as_mut_ptr();
    // SAFETY: all elements are there and aligned, and `out` is borrowed.
    unsafe {
        match of {
            Type::F32 => gemm::<f32>([m, n, k], shared(a, size), shared(b, size), c.cast()),
            Type::F64 => gemm::<f64>([m, n, k], shared(a, size), shared(b, size), c.cast()),
            Type::C128 => gemm::<Complex>([m, n, k], shared(a, size), shared(b, size), c.cast()),
            _ => {
                let done =
                    with_type!(exact of, T => blocked::<T>([m, n, k], shared(a, size), shared(b, size), c.cast()));
                done.expect("numbers, not booleans");
            }
        }
    }
}

unsafe fn shared<T>(factor: Factor, size: usize) -> Shared<T> {
    // SAFETY: the caller guarantees the first element.
    let start = unsafe { factor.memory.add(factor.offset * size) }.cast();
    Shared { start, row_stride: factor.row_stride, column_stride: factor.column_stride }
}

/// The factor, or an aligned copy of it in `room`.
///
/// # Safety
/// The factor has `rows` rows and `columns` columns of elements of `size` bytes, and at least one of each.
unsafe fn aligned(
    factor: Factor,
    [rows, columns]: [usize; 2],
    size: usize,
    align: usize,
    room: &mut Vec<u64>,
) -> Factor {
    if (factor.memory.addr() + factor.offset * size).is_multiple_of(align) {
        return factor;
    }
    room.resize((rows * columns * size).div_ceil(8), 0);
    let space = Space::new(&[rows, columns], &[0, 1], &[], &[&[factor.row_stride, factor.column_stride]]);
    let area = Area { row: 0, rows: space.rows(), column: 0, columns: space.columns() };
    // SAFETY: passed on to the caller; there is room for all elements.
    unsafe {
        let origin = factor.memory.add(factor.offset * size);
        moves::gather(&space, 0, area, origin, size, room.as_mut_ptr().cast());
    }
    Factor { memory: room.as_ptr().cast(), offset: 0, row_stride: columns as isize, column_stride: 1 }
}

/// Runs `work` on parts of m rows and n columns, on all threads if that pays off. Parts divide the longer side.
fn in_parts([m, n, k]: [usize; 3], work: impl Fn([usize; 2], [usize; 2]) + Sync) {
    let threads = rayon::current_num_threads();
    if threads == 1 || m * n * k < PARALLEL_PRODUCTS {
        return work([0, m], [0, n]);
    }
    let length = m.max(n);
    let part = length.div_ceil(2 * threads).next_multiple_of(64);
    (0..length.div_ceil(part)).into_par_iter().for_each(|number| {
        let cut = [number * part, part.min(length - number * part)];
        if m >= n { work(cut, [0, n]) } else { work([0, m], cut) }
    });
}

/// Floats.
trait Gemm: Copy + Send + Sync {
    /// `C = A B`; C's rows are `stride` elements apart.
    ///
    /// # Safety
    /// The matrices have the given numbers of rows and columns.
    unsafe fn gemm(size: [usize; 3], a: Shared<Self>, b: Shared<Self>, c: *mut Self, stride: usize);
}

macro_rules! gemms {
    ($($float:ty: $gemm:ident;)*) => { $(
        impl Gemm for $float {
            unsafe fn gemm([m, n, k]: [usize; 3], a: Shared<Self>, b: Shared<Self>, c: *mut Self, stride: usize) {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    matrixmultiply::$gemm(
                        m, k, n, 1.0, a.start, a.row_stride, a.column_stride, b.start, b.row_stride, b.column_stride,
                        0.0, c, stride as isize, 1,
                    );
                }
            }
        }
    )* };
}
gemms! {
    f32: sgemm;
    f64: dgemm;
}

/// Real and imaginary parts are matrices of floats of twice the strides: `re = Re A Re B - Im A Im B` and
/// `im = Re A Im B + Im A Re B`.
impl Gemm for Complex {
    unsafe fn gemm([m, n, k]: [usize; 3], a: Shared<Self>, b: Shared<Self>, c: *mut Self, stride: usize) {
        // The part of C, whether to add to it, the parts of A and B, and the sign.
        for (to, more, from_a, from_b, sign) in
            [(0, 0.0, 0, 0, 1.0), (0, 1.0, 1, 1, -1.0), (1, 0.0, 0, 1, 1.0), (1, 1.0, 1, 0, 1.0)]
        {
            // SAFETY: passed on to the caller; a complex number is two floats.
            unsafe {
                matrixmultiply::dgemm(
                    m,
                    k,
                    n,
                    sign,
                    a.start.cast::<f64>().add(from_a),
                    2 * a.row_stride,
                    2 * a.column_stride,
                    b.start.cast::<f64>().add(from_b),
                    2 * b.row_stride,
                    2 * b.column_stride,
                    more,
                    c.cast::<f64>().add(to),
                    2 * stride as isize,
                    2,
                );
            }
        }
    }
}

/// # Safety
/// The matrices have the given numbers of rows and columns.
unsafe fn gemm<T: Gemm>([m, n, k]: [usize; 3], a: Shared<T>, b: Shared<T>, c: *mut T) {
    let c = Product(c);
    in_parts([m, n, k], |[row, rows], [column, columns]| {
        // SAFETY: parts are inside the matrices, and apart in the product.
        unsafe {
            let a = Shared { start: a.at(row, 0), ..a };
            let b = Shared { start: b.at(0, column), ..b };
            T::gemm([rows, columns, k], a, b, c.at(row * n + column), n);
        }
    });
}

/// Numbers whose products are summed, possibly in a wider type.
trait Multiply: Arithmetic {
    /// A sum of products.
    type Sum: Copy;
    /// The empty sum.
    const EMPTY: Self::Sum;
    /// `sum + a b`. It may be called twice before the sum must be settled.
    fn accumulate(sum: Self::Sum, a: Self, b: Self) -> Self::Sum;
    /// Reduces a sum so that two more products can be added.
    fn settle(sum: Self::Sum) -> Self::Sum;
    /// The result of a settled sum.
    fn finish(sum: Self::Sum) -> Self;
}

macro_rules! direct {
    ($($of:ty),*) => { $(
        impl Multiply for $of {
            type Sum = Self;
            const EMPTY: Self = <Self as Arithmetic>::ZERO;

            #[inline(always)]
            fn accumulate(sum: Self, a: Self, b: Self) -> Self {
                sum.add(a.mul(b))
            }

            #[inline(always)]
            fn settle(sum: Self) -> Self {
                sum
            }

            #[inline(always)]
            fn finish(sum: Self) -> Self {
                sum
            }
        }
    )* };
}

/// Integers wrap around, so this uses the methods of `Arithmetic`, not the operators.
macro_rules! direct_integers {
    ($($of:ty),*) => { $(
        impl Multiply for $of {
            type Sum = Self;
            const EMPTY: Self = 0;

            #[inline(always)]
            fn accumulate(sum: Self, a: Self, b: Self) -> Self {
                sum.wrapping_add(a.wrapping_mul(b))
            }

            #[inline(always)]
            fn settle(sum: Self) -> Self {
                sum
            }

            #[inline(always)]
            fn finish(sum: Self) -> Self {
                sum
            }
        }
    )* };
}
direct_integers!(i32, i64, u32, u64);
direct!(CM31, QM31, BabyBear4, KoalaBear4, Goldilocks2, Goldilocks3);

/// 31-bit fields: the sum of products of stored words; the field's `settle` makes room for two more products.
macro_rules! settled {
    ($($of:ty: $finish:expr;)*) => { $(
        impl Multiply for $of {
            type Sum = u64;
            const EMPTY: u64 = 0;

            #[inline(always)]
            fn accumulate(sum: u64, a: Self, b: Self) -> u64 {
                sum.wrapping_add(a.word() as u64 * b.word() as u64)
            }

            #[inline(always)]
            fn settle(sum: u64) -> u64 {
                <$of>::settle(sum)
            }

            #[inline(always)]
            fn finish(sum: u64) -> Self {
                $finish(sum)
            }
        }
    )* };
}
settled! {
    BabyBear: |sum| Self::montgomery_reduce(BabyBear::settle(sum));
    KoalaBear: |sum| Self::montgomery_reduce(KoalaBear::settle(sum));
    Mersenne31: Self::from_u64;
}

/// A 128-bit sum, and the number of its overflows.
impl Multiply for Goldilocks {
    type Sum = (u128, u64);
    const EMPTY: (u128, u64) = (0, 0);

    #[inline(always)]
    fn accumulate((sum, overflows): (u128, u64), a: Self, b: Self) -> (u128, u64) {
        let (sum, overflow) = sum.overflowing_add(a.word() as u128 * b.word() as u128);
        (sum, overflows + overflow as u64)
    }

    #[inline(always)]
    fn settle(sum: (u128, u64)) -> (u128, u64) {
        sum
    }

    /// `2^128 = -2^32`.
    #[inline(always)]
    fn finish((sum, overflows): (u128, u64)) -> Self {
        Self::reduce(sum) - Self::reduce((overflows as u128) << 32)
    }
}

/// The sums of a block of results, from contiguous columns of A and rows of B.
#[inline(always)]
fn block_sums<T: Multiply, const W: usize>(a: &[[T; HEIGHT]], b: &[[T; W]]) -> [[T; W]; HEIGHT] {
    let mut sums = [[T::EMPTY; W]; HEIGHT];
    let mut pairs = a.chunks_exact(2).zip(b.chunks_exact(2));
    for (a, b) in &mut pairs {
        for r in 0..HEIGHT {
            for c in 0..W {
                let sum = T::accumulate(sums[r][c], a[0][r], b[0][c]);
                sums[r][c] = T::settle(T::accumulate(sum, a[1][r], b[1][c]));
            }
        }
    }
    if let (Some(a), Some(b), true) = (a.last(), b.last(), a.len() % 2 == 1) {
        for r in 0..HEIGHT {
            for c in 0..W {
                sums[r][c] = T::settle(T::accumulate(sums[r][c], a[r], b[c]));
            }
        }
    }
    sums.map(|row| row.map(T::finish))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn block_sums_wide<T: Multiply, const W: usize>(a: &[[T; HEIGHT]], b: &[[T; W]]) -> [[T; W]; HEIGHT] {
    block_sums(a, b)
}

fn block<T: Multiply, const W: usize>(a: &[[T; HEIGHT]], b: &[[T; W]]) -> [[T; W]; HEIGHT] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { block_sums_wide(a, b) };
    }
    block_sums(a, b)
}

/// # Safety
/// The matrices have the given numbers of rows and columns.
unsafe fn blocked<T: Multiply>(size: [usize; 3], a: Shared<T>, b: Shared<T>, c: *mut T) {
    // SAFETY: guaranteed by the caller.
    unsafe { if size[1] < WIDTH / 2 { panels::<T, 1>(size, a, b, c) } else { panels::<T, WIDTH>(size, a, b, c) } }
}

/// # Safety
/// As for [`blocked`].
unsafe fn panels<T: Multiply, const W: usize>([m, n, k]: [usize; 3], a: Shared<T>, b: Shared<T>, c: *mut T) {
    let c = Product(c);
    let (down, across) = (m.div_ceil(HEIGHT), n.div_ceil(W));
    // Panels of W columns of B, row after row, with zeros beyond its last column.
    let mut packed = vec![[T::ZERO; W]; across * k];
    let pack = |(panel, rows): (usize, &mut [[T; W]])| {
        for (r, row) in rows.iter_mut().enumerate() {
            for (column, x) in (panel * W..n).zip(row) {
                // SAFETY: B has that row and column.
                *x = unsafe { *b.at(r, column) };
            }
        }
    };
    let parallel = m * n * k >= PARALLEL_PRODUCTS;
    if parallel {
        packed.par_chunks_mut(k).enumerate().for_each(pack);
    } else {
        packed.chunks_mut(k).enumerate().for_each(pack);
    }
    // A task has a strip of rows of A and some panels.
    const PANELS: usize = 64;
    let tasks_across = across.div_ceil(PANELS);
    let multiply = |task: usize| {
        let first = task / tasks_across * HEIGHT;
        let rows = HEIGHT.min(m - first);
        let mut strip = vec![[T::ZERO; HEIGHT]; k];
        for (i, column) in strip.iter_mut().enumerate() {
            for (r, x) in column.iter_mut().enumerate().take(rows) {
                // SAFETY: A has that row and column.
                *x = unsafe { *a.at(first + r, i) };
            }
        }
        let from = task % tasks_across * PANELS;
        for (panel, columns) in packed.chunks(k).enumerate().skip(from).take(PANELS) {
            let sums = block::<T, W>(&strip, columns);
            for (r, sums) in sums.iter().enumerate().take(rows) {
                for (column, &sum) in (panel * W..n).zip(sums) {
                    // SAFETY: the product has that row and column, and this task alone writes there.
                    unsafe { c.at((first + r) * n + column).write(sum) };
                }
            }
        }
    };
    if parallel {
        (0..down * tasks_across).into_par_iter().for_each(multiply);
    } else {
        (0..down * tasks_across).for_each(multiply);
    }
}
