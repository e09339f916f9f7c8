// Upstream's fast deductions of Blake2s. BLAKE_SIGMA stands above this text: 16 words for each round.

struct TripleXor32 {
    static RIGEL_INLINE UInt32 deduce_output(const Array<UInt32, 3>& x) { return x[0] ^ x[1] ^ x[2]; }
};

struct BlakeRoundSigma {
    static RIGEL_INLINE Array<M31, 16> deduce_output(M31 round) {
        Array<M31, 16> sigma;
        for (u32 i = 0; i < 16; ++i) {
            sigma.v[i] = M31{BLAKE_SIGMA[16 * (round.v < BLAKE_ROUNDS ? round.v : 0) + i]};
        }
        return sigma;
    }
};

// a, b, c, d and two words of the message.
struct BlakeG {
    static RIGEL_INLINE u32 rotated(u32 x, u32 n) { return x >> n | x << (32 - n); }
    static RIGEL_INLINE Array<UInt32, 4> deduce_output(const Array<UInt32, 6>& from) {
        u32 a = from[0].v, b = from[1].v, c = from[2].v, d = from[3].v;
        a += b + from[4].v;
        d = rotated(d ^ a, 16);
        c += d;
        b = rotated(b ^ c, 12);
        a += b + from[5].v;
        d = rotated(d ^ a, 8);
        c += d;
        b = rotated(b ^ c, 7);
        return array(UInt32{a}, UInt32{b}, UInt32{c}, UInt32{d});
    }
};

// A round on the message that begins at an address of the memory: G on the columns of the state, then on its diagonals.
typedef Tuple<M31, M31, Tuple<Array<UInt32, 16>, M31>> BlakeState;

__device__ __noinline__ BlakeState blake_round(const Row& row, const BlakeState& from) {
    const M31 round = get<1>(from), message = get<1>(get<2>(from));
    Array<UInt32, 16> state = get<0>(get<2>(from));
    const Array<M31, 16> sigma = BlakeRoundSigma::deduce_output(round);
    const auto word = [&](u32 i) {
        return UInt32{row.memory.value(row.memory.id(M31::from(message.v + sigma[i].v))).words[0]};
    };
    for (u32 g = 0; g < 8; ++g) {
        const u32 turn = g / 4, first = g % 4;
        u32 places[4];
        for (u32 i = 0; i < 4; ++i) {
            places[i] = 4 * i + (first + turn * i) % 4;
        }
        UInt32* const v = state.v;
        const Array<UInt32, 4> mixed = BlakeG::deduce_output(
            array(v[places[0]], v[places[1]], v[places[2]], v[places[3]], word(2 * g), word(2 * g + 1)));
        for (u32 i = 0; i < 4; ++i) {
            v[places[i]] = mixed[i];
        }
    }
    return tuple(get<0>(from), round + M31::from(1), tuple(state, message));
}
