//! Plonky3's workloads over Goldilocks and its extensions of degrees 2 and 3.

mod poseidon2;

use p3_field::extension::{BinomialExtensionField, CubicTrinomialExtensionField};
use p3_goldilocks::{Goldilocks, Poseidon2Goldilocks, default_goldilocks_poseidon2_8};
use rigel_statements::Statement;
use rigel_workloads_tables::configs::{self, Challenger64, Poseidon2Config, SpongeMmcs, StarkOf};
use rigel_workloads_tables::{Case, Fri, Hash};

type Extension2 = BinomialExtensionField<Goldilocks, 2>;
type Extension3 = CubicTrinomialExtensionField<Goldilocks>;
type Keccak<E> = StarkOf<Goldilocks, E, SpongeMmcs<Goldilocks>, Challenger64<Goldilocks>>;

fn keccak<E: Clone>(fri: &Fri) -> Keccak<E> {
    configs::keccak64(configs::sponge_mmcs(fri), fri)
}

type Poseidon2 =
    Poseidon2Config<Goldilocks, Extension2, Poseidon2Goldilocks<8>, Poseidon2Goldilocks<8>, 8, 4, 4, 8>;

fn poseidon2(fri: &Fri) -> Poseidon2 {
    let permutation = default_goldilocks_poseidon2_8();
    configs::poseidon2(permutation.clone(), permutation, fri)
}

/// The statement of a case with a hash over the extension of degree 2, if there is one.
pub fn statement(case: Case, hash: Hash) -> Option<Box<dyn Statement>> {
    match hash {
        Hash::Keccak => case.all(keccak::<Extension2>, poseidon2::air),
        Hash::Poseidon2 => case.fibonacci(poseidon2),
        Hash::Keccak256 => None,
    }
}

/// The statement of a case with a hash over the extension of degree 3, if there is one.
pub fn statement_of_degree_3(case: Case, hash: Hash) -> Option<Box<dyn Statement>> {
    if hash == Hash::Keccak { case.fibonacci(keccak::<Extension3>) } else { None }
}
