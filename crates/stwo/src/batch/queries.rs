//! The queries of the current proof, and the values prefetched for them.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

use rigel_gpu::{Device, Error, Result, Shared, Stream, View};
use rigel_kernels::field::{Mersenne31, Ring};
use rigel_kernels::layout::{gather, permute};
use stwo::core::fields::m31::BaseField;
use stwo::core::vcs::blake2_hash::Blake2sHash;

use super::{Batch, Digest, Places};
use crate::device::stream;
use crate::failure::OrFail;
use crate::field::base;

/// The state of the current proof on this thread.
#[derive(Default)]
struct Proof {
    batches: Vec<Weak<Batch>>,
    log_domain: Option<u32>,
    queries: Option<Queries>,
    fetched: Prefetched,
    /// The element that was read last, if it was prefetched.
    last: Cell<Option<Cursor>>,
}

/// The place of a prefetched element.
#[derive(Clone, Copy)]
struct Cursor {
    /// The id of the column.
    id: u64,
    /// The number of the batch among those that were prefetched.
    batch: u32,
    /// The places of the element's row and of the column's last row among all rows, and of the element.
    row: u32,
    last_row: u32,
    element: u32,
}

/// The values that were prefetched.
#[derive(Default)]
struct Prefetched {
    batches: Vec<Fetched>,
    /// The rows of all lengths of all batches, sorted for each length.
    rows: Vec<u32>,
    /// The elements of all columns, as they come from the device.
    elements: Vec<Mersenne31>,
}

/// Prefetched values of a batch.
struct Fetched {
    /// The batch's id.
    batch: u64,
    columns: Vec<FetchedColumn>,
    /// The indices and digests of each layer.
    layers: Vec<(Vec<u32>, Vec<Blake2sHash>)>,
}

/// The prefetched elements of a column: the one of row `rows[rows + i]` is `elements[elements + i]`, for i < `count`.
#[derive(Clone, Copy, Default)]
struct FetchedColumn {
    rows: u32,
    count: u32,
    elements: u32,
}

impl Proof {
    /// Replaces what was prefetched.
    fn set_fetched(&mut self, fetched: Prefetched) {
        (self.fetched, self.last) = (fetched, Cell::new(None));
    }
}

impl Prefetched {
    /// The number of a batch, which is likely the given one.
    fn number(&self, batch: &Batch, likely: Option<usize>) -> Option<usize> {
        let is = |fetched: &Fetched| fetched.batch == batch.id;
        likely
            .filter(|&number| self.batches.get(number).is_some_and(is))
            .or_else(|| self.batches.iter().position(is))
    }
}

/// The words from which queries are derived, as many as were drawn so far.
struct Queries {
    draw: Box<dyn FnMut() -> Vec<u32>>,
    words: Vec<u32>,
    /// How many of them have been prefetched.
    fetched: usize,
}

/// The number of words to prefetch at first: more queries than most proofs have, and few enough that unused ones
/// cost little.
const FIRST_QUERIES: usize = 64;

/// The largest number of words that are searched for an element.
const MOST_QUERIES: usize = 1024;

thread_local! {
    static PROOF: RefCell<Proof> = RefCell::default();
}

/// Records columns that are committed to. This discards the queries of an earlier proof.
pub(super) fn enter(batch: &Arc<Batch>) {
    PROOF.with_borrow_mut(|proof| {
        proof.batches.retain(|known| known.strong_count() > 0);
        proof.batches.push(Arc::downgrade(batch));
        proof.queries = None;
        proof.set_fetched(Prefetched::default());
    });
}

/// Element `index` of the column with this id, if that column was read last and this element is the next one or the
/// same again.
///
/// Upstream reads hundreds of thousands of elements in a proof with many columns, one column after another and each in
/// the order of rows. This way the next one is found without the column's lock and without a search.
pub(crate) fn next_element(id: u64, index: usize) -> Option<BaseField> {
    PROOF.with_borrow(|proof| {
        let mut last = proof.last.get().filter(|last| last.id == id)?;
        let Prefetched { rows, elements, .. } = &proof.fetched;
        match &rows[last.row as usize..=last.last_row as usize] {
            [same, ..] if *same == index as u32 => {}
            [_, next, ..] if *next == index as u32 => {
                (last.row, last.element) = (last.row + 1, last.element + 1);
                proof.last.set(Some(last));
            }
            _ => return None,
        }
        Some(base(elements[last.element as usize]))
    })
}

