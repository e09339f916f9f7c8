//! The quotient: the constraints, combined by powers of alpha, divided by the vanishing polynomial.
//!
//! `Q(x) = sum_j alpha^(K-1-j) C_j(x) / Z_H(x)` on the coset g K of n q points. In bit-reversed order, the first n
//! q rows of the extended trace are its values on g K. The chunks of Q, its values on `g w^i H`, are blocks of n
//! rows. So no data has to be moved.

use std::ops::Range;
use std::sync::Arc;

use p3_commit::{PolynomialSpace, UnivariateStarkPcs};
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_field::{Field as _, PrimeCharacteristicRing, TwoAdicField};
use p3_util::{reverse_bits_len, reverse_slice_index_bits};
use rigel_codegen::{Folded, GraphProgram};
use rigel_gpu::{Buffer, Stream};
use rigel_kernels::domain::block::Block;
use rigel_kernels::domain::selectors;
use rigel_kernels::field::{Element, Ring};
use rigel_kernels::layout::permute;
use rigel_kernels::transform::ntt::Order;
use rigel_kernels::vector::powers;
use rigel_kernels::{Columns, Matrix};

use crate::air::constraints::Constraints;
use crate::air::program::{Inputs, Parameters};
use crate::base::error::Result;
use crate::columns::extended::{Extended, extend_all, extend_to, on_coset};
use crate::columns::masks;
use crate::prover::session::Session;
use crate::prover::session::are_small;
use crate::upstream::config::{Base, DeviceConfig, Ext};
use crate::upstream::field::{DeviceExtension, DeviceField};

/// A table, as seen by its constraints.
pub(crate) struct Table<'a, SC: DeviceConfig> {
    /// The logarithm of the trace's height.
    pub(crate) log_rows: u32,
    pub(crate) constraints: &'a Constraints<SC>,
    pub(crate) main: &'a Extended<'a, SC>,
    pub(crate) preprocessed: Option<&'a Matrix<Base<SC>>>,
    pub(crate) permutation: Option<&'a Extended<'a, SC>>,
    pub(crate) periodic: &'a [Vec<SC::Value>],
    pub(crate) publics: &'a [SC::Value],
    /// The terminal and the challenges of the lookups.
    pub(crate) extension: &'a [SC::Challenge],
}

/// The chunks of a table's quotient, extended like a trace.
pub(crate) fn chunks<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    table: &Table<'_, SC>,
    alpha: SC::Challenge,
) -> Result<Vec<Matrix<Base<SC>>>> {
    Ok(chunks_of_all(session, std::slice::from_ref(table), alpha)?.remove(0))
}

/// The chunks of the quotients of several tables, by table.
pub(crate) fn chunks_of_all<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    tables: &[Table<'_, SC>],
    alpha: SC::Challenge,
) -> Result<Vec<Vec<Matrix<Base<SC>>>>> {
    let bytes = |table: &Table<'_, SC>| size_of::<Ext<SC>>() << table.log_rows << table.constraints.log_chunks;
    let are_whole = tables.iter().all(|table| matches!(table.main, Extended::Whole(_)));
    let together = are_whole && are_small(tables.iter().map(bytes).sum());
    let at_once = if together { tables.len() } else { 1 };
    let mut chunks = Vec::with_capacity(tables.len());
    for tables in tables.chunks(at_once) {
        let evaluate = |table| evaluate(session, table, alpha);
        let quotients: Vec<Buffer<_>> =
            session.phase("constraints", || tables.iter().map(evaluate).collect::<Result<_>>())?;
        chunks.extend(session.phase("extend", || extend_chunks(session, tables, &quotients))?);
    }
    Ok(chunks)
}

