//! The progress of a command, shown while it works.

use std::io::{self, IsTerminal, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The line is painted this often, so that its clock goes on while the work says nothing.
const INTERVAL: Duration = Duration::from_millis(250);

/// A step shows its clock and its bar after this time.
const PATIENCE: Duration = Duration::from_secs(1);

/// The characters of a full bar.
const BAR: usize = 24;

/// A line on standard error, if it is a terminal: what is done now, how much of it, and for how long. It is erased at
/// the end.
pub struct Progress {
    line: Arc<Line>,
    painter: Option<JoinHandle<()>>,
    /// Whether messages are also written, one per line, if standard error is not a terminal.
    logged: bool,
}

#[derive(Default)]
struct Line {
    step: Mutex<Step>,
    /// Rung when the step changes or ends.
    changed: Condvar,
}

/// The step that is under way.
#[derive(Default)]
struct Step {
    text: String,
    /// Parts that are done, and all of them, if they are counted.
    parts: Option<(u64, u64)>,
    began: Option<Instant>,
    /// Whether the whole work has ended.
    ended: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// A line that only a terminal shows.
    pub fn new() -> Self {
        let line = Arc::<Line>::default();
        let paint = {
            let line = Arc::clone(&line);
            move || line.paint()
        };
        let watched = io::stderr().is_terminal();
        let painter = watched.then(|| std::thread::Builder::new().name("rigel-progress".into()).spawn(paint).ok());
        Self { line, painter: painter.flatten(), logged: false }
    }

    /// Progress in a few steps, which are worth keeping in a log.
    pub fn spoken() -> Self {
        let mut progress = Self::new();
        progress.logged = true;
        progress
    }

    /// Begins a step, whose parts are not counted. With an empty text the line is erased, for others to print.
    pub fn say(&self, text: &str) {
        self.begin(text, None);
        if self.painter.is_none() && self.logged && !text.is_empty() {
            eprintln!("{text}");
        }
    }

    /// Begins part `done` (from 0) of `all`; the bar's clock counts from the first.
    pub fn part(&self, done: u64, all: u64, text: &str) {
        self.begin(text, Some((done, all)));
    }

    fn begin(&self, text: &str, parts: Option<(u64, u64)>) {
        let mut step = self.line.lock();
        let goes_on = parts.is_some() && step.parts.is_some();
        step.began = step.began.filter(|_| goes_on).or_else(|| Some(Instant::now()));
        step.text = text.to_string();
        step.parts = parts;
        if text.is_empty() && self.painter.is_some() {
            erase();
        }
        drop(step);
        self.line.changed.notify_all();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.line.lock().ended = true;
        self.line.changed.notify_all();
        if let Some(painter) = self.painter.take() {
            let _ = painter.join();
        }
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Step> {
        self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Paints until the work has ended, and then erases the line.
    fn paint(&self) {
        let mut step = self.lock();
        while !step.ended {
            let elapsed = step.began.map_or(Duration::ZERO, |began| began.elapsed());
            if !step.text.is_empty() {
                // Without line breaks of the terminal's own: a line that is too long would scroll.
                eprint!("\r\x1b[2K\x1b[?7l{}\x1b[?7h", text(&step.text, step.parts, elapsed));
                let _ = io::stderr().flush();
            }
            step = self.changed.wait_timeout(step, INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
        erase();
    }
}

fn erase() {
    eprint!("\r\x1b[2K");
    let _ = io::stderr().flush();
}

/// The line: `[######------------------]  3/12  keccak 2^17  4 s`.
fn text(text: &str, parts: Option<(u64, u64)>, elapsed: Duration) -> String {
    let short: String = text.chars().take(80).collect();
    if elapsed < PATIENCE || short.is_empty() {
        return short;
    }
    let seconds = elapsed.as_secs();
    match parts {
        None => format!("{short}  {seconds} s"),
        Some((done, all)) => {
            let full = (BAR as u64 * done.min(all)).checked_div(all).unwrap_or(0) as usize;
            let bar = "#".repeat(full) + &"-".repeat(BAR - full);
            format!("[{bar}]  {done}/{all}  {short}  {seconds} s")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_bars_are_for_long_steps() {
        let (short, long) = (Duration::from_millis(900), Duration::from_millis(2_900));
        assert_eq!(text("hashing", None, short), "hashing");
        assert_eq!(text("hashing", None, long), "hashing  2 s");
        assert_eq!(text("hashing", Some((3, 12)), short), "hashing");
        assert_eq!(text("hashing", Some((3, 12)), long), "[######------------------]  3/12  hashing  2 s");
        assert_eq!(text("", Some((3, 12)), long), "");
    }

    #[test]
    fn bars_stay_within_their_ends() {
        let long = Duration::from_secs(5);
        for (done, all, filled) in [(0, 0, 0), (0, 7, 0), (7, 7, BAR), (9, 7, BAR), (u64::MAX / 24, u64::MAX, 0)] {
            let line = text("x", Some((done, all)), long);
            assert_eq!(line.matches('#').count(), filled, "{line}");
        }
    }

    #[test]
    fn the_clock_of_counted_parts_goes_on() {
        let progress = Progress::new();
        progress.part(0, 2, "a");
        let began = progress.line.lock().began;
        std::thread::sleep(Duration::from_millis(2));
        progress.part(1, 2, "b");
        assert_eq!(progress.line.lock().began, began);
        progress.say("c");
        assert_ne!(progress.line.lock().began, began);
    }
}
