//! The quotient: the constraints, combined by powers of alpha, divided by the vanishing polynomial.
//!
//! `Q(x) = sum_j alpha^(K-1-j) C_j(x) / Z_H(x)` on the coset g K of n q points. In bit-reversed order, the first n
//! q rows of the extended trace are its values on g K. The chunks of Q, its values on `g w^i H`, are blocks of n
//! rows. So no data has to be moved.

use p3_commit::{PolynomialSpace, UnivariateStarkPcs};
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_field::{Field as _, PrimeCharacteristicRing, TwoAdicField};
use p3_util::{reverse_bits_len, reverse_slice_index_bits};
use rigel_codegen::{Folded, GraphProgram};
use rigel_gpu::Buffer;
use rigel_kernels::domain::selectors;
use rigel_kernels::field::{Element, Ring};
use rigel_kernels::layout::permute;
use rigel_kernels::open::opening;
use rigel_kernels::transform::ntt::Order;
use rigel_kernels::vector::powers;
use rigel_kernels::{Columns, Matrix};

use crate::config::{Base, DeviceConfig, Ext};
use crate::constraints::Constraints;
use crate::error::Result;
use crate::extended::{Extended, extend, on_coset};
use crate::field::{DeviceExtension, DeviceField};
use crate::hiding;
use crate::program::Inputs;
use crate::prover::Session;

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
    let quotient = session.phase("constraints", || evaluate(session, table, alpha))?;
    session.phase("extend", || {
        let log_chunks = table.constraints.log_chunks;
        let words = Ext::<SC>::DEGREE << table.log_rows;
        // Chunk i holds the values on g w^i H.
        let chunk = |i: usize| {
            let block = reverse_bits_len(i, log_chunks);
            Ok(Columns::new(quotient.range(block * words..(block + 1) * words)?, 1 << table.log_rows)?)
        };
        let chunks: Vec<Columns<'_, Base<SC>>> = (0..1 << log_chunks).map(chunk).collect::<Result<_>>()?;
        if let Some(hiding) = session.prover.hiding_streams() {
            return hiding::chunks(session, hiding, table.log_rows, &chunks);
        }
        let root = SC::Value::two_adic_generator(table.log_rows as usize + log_chunks);
        let extend = |(i, &chunk): (usize, &Columns<'_, Base<SC>>)| {
            // A shift by w^-i maps the chunk's domain to g H.
            let shift = root.exp_u64(i as u64).inverse().twin();
            Ok(extend(session, chunk, shift, Order::BitReversed)?)
        };
        chunks.iter().enumerate().map(extend).collect()
    })
}

