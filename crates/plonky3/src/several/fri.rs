//! FRI over several devices: all fold their rows until these are few; then the first device has all.

use p3_field::PrimeCharacteristicRing;
use p3_fri::{BatchMultiOpening, CommitPhaseMultiStep, FriProof, FriShape, ProverTranscript};
use rigel_gpu::{Device, DeviceKind, Piece, exchange};
use rigel_kernels::Matrix;
use rigel_kernels::commit::merkle::MerkleTree;
use rigel_kernels::domain::block::Block;
use rigel_kernels::field::{Element, Ring};
use rigel_kernels::fri::fold;
use rigel_kernels::vector::elementwise;

use super::commit::{join, subtree_cap};
use super::gather::{self, Forest, Rows};
use super::open::SplitRound;
use super::team::Team;
use crate::base::error::Result;
use crate::columns::extended::Extended;
use crate::phases::fri::Openings;
use crate::phases::gathered::with_room;
use crate::phases::tail::Tail;
use crate::phases::tail::siblings;
use crate::upstream::challenger::Searching;
use crate::upstream::config::{Base, DeviceConfig, DeviceFriProof, Ext};
use crate::upstream::field::{DeviceExtension, DeviceField};
use crate::upstream::transcript::Unfinished;

/// The least number of rows of a layer that devices share. Layers of fewer go to the first device: an H200 folds and
/// hashes all layers from two million rows on in 0.7 ms, so sharing them gains nothing. The emulated device, which is
/// there to test, shares small layers too.
pub(crate) fn least_rows(device: &Device) -> usize {
    match device.kind() {
        DeviceKind::Emulated => 1 << 8,
        _ => 1 << 23,
    }
}

/// One fold: its input, of which each device has a block, or the first device all, and the trees over it.
struct Fold<SC: DeviceConfig> {
    blocks: Vec<Matrix<Base<SC>>>,
    trees: Vec<MerkleTree<SC::Hash>>,
    top: Option<MerkleTree<SC::Hash>>,
    log_arity: usize,
}

/// A column of the extension that is to be folded: its blocks, one a device, or all of it on the first device.
pub(crate) type Column<SC> = Vec<Matrix<Base<SC>>>;

/// The logarithm of the number of rows of a column.
fn log_rows<SC: DeviceConfig>(blocks: &[Matrix<Base<SC>>]) -> usize {
    (blocks[0].rows() * blocks.len()).ilog2() as usize
}

/// Proves that columns, in descending height, are of low degree.
pub(crate) fn prove<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    rounds: &[SplitRound<'_, SC>],
    inputs: Vec<Column<SC>>,
    batch_pow_witness: SC::Value,
    challenger: &mut Searching<'_, SC::Challenger>,
) -> Result<DeviceFriProof<SC>> {
    let log_heights: Vec<usize> = inputs.iter().map(|blocks| log_rows::<SC>(blocks)).collect();
    let shape = FriShape::new(&team.first().prover.fri, &log_heights, log_heights[0]);
    let log_arities = shape.log_arities.clone();
    let mut transcript = Unfinished::new(ProverTranscript::<_, SC::Value, SC::Challenge>::new(challenger, shape));

    let mut folds: Vec<Fold<SC>> = Vec::new();
    let mut commits = Vec::new();
    let mut commit_witnesses = Vec::new();
    let mut inputs = inputs.into_iter().peekable();
    let mut blocks = inputs.next().expect("at least one matrix is opened");
    let least = least_rows(team.first().stream.device());
    for &log_arity in &log_arities {
        if blocks.len() * blocks[0].rows() < least || blocks[0].rows() < 1 << log_arity {
            blocks = vec![to_first(team, blocks)?];
        }
        let trees = team.phase("fold", || commit(team, &blocks, log_arity as u32))?;
        let (top, cap) = join(team, &trees, &[])?;
        let (beta, witness) = transcript.commit_round(cap.clone());
        commits.push(cap);
        commit_witnesses.push(witness.unwrap_or(SC::Value::ZERO));
        let log_folded = log_rows::<SC>(&blocks) - log_arity;
        let mut joined = inputs.next_if(|input| log_rows::<SC>(input) == log_folded);
        if blocks.len() == 1 {
            joined = joined.map(|input| to_first(team, input)).transpose()?.map(|input| vec![input]);
        }
        let folded = team.phase("fold", || fold_blocks(team, &blocks, log_arity as u32, beta, joined))?;
        folds.push(Fold { blocks: std::mem::replace(&mut blocks, folded), trees, top, log_arity });
    }

    let tail = Tail::new(team.first(), &to_first(team, blocks)?, std::iter::empty())?;
    let final_poly = tail.final_polynomial(&team.first().prover.fri);
    let (indices, query_witness) = transcript.query_phase(&final_poly);
    transcript.into_inner().finish();
    let (input_openings, commit_phase_openings) =
        team.phase("query", || query(team, rounds, &folds, log_heights[0], &indices))?;
    Ok(FriProof {
        batch_pow_witness,
        commit_phase_commits: commits,
        commit_pow_witnesses: commit_witnesses,
        input_openings,
        commit_phase_openings,
        final_poly,
        query_pow_witness: query_witness.unwrap_or(SC::Value::ZERO),
    })
}

/// The trees over blocks, in leaves of 2^`log_arity` elements.
fn commit<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    blocks: &[Matrix<Base<SC>>],
    log_arity: u32,
) -> Result<Vec<MerkleTree<SC::Hash>>> {
    let cap_height = if blocks.len() == 1 { team.first().cap_height() } else { subtree_cap(team) };
    let tree = |(block, session): (&Matrix<Base<SC>>, &crate::prover::session::Session<'_, SC>)| {
        Ok(MerkleTree::packed(session.hashing(), block.into(), log_arity, cap_height)?)
    };
    blocks.iter().zip(&team.sessions).map(tree).collect()
}

