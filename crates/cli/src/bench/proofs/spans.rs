//! Upstream's phases, from its tracing spans.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Milliseconds in each of our phases, in order of their first end.
pub type Phases = Vec<(&'static str, f64)>;

/// Runs `work` on this thread and sums the time of upstream's spans by our phases.
pub fn collect<R>(dialect: Dialect, work: impl FnOnce() -> R) -> (R, Phases) {
    let state = Arc::new(Mutex::new(State::default()));
    let result = tracing::subscriber::with_default(Collector { dialect, state: state.clone() }, work);
    let phases = std::mem::take(&mut state.lock().expect("no span panics").sums);
    (result, phases)
}

/// How to read the spans of one upstream prover.
#[derive(Clone, Copy)]
pub struct Dialect {
    /// The prefix of the targets of its spans.
    pub target: &'static str,
    /// Our phase to which a span's own time belongs, by its name and those around it, outermost first.
    pub phase: fn(&[&str]) -> &'static str,
}

struct Collector {
    dialect: Dialect,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    names: Vec<&'static str>,
    open: Vec<Open>,
    sums: Phases,
}

/// A span that was entered.
struct Open {
    name: &'static str,
    since: Instant,
    /// The time in nested spans.
    within: f64,
}

impl State {
    fn exit(&mut self, dialect: Dialect) {
        let path: Vec<&str> = self.open.iter().map(|open| open.name).collect();
        let phase = (dialect.phase)(&path);
        let Some(open) = self.open.pop() else { return };
        let milliseconds = open.since.elapsed().as_secs_f64() * 1e3;
        if let Some(around) = self.open.last_mut() {
            around.within += milliseconds;
        }
        let own = milliseconds - open.within;
        match self.sums.iter_mut().find(|(name, _)| *name == phase) {
            Some((_, sum)) => *sum += own,
            None => self.sums.push((phase, own)),
        }
    }
}

impl Collector {
    fn with(&self, act: impl FnOnce(&mut State)) {
        act(&mut self.state.lock().expect("no span panics"));
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with(self.dialect.target)
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut number = 0;
        self.with(|state| {
            state.names.push(attributes.metadata().name());
            number = state.names.len() as u64;
        });
        Id::from_u64(number)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, span: &Id) {
        self.with(|state| {
            let name = state.names[span.into_u64() as usize - 1];
            state.open.push(Open { name, since: Instant::now(), within: 0.0 });
        });
    }

    fn exit(&self, _: &Id) {
        self.with(|state| state.exit(self.dialect));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_within_is_counted_once() {
        fn phase(path: &[&str]) -> &'static str {
            match path {
                [.., "build merkle tree"] => "hash",
                _ => "extend",
            }
        }
        let ((), phases) = collect(Dialect { target: "p3_", phase }, || {
            let _outer = tracing::info_span!(target: "p3_test", "commit to trace data").entered();
            let _inner = tracing::debug_span!(target: "p3_test", "build merkle tree").entered();
            let _foreign = tracing::info_span!(target: "rigel", "open").entered();
        });
        let names: Vec<&str> = phases.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["hash", "extend"]);
        assert!(phases.iter().all(|(_, ms)| *ms >= 0.0));
    }
}
