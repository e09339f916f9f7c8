//! Converts the command line's options to a statement of one of the provers.

use rigel_workloads::{Field, Fri, Hash};

use super::Arguments;
use crate::choice::{Choice, Prover};
use rigel_stwo_workloads::choice::{self as stwo, Channel};

/// Parameters of FRI and of the trees. An option that the prover does not have is an error.
#[derive(clap::Args)]
pub struct FriArguments {
    /// Extended columns are 2^N times as long as the trace [default: 1]
    #[arg(long, value_name = "N")]
    log_blowup: Option<usize>,
    /// Folding ends at a polynomial of 2^N coefficients [default: 0]
    #[arg(long, value_name = "N")]
    log_final_poly_len: Option<usize>,
    /// Number of queries [default: 100; with Stwo 64]
    #[arg(long, value_name = "N")]
    queries: Option<usize>,
    /// Proof of work before the queries, in bits [default: 16; with Stwo 10]
    #[arg(long, value_name = "BITS")]
    pow_bits: Option<usize>,
    /// Stwo: a fold reduces 2^N elements to one [default: 1]
    #[arg(long, value_name = "N")]
    fold_step: Option<usize>,
    /// Plonky3: a fold reduces at most 2^N elements to one [default: 3]
    #[arg(long, value_name = "N")]
    max_log_arity: Option<usize>,
    /// Plonky3: proof of work before openings are batched, in bits [default: 10]
    #[arg(long, value_name = "BITS")]
    batch_pow_bits: Option<usize>,
    /// Plonky3: proof of work before each fold, in bits [default: 0]
    #[arg(long, value_name = "BITS")]
    commit_pow_bits: Option<usize>,
    /// Plonky3: a commitment is the 2^N digests at depth N below a tree's root [default: 3]
    #[arg(long, value_name = "N")]
    cap_height: Option<usize>,
    /// Plonky3: the protocol that hides the trace (`HidingFriPcs` and hiding trees), with fixed seeds, for measurements
    #[arg(long)]
    zk: bool,
}

/// The requested statement, if the prover supports all options given.
pub fn choice(arguments: &Arguments) -> Result<Choice, String> {
    let prover = arguments.workload.prover(arguments.prover)?;
    refuse_foreign(arguments, prover)?;
    let size = |default: u32| arguments.log_rows.unwrap_or(default);
    if let (Prover::Plonky3, Some(workload)) = (prover, arguments.workload.of_plonky3()) {
        return Ok(Choice::Plonky3(rigel_workloads::Choice {
            workload,
            log_rows: size(workload.default_log_rows()),
            field: arguments.field.unwrap_or(Field::KoalaBear),
            hash: arguments.hash.unwrap_or(Hash::Keccak),
            fri: arguments.fri.of_plonky3(),
        }));
    }
    let workload = arguments.workload.of_stwo().ok_or("no prover has this workload")?;
    Ok(Choice::Stwo(stwo::Choice {
        workload,
        log_size: size(stwo::default_log_size(workload)),
        channel: arguments.channel.unwrap_or(Channel::Blake2s),
        fri: arguments.fri.of_stwo()?,
    }))
}

/// Rejects options of the other prover.
fn refuse_foreign(arguments: &Arguments, prover: Prover) -> Result<(), String> {
    let fri = &arguments.fri;
    let foreign = match prover {
        Prover::Plonky3 => vec![
            ("--channel", arguments.channel.is_some(), "--hash names the hash"),
            ("--fold-step", fri.fold_step.is_some(), "--max-log-arity bounds its folds"),
            ("--store-coefficients", arguments.store_coefficients, "Plonky3's prover does not store coefficients"),
        ],
        Prover::Stwo => vec![
            ("--field", arguments.field.is_some(), "its field is Mersenne31"),
            ("--hash", arguments.hash.is_some(), "--channel names the hash: blake2s or blake2s-m31"),
            ("--max-log-arity", fri.max_log_arity.is_some(), "--fold-step sets its fold size"),
            ("--batch-pow-bits", fri.batch_pow_bits.is_some(), "its proof of work is --pow-bits"),
            ("--commit-pow-bits", fri.commit_pow_bits.is_some(), "its proof of work is --pow-bits"),
            ("--cap-height", fri.cap_height.is_some(), "its commitments are roots"),
            ("--zk", fri.zk, "its proofs do not hide the trace"),
        ],
    };
    match foreign.into_iter().find(|(_, given, _)| *given) {
        None => Ok(()),
        Some((option, _, instead)) => {
            let (name, other) = match prover {
                Prover::Plonky3 => (prover.title(), Prover::Stwo.title()),
                Prover::Stwo => (prover.title(), Prover::Plonky3.title()),
            };
            Err(format!("{option} is for {other}, and this is a proof with {name}: {instead}"))
        }
    }
}

impl FriArguments {
    fn of_plonky3(&self) -> Fri {
        let usual = Fri::default();
        Fri {
            log_blowup: self.log_blowup.unwrap_or(usual.log_blowup),
            log_final_poly_len: self.log_final_poly_len.unwrap_or(usual.log_final_poly_len),
            max_log_arity: self.max_log_arity.unwrap_or(usual.max_log_arity),
            queries: self.queries.unwrap_or(usual.queries),
            pow_bits: self.pow_bits.unwrap_or(usual.pow_bits),
            batch_pow_bits: self.batch_pow_bits.unwrap_or(usual.batch_pow_bits),
            commit_pow_bits: self.commit_pow_bits.unwrap_or(usual.commit_pow_bits),
            cap_height: self.cap_height.unwrap_or(usual.cap_height),
            zk: self.zk,
        }
    }

    fn of_stwo(&self) -> Result<stwo::Fri, String> {
        let usual = stwo::Fri::default();
        let number = |name: &str, given: Option<usize>, usual: u32| match given {
            None => Ok(usual),
            Some(number) => u32::try_from(number).map_err(|_| format!("{name} is {number}, which is too large")),
        };
        Ok(stwo::Fri {
            log_blowup: number("--log-blowup", self.log_blowup, usual.log_blowup)?,
            log_last_layer: number("--log-final-poly-len", self.log_final_poly_len, usual.log_last_layer)?,
            queries: self.queries.unwrap_or(usual.queries),
            fold_step: number("--fold-step", self.fold_step, usual.fold_step)?,
            pow_bits: number("--pow-bits", self.pow_bits, usual.pow_bits)?,
        })
    }
}
