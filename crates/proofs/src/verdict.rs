//! Whether upstream's verifier accepts a proof, and how secure its parameters are.
//!
//! A file states how large its statement is, and verifying takes memory for that. Whoever made the file chose it, so
//! the memory has a limit, which is compared before anything is computed.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rigel_gpu::Bytes;
use rigel_statements::panics::{message, quietly};
use rigel_statements::{Rejection, Security};
use serde::Serialize;

use crate::choice::Choice;
use crate::proof_file::Header;

/// Bits of security.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bits {
    /// Conjectured by upstream.
    pub conjectured: usize,
    /// `None` where upstream has no analysis.
    pub proven: Option<usize>,
}

impl Bits {
    /// The security by upstream's analysis of the whole proof where it has one, else by its conjecture about
    /// queries.
    pub fn of(choice: &Choice) -> Self {
        // A header may hold anything, and upstream's analysis asserts what it expects.
        let analysis = || choice.security();
        match quietly(|_| true, || catch_unwind(AssertUnwindSafe(analysis))) {
            Ok(Some(Security { proven, conjectured })) => Self { conjectured, proven: Some(proven) },
            Ok(None) => Self { conjectured: choice.query_bits(), proven: None },
            // Parameters that it does not expect promise nothing.
            Err(_) => Self { conjectured: 0, proven: Some(0) },
        }
    }
}

/// The memory that reading and verifying a file takes at most, in bytes, unless the caller chooses another limit. A few
/// MiB come on top of it: upstream reads the constraints.
pub const MEMORY: usize = 64 << 20;

/// A proof takes at most so many times its bytes in memory, besides them: narrow tables have many small vectors, and
/// [`bounded`](rigel_statements::bounded) counts each with room for twice its elements.
const READ: usize = 4;

/// The memory that verifying a proof of so many bytes takes, in bytes.
pub fn memory_of(choice: &Choice, proof_bytes: usize) -> usize {
    choice.verification_bytes().saturating_add(proof_bytes.saturating_mul(1 + READ))
}

/// A limit of memory that allows so many bytes, as `--memory-limit` takes it: `93MiB`.
pub fn limit_for(bytes: usize) -> String {
    format!("{}MiB", bytes.div_ceil(1 << 20))
}

/// The reason why a proof is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unverified {
    /// The bytes are not a proof of the statement, for this reason.
    Rejected(String),
    /// This build cannot verify proofs of such statements, for this reason.
    NotBuilt(String),
    /// Upstream's verifier panicked with this message, which it does on some malformed proofs.
    Panicked(String),
    /// Verification takes more memory than the limit.
    #[non_exhaustive]
    Memory {
        /// The bytes that are needed, if they are known: for the statement, and for a proof of this length. A proof
        /// that takes more is counted until it is too much.
        needed: Option<usize>,
        /// The limit, in bytes.
        limit: usize,
    },
}

impl fmt::Display for Unverified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(reason) | Self::NotBuilt(reason) => f.write_str(reason),
            Self::Panicked(message) => {
                write!(f, "the proof is malformed: upstream's verifier gave up ({message})")
            }
            Self::Memory { needed: Some(needed), limit } => {
                let (needed, limit) = (limit_for(*needed), Bytes(*limit));
                write!(f, "verifying a proof of this size takes {needed} of memory, the limit is {limit}")
            }
            Self::Memory { needed: None, limit } => {
                write!(f, "the proof takes more memory than the limit of {}", Bytes(*limit))
            }
        }
    }
}

impl std::error::Error for Unverified {}

/// Verifies a proof within `memory` bytes; [`MEMORY`] is the usual limit. If the verifier panics on its input, the
/// proof is rejected.
pub fn verify(header: &Header, proof: &[u8], memory: usize) -> Result<(), Unverified> {
    quietly(|_| true, || judged(header, proof, memory))
}

/// [`verify`], where the caller keeps panics from being printed.
pub fn judged(header: &Header, proof: &[u8], memory: usize) -> Result<(), Unverified> {
    header.choice.built().map_err(Unverified::NotBuilt)?;
    let needed = memory_of(&header.choice, proof.len());
    if needed > memory {
        return Err(Unverified::Memory { needed: Some(needed), limit: memory });
    }
    // What the proof takes beyond its bytes is counted exactly.
    let left = memory - memory_of(&header.choice, 0) - proof.len();
    let judge = || {
        let statement = header.choice.statement().map_err(Rejection::Malformed)?;
        statement.verify(proof, &header.public_values, left)
    };
    match catch_unwind(AssertUnwindSafe(judge)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Rejection::Memory(_))) => Err(Unverified::Memory { needed: None, limit: memory }),
        Ok(Err(rejection)) => Err(Unverified::Rejected(rejection.to_string())),
        Err(panic) => Err(Unverified::Panicked(message(&*panic).unwrap_or("no reason given").into())),
    }
}

