//! The roofline chart, as SVG: how close each operation comes to the device's peak rates.
//!
//! The x axis is instructions per byte of memory traffic, the y axis instructions per second, both logarithmic. No
//! point can be above the roofs, which are the measured ceilings: memory on the left, the integer units on the right.

use std::fmt::Write;

use super::ceilings::Ceilings;
use super::measure::Row;
use crate::page::escape;
use crate::terminal::number;

const WIDTH: f64 = 1080.0;
const HEIGHT: f64 = 700.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 56.0;

/// An axis over whole decades, from one pixel to another.
struct Axis {
    first: i32,
    last: i32,
    from: f64,
    to: f64,
}

impl Axis {
    /// The decades around all `values`, which are positive.
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        let first = low.log10().floor() as i32;
        Self { first, last: (high.log10().ceil() as i32).max(first + 1), from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.first)) / f64::from(self.last - self.first);
        self.from + share * (self.to - self.from)
    }

    fn low(&self) -> f64 {
        10f64.powi(self.first)
    }

    fn high(&self) -> f64 {
        10f64.powi(self.last)
    }

    fn decades(&self) -> impl Iterator<Item = i32> {
        self.first..=self.last
    }
}

/// An operation in the chart.
struct Point<'a> {
    row: &'a Row,
    intensity: f64,
    per_second: f64,
}

impl<'a> Point<'a> {
    /// `None` for rows without instructions or memory traffic to count.
    fn of(row: &'a Row) -> Option<Self> {
        let milliseconds = row.milliseconds?;
        let counted = row.bytes > 0.0 && row.instructions > 0.0;
        let per_second = row.instructions / milliseconds * 1e3;
        counted.then(|| Self { row, intensity: row.instructions / row.bytes, per_second })
    }
}

/// The chart, or `None` if no row can be placed in it.
pub fn svg(device: &str, ceilings: &Ceilings, rows: &[Row]) -> Option<String> {
    let points: Vec<Point<'_>> = rows.iter().filter_map(Point::of).collect();
    if points.is_empty() {
        return None;
    }
    let roof = ceilings.integer_per_second();
    let knee = roof / (ceilings.copy_gigabytes_per_second * 1e9);
    let across = points.iter().map(|point| point.intensity).chain([knee / 4.0, knee * 10.0]);
    let x = Axis::over(across, LEFT, WIDTH - RIGHT);
    let up = points.iter().map(|point| point.per_second).chain([roof * 1.5, roof / 20.0]);
    let y = Axis::over(up, HEIGHT - BOTTOM, TOP);

    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Roofline of {}\">\n",
        escape(device)
    );
    grid(&mut out, &x, &y);
    let places: Vec<(f64, f64)> = points.iter().map(|p| (x.at(p.intensity), y.at(p.per_second))).collect();
    let mut taken: Vec<Rectangle> = places.iter().map(|&(x, y)| Rectangle::around(x, y, 5.0)).collect();
    roofs(&mut out, ceilings, &x, &y, &mut taken);
    dots(&mut out, &points, &places, &x, &y, &mut taken);
    out.push_str("</svg>\n");
    Some(out)
}

/// Writing to a string can't fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => {{
        let _ = writeln!($out, $($text)*);
    }};
}

fn grid(out: &mut String, x: &Axis, y: &Axis) {
    for decade in x.decades() {
        let at = x.at(10f64.powi(decade));
        put!(out, "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{:.1}\"/>", y.from);
        put!(
            out,
            "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            y.from + 18.0,
            decimal(decade)
        );
    }
    for decade in y.decades() {
        let at = y.at(10f64.powi(decade));
        put!(out, "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\"/>", x.to);
        put!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            per_second(decade)
        );
    }
    let (middle_x, middle_y) = ((x.from + x.to) / 2.0, (y.from + y.to) / 2.0);
    put!(
        out,
        "<text class=\"axis\" x=\"{middle_x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">\
         integer instructions per byte</text>",
        HEIGHT - 12.0
    );
    put!(
        out,
        "<text class=\"axis\" transform=\"translate(16 {middle_y:.1}) rotate(-90)\" \
         text-anchor=\"middle\">integer instructions per second</text>"
    );
}

/// `0.01`, `1`, `100`.
fn decimal(decade: i32) -> String {
    let places = usize::try_from(-decade).unwrap_or(0);
    format!("{:.places$}", 10f64.powi(decade))
}

/// `100 G`, `1 T`.
fn per_second(decade: i32) -> String {
    let names = ["", " k", " M", " G", " T", " P", " E"];
    let thousands = decade.div_euclid(3).clamp(0, names.len() as i32 - 1);
    format!("{}{}", decimal(decade - 3 * thousands), names[thousands as usize])
}

/// `33.5 T/s`, `620 M/s`.
fn instructions(rate: f64) -> String {
    let thousands = (rate.log10() / 3.0).floor().clamp(0.0, 4.0);
    format!("{} {}/s", number(rate / 1000f64.powf(thousands)), ["", "k", "M", "G", "T"][thousands as usize])
}

