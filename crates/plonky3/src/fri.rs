//! FRI: folds with a tree each, the final polynomial, and the queries.

use p3_dft::{Radix2DFTSmallBatch, TwoAdicSubgroupDft};
use p3_field::PrimeCharacteristicRing;
use p3_fri::{BatchMultiOpening, CommitPhaseMultiStep, FriProof, FriShape, ProverTranscript};
use p3_util::reverse_slice_index_bits;
use rigel_gpu::Buffer;
use rigel_kernels::element::{Element, from_slab};
use rigel_kernels::merkle::MerkleTree;
use rigel_kernels::{Matrix, fold, permute};

use crate::challenger::Searching;
use crate::commit::cap;
use crate::config::{Base, DeviceConfig, Ext};
use crate::error::Result;
use crate::field::{DeviceExtension, DeviceField};
use crate::open::{OpeningProof, Round, download};
use crate::prover::Session;
use crate::transcript::Unfinished;

/// One fold: what was folded, in leaves of 2^log_arity elements.
struct Fold<SC: DeviceConfig> {
    values: Matrix<Base<SC>>,
    tree: MerkleTree<SC::Hash>,
    log_arity: usize,
}

/// Proves that `inputs`, bit-reversed and highest first, are of low degree.
pub(crate) fn prove<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    rounds: &[Round<'_, SC>],
    inputs: Vec<Matrix<Base<SC>>>,
    batch_pow_witness: SC::Value,
    challenger: &mut Searching<'_, SC::Challenger>,
) -> Result<OpeningProof<SC>> {
    let fri = &session.prover.fri;
    let log_heights: Vec<usize> = inputs.iter().map(|input| input.rows().trailing_zeros() as usize).collect();
    let shape = FriShape::new(fri, &log_heights, log_heights[0]);
    let log_arities = shape.log_arities.clone();
    let mut transcript = Unfinished::new(ProverTranscript::<_, SC::Value, SC::Challenge>::new(challenger, shape));

    let mut folds: Vec<Fold<SC>> = Vec::new();
    let mut commits = Vec::new();
    let mut commit_witnesses = Vec::new();
    let mut inputs = inputs.into_iter().peekable();
    let mut values = inputs.next().expect("at least one matrix is opened");
    for &log_arity in &log_arities {
        let tree = session
            .phase("fold", || Ok(MerkleTree::packed(&session.stream, (&values).into(), log_arity as u32)?))?;
        let commit = cap::<SC>(session, &tree)?;
        let (beta, witness) = transcript.commit_round(commit.clone());
        commits.push(commit);
        commit_witnesses.push(witness.unwrap_or(SC::Value::ZERO));
        let joined = inputs.next_if(|input| input.rows() == values.rows() >> log_arity);
        let folded = session.phase("fold", || {
            let joined = joined.as_ref().map(|input| input.values().view());
            let beta = beta.to_device();
            Ok(fold::fold::<Ext<SC>>(&session.stream, values.values().view(), log_arity as u32, beta, joined)?)
        })?;
        folds.push(Fold { values: std::mem::replace(&mut values, folded), tree, log_arity });
    }

    let final_poly = final_polynomial(session, &values)?;
    let (indices, query_witness) = transcript.query_phase(&final_poly);
    transcript.into_inner().finish();
    let input_openings = session.phase("query", || open_inputs(session, rounds, log_heights[0], &indices))?;
    let commit_phase_openings = session.phase("query", || open_folds(session, &folds, &indices))?;
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

/// The coefficients of what the folds leave: its first evaluations determine them.
fn final_polynomial<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    values: &Matrix<Base<SC>>,
) -> Result<Vec<SC::Challenge>> {
    let slab = values.to_vec(&session.stream)?;
    let elements = from_slab::<Ext<SC>>(&slab).expect("a slab of the extension");
    let words: Vec<Base<SC>> = elements.iter().flat_map(|element| element.parts().to_vec()).collect();
    let mut evaluations = SC::Challenge::from_words(&words);
    evaluations.truncate(session.prover.fri.final_poly_len());
    reverse_slice_index_bits(&mut evaluations);
    Ok(Radix2DFTSmallBatch::<SC::Value>::default().idft_algebra(evaluations))
}

