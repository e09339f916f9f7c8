//! Where a column lies: on a device, in host memory, in blocks of rows on several devices, or nowhere until it is
//! computed.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rigel_gpu::{Buffer, Device, Result, ViewMut};
use rigel_kernels::field::Mersenne31;
use rigel_kernels::open::circle_opening;
use stwo::core::circle::CirclePoint;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::backend::Column;

use super::{BaseColumn, DeviceColumn, Value};
use crate::copies::send;
use crate::deferred::Place;
use crate::device::stream;
use crate::field::Twin;
use crate::held::Held;
use crate::report::{gathered, phase_on};

/// Words that are computed when they are first needed. Upstream requests weights on threads that have no current
/// device and uses them together with columns that have one.
#[derive(Clone)]
pub(crate) enum Plan {
    /// The barycentric weights of a canonic domain of 2^`log_size` points for a point outside of it.
    BarycentricWeights { log_size: u32, point: CirclePoint<SecureField> },
    /// A column that is kept in host memory.
    Deferred(Place),
    /// A column in blocks on several devices. Whoever needs it whole gathers it on the first one.
    Blocks(Blocks),
}

impl Plan {
    pub(super) fn make(&self, device: &Device) -> Result<Buffer<Mersenne31>> {
        match self {
            Self::BarycentricWeights { log_size, point } => {
                let _phase = phase_on(std::slice::from_ref(device), "barycentric weights");
                let domain = CanonicCoset::new(*log_size).circle_domain().twin();
                let slab = circle_opening::barycentric_weights(&stream(device), domain, point.twin())?;
                Ok(slab.into_values())
            }
            Self::Deferred(place) => place.of.read(place.index..place.index + 1),
            Self::Blocks(blocks) => {
                gathered(device, "columns in blocks", "an operation reads whole columns");
                blocks.gather(device)
            }
        }
    }
}

/// The blocks of a column.
#[derive(Clone)]
pub(crate) struct Blocks {
    /// Each on its own device, equal in length.
    parts: Arc<Vec<BaseColumn>>,
    /// The device that gets the column if it has to be whole and may be on any: different ones for columns that were
    /// made together.
    home: Device,
}

impl Blocks {
    /// The blocks, and the device that gets the column if it has to be whole.
    pub(crate) fn new(parts: Vec<BaseColumn>, home: Device) -> Self {
        Self { parts: Arc::new(parts), home }
    }

    /// The blocks.
    pub(crate) fn parts(&self) -> &[BaseColumn] {
        &self.parts
    }

    /// The blocks; copies of them if a clone of the column is written to.
    pub(crate) fn into_parts(self) -> Vec<BaseColumn> {
        Arc::try_unwrap(self.parts).unwrap_or_else(|shared| shared.to_vec())
    }

    /// The device that gets the whole column if it may be on any.
    pub(crate) fn home(&self) -> &Device {
        &self.home
    }

    /// Whether block k is on device k of these, for all of them.
    pub(crate) fn are_on(&self, devices: &[Device]) -> bool {
        self.parts.len() == devices.len() && self.parts.iter().zip(devices).all(|(part, to)| part.device().is(to))
    }

    /// The device of the first block.
    pub(crate) fn first(&self) -> &Device {
        self.parts[0].device()
    }

    /// The block that has a row, and the row's place there.
    pub(crate) fn place(&self, row: usize) -> (&BaseColumn, usize) {
        let rows = self.parts[0].len();
        (&self.parts[row / rows], row % rows)
    }

    /// The whole column, on a device.
    pub(crate) fn gather(&self, device: &Device) -> Result<Buffer<Mersenne31>> {
        let mut whole = stream(device).alloc(self.parts.len() * self.parts[0].len())?;
        let mut rest = whole.view_mut();
        let mut pieces = Vec::with_capacity(self.parts.len());
        for part in self.parts.iter() {
            let (target, tail) = rest.split_at(part.len())?;
            pieces.push((part.view(), target));
            rest = tail;
        }
        send(pieces)?;
        Ok(whole)
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts.iter()).finish()
    }
}

