//! The columns of the trace, by upstream's CPU code.

use rigel_gpu::{Error, Result};
use rigel_kernels::field::{BabyBear, Field};

use crate::hal::Hal;
use crate::shim::{self, MatrixPart, Part};

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
        self.ran_on_cpu("data witness", "upstream's CPU code makes the columns");
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

    /// The accumulation columns, from the data columns and challenges.
    pub(crate) fn accum_witness(
        &self,
        accum: MatrixPart,
        data: MatrixPart,
        globals: Part,
        mix: Part,
    ) -> Result<()> {
        self.ran_on_cpu("accumulation", "upstream's CPU code makes the columns");
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
