//! The quotient over several devices.
//!
//! The quotient's domain of n q points is a prefix of the extended rows, so the first devices have blocks of it: R rows
//! each. If R is n or more, a row's next row is in the same block. If not, all next rows of a block are in one other
//! block (see [`Block::next`]), and the columns that constraints read there are sent before they are evaluated.

use p3_field::TwoAdicField;
use p3_util::reverse_bits_len;
use rigel_gpu::{Buffer, Exchange, Piece, exchange};
use rigel_kernels::domain::block::Block;
use rigel_kernels::field::{Element, Field, Ring};
use rigel_kernels::layout::permute;
use rigel_kernels::transform::ntt::{self, Order};
use rigel_kernels::transform::spread::Spreading;
use rigel_kernels::{Columns, Matrix};

use super::extend::devices_of;
use super::team::Team;
use crate::air::constraints::Constraints;
use crate::base::error::{Error, Result};
use crate::columns::extended::Extended;
use crate::phases::quotient::{self, Read, Sums, Table};
use crate::prover::Prover;
use crate::upstream::config::{Base, DeviceConfig, Ext};
use crate::upstream::field::DeviceField;

/// A table, as seen by its constraints. Its matrices are in blocks, one a device, or whole on the first device.
pub(crate) struct SplitTable<'a, SC: DeviceConfig> {
    pub(crate) log_rows: u32,
    pub(crate) constraints: &'a Constraints<SC>,
    pub(crate) main: &'a [Extended<'a, SC>],
    pub(crate) preprocessed: Option<&'a [Extended<'a, SC>]>,
    /// The lookups' columns.
    pub(crate) permutation: Option<&'a [Extended<'a, SC>]>,
    pub(crate) periodic: &'a [Vec<SC::Value>],
    pub(crate) publics: &'a [SC::Value],
    /// The terminal and the challenges of the lookups.
    pub(crate) extension: &'a [SC::Challenge],
}

impl<SC: DeviceConfig> SplitTable<'_, SC> {
    /// The blocks of the quotient's domain, one for each device that holds part of it.
    fn blocks(&self) -> Vec<Block> {
        let log_size = self.log_rows + self.constraints.log_chunks as u32;
        let log_block = log_size.min(self.main[0].log_rows());
        (0..1 << (log_size - log_block)).map(|index| Block { index, log_rows: log_block }).collect()
    }

    /// The matrices that constraints on device k read.
    fn read<'b>(&'b self, k: usize, next: [Option<&'b Matrix<Base<SC>>>; 3]) -> Read<'b, SC> {
        Read {
            main: self.main[k].whole(),
            preprocessed: self.preprocessed.map(|blocks| blocks[k].whole()),
            permutation: self.permutation.map(|blocks| blocks[k].whole()),
            next,
        }
    }

    /// The table as the constraints on device k see it.
    fn on(&self, k: usize) -> Table<'_, SC> {
        Table {
            log_rows: self.log_rows,
            constraints: self.constraints,
            main: &self.main[k],
            preprocessed: self.preprocessed.map(|blocks| blocks[k].whole()),
            permutation: self.permutation.map(|blocks| &blocks[k]),
            periodic: self.periodic,
            publics: self.publics,
            extension: self.extension,
        }
    }
}

/// Checks that the extended rows of a table that is shared out have the quotient's domain.
pub(crate) fn check_domain<SC: DeviceConfig>(
    prover: &Prover<SC>,
    table: usize,
    log_rows: usize,
    log_chunks: usize,
) -> Result<()> {
    let log_blowup = prover.fri.log_blowup;
    if log_chunks > log_blowup && devices_of(prover, 1 << log_rows) > 1 {
        return Err(Error::Devices(format!(
            "the quotient of table {table} has {} chunks, more than the blowup of {}; prove with one \
             device, or with a larger blowup",
            1 << log_chunks,
            1 << log_blowup
        )));
    }
    Ok(())
}

