//! Workloads of one table: upstream's `p3_uni_stark`.

use p3_air::Air;
use p3_air::symbolic::{AirLayout, SymbolicAirBuilder};
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_field::{Field, PrimeCharacteristicRing, PrimeField64};
use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use p3_uni_stark::{
    ConjecturedSecurity, GrindingSites, OpeningShape, Proof, ProvenSecurity, StarkSecurityParams,
    VerifierConstraintFolder,
};
use rigel_gpu::{Device, Stream};
use rigel_kernels::Matrix;
use rigel_plonky3::{Base, CpuAir, DeviceField, Proven, Prover, Report, Trace};
use rigel_statements::{Failure, Made, NO_INPUTS, OnFailure, Rejection, Security, Statement, TableShape, timed};

use super::configs::hiding_streams;
use super::fri::Fri;
use super::statement::{Config, decode, elements, encode, failure, policy, resident, roomy, upload};

/// The collision resistance of digests of 256 bits.
const COLLISION_BITS: usize = 128;

/// A trace and its public values.
pub type Witness<V> = (RowMajorMatrix<V>, Vec<V>);

/// An AIR of one table, and a witness for it.
pub trait OneTable<V: DeviceField> {
    /// A trace of 2^`log_rows` rows and its public values. They are deterministic.
    fn witness(&self, log_rows: u32) -> Witness<V>;

    /// The trace of [`Self::witness`], made by the stream's device from its inputs; none if there is no kernel for it.
    fn trace_on(&self, _stream: &Stream, _log_rows: u32) -> rigel_plonky3::Result<Option<Matrix<V::Device>>> {
        Ok(None)
    }
}

/// An AIR of one table that both provers and upstream's verifier accept over a configuration.
pub trait ProvableTable<SC: Config>:
    OneTable<SC::Value>
    + CpuAir<SC>
    + Air<SymbolicAirBuilder<SC::Value, SC::Challenge>>
    + for<'a> Air<VerifierConstraintFolder<'a, SC>>
    + Send
    + Sync
    + 'static
{
}
impl<SC: Config, A> ProvableTable<SC> for A where
    A: OneTable<SC::Value>
        + CpuAir<SC>
        + Air<SymbolicAirBuilder<SC::Value, SC::Challenge>>
        + for<'a> Air<VerifierConstraintFolder<'a, SC>>
        + Send
        + Sync
        + 'static
{
}

/// A workload of one table over a configuration.
pub(crate) struct Single<SC: Config, A> {
    /// Makes the configuration; one that hides draws from its generators with every proof.
    make: fn(&Fri) -> SC,
    config: SC,
    fri: Fri,
    log_rows: u32,
    air: A,
    witness: Option<Witness<SC::Value>>,
    prover: Option<Prover<SC>>,
    resident: Vec<Matrix<Base<SC>>>,
}

impl<SC: Config, A: OneTable<SC::Value>> Single<SC, A> {
    pub(crate) fn new(make: fn(&Fri) -> SC, air: A, fri: Fri, log_rows: u32) -> Self {
        Self { make, config: make(&fri), fri, log_rows, air, witness: None, prover: None, resident: Vec::new() }
    }

    fn witness(&self) -> &Witness<SC::Value> {
        self.witness.as_ref().expect("generate comes first")
    }

    /// The rows of the committed trace: twice as many if it is hidden.
    fn log_committed(&self) -> usize {
        self.log_rows as usize + usize::from(SC::HIDING)
    }

    fn prover(&self) -> &Prover<SC> {
        self.prover.as_ref().expect("prepare comes first")
    }

    fn made(&self, proof: Proof<SC>, milliseconds: f64, report: Report) -> Made {
        let values = &proof.opened_values;
        let preprocessed = values.preprocessed_local().map_or(0, <[_]>::len);
        let columns =
            values.trace_local.len() + preprocessed + values.quotient_chunks.iter().map(Vec::len).sum::<usize>();
        let rows = 1 << (self.log_committed() + self.fri.log_blowup);
        Made {
            extended_bytes: columns * rows * size_of::<SC::Value>(),
            settled: encode(&(&proof.commitments, &proof.opened_values)),
            proof: encode(&proof),
            milliseconds,
            report,
        }
    }
}

impl<SC: Config, A: ProvableTable<SC>> Single<SC, A> {
    fn prove_trace(&self, trace: Trace<'_, SC::Value>) -> Result<Made, Failure> {
        let (_, publics) = self.witness();
        if SC::HIDING {
            self.prover().reseed(hiding_streams()).map_err(failure)?;
        }
        let (proven, milliseconds) = timed(|| rigel_plonky3::prove(self.prover(), &self.air, trace, publics));
        let Proven { proof, report } = proven.map_err(failure)?;
        Ok(self.made(proof, milliseconds, report))
    }
}

impl<SC: Config, A: ProvableTable<SC>> Statement for Single<SC, A> {
    fn generate(&mut self) {
        self.witness = Some(self.air.witness(self.log_rows));
    }

