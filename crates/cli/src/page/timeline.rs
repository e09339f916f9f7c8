//! The timeline of a proof as SVG: its phases in lanes, the device's memory below them, and the totals of several
//! provers on one scale above.
//!
//! The picture carries its own style, so that it is the same in a page and as a file.

use std::fmt::Write;

use rigel_gpu::{Bytes, Report};

use super::escape;
use crate::terminal::number;

/// One prover's proof.
pub struct Track<'a> {
    /// The prover and its device.
    pub name: String,
    /// The time from the call to the proof, in milliseconds.
    pub total_ms: f64,
    /// Empty if only the total is known.
    pub spans: Vec<Span<'a>>,
    /// The device memory in use from a time on, in milliseconds and bytes; empty if it is not known.
    pub memory: Vec<(f64, usize)>,
}

/// A phase, in milliseconds.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    pub name: &'a str,
    pub start_ms: f64,
    pub ms: f64,
}

impl Span<'_> {
    fn end_ms(&self) -> f64 {
        self.start_ms + self.ms
    }
}

impl<'a> Track<'a> {
    /// The phases that a device reported.
    pub fn of_report(name: String, report: &'a Report) -> Self {
        let mut memory: Vec<(f64, usize)> =
            report.phases.iter().map(|phase| (phase.start_ms, phase.memory_bytes)).collect();
        memory.sort_by(|a, b| a.0.total_cmp(&b.0));
        let span = |phase: &rigel_gpu::Phase| Span { name: phase.name, start_ms: phase.start_ms, ms: phase.ms };
        Self { name, total_ms: report.total_ms, spans: report.phases.iter().map(span).collect(), memory }
    }
}

const WIDTH: f64 = 1060.0;
const MARGIN: f64 = 20.0;
/// The widths of names at the left of bars, and of figures at their right.
const NAMES: f64 = 250.0;
const FIGURES: f64 = 90.0;
const BAR: f64 = 22.0;
const LANE: f64 = 26.0;
const MEMORY: f64 = 84.0;
const LINE: f64 = 20.0;

/// Wide enough for the letters of any usual font of 12 pixels.
const LETTER: f64 = 7.4;

const STYLE: &str = "
.timeline { --ink: #1c2430; --soft: #5b6574; --line: #e4e7ec; --page: #ffffff; --fill: #bfdbfe; --edge: #2563eb;
  font: 12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; }
