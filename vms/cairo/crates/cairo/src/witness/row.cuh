// The types of a component's translated witness code: values with the names of upstream's types, one where
// upstream has a vector of 16, and the row that it writes.
#define RIGEL_OPAQUE
#include "field/mersenne31.cuh"

#define RIGEL_INLINE __device__ __forceinline__

struct M31 {
    u32 v;

    static RIGEL_INLINE M31 from(u32 word) { return M31{word}; }
    static RIGEL_INLINE M31 of(Mersenne31 x) { return M31{x.v}; }
    RIGEL_INLINE Mersenne31 element() const { return Mersenne31::from_word(v); }
    RIGEL_INLINE M31 operator+(M31 other) const { return of(element() + other.element()); }
    RIGEL_INLINE M31 operator-(M31 other) const { return of(element() - other.element()); }
    RIGEL_INLINE M31 operator*(M31 other) const { return of(element() * other.element()); }
    RIGEL_INLINE M31 operator-() const { return of(-element()); }
    RIGEL_INLINE M31 inverse() const { return of(element().inverse()); }
};

struct Bool {
    bool v;

    static RIGEL_INLINE Bool from_m31(M31 x) { return Bool{(x.v & 1) != 0}; }
    RIGEL_INLINE M31 as_m31() const { return M31{v ? 1u : 0u}; }
    RIGEL_INLINE Bool operator&(Bool other) const { return Bool{v && other.v}; }
};

RIGEL_INLINE Bool equal(M31 a, M31 b) { return Bool{a.v == b.v}; }

template <class T, u32 N>
struct Array {
    T v[N];

    RIGEL_INLINE const T& operator[](u32 i) const { return v[i]; }
};

// An unsigned integer of so many bits, with arithmetic modulo 2^BITS. Shifts are by less than BITS.
template <u32 BITS>
struct UInt {
    static constexpr u32 MASK = (u32)((1ull << BITS) - 1);
    u32 v;

    static RIGEL_INLINE UInt from(u32 word) { return UInt{word & MASK}; }
    static RIGEL_INLINE UInt from_m31(M31 x) { return from(x.v); }
    static RIGEL_INLINE UInt from_limbs(const Array<M31, 2>& limbs) { return from(limbs[0].v + (limbs[1].v << 16)); }
    RIGEL_INLINE M31 as_m31() const { return M31{v}; }
    RIGEL_INLINE UInt operator+(UInt other) const { return from(v + other.v); }
    RIGEL_INLINE UInt operator&(UInt other) const { return UInt{v & other.v}; }
    RIGEL_INLINE UInt operator|(UInt other) const { return UInt{v | other.v}; }
    RIGEL_INLINE UInt operator^(UInt other) const { return UInt{v ^ other.v}; }
    RIGEL_INLINE UInt operator<<(UInt other) const { return from(v << other.v); }
    RIGEL_INLINE UInt operator>>(UInt other) const { return UInt{v >> other.v}; }
    RIGEL_INLINE UInt<16> low() const { return UInt<16>::from(v); }
    RIGEL_INLINE UInt<16> high() const { return UInt<16>::from(v >> 16); }
};
typedef UInt<16> UInt16;
typedef UInt<32> UInt32;

template <class T, class... Rest>
RIGEL_INLINE Array<T, 1 + sizeof...(Rest)> array(const T& first, const Rest&... rest) {
    return {{first, rest...}};
}

// Has the words of its parts, one after another.
template <class Head, class... Rest>
struct Tuple {
    Head head;
    Tuple<Rest...> rest;
};
template <class Head>
struct Tuple<Head> {
    Head head;
};

template <class Head>
RIGEL_INLINE Tuple<Head> tuple(const Head& head) {
    return {head};
}
template <class Head, class Next, class... Rest>
RIGEL_INLINE Tuple<Head, Next, Rest...> tuple(const Head& head, const Next& next, const Rest&... rest) {
    return {head, tuple(next, rest...)};
}

// By reference: a temporary lives until the end of the expression that it is part of, and every copy costs stack.
template <u32 I, class Head, class... Rest>
RIGEL_INLINE const auto& get(const Tuple<Head, Rest...>& of) {
    if constexpr (I == 0) {
        return of.head;
    } else {
        return get<I - 1>(of.rest);
    }
}

