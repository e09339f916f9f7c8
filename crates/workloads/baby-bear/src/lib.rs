//! Plonky3's workloads over BabyBear and its extension of degree 4.

use p3_baby_bear::{BabyBear, Poseidon2BabyBear, default_babybear_poseidon2_16, default_babybear_poseidon2_24};
use p3_field::extension::BinomialExtensionField;
use rigel_statements::Statement;
use rigel_workloads_tables::configs::{self, Challenger32, Poseidon2Config, SpongeMmcs, StarkOf};
use rigel_workloads_tables::{Case, Fri, Hash};

type Extension = BinomialExtensionField<BabyBear, 4>;

fn keccak(fri: &Fri) -> StarkOf<BabyBear, Extension, SpongeMmcs<BabyBear>, Challenger32<BabyBear>> {
    configs::keccak32(configs::sponge_mmcs(fri), fri)
}

type Poseidon2 = Poseidon2Config<BabyBear, Extension, Poseidon2BabyBear<24>, Poseidon2BabyBear<16>, 24, 16, 8, 16>;

fn poseidon2(fri: &Fri) -> Poseidon2 {
    configs::poseidon2(default_babybear_poseidon2_24(), default_babybear_poseidon2_16(), fri)
}

/// The statement of a case with a hash, if there is one.
pub fn statement(case: Case, hash: Hash) -> Option<Box<dyn Statement>> {
    match hash {
        Hash::Keccak => case.most(keccak),
        Hash::Poseidon2 => case.fibonacci(poseidon2),
        Hash::Keccak256 => None,
    }
}
