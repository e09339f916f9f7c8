//! Constraints on the device.

use std::sync::Arc;

use rigel_codegen::{Folded, GraphProgram, Input, Output, Rows};
use rigel_gpu::{Device, Error, Result};
use rigel_kernels::Matrix;
use rigel_kernels::field::{Mersenne31, QM31};
use stwo::core::air::Component;
use stwo::core::constraints::coset_vanishing;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::{CanonicCoset, CircleDomain};
use stwo::core::utils::bit_reverse;
use stwo::prover::secure_column::SecureColumnByCoords;
use stwo::prover::{ComponentProver, DomainEvaluationAccumulator, EvaluationMode, Poly, Trace};
use stwo_constraint_framework::{FrameworkComponent, FrameworkEval, PREPROCESSED_TRACE_IDX};

use crate::CudaBackend;
use crate::accumulation::{into_slabs_on, take};
use crate::column::BaseColumn;
use crate::device::stream;
use crate::failure::OrFail;
use crate::field::Twin;
use crate::inputs::{DeviceParameters, TreeInput, bindings, source_of};
use crate::joined::coordinates;
use crate::logup;
use crate::recorded::{Expressions, Recorded};
use crate::recorder::Source;
use crate::report::phase;
use crate::upload;

mod in_blocks;

use in_blocks::InBlocks;

impl<E: FrameworkEval> ComponentProver<CudaBackend> for FrameworkComponent<E> {
    fn evaluate_constraint_quotients_on_domain(
        &self,
        trace: &Trace<'_, CudaBackend>,
        evaluation_accumulator: &mut DomainEvaluationAccumulator<CudaBackend>,
    ) {
        evaluate_quotients(self, &Source::own(&**self), trace, evaluation_accumulator);
    }
}

/// Evaluates a component's constraints, recorded from `source`, and adds them to the accumulator.
pub(crate) fn evaluate_quotients<E: FrameworkEval>(
    component: &FrameworkComponent<E>,
    source: &Source<'_, E>,
    trace: &Trace<'_, CudaBackend>,
    evaluation_accumulator: &mut DomainEvaluationAccumulator<CudaBackend>,
) {
    if component.n_constraints() == 0 {
        return;
    }
    if component.is_disabled() {
        evaluation_accumulator.skip_coeffs(component.n_constraints());
        return;
    }
    let mode = evaluation_accumulator.evaluation_mode();
    let domain = evaluation_domain(component.max_constraint_log_degree_bound(), mode);
    let [accumulator] = evaluation_accumulator.columns([(domain.log_size(), component.n_constraints())]);
    let mut weights = accumulator.random_coeff_powers;
    weights.reverse();

    // The component's columns in each tree; preprocessed columns may be anywhere in theirs.
    let mut trees: Vec<Vec<&Poly<CudaBackend>>> = trace
        .polys
        .sub_tree(component.trace_locations())
        .iter()
        .map(|tree| tree.iter().map(|&&polynomial| polynomial).collect())
        .collect();
    trees.resize_with(trees.len().max(PREPROCESSED_TRACE_IDX + 1), Vec::new);
    trees[PREPROCESSED_TRACE_IDX] = component
        .preprocessed_column_indices()
        .iter()
        .map(|&index| trace.polys[PREPROCESSED_TRACE_IDX][index])
        .collect();

    let batch_bytes =
        trees.iter().flatten().find_map(|polynomial| Some(source_of(polynomial, mode)?.of.batch_bytes()));
    if let Some(bytes) = batch_bytes {
        let constraints = Constraints {
            recorded: source
                .record(&(0..trees[PREPROCESSED_TRACE_IDX].len()).collect::<Vec<_>>(), component.claimed_sum()),
            log_trace: component.log_size(),
            domain,
        };
        let made = constraints.fold_in_batches(&trees, mode, &weights, accumulator.col, bytes);
        return made.or_fail("evaluate constraints");
    }

    let shared_out = trees.iter().flatten().any(|polynomial| polynomial.evals.values.blocks().is_some());
    if shared_out {
        let in_blocks = InBlocks { component, source, trace, trees: &trees, mode, domain };
        return in_blocks.evaluate(&weights, accumulator.col).or_fail("evaluate constraints");
    }

    let mut evaluate = || -> Result<()> {
        let phase_of_columns = phase("extend for constraints");
        let inputs: Result<Vec<TreeInput<'_>>> = trees
            .iter()
            .enumerate()
            .map(|(tree, columns)| match mode {
                EvaluationMode::SubDomain { .. } => {
                    let committed = columns.iter().map(|polynomial| &polynomial.evals.values).collect();
                    let neighbours = (tree == PREPROCESSED_TRACE_IDX)
                        .then(|| trace.polys[PREPROCESSED_TRACE_IDX].iter().map(|p| &p.evals.values));
                    Ok(TreeInput::new(committed, neighbours.into_iter().flatten()))
                }
                EvaluationMode::ExtendToEvalDomain => TreeInput::extended(columns, domain),
            })
            .collect();
        let inputs = inputs?;
        drop(phase_of_columns);
        let _phase = phase("constraints");
        let Some(device) = inputs.iter().find_map(TreeInput::device) else {
            return Err(rigel_gpu::Error::shape("CudaBackend", "a component without columns has no rows"));
        };
        let reading = source.read(&inputs[PREPROCESSED_TRACE_IDX].places, component.claimed_sum());
        let recorded = source.recorded(&device, reading)?;
        let constraints = Constraints { recorded, log_trace: component.log_size(), domain };
        let (mut sums, begun) = sums_so_far(&device, accumulator.col)?;
        constraints.fold(&device, &inputs, &weights, &mut sums, begun)?;
        *accumulator.col = coordinates(sums);
        Ok(())
    };
    evaluate().or_fail("evaluate constraints");
}

