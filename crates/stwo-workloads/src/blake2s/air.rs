//! The AIRs of rounds, of compressions, and of the XOR table.
//!
//! Words of the state are four bytes, words of the message two halves, low before high. Words are added half by
//! half. The carries are the multiples of 2^16 by which the halves differ from their sums. They are linear in the
//! columns, and a constraint restricts them to 0, 1 or, for three words, 2. This requires the bytes of a sum to be
//! in range: each is an input of a later XOR, whose lookup checks that.
//!
//! Rotations by 16 and 8 rename bytes. The rotation by 12 splits each byte of its XOR into nibbles e = low + 16
//! high, with `low` a column. Byte i of the result joins a high nibble with the low nibble of the next byte. The
//! lookup (high_i, 16 low_{i+1}, high_i + 16 low_{i+1}) in the XOR table implies that both are nibbles: 16 low is
//! a byte v, high is a byte, and 16 (e - 16 high) = v as field elements, and also as integers, because both sides
//! are far below P. Hence 16 divides v, low is below 16, and so is high = (e - low) / 16.
//!
//! The rotation by 7 splits off the top bit of each byte, f = 128 top + rest, with `top` a column that is 0 or 1.
//! Byte i of the result is top_i + 2 rest_{i+1}. It is an input of a later XOR and thus a byte, so rest is in [0,
//! 128).
//!
//! Words of the message are only added. Any pair of halves that satisfies the carry constraints acts as the word
//! low + 2^16 high mod 2^32, and as the same word in each round.

use num_traits::One;
use stwo::core::fields::m31::BaseField;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, RelationEntry};

use super::compression::{IV, MIXINGS, ROUNDS, SIGMA, TAIL};
use crate::lookup::relations;
use crate::witness::field;
use crate::xor::{XorElements, table_ids};
use rigel_statements::stwo::LIMB_BITS;

/// Values of an entry that links rounds: the round's number, 16 words of state in bytes, 16 of message in halves.
pub(crate) const LINK: usize = 1 + 16 * 4 + 16 * 2;

relations!(RoundElements: 97, ChainElements: 32);

/// Columns of one mixing: ten words of four columns.
pub(crate) const MIXING_COLUMNS: usize = 40;
/// Columns of a round: the state, the message, the mixings.
pub(crate) const ROUND_COLUMNS: usize = 16 * 4 + 16 * 2 + 8 * MIXING_COLUMNS;
/// Columns of a compression: the hash state, the message, the state after all rounds, the XOR of its halves, the
/// next hash state.
pub(crate) const COMPRESSION_COLUMNS: usize = 8 * 4 + 16 * 2 + 16 * 4 + 8 * 4 + 8 * 4;

/// A word of the state: its bytes.
type Word<F> = [F; 4];
/// A word of the message: its halves.
type Halves<F> = [F; 2];

/// The halves of a word.
fn halves<F: Clone + std::ops::Add<Output = F> + std::ops::Mul<BaseField, Output = F>>(
    word: &Word<F>,
) -> Halves<F> {
    [0, 2].map(|i| word[i].clone() + word[i + 1].clone() * field(1 << 8))
}

/// The bytes of a constant.
fn constant<F: From<BaseField>>(word: u32) -> Word<F> {
    word.to_le_bytes().map(|byte| F::from(field(byte.into())))
}

/// A word rotated right by a number of bytes.
fn turn<F: Clone>(word: &Word<F>, bytes: usize) -> Word<F> {
    std::array::from_fn(|i| word[(i + bytes) % 4].clone())
}

/// Reads columns and writes constraints, word by word.
struct Words<'a, E: EvalAtRow> {
    eval: E,
    table: &'a XorElements,
}

