//! The columns of the trace: the data columns by upstream's code, on the device or on the CPU, the accumulation on the
//! device.

use rigel_codegen::{Bindings, Input, RowMap, Rows, Target, program};
use rigel_gpu::{Error, Result, Shape, Stream};
use rigel_kernels::Matrix;
use rigel_kernels::field::{BabyBear, Field, Ring, RiscZero4};
use rigel_kernels::vector::inverse::invert_assign;
use rigel_kernels::vector::powers::powers;
use rigel_kernels::vector::scan::{Bound, prefix_sums_assign};

use super::{ROOT, base, base_elements, base_mut};
use crate::circuit::Program;
use crate::device;
use crate::hal::Hal;
use crate::shim::{self, MatrixPart, Part};

/// The parts of the rows for which terms are computed, one after another: what passes from one of their kernels to
/// another has four times as many columns as the trace.
pub(crate) const ACCUMULATION_PARTS: usize = 4;

impl Hal {
    /// The data columns, from what the preflight has found.
    pub(crate) fn data_witness(
        &self,
        data: MatrixPart,
        globals: Part,
        rows: Part,
        aux: Part,
        tables: Part,
    ) -> Result<()> {
        if !self.makes_witness {
            return self.phase("data witness", || self.data_witness_on_cpu(data, globals, rows, aux, tables));
        }
        self.phase("upload", || {
            rows.contents()?.view(&self.stream)?;
            aux.contents()?.view(&self.stream).map(|_| ())
        })?;
        self.phase("data witness", || self.data_witness_on_device(data, globals, rows, aux, tables))?;
        if !self.compares {
            // They are a segment's largest inputs, and only the data columns are made of them.
            for part in [rows, aux, tables] {
                part.contents()?.give_back();
            }
        }
        Ok(())
    }

    /// Makes the data columns by upstream's CPU code.
    fn data_witness_on_cpu(
        &self,
        data: MatrixPart,
        globals: Part,
        rows: Part,
        aux: Part,
        tables: Part,
    ) -> Result<()> {
        self.ran_on_cpu("data witness", "upstream's code makes the columns, as always on the emulated device");
        let mut global_words = globals.host_words(&self.stream)?;
        let mut table_words = tables.host_words(&self.stream)?;
        let mut values = vec![0u32; data.rows * data.columns];
        let (mut rows, mut aux) = (rows.contents()?, aux.contents()?);
        if rows.host_bytes().is_none() {
            rows.host_words(&self.stream)?;
        }
        if aux.host_bytes().is_none() {
            aux.host_words(&self.stream)?;
        }
        let (Some(row_bytes), Some(aux_bytes)) = (rows.host_bytes(), aux.host_bytes()) else {
            return Err(Error::shape("data witness", "the preflight's results are not on the host"));
        };
        // SAFETY: the arrays have the lengths that upstream's prover has given them for this number of rows.
        let done = unsafe {
            shim::rigel_risc0_data_witness(
                values.as_mut_ptr(),
                global_words.as_mut_ptr(),
                row_bytes,
                aux_bytes,
                table_words.as_mut_ptr(),
                data.rows,
            )
        };
        if !done {
            return Err(Error::shape("data witness", shim::last_error()));
        }
        globals.contents()?.set_host(global_words);
        tables.contents()?.set_host(table_words);
        data.contents()?.set_host(values);
        Ok(())
    }

    /// Makes the data columns by upstream's code on the device.
    fn data_witness_on_device(
        &self,
        data: MatrixPart,
        globals: Part,
        rows: Part,
        aux: Part,
        tables: Part,
    ) -> Result<()> {
        let (stream, log_rows) = (&self.stream, data.log_rows()?);
        let kernels = device::data_witness(stream.device(), data.columns)?;
        let (mut rows, mut aux) = (rows.contents()?, aux.contents()?);
        let (rows, aux) = (rows.view(stream)?, aux.view(stream)?);
        let (mut values, mut globals, mut tables) = (data.contents()?, globals.contents()?, tables.contents()?);
        let mut values = values.overwrite(stream, None)?;
        let mut globals = globals.device_mut(stream)?;
        let mut tables = tables.device_mut(stream)?;
        let root = ROOT.pow(1 << (BabyBear::TWO_ADICITY - log_rows));
        let shape = Shape::cover(data.rows, device::THREADS)?;
        for kernel in kernels.iter() {
            let arguments =
                (values.reborrow(), globals.reborrow(), rows, aux, tables.reborrow(), root, data.rows as u64);
            kernel.launch(stream, shape, arguments)?;
        }
        Ok(())
    }

