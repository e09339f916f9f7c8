//! The inputs of a component's programs: the columns of its trees, and parameters.

use std::ops::Range;

use rigel_codegen::{Bindings, Input, RowMap};
use rigel_gpu::{Buffer, Device, Error, Result, View};
use rigel_kernels::Columns;
use rigel_kernels::field::{Element, Mersenne31, QM31};
use rigel_kernels::transform::circle;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CircleDomain;
use stwo::prover::backend::Column;
use stwo::prover::{EvaluationMode, Poly};

use crate::CudaBackend;
use crate::column::BaseColumn;
use crate::deferred::Place;
use crate::device::stream;
use crate::field::Twin;
use crate::joined::{Joined, runs};
use crate::recorded::Recorded;
use crate::twiddles::of_coset;

/// A tree's columns as one matrix.
pub(crate) struct TreeInput<'a> {
    values: Option<Joined<'a>>,
    /// The number of rows of each column.
    pub(crate) stride: usize,
    /// The index in the matrix of each requested column.
    pub(crate) places: Vec<usize>,
}

impl<'a> TreeInput<'a> {
    /// Columns of one length. If they are not contiguous, uses contiguous `neighbours` that contain them, or
    /// copies.
    pub(crate) fn new(columns: Vec<&'a BaseColumn>, neighbours: impl Iterator<Item = &'a BaseColumn>) -> Self {
        let Some(first) = columns.first() else { return Self { values: None, stride: 0, places: Vec::new() } };
        let stride = first.len();
        let alike: Vec<&BaseColumn> = neighbours.filter(|column| column.len() == stride).collect();
        if let [(_, whole)] = runs(&alike)[..] {
            let place = |column: &&BaseColumn| alike.iter().position(|other| std::ptr::eq(*column, *other));
            if let Some(places) = columns.iter().map(place).collect() {
                return Self { values: Some(Joined::Here(whole)), stride, places };
            }
        }
        let places = (0..columns.len()).collect();
        Self { values: Some(Joined::new(columns.iter().copied())), stride, places }
    }