// An element of Cairo's field, below 2^251 + 17 2^192 + 1, as words, lowest first. Read as 28 limbs of 9 bits.
struct Felt252Width27;
struct Felt252 {
    u32 words[8];

    static RIGEL_INLINE u32 modulus(u32 word) { return word == 0 ? 1 : word == 6 ? 17 : word == 7 ? 1u << 27 : 0; }

    static RIGEL_INLINE Felt252 from(Array<u64, 4> limbs) {
        Felt252 x;
        for (u32 i = 0; i < 8; ++i) {
            x.words[i] = (u32)(limbs.v[i / 2] >> (i % 2 * 32));
        }
        x.words[7] &= 0x0fffffff;
        return x;
    }
    static RIGEL_INLINE Felt252 from_packed_felt252width27(const Felt252Width27& x);
    static RIGEL_INLINE Felt252 from_m31(M31 x) { return Felt252{{x.v}}; }
    static RIGEL_INLINE Felt252 from_limbs(const Array<M31, 28>& limbs) {
        Felt252 x = {};
#pragma unroll
        for (u32 limb = 0; limb < 28; ++limb) {
            const u32 word = 9 * limb / 32, shift = 9 * limb % 32;
            x.words[word] |= limbs.v[limb].v << shift;
            if (shift > 32 - 9) {
                x.words[word + 1] |= limbs.v[limb].v >> (32 - shift);
            }
        }
        return x;
    }

    RIGEL_INLINE M31 get_m31(u32 limb) const {
        const u32 word = 9 * limb / 32, shift = 9 * limb % 32;
        u32 bits = words[word] >> shift;
        if (shift > 32 - 9) {
            bits |= words[word + 1] << (32 - shift);
        }
        return M31{bits & 511};
    }

    // x - p if that is not negative, else x.
    RIGEL_INLINE Felt252 reduced() const {
        Felt252 y;
        u32 borrow = 0;
        for (u32 i = 0; i < 8; ++i) {
            const u64 t = (u64)words[i] - modulus(i) - borrow;
            y.words[i] = (u32)t;
            borrow = (u32)(t >> 63);
        }
        return borrow ? *this : y;
    }

    RIGEL_INLINE Felt252 operator+(const Felt252& other) const {
        Felt252 sum;
        u64 t = 0;
        for (u32 i = 0; i < 8; ++i) {
            t = (t >> 32) + words[i] + other.words[i];
            sum.words[i] = (u32)t;
        }
        return sum.reduced();
    }

    // x + p - y, reduced.
    RIGEL_INLINE Felt252 operator-(const Felt252& other) const {
        Felt252 difference;
        i64 t = 0;
        for (u32 i = 0; i < 8; ++i) {
            t = (t >> 32) + words[i] + modulus(i) - other.words[i];
            difference.words[i] = (u32)t;
        }
        return difference.reduced();
    }

    // x y / 2^256 by Montgomery's method: -1 / p = -1 modulo 2^32.
    __device__ __noinline__ static Felt252 product_over_r(const Felt252& a, const Felt252& b) {
        u32 t[10] = {};
        for (u32 i = 0; i < 8; ++i) {
            u64 x = 0;
            for (u32 j = 0; j < 8; ++j) {
                x = (x >> 32) + t[j] + (u64)a.words[j] * b.words[i];
                t[j] = (u32)x;
            }
            x = (x >> 32) + t[8];
            t[8] = (u32)x;
            t[9] = (u32)(x >> 32);
            const u32 m = 0u - t[0];
            x = t[0] + (u64)m * modulus(0);
            for (u32 j = 1; j < 8; ++j) {
                x = (x >> 32) + t[j] + (u64)m * modulus(j);
                t[j - 1] = (u32)x;
            }
            x = (x >> 32) + t[8];
            t[7] = (u32)x;
            t[8] = t[9] + (u32)(x >> 32);
        }
        Felt252 product;
        for (u32 i = 0; i < 8; ++i) {
            product.words[i] = t[i];
        }
        return product.reduced();
    }

