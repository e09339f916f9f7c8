// Upstream's fast deductions of Poseidon. ROUND_KEYS stands above this text: three elements for each
// round.

RIGEL_INLINE Felt252 round_key(M31 round, u32 i) {
    Felt252 key;
    for (u32 word = 0; word < 8; ++word) {
        key.words[word] = ROUND_KEYS[(3 * (round.v < ROUNDS ? round.v : 0) + i) * 8 + word];
    }
    return key;
}

struct PoseidonRoundKeys {
    static RIGEL_INLINE Array<Felt252Width27, 3> deduce_output(Array<M31, 1> round) {
        Array<Felt252Width27, 3> keys;
        for (u32 i = 0; i < 3; ++i) {
            keys.v[i] = Felt252Width27::of(round_key(round.v[0], i));
        }
        return keys;
    }
};

struct Cube252 {
    // x^3, with two Montgomery products that divide by 2^256 each and two that multiply by it.
    static RIGEL_INLINE Felt252 cube(const Felt252& x) { return x * x * x; }
    static RIGEL_INLINE Felt252Width27 deduce_output(const Felt252Width27& x) {
        return Felt252Width27::of(cube(Felt252::from_packed_felt252width27(x)));
    }
};

// Cubes, the matrix [[3, 1, 1], [1, -1, 1], [1, 1, -2]], and the next round's keys.
struct PoseidonFullRoundChain {
    typedef Tuple<M31, M31, Array<Felt252Width27, 3>> State3;

    __device__ __noinline__ static State3 deduce_output(const State3& state) {
        const M31 round = get<1>(state);
        const Array<Felt252Width27, 3> values = get<2>(state);
        Felt252 cubes[3];
        for (u32 i = 0; i < 3; ++i) {
            cubes[i] = Cube252::cube(Felt252::from_packed_felt252width27(values.v[i]));
        }
        const Felt252 x = cubes[0], y = cubes[1], z = cubes[2];
        const Felt252 difference = x - y + z, sum = x + y;
        Array<Felt252Width27, 3> next;
        next.v[0] = Felt252Width27::of(sum + sum + difference + round_key(round, 0));
        next.v[1] = Felt252Width27::of(difference + round_key(round, 1));
        next.v[2] = Felt252Width27::of(sum - z - z + round_key(round, 2));
        return tuple(get<0>(state), round + M31::from(1), next);
    }
};

// Three rounds of z3 = 8 z0^3 + 4 z1 + 6 z1^3 + 2 z2 - 2 z2^3 + 2 key, where the key is given as a half.
struct Poseidon3PartialRoundsChain {
    typedef Tuple<M31, M31, Array<Felt252Width27, 4>> State4;

    __device__ __noinline__ static State4 deduce_output(const State4& state) {
        const M31 round = get<1>(state);
        const Array<Felt252Width27, 4> values = get<2>(state);
        Felt252 z[4];
        for (u32 i = 0; i < 4; ++i) {
            z[i] = Felt252::from_packed_felt252width27(values.v[i]);
        }
        for (u32 i = 0; i < 3; ++i) {
            const Felt252 cube = Cube252::cube(z[3]);
            const Felt252 two = z[0] + z[2], three = two + z[1];
            const Felt252 half = three + z[3] - cube + round_key(round, i) + three + two + z[0];
            z[0] = z[2];
            z[1] = z[3];
            z[2] = cube;
            z[3] = half + half;
        }
        Array<Felt252Width27, 4> next;
        for (u32 i = 0; i < 4; ++i) {
            next.v[i] = Felt252Width27::of(z[i]);
        }
        return tuple(get<0>(state), round + M31::from(1), next);
    }
};
