//! Copy bandwidth: within the device, to it and from it.

use std::time::Instant;

use rigel_gpu::{Result, Stream};

/// A direction and kind of copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Device memory to the same device's memory; each byte is read and written.
    Within,
    /// Page-locked host memory to the device.
    PinnedUp,
    /// Ordinary host memory to the device, through the pool of pinned blocks.
    OrdinaryUp,
    /// The device to page-locked host memory.
    PinnedDown,
    /// The device to ordinary host memory, through the pool of pinned blocks.
    OrdinaryDown,
}

impl Way {
    pub const ALL: [Self; 5] =
        [Self::Within, Self::PinnedUp, Self::OrdinaryUp, Self::PinnedDown, Self::OrdinaryDown];

    pub fn name(self) -> &'static str {
        match self {
            Self::Within => "device copy",
            Self::PinnedUp => "upload, pinned memory",
            Self::OrdinaryUp => "upload, ordinary memory",
            Self::PinnedDown => "download, pinned memory",
            Self::OrdinaryDown => "download, ordinary memory",
        }
    }

    /// Bytes of memory traffic caused by a copy of `bytes`.
    pub fn traffic(self, bytes: usize) -> f64 {
        if self == Self::Within { 2.0 * bytes as f64 } else { bytes as f64 }
    }
}

/// Median milliseconds of `rounds` copies of `bytes`, after one warm-up copy.
pub fn milliseconds(stream: &Stream, way: Way, bytes: usize, rounds: usize) -> Result<f64> {
    let words = bytes / size_of::<u64>();
    let mut device = stream.zeros::<u64>(words)?;
    match way {
        Way::Within => {
            let mut target = stream.alloc::<u64>(words)?;
            let copy = || Ok(f64::from(stream.time(|| stream.copy(&mut target, &device))?.1));
            median_of(rounds, copy)
        }
        Way::PinnedUp | Way::PinnedDown => {
            let mut host = stream.device().pinned::<u64>(words)?;
            host.slice()?.fill(PATTERN);
            median_of(rounds, || {
                wall(stream, || match way {
                    Way::PinnedUp => stream.write_pinned(&mut device, &mut host),
                    _ => stream.read_pinned(&device, &mut host),
                })
            })
        }
        Way::OrdinaryUp | Way::OrdinaryDown => {
            let mut host = vec![PATTERN; words];
            median_of(rounds, || {
                wall(stream, || match way {
                    Way::OrdinaryUp => stream.write(&mut device, &host),
                    _ => stream.read(&device, &mut host),
                })
            })
        }
    }
}

/// Written to host memory first, so that its pages are resident.
const PATTERN: u64 = 0x0123_4567_89ab_cdef;

/// Milliseconds by the host's clock until the stream has finished `work`.
pub fn wall(stream: &Stream, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    stream.synchronize()?;
    let start = Instant::now();
    work()?;
    stream.synchronize()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// The median of `rounds` measurements, after one warm-up.
pub fn median_of(rounds: usize, mut measure: impl FnMut() -> Result<f64>) -> Result<f64> {
    measure()?;
    let mut times = (0..rounds.max(1)).map(|_| measure()).collect::<Result<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    let median = if times.len() % 2 == 1 { times[middle] } else { (times[middle - 1] + times[middle]) / 2.0 };
    // The clock has a finite resolution; no measurement may be zero.
    Ok(median.max(1e-6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_leaves_out_the_first() {
        let mut times = [100.0, 3.0, 1.0, 2.0, 9.0].into_iter();
        assert_eq!(median_of(3, || Ok(times.next().unwrap())).unwrap(), 2.0);
        let mut times = [100.0, 1.0, 3.0].into_iter();
        assert_eq!(median_of(2, || Ok(times.next().unwrap())).unwrap(), 2.0);
    }
}
