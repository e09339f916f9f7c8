//! `rigel bench fuzz`: altered, cut, extended and foreign proof files. None may be accepted.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rigel_gpu::Bytes;
use rigel_plonky3::Policy;
use rigel_proofs::verdict::judged;
use rigel_stwo_workloads::choice as stwo;
use rigel_workloads::panics::quietly;
use rigel_workloads::{Choice as Plonky3Choice, Field, Fri, Hash, Workload};
use serde::Serialize;

use crate::Failure;
use crate::choice::Choice;
use crate::proof_file::{self, Header};
use crate::terminal::Progress;

#[derive(clap::Args)]
pub struct Arguments {
    /// How many files
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    files: u64,
    /// The seed of what is changed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Default, Serialize)]
struct Counts {
    files: AtomicU64,
    /// Rejected before the proof was looked at: by the checksum, a length, or the header.
    rejected_as_files: AtomicU64,
    /// Rejected by a deserializer or by upstream's verifier.
    rejected_as_proofs: AtomicU64,
    /// Those of them on which upstream's verifier panicked; the panic is caught.
    panics_of_upstream: AtomicU64,
    /// Accepted although something was changed.
    accepted: AtomicU64,
}

/// A right file, in parts.
struct Original {
    header: Header,
    proof: Vec<u8>,
    file: Vec<u8>,
}

/// Makes files and verifies them. Returns whether none was accepted.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let originals = originals()?;
    for Original { header, proof, .. } in &originals {
        judged(header, proof).map_err(|(reason, _)| format!("{} is not accepted: {reason}", header.choice))?;
    }
    let before = peak_memory();
    let counts = Counts::default();
    let progress = Progress::new();
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    quietly(
        |_| true,
        || {
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let (originals, counts, progress) = (&originals, &counts, &progress);
                    scope.spawn(move || {
                        for file in (thread..arguments.files).step_by(threads as usize) {
                            if file % 256 == 0 {
                                progress.part(file, arguments.files, "altered files …");
                            }
                            try_one(originals, arguments.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ file, counts);
                        }
                    });
                }
            });
        },
    );
    drop(progress);
    let grown = peak_memory().saturating_sub(before);
    let longest = originals.iter().map(|original| original.file.len()).max().unwrap_or(0);
    if json {
        println!("{}", serde_json::to_string_pretty(&counts)?);
    } else {
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        println!(
            "{} files: {} rejected as files, {} as proofs, {} accepted\n  {} panics of upstream's verifier, caught\n  \
             memory grew by {} at most, on {threads} threads; the longest file has {}",
            number(&counts.files),
            number(&counts.rejected_as_files),
            number(&counts.rejected_as_proofs),
            number(&counts.accepted),
            number(&counts.panics_of_upstream),
            Bytes(grown),
            Bytes(longest),
        );
    }
    Ok(counts.accepted.into_inner() == 0)
}

/// A few small proofs, made on the CPU.
fn originals() -> Result<Vec<Original>, Failure> {
    let fri = Fri { queries: 4, pow_bits: 2, batch_pow_bits: 1, ..Fri::default() };
    let plonky3 = |workload, log_rows| {
        Choice::Plonky3(Plonky3Choice { workload, log_rows, field: Field::KoalaBear, hash: Hash::Keccak, fri })
    };
    let stwo_fri = stwo::Fri { queries: 4, pow_bits: 2, ..stwo::Fri::default() };
    let choices = [
        plonky3(Workload::Fibonacci, 4),
        plonky3(Workload::Fibonacci, 5),
        plonky3(Workload::Lookups, 6),
        Choice::Stwo(stwo::Choice {
            workload: rigel_stwo_workloads::Workload::StateMachine,
            log_size: 5,
            channel: stwo::Channel::Blake2s,
            fri: stwo_fri,
        }),
    ];
    let make = |choice: Choice| {
        let mut statement = choice.statement()?;
        statement.generate();
        statement.prepare(None, Policy::default())?;
        let proof = statement.prove_upstream()?.proof;
        let header = Header::new(choice, statement.publics());
        let file = proof_file::encode(&header, &proof);
        Ok(Original { header, proof, file })
    };
    choices.into_iter().map(make).collect()
}

