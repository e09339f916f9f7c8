//! Copies between host and device, and copies behind kernels.

use std::time::Instant;

use rigel_gpu::{Bytes, Result};

use crate::bandwidth::{Way, median_of, milliseconds};
use crate::bench::Size;
use crate::bench::operations::ceilings::Chains;
use crate::bench::operations::measure::{Bar, Bench, Case, Figures};

pub fn cases(size: Size) -> Vec<Case> {
    let bytes = size.pick(1 << 30, 4 << 20);
    vec![
        copy(Way::OrdinaryUp, bytes, Some(Bar::AtLeast(20.0))),
        copy(Way::PinnedUp, bytes, Some(Bar::AtLeast(50.0))),
        copy(Way::OrdinaryDown, bytes, None),
        copy(Way::PinnedDown, bytes, None),
        Case::new("upload beside a kernel", Bytes(bytes / 2).to_string(), move |bench| overlap(bench, bytes / 2)),
    ]
}

fn copy(way: Way, bytes: usize, bar: Option<Bar>) -> Case {
    Case::new(way.name(), Bytes(bytes).to_string(), move |bench| {
        let milliseconds = milliseconds(&bench.stream, way, bytes, bench.repeat)?;
        Ok(Figures { bar, ..Figures::new(milliseconds, way.traffic(bytes) / milliseconds / 1e6, "GB/s") })
    })
}

/// A pinned upload on its lane while a kernel of the same duration runs: the time of both together, as a share of
/// the sum of their times. Half is perfect.
fn overlap(bench: &Bench, bytes: usize) -> Result<Figures> {
    let lane = bench.device().upload_lane()?;
    let compute = &bench.stream;
    let mut host = bench.device().pinned::<u8>(bytes)?;
    let mut target = lane.alloc::<u8>(bytes)?;
    let kernel = Chains::new(compute)?.multiply;
    let upload = milliseconds(&lane, Way::PinnedUp, bytes, bench.repeat)?;
    let steps = bench.size.pick(1024, 16);
    let sample = bench.device_time(|stream| Chains::launch(stream, &kernel, steps).map(drop))?;
    let steps = (f64::from(steps) * upload / sample).clamp(1.0, 1e9) as u32;
    let alone = bench.wall_time(|stream| Chains::launch(stream, &kernel, steps).map(drop))?;
    let together = median_of(bench.repeat, || {
        bench.device().synchronize()?;
        let start = Instant::now();
        Chains::launch(compute, &kernel, steps)?;
        lane.write_pinned(&mut target, &mut host)?;
        bench.device().synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    })?;
    Ok(Figures::new(together, 100.0 * together / (upload + alone), "% of the sum"))
}
