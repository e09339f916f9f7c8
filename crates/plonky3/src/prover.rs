//! A configuration on a device: what every proof starts from.

use std::ops::Range;

use p3_commit::Pcs;
use p3_field::PrimeCharacteristicRing;
use p3_fri::FriParameters;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::{Device, Event, Recorder, Stream, ViewMut};

use crate::commit::Committed;
use crate::config::{Base, DeviceConfig};
use crate::error::{Error, Result};
use crate::field::DeviceField;
use crate::report::Report;
use crate::trace::upload;

/// What to do where the device is not the best place for a proof, or not a possible one.
///
/// The default never leaves the device. Whatever a policy decides is in the proof's
/// [`fallbacks`](Report::fallbacks).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Proofs of fewer cells (rows times columns of all traces on the host) are made on the CPU.
    pub cpu_below_cells: usize,
    /// Proofs that the device can't make (it is full, or lost, or its kernels do not take the AIR) are made on the
    /// CPU.
    pub cpu_on_failure: bool,
}

impl Policy {
    /// Below this many cells a proof is fixed costs on either side. At 2^11 cells an H200 is already the faster one, 1.6
    /// against 3 ms on 16 cores.
    pub const CROSSOVER_CELLS: usize = 1 << 8;

    /// The CPU for small proofs and for those that fail.
    pub const AUTO: Self = Self { cpu_below_cells: Self::CROSSOVER_CELLS, cpu_on_failure: true };
}

/// A configuration of Plonky3 on a device.
///
/// Upstream's PCS and trees keep their parameters to themselves, so the prover carries its own copy: the FRI
/// parameters and the height of the caps, which [`Self::new`] checks against what the configuration commits to.
pub struct Prover<SC: DeviceConfig> {
    /// Or why there is none.
    device: Result<Device, String>,
    config: SC,
    pub(crate) fri: FriParameters<()>,
    pub(crate) cap_height: usize,
    policy: Policy,
}

impl<SC: DeviceConfig> Prover<SC> {
    /// A prover on `device`. `fri` and `cap_height` are those that the configuration's PCS and trees were made with.
    ///
    /// Commits to a small matrix on both sides. If the commitments differ, the parameters are not the
    /// configuration's, or its Poseidon2 is not upstream's default instance, and no proof would verify: an error.
    pub fn new<M>(device: Device, config: SC, fri: &FriParameters<M>, cap_height: usize) -> Result<Self> {
        let prover = Self { device: Ok(device), config, fri: numbers(fri), cap_height, policy: Policy::default() };
        prover.check_parameters()?;
        prover.check_commitment()?;
        Ok(prover)
    }

