//! Traces whose extensions do not fit: the columns that are extended at a time.

/// The batches of columns in which traces are extended whose extensions do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batches {
    /// The number of columns at a time, a multiple of the hash's block.
    pub(crate) columns: usize,
    /// The number of [`SIXTEENTHS`] of each trace's columns that stay on the device, if the trace is the host's.
    pub(crate) kept: usize,
}

/// All columns of a trace.
pub(crate) const SIXTEENTHS: usize = 16;

impl Batches {
    /// Whether some columns of traces are on the host.
    pub(crate) fn are_streamed(self) -> bool {
        self.kept < SIXTEENTHS
    }

    /// The number of columns, of so many, that are on the device.
    pub(crate) fn kept_columns(self, width: usize) -> usize {
        width * self.kept / SIXTEENTHS
    }
}
