//! The elements that combine the tuples of lookups, drawn after the commitment to the trace.
//!
//! A relation is a multiset of tuples. An entry (x_0, .., x_{k-1}) of multiplicity m contributes m / (sum_i
//! alpha^i x_i - z). If the contributions of all components and of the public data sum to zero, then every tuple
//! is used (m > 0) as often as it is yielded (m < 0), except with a probability of about entries / 2^124.

use num_traits::One;
use stwo::core::channel::Channel;
use stwo::core::fields::FieldExpOps;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo_constraint_framework::logup::LookupElements;

/// A pair (z, alpha) for each relation of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elements(Vec<[SecureField; 2]>);

impl Elements {
    /// Draws the pairs of `relations` relations, in the order of upstream's `LookupElements::draw`.
    pub(crate) fn draw(channel: &mut impl Channel, relations: usize) -> Self {
        let pair = |_| {
            let drawn = channel.draw_secure_felts(2);
            [drawn[0], drawn[1]]
        };
        Self((0..relations).map(pair).collect())
    }

    /// Elements for a statement of which only the shape matters.
    pub(crate) fn placeholder(relations: usize) -> Self {
        let pair = |first| [1, 2].map(|second| SecureField::from_u32_unchecked(first, second, 3, 4));
        Self((0..relations as u32).map(pair).collect())
    }

    /// Upstream's elements of relation number `index`, for tuples of up to N values.
    pub fn relation<const N: usize>(&self, index: usize) -> LookupElements<N> {
        let [z, alpha] = self.0[index];
        let mut alpha_powers = [SecureField::one(); N];
        for i in 1..N {
            alpha_powers[i] = alpha_powers[i - 1] * alpha;
        }
        LookupElements { z, alpha, alpha_powers }
    }
}

/// The contribution m / (sum_i alpha^i x_i - z) of one public entry.
pub(crate) fn fraction<const N: usize>(
    elements: &LookupElements<N>,
    multiplicity: BaseField,
    values: &[BaseField],
) -> SecureField {
    let denominator: SecureField = elements.combine(values);
    denominator.inverse() * multiplicity
}

/// Declares upstream's relations with their tuple sizes, and constructs them from drawn elements.
macro_rules! relations {
    ($($name:ident: $size:literal),+) => {
        // The items that upstream's macro defines have no documentation.
        #[allow(missing_docs, unreachable_pub)]
        mod relation {
            use stwo_constraint_framework::logup::LookupElements;
            $(
                stwo_constraint_framework::relation!($name, $size);

                impl From<LookupElements<$size>> for $name {
                    fn from(elements: LookupElements<$size>) -> Self {
                        Self(elements)
                    }
                }
            )+
        }
        pub(crate) use relation::{$($name),+};
    };
}
pub(crate) use relations;
