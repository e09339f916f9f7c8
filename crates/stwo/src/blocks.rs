//! Columns in blocks of rows, one block on each of several devices (see [`over`](crate::over)).
//!
//! In the bit-reversed order of a domain, block k of K contiguous blocks of its rows is a coset of its own, in the
//! bit-reversed order of that coset ([`crate::domain`]). So what runs on the rows of a domain runs on a block with the
//! points or twiddles of the block's coset. Lifting a column maps block k of the shorter column to block k of the
//! longer one.
//!
//! | what | where it is |
//! |---|---|
//! | uploaded columns, coefficients | a share of the columns on each device |
//! | values on extended domains, layers of FRI and their trees | block k of the rows on device k |
//! | numerators of quotients, constraints on a part of the domain | the first devices, whose blocks are that part |
//! | columns and layers of fewer than [`LEAST_ROWS`] rows a device, what is above the subtrees | the first device |

use std::ops::Range;

use rigel_gpu::{Buffer, Device, Error, Exchange, Result, Stream, View};
use rigel_kernels::field::Mersenne31;
use rigel_kernels::layout::permute;
use rigel_kernels::transform::circle;
use rigel_kernels::{Columns, Matrix};
use stwo::core::poly::circle::CircleDomain;
use stwo::prover::backend::Column;
use stwo::prover::poly::twiddles::TwiddleTree;
use stwo::prover::secure_column::SecureColumnByCoords;

use crate::CudaBackend;
use crate::column::{BaseColumn, Blocks, DeviceColumn, Value, by_device, devices_of, parts_on};
use crate::copies::{addressed, send};
use crate::device::{lanes, stream, streams, team};
use crate::field::Twin;
use crate::joined::{Joined, runs, split};
use crate::report::gathered;

/// The least number of rows of a block.
pub(crate) const LEAST_ROWS: usize = 16;

/// The number of rounds in which the columns of a tree are extended: while one travels, the next one is evaluated
/// and packed.
const ROUNDS: usize = 16;

/// The devices over which this thread shares out columns of so many rows; `None` if they are whole on the current one.
pub(crate) fn shared_out(rows: usize) -> Result<Option<Vec<Device>>> {
    let devices = team()?;
    Ok((devices.len() > 1 && rows >= LEAST_ROWS * devices.len()).then_some(devices))
}

/// Packed columns on their way to other devices, beside the work of these.
struct Sending {
    exchange: Exchange,
    devices: Vec<Device>,
    /// Memory that is freed may be allocated again at once, and its next user would wait for the copies.
    _packed: Vec<Packed>,
}

impl Sending {
    /// Makes later work of the devices start after it.
    fn join(self) -> Result<()> {
        self.exchange.join(&streams(&self.devices))
    }
}

/// Columns from their blocks: buffer k has block k, of `block_rows` rows, of each column.
pub(crate) fn columns(blocks: Vec<Buffer<Mersenne31>>, block_rows: usize, homes: &[Device]) -> Vec<BaseColumn> {
    let count = blocks.first().map_or(0, |block| block.len() / block_rows);
    let mut parts: Vec<_> = blocks.into_iter().map(|block| split(block, block_rows).into_iter()).collect();
    let column = |i: usize| {
        let parts = parts.iter_mut().map(|parts| parts.next().expect("as many on each device")).collect();
        BaseColumn::in_blocks(Blocks::new(parts, homes[i * homes.len() / count].clone()))
    };
    (0..count).map(column).collect()
}

/// Four coordinate columns from their blocks.
pub(crate) fn coordinates(
    blocks: Vec<Buffer<Mersenne31>>,
    block_rows: usize,
    homes: &[Device],
) -> SecureColumnByCoords<CudaBackend> {
    let columns = columns(blocks, block_rows, homes).try_into();
    SecureColumnByCoords { columns: columns.expect("a slab has four coordinates") }
}

