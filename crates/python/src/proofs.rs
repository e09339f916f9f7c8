//! Proofs of Plonky3's and Stwo's workloads, and proof files.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rigel_gpu::{Bytes, Device, Report};
use rigel_proofs::choice::{Choice, Prover, Workload};
use rigel_proofs::proof_file::{self, Header, Unread};
use rigel_proofs::verdict::{self, Bits, MEMORY, Unverified};
use rigel_statements::many::Many;
use rigel_statements::{Made, OnFailure};
use serde_json::{Map, Value};

use crate::devices::several_for_proofs;
use crate::progress::{Steps, interruptible_steps};
use crate::work::interruptible_with;

/// The advice about a proof that is refused for its memory.
const RAISE: &str = "if you trust the file, allow more with memory_limit";

/// A proof with the statement that it proves. `prove` and `load` of `rigel.proofs` return it.
#[pyclass(frozen, module = "rigel.proofs", name = "Proof")]
pub(crate) struct Proof {
    header: Header,
    bytes: Arc<[u8]>,
    /// `None` for a proof that was read from a file.
    making: Option<Making>,
}

/// The circumstances in which a proof was made.
struct Making {
    milliseconds: f64,
    report: Report,
    /// Whether the caller requested the CPU.
    asked_for_cpu: bool,
    /// The reason why the requested device was not used at all.
    no_device: Option<String>,
}

impl Proof {
    fn new(header: Header, made: Made, is_on_cpu: bool, no_device: Option<String>) -> Self {
        let making = Making {
            milliseconds: made.milliseconds,
            report: made.report,
            asked_for_cpu: is_on_cpu && no_device.is_none(),
            no_device,
        };
        Self { header, bytes: made.proof.into(), making: Some(making) }
    }
}

#[pymethods]
impl Proof {
    /// Upstream's proof, serialized with postcard.
    #[getter]
    fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes)
    }

    /// The device that made it: `cuda:0`, ..., or `cpu`; several with commas between them; `None` if it was read from a
    /// file.
    #[getter]
    fn device(&self) -> Option<&str> {
        self.making.as_ref().map(|making| making.report.device.as_str())
    }

    /// The time from the call to the proof; `None` if it was read from a file.
    #[getter]
    fn milliseconds(&self) -> Option<f64> {
        self.making.as_ref().map(|making| making.milliseconds)
    }

    /// The parts that ran on another device than requested, and why; and the devices that were lost while they made the
    /// proof.
    #[getter]
    fn fallbacks(&self) -> Vec<String> {
        let Some(Making { asked_for_cpu, report, no_device, .. }) = &self.making else { return Vec::new() };
        if let Some(reason) = no_device {
            return vec![format!("the proof was made on the CPU: {reason}")];
        }
        let moved = report.moves.iter().map(|lost| format!("the proof began on {}: {}", lost.from, lost.reason));
        let parts = report.fallbacks.iter().filter(|_| !asked_for_cpu);
        let ran = parts.map(|part| format!("{} ran on the {}: {}", part.part, part.ran_on, part.reason));
        moved.chain(ran).collect()
    }

    /// The statement: the prover, the workload with its parameters, and the public values of each table.
    #[getter]
    fn statement<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text =
            serde_json::to_string(&self.header).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// The public values of each table.
    #[getter]
    fn public_values(&self) -> Vec<Vec<u64>> {
        self.header.public_values.clone()
    }

    /// Bits of security of the parameters: by upstream's conjecture, and proven, or `None` where upstream has no
    /// analysis.
    #[getter]
    fn security(&self) -> (usize, Option<usize>) {
        let Bits { conjectured, proven } = Bits::of(&self.header.choice);
        (conjectured, proven)
    }

    /// The report as text.
    #[getter]
    fn report(&self) -> String {
        let mut text = format!("{}\n", self.header.choice);
        let Some(Making { report, milliseconds, .. }) = &self.making else {
            let _ = writeln!(
                text,
                "  read from a file of Rigel {}\n  proof {}",
                self.header.rigel,
                Bytes(self.bytes.len())
            );
            return text;
        };
        let place = if report.device == "cpu" { "the CPU (upstream's prover)" } else { &report.device };
        let _ = writeln!(text, "  proved on {place} in {milliseconds:.1} ms");
        for (phase, milliseconds) in report.by_phase() {
            let _ = writeln!(text, "  {phase:<20} {milliseconds:>10.2} ms");
        }
        let _ = writeln!(text, "  proof                {}", Bytes(self.bytes.len()));
        if !report.phases.is_empty() {
            let _ = writeln!(text, "  peak device memory   {}", Bytes(report.peak_bytes));
            let _ = writeln!(text, "  kernel launches      {}", report.launches);
        }
        for fallback in self.fallbacks() {
            let _ = writeln!(text, "  {fallback}");
        }
        text
    }

    /// Verifies the proof with upstream's verifier. Raises ValueError with the reason if it does not verify.
    ///
    /// A file states what it proves and with which parameters: whoever made it chose both. Compare `statement` with
    /// what you want to know, and `security` with what you accept.
    ///
    /// Verifying takes memory for the size of the statement. `memory_limit` is the most that it may take, in bytes: by
    /// default 64 MiB for a proof that was read from a file, and no limit for one that was made here. Raises
    /// MemoryError if that is not enough.
    #[pyo3(signature = (*, memory_limit=None))]
    fn verify(&self, py: Python<'_>, memory_limit: Option<usize>) -> PyResult<()> {
        let (header, bytes) = (self.header.clone(), self.bytes.clone());
        let usual = if self.making.is_some() { usize::MAX } else { MEMORY };
        let limit = memory_limit.unwrap_or(usual);
        interruptible_with(py, move || {
            verdict::verify(&header, &bytes, limit).map_err(|unverified| match unverified {
                Unverified::Memory { .. } => PyMemoryError::new_err(format!("{unverified}; {RAISE}")),
                rejected => PyValueError::new_err(format!("the proof does not verify: {rejected}")),
            })
        })
    }

    /// Writes the proof to a file, which `rigel.proofs.load` and `rigel verify` read.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        Ok(std::fs::write(path, proof_file::encode(&self.header, &self.bytes))?)
    }

    fn __repr__(&self) -> String {
        let place = self.device().map_or("read from a file".to_owned(), |device| format!("made on {device}"));
        let Header { choice, .. } = &self.header;
        format!("<Proof of {choice} with {}, {} bytes, {place}>", choice.prover().title(), self.bytes.len())
    }
}

