//! Runs a program on a device, again and again, with another call of the driver failing each time.
//!
//! Whatever fails, a program must give an error that names it, or the right bytes: nothing wrong, no panic, no end of
//! waiting. Its memory must be back afterwards, and the next run on the same device must be right.
//!
//! Some memory is left to the driver on purpose: where the engine can't learn whether work has ended, because a wait
//! failed while a device closes or a buffer of its own allocation is freed, it leaks what that work may still access.
//! [`Faults::held`] tells of it. It is no part of these runs, because a failure is over before the device closes.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::base::Result;
use crate::device::{Device, Options, Selector, driver_of};
use crate::drivers::Driver;
use crate::drivers::injected::around;
use crate::memory::Pooling;

pub use crate::drivers::injected::{Call, Calls, Faults, Held};

/// The error of a program that did not give its bytes.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

type Run = dyn Fn(&Device) -> Result<Vec<u8>, Failure> + Send + Sync;

/// The time limits of a test.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// A run that takes longer does not end.
    pub run: Duration,
    /// The longest time after which memory has to be back: threads in the background may still compile.
    pub settling: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { run: Duration::from_secs(120), settling: Duration::from_secs(10) }
    }
}

/// A program that gives the same bytes in each run.
#[derive(Clone)]
pub struct Program {
    name: String,
    expected: Vec<u8>,
    run: Arc<Run>,
}

impl Program {
    /// A program that gives these bytes on a device.
    pub fn new(
        name: impl Into<String>,
        expected: Vec<u8>,
        run: impl Fn(&Device) -> Result<Vec<u8>, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), expected, run: Arc::new(run) }
    }

    /// The program's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs it, for as long as it takes. Its kernels are in the cache afterwards.
    pub fn run(&self, device: &Device) -> Result<(), Failure> {
        (self.run)(device).map(drop)
    }
}

/// The run on a device in which a failure is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// The device has just been opened: memory is mapped, modules are loaded.
    First,
    /// The program ran once before: sequences of launches that it gathers again become chains.
    Second,
    /// The program ran twice before: its memory is there, and so are its chains.
    Later,
}

impl Moment {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::First, Self::Second, Self::Later];

    /// The number of runs of the program before this one.
    fn runs_before(self) -> u32 {
        match self {
            Self::First => 0,
            Self::Second => 1,
            Self::Later => 2,
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Later => "later",
        })
    }
}

/// The outcome of a run with a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An error that names the failure.
    Error,
    /// The right bytes, though the call failed.
    Right,
    /// The right bytes; the call was not made this time. Counts of calls vary a little with timing.
    NotReached,
    /// Other bytes.
    Wrong,
    /// An error that does not name the failure.
    Unnamed(String),
    /// A panic.
    Panicked(String),
    /// The run did not end within the time.
    Hung,
    /// The next run, without a failure, did not give the right bytes.
    Spoiled(String),
    /// Memory or handles did not come back.
    Leaked(String),
}

impl Outcome {
    /// The names of all outcomes, those that may be first.
    pub const NAMES: [&str; 9] =
        ["error", "right", "not reached", "wrong", "unnamed", "panicked", "hung", "spoiled", "leaked"];

    /// The outcome's name.
    pub fn name(&self) -> &'static str {
        Self::NAMES[match self {
            Self::Error => 0,
            Self::Right => 1,
            Self::NotReached => 2,
            Self::Wrong => 3,
            Self::Unnamed(_) => 4,
            Self::Panicked(_) => 5,
            Self::Hung => 6,
            Self::Spoiled(_) => 7,
            Self::Leaked(_) => 8,
        }]
    }

    /// Whether it may be.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Error | Self::Right | Self::NotReached)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Unnamed(detail) | Self::Panicked(detail) | Self::Spoiled(detail) | Self::Leaked(detail) => {
                write!(f, ": {detail}")
            }
            _ => Ok(()),
        }
    }
}

/// A driver around which devices are opened whose calls can be made to fail.
pub struct Injection {
    behind: Arc<dyn Driver>,
    options: Options,
}

