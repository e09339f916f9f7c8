//! Low-degree extension over several devices.
//!
//! The extended domain of 2^l rows in bit-reversed order is shared out: device k of K, a power of two, has block k of
//! m = 2^l / K rows of every column, a coset of its own (see [`crate::domain::block`]). Columns come in on any
//! device, a share of them on each. With n coefficients a column, each device interpolates its columns, and
//!
//! - if n >= m, evaluates them on the whole domain and sends every other device its block of the values;
//! - if n < m, sends their coefficients to every other, and then evaluates all columns on its block.
//!
//! Either way a device does a K-th of the work of one device alone, and sends and receives `(1 - 1/K) min(n, m)` values
//! for each column of all devices. What it reads and writes beside a K-th of one device's bytes are the
//! values that are sent, read once, and those that arrive, written once.

use std::ops::Range;

use rigel_gpu::{Buffer, Error, Exchange, Piece, Result, Stream, ViewMut};

use crate::domain::block::Block;
use crate::layout::columns::Columns;
use crate::layout::matrix::{Matrix, log2_rows};
use crate::transform::ntt::{self, Order, TwoAdic};

/// The blocks of the evaluations on the coset `GENERATOR H'` of 2^`added_bits` times as many points, in bit-reversed
/// order, given evaluations on H. `evaluations[k]`, any number of columns, is on the device of stream k; so is block
/// k of the result, of all columns in the order of devices.
///
/// Works on a few columns of each device at a time: while they travel on `lanes`, other streams of the devices, those
/// after them are transformed.
pub fn extend<F: TwoAdic>(
    streams: &[Stream],
    lanes: &[Stream],
    evaluations: &[Columns<'_, F>],
    added_bits: u32,
    order: Order,
) -> Result<Vec<Matrix<F>>> {
    const NAME: &str = "spread::extend";
    let rows = evaluations.first().map_or(0, Columns::rows);
    if let Some(other) = evaluations.iter().find(|columns| columns.rows() != rows) {
        let detail = format!("columns of {rows} and of {} rows; all must have as many", other.rows());
        return Err(Error::shape(NAME, detail));
    }
    let log_domain = log2_rows(NAME, rows)? + added_bits;
    let devices = streams.len();
    let log_devices = devices.checked_ilog2().filter(|_| devices.is_power_of_two());
    let Some(log_block) = log_devices.and_then(|log_devices| log_domain.checked_sub(log_devices)) else {
        let detail = format!(
            "2^{log_domain} rows over {devices} devices; the number must be a power of two and at most that of rows"
        );
        return Err(Error::shape(NAME, detail));
    };
    let widths: Vec<usize> = evaluations.iter().map(Columns::columns).collect();
    let block = |stream: &Stream| Matrix::alloc(stream, 1 << log_block, widths.iter().sum());
    let mut blocks: Vec<Matrix<F>> = streams.iter().map(block).collect::<Result<_>>()?;
    let mut before: Option<Spreading<F>> = None;
    for ends in PARTS.windows(2) {
        let interpolate = |(stream, columns): (&Stream, &Columns<'_, F>)| {
            let range = part_of(columns.columns(), ends);
            let values = columns.values().range(range.start * rows..range.end * rows)?;
            ntt::inverse(stream, Columns::new(values, rows)?, F::ONE, order)
        };
        let coefficients = streams.iter().zip(evaluations).map(interpolate).collect::<Result<_>>()?;
        let mut first = 0;
        let place = |&width: &usize| {
            let range = part_of(width, ends);
            first += width;
            first - width + range.start..first - width + range.end
        };
        let places = widths.iter().map(place).collect();
        let spreading = Spreading::begin(streams, lanes, coefficients, &mut blocks, places)?;
        if let Some(before) = before.replace(spreading) {
            before.finish(streams, &mut blocks)?;
        }
    }
    if let Some(last) = before {
        last.finish(streams, &mut blocks)?;
    }
    Ok(blocks)
}

/// The bounds of the parts of the columns, in sixteenths. Every launch reads tables as long as a column, so parts
/// are large; but nothing is left to compute while the last one travels, so that is small.
const PARTS: [usize; 7] = [0, 4, 8, 12, 14, 15, 16];

/// The part of `width` columns between two of [`PARTS`].
fn part_of(width: usize, ends: &[usize]) -> Range<usize> {
    width * ends[0] / 16..width * ends[1] / 16
}

/// Columns on their way to every device: the values of its block, or coefficients.
#[must_use = "the columns are complete after `finish`"]
pub struct Spreading<F: TwoAdic> {
    exchange: Exchange,
    /// The columns of the blocks in which those of each device arrive.
    places: Vec<Range<usize>>,
    log_rows: u32,
    /// The coefficients of all columns on each device, if it evaluates them.
    received: Vec<Buffer<F>>,
    /// The buffers that are sent. Memory that is freed may be allocated again at once, and its next user would
    /// wait for the copies.
    _sent: Vec<Buffer<F>>,
}

impl<F: TwoAdic> Spreading<F> {
    /// Begins to evaluate columns, whose coefficients are on the device of a stream each, on the coset `GENERATOR H'`
    /// that the rows of all blocks are, and to send them to all devices, on `lanes`. `blocks[k]` is on the device of
    /// stream k. The columns of device k become the columns `places[k]` of every block; places are in ascending order.
    pub fn begin(
        streams: &[Stream],
        lanes: &[Stream],
        coefficients: Vec<Matrix<F>>,
        blocks: &mut [Matrix<F>],
        places: Vec<Range<usize>>,
    ) -> Result<Self> {
        const NAME: &str = "spread::Spreading::begin";
        let devices = streams.len();
        if [coefficients.len(), blocks.len(), places.len()] != [devices; 3] || !devices.is_power_of_two() {
            let detail = format!(
                "coefficients on {} devices, {} blocks and {} places for {devices} streams; one of each is needed, \
                 and a power of two of them",
                coefficients.len(),
                blocks.len(),
                places.len()
            );
            return Err(Error::shape(NAME, detail));
        }
        let rows = coefficients[0].rows();
        if let Some(other) = coefficients.iter().find(|columns| columns.rows() != rows) {
            let detail = format!("columns of {rows} and of {} coefficients; all must have as many", other.rows());
            return Err(Error::shape(NAME, detail));
        }
        let block_rows = blocks[0].rows();
        if let Some(other) = blocks.iter().find(|block| block.rows() != block_rows) {
            let detail = format!("blocks of {block_rows} and of {} rows; all must have as many", other.rows());
            return Err(Error::shape(NAME, detail));
        }
        let (log_rows, log_block) = (log2_rows(NAME, rows)?, log2_rows(NAME, block_rows)?);
        let log_domain = log_block + devices.ilog2();
        let Some(added_bits) = log_domain.checked_sub(log_rows) else {
            let detail = format!("{rows} coefficients on a domain of only 2^{log_domain} points");
            return Err(Error::shape(NAME, detail));
        };
        if let Some(k) = (0..devices).find(|&k| coefficients[k].columns() != places[k].len()) {
            let detail = format!("{} columns for the places {:?}", coefficients[k].columns(), places[k]);
            return Err(Error::shape(NAME, detail));
        }
        let mut pieces = Vec::with_capacity(devices * devices);
        let (exchange, received, sent);
        if log_rows < log_block {
            let total: usize = places.iter().map(Range::len).sum();
            let room = |stream: &Stream| stream.alloc::<F>(total << log_rows);
            let mut rooms: Vec<Buffer<F>> = streams.iter().map(room).collect::<Result<_>>()?;
            for (to, room) in rooms.iter_mut().enumerate() {
                let mut rest = room.view_mut();
                for (from, columns) in coefficients.iter().enumerate() {
                    let (target, tail) = rest.split_at(columns.values().len())?;
                    pieces.push(Piece::new(from, to, columns.values().view(), target));
                    rest = tail;
                }
            }
            exchange = Exchange::begin(streams, lanes, pieces)?;
            (received, sent) = (rooms, coefficients.into_iter().map(Matrix::into_values).collect());
        } else {
            let (mut values, mut others) = (Vec::with_capacity(devices), Vec::with_capacity(devices));
            for (index, (block, columns)) in blocks.iter_mut().zip(&coefficients).enumerate() {
                let mut rooms = rooms(block, &places)?;
                let (own, stream) = (rooms.remove(index), &streams[index]);
                let mut made = stream.alloc(columns.values().len() << added_bits)?;
                let (columns, block) = (columns.into(), Block { index, log_rows: log_block });
                ntt::evaluate_coset_apart(stream, made.view_mut(), columns, added_bits, F::GENERATOR, block, own)?;
                values.push(made);
                others.push(rooms);
            }
            for (to, rooms) in others.into_iter().enumerate() {
                let rows = to << log_block..(to + 1) << log_block;
                for (from, room) in (0..devices).filter(|&from| from != to).zip(rooms) {
                    let source = values[from].view().runs(1 << log_domain, rows.clone())?;
                    pieces.push(Piece::new(from, to, source, room));
                }
            }
            exchange = Exchange::begin(streams, lanes, pieces)?;
            (received, sent) = (Vec::new(), values);
        }
        Ok(Self { exchange, places, log_rows, received, _sent: sent })
    }

    /// Completes the columns in the same blocks: later work of the streams finds them there.
    pub fn finish(self, streams: &[Stream], blocks: &mut [Matrix<F>]) -> Result<()> {
        let Self { exchange, places, log_rows, received, _sent } = self;
        exchange.join(streams)?;
        for (index, (received, block)) in received.iter().zip(blocks).enumerate() {
            let log_block = log2_rows("spread::Spreading::finish", block.rows())?;
            let shift = F::GENERATOR * Block { index, log_rows: log_block }.shift::<F>();
            let mut first = 0;
            // Adjacent places are evaluated at once.
            for run in places.chunk_by(|a, b| a.end == b.start) {
                let (start, end) = (run[0].start, run[run.len() - 1].end);
                let columns = received.range(first << log_rows..(first + end - start) << log_rows)?;
                let columns = Columns::new(columns, 1 << log_rows)?;
                let room = block.column_range_mut(start, end)?;
                ntt::evaluate_coset_into(&streams[index], room, columns, log_block - log_rows, shift)?;
                first += end - start;
            }
        }
        Ok(())
    }
}

/// The columns `places` of a block, which are in ascending order.
fn rooms<'a, F: TwoAdic>(block: &'a mut Matrix<F>, places: &[Range<usize>]) -> Result<Vec<ViewMut<'a, F>>> {
    let (rows, width) = (block.rows(), block.columns());
    let (mut rest, mut at) = (block.values_mut().view_mut(), 0);
    let mut rooms = Vec::with_capacity(places.len());
    for place in places {
        if place.start < at || place.start > place.end || place.end > width {
            let detail = format!("columns {places:?} of {width}; they must be in ascending order");
            return Err(Error::shape("spread::Spreading::begin", detail));
        }
        let (room, tail) = rest.split_at((place.start - at) * rows)?.1.split_at(place.len() * rows)?;
        rooms.push(room);
        (rest, at) = (tail, place.end);
    }
    Ok(rooms)
}
