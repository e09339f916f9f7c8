//! Blake2s's compression function on words, and its constants (RFC 7693).

/// The number of rounds of a compression.
pub(crate) const ROUNDS: usize = 10;

/// The initial values.
pub(crate) const IV: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// The hash state before the first block, for digests of 32 bytes without a key.
pub(crate) const START: [u32; 8] = [IV[0] ^ 0x0101_0020, IV[1], IV[2], IV[3], IV[4], IV[5], IV[6], IV[7]];

/// The order in which each round takes the words of the message.
pub(crate) const SIGMA: [[usize; 16]; ROUNDS] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/// The words of the state that each of a round's eight mixings takes: the columns, then the diagonals.
pub(crate) const MIXINGS: [[usize; 4]; 8] = [
    [0, 4, 8, 12],
    [1, 5, 9, 13],
    [2, 6, 10, 14],
    [3, 7, 11, 15],
    [0, 5, 10, 15],
    [1, 6, 11, 12],
    [2, 7, 8, 13],
    [3, 4, 9, 14],
];

/// The initial values of the last four words of the state: all blocks have 64 bytes, and each is compressed as the
/// last block.
pub(crate) const TAIL: [u32; 4] = [IV[4] ^ 64, IV[5], !IV[6], IV[7]];

/// The state that a compression starts with.
pub(crate) fn initial(hash: &[u32; 8]) -> [u32; 16] {
    std::array::from_fn(|i| match i {
        0..8 => hash[i],
        8..12 => IV[i - 8],
        _ => TAIL[i - 12],
    })
}

/// One mixing of four words with two of the message.
pub(crate) fn mix([a, b, c, d]: [u32; 4], x: u32, y: u32) -> [u32; 4] {
    let half = |[a, b, c, d]: [u32; 4], word: u32, turns: [u32; 2]| {
        let a = a.wrapping_add(b).wrapping_add(word);
        let d = (d ^ a).rotate_right(turns[0]);
        let c = c.wrapping_add(d);
        let b = (b ^ c).rotate_right(turns[1]);
        [a, b, c, d]
    };
    half(half([a, b, c, d], x, [16, 12]), y, [8, 7])
}

/// One round. Calls `each(state before, x, y)` for every mixing.
pub(crate) fn round(
    state: &mut [u32; 16],
    message: &[u32; 16],
    number: usize,
    mut each: impl FnMut([u32; 4], u32, u32),
) {
    for (i, places) in MIXINGS.iter().enumerate() {
        let [x, y] = [2 * i, 2 * i + 1].map(|word| message[SIGMA[number][word]]);
        let before = places.map(|place| state[place]);
        each(before, x, y);
        for (&place, word) in places.iter().zip(mix(before, x, y)) {
            state[place] = word;
        }
    }
}

/// The compression function: the next hash state.
pub(crate) fn compress(hash: &[u32; 8], message: &[u32; 16]) -> [u32; 8] {
    let mut state = initial(hash);
    for number in 0..ROUNDS {
        round(&mut state, message, number, |_, _, _| ());
    }
    std::array::from_fn(|i| hash[i] ^ state[i] ^ state[i + 8])
}

#[cfg(test)]
mod tests {
    use stwo::core::vcs::blake2_hash::Blake2sHasher;

    use super::*;

    #[test]
    fn one_block_is_blake2s() {
        let message: [u32; 16] = std::array::from_fn(|i| (i as u32 + 1).wrapping_mul(0x9e37_79b9));
        let bytes: Vec<u8> = message.iter().flat_map(|word| word.to_le_bytes()).collect();
        let digest: Vec<u8> = compress(&START, &message).iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(digest, Blake2sHasher::hash(&bytes).0);
    }
}
