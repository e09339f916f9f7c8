//! Other devices: links, peer access and copies.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr;
use std::sync::{Arc, Weak};

use cudarc::driver::sys::{
    self, CUDA_MEMCPY2D, CUDA_MEMCPY3D_BATCH_OP, CUdevice_P2PAttribute, CUextent3D, CUmemLocation,
    CUmemLocationType, CUmemcpy3DOperand, CUmemcpy3DOperand_st__bindgen_ty_1,
    CUmemcpy3DOperand_st__bindgen_ty_1__bindgen_ty_1, CUmemcpy3DOperandType, CUmemcpySrcAccessOrder, CUmemorytype,
    CUresult,
};

use super::context::{Cuda, pointer};
use super::{library, opened};
use crate::base::{DeviceKind, Link, Result};
use crate::drivers::{DevicePtr, Driver, PeerCopy, PeerDriver, Raw};

/// The known facts about other devices, asked once and not for each copy.
#[derive(Default)]
pub(super) struct Peers {
    /// The links to other devices, by device number.
    links: BTreeMap<u32, Link>,
    /// The devices whose memory this device may access.
    open: Vec<Weak<Cuda>>,
}

/// The largest distance of runs of one copy (`CU_DEVICE_ATTRIBUTE_MAX_PITCH` of every device).
const MOST_PITCH: usize = i32::MAX as usize;

impl PeerDriver for Cuda {
    fn link(&self, peer: &dyn Driver) -> Result<Link> {
        let (ordinal, _) = self.opening_of(peer)?;
        if let Some(link) = self.peers.lock().links.get(&ordinal) {
            return Ok(*link);
        }
        let link = self.link_to(ordinal)?;
        self.peers.lock().links.insert(ordinal, link);
        Ok(link)
    }

    /// Peer access to plain allocations is enabled per context, to mapped memory per mapping.
    fn enable_peer(&self, peer: &dyn Driver) -> Result<()> {
        let peer = self.cuda_of(peer)?;
        let known = Arc::downgrade(&peer);
        if peer.context.device == self.context.device || self.peers.lock().open.iter().any(|it| it.ptr_eq(&known))
        {
            return Ok(());
        }
        // SAFETY: the peer's context lives while `peer` lives.
        match self.attempt(|| unsafe { sys::cuCtxEnablePeerAccess(peer.context.handle, 0) }) {
            CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => {}
            code => self.check("cuCtxEnablePeerAccess", code)?,
        }
        peer.admit(self.context.device)?;
        let open = &mut self.peers.lock().open;
        open.retain(|it| it.strong_count() > 0);
        open.push(known);
        Ok(())
    }

    unsafe fn copy_to_peers(&self, stream: Raw, copies: &[PeerCopy<'_>]) -> Result<()> {
        let can_batch = copies.len() > 1 && library::has_batched_copies();
        let (mut together, mut apart): (Vec<_>, Vec<_>) =
            copies.iter().partition(|copy| can_batch && copy.runs.merged().pitch() <= MOST_PITCH);
        if !together.is_empty() {
            let mut batch: Vec<_> = together.iter().copied().map(batched).collect();
            // SAFETY: the caller guarantees all runs, and that their order does not matter; `batch` outlives the call,
            // which reads it. The stream is not the default one.
            let code = self.attempt(|| unsafe {
                sys::cuMemcpy3DBatchAsync_v2(batch.len(), batch.as_mut_ptr(), 0, pointer(stream))
            });
            match code {
                // Not between these devices: one by one from now on. Sources do not change: copying twice does no harm.
                CUresult::CUDA_ERROR_INVALID_VALUE | CUresult::CUDA_ERROR_NOT_SUPPORTED => {
                    library::refuse_batched_copies();
                    apart.append(&mut together);
                }
                code => self.check("cuMemcpy3DBatchAsync", code)?,
            }
        }
        // SAFETY: the caller guarantees all runs.
        apart.into_iter().try_for_each(|copy| unsafe { self.copy_to_peer(stream, copy) })
    }
}

/// A copy as one of many that are submitted with one call. As in `copy_to_peer`, addresses are unified.
fn batched(copy: &PeerCopy<'_>) -> CUDA_MEMCPY3D_BATCH_OP {
    let rows = copy.runs.merged();
    let operand = |at: DevicePtr, pitch: usize| CUmemcpy3DOperand {
        type_: CUmemcpy3DOperandType::CU_MEMCPY_OPERAND_TYPE_POINTER,
        op: CUmemcpy3DOperand_st__bindgen_ty_1 {
            ptr: CUmemcpy3DOperand_st__bindgen_ty_1__bindgen_ty_1 {
                ptr: at.0,
                rowLength: pitch,
                // As high as the copy.
                layerHeight: 0,
                // For managed memory only.
                locHint: CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_INVALID, id: 0 },
            },
        },
    };
    CUDA_MEMCPY3D_BATCH_OP {
        src: operand(copy.from, rows.from),
        dst: operand(copy.to, rows.to),
        extent: CUextent3D { width: rows.bytes, height: rows.count, depth: 1 },
        srcAccessOrder: CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
        flags: 0,
    }
}

