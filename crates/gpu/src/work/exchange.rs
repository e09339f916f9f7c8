//! Exchanges between devices, in the order of their streams.
//!
//! With streams s_0, s_1, .., one a device, an exchange is a set of copies from memory of one stream's device to memory
//! of another's. It starts after the work that the streams have been given so far, and the work that they are given
//! later starts after it; nobody waits on the host if the devices are peers. What a device sends is one call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::{Error, Plain, Result};
use crate::device::Observer;
use crate::memory::{Runs, RunsMut, View, ViewMut};
use crate::queue::Event;
use crate::work::{Route, Stream};

/// A copy of an exchange.
#[derive(Debug)]
pub struct Piece<'a, T: Plain> {
    /// The index of the stream on whose device `source` is.
    pub from: usize,
    /// The index of the stream on whose device `target` is.
    pub to: usize,
    /// The runs that are copied.
    pub source: Runs<'a, T>,
    /// The runs that are written: as many of the same length, or one of the length of all.
    pub target: RunsMut<'a, T>,
}

impl<'a, T: Plain> Piece<'a, T> {
    /// A copy from the device of stream `from` to that of stream `to`.
    pub fn new(from: usize, to: usize, source: impl Into<Runs<'a, T>>, target: impl Into<RunsMut<'a, T>>) -> Self {
        Self { from, to, source: source.into(), target: target.into() }
    }
}

/// An exchange under way. Nothing may read what is sent before [`Exchange::join`].
#[must_use = "work that reads what is sent has to join the exchange first"]
pub struct Exchange {
    /// The events after which each concerned device's work may go on.
    done: Vec<(usize, Vec<Arc<Event>>)>,
    /// The number of streams.
    streams: usize,
    /// The observer that counts exchanges, and the number of this one.
    observed: Option<(Arc<dyn Observer>, usize)>,
}

/// Copies all pieces: after the work so far of the streams between which they travel, and before their later work.
pub fn exchange<T: Plain>(streams: &[Stream], pieces: Vec<Piece<'_, T>>) -> Result<()> {
    Exchange::begin(streams, streams, pieces)?.join(streams)
}

impl Exchange {
    /// Begins to copy all pieces on `lanes`, other streams of the same devices: after the work so far of the streams
    /// between which they travel, and beside their later work until it is joined.
    pub fn begin<T: Plain>(streams: &[Stream], lanes: &[Stream], pieces: Vec<Piece<'_, T>>) -> Result<Self> {
        const NAME: &str = "exchange";
        if streams.len() != lanes.len() {
            return Err(Error::shape(NAME, format!("{} lanes for {} streams", lanes.len(), streams.len())));
        }
        if let Some((stream, lane)) = streams.iter().zip(lanes).find(|(a, b)| !a.device().is(b.device())) {
            let detail = format!("a lane of {} for a stream of {}", lane.device(), stream.device());
            return Err(Error::shape(NAME, detail));
        }
        for Piece { from, to, source, target } in &pieces {
            let (Some(sender), Some(receiver)) = (lanes.get(*from), lanes.get(*to)) else {
                return Err(Error::shape(NAME, format!("a piece from {from} to {to}; there are {}", lanes.len())));
            };
            if target.strides(NAME, source).is_err() {
                let detail =
                    format!("{} values from {from} do not fit a room of {} in {to}", source.len(), target.len());
                return Err(Error::shape(NAME, detail));
            }
            sender.owns(NAME, source.span())?;
            receiver.owns(NAME, target.span())?;
        }
        let (inside, between): (Vec<_>, Vec<_>) =
            pieces.into_iter().filter(|piece| !piece.source.is_empty()).partition(|piece| piece.from == piece.to);
        for Piece { from, source, target, .. } in inside {
            streams[from].copy(target, source)?;
        }
        let Some(observer) = streams.iter().find_map(|stream| stream.device().observer()) else {
            return Ok(Self { done: send(streams, lanes, between)?, streams: streams.len(), observed: None });
        };
        observer.sending()?;
        let copies = between.iter().map(|piece| (piece.from, piece.to, piece.source.bytes()));
        let device = |k: usize| streams[k].device();
        let copies: Vec<_> = copies.map(|(from, to, bytes)| (device(from), device(to), bytes)).collect();
        let done = send(streams, lanes, between);
        // Also after an error, so that it goes on to observe.
        let number = observer.sent(if done.is_ok() { &copies } else { &[] })?;
        Ok(Self { done: done?, streams: streams.len(), observed: Some((observer, number)) })
    }

    /// Makes later work of the streams that it concerns start after it.
    pub fn join(self, streams: &[Stream]) -> Result<()> {
        if streams.len() != self.streams {
            let detail = format!("{} streams; the exchange began with {}", streams.len(), self.streams);
            return Err(Error::shape("Exchange::join", detail));
        }
        for (k, events) in &self.done {
            events.iter().try_for_each(|event| streams[*k].wait(event))?;
        }
        self.observed.map_or(Ok(()), |(observer, number)| observer.joined(number))
    }
}

/// Submits copies between devices. Returns the events after which each device may use what it has sent or received.
fn send<T: Plain>(
    streams: &[Stream],
    lanes: &[Stream],
    pieces: Vec<Piece<'_, T>>,
) -> Result<Vec<(usize, Vec<Arc<Event>>)>> {
    let order = Order::new(streams, lanes, &pieces);
    order.before()?;
    let mut parcels: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    for Piece { from, to, source, target } in pieces {
        parcels.entry(from).or_default().push((&lanes[to], target, source));
    }
    for (from, parcels) in parcels {
        lanes[from].send(parcels, Route::Auto)?;
    }
    order.after()
}

