//! A configuration on a device, and the session of one proof.

pub(crate) mod session;

use p3_fri::FriParameters;
use rigel_gpu::{Device, Lock};
use rigel_kernels::hash::Constants;

use crate::air::readings::Readings;
use crate::base::error::Result;
use crate::upstream::config::DeviceConfig;
use crate::upstream::hiding::Hiding;

/// The policy that decides when to prove on the CPU instead of the device.
///
/// The default never leaves the device. The proof's [`fallbacks`](crate::Report::fallbacks) record what a policy
/// decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Prove on the CPU if there are fewer cells (rows times columns of all traces on the host).
    pub cpu_below_cells: usize,
    /// Prove on the CPU if the device can't: its memory is full, it is lost, or its kernels do not support the
    /// AIR.
    pub cpu_on_failure: bool,
}

impl Policy {
    /// The number of cells below which fixed costs dominate on both sides. At 2^11 cells an H200 is already
    /// faster: 1.6 against 3 ms on 16 cores.
    pub const CROSSOVER_CELLS: usize = 1 << 8;

    /// Falls back to the CPU for small proofs and for those that fail.
    pub const AUTO: Self = Self { cpu_below_cells: Self::CROSSOVER_CELLS, cpu_on_failure: true };
}

/// A Plonky3 configuration on a device.
///
/// Upstream's PCS and trees keep their parameters private, so the prover has its own copy of the FRI parameters
/// and the cap height. [`Self::new`] checks them against the configuration.
///
/// A prover is `Send` and `Sync` if its configuration is, as upstream's are: any number of threads may prove with one
/// at the same time. Each proof has streams of its own. [`Queue`](crate::Queue) makes as many at once as fit in memory.
pub struct Prover<SC: DeviceConfig> {
    /// The error says why there is no device.
    pub(crate) device: Result<Device, String>,
    /// The devices with which the first one shares its proofs.
    pub(crate) others: Vec<Device>,
    pub(crate) config: SC,
    /// The trees' hash with its constants; `None` without a device.
    pub(crate) hash: Option<SC::Hash>,
    /// The constants of the challenger's permutation, and others to try where upstream hides them.
    pub(crate) search_constants: Vec<Constants>,
    pub(crate) fri: FriParameters<()>,
    pub(crate) cap_height: usize,
    pub(crate) policy: Policy,
    pub(crate) readings: Readings<SC>,
    /// The lock that the proof holds which uploads its traces, see [`Session::turn_to_upload`].
    pub(crate) uploading: Lock<()>,
    /// The randomness of a configuration whose proofs hide the trace.
    pub(crate) hiding: Option<Hiding>,
}

impl<SC: DeviceConfig> Prover<SC> {
    /// Replaces the prover's policy.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The device, or `None` for a CPU prover.
    pub fn device(&self) -> Option<&Device> {
        self.device.as_ref().ok()
    }

    /// All devices that make a proof together: one, unless the prover was made by [`Self::over`], or none.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.device().into_iter().chain(&self.others)
    }

    /// Goes on with other generators of randomness, if the configuration hides the trace and the prover has a device.
    /// Generators that begin anew give the same proof of the same trace again, which hides nothing any more: for tests
    /// and measurements, while no proof is being made.
    #[doc(hidden)]
    pub fn reseed(&self, hiding: Hiding) -> Result<()> {
        match &self.hiding {
            Some(ours) => ours.replace(hiding),
            None => Ok(()),
        }
    }

    /// The reason why the prover has no device.
    pub(crate) fn absence(&self) -> Option<&str> {
        self.device.as_ref().err().map(String::as_str)
    }

    /// The randomness of proofs on the device, if the configuration hides the trace.
    pub(crate) fn hiding_streams(&self) -> Option<&Hiding> {
        self.hiding.as_ref()
    }

    /// The trees' hash.
    pub(crate) fn hash(&self) -> Option<&SC::Hash> {
        self.hash.as_ref()
    }

    /// Upstream's configuration.
    pub fn config(&self) -> &SC {
        &self.config
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }
}

/// Proves to the compiler that provers may be shared between threads.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    #[expect(dead_code, reason = "the compiler checks it, nobody calls it")]
    const fn provers<SC: DeviceConfig + Send + Sync>() {
        shared::<Prover<SC>>();
    }
};
