//! The prover of segments.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rigel_gpu::{Device, DeviceKind, Fallback, Phase, Report, Selector};
use risc0_circuit_rv32im::execute::Segment;

use crate::circuit::Circuit;
use crate::error::{Error, Result};
use crate::hal::Hal;
use crate::plan;
use crate::segment::Preflight;
use crate::shim::{self, RawProver};
use crate::{MAX_PO2, MIN_PO2};

/// A segment's seal, and what it cost.
#[derive(Clone, Debug)]
pub struct ProvenSegment {
    /// Upstream's seal.
    pub seal: Vec<u32>,
    /// Time by phase, transfers, memory, and what ran on the CPU instead of the device.
    pub report: Report,
    /// The bytes that the host copied between upstream's prover and the buffers of the device: challenges, roots,
    /// openings. The preflight is lent to the device, and queries come back together; neither is counted.
    pub host_bytes: u64,
}

/// Proves segments on devices, or on the CPU with upstream's own code.
///
/// Several threads may prove with one prover. Each device makes one proof at a time.
pub struct Prover {
    idle: Mutex<Vec<Place>>,
    returned: Condvar,
    devices: Vec<Device>,
    /// The reason why it proves on the CPU, if nobody asked for that.
    reason: Option<String>,
}

/// A device or the CPU, with the provers of each size and their memory.
struct Place {
    /// The provers by size of segment. They are dropped before the HAL, to which they refer.
    provers: BTreeMap<u32, SizedProver>,
    hal: Option<Box<Hal>>,
    compares: bool,
}

// SAFETY: one thread uses it at a time, the one that took it from the prover's list; nothing in it belongs to a thread,
// and nothing outside of it shares its counters.
unsafe impl Send for Place {}

impl Prover {
    /// A prover on devices: each takes the next segment when it is free.
    ///
    /// # Errors
    /// No device, errors of the devices, and a circuit that is not the expected one.
    pub fn new(devices: &[Device]) -> Result<Self> {
        // The emulated device's compiler takes most of a minute for upstream's witness code.
        Self::on_devices(devices, false, |device| device.kind() != DeviceKind::Emulated)
    }

