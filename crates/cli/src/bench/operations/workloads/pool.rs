//! Memory pools in a steady workload: after the first round there are no driver allocations.

use rigel_gpu::{PoolStats, Result, Stream};
use rigel_kernels::Matrix;
use rigel_kernels::field::{Field, KoalaBear};
use rigel_kernels::transform::ntt::{self, Order};

use crate::bandwidth::wall;
use crate::bench::Size;
use crate::bench::operations::measure::{Bar, Bench, Case, Figures};

const ROUNDS: usize = 20;

pub fn cases(size: Size) -> Vec<Case> {
    let (log_rows, columns) = size.pick((18, 32), (8, 2));
    let case = |name: &str, unit: &'static str, bar: Bar, figure: fn(&Steady) -> f64| {
        let shape = format!("{ROUNDS} rounds, 2^{log_rows} x {columns}");
        Case::new(name, shape, move |bench| {
            let steady = Steady::reach(bench, 1 << log_rows, columns)?;
            Ok(Figures::new(steady.milliseconds, figure(&steady), unit).bar(bar))
        })
    };
    vec![
        case("device pool hits", "%", Bar::AtLeast(99.0), |steady| hits(&steady.device)),
        case("pinned pool hits", "%", Bar::AtLeast(80.0), |steady| hits(&steady.pinned)),
        case("driver allocations", "calls", Bar::AtMost(0.0), |steady| {
            driver_calls(&steady.device) + driver_calls(&steady.pinned)
        }),
    ]
}

fn hits([before, after]: &[PoolStats; 2]) -> f64 {
    100.0 * after.hit_rate_since(before)
}

fn driver_calls([before, after]: &[PoolStats; 2]) -> f64 {
    (after.driver_calls - before.driver_calls) as f64
}

/// A workload after its first round.
struct Steady {
    /// Time of one round.
    milliseconds: f64,
    /// The device pool before and after the rounds.
    device: [PoolStats; 2],
    /// The pinned pool before and after the rounds.
    pinned: [PoolStats; 2],
}

impl Steady {
    fn reach(bench: &Bench, rows: usize, columns: usize) -> Result<Self> {
        let stream = &bench.stream;
        let trace = bench.random_matrix::<KoalaBear>(rows, columns)?.to_vec(stream)?;
        round(stream, &trace, rows)?;
        let stats = || (bench.device().memory_stats(), bench.device().pinned_stats());
        let (device, pinned) = stats();
        let milliseconds = wall(stream, || (0..ROUNDS).try_for_each(|_| round(stream, &trace, rows)))?;
        let (device_after, pinned_after) = stats();
        Ok(Self {
            milliseconds: milliseconds / ROUNDS as f64,
            device: [device, device_after],
            pinned: [pinned, pinned_after],
        })
    }
}

/// Two uploads, an extension of each, a download.
fn round(stream: &Stream, trace: &[KoalaBear], rows: usize) -> Result<()> {
    let extended = [trace, trace].map(|trace| {
        let matrix = Matrix::upload(stream, trace, rows)?;
        ntt::extend(stream, &matrix, 1, KoalaBear::GENERATOR, Order::Natural, Order::BitReversed)
    });
    let [first, second] = extended;
    first?;
    second?.to_vec(stream).map(drop)
}
