//! A chain of Blake2s compressions, h_{k+1} = F(h_k, m_k), over blocks that only the prover knows.
//!
//! F is the compression function with the counter and flag of a one-block message, so the first link of the chain
//! is Blake2s of m_0. There are twelve components: one for each of the ten rounds, with its order of message words
//! built in; one for the ends of a compression; and the table of XORs of bytes. Row k of the first eleven belongs
//! to compression k. A round uses its input (round, state, message) and yields the input of the next round. A
//! compression yields the first input and uses the last one, and links the chain in the same way. The ends of the
//! chain are public.

mod air;
mod compression;

use std::sync::OnceLock;

use num_traits::One;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;

use crate::lookup::{Elements, fraction};
use crate::random::Random;
use crate::statement::{Air, Statement, provable};
use crate::witness::{HostColumn, field, fill};
use crate::xor::{Uses, XorElements, table, table_ids};
use crate::{Workload, check_size};
pub(crate) use air::BITS;
use air::{
    COMPRESSION_COLUMNS, ChainElements, CompressionEval, LINK, ROUND_COLUMNS, RoundElements, RoundEval, TableEval,
};
use compression::{ROUNDS, START, compress, initial, round};

/// A hash state.
pub type Hash = [u32; 8];

/// A chain of 2^`log_compressions` compressions from Blake2s's initial hash state to a public one.
#[derive(Clone, Debug)]
pub struct Blake2s {
    log_compressions: u32,
    seed: u64,
    /// Takes a compression after another to compute, which a verifier never does.
    last: OnceLock<Hash>,
}

/// The AIRs, in their order.
struct Evals {
    rounds: [RoundEval; ROUNDS],
    compressions: CompressionEval,
    table: TableEval,
}

impl Blake2s {
    /// A chain over blocks derived from the seed.
    pub fn new(log_compressions: u32, seed: u64) -> Result<Self, crate::BadSize> {
        check_size(Workload::Blake2s, "log compressions", log_compressions)?;
        Ok(Self { log_compressions, seed, last: OnceLock::new() })
    }

    /// Claims that the chain ends in another hash state.
    pub fn ending_in(self, last: Hash) -> Self {
        Self { last: last.into(), ..self }
    }

    /// The hash state that the chain ends in.
    pub fn last(&self) -> Hash {
        let compressed = |hash, k| compress(&hash, &self.message(k));
        *self.last.get_or_init(|| (0..1 << self.log_compressions).fold(START, compressed))
    }

    /// Block k.
    fn message(&self, k: usize) -> [u32; 16] {
        let random = Random::new(self.seed, 0);
        std::array::from_fn(|i| random.word(16 * k + i))
    }

    fn evals(&self, elements: &Elements) -> Evals {
        let log_rows = self.log_compressions;
        let table = XorElements::from(elements.relation(0));
        let rounds = RoundElements::from(elements.relation(1));
        let chain = ChainElements::from(elements.relation(2));
        let round = |number| RoundEval { log_rows, number, table: table.clone(), rounds: rounds.clone() };
        Evals {
            rounds: std::array::from_fn(round),
            compressions: CompressionEval { log_rows, table: table.clone(), rounds: rounds.clone(), chain },
            table: TableEval { table },
        }
    }
}

impl Statement for Blake2s {
    fn workload(&self) -> Workload {
        Workload::Blake2s
    }

    fn description(&self) -> String {
        format!("a chain of 2^{} Blake2s compressions, one round per row", self.log_compressions)
    }

    fn log_sizes(&self) -> Vec<u32> {
        let mut sizes = vec![self.log_compressions; ROUNDS + 1];
        sizes.push(2 * BITS);
        sizes
    }

    fn publics(&self) -> Vec<u32> {
        self.last().to_vec()
    }

    fn claiming(&self, publics: &[u32]) -> Option<Box<dyn Statement>> {
        let last = std::array::from_fn(|i| publics.get(i).copied().unwrap_or(0));
        Some(Box::new(self.clone().ending_in(last)))
    }

    fn preprocessed_ids(&self) -> Vec<PreProcessedColumnId> {
        table_ids(BITS).to_vec()
    }

    fn preprocessed(&self) -> Vec<HostColumn> {
        table(BITS)
    }

    fn trace(&self) -> Vec<HostColumn> {
        // The chain is sequential; the cells of each compression are then filled in parallel.
        let mut hashes = vec![START];
        for k in 1..1usize << self.log_compressions {
            hashes.push(compress(&hashes[k - 1], &self.message(k - 1)));
        }
        let end = hashes.len() - 1;
        self.last.get_or_init(|| compress(&hashes[end], &self.message(end)));

        let uses = Uses::new(BITS);
        let width = ROUNDS * ROUND_COLUMNS + COMPRESSION_COLUMNS;
        let mut columns = fill(self.log_compressions, width, |k, cells| {
            let mut row = Row { cells: cells.iter_mut(), uses: &uses };
            row.compression(&hashes[k], &self.message(k));
        });
        columns.push(uses.column());
        columns
    }

