// Circle transforms over Mersenne-31: coefficients in Stwo's basis to evaluations in bit-reversed order, and back.
//
// Layer i of a domain of 2^n points combines points whose index differs in bit i, with a twiddle t(i, h) that depends
// only on the index bits above that bit, h = index >> (i + 1):
//
//   forward, from the top layer to layer 0:   (a, b) -> (a + t b, a - t b)
//   inverse, from layer 0 to the top:         (a, b) -> (a + b, (a - b) / t)
//
// Layers 1 and up read the tower: t(i, h) is at T - 2^(n - i) + h of its T values. Layer 0 uses those of layer 1:
// points 4 j .. 4 j + 3 of the half coset are (x, y), (-x, -y), (y, -x), (-y, x), so t(0, 4 j ..) = y, -y, -x, x with x
// = t(1, 2 j), y = t(1, 2 j + 1).
//
// A polynomial of 2^k coefficients is evaluated on a domain 2^(n - k) times larger as if padded with zeros: the layers
// from k up copy it, so that each block of 2^k results is a separate transform with its own twiddles.
//
// A pass computes some layers. The contiguous pass computes those from layer 0 on, in tiles of adjacent points; a
// strided pass computes R layers from layer LOW on, in tiles of 2^R points 2^LOW apart, times a run of adjacent ones.
// Inside a pass a thread holds 2^V points in registers and exchanges them through shared memory after at most V layers.
// The twiddles of a tile are a binary tree in shared memory: those of its top layer at 1, of the next at 2, 3, and so
// on.

#include "field/mersenne31.cuh"

// The parameters of a pass.
struct Pass {
    u64 words;     // of the result
    u32 tower;     // values in the tower
    u32 log_from;  // of a column that is read
    u32 log_to;    // of a column of the result: the domain
    u32 scale;     // 2^(32 - k), for the last pass of an interpolation of 2^k points
    u32 tiles;     // contiguous pass: tiles at one place of the domain, one a column or for several small columns
    u32 together;  // contiguous pass: tiles a block works on
};

static constexpr u32 P = Mersenne31::MODULUS;

// Twice the representative of a twiddle nearest to zero: even, from -(2^31 - 2) to 2^31 - 2.
__device__ __forceinline__ i32 prepared(u32 twiddle) { return (i32)((twiddle + (twiddle >> 30)) << 1); }

// factor * twiddle in [0, p), for a factor from -p to p in two's complement and a prepared twiddle 2 w.
//
// Let factor 2 w = 2^32 h + l with l from -2^31 to 2^31 - 1, even since 2 w is. Then factor w = 2^31 h + l / 2, which
// is h + l / 2 mod p. With |h| < 2^30 that is in [-p, p). The addend turns the floor in h into rounding, and subtracts
// the 2^30 by which l / 2 is too large as an unsigned number: a product, a shifted sum, a minimum.
__device__ __forceinline__ u32 times(u32 factor, i32 twiddle) {
    const u64 wide = (u64)((i64)(i32)factor * twiddle + ((1ll << 31) - (1ll << 62)));
    const u32 t = high_word(wide) + (low_word(wide) >> 1);
    return least(t, t + P);
}

// x / 2^k in [0, p) for x in [0, p) and scale = 2^(32 - k): the 31 bits rotated.
__device__ __forceinline__ u32 scaled(u32 x, u32 scale) {
    const u64 wide = (u64)x * scale;
    return high_word(wide) + (low_word(wide) >> 1);
}

__device__ __forceinline__ u32 sum(u32 a, u32 b) { return least(a + b, a + b - P); }
__device__ __forceinline__ u32 difference(u32 a, u32 b) { return least(a - b, a - b + P); }

// One, two or four adjacent twiddles, aligned to their number.
__device__ __forceinline__ void take_twiddles(i32* w, const i32* from, int count) {
    if (count == 4) {
        const int4 four = *(const int4*)from;
        w[0] = four.x, w[1] = four.y, w[2] = four.z, w[3] = four.w;
    } else if (count == 2) {
        const int2 two = *(const int2*)from;
        w[0] = two.x, w[1] = two.y;
    } else {
        w[0] = *from;
    }
}

