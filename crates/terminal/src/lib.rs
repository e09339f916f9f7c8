//! Terminal output of Rigel's commands: aligned columns, colours, progress, and how they end.

mod ending;
mod progress;

pub use ending::{Refusal, ending};
pub use progress::Progress;

use std::fmt::Write as _;
use std::io::{self, IsTerminal};

/// The style of text if standard output is a terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Unstyled.
    Plain,
    /// Bold, for headings.
    Bold,
    /// Faint, for what matters less.
    Dim,
    /// Green, for success.
    Good,
    /// Red, for failure.
    Bad,
}

impl Paint {
    /// The text, styled if standard output is a terminal and `NO_COLOR` is not set.
    pub fn on(self, text: &str) -> String {
        let code = match self {
            Self::Plain => return text.to_string(),
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Good => "32",
            Self::Bad => "31",
        };
        let wanted =
            io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        if wanted { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// The alignment of a cell in its column.
#[derive(Clone, Copy)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells, printed in columns as wide as their widest cell.
pub struct Columns {
    align: Vec<Align>,
    rows: Vec<Vec<(String, Paint)>>,
}

impl Columns {
    /// A table without rows yet; one alignment per column.
    pub fn new(align: &[Align]) -> Self {
        Self { align: align.to_vec(), rows: Vec::new() }
    }

    /// Adds a row in one style.
    pub fn row<C: Into<String>>(&mut self, paint: Paint, cells: impl IntoIterator<Item = C>) {
        self.painted_row(cells.into_iter().map(|cell| (cell.into(), paint)));
    }

    /// Adds a row with a style per cell.
    pub fn painted_row(&mut self, cells: impl IntoIterator<Item = (String, Paint)>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines, each starting with `indent`.
    pub fn to_text(&self, indent: &str) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|(text, _)| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = indent.to_string();
            for (i, (text, paint)) in row.iter().enumerate() {
                let gap = " ".repeat(widths[i] - text.chars().count());
                let painted = paint.on(text);
                let between = if i == 0 { "" } else { "  " };
                let _ = match self.align[i] {
                    Align::Left => write!(line, "{between}{painted}{gap}"),
                    Align::Right => write!(line, "{between}{gap}{painted}"),
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// The table of a proof's phases in milliseconds, with their shares of `total` and what is left of it.
pub fn phases<'a>(phases: impl IntoIterator<Item = (&'a str, f64)>, total: f64) -> String {
    let mut columns = Columns::new(&[Align::Left, Align::Right, Align::Right]);
    columns.row(Paint::Dim, ["phase", "ms", "%"]);
    let mut rest = total;
    let share = |ms: f64| format!("{:.0}", 100.0 * ms / total);
    for (name, ms) in phases {
        columns.row(Paint::Plain, [name, &number(ms), &share(ms)]);
        rest -= ms;
    }
    let rest = rest.max(0.0);
    columns.row(Paint::Plain, ["host, and waiting", &number(rest), &share(rest)]);
    format!("{}\n", columns.to_text("  "))
}

/// Lines of at most `width` characters, broken between words; longer words and existing line breaks are kept.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for given in text.lines() {
        let mut line = String::new();
        for word in given.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            } else if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

/// A compiler's name, version and target without its options, which matter only to the cache.
pub fn without_options(compiler: &str) -> &str {
    let end = [", ", " -"].iter().filter_map(|start| compiler.find(start)).min().unwrap_or(compiler.len());
    &compiler[..end]
}

/// Three significant digits, with commas above a thousand: `0.0123`, `4.27`, `55.4`, `4,271`.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = sign.to_string();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    fraction.map_or(grouped.clone(), |fraction| format!("{grouped}.{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut columns = Columns::new(&[Align::Left, Align::Right]);
        columns.row(Paint::Plain, ["a", "1"]);
        columns.row(Paint::Plain, ["long", "1,000"]);
        assert_eq!(columns.to_text("> "), "> a         1\n> long  1,000\n");
    }

    #[test]
    fn phases_have_shares_of_the_whole() {
        let expected =
            "  phase                ms   %\n  hash               1.00  25\n  host, and waiting  3.00  75\n\n";
        assert_eq!(phases([("hash", 1.0)], 4.0), expected);
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three\nfour extraordinary", 8), ["one two", "three", "four", "extraordinary"]);
    }

    #[test]
    fn options_are_left_out() {
        assert_eq!(without_options("nvrtc 13.0 sm_90 --std=c++17, x"), "nvrtc 13.0 sm_90");
        assert_eq!(
            without_options("c++ (Debian 12.2.0-14) for x86_64, shim 1 -O2"),
            "c++ (Debian 12.2.0-14) for x86_64"
        );
        assert_eq!(without_options("c++"), "c++");
    }

    #[test]
    fn numbers_keep_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.01234, "0.0123"),
            (4.2711, "4.27"),
            (55.4, "55.4"),
            (4271.3, "4,271"),
            (-1234567.0, "-1,234,567"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }
}
