//! The number of 32-bit integer instructions of field operations and hashes. These are lower bounds: what the compiled
//! kernels need for the arithmetic alone, without addresses, loads and moves.

use rigel_kernels::field::{BabyBear, Element, Goldilocks, Goldilocks2, KoalaBear, KoalaBear4, Mersenne31, QM31};

use super::measure::Instructions;

const fn count(logic: u32, multiply: u32, either: u32) -> Instructions {
    Instructions { logic: logic as f64, multiply: multiply as f64, either: either as f64 }
}

/// A field or extension whose operations are counted.
pub trait Counted: Element {
    /// One multiplication.
    const PRODUCT: Instructions;
    /// One addition or subtraction.
    const SUM: Instructions;

    /// A butterfly of a transform: a product, a sum and a difference.
    fn butterfly() -> Instructions {
        Self::PRODUCT + Self::SUM * 2.0
    }
}

impl Counted for Mersenne31 {
    const PRODUCT: Instructions = count(3, 1, 1);
    const SUM: Instructions = count(1, 0, 1);
}

impl Counted for BabyBear {
    const PRODUCT: Instructions = count(1, 3, 0);
    const SUM: Instructions = count(1, 0, 1);
}

impl Counted for KoalaBear {
    const PRODUCT: Instructions = count(1, 3, 0);
    const SUM: Instructions = count(1, 0, 1);
}

impl Counted for Goldilocks {
    const PRODUCT: Instructions = count(1, 5, 11);
    const SUM: Instructions = count(1, 0, 6);

    /// Sums are reduced after several levels, and within them roots are shifts, of which none is counted: at most five
    /// levels share a product for each of the two points.
    fn butterfly() -> Instructions {
        count(0, 0, 3) * 2.0 + Self::PRODUCT * 0.4
    }
}

impl Counted for KoalaBear4 {
    const PRODUCT: Instructions = count(17, 24, 3);
    const SUM: Instructions = count(4, 0, 4);
}

impl Counted for Goldilocks2 {
    const PRODUCT: Instructions = count(6, 22, 70);
    const SUM: Instructions = count(2, 0, 12);
}

impl Counted for QM31 {
    const PRODUCT: Instructions = count(40, 16, 15);
    const SUM: Instructions = count(4, 0, 4);
}

/// A transform of `points` points in columns of 2^`log_rows`: half a butterfly per point and level.
pub fn transform<F: Counted>(points: f64, log_rows: u32) -> Instructions {
    F::butterfly() * (points / 2.0 * f64::from(log_rows))
}

/// A transform of `points` points on the circle. A butterfly is a product by a prepared twiddle (one
/// multiplication, a shifted sum, a minimum), a sum and a difference, one of which is reduced.
pub fn circle_transform(points: f64, log_rows: u32) -> Instructions {
    count(3, 1, 2) * (points / 2.0 * f64::from(log_rows))
}

/// Keccak-f\[1600\]. A round on 32-bit halves: column parities 20, their rotation 10, theta 50, rho 48, chi 50, iota 2.
pub const KECCAK_F: Instructions = count(24 * 180, 0, 0);

/// The Blake2s compression: 10 rounds of 8 mixes of 4 three- or two-way additions, 4 XORs and 4 rotations.
pub const BLAKE2S: Instructions = count(10 * 8 * 8, 0, 10 * 8 * 4);

/// Poseidon2 with 8 full rounds, an S-box of `power` products, and additions for all but the S-box.
pub fn poseidon2<F: Counted>(width: u32, partial_rounds: u32, power: u32) -> Instructions {
    let external = 9 * width / 4 + (width - 4) + width;
    let internal = (width - 1) + 2 * width;
    let products = (8 * width + partial_rounds) * power;
    let sums = 9 * external + 8 * width + partial_rounds * (internal + 1);
    F::PRODUCT * f64::from(products) + F::SUM * f64::from(sums)
}
