// Two-adic number-theoretic transforms, decimation in frequency.
//
// A transform of 2^n points is one to three passes. A pass processes the top R of the remaining index bits: it reads
// 2^R points a stride S apart, transforms them, and multiplies by the twiddles of the next pass. With x of 2^R S
// points, i = j1 S + j2 and k = k1 + 2^R k2,
//
//   X[k] = sum_j2 w_S^(j2 k2)  w^(j2 k1)  sum_j1 w_(2^R)^(j1 k1) x[j1 S + j2]
//
// and the next pass computes the outer sum. Inside a pass each thread holds 2^R1 points in registers, transforms them,
// exchanges them through shared memory and continues with the next bits: R = R1 + R2 + R3. A block works on a tile of
// 2^R points of TILE adjacent j2 (or, in the last pass, TILE runs of 2^R points), so that every access to global memory
// is at least 32 bytes wide and the next block reads the adjacent bytes.

#include "field/baby_bear.cuh"
#include "field/goldilocks.cuh"
#include "field/koala_bear.cuh"

// The roots of unity w_32^0 .. w_32^(ROOTS - 1), as a kernel parameter: operands directly from the constant bank.
template <class F>
struct Roots {
    F power[ROOTS];
};

// A pass over polynomials of 2^log_size points.
template <class F>
struct Pass {
    Roots<F> roots;
    F scale;          // multiplies the result, if `scaled`
    u32 polynomials;
    u32 log_size;     // of a polynomial
    u32 log_span;     // of what earlier passes left: 2^R S points
    u32 log_cosets;   // each polynomial is read for 2^log_cosets results, on cosets of their own (first pass)
    u32 shifted_from; // the first coset whose point i is multiplied by shift^i, one shift a coset (first pass)
    u32 reversed;     // whether the points come in bit-reversed order (first pass)
    u32 natural;      // whether the result is wanted in natural order (last pass)
    u32 unshifted;    // whether result k is multiplied by entry k of `twiddles` (last pass, natural order)
    u32 scaled;       // (last pass)
    u32 across;       // whether adjacent runs are adjacent in the result (last of several passes, natural order)
    u32 parts;        // whether a block of a column's rows goes elsewhere (last pass, not natural order):
    u32 log_column;   // columns of so many rows, all cosets of a polynomial,
    u32 log_block;    // in blocks of so many, no fewer than a run's,
    u32 block;        // of which this one goes elsewhere
};

// (u - v) w_32^k, k and the direction known at compile time. A Montgomery product accepts any 32-bit factor, so the
// difference need not be reduced.
template <bool INVERSE, class P>
__device__ __forceinline__ Monty31<P> difference_times(Monty31<P> u, Monty31<P> v, int k,
                                                       const Roots<Monty31<P>>& roots) {
    return Monty31<P>::from_word(u.v - v.v + P::MODULUS) * roots.power[k];
}
// In Goldilocks w_32 = 2^78, and 2^96 = -1: a shift.
template <bool INVERSE>
__device__ __forceinline__ Goldilocks::Wide difference_times(Goldilocks::Wide u, Goldilocks::Wide v, int k,
                                                             const Roots<Goldilocks>&) {
    const int s = (INVERSE ? 192 - 78 : 78) * k % 192;
    return s < 96 ? (u - v).times_two_to(s) : (v - u).times_two_to(s - 96);
}

// The canonical stored form, in which results leave the kernel.
template <class F>
__device__ __forceinline__ F stored(F x) {
    return F::from_word(x.canonical());
}

// x[k] -> sum_j w^(j k) x[j] over 2^R points, the result in bit-reversed order.
template <int R, bool INVERSE, class T, class F>
__device__ __forceinline__ void transform(T* x, const Roots<F>& roots) {
#pragma unroll
    for (int level = 0; level < R; ++level) {
        const int half = 1 << (R - 1 - level);
#pragma unroll
        for (int j = 0; j < (1 << R); ++j) {
            if (j & half) continue;
            const T u = x[j], v = x[j + half];
            const int k = (j & (half - 1)) * (16 / half);
            x[j] = u + v;
            x[j + half] = k == 0 ? u - v : difference_times<INVERSE>(u, v, k, roots);
        }
    }
}

