//! One measurement: the minimum cost of an operation, its time, and whether that meets its bar.

use std::ops::{Add, Mul};

use rigel_gpu::{Buffer, Device, DeviceKind, Result, Selector, Stream};
use rigel_kernels::Matrix;
use rigel_kernels::field::Field;
use serde::Serialize;

use super::ceilings::Ceilings;
use super::random::Random;
use crate::bandwidth::{median_of, wall};
use crate::bench::Size;

/// 32-bit integer instructions, by the unit that executes them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Instructions {
    /// Logic, shifts, selections, minima.
    pub logic: f64,
    /// Multiplications, with or without an addend.
    pub multiply: f64,
    /// Additions, which both units can do.
    pub either: f64,
}

impl Instructions {
    pub fn total(self) -> f64 {
        self.logic + self.multiply + self.either
    }
}

impl Add for Instructions {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            logic: self.logic + other.logic,
            multiply: self.multiply + other.multiply,
            either: self.either + other.either,
        }
    }
}

impl Mul<f64> for Instructions {
    type Output = Self;

    fn mul(self, times: f64) -> Self {
        Self { logic: self.logic * times, multiply: self.multiply * times, either: self.either * times }
    }
}

/// The minimum cost of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Bytes of device memory read and written.
    pub bytes: f64,
    pub instructions: Instructions,
}

impl Cost {
    pub fn bytes(bytes: f64) -> Self {
        Self { bytes, instructions: Instructions::default() }
    }

    pub fn instructions(self, instructions: Instructions) -> Self {
        Self { instructions, ..self }
    }
}

/// The target for a measurement.
#[derive(Clone, Copy, Debug)]
pub enum Bar {
    /// A time of at most this many times that of the memory traffic alone.
    TimesMemory(f64),
    /// A bandwidth of at least this share of the device's copy bandwidth.
    ShareOfCopy(f64),
    /// A rate of at least this, in the row's unit.
    AtLeast(f64),
    /// A rate of at most this, in the row's unit.
    AtMost(f64),
}

/// The result of a case.
pub struct Figures {
    pub milliseconds: f64,
    pub cost: Cost,
    pub rate: f64,
    pub unit: &'static str,
    pub bar: Option<Bar>,
}

impl Figures {
    pub fn new(milliseconds: f64, rate: f64, unit: &'static str) -> Self {
        Self { milliseconds, cost: Cost::default(), rate, unit, bar: None }
    }

    pub fn bar(self, bar: impl Into<Option<Bar>>) -> Self {
        Self { bar: bar.into(), ..self }
    }
}

/// The function that measures a case.
type Run = dyn FnOnce(&Bench) -> Result<Figures>;

/// A measurement that can be selected.
pub struct Case {
    pub name: String,
    pub shape: String,
    run: Box<Run>,
}

impl Case {
    pub fn new(
        name: impl Into<String>,
        shape: impl Into<String>,
        run: impl FnOnce(&Bench) -> Result<Figures> + 'static,
    ) -> Self {
        Self { name: name.into(), shape: shape.into(), run: Box::new(run) }
    }

    /// Measures it. An error is recorded in the row, and the other cases are still measured.
    pub fn run(self, bench: &Bench) -> Row {
        let figures = (self.run)(bench);
        Row::new(self.name, self.shape, figures, &bench.ceilings, bench.judges())
    }
}

/// A row of the report.
#[derive(Serialize)]
pub struct Row {
    pub name: String,
    pub shape: String,
    /// Median time.
    pub milliseconds: Option<f64>,
    /// The minimum time that the device's measured ceilings allow.
    pub floor_milliseconds: Option<f64>,
    /// The ceiling that determines the floor: `memory`, `logic`, `multiply` or, for both units together,
    /// `integer`.
    pub bound: Option<&'static str>,
    /// Time divided by floor.
    pub ratio: Option<f64>,
    pub rate: Option<f64>,
    pub unit: Option<&'static str>,
    /// The bar, as text.
    pub bar: Option<String>,
    /// Whether it is met; `None` if there is no bar, or it does not apply to this device or size.
    pub pass: Option<bool>,
    /// Bytes of device memory counted in the floor.
    pub bytes: f64,
    /// 32-bit integer instructions counted in the floor.
    pub instructions: f64,
    /// The error, if the measurement failed.
    pub error: Option<String>,
}

impl Row {
    fn new(name: String, shape: String, figures: Result<Figures>, ceilings: &Ceilings, judged: bool) -> Self {
        let empty = Self {
            name,
            shape,
            milliseconds: None,
            floor_milliseconds: None,
            bound: None,
            ratio: None,
            rate: None,
            unit: None,
            bar: None,
            pass: None,
            bytes: 0.0,
            instructions: 0.0,
            error: None,
        };
        let figures = match figures {
            Ok(figures) => figures,
            Err(error) => return Self { error: Some(error.to_string()), ..empty },
        };
        let Figures { milliseconds, cost, rate, unit, bar } = figures;
        let memory = ceilings.memory_milliseconds(cost.bytes);
        let floor = ceilings.floor(&cost);
        let (words, pass) = match bar {
            None => (None, None),
            Some(Bar::TimesMemory(most)) => {
                (Some(format!("≤ {most}× memory")), Some(milliseconds <= most * memory))
            }
            Some(Bar::ShareOfCopy(share)) => {
                (Some(format!("≥ {:.0}% of copy", share * 100.0)), Some(memory >= share * milliseconds))
            }
            Some(Bar::AtLeast(least)) => (Some(format!("≥ {least}")), Some(rate >= least)),
            Some(Bar::AtMost(most)) => (Some(format!("≤ {most}")), Some(rate <= most)),
        };
        Self {
            milliseconds: Some(milliseconds),
            floor_milliseconds: floor.map(|(floor, _)| floor),
            bound: floor.map(|(_, bound)| bound),
            ratio: floor.map(|(floor, _)| milliseconds / floor),
            rate: Some(rate),
            unit: Some(unit),
            bar: words,
            pass: pass.filter(|_| judged),
            bytes: cost.bytes,
            instructions: cost.instructions.total(),
            ..empty
        }
    }
}