/// The sums of the components before, or room for them, on a device, and whether there were any.
fn sums_so_far(
    device: &Device,
    columns: &mut SecureColumnByCoords<CudaBackend>,
) -> Result<(Matrix<Mersenne31>, bool)> {
    if columns.columns.iter().all(BaseColumn::is_blank) {
        return Ok((Matrix::alloc(&stream(device), columns.len(), 4)?, false));
    }
    Ok((into_slabs_on(take(columns), std::slice::from_ref(device))?.remove(0), true))
}

/// The domain on which constraints are evaluated: a subdomain of the committed domain, or a separate one.
fn evaluation_domain(log_degree_bound: u32, mode: EvaluationMode) -> CircleDomain {
    match mode {
        EvaluationMode::SubDomain { log_expansion } => {
            CanonicCoset::new(log_degree_bound + log_expansion).circle_domain().split(log_expansion).0
        }
        EvaluationMode::ExtendToEvalDomain => CanonicCoset::new(log_degree_bound).circle_domain(),
    }
}

/// The kernels of a component's constraints.
fn program(device: &Device, recorded: &Recorded) -> Result<Arc<GraphProgram<QM31>>> {
    let Expressions { graph, constraints, constraint_program, .. } = &*recorded.expressions;
    constraint_program.get_or_make(|| {
        let fold = |(weight, &value)| Output::Fold { value, weight };
        let outputs: Vec<Output> = constraints.iter().enumerate().map(fold).collect();
        rigel_codegen::program(device, "constraints", graph, &outputs)
    })
}

/// Compiles the kernels of a component's constraints and lookups for a device, or finds them in its cache, so that no
/// proof on one device waits for a compiler. Returns the number of kernels. `preprocessed` has the logarithms of the
/// lengths of all columns in the preprocessed tree.
///
/// Calling it is optional. The device may be one that only compiles ([`Device::compile_only`]). Lookup elements and the
/// claimed sum are parameters of the kernels. They may have any values that are not in the base field, and different
/// ones must differ, as those of a proof do. In upstream's mode `ExtendToEvalDomain`, a component that reads only some
/// preprocessed columns of its length compiles other kernels during its first proof.
pub fn compile<E: FrameworkEval>(
    device: &Device,
    component: &FrameworkComponent<E>,
    preprocessed: &[u32],
) -> Result<usize> {
    compile_from(device, component, &Source::own(&**component), preprocessed)
}

/// Compiles the kernels of a component, recorded from `source`.
pub(crate) fn compile_from<E: FrameworkEval>(
    device: &Device,
    component: &FrameworkComponent<E>,
    source: &Source<'_, E>,
    preprocessed: &[u32],
) -> Result<usize> {
    let log_size = component.log_size();
    let alike: Vec<usize> = (0..preprocessed.len()).filter(|&index| preprocessed[index] == log_size).collect();
    let place = |index: &usize| {
        alike.iter().position(|other| other == index).ok_or_else(|| {
            let of = preprocessed.len();
            let detail =
                format!("the component reads column {index} of {of}, which does not have its 2^{log_size} rows");
            Error::shape("rigel_stwo::compile", detail)
        })
    };
    let places = component.preprocessed_column_indices().iter().map(place).collect::<Result<Vec<_>>>()?;
    upload::kernel(device)?;
    let mut kernels = 1;
    if component.n_constraints() > 0 {
        kernels += program(device, &source.record(&places, component.claimed_sum()))?.compiled(device)?.kernels();
    }
    Ok(kernels + logup::compile(device, source)?)
}