// A stage: the bits from LOW up to LOW + BITS of the positions in a tile of 2^B, of which a thread holds 2^V: 2^(V -
// BITS) groups of 2^BITS that differ in just those bits. There are 2^(B - V) places, one per thread.
template <int B_, int V_, int LOW_, int BITS_>
struct Stage {
    static constexpr int B = B_, V = V_, LOW = LOW_, BITS = BITS_, GROUPS = 1 << (V - BITS);

    // The bits of a group's positions outside the stage's own; the upper ones determine its twiddles.
    static __device__ __forceinline__ u32 rest(u32 place, int group) { return place + ((u32)group << (B - V)); }
    static __device__ __forceinline__ u32 above(u32 place, int group) { return rest(place, group) >> LOW; }
    // Position i of a group is this + (i << LOW).
    static __device__ __forceinline__ u32 first(u32 place, int group) {
        return (above(place, group) << (LOW + BITS)) + (rest(place, group) & ((1u << LOW) - 1));
    }
    // The position of the thread's point i, counted through its groups.
    static __device__ __forceinline__ u32 position(u32 place, int i) {
        return first(place, i >> BITS) + ((i & ((1 << BITS) - 1)) << LOW);
    }
};

// The layers of a stage on one group of points in [0, p), the lowest TOP of them. CIRCLE: the stage's layer 0 is
// the domain's. SCALED: its layer TOP - 1 is the last of an interpolation, whose twiddles hold the scale already.
//
// Going forward, factors of the next layer need not be reduced: a sum minus p and a difference are in [-p, p].
template <class Stage, int TOP, bool INVERSE, bool CIRCLE, bool SCALED>
__device__ __forceinline__ void run_layers(u32* x, u32 above, const i32* tree, u32 scale) {
    constexpr int BITS = Stage::BITS;
#pragma unroll
    for (int n = 0; n < TOP; ++n) {
        const int s = INVERSE ? n : TOP - 1 - n, half = 1 << s;
        const bool circle = CIRCLE && s == 0;
        const int from = circle ? 1 : s, count = 1 << (BITS - 1 - from), each = count < 4 ? count : 4;
        const i32* twiddles = tree + (1 << (Stage::B - 1 - Stage::LOW - from)) + (above << (BITS - 1 - from));
        i32 w[1 << (BITS - 1)];
#pragma unroll
        for (int j = 0; j < (1 << BITS); ++j) {
            if (j & half) continue;
            const int h = j >> (s + 1), index = circle ? h >> 1 : h;
            // Four at a time, when first needed: loading all of a layer's at once would take too many registers.
            if ((j & ((each << (from + 1)) - 1)) == 0) take_twiddles(w + index, twiddles + index, each);
            // y, -y, -x, x
            const i32 twiddle = w[circle ? index ^ 1 : index];
            const bool negative = circle && ((h & 3) == 1 || (h & 3) == 2);
            const u32 a = x[j], b = x[j + half];
            if (INVERSE) {
                x[j] = SCALED && s == TOP - 1 ? scaled(sum(a, b), scale) : sum(a, b);
                x[j + half] = times(negative ? b - a : a - b, twiddle);
            } else {
                const bool factors = s > 0 && (j >> (s - 1) & 1);
                const u32 t = times(b, twiddle);
                const u32 plus = factors ? a + t - P : sum(a, t), minus = factors ? a - t : difference(a, t);
                x[j] = negative ? minus : plus;
                x[j + half] = negative ? plus : minus;
            }
        }
    }
}

// All groups of a thread.
template <class Stage, int TOP, bool INVERSE, bool CIRCLE, bool SCALED>
__device__ __forceinline__ void run_stage(u32* x, u32 place, const i32* tree, u32 scale) {
#pragma unroll
    for (int g = 0; g < Stage::GROUPS; ++g)
        run_layers<Stage, TOP, INVERSE, CIRCLE, SCALED>(x + (g << Stage::BITS), Stage::above(place, g), tree,
                                                        scale);
}

