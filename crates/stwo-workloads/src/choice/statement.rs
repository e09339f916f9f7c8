//! Proofs of one of Stwo's statements on a device or the CPU, and their verification by upstream.

use std::marker::PhantomData;
use std::sync::OnceLock;

use rigel_gpu::{Attempt, Device, Error, Fallback, PoolError, Report};
use rigel_statements::OnFailure;
use rigel_statements::bounded::{self, Bounds};
use rigel_statements::panics::quietly;
use rigel_statements::stwo::{Making, Workload};
use rigel_statements::{Failure, Made, Rejection, Statement, TableShape, timed};
use rigel_stwo::{CudaBackend, ProofSize};
use serde::Serialize;
use serde::de::DeserializeOwned;
use stwo::core::channel::MerkleChannel;
use stwo::core::fields::m31::P;
use stwo::core::pcs::PcsConfig;
use stwo::prover::backend::BackendForChannel;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::poly::twiddles::TwiddleTree;

use super::shape::Sizes;

use super::SEED;
use crate::{
    Adopted, AllWorkloads, FromHost, Interaction, InteractionSource, Proof, Provable, Rejection as StwoRejection,
    VerifierKey, Witness, check_shape, compile, proof_size, prove, prove_adopted, twiddles, verify,
};

/// A workload at one size, in one configuration and channel.
pub(super) struct Stwo<MC> {
    workload: Workload,
    /// The size in the workload's unit, as a power of two.
    log_size: u32,
    config: PcsConfig,
    making: Making,
    on_failure: OnFailure,
    statement: Box<dyn Provable<SimdBackend>>,
    sizes: Sizes,
    /// Twiddles are computed once, before any proof is timed.
    twiddles: OnceLock<TwiddleTree<SimdBackend>>,
    witness: Option<(Witness, Option<Interaction>)>,
    devices: Option<OnDevices>,
    channel: PhantomData<fn() -> MC>,
}

/// The state that proofs on a device, or over several, share.
struct OnDevices {
    devices: Vec<Device>,
    statement: Box<dyn Provable<CudaBackend>>,
    /// The twiddles, or the reason why there are none.
    twiddles: rigel_gpu::Result<TwiddleTree<CudaBackend>>,
    /// The memory that a proof on one device takes. Over several, none is planned.
    size: Option<ProofSize>,
}

/// The memory that holds the columns when a proof on the device starts.
#[derive(Clone, Copy)]
enum From {
    Host,
    Device,
}

