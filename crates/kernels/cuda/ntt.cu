// Two-adic number-theoretic transforms, decimation in frequency.
//
// A transform of 2^n points is one to three passes. A pass takes the top R bits of what is left of the index: it
// reads 2^R points a stride S apart, transforms them, and multiplies by the twiddle that ties them to the rest.
// With x of 2^R S points, i = j1 S + j2 and k = k1 + 2^R k2,
//
//   X[k] = sum_j2 w_S^(j2 k2)  w^(j2 k1)  sum_j1 w_(2^R)^(j1 k1) x[j1 S + j2]
//
// and the outer sum is the next pass's work. Inside a pass each thread holds 2^R1 points in registers, transforms
// them, exchanges them once through shared memory and transforms 2^R2 at a time: R = R1 + R2. A block works on a
// tile of 2^R points of TILE neighbouring j2 (or, in the last pass, TILE runs of 2^R points), so that every access
// to memory is at least 64 bytes wide.

#include "field/baby_bear.cuh"
#include "field/goldilocks.cuh"
#include "field/koala_bear.cuh"

// The roots of unity w_32^0 .. w_32^15, as a kernel parameter: operands straight from the constant bank.
template <class F>
struct Roots {
    F power[16];
};

// A pass over `polynomials` polynomials of 2^log_size points.
template <class F>
struct Pass {
    Roots<F> roots;
    F scale;            // multiplies the result, if `scaled`
    u32 log_size;       // of a polynomial
    u32 log_span;       // of what earlier passes left: 2^R S points
    u32 log_cosets;     // each polynomial is read for 2^log_cosets results, on cosets of their own
    u32 reversed;       // whether the points come in bit-reversed order (first pass)
    u32 natural;        // whether the result is wanted in natural order (last pass)
    u32 shifted;        // whether point i is first multiplied by shift^i, one shift a coset (first pass)
    u32 unshifted;      // whether result k is multiplied by shift^k (last pass, natural order)
    u32 scaled;
};

__device__ __forceinline__ u32 reverse_bits(u32 x, u32 bits) { return bits == 0 ? 0 : __brev(x) >> (32 - bits); }

// (u - v) w. A Montgomery product takes any 32-bit factor, so the difference need not be reduced.
template <class P>
__device__ __forceinline__ Monty31<P> difference_times(Monty31<P> u, Monty31<P> v, Monty31<P> w) {
    return Monty31<P>::from_word(u.v - v.v + P::MODULUS) * w;
}
__device__ __forceinline__ Goldilocks difference_times(Goldilocks u, Goldilocks v, Goldilocks w) {
    return (u - v) * w;
}

// The stored form that leaves the kernel: unique.
template <class F>
__device__ __forceinline__ F stored(F x) {
    return F::from_word(x.canonical());
}

// x[k] -> sum_j w^(j k) x[j] over 2^R points, the result in bit-reversed order.
template <int R, class F>
__device__ __forceinline__ void transform(F* x, const Roots<F>& roots) {
#pragma unroll
    for (int level = 0; level < R; ++level) {
        const int half = 1 << (R - 1 - level);
#pragma unroll
        for (int j = 0; j < (1 << R); ++j) {
            if (j & half) continue;
            const F u = x[j], v = x[j + half];
            const int k = (j & (half - 1)) * (16 / half);
            x[j] = u + v;
            x[j + half] = k == 0 ? u - v : difference_times(u, v, roots.power[k]);
        }
    }
}

// base^exponent from tables of base^i and base^(4096 i), i < 4096.
template <class F>
__device__ __forceinline__ F power_of(const F* table, u32 exponent) {
    return table[exponent & 4095] * table[4096 + (exponent >> 12)];
}

// Calls use(i, start ratio^i) for i < N; four chains of products, so that they overlap.
template <int N, class F, class Use>
__device__ __forceinline__ void geometric(F start, F ratio, Use use) {
    if (N < 4) {
        use(0, start);
        if (N > 1) use(1, start * ratio);
        return;
    }
    const F square = ratio.square(), step = square.square();
    F power[4] = {start, start * ratio, start * square, start * ratio * square};
#pragma unroll
    for (int i = 0; i < N; i += 4) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            use(i + j, power[j]);
            if (i + 4 < N) power[j] *= step;
        }
    }
}

