//! One table over several devices.

use p3_air::symbolic::AirLayout;
use p3_commit::PolynomialSpace;
use p3_field::PrimeCharacteristicRing;
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_uni_stark::{Commitments, Proof, StarkProverTranscript, StarkShape};

use crate::air::constraints::Constraints;
use crate::air::provable::CpuAir;
use crate::air::readings::{Kind, Readings};
use crate::base::error::Result;
use crate::base::report::Proven;
use crate::columns::trace::Trace;
use crate::door::openings::opened_values;
use crate::keys::check;
use crate::keys::preprocessed::Preprocessed;
use crate::memory::over;
use crate::memory::plan::TableSize;
use crate::prover::Prover;
use crate::several::commit::{self, Shares};
use crate::several::open::{SplitRound, open};
use crate::several::quotient::{self, check_domain};
use crate::several::team::{Team, check_rows};
use crate::upstream::challenger::Searching;
use crate::upstream::config::DeviceConfig;
use crate::upstream::transcript::Unfinished;

/// The protocol of [`prove`](crate::prove), shared out.
pub(crate) fn prove<SC, A>(
    prover: &Prover<SC>,
    air: &A,
    trace: &Trace<'_, SC::Value>,
    public_values: &[SC::Value],
    preprocessed: Option<&Preprocessed<SC>>,
) -> Result<Proven<Proof<SC>>>
where
    SC: DeviceConfig,
    A: CpuAir<SC>,
{
    let config = prover.config();
    let rows = trace.height();
    let log_rows = rows.trailing_zeros() as usize;
    check_rows(prover, rows)?;
    let team = Team::new(prover)?;
    let preprocessed_width = preprocessed.map_or(0, |pre| pre.verifier_key().width);
    let preprocessed_shares = preprocessed.and_then(|pre| pre.shares.as_ref());
    let layout = AirLayout {
        preprocessed_width,
        main_width: air.width(),
        num_public_values: air.num_public_values(),
        num_periodic_columns: air.num_periodic_columns(),
        ..Default::default()
    };
    let readings = &prover.readings;
    let kind = Kind::new(air, &layout, rows, None);
    let constraints =
        readings.of(&kind, Readings::<SC>::structure(air, &layout), || Constraints::of_air(air, layout, rows));
    check::degree::<SC>(0, log_rows, constraints.log_chunks)?;
    check_domain(prover, 0, log_rows, constraints.log_chunks)?;
    let size =
        TableSize { log_rows, width: air.width(), preprocessed: preprocessed_width, ..TableSize::default() };
    over::check(prover, &[(size, &constraints)])?;

    let chunks = 1 << constraints.log_chunks;
    let shape = StarkShape::new(
        air,
        preprocessed_width,
        log_rows,
        log_rows,
        chunks,
        false,
        config.ood_proof_of_work_bits(),
    );
    let mut challenger =
        Searching::new(config.initialise_challenger(), &team.first().stream, &prover.search_constants);
    let mut transcript =
        Unfinished::new(StarkProverTranscript::<_, SC::Value, SC::Challenge>::new(&mut challenger, shape));

    let main = commit::trace(&team, trace)?;
    let preprocessed_cap = preprocessed.map(|pre| pre.verifier_key().commitment.clone());
    let alpha = transcript.constraint_phase(main.cap.clone(), preprocessed_cap, public_values);

    let table = quotient::SplitTable {
        log_rows: log_rows as u32,
        constraints: &constraints,
        main: main.blocks(0),
        preprocessed: preprocessed_shares.map(|shares| shares.blocks(0)),
        permutation: None,
        periodic: &air.periodic_columns(),
        publics: public_values,
        extension: &[],
    };
    let quotient = Shares::new(&team, quotient::chunks(&team, &table, alpha)?)?;
    Constraints::free_symbols(std::slice::from_ref(&constraints));
    let (zeta, ood_witness) = transcript.ood_phase(quotient.cap.clone(), None);

    let domain = TwoAdicMultiplicativeCoset::new(SC::Value::ONE, log_rows).expect("checked");
    let next = domain.next_point(zeta).expect("a two-adic domain has a next point");
    let points = |reads_next: bool| if reads_next { vec![zeta, next] } else { vec![zeta] };
    let main_next = !air.main_next_row_columns().is_empty();
    let preprocessed_next = !air.preprocessed_next_row_columns().is_empty();
    let mut rounds = vec![
        SplitRound { shares: &main, points: vec![points(main_next)] },
        SplitRound { shares: &quotient, points: vec![points(false); chunks] },
    ];
    rounds
        .extend(preprocessed_shares.map(|shares| SplitRound { shares, points: vec![points(preprocessed_next)] }));
    let (values, opening_proof) = transcript.delegate(|challenger| open(&team, &rounds, challenger))?;
    transcript.into_inner().finish();
    let searched = challenger.finish()?;

    drop(rounds);
    let proof = Proof {
        commitments: Commitments { trace: main.cap.clone(), quotient_chunks: quotient.cap.clone(), random: None },
        opened_values: opened_values(values, false, preprocessed_shares.is_some()),
        opening_proof,
        degree_bits: log_rows,
        ood_pow_witness: ood_witness.unwrap_or(SC::Value::ZERO),
    };
    drop((main, quotient));
    Ok(Proven { proof, report: team.finish(searched)? })
}
