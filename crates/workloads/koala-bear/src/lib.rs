//! Plonky3's workloads over KoalaBear and its extension of degree 4.

#[cfg(feature = "full")]
mod hiding;
mod poseidon2;

use p3_field::extension::BinomialExtensionField;
use p3_koala_bear::KoalaBear;
use rigel_statements::Statement;
use rigel_workloads_tables::configs::{self, Challenger32, SpongeMmcs, StarkOf};
use rigel_workloads_tables::{Case, Fri, Hash};

type Extension = BinomialExtensionField<KoalaBear, 4>;

fn keccak(fri: &Fri) -> StarkOf<KoalaBear, Extension, SpongeMmcs<KoalaBear>, Challenger32<KoalaBear>> {
    configs::keccak32(configs::sponge_mmcs(fri), fri)
}

/// The statement of a case with a hash, with the trace hidden if its parameters say so; none if this build has none.
pub fn statement(case: Case, hash: Hash) -> Option<Box<dyn Statement>> {
    match hash {
        #[cfg(feature = "full")]
        Hash::Keccak if case.fri.zk => case.keccak_or_fibonacci(hiding::config),
        Hash::Keccak if !case.fri.zk => case.all(keccak, poseidon2::air),
        #[cfg(feature = "full")]
        Hash::Poseidon2 => case.most(full::poseidon2),
        #[cfg(feature = "full")]
        Hash::Keccak256 => case.fibonacci(full::keccak256),
        _ => None,
    }
}

/// Configurations that only a full build has.
#[cfg(feature = "full")]
mod full {
    use p3_koala_bear::{Poseidon2KoalaBear, default_koalabear_poseidon2_16, default_koalabear_poseidon2_24};
    use rigel_workloads_tables::configs::{BytesMmcs, Poseidon2Config};

    use super::*;

    pub(super) fn keccak256(
        fri: &Fri,
    ) -> StarkOf<KoalaBear, Extension, BytesMmcs<KoalaBear>, Challenger32<KoalaBear>> {
        configs::keccak32(configs::bytes_mmcs(fri), fri)
    }

    type Poseidon2 =
        Poseidon2Config<KoalaBear, Extension, Poseidon2KoalaBear<24>, Poseidon2KoalaBear<16>, 24, 16, 8, 16>;

    pub(super) fn poseidon2(fri: &Fri) -> Poseidon2 {
        configs::poseidon2(default_koalabear_poseidon2_24(), default_koalabear_poseidon2_16(), fri)
    }
}