// The cell of a position with more bits, given its own cell and that of the bits. Cells are linear over bits, and all
// bits but the lowest five, the bank, are the position's own: the part known at compile time becomes the offset of the
// access.
__device__ __forceinline__ u32 beside(u32 cell, u32 cell_of_bits) {
    return (cell ^ (cell_of_bits & 31)) + (cell_of_bits & ~31u);
}

// One of two types.
template <bool FIRST, class A, class B>
struct Either {
    typedef A Type;
};
template <class A, class B>
struct Either<false, A, B> {
    typedef B Type;
};

// --- strided passes -------------------------------------------------------------------------------------------

// R1 + R2 layers starting at LOW, in tiles of 2^(R1 + R2) points by 2^RUN adjacent ones.
template <int LOW_, int R1_, int R2_, int RUN_, bool INVERSE_, bool SCALED_>
struct Strided {
    static constexpr int LOW = LOW_, R1 = R1_, R2 = R2_, R = R1 + R2, RUN = RUN_;
    static constexpr bool INVERSE = INVERSE_, SCALED = SCALED_;
    static constexpr int THREADS = 1 << (R2 + RUN);
    // The number of threads that a multiprocessor should hold: 32 points need 64 registers, fewer points 40.
    static constexpr int BLOCKS = (R1 == 5 ? 1024 : 1536) / THREADS;
    typedef Stage<R, R1, R2, R1> Upper;
    typedef Stage<R, R1, 0, R2> Lower;

    // The shared-memory cell of a point of the tile. In the upper stage the threads of a warp differ in the lowest bits
    // of the position, in the lower stage in those from R2 on: with both in the bank, there are no conflicts.
    static __device__ constexpr u32 cell(u32 position, u32 neighbour) {
        constexpr u32 SEVERAL = RUN < 5 ? (32u >> RUN) - 1 : 0;
        return ((position ^ (position >> R2 & SEVERAL)) << RUN) + neighbour;
    }
};

template <class Plan, class Stage>
__device__ __forceinline__ void load_strided(u32* x, const u32* from, u32 place) {
#pragma unroll
    for (int g = 0; g < Stage::GROUPS; ++g) {
        const u32* at = from + ((u64)Stage::first(place, g) << Plan::LOW);
#pragma unroll
        for (int i = 0; i < (1 << Stage::BITS); ++i)
            x[(g << Stage::BITS) + i] = at[(u64)i << (Stage::LOW + Plan::LOW)];
    }
}

template <class Plan, class Stage>
__device__ __forceinline__ void store_strided(u32* to, const u32* x, u32 place) {
#pragma unroll
    for (int g = 0; g < Stage::GROUPS; ++g) {
        u32* at = to + ((u64)Stage::first(place, g) << Plan::LOW);
#pragma unroll
        for (int i = 0; i < (1 << Stage::BITS); ++i)
            at[(u64)i << (Stage::LOW + Plan::LOW)] = x[(g << Stage::BITS) + i];
    }
}

template <class Plan, class Stage>
__device__ __forceinline__ void put_strided(u32* tile, const u32* x, u32 place, u32 neighbour) {
#pragma unroll
    for (int g = 0; g < Stage::GROUPS; ++g) {
        const u32 first = Plan::cell(Stage::first(place, g), neighbour);
#pragma unroll
        for (int i = 0; i < (1 << Stage::BITS); ++i)
            tile[beside(first, Plan::cell((u32)i << Stage::LOW, 0))] = x[(g << Stage::BITS) + i];
    }
}

template <class Plan, class Stage>
__device__ __forceinline__ void take_strided(u32* x, const u32* tile, u32 place, u32 neighbour) {
#pragma unroll
    for (int g = 0; g < Stage::GROUPS; ++g) {
        const u32 first = Plan::cell(Stage::first(place, g), neighbour);
#pragma unroll
        for (int i = 0; i < (1 << Stage::BITS); ++i)
            x[(g << Stage::BITS) + i] = tile[beside(first, Plan::cell((u32)i << Stage::LOW, 0))];
    }
}