impl<MC> Stwo<MC>
where
    MC: MerkleChannel,
    SimdBackend: BackendForChannel<MC>,
    CudaBackend: BackendForChannel<MC>,
    Proof<MC::H>: Serialize + DeserializeOwned + Send,
{
    pub(super) fn new(
        (workload, log_size): (Workload, u32),
        config: PcsConfig,
        statement: Box<dyn Provable<SimdBackend>>,
        making: Making,
    ) -> Self {
        let sizes = Sizes::of(&*statement);
        let store_coefficients = making.store_coefficients || sizes.are_many_short_columns();
        Self {
            workload,
            log_size,
            config,
            making: Making { store_coefficients, ..making },
            on_failure: OnFailure::Fail,
            sizes,
            statement,
            twiddles: OnceLock::new(),
            witness: None,
            devices: None,
            channel: PhantomData,
        }
    }

    fn twiddles(&self) -> &TwiddleTree<SimdBackend> {
        self.twiddles.get_or_init(|| twiddles(self.statement.log_rows(), &self.config))
    }

    fn witness(&self) -> Result<&(Witness, Option<Interaction>), Failure> {
        self.witness.as_ref().ok_or_else(|| "the witness was not made".into())
    }

    /// The proof as bytes. The statement determines all of them: upstream's proof of work finds the smallest nonce on
    /// any number of threads.
    fn made(&self, proof: &Proof<MC::H>, milliseconds: f64, report: Report) -> Result<Made, Failure> {
        let proof = postcard::to_allocvec(proof)?;
        let extended_bytes =
            self.sizes.extended_bytes(&self.witness()?.0.preprocessed, self.config.fri_config.log_blowup_factor);
        Ok(Made { settled: proof.clone(), proof, extended_bytes, milliseconds, report })
    }

    /// A proof by a backend, from columns that it already has.
    fn prove_from<B: FromHost + BackendForChannel<MC>>(
        &self,
        statement: &dyn Provable<B>,
        columns: Adopted<B>,
        twiddles: &TwiddleTree<B>,
        interaction: Option<&Interaction>,
    ) -> Result<Proof<MC::H>, Failure> {
        let store = self.making.store_coefficients;
        Ok(prove_adopted::<B, MC>(statement, columns, self.config, store, twiddles, source(interaction))?)
    }

    fn on_cpu(&self) -> Result<Made, Failure> {
        let (witness, interaction) = self.witness()?;
        let twiddles = self.twiddles();
        let columns = witness.adopt();
        let (proof, total_ms) =
            timed(|| self.prove_from(&*self.statement, columns, twiddles, interaction.as_ref()));
        self.made(&proof?, total_ms, Report { device: "cpu".into(), total_ms, ..Report::default() })
    }

    fn on_devices(&self, there: &OnDevices, from: From) -> Result<Made, Failure> {
        let (witness, interaction) = self.witness()?;
        let OnDevices { devices, statement, twiddles, size } = there;
        let twiddles = twiddles.as_ref().map_err(Clone::clone)?;
        let (statement, interaction) = (&**statement, interaction.as_ref());
        let store = self.making.store_coefficients;
        let wait = || devices.iter().try_for_each(|device| device.compute()?.synchronize());
        let from_host = || {
            timed(|| {
                let source = source(interaction);
                Ok(prove::<CudaBackend, MC>(statement, witness, self.config, store, twiddles, source)?)
            })
        };
        let work = || -> rigel_gpu::Result<_> {
            wait()?;
            match (from, size) {
                (From::Host, _) if self.making.unmeasured => Ok((from_host(), Report::default())),
                (From::Host, Some(size)) => rigel_stwo::plan(&devices[0], size)?.run(from_host),
                (From::Host, None) => rigel_stwo::measure(from_host),
                (From::Device, _) => {
                    let columns = witness.adopt();
                    wait()?;
                    rigel_stwo::measure(|| timed(|| self.prove_from(statement, columns, twiddles, interaction)))
                }
            }
        };
        let made = catch(devices, work).and_then(|made| made);
        if made.is_err() {
            // Whatever else of it failed is not told to the next proof.
            devices.iter().for_each(|device| drop(device.synchronize()));
        }
        let ((proof, milliseconds), report) = made?;
        self.made(&proof?, milliseconds, report)
    }

    fn use_devices(&mut self, devices: &[Device], on_failure: OnFailure) -> Result<(), Failure> {
        (self.on_failure, self.devices) = (on_failure, None);
        let statement = CudaBackend::statement(self.workload, self.log_size, SEED)?;
        // They are computed once, before any proof is timed.
        statement.publics();
        let log_rows = statement.log_rows();
        let twiddles = catch(devices, || twiddles::<CudaBackend>(log_rows, &self.config));
        if let Err(error) = &twiddles
            && !(on_failure == OnFailure::Cpu && is_of_device(error))
        {
            return Err(error.clone().into());
        }
        let size = match devices {
            [device] => Some(proof_size(&*statement, device, self.config, self.making.store_coefficients)),
            _ => None,
        };
        self.devices = Some(OnDevices { devices: devices.to_vec(), statement, twiddles, size });
        Ok(())
    }
}

/// Whether the CPU may succeed where the device failed: wrong shapes are wrong there, too. If a pool has another device
/// for the proof, the pool decides.
fn is_for_the_cpu(failure: &Failure) -> bool {
    let may_move = |error: &Error| error.is_lost_device() && Attempt::current().may_move();
    failure.downcast_ref().is_some_and(|error| is_of_device(error) && !may_move(error))
}

/// Whether an error is the device's own.
fn is_of_device(error: &Error) -> bool {
    !matches!(error, Error::Shape { .. } | Error::WrongDevice { .. })
}

/// The public values of a statement, as those of its only table.
fn words_of<S: crate::Statement + ?Sized>(statement: &S) -> Vec<Vec<u64>> {
    vec![statement.publics().into_iter().map(u64::from).collect()]
}

/// The source of the lookup columns.
fn source(interaction: Option<&Interaction>) -> InteractionSource<'_> {
    interaction.map_or(InteractionSource::Generate, InteractionSource::Reuse)
}

/// Runs `work` on a device or over several. Its errors are returned, and nothing is printed about them.
fn catch<R>(devices: &[Device], work: impl FnOnce() -> R) -> rigel_gpu::Result<R> {
    let of_device = |message: &str| message.starts_with("CudaBackend could not");
    quietly(of_device, || rigel_stwo::over(devices, || rigel_stwo::catch(work)))?
}

