//! Compiling every kernel, and loading them all from the cache.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use rigel_gpu::{Device, Options, Result};

use crate::bench::operations::measure::{Bar, Bench, Case, Figures};

pub fn cases() -> Vec<Case> {
    let cache = Rc::new(Folder::new());
    let filled = cache.clone();
    vec![
        Case::new("compile all kernels", "empty cache", move |bench| {
            let seconds = warm_up(bench, &cache)?;
            Ok(Figures::new(1e3 * seconds, seconds, "s").bar(Bar::AtMost(60.0)))
        }),
        Case::new("load all kernels", "filled cache", move |bench| {
            if !filled.0.exists() {
                warm_up(bench, &filled)?;
            }
            let seconds = warm_up(bench, &filled)?;
            Ok(Figures::new(1e3 * seconds, seconds, "s").bar(Bar::AtMost(0.2)))
        }),
    ]
}

/// Seconds until a newly opened device with this cache has every kernel.
fn warm_up(bench: &Bench, cache: &Folder) -> Result<f64> {
    let options = Options { cache: Some(cache.0.clone()), ..Options::from_env()? };
    let device = Device::open_with(bench.selector, options)?;
    let start = Instant::now();
    let warmed = rigel_kernels::warm(&device);
    let seconds = start.elapsed().as_secs_f64();
    warmed.map(|_| seconds)
}

/// A temporary folder, created on first write.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("rigel-bench-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
