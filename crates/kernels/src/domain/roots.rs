//! The roots of unity from which kernels compute points and twiddles.

use rigel_gpu::{Error, Result};

use crate::code::parameters;
use crate::field::Field;

/// The orders, 2 to 2^32, of the roots passed to kernels.
pub(crate) const ORDERS: usize = 32;

parameters! {
    /// The roots of unity of order 2, 4, 8 and so on, or their inverses.
    pub(crate) struct ReversedPowers<F: Field> = format!("ReversedPowers<{}>", F::NAME) => {
        roots: [F; ORDERS],
    }
}

impl<F: Field> ReversedPowers<F> {
    /// The roots that exist in the field.
    pub(crate) fn new() -> Self {
        Self::by(F::two_adic_generator)
    }

    /// The inverses of the roots that exist in the field.
    pub(crate) fn inverse() -> Self {
        Self::by(|bits| F::two_adic_generator(bits).pow((1 << bits) - 1))
    }

    fn by(root: impl Fn(u32) -> F) -> Self {
        let known = |k| if k < F::TWO_ADICITY as usize { root(k as u32 + 1) } else { F::ONE };
        Self { roots: std::array::from_fn(known) }
    }

    /// The root of order 2^l to the power of i with its l bits reversed, for any l with i < 2^l.
    pub(crate) fn at(&self, i: usize) -> F {
        (0..32).filter(|k| i >> k & 1 == 1).fold(F::ONE, |power, k| power * self.roots[k])
    }
}

/// The largest domain of a launch, as a logarithm: indices are 32-bit words.
const MAX_LOG_SIZE: u32 = 31;

/// Checks that the field has a domain of 2^`log_size` points.
pub(crate) fn check_domain<F: Field>(operation: &'static str, log_size: u32) -> Result<()> {
    let most = F::TWO_ADICITY.min(MAX_LOG_SIZE);
    if log_size > most {
        return Err(Error::shape(
            operation,
            format!("2^{log_size} points; over {} there are at most 2^{most}", F::NAME),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Goldilocks, KoalaBear};

    #[test]
    fn powers_come_in_bit_reversed_order() {
        fn check<F: Field>() {
            let (powers, inverses) = (ReversedPowers::<F>::new(), ReversedPowers::<F>::inverse());
            let root = F::two_adic_generator(5);
            for i in 0..32usize {
                let power = root.pow(u64::from((i as u32).reverse_bits() >> 27));
                assert_eq!(powers.at(i), power);
                assert_eq!(inverses.at(i) * power, F::ONE);
            }
        }
        check::<KoalaBear>();
        check::<Goldilocks>();
    }
}