/// The quotient's values: one block of `DEGREE` columns per chunk, with the chunks in bit-reversed order.
fn evaluate<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    table: &Table<'_, SC>,
    alpha: SC::Challenge,
) -> Result<Buffer<Base<SC>>> {
    let stream = &session.stream;
    let (log_rows, log_chunks) = (table.log_rows, table.constraints.log_chunks as u32);
    let log_size = log_rows + log_chunks;
    let mut values = stream.alloc::<Base<SC>>(Ext::<SC>::DEGREE << log_size)?;
    if table.constraints.count() == 0 {
        stream.fill_bytes(&mut values, 0)?;
        return Ok(values);
    }
    let points = opening::coset_points::<Base<SC>>(stream, log_size)?;
    let selectors = selectors::on_coset(stream, points.view(), log_rows, log_chunks)?;
    let periodic = periodic(session, table)?;
    let publics = non_empty(session, SC::Value::as_device(table.publics))?;
    let extension: Vec<Ext<SC>> = table.extension.iter().map(|&x| x.to_device()).collect();
    let extension = non_empty(session, &extension)?;
    let weights = powers::powers(stream, Ext::<SC>::ONE, alpha.to_device(), table.constraints.count())?;
    let weights = permute::to_rows(stream, &weights)?.cast::<Ext<SC>>()?;
    let scale = stream.upload(&selectors::inverse_vanishing::<Base<SC>>(log_rows, log_chunks))?;

    // Where the quotient's domain is larger than the extended trace's, all columns are extrapolated to it.
    let beyond = log_size > table.main.log_rows();
    let wider = |matrix: &Matrix<Base<SC>>| {
        let columns: Vec<usize> = (0..matrix.columns()).collect();
        on_coset(session, matrix, &columns, log_size)
    };
    let preprocessed = table.preprocessed.filter(|_| beyond).map(wider).transpose()?;
    let preprocessed = preprocessed.as_ref().or(table.preprocessed);
    let made = match table.permutation {
        None => None,
        Some(Extended::Whole(_)) if !beyond => None,
        Some(lookups) => {
            let columns: Vec<usize> = (0..lookups.columns()).collect();
            Some(lookups.chosen(session, &columns, log_size)?)
        }
    };
    let permutation = match table.permutation {
        Some(Extended::Whole(matrix)) => made.as_ref().or(Some(matrix)),
        _ => made.as_ref(),
    };

    let mut run = |main: Columns<'_, Base<SC>>, program: &GraphProgram<Ext<SC>>, accumulate: bool| {
        let inputs = Inputs::<Ext<SC>> {
            main,
            preprocessed: preprocessed.map(Into::into),
            permutation: permutation.map(Into::into),
            selectors: (&selectors).into(),
            periodic: periodic.as_ref().map(|table| (table.into(), table.rows().trailing_zeros())),
            publics: publics.as_ref().map(Buffer::view),
            extension: extension.as_ref().map(Buffer::view),
        };
        let folded = Folded {
            values: values.view_mut(),
            scale: scale.view(),
            log_scale: log_rows,
            log_block: log_rows,
            accumulate,
        };
        inputs.fold(stream, program, (log_size, log_chunks), &weights, folded)
    };
    match table.main {
        Extended::Whole(main) if !beyond => {
            run(main.into(), &*table.constraints.program(stream.device())?, false)?
        }
        Extended::Whole(main) => {
            run((&wider(main)?).into(), &*table.constraints.program(stream.device())?, false)?
        }
        Extended::InBatches { batch, .. } => {
            for (index, part) in table.constraints.by_columns(*batch).iter().enumerate() {
                let main = table.main.chosen(session, &part.columns, log_size)?;
                let program = rigel_codegen::program(stream.device(), "constraints", &part.graph, &part.outputs)?;
                run((&main).into(), &program, index > 0)?;
            }
        }
    }
    Ok(values)
}

/// The periodic columns on the quotient's domain, bit-reversed, with as many rows as the longest period requires.
fn periodic<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    table: &Table<'_, SC>,
) -> Result<Option<Matrix<Base<SC>>>> {
    if table.periodic.is_empty() {
        return Ok(None);
    }
    let trace_domain = TwoAdicMultiplicativeCoset::new(SC::Value::ONE, table.log_rows as usize).expect("checked");
    let domain =
        trace_domain.create_disjoint_domain(1 << (table.log_rows as usize + table.constraints.log_chunks));
    let lde = session.prover.config().pcs().build_periodic_lde_table(table.periodic, trace_domain, domain);
    let column = |c: usize| {
        let mut values: Vec<SC::Value> = (0..lde.height()).map(|row| *lde.get(row, c)).collect();
        reverse_slice_index_bits(&mut values);
        values
    };
    let values: Vec<SC::Value> = (0..lde.width()).flat_map(column).collect();
    Ok(Some(Matrix::upload(&session.stream, SC::Value::as_device(&values), lde.height())?))
}

/// Uploads values; `None` if there are none.
pub(crate) fn non_empty<SC: DeviceConfig, T: rigel_gpu::Plain>(
    session: &Session<'_, SC>,
    values: &[T],
) -> Result<Option<Buffer<T>>> {
    Ok(if values.is_empty() { None } else { Some(session.stream.upload(values)?) })
}
