//! Proof files, whole and changed.

use std::path::Path;

use rand::RngExt;
use rand::rngs::SmallRng;
use rigel_proofs::stwo;
use rigel_proofs::verdict::{MEMORY, Unverified, judged, memory_of};
use rigel_statements::OnFailure;
use rigel_workloads::{Choice as Plonky3Choice, Field, Fri, Hash, Workload};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::state::Outcome;
use crate::Failure;
use crate::choice::{Choice, Prover};
use crate::proof_file::{self, Header};

/// The bytes before the header, and those of the checksum.
const FIXED: usize = 24;
const CHECKSUM: usize = 32;

/// A right file, in parts.
struct Original {
    header: Header,
    proof: Vec<u8>,
    file: Vec<u8>,
}

impl Original {
    fn of(file: Vec<u8>) -> Result<Self, Failure> {
        let (header, proof) = proof_file::decode(&file)?;
        let memory = memory_of(&header.choice, proof.len());
        judged(&header, proof, memory).map_err(|reason| format!("{} is not accepted: {reason}", header.choice))?;
        let proof = proof.to_vec();
        Ok(Self { header, proof, file })
    }
}

/// A few small proofs.
pub struct Originals(Vec<Original>);

impl Originals {
    /// Makes them on the CPU.
    pub fn make() -> Result<Self, Failure> {
        let fri = Fri { queries: 4, pow_bits: 2, batch_pow_bits: 1, ..Fri::default() };
        let plonky3 = |workload, log_rows, field, hash, zk| {
            Choice::Plonky3(Plonky3Choice { workload, log_rows, field, hash, fri: Fri { zk, ..fri } })
        };
        let fri = stwo::Fri { queries: 4, pow_bits: 2, ..stwo::Fri::default() };
        let of_stwo =
            |workload, log_size, channel| Choice::Stwo(stwo::Choice { workload, log_size, channel, fri });
        use stwo::Workload as Stwo;
        let choices = [
            plonky3(Workload::Fibonacci, 4, Field::KoalaBear, Hash::Keccak, false),
            plonky3(Workload::Fibonacci, 5, Field::KoalaBear, Hash::Keccak, false),
            plonky3(Workload::Fibonacci, 5, Field::Goldilocks, Hash::Poseidon2, false),
            plonky3(Workload::Fibonacci, 8, Field::KoalaBear, Hash::Keccak, true),
            plonky3(Workload::Lookups, 6, Field::KoalaBear, Hash::Keccak, false),
            of_stwo(Stwo::StateMachine, 5, stwo::Channel::Blake2s),
            of_stwo(Stwo::Plonk, 5, stwo::Channel::Blake2s),
            of_stwo(Stwo::Plonk, 6, stwo::Channel::Blake2sM31),
            of_stwo(Stwo::Xor, 6, stwo::Channel::Blake2s),
            of_stwo(Stwo::WideFibonacci, 4, stwo::Channel::Blake2s),
            of_stwo(Stwo::Poseidon2, 7, stwo::Channel::Blake2s),
        ];
        // A build without all fields and hashes has fewer.
        let choices = choices.into_iter().filter(|choice| choice.built().is_ok());
        let make = |choice: Choice| {
            let mut statement = choice.statement()?;
            statement.generate();
            statement.prepare(None, OnFailure::Fail)?;
            let proof = statement.prove_upstream()?.proof;
            Original::of(proof_file::encode(&Header::new(choice, statement.publics()), &proof))
        };
        choices.map(make).collect::<Result<_, Failure>>().map(Self)
    }

    pub fn save(&self, folder: &Path) -> Result<(), Failure> {
        for (index, original) in self.0.iter().enumerate() {
            std::fs::write(folder.join(format!("{index}.proof")), &original.file)?;
        }
        Ok(())
    }

    pub fn load(folder: &Path) -> Result<Self, Failure> {
        let mut originals = Vec::new();
        while let Ok(file) = std::fs::read(folder.join(format!("{}.proof", originals.len()))) {
            originals.push(Original::of(file)?);
        }
        Ok(Self(originals))
    }

    /// Changes a file and verifies it.
    pub fn read(&self, rng: &mut SmallRng) -> (Outcome, String) {
        let original = &self.0[rng.random_range(0..self.0.len())];
        let file = self.changed(rng, original);
        let (header, proof) = match proof_file::decode(&file) {
            Ok(read) => read,
            Err(_) => return (Outcome::Refused, String::new()),
        };
        let outcome = match judged(&header, proof, MEMORY) {
            Err(Unverified::Memory { .. }) => Outcome::Memory,
            Err(Unverified::Panicked(message)) => return (Outcome::UpstreamPanicked, message),
            Err(_) => Outcome::Rejected,
            // What does not belong to the statement may change: the version that wrote the file.
            Ok(()) if self.states(&header, proof) => Outcome::Same,
            Ok(()) => Outcome::Accepted,
        };
        (outcome, format!("{header:?}"))
    }

    /// Whether an original has this statement and this proof.
    fn states(&self, header: &Header, proof: &[u8]) -> bool {
        self.0.iter().any(|original| {
            original.proof == proof
                && original.header.choice == header.choice
                && original.header.public_values == header.public_values
        })
    }

