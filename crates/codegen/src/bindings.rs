//! The buffers and rows that a program is run on.

use rigel_gpu::{Error, Result, View, ViewMut};
use rigel_kernels::field::{Element, Field};
use rigel_kernels::{Columns, Matrix};

use crate::print::{LaunchNumbers, Needs};

/// The rows that a program runs over, and where the row at an offset lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Rows in their natural order: the row at offset o from row r is `(r + o) mod rows`.
    Natural {
        /// The number of rows, any up to 2^31.
        rows: usize,
    },
    /// Storage row p holds the natural row x whose bits are those of p reversed. The row at offset o is the
    /// natural row `(x + o 2^log_step) mod 2^log_rows`: on a domain that extends a trace's by 2^log_step, the
    /// trace's row at offset o.
    BitReversed {
        /// The logarithm of the number of rows.
        log_rows: u32,
        /// The logarithm of the distance of neighbouring rows.
        log_step: u32,
    },
    /// A circle domain of 2^log_rows points in bit-reversed order: a half coset, then its mirror image. The row at
    /// offset o is that of the point which lies o steps further on a trace's canonic coset of 2^log_trace points: the
    /// domain is that coset itself, or one that extends it.
    Circle {
        /// The logarithm of the number of rows.
        log_rows: u32,
        /// The logarithm of the number of rows of the trace, from 1 to `log_rows`.
        log_trace: u32,
    },
}

impl Rows {
    /// The number of rows.
    pub fn count(self) -> usize {
        match self {
            Self::Natural { rows } => rows,
            Self::BitReversed { log_rows, .. } | Self::Circle { log_rows, .. } => {
                1usize.checked_shl(log_rows).unwrap_or(usize::MAX)
            }
        }
    }
}

/// The correspondence between a program's rows and an input's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowMap {
    /// A row of the program reads the input's row at the same place in storage.
    Same,
    /// A table of 2^log_period rows that repeats: natural row x reads the table's natural row
    /// `x mod 2^log_period`. Under [`Rows::BitReversed`] the table is stored bit-reversed too; under [`Rows::Circle`]
    /// there are none. It can be read at offset 0 only.
    Repeating {
        /// The logarithm of the number of rows of the table.
        log_period: u32,
    },
}

/// A matrix that a program reads: column c begins at `c * stride`.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a, F: Field> {
    /// The values, column after column.
    pub values: View<'a, F>,
    /// The distance of neighbouring columns. It may exceed the number of rows: then a prefix of each column is
    /// read.
    pub stride: usize,
    /// The row that is read for each row of the program.
    pub map: RowMap,
}

impl<F: Field> Input<'_, F> {
    /// Reads the input as a table of 2^log_period rows that repeats.
    pub fn repeating(self, log_period: u32) -> Self {
        Self { map: RowMap::Repeating { log_period }, ..self }
    }
}

impl<'a, F: Field> From<&'a Matrix<F>> for Input<'a, F> {
    fn from(matrix: &'a Matrix<F>) -> Self {
        Columns::from(matrix).into()
    }
}

impl<'a, F: Field> From<Columns<'a, F>> for Input<'a, F> {
    fn from(columns: Columns<'a, F>) -> Self {
        Self { values: columns.values(), stride: columns.rows(), map: RowMap::Same }
    }
}

/// A matrix that a program writes: storage row p of column c lies at `c * stride + p`.
#[derive(Debug)]
pub struct Target<'a, F: Field> {
    /// The values, column after column.
    pub values: ViewMut<'a, F>,
    /// The distance of neighbouring columns.
    pub stride: usize,
}

impl<'a, F: Field> From<&'a mut Matrix<F>> for Target<'a, F> {
    fn from(matrix: &'a mut Matrix<F>) -> Self {
        let stride = matrix.rows();
        Self { values: matrix.values_mut().view_mut(), stride }
    }
}

