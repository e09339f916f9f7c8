//! The Poseidon2 permutation equals Plonky3's with the same constants.

use p3_field::PrimeField32;
use p3_mersenne_31::{Mersenne31, Poseidon2Mersenne31};
use p3_poseidon2::ExternalLayerConstants;
use p3_symmetric::Permutation;
use rigel_stwo_workloads::poseidon2::{CONSTANTS, State, permute};
use stwo::core::fields::m31::BaseField;

#[test]
fn equals_plonky3() {
    let element = |value: &BaseField| Mersenne31::new(value.0);
    let states = |states: &[State]| states.iter().map(|state| state.each_ref().map(element)).collect();
    let external = ExternalLayerConstants::new(states(&CONSTANTS.first), states(&CONSTANTS.last));
    let oracle = Poseidon2Mersenne31::<16>::new(external, CONSTANTS.partial.iter().map(element).collect());

    let mut state: State =
        std::array::from_fn(|i| BaseField::from_u32_unchecked(i as u32 * 123_456_789 % 0x7fff_ffff));
    for _ in 0..3 {
        let expected = oracle.permute(state.each_ref().map(element));
        state = permute(state);
        assert_eq!(state.map(|value| value.0), expected.map(|value| value.as_canonical_u32()));
    }
}