// A block computes a tile of one column, blockIdx.y. Blocks that read the same coefficients for different parts of the
// result are consecutive, then those of adjacent runs. Without an `in` it works in place.
template <class Plan>
__global__ void __launch_bounds__(Plan::THREADS, Plan::BLOCKS)
circle_strided(u32* out, const u32* in, const u32* __restrict__ tower, Pass pass) {
    typedef typename Either<Plan::INVERSE, typename Plan::Lower, typename Plan::Upper>::Type First;
    typedef typename Either<Plan::INVERSE, typename Plan::Upper, typename Plan::Lower>::Type Second;
    constexpr int R = Plan::R, LOW = Plan::LOW, RUN = Plan::RUN;
    extern __shared__ __align__(16) unsigned char memory[];  // 2^R twiddles, and 2^(R + RUN) points if R2 > 0
    i32* tree = reinterpret_cast<i32*>(memory);
    u32* tile = reinterpret_cast<u32*>(memory) + (1 << R);
    if (in == nullptr) in = out;

    const u32 log_parts = pass.log_to - pass.log_from;
    const u32 part = blockIdx.x & ((1u << log_parts) - 1), number = blockIdx.x >> log_parts;
    const u32 run = (number & ((1u << (LOW - RUN)) - 1)) << RUN, middle = number >> (LOW - RUN);
    const u32 above = (part << (pass.log_from - LOW - R)) + middle;
    const u32 neighbour = threadIdx.x & ((1u << RUN) - 1), place = threadIdx.x >> RUN;
    const u32* from = in + ((u64)blockIdx.y << pass.log_from) + ((u64)middle << (LOW + R)) + run + neighbour;
    u32* to = out + ((u64)blockIdx.y << pass.log_to) + ((u64)above << (LOW + R)) + run + neighbour;

    u32 x[1 << Plan::R1];
    if (Plan::R2 == 0 || !Plan::INVERSE) load_strided<Plan, typename Plan::Upper>(x, from, place);
    else load_strided<Plan, First>(x, from, place);
    for (u32 node = threadIdx.x; node < (1u << R); node += Plan::THREADS) {
        if (node == 0) continue;
        const u32 level = 31 - __clz(node);
        const u32 layer = pass.tower - (1u << (pass.log_to - LOW - R + 1 + level));
        const u32 twiddle = tower[layer + (above << level) + node - (1u << level)];
        tree[node] = prepared(Plan::SCALED && level == 0 ? scaled(twiddle, pass.scale) : twiddle);
    }
    __syncthreads();
    if constexpr (Plan::R2 == 0) {
        run_stage<typename Plan::Upper, R, Plan::INVERSE, false, Plan::SCALED>(x, place, tree, pass.scale);
        store_strided<Plan, typename Plan::Upper>(to, x, place);
    } else {
        constexpr bool SCALED = Plan::SCALED;  // the upper stage's, which is then the second
        run_stage<First, First::BITS, Plan::INVERSE, false, false>(x, place, tree, pass.scale);
        put_strided<Plan, First>(tile, x, place, neighbour);
        __syncthreads();
        take_strided<Plan, Second>(x, tile, place, neighbour);
        run_stage<Second, Second::BITS, Plan::INVERSE, false, SCALED>(x, place, tree, pass.scale);
        store_strided<Plan, Second>(to, x, place);
    }
}

// --- the contiguous pass --------------------------------------------------------------------------------------

