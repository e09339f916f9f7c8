//! The queries of the current proof, and the values prefetched for them.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Weak};

use rigel_gpu::{Device, Error, Result, Shared, Stream, View};
use rigel_kernels::field::Mersenne31;
use rigel_kernels::layout::{gather, permute};
use stwo::core::fields::m31::BaseField;
use stwo::core::vcs::blake2_hash::Blake2sHash;

use super::{Batch, Digest, Places};
use crate::device::stream;
use crate::failure::OrFail;
use crate::field::base;

/// The state of the current proof on this thread.
struct Proof {
    batches: Vec<Weak<Batch>>,
    log_domain: Option<u32>,
    queries: Option<Queries>,
    fetched: Prefetched,
    /// The element that was read last, with its column, and the node that was, if they were prefetched.
    last_element: Option<(Cursor, FetchedColumn)>,
    last_node: Option<Cursor>,
}

/// The place of a prefetched value.
#[derive(Clone, Copy)]
struct Cursor {
    /// The number of the batch among those that were prefetched.
    batch: usize,
    /// The number of the column, or of the layer of the tree.
    part: usize,
    /// The number of the value there.
    value: usize,
}

/// The values that were prefetched.
struct Prefetched {
    batches: Vec<Fetched>,
    /// The rows of all lengths of all batches, sorted for each length.
    rows: Vec<u32>,
    /// The elements of all columns, as they come from the device.
    elements: Vec<Mersenne31>,
    /// The indices of the nodes of all layers of all batches, sorted for each layer.
    nodes: Vec<u32>,
    /// The digests of the nodes, as they come from the device.
    digests: Vec<Digest>,
}

/// Prefetched values of a batch.
struct Fetched {
    /// The batch's id.
    batch: u64,
    columns: Vec<FetchedColumn>,
    /// The range of each layer's nodes among all nodes.
    layers: Vec<Range<u32>>,
}

/// The prefetched elements of a column: the one of row `rows[rows + i]` is `elements[elements + i]`, for i < `count`.
#[derive(Clone, Copy, Default)]
struct FetchedColumn {
    /// The column's id.
    id: u64,
    rows: u32,
    count: u32,
    elements: u32,
}

impl Proof {
    const NONE: Self = Self {
        batches: Vec::new(),
        log_domain: None,
        queries: None,
        fetched: Prefetched::NONE,
        last_element: None,
        last_node: None,
    };

    /// Replaces what was prefetched.
    fn set_fetched(&mut self, fetched: Prefetched) {
        (self.fetched, self.last_element, self.last_node) = (fetched, None, None);
    }

    /// See [`next_element`].
    #[inline(never)]
    fn next_element(&mut self, id: u64, index: usize) -> Option<BaseField> {
        let (fetched, (last, column)) = (&self.fetched, self.last_element.as_mut()?);
        if column.id == id {
            last.value = beside(fetched.rows(column), last.value, index)?;
        } else {
            let columns = &fetched.batches[last.batch].columns;
            let next = columns.get(last.part + 1).filter(|column| column.id == id)?;
            let value = beside(fetched.rows(next), 0, index)?;
            (*column, *last) = (*next, Cursor { part: last.part + 1, value, ..*last });
        }
        Some(base(fetched.elements[column.elements as usize + last.value]))
    }
}

impl Prefetched {
    const NONE: Self = Self {
        batches: Vec::new(),
        rows: Vec::new(),
        elements: Vec::new(),
        nodes: Vec::new(),
        digests: Vec::new(),
    };

    /// The number of a batch, which is likely that of the cursor.
    fn number(&self, batch: &Batch, last: Option<Cursor>) -> Option<usize> {
        let is = |fetched: &Fetched| fetched.batch == batch.id;
        let likely = last.map(|last| last.batch).filter(|&number| is(&self.batches[number]));
        likely.or_else(|| self.batches.iter().position(is))
    }