// In Goldilocks without reductions between the levels. After n levels the values are within 2^(64 + n) of zero: a
// level doubles the bound, and a shift ends within 2^65. For R = 5, the most, a difference is shifted by up to 30
// bits in the first level, 28 in the second and 24 after that, which fits in 95 bits. The first point of each block
// is never shifted, so the multiple of p that is added to x[0] arrives in every result unchanged and makes it
// positive.
template <int R, bool INVERSE>
__device__ __forceinline__ void transform(Goldilocks* x, const Roots<Goldilocks>& roots) {
    static_assert(R <= 5, "the bounds above are for at most five levels");
    typedef Goldilocks::Wide Wide;
    Wide y[1 << R];
#pragma unroll
    for (int i = 0; i < (1 << R); ++i) y[i] = Wide::from(x[i]);
    y[0] = y[0] + Wide::multiple_of_p(2 << R);
    transform<R, INVERSE>(y, roots);
#pragma unroll
    for (int i = 0; i < (1 << R); ++i) x[i] = y[i].reduce();
}

template <int R>
__device__ constexpr int reversed_in(int x) {
    int y = 0;
    for (int bit = 0; bit < R; ++bit) y |= (x >> bit & 1) << (R - 1 - bit);
    return y;
}

// The shared-memory offset of a point of a run: padded, so that accesses along a run, in steps of a power of two and
// across runs are in different banks.
__device__ constexpr u32 padded(u32 position) { return position + (position >> 3); }

// A tile of 2^R points in shared memory, and the part of it held by one of the 2^(R - V) threads of a run.
//
// The R bits of a position are processed from the top in up to three stages of R1, R2 and R3 bits. In a stage of the
// bits from LOW up to LOW + BITS, a thread holds 2^(V - BITS) groups of 2^BITS points that differ in just those bits.
template <int R, int V, int LOW, int BITS>
struct Stage {
    static constexpr int GROUPS = 1 << (V - BITS);

    // The bits of a group's positions outside the stage's own.
    static __device__ __forceinline__ u32 rest(u32 place, int group) { return place + ((u32)group << (R - V)); }
    static __device__ __forceinline__ u32 position(u32 place, int group, int i) {
        const u32 c = rest(place, group);
        return (c >> LOW << (LOW + BITS)) + ((u32)i << LOW) + (c & ((1u << LOW) - 1));
    }
};

// How a pass splits its points: R1 + R2 + R3 bits in stages, TILE runs per block, the last pass or one before it. The
// direction matters only for Goldilocks; other fields have it in their roots.
template <int R1_, int R2_, int R3_, int TILE_, bool LAST_, bool INVERSE_>
struct Plan {
    static constexpr int R1 = R1_, R2 = R2_, R3 = R3_, R = R1 + R2 + R3, TILE = TILE_;
    static constexpr bool LAST = LAST_, INVERSE = INVERSE_;
    static constexpr int V = R1;  // each thread holds 2^V points
    static constexpr int THREADS = TILE << (R - V);
    static constexpr u32 RUN = padded(1 << R) + 2;

    // The number of blocks that a multiprocessor should hold at once: as many threads as have registers for their
    // points and the same number again for addresses and twiddles.
    template <class F>
    static constexpr int blocks() {
        constexpr int threads = (131072 >> V) / (int)sizeof(F) < 1536 ? (131072 >> V) / (int)sizeof(F) : 1536;
        return threads / THREADS > 0 ? threads / THREADS : 1;
    }

    // The offset of position `at` of run `column` in the tile: adjacent threads hold adjacent positions in the last
    // pass, adjacent runs in the others.
    static __device__ __forceinline__ u32 cell(u32 at, u32 column) {
        return LAST ? column * RUN + padded(at) : padded(at) * TILE + column;
    }
};

// Transforms the stage's groups and multiplies by w_(2^(LOW + BITS))^(k a), a the bits below, from [rev(k)][a]. Row k =
// 0 is all ones, unless the table also includes a coset's shifts.
template <class Plan, int LOW, int BITS, class F>
__device__ __forceinline__ void run_stage(F* x, u32 place, const Roots<F>& roots, const F* __restrict__ table,
                                          bool shifted) {
    typedef Stage<Plan::R, Plan::V, LOW, BITS> S;
#pragma unroll
    for (int g = 0; g < S::GROUPS; ++g) {
        F* y = x + (g << BITS);
        transform<BITS, Plan::INVERSE>(y, roots);
        if (LOW == 0) continue;
        const F* row = table + (S::rest(place, g) & ((1u << LOW) - 1));
        if (shifted) y[0] *= row[0];
#pragma unroll
        for (int q = 1; q < (1 << BITS); ++q) y[q] *= row[(u32)q << LOW];
    }
}

template <class Plan, int LOW, int BITS, class F>
__device__ __forceinline__ void put(F* tile, const F* x, u32 place, u32 column) {
    typedef Stage<Plan::R, Plan::V, LOW, BITS> S;
#pragma unroll
    for (int i = 0; i < (1 << Plan::V); ++i)
        tile[Plan::cell(S::position(place, i >> BITS, i & ((1 << BITS) - 1)), column)] = x[i];
}

