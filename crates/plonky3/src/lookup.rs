//! LogUp on the device.
//!
//! For lookup c of a table with terms `m_j / (alpha - e_j)`, where `e_j` combines the tuple's elements by powers
//! of beta,
//!
//! ```text
//! f_c[r] = sum_j m_j(r) / (alpha - e_j(r))         (for exclusive branches, only the selected fraction)
//! acc[0] = 0,   acc[r + 1] = acc[r] + sum_c f_c[r],   terminal = acc[n - 1] + sum_c f_c[n - 1]
//! ```
//!
//! One generated kernel writes all denominators, a batch inversion inverts them, a second generated kernel writes
//! the fractions and their sum, and a scan computes the running sum. Where memory is short, all but the scan is done
//! for some rows at a time: the denominators may take more memory than the trace.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::OnceLock;

use p3_air::symbolic::{BaseEntry, BaseLeaf, SymbolicExpr, SymbolicExpression};
use p3_field::PrimeCharacteristicRing;
use p3_lookup::Lookup;
use rigel_codegen::{ColumnsRead, ExpressionGraph, Output, Target, Value};
use rigel_gpu::{Device, Stream, View};
use rigel_kernels::domain::selectors;
use rigel_kernels::field::Element;
use rigel_kernels::layout::gather::{self, Rows};
use rigel_kernels::vector::inverse;
use rigel_kernels::vector::scan::{self, Bound};
use rigel_kernels::{Columns, Matrix};

use crate::config::{Base, DeviceConfig, Ext};
use crate::constraints::{Lowering, Program, input, parameter, placed, values_of};
use crate::error::Result;
use crate::open::Gathered;
use crate::program::Inputs;
use crate::prover::Session;
use crate::trace::{Resident, rows_and_next};

/// The inverted denominators use the input slot of the permutation columns.
const INVERSES: usize = input::PERMUTATION;

/// Gathers the last rows of the columns of all tables' lookups. The sum of a row's elements is the table's terminal:
/// the running sum before the last row, and the fractions of the last row.
pub(crate) fn last_rows<SC: DeviceConfig>(
    stream: &Stream,
    tables: &[Matrix<Base<SC>>],
) -> Result<Gathered<Base<SC>>> {
    let last: Vec<u32> = tables.iter().map(|columns| columns.rows() as u32 - 1).collect();
    let last_row = |(columns, last)| {
        let columns: &Matrix<Base<SC>> = columns;
        Rows { values: columns.values().view(), rows: columns.rows(), indices: std::slice::from_ref(last) }
    };
    let rows: Vec<Rows<'_, Base<SC>>> = tables.iter().zip(&last).map(last_row).collect();
    let mut gathered = Gathered::new(stream, rows.iter().map(Rows::len).sum())?;
    gather::rows_into(stream, gathered.rooms(rows.iter().map(Rows::len))?, &rows)?;
    Ok(gathered)
}

/// The inputs of a table's lookups besides its trace.
pub(crate) struct LookupInputs<'a, SC: DeviceConfig> {
    pub(crate) preprocessed: Option<&'a Matrix<Base<SC>>>,
    pub(crate) publics: Option<View<'a, Base<SC>>>,
    /// The extension-field parameters, indexed as in [`parameter`]; see [`parameters`].
    pub(crate) challenges: Option<View<'a, Ext<SC>>>,
}

/// The extension-field parameters of a table's lookups: their challenges, after the place of the terminal, which no
/// fraction reads.
pub(crate) fn parameters<SC: DeviceConfig>(challenges: &[SC::Challenge]) -> Vec<SC::Challenge> {
    std::iter::once(SC::Challenge::ZERO).chain(challenges.iter().copied()).collect()
}

/// The batch sizes in which the fractions of a table are made.
#[derive(Clone, Copy)]
pub(crate) struct Making {
    /// The number of rows at a time.
    pub(crate) rows: usize,
    /// The number of rows at a time if only those columns are brought that the lookups read.
    pub(crate) narrow_rows: usize,
    /// The most columns of a trace on the host that are brought as a whole.
    pub(crate) columns: usize,
}

impl Making {
    /// All at once.
    pub(crate) const WHOLE: Self = Self { rows: usize::MAX, narrow_rows: usize::MAX, columns: 0 };
}