impl<MC> Statement for Stwo<MC>
where
    MC: MerkleChannel,
    SimdBackend: BackendForChannel<MC>,
    CudaBackend: BackendForChannel<MC>,
    Proof<MC::H>: Serialize + DeserializeOwned + Send,
{
    fn generate(&mut self) {
        let witness = self.statement.witness();
        let mut interaction = None;
        if self.making.recorded_lookups {
            let source = InteractionSource::Record(&mut interaction);
            let made =
                prove::<SimdBackend, MC>(&*self.statement, &witness, self.config, false, self.twiddles(), source);
            made.expect("the witness is right");
        }
        self.witness = Some((witness, interaction));
    }

    fn prepare(&mut self, device: Option<&Device>, on_failure: OnFailure) -> Result<(), Failure> {
        let Some(device) = device else {
            (self.on_failure, self.devices) = (on_failure, None);
            self.twiddles();
            return Ok(());
        };
        self.use_devices(std::slice::from_ref(device), on_failure)
    }

    fn prepare_over(&mut self, devices: &[Device], on_failure: OnFailure) -> Result<(), Failure> {
        self.use_devices(devices, on_failure)
    }

    fn compile(&self, device: &Device) -> Result<usize, Failure> {
        let statement = CudaBackend::statement(self.workload, self.log_size, SEED)?;
        Ok(compile(&*statement, device)?)
    }

    fn tables(&self) -> Vec<TableShape> {
        self.sizes.tables()
    }

    fn publics(&self) -> Vec<Vec<u64>> {
        words_of(&*self.statement)
    }

    fn prove(&self) -> Result<Made, Failure> {
        let Some(there) = &self.devices else { return self.on_cpu() };
        let failure = match self.on_devices(there, From::Host) {
            Err(failure) if self.on_failure == OnFailure::Cpu && is_for_the_cpu(&failure) => failure,
            made => return made,
        };
        let mut made = self.on_cpu()?;
        made.report.moves = Attempt::current().moves().to_vec();
        made.report.fallbacks.push(Fallback { part: "the proof", ran_on: "CPU", reason: failure.to_string() });
        Ok(made)
    }

    /// A proof consumes its columns: [`Self::prove_resident`] uploads them each time, before its timing starts.
    fn keep_on_device(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn prove_resident(&self) -> Result<Made, Failure> {
        let there = self.devices.as_ref().ok_or("no device was prepared")?;
        self.on_devices(there, From::Device)
    }

    fn prove_upstream(&self) -> Result<Made, Failure> {
        self.on_cpu()
    }

    fn verify(&self, proof: &[u8], publics: &[Vec<u64>], memory: usize) -> Result<(), Rejection> {
        // Upstream deserializes any number as a field element, and computes with it. A proof has no other numbers of 32
        // bits that are as large.
        let proof: Proof<MC::H> = bounded::from_bytes(proof, Bounds { memory, largest: P - 1 })?;
        // Nothing is computed that takes long: a file chooses its size. Values that are too large differ below.
        let words: Vec<u32> = publics.iter().flatten().map(|&value| value as u32).collect();
        let claimed = self.statement.claiming(&words);
        let statement: &dyn crate::Statement = claimed.as_deref().unwrap_or(&*self.statement);
        if publics != words_of(statement) {
            let reason = format!("the public values are not those of {}", statement.description());
            return Err(Rejection::Refused(reason));
        }
        let rejected = |rejection| match rejection {
            StwoRejection::Shape { .. } => Rejection::Malformed(rejection.to_string()),
            refused => Rejection::Refused(refused.to_string()),
        };
        // The key takes long to make, the proof's shape no time to check.
        check_shape(statement, self.config, &proof).map_err(rejected)?;
        let key = VerifierKey::<MC>::new(statement, self.config);
        verify(statement, &key, proof).map_err(rejected)
    }
}

#[cfg(test)]
mod tests {
    use rigel_statements::bounded::Unreadable;
    use stwo::core::fields::m31::BaseField;

    use rigel_statements::stwo::{Channel, Fri};

    use super::super::statement as of;
    use super::*;

    /// The end of a chain is taken from the proof's public values, of which the others are compared.
    #[test]
    fn a_verifier_computes_no_chain() {
        for (workload, log_size) in [(Workload::Poseidon2, 26), (Workload::Blake2s, 20)] {
            let statement = SimdBackend::statement(workload, log_size, SEED).unwrap();
            let claimed = |publics: &[u32]| statement.claiming(publics).expect("it is a chain").publics();
            // All that was asked of the chain of 2^26 permutations is how it begins.
            let mut publics = claimed(&[]);
            let last = publics.len() - 1;
            for end in [0, 1, P - 1] {
                publics[last] = end;
                assert_eq!(claimed(&publics), publics, "{workload}");
            }
            if workload == Workload::Poseidon2 {
                publics[0] ^= 1;
                assert_ne!(claimed(&publics), publics, "a chain that begins elsewhere");
                publics[0] ^= 1;
                publics[last] = P;
                assert_ne!(claimed(&publics), publics, "another name of zero");
            }
            publics.push(0);
            assert_ne!(claimed(&publics), publics);
            let made = of(workload, log_size, Channel::Blake2s, Fri::default(), Making::default());
            let verdict = made.unwrap().verify(b"", &[vec![0; 32]], 1 << 20);
            assert!(matches!(verdict, Err(Rejection::Malformed(_))), "{verdict:?}");
        }
    }

    #[test]
    fn numbers_that_are_not_below_the_order_are_found() {
        let read = |value: u32| {
            let bytes = postcard::to_allocvec(&[1, value].map(BaseField::from_u32_unchecked).to_vec()).unwrap();
            bounded::from_bytes::<Vec<BaseField>>(&bytes, Bounds { memory: 1000, largest: P - 1 })
        };
        assert!(read(P - 1).is_ok());
        for value in [P, P + 1, u32::MAX] {
            let expected = Unreadable::Malformed("a number is not below the field's order".into());
            assert_eq!(read(value), Err(expected), "{value}");
        }
    }
}
