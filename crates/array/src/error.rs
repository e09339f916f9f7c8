//! What can go wrong.

use rigel_gpu::Bytes;

/// The result of an array call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the shapes, types or devices, and what to do about it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Shapes, axes or lengths that do not fit together.
    #[error("{0}")]
    Shape(String),
    /// An operation that is not defined for a type of elements.
    #[error("{0}")]
    Type(String),
    /// An index or an axis that does not exist.
    #[error("{0}")]
    Index(String),
    /// Arrays of different devices in one operation.
    #[error("{operation}: one array is on {first}, another on {second}; move one with `to`")]
    Devices {
        /// The operation asked for.
        operation: &'static str,
        /// Where one operand is.
        first: String,
        /// Where another is.
        second: String,
    },
    /// A device was named in a way that is not understood.
    #[error("device {0:?} is not understood; write cpu, cuda:N, auto or emulated")]
    DeviceName(String),
    /// Zero has no inverse.
    #[error("{operation}: {zeros} of {elements} elements are zero, which has no inverse")]
    NotInvertible {
        /// The operation asked for.
        operation: &'static str,
        /// How many elements are zero.
        zeros: usize,
        /// Of how many.
        elements: usize,
    },
    /// The host has no memory for an array.
    #[error("out of host memory: {} asked for", Bytes(*.0))]
    HostMemory(usize),
    /// The device, its memory or its compiler.
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
