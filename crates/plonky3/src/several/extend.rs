//! Extended columns over several devices: blocks of their rows.

use std::ops::Range;

use rigel_gpu::{Buffer, Event};
use rigel_kernels::Matrix;
use rigel_kernels::commit::rows::RowsInParts;
use rigel_kernels::field::{Field, Ring};
use rigel_kernels::layout::permute;
use rigel_kernels::transform::ntt::{self, Order};
use rigel_kernels::transform::spread::Spreading;

use super::rows::{Arriving, Placed, RowBlocks};
use super::team::Team;
use crate::base::error::{Error, Result};
use crate::columns::trace::Trace;
use crate::prover::Prover;
use crate::upstream::config::{Base, DeviceConfig};

/// A matrix that is extended: its values on the subgroup of its height, in natural order.
pub(crate) enum Source<'a, SC: DeviceConfig> {
    Trace(&'a Trace<'a, SC::Value>),
    Rows(&'a RowBlocks<SC>),
}

impl<SC: DeviceConfig> Source<'_, SC> {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Trace(trace) => trace.height(),
            Self::Rows(rows) => rows.rows(),
        }
    }

    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Trace(trace) => trace.width(),
            Self::Rows(rows) => rows.width(),
        }
    }
}

/// The number of devices that have a part of a matrix of this many rows, extended: all, if each has at least one
/// extended row, or the first one alone.
pub(crate) fn devices_of<SC: DeviceConfig>(prover: &Prover<SC>, rows: usize) -> usize {
    let devices = prover.devices().count();
    if rows << prover.fri.log_blowup >= devices { devices } else { 1 }
}

/// Extends a matrix: block k of the result is on device k, or all of it on the first (see [`devices_of`]).
///
/// Works on some columns at a time. Each device brings and extends a share of them, and gets its rows of all; then
/// `made` is called with the blocks and the columns that are new. While columns travel between devices, those before
/// them are hashed and those after them extended. What the devices bring is also written to `rows`, if they are given.
pub(crate) fn extend<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    source: &Source<'_, SC>,
    mut rows: Option<&mut RowBlocks<SC>>,
    mut made: impl FnMut(&[Matrix<Base<SC>>], &Range<usize>) -> Result<()>,
) -> Result<Vec<Matrix<Base<SC>>>> {
    let (height, width) = (source.rows(), source.width());
    let devices = devices_of(team.prover(), height);
    let log_domain = height.ilog2() + team.first().log_blowup();
    let block_rows = (1usize << log_domain) / devices;
    let mut blocks = team.among(devices, |(_, session)| Ok(Matrix::alloc(&session.stream, block_rows, width)?))?;
    let part = part_columns::<SC>(height.min(block_rows), width, devices);
    let parts: Vec<Range<usize>> = (0..width).step_by(part).map(|first| first..width.min(first + part)).collect();
    let mut next = parts.first().map(|columns| Coming::new(team, source, columns, devices)).transpose()?;
    let mut before: Option<(Spreading<Base<SC>>, &Range<usize>)> = None;
    for (index, columns) in parts.iter().enumerate() {
        let brought = next.take().expect("one for each part").columns(team, source)?;
        // The next part is brought while this one is extended and hashed.
        next = parts.get(index + 1).map(|columns| Coming::new(team, source, columns, devices)).transpose()?;
        if let Some(rows) = rows.as_deref_mut() {
            rows.write(team, columns, &brought)?;
        }
        if devices == 1 {
            team.phase("extend", || {
                let room = blocks[0].column_range_mut(columns.start, columns.end)?;
                let (first, shift) = (team.first(), Base::<SC>::GENERATOR);
                let (added_bits, order) = (first.log_blowup(), Order::Natural);
                Ok(ntt::extend_into(&first.stream, room, &brought[0], added_bits, shift, order)?)
            })?;
            made(&blocks, columns)?;
        } else {
            let spreading = team.phase("extend", || {
                let coefficients = team.each(|(k, session)| {
                    Ok(ntt::inverse(&session.stream, &brought[k], Base::<SC>::ONE, Order::Natural)?)
                })?;
                drop(brought);
                let places = shares(columns, devices);
                Ok(Spreading::begin(&team.streams, &team.lanes, coefficients, &mut blocks, places)?)
            })?;
            if let Some((before, columns)) = before.replace((spreading, columns)) {
                team.phase("extend", || Ok(before.finish(&team.streams, &mut blocks)?))?;
                made(&blocks, columns)?;
            }
        }
        if let Some(next) = &mut next {
            next.send(team, source)?;
        }
    }
    if let Some((last, columns)) = before {
        team.phase("extend", || Ok(last.finish(&team.streams, &mut blocks)?))?;
        made(&blocks, columns)?;
    }
    Ok(blocks)
}

