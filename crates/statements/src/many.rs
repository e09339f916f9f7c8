//! Many proofs of one statement, shared out over devices by a pool.

use std::fmt;
use std::sync::Arc;

use rigel_gpu::{Device, Member, Pool, PoolError, Share};

use crate::{Failure, Made, OnFailure, Statement};

/// Plonky3's proofs at a time on one device: uploads and the host's part of some overlap the work of the others. On an
/// H200, four at a time made 102 proofs of KeccakAir with 2^15 rows a second, and two 82 (`rigel bench several`).
const AT_ONCE: usize = 4;

/// The failure of a proof, of which the pool must know whether its device was lost.
struct Failed(Failure);

impl Failed {
    fn is(&self, of_gpu: fn(&rigel_gpu::Error) -> bool) -> bool {
        self.0.downcast_ref().is_some_and(of_gpu)
    }
}

impl PoolError for Failed {
    fn is_lost_device(&self) -> bool {
        self.is(PoolError::is_lost_device)
    }

    fn is_of_device(&self) -> bool {
        self.is(PoolError::is_of_device)
    }

    fn cancelled() -> Self {
        Self(rigel_gpu::Error::Cancelled.into())
    }

    fn panicked(message: String) -> Self {
        Self(format!("a proof panicked: {message}").into())
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A statement that is ready to be proved on one device, of which a pool's threads each have a copy.
type Ready = Arc<dyn Statement>;

/// A statement that is ready on several devices, or on the CPU.
pub struct Many {
    members: Vec<Member<Ready>>,
    at_once: usize,
}

impl Many {
    /// Makes the statement for each device, or one for the CPU, each with a witness of its own. They are made at the
    /// same time. A device that fails meanwhile is left out if the CPU may take its place, and `note`
    /// is told why. Proofs of one device overlap if `overlaps`; those of the CPU, which use all cores, never do.
    pub fn prepare(
        statement: impl Fn() -> Result<Box<dyn Statement>, Failure> + Sync,
        devices: &[Device],
        on_failure: OnFailure,
        overlaps: bool,
        mut note: impl FnMut(String),
    ) -> Result<Self, Failure> {
        let make = |device: Option<&Device>| -> Result<Member<Ready>, Failure> {
            let mut statement = statement()?;
            statement.generate();
            statement.prepare(device, on_failure)?;
            let budget = device.map_or(Ok(usize::MAX), |device| device.available_among(devices))?;
            Ok(Member { to: Arc::from(statement), device: device.cloned(), budget })
        };
        let at_once = if overlaps && !devices.is_empty() { AT_ONCE } else { 1 };
        if devices.is_empty() {
            return Ok(Self { members: vec![make(None)?], at_once });
        }
        let made: Vec<Result<Member<Ready>, Failure>> = std::thread::scope(|scope| {
            let threads: Vec<_> = devices.iter().map(|device| scope.spawn(|| make(Some(device)))).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|made| made.unwrap_or_else(|_| Err("preparing a device panicked".into()))).collect()
        });
        let mut members = Vec::with_capacity(devices.len());
        for (device, made) in devices.iter().zip(made) {
            match made.map_err(Failed) {
                Err(failed) if on_failure == OnFailure::Cpu && failed.is_of_device() => {
                    note(format!("{device} makes no proofs: {failed}"));
                }
                made => members.push(made.map_err(|failed| failed.0)?),
            }
        }
        if members.is_empty() {
            note("proving on the CPU instead, with upstream's prover".into());
            members.push(make(None)?);
        }
        Ok(Self { members, at_once })
    }

    /// The public values of each table.
    pub fn publics(&self) -> Vec<Vec<u64>> {
        self.members[0].to.publics()
    }

    /// Makes `count` proofs, each of which `each` is given when it is done; its error ends the work. Returns what each
    /// device did.
    pub fn prove(
        self,
        count: u64,
        mut each: impl FnMut(Made) -> Result<(), Failure>,
    ) -> Result<Vec<Share>, Failure> {
        let Self { members, at_once } = self;
        // How much memory a proof takes, its report tells. Until one is made, each begins alone on its device.
        let alone = members.iter().map(|member| member.budget).min().unwrap_or(0);
        let first_ones = (members.len() as u64).min(count);
        // Enough for a device to find the next one when it is done.
        let under_way = 2 * (at_once * members.len()) as u64;
        let pool = Pool::<Ready, Made, Failed>::new(members, at_once)?;
        let submit = |bytes: usize| pool.submit(bytes, |statement: &Ready| statement.prove().map_err(Failed));
        for _ in 0..first_ones {
            submit(alone);
        }
        let (mut submitted, mut bytes) = (first_ones, None);
        for done in 1..=count {
            let Some((_, made)) = pool.next() else {
                return Err("the pool ended before all proofs were made".into());
            };
            let made = made.map_err(|failed| failed.0)?;
            bytes = bytes.or(Some(made.report.peak_bytes).filter(|&bytes| bytes > 0));
            while submitted < count.min(done + under_way) {
                submit(bytes.unwrap_or(alone));
                submitted += 1;
            }
            each(made)?;
        }
        Ok(pool.shares())
    }
}
