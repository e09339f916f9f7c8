//! Copies of words on a device, and from one device to another.

use rigel_gpu::{Buffer, Device, Piece, Plain, Result, View, ViewMut, exchange};
use rigel_kernels::field::Mersenne31;

use crate::device::{stream, streams};

/// A copy of words in memory of its own.
pub(crate) fn copy(words: View<'_, Mersenne31>) -> Result<Buffer<Mersenne31>> {
    let stream = stream(&words.device());
    let mut copy = stream.alloc(words.len())?;
    stream.copy(&mut copy, words)?;
    Ok(copy)
}

/// Copies between devices: after the work so far of their streams, and before their later work.
pub(crate) fn send<'a, T: Plain>(copies: Vec<(View<'a, T>, ViewMut<'a, T>)>) -> Result<()> {
    let (devices, pieces) = addressed(copies);
    exchange(&streams(&devices), pieces)
}

/// The devices of copies, and the copies between them.
pub(crate) fn addressed<'a, T: Plain>(
    copies: Vec<(View<'a, T>, ViewMut<'a, T>)>,
) -> (Vec<Device>, Vec<Piece<'a, T>>) {
    let mut devices: Vec<Device> = Vec::new();
    let mut index = |device: &Device| {
        devices.iter().position(|known| known.is(device)).unwrap_or_else(|| {
            devices.push(device.clone());
            devices.len() - 1
        })
    };
    let mut pieces = Vec::with_capacity(copies.len());
    for (source, target) in copies {
        let (from, to) = (index(&source.device()), index(&target.view().device()));
        pieces.push(Piece::new(from, to, source, target));
    }
    (devices, pieces)
}
