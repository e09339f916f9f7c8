// Counts how often values occur, with dictionaries, and hashes them: arguments, dictionaries, range checks, bitwise
// operations, Pedersen and Poseidon as Cairo 1 uses them. Without values it panics.
use core::dict::Felt252Dict;
use core::pedersen::pedersen;
use core::poseidon::poseidon_hash_span;

#[executable]
fn main(values: Array<u32>) -> (u32, u128, u128, felt252, felt252) {
    if values.is_empty() {
        panic!("a census needs at least one value");
    }
    let mut counts: Felt252Dict<u32> = Default::default();
    let mut last: Felt252Dict<u32> = Default::default();
    let mut most: u32 = 0;
    let mut distance: u128 = 0;
    let mut bits: u128 = 0;
    let mut chain: felt252 = 0;
    let mut hashed: Array<felt252> = array![];
    let mut i: u32 = 0;
    while i != values.len() {
        let value = *values.at(i);
        let key: felt252 = value.into();
        let count = counts.get(key) + 1;
        counts.insert(key, count);
        if count > most {
            most = count;
        }
        let wide: u128 = value.into();
        // A square as a 256-bit number, divided by a number of the same width.
        let square: u256 = u256 { low: wide * wide, high: wide };
        let (quotient, _) = DivRem::div_rem(square, u256 { low: wide + 7, high: 1 }.try_into().unwrap());
        distance += quotient.low & 0xffff;
        distance += (i - last.get(key)).into();
        last.insert(key, i);
        bits = bits ^ (wide | 0x10);
        chain = pedersen(chain, key);
        hashed.append(key);
        i += 1;
    }
    (most, distance, bits, chain, poseidon_hash_span(hashed.span()))
}