    /// A prover on a device that computes everything a second time with upstream's CPU code, and fails where the
    /// results differ. For tests. With `witness`, the device makes the data columns, also if it is the emulated
    /// one.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn comparing(device: &Device, witness: bool) -> Result<Self> {
        Self::on_devices(std::slice::from_ref(device), true, |_| witness)
    }

    fn on_devices(devices: &[Device], compares: bool, makes_witness: impl Fn(&Device) -> bool) -> Result<Self> {
        if devices.is_empty() {
            return Err(Error::NoDevices);
        }
        let mut places = Vec::new();
        for (index, device) in devices.iter().enumerate() {
            // A GPU that is opened twice has the memory of one.
            let same = |other: &Device| {
                other.is(device) || (device.kind() == DeviceKind::Cuda && other.to_string() == device.to_string())
            };
            if devices[..index].iter().any(same) {
                return Err(Error::SameDevice(device.to_string()));
            }
            let hal = Hal::new(device.compute()?, Circuit::get()?, compares, makes_witness(device));
            places.push(Place { provers: BTreeMap::new(), hal: Some(Box::new(hal)), compares });
        }
        Ok(Self { idle: Mutex::new(places), returned: Condvar::new(), devices: devices.to_vec(), reason: None })
    }

    /// A prover on the CPU, with upstream's own code.
    pub fn on_cpu() -> Self {
        let place = Place { provers: BTreeMap::new(), hal: None, compares: false };
        Self { idle: Mutex::new(vec![place]), returned: Condvar::new(), devices: Vec::new(), reason: None }
    }

    /// A prover on the device that `RIGEL_DEVICE` selects; if it selects none and there is no GPU, on the CPU. Then
    /// every report says so.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn open() -> Result<Self> {
        let selector = Selector::from_env()?;
        match (Device::open(selector), selector) {
            (Err(rigel_gpu::Error::Disabled), _) => Ok(Self::on_cpu()),
            (Err(error @ rigel_gpu::Error::Unavailable { .. }), Selector::Auto) => {
                Ok(Self { reason: Some(error.to_string()), ..Self::on_cpu() })
            }
            (opened, _) => Self::new(&[opened?]),
        }
    }

    /// The devices; none if proofs are made on the CPU.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The bytes of device memory that the proof of a segment of 2^`po2` rows needs at once; none on the CPU.
    ///
    /// # Errors
    /// A circuit that is not the expected one.
    pub fn segment_bytes(&self, po2: u32) -> Result<usize> {
        let circuit = Circuit::get()?;
        let mut most = 0;
        for device in &self.devices {
            most = plan::bytes(&circuit, device, po2)?.max(most);
        }
        Ok(most)
    }

    /// The largest segments up to 2^`most` rows, as a logarithm, whose proofs fit on all devices; the smallest that the
    /// circuit has if `most` is less.
    ///
    /// # Errors
    /// Devices on which not even the smallest fits, and errors of the devices.
    pub fn fitting_po2(&self, most: u32) -> Result<u32> {
        let circuit = Circuit::get()?;
        let fits = |po2| self.devices.iter().try_for_each(|device| plan::check(&circuit, device, po2));
        let mut po2 = most.max(MIN_PO2 + 1);
        loop {
            match fits(po2) {
                Ok(()) => return Ok(po2),
                Err(Error::Memory { .. }) if po2 > MIN_PO2 + 1 => po2 -= 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Proves a segment of a run.
    ///
    /// # Errors
    /// The errors of upstream's preflight and prover, and those of the device.
    pub fn prove_segment(&self, segment: &Segment) -> Result<ProvenSegment> {
        self.prove_preflight(&Preflight::new(segment)?)
    }

    /// Proves a segment whose preflight is done, on the first device that is free.
    ///
    /// # Errors
    /// The errors of upstream's prover, and those of the device.
    pub fn prove_preflight(&self, preflight: &Preflight) -> Result<ProvenSegment> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut place = loop {
            match idle.pop() {
                Some(place) => break place,
                None => idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(idle);
        // Operations of the HAL catch panics, so the place comes back.
        let proven = place.prove(preflight);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(place);
        self.returned.notify_one();
        let mut proven = proven?;
        if let Some(reason) = &self.reason {
            let fallback = Fallback { part: "the proof", ran_on: "CPU", reason: reason.clone() };
            proven.report.fallbacks.push(fallback);
        }
        Ok(proven)
    }
}

impl Place {
    fn prove(&mut self, preflight: &Preflight) -> Result<ProvenSegment> {
        let po2 = preflight.po2();
        let Some(hal) = &self.hal else {
            let began = std::time::Instant::now();
            let seal = self.sized(po2)?.prove(preflight)?.to_vec();
            let total_ms = began.elapsed().as_secs_f64() * 1e3;
            let phases = vec![Phase::of_host("upstream's prover", 0.0, total_ms)];
            let report = Report { device: "cpu".into(), total_ms, phases, ..Report::default() };
            return Ok(ProvenSegment { seal, report, host_bytes: 0 });
        };
        plan::check(&hal.circuit, hal.stream.device(), po2)?;
        hal.begin(&preflight.parts());
        let seal = self.prove_on_device(preflight);
        let hal = self.hal.as_ref().ok_or_else(|| Error::Prover("there is no device".into()))?;
        let ended = hal.end();
        let (seal, (report, host_bytes)) = (seal?, ended?);
        Ok(ProvenSegment { seal, report, host_bytes })
    }

    fn prove_on_device(&mut self, preflight: &Preflight) -> Result<Vec<u32>> {
        let mut seal = self.sized(preflight.po2())?.prove(preflight)?.to_vec();
        let hal = self.hal.as_ref().ok_or_else(|| Error::Prover("there is no device".into()))?;
        let answers = hal.answer_queries()?;
        // Upstream writes the answers to queries one after another at the end of the seal.
        let end = seal.len().checked_sub(answers.len());
        let end =
            end.ok_or_else(|| Error::Prover("the seal is shorter than the answers to its queries".into()))?;
        seal[end..].copy_from_slice(&answers);
        Ok(seal)
    }

    /// The prover for segments of this size.
    fn sized(&mut self, po2: u32) -> Result<&mut SizedProver> {
        if !(MIN_PO2..=MAX_PO2).contains(&po2) {
            return Err(Error::SegmentSize { po2 });
        }
        if !self.provers.contains_key(&po2) {
            // The memory of another size makes room.
            self.provers.clear();
            let prover = match &self.hal {
                Some(hal) => {
                    let operations = hal.operations();
                    // SAFETY: the HAL is boxed and is dropped after its provers.
                    unsafe { shim::rigel_risc0_prover_new(&operations, po2 as usize, self.compares) }
                }
                // SAFETY: it takes nothing of ours.
                None => unsafe { shim::rigel_risc0_prover_new_cpu(po2 as usize) },
            };
            if prover.is_null() {
                return Err(Error::Prover(shim::last_error()));
            }
            self.provers.insert(po2, SizedProver(prover));
        }
        self.provers.get_mut(&po2).ok_or(Error::SegmentSize { po2 })
    }
}

/// Upstream's prover for one size of segments.
struct SizedProver(*mut RawProver);

impl SizedProver {
    /// Upstream's transcript, which is the seal.
    fn prove(&mut self, preflight: &Preflight) -> Result<&[u32]> {
        // SAFETY: prover and preflight are the shim's and upstream's own; the seal is the prover's until the next
        // proof.
        unsafe {
            if !shim::rigel_risc0_prove(self.0, preflight.context()) {
                return Err(Error::Prover(shim::last_error()));
            }
            let mut words = 0;
            let seal = shim::rigel_risc0_seal(self.0, &mut words);
            Ok(std::slice::from_raw_parts(seal, words))
        }
    }
}

impl Drop for SizedProver {
    fn drop(&mut self) {
        // SAFETY: it is ours, and freed once.
        unsafe { shim::rigel_risc0_prover_free(self.0) };
    }
}

/// Runs the HAL's operations on random values, on a device and by upstream's CPU HAL, and compares the results. For
/// tests; the witness, which has no meaning for random values, is compared by [`Prover::comparing`].
///
/// # Errors
/// A result that differs, and errors of the device.
pub fn compare_operations(device: &Device, seed: u32) -> Result<()> {
    static COMPARING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = COMPARING.lock().unwrap_or_else(PoisonError::into_inner);
    let hal = Box::new(Hal::new(device.compute()?, Circuit::get()?, true, false));
    // SAFETY: the HAL is boxed, and its buffers are gone when the call returns; the message is the shim's until the
    // next call.
    let failure = unsafe { shim::rigel_risc0_compare(&hal.operations(), seed) };
    match failure.is_null() {
        true => Ok(()),
        // SAFETY: as above.
        false => Err(Error::Prover(unsafe { CStr::from_ptr(failure) }.to_string_lossy().into_owned())),
    }
}

/// The circuit's size, for reports.
pub fn circuit_size() -> Result<(usize, usize)> {
    let circuit: Arc<Circuit> = Circuit::get()?;
    Ok((circuit.constraints.graph.len(), circuit.constraints.outputs.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt::verify_seal;
    use crate::{Program, RunOptions};

    /// A witness with a changed word does not become a seal that the verifier accepts.
    #[test]
    fn a_changed_witness_is_refused() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/built/sha256.elf");
        let program = Program::load(&std::fs::read(path).unwrap()).unwrap();
        let options = RunOptions { segment_po2: 13, quiet: true, ..RunOptions::default() };
        let segments = program.segments(&options).unwrap().1;
        let segment = segments.into_iter().max_by_key(|segment| segment.suspend_cycle).unwrap();
        let preflight = Preflight::new(&segment).unwrap();
        let parts = preflight.parts();
        let words = parts.aux.cast_mut().cast::<u32>();
        // SAFETY: nobody else has the preflight; the word is one of its witness.
        unsafe { *words.add(parts.aux_bytes / 8) ^= 4 };
        let device = rigel_gpu::testing::devices().unwrap().remove(0);
        let proven = Prover::new(&[device]).unwrap().prove_preflight(&preflight);
        assert!(proven.and_then(|proven| verify_seal(&proven.seal)).is_err());
    }
}
