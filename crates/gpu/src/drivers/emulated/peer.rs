//! Other emulated devices: all share the memory of one process.

use super::device::Device;
use crate::base::{DeviceKind, Link, Result};
use crate::drivers::{CopyDriver, Driver, PeerCopy, PeerDriver, Raw};

impl PeerDriver for Device {
    fn link(&self, peer: &dyn Driver) -> Result<Link> {
        let peer = peer.properties();
        Ok(match (peer.kind, peer.ordinal) {
            (DeviceKind::Emulated, ordinal) if ordinal == self.properties.ordinal => Link::Same,
            (DeviceKind::Emulated, _) => Link::Pcie,
            (DeviceKind::Cuda, _) => Link::Host,
        })
    }

    fn enable_peer(&self, _peer: &dyn Driver) -> Result<()> {
        Ok(())
    }

    unsafe fn copy_to_peers(&self, stream: Raw, copies: &[PeerCopy<'_>]) -> Result<()> {
        // SAFETY: guaranteed by the caller; the peers' memory also belongs to this process.
        let copy = |to, from, bytes| unsafe { self.copy(stream, to, from, bytes) };
        copies.iter().try_for_each(|&PeerCopy { peer, to, from, runs }| {
            if peer.properties().kind != DeviceKind::Emulated {
                return Err(self.failed("copying to a peer", "the peer is not an emulated device"));
            }
            match runs.adjacent() {
                Some(bytes) => copy(to, from, bytes),
                None => (0..runs.count)
                    .try_for_each(|run| copy(to.offset(run * runs.to), from.offset(run * runs.from), runs.bytes)),
            }
        })
    }
}