/// Makes a proof. `options` is a JSON object of what differs from the workload's defaults.
#[pyfunction]
#[pyo3(signature = (workload, prover, options, device, progress))]
fn _prove(
    py: Python<'_>,
    workload: &str,
    prover: Option<&str>,
    options: &str,
    device: &str,
    progress: Option<bool>,
) -> PyResult<Proof> {
    let choice = choice(workload, prover, options).map_err(PyValueError::new_err)?;
    let mut statement = choice.statement().map_err(PyValueError::new_err)?;
    let names = device.to_owned();
    interruptible_steps(py, choice.to_string(), progress, 3, move |steps: &Steps| {
        // A named device does not fall back; `auto` does, and the proof reports it.
        let on_failure = OnFailure::cpu_if(names == "auto");
        let (devices, no_device) = several_for_proofs(&names)?;
        steps.next("generating the trace".into())?;
        statement.generate();
        let place = place(&devices);
        steps.next(format!("preparing {place}"))?;
        match devices.as_slice() {
            [] => statement.prepare(None, on_failure),
            [device] => statement.prepare(Some(device), on_failure),
            several => statement.prepare_over(several, on_failure),
        }
        .map_err(failed)?;
        steps.next(format!("proving on {place}"))?;
        let made = statement.prove().map_err(failed)?;
        let header = Header::new(choice, statement.publics());
        Ok(Proof::new(header, made, devices.is_empty(), no_device))
    })
}

