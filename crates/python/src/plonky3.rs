//! Plonky3 proofs of the command line's workloads.

use std::fmt::Write;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rigel_gpu::{Bytes, Report};
use rigel_plonky3::Policy;
use rigel_workloads::{Choice, Field, Fri, Hash, Statement, Workload};

use crate::devices::for_proofs;
use crate::work::interruptible_with;

/// A proof of a statement, with its report. The functions of `rigel.plonky3` return it.
#[pyclass(frozen, module = "rigel.plonky3", name = "Proof")]
pub(crate) struct Proof {
    choice: Choice,
    statement: std::sync::Arc<Box<dyn Statement>>,
    bytes: Vec<u8>,
    milliseconds: f64,
    report: Report,
    /// Whether the caller requested the CPU.
    asked_for_cpu: bool,
    /// Why the requested device was not used at all.
    no_device: Option<String>,
}

#[pymethods]
impl Proof {
    /// Plonky3's proof, serialized with postcard.
    #[getter]
    fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes)
    }

    /// The device that made it: `cuda:0`, ..., or `cpu`.
    #[getter]
    fn device(&self) -> &str {
        &self.report.device
    }

    /// The time from the call to the proof.
    #[getter]
    fn milliseconds(&self) -> f64 {
        self.milliseconds
    }

    /// The parts that ran on another device than requested, and why.
    #[getter]
    fn fallbacks(&self) -> Vec<String> {
        match &self.no_device {
            Some(reason) => vec![format!("the proof was made on the CPU: {reason}")],
            None if self.asked_for_cpu => Vec::new(),
            None => self
                .report
                .fallbacks
                .iter()
                .map(|fallback| format!("{} ran on the {}: {}", fallback.part, fallback.ran_on, fallback.reason))
                .collect(),
        }
    }

    /// The statement's parameters.
    #[getter]
    fn statement<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let entries = PyDict::new(py);
        entries.set_item("workload", self.choice.workload.to_string())?;
        entries.set_item("log_rows", self.choice.log_rows)?;
        entries.set_item("field", self.choice.field.to_string())?;
        entries.set_item("hash", self.choice.hash.to_string())?;
        Ok(entries)
    }

    /// The public values of each table.
    #[getter]
    fn public_values(&self) -> Vec<Vec<u64>> {
        self.statement.publics()
    }

    /// The report as text.
    #[getter]
    fn report(&self) -> String {
        let mut text = format!("{}\n", self.choice);
        let place = if self.report.device == "cpu" { "the CPU (upstream's prover)" } else { &self.report.device };
        let _ = writeln!(text, "  proved on {place} in {:.1} ms", self.milliseconds);
        for (phase, milliseconds) in self.report.by_phase() {
            let _ = writeln!(text, "  {phase:<20} {milliseconds:>10.2} ms");
        }
        let _ = writeln!(text, "  proof                {}", Bytes(self.bytes.len()));
        if !self.report.phases.is_empty() {
            let _ = writeln!(text, "  peak device memory   {}", Bytes(self.report.peak_bytes));
            let _ = writeln!(text, "  kernel launches      {}", self.report.launches);
        }
        for fallback in self.fallbacks() {
            let _ = writeln!(text, "  {fallback}");
        }
        text
    }

    /// Verifies the proof with Plonky3's verifier. Raises ValueError with the reason if it does not verify.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        let (statement, bytes) = (self.statement.clone(), self.bytes.clone());
        interruptible_with(py, move || {
            statement
                .verify(&bytes, &statement.publics())
                .map_err(|rejection| PyValueError::new_err(format!("the proof does not verify: {rejection:?}")))
        })
    }

    fn __repr__(&self) -> String {
        format!("<Proof of {}, {} bytes, made on {}>", self.choice, self.bytes.len(), self.report.device)
    }
}

/// Makes a proof.
#[pyfunction]
#[pyo3(signature = (workload, log_rows, field, hash, device, fri))]
fn _prove(
    py: Python<'_>,
    workload: &str,
    log_rows: Option<u32>,
    field: &str,
    hash: &str,
    device: &str,
    fri: &Bound<'_, PyDict>,
) -> PyResult<Proof> {
    let workload = parsed::<Workload>("workload", workload)?;
    let choice = Choice {
        workload,
        log_rows: log_rows.unwrap_or_else(|| workload.default_log_rows()),
        field: parsed::<Field>("field", field)?,
        hash: parsed::<Hash>("hash", hash)?,
        fri: parameters(fri)?,
    };
    let mut statement = choice.statement().map_err(PyValueError::new_err)?;
    let device = device.to_owned();
    interruptible_with(py, move || {
        // A named device does not fall back; `auto` does, and the proof reports it.
        let cpu_on_failure = device == "auto";
        let (device, no_device) = for_proofs(&device)?;
        let failed = |error: rigel_workloads::Failure| PyRuntimeError::new_err(error.to_string());
        statement.generate();
        let policy = Policy { cpu_on_failure, ..Policy::default() };
        statement.prepare(device.as_ref(), policy).map_err(failed)?;
        let made = statement.prove().map_err(failed)?;
        Ok(Proof {
            choice,
            statement: std::sync::Arc::new(statement),
            bytes: made.proof,
            milliseconds: made.milliseconds,
            report: made.report,
            asked_for_cpu: device.is_none() && no_device.is_none(),
            no_device,
        })
    })
}

/// Parses a name of the command line.
fn parsed<T: Named>(what: &str, text: &str) -> PyResult<T> {
    let plain = text.replace('_', "-").to_lowercase();
    T::ALL.iter().copied().find(|known| known.to_string() == plain).ok_or_else(|| {
        let known: Vec<String> = T::ALL.iter().map(ToString::to_string).collect();
        PyValueError::new_err(format!("unknown {what} {text:?}; available: {}", known.join(", ")))
    })
}

trait Named: Copy + std::fmt::Display + 'static {
    const ALL: &'static [Self];
}

impl Named for Workload {
    const ALL: &'static [Self] = &[Self::Keccak, Self::Poseidon2, Self::Blake3, Self::Fibonacci, Self::Lookups];
}

impl Named for Field {
    const ALL: &'static [Self] = &[Self::KoalaBear, Self::BabyBear, Self::Goldilocks, Self::Goldilocks3];
}

impl Named for Hash {
    const ALL: &'static [Self] = &[Self::Keccak, Self::Keccak256, Self::Poseidon2];
}

/// FRI parameters by name; the defaults are upstream's.
fn parameters(given: &Bound<'_, PyDict>) -> PyResult<Fri> {
    let mut fri = Fri::default();
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        let to = match name.as_str() {
            "log_blowup" => &mut fri.log_blowup,
            "log_final_poly_len" => &mut fri.log_final_poly_len,
            "max_log_arity" => &mut fri.max_log_arity,
            "queries" => &mut fri.queries,
            "pow_bits" => &mut fri.pow_bits,
            "batch_pow_bits" => &mut fri.batch_pow_bits,
            "commit_pow_bits" => &mut fri.commit_pow_bits,
            "cap_height" => &mut fri.cap_height,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "FRI has no parameter {name:?}; it has log_blowup, log_final_poly_len, max_log_arity, queries, \
                     pow_bits, batch_pow_bits, commit_pow_bits and cap_height"
                )));
            }
        };
        *to = value.extract()?;
    }
    Ok(fri)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Proof>()?;
    module.add_function(wrap_pyfunction!(_prove, module)?)
}