/// The target of the folded sums: blocks of 2^log_block rows, each a slab of `DEGREE` columns.
///
/// With b = p >> log_block, coefficient d of row p lies at `(b DEGREE + d) 2^log_block + (p mod 2^log_block)`,
/// and is that of `scale[p >> log_scale]` times the row's sum. So the chunks of a quotient come out apart, or
/// together, each divided by its own value of a vanishing polynomial.
#[derive(Debug)]
pub struct Folded<'a, F: Field> {
    /// The sums.
    pub values: ViewMut<'a, F>,
    /// The factors.
    pub scale: View<'a, F>,
    /// The logarithm of the rows that share a factor.
    pub log_scale: u32,
    /// The logarithm of the rows of a block.
    pub log_block: u32,
    /// Whether to add to the values that are there, instead of writing over them.
    pub accumulate: bool,
}

/// The buffers that a program reads and writes. Those that it does not use may be left out.
#[derive(Debug)]
pub struct Bindings<'a, E: Element> {
    /// The matrices read, at most [`MATRICES`](crate::MATRICES).
    pub inputs: Vec<Input<'a, E::Base>>,
    /// The matrices written, at most [`MATRICES`](crate::MATRICES).
    pub outputs: Vec<Target<'a, E::Base>>,
    /// The base parameters.
    pub parameters: Option<View<'a, E::Base>>,
    /// The extension parameters.
    pub extension_parameters: Option<View<'a, E>>,
    /// The weights of folded values.
    pub weights: Option<View<'a, E>>,
    /// The target of the folded sums.
    pub folded: Option<Folded<'a, E::Base>>,
}

impl<E: Element> Default for Bindings<'_, E> {
    fn default() -> Self {
        Self {
            inputs: Vec::new(),
            outputs: Vec::new(),
            parameters: None,
            extension_parameters: None,
            weights: None,
            folded: None,
        }
    }
}

impl<'a, E: Element> Bindings<'a, E> {
    /// Bindings of nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more input; the first is input 0.
    pub fn input(mut self, input: impl Into<Input<'a, E::Base>>) -> Self {
        self.inputs.push(input.into());
        self
    }

    /// One more output; the first is output 0.
    pub fn output(mut self, output: impl Into<Target<'a, E::Base>>) -> Self {
        self.outputs.push(output.into());
        self
    }

    /// The base parameters.
    pub fn parameters(mut self, parameters: impl Into<View<'a, E::Base>>) -> Self {
        self.parameters = Some(parameters.into());
        self
    }

    /// The extension parameters.
    pub fn extension_parameters(mut self, parameters: impl Into<View<'a, E>>) -> Self {
        self.extension_parameters = Some(parameters.into());
        self
    }

    /// The weights of folded values.
    pub fn weights(mut self, weights: impl Into<View<'a, E>>) -> Self {
        self.weights = Some(weights.into());
        self
    }

    /// Sets the target of the folded sums.
    pub fn folded(mut self, folded: Folded<'a, E::Base>) -> Self {
        self.folded = Some(folded);
        self
    }

    /// The numbers of a launch, if all that is needed is there.
    pub(crate) fn numbers(&self, rows: Rows, needs: &Needs) -> Result<LaunchNumbers> {
        let mut numbers = row_order(rows)?;
        let count = rows.count();
        for (&input, columns) in &needs.inputs {
            let last = columns.last().copied().unwrap_or(0);
            let Input { values, stride, map } = self.inputs.get(input).ok_or_else(|| absent("input", input))?;
            let mut read = count;
            numbers.mask[input] = u32::MAX;
            if let RowMap::Repeating { log_period } = *map {
                if log_period > 31 || matches!(rows, Rows::BitReversed { log_rows, .. } if log_period > log_rows) {
                    return Err(wrong(format!(
                        "input {input} repeats every 2^{log_period} rows, which is more than all rows"
                    )));
                }
                if needs.offset_inputs.contains(&input) {
                    return Err(wrong(format!(
                        "input {input} repeats, and is read at another offset than 0; give it as a whole matrix"
                    )));
                }
                read = count.min(1 << log_period);
                match rows {
                    Rows::Natural { .. } => numbers.mask[input] = (1 << log_period) - 1,
                    Rows::BitReversed { log_rows, .. } => numbers.shift[input] = log_rows - log_period,
                    Rows::Circle { .. } => {
                        return Err(wrong(format!("input {input} repeats, and rows of a circle domain do not")));
                    }
                }
            }
            numbers.stride[input] = fit(&format!("input {input}"), values.len(), *stride, read, last)?;
        }
        for (&output, &columns) in &needs.outputs {
            let Target { values, stride } = self.outputs.get(output).ok_or_else(|| absent("output", output))?;
            let place = format!("output {output}");
            numbers.output_stride[output] = fit(&place, values.len(), *stride, count, columns - 1)?;
        }
        for (what, needed, given) in [
            ("parameters", needs.parameters, self.parameters.map(|view| view.len())),
            ("extension parameters", needs.extension_parameters, self.extension_parameters.map(|view| view.len())),
            ("weights", needs.weights, self.weights.map(|view| view.len())),
        ] {
            if needed > given.unwrap_or(0) {
                return Err(wrong(format!("{needed} {what} are used, {} are given", given.unwrap_or(0))));
            }
        }
        if needs.folds {
            let folded = self.folded.as_ref();
            let folded = folded.ok_or_else(|| wrong("values are folded, and there is no place for the sums"))?;
            (numbers.log_block, numbers.log_scale) = check_blocks::<E>(folded, count)?;
            numbers.accumulate = u32::from(folded.accumulate);
        }
        Ok(numbers)
    }
}

