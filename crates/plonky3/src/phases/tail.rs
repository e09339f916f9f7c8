//! The end of FRI, on the host.
//!
//! Every fold waits for a challenge, and every challenge for the tree before it: a launch, a copy back and what the
//! host does between. The host folds and hashes a few elements in less time than that. So the device folds while trees
//! are large; what is left of the columns then comes back, and the host goes on alone.
//!
//! The device makes all trees of a proof that hides the trace, of one whose hash the host can't compute
//! (`TreeHash::on_host`), and of one over several devices: there the tail is the final polynomial alone.

use std::iter::Peekable;
use std::vec::IntoIter;

use p3_dft::{Radix2DFTSmallBatch, TwoAdicSubgroupDft};
use p3_field::{BasedVectorSpace, Field, PrimeCharacteristicRing, TwoAdicField};
use p3_fri::{CommitPhaseMultiStep, FriParameters};
use p3_util::{log2_strict_usize, reverse_slice_index_bits};
use rigel_gpu::{Fetch, Result as GpuResult};
use rigel_kernels::Matrix;
use rigel_kernels::commit::merkle::frontier;
use rigel_kernels::field::Element;
use rigel_kernels::hash::Sponge;
use rigel_kernels::layout::permute;
use rigel_kernels::layout::slab::from_slab;

use crate::base::error::Result;
use crate::columns::commit::Committed;
use crate::prover::session::Session;
use crate::upstream::config::{Base, DeviceConfig, Digest, Ext};
use crate::upstream::field::{DeviceExtension, DeviceField};

/// The most hashes of a tree that the host makes, counted in blocks of the sponge. A host takes about a microsecond for
/// one of Keccak.
const MOST_HASHES: usize = 16;

/// The number of folds, from the first one on, whose trees the device makes.
pub(crate) fn on_device<SC: DeviceConfig>(log_height: usize, log_arities: &[usize]) -> usize {
    // The device makes the salts of a proof that hides the trace.
    if SC::HIDING || SC::host_hash().is_none() {
        return log_arities.len();
    }
    let mut log_leaves = log_height;
    let is_small = |log_arity: &usize| {
        log_leaves -= log_arity;
        let leaf = (Ext::<SC>::DEGREE * size_of::<Base<SC>>()) << log_arity;
        let hashes = leaf.div_ceil(SC::Hash::BLOCK_BYTES) + 1;
        hashes << log_leaves <= MOST_HASHES
    };
    log_arities.iter().position(is_small).unwrap_or(log_arities.len())
}

/// The values that are left to fold, in bit-reversed order, and the folds that the host made.
pub(crate) struct Tail<SC: DeviceConfig> {
    values: Vec<SC::Challenge>,
    /// Columns that join at lower heights, in descending height.
    inputs: Peekable<IntoIter<Vec<SC::Challenge>>>,
    folds: Vec<Fold<SC>>,
}

/// One fold: its input, and the tree over it, from the leaves of 2^`log_arity` elements to the cap.
struct Fold<SC: DeviceConfig> {
    values: Vec<SC::Challenge>,
    layers: Vec<Vec<Digest<SC>>>,
    log_arity: usize,
}

impl<SC: DeviceConfig> Tail<SC> {
    /// Downloads the columns. Waits for the device.
    pub(crate) fn new(
        session: &Session<'_, SC>,
        values: &Matrix<Base<SC>>,
        inputs: impl Iterator<Item = Matrix<Base<SC>>>,
    ) -> Result<Self> {
        let fetch = |column: &Matrix<Base<SC>>| session.stream.fetch(column.values());
        let values = fetch(values)?;
        let inputs = inputs.map(|input| fetch(&input)).collect::<GpuResult<Vec<_>>>()?;
        let values = elements::<SC>(values)?;
        let inputs = inputs.into_iter().map(elements::<SC>).collect::<Result<Vec<_>>>()?;
        Ok(Self { values, inputs: inputs.into_iter().peekable(), folds: Vec::new() })
    }

    /// Commits to the values in leaves of 2^`log_arity`, and then folds them with the challenge that the commitment
    /// gives, as [`rigel_kernels::fri::fold`] does.
    pub(crate) fn fold(
        &mut self,
        log_arity: usize,
        cap_height: u32,
        challenge: impl FnOnce(SC::Commitment) -> SC::Challenge,
    ) {
        let layers = layers::<SC>(&self.values, log_arity, cap_height);
        let mut beta = challenge(SC::cap(layers[layers.len() - 1].clone()));
        let mut folded = self.values.clone();
        for _ in 0..log_arity {
            let root = SC::Value::two_adic_generator(log2_strict_usize(folded.len()));
            let mut factors = root.inverse().shifted_powers(SC::Value::ONE.halve()).collect_n(folded.len() / 2);
            reverse_slice_index_bits(&mut factors);
            let halve = |(pair, factor): (&[SC::Challenge], SC::Value)| {
                (pair[0] + pair[1]).halve() + (pair[0] - pair[1]) * beta * factor
            };
            folded = folded.chunks_exact(2).zip(factors).map(halve).collect();
            beta = beta.square();
        }
        if let Some(joined) = self.inputs.next_if(|input| input.len() == folded.len()) {
            folded.iter_mut().zip(joined).for_each(|(value, joined)| *value += beta * joined);
        }
        self.folds.push(Fold { values: std::mem::replace(&mut self.values, folded), layers, log_arity });
    }

