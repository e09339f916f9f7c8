//! Work of several devices, each timed alone, and the time that it would take on as many GPUs at once.
//!
//! On a machine with one GPU, opened several times, devices that work at once share its multiprocessors, and nobody can
//! see what several GPUs would do. A [`Rehearsal`] gives each device the GPU for itself: before work is submitted to
//! one device, the device before it finishes. It writes down how long each piece of work took the host and the device,
//! when the host waited, and which bytes were sent where. [`Rehearsal::finish`] returns these steps, and
//! [`Steps::on`] replays them with a clock for the host, each device and each link.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use crate::base::{Error, Lock, Result};
use crate::device::{Device, Observer, Sent};
use crate::queue::{Event, Timeline};
use crate::work::report::BETWEEN;

/// A rehearsal under way. It ends when it is dropped.
pub struct Rehearsal {
    devices: Vec<Device>,
    log: Arc<Log>,
}

/// The recorded steps, in the order of the host's calls.
struct Log {
    devices: Vec<Device>,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    steps: Vec<Step>,
    phase: &'static str,
    turn: Option<Turn>,
    /// The time since which the host has computed while no device had work.
    host_since: Option<Instant>,
    /// The time since which copies between devices are submitted, which are not work of a device.
    sending: Option<Instant>,
    exchanges: usize,
}

/// A device that works alone.
struct Turn {
    device: usize,
    phase: &'static str,
    began: Instant,
    start: Event,
    /// The stream that has the last work.
    last: Arc<Timeline>,
}

