//! Many proofs, on one device or on several, as many at once as their memory has room for.

use std::sync::Arc;

use p3_matrix::dense::RowMajorMatrix;
use p3_uni_stark::Proof;
use rigel_gpu::{Attempt, Device, Member, Pool, PoolError, Share, Ticket};

use crate::air::provable::CpuAir;
use crate::base::cancel::Cancel;
use crate::base::error::{Error, Result};
use crate::base::report::Proven;
use crate::columns::trace::Trace;
use crate::door::prove::{planned_bytes, prove};
use crate::prover::Prover;
use crate::upstream::config::DeviceConfig;

/// A queue of proofs, made by a few threads for each device in the order in which they were submitted.
///
/// A proof begins when the memory that it plans and the memory that the running ones plan fit together on a device; one
/// that fits with none begins alone, and works in column batches or does what its policy says. Of several devices it
/// takes the one that is expected to be done first. As each proof has streams of its own, the upload of one overlaps
/// the work of another. Results come as they are done ([`Self::next`]), whatever the order.
///
/// A device that is lost gets no more proofs. Those that it was making begin anew on the others, and their
/// [`Report::moves`](crate::Report::moves) say so. When the last device is lost, the [`Policy`](crate::Policy) of its
/// prover decides: the remaining proofs are errors, or are made on the CPU, which their reports say as well.
///
/// `T` is what a proof gives: [`Proven`] with a proof of upstream's. Any number of threads may submit, cancel and take
/// results. Dropping the queue cancels what has not ended and waits for it.
///
/// The example `serve` serves proofs to several threads, on one device or on several.
pub struct Queue<SC: DeviceConfig, T = Proven<Proof<SC>>> {
    pool: Pool<Arc<Prover<SC>>, T, Error>,
}

impl PoolError for Error {
    fn is_lost_device(&self) -> bool {
        matches!(self, Self::Gpu(error) if error.is_lost_device())
    }

    fn is_of_device(&self) -> bool {
        matches!(self, Self::Gpu(error) if error.is_of_device())
    }

    fn cancelled() -> Self {
        Self::Cancelled
    }

    fn panicked(message: String) -> Self {
        Self::Upstream(format!("a proof panicked: {message}"))
    }
}

