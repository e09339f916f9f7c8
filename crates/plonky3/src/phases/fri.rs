//! FRI: the folds with their trees, the final polynomial, and the queries. The last folds are the host's, see [`tail`].

use std::iter::Peekable;

use p3_field::PrimeCharacteristicRing;
use p3_fri::{BatchMultiOpening, CommitPhaseMultiStep, FriProof, FriShape, ProverTranscript};
use p3_uni_stark::StarkGenericConfig;
use rigel_kernels::commit::merkle::{MerkleTree, Node};
use rigel_kernels::field::{Element, Field};
use rigel_kernels::fri::fold;
use rigel_kernels::layout::gather::{self, Rows};
use rigel_kernels::layout::permute;
use rigel_kernels::{Columns, Matrix};

use crate::base::error::Result;
use crate::columns::commit::cap;
use crate::columns::extended::Extended;
use crate::columns::masks;
use crate::columns::masks::Trees;
use crate::phases::gathered::{Gathered, with_room};
use crate::phases::round::Round;
use crate::phases::tail::siblings;
use crate::phases::tail::{self, Tail};
use crate::prover::session::Session;
use crate::upstream::challenger::Searching;
use crate::upstream::config::{Base, DeviceConfig, DeviceFriProof, Digest, Ext, Salts};
use crate::upstream::field::{DeviceExtension, DeviceField};
use crate::upstream::transcript::Unfinished;

/// One fold: its input, committed in leaves of 2^log_arity elements.
struct Fold<SC: DeviceConfig> {
    values: Matrix<Base<SC>>,
    tree: MerkleTree<SC::Hash>,
    /// The salts of the leaves, if the proof hides the trace.
    salts: Option<Matrix<Base<SC>>>,
    log_arity: usize,
    /// The challenge that follows the commitment.
    beta: SC::Challenge,
}

impl<SC: DeviceConfig> Fold<SC> {
    /// The folded values, and in them the next input if it is as high.
    fn folded(
        &self,
        session: &Session<'_, SC>,
        inputs: &mut Peekable<impl Iterator<Item = Matrix<Base<SC>>>>,
    ) -> Result<Matrix<Base<SC>>> {
        let joined = inputs.next_if(|input| input.rows() == self.values.rows() >> self.log_arity);
        let joined = joined.as_ref().map(|input| input.values().view());
        let (values, beta) = (self.values.values().view(), self.beta.to_device());
        Ok(fold::fold::<Ext<SC>>(&session.stream, values, self.log_arity as u32, beta, joined)?)
    }
}

/// A tree, and the salts of its leaves if the proof hides the trace.
type SaltedTree<SC> = (MerkleTree<<SC as DeviceConfig>::Hash>, Option<Matrix<Base<SC>>>);

/// Commits to a column of extension elements in leaves of 2^`log_arity`.
fn commit<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    values: &Matrix<Base<SC>>,
    log_arity: usize,
) -> Result<SaltedTree<SC>> {
    let leaves = values.rows() >> log_arity;
    let Some(salts) = masks::salts(session, Trees::Fri, leaves)? else {
        let tree = MerkleTree::packed(session.hashing(), values.into(), log_arity as u32, session.cap_height())?;
        return Ok((tree, None));
    };
    // Coefficient d of the j-th element of each leaf is a column of its own.
    let columns = permute::to_columns(&session.stream, values.values(), 1 << log_arity)?;
    let mut of_leaf: Vec<Columns<'_, Base<SC>>> = Vec::with_capacity((Ext::<SC>::DEGREE << log_arity) + 1);
    for element in 0..1 << log_arity {
        let coefficients = columns.column(element)?;
        for d in 0..Ext::<SC>::DEGREE {
            of_leaf.push(Columns::new(coefficients.range(d * leaves..(d + 1) * leaves)?, leaves)?);
        }
    }
    of_leaf.push((&salts).into());
    Ok((MerkleTree::new(session.hashing(), &of_leaf, session.cap_height())?, Some(salts)))
}

