//! Several tables in one proof over several devices.
//!
//! Every commitment is over matrices of different heights. Tables that are too short for a row on each device are on
//! the first one (see [`devices_of`](crate::several::extend::devices_of)), where the functions of a proof on one
//! device do their work.

use std::sync::Arc;

use p3_air::symbolic::SymbolicExpressionExt;
use p3_batch_stark::proof::BatchCommitments;
use p3_batch_stark::{BatchProof, BatchProverTranscript};
use p3_commit::PolynomialSpace;
use p3_field::Algebra;
use p3_lookup::{LogUpGadget, Lookup, LookupTerminal};
use p3_uni_stark::StarkGenericConfig;

use crate::air::constraints::Constraints;
use crate::air::provable::CpuBatchAir;
use crate::base::error::Result;
use crate::base::report::Proven;
use crate::columns::trace::Trace;
use crate::door::instance::Instance;
use crate::door::openings::Openings;
use crate::door::tables::{kinds, read_constraints, shape};
use crate::keys::batch_key::{BatchKey, trace_domain};
use crate::keys::check;
use crate::memory::over;
use crate::memory::plan::TableSize;
use crate::prover::Prover;
use crate::several::commit::{Shares, rows_in_blocks, traces};
use crate::several::lookup::{Pending, SplitInputs};
use crate::several::open::{SplitRound, open};
use crate::several::quotient::{self, SplitTable, check_domain};
use crate::several::rows::RowBlocks;
use crate::several::team::{Team, check_rows};
use crate::upstream::challenger::Searching;
use crate::upstream::config::DeviceConfig;
use crate::upstream::transcript::Unfinished;

