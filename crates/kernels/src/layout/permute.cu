// Moves words of four or eight bytes: transposes, bit reversals, row gathers.

#include "field/word.cuh"

// `in` has `height` rows of `width` words, `out` has `width` rows of `height`. A block moves a tile of 2^log_rows rows
// and 2^log_columns columns, 16 KiB in all: square where the matrix is wide and high, and as wide as a narrow matrix,
// so that both reads and writes are long runs. One word of padding per row keeps columns in different banks.
template <class T>
__global__ void __launch_bounds__(BLOCK_THREADS)
transpose(T* __restrict__ out, const T* __restrict__ in, u64 height, u64 width, u32 log_rows, u32 log_columns) {
    constexpr int PER = 64 / sizeof(T);
    __shared__ T tile[BLOCK_THREADS * PER + BLOCK_THREADS / 2 * PER];
    const u32 tile_columns = 1u << log_columns, tile_rows = 1u << log_rows;
    const u32 across = (u32)((width + tile_columns - 1) >> log_columns);
    const u64 column = (u64)(blockIdx.x % across) << log_columns, row = (u64)(blockIdx.x / across) << log_rows;
    T x[PER];
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const u32 i = k * BLOCK_THREADS + threadIdx.x, r = i >> log_columns, c = i & (tile_columns - 1);
        const bool inside = row + r < height && column + c < width;
        x[k] = inside ? in[(row + r) * width + column + c] : 0;
    }
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const u32 i = k * BLOCK_THREADS + threadIdx.x, r = i >> log_columns, c = i & (tile_columns - 1);
        tile[r * (tile_columns + 1) + c] = x[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const u32 i = k * BLOCK_THREADS + threadIdx.x, r = i & (tile_rows - 1), c = i >> log_rows;
        if (row + r < height && column + c < width)
            out[(column + c) * height + row + r] = tile[r * (tile_columns + 1) + c];
    }
}

// out[rev(i)] = in[i] for each column of 2^log_size words, one column per blockIdx.y. With i = (a, m, b), a and b of
// BITS bits, rev(i) = (rev b, rev m, rev a): a block moves the square of one m, reading and writing rows of 2^BITS
// words.
template <class T, int BITS>
__global__ void __launch_bounds__(BLOCK_THREADS)
bit_reverse(T* __restrict__ out, const T* __restrict__ in, u32 log_size) {
    constexpr u32 SIDE = 1u << BITS;
    constexpr int PER = SIDE * SIDE / BLOCK_THREADS;
    __shared__ T tile[SIDE][SIDE + 1];
    const u64 column = (u64)blockIdx.y << log_size;
    const u32 middle_bits = log_size - 2 * BITS;
    const u64 from = column + ((u64)blockIdx.x << BITS);
    const u64 to = column + ((u64)reverse_bits(blockIdx.x, middle_bits) << BITS);
    T x[PER];
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const u32 i = k * BLOCK_THREADS + threadIdx.x, a = i >> BITS, b = i % SIDE;
        x[k] = in[from + ((u64)a << (log_size - BITS)) + b];
    }
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const u32 i = k * BLOCK_THREADS + threadIdx.x, a = i >> BITS, b = i % SIDE;
        tile[b][reverse_bits(a, BITS)] = x[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const u32 i = k * BLOCK_THREADS + threadIdx.x, b = i >> BITS, a = i % SIDE;
        out[to + ((u64)b << (log_size - BITS)) + a] = tile[reverse_bits(b, BITS)][a];
    }
}

// The same for columns too short for a square: one word per thread, `words` in all.
template <class T>
__global__ void __launch_bounds__(BLOCK_THREADS)
bit_reverse_short(T* __restrict__ out, const T* __restrict__ in, u64 words, u32 log_size) {
    const u64 i = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (i >= words) return;
    const u32 row = (u32)i & ((1u << log_size) - 1);
    out[i - row + reverse_bits(row, log_size)] = in[i];
}

// out[k columns + c] = matrix[c rows + indices[k]], k = blockIdx.y, or zero if the row does not exist.
template <class T>
__global__ void __launch_bounds__(BLOCK_THREADS)
gather_rows(T* __restrict__ out, const T* __restrict__ matrix, const u32* __restrict__ indices, u64 rows,
            u64 columns) {
    const u64 column = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (column >= columns) return;
    const u64 row = indices[blockIdx.y];
    out[blockIdx.y * columns + column] = row < rows ? matrix[column * rows + row] : 0;
}

// out[c count + k] = matrix[c rows + indices[k]] for k < count, or zero if the row does not exist; `total` values.
template <class T>
__global__ void __launch_bounds__(BLOCK_THREADS)
gather_columns(T* __restrict__ out, const T* __restrict__ matrix, const u32* __restrict__ indices, u64 rows, u32 count,
               u64 total) {
    const u64 i = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (i >= total) return;
    const u64 column = i / count, row = indices[i - column * count];
    out[i] = row < rows ? matrix[column * rows + row] : 0;
}

// out[k][r] = in[columns[k]][r] for the first `rows` rows of columns of `stride` values; k = blockIdx.y.
template <class T>
__global__ void __launch_bounds__(BLOCK_THREADS)
take_columns(T* __restrict__ out, const T* __restrict__ in, const u32* __restrict__ columns, u64 rows, u64 stride) {
    const u64 row = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row < rows) out[blockIdx.y * rows + row] = in[columns[blockIdx.y] * stride + row];
}

// out[k][b 2^log_rows + r] = in[b][first + k][r]: `in` is blocks of `columns` columns of `stride` values, `out` has
// columns of `total` values; k = blockIdx.y.
template <class T>
__global__ void __launch_bounds__(BLOCK_THREADS)
join_rows(T* __restrict__ out, const T* __restrict__ in, u64 total, u64 columns, u64 first, u64 stride, u32 log_rows) {
    const u64 row = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row >= total) return;
    const u64 block = row >> log_rows, r = row & ((1ull << log_rows) - 1);
    out[blockIdx.y * total + row] = in[(block * columns + first + blockIdx.y) * stride + r];
}

// out[k][r] = in[columns[k]][rev(rev(r) + 1)], a row's successor in natural order, for columns of 2^log_rows values in
// bit-reversed order; k = blockIdx.y.
template <class T>
__global__ void __launch_bounds__(BLOCK_THREADS)
take_next(T* __restrict__ out, const T* __restrict__ in, const u32* __restrict__ columns, u32 log_rows) {
    const u32 row = blockIdx.x * BLOCK_THREADS + threadIdx.x, rows = 1u << log_rows;
    if (row >= rows) return;
    const u32 next = reverse_bits((reverse_bits(row, log_rows) + 1) & (rows - 1), log_rows);
    out[(u64)blockIdx.y * rows + row] = in[(u64)columns[blockIdx.y] * rows + next];
}