impl<E: EvalAtRow> Words<'_, E> {
    /// The next four columns.
    fn word(&mut self) -> Word<E::F> {
        std::array::from_fn(|_| self.eval.next_trace_mask())
    }

    /// The next two columns.
    fn message(&mut self) -> Halves<E::F> {
        std::array::from_fn(|_| self.eval.next_trace_mask())
    }

    /// The next four columns, which are a sum mod 2^32 of up to three words.
    fn sum(&mut self, words: &[Halves<E::F>]) -> Word<E::F> {
        let sum = self.word();
        let [low, high] = halves(&sum);
        let [low_total, high_total] = [0, 1].map(|half| {
            let first = words[0][half].clone();
            words[1..].iter().fold(first, |total, word| total + word[half].clone())
        });
        let unit = field(1 << 16).inverse();
        let low_carry = (low_total - low) * unit;
        let high_carry = (high_total + low_carry.clone() - high) * unit;
        for carry in [low_carry, high_carry] {
            let range = (1..words.len() as u32)
                .fold(carry.clone(), |product, value| product * (carry.clone() - E::F::from(field(value))));
            self.eval.add_constraint(range);
        }
        sum
    }

    /// Constrains (a, b, c) to be a row of the XOR table.
    fn look_up(&mut self, a: &E::F, b: &E::F, c: &E::F) {
        let entry = [a.clone(), b.clone(), c.clone()];
        self.eval.add_to_relation(RelationEntry::new(self.table, E::EF::one(), &entry));
    }

    /// The next four columns, which are the XOR of two words.
    fn xor(&mut self, a: &Word<E::F>, b: &Word<E::F>) -> Word<E::F> {
        let xor = self.word();
        for i in 0..4 {
            self.look_up(&a[i], &b[i], &xor[i]);
        }
        xor
    }

    /// A word rotated right by 12 bits; the next four columns are the low nibbles of its bytes.
    fn turn_by_12(&mut self, word: &Word<E::F>) -> Word<E::F> {
        let low = self.word();
        let unit = field(1 << 4).inverse();
        // Right by 4 bits, then by a byte.
        let turned = std::array::from_fn(|i| {
            let high = (word[i].clone() - low[i].clone()) * unit;
            let low = low[(i + 1) % 4].clone() * field(1 << 4);
            let byte = high.clone() + low.clone();
            self.look_up(&high, &low, &byte);
            byte
        });
        turn(&turned, 1)
    }

    /// A word rotated right by 7 bits; the next four columns are the top bits of its bytes.
    fn turn_by_7(&mut self, word: &Word<E::F>) -> Word<E::F> {
        let top = self.word();
        for bit in &top {
            self.eval.add_constraint(bit.clone() * (E::F::one() - bit.clone()));
        }
        std::array::from_fn(|i| {
            let next = (i + 1) % 4;
            let rest = word[next].clone() - top[next].clone() * field(1 << 7);
            top[i].clone() + rest * field(2)
        })
    }

    /// One mixing.
    fn mix(&mut self, [a, b, c, d]: [Word<E::F>; 4], x: &Halves<E::F>, y: &Halves<E::F>) -> [Word<E::F>; 4] {
        let a = self.sum(&[halves(&a), halves(&b), x.clone()]);
        let d = turn(&self.xor(&d, &a), 2);
        let c = self.sum(&[halves(&c), halves(&d)]);
        let xor = self.xor(&b, &c);
        let b = self.turn_by_12(&xor);
        let a = self.sum(&[halves(&a), halves(&b), y.clone()]);
        let d = turn(&self.xor(&d, &a), 1);
        let c = self.sum(&[halves(&c), halves(&d)]);
        let xor = self.xor(&b, &c);
        let b = self.turn_by_7(&xor);
        [a, b, c, d]
    }
}

/// The entry that links rounds: the input of round `number`.
fn link<F: Clone + From<BaseField>>(number: usize, state: &[Word<F>; 16], message: &[Halves<F>; 16]) -> Vec<F> {
    let number = F::from(field(number as u32));
    let parts = state.as_flattened().iter().chain(message.as_flattened());
    std::iter::once(number).chain(parts.cloned()).collect()
}

