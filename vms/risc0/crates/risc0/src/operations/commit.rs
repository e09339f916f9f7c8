//! Digests of rows and the layers of trees.

use rigel_gpu::Result;
use rigel_kernels::Columns;
use rigel_kernels::commit::{merkle, rows};
use rigel_kernels::field::BabyBear;
use rigel_kernels::hash::RiscZeroPoseidon2;
use rigel_kernels::transform::ntt::Order;

use super::{base, wrong};
use crate::hal::Hal;
use crate::shim::{MatrixPart, Part};

/// A digest's words.
const DIGEST: usize = 8;

impl Hal {
    /// The digest of each row.
    pub(crate) fn hash_rows(&self, digests: Part, matrix: MatrixPart) -> Result<()> {
        let mut values = matrix.contents()?;
        let order = match values.settle(&self.stream, matrix.log_rows()?)? {
            Some(_) => Order::BitReversed,
            None => Order::Natural,
        };
        let columns = Columns::new(base(values.stored()?)?, matrix.rows)?;
        let mut out = digests.contents()?;
        let (first, end) = out.words_of(digests.offset, digests.size)?;
        let out = out.device_mut(&self.stream)?.range(first..end)?.cast::<[BabyBear; DIGEST]>()?;
        rows::hash_matrix_into::<RiscZeroPoseidon2, BabyBear>(&self.stream, out, columns, order)
    }

    /// A layer of a tree from the one below it, both in one buffer: parents come before children.
    pub(crate) fn hash_fold(&self, parents: Part, children: Part) -> Result<()> {
        if parents.buffer != children.buffer || parents.offset + parents.size > children.offset {
            return Err(wrong("the layers of a tree are in one buffer, the upper one first".into()));
        }
        let mut tree = parents.contents()?;
        let (first, end) = tree.words_of(parents.offset, parents.size)?;
        let (below, below_end) = tree.words_of(children.offset, children.size)?;
        let (upper, lower) = tree.device_mut(&self.stream)?.split_at(below)?;
        let upper = upper.range(first..end)?.cast::<[BabyBear; DIGEST]>()?;
        let lower = lower.range(..below_end - below)?.cast::<[BabyBear; DIGEST]>()?;
        merkle::compress_into::<RiscZeroPoseidon2>(&self.stream, upper, lower.view())
    }
}