template <int R>
__device__ constexpr int reversed_in(int x) {
    int y = 0;
    for (int bit = 0; bit < R; ++bit) y |= (x >> bit & 1) << (R - 1 - bit);
    return y;
}

// Where a point of a run lies in shared memory: one point of padding every 2^R2 (and two a run), so that accesses
// along a run, in steps of 2^R2 and across runs fall into different banks.
template <int R2>
__device__ constexpr u32 padded(u32 position) {
    return position + (position >> R2);
}

// One pass. `stage` holds w_(2^R)^(a rev(q)) at [q][a], `twiddles` the powers of w_(2^24) and `shifts` those of
// each coset's shift, both as `power_of` reads them.
//
// Blocks: x is the tile of a polynomial, times the coset; y is the polynomial.
template <class F, int R1, int R2, int TILE, bool LAST>
__global__ void __launch_bounds__(TILE << R2, 1024 / sizeof(F) * 4 / (TILE << R2))
ntt_pass(F* out, const F* in, const F* __restrict__ stage, const F* __restrict__ twiddles,
         const F* __restrict__ shifts, Pass<F> pass) {
    constexpr int R = R1 + R2, POINTS = 1 << R1, GROUPS = 1 << (R1 - R2);
    constexpr u32 RUN = padded<R2>(1 << R) + 2;
    extern __shared__ __align__(16) unsigned char memory[];  // TILE * RUN points
    F* tile = reinterpret_cast<F*>(memory);

    const u32 log_stride = pass.log_span - R;
    const u32 coset = blockIdx.x & ((1u << pass.log_cosets) - 1);
    const u32 index = blockIdx.x >> pass.log_cosets;
    const u32 log_runs = pass.log_size - R;

    // This thread's column of the tile, and its place in the column. A strided pass has neighbouring threads on
    // neighbouring columns; the last pass on neighbouring points of a run.
    const u32 column = LAST ? threadIdx.x >> R2 : threadIdx.x % TILE;
    const u32 place = LAST ? threadIdx.x & ((1u << R2) - 1) : threadIdx.x / TILE;

    // The run: where its first point lies, and the distance of the next.
    u32 first, run = 0;
    bool inside = true;
    if (LAST) {
        run = index * TILE + column;
        inside = run < (1u << log_runs);
        if (pass.natural) run = reverse_bits(run, log_runs);
        first = run << R;
    } else {
        const u32 tiles = 1u << log_stride;  // in units of one column
        const u32 at = index * TILE;
        first = (at >> log_stride << pass.log_span) + (at & (tiles - 1)) + column;
    }
    const u32 j2 = LAST ? 0 : first & ((1u << log_stride) - 1);

    const F* source = in + ((u64)blockIdx.y << pass.log_size);
    F* target = out + ((((u64)blockIdx.y << pass.log_cosets) + coset) << pass.log_size);
    F x[POINTS];
    if (inside) {
#pragma unroll
        for (int i = 0; i < POINTS; ++i) {
            const u32 at = first + ((((u32)i << R2) + place) << (LAST ? 0 : log_stride));
            x[i] = source[pass.reversed ? reverse_bits(at, pass.log_size) : at];
        }
        if (pass.shifted) {
            const F* shift = shifts + coset * 8192;
            const u32 stride = LAST ? 0 : log_stride;
            geometric<POINTS>(power_of(shift, first + (place << stride)), power_of(shift, 1u << (R2 + stride)),
                              [&](int i, F power) { x[i] *= power; });
        }
        transform<R1>(x, pass.roots);
#pragma unroll
        for (int q = 0; q < POINTS; ++q) {
            if (q != 0) x[q] *= stage[((u32)q << R2) + place];
            const u32 at = padded<R2>(((u32)q << R2) + place);
            tile[LAST ? column * RUN + at : at * TILE + column] = x[q];
        }
    }
    __syncthreads();
    // From here on a thread holds whole groups of 2^R2 neighbouring positions. Where the result leaves in
    // natural order, neighbouring threads take neighbouring runs, which are neighbours in the result.
    const bool across = LAST && pass.natural;
    const u32 column2 = across ? threadIdx.x % TILE : column;
    const u32 place2 = across ? threadIdx.x / TILE : place;
    if (LAST) inside = index * TILE + column2 < (1u << log_runs);
    // A run's result k1 goes to k1 2^(n - R) + (the natural index of the run).
    const u32 log_step = LAST ? log_runs : log_stride;
    const u32 base = LAST ? index * TILE + column2 : first;
    if (inside) {
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            const u32 group = place2 + ((u32)g << R2);
            F* y = x + (g << R2);
#pragma unroll
            for (int a = 0; a < (1 << R2); ++a) {
                const u32 at = padded<R2>((group << R2) + a);
                y[a] = tile[LAST ? column2 * RUN + at : at * TILE + column2];
            }
            transform<R2>(y, pass.roots);
            const u32 k = reverse_bits(group, R1);
            if (!LAST || pass.unshifted) {
                const F* table = LAST ? shifts : twiddles;
                const u32 to_24 = 24 - pass.log_span;
                F start = power_of(table, LAST ? (k << log_runs) + base : (k * j2) << to_24);
                const F ratio = power_of(table, LAST ? 1u << (R1 + log_runs) : (j2 << R1) << to_24);
                if (pass.scaled) start *= pass.scale;
                geometric<1 << R2>(start, ratio, [&](int i, F power) { y[reversed_in<R2>(i)] *= power; });
            } else if (pass.scaled) {
#pragma unroll
                for (int a = 0; a < (1 << R2); ++a) y[a] *= pass.scale;
            }
        }
    }
    if (!LAST || across) {
        if (inside) {
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
#pragma unroll
                for (int a = 0; a < (1 << R2); ++a) {
                    const u32 position = ((place2 + ((u32)g << R2)) << R2) + a;
                    const u32 row = across ? reverse_bits(position, R) : position;
                    target[base + (row << log_step)] = stored(x[(g << R2) + a]);
                }
            }
        }
    } else {
        // The result leaves in place: through shared memory once more, so that a warp writes one line.
        __syncthreads();
        if (inside) {
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
#pragma unroll
                for (int a = 0; a < (1 << R2); ++a) {
                    const u32 position = ((place + ((u32)g << R2)) << R2) + a;
                    tile[column * RUN + padded<R2>(position)] = x[(g << R2) + a];
                }
            }
        }
        __syncthreads();
        if (inside) {
#pragma unroll
            for (int i = 0; i < POINTS; ++i) {
                const u32 position = ((u32)i << R2) + place;
                target[first + position] = stored(tile[column * RUN + padded<R2>(position)]);
            }
        }
    }
}

// A whole transform of 2^R points, R <= 4, one thread a polynomial and coset.
template <class F, int R>
__global__ void ntt_small(F* out, const F* in, const F* __restrict__ shifts, Pass<F> pass, u64 results) {
    const u64 result = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (result >= results) return;
    const u32 coset = (u32)result & ((1u << pass.log_cosets) - 1);
    const F* source = in + ((result >> pass.log_cosets) << R);
    F* target = out + (result << R);
    F x[1 << R];
#pragma unroll
    for (int i = 0; i < (1 << R); ++i) {
        x[i] = source[pass.reversed ? reversed_in<R>(i) : i];
        if (pass.shifted) x[i] *= shifts[coset * 8192 + i];
    }
    transform<R>(x, pass.roots);
#pragma unroll
    for (int i = 0; i < (1 << R); ++i) {
        F y = x[pass.natural ? reversed_in<R>(i) : i];
        if (pass.unshifted) y *= shifts[i];
        if (pass.scaled) y *= pass.scale;
        target[i] = stored(y);
    }
}
