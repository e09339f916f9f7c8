//! Many proofs, on one device or on several.

use rigel_gpu::{Attempt, Device, Error, Member, Pool, PoolError, Report, Result, Share, Ticket};

use crate::failure::catch;
use crate::fallback::{Policy, or_cpu};
use crate::report::measure;

/// A queue of proofs over devices, made in the order in which they were submitted.
///
/// A device makes one proof at a time, since all work of [`CudaBackend`](crate::CudaBackend) on it is on one stream. A
/// proof goes to the device that is expected to be done with it first. Results come as they are done ([`Self::next`]),
/// whatever the order.
///
/// A device that is lost gets no more proofs. The one that it was making begins anew on another, and its
/// [`Report::moves`] says so. When the last device is lost, the remaining proofs are errors, or are made on the CPU if
/// they were submitted by [`Self::submit_with_fallback`] with a policy that allows it.
///
/// `T` is what a proof gives. Any number of threads may submit, cancel and take results. Dropping the queue cancels
/// what waits, and waits for what runs.
///
/// ```
/// use std::sync::Arc;
///
/// use rigel_stwo::{BaseColumn, CudaBackend, Queue};
/// use stwo::core::fields::m31::BaseField;
/// use stwo::core::poly::circle::CanonicCoset;
/// use stwo::prover::backend::Column;
/// use stwo::prover::poly::circle::{CircleEvaluation, PolyOps};
///
/// # fn main() -> rigel_gpu::Result<()> {
/// let devices = "emulated:0,emulated:1".parse::<rigel_gpu::Selectors>()?.open()?; // or "all"
/// let queue = Queue::over(&devices)?;
/// // What proofs share is on each device.
/// let coset = CanonicCoset::new(4);
/// let twiddles = Arc::new(queue.each(|| CudaBackend::precompute_twiddles(coset.half_coset()))?);
/// for constant in 0..4 {
///     let twiddles = twiddles.clone();
///     queue.submit(0, move || {
///         // Here would be a proof, which CudaBackend makes on the device that the queue chose.
///         let column: BaseColumn = (0..16).map(|_| BaseField::from_u32_unchecked(constant)).collect();
///         let evaluation = CircleEvaluation::new(coset.circle_domain(), column);
///         let polynomial = CudaBackend::interpolate(evaluation, twiddles.here()?);
///         Ok(polynomial.coeffs.at(0).0)
///     });
/// }
/// let mut made = Vec::new();
/// while let Some((_ticket, result)) = queue.next() {
///     let (coefficient, report) = result?;
///     println!("made on {} with {} launches", report.device, report.launches);
///     made.push(coefficient);
/// }
/// made.sort_unstable();
/// assert_eq!(made, [0, 1, 2, 3]);
/// # Ok(())
/// # }
/// ```
pub struct Queue<T> {
    pool: Pool<Device, (T, Report), Error>,
}

impl<T: Send + 'static> Queue<T> {
    /// A queue over these devices, at least one and each once.
    pub fn over(devices: &[Device]) -> Result<Self> {
        let member = |device: &Device| {
            let budget = device.available_among(devices)?;
            Ok(Member { to: device.clone(), device: Some(device.clone()), budget })
        };
        let members = devices.iter().map(member).collect::<Result<Vec<_>>>()?;
        Ok(Self { pool: Pool::new(members, 1)? })
    }

    /// Submits work that makes a proof with [`CudaBackend`](crate::CudaBackend), on the current device. It is called
    /// again, with another current device, if that one is lost: the work returns the error, or the backend panics with
    /// it, which is the proof's error, too, as with [`catch`]. Columns must be made on the thread that calls the work,
    /// since others, such as rayon's, have another [current](crate::current) device.
    ///
    /// `bytes` is the device memory that it takes, as [`plan`](crate::plan()) tells, or 0 if that is not known. Larger
    /// proofs are expected to take longer.
    pub fn submit(&self, bytes: usize, mut work: impl FnMut() -> Result<T> + Send + 'static) -> Ticket {
        self.pool.submit(bytes, move |device| made_on(device, &mut work))
    }

    /// Submits work as [`Self::submit`] does, with the CPU where the policy allows it: see
    /// [`with_fallback`](crate::with_fallback). A proof whose device is lost goes to the CPU only if no other
    /// device makes it.
    pub fn submit_with_fallback(
        &self,
        bytes: usize,
        policy: Policy,
        mut on_device: impl FnMut() -> Result<T> + Send + 'static,
        mut on_cpu: impl FnMut() -> T + Send + 'static,
    ) -> Ticket {
        self.pool.submit(bytes, move |device| match made_on(device, &mut on_device) {
            Err(error) if Attempt::current().may_move() && error.is_lost_device() => Err(error),
            made => or_cpu(made, policy, &mut on_cpu),
        })
    }

    /// Makes something on each device that its proofs need, such as twiddles. Where that fails, proofs that ask for it
    /// fail with the same error; it is an error here if it fails on all devices.
    pub fn each<K>(&self, make: impl Fn() -> K) -> Result<Each<K>> {
        let of = |member: &Member<Device>| (member.to.clone(), crate::on(&member.to, || catch(&make)));
        let made: Vec<_> = self.pool.members().iter().map(of).collect();
        let all_failed = made.iter().all(|(_, made)| made.is_err());
        match made.first() {
            Some((_, Err(error))) if all_failed => Err(error.clone()),
            _ => Ok(Each(made)),
        }
    }

    /// Ends a proof that waits: it does not begin, and its result is [`Error::Cancelled`]. One that runs goes on,
    /// since upstream's prover can't be interrupted. Returns whether the proof was waiting or running.
    pub fn cancel(&self, ticket: Ticket) -> bool {
        self.pool.cancel(ticket)
    }

    /// The next result, in the order in which proofs end. Waits for it; `None` if nothing waits or runs.
    pub fn next(&self) -> Option<(Ticket, Result<(T, Report)>)> {
        self.pool.next()
    }

    /// The result of one proof. Waits for it; `None` if there is no such proof or its result was taken.
    pub fn wait(&self, ticket: Ticket) -> Option<Result<(T, Report)>> {
        self.pool.wait(ticket)
    }

    /// The work that each device has done so far, and which of them were lost.
    pub fn shares(&self) -> Vec<Share> {
        self.pool.shares()
    }
}

/// Runs work on a device, and reports its cost.
fn made_on<T>(device: &Device, work: &mut impl FnMut() -> Result<T>) -> Result<(T, Report)> {
    let (made, report) = crate::on(device, || catch(|| measure(work))?)?;
    Ok((made?, report))
}

impl<T> std::fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Queue").field(&self.pool).finish()
    }
}

/// A value on each device of a [`Queue`], made by [`Queue::each`].
#[derive(Debug)]
pub struct Each<K>(Vec<(Device, Result<K>)>);

impl<K> Each<K> {
    /// The value of the [current](crate::current) device, which is the proof's in a queue's proof.
    pub fn here(&self) -> Result<&K> {
        let current = crate::current()?;
        let found = self.0.iter().find(|(device, _)| device.is(&current));
        let foreign = || {
            let detail = format!("{current} is not a device of the queue that this was made for");
            Error::Shape { operation: "Each::here", detail }
        };
        found.ok_or_else(foreign)?.1.as_ref().map_err(Clone::clone)
    }
}
