//! Constraints over several devices: each evaluates them in its rows.

use std::borrow::Cow;

use rigel_gpu::{Device, Error, Result, Stream};
use rigel_kernels::Matrix;
use rigel_kernels::domain::circle_order;
use rigel_kernels::field::Mersenne31;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CircleDomain;
use stwo::core::utils::bit_reverse_index;
use stwo::prover::backend::Column;
use stwo::prover::secure_column::SecureColumnByCoords;
use stwo::prover::{EvaluationMode, Poly, Trace};
use stwo_constraint_framework::{FrameworkComponent, FrameworkEval, PREPROCESSED_TRACE_IDX};

use super::Constraints;
use crate::CudaBackend;
use crate::accumulation::{from_slabs, into_slabs_on, take};
use crate::blocks::spread;
use crate::column::{BaseColumn, devices_of};
use crate::copies::send;
use crate::device::{stream, team};
use crate::inputs::{TreeInput, coefficients_of};
use crate::joined::Joined;
use crate::poly::evaluate_shared_out;
use crate::recorder::Source;
use crate::report::phase;
use crate::twiddles::over_devices;

/// The number of columns of neighbours that are made at once: their copies from other devices take memory beside
/// them.
const NEIGHBOURS_AT_ONCE: usize = 16;

/// A component whose columns are in blocks on several devices.
pub(super) struct InBlocks<'a, E: FrameworkEval> {
    pub(super) component: &'a FrameworkComponent<E>,
    pub(super) source: &'a Source<'a, E>,
    pub(super) trace: &'a Trace<'a, CudaBackend>,
    pub(super) trees: &'a [Vec<&'a Poly<CudaBackend>>],
    pub(super) mode: EvaluationMode,
    pub(super) domain: CircleDomain,
}

impl<'a, E: FrameworkEval> InBlocks<'a, E> {
    /// Evaluates the constraints on the blocks of the evaluation domain, each on its device, and adds them to `sums`.
    pub(super) fn evaluate(
        &self,
        weights: &[SecureField],
        sums: &mut SecureColumnByCoords<CudaBackend>,
    ) -> Result<()> {
        let phase_of_columns = phase("extend for constraints");
        let (columns, all_fixed) = self.columns()?;
        let inputs = block_inputs(&columns, &all_fixed, self.domain.size())?;
        drop(phase_of_columns);
        let _phase = phase("constraints");
        let mut constraints = Vec::with_capacity(inputs.len());
        let mut reads: &[(usize, usize, i32)] = &[];
        let apart;
        // The columns are the same on each device.
        let reading = self.source.read(&inputs[0][PREPROCESSED_TRACE_IDX].places, self.component.claimed_sum());
        let devices = inputs.iter().map(|inputs| device_of(inputs)).collect::<Result<Vec<_>>>()?;
        for device in &devices {
            let recorded = self.source.recorded(device, reading.clone())?;
            constraints.push(Constraints { recorded, log_trace: self.component.log_size(), domain: self.domain });
        }
        let blocks = inputs.len();
        if blocks > 1 {
            let made: Vec<_> =
                constraints.iter().map(|of| of.recorded.neighbours_apart(inputs[0].len())).collect();
            apart = made[0].1.clone();
            reads = &apart.reads;
            constraints.iter_mut().zip(made).for_each(|(of, (recorded, _))| of.recorded = recorded);
        }
        let mut neighbours =
            neighbours(&inputs, reads, self.domain.log_size(), self.component.log_size())?.into_iter();
        let (mut slabs, begun) = match sums.columns.iter().all(BaseColumn::is_blank) {
            true => {
                let rows = sums.len() / blocks;
                let room = |device: &Device| Matrix::alloc(&stream(device), rows, 4);
                (devices.iter().map(room).collect::<Result<Vec<_>>>()?, false)
            }
            // A component with shorter columns, which are whole, may have the same evaluation domain.
            false => (into_slabs_on(take(sums), &devices)?, true),
        };
        for (k, (of, slab)) in constraints.iter().zip(&mut slabs).enumerate() {
            let apart = neighbours.next();
            of.fold_block(
                &devices[k],
                &inputs[k],
                apart.as_ref().map(Into::into),
                weights,
                slab,
                begun,
                (k, blocks),
            )?;
        }
        *sums = from_slabs(slabs);
        Ok(())
    }

