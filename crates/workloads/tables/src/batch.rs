//! The workload of several tables connected by lookups: upstream's `p3_batch_stark`.

use p3_air::symbolic::SymbolicExpressionExt;
use p3_batch_stark::{BatchProof, ProverData, StarkInstance, verify_batch};
use p3_field::Algebra;
use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::Device;
use rigel_kernels::Matrix;
use rigel_plonky3::{
    Base, BatchKey, Instance, Proven, Prover, Report, Trace, compile_batch, prove_batch, setup_batch,
};
use rigel_statements::{Failure, Made, OnFailure, Rejection, Statement, TableShape, timed};

use super::fri::Fri;
use super::lookups::{self, LookupAir};
use super::statement::{Config, decode, encode, failure, policy, resident, upload};

/// The batch with lookups over a configuration.
pub(crate) struct Batch<SC: Config> {
    config: SC,
    fri: Fri,
    airs: Vec<LookupAir>,
    traces: Vec<RowMajorMatrix<SC::Value>>,
    prover: Option<(Prover<SC>, BatchKey<SC>)>,
    /// The blocks of rows of each table.
    resident: Vec<Vec<Matrix<Base<SC>>>>,
}

impl<SC: Config> Batch<SC> {
    pub(crate) fn new(config: SC, fri: Fri, log_rows: u32) -> Self {
        let airs = lookups::airs(log_rows);
        Self { config, fri, airs, traces: Vec::new(), prover: None, resident: Vec::new() }
    }

    fn log_rows(&self) -> Vec<usize> {
        self.airs.iter().map(|air| air.log_rows() as usize).collect()
    }

    fn made(&self, proof: &BatchProof<SC>, milliseconds: f64, report: Report) -> Made {
        let table =
            |(values, air): (&p3_batch_stark::proof::OpenedValuesWithLookups<SC::Challenge>, &LookupAir)| {
                let base = &values.base_opened_values;
                let columns = base.trace_local.len()
                    + base.preprocessed_local().map_or(0, <[_]>::len)
                    + base.quotient_chunks.iter().map(Vec::len).sum::<usize>()
                    + values.permutation_local.len();
                columns << (air.log_rows() as usize + self.fri.log_blowup)
            };
        let cells: usize = proof.opened_values.instances.iter().zip(&self.airs).map(table).sum();
        Made {
            extended_bytes: cells * size_of::<SC::Value>(),
            settled: encode(&(&proof.commitments, &proof.opened_values)),
            proof: encode(proof),
            milliseconds,
            report,
        }
    }
}

impl<SC> Batch<SC>
where
    SC: Config,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    fn use_prover(&mut self, prover: Prover<SC>) -> Result<(), Failure> {
        let key = setup_batch(&prover, &self.airs, &self.log_rows()).map_err(failure)?;
        self.prover = Some((prover, key));
        Ok(())
    }

    fn prove_traces<'a>(&'a self, traces: impl Iterator<Item = Trace<'a, SC::Value>>) -> Result<Made, Failure> {
        let (prover, key) = self.prover.as_ref().expect("prepare comes first");
        let instances: Vec<Instance<'a, SC, LookupAir>> =
            self.airs.iter().zip(traces).map(|(air, trace)| Instance::new(air, trace, Vec::new())).collect();
        let (proven, milliseconds) = timed(|| prove_batch(prover, &instances, key));
        let Proven { proof, report } = proven.map_err(failure)?;
        Ok(self.made(&proof, milliseconds, report))
    }
}

impl<SC> Statement for Batch<SC>
where
    SC: Config,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    fn generate(&mut self) {
        self.traces = lookups::witness(&self.airs);
    }

    fn prepare(&mut self, device: Option<&Device>, on_failure: OnFailure) -> Result<(), Failure> {
        let (config, fri) = (self.config.clone(), self.fri.parameters(()));
        let prover = match device {
            Some(device) => Prover::new(device.clone(), config, &fri, self.fri.cap_height).map_err(failure)?,
            None => Prover::cpu(config, &fri, self.fri.cap_height).map_err(failure)?,
        };
        self.use_prover(prover.with_policy(policy(on_failure)))
    }

    fn prepare_over(&mut self, devices: &[Device], on_failure: OnFailure) -> Result<(), Failure> {
        let (config, fri) = (self.config.clone(), self.fri.parameters(()));
        self.use_prover(
            Prover::over(devices, config, &fri, self.fri.cap_height)
                .map_err(failure)?
                .with_policy(policy(on_failure)),
        )
    }

    fn compile(&self, device: &Device) -> Result<usize, Failure> {
        let prover =
            Prover::cpu(self.config.clone(), &self.fri.parameters(()), self.fri.cap_height).map_err(failure)?;
        let key = setup_batch(&prover, &self.airs, &self.log_rows()).map_err(failure)?;
        compile_batch(device, &self.airs, &key).map_err(failure)
    }

    fn tables(&self) -> Vec<TableShape> {
        let shape = |(air, trace): (&LookupAir, &RowMajorMatrix<SC::Value>)| TableShape {
            log_rows: air.log_rows(),
            columns: trace.width(),
        };
        self.airs.iter().zip(&self.traces).map(shape).collect()
    }

    fn publics(&self) -> Vec<Vec<u64>> {
        vec![Vec::new(); self.airs.len()]
    }

    fn prove(&self) -> Result<Made, Failure> {
        self.prove_traces(self.traces.iter().map(Into::into))
    }

    fn keep_on_device(&mut self) -> Result<(), Failure> {
        let (prover, _) = self.prover.as_ref().expect("prepare comes first");
        self.resident = Vec::new();
        let upload = |trace| upload(prover.devices(), trace);
        self.resident = self.traces.iter().map(upload).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn prove_resident(&self) -> Result<Made, Failure> {
        self.prove_traces(self.resident.iter().map(|blocks| resident::<SC::Value>(blocks)))
    }

    fn prove_upstream(&self) -> Result<Made, Failure> {
        let data = ProverData::from_airs_and_degrees(&self.config, &self.airs, &self.log_rows())
            .map_err(|error| error.to_string())?;
        let instances: Vec<StarkInstance<'_, SC, LookupAir>> = self
            .airs
            .iter()
            .zip(&self.traces)
            .map(|(air, trace)| StarkInstance { air, trace, public_values: Vec::new() })
            .collect();
        let (proof, milliseconds) = timed(|| p3_batch_stark::prove_batch(&self.config, &instances, &data));
        Ok(self.made(&proof.map_err(|error| error.to_string())?, milliseconds, Report::default()))
    }

    fn verify(&self, proof: &[u8], publics: &[Vec<u64>], memory: usize) -> Result<(), Rejection> {
        let proof: BatchProof<SC> = decode(proof, memory)?;
        if publics.len() != self.airs.len() || !publics.iter().all(Vec::is_empty) {
            return Err(Rejection::Malformed("public values; the tables have none".into()));
        }
        // Check before computing anything of the size given in the header.
        if proof.degree_bits != self.log_rows() {
            let detail = format!(
                "the proof is about tables of 2^{:?} rows, which the header does not match",
                proof.degree_bits
            );
            return Err(Rejection::Malformed(detail));
        }
        let data = ProverData::from_airs_and_degrees(&self.config, &self.airs, &self.log_rows())
            .map_err(|error| Rejection::Refused(error.to_string()))?;
        verify_batch(&self.config, &self.airs, &proof, &vec![Vec::new(); self.airs.len()], &data.common)
            .map_err(|error| Rejection::Refused(error.to_string()))
    }
}
