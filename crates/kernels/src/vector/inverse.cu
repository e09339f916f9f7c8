// Batch inversion by Montgomery's trick, twice: a thread multiplies its elements, and a tree multiplies the products of
// the block's 256 threads down to 32, one for each lane of a warp, which inverts them. An inversion is a chain of 40 to
// 110 products, during which the other warps wait; a large number of elements per multiprocessor hides that latency. So
// the elements stay in registers, and their prefix products in shared memory.

#include "layout/slab.cuh"

constexpr u32 THREADS = BLOCK_THREADS, ROOTS = 32;

// Inverts the PER elements of each thread of a block; zero stays zero.
template <class E, int PER>
__device__ __forceinline__ void invert_elements(E (&x)[PER]) {
    typedef typename E::Base F;
    // A heap: node i is the product of nodes 2i and 2i + 1, the threads' products are the leaves, THREADS and up.
    __shared__ F tree[E::DEGREE][2 * THREADS];
    // befores[i - 1]: the product of a thread's elements before element i.
    __shared__ F befores[PER - 1][E::DEGREE][THREADS];
    auto get = [&](u32 node) {
        E x;
#pragma unroll
        for (int d = 0; d < E::DEGREE; ++d) coefficient(x, d) = tree[d][node];
        return x;
    };
    auto put = [&](u32 node, const E& x) {
#pragma unroll
        for (int d = 0; d < E::DEGREE; ++d) tree[d][node] = coefficient(x, d);
    };
    const u32 thread = threadIdx.x;
    auto multiply = [&] {
        E product = x[0];
#pragma unroll
        for (int i = 1; i < PER; ++i) {
#pragma unroll
            for (int d = 0; d < E::DEGREE; ++d) befores[i - 1][d][thread] = coefficient(product, d);
            product = product * x[i];
        }
        return product;
    };
    E product = multiply();
    // Zeros and elements beyond the end are replaced by ones.
    u32 zeros = 0;
    if (product == E::zero()) {
#pragma unroll
        for (int i = 0; i < PER; ++i) {
            if (x[i] == E::zero()) {
                zeros |= 1u << i;
                x[i] = E::one();
            }
        }
        product = multiply();
    }

    put(THREADS + thread, product);
    __syncthreads();
#pragma unroll 1
    for (u32 width = THREADS / 2; width >= ROOTS; width /= 2) {
        const u32 node = width + thread;
        if (thread < width) put(node, get(2 * node) * get(2 * node + 1));
        __syncthreads();
    }
    if (thread < ROOTS) put(ROOTS + thread, get(ROOTS + thread).inverse());
    __syncthreads();
#pragma unroll 1
    for (u32 width = ROOTS; width < THREADS; width *= 2) {
        const u32 node = width + thread;
        if (thread < width) {
            const E inverse = get(node), left = get(2 * node), right = get(2 * node + 1);
            put(2 * node, right * inverse);
            put(2 * node + 1, left * inverse);
        }
        __syncthreads();
    }

    E inverse = get(THREADS + thread);
#pragma unroll
    for (int i = PER - 1; i > 0; --i) {
        E before;
#pragma unroll
        for (int d = 0; d < E::DEGREE; ++d) coefficient(before, d) = befores[i - 1][d][thread];
        const E own = x[i];
        x[i] = before * inverse;
        inverse = own * inverse;
    }
    x[0] = inverse;
    if (zeros != 0) {
#pragma unroll
        for (int i = 0; i < PER; ++i)
            if (zeros >> i & 1) x[i] = E::zero();
    }
}

// out[i] = 1 / in[i], and 0 where in[i] = 0, for slabs of n elements, one slab per blockIdx.y. Without an `in` it works
// in place. A thread takes RUNS shares of one vector each.
template <class E, int RUNS, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS)
invert(typename E::Base* out, const typename E::Base* in, u64 n) {
    typedef typename E::Base F;
    constexpr int N = Vector<F>::N;
    if (in == nullptr) in = out;
    const bool wide = n % N == 0 && is_aligned(out) && is_aligned(in);
    const u64 slab = (u64)blockIdx.y * E::DEGREE * n, tile = (u64)blockIdx.x * (THREADS * RUNS * N);
    E x[RUNS * N];
#pragma unroll
    for (int k = 0; k < RUNS; ++k)
        load_share(x + k * N, in + slab, n, Share::of<F>(tile + k * THREADS * N, threadIdx.x, THREADS, wide));
    invert_elements(x);
#pragma unroll
    for (int k = 0; k < RUNS; ++k)
        store_share(out + slab, x + k * N, n, Share::of<F>(tile + k * THREADS * N, threadIdx.x, THREADS, wide));
}

// Slabs of differences: of the element z and the first n points, written from `place` on.
template <class E>
struct Differences {
    E z[MOST_SLABS];
    u64 n[MOST_SLABS];
    u64 place[MOST_SLABS];
};

// out[place + i] = 1 / (z - points[i]), and 0 where z = points[i], for n points over the base field: one slab per
// blockIdx.y.
template <class E, int RUNS, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS)
invert_differences(typename E::Base* out, const typename E::Base* points, Differences<E> differences) {
    typedef typename E::Base F;
    constexpr int N = Vector<F>::N;
    const u64 n = differences.n[blockIdx.y], tile = (u64)blockIdx.x * (THREADS * RUNS * N);
    if (tile >= n) return;
    const E z = differences.z[blockIdx.y];
    out += differences.place[blockIdx.y];
    const bool wide = n % N == 0 && is_aligned(out) && is_aligned(points);
    E x[RUNS * N];
#pragma unroll
    for (int k = 0; k < RUNS; ++k) {
        F point[N];
        load_share(point, points, n, Share::of<F>(tile + k * THREADS * N, threadIdx.x, THREADS, wide));
#pragma unroll
        for (int j = 0; j < N; ++j) x[k * N + j] = z - point[j];
    }
    invert_elements(x);
#pragma unroll
    for (int k = 0; k < RUNS; ++k)
        store_share(out, x + k * N, n, Share::of<F>(tile + k * THREADS * N, threadIdx.x, THREADS, wide));
}