/// The chunks of a table's quotient, extended like the table's trace and in blocks as it is.
pub(crate) fn chunks<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    table: &SplitTable<'_, SC>,
    alpha: SC::Challenge,
) -> Result<Vec<Vec<Matrix<Base<SC>>>>> {
    if table.main.len() == 1 {
        let whole = quotient::chunks(team.first(), &table.on(0), alpha)?;
        return Ok(whole.into_iter().map(|chunk| vec![chunk]).collect());
    }
    let values = evaluate(team, table, alpha)?;
    let (log_rows, log_chunks) = (table.log_rows, table.constraints.log_chunks);
    let (degree, chunks, devices) = (Ext::<SC>::DEGREE, 1usize << log_chunks, team.sessions.len());
    // Coefficient d of chunk i is column i D + d, a share of which each device interpolates.
    let columns = |k: usize| chunks * degree * k / devices..chunks * degree * (k + 1) / devices;
    let mut gathered =
        team.each(|(k, session)| Ok(Matrix::alloc(&session.stream, 1 << log_rows, columns(k).len())?))?;
    let blocks = table.blocks();
    // A device has some chunks, or some rows of one.
    let log_piece = log_rows.min(blocks[0].log_rows);
    team.phase("exchange", || {
        let mut pieces = Vec::new();
        for (to, matrix) in gathered.iter_mut().enumerate() {
            let mut rest = matrix.values_mut().view_mut();
            for column in columns(to) {
                // Chunk i holds the values on g w^i H.
                let (chunk, d) = (reverse_bits_len(column / degree, log_chunks), column % degree);
                for piece in 0..1usize << (log_rows - log_piece) {
                    let place = (chunk << (log_rows - log_piece)) + piece;
                    let log_each = blocks[0].log_rows - log_piece;
                    let (from, slab) = (place >> log_each, place & ((1 << log_each) - 1));
                    let start = (slab * degree + d) << log_piece;
                    let source = values[from].range(start..start + (1 << log_piece))?;
                    let (target, tail) = rest.split_at(1 << log_piece)?;
                    pieces.push(Piece::new(from, to, source, target));
                    rest = tail;
                }
            }
        }
        Ok(exchange(&team.streams, pieces)?)
    })?;
    drop(values);

    let log_domain = log_rows + team.first().log_blowup();
    let by_device: Vec<Vec<Matrix<Base<SC>>>> = team.phase("extend", || {
        let root = SC::Value::two_adic_generator(log_rows as usize + log_chunks).twin();
        let coefficients = team.each(|(k, session)| {
            let mut coefficients = Matrix::alloc(&session.stream, 1 << log_rows, columns(k).len())?;
            // Adjacent columns of one chunk have the same domain.
            for run in columns(k).collect::<Vec<_>>().chunk_by(|a, b| a / degree == b / degree) {
                let (first, end) = (run[0] - columns(k).start, run[run.len() - 1] + 1 - columns(k).start);
                let shift = Base::<SC>::GENERATOR * root.pow((run[0] / degree) as u64);
                let values = Columns::new(gathered[k].column_range(first, end)?, 1 << log_rows)?;
                let made = ntt::inverse(&session.stream, values, shift, Order::BitReversed)?;
                session.stream.copy(coefficients.column_range_mut(first, end)?, made.values())?;
            }
            Ok(coefficients)
        })?;
        let block_rows = 1usize << (log_domain - team.log_devices());
        let mut blocks =
            team.each(|(_, session)| Ok(Matrix::alloc(&session.stream, block_rows, chunks * degree)?))?;
        let places = (0..devices).map(columns).collect();
        let sent = Spreading::begin(&team.streams, &team.lanes, coefficients, &mut blocks, places)?;
        sent.finish(&team.streams, &mut blocks)?;
        // Each chunk is a matrix of its own.
        team.each(|(k, _)| {
            let values = std::mem::replace(&mut blocks[k], Matrix::alloc(&team.streams[k], 0, 0)?).into_values();
            let chunks = values.split(&vec![block_rows * degree; chunks])?;
            Ok(chunks
                .into_iter()
                .map(|chunk| Matrix::new(chunk, block_rows, degree))
                .collect::<rigel_gpu::Result<_>>()?)
        })
    })?;
    let mut by_device: Vec<_> = by_device.into_iter().map(Vec::into_iter).collect();
    let mut next_chunk = || by_device.iter_mut().map(|chunks| chunks.next().expect("one a device")).collect();
    Ok((0..chunks).map(|_| next_chunk()).collect())
}