    /// The columns of each tree on the evaluation domain, and all preprocessed columns.
    #[expect(clippy::type_complexity, reason = "a list of trees and a list of columns")]
    fn columns(&self) -> Result<(Vec<Vec<Cow<'a, BaseColumn>>>, Vec<&'a BaseColumn>)> {
        if let EvaluationMode::SubDomain { .. } = self.mode {
            let columns = self.trees.iter().flatten().map(|polynomial| &polynomial.evals.values);
            let devices = devices_of(columns).unwrap_or_default();
            let in_place = |column: &&BaseColumn| column.blocks().is_some_and(|blocks| blocks.are_on(&devices));
            let committed = |tree: &Vec<&'a Poly<CudaBackend>>| {
                let columns: Vec<&BaseColumn> = tree.iter().map(|polynomial| &polynomial.evals.values).collect();
                if columns.iter().all(in_place) {
                    return Ok(columns.into_iter().map(Cow::Borrowed).collect());
                }
                // A tree of another scope.
                Ok(spread(&columns, &devices)?.into_iter().map(Cow::Owned).collect())
            };
            let all_fixed = &self.trace.polys[PREPROCESSED_TRACE_IDX];
            let all_fixed = all_fixed.iter().map(|polynomial| &polynomial.evals.values).filter(in_place).collect();
            return Ok((self.trees.iter().map(committed).collect::<Result<_>>()?, all_fixed));
        }
        let extended = |tree: &Vec<&Poly<CudaBackend>>| {
            let coefficients: Vec<&BaseColumn> =
                tree.iter().map(|polynomial| coefficients_of(polynomial)).collect();
            if coefficients.is_empty() {
                return Ok(Vec::new());
            }
            let twiddles = over_devices(&team()?, self.domain.half_coset)?;
            let columns = evaluate_shared_out(&coefficients, self.domain, &twiddles)?;
            Ok(columns.into_iter().map(Cow::Owned).collect())
        };
        Ok((self.trees.iter().map(extended).collect::<Result<_>>()?, Vec::new()))
    }
}

/// The device of a component's columns.
fn device_of(inputs: &[TreeInput<'_>]) -> Result<Device> {
    let device = inputs.iter().find_map(TreeInput::device);
    device.ok_or_else(|| Error::shape("CudaBackend", "a component without columns has no rows"))
}

/// The trees' columns on each device that has rows of the evaluation domain. The domain is the first `rows` rows
/// of the columns: those of the first blocks, or a part of the first one.
fn block_inputs<'a>(
    trees: &'a [Vec<Cow<'_, BaseColumn>>],
    all_fixed: &[&'a BaseColumn],
    rows: usize,
) -> Result<Vec<Vec<TreeInput<'a>>>> {
    let part = |column: &'a BaseColumn, k: usize| column.blocks().map_or(column, |blocks| &blocks.parts()[k]);
    let Some(first) = trees.iter().flatten().next() else {
        return Err(Error::shape("CudaBackend", "a component without columns has no rows"));
    };
    let block_rows = part(first, 0).len();
    let blocks = rows.div_ceil(block_rows);
    let of_device = |k: usize| {
        let tree = |(tree, columns): (usize, &'a Vec<Cow<'_, BaseColumn>>)| {
            let fixed = (tree == PREPROCESSED_TRACE_IDX).then_some(all_fixed).into_iter().flatten();
            let fixed = fixed.filter(|column| column.len() == first.len()).map(|column| part(column, k));
            TreeInput::new(columns.iter().map(|column| part(column, k)).collect(), fixed)
        };
        trees.iter().enumerate().map(tree).collect()
    };
    Ok((0..blocks).map(of_device).collect())
}

