//! Memory that other libraries allocated on this device.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::{self, CUmemorytype, CUpointer_attribute, CUresult};

use super::context::Cuda;
use crate::base::{Error, Result};
use crate::drivers::DevicePtr;

impl Cuda {
    /// Fails if the first or last byte of the range is not memory of this device.
    ///
    /// It does not compare with the bounds of the allocation, because a pool may map one buffer in several pieces.
    pub(super) fn check_memory_of_others(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        let Some(last) = at.0.checked_add(bytes.saturating_sub(1) as u64) else {
            let detail = format!("{bytes} bytes at {:#x} overflow the address space", at.0);
            return Err(Error::shape("Device::adopt", detail));
        };
        for address in [at.0, last] {
            let place = match self.place_of(address)? {
                Some(ordinal) if ordinal == self.context.device => continue,
                Some(ordinal) => format!("is memory of cuda:{ordinal}"),
                None => "is not device memory".into(),
            };
            let detail =
                format!("{address:#x}, of {bytes} bytes at {:#x}, {place} and not of {}", at.0, self.name());
            return Err(Error::shape("Device::adopt", detail));
        }
        Ok(())
    }

    /// The device whose memory contains the address, if any.
    fn place_of(&self, address: u64) -> Result<Option<i32>> {
        let mut attributes = [
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        ];
        let (mut memory_type, mut ordinal) = (0u32, -1i32);
        let mut data: [*mut c_void; 2] =
            [ptr::from_mut(&mut memory_type).cast(), ptr::from_mut(&mut ordinal).cast()];
        // SAFETY: the two requested attributes have four bytes each, everything outlives the call, and the call
        // accepts any address.
        let code = self.attempt(|| unsafe {
            sys::cuPointerGetAttributes(2, attributes.as_mut_ptr(), data.as_mut_ptr(), address)
        });
        if code == CUresult::CUDA_ERROR_INVALID_VALUE {
            return Ok(None);
        }
        self.check("cuPointerGetAttributes", code)?;
        let is_device = memory_type == CUmemorytype::CU_MEMORYTYPE_DEVICE as u32;
        Ok(is_device.then_some(ordinal))
    }
}