/// The quotient's values on the devices that have rows of its domain: a slab for each chunk, or one for part of a
/// chunk.
fn evaluate<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    table: &SplitTable<'_, SC>,
    alpha: SC::Challenge,
) -> Result<Vec<Buffer<Base<SC>>>> {
    let blocks = table.blocks();
    let constraints = table.constraints;
    if constraints.count() == 0 {
        let zeros = |(k, block): (usize, &Block)| team.streams[k].zeros(Ext::<SC>::DEGREE << block.log_rows);
        return Ok(blocks.iter().enumerate().map(zeros).collect::<rigel_gpu::Result<_>>()?);
    }
    let new = |(k, &block): (usize, &Block)| Sums::new(&team.sessions[k], &table.on(k), block, alpha);
    let mut sums: Vec<Sums<SC>> = team.phase("constraints", || blocks.iter().enumerate().map(new).collect())?;
    if blocks[0].log_rows >= table.log_rows {
        team.phase("constraints", || {
            for (k, sums) in sums.iter_mut().enumerate() {
                let stream = &team.streams[k];
                let program = constraints.program_on(stream.device())?;
                sums.add(stream, table.read(k, [None; 3]), &program)?;
            }
            Ok(())
        })?;
        return Ok(sums.into_iter().map(|sums| sums.values).collect());
    }
    let parts = constraints.next_apart(next_columns(table.main[0].columns()));
    let next = |columns: &[Vec<usize>; 3]| -> Result<[NextRows<SC>; 3]> {
        let next = |matrix: Option<&[Extended<'_, SC>]>, columns: &[usize]| match matrix {
            Some(matrix) => next_rows(team, matrix, &blocks, table.log_rows, columns),
            None => Ok(NextRows::none()),
        };
        Ok([
            next(Some(table.main), &columns[0])?,
            next(table.preprocessed, &columns[1])?,
            next(table.permutation, &columns[2])?,
        ])
    };
    let mut coming = parts.first().map(|part| next(&part.columns)).transpose()?;
    for (index, part) in parts.iter().enumerate() {
        let brought = coming.take().expect("one for each part");
        // Those of the next part travel while this part is evaluated.
        coming = parts.get(index + 1).map(|part| next(&part.columns)).transpose()?;
        let [main, fixed, lookups] = brought.map(|next| next.join(team));
        let (main, fixed, lookups) = (main?, fixed?, lookups?);
        team.phase("constraints", || {
            for (k, sums) in sums.iter_mut().enumerate() {
                let stream = &team.streams[k];
                let next = [main.get(k), fixed.get(k), lookups.get(k)];
                let program = part.program(stream.device())?;
                sums.add(stream, table.read(k, next), &program)?;
            }
            Ok(())
        })?;
    }
    Ok(sums.into_iter().map(|sums| sums.values).collect())
}

/// The number of columns of a trace whose next rows are sent at a time: an eighth, so that they take little memory
/// beside the blocks.
pub(crate) fn next_columns(width: usize) -> usize {
    (width / 8).max(32)
}

/// Some columns of a matrix's next rows, of each block, on their way.
struct NextRows<SC: DeviceConfig> {
    /// None, if constraints read none of them.
    by_block: Vec<Matrix<Base<SC>>>,
    /// The exchange, and what it sends, which is kept until then.
    exchange: Option<(Exchange, Vec<Matrix<Base<SC>>>)>,
}

impl<SC: DeviceConfig> NextRows<SC> {
    fn none() -> Self {
        Self { by_block: Vec::new(), exchange: None }
    }

    fn join(self, team: &Team<'_, SC>) -> Result<Vec<Matrix<Base<SC>>>> {
        if let Some((exchange, _sent)) = self.exchange {
            exchange.join(&team.streams)?;
        }
        Ok(self.by_block)
    }
}

/// Begins to send some columns of a matrix's next rows to the devices that need them.
fn next_rows<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    matrix: &[Extended<'_, SC>],
    blocks: &[Block],
    log_trace: u32,
    columns: &[usize],
) -> Result<NextRows<SC>> {
    if columns.is_empty() {
        return Ok(NextRows::none());
    }
    team.phase("exchange", || {
        let mut taken = Vec::with_capacity(blocks.len());
        for &block in blocks {
            let (from, rotates) = block.next(log_trace);
            let (stream, matrix) = (&team.streams[from.index], matrix[from.index].whole());
            let rows = if rotates {
                permute::take_next(stream, matrix, columns)?
            } else {
                permute::take_columns(stream, matrix, columns, matrix.rows())?
            };
            taken.push((from.index, rows));
        }
        let room = |(to, block): (usize, &Block)| Matrix::alloc(&team.streams[to], block.rows(), columns.len());
        let mut next: Vec<Matrix<Base<SC>>> =
            blocks.iter().enumerate().map(room).collect::<rigel_gpu::Result<_>>()?;
        let mut pieces = Vec::with_capacity(blocks.len());
        for (to, (target, (from, source))) in next.iter_mut().zip(&taken).enumerate() {
            pieces.push(Piece::new(*from, to, source.values().view(), target.values_mut().view_mut()));
        }
        let exchange = Exchange::begin(&team.streams, &team.lanes, pieces)?;
        let sent = taken.into_iter().map(|(_, rows)| rows).collect();
        Ok(NextRows { by_block: next, exchange: Some((exchange, sent)) })
    })
}