#[cfg(test)]
mod tests {
    use crate::stwo;
    use rigel_statements::bounded::{Bounds, Unreadable, from_bytes};
    use rigel_workloads::{Choice as Plonky3Choice, Field, Fri, Hash, Workload};

    use super::*;

    #[test]
    #[cfg(feature = "stwo")]
    fn a_large_statement_is_refused_before_anything_is_computed() {
        let plonk = |log_size, log_blowup| {
            let fri = stwo::Fri { log_blowup, ..stwo::Fri::default() };
            let (workload, channel) = (stwo::Workload::Plonk, stwo::Channel::Blake2s);
            Choice::Stwo(stwo::Choice { workload, log_size, channel, fri })
        };
        let lookups = |log_rows| {
            let fri = Fri { log_blowup: 8, ..Fri::default() };
            let (workload, field, hash) = (Workload::Lookups, Field::KoalaBear, Hash::Keccak);
            Choice::Plonky3(Plonky3Choice { workload, log_rows, field, hash, fri })
        };
        for large in [plonk(24, 1), plonk(26, 1), lookups(26)] {
            let header = Header::new(large, vec![vec![0; 3]]);
            let refused = judged(&header, b"", MEMORY);
            assert!(matches!(refused, Err(Unverified::Memory { needed: Some(_), limit: MEMORY })), "{refused:?}");
            assert!(large.verification_bytes() > 1 << 30, "{}", large.verification_bytes());
            assert_eq!(Bits::of(&large).proven, None, "which makes no statement");
        }
        assert!(matches!(judged(&Header::new(plonk(8, 1), vec![]), b"", MEMORY), Err(Unverified::Rejected(_))));
    }

    #[test]
    fn a_proof_that_the_build_cannot_verify_is_not_rejected() {
        let (workload, channel, fri) = (stwo::Workload::Plonk, stwo::Channel::Blake2s, stwo::Fri::default());
        let header = Header::new(Choice::Stwo(stwo::Choice { workload, log_size: 6, channel, fri }), vec![]);
        let verdict = judged(&header, b"", MEMORY);
        if cfg!(feature = "stwo") {
            assert!(matches!(verdict, Err(Unverified::Rejected(_))), "{verdict:?}");
        } else {
            let Err(Unverified::NotBuilt(reason)) = verdict else { panic!("{verdict:?}") };
            assert!(reason.contains("--features stwo"), "{reason}");
        }
    }

    /// The sizes from which on the usual limit is too low are those in `docs/command-line.md`.
    #[test]
    fn the_sizes_from_which_on_the_usual_limit_is_too_low() {
        let stwo = |workload| {
            move |log_size| {
                let (channel, fri) = (stwo::Channel::Blake2s, stwo::Fri::default());
                Choice::Stwo(stwo::Choice { workload, log_size, channel, fri })
            }
        };
        let lookups = |field| {
            move |log_rows| {
                let (workload, hash, fri) = (Workload::Lookups, Hash::Keccak, Fri::default());
                Choice::Plonky3(Plonky3Choice { workload, log_rows, field, hash, fri })
            }
        };
        fn least(choice: impl Fn(u32) -> Choice) -> Option<u32> {
            (6..=26).find(|&log_size| choice(log_size).verification_bytes() > MEMORY)
        }
        use crate::stwo::Workload as Stwo;
        assert_eq!(
            [Stwo::Plonk, Stwo::Xor, Stwo::Blake2s].map(|workload| least(stwo(workload))),
            [18, 19, 19].map(Some)
        );
        for workload in [Stwo::WideFibonacci, Stwo::Poseidon2, Stwo::StateMachine] {
            assert_eq!(least(stwo(workload)), None, "{workload}");
        }
        assert_eq!([Field::KoalaBear, Field::Goldilocks].map(|field| least(lookups(field))), [21, 20].map(Some));
        assert_eq!(limit_for((1 << 20) + 1), "2MiB");
    }

    #[test]
    fn the_memory_of_a_proof_is_counted_before_it_is_taken() {
        let read = |bytes: &[u8], memory| from_bytes::<Vec<Vec<u32>>>(bytes, Bounds { memory, largest: u32::MAX });
        // A vector of 2^20 vectors, each of which is a byte.
        let empty = [&[0x80, 0x80, 0x40][..], &[0; 1 << 20]].concat();
        assert_eq!(read(&empty, 1 << 24), Err(Unreadable::Memory(1 << 24)));
        assert_eq!(read(&empty, 48 << 20).map(|vectors| vectors.len()), Ok(1 << 20));
        // Promises that are not kept.
        assert!(matches!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f], 100), Err(Unreadable::Malformed(_))));
        assert_eq!(read(&[2, 1, 5, 0], 104), Ok(vec![vec![5], vec![]]));
        let longer = "its encoding is not the shortest".to_string();
        assert_eq!(read(&[1, 1, 0x85, 0], 100), Err(Unreadable::Malformed(longer)));
    }
}