impl Injection {
    /// Failures of this device.
    pub fn over(selector: Selector, options: Options) -> Result<Self> {
        Ok(Self { behind: driver_of(selector)?, options })
    }

    /// Opens the device, with nothing of earlier openings but the driver's context. No call fails until one is armed.
    pub fn open(&self) -> (Device, Faults) {
        let faults = Faults::default();
        (Device::with_driver(around(self.behind.clone(), &faults), self.options.clone()), faults)
    }
}

/// Failures in one program, at one moment.
pub struct Sweep<'a> {
    injection: &'a Injection,
    program: &'a Program,
    moment: Moment,
    patience: Patience,
    calls: Calls,
    /// The device that later runs share.
    warm: Option<Opened>,
}

/// An open device, and the memory that it had in use, of its own and pinned, when nothing had failed.
struct Opened {
    device: Device,
    faults: Faults,
    in_use: [usize; 2],
}

/// The end of one run.
enum End {
    Bytes(Vec<u8>),
    Error(String),
    Panicked(String),
    Hung,
}

impl<'a> Sweep<'a> {
    /// Runs the program without a failure and counts its calls.
    pub fn new(
        injection: &'a Injection,
        program: &'a Program,
        moment: Moment,
        patience: Patience,
    ) -> Result<Self, Failure> {
        let calls = Calls::default();
        let mut sweep = Self { injection, program, moment, patience, calls, warm: None };
        let opened = sweep.prepare()?;
        opened.faults.disarm();
        sweep.expect_right(&opened.device)?;
        sweep.calls = opened.faults.calls();
        sweep.warm = Some(opened);
        Ok(sweep)
    }

    /// The calls of a run without a failure.
    pub fn calls(&self) -> Calls {
        self.calls
    }

    /// Runs the program with one failure, then without.
    pub fn fail(&mut self, call: Call, number: u64) -> Outcome {
        let kept = self.warm.take().filter(|_| self.moment == Moment::Later);
        let opened = match kept.map_or_else(|| self.prepare(), Ok) {
            Ok(opened) => opened,
            Err(error) => return Outcome::Spoiled(error.to_string()),
        };
        opened.faults.arm(call, number);
        let end = self.run(&opened.device);
        let struck = opened.faults.struck();
        opened.faults.disarm();
        let outcome = match end {
            End::Bytes(bytes) if bytes != self.program.expected => Outcome::Wrong,
            End::Bytes(_) if struck == 0 => Outcome::NotReached,
            End::Bytes(_) => Outcome::Right,
            End::Error(error) if Faults::is_named_in(&error) => Outcome::Error,
            End::Error(error) => Outcome::Unnamed(error),
            End::Panicked(message) => Outcome::Panicked(message),
            // The thread still uses the device.
            End::Hung => return Outcome::Hung,
        };
        if !outcome.is_good() {
            return outcome;
        }
        if let Err(error) = self.expect_right(&opened.device) {
            return Outcome::Spoiled(error.to_string());
        }
        if self.moment == Moment::Later {
            let in_use = self.settled(|| in_use(&opened.device), |found| *found == opened.in_use);
            if in_use != opened.in_use {
                return leaked("device and pinned bytes in use", &opened.in_use, &in_use);
            }
            self.warm = Some(opened);
            return outcome;
        }
        self.shut(opened).map_or(outcome, Outcome::Leaked)
    }

    /// Closes the device that later runs shared.
    pub fn close(mut self) -> Outcome {
        self.warm.take().and_then(|opened| self.shut(opened)).map_or(Outcome::Right, Outcome::Leaked)
    }

    /// Closes a device. Returns what did not come back.
    fn shut(&self, opened: Opened) -> Option<String> {
        let Opened { device, faults, .. } = opened;
        drop(device);
        let none = Held::default();
        let held = self.settled(|| faults.held(), |held| *held == none);
        (held != none).then(|| format!("held by the driver after the device closed: {held:?}"))
    }

