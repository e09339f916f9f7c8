//! Several devices: the links between them, their bandwidth, and copies.

use crate::base::{Error, Link, Plain, Result};
use crate::device::Device;
use crate::drivers::Pieces;
use crate::memory::{Buffer, View, ViewMut};
use crate::work::Stream;

/// The route of a copy between devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// Directly if the devices are peers, otherwise through pinned host memory.
    #[default]
    Auto,
    /// Through pinned host memory.
    Host,
}

/// The devices of a machine and the links between them.
#[derive(Clone, Debug)]
pub struct Topology {
    /// `links[from][to]`.
    pub links: Vec<Vec<Link>>,
    /// `gigabytes_per_second[from][to]`, measured by copying. The diagonal is a copy within the device (bytes read
    /// plus bytes written).
    pub gigabytes_per_second: Vec<Vec<f64>>,
}

impl Device {
    /// How this device reaches the memory of another.
    pub fn link(&self, other: &Device) -> Result<Link> {
        if self.kind() != other.kind() {
            return Ok(Link::Host);
        }
        self.core().driver.link(&*other.core().driver)
    }
}

impl Topology {
    /// Queries the links between `devices` and measures each by copying `bytes` over it.
    pub fn measure(devices: &[Device], bytes: usize) -> Result<Self> {
        let mut links = Vec::new();
        let mut rates = Vec::new();
        for from in devices {
            links.push(devices.iter().map(|to| from.link(to)).collect::<Result<Vec<_>>>()?);
            rates.push(devices.iter().map(|to| copy_rate(from, to, bytes)).collect::<Result<Vec<_>>>()?);
        }
        Ok(Self { links, gigabytes_per_second: rates })
    }
}

/// The best of a few timed copies.
fn copy_rate(from: &Device, to: &Device, bytes: usize) -> Result<f64> {
    const ROUNDS: usize = 4;
    let stream = from.compute()?;
    let target = to.compute()?;
    let source = stream.zeros::<u8>(bytes)?;
    let mut best = f64::INFINITY;
    let mut inside = if from.is(to) { Some(stream.alloc::<u8>(bytes)?) } else { None };
    for _ in 0..ROUNDS {
        from.synchronize()?;
        let start = std::time::Instant::now();
        let seconds = match &mut inside {
            Some(inside) => f64::from(stream.time(|| stream.copy(&mut *inside, &source))?.1) / 1e3,
            None => {
                let _copy = source.to_device(&stream, &target, Route::Auto)?;
                target.synchronize()?;
                start.elapsed().as_secs_f64()
            }
        };
        best = best.min(seconds);
    }
    let moved = if from.is(to) { 2 * bytes } else { bytes };
    Ok(moved as f64 / best / 1e9)
}

impl<T: Plain> Buffer<T> {
    /// Copies the buffer to another device: after the work of `from`, and before later work of `to`.
    pub fn to_device(&self, from: &Stream, to: &Stream, route: Route) -> Result<Buffer<T>> {
        let mut copy = to.alloc(self.len())?;
        from.send(self, to, &mut copy, Pieces::one(self.len()), route)?;
        Ok(copy)
    }
}

impl Stream {
    /// Copies pieces of `values` into `room`, memory of the same or another device, the first of each at its start:
    /// after the work of this stream, and before later work of `to`. Lengths and distances are in values.
    pub fn send<'a, 'b, T: Plain>(
        &self,
        values: impl Into<View<'a, T>>,
        to: &Stream,
        room: impl Into<ViewMut<'b, T>>,
        pieces: Pieces,
        route: Route,
    ) -> Result<()> {
        const NAME: &str = "Stream::send";
        let (values, mut room) = (values.into(), room.into());
        self.owns(NAME, values)?;
        to.owns(NAME, room.view())?;
        let Pieces { count, length, from_stride, to_stride } = pieces;
        let end = |stride: usize| count.saturating_sub(1).checked_mul(stride)?.checked_add(length);
        let fits = |stride, len| end(stride).is_some_and(|end| end <= len);
        if !fits(from_stride, values.len())
            || !fits(to_stride, room.len())
            || (count > 1 && to_stride.min(from_stride) < length)
        {
            let (from, to) = (values.len(), room.len());
            return Err(Error::shape(NAME, format!("{pieces:?} of {from} values do not fit room for {to}")));
        }
        if count == 0 || length == 0 {
            return Ok(());
        }
        if self.device().is(to.device()) || (route == Route::Auto && self.device().link(to.device())?.is_direct())
        {
            let (source, target) = (&self.core().driver, &to.core().driver);
            source.enable_peer(&**target)?;
            self.wait_for(to)?;
            let mut work = self.begin(&[values.block(), room.block()])?;
            let pieces = pieces.times(size_of::<T>());
            // SAFETY: both are live memory, each on its device, and the pieces lie in it, as checked above.
            unsafe { source.copy_to_peer(work.stream()?, &**target, *room.at(), *values.at(), pieces)? };
            drop(work);
            return to.wait_for(self);
        }
        // The host orders the streams of two different kinds of device.
        let mut packed = self.alloc(count * length)?;
        for piece in 0..count {
            let from = values.range(piece * from_stride..piece * from_stride + length)?;
            self.copy(packed.range_mut(piece * length..(piece + 1) * length)?, from)?;
        }
        let mut host = self.device().pinned(packed.len())?;
        self.read_pinned(&packed, &mut host)?;
        drop(host.slice()?);
        let mut arrived = to.alloc(packed.len())?;
        to.write_pinned(&mut arrived, &mut host)?;
        for piece in 0..count {
            let into = room.reborrow().range(piece * to_stride..piece * to_stride + length)?;
            to.copy(into, arrived.range(piece * length..(piece + 1) * length)?)?;
        }
        Ok(())
    }
}
