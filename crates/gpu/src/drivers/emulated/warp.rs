//! Collective operations of a warp: barriers, shuffles, votes, reductions.

use super::region::POISON;
use super::runtime::{Thread, WARP, wait};

/// The lanes of one warp, as the scheduler sees them. Bit `i` of a set is lane `i`.
pub(super) struct Warp {
    pub(super) lanes: [*mut Thread; WARP],
    /// Lanes that wait at a warp operation.
    pub(super) waiting: u32,
    /// Lanes whose thread has not ended.
    pub(super) live: u32,
}

/// The mask of a lane's warp operation does not contain the lane itself.
pub(super) struct NotNamed {
    pub(super) lane: usize,
    pub(super) mask: u32,
}

impl Warp {
    /// Completes each operation at which all live lanes of its mask have arrived, and returns the lanes that can
    /// run again.
    ///
    /// # Safety
    ///
    /// The pointers of waiting lanes are valid, and nothing else accesses those threads.
    pub(super) unsafe fn meet(&self) -> Result<u32, NotNamed> {
        let (mut pending, mut free) = (self.waiting, 0);
        while pending != 0 {
            let lane = pending.trailing_zeros() as usize;
            // SAFETY: guaranteed by the caller, because the lane waits.
            let (kind, mask, site) = unsafe {
                let thread = &*self.lanes[lane];
                (thread.wait, thread.mask, thread.source)
            };
            // SAFETY: guaranteed by the caller, because only waiting lanes are accessed.
            let same = |other: usize| unsafe {
                let thread = &*self.lanes[other];
                thread.wait == kind && thread.mask == mask && (kind != wait::WARP_ACTIVE || thread.source == site)
            };
            let group = lanes(self.waiting).filter(|&other| same(other)).fold(0, |set, other| set | 1 << other);
            pending &= !group;
            if kind != wait::WARP_ACTIVE {
                if mask >> lane & 1 == 0 {
                    return Err(NotNamed { lane, mask });
                }
                if group & mask != mask & self.live {
                    continue;
                }
            }
            // SAFETY: guaranteed by the caller, because a group consists of waiting lanes.
            unsafe { self.complete(kind, group) };
            free |= group;
        }
        Ok(free)
    }

    /// Stores the result of each lane of the group.
    unsafe fn complete(&self, kind: u32, group: u32) {
        // SAFETY: the caller passes only waiting lanes.
        let value = |lane: usize| unsafe { (*self.lanes[lane]).value };
        let fold = |f: fn(u32, u32) -> u32| {
            lanes(group).map(|lane| value(lane) as u32).reduce(f).unwrap_or_default() as u64
        };
        let all = match kind {
            wait::WARP_SHUFFLE => {
                let values: [u64; WARP] = std::array::from_fn(|lane| {
                    // The value of a lane that does not participate is undefined, so return poison.
                    if group >> lane & 1 == 1 { value(lane) } else { u64::from_ne_bytes([POISON; 8]) }
                });
                for lane in lanes(group) {
                    // SAFETY: the caller passes only waiting lanes.
                    let thread = unsafe { &mut *self.lanes[lane] };
                    thread.value = values[thread.source as usize % WARP];
                }
                return;
            }
            wait::WARP_BALLOT => {
                let ayes = lanes(group).filter(|&lane| value(lane) != 0).fold(0u32, |set, lane| set | 1 << lane);
                (group as u64) << 32 | ayes as u64
            }
            wait::WARP_ACTIVE => group as u64,
            wait::WARP_ADD => fold(u32::wrapping_add),
            wait::WARP_MIN => fold(u32::min),
            wait::WARP_MAX => fold(u32::max),
            wait::WARP_AND => fold(|a, b| a & b),
            wait::WARP_OR => fold(|a, b| a | b),
            wait::WARP_XOR => fold(|a, b| a ^ b),
            _ => 0,
        };
        for lane in lanes(group) {
            // SAFETY: the caller passes only waiting lanes.
            unsafe { (*self.lanes[lane]).value = all };
        }
    }
}

/// The lanes of a set, in ascending order.
pub(super) fn lanes(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}