/// Computes the columns of a table's lookups: the running sum and one fraction per lookup, over the extension.
pub(crate) fn columns<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    fractions: &Fractions<SC>,
    trace: &Resident<'_, SC::Value>,
    inputs: &LookupInputs<'_, SC>,
    making: Making,
) -> Result<Matrix<Base<SC>>> {
    let on_device = |fractions: &Fractions<SC>, main: Columns<'_, Base<SC>>, rows_at_once: usize| {
        if rows_at_once >= main.rows() {
            let selectors = selectors::kept_on_trace::<Base<SC>>(&session.stream, main.rows().trailing_zeros())?;
            let [columns, sums] = fractions_of(session, fractions, main, inputs, &selectors)?;
            return with_running_sum(session, columns, sums);
        }
        let rows = |rows| rows_and_next(&session.stream, main, rows);
        by_rows(session, fractions, main.rows(), rows, inputs, rows_at_once)
    };
    let parked = match trace.on_device() {
        Ok(main) => return on_device(fractions, main.into(), making.rows),
        Err(parked) => parked,
    };
    let (read, narrow) = fractions.narrow();
    if read.len() > making.columns {
        let rows = |rows| parked.rows_and_next(session, rows);
        return by_rows(session, fractions, parked.rows(), rows, inputs, making.rows);
    }
    let mut made = None;
    parked.each(session, std::slice::from_ref(read), 1, |_, main| {
        made = Some(on_device(narrow, main, making.narrow_rows)?);
        Ok(())
    })?;
    Ok(made.expect("one list of columns"))
}

/// The columns of a table's lookups, of which `rows_and_next` gives some rows of the trace and the one after them.
fn by_rows<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    fractions: &Fractions<SC>,
    rows: usize,
    rows_and_next_of_trace: impl Fn(Range<usize>) -> Result<Matrix<Base<SC>>>,
    inputs: &LookupInputs<'_, SC>,
    rows_at_once: usize,
) -> Result<Matrix<Base<SC>>> {
    let (stream, degree) = (&session.stream, Ext::<SC>::DEGREE);
    let selectors = selectors::kept_on_trace::<Base<SC>>(stream, rows.trailing_zeros())?;
    let mut columns = Matrix::alloc(stream, rows, fractions.columns() * degree)?;
    let mut sums = Matrix::alloc(stream, rows, degree)?;
    for first in (0..rows).step_by(rows_at_once) {
        let here = first..rows.min(first + rows_at_once);
        let of_rows = |matrix: &Matrix<Base<SC>>| rows_and_next(stream, matrix.into(), here.clone());
        let (main, selectors) = (rows_and_next_of_trace(here.clone())?, of_rows(&selectors)?);
        let preprocessed = inputs.preprocessed.map(of_rows).transpose()?;
        let inputs = LookupInputs { preprocessed: preprocessed.as_ref(), ..*inputs };
        let main = (&main).into();
        // What the row after these gives is not right: its own next row is not here. The rows that come next write
        // over it; after the last ones there is no place for it.
        if here.end < rows {
            let outputs = [&mut columns, &mut sums].map(|whole| -> Result<_> {
                Ok(Target { values: whole.values_mut().range_mut(first..)?, stride: rows })
            });
            let [columns, sums] = outputs;
            write_fractions(session, fractions, main, &inputs, &selectors, [columns?, sums?])?;
            continue;
        }
        let made = fractions_of(session, fractions, main, &inputs, &selectors)?;
        // The first columns are those of the running sum, which nothing has written yet.
        for (whole, part, first_written) in [(&mut columns, &made[0], degree), (&mut sums, &made[1], 0)] {
            for column in first_written..part.columns() {
                let to = whole.column_range_mut(column, column + 1)?.range(here.clone())?;
                stream.copy(to, part.column(column)?.range(..here.len())?)?;
            }
        }
    }
    with_running_sum(session, columns, sums)
}

/// Writes the running sum of each row's sums into its column.
fn with_running_sum<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    mut columns: Matrix<Base<SC>>,
    sums: Matrix<Base<SC>>,
) -> Result<Matrix<Base<SC>>> {
    let running = columns.column_range_mut(0, Ext::<SC>::DEGREE)?;
    scan::prefix_sums_into(&session.stream, running, &sums, Bound::Exclusive)?;
    Ok(columns)
}

/// The columns of a table's lookups with the fractions in place, but not the running sum; and the sums of each row's
/// fractions. The rows are adjacent ones of a trace in natural order, and so are those of the selectors.
pub(crate) fn fractions_of<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    fractions: &Fractions<SC>,
    main: Columns<'_, Base<SC>>,
    inputs: &LookupInputs<'_, SC>,
    selectors: &Matrix<Base<SC>>,
) -> Result<[Matrix<Base<SC>>; 2]> {
    let (stream, rows, degree) = (&session.stream, main.rows(), Ext::<SC>::DEGREE);
    let mut columns = Matrix::alloc(stream, rows, fractions.columns() * degree)?;
    let mut sums = Matrix::alloc(stream, rows, degree)?;
    let outputs = [(&mut columns).into(), (&mut sums).into()];
    write_fractions(session, fractions, main, inputs, selectors, outputs)?;
    Ok([columns, sums])
}

