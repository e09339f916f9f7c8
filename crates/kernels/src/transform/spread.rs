//! Low-degree extension over several devices.
//!
//! The extended domain of 2^l rows in bit-reversed order is shared out: device k of K, a power of two, has block k of
//! m = 2^l / K rows of every column, a coset of its own (see [`crate::domain::block`]). Columns come in on any
//! device, a share of them on each. With n coefficients a column,
//!
//! 1. each device interpolates its columns,
//! 2. and sends their coefficients to every other: all n, or if n > m their m [`residues`](crate::transform::residues)
//!    for the other's block;
//! 3. each device evaluates all columns on its block.
//!
//! So a device interpolates a K-th of the columns, evaluates a K-th of the rows, and sends and receives
//! `(1 - 1/K) min(n, m)` values a column of its share, or of all of them.

use std::ops::Range;

use rigel_gpu::{Buffer, Error, Exchange, Piece, Result, Stream, ViewMut};

use crate::domain::block::Block;
use crate::layout::columns::Columns;
use crate::layout::matrix::{Matrix, log2_rows};
use crate::transform::ntt::{self, Order, TwoAdic};
use crate::transform::residues::residues;

/// The blocks of the evaluations on the coset `GENERATOR H'` of 2^`added_bits` times as many points, in bit-reversed
/// order, given evaluations on H. `evaluations[k]`, any number of columns, is on the device of stream k; so is block
/// k of the result, of all columns in the order of devices.
///
/// Works on a few columns of each device at a time: while their coefficients travel on `lanes`, other streams of the
/// devices, those before them are evaluated and those after them interpolated.
pub fn extend<F: TwoAdic>(
    streams: &[Stream],
    lanes: &[Stream],
    evaluations: &[Columns<'_, F>],
    added_bits: u32,
    order: Order,
) -> Result<Vec<Matrix<F>>> {
    const PARTS: usize = 8;
    let rows = evaluations.first().map_or(0, Columns::rows);
    if let Some(other) = evaluations.iter().find(|columns| columns.rows() != rows) {
        let detail = format!("columns of {rows} and of {} rows; all must have as many", other.rows());
        return Err(Error::shape("spread::extend", detail));
    }
    let log_domain = log2_rows("spread::extend", rows)? + added_bits;
    let log_block = log_block(streams.len(), log_domain)?;
    let widths: Vec<usize> = evaluations.iter().map(Columns::columns).collect();
    let block = |stream: &Stream| Matrix::alloc(stream, 1 << log_block, widths.iter().sum());
    let mut blocks: Vec<Matrix<F>> = streams.iter().map(block).collect::<Result<_>>()?;
    // For each device that has columns, and those in the order of parts: where they go on each device.
    let mut rooms = Vec::with_capacity(streams.len());
    for block in &mut blocks {
        let mut rest = block.values_mut().view_mut();
        let mut by_part: Vec<Vec<ViewMut<'_, F>>> = (0..PARTS).map(|_| Vec::new()).collect();
        for width in &widths {
            for (part, rooms) in by_part.iter_mut().enumerate() {
                let (room, tail) = rest.split_at(part_of(*width, part, PARTS).len() << log_block)?;
                rooms.push(room);
                rest = tail;
            }
        }
        rooms.push(by_part.into_iter());
    }
    let mut before: Option<(Spreading<F>, _)> = None;
    for part in 0..PARTS {
        let interpolate = |(stream, columns): (&Stream, &Columns<'_, F>)| {
            let range = part_of(columns.columns(), part, PARTS);
            let values = columns.values().range(range.start * rows..range.end * rows)?;
            ntt::inverse(stream, Columns::new(values, rows)?, F::ONE, order)
        };
        let coefficients = streams.iter().zip(evaluations).map(interpolate).collect::<Result<_>>()?;
        let spreading = Spreading::begin(streams, lanes, coefficients, log_domain)?;
        let rooms = rooms.iter_mut().map(|parts| parts.next().expect("one for each part")).collect();
        if let Some((before, rooms)) = before.replace((spreading, rooms)) {
            before.evaluate_into(streams, rooms)?;
        }
    }
    if let Some((last, rooms)) = before {
        last.evaluate_into(streams, rooms)?;
    }
    Ok(blocks)
}

/// Part number `part` of `width` columns in so many parts.
fn part_of(width: usize, part: usize, parts: usize) -> Range<usize> {
    width * part / parts..width * (part + 1) / parts
}

/// Columns whose coefficients are on their way to every device.
#[must_use = "the columns are evaluated by `evaluate_into`"]
pub struct Spreading<F: TwoAdic> {
    exchange: Exchange,
    log_block: u32,
    log_sent: u32,
    /// The coefficients of all columns on each device.
    received: Vec<Buffer<F>>,
    /// What is sent. Memory that is freed may be allocated again at once, and its next user would wait for the copies.
    _sent: (Vec<Matrix<F>>, Vec<Option<Buffer<F>>>),
}

impl<F: TwoAdic> Spreading<F> {
    /// Begins to send the coefficients of columns, some of them on the device of each stream, to all devices, on
    /// `lanes`; for their evaluation on the coset `GENERATOR H'` of 2^`log_domain` points.
    pub fn begin(
        streams: &[Stream],
        lanes: &[Stream],
        coefficients: Vec<Matrix<F>>,
        log_domain: u32,
    ) -> Result<Self> {
        const NAME: &str = "spread::Spreading::begin";
        let devices = streams.len();
        let log_block = log_block(devices, log_domain)?;
        if coefficients.len() != devices {
            let detail = format!(
                "coefficients on {} devices for {devices} streams; one of each is needed",
                coefficients.len()
            );
            return Err(Error::shape(NAME, detail));
        }
        let rows = coefficients[0].rows();
        if let Some(other) = coefficients.iter().find(|columns| columns.rows() != rows) {
            let detail = format!("columns of {rows} and of {} coefficients; all must have as many", other.rows());
            return Err(Error::shape(NAME, detail));
        }
        let log_rows = log2_rows(NAME, rows)?;
        if log_rows > log_domain {
            let detail = format!("{rows} coefficients on a domain of only 2^{log_domain} points");
            return Err(Error::shape(NAME, detail));
        }
        let log_sent = log_rows.min(log_block);
        let total: usize = coefficients.iter().map(Matrix::columns).sum();
        let reduced: Vec<Option<Buffer<F>>> = streams
            .iter()
            .zip(&coefficients)
            .map(|(stream, columns)| {
                let reduce = log_block < log_rows && columns.columns() > 0;
                reduce.then(|| residues(stream, columns.into(), log_block, devices)).transpose()
            })
            .collect::<Result<_>>()?;
        let room = |stream: &Stream| stream.alloc::<F>(total << log_sent);
        let mut received: Vec<Buffer<F>> = streams.iter().map(room).collect::<Result<_>>()?;
        let mut pieces = Vec::with_capacity(devices * devices);
        for (to, room) in received.iter_mut().enumerate() {
            let mut rest = room.view_mut();
            for (from, columns) in coefficients.iter().enumerate() {
                let length = columns.columns() << log_sent;
                let source = match &reduced[from] {
                    Some(blocks) => blocks.range(to * length..(to + 1) * length)?,
                    None => columns.values().view(),
                };
                let (target, tail) = rest.split_at(length)?;
                pieces.push(Piece { from, to, source, target });
                rest = tail;
            }
        }
        let exchange = Exchange::begin(streams, lanes, pieces)?;
        Ok(Self { exchange, log_block, log_sent, received, _sent: (coefficients, reduced) })
    }

    /// Evaluates the columns, in the order of devices: block k on device k, into `out[k]`, rooms for some columns each.
    pub fn evaluate_into(self, streams: &[Stream], out: Vec<Vec<ViewMut<'_, F>>>) -> Result<()> {
        let Self { exchange, log_block, log_sent, received, _sent } = self;
        let lengths = |rooms: &Vec<ViewMut<'_, F>>| rooms.iter().map(|room| room.len()).sum::<usize>();
        let expected = received.first().map_or(0, |columns| (columns.len() >> log_sent) << log_block);
        if out.len() != streams.len() || out.iter().any(|rooms| lengths(rooms) != expected) {
            let found: Vec<usize> = out.iter().map(lengths).collect();
            let detail = format!("rooms of {found:?} values for {expected} on each of {} devices", streams.len());
            return Err(Error::shape("spread::Spreading::evaluate_into", detail));
        }
        exchange.join(streams)?;
        for (k, (rooms, received)) in out.into_iter().zip(&received).enumerate() {
            let shift = F::GENERATOR * Block { index: k, log_rows: log_block }.shift::<F>();
            let mut first = 0;
            for room in rooms.into_iter().filter(|room| !room.is_empty()) {
                let end = first + ((room.len() >> log_block) << log_sent);
                let columns = Columns::new(received.range(first..end)?, 1 << log_sent)?;
                ntt::evaluate_coset_into(&streams[k], room, columns, log_block - log_sent, shift)?;
                first = end;
            }
        }
        Ok(())
    }
}

/// The logarithm of a device's rows.
fn log_block(devices: usize, log_domain: u32) -> Result<u32> {
    let log_devices = devices.checked_ilog2().filter(|_| devices.is_power_of_two());
    log_devices.and_then(|log_devices| log_domain.checked_sub(log_devices)).ok_or_else(|| {
        let detail = format!(
            "2^{log_domain} rows over {devices} devices; the number must be a power of two and at most that of rows"
        );
        Error::shape("spread", detail)
    })
}
