// Digests of rows, one row per thread or pair of threads, with the hash state in registers. The launcher includes the
// hash's header before this text. A hash whose constants are given at run time takes them as the kernel's last
// parameter K, which lies in constant memory; for other hashes K is empty.
//
// Adjacent threads, or pairs, take adjacent rows, so every column load is coalesced. The loads of a message block are
// independent of each other, and the permutations of the other resident warps take far longer than the loads:
// prefetching would gain nothing, and would cost registers and thus occupancy.

#include "field/baby_bear.cuh"
#include "field/goldilocks.cuh"
#include "field/koala_bear.cuh"
#include "field/mersenne31.cuh"
#include "hash/digest.cuh"
#include "layout/column.cuh"

// A row is an object with `F operator()(u32 i) const`, its i-th element. It is constructed from `source`, the row
// index, the number of rows, and the number of elements per row.

// A row of one column-major matrix.
template <class F>
struct MatrixRow {
    typedef F Source;
    const F* first;
    u64 stride;
    __device__ __forceinline__ MatrixRow(const F* source, u32 row, u64 rows, u32)
        : first(source + row), stride(rows) {}
    __device__ __forceinline__ F operator()(u32 i) const { return first[i * stride]; }
};

// A row across several matrices of equal height, through a list of all their columns. All threads load the same list
// entries.
template <class F>
struct JoinedRow {
    typedef Column Source;
    const Column* columns;
    u32 row;
    __device__ __forceinline__ JoinedRow(const Column* source, u32 row, u64, u32) : columns(source), row(row) {}
    __device__ __forceinline__ F operator()(u32 i) const {
        return static_cast<const F*>(columns[i].values)[row];
    }
};

// Several adjacent rows of a matrix of COLUMNS columns, one after the other.
template <class F, u32 COLUMNS>
struct PackedRow {
    typedef F Source;
    const F* first;
    u64 stride;
    __device__ __forceinline__ PackedRow(const F* source, u32 row, u64 rows, u32 elements) {
        const u32 packed = elements / COLUMNS;
        first = source + (u64)row * packed;
        stride = rows * packed;
    }
    __device__ __forceinline__ F operator()(u32 i) const { return first[i % COLUMNS * stride + i / COLUMNS]; }
};

// Eight blocks per multiprocessor leave 128 registers per thread, enough for every hash without spills; most need
// fewer.
template <class H, class Row, class... K>
__global__ void __launch_bounds__(BLOCK_THREADS, 8)
hash_rows(Digest* digests, const typename Row::Source* source, u64 rows, u32 elements,
          CONSTANT_PARAMETER(K)... constants) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    H hash;
    hash.init();
    hash.absorb(Row(source, row, rows, elements), elements, constants...);
    typename H::Word digest[H::DIGEST_WORDS];
    hash.finish(digest);
    store_digest(digests[row], digest);
}

// The same for few rows, by two threads each: P has half of every word of the state.
template <class P, class Row>
__global__ void __launch_bounds__(BLOCK_THREADS, 8)
hash_rows_in_pairs(Digest* digests, const typename Row::Source* source, u64 rows, u32 elements) {
    const u32 row = (blockIdx.x * blockDim.x + threadIdx.x) / 2;
    P hash;
    hash.init();
    // All threads of a warp exchange halves: those after the last row hash the first one.
    hash.absorb(Row(source, row < rows ? row : 0, rows, elements), elements);
    typename P::Word digest[P::DIGEST_WORDS];
    hash.finish(digest);
    if (row < rows) store_digest(digests[row], digest);
}

// Rows of one matrix that is stored in bit-reversed order: storage row p is row rev(p), and digests are written in
// natural order. Reads stay coalesced; a digest is a whole sector of memory, so that writing them apart costs
// nothing.
template <class H, class F>
__global__ void __launch_bounds__(BLOCK_THREADS, 8)
hash_reversed_rows(Digest* digests, const F* source, u32 log_rows, u32 elements) {
    const u64 rows = 1ull << log_rows;
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    H hash;
    hash.init();
    hash.absorb(MatrixRow<F>(source, row, rows, elements), elements);
    typename H::Word digest[H::DIGEST_WORDS];
    hash.finish(digest);
    store_digest(digests[reverse_bits(row, log_rows)], digest);
}

// Rows that arrive in parts of whole blocks. Between parts the state is kept in memory, word w of row r at w rows + r.

template <class H>
__device__ __forceinline__ void load_state(H& hash, const typename H::Word* states, u64 rows, u32 row) {
#pragma unroll
    for (int w = 0; w < H::STATE_WORDS; ++w) hash.state(w) = states[w * rows + row];
}

// Absorbs the next elements of each row, a whole number of blocks; they are the first ones unless `resumed`.
template <class H, class Row, class... K>
__global__ void __launch_bounds__(BLOCK_THREADS, 8)
absorb_rows(typename H::Word* states, const typename Row::Source* source, u64 rows, u32 elements, u32 resumed,
            CONSTANT_PARAMETER(K)... constants) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    H hash;
    if (resumed) load_state(hash, states, rows, row);
    else hash.init();
    hash.absorb_whole(Row(source, row, rows, elements), elements, constants...);
#pragma unroll
    for (int w = 0; w < H::STATE_WORDS; ++w) states[w * rows + row] = hash.state(w);
}

// Absorbs the last elements of each row, any number of them, and writes the digest.
template <class H, class Row, class... K>
__global__ void __launch_bounds__(BLOCK_THREADS, 8)
finish_rows(Digest* digests, const typename H::Word* states, const typename Row::Source* source, u64 rows,
            u32 elements, CONSTANT_PARAMETER(K)... constants) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    H hash;
    load_state(hash, states, rows, row);
    hash.absorb(Row(source, row, rows, elements), elements, constants...);
    typename H::Word digest[H::DIGEST_WORDS];
    hash.finish(digest);
    store_digest(digests[row], digest);
}
