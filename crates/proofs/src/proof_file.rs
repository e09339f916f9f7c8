//! Proof files: a proof with a header that states what it proves.
//!
//! ```text
//! 8 bytes   magic
//! 4 bytes   version, little-endian as all numbers
//! 4 bytes   length of the header
//! 8 bytes   length of the proof
//!           header, JSON
//!           proof, postcard
//! 32 bytes  SHA-256 of everything before
//! ```
//!
//! The header's `prover` names the prover. Files of version 1 have no such field: they are Plonky3's.
//!
//! Every part is checked before it is used: foreign, newer, truncated and altered files are distinguished before any of
//! their contents is trusted.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rigel_gpu::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::choice::Choice;

/// A byte that does not occur in text, a name, and line endings that a text-mode transfer would change.
const MAGIC: [u8; 8] = *b"\x89RIGEL\r\n";
const VERSION: u32 = 2;
/// The last version with a single prover.
const PLONKY3_ONLY: u32 = 1;
const FIXED: usize = 24;
const CHECKSUM: usize = 32;
/// Far above the size of any header. Parsed, a header takes some 50 times as much.
const MOST_HEADER: usize = 1 << 16;
/// Upstream's largest proofs are a few MiB.
const MOST_PROOF: u64 = 1 << 30;

/// The statement of a proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Header {
    /// The version of Rigel that wrote it.
    pub rigel: String,
    /// The prover, the workload and its parameters.
    #[serde(flatten)]
    pub choice: Choice,
    /// The public values of each table.
    pub public_values: Vec<Vec<u64>>,
}

impl Header {
    /// The header of a proof that this version of Rigel made.
    pub fn new(choice: Choice, public_values: Vec<Vec<u64>>) -> Self {
        Self { rigel: env!("CARGO_PKG_VERSION").into(), choice, public_values }
    }
}

