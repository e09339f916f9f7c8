#include "number/number.cuh"

// The order that sorts rows, by a bitonic network over entries (key, place). Entries are ordered by key, with NaN last,
// then by place: all differ, so the order is that of a stable sort. A row is padded to a power of two with places past
// its end, which come last. `order` holds the places; a key is read from its place.

constexpr u32 THREADS = BLOCK_THREADS, TILE = 4 * THREADS;

template <class T>
struct Entry {
    T key;
    u32 place;
};

template <class T>
__device__ __forceinline__ bool precedes(const Entry<T>& a, const Entry<T>& b, u32 n) {
    if (a.place >= n || b.place >= n) return a.place < b.place;
    const bool a_nan = a.key != a.key, b_nan = b.key != b.key;
    if (a_nan != b_nan) return b_nan;
    if (a.key < b.key) return true;
    if (b.key < a.key) return false;
    return a.place < b.place;
}

template <class T>
__device__ __forceinline__ Entry<T> entry(const T* keys, u32 place, u32 n) {
    Entry<T> entry;
    entry.key = keys[place < n ? place : 0];
    entry.place = place;
    return entry;
}

// The smaller index of pair number i of pairs that are `stride` apart.
__device__ __forceinline__ u32 first_of(u32 i, u32 stride) { return 2 * stride * (i / stride) + i % stride; }

// Sorts the tile in shared memory by the strides `stride`, `stride / 2`, .., 1 of the stage that sorts runs of `size`.
template <class T>
__device__ __forceinline__ void merge(Entry<T>* tile, u32 length, u32 start, u32 size, u32 stride, u32 n) {
    for (; stride > 0; stride /= 2) {
        for (u32 i = threadIdx.x; i < length / 2; i += THREADS) {
            const u32 at = first_of(i, stride);
            const Entry<T> a = tile[at], b = tile[at + stride];
            const bool rises = ((start + at) & size) == 0;
            if (precedes(a, b, n) != rises) {
                tile[at] = b;
                tile[at + stride] = a;
            }
        }
        __syncthreads();
    }
}

// Sorts each tile of `length` entries, into alternating directions. `padded` is the length of a row of `order`.
template <class T>
__global__ void __launch_bounds__(THREADS) sort_tiles(u32* order, const T* keys, u32 n, u32 padded, u32 length) {
    __shared__ Entry<T> tile[TILE];
    const u32 tiles = padded / length;
    const u64 row = blockIdx.x / tiles;
    const u32 start = blockIdx.x % tiles * length;
    keys += row * n;
    order += row * padded + start;
    for (u32 i = threadIdx.x; i < length; i += THREADS) tile[i] = entry(keys, start + i, n);
    __syncthreads();
    for (u32 size = 2; size <= length; size *= 2) merge(tile, length, start, size, size / 2, n);
    for (u32 i = threadIdx.x; i < length; i += THREADS) order[i] = tile[i].place;
}

// One stride of a stage, for strides beyond a tile. A thread takes a pair.
template <class T>
__global__ void __launch_bounds__(THREADS)
sort_far(u32* order, const T* keys, u32 n, u32 padded, u32 size, u32 stride, u64 pairs) {
    const u64 pair = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (pair >= pairs) return;
    const u64 row = pair / (padded / 2);
    const u32 at = first_of((u32)(pair % (padded / 2)), stride);
    keys += row * n;
    order += row * padded;
    const Entry<T> a = entry(keys, order[at], n), b = entry(keys, order[at + stride], n);
    if (precedes(a, b, n) != ((at & size) == 0)) {
        order[at] = b.place;
        order[at + stride] = a.place;
    }
}

// The strides of a stage within tiles.
template <class T>
__global__ void __launch_bounds__(THREADS) sort_near(u32* order, const T* keys, u32 n, u32 padded, u32 size) {
    __shared__ Entry<T> tile[TILE];
    const u32 tiles = padded / TILE;
    const u64 row = blockIdx.x / tiles;
    const u32 start = blockIdx.x % tiles * TILE;
    keys += row * n;
    order += row * padded + start;
    for (u32 i = threadIdx.x; i < TILE; i += THREADS) tile[i] = entry(keys, order[i], n);
    __syncthreads();
    merge(tile, TILE, start, size, TILE / 2, n);
    for (u32 i = threadIdx.x; i < TILE; i += THREADS) order[i] = tile[i].place;
}

// The first n places of each row, as 64-bit integers.
template <class T>
__global__ void __launch_bounds__(THREADS) sort_out(i64* out, const u32* order, u32 n, u32 padded, u64 count) {
    const u64 i = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) out[i] = order[i / n * padded + i % n];
}