impl<T: Value> DeviceColumn<T> {
    /// The column's place in host memory, if the host keeps it and the device does not have it, too.
    pub(crate) fn place(&self) -> Option<&Place> {
        match self.plan() {
            Some(Plan::Deferred(place)) if self.words.get().is_none() => Some(place),
            _ => None,
        }
    }

    /// The column's blocks, if it is in blocks on several devices.
    pub(crate) fn blocks(&self) -> Option<&Blocks> {
        match self.plan() {
            Some(Plan::Blocks(blocks)) => Some(blocks),
            _ => None,
        }
    }

    /// The point whose barycentric weights it holds, if it was made so and not written to.
    pub(crate) fn point(&self) -> Option<CirclePoint<SecureField>> {
        match self.plan() {
            Some(Plan::BarycentricWeights { point, .. }) => Some(*point),
            _ => None,
        }
    }
}

impl BaseColumn {
    /// A column of this length that the host keeps.
    pub(crate) fn deferred(len: usize, place: Place) -> Self {
        let device = OnceLock::from(place.of.device().clone());
        Self::without_words(len, device, Some(Plan::Deferred(place)))
    }

    /// A column in blocks on several devices.
    pub(crate) fn in_blocks(blocks: Blocks) -> Self {
        let len = blocks.parts().len() * blocks.parts()[0].len();
        let device = OnceLock::from(blocks.first().clone());
        Self::without_words(len, device, Some(Plan::Blocks(blocks)))
    }

    /// Takes the column apart into its blocks.
    ///
    /// # Panics
    /// If it is not in blocks.
    pub(crate) fn into_blocks(self) -> Vec<Self> {
        match self.rest.into_inner().and_then(|rest| rest.plan) {
            Some(Plan::Blocks(blocks)) => blocks.into_parts(),
            _ => panic!("a column of {} in blocks", self.len),
        }
    }

    /// Writes the column to memory that follows the device's compute stream.
    pub(crate) fn write_to(&self, to: ViewMut<'_, Mersenne31>) -> Result<()> {
        match self.place() {
            Some(place) => place.write(to),
            None => stream(self.device()).copy(to, self.view()),
        }
    }

    /// A handle to the column's words that outlives the column.
    pub(crate) fn held(&self) -> Held {
        if let Some(blocks) = self.blocks() {
            return Held::Blocks(blocks.parts().iter().map(|part| part.words().clone()).collect());
        }
        match self.place() {
            Some(place) => Held::Deferred(place.clone()),
            None => Held::Here(self.words().clone(), self.log_coefficients),
        }
    }
}

/// The blocks of columns by device, if all columns are in blocks on the same devices.
pub(crate) fn by_device<'a>(columns: &[&'a BaseColumn]) -> Option<Vec<Vec<&'a BaseColumn>>> {
    let devices = devices_of(columns.first().copied())?;
    let parts: Option<Vec<_>> = columns.iter().map(|column| parts_on(column, &devices)).collect();
    let parts = parts?;
    Some((0..devices.len()).map(|k| parts.iter().map(|parts| &parts[k]).collect()).collect())
}

/// The blocks of a column, if it is in blocks on these devices.
pub(crate) fn parts_on<'a>(column: &'a BaseColumn, devices: &[Device]) -> Option<&'a [BaseColumn]> {
    column.blocks().filter(|blocks| blocks.are_on(devices)).map(Blocks::parts)
}

/// The devices of the blocks of the first of these columns that is in blocks.
pub(crate) fn devices_of<'a>(columns: impl IntoIterator<Item = &'a BaseColumn>) -> Option<Vec<Device>> {
    let blocks = columns.into_iter().find_map(BaseColumn::blocks)?;
    Some(blocks.parts().iter().map(|part| part.device().clone()).collect())
}
