// Combinations of polynomials in coefficient form, and their division by X - z. Polynomials over the extension are
// arrays of elements here, not slabs: every step works on whole elements.

#include "layout/slab.cuh"

// out[r] += sum_k weights[k] c_(columns[k])[r].
template <class E>
__global__ void __launch_bounds__(BLOCK_THREADS)
combine_columns(E* out, const typename E::Base* __restrict__ values, const u32* __restrict__ columns,
                const E* __restrict__ weights, u32 count, u64 rows) {
    const u64 row = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row >= rows) return;
    typename E::Sum sum = E::Sum::zero();
    for (u32 k = 0; k < count; ++k) sum.mul_add(weights[k], values[columns[k] * rows + row]);
    out[row] = out[row] + sum.reduce();
}

// values[positions[k]] += addends[k]; the positions differ.
template <class E>
__global__ void __launch_bounds__(BLOCK_THREADS)
add_at(E* values, const u64* __restrict__ positions, const E* __restrict__ addends, u32 count) {
    const u32 k = blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (k < count) values[positions[k]] = values[positions[k]] + addends[k];
}

// The slab of sum_k polynomials[k][r].
template <class E>
__global__ void __launch_bounds__(BLOCK_THREADS)
sum_polynomials(typename E::Base* out, const E* __restrict__ polynomials, u32 count, u64 rows) {
    const u64 row = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row >= rows) return;
    E total = polynomials[row];
    for (u32 k = 1; k < count; ++k) total = total + polynomials[k * rows + row];
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d) out[d * rows + row] = total.c[d];
}

// Division by X - z: with q[n] = 0 and q[i - 1] = z q[i] + c[i], the quotient has the coefficients q[i] and q[-1]
// is the remainder. The recurrence is split into tiles of BLOCK_THREADS runs of RUN coefficients. A tile alone,
// from q = 0 above it, leaves t = sum_i c[i] z^i over its own coefficients; entered with q it leaves t + z^(tile)
// q.

// The RUN coefficients of a thread, zero beyond the polynomial.
template <class E, int RUN>
__device__ __forceinline__ void load_run(E* c, const E* values, u64 first, u64 n) {
#pragma unroll
    for (int i = 0; i < RUN; ++i) c[i] = first + i < n ? values[first + i] : E::zero();
}

template <class E, int RUN>
__device__ __forceinline__ E horner(const E* c, E z) {
    E value = c[RUN - 1];
#pragma unroll
    for (int i = RUN - 2; i >= 0; --i) value = value * z + c[i];
    return value;
}

// What each tile leaves alone.
template <class E, int RUN>
__global__ void __launch_bounds__(BLOCK_THREADS) divide_tiles(E* tiles, const E* __restrict__ values, E z, u64 n) {
    __shared__ E shared[BLOCK_THREADS];
    const u64 first = ((u64)blockIdx.x * BLOCK_THREADS + threadIdx.x) * RUN;
    E c[RUN];
    load_run<E, RUN>(c, values, first, n);
    shared[threadIdx.x] = horner<E, RUN>(c, z);
    E step = z.pow(RUN);
    for (u32 half = 1; half < BLOCK_THREADS; half *= 2) {
        __syncthreads();
        if (threadIdx.x % (2 * half) == 0)
            shared[threadIdx.x] = shared[threadIdx.x] + step * shared[threadIdx.x + half];
        step = step.square();
    }
    if (threadIdx.x == 0) tiles[blockIdx.x] = shared[0];
}

// Replaces what each tile leaves by what enters it, and gives the remainder. One thread: there are few tiles.
template <class E>
__global__ void divide_carries(E* tiles, E* remainder, E step, u32 count) {
    E carry = E::zero();
    for (u32 tile = count; tile-- > 0;) {
        const E left = tiles[tile];
        tiles[tile] = carry;
        carry = carry * step + left;
    }
    *remainder = carry;
}

// The quotient, in place.
template <class E, int RUN>
__global__ void __launch_bounds__(BLOCK_THREADS)
divide_write(E* values, const E* __restrict__ entering, E z, u64 n) {
    __shared__ E shared[2][BLOCK_THREADS];
    const u32 thread = threadIdx.x;
    const u64 first = ((u64)blockIdx.x * BLOCK_THREADS + thread) * RUN;
    const E carry = entering[blockIdx.x];
    E c[RUN];
    load_run<E, RUN>(c, values, first, n);
    E step = z.pow(RUN);
    // What this thread's run and those above it leave together.
    E left = horner<E, RUN>(c, z);
    if (thread == BLOCK_THREADS - 1) left = left + step * carry;
    u32 from = 0;
    for (u32 distance = 1; distance < BLOCK_THREADS; distance *= 2) {
        shared[from][thread] = left;
        __syncthreads();
        if (thread + distance < BLOCK_THREADS) left = left + step * shared[from][thread + distance];
        step = step.square();
        from ^= 1;
    }
    shared[from][thread] = left;
    __syncthreads();
    E q = thread + 1 < BLOCK_THREADS ? shared[from][thread + 1] : carry;
#pragma unroll
    for (int i = RUN - 1; i >= 0; --i) {
        if (first + i < n) values[first + i] = q;
        q = q * z + c[i];
    }
}
