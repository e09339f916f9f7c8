//! Launch shapes.

use crate::base::{Error, Properties, Result};
use crate::drivers::{Function, Grid};

/// The shape of a launch: blocks of threads, and dynamic shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks along x, y and z.
    pub blocks: [u32; 3],
    /// Threads per block along x, y and z.
    pub threads: [u32; 3],
    /// Dynamic shared memory per block, in bytes.
    pub shared: u32,
}

impl Shape {
    /// A one-dimensional grid: `blocks` blocks of `threads` threads.
    pub fn new(blocks: u32, threads: u32) -> Self {
        Self { blocks: [blocks, 1, 1], threads: [threads, 1, 1], shared: 0 }
    }

    /// One thread for each of `items`, in blocks of `threads`.
    pub fn cover(items: usize, threads: u32) -> Result<Self> {
        let blocks = items.div_ceil(threads.max(1) as usize);
        let blocks = u32::try_from(blocks).ok().filter(|&b| b <= MAX_BLOCKS[0]).ok_or_else(|| {
            Error::shape("Shape::cover", format!("{items} items are too many for blocks of {threads} threads"))
        })?;
        Ok(Self::new(blocks, threads))
    }

    /// Replaces the block by a one-dimensional one of `threads` threads.
    pub fn threads(mut self, threads: u32) -> Self {
        self.threads = [threads, 1, 1];
        self
    }

    /// Sets the number of blocks along y to `rows`.
    pub fn rows(mut self, rows: u32) -> Self {
        self.blocks[1] = rows;
        self
    }

    /// Sets the dynamic shared memory per block to `bytes`.
    pub fn shared(mut self, bytes: u32) -> Self {
        self.shared = bytes;
        self
    }

    pub(crate) fn grid(self) -> Grid {
        Grid { blocks: self.blocks, threads: self.threads, shared: self.shared }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.blocks.contains(&0)
    }

    /// Checks the device's limits, for error messages that are more precise than the driver's.
    pub(crate) fn check(self, kernel: &str, function: &Function, properties: &Properties) -> Result<()> {
        let threads = self.threads.iter().fold(1u64, |product, &n| product.saturating_mul(u64::from(n)));
        let shared = u64::from(self.shared) + u64::from(function.static_shared);
        let detail = if threads == 0 {
            "a block has no threads".to_string()
        } else if threads > u64::from(function.max_threads) {
            format!("a block has {threads} threads; the maximum for this kernel is {}", function.max_threads)
        } else if let Some(axis) = (0..3).find(|&axis| self.threads[axis] > MAX_THREADS[axis]) {
            format!("{} threads along axis {axis}; the maximum is {}", self.threads[axis], MAX_THREADS[axis])
        } else if let Some(axis) = (0..3).find(|&axis| self.blocks[axis] > MAX_BLOCKS[axis]) {
            format!("{} blocks along axis {axis}; the maximum is {}", self.blocks[axis], MAX_BLOCKS[axis])
        } else if shared > u64::from(properties.max_shared_per_block) {
            format!("{shared} bytes of shared memory per block; maximum: {}", properties.max_shared_per_block)
        } else {
            return Ok(());
        };
        Err(Error::LaunchShape { kernel: kernel.into(), detail })
    }
}

/// Maximum number of blocks along each axis.
const MAX_BLOCKS: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];

/// Maximum number of threads of a block along each axis.
const MAX_THREADS: [u32; 3] = [1024, 1024, 64];

/// The policy by which [`Kernel::cover`](crate::Kernel::cover) picks the number of threads per block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchPolicy {
    /// The result of the driver's occupancy query, which is made once per kernel.
    Occupancy,
    /// Always this many.
    Fixed(u32),
}

impl LaunchPolicy {
    /// `RIGEL_LAUNCH=occupancy` or a number of threads.
    pub fn from_env() -> Result<Self> {
        match std::env::var("RIGEL_LAUNCH") {
            Err(_) => Ok(Self::Occupancy),
            Ok(text) => Self::parse(&text),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        match (text, text.parse()) {
            ("" | "occupancy", _) => Ok(Self::Occupancy),
            (_, Ok(threads)) if (1..=1024).contains(&threads) => Ok(Self::Fixed(threads)),
            _ => Err(Error::shape(
                "RIGEL_LAUNCH",
                format!("{text:?} is neither `occupancy` nor a number of threads from 1 to 1024"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_round_up() {
        assert_eq!(Shape::cover(0, 256).unwrap().blocks[0], 0);
        assert_eq!(Shape::cover(1, 256).unwrap().blocks[0], 1);
        assert_eq!(Shape::cover(257, 256).unwrap().blocks[0], 2);
        assert!(Shape::cover(usize::MAX, 1).is_err());
    }

    #[test]
    fn policies_are_read() {
        assert_eq!(LaunchPolicy::parse("occupancy").unwrap(), LaunchPolicy::Occupancy);
        assert_eq!(LaunchPolicy::parse("256").unwrap(), LaunchPolicy::Fixed(256));
        assert!(LaunchPolicy::parse("2000").is_err());
        assert!(LaunchPolicy::parse("many").is_err());
    }
}
