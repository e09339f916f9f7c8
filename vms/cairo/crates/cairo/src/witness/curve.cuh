// Upstream's fast deduction of the builtin ec_op, on the curve y^2 = x^3 + x + b.

struct PartialEcMulGeneric {
    typedef Array<Felt252, 2> Point;
    typedef Tuple<Felt252Width27, Point, Point, M31> Rest;
    typedef Tuple<M31, M31, Rest> State4;

    static RIGEL_INLINE Point on_line(const Point& a, const Point& b, const Felt252& slope) {
        const Felt252 x = slope * slope - a[0] - b[0];
        return array(x, slope * (a[0] - x) - a[1]);
    }

    // Adds q to the accumulator if the lowest bit of m is set, doubles q, and drops the bit. The bits are those of the
    // lowest limb of 27 bits, which the counter numbers downwards.
    __device__ __noinline__ static State4 deduce_output(const State4& from) {
        const Rest& rest = get<2>(from);
        Felt252Width27 m = get<0>(rest);
        const Point q = get<1>(rest);
        Point accumulator = get<2>(rest);
        const M31 counter = get<3>(rest);

        // Both slopes with one division: 1 / a = b / (a b).
        const Felt252 square = q[0] * q[0], tangent = square + square + square + Felt252{{1}}, twice = q[1] + q[1];
        const bool add = (m.words[0] & 1) != 0, same = accumulator[0] == q[0] && accumulator[1] == q[1];
        const Felt252 one = Felt252{{1}};
        const Felt252 distance = add && !same ? accumulator[0] - q[0] : one;
        const Felt252 inverse = one / (twice * distance);
        const Felt252 tangent_slope = tangent * (inverse * distance);
        if (add) {
            const Felt252 slope = same ? tangent_slope : (accumulator[1] - q[1]) * (inverse * twice);
            accumulator = on_line(accumulator, q, slope);
        }
        const Point doubled = on_line(q, q, tangent_slope);

        constexpr u32 LIMB = (1u << 27) - 1;
        if (counter.v == 0) {
            for (u32 i = 0; i < 8; ++i) {
                m.words[i] = m.words[i] >> 27 | (i < 7 ? m.words[i + 1] << 5 : 0);
            }
        } else {
            m.words[0] = (m.words[0] & LIMB) >> 1 | (m.words[0] & ~LIMB);
        }
        const M31 next = M31::from(counter.v == 0 ? 26 : counter.v - 1);
        return tuple(get<0>(from), get<1>(from) + M31::from(1), tuple(m, doubled, accumulator, next));
    }
};