    // 2^512
    static RIGEL_INLINE Felt252 square_of_r() {
        return Felt252{{0x7e000401u, 0xfffffd73u, 0x330fffffu, 0x00000001u,
                        0xff6f8000u, 0xffffffffu, 0x5e008810u, 0x07ffd4abu}};
    }

    RIGEL_INLINE Felt252 operator*(const Felt252& other) const {
        return product_over_r(product_over_r(*this, other), square_of_r());
    }

    // x^(2^n), in Montgomery's form.
    static RIGEL_INLINE Felt252 squared(Felt252 x, u32 n) {
        for (u32 i = 0; i < n; ++i) {
            x = product_over_r(x, x);
        }
        return x;
    }

    // x / y as x y^(p - 2); zero for y = 0, where upstream panics. The powers are in Montgomery's form, that is times
    // 2^256, which the last product divides by.
    __device__ __noinline__ Felt252 operator/(const Felt252& other) const {
        // p - 2 = 2^251 + 2^196 + (2^192 - 1), and the last term is 2^24 - 1 eight times over.
        const Felt252 base = product_over_r(other, square_of_r());
        Felt252 ones = product_over_r(squared(base, 1), base);
        ones = product_over_r(squared(ones, 1), base);
        for (u32 length = 3; length < 24; length *= 2) {
            ones = product_over_r(squared(ones, length), ones);
        }
        Felt252 power = squared(product_over_r(squared(base, 55), base), 4);
        for (u32 i = 0; i < 8; ++i) {
            power = product_over_r(squared(power, 24), ones);
        }
        return product_over_r(*this, power);
    }

    RIGEL_INLINE bool operator==(const Felt252& other) const {
        bool same = true;
        for (u32 i = 0; i < 8; ++i) {
            same = same && words[i] == other.words[i];
        }
        return same;
    }
};

// The same, read as 10 limbs of 27 bits.
struct Felt252Width27 {
    u32 words[8];

    static RIGEL_INLINE Felt252Width27 of(const Felt252& x) {
        Felt252Width27 y;
        for (u32 i = 0; i < 8; ++i) {
            y.words[i] = x.words[i];
        }
        return y;
    }
    static RIGEL_INLINE Felt252Width27 from_packed_felt252(const Felt252& x) { return of(x); }
    static RIGEL_INLINE Felt252Width27 from_limbs(const Array<M31, 10>& limbs) {
        Felt252Width27 x = {};
#pragma unroll
        for (u32 limb = 0; limb < 10; ++limb) {
            const u32 word = 27 * limb / 32, shift = 27 * limb % 32;
            x.words[word] |= limbs.v[limb].v << shift;
            if (shift > 32 - 27 && word < 7) {
                x.words[word + 1] |= limbs.v[limb].v >> (32 - shift);
            }
        }
        return x;
    }

    RIGEL_INLINE M31 get_m31(u32 limb) const {
        const u32 word = 27 * limb / 32, shift = 27 * limb % 32;
        u32 bits = words[word] >> shift;
        if (shift > 32 - 27 && word < 7) {
            bits |= words[word + 1] << (32 - shift);
        }
        return M31{bits & ((1u << 27) - 1)};
    }
};

RIGEL_INLINE Felt252 Felt252::from_packed_felt252width27(const Felt252Width27& x) {
    Felt252 y;
    for (u32 i = 0; i < 8; ++i) {
        y.words[i] = x.words[i];
    }
    return y;
}

// An unsigned integer of BITS bits, of LIMBS 64-bit limbs, read as WORDS words of 12 bits.
template <u32 BITS, u32 LIMBS, u32 WORDS>
struct BigUInt {
    static constexpr u32 LEN = 2 * LIMBS;
    u32 v[LEN];

    static RIGEL_INLINE BigUInt from(Array<u64, LIMBS> limbs) {
        BigUInt x;
        for (u32 i = 0; i < LEN; ++i) {
            x.v[i] = (u32)(limbs.v[i / 2] >> (i % 2 * 32));
        }
        return x;
    }

    // Every element holds 96 bits.
    template <u32 N>
    static RIGEL_INLINE BigUInt from_packed_felt252_array(Array<Felt252, N> felts) {
        static_assert(96 * N <= BITS, "the elements fit");
        BigUInt x = {};
        for (u32 i = 0; i < 3 * N; ++i) {
            x.v[i] = felts.v[i / 3].words[i % 3];
        }
        return x;
    }