/// Changes a file and verifies it.
fn try_one(originals: &[Original], seed: u64, counts: &Counts) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let original = &originals[rng.random_range(0..originals.len())];
    let file = changed(&mut rng, originals, original);
    counts.files.fetch_add(1, Ordering::Relaxed);
    let counter = match proof_file::decode(&file) {
        Err(_) => &counts.rejected_as_files,
        Ok((header, proof)) => match judged(&header, proof) {
            Err((_, panicked)) => {
                if panicked {
                    counts.panics_of_upstream.fetch_add(1, Ordering::Relaxed);
                }
                &counts.rejected_as_proofs
            }
            // What does not belong to the statement may change: the version that wrote the file.
            Ok(()) if is_one_of(originals, &header, proof) => &counts.rejected_as_files,
            Ok(()) => {
                eprintln!("accepted: a changed proof of {}, seed {seed}", header.choice);
                &counts.accepted
            }
        },
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Whether the statement and the proof are unchanged.
fn is_one_of(originals: &[Original], header: &Header, proof: &[u8]) -> bool {
    originals.iter().any(|original| {
        original.proof == proof
            && original.header.choice == header.choice
            && original.header.public_values == header.public_values
    })
}

fn changed(rng: &mut SmallRng, originals: &[Original], original: &Original) -> Vec<u8> {
    let Original { header, proof, file } = original;
    let other = &originals[rng.random_range(0..originals.len())];
    match rng.random_range(0..10) {
        // The file, whose checksum then does not match.
        0 => alter(rng, file),
        1 => file[..rng.random_range(0..file.len())].to_vec(),
        2 => [&file[..], &random_bytes(rng, 64)].concat(),
        // The proof, in a file that is otherwise right.
        3 => proof_file::encode(header, &proof[..rng.random_range(0..proof.len())]),
        4 => proof_file::encode(header, &[&proof[..], &random_bytes(rng, 64)].concat()),
        5 => {
            let at = rng.random_range(0..proof.len());
            proof_file::encode(header, &[&proof[..at], &random_bytes(rng, 16), &proof[at..]].concat())
        }
        // A part of another proof, or all of it.
        6 => {
            let from = rng.random_range(0..proof.len().min(other.proof.len()));
            let spliced = if std::ptr::eq(original, other) {
                alter(rng, proof)
            } else {
                [&proof[..from], &other.proof[from..]].concat()
            };
            proof_file::encode(header, &spliced)
        }
        // The statement.
        7 => {
            let mut header = header.clone();
            match header.public_values.iter_mut().find(|values| !values.is_empty()) {
                Some(values) => {
                    let at = rng.random_range(0..values.len());
                    values[at] = values[at].wrapping_add(rng.random_range(1..u64::MAX));
                }
                None => header.public_values.push(vec![rng.random()]),
            }
            proof_file::encode(&header, proof)
        }
        _ => proof_file::encode(header, &alter(rng, proof)),
    }
}

/// Changes a few bytes: to anything, by one bit, or to the largest number of a variable length.
fn alter(rng: &mut SmallRng, bytes: &[u8]) -> Vec<u8> {
    let mut altered = bytes.to_vec();
    for _ in 0..rng.random_range(1..=4) {
        let at = rng.random_range(0..altered.len());
        match rng.random_range(0..3) {
            0 => altered[at] = altered[at].wrapping_add(rng.random_range(1..=255)),
            1 => altered[at] ^= 1 << rng.random_range(0..8),
            _ => {
                for byte in altered.iter_mut().skip(at).take(9) {
                    *byte = 0xff;
                }
            }
        }
    }
    if altered == bytes {
        altered[0] ^= 1;
    }
    altered
}

fn random_bytes(rng: &mut SmallRng, most: usize) -> Vec<u8> {
    (0..rng.random_range(1..=most)).map(|_| rng.random()).collect()
}

/// The most memory that this process has had, in bytes; 0 where the system does not say.
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<usize>().ok());
    kib.map_or(0, |kib| kib << 10)
}