/// Folds blocks, and adds beta^(2^`log_arity`) times those of a column that joins, which are as many.
///
/// A block whose points are `s x` folds as one whose points are x, with beta / s. The folded block's points have the
/// factor s^(2^`log_arity`), by which what joins is multiplied first, because the fold divides it by that.
fn fold_blocks<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    blocks: &[Matrix<Base<SC>>],
    log_arity: u32,
    beta: SC::Challenge,
    mut joined: Option<Column<SC>>,
) -> Result<Vec<Matrix<Base<SC>>>> {
    let fold = |(k, values): (usize, &Matrix<Base<SC>>)| {
        let stream = &team.streams[k];
        let block = Block { index: k, log_rows: values.rows().ilog2() };
        let inverse = block.shift::<Base<SC>>().inverse().expect("a root of unity is not zero");
        let beta = (beta * SC::Value::from_device(&[inverse])[0]).to_device();
        let mut joined = joined.as_mut().map(|joined| &mut joined[k]);
        if let Some(joined) = joined.as_deref_mut().filter(|_| k > 0) {
            let folded = Block { log_rows: block.log_rows - log_arity, ..block };
            elementwise::scale_assign::<Base<SC>>(stream, joined, folded.shift())?;
        }
        let joined = joined.map(|joined| joined.values().view());
        Ok(fold::fold::<Ext<SC>>(stream, values.values().view(), log_arity, beta, joined)?)
    };
    blocks.iter().enumerate().map(fold).collect()
}

/// A column of the extension, all of it on the first device.
fn to_first<SC: DeviceConfig>(team: &Team<'_, SC>, blocks: Vec<Matrix<Base<SC>>>) -> Result<Matrix<Base<SC>>> {
    if blocks.len() == 1 {
        return Ok(blocks.into_iter().next().expect("there is one"));
    }
    team.phase("exchange", || {
        let mut whole = Matrix::alloc(&team.streams[0], blocks[0].rows() * blocks.len(), Ext::<SC>::DEGREE)?;
        let mut rest = whole.values_mut().view_mut();
        let mut pieces = Vec::with_capacity(blocks.len() * Ext::<SC>::DEGREE);
        for d in 0..Ext::<SC>::DEGREE {
            for (from, block) in blocks.iter().enumerate() {
                let (target, tail) = rest.split_at(block.rows())?;
                pieces.push(Piece::new(from, 0, block.column(d)?, target));
                rest = tail;
            }
        }
        exchange(&team.streams, pieces)?;
        Ok(whole)
    })
}

/// Opens the committed matrices and all folds at the queried indices.
fn query<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    rounds: &[SplitRound<'_, SC>],
    folds: &[Fold<SC>],
    log_height: usize,
    indices: &[usize],
) -> Result<Openings<SC>> {
    // The places in a column of 2^`log_rows` rows.
    let at = |log_rows: u32| -> Vec<usize> {
        indices.iter().map(|index| index >> (log_height - log_rows as usize)).collect()
    };
    let (mut rows, mut leaves) = (Vec::new(), Vec::new());
    for SplitRound { shares, .. } in rounds {
        for matrix in 0..shares.len() {
            let blocks = shares.blocks(matrix).iter().map(Extended::whole).collect();
            rows.push(Rows { blocks, indices: at(shares.log_rows(matrix)) });
        }
        let trees = shares.trees.iter().collect();
        leaves.push((Forest { trees, top: shares.top.as_ref() }, at(shares.depth())));
    }
    // For each fold, the queried indices. The leaves that contain them are the queried indices of the next fold.
    let mut places = vec![indices.to_vec()];
    for fold in folds {
        let queried: Vec<usize> = places[places.len() - 1].iter().map(|place| place >> fold.log_arity).collect();
        let arity = 1 << fold.log_arity;
        let elements = queried.iter().flat_map(|leaf| leaf * arity..(leaf + 1) * arity).collect();
        rows.push(Rows { blocks: fold.blocks.iter().collect(), indices: elements });
        leaves.push((Forest { trees: fold.trees.iter().collect(), top: fold.top.as_ref() }, queried.clone()));
        places.push(queried);
    }
    let mut rows = gather::rows(team, &rows)?.into_iter();
    let mut paths = gather::paths(team, &leaves)?.into_iter();

    let mut input_openings = Vec::with_capacity(rounds.len());
    for SplitRound { shares, .. } in rounds {
        let mut opened_values: Vec<Vec<Vec<SC::Value>>> = with_room(indices.len(), shares.len());
        for (matrix, values) in rows.by_ref().take(shares.len()).enumerate() {
            let width = shares.blocks(matrix)[0].columns();
            for (matrices, row) in opened_values.iter_mut().zip(values.chunks_exact(width)) {
                matrices.push(SC::Value::from_device(row).to_vec());
            }
        }
        let opening_proof = SC::input_paths(paths.next().expect("one for each tree"), Vec::new());
        input_openings.push(BatchMultiOpening { opened_values, opening_proof });
    }
    let mut steps = Vec::with_capacity(folds.len());
    for ((fold, places), (values, paths)) in folds.iter().zip(&places).zip(rows.zip(paths)) {
        let arity = 1 << fold.log_arity;
        let elements = SC::Challenge::from_words(&values);
        let sibling_values = siblings(elements.chunks_exact(arity), places, arity);
        steps.push(CommitPhaseMultiStep { sibling_values, opening_proof: SC::fri_paths(paths, Vec::new()) });
    }
    Ok((input_openings, steps))
}
