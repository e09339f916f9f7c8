//! Running sums and products, and the order that sorts.

use rigel_codegen::map::{Reduction, Type};
use rigel_kernels::number::accumulate::{self, Join};
use rigel_kernels::number::sort;

use crate::array::Array;
use crate::cpu;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::evaluate::{device_memory, host_memory};
use crate::layout::axis_of;
use crate::lazy::sum_type;
use crate::scalar::name;

impl Array {
    /// The sums of the elements up to each index of an axis. Booleans and small integers are summed as 64-bit
    /// integers.
    ///
    /// ```
    /// # use rigel_array::{Array, Device};
    /// let a = Array::arange(1, 5, 1, &Device::Cpu)?;
    /// assert_eq!(a.cumsum(0)?.to_vec::<i64>()?, [1, 3, 6, 10]);
    /// # Ok::<(), rigel_array::Error>(())
    /// ```
    pub fn cumsum(&self, axis: isize) -> Result<Self> {
        self.accumulate(Join::Sum, axis)
    }

    /// The products of the elements up to each index of an axis.
    pub fn cumprod(&self, axis: isize) -> Result<Self> {
        self.accumulate(Join::Product, axis)
    }

    fn accumulate(&self, join: Join, axis: isize) -> Result<Self> {
        axis_of(axis, self.axes())?;
        let sum = sum_type(self.dtype);
        if sum.is_narrow() {
            return self.astype(sum.wide())?.accumulate(join, axis)?.astype(sum);
        }
        let numbers = self.astype(sum)?;
        debug_assert!(Reduction::Sum.is_defined(numbers.dtype), "all numbers have sums");
        let rows = numbers.swap_axes(axis, -1)?.contiguous()?;
        let out = Self::alloc(rows.shape(), rows.dtype, &rows.device())?;
        if out.is_empty() {
            return out.swap_axes(axis, -1);
        }
        let n = rows.shape()[rows.axes() - 1];
        match rows.device() {
            Device::Cpu => {
                let range = rows.byte_range();
                host_memory(&rows).read(|from| {
                    host_memory(&out)
                        .write(|to| cpu::accumulate(rows.dtype, join, n, &from[range], &mut to[..out.bytes()]));
                });
            }
            Device::Gpu(device) => {
                let from = device_memory(&rows).view().range(rows.byte_range())?;
                let mut to = device_memory(&out).writable();
                let to = to.view_mut().range(..out.bytes())?;
                accumulate::accumulate(&device.compute()?, rows.dtype.cuda_name(), join, n, from, to)?;
            }
        }
        out.swap_axes(axis, -1)
    }

    /// The indices that sort the elements along an axis, as I64. Equal elements stay in their order, and NaN comes
    /// last. Defined for booleans, integers and floats.
    ///
    /// ```
    /// # use rigel_array::{Array, Device};
    /// let a = Array::from_slice(&[3.0, 1.0, f64::NAN, 2.0], &[4], &Device::Cpu)?;
    /// assert_eq!(a.argsort(-1)?.to_vec::<i64>()?, [1, 3, 0, 2]);
    /// # Ok::<(), rigel_array::Error>(())
    /// ```
    pub fn argsort(&self, axis: isize) -> Result<Self> {
        axis_of(axis, self.axes())?;
        if !Reduction::Max.is_defined(self.dtype.wide()) {
            return Err(Error::of_type(format!("elements of {} have no order to sort by", name(self.dtype))));
        }
        if self.dtype.is_narrow() {
            return self.astype(self.dtype.wide())?.argsort(axis);
        }
        let rows = self.swap_axes(axis, -1)?.contiguous()?;
        let n = rows.shape()[rows.axes() - 1];
        let out = if rows.is_empty() {
            Self::zeros(rows.shape(), Type::I64, &rows.device())?
        } else {
            match rows.device() {
                Device::Cpu => {
                    let mut order = vec![0i64; rows.len()];
                    let range = rows.byte_range();
                    host_memory(&rows).read(|keys| cpu::order(rows.dtype, n, &keys[range], &mut order));
                    Self::from_slice(&order, rows.shape(), &Device::Cpu)?
                }
                Device::Gpu(device) => {
                    let keys = device_memory(&rows).view().range(rows.byte_range())?;
                    let order = sort::order(&device.compute()?, rows.dtype.cuda_name(), n, keys)?;
                    Self::of_buffer(order, rows.shape(), Type::I64)?
                }
            }
        };
        out.swap_axes(axis, -1)
    }

    /// The elements in increasing order along an axis, with NaN last.
    pub fn sort(&self, axis: isize) -> Result<Self> {
        self.take_along(&self.argsort(axis)?, axis)
    }
}