/// Columns in blocks on these devices, or whole on the only one: those that are there, and copies of the others.
/// Columns in other blocks, as of another scope, are gathered first. A column of fewer than two rows a block is lifted
/// to that many.
pub(crate) fn spread(columns: &[&BaseColumn], devices: &[Device]) -> Result<Vec<BaseColumn>> {
    let on_first = |columns: &[&BaseColumn]| {
        let columns: Vec<BaseColumn> = columns.iter().map(|&column| column.clone()).collect();
        let to = vec![devices[0].clone(); columns.len()];
        bring(columns, &to)
    };
    if devices.len() == 1 {
        return on_first(columns);
    }
    let mut there = Vec::with_capacity(columns.len());
    let kind =
        |column: &BaseColumn| (column.len(), column.blocks().is_some(), parts_on(column, devices).is_some());
    for alike in columns.chunk_by(|a, b| kind(a) == kind(b)) {
        let (_, in_blocks, in_place) = kind(alike[0]);
        if in_place {
            there.extend(alike.iter().map(|&column| column.clone()));
            continue;
        }
        let (whole, lifted): (Vec<BaseColumn>, Vec<BaseColumn>);
        let mut alike = alike.to_vec();
        if in_blocks {
            gathered(&devices[0], "columns in blocks", "they are in blocks on other devices");
            whole = on_first(&alike)?;
            alike = whole.iter().collect();
        }
        if alike[0].len() < 2 * devices.len() {
            lifted = alike.iter().map(|column| lift(column, 2 * devices.len())).collect::<Result<_>>()?;
            alike = lifted.iter().collect();
        }
        let (whole, rows) = (alike[0].len(), alike[0].len() / devices.len());
        let room = |device: &Device| stream(device).alloc(alike.len() * rows);
        let mut blocks = devices.iter().map(room).collect::<Result<Vec<_>>>()?;
        let mut packed = Vec::new();
        for (first, run) in runs(&alike) {
            let count = run.len() / whole;
            packed.push((first..first + count, pack(&stream(&run.device()), run, whole, devices.len())?));
        }
        begin_to_send(packed, &mut blocks, rows, &[])?.join()?;
        there.extend(self::columns(blocks, rows, devices));
    }
    Ok(there)
}

/// Columns of `rows` rows that are contiguous in memory as a matrix of one column a block: block k of each, one after
/// another.
fn pack(stream: &Stream, columns: View<'_, Mersenne31>, rows: usize, blocks: usize) -> Result<Matrix<Mersenne31>> {
    permute::join_rows(stream, columns, blocks, rows / blocks, rows / blocks)
}

/// Columns with their numbers, packed.
type Packed = (Range<usize>, Matrix<Mersenne31>);

/// Begins to send packed columns, in any order, to their places in the blocks, each of `block_rows` rows a column: on
/// `lanes`, other streams of the devices, or on those of their work.
fn begin_to_send(
    packed: Vec<Packed>,
    blocks: &mut [Buffer<Mersenne31>],
    block_rows: usize,
    lanes: &[Stream],
) -> Result<Sending> {
    let mut sorted: Vec<_> = packed.iter().collect();
    sorted.sort_by_key(|(columns, _)| columns.start);
    let mut pieces = Vec::with_capacity(blocks.len() * packed.len());
    for (k, block) in blocks.iter_mut().enumerate() {
        let (mut rest, mut at) = (block.view_mut(), 0);
        for (columns, matrix) in &sorted {
            let (_, here) = rest.split_at((columns.start - at) * block_rows)?;
            let (target, tail) = here.split_at(columns.len() * block_rows)?;
            pieces.push((matrix.column(k)?, target));
            (rest, at) = (tail, columns.end);
        }
    }
    let (devices, pieces) = addressed(pieces);
    let lane = |device: &Device| lanes.iter().find(|lane| lane.device().is(device)).cloned();
    let lanes: Vec<Stream> = devices.iter().map(|device| lane(device).unwrap_or_else(|| stream(device))).collect();
    let exchange = Exchange::begin(&streams(&devices), &lanes, pieces)?;
    Ok(Sending { exchange, devices, _packed: packed })
}

/// A column lifted to more rows, few of them.
fn lift(column: &BaseColumn, rows: usize) -> Result<BaseColumn> {
    let stream = stream(column.device());
    let (values, log_ratio) = (column.view().to_vec(&stream)?, (rows / column.len()).ilog2());
    let lifted: Vec<Mersenne31> = (0..rows).map(|row| values[(row >> (log_ratio + 1) << 1) + (row & 1)]).collect();
    BaseColumn::from_buffer(stream.upload(&lifted)?)
}

/// Whole columns, each on its device: those that are there, and copies of the others. Columns in blocks are gathered.
pub(crate) fn bring(columns: Vec<BaseColumn>, to: &[Device]) -> Result<Vec<BaseColumn>> {
    let mut there = Vec::with_capacity(columns.len());
    let mut rest = columns.into_iter().zip(to).peekable();
    while let Some((column, device)) = rest.next() {
        let moves = |column: &BaseColumn, device: &Device| {
            column.blocks().is_some() || (!column.is_blank() && !column.device().is(device))
        };
        if !moves(&column, device) {
            there.push(column);
            continue;
        }
        // Columns that go to the same device become contiguous there.
        let (rows, from) = (column.len(), devices_of([&column]));
        let is_alike = |next: &BaseColumn| {
            let blocks = from.as_ref().map_or(next.blocks().is_none(), |from| parts_on(next, from).is_some());
            blocks && next.len() == rows
        };
        let mut alike = vec![column];
        while let Some((next, _)) = rest.next_if(|(next, to)| to.is(device) && is_alike(next) && moves(next, to)) {
            alike.push(next);
        }
        there.extend(split(arrived(&alike.iter().collect::<Vec<_>>(), device)?, rows));
    }
    Ok(there)
}