/// The AIR of one of the ten rounds, with one compression per row.
#[derive(Clone, Debug)]
pub struct RoundEval {
    pub(crate) log_rows: u32,
    pub(crate) number: usize,
    pub(crate) table: XorElements,
    pub(crate) rounds: RoundElements,
}

impl FrameworkEval for RoundEval {
    fn log_size(&self) -> u32 {
        self.log_rows
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.log_rows + 1
    }

    fn evaluate<E: EvalAtRow>(&self, eval: E) -> E {
        let mut words = Words { eval, table: &self.table };
        let mut state: [Word<E::F>; 16] = std::array::from_fn(|_| words.word());
        let message: [Halves<E::F>; 16] = std::array::from_fn(|_| words.message());
        let before = link(self.number, &state, &message);
        words.eval.add_to_relation(RelationEntry::new(&self.rounds, E::EF::one(), &before));

        for (i, places) in MIXINGS.iter().enumerate() {
            let [x, y] = [2 * i, 2 * i + 1].map(|word| &message[SIGMA[self.number][word]]);
            let mixed = words.mix(places.map(|place| state[place].clone()), x, y);
            for (&place, word) in places.iter().zip(mixed) {
                state[place] = word;
            }
        }

        let after = link(self.number + 1, &state, &message);
        words.eval.add_to_relation(RelationEntry::new(&self.rounds, -E::EF::one(), &after));
        words.eval.finalize_logup_in_pairs();
        words.eval
    }
}

/// The AIR around the rounds: a compression's first state, its last state, and the next hash state.
#[derive(Clone, Debug)]
pub struct CompressionEval {
    pub(crate) log_rows: u32,
    pub(crate) table: XorElements,
    pub(crate) rounds: RoundElements,
    pub(crate) chain: ChainElements,
}

impl FrameworkEval for CompressionEval {
    fn log_size(&self) -> u32 {
        self.log_rows
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.log_rows + 1
    }

    fn evaluate<E: EvalAtRow>(&self, eval: E) -> E {
        let mut words = Words { eval, table: &self.table };
        let hash: [Word<E::F>; 8] = std::array::from_fn(|_| words.word());
        let message: [Halves<E::F>; 16] = std::array::from_fn(|_| words.message());
        let first = std::array::from_fn(|i| match i {
            0..8 => hash[i].clone(),
            8..12 => constant(IV[i - 8]),
            _ => constant(TAIL[i - 12]),
        });
        let last: [Word<E::F>; 16] = std::array::from_fn(|_| words.word());
        let folded: [Word<E::F>; 8] = std::array::from_fn(|i| words.xor(&last[i], &last[i + 8]));
        let next: [Word<E::F>; 8] = std::array::from_fn(|i| words.xor(&hash[i], &folded[i]));

        let mut eval = words.eval;
        let one = E::EF::one();
        let first = link(0, &first, &message);
        eval.add_to_relation(RelationEntry::new(&self.rounds, -one.clone(), &first));
        let last = link(ROUNDS, &last, &message);
        eval.add_to_relation(RelationEntry::new(&self.rounds, one.clone(), &last));
        eval.add_to_relation(RelationEntry::new(&self.chain, one.clone(), hash.as_flattened()));
        eval.add_to_relation(RelationEntry::new(&self.chain, -one, next.as_flattened()));
        eval.finalize_logup_in_pairs();
        eval
    }
}

/// Bits of the limbs of the XOR table.
pub(crate) const BITS: u32 = LIMB_BITS;

/// The AIR of the XOR table: yields each row as often as it was used.
#[derive(Clone, Debug)]
pub struct TableEval {
    pub(crate) table: XorElements,
}

impl FrameworkEval for TableEval {
    fn log_size(&self) -> u32 {
        2 * BITS
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        2 * BITS + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
        let row = table_ids(BITS).map(|id| eval.get_preprocessed_column(id));
        let uses = E::EF::from(eval.next_trace_mask());
        eval.add_to_relation(RelationEntry::new(&self.table, -uses, &row));
        eval.finalize_logup();
        eval
    }
}
