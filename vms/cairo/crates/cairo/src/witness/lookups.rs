//! The memory on the device, the kernels that read it, and how often everything is looked up.

use std::collections::HashMap;

use cairo_air::components::memory_address_to_id::MEMORY_ADDRESS_TO_ID_SPLIT;
use rigel_gpu::{Buffer, Stream, View};
use rigel_kernels::field::Mersenne31;
use rigel_stwo::BaseColumn;
use stwo::prover::backend::Column;
use stwo_cairo_adapter::memory::{EncodedMemoryValueId, Memory};

use super::kernels::{self, Translated};
use super::tables::{TABLES, Table};
use crate::error::{Error, Result};

/// The columns of a table of points: 28 limbs of each coordinate.
pub(super) const POINT_COLUMNS: usize = 56;

/// The memory on the device, and how often everything is looked up.
pub(super) struct Lookups<'a> {
    pub(super) ids: Buffer<u32>,
    pub(super) large: Buffer<u32>,
    pub(super) small: Buffer<u32>,
    pub(super) larges: usize,
    pub(super) smalls: usize,
    pub(super) address_counts: Buffer<u32>,
    pub(super) large_counts: Buffer<u32>,
    pub(super) small_counts: Buffer<u32>,
    /// The counts of instructions, by address.
    pub(super) instruction_counts: Buffer<u32>,
    /// The counts of the first `tables` tables, which are those that the run needs.
    pub(super) table_counts: Buffer<u32>,
    pub(super) tables: usize,
    /// The points of Pedersen's hash, if the run hashes.
    pub(super) points: Option<View<'a, Mersenne31>>,
    /// The errors that occurred, as bits of `row.cuh`.
    pub(super) status: Buffer<u32>,
}

impl Lookups<'_> {
    pub(super) fn new(stream: &Stream, memory: &Memory, instructions: usize, tables: usize) -> Result<Self> {
        // A buffer has at least a word, so that its address is one.
        let upload = |words: &[u32]| match words.is_empty() {
            true => stream.zeros(1),
            false => stream.upload(words),
        };
        let zeros = |len: usize| stream.zeros(len.max(1));
        let (larges, smalls) = (memory.f252_values.len(), memory.small_values.len());
        Ok(Self {
            ids: upload(id_words(&memory.address_to_id))?,
            large: upload(bytemuck::cast_slice(&memory.f252_values))?,
            small: upload(bytemuck::cast_slice(&memory.small_values))?,
            larges,
            smalls,
            address_counts: zeros(memory.address_to_id.len())?,
            large_counts: zeros(larges)?,
            small_counts: zeros(smalls)?,
            instruction_counts: zeros(instructions)?,
            table_counts: zeros(TABLES[..tables].iter().map(Table::cells).sum())?,
            tables,
            points: None,
            status: zeros(1)?,
        })
    }

    /// Makes a component's columns, and adds the inputs that it gives to other components.
    pub(super) fn rows(
        &mut self,
        stream: &Stream,
        component: &'static Translated,
        from: &RowSource<'_>,
        given: &mut Given,
    ) -> Result<Vec<BaseColumn>> {
        let RowSource { size, enabled, inputs, multiplicities, segment } = *from;
        let mut trace = stream.alloc::<u32>(size * component.columns as usize)?;
        let lengths: Vec<usize> =
            component.gives.iter().map(|(_, count, words)| size * (count * words) as usize).collect();
        let mut gives = stream.alloc::<u32>(lengths.iter().sum::<usize>().max(1))?;
        let kernel = kernels::rows(stream.device(), component)?;
        let points = self.points;
        // `Sizes` of the kernel.
        let sizes: [u32; 8] = [
            size as u32,
            enabled as u32,
            segment,
            self.address_counts.len() as u32,
            self.larges as u32,
            self.smalls as u32,
            self.instruction_counts.len() as u32,
            points.map_or(0, |points| points.len() / POINT_COLUMNS) as u32,
        ];
        let arguments = (
            &mut trace,
            sizes,
            inputs,
            multiplicities,
            &self.ids,
            &self.large,
            &self.small,
            &mut self.address_counts,
            &mut self.large_counts,
            &mut self.small_counts,
            &mut self.instruction_counts,
            &mut self.table_counts,
            &mut gives,
            points,
            &mut self.status,
        );
        kernel.launch(stream, kernel.cover(size)?, arguments)?;
        if !lengths.is_empty() {
            let parts = gives.split(&lengths)?;
            for ((to, ..), part) in component.gives.iter().zip(parts) {
                given.entry(to).or_default().push(part);
            }
        }
        columns(trace, size)
    }

    /// Counts the cells of the public memory.
    pub(super) fn public_memory(&mut self, stream: &Stream, addresses: &[u32]) -> Result<()> {
        if addresses.is_empty() {
            return Ok(());
        }
        let cells = stream.upload(addresses)?;
        let kernel = kernels::of_tables(stream.device(), kernels::PUBLIC_MEMORY)?;
        let arguments = (
            &cells,
            cells.len() as u32,
            &self.ids,
            self.address_counts.len() as u32,
            self.larges as u32,
            self.smalls as u32,
            &mut self.address_counts,
            &mut self.large_counts,
            &mut self.small_counts,
            &mut self.status,
        );
        Ok(kernel.launch(stream, kernel.cover(cells.len())?, arguments)?)
    }

    /// The columns of the table of addresses.
    pub(super) fn address_table(&self, stream: &Stream, size: usize) -> Result<Vec<BaseColumn>> {
        let mut trace = stream.alloc::<u32>(2 * MEMORY_ADDRESS_TO_ID_SPLIT * size)?;
        let kernel = kernels::of_tables(stream.device(), kernels::ADDRESS_TABLE)?;
        let addresses = self.address_counts.len() as u32;
        let chunks = MEMORY_ADDRESS_TO_ID_SPLIT as u32;
        let arguments = (&mut trace, size as u32, chunks, &self.ids, &self.address_counts, addresses);
        kernel.launch(stream, kernel.cover(MEMORY_ADDRESS_TO_ID_SPLIT * size)?, arguments)?;
        columns(trace, size)
    }

    /// The columns of a part of the table of large values, or of the table of small ones.
    pub(super) fn value_table(
        &mut self,
        stream: &Stream,
        large: bool,
        first: usize,
        size: usize,
    ) -> Result<Vec<BaseColumn>> {
        let (kernel, limbs, values, counts, len) = match large {
            true => (kernels::LARGE_TABLE, 28, &self.large, &self.large_counts, self.larges),
            false => (kernels::SMALL_TABLE, 8, &self.small, &self.small_counts, self.smalls),
        };
        let kernel = kernels::of_tables(stream.device(), kernel)?;
        let mut trace = stream.alloc::<u32>((limbs + 1) * size)?;
        let tables = &mut self.table_counts;
        let arguments =
            (&mut trace, size as u32, first as u32, values, counts, len as u32, tables, &mut self.status);
        kernel.launch(stream, kernel.cover(size)?, arguments)?;
        columns(trace, size)
    }

    /// Checks that every row could be made. Waits for the device.
    pub(super) fn check(&self, stream: &Stream) -> Result<()> {
        let status = stream.download(&self.status)?[0];
        let reasons = [
            "a step reads an address outside of the memory",
            "a step reads an empty cell of the memory",
            "a value is outside of the range that Cairo's AIR checks",
            "a step executes an instruction outside of the memory",
        ];
        match reasons.iter().enumerate().find(|(bit, _)| status & (1 << bit) != 0) {
            Some((_, reason)) => Err(Error::Witness((*reason).into())),
            None => Ok(()),
        }
    }
}

