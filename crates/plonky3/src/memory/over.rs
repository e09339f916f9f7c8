//! The device memory of a proof over several devices, of the one that needs most: the first has tables and layers of
//! FRI that are too small to be shared out, beside its rows of all others. Of columns that do not divide evenly, it
//! counts the larger shares.

use p3_fri::FriShape;
use rigel_kernels::field::Element;
use rigel_kernels::hash::Sponge;

use crate::air::constraints::{Constraints, NextApart};
use crate::base::error::Result;
use crate::memory::plan::{PlannedPhase, Sizes, TableSize, element, word};
use crate::prover::Prover;
use crate::several::extend::{devices_of, part_columns};
use crate::several::fri::least_rows;
use crate::several::quotient::next_columns;
use crate::upstream::config::{DeviceConfig, Digest, Ext};

/// Checks that a proof of these tables fits.
pub(crate) fn check<SC: DeviceConfig>(
    prover: &Prover<SC>,
    tables: &[(TableSize, &Constraints<SC>)],
) -> Result<()> {
    let device = prover.device().ok_or(rigel_gpu::Error::Disabled)?;
    let sized = |(table, constraints): &(TableSize, &Constraints<SC>)| constraints.sized(*table, prover, device);
    Sizes::new(prover, tables.iter().map(sized).collect()).plan()?.check()?;
    Ok(())
}

impl<SC: DeviceConfig> Constraints<SC> {
    /// The parts in which they are evaluated where rows' next rows are on other devices.
    pub(crate) fn next_parts(&self, prover: &Prover<SC>, table: &TableSize) -> Option<&[NextApart<SC>]> {
        let is_short = Share::of(prover, table.log_rows).rows < 1 << table.log_rows;
        is_short.then(|| self.next_apart(next_columns(table.width)))
    }
}

/// A device's share of a table, if it has any.
#[derive(Clone, Copy)]
struct Share {
    devices: usize,
    /// The share's extended rows.
    rows: usize,
}

impl Share {
    fn of<SC: DeviceConfig>(prover: &Prover<SC>, log_rows: usize) -> Self {
        let devices = devices_of(prover, 1 << log_rows);
        Self { devices, rows: (1 << (log_rows + prover.fri.log_blowup)) / devices }
    }
}

