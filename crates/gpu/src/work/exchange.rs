//! Exchanges between devices, in the order of their streams.
//!
//! With streams s_0, s_1, .., one a device, an exchange is a set of copies from memory of one stream's device to memory
//! of another's. It starts after the work that the streams have been given so far, and the work that they are given
//! later starts after it; nobody waits on the host if the devices are peers. Each piece is one copy.

use std::collections::BTreeSet;

use crate::base::{Error, Plain, Result};
use crate::memory::{View, ViewMut};
use crate::work::{Route, Stream};

/// A copy of an exchange.
#[derive(Debug)]
pub struct Piece<'a, T: Plain> {
    /// The index of the stream on whose device `source` is.
    pub from: usize,
    /// The index of the stream on whose device `target` is.
    pub to: usize,
    /// What is copied.
    pub source: View<'a, T>,
    /// Where it goes; of the same length.
    pub target: ViewMut<'a, T>,
}

/// Copies all pieces: after the work so far of the streams between which they travel, and before their later work.
pub fn exchange<T: Plain>(streams: &[Stream], pieces: Vec<Piece<'_, T>>) -> Result<()> {
    const NAME: &str = "exchange";
    for Piece { from, to, source, target } in &pieces {
        let (Some(sender), Some(receiver)) = (streams.get(*from), streams.get(*to)) else {
            return Err(Error::shape(NAME, format!("a piece from {from} to {to}; there are {}", streams.len())));
        };
        if source.len() != target.len() {
            let detail =
                format!("{} values from {from} do not fit a room of {} in {to}", source.len(), target.len());
            return Err(Error::shape(NAME, detail));
        }
        sender.owns(NAME, *source)?;
        receiver.owns(NAME, target.view())?;
    }
    let pieces = pieces.into_iter().filter(|piece| !piece.source.is_empty()).collect::<Vec<_>>();
    let pairs: BTreeSet<(usize, usize)> =
        pieces.iter().map(|piece| (piece.from, piece.to)).filter(|(from, to)| from != to).collect();
    // A piece is written when its room's earlier users are done.
    let receivers: BTreeSet<usize> = pairs.iter().map(|&(_, to)| to).collect();
    for to in receivers {
        let free = streams[to].record()?;
        for &(from, _) in pairs.iter().filter(|pair| pair.1 == to) {
            streams[from].wait(&free)?;
        }
    }
    for Piece { from, to, source, target } in pieces {
        streams[from].send(&streams[to], target, source, Route::Auto)?;
    }
    let senders: BTreeSet<usize> = pairs.iter().map(|&(from, _)| from).collect();
    for from in senders {
        let sent = streams[from].record()?;
        for &(_, to) in pairs.iter().filter(|pair| pair.0 == from) {
            streams[to].wait(&sent)?;
        }
    }
    Ok(())
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
            pieces.push(Piece { from, to, source, target });
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
            pieces.push(Piece { from, to, source: blocks.range(to * block..(to + 1) * block)?, target });
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
