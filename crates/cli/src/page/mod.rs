//! The parts that the pages of all reports share, and the pictures that several of them have.

#[cfg(test)]
pub mod pictures;
pub mod timeline;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6574; --line: #e4e7ec; --page: #ffffff; --band: #f8fafc;
  --blue: #2563eb; --good: #15803d; --bad: #c2410c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #2b3442; --page: #11161d; --band: #171d26;
    --blue: #7aa2ff; --good: #4ade80; --bad: #fb923c; } }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; }
main { max-width: 1140px; margin: 0 auto; padding: 40px 28px 64px; }
h1 { font-size: 26px; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 36px 0 10px; }
p { margin: 4px 0; color: var(--soft); }
.ceilings { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0 8px; }
.ceilings div { border: 1px solid var(--line); border-radius: 10px; padding: 10px 16px; background: var(--band); }
.ceilings b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.ceilings span { color: var(--soft); font-size: 13px; }
figure { margin: 0; border: 1px solid var(--line); border-radius: 10px; padding: 8px; overflow-x: auto; }
svg { display: block; width: 100%; min-width: 760px; height: auto; font: 11px system-ui, sans-serif; }
svg text { fill: var(--ink); }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .tick { fill: var(--soft); }
svg .axis { fill: var(--soft); font-size: 12.5px; }
svg .roof { fill: none; stroke: var(--ink); stroke-width: 2; stroke-linejoin: round; }
svg .unit { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 5 4; }
svg .roof-name { fill: var(--soft); }
svg .label, svg .roof-name { paint-order: stroke; stroke: var(--page); stroke-width: 3px; }
svg .dot { fill: var(--blue); stroke: var(--page); stroke-width: 1.5; }
svg .dot.pass { fill: var(--good); }
svg .dot.miss { fill: var(--bad); }
svg .leader { stroke: var(--soft); stroke-width: 0.6; }
.scroll { overflow-x: auto; margin: 10px 0; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); border-bottom: 2px solid var(--line); padding: 6px 10px; }
td { border-bottom: 1px solid var(--line); padding: 5px 10px; white-space: nowrap; }
th.n, td.n { text-align: right; }
tbody tr:hover { background: var(--band); }
.pass { color: var(--good); font-weight: 600; }
.miss { color: var(--bad); font-weight: 600; }
.soft { color: var(--soft); }
";

/// Escapes text for HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A self-contained page.
pub fn document_of(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// A picture of a page as a file: with the page's style and paper.
#[cfg(all(test, feature = "full"))]
pub fn standalone(svg: &str) -> String {
    svg.replacen('>', &format!("><style>{STYLE} svg {{ background: var(--page); }}</style>"), 1)
}
