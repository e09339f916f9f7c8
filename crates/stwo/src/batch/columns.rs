//! Batches and the columns of which they are made.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rigel_gpu::{Buffer, Device, Result, Stream};
use rigel_kernels::Columns;
use rigel_kernels::field::{Element, Mersenne31, QM31, Ring};
use rigel_kernels::open::opening;
use stwo::core::fields::qm31::SecureField;

use super::samples::Samples;
use super::{Batch, Role, queries};
use crate::column::{BaseColumn, SecureColumn};
use crate::copies::send;
use crate::device::stream;
use crate::failure::OrFail;
use crate::field::secure;
use crate::report::phase_on;

impl Batch {
    /// Columns of a trace.
    pub(crate) fn of_trace(columns: &[&BaseColumn]) -> Option<Arc<Self>> {
        Self::new(columns, Role::Trace)
    }

    /// Coordinates of a FRI layer. `circle` is the circle layer from which they were folded, if any.
    pub(crate) fn of_layer(columns: [&BaseColumn; 4], circle: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        Self::new(&columns, Role::Layer { folds: AtomicU32::new(0), circle: circle.map(Arc::downgrade) })
    }

    fn new(columns: &[&BaseColumn], role: Role) -> Option<Arc<Self>> {
        let first = columns.first()?;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let batch = Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            device: first.device().clone(),
            columns: columns.iter().map(|column| column.held()).collect(),
            ids: columns.iter().map(|column| column.id()).collect(),
            role,
            tree: OnceLock::new(),
            samples: Samples::default(),
        });
        for (place, column) in columns.iter().enumerate() {
            column.open_with(&batch, place);
        }
        queries::enter(&batch);
        Some(batch)
    }

    /// The FRI layer with these coordinates, if any.
    pub(crate) fn layer_of(columns: &[&BaseColumn]) -> Option<Arc<Self>> {
        let (batch, 0) = columns.first()?.opened_with()? else { return None };
        let all = columns.len() == batch.columns.len() && matches!(batch.role, Role::Layer { .. });
        let mut places = columns.iter().enumerate().map(|(i, column)| (i, column.opened_with()));
        let together = |(i, place): (usize, Option<(Arc<Self>, usize)>)| {
            place.is_some_and(|(other, place)| place == i && Arc::ptr_eq(&batch, &other))
        };
        (all && places.all(together)).then(|| batch.clone())
    }

    /// The sum of column `place` with weights that are not those of a point.
    pub(crate) fn weighted(&self, place: usize, weights: &SecureColumn) -> SecureField {
        let sum = || {
            let column = &self.columns[place];
            let devices: Vec<Device> = (0..column.blocks()).map(|block| column.device(block).clone()).collect();
            let _phase = phase_on(&devices, "evaluate at points");
            let mut sum = QM31::ZERO;
            for (block, device) in devices.iter().enumerate() {
                let stream = stream(device);
                let run = self.run(&[place], block)?;
                let rows = column.len() / column.blocks();
                let weights = block_of_slab(&stream, weights, block, rows)?;
                let values =
                    opening::evaluate_slabs::<QM31>(&stream, Columns::new(run.view(), rows)?, &[weights.view()])?;
                sum += QM31::from_parts(&values.to_vec(&stream)?).expect("four coordinates");
            }
            Ok(sum)
        };
        let sum: Result<QM31> = sum();
        secure(sum.or_fail("evaluate a column"))
    }
}

/// Rows of a block of weights, four coordinates one after the other, on the device of a stream.
fn block_of_slab(
    stream: &Stream,
    weights: &SecureColumn,
    block: usize,
    rows: usize,
) -> Result<Buffer<Mersenne31>> {
    let all = weights.view_on(stream.device());
    let mut words = stream.alloc(QM31::DEGREE * rows)?;
    let (mut rest, mut pieces) = (words.view_mut(), Vec::with_capacity(QM31::DEGREE));
    for part in 0..QM31::DEGREE {
        let start = part * (all.len() / QM31::DEGREE) + block * rows;
        let (target, tail) = rest.split_at(rows)?;
        pieces.push((all.range(start..start + rows)?, target));
        rest = tail;
    }
    send(pieces)?;
    Ok(words)
}
