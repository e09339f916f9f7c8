//! Prefetching: columns that are opened together.
//!
//! Upstream's prover reads openings one at a time: the value of one column at one point, one element of a column,
//! one node of a tree. With one copy each, a proof would wait for tens of thousands of copies. But the columns of
//! a tree are all opened at the same points and the same queries, so the first read fetches the values of the next
//! ones:
//!
//! - A column's value at a point is computed together with those of the other columns of the tree.
//! - The queries are determined by the channel after the proof of work. The first element that is read after it
//!   fetches all queried elements and nodes of all trees of the proof in two copies. Any other element is read on
//!   its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use rigel_gpu::{Buffer, Device, Result, Shared, View};
use rigel_kernels::field::Mersenne31;
use stwo::core::fields::m31::BaseField;
use stwo::core::vcs::blake2_hash::Blake2sHash;

use crate::deferred::Place;
use crate::held::Held;

mod columns;
mod queries;
mod samples;

pub(crate) use queries::{next_element, set_queries, set_query_domain};
use samples::Samples;
pub(crate) use samples::{Form, Opening};

/// A digest as stored on the device.
pub(crate) type Digest = [u8; 32];

/// Columns that are opened together, and their tree.
pub(crate) struct Batch {
    id: u64,
    device: Device,
    columns: Vec<Held>,
    /// The columns' ids.
    ids: Vec<u64>,
    role: Role,
    tree: OnceLock<Tree>,
    samples: Samples,
}

/// Columns that are on the device for a while: their own memory, or a copy.
enum Run<'a> {
    Here(View<'a, Mersenne31>),
    Copied(Buffer<Mersenne31>),
}

impl Run<'_> {
    fn view(&self) -> View<'_, Mersenne31> {
        match self {
            Self::Here(view) => *view,
            Self::Copied(words) => words.view(),
        }
    }
}

/// The mapping from queries to elements.
enum Role {
    /// Columns of a trace, of any lengths: each query reads one row.
    Trace,
    /// Coordinates of a FRI layer: each query reads the 2^folds neighbours that are folded into one.
    Layer { folds: AtomicU32, circle: Option<Weak<Batch>> },
}

/// The tree over the columns: layers from the leaves to the root, each in one block or several, and the rows per leaf.
struct Tree {
    layers: Vec<Vec<Shared<Digest>>>,
    log_packed: u32,
}

impl Batch {
    /// Records the tree over the columns: its layers from the leaves to the root, each in one block or several, with
    /// 2^`log_packed` rows per leaf.
    pub(crate) fn set_tree(&self, layers: Vec<Vec<Shared<Digest>>>, log_packed: u32) {
        self.tree.get_or_init(|| Tree { layers, log_packed });
    }

    /// The layers of the tree; none if there is no tree.
    fn layers(&self) -> &[Vec<Shared<Digest>>] {
        self.tree.get().map_or(&[], |tree| &tree.layers)
    }

    /// Whether there is a tree over the columns.
    pub(crate) fn has_tree(&self) -> bool {
        self.tree.get().is_some()
    }

    /// Clears the cached values at points.
    fn forget_points(&self) {
        self.samples.forget();
    }

    /// Records that a FRI layer was folded. If the first line layer has no tree of its own, its fold counts as
    /// part of the circle layer's fold.
    pub(crate) fn folded(&self, steps: u32) {
        let Role::Layer { folds, circle } = &self.role else { return };
        match circle.as_ref().and_then(Weak::upgrade) {
            Some(circle) if !self.has_tree() => circle.folded(steps),
            _ => {
                folds.fetch_add(steps, Ordering::Relaxed);
            }
        }
    }