    /// The sorted rows of a column.
    #[inline]
    fn rows(&self, column: &FetchedColumn) -> &[u32] {
        &self.rows[column.rows as usize..][..column.count as usize]
    }
}

/// The place of an index among sorted ones, if it is beside the place that was read last.
///
/// Upstream reads in order, except that the rows of a shorter column and the nodes of a layer may change places with
/// their neighbours.
#[inline]
fn beside(sorted: &[u32], last: usize, index: usize) -> Option<usize> {
    let is = |place: &usize| sorted.get(*place).is_some_and(|&row| row as usize == index);
    // Nearly always it is the next one.
    let next = Some(last + 1).filter(is);
    next.or_else(|| [last, last.wrapping_sub(1), last + 2].into_iter().find(is))
}

/// The words from which queries are derived, as many as were drawn so far.
struct Queries {
    draw: Box<dyn FnMut() -> Vec<u32>>,
    words: Vec<u32>,
    /// The number of words whose values have been prefetched.
    fetched: usize,
}

/// The number of words to prefetch at first: more queries than most proofs have, and few enough that unused ones
/// cost little.
const FIRST_QUERIES: usize = 64;

/// The largest number of words that are searched for an element.
const MOST_QUERIES: usize = 1024;

thread_local! {
    // Read for each queried element, so it is a constant at first: that is simpler to access than what is made at the
    // first access.
    static PROOF: RefCell<Proof> = const { RefCell::new(Proof::NONE) };
}

/// Records columns that are committed to. This discards the queries of an earlier proof.
pub(super) fn enter(batch: &Arc<Batch>) {
    PROOF.with_borrow_mut(|proof| {
        proof.batches.retain(|known| known.strong_count() > 0);
        proof.batches.push(Arc::downgrade(batch));
        proof.queries = None;
        proof.set_fetched(Prefetched::NONE);
    });
}

/// Element `index` of the column with this id, if it is beside the one that was read last, or near the beginning of the
/// column after that one's.
///
/// Upstream reads hundreds of thousands of elements in a proof with many columns, one column after another and each in
/// the order of rows. This way the next one is found without the column's lock and without a search.
pub(crate) fn next_element(id: u64, index: usize) -> Option<BaseField> {
    // Only a small closure is inlined here, so that the thread's state is found without a call.
    PROOF.with_borrow_mut(|proof| proof.next_element(id, index))
}

/// An element of column number `part` of a batch, if it was prefetched.
pub(super) fn element(batch: &Batch, part: usize, index: usize) -> Option<BaseField> {
    PROOF.with_borrow_mut(|proof| {
        let fetched = &proof.fetched;
        let batch = fetched.number(batch, proof.last_element.map(|(last, _)| last))?;
        let column = fetched.batches[batch].columns[part];
        let value = fetched.rows(&column).binary_search(&(index as u32)).ok()?;
        proof.last_element = Some((Cursor { batch, part, value }, column));
        Some(base(fetched.elements[column.elements as usize + value]))
    })
}