/// The reason why a file is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The file does not begin as proof files do.
    Foreign,
    /// The file has a version that this Rigel does not read.
    Version(u32),
    /// The file has fewer bytes than it states.
    #[non_exhaustive]
    Cut {
        /// The bytes that it should have.
        expected: u64,
        /// The bytes that it has.
        found: u64,
    },
    /// The file has more bytes than it states.
    #[non_exhaustive]
    Longer {
        /// The bytes that it should have.
        expected: u64,
        /// The bytes that it has.
        found: u64,
    },
    /// The file is longer than the memory that may be taken.
    #[non_exhaustive]
    TooLarge {
        /// The bytes that it states to have.
        length: u64,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The file's checksum does not match.
    Altered,
    /// The file's header is not that of a statement, for this reason.
    Header(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(f, "this is not a proof file; `rigel prove -o FILE` writes one"),
            Self::Version(version) if *version > VERSION => write!(
                f,
                "the file has version {version}, this rigel reads up to {VERSION}; verify it with a newer rigel"
            ),
            Self::Version(version) => write!(f, "the file has version {version}, which was never used"),
            Self::Cut { expected, found } => {
                write!(f, "the file is cut short: {found} of {expected} bytes; copy or make it again")
            }
            Self::Longer { expected, found } => {
                write!(f, "the file has {found} bytes or more, and should have {expected}; copy or make it again")
            }
            Self::TooLarge { length, limit } => {
                write!(f, "the file has {}, the limit of memory is {}", Bytes(*length as usize), Bytes(*limit))
            }
            Self::Altered => write!(f, "the file was altered: its checksum does not match; copy or make it again"),
            Self::Header(detail) => write!(f, "the file's header is not understood: {detail}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The file's bytes.
pub fn encode(header: &Header, proof: &[u8]) -> Vec<u8> {
    let header = serde_json::to_vec(header).expect("a header holds strings and numbers");
    let mut out = Vec::with_capacity(FIXED + header.len() + proof.len() + CHECKSUM);
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend((header.len() as u32).to_le_bytes());
    out.extend((proof.len() as u64).to_le_bytes());
    out.extend(&header);
    out.extend(proof);
    let checksum = Sha256::digest(&out);
    out.extend(checksum);
    out
}

/// The reason why a file was not read.
#[derive(Debug)]
pub enum Unread {
    /// The file can't be read.
    Io(io::Error),
    /// The file is longer than the limit.
    Refused(Refusal),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for Unread {}

/// The bytes of a file for [`decode`]: no more of them than the file's beginning explains, and one, so that a file that
/// is too long is found out. A file that states to have more than `memory` bytes is not read;
/// [`verdict::MEMORY`](crate::verdict::MEMORY) is the usual limit.
pub fn read(path: impl AsRef<Path>, memory: usize) -> Result<Vec<u8>, Unread> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    file.by_ref().take((FIXED + CHECKSUM) as u64).read_to_end(&mut bytes)?;
    if let Ok(Beginning { length, .. }) = Beginning::of(&bytes) {
        if length > memory as u64 {
            return Err(Unread::Refused(Refusal::TooLarge { length, limit: memory }));
        }
        let rest = (length + 1).saturating_sub(bytes.len() as u64);
        // Bytes that grow would take up to twice the memory.
        bytes.try_reserve_exact(rest as usize).map_err(io::Error::from)?;
        file.take(rest).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The facts that the first bytes of a file state.
struct Beginning {
    version: u32,
    header_len: usize,
    /// The bytes of the whole file.
    length: u64,
}

impl Beginning {
    fn of(file: &[u8]) -> Result<Self, Refusal> {
        let known = file.len().min(MAGIC.len());
        if known == 0 || file[..known] != MAGIC[..known] {
            return Err(Refusal::Foreign);
        }
        if file.len() < FIXED + CHECKSUM {
            return Err(Refusal::Cut { expected: (FIXED + CHECKSUM) as u64, found: file.len() as u64 });
        }
        let number = |from: usize| u32::from_le_bytes(file[from..from + 4].try_into().expect("four bytes"));
        let version = number(8);
        if !(PLONKY3_ONLY..=VERSION).contains(&version) {
            return Err(Refusal::Version(version));
        }
        let header_len = number(12) as usize;
        let proof_len = u64::from_le_bytes(file[16..24].try_into().expect("eight bytes"));
        if header_len > MOST_HEADER || proof_len > MOST_PROOF {
            return Err(Refusal::Altered);
        }
        Ok(Self { version, header_len, length: (FIXED + header_len + CHECKSUM) as u64 + proof_len })
    }
}

/// Returns the header and the proof, if the file is intact and the header describes a provable statement.
pub fn decode(file: &[u8]) -> Result<(Header, &[u8]), Refusal> {
    let Beginning { version, header_len, length: expected } = Beginning::of(file)?;
    let found = file.len() as u64;
    match found.cmp(&expected) {
        std::cmp::Ordering::Less => return Err(Refusal::Cut { expected, found }),
        std::cmp::Ordering::Greater => return Err(Refusal::Longer { expected, found }),
        std::cmp::Ordering::Equal => {}
    }
    let (contents, checksum) = file.split_at(file.len() - CHECKSUM);
    if Sha256::digest(contents)[..] != *checksum {
        return Err(Refusal::Altered);
    }
    let (header, proof) = contents[FIXED..].split_at(header_len);
    let header = parse(header, version).map_err(|error| Refusal::Header(error.to_string()))?;
    header.choice.check().map_err(Refusal::Header)?;
    Ok((header, proof))
}

fn parse(header: &[u8], version: u32) -> serde_json::Result<Header> {
    let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(header)?;
    if version == PLONKY3_ONLY {
        fields.insert("prover".into(), "plonky3".into());
    }
    serde_json::from_value(fields.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stwo;
    use rigel_workloads::{Choice as Plonky3Choice, Field, Fri, Hash, Workload};

    fn plonky3() -> Plonky3Choice {
        Plonky3Choice {
            workload: Workload::Fibonacci,
            log_rows: 4,
            field: Field::KoalaBear,
            hash: Hash::Keccak,
            fri: Fri::default(),
        }
    }

    fn stwo() -> stwo::Choice {
        stwo::Choice {
            workload: stwo::Workload::StateMachine,
            log_size: 5,
            channel: stwo::Channel::Blake2s,
            fri: stwo::Fri::default(),
        }
    }

    fn header(choice: Choice) -> Header {
        Header { rigel: "0".into(), choice, public_values: vec![vec![0, 1, u64::MAX]] }
    }

    #[test]
    fn what_was_written_is_read() {
        for choice in [Choice::Plonky3(plonky3()), Choice::Stwo(stwo())] {
            let file = encode(&header(choice), b"proof");
            assert_eq!(decode(&file), Ok((header(choice), &b"proof"[..])));
        }
    }

    #[test]
    fn files_of_the_first_version_are_plonky3s() {
        let current = header(Choice::Plonky3(plonky3()));
        let mut fields = serde_json::to_value(&current).unwrap();
        assert_eq!(fields.as_object_mut().and_then(|fields| fields.remove("prover")), Some("plonky3".into()));
        let text = serde_json::to_vec(&fields).unwrap();
        let mut file = MAGIC.to_vec();
        file.extend(1u32.to_le_bytes());
        file.extend((text.len() as u32).to_le_bytes());
        file.extend(5u64.to_le_bytes());
        file.extend(&text);
        file.extend(b"proof");
        let checksum = Sha256::digest(&file);
        file.extend(checksum);
        assert_eq!(decode(&file), Ok((current, &b"proof"[..])));
    }

    #[test]
    fn every_cut_and_every_altered_byte_is_found() {
        let file = encode(&header(Choice::Stwo(stwo())), b"proof");
        for len in 0..file.len() {
            assert!(decode(&file[..len]).is_err(), "{len}");
        }
        for at in 0..file.len() {
            let mut altered = file.clone();
            altered[at] ^= 1;
            assert!(decode(&altered).is_err(), "{at}");
        }
        assert!(matches!(decode(&file[..file.len() - 1]), Err(Refusal::Cut { .. })));
        assert!(matches!(decode(&[&file[..], &[0]].concat()), Err(Refusal::Longer { .. })));
        assert_eq!(decode(b"PK\x03\x04 something else"), Err(Refusal::Foreign));
    }

    #[test]
    fn no_more_of_a_file_is_read_than_it_explains() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proof");
        let file = encode(&header(Choice::Stwo(stwo())), b"proof");
        let longer = [&file[..], &[0; 1000]].concat();
        for (bytes, expected) in
            [(&file, file.len()), (&longer, file.len() + 1), (&vec![7; 5000], FIXED + CHECKSUM)]
        {
            std::fs::write(&path, bytes).unwrap();
            let found = read(&path, 6000).unwrap();
            assert_eq!(found, bytes[..expected]);
            assert!(found.capacity() <= FIXED + CHECKSUM + file.len(), "{}", found.capacity());
        }
        assert!(matches!(read(folder.path().join("none"), 6000), Err(Unread::Io(_))));
        std::fs::write(&path, &file).unwrap();
        assert!(read(&path, file.len()).is_ok());
        let refusal = read(&path, file.len() - 1).unwrap_err().to_string();
        assert!(refusal.contains("the limit of memory is"), "{refusal}");
    }

    #[test]
    fn a_header_out_of_bounds_is_refused() {
        let refused = |choice| matches!(decode(&encode(&header(choice), b"")), Err(Refusal::Header(_)));
        let right = plonky3();
        assert!(refused(Choice::Plonky3(Plonky3Choice { log_rows: 60, ..right })));
        assert!(refused(Choice::Plonky3(Plonky3Choice {
            fri: Fri { queries: usize::MAX, ..right.fri },
            ..right
        })));
        let right = stwo();
        assert!(refused(Choice::Stwo(stwo::Choice { log_size: 60, ..right })));
        assert!(refused(Choice::Stwo(stwo::Choice {
            log_size: 26,
            fri: stwo::Fri { log_blowup: 8, ..right.fri },
            ..right
        })));
        assert!(refused(Choice::Stwo(stwo::Choice { fri: stwo::Fri { fold_step: 0, ..right.fri }, ..right })));
    }
}
