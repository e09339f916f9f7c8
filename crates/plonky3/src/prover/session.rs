//! One proof at work on a device: its stream, and the record of what ran there.

use std::ops::Range;
use std::sync::MutexGuard;

use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::{Device, Event, Gathering, Recorder, Stream, ViewMut};
use rigel_kernels::hash::Hashing;

use crate::base::cancel::Cancel;
use crate::base::error::Result;
use crate::base::report::{Fallback, Report};
use crate::prover::Prover;
use crate::upstream::config::{Base, DeviceConfig};
use crate::upstream::field::DeviceField;

/// The state of one proof: its own stream, and a record of the work on it.
pub(crate) struct Session<'a, SC: DeviceConfig> {
    pub(crate) prover: &'a Prover<SC>,
    pub(crate) stream: Stream,
    /// The stream for uploads of traces, which overlap the work on `stream`.
    lane: Stream,
    recorder: Recorder,
    cancel: Cancel,
    /// Launches of a phase are submitted together.
    _gathering: Gathering,
}

impl<'a, SC: DeviceConfig> Session<'a, SC> {
    pub(crate) fn new(prover: &'a Prover<SC>) -> Result<Self> {
        Self::on(prover, prover.device().ok_or(rigel_gpu::Error::Disabled)?)
    }

    /// A session on one of the prover's devices.
    pub(crate) fn on(prover: &'a Prover<SC>, device: &Device) -> Result<Self> {
        let stream = device.new_stream()?;
        let recorder = Recorder::new(&stream);
        let (lane, gathering) = (device.new_stream()?, stream.gather());
        Ok(Self { prover, lane, stream, recorder, cancel: Cancel::current(), _gathering: gathering })
    }

    pub(crate) fn log_blowup(&self) -> u32 {
        self.prover.fri.log_blowup as u32
    }

    /// The stream, with the hash of the configuration's trees.
    pub(crate) fn hashing(&self) -> Hashing<'_, SC::Hash> {
        Hashing::new(&self.stream, self.prover.hash())
    }

    pub(crate) fn cap_height(&self) -> u32 {
        self.prover.cap_height as u32
    }

    /// See [`Recorder::phase`]. What the host computes between phases, such as the last folds of FRI, is in none.
    pub(crate) fn phase<R>(&self, name: &'static str, work: impl FnOnce() -> Result<R>) -> Result<R> {
        self.cancel.check()?;
        self.recorder.phase(name, &self.stream, work)
    }

    /// Begins a phase that has work on several devices.
    pub(crate) fn begin_phase(&self, name: &'static str) -> Result<Event> {
        self.cancel.check()?;
        Ok(self.recorder.begin(name, &self.stream)?)
    }

    /// Ends a phase that began with this event.
    pub(crate) fn end_phase(&self, name: &'static str, start: Event) -> Result<()> {
        self.recorder.add(name, start, self.stream.record_time()?);
        Ok(())
    }

    /// Waits for this proof's turn to upload traces of so many bytes, which ends when the result is dropped.
    ///
    /// Proofs that are made at once would share the bus, so that all of them would first upload and then compute. One
    /// after the other, what one uploads overlaps what the others compute.
    pub(crate) fn turn_to_upload(&self, bytes: usize) -> Option<MutexGuard<'a, ()>> {
        (!are_small(bytes)).then(|| self.prover.uploading.lock())
    }

    /// Uploads some columns of a matrix, row-major, into memory that this session's stream has allocated. The copy
    /// waits for `after` and overlaps everything else; work that is enqueued on the stream from now on waits for
    /// the copy.
    pub(crate) fn bring<'b>(
        &self,
        to: impl Into<ViewMut<'b, Base<SC>>>,
        matrix: &RowMajorMatrix<SC::Value>,
        columns: Range<usize>,
        after: &Event,
    ) -> Result<()> {
        self.lane.wait(after)?;
        self.recorder.phase("upload", &self.lane, || {
            self.lane.write_columns(to, SC::Value::as_device(&matrix.values), matrix.width, columns)
        })?;
        Ok(self.stream.wait_for(&self.lane)?)
    }

    /// Uploads some rows of a matrix as [`Self::bring`] does some columns.
    pub(crate) fn bring_rows(
        &self,
        to: ViewMut<'_, Base<SC>>,
        matrix: &RowMajorMatrix<SC::Value>,
        rows: Range<usize>,
        after: &Event,
    ) -> Result<()> {
        Ok(self.stream.wait(&self.send_rows(&self.lane, to, matrix, rows, after)?)?)
    }

    /// Uploads some rows of a matrix on another stream, after an event. Returns the event at which they have arrived.
    pub(crate) fn send_rows(
        &self,
        lane: &Stream,
        to: ViewMut<'_, Base<SC>>,
        matrix: &RowMajorMatrix<SC::Value>,
        rows: Range<usize>,
        after: &Event,
    ) -> Result<Event> {
        let values = &matrix.values[rows.start * matrix.width..rows.end * matrix.width];
        self.cancel.check()?;
        lane.wait(after)?;
        self.recorder.phase("upload", lane, || lane.write(to, SC::Value::as_device(values)))?;
        Ok(lane.record()?)
    }

    /// Runs copies after an event, beside everything else. Returns the event at which they are complete.
    pub(crate) fn send(&self, after: &Event, copies: impl FnOnce(&Stream) -> Result<()>) -> Result<Event> {
        self.lane.wait(after)?;
        self.recorder.phase("upload", &self.lane, || copies(&self.lane))?;
        Ok(self.lane.record()?)
    }

    /// Ends the proof's record, with what ran elsewhere.
    pub(crate) fn finish(self, fallback: Option<Fallback>) -> Result<Report> {
        let mut report = self.recorder.finish()?;
        report.fallbacks.extend(fallback);
        Ok(report)
    }
}

/// Whether tables that take so many bytes together go through a step at once, so that their launches are submitted
/// together.
pub(crate) fn are_small(bytes: usize) -> bool {
    const MOST: usize = 16 << 20;
    bytes <= MOST
}