/// Some columns, shared out.
fn shares(columns: &Range<usize>, devices: usize) -> Vec<Range<usize>> {
    let start = |k: usize| columns.start + columns.len() * k / devices;
    (0..devices).map(|k| start(k)..start(k + 1)).collect()
}

/// Some columns on their way to the devices, a share of them to each.
struct Coming<SC: DeviceConfig> {
    shares: Vec<Range<usize>>,
    from: Origin<SC>,
}

/// The source of columns.
enum Origin<SC: DeviceConfig> {
    /// The host. By device: memory for their rows, the work after which it may be written; and whether they are on
    /// their way.
    Host(Vec<(Buffer<Base<SC>>, Event)>, bool),
    /// The devices that have them.
    Devices(Arriving<SC>),
}

impl<SC: DeviceConfig> Coming<SC> {
    /// Some columns for the first `devices` devices. Allocates memory, and begins to send what other devices have.
    fn new(team: &Team<'_, SC>, source: &Source<'_, SC>, columns: &Range<usize>, devices: usize) -> Result<Self> {
        let shares = shares(columns, devices);
        let from = match source {
            Source::Trace(Trace::Host(_)) => {
                let rooms = team.among(devices, |(k, session)| {
                    let room = session.stream.alloc(source.rows() * shares[k].len())?;
                    Ok((room, session.stream.record()?))
                })?;
                Origin::Host(rooms, false)
            }
            Source::Trace(Trace::Device(trace)) => {
                Origin::Devices(Arriving::new(team, &places(team, &[trace])?, trace.rows(), &shares)?)
            }
            Source::Trace(Trace::Blocks(blocks)) => {
                let blocks: Vec<&Matrix<Base<SC>>> = blocks.iter().collect();
                Origin::Devices(Arriving::new(team, &places(team, &blocks)?, blocks[0].rows(), &shares)?)
            }
            Source::Rows(rows) => Origin::Devices(rows.gather(team, &shares)?),
        };
        Ok(Self { shares, from })
    }

    /// Uploads the columns, if they are on the host. Work that the devices are given from now on waits for that.
    fn send(&mut self, team: &Team<'_, SC>, source: &Source<'_, SC>) -> Result<()> {
        if let (Source::Trace(Trace::Host(trace)), Origin::Host(rooms, is_sent)) = (source, &mut self.from)
            && !std::mem::replace(is_sent, true)
        {
            for ((session, (room, free)), columns) in team.sessions.iter().zip(rooms).zip(&self.shares) {
                if !columns.is_empty() {
                    session.bring(&mut *room, trace, columns.clone(), free)?;
                }
            }
        }
        Ok(())
    }

    /// The columns on each device, uploaded if they are not yet.
    fn columns(mut self, team: &Team<'_, SC>, source: &Source<'_, SC>) -> Result<Vec<Matrix<Base<SC>>>> {
        self.send(team, source)?;
        match self.from {
            Origin::Host(rooms, _) => team.phase("extend", || {
                team.among(rooms.len(), |(k, session)| match self.shares[k].len() {
                    0 => Ok(Matrix::alloc(&session.stream, source.rows(), 0)?),
                    columns => Ok(permute::to_columns(&session.stream, &rooms[k].0, columns)?),
                })
            }),
            Origin::Devices(columns) => columns.join(team),
        }
    }
}

/// The blocks of a trace that is on some of the devices: each with its device.
fn places<'a, SC: DeviceConfig>(
    team: &Team<'_, SC>,
    blocks: &[&'a Matrix<Base<SC>>],
) -> Result<Vec<Placed<'a, SC>>> {
    let place = |block: &&'a Matrix<Base<SC>>| {
        let device = block.values().device();
        let Some(from) = team.streams.iter().position(|stream| stream.device().is(&device)) else {
            return Err(Error::Devices(format!(
                "the trace is on {device}, which is not one of the proof's devices; copy it to one of them"
            )));
        };
        team.streams[from].wait_for_uses(block.values())?;
        Ok((from, *block))
    };
    blocks.iter().map(place).collect()
}

/// The number of columns of a part: one of 8 or 32, so that what devices send each other takes little memory
/// beside their blocks, but more if that is little data, rounded to the hash's block.
pub(crate) fn part_columns<SC: DeviceConfig>(rows: usize, width: usize, devices: usize) -> usize {
    // Each part takes calls and waits for every device, all by one host thread.
    let parts = if devices > 4 { 8 } else { 32 };
    const LEAST_BYTES: usize = 4 << 20;
    let block = RowsInParts::<SC::Hash>::block::<Base<SC>>();
    let least = (LEAST_BYTES / (rows * size_of::<Base<SC>>())).min(width);
    width.div_ceil(parts).max(least).next_multiple_of(block)
}