/// Draws the roofs and their names, where no point is.
fn roofs(out: &mut String, ceilings: &Ceilings, x: &Axis, y: &Axis, taken: &mut Vec<Rectangle>) {
    let bytes_per_second = ceilings.copy_gigabytes_per_second * 1e9;
    let top = ceilings.integer_per_second();
    let knee = top / bytes_per_second;
    // The memory roof enters the chart from the left or from below.
    let start = x.low().max(y.low() / bytes_per_second);
    put!(
        out,
        "<polyline class=\"roof\" points=\"{:.1},{:.1} {:.1},{:.1} {:.1},{:.1}\"/>",
        x.at(start),
        y.at(start * bytes_per_second),
        x.at(knee),
        y.at(top),
        x.at(x.high()),
        y.at(top)
    );
    let mut name = |out: &mut String, at_y: f64, text: String| {
        // At the right end, or as far to the left as it takes to leave the points free.
        let lefts = (0..60).map(|step| x.to - 6.0 - text_width(&text) - 10.0 * f64::from(step));
        let mut places = lefts.map(|left| Rectangle::of_text(left, at_y, &text));
        let end = Rectangle::of_text(x.to - 6.0 - text_width(&text), at_y, &text);
        let place = places.find(|place| !taken.iter().any(|other| other.meets(place))).unwrap_or(end);
        put!(out, "<text class=\"roof-name\" x=\"{:.1}\" y=\"{at_y:.1}\">{text}</text>", place.left);
        taken.push(place);
    };
    name(out, y.at(top) - 7.0, format!("both integer units, {}", instructions(top)));
    for (unit, rate) in [("logic", ceilings.logic_per_second), ("multiply", ceilings.multiply_per_second)] {
        let at = y.at(rate);
        let from = x.at(rate / bytes_per_second);
        put!(out, "<line class=\"unit\" x1=\"{from:.1}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\"/>", x.to);
        // The two rates are often equal: one name goes above its line, one below.
        let below = unit == "multiply";
        name(out, if below { at + 15.0 } else { at - 7.0 }, format!("{unit} unit, {}", instructions(rate)));
    }
    memory_roof_name(out, ceilings, x, y, start, taken);
}

/// The memory roof's name, along it, at the first of several places where no point is.
fn memory_roof_name(
    out: &mut String,
    ceilings: &Ceilings,
    x: &Axis,
    y: &Axis,
    start: f64,
    taken: &mut Vec<Rectangle>,
) {
    let bytes_per_second = ceilings.copy_gigabytes_per_second * 1e9;
    let knee = ceilings.integer_per_second() / bytes_per_second;
    let text = format!("memory, {:.0} GB/s", ceilings.copy_gigabytes_per_second);
    let place = |intensity: f64| (x.at(intensity), y.at(intensity * bytes_per_second));
    let (from, to) = (place(start), place(knee));
    let angle = (to.1 - from.1).atan2(to.0 - from.0);
    // Text that is not level, as squares along its line.
    let squares = |(at_x, at_y): (f64, f64)| -> Vec<Rectangle> {
        let half = text_width(&text) / 2.0;
        let steps = (-8..=8).map(|step| half * f64::from(step) / 8.0);
        let along = |far: f64| {
            (at_x + far * angle.cos() + 12.0 * angle.sin(), at_y + far * angle.sin() - 12.0 * angle.cos())
        };
        steps.map(along).map(|(x, y)| Rectangle::around(x, y, 6.0)).collect()
    };
    let places = [0.5, 0.35, 0.65, 0.2, 0.8].map(|share| place(start.powf(1.0 - share) * knee.powf(share)));
    let is_free = |at: &(f64, f64)| squares(*at).iter().all(|own| !taken.iter().any(|other| other.meets(own)));
    let at = places.into_iter().find(is_free).unwrap_or(places[0]);
    put!(
        out,
        "<text class=\"roof-name\" transform=\"translate({:.1} {:.1}) rotate({:.1})\" y=\"-8\" \
         text-anchor=\"middle\">{text}</text>",
        at.0,
        at.1,
        angle.to_degrees()
    );
    taken.extend(squares(at));
}

/// The rectangles that are already occupied.
#[derive(Clone, Copy)]
struct Rectangle {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

const LINE: f64 = 13.0;

fn text_width(text: &str) -> f64 {
    6.3 * text.chars().count() as f64
}

impl Rectangle {
    /// The rectangle of text that starts at `left` on the base line `base`.
    fn of_text(left: f64, base: f64, text: &str) -> Self {
        Self { left, top: base - LINE + 3.0, right: left + text_width(text), bottom: base + 3.0 }
    }

    fn around(x: f64, y: f64, radius: f64) -> Self {
        Self { left: x - radius, top: y - radius, right: x + radius, bottom: y + radius }
    }

