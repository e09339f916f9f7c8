//! Poseidon2 with round constants that are given at run time.
//!
//! The constants are a parameter of the kernels, in the constant memory that all parameters are in, so that one
//! compiled kernel serves every set of constants. That costs nearly nothing: with fixed constants the kernels have the
//! same registers on sm_90 (48 for KoalaBear of width 16, 56 of width 24, 48 for Goldilocks of width 8), and up to 16
//! fewer of 1,000 to 2,000 instructions.

use std::fmt::Debug;
use std::marker::PhantomData;

use rigel_gpu::{Error, Plain, Result};

use super::{Constants, Hash, Permutation, RowHash, Sponge};
use crate::field::{BabyBear, Field, Goldilocks, KoalaBear, Ring};

/// Full rounds before the partial ones, and as many after them.
pub const HALF_FULL_ROUNDS: usize = 4;

/// The round constants of a Poseidon2 permutation, in the order of upstream's `Poseidon2::new`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundConstants<F> {
    /// The constants of the full rounds before the partial ones, one for each element of the state.
    pub initial: Vec<Vec<F>>,
    /// The constants of the full rounds after the partial ones.
    pub terminal: Vec<Vec<F>>,
    /// The constants of the partial rounds.
    pub partial: Vec<F>,
}

/// A shape of Poseidon2 for which there are kernels: its field, width, rate and number of rounds.
///
/// # Safety
///
/// The names are those of types in `hash/poseidon2.cuh` with this field, width, rate and number of partial rounds.
/// `Digest` has 32 bytes.
pub unsafe trait Poseidon2Shape: Debug + Copy + Send + Sync + 'static {
    /// The field of the state's elements.
    type Field: Field;
    /// A digest: as many elements as fill 32 bytes.
    type Digest: Plain + Debug + Default + Eq;
    /// Elements of the state.
    const WIDTH: usize;
    /// Elements absorbed per permutation.
    const RATE: usize;
    /// Partial rounds.
    const PARTIAL_ROUNDS: usize;
    /// The C++ type of the sponge.
    const NAME: &'static str;
    /// The C++ type of its round constants.
    const CONSTANTS: &'static str;

    /// The constants as kernels take them.
    fn constants(constants: &RoundConstants<Self::Field>) -> Result<Constants> {
        let RoundConstants { initial, terminal, partial } = constants;
        let full = [initial, terminal].iter().all(|rounds| {
            rounds.len() == HALF_FULL_ROUNDS && rounds.iter().all(|round| round.len() == Self::WIDTH)
        });
        if !full || partial.len() != Self::PARTIAL_ROUNDS {
            let width = initial.iter().chain(terminal).map(Vec::len).find(|&len| len != Self::WIDTH);
            return Err(Error::shape(
                "Poseidon2",
                format!(
                    "constants of {} + {} full rounds of width {} and {} partial rounds; {} of width {} has \
                     {HALF_FULL_ROUNDS} + {HALF_FULL_ROUNDS} full and {} partial rounds",
                    initial.len(),
                    terminal.len(),
                    width.unwrap_or(Self::WIDTH),
                    partial.len(),
                    Self::Field::NAME,
                    Self::WIDTH,
                    Self::PARTIAL_ROUNDS,
                ),
            ));
        }
        // The order of the fields of the C++ struct.
        let values: Vec<Self::Field> =
            initial.iter().flatten().chain(partial).chain(terminal.iter().flatten()).copied().collect();
        Ok(Constants::of(&values))
    }
}

/// Plonky3's `PaddingFreeSponge` of Poseidon2 of the shape `R` for rows, and its `TruncatedPermutation` of Poseidon2 of
/// the shape `N`, whose rate does not matter, for nodes. Digests are 32 bytes.
#[derive(Clone, Debug)]
pub struct Poseidon2<R, N> {
    rows: Constants,
    nodes: Constants,
    shapes: PhantomData<(R, N)>,
}

impl<R: Poseidon2Shape, N: Poseidon2Shape<Field = R::Field>> Poseidon2<R, N> {
    /// The hash with these round constants. It is an error if their numbers are not those of the shapes.
    pub fn new(rows: &RoundConstants<R::Field>, nodes: &RoundConstants<R::Field>) -> Result<Self> {
        Ok(Self { rows: R::constants(rows)?, nodes: N::constants(nodes)?, shapes: PhantomData })
    }
}

