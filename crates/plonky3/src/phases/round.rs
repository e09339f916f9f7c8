//! A commitment and the points at which it is opened.

use crate::columns::commit::Committed;
use crate::prover::session::Session;
use crate::upstream::config::DeviceConfig;
use crate::upstream::hiding::Hiding;

/// A commitment and, for each of its matrices, the points at which its columns are opened.
pub(crate) struct Round<'a, SC: DeviceConfig> {
    pub(crate) committed: &'a Committed<'a, SC>,
    pub(crate) points: Vec<Vec<SC::Challenge>>,
    /// The number of random columns at the end of each matrix, whose values go into the proof of the openings.
    pub(crate) random_columns: usize,
}

impl<'a, SC: DeviceConfig> Round<'a, SC> {
    /// Columns that a proof may have to hide.
    pub(crate) fn new(
        session: &Session<'_, SC>,
        committed: &'a Committed<'a, SC>,
        points: Vec<Vec<SC::Challenge>>,
    ) -> Self {
        let random_columns = session.prover.hiding_streams().map_or(0, Hiding::random_codewords);
        Self { committed, points, random_columns }
    }

    /// Preprocessed columns.
    pub(crate) fn public(committed: &'a Committed<'a, SC>, points: Vec<Vec<SC::Challenge>>) -> Self {
        Self { committed, points, random_columns: 0 }
    }
}