/// Writes the fractions of adjacent rows into their columns, and the sums of each row's fractions.
fn write_fractions<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    fractions: &Fractions<SC>,
    main: Columns<'_, Base<SC>>,
    inputs: &LookupInputs<'_, SC>,
    selectors: &Matrix<Base<SC>>,
    outputs: [Target<'_, Base<SC>>; 2],
) -> Result<()> {
    let (stream, rows) = (&session.stream, main.rows());
    let mut bound = Inputs {
        main,
        preprocessed: inputs.preprocessed.map(Into::into),
        permutation: None,
        next: [None; 3],
        selectors: selectors.into(),
        periodic: None,
        publics: inputs.publics,
        extension: inputs.challenges,
    };

    let mut inverses = Matrix::alloc(stream, rows, fractions.terms * Ext::<SC>::DEGREE)?;
    bound.store(stream, &*fractions.denominators(stream.device())?, vec![(&mut inverses).into()])?;
    inverse::invert_assign::<Ext<SC>>(stream, &mut inverses)?;

    bound.permutation = Some((&inverses).into());
    Ok(bound.store(stream, &*fractions.fractions(stream.device())?, outputs.into())?)
}

/// Whether a lookup reads a periodic column. Upstream's prover panics if one does.
pub(crate) fn reads_periodic<V>(lookups: &[Lookup<V>]) -> bool
where
    V: p3_field::Field,
{
    let mut seen = HashSet::new();
    let expressions = |lookup| {
        let Lookup { elements, multiplicities, flags, .. }: &Lookup<V> = lookup;
        elements.iter().flatten().chain(multiplicities).chain(flags.iter().flatten())
    };
    lookups.iter().flat_map(expressions).any(|expression| has_periodic(expression, &mut seen))
}

fn has_periodic<V>(expression: &SymbolicExpression<V>, seen: &mut HashSet<*const SymbolicExpression<V>>) -> bool {
    if !seen.insert(expression) {
        return false;
    }
    match expression {
        SymbolicExpr::Leaf(BaseLeaf::Variable(variable)) => matches!(variable.entry, BaseEntry::Periodic),
        SymbolicExpr::Leaf(_) => false,
        SymbolicExpr::Add { x, y, .. } | SymbolicExpr::Sub { x, y, .. } | SymbolicExpr::Mul { x, y, .. } => {
            has_periodic(x, seen) || has_periodic(y, seen)
        }
        SymbolicExpr::Neg { x, .. } => has_periodic(x, seen),
    }
}

/// The graphs of a table's denominators and fractions.
pub(crate) struct Fractions<SC: DeviceConfig> {
    denominators: ExpressionGraph<Ext<SC>>,
    denominator_outputs: Vec<Output>,
    fractions: ExpressionGraph<Ext<SC>>,
    fraction_outputs: Vec<Output>,
    /// The number of denominators per row.
    terms: usize,
    /// The columns of the trace that both read, and the same fractions with a matrix of just these.
    narrow: OnceLock<Box<(Vec<usize>, Self)>>,
    /// The kernels of both, if they were compiled ahead of their use, and the device that they are for.
    programs: Option<(Device, [Program<SC>; 2])>,
}

impl<SC: DeviceConfig> Fractions<SC> {
    pub(crate) fn new(lookups: &[Lookup<SC::Value>]) -> Self {
        let degree = Ext::<SC>::DEGREE;
        let mut below = Lowering::<SC>::new();
        let mut above = Lowering::<SC>::new();
        let (mut denominator_outputs, mut fraction_outputs) = (Vec::new(), Vec::new());
        let mut terms = 0;
        let mut sum = above.graph.constant(Default::default());
        for lookup in lookups {
            let mut fraction = above.graph.constant(Default::default());
            for (denominator, numerator) in
                denominators(&mut below, lookup).into_iter().zip(numerators(&mut above, lookup))
            {
                denominator_outputs.push(Output::StoreExtension {
                    value: denominator,
                    output: 0,
                    column: terms * degree,
                });
                let inverse = above.graph.extension_column(INVERSES, terms * degree, 0);
                let term = above.graph.mul(inverse, numerator);
                fraction = above.graph.add(fraction, term);
                terms += 1;
            }
            fraction_outputs.push(Output::StoreExtension {
                value: fraction,
                output: 0,
                column: (lookup.column + 1) * degree,
            });
            sum = above.graph.add(sum, fraction);
        }
        fraction_outputs.push(Output::StoreExtension { value: sum, output: 1, column: 0 });
        Self {
            denominators: below.graph,
            denominator_outputs,
            fractions: above.graph,
            fraction_outputs,
            terms,
            narrow: OnceLock::new(),
            programs: None,
        }
    }