    /// The accumulation columns, from the data columns and challenges.
    pub(crate) fn accum_witness(
        &self,
        accum: MatrixPart,
        data: MatrixPart,
        globals: Part,
        mix: Part,
    ) -> Result<()> {
        if self.has_big_integers.get() {
            self.accumulate_on_cpu(accum, data, globals, mix)?;
        } else {
            self.accumulate(accum, data, globals, mix)?;
        }
        if !self.compares {
            // Upstream goes on with the coefficients of both. Those of the data columns are already there.
            data.contents()?.clear();
            data.contents()?.give_back();
            accum.contents()?.is_for_copy = true;
        }
        Ok(())
    }

    fn accumulate(&self, accum: MatrixPart, data: MatrixPart, globals: Part, mix: Part) -> Result<()> {
        let (stream, rows) = (&self.stream, accum.rows);
        let accumulation = &self.circuit.accumulation;
        let globals = stream.upload(&base_elements(&globals.host_words(stream)?))?;
        let mix = stream.upload(&mix.host_elements(stream)?)?;
        let root = ROOT.pow(1 << (BabyBear::TWO_ADICITY - accum.log_rows()?));
        let points = powers(stream, BabyBear::ONE, root, rows)?;

        let mut numerators = Matrix::alloc(stream, rows, 4 * accumulation.count)?;
        let mut denominators = Matrix::alloc(stream, rows, 4 * accumulation.count)?;
        let mut values = data.contents()?;
        let values = base(values.view(stream)?)?;
        let part = rows / ACCUMULATION_PARTS;
        for first in (0..rows).step_by(part) {
            // Terms read no neighbours of a row.
            let (values, points) = (values.range(first..)?, points.values().view().range(first..)?);
            let input = |values| Input { values, stride: rows, map: RowMap::Same };
            // The graph's second matrix is the accumulation, which no term reads.
            let mut bindings = Bindings::new()
                .input(input(values))
                .input(input(values))
                .input(input(points))
                .output(Target { values: numerators.values_mut().range_mut(first..)?, stride: rows })
                .output(Target { values: denominators.values_mut().range_mut(first..)?, stride: rows })
                .parameters(&globals)
                .extension_parameters(&mix);
            run(stream, "risc0_terms", &accumulation.fractions, part, &mut bindings)?;
        }
        invert_assign::<RiscZero4>(stream, &mut denominators)?;

        let mut sums = Matrix::alloc(stream, rows, 4)?;
        let mut target = accum.contents()?;
        let mut target = base_mut(target.overwrite(stream, None)?)?;
        let mut bindings = Bindings::new()
            .input(&numerators)
            .input(&denominators)
            .output(Target { values: target.reborrow(), stride: rows })
            .output(&mut sums);
        run(stream, "risc0_elements", &accumulation.elements, rows, &mut bindings)?;
        prefix_sums_assign(stream, &mut sums, Bound::Inclusive)?;
        stream.copy(target.range(..4 * rows)?, sums.values())
    }

    /// Makes the accumulation columns by upstream's CPU code.
    fn accumulate_on_cpu(&self, accum: MatrixPart, data: MatrixPart, globals: Part, mix: Part) -> Result<()> {
        self.ran_on_cpu("accumulation", "the segment has big integers, whose rows depend on each other");
        let globals = globals.host_words(&self.stream)?;
        let mix = mix.host_words(&self.stream)?;
        let mut values = vec![0u32; accum.rows * accum.columns];
        let mut data = data.contents()?;
        let data_words = data.host_words(&self.stream)?;
        // SAFETY: as above.
        let done = unsafe {
            shim::rigel_risc0_accum_witness(
                values.as_mut_ptr(),
                data_words.as_ptr(),
                globals.as_ptr(),
                mix.as_ptr(),
                accum.rows,
            )
        };
        if !done {
            return Err(Error::shape("accumulation", shim::last_error()));
        }
        // The first element is a running sum over the rows.
        for column in values.chunks_exact_mut(accum.rows).take(4) {
            let mut sum = BabyBear::default();
            for word in column {
                sum += BabyBear::from_word(*word);
                *word = sum.word();
            }
        }
        accum.contents()?.set_host(values);
        Ok(())
    }
}

/// Runs a program over rows in natural order.
fn run(
    stream: &Stream,
    name: &str,
    made: &Program,
    rows: usize,
    bindings: &mut Bindings<'_, RiscZero4>,
) -> Result<()> {
    program(stream.device(), name, &made.graph, &made.outputs)?.run(stream, Rows::Natural { rows }, bindings)
}