    /// The given block of the first of these columns, and of as many of those after it as follow in memory and have its
    /// length, or are brought from the host together with it.
    fn run(&self, places: &[usize], block: usize) -> Result<Run<'_>> {
        let rest = places[1..].iter().map(|&place| &self.columns[place]);
        let first = &self.columns[places[0]];
        match (first, first.block(block)) {
            (Held::Deferred(Place { of, index }), _) => {
                let follows = |(i, column): &(usize, &Held)| match column {
                    Held::Deferred(next) => Arc::ptr_eq(&next.of, of) && next.index == index + 1 + i,
                    Held::Here(..) | Held::Blocks(_) => false,
                };
                let count = 1 + rest.take(of.at_once() - 1).enumerate().take_while(follows).count();
                Ok(Run::Copied(of.read(*index..index + count)?))
            }
            (_, words) => {
                let words = words.expect("on a device");
                let (rows, mut run) = (words.len(), words);
                for column in rest.take_while(|column| column.blocks() == first.blocks()) {
                    let Some(words) = column.block(block) else { break };
                    let Some(longer) = View::join([run, words]).filter(|_| words.len() == rows) else { break };
                    run = longer;
                }
                Ok(Run::Here(run))
            }
        }
    }

    /// Element `index` of column `place`, if it is queried.
    pub(crate) fn element(self: &Arc<Self>, place: usize, index: usize) -> Option<BaseField> {
        let find = || queries::element(self, place, index);
        find().or_else(|| {
            let log = self.columns[place].len().trailing_zeros();
            let leads = |log_domain, word| self.rows(log_domain, word, log).contains(&(index as u32));
            queries::fetch_if_queried(self, leads).then(find)?
        })
    }

    /// Node `index` of layer `layer` (counted from the leaves), if it is queried.
    pub(crate) fn node(self: &Arc<Self>, layer: usize, index: usize) -> Option<Blake2sHash> {
        let find = || queries::node(self, layer, index);
        find().or_else(|| {
            // No query reads the root.
            if layer >= self.depth() as usize {
                return None;
            }
            let leads = |log_domain, word| {
                self.leaves(log_domain, word).is_some_and(|leaves| {
                    let node = |leaf: u32| leaf >> layer;
                    node(leaves.start) >> 1 <= index as u32 >> 1 && index as u32 >> 1 <= node(leaves.end - 1) >> 1
                })
            };
            queries::fetch_if_queried(self, leads).then(find)?
        })
    }

    /// The rows of a column of 2^`log` elements that a query into a domain of 2^`log_domain` points reads.
    fn rows(&self, log_domain: u32, word: u32, log: u32) -> std::ops::Range<u32> {
        let query = word & (u32::MAX >> (32 - log_domain.clamp(1, 32)));
        match &self.role {
            Role::Trace => {
                let row = lifted(lifted(query, log_domain, self.depth()), self.depth(), log);
                row..row + 1
            }
            Role::Layer { folds, .. } => {
                let folds = folds.load(Ordering::Relaxed).min(log);
                let start = query >> (log_domain.saturating_sub(log) + folds) << folds;
                start..start + (1 << folds)
            }
        }
    }

    fn depth(&self) -> u32 {
        self.layers().len().saturating_sub(1) as u32
    }

    /// The leaves that a query reads; `None` if there is no tree.
    fn leaves(&self, log_domain: u32, word: u32) -> Option<std::ops::Range<u32>> {
        let log_packed = self.tree.get()?.log_packed;
        let rows = self.rows(log_domain, word, self.depth() + log_packed);
        Some(rows.start >> log_packed..((rows.end - 1) >> log_packed) + 1)
    }

    /// The queried indices in the columns of each length and in each layer. Those in layers are added to `nodes`.
    fn places(&self, log_domain: u32, words: &[u32], nodes: &mut Vec<u32>) -> Places {
        let mut rows: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for column in &self.columns {
            let log = column.len().trailing_zeros();
            let queried = || sorted(words.iter().flat_map(|&word| self.rows(log_domain, word, log)));
            rows.entry(column.len()).or_insert_with(queried);
        }
        let mut layers = Vec::with_capacity(self.depth() as usize);
        let mut paths = sorted(words.iter().filter_map(|&word| self.leaves(log_domain, word)).flatten());
        // Both children of each node on a path.
        for _ in 0..self.depth() {
            paths.iter_mut().for_each(|node| *node >>= 1);
            paths.dedup();
            let first = nodes.len() as u32;
            nodes.extend(paths.iter().flat_map(|&parent| [2 * parent, 2 * parent + 1]));
            layers.push(first..nodes.len() as u32);
        }
        Places { rows, layers }
    }
}

/// Sorted indices of the queried elements of the columns of each length, and where those of the nodes of each layer
/// below the root are among all nodes.
struct Places {
    rows: BTreeMap<usize, Vec<u32>>,
    layers: Vec<std::ops::Range<u32>>,
}

/// The row of a column of 2^`to` elements that corresponds to row `row` of 2^`from`: Stwo's lifting, or its
/// inverse.
fn lifted(row: u32, from: u32, to: u32) -> u32 {
    if to >= from { (row >> 1 << (to - from + 1)) + (row & 1) } else { (row >> (from - to + 1) << 1) + (row & 1) }
}

fn sorted(rows: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut rows: Vec<u32> = rows.collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}