    /// The columns of the trace that the lookups read, in order, and the same fractions of a matrix of just these.
    fn narrow(&self) -> &(Vec<usize>, Self) {
        self.narrow.get_or_init(|| {
            let graphs =
                [(&self.denominators, &self.denominator_outputs), (&self.fractions, &self.fraction_outputs)];
            let mut read = BTreeSet::new();
            for (graph, outputs) in graphs {
                let mut columns = ColumnsRead::new([input::MAIN]);
                for output in outputs {
                    let [columns] = columns.of(graph, output.value());
                    read.extend(columns);
                }
            }
            if read.is_empty() {
                // A matrix has at least one column.
                read.insert(0);
            }
            let read: Vec<usize> = read.into_iter().collect();
            let [(denominators, denominator_outputs), (fractions, fraction_outputs)] =
                graphs.map(|(graph, outputs)| {
                    let (graph, values) = graph.with_columns(&values_of(outputs), input::MAIN, &read);
                    (graph, placed(outputs, &values))
                });
            let narrow = Self {
                denominators,
                denominator_outputs,
                fractions,
                fraction_outputs,
                terms: self.terms,
                narrow: OnceLock::new(),
                programs: None,
            };
            Box::new((read, narrow))
        })
    }

    /// The number of columns over the extension: the running sum and one per lookup.
    fn columns(&self) -> usize {
        // The outputs are one per lookup, and their sum.
        self.fraction_outputs.len()
    }

    /// Compiles the kernels, or finds them in a cache, ahead of their use.
    pub(crate) fn compile(&mut self, device: &Device) {
        self.programs = Some((device.clone(), [self.denominators(device), self.fractions(device)]));
    }

    /// Whether [`Self::compile`] has compiled all kernels.
    pub(crate) fn is_compiled(&self) -> bool {
        matches!(self.programs, Some((_, [Ok(_), Ok(_)])))
    }

    /// The kernels that write the denominators.
    pub(crate) fn denominators(&self, device: &Device) -> Program<SC> {
        match &self.programs {
            Some((compiled_for, [denominators, _])) if compiled_for.is(device) => denominators.clone(),
            _ => rigel_codegen::program(device, "denominators", &self.denominators, &self.denominator_outputs),
        }
    }

    /// The kernels that write the fractions and their sums from the inverted denominators.
    pub(crate) fn fractions(&self, device: &Device) -> Program<SC> {
        match &self.programs {
            Some((compiled_for, [_, fractions])) if compiled_for.is(device) => fractions.clone(),
            _ => rigel_codegen::program(device, "fractions", &self.fractions, &self.fraction_outputs),
        }
    }
}

/// `alpha - e_j` for each tuple; `sum_k flag_k (alpha - e_k) + 1 - sum_k flag_k` for exclusive branches.
fn denominators<SC: DeviceConfig>(lowering: &mut Lowering<SC>, lookup: &Lookup<SC::Value>) -> Vec<Value> {
    let alpha = lowering.graph.extension_parameter(parameter::challenge(2 * lookup.column));
    let beta = lowering.graph.extension_parameter(parameter::challenge(2 * lookup.column + 1));
    let mut terms = Vec::with_capacity(lookup.elements.len());
    for tuple in &lookup.elements {
        let mut combined = lowering.graph.constant(Default::default());
        for element in tuple {
            let element = lowering.base(element);
            let scaled = lowering.graph.mul(combined, beta);
            combined = lowering.graph.add(scaled, element);
        }
        terms.push(lowering.graph.sub(alpha, combined));
    }
    let Some(flags) = &lookup.flags else { return terms };
    let mut selected = lowering.graph.constant(rigel_kernels::field::Ring::ONE);
    for (flag, term) in flags.iter().zip(terms) {
        let flag = lowering.base(flag);
        let branch = lowering.graph.mul(flag, term);
        let with = lowering.graph.add(selected, branch);
        selected = lowering.graph.sub(with, flag);
    }
    vec![selected]
}

/// The multiplicity of each tuple; `sum_k flag_k m_k` for exclusive branches.
fn numerators<SC: DeviceConfig>(lowering: &mut Lowering<SC>, lookup: &Lookup<SC::Value>) -> Vec<Value> {
    let multiplicities: Vec<Value> = lookup.multiplicities.iter().map(|m| lowering.base(m)).collect();
    let Some(flags) = &lookup.flags else { return multiplicities };
    let mut selected = lowering.graph.constant(Default::default());
    for (flag, multiplicity) in flags.iter().zip(multiplicities) {
        let flag = lowering.base(flag);
        let branch = lowering.graph.mul(flag, multiplicity);
        selected = lowering.graph.add(selected, branch);
    }
    vec![selected]
}