/// The neighbours that constraints read of the rows of each block of an evaluation domain of 2^`log_rows` points:
/// in steps of a trace of 2^`log_trace` rows. None if they read none.
///
/// The natural index of a point on the half coset is `high K + low` with low = bitrev(k) in block k of K. A row at an
/// offset is a number of points further there, or for odd rows, which are mirror images, as many points back. So the
/// neighbours of the even rows of a block are in one block, and those of its odd rows in one.
///
/// All of them are made before constraints are evaluated anywhere: a copy starts after the work so far of the device
/// that sends it, so that otherwise the devices would evaluate them one after another.
fn neighbours(
    inputs: &[Vec<TreeInput<'_>>],
    reads: &[(usize, usize, i32)],
    log_rows: u32,
    log_trace: u32,
) -> Result<Vec<Matrix<Mersenne31>>> {
    if reads.is_empty() {
        return Ok(Vec::new());
    }
    if log_rows <= log_trace {
        let detail =
            format!("constraints of 2^{log_trace} rows on 2^{log_rows} points; there must be more points");
        return Err(Error::shape("rigel_stwo::over", detail));
    }
    let blocks = inputs.len();
    let (log_blocks, rows) = (blocks.ilog2(), (1usize << log_rows) / blocks);
    let mut all = Vec::with_capacity(blocks);
    for k in 0..blocks {
        let stream = stream(&device_of(&inputs[k])?);
        let mut matrix = Matrix::alloc(&stream, rows, reads.len())?;
        let mut first = 0;
        let at_once = reads.chunk_by(|a, b| a.2 == b.2).flat_map(|alike| alike.chunks(NEIGHBOURS_AT_ONCE));
        for alike in at_once {
            let step = i64::from(alike[0].2) << (log_rows - log_trace - 1);
            let low = bit_reverse_index(k, log_blocks) as i64;
            // For even and odd rows, the block and how many points further they are there.
            let sides = [low + step, low - step].map(|to| {
                let low = to.rem_euclid(blocks as i64) as usize;
                (bit_reverse_index(low, log_blocks), to.div_euclid(blocks as i64))
            });
            let [even, odd] = sides.map(|(block, _)| block);
            let there = |block: usize| read_columns(&stream, &inputs[block], alike, rows);
            let of_even = there(even)?;
            let of_odd = (odd != even).then(|| there(odd)).transpose()?;
            let odd = of_odd.as_ref().unwrap_or(&of_even).view();
            let to = matrix.column_range_mut(first, first + alike.len())?;
            let steps = sides.map(|(_, points)| points);
            circle_order::neighbours_into(&stream, to, of_even.view(), odd, rows, steps)?;
            first += alike.len();
        }
        all.push(matrix);
    }
    Ok(all)
}

/// The columns of a block that are read, on the stream's device: in place if they are contiguous there, else a copy.
fn read_columns<'a>(
    stream: &Stream,
    trees: &'a [TreeInput<'_>],
    reads: &[(usize, usize, i32)],
    rows: usize,
) -> Result<Joined<'a>> {
    type Read = (usize, usize, i32);
    let follows = |a: &Read, b: &Read| (b.0, b.1) == (a.0, a.1 + 1) && trees[a.0].stride == rows;
    let runs = reads.chunk_by(follows).map(|run| {
        let (tree, first, _) = run[0];
        trees[tree].columns(first..first + run.len(), rows)
    });
    let runs = runs.collect::<Result<Vec<_>>>()?;
    if let [run] = runs[..]
        && run.device().is(stream.device())
    {
        return Ok(Joined::Here(run));
    }
    let mut copy = stream.alloc(rows * reads.len())?;
    let (mut rest, mut pieces) = (copy.view_mut(), Vec::with_capacity(runs.len()));
    for run in runs {
        let (target, tail) = rest.split_at(run.len())?;
        pieces.push((run, target));
        rest = tail;
    }
    send(pieces)?;
    Ok(Joined::Copied(copy))
}