/// The environment in which cases run.
pub struct Bench {
    pub stream: Stream,
    /// The device's selector, to open it again.
    pub selector: Selector,
    pub size: Size,
    pub repeat: usize,
    pub ceilings: Ceilings,
    random: Random,
}

impl Bench {
    /// Opens the device's stream and measures its ceilings.
    pub fn new(device: &Device, selector: Selector, size: Size, repeat: usize) -> Result<Self> {
        let stream = device.compute()?;
        let random = Random::new(device)?;
        let ceilings = Ceilings::measure(&stream, size, repeat)?;
        Ok(Self { stream, selector, size, repeat, ceilings, random })
    }

    pub fn device(&self) -> &Device {
        self.stream.device()
    }

    /// Whether bars apply: they are defined for a GPU at full size.
    fn judges(&self) -> bool {
        self.device().kind() == DeviceKind::Cuda && self.size == Size::Full
    }

    /// Random field elements on the device.
    pub fn random<F: Field>(&self, len: usize) -> Result<Buffer<F>> {
        self.random.elements(&self.stream, len)
    }

    /// A matrix of random field elements on the device.
    pub fn random_matrix<F: Field>(&self, rows: usize, columns: usize) -> Result<Matrix<F>> {
        Matrix::new(self.random(rows * columns)?, rows, columns)
    }

    /// Random row indices on the device.
    pub fn random_indices(&self, len: usize, rows: usize) -> Result<Buffer<u32>> {
        self.random.indices(&self.stream, len, rows as u64)
    }

    /// Median milliseconds of `work` by the device's clock.
    pub fn device_time(&self, mut work: impl FnMut(&Stream) -> Result<()>) -> Result<f64> {
        // Compiled once, not for each of the many closures.
        fn time(bench: &Bench, work: &mut dyn FnMut(&Stream) -> Result<()>) -> Result<f64> {
            // The first run compiles; the second, in `median_of`, fills the pools.
            work(&bench.stream)?;
            median_of(bench.repeat, || Ok(f64::from(bench.stream.time(|| work(&bench.stream))?.1)))
        }
        time(self, &mut work)
    }

    /// Median milliseconds by the host's clock until `work` is done.
    pub fn wall_time(&self, mut work: impl FnMut(&Stream) -> Result<()>) -> Result<f64> {
        work(&self.stream)?;
        median_of(self.repeat, || wall(&self.stream, || work(&self.stream)))
    }

    /// Times `work` and rates it as `amount` billions in `unit`, which is per second.
    pub fn measure(
        &self,
        cost: Cost,
        amount: f64,
        unit: &'static str,
        work: impl FnMut(&Stream) -> Result<()>,
    ) -> Result<Figures> {
        let milliseconds = self.device_time(work)?;
        Ok(Figures { cost, ..Figures::new(milliseconds, amount / milliseconds / 1e6, unit) })
    }

    /// Times `work` and rates it by the bytes counted in its cost.
    pub fn measure_bandwidth(&self, cost: Cost, work: impl FnMut(&Stream) -> Result<()>) -> Result<Figures> {
        self.measure(cost, cost.bytes, "GB/s", work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CEILINGS: Ceilings =
        Ceilings { copy_gigabytes_per_second: 1000.0, logic_per_second: 1e12, multiply_per_second: 5e11 };

    fn row(figures: Figures) -> Row {
        Row::new("n".into(), "s".into(), Ok(figures), &CEILINGS, true)
    }

    #[test]
    fn the_slowest_part_sets_the_floor() {
        let cost = Cost::bytes(1e9).instructions(Instructions { logic: 5e8, multiply: 1e9, either: 0.0 });
        let found = row(Figures { cost, ..Figures::new(4.0, 1.0, "GB/s") });
        assert_eq!((found.floor_milliseconds, found.bound, found.ratio), (Some(2.0), Some("multiply"), Some(2.0)));
        let cost = Cost::bytes(1e9).instructions(Instructions { logic: 5e8, multiply: 1e9, either: 4.5e9 });
        let found = row(Figures { cost, ..Figures::new(4.0, 1.0, "GB/s") });
        assert_eq!((found.floor_milliseconds, found.bound), (Some(4.0), Some("integer")));
        let found = row(Figures { cost: Cost::bytes(1e9), ..Figures::new(4.0, 1.0, "GB/s") });
        assert_eq!((found.floor_milliseconds, found.bound), (Some(1.0), Some("memory")));
        assert_eq!(row(Figures::new(4.0, 1.0, "GB/s")).floor_milliseconds, None);
    }

    #[test]
    fn bars_are_judged_at_their_edge() {
        let cost = Cost::bytes(1e9);
        let judge = |bar| row(Figures { cost, ..Figures::new(2.0, 10.0, "GB/s") }.bar(bar)).pass;
        assert_eq!(judge(Bar::TimesMemory(2.0)), Some(true));
        assert_eq!(judge(Bar::TimesMemory(1.9)), Some(false));
        assert_eq!(judge(Bar::ShareOfCopy(0.5)), Some(true));
        assert_eq!(judge(Bar::ShareOfCopy(0.51)), Some(false));
        assert_eq!(judge(Bar::AtLeast(10.0)), Some(true));
        assert_eq!(judge(Bar::AtMost(9.0)), Some(false));
    }
}