// Layers 0 to R - 1, in tiles of 2^(V + 8) adjacent words of the result and blocks of 256 threads, in up to three
// stages of 4, 4 and V layers. With R < V + 8 a polynomial has 2^R coefficients, and a tile spans several polynomials.
template <int V_, int R_, bool INVERSE_, bool SCALED_>
struct Contiguous {
    static constexpr int V = V_, R = R_, B = V + 8, THREADS = CONTIGUOUS_THREADS;
    static_assert(THREADS == 256, "three stages of 4, 4 and V layers take 8 + V bits");
    static constexpr bool INVERSE = INVERSE_, SCALED = SCALED_, SEVERAL = R < B;
    static_assert(V == 4 || R > 8, "a thread's points are one group of the stage that ends in registers");
    static constexpr int BLOCKS = V == 5 ? 4 : 5;
    typedef Stage<B, V, 8, V> Upper;
    typedef Stage<B, V, 4, 4> Middle;
    typedef Stage<B, V, 0, 4> Lower;
    // The number of layers each stage computes.
    static constexpr int LOWER = R < 4 ? R : 4, MIDDLE = R < 8 ? R - 4 : 4, UPPER = R - 8;
    // The number of layers whose twiddles are kept, from layer 1 on; layer 0 uses those of layer 1.
    static constexpr int KEPT = R < 2 ? 2 : R;

    // The shared-memory cell of a position: bits 5, 6 and 8 are added to bits 2, 3 and 4, which keeps 16-byte vectors
    // contiguous, so that in each stage, and along a line, a warp's accesses are in different banks.
    static __device__ constexpr u32 cell(u32 position) {
        return position ^ (position >> 3 & 0xc) ^ (position >> 4 & 0x10);
    }
};

// Moves one group of a thread's points to and from the tile, in vectors where they are adjacent.
template <class Plan, class Stage>
__device__ __forceinline__ void put(u32* tile, const u32* x, u32 place, int group) {
    const u32 first = Plan::cell(Stage::first(place, group));
#pragma unroll
    for (int i = 0; i < (1 << Stage::BITS); i += Stage::LOW == 0 ? 4 : 1) {
        u32* at = tile + beside(first, Plan::cell((u32)i << Stage::LOW));
        if (Stage::LOW == 0) *(uint4*)at = make_uint4(x[i], x[i + 1], x[i + 2], x[i + 3]);
        else *at = x[i];
    }
}

template <class Plan, class Stage>
__device__ __forceinline__ void take(u32* x, const u32* tile, u32 place, int group) {
    const u32 first = Plan::cell(Stage::first(place, group));
#pragma unroll
    for (int i = 0; i < (1 << Stage::BITS); i += Stage::LOW == 0 ? 4 : 1) {
        const u32* at = tile + beside(first, Plan::cell((u32)i << Stage::LOW));
        if (Stage::LOW == 0) {
            const uint4 four = *(const uint4*)at;
            x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w;
        } else {
            x[i] = *at;
        }
    }
}

// A stage from the tile to the tile. Each thread has its own points, so processing one group after the other needs no
// barrier, and registers for only one.
template <class Plan, class Stage, int TOP, bool CIRCLE, bool SCALED>
__device__ __forceinline__ void run_in_tile(u32* tile, u32 place, const i32* tree, u32 scale) {
#pragma unroll
    for (int g = 0; g < Stage::GROUPS; ++g) {
        u32 x[1 << Stage::BITS];
        take<Plan, Stage>(x, tile, place, g);
        run_layers<Stage, TOP, Plan::INVERSE, CIRCLE, SCALED>(x, Stage::above(place, g), tree, scale);
        put<Plan, Stage>(tile, x, place, g);
    }
}

// The words of a tile in global memory: which are read, and where the results are written.
template <class Plan>
struct Words {
    const u32* in;
    u32* out;
    u64 first;  // of the result
    u64 end;
    u32 log_from, log_to;
    bool aligned;

    // A block of the result of 2^log_from words reads its column's coefficients.
    __device__ __forceinline__ u64 source(u64 word) const {
        return (word >> log_to << log_from) + (word & ((1ull << log_from) - 1));
    }
    __device__ __forceinline__ bool inside(u32 position) const { return !Plan::SEVERAL || first + position < end; }
    __device__ __forceinline__ const u32* at(u32 position) const {
        return Plan::SEVERAL ? in + source(first + position) : in + source(first) + position;
    }
    __device__ __forceinline__ u32* to(u32 position) const { return out + first + position; }
};

