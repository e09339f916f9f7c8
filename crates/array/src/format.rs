//! Arrays as text, in the form that NumPy prints them.

use std::fmt;

use rigel_codegen::map::{Half, Type};

use crate::array::Array;
use crate::error::Result;
use crate::layout::Index;
use crate::scalar::{coefficients, name};

/// Arrays with more elements show only the edges of each axis.
const SHOW_ALL: usize = 1000;
/// The number of elements that are shown at each end.
const EDGE: usize = 3;
/// Digits after the decimal point.
const PRECISION: usize = 8;

impl Array {
    /// The elements as NumPy's `str` shows them.
    ///
    /// Waits for the device. Only the elements that are shown are downloaded.
    pub fn to_text(&self) -> Result<String> {
        self.text_after(0, ", ")
    }

    /// The array as NumPy's `repr` shows it, with its type if it is not the default, and its device if it is not
    /// the CPU.
    pub fn to_repr(&self) -> Result<String> {
        let mut text = format!("array({}", self.text_after("array(".len(), ", ")?);
        if self.is_empty() && self.shape() != [0] {
            text += &format!(", shape={}", crate::layout::text(self.shape()));
        }
        if !matches!(self.dtype, Type::F64 | Type::I64 | Type::Bool | Type::C128) || self.is_empty() {
            text += &format!(", dtype={}", name(self.dtype));
        }
        if !self.device().is_cpu() {
            text += &format!(", device='{}'", self.device());
        }
        Ok(text + ")")
    }

    fn text_after(&self, indent: usize, separator: &str) -> Result<String> {
        if self.is_empty() {
            return Ok("[]".to_owned());
        }
        let summarise = self.len() > SHOW_ALL;
        let shown = if summarise { self.edges()? } else { self.clone() };
        let mut bytes = vec![0; shown.bytes()];
        shown.read_into(&mut bytes)?;
        let cells = cells(self.dtype, &bytes);
        let mut writer = Writer { shape: self.shape(), cells: cells.into_iter(), summarise, separator };
        Ok(writer.axis(0, indent + 1))
    }

    /// The first and last elements of each long axis, joined.
    fn edges(&self) -> Result<Self> {
        let mut array = self.clone();
        for axis in 0..self.axes() {
            if self.shape()[axis] > 2 * EDGE {
                let part = |start, stop| {
                    let mut index = vec![Index::ALL; axis];
                    index.push(Index::Range { start, stop, step: 1 });
                    array.index(&index)
                };
                let edge = EDGE as isize;
                array = Self::concatenate(&[part(None, Some(edge))?, part(Some(-edge), None)?], axis as isize)?;
            }
        }
        Ok(array)
    }
}

struct Writer<'a> {
    shape: &'a [usize],
    cells: std::vec::IntoIter<String>,
    summarise: bool,
    separator: &'a str,
}

impl Writer<'_> {
    /// The text at one index of the axes before `axis`, with lines that begin at column `indent`.
    fn axis(&mut self, axis: usize, indent: usize) -> String {
        let Some(&length) = self.shape.get(axis) else { return self.cells.next().unwrap_or_default() };
        let innermost = axis + 1 == self.shape.len();
        let cut = self.summarise && length > 2 * EDGE;
        let mut parts = Vec::new();
        for at in 0..if cut { 2 * EDGE } else { length } {
            if cut && at == EDGE {
                parts.push("...".to_owned());
            }
            parts.push(self.axis(axis + 1, indent + 1));
        }
        let text = if innermost {
            wrapped(&parts, self.separator, indent)
        } else {
            let lines = "\n".repeat(self.shape.len() - axis - 1);
            parts.join(&format!("{}{lines}{}", self.separator.trim_end(), " ".repeat(indent)))
        };
        format!("[{text}]")
    }
}

/// Cells in lines of at most 75 columns.
fn wrapped(cells: &[String], separator: &str, indent: usize) -> String {
    let (mut text, mut column) = (String::new(), indent);
    for (at, cell) in cells.iter().enumerate() {
        if at > 0 {
            text += separator.trim_end();
            column += separator.trim_end().len();
            if column + 1 + cell.len() > 75 {
                text += "\n";
                text += &" ".repeat(indent);
                column = indent;
            } else {
                text += " ";
                column += 1;
            }
        }
        text += cell;
        column += cell.len();
    }
    text
}