template <class Plan, int LOW, int BITS, class F>
__device__ __forceinline__ void take(const F* tile, F* x, u32 place, u32 column) {
    typedef Stage<Plan::R, Plan::V, LOW, BITS> S;
#pragma unroll
    for (int i = 0; i < (1 << Plan::V); ++i)
        x[i] = tile[Plan::cell(S::position(place, i >> BITS, i & ((1 << BITS) - 1)), column)];
}

// One pass, with three tables:
//   points     shift^(i 2^(R - R1) S) at [coset][i], i < 2^R1
//   stages     w_(2^(R - R1))^(a rev(q)) at [q][a] for the second stage; behind that, for the first,
//              w_(2^R)^(a rev(q)) shift^(a S) at [coset][q][a]
//   twiddles   w_span^(j2 rev(p)) shift^j2 at [coset][p][j2] for position p of a run
// Together they multiply point j1 S + j2, j1 = i 2^(R - R1) + a, by shift^(j1 S + j2). Only a first pass has shifts
// and several cosets. Without an `in` the pass works in place. One block of the rows of every column may go to `apart`,
// column after column.
//
// A block is a tile of runs and a coset. Blocks of the same tile and different polynomials are consecutive, so that the
// tables are read from the cache.
template <class F, class Plan>
__global__ void __launch_bounds__(Plan::THREADS, Plan::template blocks<F>())
ntt_pass(F* out, const F* in, F* apart, const F* __restrict__ points, const F* __restrict__ stages,
         const F* __restrict__ twiddles, Pass<F> pass) {
    constexpr int R = Plan::R, V = Plan::V, POINTS = 1 << V, TILE = Plan::TILE;
    constexpr bool LAST = Plan::LAST, THREE = Plan::R3 > 0;
    constexpr int LOW1 = R - Plan::R1, LOW2 = Plan::R3, END = THREE ? Plan::R3 : Plan::R2;
    typedef Stage<R, V, 0, END> Final;
    extern __shared__ __align__(16) unsigned char memory[];  // TILE * Plan::RUN points
    F* tile = reinterpret_cast<F*>(memory);
    if (in == nullptr) in = out;

    // The last pass tiles the runs of all polynomials together, the others those of one polynomial.
    const u32 block = LAST ? blockIdx.x : blockIdx.x / pass.polynomials;
    const u32 coset = block & ((1u << pass.log_cosets) - 1), number = (block >> pass.log_cosets) * TILE;
    const u32 log_step = LAST ? 0 : pass.log_span - R, log_runs = pass.log_size - R;
    const u32 runs = LAST ? pass.polynomials << log_runs : 1u << log_runs;

    // This thread's run of the tile and its place in the run: adjacent threads are adjacent in memory.
    u32 column = LAST ? threadIdx.x >> (R - V) : threadIdx.x % TILE;
    u32 place = LAST ? threadIdx.x & ((1u << (R - V)) - 1) : threadIdx.x / TILE;
    bool inside = number + column < runs;
    u32 polynomial = LAST ? (number + column) >> log_runs : blockIdx.x % pass.polynomials;
    u32 run = (number + column) & ((1u << log_runs) - 1);
    // The run's first point; the next are 2^log_step apart.
    const u32 j2 = run & ((1u << log_step) - 1);
    const u32 first = LAST ? (pass.natural ? reverse_bits(run, log_runs) : run) << R
                           : (run >> log_step << pass.log_span) + j2;
    const F* source = in + ((u64)polynomial << pass.log_size);
    F* target = out + ((((u64)polynomial << pass.log_cosets) + coset) << pass.log_size);
    F x[POINTS];
    if (inside) {
        if (pass.reversed) {
            // The thread's points differ in the top bits of their index, so in bit-reversed order they are adjacent.
            constexpr int EACH = 16 / sizeof(F);
            const u32 at = reverse_bits(first + (place << log_step), pass.log_size);
            const uint4* from = reinterpret_cast<const uint4*>(source + at);
#pragma unroll
            for (int i = 0; i < POINTS; i += EACH) {
                const uint4 four = from[i / EACH];
                const F* some = reinterpret_cast<const F*>(&four);
#pragma unroll
                for (int j = 0; j < EACH; ++j) x[reversed_in<V>(i + j)] = some[j];
            }
        } else {
            const F* from = source + first + (place << log_step);
#pragma unroll
            for (int i = 0; i < POINTS; ++i) x[i] = from[(u32)i << (LOW1 + log_step)];
        }
        const bool shifted = coset >= pass.shifted_from;
        if (shifted) {
#pragma unroll
            for (int i = 1; i < POINTS; ++i) x[i] *= points[coset * POINTS + i];
        }
        const F* table = stages + (1 << LOW1) + (coset << R);
        run_stage<Plan, LOW1, Plan::R1>(x, place, pass.roots, table, shifted);
        put<Plan, LOW1, Plan::R1>(tile, x, place, column);
    }
    __syncthreads();
    if (THREE) {
        if (inside) {
            take<Plan, LOW2, Plan::R2>(tile, x, place, column);
            run_stage<Plan, LOW2, Plan::R2>(x, place, pass.roots, stages, false);
            put<Plan, LOW2, Plan::R2>(tile, x, place, column);  // back where it took them from
        }
        __syncthreads();
    }
    // In natural order adjacent runs of a polynomial are adjacent in the result, so now adjacent threads take those.
    const bool across = LAST && pass.across;
    if (across) {
        column = threadIdx.x % TILE;
        place = threadIdx.x / TILE;
        inside = number + column < runs;
        polynomial = (number + column) >> log_runs;
        run = (number + column) & ((1u << log_runs) - 1);
        target = out + ((((u64)polynomial << pass.log_cosets) + coset) << pass.log_size);
    }
    if (inside) {
        take<Plan, 0, END>(tile, x, place, column);
        run_stage<Plan, 0, END>(x, place, pass.roots, stages, false);
        if (LAST && pass.scaled) {
#pragma unroll
            for (int i = 0; i < POINTS; ++i) x[i] *= pass.scale;
        }
    }
    if (LAST && !pass.natural) {
        // The result is written in place, through shared memory once more, so that a warp's writes are coalesced.
        if (inside) put<Plan, 0, END>(tile, x, place, column);
        __syncthreads();
        if (!inside) return;
        F* to = target + first + place;
        if (pass.parts) {
            const u64 at = (u64)(target - out) + first;
            const u32 blocks = 1u << (pass.log_column - pass.log_block), row = (u32)at & ((1u << pass.log_block) - 1);
            if (((u32)(at >> pass.log_block) & (blocks - 1)) == pass.block)
                to = apart + ((at >> pass.log_column) << pass.log_block) + row + place;
        }
#pragma unroll
        for (int i = 0; i < POINTS; ++i) to[i << LOW1] = stored(tile[Plan::cell((i << LOW1) + place, column)]);
    } else if (inside) {
#pragma unroll
        for (int g = 0; g < Final::GROUPS; ++g) {
            // In place, position (c, q) of the run; in natural order, k1 2^(n - R) + the run's own number, where
            // k1 = rev(c) + 2^(R - END) rev(q).
            const u32 c = Final::rest(place, g);
            const u32 row = LAST ? run + (reverse_bits(c, R - END) << log_runs) : first + (c << (END + log_step));
            F* y = x + (g << END);
            F* to = target + row;
            const u32 log_row = LAST ? R - END + log_runs : log_step;
            const F* twiddle = twiddles + (LAST ? row : (coset << pass.log_span) + (c << (END + log_step)) + j2);
            if (!LAST || pass.unshifted) {
#pragma unroll
                for (int q = 0; q < (1 << END); ++q) y[q] *= twiddle[(u32)(LAST ? reversed_in<END>(q) : q) << log_row];
            }
#pragma unroll
            for (int q = 0; q < (1 << END); ++q)
                to[(u32)(LAST ? reversed_in<END>(q) : q) << log_row] = stored(y[q]);
        }
    }
}