template <class Plan, class Stage>
__device__ __forceinline__ void load(u32* x, const Words<Plan>& words, u32 place) {
#pragma unroll
    for (int i = 0; i < (1 << Plan::V); ++i) {
        const u32 position = Stage::position(place, i);
        x[i] = words.inside(position) ? *words.at(position) : 0;
    }
}

template <class Plan, class Stage>
__device__ __forceinline__ void store(const Words<Plan>& words, const u32* x, u32 place) {
#pragma unroll
    for (int i = 0; i < (1 << Plan::V); ++i) {
        const u32 position = Stage::position(place, i);
        if (words.inside(position)) *words.to(position) = x[i];
    }
}

// A warp's words of the lower stage, read and written in coalesced accesses: the positions of one group of its 32
// threads are adjacent. Access i of a thread is EACH words, 32 EACH i after its first.
template <class Plan, int EACH>
struct Lines {
    typedef typename Plan::Lower Lower;
    static constexpr int COUNT = 16 / EACH;

    static __device__ __forceinline__ u32 first(u32 place, int group) {
        return Lower::first(place & ~31u, group) + EACH * (place & 31);
    }
    static __device__ constexpr u32 step(int i) { return 32 * EACH * i; }

    static __device__ __forceinline__ void load(u32* x, const Words<Plan>& words, u32 place) {
#pragma unroll
        for (int g = 0; g < Lower::GROUPS; ++g) {
            const u32* from = words.at(first(place, g));
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                u32* y = x + (g << Lower::BITS) + EACH * i;
                const u32 position = first(place, g) + step(i);
                const u32* at = Plan::SEVERAL ? words.at(position) : from + step(i);
                uint4 four = make_uint4(0, 0, 0, 0);
                if (words.inside(position)) {
                    if (EACH == 4) four = *(const uint4*)at;
                    else four.x = *at;
                }
                y[0] = four.x;
                if (EACH == 4) y[1] = four.y, y[2] = four.z, y[3] = four.w;
            }
        }
    }
    static __device__ __forceinline__ void put(u32* tile, const u32* x, u32 place) {
#pragma unroll
        for (int g = 0; g < Lower::GROUPS; ++g) {
            const u32 cell = Plan::cell(first(place, g));
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const u32* y = x + (g << Lower::BITS) + EACH * i;
                u32* at = tile + beside(cell, Plan::cell(step(i)));
                if (EACH == 4) *(uint4*)at = make_uint4(y[0], y[1], y[2], y[3]);
                else *at = y[0];
            }
        }
    }
    static __device__ __forceinline__ void store(const Words<Plan>& words, const u32* tile, u32 place) {
#pragma unroll
        for (int g = 0; g < Lower::GROUPS; ++g) {
            const u32 cell = Plan::cell(first(place, g));
            u32* to = words.to(first(place, g));
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const u32* at = tile + beside(cell, Plan::cell(step(i)));
                if (!words.inside(first(place, g) + step(i))) continue;
                // The compiler would merge a plain store with those of the other branch.
                if (EACH == 4) __stwb((uint4*)(to + step(i)), *(const uint4*)at);
                else to[step(i)] = *at;
            }
        }
    }
};

// Four words per thread and access where memory is aligned, else one. The lower stage of a warp reads what the warp
// itself has put, and the other way round.
template <class Plan>
__device__ __forceinline__ void load_lines(u32* x, const Words<Plan>& words, u32 place) {
    if (words.aligned) Lines<Plan, 4>::load(x, words, place);
    else Lines<Plan, 1>::load(x, words, place);
}
template <class Plan>
__device__ __forceinline__ void put_lines(u32* tile, const u32* x, u32 place, bool aligned) {
    if (aligned) Lines<Plan, 4>::put(tile, x, place);
    else Lines<Plan, 1>::put(tile, x, place);
    __syncwarp();
}
template <class Plan>
__device__ __forceinline__ void store_lines(const Words<Plan>& words, const u32* tile, u32 place) {
    __syncwarp();
    if (words.aligned) Lines<Plan, 4>::store(words, tile, place);
    else Lines<Plan, 1>::store(words, tile, place);
}

