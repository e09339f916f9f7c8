//! The process that reads the inputs, which may end it.

use std::io::Write;
use std::panic::{Location, catch_unwind, set_hook};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::state::{Kind, Outcome, State};
use super::{Trouble, cache, files, frames};
use crate::Failure;

/// The inputs that others are made of.
struct Originals {
    files: files::Originals,
    frames: frames::Originals,
    cache: cache::Originals,
}

impl Originals {
    fn new(files: files::Originals) -> Result<Self, Failure> {
        Ok(Self { files, frames: frames::Originals::new()?, cache: cache::Originals::new() })
    }

    /// Makes an input and has it read.
    fn read(&self, seed: u64, number: u64) -> (Outcome, String) {
        // Other inputs for another seed, not the same ones in another order.
        let mut rng = SmallRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        let work = || match Kind::of(number) {
            Kind::ProofFiles => self.files.read(&mut rng),
            Kind::Frames => self.frames.read(&mut rng),
            Kind::CacheEntries => self.cache.read(&mut rng),
        };
        match catch_unwind(std::panic::AssertUnwindSafe(work)) {
            Ok((Outcome::UpstreamPanicked, detail)) if is_ours() => (Outcome::Panicked, detail),
            Ok(read) => read,
            Err(_) => (Outcome::Panicked, "the reader panicked".into()),
        }
    }
}

/// The position of the last panic in the source.
static PANICKED: Mutex<String> = Mutex::new(String::new());
/// Whether panics are printed.
static LOUD: AtomicBool = AtomicBool::new(false);

fn place() -> String {
    PANICKED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}

/// Whether the last panic was in Rigel's own code: other crates are in folders of a registry or of the toolchain.
fn is_ours() -> bool {
    let place = place();
    !place.contains("/registry/") && !place.contains("/rustc/") && !place.contains("/git/checkouts/")
}

/// Remembers where panics are, and prints them only if asked to: upstream's verifiers panic often.
fn watch_panics() {
    set_hook(Box::new(|info| {
        let place = info.location().map(Location::to_string).unwrap_or_default();
        if LOUD.load(Ordering::Relaxed) {
            eprintln!("{info}\n{}", std::backtrace::Backtrace::force_capture());
        }
        *PANICKED.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = place;
    }));
}

/// The file in which a child describes what it has found.
pub fn findings(folder: &Path, index: u64) -> PathBuf {
    folder.join(format!("{index}.findings"))
}

/// Reads the share of the inputs that the state names.
pub fn run(folder: &Path, index: u64, trouble: Trouble) -> Result<bool, Failure> {
    watch_panics();
    let originals = Originals::new(files::Originals::load(folder)?)?;
    let mut state = State::read(folder, index)?;
    let file = State::open(folder, index)?;
    let mut described = std::fs::File::options().create(true).append(true).open(findings(folder, index))?;
    while state.next < state.count {
        state.begin();
        state.write_to(&file)?;
        trouble.make(state.next);
        let (outcome, detail) = originals.read(state.seed, state.next);
        if outcome.is_finding() {
            let (number, kind, place) = (state.next, state.kind().name(), place());
            let place = if outcome == Outcome::Panicked { format!(" at {place}") } else { String::new() };
            writeln!(described, "input {number} of {kind}: {}{place}: {detail}", outcome.name())?;
        }
        state.finish(outcome);
    }
    state.write_to(&file)?;
    Ok(true)
}

/// Reads one input and says what became of it.
pub fn only(seed: u64, number: u64) -> Result<bool, Failure> {
    let originals = Originals::new(files::Originals::make()?)?;
    watch_panics();
    LOUD.store(true, Ordering::Relaxed);
    let (outcome, detail) = originals.read(seed, number);
    println!("input {number} of {}: {}: {detail}", Kind::of(number).name(), outcome.name());
    Ok(!outcome.is_finding())
}