fn row_order(rows: Rows) -> Result<LaunchNumbers> {
    let count = rows.count();
    if count > 1 << 31 {
        return Err(wrong("there can be 2^31 rows at most"));
    }
    let mut numbers = LaunchNumbers { rows: count as u32, ..LaunchNumbers::default() };
    match rows {
        Rows::Natural { .. } => {}
        Rows::BitReversed { log_rows, log_step } => {
            if log_step > log_rows {
                return Err(wrong(format!("2^{log_rows} rows have no neighbours 2^{log_step} rows apart")));
            }
            (numbers.order, numbers.log_rows, numbers.log_step) = (1, log_rows, log_step);
        }
        Rows::Circle { log_rows, log_trace } => {
            if !(1..=log_rows).contains(&log_trace) {
                return Err(wrong(format!(
                    "a circle domain of 2^{log_rows} points has no trace of 2^{log_trace} rows; it needs at least 2 \
                     and at most as many"
                )));
            }
            numbers.log_rows = log_rows;
            match log_rows - log_trace {
                0 => numbers.order = 3,
                extension => (numbers.order, numbers.log_step) = (2, extension - 1),
            }
        }
    }
    Ok(numbers)
}

/// The stride, if column `last` has `rows` rows within `len` values.
fn fit(place: &str, len: usize, stride: usize, rows: usize, last: usize) -> Result<u32> {
    if stride < rows {
        return Err(wrong(format!("{place} has columns of {stride} rows, {rows} are used")));
    }
    let end = last.checked_mul(stride).and_then(|first| first.checked_add(rows));
    if end.is_none_or(|end| end > len) {
        return Err(wrong(format!(
            "column {last} (counted from 0) of {place} is used, and its {len} values are too few for columns of \
             {stride} rows"
        )));
    }
    u32::try_from(stride).map_err(|_| wrong(format!("{place} has columns of {stride} rows, which is too many")))
}

fn check_blocks<E: Element>(folded: &Folded<'_, E::Base>, rows: usize) -> Result<(u32, u32)> {
    let Folded { values, scale, log_scale, log_block, .. } = folded;
    if let Some(log) = [log_block, log_scale].into_iter().find(|&&log| log > 31) {
        return Err(wrong(format!("blocks of 2^{log} rows are too large")));
    }
    let blocks = rows.div_ceil(1 << log_block);
    // A last block that is not full reaches as far as its last coefficient does.
    let missing = (blocks << log_block) - rows;
    let end = ((blocks * E::DEGREE) << log_block) - missing;
    if values.len() < end {
        return Err(wrong(format!(
            "{rows} folded sums in blocks of 2^{log_block} take {end} values, there is room for {}",
            values.len()
        )));
    }
    let factors = rows.div_ceil(1 << log_scale);
    if scale.len() < factors {
        return Err(wrong(format!("{factors} factors are needed for the sums, and there are {}", scale.len())));
    }
    Ok((*log_block, *log_scale))
}

fn absent(what: &str, index: usize) -> Error {
    wrong(format!("{what} {index} (counted from 0) is used, and not given"))
}

fn wrong(detail: impl Into<String>) -> Error {
    Error::shape("CompiledGraph::run", detail)
}