/// The chunks of quotients, extended like traces, by table.
fn extend_chunks<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    tables: &[Table<'_, SC>],
    quotients: &[Buffer<Base<SC>>],
) -> Result<Vec<Vec<Matrix<Base<SC>>>>> {
    let of_table = |(table, quotient): (&Table<'_, SC>, _)| {
        let log_chunks = table.constraints.log_chunks;
        let words = Ext::<SC>::DEGREE << table.log_rows;
        // Chunk i holds the values on g w^i H.
        let chunk = |i: usize| {
            let block = reverse_bits_len(i, log_chunks);
            let values = Buffer::range(quotient, block * words..(block + 1) * words)?;
            Ok(Columns::new(values, 1 << table.log_rows)?)
        };
        (0..1 << log_chunks).map(chunk).collect::<Result<Vec<_>>>()
    };
    let chunks = tables.iter().zip(quotients).map(of_table).collect::<Result<Vec<_>>>()?;
    if let Some(hiding) = session.prover.hiding_streams() {
        let of_table =
            |(table, chunks): (&Table<'_, SC>, &Vec<_>)| masks::chunks(session, hiding, table.log_rows, chunks);
        return tables.iter().zip(&chunks).map(of_table).collect();
    }
    let with_shifts = tables.iter().zip(&chunks).flat_map(|(table, chunks)| {
        let root = SC::Value::two_adic_generator(table.log_rows as usize + table.constraints.log_chunks);
        // A shift by w^-i maps the domain of chunk i to g H.
        chunks.iter().zip(root.inverse().powers()).map(|(&chunk, shift)| (chunk, shift.twin()))
    });
    let mut extended = extend_all(session, with_shifts, Order::BitReversed)?.into_iter();
    Ok(chunks.iter().map(|chunks| extended.by_ref().take(chunks.len()).collect()).collect())
}

/// The quotient's values: one block of `DEGREE` columns per chunk, with the chunks in bit-reversed order.
fn evaluate<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    table: &Table<'_, SC>,
    alpha: SC::Challenge,
) -> Result<Buffer<Base<SC>>> {
    let stream = &session.stream;
    let log_size = table.log_rows + table.constraints.log_chunks as u32;
    if table.constraints.count() == 0 {
        return Ok(stream.zeros(Ext::<SC>::DEGREE << log_size)?);
    }
    let mut sums = Sums::new(session, table, Block::whole(log_size), alpha)?;

    // Where the quotient's domain is larger than the extended trace's, all columns are extrapolated to it.
    let beyond = log_size > table.main.log_rows();
    let wider = |matrix: &Matrix<Base<SC>>| {
        let columns: Vec<usize> = (0..matrix.columns()).collect();
        on_coset(session, matrix, &columns, log_size)
    };
    let preprocessed = table.preprocessed.filter(|_| beyond).map(wider).transpose()?;
    let preprocessed = preprocessed.as_ref().or(table.preprocessed);
    let mut run = |main: &Matrix<_>, permutation: Option<&Matrix<_>>, program: &GraphProgram<Ext<SC>>| {
        sums.add(stream, Read { main, preprocessed, permutation, next: [None; 3] }, program)
    };
    match table.main {
        Extended::Whole(main) => {
            let permutation = table.permutation.map(Extended::whole);
            let program = &*table.constraints.program(stream.device())?;
            match beyond {
                true => run(&wider(main)?, permutation.map(wider).transpose()?.as_ref(), program)?,
                false => run(main, permutation, program)?,
            }
        }
        Extended::InBatches { trace, batch, .. } => {
            let parts = table.constraints.by_columns(*batch);
            let lists: Vec<Vec<usize>> = parts.iter().map(|part| part.columns[0].clone()).collect();
            trace.each(session, &lists, 1, |index, columns| {
                let [_, lookup_columns] = &parts[index].columns;
                let main = extend_to(session, columns, log_size)?;
                let lookups = table.permutation.filter(|_| !lookup_columns.is_empty());
                let lookups =
                    lookups.map(|lookups| lookups.chosen(session, lookup_columns, log_size)).transpose()?;
                run(&main, lookups.as_ref(), &*parts[index].program(stream.device())?)
            })?;
        }
    }
    Ok(sums.values)
}

/// The matrices that constraints read.
pub(crate) struct Read<'a, SC: DeviceConfig> {
    pub(crate) main: &'a Matrix<Base<SC>>,
    pub(crate) preprocessed: Option<&'a Matrix<Base<SC>>>,
    pub(crate) permutation: Option<&'a Matrix<Base<SC>>>,
    /// The next rows of the trace, of the preprocessed columns and of the lookups' columns, where they are in other
    /// blocks.
    pub(crate) next: [Option<&'a Matrix<Base<SC>>>; 3],
}

/// The sums of constraints on a block of the quotient's domain, and what all of them read there.
pub(crate) struct Sums<SC: DeviceConfig> {
    block: Block,
    log_trace: u32,
    selectors: Arc<Matrix<Base<SC>>>,
    periodic: Option<Matrix<Base<SC>>>,
    /// The terminal and the challenges of the lookups, the powers of alpha if they are few, 1 / Z_H for each n rows or
    /// for all, and the public values.
    parameters: Parameters<SC>,
    /// The powers of alpha if they are many.
    weights: Option<Buffer<Ext<SC>>>,
    /// A slab for each n rows, or one for all.
    pub(crate) values: Buffer<Base<SC>>,
    is_begun: bool,
}