/// The text of each element, padded to one width.
fn cells(of: Type, bytes: &[u8]) -> Vec<String> {
    let elements: Vec<[u64; 3]> = bytes.chunks(of.bytes()).map(crate::scalar::words).collect();
    let texts: Vec<String> = match of {
        Type::Bool => {
            elements.iter().map(|words| if words[0] & 0xff != 0 { " True" } else { "False" }.into()).collect()
        }
        Type::F16 => {
            let values: Vec<f64> = elements.iter().map(|words| shortest_half(Half(words[0] as u16))).collect();
            floats(&values)
        }
        Type::F32 => {
            let single = |words: &[u64; 3]| shortest_single(f32::from_bits(words[0] as u32));
            floats(&elements.iter().map(single).collect::<Vec<_>>())
        }
        Type::F64 => {
            let values: Vec<f64> = elements.iter().map(|words| f64::from_bits(words[0])).collect();
            floats(&values)
        }
        Type::C64 | Type::C128 => {
            let part = |at: usize| -> Vec<f64> {
                let number = |words: &[u64; 3]| match of {
                    Type::C64 => shortest_single(f32::from_bits((words[0] >> (32 * at)) as u32)),
                    _ => f64::from_bits(words[at]),
                };
                elements.iter().map(number).collect()
            };
            let magnitudes: Vec<f64> = part(1).iter().map(|value| value.abs()).collect();
            let signs: Vec<bool> = part(1).iter().map(|value| value.is_sign_negative()).collect();
            let real = padded(floats(&part(0)));
            let imaginary = floats(&magnitudes);
            let join = |((real, imaginary), negative): ((String, String), bool)| {
                format!("{real}{}{imaginary}j", if negative { '-' } else { '+' })
            };
            real.into_iter().zip(imaginary).zip(signs).map(join).collect()
        }
        _ if of.is_field() => elements
            .iter()
            .map(|&words| {
                let parts: Vec<String> = coefficients(of, words).iter().map(u64::to_string).collect();
                if parts.len() == 1 { parts[0].clone() } else { format!("[{}]", parts.join(", ")) }
            })
            .collect(),
        _ => elements.iter().map(|&words| crate::scalar::Scalar::of_words(of, words).to_string()).collect(),
    };
    padded(texts)
}

/// The number with the fewest digits that is rounded to this float and to no other.
fn shortest_single(value: f32) -> f64 {
    format!("{value}").parse().unwrap_or_else(|_| value.into())
}

/// The number with the fewest digits that is rounded to this half and to no other.
fn shortest_half(value: Half) -> f64 {
    let exact = f64::from(f32::from(value));
    let texts = (0..PRECISION).map(|digits| format!("{exact:.digits$e}"));
    let numbers = texts.filter_map(|text| text.parse::<f64>().ok());
    numbers.into_iter().find(|&near| Half::from(near) == value).unwrap_or(exact)
}

fn padded(texts: Vec<String>) -> Vec<String> {
    let width = texts.iter().map(String::len).max().unwrap_or(0);
    texts.into_iter().map(|text| format!("{text:>width$}")).collect()
}

/// Floats with as many digits as the longest one needs, at most [`PRECISION`], without trailing zeros. Very large,
/// very small and widely spread values are written with exponents.
fn floats(values: &[f64]) -> Vec<String> {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite() && *value != 0.0).collect();
    let largest = finite.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    let smallest = finite.iter().fold(f64::INFINITY, |least, value| least.min(value.abs()));
    let exponents = largest >= 1e8 || (!finite.is_empty() && (smallest < 1e-4 || largest / smallest > 1e3));
    // The shortest digits of each value, limited to the precision.
    let trimmed = |value: f64| {
        let text = format!("{value}");
        let text = match text.split_once('.') {
            Some((_, behind)) if behind.len() > PRECISION => format!("{value:.PRECISION$}"),
            _ => text,
        };
        let (front, behind) = text.split_once('.').unwrap_or((&text, ""));
        (front.to_owned(), behind.trim_end_matches('0').to_owned())
    };
    let digits = |value: f64| match exponents {
        true => exponent_digits(value).split_once('.').map_or(0, |(_, behind)| behind.len()).min(PRECISION),
        false => trimmed(value).1.len(),
    };
    let most = finite.iter().map(|&value| digits(value)).max().unwrap_or(0);
    values
        .iter()
        .map(|&value| {
            if value.is_nan() {
                return "nan".to_owned();
            }
            if value.is_infinite() {
                return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
            }
            if exponents {
                return with_exponent(value, most);
            }
            let (front, behind) = trimmed(value);
            format!("{front}.{behind:<most$}")
        })
        .collect()
}

/// The shortest digits before the exponent.
fn exponent_digits(value: f64) -> String {
    format!("{value:e}").split('e').next().unwrap_or_default().to_owned()
}

fn with_exponent(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if mantissa.contains('.') { "" } else { "." };
    let (sign, number) = exponent.strip_prefix('-').map_or(('+', exponent), |number| ('-', number));
    format!("{mantissa}{point}e{sign}{number:0>2}")
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_text() {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "<{error}>"),
        }
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_repr() {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "array(<{error}>)"),
        }
    }
}
