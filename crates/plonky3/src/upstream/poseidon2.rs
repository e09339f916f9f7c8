//! The round constants of upstream's Poseidon2 permutations.
//!
//! Kernels take the constants as parameters. Upstream keeps them private, and a permutation does not reveal them by
//! what it computes: finding them from inputs and outputs would be an attack on Poseidon2. But upstream's
//! permutations over KoalaBear and BabyBear print them (`Debug`), and so does a PCS whose trees use them: that is where
//! they are read. Those over Goldilocks do not print; for constants that are not upstream's defaults, give them to
//! [`Prover::with_hash`](crate::Prover::with_hash). In both cases [`Prover::new`](crate::Prover::new) compares
//! commitments of upstream and of the kernels before it returns.

use std::fmt::{self, Debug};

use p3_baby_bear::{self as baby_bear, BabyBear, Poseidon2BabyBear};
use p3_goldilocks::{self as goldilocks, Goldilocks, Poseidon2Goldilocks};
use p3_koala_bear::{self as koala_bear, KoalaBear, Poseidon2KoalaBear};
use p3_poseidon2::ExternalLayerConstants;
use rigel_kernels::hash::poseidon2::{self as shapes, Poseidon2Shape};
use rigel_kernels::hash::{Constants, RoundConstants};

use crate::base::error::{Error, Result};
use crate::upstream::field::DeviceField;

/// The constants that upstream's `Poseidon2::new` takes, for the kernels.
pub fn round_constants<V: DeviceField, const WIDTH: usize>(
    external: &ExternalLayerConstants<V, WIDTH>,
    internal: &[V],
) -> RoundConstants<V::Device> {
    let rounds =
        |rounds: &[[V; WIDTH]]| rounds.iter().map(|round| V::as_device(round).to_vec()).collect::<Vec<_>>();
    RoundConstants {
        initial: rounds(external.get_initial_constants()),
        terminal: rounds(external.get_terminal_constants()),
        partial: V::as_device(internal).to_vec(),
    }
}

/// Upstream's permutations for which there are kernels.
pub trait DevicePermutation<V: DeviceField> {
    /// The shape of the kernels' permutation.
    type Shape: Poseidon2Shape<Field = V::Device>;

    /// The constants of upstream's default instance.
    fn defaults() -> RoundConstants<V::Device>;

    /// The constants of this permutation, or `None` if upstream does not print them.
    fn constants(&self) -> Option<Result<RoundConstants<V::Device>>>;
}

macro_rules! permutations {
    ($($field:ty, $permutation:ty, $module:ident => $shape:ident:
        $initial:ident $terminal:ident $partial:ident, $constants:expr;)*) => { $(
        impl DevicePermutation<$field> for $permutation {
            type Shape = shapes::$shape;

            fn defaults() -> RoundConstants<<$field as DeviceField>::Device> {
                let external = ExternalLayerConstants::new($module::$initial.to_vec(), $module::$terminal.to_vec());
                round_constants(&external, &$module::$partial)
            }

            fn constants(&self) -> Option<Result<RoundConstants<<$field as DeviceField>::Device>>> {
                let constants: fn(&Self) -> _ = $constants;
                constants(self)
            }
        }
    )* };
}