    fn lies_in(&self, frame: &Self) -> bool {
        self.left >= frame.left
            && self.right <= frame.right
            && self.top >= frame.top
            && self.bottom <= frame.bottom
    }

    /// The nearest point of the rectangle to another point.
    fn nearest(&self, x: f64, y: f64) -> (f64, f64) {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
    }

    fn distance(&self, x: f64, y: f64) -> f64 {
        let (near_x, near_y) = self.nearest(x, y);
        (near_x - x).hypot(near_y - y)
    }

    fn meets(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }
}

/// Points with their names, each at the nearest place where it overlaps nothing.
fn dots(
    out: &mut String,
    points: &[Point<'_>],
    places: &[(f64, f64)],
    x: &Axis,
    y: &Axis,
    taken: &mut Vec<Rectangle>,
) {
    let frame = Rectangle { left: LEFT, top: TOP, right: x.to, bottom: y.from };
    for (point, &(at_x, at_y)) in points.iter().zip(places) {
        let row = point.row;
        let class = match row.pass {
            Some(true) => "dot pass",
            Some(false) => "dot miss",
            None => "dot",
        };
        put!(
            out,
            "<circle class=\"{class}\" cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"4.5\">\
             <title>{}, {}: {:.4} ms, {:.2}x floor</title></circle>",
            escape(&row.name),
            escape(&row.shape),
            row.milliseconds.unwrap_or_default(),
            row.ratio.unwrap_or_default()
        );
        let label = &label(point, points);
        if let Some((left, base)) = free_place(label, at_x, at_y, &frame, taken) {
            let rectangle = Rectangle::of_text(left, base, label);
            if rectangle.distance(at_x, at_y) > 12.0 {
                let (near_x, near_y) = rectangle.nearest(at_x, at_y);
                put!(
                    out,
                    "<line class=\"leader\" x1=\"{at_x:.1}\" y1=\"{at_y:.1}\" x2=\"{near_x:.1}\" y2=\"{near_y:.1}\"/>"
                );
            }
            put!(out, "<text class=\"label\" x=\"{left:.1}\" y=\"{base:.1}\">{}</text>", escape(label));
            taken.push(rectangle);
        }
    }
}

/// The name, with the first part of the shape if several points have the same name.
fn label(point: &Point<'_>, points: &[Point<'_>]) -> String {
    let name = &point.row.name;
    if points.iter().filter(|other| other.row.name == *name).count() == 1 {
        return name.clone();
    }
    format!("{name} {}", point.row.shape.split(',').next().unwrap_or_default())
}

/// A label further than this from its point would confuse; a point without one shows its name as a tooltip.
const REACH: f64 = 44.0;

/// The start and base line of a label: the place nearest to its point where it overlaps nothing.
fn free_place(label: &str, x: f64, y: f64, frame: &Rectangle, taken: &[Rectangle]) -> Option<(f64, f64)> {
    let width = text_width(label);
    let lefts = [x + 8.0, x - 8.0 - width, x - width / 2.0, x + 30.0, x - 30.0 - width];
    let bases = (-24..=24).map(|step| y + 4.0 + f64::from(step) * (LINE - 2.0));
    let free = |&(left, base): &(f64, f64)| {
        let place = Rectangle::of_text(left, base, label);
        place.lies_in(frame) && !taken.iter().any(|other| other.meets(&place))
    };
    let distance = |&(left, base): &(f64, f64)| Rectangle::of_text(left, base, label).distance(x, y);
    bases
        .flat_map(|base| lefts.map(|left| (left, base)))
        .filter(|place| distance(place) <= REACH && free(place))
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{pictures, standalone};

    /// The picture in the documents is what this file draws from the report beside it. `RIGEL_DRAW=1` draws it.
    #[test]
    fn the_picture_in_the_documents_is_of_its_report() {
        let data = pictures::data("roofline");
        let ceiling = |name: &str| data["ceilings"][name].as_f64().unwrap();
        let ceilings = Ceilings {
            copy_gigabytes_per_second: ceiling("copy_gigabytes_per_second"),
            logic_per_second: ceiling("logic_per_second"),
            multiply_per_second: ceiling("multiply_per_second"),
        };
        let row = |row: &serde_json::Value| Row {
            name: row["name"].as_str().unwrap().into(),
            shape: row["shape"].as_str().unwrap().into(),
            milliseconds: row["milliseconds"].as_f64(),
            floor_milliseconds: None,
            bound: None,
            ratio: row["ratio"].as_f64(),
            rate: None,
            unit: None,
            bar: None,
            pass: row["pass"].as_bool(),
            bytes: row["bytes"].as_f64().unwrap(),
            instructions: row["instructions"].as_f64().unwrap(),
            error: None,
        };
        let rows: Vec<Row> = data["rows"].as_array().unwrap().iter().map(row).collect();
        let drawn = svg(data["device"].as_str().unwrap(), &ceilings, &rows).unwrap();
        pictures::check("roofline", &standalone(&drawn));
    }
}
