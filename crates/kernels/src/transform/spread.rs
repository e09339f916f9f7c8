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

use rigel_gpu::{Buffer, Error, Piece, Result, Stream, ViewMut, exchange};

use crate::domain::block::Block;
use crate::layout::columns::Columns;
use crate::layout::matrix::{Matrix, log2_rows};
use crate::transform::ntt::{self, Order, TwoAdic};
use crate::transform::residues::residues;

/// The blocks of the evaluations on the coset `GENERATOR H'` of 2^`added_bits` times as many points, in bit-reversed
/// order, given evaluations on H. `evaluations[k]`, any number of columns, is on the device of stream k; so is block
/// k of the result, of all columns in the order of devices.
pub fn extend<F: TwoAdic>(
    streams: &[Stream],
    evaluations: &[Columns<'_, F>],
    added_bits: u32,
    order: Order,
) -> Result<Vec<Matrix<F>>> {
    let rows = evaluations.first().map_or(0, Columns::rows);
    let log_domain = log2_rows("spread::extend", rows)? + added_bits;
    let pairs = streams.iter().zip(evaluations);
    let coefficients: Vec<Matrix<F>> =
        pairs.map(|(stream, &columns)| ntt::inverse(stream, columns, F::ONE, order)).collect::<Result<_>>()?;
    let columns = evaluations.iter().map(Columns::columns).sum();
    let log_block = log_block(streams.len(), log_domain)?;
    let block = |stream: &Stream| Matrix::alloc(stream, 1 << log_block, columns);
    let mut blocks: Vec<Matrix<F>> = streams.iter().map(block).collect::<Result<_>>()?;
    let coefficients: Vec<Columns<'_, F>> = coefficients.iter().map(Into::into).collect();
    let out = blocks.iter_mut().map(|block| block.values_mut().view_mut()).collect();
    evaluate_into(streams, &coefficients, log_domain, out)?;
    Ok(blocks)
}

/// The blocks of the evaluations on the coset `GENERATOR H'` of 2^`log_domain` points, given coefficients, as
/// [`extend`]; into existing memory.
pub fn evaluate_into<F: TwoAdic>(
    streams: &[Stream],
    coefficients: &[Columns<'_, F>],
    log_domain: u32,
    out: Vec<ViewMut<'_, F>>,
) -> Result<()> {
    const NAME: &str = "spread::evaluate_into";
    let devices = streams.len();
    let log_block = log_block(devices, log_domain)?;
    if (coefficients.len(), out.len()) != (devices, devices) {
        let detail = format!(
            "coefficients on {} devices and results on {} for {devices} streams; one of each is needed",
            coefficients.len(),
            out.len()
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
        return Err(Error::shape(NAME, format!("{rows} coefficients on a domain of only 2^{log_domain} points")));
    }
    let log_sent = log_rows.min(log_block);
    let total: usize = coefficients.iter().map(Columns::columns).sum();
    let reduced: Vec<Option<Buffer<F>>> = streams
        .iter()
        .zip(coefficients)
        .map(|(stream, &columns)| {
            let reduce = log_block < log_rows && columns.columns() > 0;
            reduce.then(|| residues(stream, columns, log_block, devices)).transpose()
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
                None => columns.values(),
            };
            let (target, tail) = rest.split_at(length)?;
            pieces.push(Piece { from, to, source, target });
            rest = tail;
        }
    }
    exchange(streams, pieces)?;
    for (k, (out, received)) in out.into_iter().zip(&received).enumerate() {
        let shift = F::GENERATOR * Block { index: k, log_rows: log_block }.shift::<F>();
        let columns = Columns::new(received.view(), 1 << log_sent)?;
        ntt::evaluate_coset_into(&streams[k], out, columns, log_block - log_sent, shift)?;
    }
    Ok(())
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