permutations! {
    KoalaBear, Poseidon2KoalaBear<16>, koala_bear => KoalaBearWidth16:
        KOALABEAR_POSEIDON2_RC_16_EXTERNAL_INITIAL KOALABEAR_POSEIDON2_RC_16_EXTERNAL_FINAL
        KOALABEAR_POSEIDON2_RC_16_INTERNAL, |this| Some(printed::<KoalaBear>(this));
    KoalaBear, Poseidon2KoalaBear<24>, koala_bear => KoalaBearWidth24:
        KOALABEAR_POSEIDON2_RC_24_EXTERNAL_INITIAL KOALABEAR_POSEIDON2_RC_24_EXTERNAL_FINAL
        KOALABEAR_POSEIDON2_RC_24_INTERNAL, |this| Some(printed::<KoalaBear>(this));
    KoalaBear, Poseidon2KoalaBear<32>, koala_bear => KoalaBearWidth32:
        KOALABEAR_POSEIDON2_RC_32_EXTERNAL_INITIAL KOALABEAR_POSEIDON2_RC_32_EXTERNAL_FINAL
        KOALABEAR_POSEIDON2_RC_32_INTERNAL, |this| Some(printed::<KoalaBear>(this));
    BabyBear, Poseidon2BabyBear<16>, baby_bear => BabyBearWidth16:
        BABYBEAR_POSEIDON2_RC_16_EXTERNAL_INITIAL BABYBEAR_POSEIDON2_RC_16_EXTERNAL_FINAL
        BABYBEAR_POSEIDON2_RC_16_INTERNAL, |this| Some(printed::<BabyBear>(this));
    BabyBear, Poseidon2BabyBear<24>, baby_bear => BabyBearWidth24:
        BABYBEAR_POSEIDON2_RC_24_EXTERNAL_INITIAL BABYBEAR_POSEIDON2_RC_24_EXTERNAL_FINAL
        BABYBEAR_POSEIDON2_RC_24_INTERNAL, |this| Some(printed::<BabyBear>(this));
    BabyBear, Poseidon2BabyBear<32>, baby_bear => BabyBearWidth32:
        BABYBEAR_POSEIDON2_RC_32_EXTERNAL_INITIAL BABYBEAR_POSEIDON2_RC_32_EXTERNAL_FINAL
        BABYBEAR_POSEIDON2_RC_32_INTERNAL, |this| Some(printed::<BabyBear>(this));
    Goldilocks, Poseidon2Goldilocks<8>, goldilocks => GoldilocksWidth8:
        GOLDILOCKS_POSEIDON2_RC_8_EXTERNAL_INITIAL GOLDILOCKS_POSEIDON2_RC_8_EXTERNAL_FINAL
        GOLDILOCKS_POSEIDON2_RC_8_INTERNAL, |_| None;
    Goldilocks, Poseidon2Goldilocks<12>, goldilocks => GoldilocksWidth12:
        GOLDILOCKS_POSEIDON2_RC_12_EXTERNAL_INITIAL GOLDILOCKS_POSEIDON2_RC_12_EXTERNAL_FINAL
        GOLDILOCKS_POSEIDON2_RC_12_INTERNAL, |_| None;
    Goldilocks, Poseidon2Goldilocks<16>, goldilocks => GoldilocksWidth16:
        GOLDILOCKS_POSEIDON2_RC_16_EXTERNAL_INITIAL GOLDILOCKS_POSEIDON2_RC_16_EXTERNAL_FINAL
        GOLDILOCKS_POSEIDON2_RC_16_INTERNAL, |_| None;
}

/// The constants with which a search for a proof of work may try a permutation: its own, or those of the default
/// instance where upstream does not print them.
pub(crate) fn search_constants<V: DeviceField, P: DevicePermutation<V>>(permutation: &P) -> Result<Constants> {
    let constants = permutation.constants().unwrap_or_else(|| Ok(P::defaults()))?;
    Ok(P::Shape::constants(&constants)?)
}

/// The constants of a permutation that prints them.
fn printed<V: DeviceField>(permutation: &impl Debug) -> Result<RoundConstants<V::Device>> {
    first::<V>(&mut format!("{permutation:?}").as_str())
}

/// The constants of the two permutations in the trees of a PCS that prints them: for rows, and for nodes.
pub(crate) fn printed_by_trees<V: DeviceField>(
    print: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result,
) -> Result<[RoundConstants<V::Device>; 2]> {
    let mut trees = TreesText::default();
    // The text ends early, when everything is known; the cached twiddles of a PCS can be many.
    let _ = print(&mut trees);
    let mut text = trees.text.as_str();
    Ok([first::<V>(&mut text)?, first::<V>(&mut text)?])
}

/// Keeps what a PCS prints of its first trees: `MerkleTreeMmcs { hash: .., compress: .., cap_height: .. }`.
#[derive(Default)]
struct TreesText {
    text: String,
    begun: bool,
}

impl TreesText {
    const BEGIN: &'static str = " MerkleTreeMmcs {";
    const END: &'static str = ", cap_height: ";
}