/// A component's constraints, and the domain on which they are evaluated.
struct Constraints {
    recorded: Recorded,
    log_trace: u32,
    domain: CircleDomain,
}

impl Constraints {
    /// Folds as [`fold`](Self::fold) does, where the host keeps some of the columns: a few constraints at a time,
    /// with the columns that they read.
    fn fold_in_batches(
        mut self,
        trees: &[Vec<&Poly<CudaBackend>>],
        mode: EvaluationMode,
        weights: &[SecureField],
        sums: &mut SecureColumnByCoords<CudaBackend>,
        batch_bytes: usize,
    ) -> Result<()> {
        let most = batch_bytes / (4 * self.domain.size());
        let Some(device) = trees.iter().flatten().next().map(|polynomial| polynomial.evals.values.device()) else {
            return Err(Error::shape("CudaBackend", "a component without columns has no rows"));
        };
        let (mut folded, mut begun) = sums_so_far(device, sums)?;
        for mut part in self.recorded.by_columns(trees.len(), most) {
            if part.columns.iter().all(Vec::is_empty) {
                // A kernel has at least one input.
                let tree = trees.iter().position(|tree| !tree.is_empty()).expect("found a column above");
                part.columns[tree].push(0);
            }
            let phase_of_columns = phase("extend for constraints");
            let chosen = trees.iter().zip(&part.columns).map(|(tree, columns)| {
                let columns: Vec<_> = columns.iter().map(|&column| tree[column]).collect();
                TreeInput::brought(&columns, mode, self.domain)
            });
            let inputs = chosen.collect::<Result<Vec<_>>>()?;
            drop(phase_of_columns);
            let _phase = phase("constraints");
            self.recorded = part.recorded;
            self.fold(device, &inputs, &weights[part.constraints], &mut folded, begun)?;
            begun = true;
        }
        *sums = coordinates(folded);
        Ok(())
    }

    /// The weighted sum of the constraints in each row, divided by the vanishing polynomial of the trace's domain.
    fn fold(
        &self,
        device: &Device,
        inputs: &[TreeInput<'_>],
        weights: &[SecureField],
        sums: &mut Matrix<Mersenne31>,
        accumulate: bool,
    ) -> Result<()> {
        self.fold_block(device, inputs, None, weights, sums, accumulate, (0, 1))
    }

    /// Folds as [`fold`](Self::fold) does, in the rows of one of some blocks of the domain, with the inputs there
    /// and after them the neighbours that are apart.
    #[expect(clippy::too_many_arguments, reason = "what is read, what is written, and in which rows")]
    fn fold_block(
        &self,
        device: &Device,
        inputs: &[TreeInput<'_>],
        neighbours: Option<Input<'_, Mersenne31>>,
        weights: &[SecureField],
        sums: &mut Matrix<Mersenne31>,
        accumulate: bool,
        (block, blocks): (usize, usize),
    ) -> Result<()> {
        let program = program(device, &self.recorded)?;
        let stream = stream(device);
        let log_rows = self.domain.log_size() - blocks.ilog2();
        let inverses = self.inverse_vanishing();
        // Blocks have the rows of several values, or share one.
        let first = (block << log_rows) >> self.log_trace;
        let scale = &inverses[first..first + (1usize << log_rows >> self.log_trace).max(1)];
        let parameters = DeviceParameters::upload(device, &self.recorded, weights, scale)?;
        let mut bindings = bindings(inputs).folded(Folded {
            values: sums.values_mut().view_mut(),
            scale: parameters.factors()?,
            log_scale: self.log_trace,
            log_block: log_rows,
            accumulate,
        });
        bindings.inputs.extend(neighbours);
        parameters.bind(&mut bindings)?;
        let rows = match blocks {
            1 => Rows::Circle { log_rows, log_trace: self.log_trace },
            // Neighbours are apart, so that the order does not matter.
            _ => Rows::Natural { rows: 1 << log_rows },
        };
        program.run(&stream, rows, &mut bindings)
    }

    /// The inverses of the vanishing polynomial of the trace's domain. It is constant on each coset of that
    /// domain, so there is one value for every 2^log_trace rows.
    fn inverse_vanishing(&self) -> Vec<Mersenne31> {
        let trace = CanonicCoset::new(self.log_trace);
        let shifts = 1usize << (self.domain.log_size() - self.log_trace);
        let at = |i| coset_vanishing(trace.coset(), self.domain.at(i));
        let mut inverses: Vec<BaseField> = (0..shifts).map(|i| at(i).inverse()).collect();
        bit_reverse(&mut inverses);
        inverses.into_iter().map(Twin::twin).collect()
    }
}
