//! Openings over several devices: each adds up its rows' part of the values, and reduces its rows.

use p3_commit::OpenedValues;
use p3_field::PrimeCharacteristicRing;
use p3_fri::{PcsProverTranscript, PcsShape};
use rigel_kernels::Matrix;

use super::commit::Shares;
use super::{Team, fri};
use crate::challenger::Searching;
use crate::config::{Base, DeviceConfig};
use crate::error::Result;
use crate::open::{self, Domain, Round};
use crate::transcript::Unfinished;

/// A commitment and, for each of its matrices, the points at which its columns are opened.
pub(super) struct SplitRound<'a, SC: DeviceConfig> {
    pub(super) shares: &'a Shares<SC>,
    pub(super) points: Vec<Vec<SC::Challenge>>,
}

/// Opens all commitments, whose matrices are all of one height. See [`open::open`].
pub(super) fn open<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    rounds: &[SplitRound<'_, SC>],
    challenger: &mut Searching<'_, SC::Challenger>,
) -> Result<(OpenedValues<SC::Challenge>, SC::OpeningProof)> {
    let fri = &team.first().prover.fri;
    open::check_final_height(fri, [rounds[0].shares.log_rows() as usize])?;
    let of_device = |k: usize| -> Vec<Round<'_, SC>> {
        rounds.iter().map(|round| Round::public(&round.shares.committed[k], round.points.clone())).collect()
    };
    let by_device: Vec<Vec<Round<'_, SC>>> = (0..team.sessions.len()).map(of_device).collect();
    let domains = team.each(|(k, session)| Domain::new(session, &by_device[k], k))?;
    let values = evaluate(team, &by_device, &domains)?;
    let shape = PcsShape::from_opened_values(fri, &values);
    let mut transcript =
        Unfinished::new(PcsProverTranscript::<_, SC::Value, SC::Challenge>::new(challenger, shape));
    transcript.claimed_openings(&values);
    let (alpha, batch_witness) = transcript.batch_phase();
    let reduced: Vec<Matrix<Base<SC>>> = team.each(|(k, session)| {
        let mut by_height = open::reduce(session, &by_device[k], &domains[k], &values, alpha)?;
        Ok(by_height.pop().expect("all matrices have the same height"))
    })?;
    drop(domains);
    let batch_witness = batch_witness.unwrap_or(SC::Value::ZERO);
    let proof = transcript.delegate(|challenger| fri::prove(team, rounds, reduced, batch_witness, challenger))?;
    transcript.into_inner().finish();
    Ok((values, SC::opening_proof(proof, Vec::new())))
}

/// The values of all columns at their points: the sums of the devices that have any of the first n rows.
fn evaluate<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    rounds: &[Vec<Round<'_, SC>>],
    domains: &[Domain<SC>],
) -> Result<OpenedValues<SC::Challenge>> {
    let block_rows = rounds[0][0].committed.ldes[0].log_rows();
    let log_degree = block_rows + team.log_devices() - team.first().log_blowup();
    let devices = 1usize << log_degree.saturating_sub(block_rows);
    let sums = team.phase("open", || {
        let sums = |k: usize| open::sums(&team.sessions[k], &rounds[k], &domains[k], |_| log_degree);
        (0..devices).map(sums).collect::<Result<Vec<_>>>()
    })?;
    let mut values = open::values(team.first(), &rounds[0], &sums[0])?;
    for k in 1..devices {
        let part = open::values(&team.sessions[k], &rounds[k], &sums[k])?;
        let totals = values.iter_mut().flatten().flatten().flatten();
        totals.zip(part.into_iter().flatten().flatten().flatten()).for_each(|(total, value)| *total += value);
    }
    Ok(values)
}