    template <class Other>
    static RIGEL_INLINE BigUInt from_packed_biguint(const Other& other) {
        BigUInt x = {};
        for (u32 i = 0; i < LEN && i < Other::LEN; ++i) {
            x.v[i] = other.v[i];
        }
        return x;
    }

    RIGEL_INLINE M31 get_m31(u32 word) const {
        const u32 at = 12 * word / 32, shift = 12 * word % 32;
        u32 bits = v[at] >> shift;
        if (shift > 32 - 12) {
            bits |= v[at + 1] << (32 - shift);
        }
        return M31{bits & 4095};
    }

    RIGEL_INLINE BigUInt operator+(const BigUInt& other) const {
        BigUInt sum;
        u64 t = 0;
        for (u32 i = 0; i < LEN; ++i) {
            t = (t >> 32) + v[i] + other.v[i];
            sum.v[i] = (u32)t;
        }
        return sum;
    }

    // Subtracts and returns whether the result is negative.
    RIGEL_INLINE bool subtract(const BigUInt& other) {
        u32 borrow = 0;
        for (u32 i = 0; i < LEN; ++i) {
            const u64 t = (u64)v[i] - other.v[i] - borrow;
            v[i] = (u32)t;
            borrow = (u32)(t >> 63);
        }
        return borrow != 0;
    }

    RIGEL_INLINE BigUInt operator-(const BigUInt& other) const {
        BigUInt difference = *this;
        difference.subtract(other);
        return difference;
    }

    RIGEL_INLINE BigUInt<2 * BITS, 2 * LIMBS, 2 * WORDS> widening_mul(const BigUInt& other) const {
        BigUInt<2 * BITS, 2 * LIMBS, 2 * WORDS> product = {};
        for (u32 i = 0; i < LEN; ++i) {
            u64 t = 0;
            for (u32 j = 0; j < LEN; ++j) {
                t = (t >> 32) + product.v[i + j] + (u64)v[i] * other.v[j];
                product.v[i + j] = (u32)t;
            }
            product.v[i + LEN] = (u32)(t >> 32);
        }
        return product;
    }

    // Long division, bit by bit. Upstream panics on a divisor of zero; a lookup of the result fails.
    __device__ __noinline__ BigUInt operator/(const BigUInt& divisor) const {
        BigUInt quotient = {}, remainder = {};
        for (u32 bit = BITS; bit-- > 0;) {
            for (u32 i = LEN; i-- > 1;) {
                remainder.v[i] = remainder.v[i] << 1 | remainder.v[i - 1] >> 31;
            }
            remainder.v[0] = remainder.v[0] << 1 | (v[bit / 32] >> bit % 32 & 1);
            BigUInt rest = remainder;
            if (!rest.subtract(divisor)) {
                remainder = rest;
                quotient.v[bit / 32] |= 1u << bit % 32;
            }
        }
        return quotient;
    }
};

template <u32 BITS, u32 LIMBS, u32 WORDS>
RIGEL_INLINE Bool equal(const BigUInt<BITS, LIMBS, WORDS>& a, const BigUInt<BITS, LIMBS, WORDS>& b) {
    bool same = true;
    for (u32 i = 0; i < 2 * LIMBS; ++i) {
        same = same && a.v[i] == b.v[i];
    }
    return Bool{same};
}

struct State {
    M31 pc, ap, fp;
};

// Why a row can't be made. Upstream panics.
constexpr u32 NO_CELL = 1;
constexpr u32 NO_VALUE = 2;
constexpr u32 NOT_IN_TABLE = 4;
constexpr u32 NO_INSTRUCTION = 8;

// A table with a row for each tuple of numbers of so many bits; the first is the most significant part of the row's
// number. Relation k is counted in the column that begins at `at + k * 2^(sum of bits)`.
template <u32... BITS>
struct RangeCheck {
    u32 at;
};

// A table with a row for each pair of numbers of so many low bits, and their exclusive or. Numbers with more bits are
// counted in the column that their high bits select.
template <u32 BITS, u32 LOW_BITS>
struct BitwiseXor {
    u32 at;
};

