//! The constraints on the committed domain, combined and divided by the vanishing polynomial.

use rigel_codegen::{Bindings, Folded, Input, RowMap, Rows, program};
use rigel_gpu::{Result, Stream};
use rigel_kernels::Matrix;
use rigel_kernels::field::{BabyBear, Field, Ring, RiscZero4};
use rigel_kernels::layout::permute::bit_reverse;
use rigel_kernels::vector::powers::powers;

use super::{ROOT, SHIFT, base, base_elements, base_mut, wrong};
use crate::hal::Hal;
use crate::shim::{MatrixPart, Part};

/// The logarithm of the expansion from the trace to the committed domain.
const LOG_EXPANSION: u32 = 2;

impl Hal {
    /// `check[row] = sum_i mix^i c_i(row) / (x^n - 1)` over all constraints c_i.
    pub(crate) fn eval_check(
        &self,
        check: MatrixPart,
        data: MatrixPart,
        accum: MatrixPart,
        globals: Part,
        accum_mix: Part,
        mix: RiscZero4,
    ) -> Result<()> {
        let stream = &self.stream;
        let log_rows = check.log_rows()?;
        let record = self.circuit.record();
        let given = (data.columns, accum.columns, globals.size / 4, accum_mix.size / 16);
        let recorded = (record.data_columns, record.accum_columns, record.globals, record.mixes);
        if given != recorded {
            return Err(wrong(format!("the trace has the shape {given:?}, the recorded circuit {recorded:?}")));
        }
        let constraints = &self.circuit.constraints;
        let globals = stream.upload(&base_elements(&globals.host_words(stream)?))?;
        let accum_mix = stream.upload(&accum_mix.host_elements(stream)?)?;
        let weights: Vec<RiscZero4> = std::iter::successors(Some(RiscZero4::ONE), |&weight| Some(weight * mix))
            .take(constraints.outputs.len())
            .collect();
        let weights = stream.upload(&weights)?;
        let scale = stream.upload(&inverse_vanishing(log_rows - LOG_EXPANSION))?;
        let points = points(stream, log_rows)?;

        let (mut data_values, mut accum_values) = (data.contents()?, accum.contents()?);
        data_values.arrange(stream, Some(log_rows))?;
        accum_values.arrange(stream, Some(log_rows))?;
        let input = |values, stride| Input { values, stride, map: RowMap::Same };
        let mut target = check.contents()?;
        let mut bindings = Bindings::new()
            .input(input(base(data_values.stored()?)?, data.rows))
            .input(input(base(accum_values.stored()?)?, accum.rows))
            .input(&*points)
            .parameters(&globals)
            .extension_parameters(&accum_mix)
            .weights(&weights)
            .folded(Folded {
                values: base_mut(target.overwrite(stream, Some(log_rows))?)?,
                scale: scale.view(),
                log_scale: log_rows - LOG_EXPANSION,
                log_block: log_rows,
                accumulate: false,
            });
        let program = program(stream.device(), "risc0", &constraints.graph, &constraints.outputs)?;
        program.run(stream, Rows::BitReversed { log_rows, log_step: LOG_EXPANSION }, &mut bindings)
    }
}

/// `1 / (x^n - 1)` on each of the four cosets of the domain, in the order in which they are stored: with x = 3 w^i,
/// x^n = 3^n (w^n)^i takes four values.
fn inverse_vanishing(log_n: u32) -> Vec<BabyBear> {
    let fourth_root = ROOT.pow(1 << (BabyBear::TWO_ADICITY - 2));
    let shift = SHIFT.pow(1 << log_n);
    [0, 2, 1, 3]
        .map(|i| (shift * fourth_root.pow(i) - BabyBear::ONE).inverse().expect("3 is in no subgroup of order 2^k"))
        .to_vec()
}

/// The key of [`points`] for this number of rows. Its type is private, because kernels rely on the points' number.
#[derive(Clone, PartialEq, Eq, Hash)]
struct PointsOf(u32);

/// The points `3 w^i` of the domain in bit-reversed order, kept by the device for reuse.
fn points(stream: &Stream, log_rows: u32) -> Result<std::sync::Arc<Matrix<BabyBear>>> {
    stream.device().kept(&PointsOf(log_rows), |_| {
        let root = ROOT.pow(1 << (BabyBear::TWO_ADICITY - log_rows));
        let points = bit_reverse(stream, &powers(stream, SHIFT, root, 1 << log_rows)?)?;
        // Other streams may read them next.
        stream.synchronize()?;
        let bytes = points.values().bytes();
        Ok((points, bytes))
    })
}
