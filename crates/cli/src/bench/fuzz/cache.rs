//! Entries of the cache of compiled kernels, whole and changed.

use rand::RngExt;
use rand::rngs::SmallRng;
use rigel_gpu::testing::{CacheEntry, decode_cache_entry, encode_cache_entry};
use sha2::{Digest, Sha256};

use super::files::{alter, random_bytes};
use super::state::Outcome;

/// The bytes before the part that is hashed: the name of the format and the hash.
const MAGIC: usize = 8;
const BODY: usize = MAGIC + 32;

/// Entries with their bytes.
pub struct Originals(Vec<(CacheEntry, Vec<u8>)>);

impl Originals {
    pub fn new() -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_string()).collect::<Vec<_>>();
        let entries = [
            (vec![7; 3000], texts(&["fold", "_Z4foldIN4rice"]), texts(&["vvpc", "p"])),
            ((0..=255).collect(), texts(&["transpose"]), texts(&[""])),
            (Vec::new(), Vec::new(), Vec::new()),
        ];
        Self(entries.into_iter().map(|entry: CacheEntry| (entry.clone(), encode_cache_entry(entry))).collect())
    }

    /// Reads a changed entry.
    pub fn read(&self, rng: &mut SmallRng) -> (Outcome, String) {
        let [bytes, other] = [0, 1].map(|_| &self.0[rng.random_range(0..self.0.len())].1);
        let (bytes, hashed) = match rng.random_range(0..8) {
            0 => (alter(rng, bytes), false),
            1 => (bytes[..rng.random_range(0..bytes.len())].to_vec(), false),
            2 => ([&bytes[..], &random_bytes(rng, 64)].concat(), false),
            3 => {
                let at = rng.random_range(0..bytes.len().min(other.len()));
                ([&bytes[..at], &other[at..]].concat(), false)
            }
            4 => (random_bytes(rng, 200), false),
            _ => {
                let body = &bytes[BODY..];
                let body = match rng.random_range(0..3) {
                    0 => body[..rng.random_range(0..body.len())].to_vec(),
                    1 => {
                        // One of the lengths.
                        let mut body = body.to_vec();
                        let at = 8 * rng.random_range(0..body.len() / 8);
                        let length = rng.random::<u64>() >> rng.random_range(0..64);
                        body[at..at + 8].copy_from_slice(&length.to_le_bytes());
                        body
                    }
                    _ => alter(rng, body),
                };
                ([&bytes[..MAGIC], &Sha256::digest(&body), &body].concat(), true)
            }
        };
        match decode_cache_entry(&bytes) {
            None => (Outcome::Refused, String::new()),
            Some(entry) if self.0.iter().any(|(original, _)| *original == entry) => (Outcome::Same, String::new()),
            Some(_) if hashed => (Outcome::Valid, String::new()),
            Some(entry) => (Outcome::Accepted, format!("{entry:?}")),
        }
    }
}