@media (prefers-color-scheme: dark) {
  .timeline { --ink: #e6e9ef; --soft: #a3adbd; --line: #2b3442; --page: #11161d; --fill: #1e3a6e; --edge: #7aa2ff; } }
.timeline .paper { fill: var(--page); }
.timeline text { fill: var(--ink); }
.timeline .head { font-weight: 600; font-size: 13px; }
.timeline .soft { fill: var(--soft); }
.timeline .in { fill: #10151c; }
.timeline .grid { stroke: var(--line); }
.timeline .memory { fill: var(--fill); stroke: var(--edge); stroke-width: 1.2; }
.timeline .p0 { fill: #93c5fd; } .timeline .p1 { fill: #86efac; } .timeline .p2 { fill: #fcd34d; }
.timeline .p3 { fill: #fca5a5; } .timeline .p4 { fill: #c4b5fd; } .timeline .p5 { fill: #67e8f9; }
.timeline .p6 { fill: #f9a8d4; } .timeline .p7 { fill: #bef264; } .timeline .p8 { fill: #fdba74; }
.timeline .p9 { fill: #a5b4fc; } .timeline .p10 { fill: #5eead4; } .timeline .p11 { fill: #f0abfc; }
.timeline .p12 { fill: #d6d3d1; } .timeline .rest { fill: #94a3b8; }
";
const COLOURS: usize = 13;

/// Writing to a string can't fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => {{
        let _ = writeln!($out, $($text)*);
    }};
}

/// The picture of one proof by one or several provers, the first of which is ours.
pub fn svg(title: &str, tracks: &[Track<'_>]) -> String {
    let colours = Colours::of(tracks);
    let (mut body, mut y) = (String::new(), 0.0);
    if tracks.len() > 1 {
        y = totals(&mut body, title, tracks);
    }
    for track in tracks.iter().filter(|track| !track.spans.is_empty()) {
        y = phases(&mut body, track, &colours, y + 12.0);
    }
    let height = y + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"timeline\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
         aria-label=\"{}\">\n<style>{STYLE}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height:.0}\" \
         rx=\"8\"/>\n{body}</svg>\n",
        escape(title)
    )
}

/// A colour for each name, the same in all tracks, in order of appearance.
struct Colours<'a>(Vec<&'a str>);

impl<'a> Colours<'a> {
    fn of(tracks: &[Track<'a>]) -> Self {
        let mut names = Vec::new();
        for span in tracks.iter().flat_map(|track| &track.spans) {
            if !names.contains(&span.name) {
                names.push(span.name);
            }
        }
        Self(names)
    }

    fn class(&self, name: &str) -> String {
        match self.0.iter().position(|known| *known == name) {
            Some(i) if name != "other" => format!("p{}", i % COLOURS),
            _ => "rest".to_string(),
        }
    }
}

/// The title, and a bar for each prover, on one scale. Returns where the next part begins.
fn totals(out: &mut String, title: &str, tracks: &[Track<'_>]) -> f64 {
    let mut y = MARGIN + 14.0;
    put!(out, "<text class=\"head\" x=\"{MARGIN}\" y=\"{y}\">{}</text>", escape(title));
    y += 14.0;
    let longest = tracks.iter().map(|track| track.total_ms).fold(1e-9, f64::max);
    let left = MARGIN + NAMES;
    for (i, track) in tracks.iter().enumerate() {
        let length = (WIDTH - MARGIN - FIGURES - left) * track.total_ms / longest;
        let class = if i == 0 { "p0" } else { "rest" };
        // Longer names would run into their bars; the heading of the phases has them whole.
        let name: String = track.name.chars().take((NAMES / LETTER) as usize).collect();
        put!(out, "<text x=\"{MARGIN}\" y=\"{:.1}\">{}</text>", y + 15.0, escape(&name));
        put!(
            out,
            "<rect class=\"{class}\" x=\"{left}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"3\"/>",
            length.max(1.0)
        );
        put!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\">{} ms</text>",
            left + length + 8.0,
            y + 15.0,
            number(track.total_ms)
        );
        y += LANE;
    }
    y
}

/// A prover's phases, its memory, the axis of time and the legend. Returns where the next part begins.
fn phases(out: &mut String, track: &Track<'_>, colours: &Colours<'_>, mut y: f64) -> f64 {
    let until = track.spans.iter().map(Span::end_ms).fold(track.total_ms, f64::max).max(1e-9);
    let x = |ms: f64| MARGIN + (WIDTH - 2.0 * MARGIN) * ms / until;
    y += 14.0;
    put!(
        out,
        "<text class=\"head\" x=\"{MARGIN}\" y=\"{y:.1}\">{}: {} ms</text>",
        escape(&track.name),
        number(track.total_ms)
    );
    y += 10.0;
    let (lanes, count) = in_lanes(&track.spans, until);
    let bottom = y + LANE * count as f64 + if track.memory.is_empty() { 0.0 } else { MEMORY + 26.0 };
    axis(out, until, x, y, bottom);
    for (span, lane) in track.spans.iter().zip(lanes) {
        let (top, left) = (y + LANE * lane as f64, x(span.start_ms));
        let width = (x(span.end_ms()) - left).max(0.8);
        put!(
            out,
            "<rect class=\"{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\">\
             <title>{}, {} ms from {} ms</title></rect>",
            colours.class(span.name),
            escape(span.name),
            number(span.ms),
            number(span.start_ms)
        );
        if width > LETTER * span.name.chars().count() as f64 + 8.0 {
            put!(
                out,
                "<text class=\"in\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                left + width / 2.0,
                top + 15.0,
                escape(span.name)
            );
        }
    }
    if !track.memory.is_empty() {
        memory(out, &track.memory, until, x, bottom);
    }
    legend(out, track, colours, bottom + 2.0 * LINE)
}

/// The lane of each span and the number of lanes. A phase stays in one lane, that of the phase before it if they do not
/// overlap; only one that overlaps itself has several.
fn in_lanes(spans: &[Span<'_>], until: f64) -> (Vec<usize>, usize) {
    // What ends as the next begins is in one lane, whatever the clock's resolution.
    let slack = until * 2e-3;
    let overlap = |a: &Span<'_>, b: &Span<'_>| a.start_ms + slack < b.end_ms() && b.start_ms + slack < a.end_ms();
    let mut lanes: Vec<Option<usize>> = vec![None; spans.len()];
    // Lanes with their spans, that of the last phase at the end.
    let (mut recent, mut held) = (Vec::<usize>::new(), Vec::<Vec<usize>>::new());
    while let Some(first) = lanes.iter().position(Option::is_none) {
        let mut own = Vec::new();
        for i in first..spans.len() {
            let is_free = || own.iter().all(|&other: &usize| !overlap(&spans[i], &spans[other]));
            if lanes[i].is_none() && spans[i].name == spans[first].name && is_free() {
                own.push(i);
            }
        }
        let fits = |lane: &usize| {
            let pairs = held[*lane].iter().flat_map(|&a| own.iter().map(move |&b| (a, b)));
            pairs.into_iter().all(|(a, b)| !overlap(&spans[a], &spans[b]))
        };
        let lane = recent.iter().rev().copied().find(fits).unwrap_or(held.len());
        if lane == held.len() {
            held.push(Vec::new());
        }
        recent.retain(|known| *known != lane);
        recent.push(lane);
        own.iter().for_each(|&i| lanes[i] = Some(lane));
        held[lane].append(&mut own);
    }
    (lanes.into_iter().flatten().collect(), held.len())
}

/// Lines and figures at round numbers of milliseconds.
fn axis(out: &mut String, until: f64, x: impl Fn(f64) -> f64, top: f64, bottom: f64) {
    let rough = until / 8.0;
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * decade).find(|step| *step >= rough).unwrap_or(rough);
    let places = (-step.log10().floor()).max(0.0) as usize;
    for i in 0..=(until / step).floor() as usize {
        let (ms, anchor) = (step * i as f64, if i == 0 { "start" } else { "middle" });
        let at = x(ms);
        put!(out, "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{top:.1}\" x2=\"{at:.1}\" y2=\"{bottom:.1}\"/>");
        // A figure in the middle of the last line would leave the picture.
        if at < WIDTH - MARGIN - 2.0 * LETTER || i == 0 {
            let unit = if i == 0 { " ms" } else { "" };
            put!(
                out,
                "<text class=\"soft\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{ms:.places$}{unit}</text>",
                bottom + 15.0
            );
        }
    }
}

/// The memory in use, a step for each phase, above `bottom`.
fn memory(out: &mut String, memory: &[(f64, usize)], until: f64, x: impl Fn(f64) -> f64, bottom: f64) {
    let most = memory.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0).max(1);
    let y = |bytes: usize| bottom - MEMORY * bytes as f64 / most as f64;
    let mut line = format!("{:.1},{bottom:.1}", x(memory[0].0));
    for (i, &(from, bytes)) in memory.iter().enumerate() {
        let to = memory.get(i + 1).map_or(until, |next| next.0);
        let _ = write!(line, " {:.1},{:.1} {:.1},{:.1}", x(from), y(bytes), x(to), y(bytes));
    }
    let _ = write!(line, " {:.1},{bottom:.1}", x(until));
    put!(out, "<polygon class=\"memory\" points=\"{line}\"/>");
    put!(
        out,
        "<text class=\"soft\" x=\"{MARGIN}\" y=\"{:.1}\">device memory in use, at most {}</text>",
        bottom - MEMORY - 7.0,
        Bytes(most)
    );
}

/// The phases with their sums. Returns where the next part begins.
fn legend(out: &mut String, track: &Track<'_>, colours: &Colours<'_>, mut y: f64) -> f64 {
    let mut x = MARGIN;
    for name in &colours.0 {
        let own = track.spans.iter().filter(|span| span.name == *name);
        if own.clone().count() == 0 {
            continue;
        }
        let text = format!("{name} {} ms", number(own.map(|span| span.ms).sum()));
        let width = 18.0 + LETTER * text.chars().count() as f64 + 16.0;
        if x + width > WIDTH - MARGIN && x > MARGIN {
            (x, y) = (MARGIN, y + LINE);
        }
        put!(
            out,
            "<rect class=\"{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" rx=\"2\"/>\
             <text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
            colours.class(name),
            y - 10.0,
            x + 18.0,
            escape(&text)
        );
        x += width;
    }
    y + 6.0
}

#[cfg(test)]
mod tests {
    use super::super::pictures;
    use super::*;

    fn span(name: &str, start_ms: f64, ms: f64) -> Span<'_> {
        Span { name, start_ms, ms }
    }

    #[test]
    fn spans_that_overlap_have_their_own_lanes() {
        // Uploads beside the work on the part before.
        let starts = [("upload", 0.0), ("hash", 10.0), ("upload", 10.0), ("hash", 20.0), ("open", 29.0)];
        let spans = starts.map(|(name, start_ms)| span(name, start_ms, 9.0));
        assert_eq!(in_lanes(&spans, 100.0), (vec![0, 1, 0, 1, 1], 2));
        // What overlaps itself.
        let spans = [span("a", 0.0, 10.0), span("a", 5.0, 10.0), span("a", 10.0, 1.0)];
        assert_eq!(in_lanes(&spans, 100.0), (vec![0, 1, 0], 2));
    }

    #[test]
    fn names_are_escaped_and_only_known_parts_are_drawn() {
        let track = |name: &str| Track {
            name: name.into(),
            total_ms: 3.0,
            spans: vec![span("p < q", 0.0, 1.0)],
            memory: Vec::new(),
        };
        let drawn = svg("x & y", &[track("a < b"), track(&"long ".repeat(20))]);
        for text in ["x & y", "a < b", "p < q"] {
            assert!(drawn.contains(&escape(text)) && !drawn.contains(text), "{drawn}");
        }
        let longest = "long ".repeat(20).chars().take((NAMES / LETTER) as usize).collect::<String>();
        assert!(drawn.contains(&format!(">{longest}</text>")), "{drawn}");
        assert!(!drawn.contains("device memory") && !drawn.contains("polygon"), "{drawn}");
    }

    /// The pictures of the documents are what this file draws from the reports beside them. `RIGEL_DRAW=1` draws them.
    #[test]
    fn the_pictures_in_the_documents_are_of_their_reports() {
        for name in ["keccak", "wide-fibonacci"] {
            let report = pictures::data(name);
            let word = |at: &str| report[at].as_str().unwrap().to_string();
            let number = |value: &serde_json::Value| value.as_f64().unwrap();
            let phases = report["report"]["phases"].as_array().unwrap();
            let spans = phases.iter().map(|phase| Span {
                name: phase["name"].as_str().unwrap(),
                start_ms: number(&phase["start_ms"]),
                ms: number(&phase["ms"]),
            });
            let track = |name: String, total: &serde_json::Value, spans| Track {
                name,
                total_ms: number(total),
                spans,
                memory: Vec::new(),
            };
            let device = track(word("device"), &report["report"]["total_ms"], spans.collect());
            let upstream = track(word("upstream"), &report["upstream_milliseconds"], Vec::new());
            pictures::check(name, &svg(&word("title"), &[device, upstream]));
        }
    }
}
