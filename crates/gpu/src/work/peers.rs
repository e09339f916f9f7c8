//! Several devices: the links between them, their bandwidth, and copies.

use crate::base::{Link, Plain, Result};
use crate::device::Device;
use crate::drivers::PeerCopy;
use crate::memory::{Buffer, Runs, RunsMut};
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
    /// The path by which this device reaches the memory of another.
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
        from.owns("Buffer::to_device", self.view())?;
        let mut copy = to.alloc(self.len())?;
        if !from.device().is(to.device()) {
            from.wait_for(to)?;
        }
        from.send(vec![(to, copy.view_mut().into(), self.view().into())], route)?;
        to.wait_for(from)?;
        Ok(copy)
    }
}

/// A copy to the device of another stream: that stream, where it goes, and what is copied, of the same length or runs.
pub(super) type Parcel<'a, T> = (&'a Stream, RunsMut<'a, T>, Runs<'a, T>);

impl Stream {
    /// Copies memory of this stream's device to memory of other streams' devices. Copies to peers are one piece of work
    /// of this stream, in no order, and the caller orders it with that of the other streams.
    pub(super) fn send<T: Plain>(&self, parcels: Vec<Parcel<'_, T>>, route: Route) -> Result<()> {
        let (mut reads, mut writes) = (Vec::with_capacity(parcels.len()), Vec::with_capacity(parcels.len()));
        let mut copies = Vec::with_capacity(parcels.len());
        for (to, target, source) in parcels {
            if source.is_empty() {
                continue;
            }
            if self.device().is(to.device()) {
                self.copy(target, source)?;
                continue;
            }
            let runs = target.strides("Stream::send", &source)?;
            self.core().counters.sent(source.bytes());
            if route == Route::Auto && self.device().link(to.device())?.is_direct() {
                let peer = &*to.core().driver;
                self.core().driver.enable_peer(peer)?;
                reads.push(source.block());
                writes.push(target.block());
                copies.push(PeerCopy { peer, to: target.at(), from: source.at(), runs });
            } else {
                self.send_through_host(to, target, source)?;
            }
        }
        if copies.is_empty() {
            return Ok(());
        }
        let mut work = self.begin(&reads, &writes)?;
        // SAFETY: the runs fit each other and are live, each on its device; the targets are borrowed mutably, so no
        // copy writes what another reads or writes.
        unsafe { self.core().driver.copy_to_peers(work.stream()?, &copies) }
    }

    fn send_through_host<T: Plain>(&self, to: &Stream, target: RunsMut<'_, T>, source: Runs<'_, T>) -> Result<()> {
        let mut host = self.device().pinned(source.len())?;
        match source.whole() {
            Some(source) => self.read_pinned(source, &mut host)?,
            None => {
                let mut packed = self.alloc(source.len())?;
                self.copy(&mut packed, source)?;
                self.read_pinned(&packed, &mut host)?;
            }
        }
        // The host orders the streams of two different kinds of device.
        drop(host.slice()?);
        match target.whole() {
            Ok(target) => to.write_pinned(target, &mut host),
            Err(target) => {
                let mut packed = to.alloc(target.len())?;
                to.write_pinned(&mut packed, &mut host)?;
                to.copy(target, &packed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::groups;

    /// Runs that the host passes on are packed and unpacked by their devices.
    #[test]
    fn runs_go_through_the_host() {
        for devices in groups(2).unwrap() {
            let [from, to] = [0, 1].map(|k: usize| devices[k].compute().unwrap());
            let source = from.upload(&[1u32, 2, 3, 4, 5, 6]).unwrap();
            let mut target = to.zeros::<u32>(6).unwrap();
            let room = target.view_mut().split_runs(2, &[1, 1]).unwrap().remove(1);
            from.send(vec![(&to, room, source.view().range(..3).unwrap().into())], Route::Host).unwrap();
            assert_eq!(target.to_vec(&to).unwrap(), [0, 1, 0, 2, 0, 3]);
            let runs = source.view().runs(3, 1..3).unwrap();
            let room = target.view_mut().split_runs(3, &[2]).unwrap().remove(0);
            from.send(vec![(&to, room, runs)], Route::Host).unwrap();
            assert_eq!(target.to_vec(&to).unwrap(), [2, 3, 0, 5, 6, 3]);
            let room = target.view_mut().range(..4).unwrap();
            from.send(vec![(&to, room.into(), runs)], Route::Host).unwrap();
            assert_eq!(target.to_vec(&to).unwrap(), [2, 3, 5, 6, 6, 3]);
        }
    }
}
