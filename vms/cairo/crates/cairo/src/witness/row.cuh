// What the translated witness code of a component works with: values with the names of upstream's types, one where
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

// An unsigned integer of so many bits, with arithmetic modulo 2^BITS. Shifts are by less than BITS.
template <u32 BITS>
struct UInt {
    static constexpr u32 MASK = (u32)((1ull << BITS) - 1);
    u32 v;

    static RIGEL_INLINE UInt from(u32 word) { return UInt{word & MASK}; }
    static RIGEL_INLINE UInt from_m31(M31 x) { return from(x.v); }
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

template <class T, u32 N>
struct Array {
    T v[N];

    RIGEL_INLINE T operator[](u32 i) const { return v[i]; }
};

template <class T, class... Rest>
RIGEL_INLINE Array<T, 1 + sizeof...(Rest)> array(T first, Rest... rest) {
    return {{first, rest...}};
}

template <class... T>
struct Tuple {};
template <class Head, class... Rest>
struct Tuple<Head, Rest...> {
    Head head;
    Tuple<Rest...> rest;
};

RIGEL_INLINE Tuple<> tuple() { return {}; }
template <class Head, class... Rest>
RIGEL_INLINE Tuple<Head, Rest...> tuple(Head head, Rest... rest) {
    return {head, tuple(rest...)};
}

template <u32 I, class Head, class... Rest>
RIGEL_INLINE auto get(const Tuple<Head, Rest...>& of) {
    if constexpr (I == 0) {
        return of.head;
    } else {
        return get<I - 1>(of.rest);
    }
}

// A value of the memory: 252 bits, read as 28 limbs of 9 bits.
struct Value {
    u32 words[8];

    RIGEL_INLINE M31 get_m31(u32 limb) const {
        const u32 word = 9 * limb / 32, shift = 9 * limb % 32;
        u32 bits = words[word] >> shift;
        if (shift > 32 - 9 && word < 7) {
            bits |= words[word + 1] << (32 - shift);
        }
        return M31{bits & 511};
    }
};

struct Felt252 {
    Array<M31, 28> limbs;

    static RIGEL_INLINE Felt252 from_limbs(Array<M31, 28> limbs) { return Felt252{limbs}; }
    RIGEL_INLINE M31 get_m31(u32 limb) const { return limbs[limb]; }
};

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

// A table with a row for each pair of numbers of so many bits, and their exclusive or.
template <u32 BITS>
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

    RIGEL_INLINE Value value(M31 id) const {
        const u32 index = id.v & (LARGE - 1);
        Value value = {};
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

    template <u32 BITS>
    RIGEL_INLINE void count(BitwiseXor<BITS> table, u32 relation, Array<M31, 3> values) const {
        const u32 a = values.v[0].v, b = values.v[1].v;
        const bool inside = a >> BITS == 0 && b >> BITS == 0 && (a ^ b) == values.v[2].v;
        add(inside, table.at + (relation << 2 * BITS) + (a << BITS | b));
    }

    RIGEL_INLINE void add(bool inside, u32 at) const {
        if (inside) {
            atomicAdd(&counts[at], 1u);
        } else {
            atomicOr(status, NOT_IN_TABLE);
        }
    }
};

struct Row {
    u32* trace;
    u32 size, index, enabled;
    const u32* inputs;
    const u32* multiplicities;
    u32 segment_start;
    Memory memory;
    u32* instruction_counts;
    u32 instructions;
    Tables tables;

    RIGEL_INLINE void write(u32 column, M31 value) const { trace[(u64)column * size + index] = value.v; }

    // Rows after the last repeat the first.
    RIGEL_INLINE u32 source() const { return index < enabled ? index : 0; }
    RIGEL_INLINE M31 word(u32 of, u32 i) const { return M31{inputs[(u64)source() * of + i]}; }
    RIGEL_INLINE State state() const { return State{word(3, 0), word(3, 1), word(3, 2)}; }
    RIGEL_INLINE M31 multiplicity() const { return M31{index < enabled ? multiplicities[index] : 0}; }
    RIGEL_INLINE M31 enabler() const { return M31{index < enabled ? 1u : 0u}; }
    RIGEL_INLINE M31 sequence() const { return M31{index}; }
    RIGEL_INLINE u32 segment() const { return segment_start; }

    RIGEL_INLINE M31 memory_address_to_id(M31 address) const { return memory.id(address); }
    RIGEL_INLINE Value memory_id_to_big(M31 id) const { return memory.value(id); }
    RIGEL_INLINE void count_memory_address_to_id(M31 address) const { memory.count_address(address); }
    RIGEL_INLINE void count_memory_id_to_big(M31 id) const { memory.count_id(id); }

    // An instruction is what the memory holds at its address, so the address stands for it.
    template <class... T>
    RIGEL_INLINE void count_verify_instruction(Tuple<M31, T...> instruction) const {
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
};