impl<R: Poseidon2Shape> Poseidon2<R, R> {
    /// The hash with the constants of [`Poseidon2Shape::constants`] for rows and nodes, or `None` if they are of
    /// another size.
    pub fn permutation(constants: &Constants) -> Option<Self> {
        let numbers = 2 * HALF_FULL_ROUNDS * R::WIDTH + R::PARTIAL_ROUNDS;
        (constants.bytes() == numbers * size_of::<R::Field>()).then(|| Self {
            rows: constants.clone(),
            nodes: constants.clone(),
            shapes: PhantomData,
        })
    }
}

// SAFETY: the shapes name types of the header, and `Poseidon2Shape` demands digests of 32 bytes.
unsafe impl<R: Poseidon2Shape, N: Poseidon2Shape<Field = R::Field>> Hash for Poseidon2<R, N> {
    type Digest = R::Digest;

    const ROWS: &'static str = R::NAME;
    const NODES: &'static str = N::NAME;
    const HEADER: &'static str = "hash/poseidon2.cuh";
    const ROW_CONSTANTS: Option<&'static str> = Some(R::CONSTANTS);
    const NODE_CONSTANTS: Option<&'static str> = Some(N::CONSTANTS);

    fn row_constants(&self) -> Constants {
        self.rows.clone()
    }

    fn node_constants(&self) -> Constants {
        self.nodes.clone()
    }
}

impl<R, N, F> RowHash<F> for Poseidon2<R, N>
where
    R: Poseidon2Shape<Field = F>,
    N: Poseidon2Shape<Field = F>,
    F: Field,
{
}

impl<R: Poseidon2Shape, N: Poseidon2Shape<Field = R::Field>> Permutation for Poseidon2<R, N> {
    type Field = R::Field;
    const WIDTH: usize = R::WIDTH;
}

impl<R: Poseidon2Shape, N: Poseidon2Shape<Field = R::Field>> Sponge for Poseidon2<R, N> {
    const BLOCK_BYTES: usize = R::RATE * size_of::<R::Field>();
    const STATE_BYTES: usize = R::WIDTH * size_of::<R::Field>();
}

macro_rules! shapes {
    ($($field:ident, digests of $digest:literal {
        $($shape:ident: $width:literal / $rate:literal, $partial:literal;)*
    })*) => { $( $(
        #[doc = concat!(stringify!($field), ": width ", $width, ", rate ", $rate, ", ", $partial, " partial rounds.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $shape;

        // SAFETY: the header has this instance; the device tests compare each with upstream's permutation.
        unsafe impl Poseidon2Shape for $shape {
            type Field = $field;
            type Digest = [$field; $digest];
            const WIDTH: usize = $width;
            const RATE: usize = $rate;
            const PARTIAL_ROUNDS: usize = $partial;
            const NAME: &'static str =
                concat!("Poseidon2Sponge<", stringify!($field), ", ", $width, ", ", $rate, ", ", $digest, ">");
            const CONSTANTS: &'static str = concat!("Poseidon2<", stringify!($field), ", ", $width, ">::Constants");
        }
    )* )* };
}

shapes! {
    KoalaBear, digests of 8 {
        KoalaBearWidth16: 16 / 8, 20;
        KoalaBearWidth24Rate8: 24 / 8, 23;
        KoalaBearWidth24: 24 / 16, 23;
        KoalaBearWidth32Rate8: 32 / 8, 31;
        KoalaBearWidth32Rate16: 32 / 16, 31;
        KoalaBearWidth32: 32 / 24, 31;
    }
    BabyBear, digests of 8 {
        BabyBearWidth16: 16 / 8, 13;
        BabyBearWidth24Rate8: 24 / 8, 21;
        BabyBearWidth24: 24 / 16, 21;
        BabyBearWidth32Rate8: 32 / 8, 30;
        BabyBearWidth32Rate16: 32 / 16, 30;
        BabyBearWidth32: 32 / 24, 30;
    }
    Goldilocks, digests of 4 {
        GoldilocksWidth8: 8 / 4, 22;
        GoldilocksWidth12Rate4: 12 / 4, 22;
        GoldilocksWidth12: 12 / 8, 22;
        GoldilocksWidth16Rate4: 16 / 4, 22;
        GoldilocksWidth16Rate8: 16 / 8, 22;
        GoldilocksWidth16: 16 / 12, 22;
    }
}