    /// Repeats `look` until its result `is_right` or the time for settling is over, and returns the last result.
    fn settled<T>(&self, look: impl Fn() -> T, is_right: impl Fn(&T) -> bool) -> T {
        let began = Instant::now();
        loop {
            let found = look();
            if is_right(&found) || began.elapsed() > self.patience.settling {
                return found;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A device on which the failure comes next.
    fn prepare(&self) -> Result<Opened, Failure> {
        let (device, faults) = self.injection.open();
        (0..self.moment.runs_before()).try_for_each(|_| self.expect_right(&device))?;
        device.synchronize()?;
        Ok(Opened { in_use: in_use(&device), device, faults })
    }

    fn expect_right(&self, device: &Device) -> Result<(), Failure> {
        match self.run(device) {
            End::Bytes(bytes) if bytes == self.program.expected => Ok(()),
            End::Bytes(_) => Err(format!("{} is wrong, without a failure", self.program.name).into()),
            End::Error(error) => Err(error.into()),
            End::Panicked(message) => Err(format!("panicked: {message}").into()),
            End::Hung => Err(format!("{} did not end, without a failure", self.program.name).into()),
        }
    }

    /// Runs the program on a thread of its own, which is given up if it takes too long.
    fn run(&self, device: &Device) -> End {
        let (device, run) = (device.clone(), self.program.run.clone());
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let end = match catch_unwind(AssertUnwindSafe(|| run(&device))) {
                Ok(Ok(bytes)) => End::Bytes(bytes),
                Ok(Err(error)) => End::Error(error.to_string()),
                Err(panic) => {
                    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                    End::Panicked(text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_default())
                }
            };
            drop(device);
            // Nobody listens any more if it took too long.
            let _ = sender.send(end);
        });
        match receiver.recv_timeout(self.patience.run) {
            Ok(end) => {
                // It has nothing left to do.
                let _ = thread.join();
                end
            }
            Err(RecvTimeoutError::Timeout) => End::Hung,
            Err(RecvTimeoutError::Disconnected) => End::Panicked("the thread ended".into()),
        }
    }
}

fn in_use(device: &Device) -> [usize; 2] {
    [device.memory_stats().in_use, device.pinned_stats().in_use]
}

fn leaked(what: &str, before: &impl fmt::Debug, after: &impl fmt::Debug) -> Outcome {
    Outcome::Leaked(format!("{what}: {before:?} before, {after:?} after"))
}

/// Numbers of calls to try: all of them, or so many of them, spread over all, with the first and the last.
pub fn sample(calls: u64, most: u64) -> Vec<u64> {
    if calls <= most {
        return (1..=calls).collect();
    }
    (0..most).map(|i| 1 + i * (calls - 1) / (most - 1).max(1)).collect()
}

/// Settings under which all kinds of calls are made, whatever the environment says: gathered launches are submitted
/// together, and memory comes from the arena, because an allocation whose last wait failed is left to the driver.
pub fn settings() -> Result<Options> {
    Ok(Options { chains: true, pooling: Pooling::Arena, ..Options::from_env()? })
}

/// Runs a program on the emulated device with a sample of failures of each kind.
///
/// # Panics
/// If the outcome of one is not an error that names it, or the right bytes.
pub fn check(program: &Program, most: u64) {
    let options = settings().unwrap_or_else(|error| panic!("{error}"));
    let injection = Injection::over(Selector::Emulated(0), options).unwrap_or_else(|error| panic!("{error}"));
    for moment in Moment::ALL {
        let mut sweep = Sweep::new(&injection, program, moment, Patience::default())
            .unwrap_or_else(|error| panic!("{}: {error}", program.name));
        let mut told = Vec::new();
        for call in Call::ALL {
            for number in sample(sweep.calls().of(call), most) {
                let outcome = sweep.fail(call, number);
                let at = format!("{}, {moment} run, call {number} of kind {call}", program.name);
                if !outcome.is_good() {
                    told.push(format!("{at}: {outcome}"));
                }
            }
        }
        println!("{}, {moment} run: {:?}", program.name, sweep.calls());
        told.extend(Some(sweep.close()).filter(|end| !end.is_good()).map(|end| end.to_string()));
        assert!(told.is_empty(), "{}", told.join("\n"));
    }
}