// The twiddle at a node of a tile's tree: number `index` of its layer in the tile.
template <class Plan>
__device__ __forceinline__ i32 twiddle_of(const u32* tower, u32 position, u32 layer, u32 index, const Pass& pass) {
    u32 h = (position >> (layer + 1)) + index;
    // If the domain is smaller than a tile, its twiddles repeat.
    if (Plan::SEVERAL) h &= (1u << (pass.log_to - 1 - layer)) - 1;
    const u32 twiddle = tower[pass.tower - (1u << (pass.log_to - layer)) + h];
    return prepared(Plan::SCALED && layer == Plan::R - 1 ? scaled(twiddle, pass.scale) : twiddle);
}

// The twiddles of layers 1 to KEPT - 1 of a tile.
template <class Plan>
__device__ __forceinline__ void keep_twiddles(i32* tree, const u32* tower, u32 position, const Pass& pass) {
    constexpr int B = Plan::B, TOP = B - Plan::KEPT;  // the root's level
    const u32 node = threadIdx.x;
    if (node >= (1u << TOP)) {
        const u32 level = 31 - __clz(node);
        tree[node] = twiddle_of<Plan>(tower, position, B - 1 - level, node - (1u << level), pass);
    }
    // From level 8 on all threads are in one layer.
#pragma unroll
    for (int level = TOP < 8 ? 8 : TOP; level < B - 1; ++level) {
#pragma unroll
        for (u32 index = 0; index < (1u << level); index += Plan::THREADS)
            tree[(1u << level) + index + node] =
                twiddle_of<Plan>(tower, position, B - 1 - level, index + node, pass);
    }
}

template <class Plan>
__device__ __forceinline__ void forward_tile(const Words<Plan>& words, u32* tile, const i32* tree) {
    typedef typename Plan::Upper Upper;
    typedef typename Plan::Middle Middle;
    typedef typename Plan::Lower Lower;
    const u32 place = threadIdx.x;
    u32 x[1 << Plan::V];
    // At the first barrier the previous tile has been written and the twiddles are ready.
    if constexpr (Plan::R > 8) {
        load<Plan, Upper>(x, words, place);
        __syncthreads();
        run_stage<Upper, Plan::UPPER, false, false, false>(x, place, tree, 0);
        put<Plan, Upper>(tile, x, place, 0);
        __syncthreads();
        run_in_tile<Plan, Middle, Plan::MIDDLE, false, false>(tile, place, tree, 0);
        __syncthreads();
    } else if constexpr (Plan::R > 4) {
        load<Plan, Middle>(x, words, place);
        __syncthreads();
        run_stage<Middle, Plan::MIDDLE, false, false, false>(x, place, tree, 0);
        put<Plan, Middle>(tile, x, place, 0);
        __syncthreads();
    } else {
        load_lines(x, words, place);
        __syncthreads();
        put_lines<Plan>(tile, x, place, words.aligned);
    }
    run_in_tile<Plan, Lower, Plan::LOWER, true, false>(tile, place, tree, 0);
    store_lines(words, tile, place);
}

template <class Plan>
__device__ __forceinline__ void inverse_tile(const Words<Plan>& words, u32* tile, const i32* tree, u32 scale) {
    typedef typename Plan::Upper Upper;
    typedef typename Plan::Middle Middle;
    typedef typename Plan::Lower Lower;
    constexpr bool SCALED = Plan::SCALED;
    const u32 place = threadIdx.x;
    u32 x[1 << Plan::V];
    load_lines(x, words, place);
    __syncthreads();  // the previous tile is written, the twiddles are ready
    put_lines<Plan>(tile, x, place, words.aligned);
    run_in_tile<Plan, Lower, Plan::LOWER, true, SCALED && Plan::R <= 4>(tile, place, tree, scale);
    if constexpr (Plan::R <= 4) {
        store_lines(words, tile, place);
        return;
    }
    __syncthreads();
    if constexpr (Plan::R > 8) {
        run_in_tile<Plan, Middle, Plan::MIDDLE, false, false>(tile, place, tree, scale);
        __syncthreads();
        take<Plan, Upper>(x, tile, place, 0);
        run_stage<Upper, Plan::UPPER, true, false, SCALED>(x, place, tree, scale);
        store<Plan, Upper>(words, x, place);
    } else if constexpr (Plan::R > 4) {
        take<Plan, Middle>(x, tile, place, 0);
        run_stage<Middle, Plan::MIDDLE, true, false, SCALED>(x, place, tree, scale);
        store<Plan, Middle>(words, x, place);
    }
}