/// A node of a layer of a batch's tree, if it was prefetched.
///
/// Upstream reads tens of thousands of nodes in a proof, layer by layer, so most are beside the one that was read last.
pub(super) fn node(batch: &Batch, layer: usize, index: usize) -> Option<Blake2sHash> {
    PROOF.with_borrow_mut(|proof| {
        let (fetched, last) = (&proof.fetched, proof.last_node);
        // Upstream reads the nodes of a tree after the elements of its columns.
        let batch = fetched.number(batch, last.or(proof.last_element.map(|(last, _)| last)))?;
        let Range { start, end } = fetched.batches[batch].layers.get(layer)?.clone();
        let nodes = &fetched.nodes[start as usize..end as usize];
        let last = last.filter(|last| (last.batch, last.part) == (batch, layer));
        let near = last.and_then(|last| beside(nodes, last.value, index));
        let value = near.or_else(|| nodes.binary_search(&(index as u32)).ok())?;
        proof.last_node = Some(Cursor { batch, part: layer, value });
        Some(Blake2sHash(fetched.digests[start as usize + value]))
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

/// Prefetches the values of all queries up to the first whose word `leads(log_domain, word)` holds for, unless
/// that was done before. Returns whether it did; without such a query it does nothing.
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
    let mut nodes = Vec::new();
    let places: Vec<Places> = batches.iter().map(|batch| batch.places(log_domain, words, &mut nodes)).collect();
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
    for (batch, places) in batches.iter().zip(places) {
        let mut columns = vec![FetchedColumn::default(); batch.columns.len()];
        for (&len, rows) in &places.rows {
            let alike = (0..batch.columns.len()).filter(|&column| batch.columns[column].len() == len);
            let alike: Vec<usize> = alike.collect();
            for &column in &alike {
                let [first, count, elements] = [first_row, rows.len(), end].map(|number| number as u32);
                columns[column] = FetchedColumn { id: batch.ids[column], rows: first, count, elements };
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
        for (layer, range) in batch.layers().iter().zip(&places.layers) {
            let of_layer = &nodes[range.start as usize..range.end as usize];
            for (block, digests) in layer.iter().enumerate() {
                let (local, first) = rows_of_block(of_layer, digests.len(), block);
                let reader = reader(&mut readers, &digests.view().device());
                reader.nodes.add(digests, &local);
                reader.node_targets.push((range.start as usize + first, local.len()));
            }
        }
        fetched.push(Fetched { batch: batch.id, columns, layers: places.layers });
    }
    let (mut elements, mut digests) = (Vec::new(), Vec::new());
    for reader in &readers {
        let targets = |part: &Elements<'_>| part.to.iter().map(|&to| (to, part.rows.len())).collect::<Vec<_>>();
        let targets: Vec<_> = reader.elements.iter().flat_map(targets).collect();
        put_in_order(reader.read_elements()?, &targets, &mut elements, count);
        put_in_order(reader.nodes.fetch(&reader.stream)?, &reader.node_targets, &mut digests, nodes.len());
    }
    Ok(Prefetched { batches: fetched, rows, elements, nodes, digests })
}

/// Puts what was read on a device to where it is kept among `count` values: the places of the first value of each part,
/// and the parts' lengths, are `targets`.
fn put_in_order<T: Copy + Default>(read: Vec<T>, targets: &[(usize, usize)], kept: &mut Vec<T>, count: usize) {
    let mut end = 0;
    let mut follows = |&(to, len): &(usize, usize)| {
        end += len;
        to + len == end
    };
    // As it is if no column is in blocks.
    if read.len() == count && targets.iter().all(&mut follows) {
        *kept = read;
        return;
    }
    kept.resize(count, T::default());
    let mut rest = &read[..];
    for &(to, len) in targets {
        let (part, others) = rest.split_at(len);
        kept[to..to + len].copy_from_slice(part);
        rest = others;
    }
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

/// The elements and nodes to read on a device.
struct Reader<'a> {
    stream: Stream,
    elements: Vec<Elements<'a>>,
    nodes: Picks<'a>,
    /// The targets of the nodes of each layer or block of one: the first one's place among all nodes, and their
    /// number.
    node_targets: Vec<(usize, usize)>,
}

/// Rows of columns of one length, or of one block of each.
struct Elements<'a> {
    batch: &'a Batch,
    block: usize,
    columns: Vec<usize>,
    rows: Vec<u32>,
    /// The target of each column's elements.
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
        // There is a launch for each FRI layer.
        let _gathering = self.stream.gather();
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

    fn fetch(&self, stream: &Stream) -> Result<Vec<Digest>> {
        if self.picks.is_empty() {
            return Ok(Vec::new());
        }
        let words = gather::words(stream, &self.layers, &self.picks, size_of::<Digest>() / 4)?;
        words.cast::<Digest>()?.to_vec(stream)
    }
}