    fn changed(&self, rng: &mut SmallRng, original: &Original) -> Vec<u8> {
        let Original { header, proof, file } = original;
        let other = &self.0[rng.random_range(0..self.0.len())];
        match rng.random_range(0..20) {
            // The file, whose checksum then does not match.
            0 => alter(rng, file),
            1 => file[..rng.random_range(0..file.len())].to_vec(),
            2 => [&file[..], &random_bytes(rng, 64)].concat(),
            3 => random_bytes(rng, 300),
            // The file, with a checksum that does.
            4 => sealed(alter(rng, &file[..file.len() - CHECKSUM])),
            // The proof, in a file that is otherwise right.
            5 => proof_file::encode(header, &proof[..rng.random_range(0..proof.len())]),
            6 => proof_file::encode(header, &[&proof[..], &random_bytes(rng, 64)].concat()),
            7 => {
                let at = rng.random_range(0..proof.len());
                proof_file::encode(header, &[&proof[..at], &random_bytes(rng, 16), &proof[at..]].concat())
            }
            // A part of another proof, or all of it.
            8 | 9 => {
                let from = rng.random_range(0..proof.len().min(other.proof.len()));
                let spliced = match std::ptr::eq(original, other) {
                    true => alter(rng, proof),
                    false => [&proof[..from], &other.proof[from..]].concat(),
                };
                proof_file::encode(header, &spliced)
            }
            // The statement.
            10 => {
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
            11 | 12 => with_header(file, &restated(rng, header)),
            // Bytes that become as much memory as they can, rarely many of them.
            13 => {
                let most = if rng.random_ratio(1, 200) { 24 } else { 14 };
                let mut bytes = proof[..rng.random_range(0..64.min(proof.len()))].to_vec();
                bytes.extend([0xff, 0xff, 0xff, 0x7f].iter().take(rng.random_range(0..=4)));
                bytes.resize(bytes.len() + (1 << rng.random_range(0..most)), u8::from(rng.random_ratio(1, 4)));
                proof_file::encode(header, &bytes)
            }
            _ => proof_file::encode(header, &alter(rng, proof)),
        }
    }
}

/// A header in which a number or a name is another one, or the workload and its size.
fn restated(rng: &mut SmallRng, header: &Header) -> Value {
    let mut stated = serde_json::to_value(header).expect("a header holds strings and numbers");
    let fields = stated.as_object_mut().expect("a header is an object");
    if rng.random_ratio(1, 4) {
        let (prover, size) = match header.choice {
            Choice::Plonky3(_) => (Prover::Plonky3, "log_rows"),
            Choice::Stwo(_) => (Prover::Stwo, "log_size"),
        };
        let workloads = prover.workloads();
        fields["workload"] = workloads[rng.random_range(0..workloads.len())].into();
        fields[size] = rng.random_range(3..28).into();
        return stated;
    }
    let in_fri = rng.random();
    let fields = match fields.get_mut("fri") {
        Some(Value::Object(fri)) if in_fri => fri,
        _ => fields,
    };
    let at = rng.random_range(0..fields.len());
    let value = fields.iter_mut().nth(at).expect("counted").1;
    *value = match &*value {
        Value::Number(number) => {
            let number = number.as_u64().unwrap_or(0);
            match rng.random_range(0..4) {
                0 => (rng.random::<u64>() >> rng.random_range(0..64)).into(),
                1 => number.saturating_sub(1).into(),
                _ => number.saturating_add(rng.random_range(1..22)).into(),
            }
        }
        Value::String(_) => {
            let names =
                ["plonky3", "stwo", "fibonacci", "lookups", "plonk", "xor", "keccak", "poseidon2", "goldilocks"];
            names[rng.random_range(0..names.len())].into()
        }
        Value::Bool(value) => (!value).into(),
        _ => vec![vec![0u64; rng.random_range(0..4)]; rng.random_range(0..10)].into(),
    };
    stated
}

/// The file with another header, and lengths and a checksum that match.
fn with_header(file: &[u8], header: &Value) -> Vec<u8> {
    let header_len = u32::from_le_bytes(file[12..16].try_into().expect("four bytes")) as usize;
    let proof = &file[FIXED + header_len..file.len() - CHECKSUM];
    let header = header.to_string();
    let lengths = [&(header.len() as u32).to_le_bytes()[..], &(proof.len() as u64).to_le_bytes()].concat();
    sealed([&file[..12], &lengths, header.as_bytes(), proof].concat())
}

/// Contents with their checksum.
fn sealed(mut contents: Vec<u8>) -> Vec<u8> {
    let checksum = Sha256::digest(&contents);
    contents.extend(checksum);
    contents
}

/// Changes a few bytes: to anything, by one bit, or to the largest number of a variable length.
pub fn alter(rng: &mut SmallRng, bytes: &[u8]) -> Vec<u8> {
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

pub fn random_bytes(rng: &mut SmallRng, most: usize) -> Vec<u8> {
    (0..rng.random_range(1..=most)).map(|_| rng.random()).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_header_is_restated_in_a_file_that_is_read() {
        let fri = stwo::Fri::default();
        let choice =
            stwo::Choice { workload: stwo::Workload::Plonk, log_size: 8, channel: stwo::Channel::Blake2s, fri };
        let header = Header::new(Choice::Stwo(choice), vec![vec![1, 2, 3]]);
        let file = proof_file::encode(&header, b"proof");
        let same = serde_json::to_value(&header).unwrap();
        assert_eq!(proof_file::decode(&with_header(&file, &same)), Ok((header.clone(), &b"proof"[..])));
        let mut rng = SmallRng::seed_from_u64(1);
        let others: Vec<Header> = (0..200)
            .filter_map(|_| {
                let file = with_header(&file, &restated(&mut rng, &header));
                proof_file::decode(&file).ok().map(|(other, _)| other).filter(|other| *other != header)
            })
            .collect();
        assert!(others.len() > 40);
        let is_large_chain = |other: &Header| match other.choice {
            Choice::Stwo(stwo::Choice { workload, log_size, .. }) => {
                workload == stwo::Workload::Poseidon2 && log_size > 20
            }
            Choice::Plonky3(_) => false,
        };
        assert!(others.iter().any(is_large_chain), "a workload and its size change together");
    }
}