impl<SC: DeviceConfig> Sizes<'_, SC> {
    /// The phases on one of several devices.
    pub(crate) fn phases_over(&self) -> Vec<PlannedPhase> {
        let (word, element) = (word::<SC>(), element::<SC>());
        let share = |table: &TableSize| Share::of(self.prover, table.log_rows);
        let sum = |bytes: &dyn Fn(&TableSize) -> usize| self.tables.iter().map(bytes).sum::<usize>();
        let tallest = |tables: &mut dyn Iterator<Item = &TableSize>| {
            tables.map(|table| share(table).rows).max().unwrap_or(0) * 2 * size_of::<Digest<SC>>()
        };
        let tree = tallest(&mut self.tables.iter());

        // Traces: their blocks, the rows that lookups read, and some columns on their way.
        let (mut held, mut commit) = (0, 0);
        for table in &self.tables {
            held += share(table).rows * table.width * word + self.lookup_rows(table) * table.width * word;
            commit = commit.max(held + self.extending(table, table.width));
        }
        // Rows of one table are hashed while columns arrive.
        let states = if self.tables.len() == 1 { share(&self.tables[0]).rows * SC::Hash::STATE_BYTES } else { 0 };
        let commit = commit.max(held + tree) + states;
        let mut phases = vec![PlannedPhase { name: "commit to the trace", bytes: commit }];
        held += tree;

        let lookups = |table: &TableSize| table.lookups.map_or(0, |(columns, _)| columns);
        if self.tables.iter().any(|table| table.lookups.is_some()) {
            let (mut made, mut peak) = (0, 0);
            for table in &self.tables {
                let (rows, Some((columns, terms))) = (self.lookup_rows(table), table.lookups) else { continue };
                let fractions = 3 * rows * word + (columns + terms + 1).max(columns + 3) * rows * element;
                peak = peak.max(made + fractions.max((3 * word) << table.log_rows));
                // The columns, the sums and the running sum.
                made += (columns + 2) * rows * element;
            }
            let mut extended = sum(&|table| lookups(table) * self.lookup_rows(table) * element);
            for table in &self.tables {
                extended += share(table).rows * lookups(table) * element;
                peak = peak.max(extended + self.extending(table, lookups(table) * Ext::<SC>::DEGREE));
            }
            let tree = tallest(&mut self.tables.iter().filter(|table| table.lookups.is_some()));
            phases.push(PlannedPhase { name: "lookups", bytes: held + peak.max(extended + tree) });
            held -= sum(&|table| self.lookup_rows(table) * table.width * word);
            held += sum(&|table| share(table).rows * lookups(table) * element) + tree;
        }

        let mut quotient = 0;
        for table in &self.tables {
            let kept = (share(table).rows * element) << table.log_chunks;
            quotient = quotient.max(held + self.evaluating(table).max(kept + self.interpolating(table)));
            held += kept;
        }
        phases.push(PlannedPhase { name: "quotient", bytes: quotient.max(held + tree) });
        held += tree;

        // Of each height the coset and denominators for two points; then weights, or the reduced openings.
        let mut log_heights: Vec<usize> =
            self.tables.iter().map(|table| table.log_rows + self.prover.fri.log_blowup).collect();
        log_heights.sort_unstable_by(|a, b| b.cmp(a));
        log_heights.dedup();
        let of_height = |log_height: &usize| Share::of(self.prover, log_height - self.prover.fri.log_blowup).rows;
        let rows: usize = log_heights.iter().map(of_height).sum();
        let weights = |log_height: &usize| {
            2 * of_height(log_height).min(1 << (log_height - self.prover.fri.log_blowup)) * element
        };
        let weights = log_heights.iter().map(weights).max().unwrap_or(0);
        let opening = rows * (word + 2 * element) + weights.max(rows * element);
        phases.push(PlannedPhase { name: "open", bytes: held + opening });

        let row = |table: &TableSize| {
            (table.width + table.preprocessed) * word + (lookups(table) + (1 << table.log_chunks)) * element
        };
        let digests = 4 * log_heights[0] * size_of::<Digest<SC>>();
        let queried = self.prover.fri.num_queries * (sum(&row) + digests);
        let folds = rows * element + self.folding(&log_heights) + queried;
        phases.push(PlannedPhase { name: "fold and query", bytes: held + folds });
        // As on one device.
        let rounding = (self.tables.len() + 1) * (4 << 10);
        phases.into_iter().map(|phase| PlannedPhase { bytes: phase.bytes + rounding, ..phase }).collect()
    }

    /// The rows of a table that its lookups read: the device's, and the row that follows.
    fn lookup_rows(&self, table: &TableSize) -> usize {
        let rows = 1usize << table.log_rows;
        let devices = Share::of(self.prover, table.log_rows).devices.min(rows);
        if table.lookups.is_some() { rows / devices + 1 } else { 0 }
    }

    /// The bytes that extending some columns of a table's height takes beside the result.
    fn extending(&self, table: &TableSize, width: usize) -> usize {
        if width == 0 {
            return 0;
        }
        let (rows, share) = (1usize << table.log_rows, Share::of(self.prover, table.log_rows));
        let part = part_columns::<SC>(rows.min(share.rows), width, share.devices);
        let column = rows * word::<SC>();
        // For each part, what a device brings of it, what it sends, and what it computes with.
        let of_part = |first: usize| {
            let columns = part.min(width - first);
            let own = column * columns.div_ceil(share.devices);
            match share.devices {
                // The columns and their coefficients.
                1 => (own, 0, 2 * own),
                // Values on the whole domain; coefficients as well.
                _ if rows >= share.rows => {
                    let values = own << self.prover.fri.log_blowup;
                    (own, values, own + values)
                }
                // The coefficients of all devices.
                _ => (own, own + column * columns, own + column * columns),
            }
        };
        let parts: Vec<_> = (0..width).step_by(part).map(of_part).collect();
        // While a part is extended, the one before it is sent and the one after it arrives.
        let at = |index: usize| {
            let before = index.checked_sub(1).map_or(0, |before| parts[before].1);
            before + parts[index].2 + parts.get(index + 1).map_or(0, |next| next.0)
        };
        (0..parts.len()).map(at).max().unwrap_or(0)
    }

    /// The bytes that evaluating a table's constraints takes.
    fn evaluating(&self, table: &TableSize) -> usize {
        let share = Share::of(self.prover, table.log_rows);
        let size = 1usize << (table.log_rows + table.log_chunks);
        let size = if share.devices == 1 { size } else { size.min(share.rows) };
        let values = size * element::<SC>();
        // Selectors, the points, or what kernels pass to each other, and the next rows where they are sent and where
        // they arrive.
        let reading = size * (3 + table.scratch.max(1) + 2 * table.next) * word::<SC>();
        values + reading + table.constraints * element::<SC>()
    }

    /// The bytes that extending the quotient of a table takes beside the result.
    fn interpolating(&self, table: &TableSize) -> usize {
        let (rows, share) = (1usize << table.log_rows, Share::of(self.prover, table.log_rows));
        let columns = Ext::<SC>::DEGREE << table.log_chunks;
        let all = rows * columns * word::<SC>();
        if share.devices == 1 {
            return 2 * all;
        }
        let own = rows * columns.div_ceil(share.devices) * word::<SC>();
        let sent = if rows >= share.rows { own << self.prover.fri.log_blowup } else { all };
        // The values by chunk, and their coefficients.
        2 * own + sent
    }

    /// The layers of FRI and their trees, but the first layer's rows of each device.
    fn folding(&self, log_heights: &[usize]) -> usize {
        let devices = self.prover.devices().count();
        let least = self.prover.device().map_or(0, least_rows);
        let (mut rows, mut bytes, mut joined) = (1usize << log_heights[0], 0, 0);
        let mut shared = devices_of(self.prover, rows >> self.prover.fri.log_blowup);
        for log_arity in FriShape::new(&self.prover.fri, log_heights, log_heights[0]).log_arities {
            if shared > 1 && (rows < least || rows / devices < 1 << log_arity) {
                bytes += rows * element::<SC>();
                shared = 1;
            }
            let leaves = (rows / shared) >> log_arity;
            bytes += leaves * (2 * size_of::<Digest<SC>>() + element::<SC>());
            rows >>= log_arity;
            let is_shared = devices_of(self.prover, rows >> self.prover.fri.log_blowup) > 1;
            if shared == 1 && is_shared && log_heights.contains(&(rows.ilog2() as usize)) {
                // The rows that join, of all devices.
                joined = joined.max(rows * element::<SC>());
            }
        }
        bytes + joined
    }
}