// Identifiers of values: large ones have this bit; one stands for an empty cell.
constexpr u32 LARGE = 0x40000000;
constexpr u32 EMPTY = LARGE - 1;

// The memory, and how often its parts are looked up.
struct Memory {
    const u32* ids;
    u32 addresses;
    const u32* large;
    u32 larges;
    const u32* small;
    u32 smalls;
    u32* address_counts;
    u32* large_counts;
    u32* small_counts;
    u32* status;

    RIGEL_INLINE void fail(u32 reason) const { atomicOr(status, reason); }

    // Address 0 is not used.
    RIGEL_INLINE M31 id(M31 address) const {
        if (address.v == 0 || address.v >= addresses) {
            fail(NO_CELL);
            return M31{0};
        }
        return M31{ids[address.v]};
    }

    RIGEL_INLINE Felt252 value(M31 id) const {
        const u32 index = id.v & (LARGE - 1);
        Felt252 value = {};
        if (id.v & LARGE) {
            if (index < larges) {
                for (u32 i = 0; i < 8; ++i) {
                    value.words[i] = large[8ull * index + i];
                }
                return value;
            }
        } else if (id.v != EMPTY && index < smalls) {
            for (u32 i = 0; i < 4; ++i) {
                value.words[i] = small[4ull * index + i];
            }
            return value;
        }
        fail(NO_VALUE);
        return value;
    }

    RIGEL_INLINE void count_address(M31 address) const {
        if (address.v == 0 || address.v >= addresses) {
            fail(NO_CELL);
        } else {
            atomicAdd(&address_counts[address.v], 1u);
        }
    }

    RIGEL_INLINE void count_id(M31 id) const {
        const u32 index = id.v & (LARGE - 1);
        if (id.v & LARGE ? index < larges : id.v != EMPTY && index < smalls) {
            atomicAdd(id.v & LARGE ? &large_counts[index] : &small_counts[index], 1u);
        } else {
            fail(NO_VALUE);
        }
    }
};

// Counts of the tables whose size does not depend on the program.
struct Tables {
    u32* counts;
    u32* status;

    template <u32 N, u32... BITS>
    RIGEL_INLINE void count(RangeCheck<BITS...> table, u32 relation, Array<M31, N> values) const {
        static_assert(N == sizeof...(BITS), "a number for each part");
        const u32 bits[N] = {BITS...};
        u32 row = 0, width = 0;
        bool inside = true;
        for (u32 i = 0; i < N; ++i) {
            inside = inside && values.v[i].v >> bits[i] == 0;
            row = row << bits[i] | values.v[i].v;
            width += bits[i];
        }
        add(inside, table.at + (relation << width) + row);
    }

    template <u32 BITS, u32 LOW_BITS>
    RIGEL_INLINE void count(BitwiseXor<BITS, LOW_BITS> table, u32 relation, Array<M31, 3> values) const {
        constexpr u32 LOW = (1u << LOW_BITS) - 1, HIGH_BITS = BITS - LOW_BITS;
        const u32 a = values.v[0].v, b = values.v[1].v;
        const bool inside = a >> BITS == 0 && b >> BITS == 0 && (a ^ b) == values.v[2].v;
        const u32 column = HIGH_BITS == 0 ? relation : a >> LOW_BITS << HIGH_BITS | b >> LOW_BITS;
        add(inside, table.at + (column << 2 * LOW_BITS) + ((a & LOW) << LOW_BITS | (b & LOW)));
    }

    RIGEL_INLINE void add(bool inside, u32 at) const {
        if (inside) {
            atomicAdd(&counts[at], 1u);
        } else {
            atomicOr(status, NOT_IN_TABLE);
        }
    }
};

// The points of Pedersen's hash: 28 columns with the limbs of x, and 28 with those of y.
struct Points {
    const u32* limbs;
    u32 rows;
};

struct Row {
    u32* trace;
    u32 size, index, enabled;
    const u32* inputs;
    const u32* multiplicities;
    // Rows after the last repeat the first so many.
    u32 repeated;
    u32* given;
    u32 segment_start;
    Memory memory;
    u32* instruction_counts;
    u32 instructions;
    Tables tables;
    Points points;