/// The queried rows of every commitment, and their paths.
fn open_inputs<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    rounds: &[Round<'_, SC>],
    log_height: usize,
    indices: &[usize],
) -> Result<Vec<BatchMultiOpening<SC::Value, SC::InputMmcs>>> {
    let stream = &session.stream;
    let mut rows = Vec::new();
    for round in rounds {
        for lde in &round.committed.ldes {
            let shift = log_height - lde.log_rows() as usize;
            let indices: Vec<u32> = indices.iter().map(|&index| (index >> shift) as u32).collect();
            lde.each(session, |_, columns| {
                rows.push(permute::gather_rows_at(stream, columns, &indices)?);
                Ok(())
            })?;
        }
    }
    let mut rows = download(stream, &rows)?.into_iter();
    let mut openings = Vec::with_capacity(rounds.len());
    for Round { committed, .. } in rounds {
        // By query, then by matrix: the row, batch by batch.
        let mut opened_values: Vec<Vec<Vec<SC::Value>>> = vec![Vec::new(); indices.len()];
        for lde in &committed.ldes {
            opened_values.iter_mut().for_each(|matrices| matrices.push(Vec::with_capacity(lde.columns())));
            let mut missing = lde.columns();
            while missing > 0 {
                let values = rows.next().expect("one gather a batch");
                let width = values.len() / indices.len();
                for (matrices, row) in opened_values.iter_mut().zip(values.chunks_exact(width)) {
                    matrices.last_mut().expect("pushed above").extend_from_slice(SC::Value::from_device(row));
                }
                missing -= width;
            }
        }
        let shift = log_height - committed.tree.depth() as usize;
        let leaves: Vec<usize> = indices.iter().map(|index| index >> shift).collect();
        openings.push(BatchMultiOpening {
            opened_values,
            opening_proof: SC::input_paths(open_tree(session, &committed.tree, &leaves)?),
        });
    }
    Ok(openings)
}

/// The siblings in the queried leaves of every fold, and the leaves' paths.
fn open_folds<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    folds: &[Fold<SC>],
    indices: &[usize],
) -> Result<Vec<CommitPhaseMultiStep<SC::Challenge, SC::FriMmcs>>> {
    let stream = &session.stream;
    let mut places = Vec::with_capacity(folds.len());
    let mut at = indices.to_vec();
    for fold in folds {
        let next: Vec<usize> = at.iter().map(|index| index >> fold.log_arity).collect();
        places.push((at, next.clone()));
        at = next;
    }
    let mut leaves: Vec<Buffer<Base<SC>>> = Vec::with_capacity(folds.len());
    for (fold, (_, parents)) in folds.iter().zip(&places) {
        let arity = 1 << fold.log_arity;
        let rows: Vec<u32> =
            parents.iter().flat_map(|parent| (0..arity).map(move |j| (parent * arity + j) as u32)).collect();
        leaves.push(permute::gather_rows_at(stream, &fold.values, &rows)?);
    }
    let leaves = download(stream, &leaves)?;
    let mut steps = Vec::with_capacity(folds.len());
    for ((fold, (places, parents)), words) in folds.iter().zip(&places).zip(leaves) {
        let arity = 1 << fold.log_arity;
        let elements = SC::Challenge::from_words(&words);
        let siblings = |(query, place): (usize, &usize)| {
            let leaf = elements[query * arity..(query + 1) * arity].iter().enumerate();
            leaf.filter(|(j, _)| *j != place % arity).map(|(_, &element)| element).collect()
        };
        steps.push(CommitPhaseMultiStep {
            sibling_values: places.iter().enumerate().map(siblings).collect(),
            opening_proof: SC::fri_paths(open_tree(session, &fold.tree, parents)?),
        });
    }
    Ok(steps)
}

fn open_tree<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    tree: &MerkleTree<SC::Hash>,
    leaves: &[usize],
) -> Result<Vec<<SC::Hash as rigel_kernels::hash::Hash>::Digest>> {
    Ok(tree.open_pruned(&session.stream, leaves, session.prover.cap_height as u32)?)
}