    /// The coefficients of the polynomial that remains after all folds. Its first evaluations determine them.
    pub(crate) fn final_polynomial(&self, fri: &FriParameters<()>) -> Vec<SC::Challenge> {
        let mut evaluations = self.values[..fri.final_poly_len()].to_vec();
        reverse_slice_index_bits(&mut evaluations);
        Radix2DFTSmallBatch::<SC::Value>::default().idft_algebra(evaluations)
    }

    /// The openings of the folds here, given the queried elements of the first.
    pub(crate) fn open(
        &self,
        mut places: Vec<usize>,
    ) -> impl Iterator<Item = CommitPhaseMultiStep<SC::Challenge, SC::FriMmcs>> {
        self.folds.iter().map(move |fold| {
            // The leaves that contain the queried elements are those of the next fold.
            let leaves: Vec<usize> = places.iter().map(|place| place >> fold.log_arity).collect();
            let of_leaf = |&leaf: &usize| &fold.values[leaf << fold.log_arity..(leaf + 1) << fold.log_arity];
            let sibling_values = siblings(leaves.iter().map(of_leaf), &places, 1 << fold.log_arity);
            let nodes = frontier(&leaves, fold.layers.len() as u32 - 1);
            let paths = nodes.iter().map(|node| fold.layers[node.layer as usize][node.index]).collect();
            places = leaves;
            CommitPhaseMultiStep { sibling_values, opening_proof: SC::fri_paths(paths, Vec::new()) }
        })
    }
}

/// The elements of a column, a slab on its way to the host.
fn elements<SC: DeviceConfig>(slab: Fetch<Base<SC>>) -> Result<Vec<SC::Challenge>> {
    let slab = slab.wait()?;
    let elements = from_slab::<Ext<SC>>(&slab).expect("a slab of extension elements");
    let words: Vec<Base<SC>> = elements.iter().flat_map(|element| element.parts().to_vec()).collect();
    Ok(SC::Challenge::from_words(&words))
}

/// The layers of the tree over leaves of 2^`log_arity` elements, up to the cap.
fn layers<SC: DeviceConfig>(values: &[SC::Challenge], log_arity: usize, cap_height: u32) -> Vec<Vec<Digest<SC>>> {
    let hash = SC::host_hash().expect("the host makes trees only if it can");
    let leaf = |elements: &[SC::Challenge]| {
        let row: Vec<SC::Value> =
            elements.iter().flat_map(|element| element.as_basis_coefficients_slice()).copied().collect();
        (hash.row)(&row)
    };
    let mut layers = vec![values.chunks_exact(1 << log_arity).map(leaf).collect::<Vec<_>>()];
    while layers[layers.len() - 1].len().ilog2() > cap_height {
        let below = layers[layers.len() - 1].chunks_exact(2);
        layers.push(below.map(|pair| (hash.node)([pair[0], pair[1]])).collect());
    }
    layers
}

/// Whether the host's hash, if there is one, is the device's, on the first rows of a commitment to one matrix.
pub(crate) fn has_same_hash<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    committed: &Committed<'_, SC>,
) -> Result<bool> {
    let Some(hash) = SC::host_hash() else { return Ok(true) };
    let (stream, tree) = (&session.stream, &committed.tree);
    let rows = permute::gather_rows_at(stream, committed.whole(0), &[0, 1])?.to_vec(stream)?;
    let leaves = tree.layer(0)?.range(..2)?.to_vec(stream)?;
    let rows = SC::Value::from_device(&rows).chunks_exact(rows.len() / 2);
    let has_nodes = tree.depth() > session.cap_height();
    let node = has_nodes.then(|| tree.layer(1)?.range(..1)?.to_vec(stream)).transpose()?;
    let is_same_node = node.is_none_or(|node| node == [(hash.node)([leaves[0], leaves[1]])]);
    Ok(is_same_node && rows.map(|row| (hash.row)(row)).eq(leaves))
}

/// The elements of queried leaves of `arity`, but for the queried ones.
pub(crate) fn siblings<'a, E: Copy + 'a>(
    leaves: impl Iterator<Item = &'a [E]>,
    places: &[usize],
    arity: usize,
) -> Vec<Vec<E>> {
    let others = |(leaf, place): (&[E], &usize)| {
        let others = leaf.iter().enumerate().filter(|(j, _)| *j != place % arity);
        others.map(|(_, &element)| element).collect()
    };
    leaves.zip(places).map(others).collect()
}
