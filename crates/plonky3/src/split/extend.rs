//! Extended columns over several devices: blocks of their rows.

use std::ops::Range;

use rigel_gpu::{Buffer, Event, Piece, exchange};
use rigel_kernels::commit::rows::RowsInParts;
use rigel_kernels::field::{Field, Ring};
use rigel_kernels::layout::permute;
use rigel_kernels::transform::ntt::{self, Order};
use rigel_kernels::transform::spread;
use rigel_kernels::{Columns, Matrix};

use super::Team;
use super::rows::RowBlocks;
use crate::config::{Base, DeviceConfig};
use crate::error::{Error, Result};
use crate::trace::Trace;

/// A matrix that is extended: its values on the subgroup of its height, in natural order.
pub(super) enum Source<'a, SC: DeviceConfig> {
    Trace(&'a Trace<'a, SC::Value>),
    Rows(&'a RowBlocks<SC>),
}

impl<SC: DeviceConfig> Source<'_, SC> {
    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Trace(trace) => trace.height(),
            Self::Rows(rows) => rows.rows(),
        }
    }

    pub(super) fn width(&self) -> usize {
        match self {
            Self::Trace(trace) => trace.width(),
            Self::Rows(rows) => rows.width(),
        }
    }
}

/// The number of devices that have a part of a matrix of this many rows, extended: all, if each has at least one
/// extended row, or the first one alone.
pub(super) fn devices_of<SC: DeviceConfig>(team: &Team<'_, SC>, rows: usize) -> usize {
    let devices = team.sessions.len();
    if rows << team.first().log_blowup() >= devices { devices } else { 1 }
}

/// Extends a matrix: block k of the result is on device k, or all of it on the first (see [`devices_of`]).
///
/// Works on some columns at a time. Each device brings and interpolates a share of them, and all are evaluated on each
/// device's rows; then `made` is called with the blocks and the columns that are new. What the devices bring is also
/// written to `rows`, if they are given.
pub(super) fn extend<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    source: &Source<'_, SC>,
    mut rows: Option<&mut RowBlocks<SC>>,
    mut made: impl FnMut(&[Matrix<Base<SC>>], &Range<usize>) -> Result<()>,
) -> Result<Vec<Matrix<Base<SC>>>> {
    let (height, width) = (source.rows(), source.width());
    let devices = devices_of(team, height);
    let log_domain = height.ilog2() + team.first().log_blowup();
    let block_rows = (1usize << log_domain) / devices;
    let mut blocks = team.among(devices, |(_, session)| Ok(Matrix::alloc(&session.stream, block_rows, width)?))?;
    let part = part_columns::<SC>(height.min(block_rows), width);
    let parts: Vec<Range<usize>> = (0..width).step_by(part).map(|first| first..width.min(first + part)).collect();
    let mut next = parts.first().map(|columns| Coming::new(team, source, columns, devices)).transpose()?;
    for (index, columns) in parts.iter().enumerate() {
        let brought = next.take().expect("one for each part").columns(team, source)?;
        // The next part is uploaded while this one is extended and hashed.
        next = parts.get(index + 1).map(|columns| Coming::new(team, source, columns, devices)).transpose()?;
        if let Some(rows) = rows.as_deref_mut() {
            rows.write(team, columns, &brought)?;
        }
        team.phase("extend", || {
            if devices == 1 {
                let room = blocks[0].column_range_mut(columns.start, columns.end)?;
                let (first, shift) = (team.first(), Base::<SC>::GENERATOR);
                let (added_bits, order) = (first.log_blowup(), Order::Natural);
                return Ok(ntt::extend_into(&first.stream, room, &brought[0], added_bits, shift, order)?);
            }
            let coefficients = team.each(|(k, session)| {
                Ok(ntt::inverse(&session.stream, &brought[k], Base::<SC>::ONE, Order::Natural)?)
            })?;
            drop(brought);
            let coefficients: Vec<Columns<'_, _>> = coefficients.iter().map(Into::into).collect();
            let rooms = blocks.iter_mut().map(|block| block.column_range_mut(columns.start, columns.end));
            let rooms = rooms.collect::<rigel_gpu::Result<Vec<_>>>()?;
            Ok(spread::evaluate_into(&team.streams, &coefficients, log_domain, rooms)?)
        })?;
        made(&blocks, columns)?;
        if let Some(next) = &mut next {
            next.send(team, source)?;
        }
    }
    Ok(blocks)
}