/// Copies of columns of one length on a device, one after another. All of them are whole, or in blocks on the same
/// devices.
fn arrived(columns: &[&BaseColumn], device: &Device) -> Result<Buffer<Mersenne31>> {
    let stream = stream(device);
    let blocks = by_device(columns);
    let mut words = stream.alloc(columns.len() * columns[0].len())?;
    let (mut rest, mut pieces) = (words.view_mut(), Vec::new());
    let sources =
        blocks.as_ref().map_or_else(|| vec![columns], |blocks| blocks.iter().map(|part| &part[..]).collect());
    for columns in sources {
        for (_, run) in runs(columns) {
            let (target, tail) = rest.split_at(run.len())?;
            pieces.push((run, target));
            rest = tail;
        }
    }
    send(pieces)?;
    match blocks {
        Some(blocks) => {
            let rows = columns[0].len() / blocks.len();
            Ok(permute::join_rows(&stream, words.view(), columns.len(), rows, rows)?.into_values())
        }
        None => Ok(words),
    }
}

/// The words of a column for reading together with what is on a device: its own, or a copy there.
pub(crate) fn words_on<'a, T: Value>(column: &'a DeviceColumn<T>, device: &Device) -> Result<Joined<'a>> {
    if let Some(blocks) = column.blocks() {
        gathered(device, "columns in blocks", "an operation reads whole columns");
        return blocks.gather(device).map(Joined::Copied);
    }
    let words = column.view_on(device);
    if words.device().is(device) {
        return Ok(Joined::Here(words));
    }
    let mut copy = stream(device).alloc(words.len())?;
    send(vec![(words, copy.view_mut())])?;
    Ok(Joined::Copied(copy))
}

/// The devices that share out so many columns of this length, one for each column: the current one if they are short.
pub(crate) fn homes(columns: usize, rows: usize) -> Result<Vec<Device>> {
    let devices = shared_out(rows)?.map_or_else(|| Ok(vec![crate::current()?]), Ok)?;
    Ok((0..columns).map(|i| devices[i * devices.len() / columns].clone()).collect())
}

/// The evaluations of polynomials of one size on a domain, in blocks. Each device evaluates the polynomials that it
/// has, a few at a time, and sends the blocks.
pub(crate) fn extend(
    polynomials: &[&BaseColumn],
    domain: CircleDomain,
    twiddles: &TwiddleTree<CudaBackend>,
    devices: &[Device],
) -> Result<Vec<BaseColumn>> {
    let (rows, size, block_rows) = (polynomials[0].len(), domain.size(), domain.size() / devices.len());
    let mut places: Vec<Vec<usize>> = vec![Vec::new(); devices.len()];
    for (i, column) in polynomials.iter().enumerate() {
        let Some(k) = devices.iter().position(|device| device.is(column.device())) else {
            let names: Vec<String> = devices.iter().map(ToString::to_string).collect();
            return Err(Error::shape(
                "rigel_stwo::over",
                format!("a column on {}; the proof is over {}", column.device(), names.join(", ")),
            ));
        };
        places[k].push(i);
    }
    let room = |device: &Device| stream(device).alloc(polynomials.len() * block_rows);
    let mut blocks: Vec<Buffer<Mersenne31>> = devices.iter().map(room).collect::<Result<_>>()?;
    let at_once = polynomials.len().div_ceil(ROUNDS * devices.len());
    let rounds = places.iter().map(|places| places.len().div_ceil(at_once)).max().unwrap_or(0);
    let lanes = lanes();
    let mut before: Option<Sending> = None;
    for round in 0..rounds {
        let chosen: Vec<&[usize]> =
            places.iter().map(|places| places.chunks(at_once).nth(round).unwrap_or(&[])).collect();
        let mut packed = Vec::with_capacity(devices.len());
        for (device, places) in devices.iter().zip(&chosen) {
            // Columns that follow each other are sent together.
            for places in places.chunk_by(|a, b| a + 1 == *b) {
                let stream = stream(device);
                let mut values = stream.alloc(places.len() * size)?;
                let columns: Vec<&BaseColumn> = places.iter().map(|&i| polynomials[i]).collect();
                for (first, run) in runs(&columns) {
                    let to = values.range_mut(first * size..(first + run.len() / rows) * size)?;
                    let initial = domain.half_coset.initial.twin();
                    let twiddles = circle::Twiddles { tower: twiddles.twiddles.tower_on(device)?, initial };
                    circle::evaluate_into(&stream, to, domain.log_size(), Columns::new(run, rows)?, twiddles)?;
                }
                let range = places[0]..places[0] + places.len();
                packed.push((range, pack(&stream, values.view(), size, devices.len())?));
            }
        }
        // A round travels while the next one is evaluated.
        let sending = begin_to_send(packed, &mut blocks, block_rows, &lanes)?;
        before.replace(sending).map_or(Ok(()), Sending::join)?;
    }
    before.map_or(Ok(()), Sending::join)?;
    Ok(columns(blocks, block_rows, devices))
}