    fn relations(&self) -> usize {
        3
    }

    fn airs(&self, elements: &Elements) -> Vec<Box<dyn Air>> {
        let Evals { rounds, compressions, table } = self.evals(elements);
        let rounds = rounds.into_iter().map(|round| Box::new(round) as _);
        rounds.chain([Box::new(compressions) as _, Box::new(table) as _]).collect()
    }

    fn public_sum(&self, elements: &Elements) -> SecureField {
        let chain = elements.relation::<32>(2);
        let end = |hash: &Hash| {
            let bytes = hash.iter().flat_map(|word| word.to_le_bytes());
            let bytes: Vec<BaseField> = bytes.map(|byte| field(byte.into())).collect();
            fraction(&chain, BaseField::one(), &bytes)
        };
        end(&self.last()) - end(&START)
    }
}

provable!(Blake2s, [RoundEval, CompressionEval, TableEval], |Evals { rounds, compressions, table }| {
    let rounds = rounds.into_iter().map(|round| Box::new(round) as _);
    rounds.chain([Box::new(compressions) as _, Box::new(table) as _]).collect()
});

/// Writes the cells that belong to a compression, in the order in which the AIRs read them.
struct Row<'a> {
    cells: std::slice::IterMut<'a, BaseField>,
    uses: &'a Uses,
}

impl Row<'_> {
    fn cell(&mut self, value: u32) {
        *self.cells.next().expect("as many columns as values") = field(value);
    }

    /// Four cells.
    fn word(&mut self, word: u32) {
        word.to_le_bytes().into_iter().for_each(|byte| self.cell(byte.into()));
    }

    /// The halves of the message's words.
    fn message(&mut self, message: &[u32; 16]) {
        for &word in message {
            self.cell(word & 0xffff);
            self.cell(word >> 16);
        }
    }

    /// Writes and returns the XOR of two words.
    fn xor(&mut self, a: u32, b: u32) -> u32 {
        for (a, b) in a.to_le_bytes().into_iter().zip(b.to_le_bytes()) {
            self.uses.xor(a.into(), b.into());
        }
        self.word(a ^ b);
        a ^ b
    }

    /// Writes and returns a sum.
    fn sum(&mut self, words: &[u32]) -> u32 {
        let sum = words.iter().fold(0, |sum: u32, &word| sum.wrapping_add(word));
        self.word(sum);
        sum
    }

    /// The cells of one mixing, see `Words::mix`.
    fn mix(&mut self, [a, b, c, d]: [u32; 4], x: u32, y: u32) {
        let a = self.sum(&[a, b, x]);
        let d = self.xor(d, a).rotate_right(16);
        let c = self.sum(&[c, d]);
        let xor = self.xor(b, c);
        let b = self.turn_by_12(xor);
        let a = self.sum(&[a, b, y]);
        let d = self.xor(d, a).rotate_right(8);
        let c = self.sum(&[c, d]);
        let xor = self.xor(b, c);
        // The top bit of each byte.
        self.word((xor >> 7) & 0x0101_0101);
    }

    /// Writes the low nibble of each byte and uses the table to join nibbles.
    fn turn_by_12(&mut self, word: u32) -> u32 {
        let low = word & 0x0f0f_0f0f;
        self.word(low);
        let high = (word ^ low).rotate_right(4).to_le_bytes();
        let low = (low << 4).rotate_right(8).to_le_bytes();
        for (high, low) in high.into_iter().zip(low) {
            self.uses.xor(high.into(), low.into());
        }
        word.rotate_right(12)
    }

    fn compression(&mut self, hash: &Hash, message: &[u32; 16]) {
        let mut state = initial(hash);
        for number in 0..ROUNDS {
            state.iter().for_each(|&word| self.word(word));
            self.message(message);
            round(&mut state, message, number, |before, x, y| self.mix(before, x, y));
        }
        hash.iter().for_each(|&word| self.word(word));
        self.message(message);
        state.iter().for_each(|&word| self.word(word));
        let folded: Hash = std::array::from_fn(|i| self.xor(state[i], state[i + 8]));
        for (&hash, folded) in hash.iter().zip(folded) {
            self.xor(hash, folded);
        }
        assert!(self.cells.next().is_none(), "as many values as columns");
    }
}

// The macro that declares a relation takes a literal.
const _: () = assert!(LINK == 97);
