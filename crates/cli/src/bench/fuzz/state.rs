//! The position and the counts of a child, in a file that its parent reads.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// The kind of data that an input is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ProofFiles,
    Frames,
    CacheEntries,
}

pub const KINDS: [Kind; 3] = [Kind::ProofFiles, Kind::Frames, Kind::CacheEntries];

impl Kind {
    /// The kind of input of this number: proof files have the most to go wrong.
    pub fn of(number: u64) -> Self {
        match number % 10 {
            0 => Self::Frames,
            1 => Self::CacheEntries,
            _ => Self::ProofFiles,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::ProofFiles => "proof files",
            Self::Frames => "frames",
            Self::CacheEntries => "cache entries",
        }
    }
}

/// The outcome of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Rejected before its contents were looked at: by a checksum, a length or a header.
    Refused,
    /// Rejected by its contents: a deserializer, upstream's verifier, or what a job asks for.
    Rejected,
    /// Refused for the memory that it would take.
    Memory,
    /// Upstream's verifier panicked, which rejects the proof.
    UpstreamPanicked,
    /// Accepted, with the contents of one of the originals.
    Same,
    /// Accepted with changed contents and a checksum that was made again: a message as good as any other.
    Valid,
    /// Accepted though it is no original.
    Accepted,
    /// Rigel's own code panicked.
    Panicked,
    /// The input ended the process, or took too long.
    Killed,
}

pub const OUTCOMES: [Outcome; 9] = [
    Outcome::Refused,
    Outcome::Rejected,
    Outcome::Memory,
    Outcome::UpstreamPanicked,
    Outcome::Same,
    Outcome::Valid,
    Outcome::Accepted,
    Outcome::Panicked,
    Outcome::Killed,
];

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused unread",
            Self::Rejected => "rejected",
            Self::Memory => "refused for memory",
            Self::UpstreamPanicked => "upstream's panics, caught",
            Self::Same => "same as an original",
            Self::Valid => "other valid messages",
            Self::Accepted => "accepted",
            Self::Panicked => "panicked",
            Self::Killed => "killed",
        }
    }

    pub fn is_finding(self) -> bool {
        matches!(self, Self::Accepted | Self::Panicked | Self::Killed)
    }
}

/// The number of inputs of each kind with each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([[u64; OUTCOMES.len()]; KINDS.len()]);

impl Counts {
    pub fn get(&self, kind: Kind, outcome: Outcome) -> u64 {
        self.0[kind as usize][outcome as usize]
    }

    pub fn of(&self, outcome: Outcome) -> u64 {
        KINDS.iter().map(|&kind| self.get(kind, outcome)).sum()
    }

    pub fn all(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().flatten().zip(other.0.iter().flatten()).for_each(|(sum, count)| *sum += count);
    }

    pub fn to_json(self) -> Value {
        let key = |name: &str| name.replace("'s", "").replace(',', "").replace(' ', "_");
        let of_kind = |kind| -> Map<String, Value> {
            OUTCOMES.iter().map(|&outcome| (key(outcome.name()), self.get(kind, outcome).into())).collect()
        };
        KINDS.iter().map(|&kind| (key(kind.name()), Value::from(of_kind(kind)))).collect::<Map<_, _>>().into()
    }
}

/// A child's share of the inputs and how far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The number of the input that is being read, or is next.
    pub next: u64,
    /// The distance to the one after it.
    pub step: u64,
    /// The numbers are below this.
    pub count: u64,
    pub seed: u64,
    /// Whether the input is being read.
    reading: u64,
    pub counts: Counts,
}

const WORDS: usize = 5 + KINDS.len() * OUTCOMES.len();

impl State {
    /// One of `jobs` shares of `count` inputs.
    pub fn share(index: u64, jobs: u64, count: u64, seed: u64) -> Self {
        Self { next: index, step: jobs, count, seed, ..Self::default() }
    }

    pub fn kind(&self) -> Kind {
        Kind::of(self.next)
    }

    pub fn is_reading(&self) -> bool {
        self.reading != 0
    }

    pub fn begin(&mut self) {
        self.reading = 1;
    }

    /// Counts the input and goes on to the next.
    pub fn finish(&mut self, outcome: Outcome) {
        self.counts.0[self.kind() as usize][outcome as usize] += 1;
        self.next += self.step;
        self.reading = 0;
    }

    fn path(folder: &Path, index: u64) -> PathBuf {
        folder.join(format!("{index}.state"))
    }

    pub fn open(folder: &Path, index: u64) -> io::Result<File> {
        File::options().write(true).open(Self::path(folder, index))
    }

    fn to_bytes(self) -> Vec<u8> {
        let Self { next, step, count, seed, reading, counts } = self;
        let counts = counts.0.into_iter().flatten();
        [next, step, count, seed, reading].into_iter().chain(counts).flat_map(u64::to_le_bytes).collect()
    }

    /// Writes it in one go: a reader sees all of it or nothing.
    pub fn write_to(&self, file: &File) -> io::Result<()> {
        file.write_all_at(&self.to_bytes(), 0)
    }

    pub fn write(&self, folder: &Path, index: u64) -> io::Result<()> {
        fs::write(Self::path(folder, index), self.to_bytes())
    }

    pub fn read(folder: &Path, index: u64) -> io::Result<Self> {
        let bytes = fs::read(Self::path(folder, index))?;
        let mut words =
            bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        if words.len() != WORDS {
            return Err(io::Error::other("a child's state is cut short"));
        }
        let mut word = || words.next().expect("counted above");
        let (next, step, count, seed, reading) = (word(), word(), word(), word(), word());
        let counts = Counts(std::array::from_fn(|_| std::array::from_fn(|_| word())));
        Ok(Self { next, step, count, seed, reading, counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = State::share(3, 2, 100, 9);
        state.begin();
        state.finish(Outcome::Killed);
        state.begin();
        state.write(folder.path(), 4).unwrap();
        assert_eq!(State::read(folder.path(), 4).unwrap(), state);
        assert_eq!(
            (state.next, state.counts.all(), state.counts.get(Kind::ProofFiles, Outcome::Killed)),
            (5, 1, 1)
        );
    }
}