impl<SC: DeviceConfig> Sums<SC> {
    pub(crate) fn new(
        session: &Session<'_, SC>,
        table: &Table<'_, SC>,
        block: Block,
        alpha: SC::Challenge,
    ) -> Result<Self> {
        /// The most powers that are made here, as part of an upload.
        const FEW: usize = 24;
        let (stream, count) = (&session.stream, table.constraints.count());
        let weights = match count <= FEW {
            true => None,
            false => {
                let powers = powers::powers(stream, Ext::<SC>::ONE, alpha.to_device(), count)?;
                Some(permute::to_rows(stream, &powers)?.cast()?)
            }
        };
        let few = if weights.is_none() { alpha.powers().take(count).collect() } else { Vec::new() };
        let inverses = selectors::inverse_vanishing(table.log_rows, table.constraints.log_chunks as u32);
        let words = [&inverses[within(block, table.log_rows)], SC::Value::as_device(table.publics)];
        Ok(Self {
            block,
            log_trace: table.log_rows,
            selectors: selectors::kept_on_block(stream, block, table.log_rows)?,
            periodic: periodic(session, table, block)?,
            parameters: Parameters::upload(stream, &[table.extension.to_vec(), few], &words)?,
            weights,
            values: stream.alloc(Ext::<SC>::DEGREE << block.log_rows)?,
            is_begun: false,
        })
    }

    /// Adds the constraints of a program.
    pub(crate) fn add(
        &mut self,
        stream: &Stream,
        read: Read<'_, SC>,
        program: &GraphProgram<Ext<SC>>,
    ) -> Result<()> {
        let inputs = Inputs::<Ext<SC>> {
            main: read.main.into(),
            preprocessed: read.preprocessed.map(Into::into),
            permutation: read.permutation.map(Into::into),
            next: read.next.map(|next| next.map(Into::into)),
            selectors: (&*self.selectors).into(),
            periodic: self.periodic.as_ref().map(|table| (table.into(), table.rows().trailing_zeros())),
            publics: self.parameters.words(3)?,
            extension: self.parameters.elements(0)?,
        };
        let few = self.parameters.elements(1)?;
        let weights = self.weights.as_ref().map(Buffer::view).or(few).expect("there are constraints");
        let folded = Folded {
            values: self.values.view_mut(),
            scale: self.parameters.words(2)?.expect("at least one"),
            log_scale: self.log_trace,
            log_block: self.log_trace.min(self.block.log_rows),
            accumulate: std::mem::replace(&mut self.is_begun, true),
        };
        let log_step = self.block.log_rows.saturating_sub(self.log_trace);
        Ok(inputs.fold(stream, program, (self.block.log_rows, log_step), weights, folded)?)
    }
}

/// The entries for a block, of a list with an entry for each 2^`log_shared` rows.
fn within(block: Block, log_shared: u32) -> Range<usize> {
    let first = block.first() >> log_shared;
    first..first + (block.rows() >> log_shared).max(1)
}

/// The periodic columns on a block of the quotient's domain, bit-reversed, with as many rows as the longest period
/// requires.
fn periodic<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    table: &Table<'_, SC>,
    block: Block,
) -> Result<Option<Matrix<Base<SC>>>> {
    if table.periodic.is_empty() {
        return Ok(None);
    }
    let trace_domain = TwoAdicMultiplicativeCoset::new(SC::Value::ONE, table.log_rows as usize).expect("checked");
    let log_size = table.log_rows as usize + table.constraints.log_chunks;
    let domain = trace_domain.create_disjoint_domain(1 << log_size);
    let lde = session.prover.config().pcs().build_periodic_lde_table(table.periodic, trace_domain, domain);
    let rows = within(block, log_size as u32 - lde.height().trailing_zeros());
    let column = |c: usize| {
        let mut values: Vec<SC::Value> = (0..lde.height()).map(|row| *lde.get(row, c)).collect();
        reverse_slice_index_bits(&mut values);
        values[rows.clone()].to_vec()
    };
    let values: Vec<SC::Value> = (0..lde.width()).flat_map(column).collect();
    Ok(Some(Matrix::upload(&session.stream, SC::Value::as_device(&values), rows.len())?))
}