/// An element of column number `column` of a batch, which has this id, if it was prefetched.
pub(super) fn element(batch: &Batch, column: usize, id: u64, index: usize) -> Option<BaseField> {
    PROOF.with_borrow(|proof| {
        let fetched = &proof.fetched;
        let number = fetched.number(batch, proof.last.get().map(|last| last.batch as usize))?;
        let FetchedColumn { rows, count, elements } = *fetched.batches[number].columns.get(column)?;
        let of_column = &fetched.rows[rows as usize..(rows + count) as usize];
        let found = of_column.binary_search(&(index as u32)).ok()? as u32;
        let (row, last_row, element) = (rows + found, rows + count - 1, elements + found);
        proof.last.set(Some(Cursor { id, batch: number as u32, row, last_row, element }));
        Some(base(fetched.elements[element as usize]))
    })
}

/// A node of a layer of a batch's tree, if it was prefetched.
pub(super) fn node(batch: &Batch, layer: usize, index: usize) -> Option<Blake2sHash> {
    PROOF.with_borrow(|proof| {
        // Upstream reads the nodes of a tree after the elements of its columns.
        let number = proof.fetched.number(batch, proof.last.get().map(|last| last.batch as usize))?;
        let (rows, digests) = proof.fetched.batches[number].layers.get(layer)?;
        Some(digests[rows.binary_search(&(index as u32)).ok()?])
    })
}

/// Records the domain of the next proof's queries.
pub(crate) fn set_query_domain(log_domain: u32) {
    PROOF.with_borrow_mut(|proof| {
        (proof.log_domain, proof.queries) = (Some(log_domain), None);
        // The openings at points are done. A tree that is used again will be opened at other points.
        proof.batches.iter().filter_map(Weak::upgrade).for_each(|batch| batch.forget_points());
    });
}

/// Records how the words of the next queries are drawn.
pub(crate) fn set_queries(draw: impl FnMut() -> Vec<u32> + 'static) {
    let queries = Queries { draw: Box::new(draw), words: Vec::new(), fetched: 0 };
    PROOF.with_borrow_mut(|proof| proof.queries = Some(queries));
}

/// If `leads(log_domain, word)` holds for the word of a query, prefetches the values of all queries up to it,
/// unless that was done before. Returns whether it did.
pub(super) fn fetch_if_queried(batch: &Arc<Batch>, leads: impl Fn(u32, u32) -> bool) -> bool {
    PROOF.with_borrow_mut(|proof| {
        let (Some(log_domain), Some(queries)) = (proof.log_domain, &mut proof.queries) else { return false };
        // The tree was committed to on another thread and is shared by several proofs.
        if !proof.batches.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(batch))) {
            proof.batches.push(Arc::downgrade(batch));
            queries.fetched = 0;
        }
        let Some(word) = (queries.fetched..MOST_QUERIES).find(|&i| leads(log_domain, queries.word(i))) else {
            return false;
        };
        let count = (word + 1).next_power_of_two().max(FIRST_QUERIES);
        queries.word(count - 1);
        queries.fetched = count;
        let batches: Vec<_> = proof.batches.iter().filter_map(Weak::upgrade).collect();
        let fetched = fetch(&batch.device, &batches, log_domain, &queries.words[..count]);
        proof.set_fetched(fetched.or_fail("fetch the queried values"));
        true
    })
}

impl Queries {
    fn word(&mut self, index: usize) -> u32 {
        while self.words.len() <= index {
            self.words.extend((self.draw)());
        }
        self.words[index]
    }
}

