//! Evaluates an expression on the device of its arrays.

use rigel_codegen::map::{self, Expression, Operand, Target};
use smallvec::SmallVec;

use crate::array::Array;
use crate::cpu;
use crate::device::Device;
use crate::error::Result;
use crate::layout::Strides;
use crate::memory::{DeviceMemory, HostMemory, Memory};

/// An expression with its inputs, all of one shape.
#[derive(Default)]
pub(crate) struct Prepared {
    pub(crate) expression: Expression,
    /// The input arrays, in order.
    pub(crate) arrays: Vec<Array>,
    pub(crate) scalars: Vec<[u64; 3]>,
}

impl Prepared {
    /// Runs `work` with the inputs in device memory, their axes in the order `axes`.
    pub(crate) fn with_operands<R>(&self, axes: Option<&[usize]>, work: impl FnOnce(&[Operand<'_>]) -> R) -> R {
        let strides = self.strides(axes);
        let operands: SmallVec<[Operand<'_>; 4]> = self
            .arrays
            .iter()
            .zip(&strides)
            .map(|(array, strides)| Operand {
                memory: device_memory(array).view(),
                offset: array.layout.offset,
                strides,
            })
            .collect();
        work(&operands)
    }

    /// Runs `work` with the inputs in host memory, which is locked during the call, `written` for writing.
    pub(crate) fn with_host_operands<R>(
        &self,
        axes: Option<&[usize]>,
        written: &HostMemory,
        work: impl FnOnce(&[cpu::Operand<'_>]) -> R,
    ) -> R {
        let strides = self.strides(axes);
        let memories: Vec<&HostMemory> = self.arrays.iter().map(host_memory).collect();
        let operands: Vec<cpu::Operand<'_>> = memories
            .iter()
            .zip(self.arrays.iter().zip(&strides))
            .map(|(memory, (array, strides))| cpu::Operand {
                memory: memory.address().as_ptr(),
                offset: array.layout.offset,
                strides,
            })
            .collect();
        HostMemory::locked(&memories, Some(written), || work(&operands))
    }

    fn strides(&self, axes: Option<&[usize]>) -> SmallVec<[Strides; 4]> {
        let ordered = |array: &Array| match axes {
            Some(axes) => axes.iter().map(|&axis| array.layout.strides[axis]).collect(),
            None => array.layout.strides.clone(),
        };
        self.arrays.iter().map(ordered).collect()
    }
}

/// Writes the value of the expression at every index of `shape` to `out`, which has that shape.
pub(crate) fn map(prepared: &Prepared, shape: &[usize], out: &Array) -> Result<()> {
    let Prepared { expression, scalars, .. } = prepared;
    match (&out.memory, out.device()) {
        (Memory::Device(memory), Device::Gpu(device)) => {
            let stream = device.compute()?;
            prepared.with_operands(None, |inputs| {
                let mut memory = memory.writable();
                let target =
                    Target { memory: memory.view_mut(), offset: out.layout.offset, strides: &out.layout.strides };
                map::evaluate(&stream, expression, shape, inputs, scalars, target)
            })?;
        }
        (Memory::Host(memory), _) => {
            let target = cpu::Target {
                memory: memory.address().as_ptr(),
                offset: out.layout.offset,
                strides: &out.layout.strides,
            };
            prepared.with_host_operands(None, memory, |inputs| {
                // SAFETY: every layout lies within its memory (`Array::over`, and views of it), which is locked: inputs
                // for reading, the output for writing. An input in the output's memory has the very same layout.
                unsafe { cpu::evaluate(expression, shape, inputs, scalars, target) }
            });
        }
        _ => unreachable!("memory of its own device"),
    }
    Ok(())
}

pub(crate) fn host_memory(array: &Array) -> &HostMemory {
    match &array.memory {
        Memory::Host(memory) => memory,
        Memory::Device(_) => unreachable!("devices were compared before"),
    }
}

pub(crate) fn device_memory(array: &Array) -> &DeviceMemory {
    match &array.memory {
        Memory::Device(memory) => memory,
        Memory::Host(_) => unreachable!("devices were compared before"),
    }
}