/// Orders copies with the streams' work: a piece is read when it is there, and written when its room's earlier users
/// are done.
struct Order<'a> {
    streams: &'a [Stream],
    lanes: &'a [Stream],
    /// The pairs of devices between which pieces travel.
    pairs: BTreeSet<(usize, usize)>,
    concerned: BTreeSet<usize>,
    /// The device at whose lane all meet, if there are many pairs: a wait for each device there and one for each
    /// device that goes on, not one for each pair.
    hub: Option<usize>,
}

impl<'a> Order<'a> {
    fn new<T: Plain>(streams: &'a [Stream], lanes: &'a [Stream], pieces: &[Piece<'_, T>]) -> Self {
        let pairs: BTreeSet<(usize, usize)> = pieces.iter().map(|piece| (piece.from, piece.to)).collect();
        let concerned: BTreeSet<usize> = pairs.iter().flat_map(|&(from, to)| [from, to]).collect();
        let hub = concerned.first().copied().filter(|_| pairs.len() > 2 * concerned.len());
        Self { streams, lanes, pairs, concerned, hub }
    }

    /// The lanes, other than its own stream, that copy to or from device `k`, or the one at which all meet.
    fn lanes_of(&self, k: usize) -> impl Iterator<Item = usize> {
        let senders = || self.pairs.iter().filter(|pair| pair.1 == k).map(|pair| pair.0).chain([k]).collect();
        let lanes: BTreeSet<usize> = self.hub.map_or_else(senders, |hub| [hub].into());
        lanes.into_iter().filter(move |&lane| !self.lanes[lane].is(&self.streams[k]))
    }

    /// The lanes start after the work so far of the streams.
    fn before(&self) -> Result<()> {
        for &k in &self.concerned {
            let ready = self.streams[k].record()?;
            self.lanes_of(k).try_for_each(|lane| self.lanes[lane].wait(&ready))?;
        }
        let Some(hub) = self.hub else { return Ok(()) };
        let ready = self.lanes[hub].record()?;
        self.concerned.iter().filter(|&&k| k != hub).try_for_each(|&k| self.lanes[k].wait(&ready))
    }

    /// Records the events after which each concerned device's work may go on.
    fn after(&self) -> Result<Vec<(usize, Vec<Arc<Event>>)>> {
        let mut sent = BTreeMap::new();
        for &k in self.concerned.iter().filter(|&&k| Some(k) != self.hub) {
            sent.insert(k, Arc::new(self.lanes[k].record()?));
        }
        if let Some(hub) = self.hub {
            sent.values().try_for_each(|event| self.lanes[hub].wait(event))?;
            sent.insert(hub, Arc::new(self.lanes[hub].record()?));
        }
        let done = |&k: &usize| (k, self.lanes_of(k).map(|lane| sent[&lane].clone()).collect());
        Ok(self.concerned.iter().map(done).collect())
    }
}

/// Every device gets all shares, one after the other: `gathered[k]` on the device of stream k has the length of all
/// `shares`, of which share k is on the device of stream k.
pub fn all_gather<T: Plain>(
    streams: &[Stream],
    shares: &[View<'_, T>],
    gathered: Vec<ViewMut<'_, T>>,
) -> Result<()> {
    check_one_each("all_gather", streams, shares.len(), gathered.len())?;
    let total: usize = shares.iter().map(View::len).sum();
    let mut pieces = Vec::with_capacity(shares.len() * shares.len());
    for (to, mut rest) in gathered.into_iter().enumerate() {
        if rest.len() != total {
            let detail = format!("shares of {total} values in all, into a room of {}", rest.len());
            return Err(Error::shape("all_gather", detail));
        }
        for (from, &source) in shares.iter().enumerate() {
            let (target, tail) = rest.split_at(source.len())?;
            pieces.push(Piece::new(from, to, source, target));
            rest = tail;
        }
    }
    exchange(streams, pieces)
}

/// Device j gets block j of every device: with k devices, `blocks[i]` is k blocks of equal length on the device of
/// stream i, and block j of it becomes block i of `received[j]`.
pub fn all_to_all<T: Plain>(
    streams: &[Stream],
    blocks: &[View<'_, T>],
    received: Vec<ViewMut<'_, T>>,
) -> Result<()> {
    const NAME: &str = "all_to_all";
    check_one_each(NAME, streams, blocks.len(), received.len())?;
    let devices = streams.len();
    let length = blocks.first().map_or(0, |view| view.len());
    let lengths = blocks.iter().map(View::len).chain(received.iter().map(|room| room.len()));
    if let Some(other) = lengths.into_iter().find(|&other| other != length || !other.is_multiple_of(devices)) {
        let detail =
            format!("{other} and {length} values of {devices} devices; all must have as many blocks, equal");
        return Err(Error::shape(NAME, detail));
    }
    let block = length / devices.max(1);
    let mut pieces = Vec::with_capacity(devices * devices);
    for (to, mut rest) in received.into_iter().enumerate() {
        for (from, blocks) in blocks.iter().enumerate() {
            let (target, tail) = rest.split_at(block)?;
            pieces.push(Piece::new(from, to, blocks.range(to * block..(to + 1) * block)?, target));
            rest = tail;
        }
    }
    exchange(streams, pieces)
}

fn check_one_each(operation: &'static str, streams: &[Stream], given: usize, rooms: usize) -> Result<()> {
    if (given, rooms) != (streams.len(), streams.len()) {
        let detail =
            format!("{given} shares and {rooms} rooms for {} streams; one of each is needed", streams.len());
        return Err(Error::shape(operation, detail));
    }
    Ok(())
}
