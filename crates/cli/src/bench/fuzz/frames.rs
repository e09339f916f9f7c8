//! Frames of workers, whole and changed, and what they ask for.

use rand::RngExt;
use rand::rngs::SmallRng;
use rigel_worker::frame::{self, Frame, Kind};
use sha2::{Digest, Sha256};

use super::files::{alter, random_bytes};
use super::state::Outcome;
use crate::Failure;
use crate::worker::Request;

/// The bytes of a frame's header and of its hash.
const HEADER: usize = 20;
const HASH: usize = 32;

/// The longest payload that is accepted.
const MOST: u64 = 4 << 30;

/// Frames as they travel.
pub struct Originals(Vec<(Frame, Vec<u8>)>);

impl Originals {
    pub fn new() -> Result<Self, Failure> {
        let done: [&[u8]; 3] = [&2u32.to_le_bytes(), b"{}", &[7; 500]];
        let frames: [(Kind, &[&[u8]]); 9] = [
            (Kind::Hello, &[br#"{"protocol": 1, "name": "rigel", "pid": 7, "most_bytes": 4294967296}"#]),
            (Kind::Job, &[br#"{"workload": "fibonacci", "log_rows": 10, "field": "koala-bear", "queries": 40}"#]),
            (Kind::Job, &[br#"{"workload": "plonk", "log_size": 6, "pow_bits": 3, "prover": "stwo"}"#]),
            (Kind::Job, &[br#"{"workload": "lookups", "log_rows": 12, "hash": "keccak", "zk": false}"#]),
            (Kind::Job, &[b"{\"machine\": \"cairo\", \"program_bytes\": 64}\n", &[5; 64]]),
            (Kind::Stop, &[]),
            (Kind::Progress, &[br#"{"fraction": 0.5, "phase": "commit"}"#]),
            (Kind::Done, &done),
            (Kind::Failed, &[br#"{"kind": "error", "message": "no", "report": {}}"#]),
        ];
        let whole = |(number, (kind, parts)): (usize, (Kind, &[&[u8]]))| {
            let mut bytes = Vec::new();
            frame::write(&mut bytes, kind, number as u64, parts)?;
            Ok((Frame { kind, job: number as u64, payload: parts.concat() }, bytes))
        };
        frames.into_iter().enumerate().map(whole).collect::<Result<_, Failure>>().map(Self)
    }

    /// Reads a stream of a few frames of which one is changed.
    pub fn read(&self, rng: &mut SmallRng) -> (Outcome, String) {
        let mut stream = Vec::new();
        let changed = rng.random_range(0..3);
        let mut hashed = false;
        for place in 0..3 {
            let (_, bytes) = &self.0[rng.random_range(0..self.0.len())];
            if place == changed {
                let (bytes, anew) = self.changed(rng, bytes);
                hashed |= anew;
                stream.extend(bytes);
            } else {
                stream.extend(bytes);
            }
        }
        let mut from = &stream[..];
        let mut understood = true;
        loop {
            let frame = match frame::read(&mut from, MOST) {
                // A frame may be left out, for one: that is the stream's business.
                Ok(None) if hashed && understood => return (Outcome::Valid, String::new()),
                Ok(None) if hashed => return (Outcome::Rejected, String::new()),
                Ok(None) => return (Outcome::Same, String::new()),
                Ok(Some(frame)) => frame,
                Err(_) => return (Outcome::Refused, String::new()),
            };
            if !hashed && !self.0.iter().any(|(original, _)| *original == frame) {
                return (Outcome::Accepted, format!("{frame:?}"));
            }
            understood &= match frame.kind {
                Kind::Job => Request::of(&frame.payload).is_ok(),
                Kind::Done => frame::split_done(&frame.payload).is_some(),
                Kind::Stop => true,
                Kind::Hello | Kind::Progress | Kind::Failed => {
                    serde_json::from_slice::<serde_json::Value>(&frame.payload).is_ok()
                }
            };
        }
    }

    /// A changed frame, and whether its hash was made again.
    fn changed(&self, rng: &mut SmallRng, bytes: &[u8]) -> (Vec<u8>, bool) {
        let (_, other) = &self.0[rng.random_range(0..self.0.len())];
        match rng.random_range(0..9) {
            0 => (alter(rng, bytes), false),
            1 => (bytes[..rng.random_range(1..bytes.len())].to_vec(), false),
            2 => ([bytes, &random_bytes(rng, 64)].concat(), false),
            3 => {
                let at = rng.random_range(0..bytes.len().min(other.len()));
                ([&bytes[..at], &other[at..]].concat(), false)
            }
            4 => {
                // A length that is not kept.
                let mut bytes = bytes.to_vec();
                let length = rng.random::<u64>() >> rng.random_range(0..64);
                bytes[12..HEADER].copy_from_slice(&length.to_le_bytes());
                (bytes, false)
            }
            5 => (random_bytes(rng, 200), false),
            _ => {
                let payload = alter(rng, &[&bytes[HEADER..bytes.len() - HASH], b" "].concat());
                (hashed(&bytes[..12], &payload), true)
            }
        }
    }
}

/// A frame with the hash that it should have.
fn hashed(beginning: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = [beginning, &(payload.len() as u64).to_le_bytes(), payload].concat();
    let hash = Sha256::digest(&bytes);
    bytes.extend(hash);
    bytes
}