/// Some columns on their way to the devices, a share of them to each.
struct Coming<SC: DeviceConfig> {
    shares: Vec<Range<usize>>,
    /// For columns from the host, by device: their rows, and the work after which they may be written.
    rooms: Vec<(Buffer<Base<SC>>, Event)>,
    is_sent: bool,
}

impl<SC: DeviceConfig> Coming<SC> {
    /// Allocates memory for some columns on the first `devices` devices.
    fn new(team: &Team<'_, SC>, source: &Source<'_, SC>, columns: &Range<usize>, devices: usize) -> Result<Self> {
        let start = |k: usize| columns.start + columns.len() * k / devices;
        let shares: Vec<Range<usize>> = (0..devices).map(|k| start(k)..start(k + 1)).collect();
        let rooms = match source {
            Source::Trace(Trace::Host(_)) => team.among(devices, |(k, session)| {
                let room = session.stream.alloc(source.rows() * shares[k].len())?;
                Ok((room, session.stream.record()?))
            })?,
            Source::Trace(Trace::Device(_)) | Source::Rows(_) => Vec::new(),
        };
        Ok(Self { shares, rooms, is_sent: false })
    }

    /// Uploads the columns, if they are on the host. Work that the devices are given from now on waits for that.
    fn send(&mut self, team: &Team<'_, SC>, source: &Source<'_, SC>) -> Result<()> {
        if let Source::Trace(Trace::Host(trace)) = source
            && !std::mem::replace(&mut self.is_sent, true)
        {
            for ((session, (room, free)), columns) in team.sessions.iter().zip(&mut self.rooms).zip(&self.shares) {
                if !columns.is_empty() {
                    session.bring(&mut *room, trace, columns.clone(), free)?;
                }
            }
        }
        Ok(())
    }

    /// The columns on each device, uploaded if they are not yet, or sent by the devices that have them.
    fn columns(mut self, team: &Team<'_, SC>, source: &Source<'_, SC>) -> Result<Vec<Matrix<Base<SC>>>> {
        self.send(team, source)?;
        let (height, devices) = (source.rows(), self.shares.len());
        let empty = |k: usize| Ok(Matrix::alloc(&team.streams[k], height, self.shares[k].len())?);
        match source {
            Source::Trace(Trace::Host(_)) => team.phase("extend", || {
                team.among(devices, |(k, session)| match self.shares[k].len() {
                    0 => empty(k),
                    columns => Ok(permute::to_columns(&session.stream, &self.rooms[k].0, columns)?),
                })
            }),
            Source::Trace(Trace::Device(trace)) => {
                let device = trace.values().device();
                let Some(from) = team.streams.iter().position(|stream| stream.device().is(&device)) else {
                    return Err(Error::Devices(format!(
                        "the trace is on {device}, which is not one of the proof's devices; copy it to one of them"
                    )));
                };
                team.streams[from].wait_for_uses(trace.values())?;
                let mut matrices = (0..devices).map(empty).collect::<Result<Vec<_>>>()?;
                let mut pieces = Vec::with_capacity(matrices.len());
                for (to, (matrix, columns)) in matrices.iter_mut().zip(&self.shares).enumerate() {
                    let source = trace.column_range(columns.start, columns.end)?;
                    pieces.push(Piece { from, to, source, target: matrix.values_mut().view_mut() });
                }
                team.phase("exchange", || Ok(exchange(&team.streams, pieces)?))?;
                Ok(matrices)
            }
            Source::Rows(rows) => rows.gather(team, &self.shares),
        }
    }
}

/// The number of columns of a part: a sixteenth of them, so that what devices send each other takes little memory
/// beside their blocks, but more if that is little data, rounded to the hash's block.
fn part_columns<SC: DeviceConfig>(rows: usize, width: usize) -> usize {
    const PARTS: usize = 16;
    const LEAST_BYTES: usize = 4 << 20;
    let block = RowsInParts::<SC::Hash>::block::<Base<SC>>();
    let least = (LEAST_BYTES / (rows * size_of::<Base<SC>>())).min(width);
    width.div_ceil(PARTS).max(least).next_multiple_of(block)
}