    fn prepare(&mut self, device: Option<&Device>, on_failure: OnFailure) -> Result<(), Failure> {
        let (config, fri) = ((self.make)(&self.fri), self.fri.parameters(()));
        let prover = match device {
            Some(device) if SC::HIDING => {
                Prover::hiding(device.clone(), config, &fri, self.fri.cap_height, hiding_streams())
                    .map_err(failure)?
            }
            Some(device) => Prover::new(device.clone(), config, &fri, self.fri.cap_height).map_err(failure)?,
            None => Prover::cpu(config, &fri, self.fri.cap_height).map_err(failure)?,
        };
        self.prover = Some(prover.with_policy(policy(on_failure)));
        Ok(())
    }

    fn prepare_over(&mut self, devices: &[Device], on_failure: OnFailure) -> Result<(), Failure> {
        let (config, fri) = ((self.make)(&self.fri), self.fri.parameters(()));
        self.prover = Some(
            Prover::over(devices, config, &fri, self.fri.cap_height)
                .map_err(failure)?
                .with_policy(policy(on_failure)),
        );
        Ok(())
    }

    fn compile(&self, device: &Device) -> Result<usize, Failure> {
        rigel_plonky3::compile::<SC, A>(device, &self.air).map_err(failure)
    }

    fn tables(&self) -> Vec<TableShape> {
        vec![TableShape { log_rows: self.log_rows, columns: self.witness().0.width() }]
    }

    fn publics(&self) -> Vec<Vec<u64>> {
        vec![self.witness().1.iter().map(PrimeField64::as_canonical_u64).collect()]
    }

    fn prove(&self) -> Result<Made, Failure> {
        self.prove_trace((&self.witness().0).into())
    }

    fn keep_on_device(&mut self) -> Result<(), Failure> {
        self.resident = Vec::new();
        self.resident = upload(self.prover().devices(), &self.witness().0)?;
        Ok(())
    }

    fn prove_resident(&self) -> Result<Made, Failure> {
        self.prove_trace(resident::<SC::Value>(&self.resident))
    }

    fn prove_inputs(&self) -> Result<Made, Failure> {
        let device = self.prover().device().ok_or("the prover has no device")?;
        // A stream waits for its work when it is closed; the proof does so on the device.
        let stream = device.new_stream()?;
        let trace = self.air.trace_on(&stream, self.log_rows).map_err(failure)?;
        self.prove_trace((&trace.ok_or(NO_INPUTS)?).into())
    }

    fn prove_upstream(&self) -> Result<Made, Failure> {
        let (trace, publics) = self.witness();
        let (trace, config) = (roomy(trace, self.fri.log_blowup), (self.make)(&self.fri));
        let (proof, milliseconds) = timed(|| p3_uni_stark::prove(&config, &self.air, trace, publics));
        let proof = proof.map_err(|error| error.to_string())?;
        Ok(self.made(proof, milliseconds, Report::default()))
    }

    fn security(&self) -> Option<Security> {
        if SC::HIDING {
            return None;
        }
        let fri = self.fri.parameters(());
        let log_rows = self.log_rows as usize;
        let parameters = StarkSecurityParams::from_air::<SC::Value, SC::Challenge, A>(
            fri.security_regime(),
            &self.air,
            AirLayout::from_air::<SC::Value>(&self.air),
            TwoAdicMultiplicativeCoset::new(SC::Value::ONE, log_rows)?,
            SC::Challenge::bits(),
            COLLISION_BITS,
            // Every column is opened at zeta and at most at the next point.
            2,
            OpeningShape::new(),
            GrindingSites { out_of_domain: self.config.ood_proof_of_work_bits(), ..fri.grinding_sites() },
        );
        Some(Security {
            proven: ProvenSecurity::compute_from_proof(log_rows, &parameters).security_bits(),
            conjectured: ConjecturedSecurity::compute_from_params(&parameters, log_rows).security_bits,
        })
    }

    fn verify(&self, proof: &[u8], publics: &[Vec<u64>], memory: usize) -> Result<(), Rejection> {
        let proof: Proof<SC> = decode(proof, memory)?;
        let [publics] = publics else {
            return Err(Rejection::Malformed(format!(
                "public values of {} tables; there must be one",
                publics.len()
            )));
        };
        let publics = elements(publics)?;
        if publics.len() != self.air.num_public_values() {
            let expected = self.air.num_public_values();
            return Err(Rejection::Malformed(format!(
                "{} public values; the AIR takes {expected}",
                publics.len()
            )));
        }
        if proof.degree_bits != self.log_committed() {
            let (found, said) = (proof.degree_bits, self.log_committed());
            return Err(Rejection::Malformed(format!(
                "the proof is about 2^{found} rows; the header says 2^{said}"
            )));
        }
        p3_uni_stark::verify(&self.config, &self.air, &proof, &publics)
            .map_err(|error| Rejection::Refused(error.to_string()))
    }
}