/// The inputs from which the rows of a component are made.
#[derive(Clone, Copy)]
pub(super) struct RowSource<'a> {
    /// The number of rows.
    pub(super) size: usize,
    /// The number of rows that are not padding.
    pub(super) enabled: usize,
    pub(super) inputs: Option<View<'a, u32>>,
    pub(super) multiplicities: Option<View<'a, u32>>,
    /// The address of the builtin's segment.
    pub(super) segment: u32,
}

/// The inputs that components were given, in the order of the components that gave them.
pub(super) type Given = HashMap<&'static str, Vec<Buffer<u32>>>;

/// Splits memory into columns.
pub(super) fn columns(words: Buffer<u32>, size: usize) -> Result<Vec<BaseColumn>> {
    let words = words.cast::<Mersenne31>()?;
    let lengths = vec![size; words.len() / size];
    let parts = words.split(&lengths)?;
    Ok(parts.into_iter().map(BaseColumn::from_buffer).collect::<rigel_gpu::Result<_>>()?)
}

/// Adds counts, from the first of them on, to a column.
pub(super) fn add_counts(stream: &Stream, column: &mut BaseColumn, counts: View<'_, u32>) -> Result<()> {
    let (size, len) = (column.len(), counts.len());
    let kernel = kernels::of_tables(stream.device(), kernels::ADD_COUNTS)?;
    let arguments = (column.view_mut(), size as u32, counts, len as u32);
    Ok(kernel.launch(stream, kernel.cover(size)?, arguments)?)
}

/// The identifiers as words.
fn id_words(ids: &[EncodedMemoryValueId]) -> &[u32] {
    const {
        assert!(size_of::<EncodedMemoryValueId>() == 4 && align_of::<EncodedMemoryValueId>() == 4);
    }
    // SAFETY: an identifier is one word.
    unsafe { std::slice::from_raw_parts(ids.as_ptr().cast(), ids.len()) }
}
