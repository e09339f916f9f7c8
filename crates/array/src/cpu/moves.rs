//! Gathers strided elements of an operand into a contiguous chunk, and scatters them back. Elements are copied as
//! bytes, for any type and alignment.

use super::space::{Area, Space};

/// The least length of a row, in bytes, that is copied by a call.
const LONG_ROW: usize = 64;

/// A strided grid: element (r, c) is at `start + r row_stride + c stride`, in elements.
#[derive(Clone, Copy)]
struct Grid {
    rows: usize,
    columns: usize,
    row_stride: isize,
    stride: isize,
}

impl Grid {
    /// Calls `visit(index in memory, index in the chunk)`, with the shorter stride innermost.
    #[inline(always)]
    fn visit(self, mut visit: impl FnMut(isize, usize)) {
        if self.rows > 1 && self.row_stride.unsigned_abs() < self.stride.unsigned_abs() {
            for c in 0..self.columns {
                for r in 0..self.rows {
                    visit(r as isize * self.row_stride + c as isize * self.stride, r * self.columns + c);
                }
            }
        } else {
            for r in 0..self.rows {
                for c in 0..self.columns {
                    visit(r as isize * self.row_stride + c as isize * self.stride, r * self.columns + c);
                }
            }
        }
    }
}

/// `$function::<N>` for the size of an element.
macro_rules! with_size {
    ($size:expr, $function:ident($($argument:expr),*)) => {
        match $size {
            1 => $function::<1>($($argument),*),
            2 => $function::<2>($($argument),*),
            4 => $function::<4>($($argument),*),
            8 => $function::<8>($($argument),*),
            16 => $function::<16>($($argument),*),
            24 => $function::<24>($($argument),*),
            other => unreachable!("no type has {other} bytes"),
        }
    };
}

unsafe fn gather_grid<const N: usize>(from: *const u8, grid: Grid, to: *mut u8) {
    let (from, to) = (from.cast::<[u8; N]>(), to.cast::<[u8; N]>());
    if grid.stride == 1 && grid.columns * N >= LONG_ROW {
        for r in 0..grid.rows {
            // SAFETY: the caller guarantees both rows.
            unsafe {
                let row = from.offset(r as isize * grid.row_stride);
                row.copy_to(to.add(r * grid.columns), grid.columns);
            }
        }
        return;
    }
    // SAFETY: the caller guarantees both places.
    grid.visit(|place, at| unsafe { to.add(at).write(from.offset(place).read()) });
}

unsafe fn scatter_grid<const N: usize>(from: *const u8, grid: Grid, to: *mut u8) {
    let (from, to) = (from.cast::<[u8; N]>(), to.cast::<[u8; N]>());
    if grid.stride == 1 && grid.columns * N >= LONG_ROW {
        for r in 0..grid.rows {
            // SAFETY: the caller guarantees both rows.
            unsafe {
                let row = to.offset(r as isize * grid.row_stride);
                from.add(r * grid.columns).copy_to(row, grid.columns);
            }
        }
        return;
    }
    // SAFETY: the caller guarantees both places.
    grid.visit(|place, at| unsafe { to.offset(place).write(from.add(at).read()) });
}

unsafe fn fill_run<const N: usize>(value: *const u8, to: *mut u8, count: usize) {
    // SAFETY: the caller guarantees a value, and space for the copies.
    unsafe {
        let value = value.cast::<[u8; N]>().read();
        for i in 0..count {
            to.cast::<[u8; N]>().add(i).write(value);
        }
    }
}

/// Copies the elements of an operand in an area to contiguous memory.
///
/// # Safety
/// `origin` is the origin of the operand's strides, its elements of `size` bytes in the area can be read, and `to`
/// has space for them.
pub(crate) unsafe fn gather(
    space: &Space,
    operand: usize,
    area: Area,
    origin: *const u8,
    size: usize,
    to: *mut u8,
) {
    let stride = space.step(operand);
    space.segments(operand, area, |s| {
        let grid = Grid { rows: s.rows, columns: area.columns, row_stride: s.row_stride, stride };
        // SAFETY: the segment's places are the area's.
        unsafe {
            let from = origin.offset(s.start * size as isize);
            let to = to.add(s.before * area.columns * size);
            with_size!(size, gather_grid(from, grid, to));
        }
    });
}

/// The inverse of [`gather`].
///
/// # Safety
/// As for [`gather`], with reading and writing exchanged.
pub(crate) unsafe fn scatter(
    space: &Space,
    operand: usize,
    area: Area,
    origin: *mut u8,
    size: usize,
    from: *const u8,
) {
    let stride = space.step(operand);
    space.segments(operand, area, |s| {
        let grid = Grid { rows: s.rows, columns: area.columns, row_stride: s.row_stride, stride };
        // SAFETY: the segment's places are the area's.
        unsafe {
            let to = origin.offset(s.start * size as isize);
            let from = from.add(s.before * area.columns * size);
            with_size!(size, scatter_grid(from, grid, to));
        }
    });
}

/// Fills memory with `count` copies of a value of `size` bytes.
///
/// # Safety
/// The value can be read, and `to` has space for the copies.
pub(crate) unsafe fn fill(value: *const u8, size: usize, to: *mut u8, count: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { with_size!(size, fill_run(value, to, count)) }
}

/// Writes the row-major indices of an area, which have the operand's strides.
///
/// # Safety
/// `to` is aligned and has space for one number per element of the area.
pub(crate) unsafe fn numbers(space: &Space, operand: usize, area: Area, to: *mut u64) {
    let step = space.step(operand) as u64;
    space.segments(operand, area, |s| {
        for r in 0..s.rows {
            let first = (s.start + r as isize * s.row_stride) as u64;
            // SAFETY: the row is one of the area's.
            let row = unsafe { to.add((s.before + r) * area.columns) };
            for c in 0..area.columns {
                // SAFETY: the column is one of the area's.
                unsafe { row.add(c).write(first.wrapping_add((c as u64).wrapping_mul(step))) };
            }
        }
    });
}