impl<SC, T> Queue<SC, T>
where
    SC: DeviceConfig + Send + Sync + 'static,
    T: Send + 'static,
{
    /// A queue for proofs of this prover, at most `at_once` of them at a time. Two keep the device busy if proofs take
    /// longer than their uploads.
    pub fn new(prover: &Arc<Prover<SC>>, at_once: usize) -> Result<Self> {
        Self::over(std::slice::from_ref(prover), at_once)
    }

    /// A queue for proofs of these provers, one for each device, at most `at_once` of them at a time on each. Their
    /// configurations and parameters must be the same, so that it does not matter which of them makes a proof.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use rigel_plonky3::{DeviceConfig, Prover, Queue, Result};
    /// # fn queue<SC: DeviceConfig<Commitment: Send> + Send + Sync + 'static>(config: fn() -> SC) -> Result<()> {
    /// # let fri = p3_fri::FriParameters::new_benchmark_high_arity(());
    /// let devices = "cuda:0,cuda:1".parse::<rigel_gpu::Selectors>()?.open()?; // or "all"
    /// let prover = |device| Ok(Arc::new(Prover::new(device, config(), &fri, 3)?));
    /// let provers = devices.into_iter().map(prover).collect::<Result<Vec<_>>>()?;
    /// let queue = Queue::<SC>::over(&provers, 2)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn over(provers: &[Arc<Prover<SC>>], at_once: usize) -> Result<Self> {
        let refuse = |detail: &str| Err(Error::Unsupported(detail.into()));
        if at_once == 0 {
            return refuse("a queue that makes 0 proofs at a time; it must be at least 1");
        }
        if provers.is_empty() {
            return refuse("a queue without provers; give one for each device");
        }
        if provers.len() > 1 && provers.iter().any(|prover| prover.device().is_none()) {
            return refuse("a queue over devices and the CPU; give provers on devices, or one prover on the CPU");
        }
        let member = |prover: &Arc<Prover<SC>>| {
            let device = prover.device();
            // Openings of one GPU have one memory.
            let all = provers.iter().filter_map(|prover| prover.device());
            let budget = device.map_or(Ok(usize::MAX), |device| device.available_among(all))?;
            Ok(Member { to: prover.clone(), device: device.cloned(), budget })
        };
        let members = provers.iter().map(member).collect::<Result<Vec<_>>>()?;
        Ok(Self { pool: Pool::new(members, at_once)? })
    }

    /// Submits any work that makes a proof and takes up to `bytes` of device memory, as [`plan`](crate::plan()) or
    /// [`plan_batch`](crate::plan_batch) tell: their [`peak`](crate::Plan::peak). The work gets the prover of its
    /// device. It is called again, with another prover, if that device is lost.
    ///
    /// Values that proofs share and a device holds, such as the key of a batch, are made by [`Self::each`].
    pub fn submit(&self, bytes: usize, mut work: impl FnMut(&Prover<SC>) -> Result<T> + Send + 'static) -> Ticket {
        self.pool.submit(bytes, move |prover| {
            let cancel = Cancel::of(&Attempt::current());
            cancel.check()?;
            cancel.during(|| work(prover))
        })
    }

    /// Makes something with each prover that its proofs need, such as a [`BatchKey`](crate::BatchKey).
    pub fn each<K>(&self, make: impl Fn(&Prover<SC>) -> Result<K>) -> Result<Each<K>> {
        let of = |member: &Member<Arc<Prover<SC>>>| Ok((member.device.clone(), make(&member.to)?));
        Ok(Each(self.pool.members().iter().map(of).collect::<Result<_>>()?))
    }

    /// Ends a proof: one that waits does not begin, one that runs ends at its next phase. Its result is
    /// [`Error::Cancelled`]. Returns whether the proof was waiting or running.
    pub fn cancel(&self, ticket: Ticket) -> bool {
        self.pool.cancel(ticket)
    }

    /// The next result, in the order in which proofs end. Waits for it; `None` if nothing waits or runs.
    pub fn next(&self) -> Option<(Ticket, Result<T>)> {
        self.pool.next()
    }

    /// The result of one proof. Waits for it; `None` if there is no such proof or its result was taken.
    pub fn wait(&self, ticket: Ticket) -> Option<Result<T>> {
        self.pool.wait(ticket)
    }

    /// The work that each device has done so far, and which of them were lost.
    pub fn shares(&self) -> Vec<Share> {
        self.pool.shares()
    }
}

impl<SC: DeviceConfig> Queue<SC>
where
    SC: Send + Sync + 'static,
    Proven<Proof<SC>>: Send,
{
    /// Submits the proof of one table, as [`prove`] makes it.
    pub fn prove<A>(&self, air: &Arc<A>, trace: RowMajorMatrix<SC::Value>, public_values: Vec<SC::Value>) -> Ticket
    where
        A: CpuAir<SC> + Send + Sync + 'static,
    {
        // The plan does not depend on the device.
        let bytes = planned_bytes(&self.pool.members()[0].to, &Trace::from(&trace));
        let air = air.clone();
        self.submit(bytes, move |prover| prove(prover, &*air, &trace, &public_values))
    }
}

impl<SC: DeviceConfig, T> std::fmt::Debug for Queue<SC, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Queue").field(&self.pool).finish()
    }
}

/// A value for each prover of a [`Queue`], made by [`Queue::each`].
#[derive(Debug)]
pub struct Each<K>(Vec<(Option<Device>, K)>);

impl<K> Each<K> {
    /// The value of the prover's device.
    pub fn of<SC: DeviceConfig>(&self, prover: &Prover<SC>) -> Result<&K> {
        let is_its = |device: &Option<Device>| match (device, prover.device()) {
            (Some(one), Some(other)) => one.is(other),
            (None, None) => true,
            _ => false,
        };
        let found = self.0.iter().find(|(device, _)| is_its(device));
        let foreign = || Error::Unsupported("the prover is not one of the queue that this was made for".into());
        found.map(|(_, value)| value).ok_or_else(foreign)
    }
}