/// Makes many proofs of one statement, shared out over the devices.
#[pyfunction]
#[pyo3(signature = (workload, prover, options, device, count, progress))]
fn _prove_many(
    py: Python<'_>,
    workload: &str,
    prover: Option<&str>,
    options: &str,
    device: &str,
    count: u32,
    progress: Option<bool>,
) -> PyResult<Vec<Proof>> {
    let choice = choice(workload, prover, options).map_err(PyValueError::new_err)?;
    choice.statement().map_err(PyValueError::new_err)?;
    let names = device.to_owned();
    interruptible_steps(py, choice.to_string(), progress, count as usize + 1, move |steps: &Steps| {
        let on_failure = OnFailure::cpu_if(names == "auto");
        let (devices, no_device) = several_for_proofs(&names)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let place = place(&devices);
        steps.next(format!("preparing {place}"))?;
        let mut notes: Vec<String> = no_device.into_iter().collect();
        let statement = || Ok(choice.statement()?);
        let many = Many::prepare(statement, &devices, on_failure, choice.overlaps(), |note| notes.push(note))
            .map_err(failed)?;
        let header = Header::new(choice, many.publics());
        let reason = (!notes.is_empty()).then(|| notes.join("; "));
        let mut proofs = Vec::with_capacity(count as usize);
        let mut interrupted = None;
        let begin = |done: usize| steps.next(format!("{done} of {count} proofs on {place}"));
        begin(0)?;
        let made = many.prove(count.into(), |made| {
            let reason = reason.clone().filter(|_| made.report.device == "cpu");
            proofs.push(Proof::new(header.clone(), made, devices.is_empty(), reason));
            begin(proofs.len()).map_err(|error| {
                interrupted = Some(error);
                "interrupted".into()
            })
        });
        match (interrupted, made) {
            (Some(error), _) => Err(error),
            (None, made) => made.map(|_| proofs).map_err(failed),
        }
    })
}

fn failed(error: rigel_statements::Failure) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// The devices by name, or the CPU.
fn place(devices: &[Device]) -> String {
    if devices.is_empty() {
        return "the CPU".into();
    }
    devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Reads a proof file.
#[pyfunction]
fn _load(path: PathBuf, memory_limit: Option<usize>) -> PyResult<Proof> {
    let file = proof_file::read(&path, memory_limit.unwrap_or(MEMORY)).map_err(|unread| match unread {
        Unread::Io(error) => error.into(),
        Unread::Refused(refusal) => PyMemoryError::new_err(format!("{}: {refusal}; {RAISE}", path.display())),
    })?;
    let (header, proof) = proof_file::decode(&file)
        .map_err(|refusal| PyValueError::new_err(format!("{}: {refusal}", path.display())))?;
    Ok(Proof { header, bytes: proof.into(), making: None })
}

/// The names of a prover's workloads.
#[pyfunction]
fn _workloads(prover: &str) -> PyResult<Vec<&'static str>> {
    Ok(Prover::named(prover).map_err(PyValueError::new_err)?.workloads())
}

/// The workload's defaults, changed by the options. They have the names that proof files give them; those of FRI are
/// not in an object of their own.
fn choice(workload: &str, prover: Option<&str>, options: &str) -> Result<Choice, String> {
    let workload = Workload::named(&workload.replace('_', "-").to_lowercase())?;
    let usual = workload.usual(prover.map(Prover::named).transpose()?)?;
    let prover = usual.prover();
    let object = |value: Result<Value, serde_json::Error>| match value {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => Err(format!("{other} is not an object")),
        Err(error) => Err(error.to_string()),
    };
    let mut stated = object(serde_json::to_value(usual))?;
    let mut fri = object(Ok(stated.remove("fri").unwrap_or_default()))?;
    let is_parameter = |fields: &Map<String, Value>, name: &str| {
        fields.contains_key(name) && !["prover", "workload"].contains(&name)
    };
    let options = object(serde_json::from_str(options))?;
    if prover == Prover::Stwo && options.contains_key("log_rows") && options.contains_key("log_size") {
        return Err("with Stwo log_rows is another name of log_size: give one of them".into());
    }
    for (name, value) in options {
        // Stwo counts the workload's units.
        let name = if name == "log_rows" && prover == Prover::Stwo { "log_size" } else { &name };
        let fields = if is_parameter(&stated, name) { &mut stated } else { &mut fri };
        if !is_parameter(fields, name) {
            let names = stated.keys().filter(|name| is_parameter(&stated, name)).chain(fri.keys());
            let names: Vec<&str> = names.map(String::as_str).collect();
            return Err(format!("{} has no parameter {name:?}; it has {}", prover.title(), names.join(", ")));
        }
        fields.insert(name.to_owned(), value);
    }
    stated.insert("fri".into(), fri.into());
    let choice: Choice = serde_json::from_value(stated.into()).map_err(|error| error.to_string())?;
    choice.check()?;
    Ok(choice)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Proof>()?;
    module.add_function(wrap_pyfunction!(_prove, module)?)?;
    module.add_function(wrap_pyfunction!(_prove_many, module)?)?;
    module.add_function(wrap_pyfunction!(_load, module)?)?;
    module.add_function(wrap_pyfunction!(_workloads, module)?)
}