// A block takes one place of the domain and several columns, so that its twiddles serve them all; blocks of the same
// place are consecutive. Without an `in` it works in place.
template <class Plan>
__global__ void __launch_bounds__(Plan::THREADS, Plan::BLOCKS)
circle_contiguous(u32* out, const u32* in, const u32* __restrict__ tower, Pass pass) {
    constexpr int B = Plan::B;
    extern __shared__ __align__(16) unsigned char memory[];  // 2^B points and 2^(B - 1) twiddles
    u32* tile = reinterpret_cast<u32*>(memory);
    i32* tree = reinterpret_cast<i32*>(memory) + (1 << B);
    if (in == nullptr) in = out;

    const u32 groups = (pass.tiles + pass.together - 1) / pass.together;
    const u32 position = blockIdx.x / groups << B, begin = blockIdx.x % groups * pass.together;
    const u32 end = begin + pass.together < pass.tiles ? begin + pass.together : pass.tiles;
    const u32 log_step = pass.log_to > B ? pass.log_to : B;
    keep_twiddles<Plan>(tree, tower, position, pass);
    Words<Plan> words;
    words.in = in;
    words.out = out;
    words.end = pass.words;
    words.log_from = pass.log_from;
    words.log_to = pass.log_to;
    words.aligned = Plan::R > 1 && (((size_t)in | (size_t)out) & 15) == 0;
    for (u32 number = begin; number < end; ++number) {
        words.first = ((u64)number << log_step) + position;
        if constexpr (Plan::INVERSE) inverse_tile(words, tile, tree, pass.scale);
        else forward_tile(words, tile, tree);
    }
}

// --- domains of two and four points ---------------------------------------------------------------------------

// The half coset's first point, or the inverses of its coordinates and of the size.
struct Tiny {
    u32 columns, log_from, log_to;
    Mersenne31 x, y, scale;
};

__device__ __forceinline__ void butterfly(Mersenne31& a, Mersenne31& b, Mersenne31 t) {
    const Mersenne31 product = b * t;
    b = a - product;
    a = a + product;
}
__device__ __forceinline__ void inverse_butterfly(Mersenne31& a, Mersenne31& b, Mersenne31 t) {
    const Mersenne31 difference = a - b;
    a = a + b;
    b = difference * t;
}

// One column per thread. Without an `in` it works in place.
template <bool INVERSE>
__global__ void __launch_bounds__(TINY_THREADS) circle_tiny(Mersenne31* out, const Mersenne31* in, Tiny tiny) {
    const u64 column = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= tiny.columns) return;
    if (in == nullptr) in = out;
    const Mersenne31* from = in + (column << tiny.log_from);
    const Mersenne31 x = tiny.x, y = tiny.y;
    const u32 size = 1u << tiny.log_to;
    Mersenne31 v[4];
    for (u32 i = 0; i < 4; ++i) v[i] = from[i & ((1u << tiny.log_from) - 1)];
    if (INVERSE) {
        inverse_butterfly(v[0], v[1], y);
        if (size == 4) {
            inverse_butterfly(v[2], v[3], -y);
            inverse_butterfly(v[0], v[2], x);
            inverse_butterfly(v[1], v[3], x);
        }
        for (u32 i = 0; i < 4; ++i) v[i] *= tiny.scale;
    } else {
        if (tiny.log_from == 2) {
            butterfly(v[0], v[2], x);
            butterfly(v[1], v[3], x);
        }
        butterfly(v[0], v[1], y);
        butterfly(v[2], v[3], -y);
    }
    for (u32 i = 0; i < size; ++i) out[(column << tiny.log_to) + i] = v[i];
}