/// Fetches the queried values of all batches that have a tree and begin on this device, with one copy for elements and
/// one for nodes from each device. Columns of one length are read in one launch for as many as are contiguous; all
/// nodes of a device in one launch.
fn fetch(device: &Device, batches: &[Arc<Batch>], log_domain: u32, words: &[u32]) -> Result<Prefetched> {
    let committed = |batch: &&Arc<Batch>| batch.has_tree() && batch.device.is(device);
    let batches: Vec<_> = batches.iter().filter(committed).collect();
    let trees: Vec<_> = batches.iter().map(|batch| batch.tree()).collect();
    let places: Vec<Places> = batches.iter().map(|batch| batch.places(log_domain, words)).collect();
    let rows: Vec<u32> = places.iter().flat_map(|places| places.rows.values()).flatten().copied().collect();
    let count = |(batch, places): (&&Arc<Batch>, &Places)| -> usize {
        batch.columns.iter().map(|column| places.rows[&column.len()].len()).sum()
    };
    let count: usize = batches.iter().zip(&places).map(count).sum();
    if u32::try_from(count).is_err() {
        let detail = format!("{count} elements of {} queries; at most 2^32 - 1 are supported", words.len());
        return Err(Error::shape("CudaBackend", detail));
    }
    let mut readers: Vec<Reader<'_>> = Vec::new();
    let (mut fetched, mut first_row, mut end) = (Vec::with_capacity(batches.len()), 0, 0);
    for ((batch, tree), places) in batches.iter().zip(&trees).zip(&places) {
        let mut columns = vec![FetchedColumn::default(); batch.columns.len()];
        for (&len, rows) in &places.rows {
            let alike = (0..batch.columns.len()).filter(|&column| batch.columns[column].len() == len);
            let alike: Vec<usize> = alike.collect();
            for &column in &alike {
                let [first, count, elements] = [first_row, rows.len(), end].map(|number| number as u32);
                columns[column] = FetchedColumn { rows: first, count, elements };
                end += rows.len();
            }
            // Columns in blocks are read block by block.
            for alike in alike.chunk_by(|&a, &b| batch.columns[a].blocks() == batch.columns[b].blocks()) {
                let blocks = batch.columns[alike[0]].blocks();
                for block in 0..blocks {
                    let (local, first) = rows_of_block(rows, len / blocks, block);
                    if local.is_empty() {
                        continue;
                    }
                    let reader = reader(&mut readers, batch.columns[alike[0]].device(block));
                    let to = alike.iter().map(|&column| columns[column].elements as usize + first).collect();
                    reader.elements.push(Elements { batch, block, columns: alike.to_vec(), rows: local, to });
                }
            }
            first_row += rows.len();
        }
        let mut layers = Vec::with_capacity(places.layers.len());
        for (layer, rows) in tree.layers.iter().zip(&places.layers) {
            let number = layers.len();
            layers.push((rows.clone(), vec![Blake2sHash::default(); rows.len()]));
            for (block, digests) in layer.iter().enumerate() {
                let (local, first) = rows_of_block(rows, digests.len(), block);
                let reader = reader(&mut readers, &digests.view().device());
                reader.nodes.add(digests, &local);
                reader.node_targets.push((fetched.len(), number, first, local.len()));
            }
        }
        fetched.push(Fetched { batch: batch.id, columns, layers });
    }
    let mut elements = Vec::new();
    for reader in &readers {
        let words = reader.read_elements()?;
        if words.len() == count && reader.is_in_order() {
            elements = words;
        } else {
            elements.resize(count, Mersenne31::ZERO);
            reader.put_in_order(&words, &mut elements);
        }
        let nodes = reader.nodes.fetch(&reader.stream)?;
        let digest = |words| Blake2sHash(bytemuck::pod_read_unaligned(bytemuck::cast_slice(words)));
        let mut nodes = nodes.chunks_exact(8).map(digest);
        for &(batch, layer, first, count) in &reader.node_targets {
            for to in &mut fetched[batch].layers[layer].1[first..first + count] {
                *to = nodes.next().expect("one for each node");
            }
        }
    }
    Ok(Prefetched { batches: fetched, rows, elements })
}