    /// A prover on the device that `RIGEL_DEVICE` names, or on the first GPU. On a machine without one, and with
    /// `RIGEL_DEVICE=none`, its proofs are upstream's own, made on the CPU, and say why.
    pub fn open<M>(config: SC, fri: &FriParameters<M>, cap_height: usize) -> Result<Self> {
        match Device::from_env() {
            Ok(device) => Self::new(device, config, fri, cap_height),
            Err(reason @ (rigel_gpu::Error::Unavailable { .. } | rigel_gpu::Error::Disabled)) => {
                Ok(Self { device: Err(reason.to_string()), ..Self::cpu(config, fri, cap_height) })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A prover that uses the CPU alone: upstream's.
    pub fn cpu<M>(config: SC, fri: &FriParameters<M>, cap_height: usize) -> Self {
        let device = Err("the prover was made for the CPU".into());
        Self { device, config, fri: numbers(fri), cap_height, policy: Policy::default() }
    }

    /// The same prover with another policy.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The device, unless the prover is one for the CPU.
    pub fn device(&self) -> Option<&Device> {
        self.device.as_ref().ok()
    }

    /// Why the prover has no device, if it has none.
    pub(crate) fn absence(&self) -> Option<&str> {
        self.device.as_ref().err().map(String::as_str)
    }

    /// Upstream's configuration.
    pub fn config(&self) -> &SC {
        &self.config
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// What upstream asserts of FRI's parameters when it proves.
    fn check_parameters(&self) -> Result<()> {
        let FriParameters { log_blowup, max_log_arity, num_queries, .. } = self.fri;
        if log_blowup == 0 || max_log_arity == 0 || num_queries == 0 {
            return Err(Error::Unsupported(format!(
                "FRI parameters with log_blowup {log_blowup}, max_log_arity {max_log_arity} and {num_queries} queries; \
                 each must be at least 1"
            )));
        }
        Ok(())
    }

    fn check_commitment(&self) -> Result<()> {
        let width = 3;
        // As many rows as the cap has digests, and once extended more: a cap of another height is another commitment.
        let rows = 32 << self.cap_height.saturating_sub(5).min(10);
        let values = (0..rows * width).map(|i| SC::Value::from_usize(i * i + 7)).collect();
        let matrix = RowMajorMatrix::new(values, width);
        let pcs = self.config.pcs();
        let domain = pcs.natural_domain_for_degree(rows);
        let (expected, _) = pcs.commit([(domain, matrix.clone())])?;

        let session = Session::new(self)?;
        let trace = upload(&session.stream, &matrix)?;
        let found = Committed::extend(&session, &[(&trace).into()])?.cap(&session)?;
        if found != expected {
            let poseidon = std::any::type_name::<SC::Hash>().contains("Poseidon2");
            return Err(Error::Configuration(if poseidon {
                ", and that its Poseidon2 is upstream's default instance"
            } else {
                ""
            }));
        }
        Ok(())
    }
}

/// FRI's parameters without upstream's trees.
fn numbers<M>(fri: &FriParameters<M>) -> FriParameters<()> {
    FriParameters {
        log_blowup: fri.log_blowup,
        log_final_poly_len: fri.log_final_poly_len,
        max_log_arity: fri.max_log_arity,
        num_queries: fri.num_queries,
        batch_proof_of_work_bits: fri.batch_proof_of_work_bits,
        commit_proof_of_work_bits: fri.commit_proof_of_work_bits,
        query_proof_of_work_bits: fri.query_proof_of_work_bits,
        mmcs: (),
    }
}

/// One proof in the making: a stream of its own, and the record of what is done on it.
pub(crate) struct Session<'a, SC: DeviceConfig> {
    pub(crate) prover: &'a Prover<SC>,
    pub(crate) stream: Stream,
    /// The stream that traces travel on, beside the work on those that have arrived.
    lane: Stream,
    recorder: Recorder,
}

impl<'a, SC: DeviceConfig> Session<'a, SC> {
    pub(crate) fn new(prover: &'a Prover<SC>) -> Result<Self> {
        let device = prover.device().ok_or(rigel_gpu::Error::Disabled)?;
        let stream = device.new_stream()?;
        let recorder = Recorder::new(&stream);
        Ok(Self { prover, lane: device.new_stream()?, stream, recorder })
    }

    pub(crate) fn log_blowup(&self) -> u32 {
        self.prover.fri.log_blowup as u32
    }

    /// See [`Recorder::phase`].
    pub(crate) fn phase<R>(&self, name: &'static str, work: impl FnOnce() -> Result<R>) -> Result<R> {
        self.recorder.phase(name, &self.stream, work)
    }

    /// Sends some columns of a matrix on their way, row-major, into memory that this session's stream has allocated:
    /// behind what `after` marks, beside all else. Work given to the stream from now on finds them.
    pub(crate) fn bring<'b>(
        &self,
        to: impl Into<ViewMut<'b, Base<SC>>>,
        matrix: &RowMajorMatrix<SC::Value>,
        columns: Range<usize>,
        after: &Event,
    ) -> Result<()> {
        self.lane.wait(after)?;
        self.recorder.phase("upload", &self.lane, || {
            self.lane.write_columns(to, SC::Value::as_device(&matrix.values), matrix.width, columns)
        })?;
        Ok(self.stream.wait_for(&self.lane)?)
    }

    pub(crate) fn finish(self) -> Result<Report> {
        Ok(self.recorder.finish()?)
    }
}