/// The protocol of [`prove_batch`](crate::prove_batch), shared out.
pub(crate) fn prove_batch<SC, A>(
    prover: &Prover<SC>,
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
) -> Result<Proven<BatchProof<SC>>>
where
    SC: DeviceConfig,
    A: CpuBatchAir<SC>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    let tallest = instances.iter().map(|instance| instance.trace.height()).max().unwrap_or(0);
    check_rows(prover, tallest)?;
    let team = Team::new(prover)?;
    let tables = 0..instances.len();
    let preprocessed = key.shares.as_ref();
    let publics: Vec<&[SC::Value]> = instances.iter().map(|instance| instance.public_values.as_slice()).collect();
    let constraints = read_constraints(&prover.readings, None, instances, key, &kinds(instances, key));
    for (table, constraints) in constraints.iter().enumerate() {
        check::degree::<SC>(table, key.log_rows[table], constraints.log_chunks)?;
        check_domain(prover, table, key.log_rows[table], constraints.log_chunks)?;
    }

    let size = |table: usize| (TableSize::of(key, table, instances[table].trace.width()), &*constraints[table]);
    over::check(prover, &tables.clone().map(size).collect::<Vec<_>>())?;

    let all_traces: Vec<&Trace<'_, SC::Value>> = instances.iter().map(|instance| &instance.trace).collect();
    let (main, rows) = traces(&team, &all_traces, |table| !key.lookups(table).is_empty())?;
    let mut challenger =
        Searching::new(prover.config().initialise_challenger(), &team.first().stream, &prover.search_constants);
    let mut transcript =
        Unfinished::new(BatchProverTranscript::<_, SC::Value, SC::Challenge, SC::Commitment>::new(
            &mut challenger,
            shape(prover, instances, key),
        ));
    transcript.instance_bindings(&key.log_rows);
    transcript.main_phase(main.cap.clone(), &publics);
    transcript.preprocessed_phase(key.data.common.preprocessed.as_ref().map(|global| global.commitment.clone()));
    let all_lookups: Vec<&[Lookup<SC::Value>]> = tables.clone().map(|table| key.lookups(table)).collect();
    let (challenges, lookup_pow_witness) = transcript.lookup_phase(&all_lookups, &LogUpGadget::new());

    let (permutation, terminals) = commit_lookups(&team, key, &constraints, &rows, &publics, &challenges)?;
    drop(rows);
    let permutation_cap = permutation.as_ref().map(|shares| shares.cap.clone());
    let committed_terminals: Vec<SC::Challenge> = terminals.iter().flatten().copied().collect();
    let alpha = transcript.permutation_phase(permutation_cap.clone(), &committed_terminals);

    let (mut chunks, mut chunk_counts) = (Vec::new(), Vec::with_capacity(instances.len()));
    let mut permutations =
        permutation.iter().flat_map(|shares| (0..shares.len()).map(|index| shares.blocks(index)));
    for (table, instance) in instances.iter().enumerate() {
        let extension: Vec<SC::Challenge> =
            terminals[table].into_iter().chain(challenges[table].iter().copied()).collect();
        let split = SplitTable {
            log_rows: key.log_rows[table] as u32,
            constraints: &constraints[table],
            main: main.blocks(table),
            preprocessed: preprocessed
                .zip(key.preprocessed_of(table))
                .map(|(tables, meta)| tables.shares.blocks(meta.matrix_index)),
            permutation: if key.lookups(table).is_empty() { None } else { permutations.next() },
            periodic: &instance.air.periodic_columns(),
            publics: publics[table],
            extension: &extension,
        };
        let of_table = quotient::chunks(&team, &split, alpha)?;
        chunk_counts.push(of_table.len());
        chunks.extend(of_table);
    }
    let quotient = Shares::new(&team, chunks)?;
    Constraints::free_symbols(&constraints);
    drop(constraints);
    transcript.quotient_phase(quotient.cap.clone(), None);
    let (zeta, ood_pow_witness) = transcript.ood_phase();

    let points = |table: usize, reads_next: bool| {
        let next = || trace_domain::<SC>(key.log_rows[table]).next_point(zeta).expect("a two-adic domain has one");
        if reads_next { vec![zeta, next()] } else { vec![zeta] }
    };
    let main_next = |table: usize| !instances[table].air.main_next_row_columns().is_empty();
    let preprocessed_next = |table: usize| !instances[table].air.preprocessed_next_row_columns().is_empty();
    let main_points = tables.clone().map(|table| points(table, main_next(table))).collect();
    let mut rounds = vec![
        SplitRound { shares: &main, points: main_points },
        SplitRound { shares: &quotient, points: vec![vec![zeta]; quotient.len()] },
    ];
    if let Some((tables, global)) = preprocessed.zip(key.data.common.preprocessed.as_ref()) {
        let of_matrix = |&table: &usize| points(table, preprocessed_next(table));
        let points = global.matrix_to_instance.iter().map(of_matrix).collect();
        rounds.push(SplitRound { shares: &tables.shares, points });
    }
    if let Some(shares) = &permutation {
        let with_lookups = tables.clone().filter(|&table| !key.lookups(table).is_empty());
        rounds.push(SplitRound { shares, points: with_lookups.map(|table| points(table, true)).collect() });
    }
    let (values, opening_proof) = transcript.delegate(|challenger| open(&team, &rounds, challenger))?;
    transcript.into_inner().finish();
    let searched = challenger.finish()?;
    drop(rounds);

    let opened = Openings {
        values,
        chunk_counts,
        key,
        main_next: tables.clone().map(main_next).collect(),
        preprocessed_next: tables.map(preprocessed_next).collect(),
    };
    let proof = BatchProof {
        commitments: BatchCommitments {
            main: main.cap.clone(),
            permutation: permutation_cap,
            quotient_chunks: quotient.cap.clone(),
            random: None,
        },
        opened_values: opened.by_table(),
        opening_proof,
        lookup_terminals: terminals.into_iter().map(|terminal| terminal.map(LookupTerminal)).collect(),
        degree_bits: key.log_rows.clone(),
        lookup_pow_witness,
        ood_pow_witness,
    };
    drop((main, quotient, permutation));
    Ok(Proven { proof, report: team.finish(searched)? })
}

type CommittedLookups<SC> = (Option<Shares<SC>>, Vec<Option<<SC as StarkGenericConfig>::Challenge>>);

/// The columns of all lookups, their commitment, and the terminal of each table with lookups. Waits for the devices.
fn commit_lookups<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    key: &BatchKey<SC>,
    constraints: &[Arc<Constraints<SC>>],
    rows: &[Option<RowBlocks<SC>>],
    publics: &[&[SC::Value]],
    challenges: &[Vec<SC::Challenge>],
) -> Result<CommittedLookups<SC>> {
    let mut pending = Vec::new();
    for (table, constraints) in constraints.iter().enumerate() {
        let Some(fractions) = &constraints.fractions else { continue };
        let preprocessed = key.shares.as_ref().zip(key.preprocessed_of(table));
        let inputs = SplitInputs {
            main: rows[table].as_ref().expect("kept for lookups"),
            preprocessed: preprocessed.and_then(|(tables, meta)| tables.rows[meta.matrix_index].as_ref()),
            publics: publics[table],
            challenges: &challenges[table],
        };
        pending.push((table, Pending::new(team, fractions, &inputs)?));
    }
    let (mut columns, mut terminals) = (Vec::with_capacity(pending.len()), vec![None; rows.len()]);
    for (table, pending) in pending {
        let (made, terminal) = team.phase("lookups", || pending.finish(team))?;
        columns.push(made);
        terminals[table] = Some(terminal);
    }
    if columns.is_empty() {
        return Ok((None, terminals));
    }
    Ok((Some(rows_in_blocks(team, &columns)?), terminals))
}