/// The rows of a block among sorted rows, counted from its first row, and how many rows are before them.
fn rows_of_block(rows: &[u32], block_rows: usize, block: usize) -> (Vec<u32>, usize) {
    let first = (block * block_rows) as u32;
    let start = rows.partition_point(|&row| row < first);
    let end = rows.partition_point(|&row| (row as usize) < (block + 1) * block_rows);
    (rows[start..end].iter().map(|row| row - first).collect(), start)
}

/// The reader of a device.
fn reader<'a, 'b>(readers: &'b mut Vec<Reader<'a>>, device: &Device) -> &'b mut Reader<'a> {
    let known = readers.iter().position(|reader| reader.stream.device().is(device));
    let number = known.unwrap_or_else(|| {
        let (elements, nodes, node_targets) = (Vec::new(), Picks::default(), Vec::new());
        readers.push(Reader { stream: stream(device), elements, nodes, node_targets });
        readers.len() - 1
    });
    &mut readers[number]
}

/// What is read on a device.
struct Reader<'a> {
    stream: Stream,
    elements: Vec<Elements<'a>>,
    nodes: Picks<'a>,
    /// For the nodes of each layer or block of one: the batch, the layer, their first place there, and their number.
    node_targets: Vec<(usize, usize, usize, usize)>,
}

/// Rows of columns of one length, or of one block of each.
struct Elements<'a> {
    batch: &'a Batch,
    block: usize,
    columns: Vec<usize>,
    rows: Vec<u32>,
    /// Where the elements of each column go.
    to: Vec<usize>,
}

impl Reader<'_> {
    fn read_elements(&self) -> Result<Vec<Mersenne31>> {
        let all: Vec<u32> = self.elements.iter().flat_map(|part| &part.rows).copied().collect();
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let sent = self.stream.upload(&all)?;
        let count = self.elements.iter().map(|part| part.rows.len() * part.columns.len()).sum();
        let mut gathered = self.stream.alloc::<Mersenne31>(count)?;
        let (mut first_row, mut end) = (0, 0);
        for Elements { batch, block, columns, rows, .. } in &self.elements {
            let indices = sent.range(first_row..first_row + rows.len())?;
            let column = &batch.columns[columns[0]];
            let len = column.len() / column.blocks();
            let mut rest = &columns[..];
            while !rest.is_empty() {
                let run = batch.run(rest, *block)?;
                let (of_run, others) = rest.split_at(run.view().len() / len);
                let first = end;
                end += rows.len() * of_run.len();
                let to = gathered.range_mut(first..end)?;
                permute::gather_columns_into(&self.stream, to, run.view(), len, indices)?;
                rest = others;
            }
            first_row += rows.len();
        }
        gathered.to_vec(&self.stream)
    }

    /// Whether the elements are read in the order in which they are kept, as they are if no column is in blocks.
    fn is_in_order(&self) -> bool {
        let mut end = 0;
        let mut follows = |to: usize, count: usize| {
            end += count;
            to + count == end
        };
        self.elements.iter().all(|Elements { rows, to, .. }| to.iter().all(|&to| follows(to, rows.len())))
    }

    /// Copies elements that were read to where they are kept.
    fn put_in_order(&self, mut words: &[Mersenne31], elements: &mut [Mersenne31]) {
        for Elements { rows, to, .. } in &self.elements {
            for &to in to {
                let (column, rest) = words.split_at(rows.len());
                elements[to..to + rows.len()].copy_from_slice(column);
                words = rest;
            }
        }
    }
}

/// Digests of several layers.
#[derive(Default)]
struct Picks<'a> {
    layers: Vec<View<'a, Digest>>,
    picks: Vec<[u32; 2]>,
}

impl<'a> Picks<'a> {
    fn add(&mut self, layer: &'a Shared<Digest>, rows: &[u32]) {
        let number = self.layers.len() as u32;
        self.layers.push(layer.view());
        self.picks.extend(rows.iter().map(|&row| [number, row]));
    }

    /// The words of all digests.
    fn fetch(&self, stream: &Stream) -> Result<Vec<u32>> {
        if self.picks.is_empty() {
            return Ok(Vec::new());
        }
        gather::words(stream, &self.layers, &self.picks, size_of::<Digest>() / 4)?.to_vec(stream)
    }
}