/// Proves that `inputs`, bit-reversed and in descending height, are of low degree.
pub(crate) fn prove<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    rounds: &[Round<'_, SC>],
    inputs: Vec<Matrix<Base<SC>>>,
    batch_pow_witness: SC::Value,
    challenger: &mut Searching<'_, SC::Challenger>,
) -> Result<DeviceFriProof<SC>> {
    let fri = &session.prover.fri;
    let log_heights: Vec<usize> = inputs.iter().map(|input| input.rows().trailing_zeros() as usize).collect();
    let shape = FriShape::new(fri, &log_heights, log_heights[0]);
    let log_arities = shape.log_arities.clone();
    let mut transcript = Unfinished::new(ProverTranscript::<_, SC::Value, SC::Challenge>::new(challenger, shape));

    let mut folds: Vec<Fold<SC>> = Vec::new();
    let mut commits = Vec::with_capacity(log_arities.len());
    let mut commit_witnesses = Vec::with_capacity(log_arities.len());
    let mut challenge = |cap: SC::Commitment| {
        let (beta, witness) = transcript.commit_round(cap.clone());
        commits.push(cap);
        commit_witnesses.push(witness.unwrap_or(SC::Value::ZERO));
        beta
    };
    let mut inputs = inputs.into_iter().peekable();
    let values = |folds: &[Fold<SC>], inputs: &mut Peekable<_>| match folds.last() {
        Some(fold) => fold.folded(session, inputs),
        None => Ok(inputs.next().expect("at least one matrix is opened")),
    };
    let (on_device, on_host) = log_arities.split_at(tail::on_device::<SC>(log_heights[0], &log_arities));
    for &log_arity in on_device {
        // What a challenge folds is committed to in the same phase, so that the host submits once for each challenge.
        let (values, (tree, salts), cap) = session.phase("fold", || {
            let values = values(&folds, &mut inputs)?;
            let salted = commit(session, &values, log_arity)?;
            let cap = cap::<SC>(session, &salted.0)?;
            Ok((values, salted, cap))
        })?;
        folds.push(Fold { values, tree, salts, log_arity, beta: challenge(cap) });
    }
    let mut tail = session.phase("fold", || Tail::new(session, &values(&folds, &mut inputs)?, inputs))?;
    for &log_arity in on_host {
        tail.fold(log_arity, session.cap_height(), &mut challenge);
    }

    let final_poly = tail.final_polynomial(fri);
    let (indices, query_witness) = transcript.query_phase(&final_poly);
    transcript.into_inner().finish();
    let (input_openings, commit_phase_openings) =
        session.phase("query", || query(session, rounds, &folds, &tail, log_heights[0], &indices))?;
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

pub(crate) type Openings<SC> = (
    Vec<BatchMultiOpening<<SC as DeviceConfig>::Value, <SC as DeviceConfig>::InputMmcs>>,
    Vec<CommitPhaseMultiStep<<SC as StarkGenericConfig>::Challenge, <SC as DeviceConfig>::FriMmcs>>,
);

/// The queried rows and leaves of every commitment and fold, and their paths. The device gathers all of them; two
/// copies bring them, while the host goes on.
fn query<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    rounds: &[Round<'_, SC>],
    folds: &[Fold<SC>],
    tail: &Tail<SC>,
    log_height: usize,
    indices: &[usize],
) -> Result<Openings<SC>> {
    let stream = &session.stream;
    let paths = |tree: &MerkleTree<SC::Hash>, leaves: &[usize]| tree.frontier(leaves, session.cap_height());
    let above = |log_rows: u32| indices.iter().map(move |&index| index >> (log_height - log_rows as usize));
    // For each fold, the queried indices. The leaves that contain them are the queried indices of the next fold.
    let mut places = vec![indices.to_vec()];
    for fold in folds {
        places.push(places[places.len() - 1].iter().map(|place| place >> fold.log_arity).collect());
    }

    // The rows that are read of matrices of each height, and of each fold: all elements of the leaves.
    let rows_at: Vec<Vec<u32>> =
        (0..=log_height as u32).map(|log_rows| above(log_rows).map(|row| row as u32).collect()).collect();
    let of_leaves = |(fold, leaves): (&Fold<SC>, &Vec<usize>)| -> Vec<u32> {
        let arity = 1 << fold.log_arity;
        leaves.iter().flat_map(|leaf| (0..arity).map(move |j| (leaf * arity + j) as u32)).collect()
    };
    let rows_of_folds: Vec<Vec<u32>> = folds.iter().zip(&places[1..]).map(of_leaves).collect();

    let columns = rounds.iter().flat_map(|round| &round.committed.ldes).map(Extended::columns).sum::<usize>();
    let folded = folds.iter().map(|fold| Ext::<SC>::DEGREE << fold.log_arity).sum::<usize>();
    let salted = rounds.iter().map(|round| round.committed.salts.len()).sum::<usize>() + folds.len();
    let mut rows = Gathered::<Base<SC>>::new(stream, indices.len() * (columns + folded + salted * SC::SALTS))?;
    let mut gather = |matrices: &[Rows<'_, Base<SC>>]| -> Result<()> {
        Ok(gather::rows_into(stream, rows.rooms(matrices.iter().map(Rows::len))?, matrices)?)
    };
    // All matrices that are next to each other and whole on the device are read at once.
    let mut whole: Vec<Rows<'_, Base<SC>>> = Vec::new();
    for Round { committed, .. } in rounds {
        for lde in &committed.ldes {
            match lde {
                Extended::Whole(matrix) => whole.push(at_height(matrix, &rows_at)),
                Extended::InBatches { .. } => {
                    gather(&std::mem::take(&mut whole))?;
                    lde.each(session, |_, columns| gather(&[at_height(columns, &rows_at)]))?;
                }
            }
        }
        whole.extend(committed.salts.iter().map(|salts| at_height(salts, &rows_at)));
    }
    for (fold, indices) in folds.iter().zip(&rows_of_folds) {
        whole.push(Rows { values: fold.values.values().view(), rows: fold.values.rows(), indices });
        whole.extend(fold.salts.iter().map(|salts| at_height(salts, &rows_at)));
    }
    gather(&whole)?;
    let fetched_rows = rows.fetch(stream)?;

    let mut trees = Vec::with_capacity(rounds.len() + folds.len());
    for Round { committed, .. } in rounds {
        let leaves: Vec<usize> = above(committed.tree.depth()).collect();
        trees.push((&committed.tree, paths(&committed.tree, &leaves)?));
    }
    for (fold, leaves) in folds.iter().zip(&places[1..]) {
        trees.push((&fold.tree, paths(&fold.tree, leaves)?));
    }
    let trees: Vec<(&MerkleTree<SC::Hash>, &[Node])> =
        trees.iter().map(|(tree, nodes)| (*tree, &nodes[..])).collect();
    let mut digests = Gathered::<Digest<SC>>::new(stream, trees.iter().map(|(_, nodes)| nodes.len()).sum())?;
    MerkleTree::gather_all_into(stream, digests.rooms(trees.iter().map(|(_, nodes)| nodes.len()))?, &trees)?;
    let fetched_digests = digests.fetch(stream)?;

    // Meanwhile, what the host has.
    let of_tail: Vec<_> = tail.open(places[folds.len()].clone()).collect();
    let fetched_rows = fetched_rows.wait()?;
    let mut rows = rows.by_room(&fetched_rows);
    let mut of_rounds = Vec::with_capacity(rounds.len());
    for Round { committed, .. } in rounds {
        let opened_values = opened_rows(&committed.ldes, indices.len(), &mut rows);
        let salts = opened_salts::<SC>(committed.salts.len(), indices.len(), &mut rows);
        of_rounds.push((opened_values, salts));
    }
    let mut of_folds = Vec::with_capacity(folds.len());
    for (fold, places) in folds.iter().zip(&places) {
        let elements = SC::Challenge::from_words(rows.next().expect("one gather per fold"));
        let sibling_values = siblings(elements.chunks_exact(1 << fold.log_arity), places, 1 << fold.log_arity);
        let salts = opened_salts::<SC>(usize::from(fold.salts.is_some()), indices.len(), &mut rows);
        of_folds.push((sibling_values, salts));
    }

    let fetched_digests = fetched_digests.wait()?;
    let mut paths = digests.by_room(&fetched_digests).map(<[_]>::to_vec);
    let mut paths = || paths.next().expect("one list per tree");
    let with_paths = |(opened_values, salts)| BatchMultiOpening {
        opened_values,
        opening_proof: SC::input_paths(paths(), salts),
    };
    let input_openings = of_rounds.into_iter().map(with_paths).collect();
    let mut steps = Vec::with_capacity(folds.len() + of_tail.len());
    for (sibling_values, salts) in of_folds {
        steps.push(CommitPhaseMultiStep { sibling_values, opening_proof: SC::fri_paths(paths(), salts) });
    }
    steps.extend(of_tail);
    Ok((input_openings, steps))
}

/// The rows of a matrix that are read at its height, of which `rows_at` has those for each logarithm.
fn at_height<'a, F: Field>(matrix: &'a Matrix<F>, rows_at: &'a [Vec<u32>]) -> Rows<'a, F> {
    let (values, rows) = (matrix.values().view(), matrix.rows());
    Rows { values, rows, indices: &rows_at[rows.trailing_zeros() as usize] }
}

/// The salts of opened leaves by query, then by matrix.
fn opened_salts<'v, SC: DeviceConfig>(
    matrices: usize,
    queries: usize,
    gathered: &mut impl Iterator<Item = &'v [Base<SC>]>,
) -> Salts<SC> {
    let mut salts = with_room(queries, matrices);
    for values in gathered.take(matrices) {
        for (matrices, salt) in salts.iter_mut().zip(values.chunks_exact(SC::SALTS)) {
            matrices.push(SC::Value::from_device(salt).to_vec());
        }
    }
    salts
}

/// The opened rows by query, then by matrix. Each row was gathered batch by batch.
fn opened_rows<'v, SC: DeviceConfig>(
    ldes: &[Extended<'_, SC>],
    queries: usize,
    batches: &mut impl Iterator<Item = &'v [Base<SC>]>,
) -> Vec<Vec<Vec<SC::Value>>> {
    let mut opened: Vec<Vec<Vec<SC::Value>>> = with_room(queries, ldes.len());
    for lde in ldes {
        opened.iter_mut().for_each(|matrices| matrices.push(Vec::with_capacity(lde.columns())));
        let mut missing = lde.columns();
        while missing > 0 {
            let values = batches.next().expect("one gather per batch");
            let width = values.len() / queries;
            for (matrices, row) in opened.iter_mut().zip(values.chunks_exact(width)) {
                matrices.last_mut().expect("pushed above").extend_from_slice(SC::Value::from_device(row));
            }
            missing -= width;
        }
    }
    opened
}
