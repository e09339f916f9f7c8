//! Errors.

use rigel_gpu::Bytes;

/// The result of an array call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of an array call: the shapes, types or devices involved, and how to proceed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Shapes, axes or lengths that do not fit together.
    #[error("{0}")]
    Shape(String),
    /// An operation that is not defined for an element type.
    #[error("{0}")]
    Type(String),
    /// An integer that a type can't hold.
    #[error("{0}")]
    Range(String),
    /// An index or an axis that does not exist.
    #[error("{0}")]
    Index(String),
    /// Arrays of different devices in one operation.
    #[error("{operation}: one array is on {first}, another on {second}; move one with `to`")]
    Devices {
        /// The operation.
        operation: &'static str,
        /// The device of one operand.
        first: String,
        /// The device of another operand.
        second: String,
    },
    /// An unknown device name.
    #[error("unknown device {0:?}; write cpu, cuda:N, auto or emulated")]
    DeviceName(String),
    /// Zero has no inverse.
    #[error("{operation}: {zeros} of {elements} elements are zero, which has no inverse")]
    NotInvertible {
        /// The operation.
        operation: &'static str,
        /// The number of zero elements.
        zeros: usize,
        /// The number of elements.
        elements: usize,
    },
    /// The host is out of memory.
    #[error("out of host memory: could not allocate {}", Bytes(*.0))]
    HostMemory(usize),
    /// An error of the device, its memory or its compiler.
    #[error(transparent)]
    Gpu(#[from] rigel_gpu::Error),
}

impl Error {
    pub(crate) fn shape(text: impl Into<String>) -> Self {
        Self::Shape(text.into())
    }

    pub(crate) fn of_type(text: impl Into<String>) -> Self {
        Self::Type(text.into())
    }

    pub(crate) fn index(text: impl Into<String>) -> Self {
        Self::Index(text.into())
    }
}
