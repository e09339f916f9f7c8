//! Other devices: links, peer access and copies.

use std::ffi::c_int;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice, CUdevice_P2PAttribute, CUresult};

use super::context::{Cuda, pointer};
use super::opened;
use crate::base::{DeviceKind, Link, Result};
use crate::drivers::{DevicePtr, Driver, PeerDriver, Pieces, Raw};

impl PeerDriver for Cuda {
    fn link(&self, peer: &dyn Driver) -> Result<Link> {
        let (device, peer) = (self.primary.device, self.device_of(peer)?);
        if device == peer {
            return Ok(Link::Same);
        }
        let mut direct = 0;
        // SAFETY: both devices came from cuDeviceGet, and `direct` outlives the call.
        self.call("cuDeviceCanAccessPeer", || unsafe { sys::cuDeviceCanAccessPeer(&mut direct, device, peer) })?;
        if direct == 0 {
            return Ok(Link::Host);
        }
        // Only NVLink supports native atomics on the peer.
        let mut atomics = 0;
        // SAFETY: as above.
        self.call("cuDeviceGetP2PAttribute", || unsafe {
            let attribute = CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
            sys::cuDeviceGetP2PAttribute(&mut atomics, attribute, device, peer)
        })?;
        Ok(if atomics != 0 { Link::NvLink } else { Link::Pcie })
    }

    /// Peer access to plain allocations is enabled per context, to mapped memory per mapping.
    fn enable_peer(&self, peer: &dyn Driver) -> Result<()> {
        let peer = self.cuda_of(peer)?;
        if peer.primary.device == self.primary.device {
            return Ok(());
        }
        // SAFETY: the peer's context is retained while `peer` lives.
        match self.attempt(|| unsafe { sys::cuCtxEnablePeerAccess(peer.primary.context, 0) }) {
            CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => {}
            code => self.check("cuCtxEnablePeerAccess", code)?,
        }
        peer.admit(self.primary.device)
    }

    unsafe fn copy_to_peer(
        &self,
        stream: Raw,
        peer: &dyn Driver,
        to: DevicePtr,
        from: DevicePtr,
        pieces: Pieces,
    ) -> Result<()> {
        let peer = self.cuda_of(peer)?;
        let (there, here) = (peer.primary.context, self.primary.context);
        if pieces.count == 1 {
            // SAFETY: the caller guarantees both ranges; both contexts are retained.
            return self.call("cuMemcpyPeerAsync", || unsafe {
                sys::cuMemcpyPeerAsync(to.0, there, from.0, here, pieces.length, pointer(stream))
            });
        }
        let copy = sys::CUDA_MEMCPY3D_PEER {
            srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcDevice: from.0,
            srcContext: here,
            srcPitch: pieces.from_stride,
            dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstDevice: to.0,
            dstContext: there,
            dstPitch: pieces.to_stride,
            WidthInBytes: pieces.length,
            Height: pieces.count,
            Depth: 1,
            // SAFETY: offsets of zero, and null for memory of other kinds.
            ..unsafe { std::mem::zeroed() }
        };
        // SAFETY: as above; the pieces lie in the ranges, and the driver copies the description.
        self.call("cuMemcpy3DPeerAsync", || unsafe { sys::cuMemcpy3DPeerAsync(&copy, pointer(stream)) })
    }
}

impl Cuda {
    fn device_of(&self, peer: &dyn Driver) -> Result<CUdevice> {
        let ordinal = self.ordinal_of(peer)?;
        let mut device = 0;
        // SAFETY: `device` outlives the call; the driver checks the ordinal.
        self.call("cuDeviceGet", || unsafe { sys::cuDeviceGet(&mut device, ordinal as c_int) })?;
        Ok(device)
    }

    fn cuda_of(&self, peer: &dyn Driver) -> Result<Arc<Cuda>> {
        let ordinal = self.ordinal_of(peer)?;
        opened(ordinal).ok_or_else(|| self.refuse("peer access", format!("cuda:{ordinal} is not open")))
    }

    fn ordinal_of(&self, peer: &dyn Driver) -> Result<u32> {
        let properties = peer.properties();
        if properties.kind != DeviceKind::Cuda {
            let detail = format!("{}:{} is not a CUDA device", properties.kind, properties.ordinal);
            return Err(self.refuse("peer access", detail));
        }
        Ok(properties.ordinal)
    }
}