    /// The evaluations of polynomials on a domain.
    pub(crate) fn extended(polynomials: &[&'a Poly<CudaBackend>], domain: CircleDomain) -> Result<Self> {
        let coefficients: Vec<&BaseColumn> =
            polynomials.iter().map(|polynomial| coefficients_of(polynomial)).collect();
        let Some(first) = coefficients.first() else { return Ok(Self::new(Vec::new(), std::iter::empty())) };
        let (device, rows, size) = (first.device(), first.len(), domain.size());
        let (stream, twiddles) = (stream(device), of_coset(device, domain.half_coset)?);
        let mut values = stream.alloc(size * coefficients.len())?;
        for (first, run) in runs(&coefficients) {
            let to = values.range_mut(first * size..(first + run.len() / rows) * size)?;
            let initial = domain.half_coset.initial.twin();
            let twiddles = circle::Twiddles { tower: twiddles.twiddles.tower()?, initial };
            circle::evaluate_into(&stream, to, domain.log_size(), Columns::new(run, rows)?, twiddles)?;
        }
        let places = (0..coefficients.len()).collect();
        Ok(Self { values: Some(Joined::Copied(values)), stride: size, places })
    }

    /// The values of polynomials on a domain, of which the host keeps some.
    pub(crate) fn brought(
        polynomials: &[&'a Poly<CudaBackend>],
        mode: EvaluationMode,
        domain: CircleDomain,
    ) -> Result<Self> {
        let Some(first) = polynomials.first() else { return Ok(Self::new(Vec::new(), std::iter::empty())) };
        let (device, size) = (first.evals.values.device(), domain.size());
        let stream = stream(device);
        let mut values = stream.alloc(size * polynomials.len())?;
        for (i, polynomial) in polynomials.iter().enumerate() {
            let mut to = values.range_mut(i * size..(i + 1) * size)?;
            match (source_of(polynomial, mode), mode) {
                (Some(place), _) => place.write_on(to, domain)?,
                (None, EvaluationMode::SubDomain { .. }) => {
                    stream.copy(to, polynomial.evals.values.view().range(..size)?)?;
                }
                (None, EvaluationMode::ExtendToEvalDomain) => {
                    let extended = Self::extended(&[polynomial], domain)?;
                    stream.copy(to.reborrow(), extended.values.as_ref().expect("one column").view())?;
                }
            }
        }
        let places = (0..polynomials.len()).collect();
        Ok(Self { values: Some(Joined::Copied(values)), stride: size, places })
    }

    /// Some of these columns, brought to the device.
    pub(crate) fn chosen(columns: &[&'a BaseColumn], chosen: &[usize]) -> Self {
        Self::new(chosen.iter().map(|&column| columns[column]).collect(), std::iter::empty())
    }

    /// The first rows of columns, which must be all of their rows if there are several columns.
    pub(crate) fn columns(&self, columns: Range<usize>, rows: usize) -> Result<View<'_, Mersenne31>> {
        match &self.values {
            Some(values) => {
                values.view().range(columns.start * self.stride..(columns.end - 1) * self.stride + rows)
            }
            None => Err(Error::shape("CudaBackend", "a column of a tree without columns")),
        }
    }

    pub(crate) fn device(&self) -> Option<Device> {
        self.values.as_ref().map(|values| values.view().device().clone())
    }

    fn input(&self) -> Option<Input<'_, Mersenne31>> {
        let values = self.values.as_ref()?.view();
        Some(Input { values, stride: self.stride, map: RowMap::Same })
    }
}

/// A polynomial's coefficients.
pub(crate) fn coefficients_of(polynomial: &Poly<CudaBackend>) -> &BaseColumn {
    match &polynomial.coeffs {
        Some(coefficients) => &coefficients.coeffs,
        None => panic!("The polynomial's coefficients are not stored"),
    }
}

/// The host's copy of the column from which a polynomial's values for constraints are made, if it keeps one.
pub(crate) fn source_of(polynomial: &Poly<CudaBackend>, mode: EvaluationMode) -> Option<&Place> {
    match mode {
        EvaluationMode::SubDomain { .. } => polynomial.evals.values.place(),
        EvaluationMode::ExtendToEvalDomain => polynomial.coeffs.as_ref()?.coeffs.place(),
    }
}

/// The inputs of a program, one for each tree. No expression reads a tree without columns; its slot gets another
/// tree as a placeholder.
pub(crate) fn bindings<'a>(inputs: &'a [TreeInput<'_>]) -> Bindings<'a, QM31> {
    let mut bindings = Bindings::new();
    if let Some(some) = inputs.iter().find_map(TreeInput::input) {
        bindings.inputs = inputs.iter().map(|tree| tree.input().unwrap_or(some)).collect();
    }
    bindings
}

/// The parameters that a program reads beside columns, on the device: one upload, since each one ends the launches
/// that are gathered.
pub(crate) struct DeviceParameters {
    /// Elements of the extension, then those of the base field.
    words: Buffer<Mersenne31>,
    /// The number of extension parameters, weights and base parameters. The rest are factors.
    counts: [usize; 3],
}

impl DeviceParameters {
    /// Uploads the parameters of a recording, the weights of its constraints, and the factors of their sums.
    pub(crate) fn upload(
        device: &Device,
        recorded: &Recorded,
        weights: &[SecureField],
        factors: &[Mersenne31],
    ) -> Result<Self> {
        let Recorded { parameters, base_parameters, .. } = recorded;
        let extension = parameters.iter().chain(weights).flat_map(|value| value.to_m31_array());
        let base = extension.chain(base_parameters.iter().copied()).map(Twin::twin);
        let words: Vec<Mersenne31> = base.chain(factors.iter().copied()).collect();
        let counts = [parameters.len(), weights.len(), base_parameters.len()];
        Ok(Self { words: stream(device).upload(&words)?, counts })
    }

    pub(crate) fn bind<'a>(&'a self, bindings: &mut Bindings<'a, QM31>) -> Result<()> {
        let [parameters, weights, base] = self.counts;
        let start = QM31::DEGREE * (parameters + weights);
        let extension = self.words.range(..start)?.cast::<QM31>()?;
        bindings.extension_parameters = (parameters > 0).then(|| extension.range(..parameters)).transpose()?;
        bindings.weights = (weights > 0).then(|| extension.range(parameters..)).transpose()?;
        bindings.parameters = (base > 0).then(|| self.words.range(start..start + base)).transpose()?;
        Ok(())
    }

    /// The factors.
    pub(crate) fn factors(&self) -> Result<View<'_, Mersenne31>> {
        let [parameters, weights, base] = self.counts;
        self.words.range(QM31::DEGREE * (parameters + weights) + base..)
    }
}