impl Cuda {
    fn link_to(&self, ordinal: u32) -> Result<Link> {
        let (device, mut peer) = (self.context.device, 0);
        // SAFETY: `peer` outlives the call; the driver checks the ordinal.
        self.call("cuDeviceGet", || unsafe { sys::cuDeviceGet(&mut peer, ordinal as c_int) })?;
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

    /// # Safety
    ///
    /// As [`PeerDriver::copy_to_peers`].
    unsafe fn copy_to_peer(&self, stream: Raw, copy: &PeerCopy<'_>) -> Result<()> {
        let &PeerCopy { peer, to, from, runs } = copy;
        let peer = self.cuda_of(peer)?;
        let (there, here) = (peer.context.handle, self.context.handle);
        let copy = |to: DevicePtr, from: DevicePtr, bytes| {
            // SAFETY: the caller guarantees both ranges; both contexts live.
            self.call("cuMemcpyPeerAsync", || unsafe {
                sys::cuMemcpyPeerAsync(to.0, there, from.0, here, bytes, pointer(stream))
            })
        };
        if let Some(bytes) = runs.adjacent() {
            return copy(to, from, bytes);
        }
        if runs.pitch() > MOST_PITCH {
            return (0..runs.count)
                .try_for_each(|run| copy(to.offset(run * runs.to), from.offset(run * runs.from), runs.bytes));
        }
        // Unified addresses: the driver knows the device of each, and `enable_peer` has made them accessible.
        let copy = CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
            srcHost: ptr::null(),
            srcDevice: from.0,
            srcArray: ptr::null_mut(),
            srcPitch: runs.from,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
            dstHost: ptr::null_mut(),
            dstDevice: to.0,
            dstArray: ptr::null_mut(),
            dstPitch: runs.to,
            WidthInBytes: runs.bytes,
            Height: runs.count,
        };
        // SAFETY: the caller guarantees all runs; `copy` outlives the call, which reads it.
        self.call("cuMemcpy2DAsync", || unsafe { sys::cuMemcpy2DAsync_v2(&copy, pointer(stream)) })
    }

    fn cuda_of(&self, peer: &dyn Driver) -> Result<Arc<Cuda>> {
        let opening = self.opening_of(peer)?;
        opened(opening).ok_or_else(|| self.refuse("peer access", format!("{} is not open", peer.properties())))
    }

    /// The number of a peer, and that of its context.
    fn opening_of(&self, peer: &dyn Driver) -> Result<(u32, u32)> {
        let properties = peer.properties();
        if properties.kind != DeviceKind::Cuda {
            return Err(self.refuse("peer access", format!("{properties} is not a CUDA device")));
        }
        Ok((properties.ordinal, properties.context))
    }
}
