// Orders of values on a circle domain, and rows of four adjacent values.

#include "layout/quads.cuh"

// The index, in the circle domain's bit-reversed order, of value i of the coset of 2^log_rows points in the coset's own
// order. The domain has the even points of the coset, followed by the odd points from the last to the first.
__device__ __forceinline__ u32 domain_position(u32 i, u32 log_rows) {
    const u32 last = (1u << log_rows) - 1;
    const u32 index = i & 1 ? last - (i >> 1) : i >> 1;
    return __brev(index) >> (32 - log_rows);
}

// The inverse of `domain_position`.
__device__ __forceinline__ u32 coset_position(u32 i, u32 log_rows) {
    const u32 last = (1u << log_rows) - 1, index = __brev(i) >> (32 - log_rows);
    return index >> (log_rows - 1) ? 2 * (last - index) + 1 : 2 * index;
}

// Column blockIdx.y in coset order, minus its mean, total * inverse_rows. Reads are scattered, writes are coalesced.
__global__ void __launch_bounds__(BLOCK_THREADS)
centre(Mersenne31* out, const Mersenne31* __restrict__ in, const Mersenne31* totals, Mersenne31 inverse_rows,
       u32 log_rows) {
    const u32 i = blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (i >> log_rows) return;
    const u64 column = (u64)blockIdx.y << log_rows;
    const Mersenne31 mean = totals[blockIdx.y] * inverse_rows;
    out[column + i] = in[column + domain_position(i, log_rows)] - mean;
}

// Column blockIdx.y from coset order to the domain's bit-reversed order.
__global__ void __launch_bounds__(BLOCK_THREADS)
to_domain(Mersenne31* out, const Mersenne31* __restrict__ in, u32 log_rows) {
    const u32 i = blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (i >> log_rows) return;
    const u64 column = (u64)blockIdx.y << log_rows;
    out[column + i] = in[column + coset_position(i, log_rows)];
}

// Value 4 r + k of column d of the slab of n goes to row r of column d + 4 k.
__global__ void __launch_bounds__(BLOCK_THREADS)
pack_quads(Mersenne31* out, const Mersenne31* __restrict__ values, u64 n) {
    const u64 rows = n / 4, row = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row >= rows) return;
    QM31 x[4];
    load_quad(x, values, n, 4 * row, n, is_wide(values, n));
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int d = 0; d < 4; ++d) out[(d + 4 * k) * rows + row] = x[k].c[d];
    }
}

// The neighbours of the rows of a block of a circle domain in bit-reversed order. Row r of column blockIdx.y comes from
// `even` or `odd`, by its lowest bit: from the point of that block's half coset which is `up` or `down` further.
__global__ void __launch_bounds__(BLOCK_THREADS)
neighbours(Mersenne31* out, const Mersenne31* __restrict__ even, const Mersenne31* __restrict__ odd, u32 log_rows,
           u32 up, u32 down) {
    const u32 row = blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row >> log_rows) return;
    const u32 half = log_rows - 1, side = row & 1;
    const u32 point = (__brev(row >> 1) >> (32 - half)) + (side ? down : up);
    const u32 from = __brev(point & ((1u << half) - 1)) >> (32 - half) << 1 | side;
    const u64 column = (u64)blockIdx.y << log_rows;
    out[column + row] = (side ? odd : even)[column + from];
}
