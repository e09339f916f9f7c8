//! Upstream's phases, from its tracing spans.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde::Serialize;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Milliseconds in each of our phases, in order of their first end.
pub type Phases = Vec<(&'static str, f64)>;

/// A time in which upstream was in one of our phases, in milliseconds after the start of the work.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Segment {
    pub name: &'static str,
    pub start_ms: f64,
    pub ms: f64,
}

/// Runs `work` on this thread and notes upstream's spans as our phases, each time in the innermost one.
pub fn collect<R>(dialect: Dialect, work: impl FnOnce() -> R) -> (R, Vec<Segment>) {
    let state = Arc::new(Mutex::new(State::new()));
    let result = tracing::subscriber::with_default(Collector { dialect, state: state.clone() }, work);
    let segments = std::mem::take(&mut state.lock().expect("no span panics").segments);
    (result, segments)
}

/// The sums of the segments by phase.
pub fn sums(segments: &[Segment]) -> Phases {
    let mut sums = Phases::new();
    for segment in segments {
        match sums.iter_mut().find(|(name, _)| *name == segment.name) {
            Some((_, sum)) => *sum += segment.ms,
            None => sums.push((segment.name, segment.ms)),
        }
    }
    sums
}

/// The rules by which the spans of one upstream prover are read.
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

struct State {
    began: Instant,
    /// The time of the last change of the innermost span, in milliseconds.
    changed: f64,
    names: Vec<&'static str>,
    open: Vec<&'static str>,
    segments: Vec<Segment>,
}

impl State {
    fn new() -> Self {
        Self { began: Instant::now(), changed: 0.0, names: Vec::new(), open: Vec::new(), segments: Vec::new() }
    }

    /// The time since the last change belongs to the innermost span. Neighbours of one phase are one segment.
    fn change(&mut self, dialect: Dialect) {
        let now = self.began.elapsed().as_secs_f64() * 1e3;
        let start_ms = std::mem::replace(&mut self.changed, now);
        if self.open.is_empty() {
            return;
        }
        let name = (dialect.phase)(&self.open);
        let ms = now - start_ms;
        match self.segments.last_mut() {
            Some(last) if last.name == name && start_ms - (last.start_ms + last.ms) < 1e-6 => last.ms += ms,
            _ => self.segments.push(Segment { name, start_ms, ms }),
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
            state.change(self.dialect);
            let name = state.names[span.into_u64() as usize - 1];
            state.open.push(name);
        });
    }

    fn exit(&self, _: &Id) {
        self.with(|state| {
            state.change(self.dialect);
            state.open.pop();
        });
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
        let ((), segments) = collect(Dialect { target: "p3_", phase }, || {
            let _outer = tracing::info_span!(target: "p3_test", "commit to trace data").entered();
            let _inner = tracing::debug_span!(target: "p3_test", "build merkle tree").entered();
            let _foreign = tracing::info_span!(target: "rigel", "open").entered();
        });
        let names: Vec<&str> = segments.iter().map(|segment| segment.name).collect();
        assert_eq!(names, ["extend", "hash", "extend"]);
        assert!(segments.is_sorted_by(|a, b| a.start_ms + a.ms <= b.start_ms + 1e-6));
        let sums = sums(&segments);
        assert_eq!(sums.len(), 2);
        let total = segments[2].start_ms + segments[2].ms - segments[0].start_ms;
        assert!((sums[0].1 + sums[1].1 - total).abs() < 1e-6, "{sums:?} do not add up to {total}");
    }
}