/// A step of work on several devices.
#[derive(Clone, Debug, Serialize)]
enum Step {
    /// A device worked, and the host submitted it.
    Work { device: usize, phase: &'static str, host_ms: f64, device_ms: f64 },
    /// The host submitted copies between devices: sender, receiver, bytes.
    Exchange { phase: &'static str, host_ms: f64, copies: Vec<(usize, usize, usize)> },
    /// Work of the devices that an exchange concerns starts after it.
    Join { exchange: usize },
    /// The host waited for a device.
    Wait { device: usize },
    /// The host computed.
    Host { phase: &'static str, ms: f64 },
}

impl Rehearsal {
    /// Begins to time the work of `devices`, each alone. All of it is to be submitted by one thread.
    pub fn new(devices: &[Device]) -> Result<Self> {
        devices.iter().try_for_each(Device::synchronize)?;
        let state = State { phase: BETWEEN, host_since: Some(Instant::now()), ..State::default() };
        let log = Arc::new(Log { devices: devices.to_vec(), state: Lock::new(state) });
        for device in devices {
            if device.observer().is_some() {
                return Err(Error::shape("Rehearsal::new", format!("{device} is in a rehearsal already")));
            }
        }
        devices.iter().for_each(|device| device.observe(Some(log.clone())));
        Ok(Self { devices: devices.to_vec(), log })
    }

    /// Waits for the devices, and returns the steps.
    pub fn finish(self) -> Result<Steps> {
        let mut state = self.log.state.lock();
        self.log.end_turn(&mut state)?;
        self.log.end_host(&mut state);
        Ok(Steps { devices: self.devices.len(), steps: std::mem::take(&mut state.steps) })
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        self.devices.iter().for_each(|device| device.observe(None));
    }
}

impl Log {
    fn index(&self, device: &Device) -> Result<usize> {
        self.devices.iter().position(|known| known.is(device)).ok_or_else(|| {
            let names: Vec<String> = self.devices.iter().map(ToString::to_string).collect();
            Error::shape("Rehearsal", format!("work with {device}, which is not one of its devices: {names:?}"))
        })
    }

    /// Lets the device finish that has worked. Its time ends with that of the stream that had the last work; streams
    /// beside it are expected to be waited for by that one.
    fn end_turn(&self, state: &mut State) -> Result<()> {
        let Some(Turn { device, phase, began, start, last }) = state.turn.take() else { return Ok(()) };
        let host_ms = milliseconds(began);
        let end = last.record(true)?;
        self.devices[device].synchronize()?;
        let device_ms = f64::from(end.since(&start)?);
        state.steps.push(Step::Work { device, phase, host_ms, device_ms });
        Ok(())
    }

    fn end_host(&self, state: &mut State) {
        if let Some(since) = state.host_since.take() {
            let phase = state.phase;
            state.steps.push(Step::Host { phase, ms: milliseconds(since) });
        }
    }
}

impl Observer for Log {
    fn phase(&self, name: &'static str) {
        self.state.lock().phase = name;
    }

    fn working(&self, device: &Device, timeline: &Arc<Timeline>) -> Result<()> {
        let (mut state, device) = (self.state.lock(), self.index(device)?);
        if state.sending.is_some() {
            return Ok(());
        }
        let phase = state.phase;
        if let Some(turn) = state.turn.as_mut().filter(|turn| turn.device == device && turn.phase == phase) {
            if !Arc::ptr_eq(&turn.last, timeline) {
                turn.last = timeline.clone();
            }
            return Ok(());
        }
        self.end_turn(&mut state)?;
        self.end_host(&mut state);
        let (began, start) = (Instant::now(), timeline.record(true)?);
        state.turn = Some(Turn { device, phase, began, start, last: timeline.clone() });
        Ok(())
    }

    fn waited(&self, device: &Device) -> Result<()> {
        let (mut state, device) = (self.state.lock(), self.index(device)?);
        if state.sending.is_some() {
            return Ok(());
        }
        self.end_turn(&mut state)?;
        state.steps.push(Step::Wait { device });
        state.host_since.get_or_insert_with(Instant::now);
        Ok(())
    }

    fn sending(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.end_turn(&mut state)?;
        self.end_host(&mut state);
        state.sending = Some(Instant::now());
        Ok(())
    }

    fn sent(&self, copies: &[Sent<'_>]) -> Result<usize> {
        let mut state = self.state.lock();
        let host_ms = state.sending.take().map_or(0.0, milliseconds);
        let copy = |(from, to, bytes): &Sent<'_>| Ok((self.index(from)?, self.index(to)?, *bytes));
        let copies = copies.iter().map(copy).collect::<Result<_>>()?;
        let phase = state.phase;
        state.steps.push(Step::Exchange { phase, host_ms, copies });
        state.exchanges += 1;
        self.devices.iter().try_for_each(Device::synchronize)?;
        Ok(state.exchanges - 1)
    }

    fn joined(&self, exchange: usize) -> Result<()> {
        let mut state = self.state.lock();
        self.end_turn(&mut state)?;
        state.steps.push(Step::Join { exchange });
        Ok(())
    }
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Links between devices, of which each device has one: it sends and receives at this rate at the same time, whoever
/// the others are.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Interconnect {
    /// The interconnect's name.
    pub name: &'static str,
    /// The bandwidth in each direction, in units of 10^9 bytes per second.
    pub gigabytes_per_second: f64,
    /// The latency: the time from the start of a copy to its first byte.
    pub microseconds: f64,
}

impl Interconnect {
    /// NVLink of the fourth generation, as in machines with eight H100 or H200.
    pub const NVLINK_4: Self = Self { name: "NVLink 4", gigabytes_per_second: 450.0, microseconds: 3.0 };
    /// Sixteen lanes of PCI Express 5, at the rate that copies reach.
    pub const PCIE_5: Self = Self { name: "PCIe 5", gigabytes_per_second: 55.0, microseconds: 8.0 };
    /// Sixteen lanes of PCI Express 4, at the rate that copies reach.
    pub const PCIE_4: Self = Self { name: "PCIe 4", gigabytes_per_second: 26.0, microseconds: 8.0 };
}

/// The steps of a rehearsal.
#[derive(Clone, Debug, Serialize)]
pub struct Steps {
    devices: usize,
    steps: Vec<Step>,
}

/// The time that steps take when all devices work at once.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Modelled {
    /// The time from the first step to the end of the last one.
    pub total_ms: f64,
    /// The time of each phase: how much later the last clock was after its steps. The times add up to the total.
    pub phases: Vec<(&'static str, f64)>,
    /// The time of which the first device had work.
    pub busy_ms: f64,
}

impl Steps {
    /// The bytes that all devices sent to others, and in how many copies.
    pub fn sent(&self) -> (u64, usize) {
        let copies = self.steps.iter().filter_map(|step| match step {
            Step::Exchange { copies, .. } => Some(copies),
            _ => None,
        });
        copies.flatten().fold((0, 0), |(bytes, count), copy| (bytes + copy.2 as u64, count + 1))
    }

    /// The milliseconds of each device's work, by phase.
    pub fn alone(&self) -> Vec<(&'static str, Vec<f64>)> {
        let mut sums: Vec<(&'static str, Vec<f64>)> = Vec::new();
        for step in &self.steps {
            if let Step::Work { device, phase, device_ms, .. } = step {
                entry(&mut sums, phase, || vec![0.0; self.devices])[*device] += device_ms;
            }
        }
        sums
    }

    /// The milliseconds in which the host computed and no device had work, by phase.
    pub fn host(&self) -> Vec<(&'static str, f64)> {
        let mut sums = Vec::new();
        for step in &self.steps {
            if let Step::Host { phase, ms } = step {
                *entry(&mut sums, phase, || 0.0) += ms;
            }
        }
        sums
    }

    /// The time on as many GPUs with these links, of which each has a host thread's calls in their order.
    ///
    /// Work starts when the host has come to it and its device has finished what it had before. An exchange starts when
    /// the host and all devices that it concerns have come to it and their links are free; it takes as long as the
    /// device that sends or receives most, and the delay of as many copies as a device sends.
    pub fn on(&self, links: Interconnect) -> Modelled {
        let mut host = 0.0f64;
        let mut devices = vec![0.0f64; self.devices];
        let mut free = vec![0.0f64; self.devices];
        let mut exchanges: Vec<(Vec<usize>, f64)> = Vec::new();
        let (mut modelled, mut now) = (Modelled::default(), 0.0f64);
        for step in &self.steps {
            let phase = match step {
                Step::Work { device, phase, host_ms, device_ms } => {
                    devices[*device] = devices[*device].max(host) + device_ms;
                    host += host_ms.min(*device_ms);
                    if *device == 0 {
                        modelled.busy_ms += device_ms;
                    }
                    phase
                }
                Step::Exchange { phase, host_ms, copies } => {
                    host += host_ms;
                    let concerned: Vec<usize> = (0..self.devices)
                        .filter(|k| copies.iter().any(|copy| copy.0 == *k || copy.1 == *k))
                        .collect();
                    let start = concerned.iter().fold(host, |start, &k| start.max(devices[k]).max(free[k]));
                    let end = start + exchange_ms(links, &concerned, copies);
                    concerned.iter().for_each(|&k| free[k] = end);
                    exchanges.push((concerned, end));
                    phase
                }
                Step::Join { exchange } => {
                    let (concerned, end) = &exchanges[*exchange];
                    concerned.iter().for_each(|&k| devices[k] = devices[k].max(*end));
                    "exchange"
                }
                Step::Wait { device } => {
                    host = host.max(devices[*device]);
                    "host"
                }
                Step::Host { ms, .. } => {
                    host += ms;
                    "host"
                }
            };
            let last = devices.iter().fold(host, |last, clock| last.max(*clock));
            *entry(&mut modelled.phases, phase, || 0.0) += last - now;
            now = now.max(last);
        }
        modelled.total_ms = now;
        modelled
    }
}

/// The entry of a phase, a new one at the end if there is none.
fn entry<'a, T>(
    phases: &'a mut Vec<(&'static str, T)>,
    phase: &'static str,
    new: impl FnOnce() -> T,
) -> &'a mut T {
    let place = phases.iter().position(|(name, _)| *name == phase).unwrap_or_else(|| {
        phases.push((phase, new()));
        phases.len() - 1
    });
    &mut phases[place].1
}

fn exchange_ms(links: Interconnect, devices: &[usize], copies: &[(usize, usize, usize)]) -> f64 {
    let busiest = devices.iter().map(|k| {
        let sum = |is_its: &dyn Fn(&(usize, usize, usize)) -> bool| {
            copies.iter().filter(|copy| is_its(copy)).map(|copy| copy.2).sum::<usize>()
        };
        let bytes = sum(&|copy| copy.0 == *k).max(sum(&|copy| copy.1 == *k));
        let count = copies.iter().filter(|copy| copy.0 == *k).count();
        bytes as f64 / links.gigabytes_per_second / 1e6 + count as f64 * links.microseconds / 1e3
    });
    busiest.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(device: usize, host_ms: f64, device_ms: f64) -> Step {
        Step::Work { device, phase: "hash", host_ms, device_ms }
    }

    /// 10^9 bytes take a millisecond, and a copy does not wait.
    const FAST: Interconnect = Interconnect { name: "", gigabytes_per_second: 1e3, microseconds: 0.0 };

    fn total(devices: usize, steps: Vec<Step>) -> f64 {
        let modelled = Steps { devices, steps }.on(FAST);
        let phases: f64 = modelled.phases.iter().map(|phase| phase.1).sum();
        assert!((phases - modelled.total_ms).abs() < 1e-9, "phases add up");
        modelled.total_ms
    }

    #[test]
    fn devices_work_at_once_after_the_host_has_submitted() {
        // The second device starts when the host has submitted the first one's work.
        assert_eq!(total(2, vec![work(0, 1.0, 5.0), work(1, 1.0, 5.0)]), 6.0);
        // The host waits for both, then computes, then submits.
        let waits = || [Step::Wait { device: 0 }, Step::Wait { device: 1 }, Step::Host { phase: "", ms: 2.0 }];
        let steps = [work(0, 0.0, 5.0), work(1, 0.0, 4.0)].into_iter().chain(waits()).chain([work(1, 0.0, 1.0)]);
        assert_eq!(total(2, steps.collect()), 8.0);
    }

    #[test]
    fn exchanges_overlap_work_until_they_are_joined() {
        let exchange = |copies| Step::Exchange { phase: "exchange", host_ms: 0.0, copies };
        let there = (0, 1, 3_000_000_000);
        let back = (1, 0, 1_000_000_000);
        // Three milliseconds: both directions at once.
        assert_eq!(total(2, vec![exchange(vec![there, back]), Step::Join { exchange: 0 }]), 3.0);
        let steps = |join_first: bool| {
            let mut steps = vec![exchange(vec![there]), work(0, 0.0, 2.0), work(1, 0.0, 2.0)];
            steps.insert(if join_first { 1 } else { 3 }, Step::Join { exchange: 0 });
            steps
        };
        assert_eq!(total(2, steps(true)), 5.0);
        assert_eq!(total(2, steps(false)), 3.0);
        // Exchanges share the links.
        let two = [vec![there], vec![back]].map(exchange).into_iter();
        let joins = (0..2).map(|exchange| Step::Join { exchange });
        assert_eq!(total(2, two.chain(joins).collect()), 4.0);
    }
}