impl fmt::Write for TreesText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.text.push_str(piece);
        if !self.begun {
            if let Some(at) = self.text.find(Self::BEGIN) {
                self.text.drain(..at);
                self.begun = true;
            } else if self.text.len() > 4096 {
                // The beginning may be cut; all that is printed here is ASCII, other text is kept.
                let cut = self.text.len() - Self::BEGIN.len();
                if self.text.is_char_boundary(cut) {
                    self.text.drain(..cut);
                }
            }
        }
        if self.begun && self.text.ends_with(Self::END) { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Reads the constants of the first permutation in a text, and leaves the text after it:
/// `ExternalLayerConstants { initial: [[..], ..], terminal: [[..], ..] }`, then `internal_constants: [..]`.
fn first<V: DeviceField>(text: &mut &str) -> Result<RoundConstants<V::Device>> {
    skip(text, "ExternalLayerConstants { initial: ")?;
    let initial = rounds::<V>(text)?;
    skip(text, "terminal: ")?;
    let terminal = rounds::<V>(text)?;
    skip(text, "internal_layer: ")?;
    skip(text, "internal_constants: ")?;
    Ok(RoundConstants { initial, terminal, partial: list::<V>(text)? })
}

/// Leaves the text after the first occurrence of a name.
fn skip(text: &mut &str, name: &str) -> Result<()> {
    *text = text.split_once(name).ok_or_else(|| unread(name))?.1;
    Ok(())
}

/// A list of lists: `[[1, 2], [3, 4]]`.
fn rounds<V: DeviceField>(text: &mut &str) -> Result<Vec<Vec<V::Device>>> {
    let mut rounds = Vec::new();
    *text = text.strip_prefix('[').ok_or_else(|| unread("["))?;
    loop {
        if let Some(rest) = text.strip_prefix(']') {
            *text = rest;
            return Ok(rounds);
        }
        *text = text.strip_prefix(", ").unwrap_or(text);
        rounds.push(list::<V>(text)?);
    }
}

/// A list of elements in canonical form: `[1, 2, 3]`.
fn list<V: DeviceField>(text: &mut &str) -> Result<Vec<V::Device>> {
    let (list, rest) =
        text.strip_prefix('[').and_then(|text| text.split_once(']')).ok_or_else(|| unread("[numbers]"))?;
    *text = rest;
    let element = |number: &str| {
        let number = number.parse::<u64>().ok().filter(|&number| number < V::ORDER_U64);
        number.map(|number| V::from_u64(number).twin()).ok_or_else(|| unread("a number"))
    };
    list.split(", ").map(element).collect()
}

fn unread(wanted: &str) -> Error {
    Error::Unsupported(format!(
        "the round constants of Poseidon2 can't be read from what the configuration prints (no `{wanted}` where one \
         is expected); give them to Prover::with_hash"
    ))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    #[test]
    fn permutations_print_the_constants_that_they_were_made_with() {
        fn check<V: DeviceField, P: DevicePermutation<V>>(permutation: &P, external_rounds: usize) {
            let read = permutation.constants().unwrap().unwrap();
            assert_eq!((read.initial.len(), read.terminal.len()), (external_rounds / 2, external_rounds / 2));
            P::Shape::constants(&read).unwrap();
        }
        let defaults = koala_bear::default_koalabear_poseidon2_16();
        assert_eq!(defaults.constants().unwrap().unwrap(), Poseidon2KoalaBear::<16>::defaults());
        let defaults = baby_bear::default_babybear_poseidon2_32();
        assert_eq!(defaults.constants().unwrap().unwrap(), Poseidon2BabyBear::<32>::defaults());
        let mut rng = SmallRng::seed_from_u64(1);
        check::<KoalaBear, _>(&Poseidon2KoalaBear::<24>::new_from_rng_128(&mut rng), 8);
        check::<BabyBear, _>(&Poseidon2BabyBear::<16>::new_from_rng_128(&mut rng), 8);
        assert!(goldilocks::default_goldilocks_poseidon2_8().constants().is_none());
    }

    #[test]
    fn numbers_of_rounds_without_kernels_are_refused() {
        let odd = Poseidon2KoalaBear::<16>::new_from_rng(6, 11, &mut SmallRng::seed_from_u64(1));
        let error = search_constants::<KoalaBear, _>(&odd).unwrap_err().to_string();
        assert!(
            error.contains("3 + 3 full") && error.contains("11 partial") && error.contains("20 partial"),
            "{error}"
        );
    }

    #[test]
    fn other_text_is_an_error() {
        for text in ["", "ExternalLayerConstants { initial: ", "ExternalLayerConstants { initial: [[1, x]]"] {
            let error = first::<KoalaBear>(&mut &*text).unwrap_err().to_string();
            assert!(error.contains("Prover::with_hash"), "{error}");
        }
    }
}