// A whole transform of 2^R points, R <= 4, one thread per polynomial and coset. `twiddles` holds shift^i at [coset][i]
// if the pass is shifted, and the factor of result k if it is unshifted.
template <class F, int R, bool INVERSE>
__global__ void ntt_small(F* out, const F* in, const F* __restrict__ twiddles, Pass<F> pass) {
    if (in == nullptr) in = out;
    const u64 result = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (result >= (u64)pass.polynomials << pass.log_cosets) return;
    const u32 coset = (u32)result & ((1u << pass.log_cosets) - 1);
    const F* source = in + ((result >> pass.log_cosets) << R);
    F* target = out + (result << R);
    F x[1 << R];
#pragma unroll
    for (int i = 0; i < (1 << R); ++i) {
        x[i] = source[pass.reversed ? reversed_in<R>(i) : i];
        if (coset >= pass.shifted_from) x[i] *= twiddles[(coset << R) + i];
    }
    transform<R, INVERSE>(x, pass.roots);
#pragma unroll
    for (int i = 0; i < (1 << R); ++i) {
        F y = x[pass.natural ? reversed_in<R>(i) : i];
        if (pass.unshifted) y *= twiddles[i];
        if (pass.scaled) y *= pass.scale;
        target[i] = stored(y);
    }
}
