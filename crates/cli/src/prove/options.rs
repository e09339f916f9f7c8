//! Converts the command line's options to a statement of one of the provers.

use rigel_workloads::Fri;

use super::Arguments;
use crate::choice::{Choice, Prover};
use rigel_proofs::stwo;

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
    let mut choice = arguments.workload.usual(arguments.prover)?;
    refuse_foreign(arguments, choice.prover())?;
    match &mut choice {
        Choice::Plonky3(choice) => {
            set(&mut choice.log_rows, arguments.log_rows);
            set(&mut choice.field, arguments.field);
            set(&mut choice.hash, arguments.hash);
            arguments.fri.change_plonky3(&mut choice.fri);
        }
        Choice::Stwo(choice) => {
            set(&mut choice.log_size, arguments.log_rows);
            set(&mut choice.channel, arguments.channel);
            arguments.fri.change_stwo(&mut choice.fri)?;
        }
    }
    Ok(choice)
}

/// Replaces a default if an option is given.
fn set<T>(value: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *value = given;
    }
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
    fn change_plonky3(&self, fri: &mut Fri) {
        set(&mut fri.log_blowup, self.log_blowup);
        set(&mut fri.log_final_poly_len, self.log_final_poly_len);
        set(&mut fri.max_log_arity, self.max_log_arity);
        set(&mut fri.queries, self.queries);
        set(&mut fri.pow_bits, self.pow_bits);
        set(&mut fri.batch_pow_bits, self.batch_pow_bits);
        set(&mut fri.commit_pow_bits, self.commit_pow_bits);
        set(&mut fri.cap_height, self.cap_height);
        fri.zk = self.zk;
    }

    fn change_stwo(&self, fri: &mut stwo::Fri) -> Result<(), String> {
        let number = |name: &str, given: Option<usize>| {
            let number = given.map(u32::try_from).transpose();
            number.map_err(|_| format!("{name} is {}, which is too large", given.unwrap_or_default()))
        };
        set(&mut fri.log_blowup, number("--log-blowup", self.log_blowup)?);
        set(&mut fri.log_last_layer, number("--log-final-poly-len", self.log_final_poly_len)?);
        set(&mut fri.queries, self.queries);
        set(&mut fri.fold_step, number("--fold-step", self.fold_step)?);
        set(&mut fri.pow_bits, number("--pow-bits", self.pow_bits)?);
        Ok(())
    }
}
