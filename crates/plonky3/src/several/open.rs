//! Openings over several devices: each adds up its rows' part of some columns' values, and reduces its rows.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use p3_commit::OpenedValues;
use p3_field::PrimeCharacteristicRing;
use p3_fri::{PcsProverTranscript, PcsShape};
use rigel_kernels::domain::block::Block;

use super::commit::Shares;
use super::fri::{self, Column};
use super::team::Team;
use crate::base::error::Result;
use crate::phases::gathered::with_room;
use crate::phases::open::{self, Claimed, ColumnValues, Domain, Evaluated, Share};
use crate::prover::session::Session;
use crate::upstream::challenger::Searching;
use crate::upstream::config::DeviceConfig;
use crate::upstream::transcript::Unfinished;

/// A commitment and, for each of its matrices, the points at which its columns are opened.
pub(crate) struct SplitRound<'a, SC: DeviceConfig> {
    pub(crate) shares: &'a Shares<SC>,
    pub(crate) points: Vec<Vec<SC::Challenge>>,
}

/// The matrices of one height, in the order of their commitments. A block's points are not those of a block of another
/// height, so each height is opened on its own.
struct Height<'a, SC: DeviceConfig> {
    log_rows: u32,
    /// The commitment and the index there of each matrix.
    places: Vec<(usize, usize)>,
    /// The blocks of each device and the points at which they are opened. The first device alone, if it has all
    /// rows.
    by_device: Vec<(Vec<Claimed<'a, SC>>, Domain<SC>)>,
}

impl<'a, SC: DeviceConfig> Height<'a, SC> {
    fn new(team: &Team<'_, SC>, rounds: &'a [SplitRound<'_, SC>], log_rows: u32) -> Result<Self> {
        let matrices = rounds.iter().enumerate().flat_map(|(round, SplitRound { shares, .. })| {
            (0..shares.len())
                .filter(move |&index| shares.log_rows(index) == log_rows)
                .map(move |index| (round, index))
        });
        let places: Vec<(usize, usize)> = matrices.collect();
        let blocks = |(round, index): (usize, usize)| rounds[round].shares.blocks(index);
        let by_device = team.among(blocks(places[0]).len(), |(k, session)| {
            let block = |&(round, index): &(usize, usize)| Claimed {
                lde: &blocks((round, index))[k],
                points: &rounds[round].points[index],
            };
            let claimed: Vec<Claimed<'_, SC>> = places.iter().map(block).collect();
            let domain = Domain::new(session, &claimed, k)?;
            Ok((claimed, domain))
        })?;
        Ok(Self { log_rows, places, by_device })
    }

    /// The columns and the coset of rows that device k evaluates: n of the rows determine a polynomial, whichever
    /// coset of n points they are, so each coset's devices evaluate another share of the columns.
    fn share(&self, team: &Team<'_, SC>, k: usize) -> (Share, Block) {
        let (devices, log_blowup) = (self.by_device.len(), team.first().log_blowup());
        let cosets = devices.min(1 << log_blowup);
        let index = k * cosets / devices;
        let coset = Block { index: (index << log_blowup) / cosets, log_rows: self.log_rows - log_blowup };
        (Share { index, of: cosets }, coset)
    }

    /// The sums that make the opened values, by device.
    fn sums(&self, team: &Team<'_, SC>) -> Result<Vec<Evaluated<SC>>> {
        team.among(self.by_device.len(), |(k, session)| {
            let ((claimed, domain), (share, coset)) = (&self.by_device[k], self.share(team, k));
            open::sums(session, claimed, domain, |_| coset, share)
        })
    }

    /// The opened values of each matrix, from the sums of the devices. Waits for them.
    fn values(&self, team: &Team<'_, SC>, sums: Vec<Evaluated<SC>>) -> Result<Vec<ColumnValues<SC>>> {
        let empty = |claimed: &Claimed<'_, SC>| with_room(claimed.points.len(), claimed.lde.columns());
        let mut values: Vec<ColumnValues<SC>> = self.by_device[0].0.iter().map(empty).collect();
        for (k, sums) in sums.into_iter().enumerate() {
            let (claimed, (share, _)) = (&self.by_device[k].0, self.share(team, k));
            let parts = sums.wait(claimed)?;
            for ((totals, parts), claimed) in values.iter_mut().zip(parts).zip(claimed) {
                let start = share.columns(claimed.lde.columns()).start;
                for (total, part) in totals.iter_mut().zip(parts) {
                    // The first device of a coset begins the values of its columns, and the others add to them.
                    match total.len() == start {
                        true => total.extend(part),
                        false => total[start..].iter_mut().zip(part).for_each(|(total, value)| *total += value),
                    }
                }
            }
        }
        Ok(values)
    }

    /// The column that is folded: see [`open::reduce`].
    fn reduce(
        &self,
        team: &Team<'_, SC>,
        values: &OpenedValues<SC::Challenge>,
        alpha: SC::Challenge,
    ) -> Result<Column<SC>> {
        let values: Vec<&ColumnValues<SC>> =
            self.places.iter().map(|&(round, index)| &values[round][index]).collect();
        let of_device = |(k, session): (usize, &Session<'_, SC>)| {
            let (claimed, domain) = &self.by_device[k];
            let mut by_height = open::reduce(session, claimed, domain, &values, alpha)?;
            Ok(by_height.pop().expect("all matrices have the same height"))
        };
        team.among(self.by_device.len(), of_device)
    }
}

/// Opens all commitments. See [`open::open`].
pub(crate) fn open<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    rounds: &[SplitRound<'_, SC>],
    challenger: &mut Searching<'_, SC::Challenger>,
) -> Result<(OpenedValues<SC::Challenge>, SC::OpeningProof)> {
    let fri = &team.first().prover.fri;
    let log_rows = |round: &SplitRound<'_, SC>| -> Vec<u32> {
        (0..round.shares.len()).map(|index| round.shares.log_rows(index)).collect()
    };
    open::check_final_height(fri, rounds.iter().flat_map(log_rows).map(|log_rows| log_rows as usize))?;
    let tallest_first: BTreeSet<Reverse<u32>> = rounds.iter().flat_map(log_rows).map(Reverse).collect();
    let heights = tallest_first.into_iter().map(|Reverse(log_rows)| Height::new(team, rounds, log_rows));
    let heights = heights.collect::<Result<Vec<_>>>()?;