    RIGEL_INLINE void write(u32 column, M31 value) const { trace[(u64)column * size + index] = value.v; }

    // Inputs are plain words, one input after another.
    template <class T>
    RIGEL_INLINE T input() const {
        static_assert(sizeof(T) % sizeof(u32) == 0, "an input has whole words");
        const u64 from = index < enabled ? index : index % repeated;
        return *(const T*)(inputs + from * (sizeof(T) / sizeof(u32)));
    }
    RIGEL_INLINE State state() const { return input<State>(); }

    // An input of another component, the `number`-th of this row for it. `before` words of each row are for others; the
    // inputs with a number of all rows stand together.
    template <class T>
    RIGEL_INLINE void give(u32 before, u32 number, const T& value) const {
        const u64 at = (u64)before * size + ((u64)number * size + index) * (sizeof(T) / sizeof(u32));
        *(T*)(given + at) = value;
    }
    RIGEL_INLINE M31 multiplicity() const { return M31{index < enabled ? multiplicities[index] : 0}; }
    RIGEL_INLINE M31 enabler() const { return M31{index < enabled ? 1u : 0u}; }
    RIGEL_INLINE M31 sequence() const { return M31{index}; }
    RIGEL_INLINE u32 segment() const { return segment_start; }

    RIGEL_INLINE M31 memory_address_to_id(M31 address) const { return memory.id(address); }
    RIGEL_INLINE Felt252 memory_id_to_big(M31 id) const { return memory.value(id); }
    RIGEL_INLINE void count_memory_address_to_id(M31 address) const { memory.count_address(address); }
    RIGEL_INLINE void count_memory_id_to_big(M31 id) const { memory.count_id(id); }

    // An instruction is what the memory holds at its address, so the address stands for it.
    template <class... T>
    RIGEL_INLINE void count_verify_instruction(const Tuple<M31, T...>& instruction) const {
        if (instruction.head.v < instructions) {
            atomicAdd(&instruction_counts[instruction.head.v], 1u);
        } else {
            memory.fail(NO_INSTRUCTION);
        }
    }

    template <class Table, u32 N>
    RIGEL_INLINE void count(Table table, u32 relation, Array<M31, N> values) const {
        tables.count(table, relation, values);
    }

    RIGEL_INLINE Array<Felt252, 2> pedersen_point(Array<M31, 1> number) const {
        Array<Felt252, 2> point = {};
        if (number.v[0].v >= points.rows) {
            memory.fail(NOT_IN_TABLE);
            return point;
        }
        for (u32 coordinate = 0; coordinate < 2; ++coordinate) {
            Array<M31, 28> limbs;
            for (u32 i = 0; i < 28; ++i) {
                limbs.v[i] = M31{points.limbs[(u64)(28 * coordinate + i) * points.rows + number.v[0].v]};
            }
            point.v[coordinate] = Felt252::from_limbs(limbs);
        }
        return point;
    }

    // Adds the point of the first window's value to the accumulator, and shifts the windows.
    template <u32 BITS>
    __device__ __noinline__ auto partial_ec_mul(
        const Tuple<M31, M31, Tuple<Array<M31, 252 / BITS>, Array<Felt252, 2>>>& from) const {
        constexpr u32 WINDOWS = 252 / BITS;
        const M31 round = get<1>(from);
        const Array<M31, WINDOWS> windows = get<0>(get<2>(from));
        const Array<Felt252, 2> a = get<1>(get<2>(from));
        const Array<Felt252, 2> b = pedersen_point(array(M31::from((round.v << BITS) + windows.v[0].v)));
        const Felt252 slope = (b.v[1] - a.v[1]) / (b.v[0] - a.v[0]);
        const Felt252 x = slope * slope - a.v[0] - b.v[0];
        const Felt252 y = slope * (a.v[0] - x) - a.v[1];
        Array<M31, WINDOWS> next;
        for (u32 i = 0; i < WINDOWS; ++i) {
            next.v[i] = i + 1 < WINDOWS ? windows.v[i + 1] : M31{0};
        }
        return tuple(get<0>(from), round + M31::from(1), tuple(next, array(x, y)));
    }
};