    let values = evaluate(team, rounds, &heights)?;
    let shape = PcsShape::from_opened_values(fri, &values);
    let mut transcript =
        Unfinished::new(PcsProverTranscript::<_, SC::Value, SC::Challenge>::new(challenger, shape));
    transcript.claimed_openings(&values);
    let (alpha, batch_witness) = transcript.batch_phase();
    let reduced = heights.iter().map(|height| height.reduce(team, &values, alpha)).collect::<Result<Vec<_>>>()?;
    drop(heights);
    let batch_witness = batch_witness.unwrap_or(SC::Value::ZERO);
    let proof = transcript.delegate(|challenger| fri::prove(team, rounds, reduced, batch_witness, challenger))?;
    transcript.into_inner().finish();
    Ok((values, SC::opening_proof(proof, Vec::new())))
}

/// The values of all columns at their points.
fn evaluate<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    rounds: &[SplitRound<'_, SC>],
    heights: &[Height<'_, SC>],
) -> Result<OpenedValues<SC::Challenge>> {
    let sums =
        team.phase("open", || heights.iter().map(|height| height.sums(team)).collect::<Result<Vec<_>>>())?;
    let mut values: OpenedValues<SC::Challenge> =
        rounds.iter().map(|round| vec![Vec::new(); round.points.len()]).collect();
    for (height, sums) in heights.iter().zip(sums) {
        for (&(round, index), found) in height.places.iter().zip(height.values(team, sums)?) {
            values[round][index] = found;
        }
    }
    Ok(values)
}
