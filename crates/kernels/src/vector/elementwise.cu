// Element-wise arithmetic over slabs, in place or not: each element is read before it is written, by the same thread.

#include "layout/slab.cuh"

struct Add {
    static constexpr bool BINARY = true;
    template <class E>
    static __device__ __forceinline__ E of(const E& x, const E& y, const E&, const E&) { return x + y; }
};
struct Sub {
    static constexpr bool BINARY = true;
    template <class E>
    static __device__ __forceinline__ E of(const E& x, const E& y, const E&, const E&) { return x - y; }
};
struct Neg {
    static constexpr bool BINARY = false;
    template <class E>
    static __device__ __forceinline__ E of(const E& x, const E&, const E&, const E&) { return -x; }
};
struct Mul {
    static constexpr bool BINARY = true;
    template <class E>
    static __device__ __forceinline__ E of(const E& x, const E& y, const E&, const E&) { return x * y; }
};
struct Scale {
    static constexpr bool BINARY = false;
    template <class E>
    static __device__ __forceinline__ E of(const E& x, const E&, const E& a, const E&) { return x * a; }
};
struct Combine {
    static constexpr bool BINARY = true;
    template <class E>
    static __device__ __forceinline__ E of(const E& x, const E& y, const E& a, const E& b) {
        return x * a + y * b;
    }
};

// out = Op(x, y, a, b) for slabs of n elements, one slab per blockIdx.y. Without an x, `out` is x; unary operations
// have no y.
template <class E, class Op>
__global__ void __launch_bounds__(BLOCK_THREADS)
elementwise(typename E::Base* out, const typename E::Base* x, const typename E::Base* y, u64 n, E a, E b) {
    typedef typename E::Base F;
    constexpr int N = Vector<F>::N;
    if (x == nullptr) x = out;
    const bool wide = n % N == 0 && is_aligned(out) && is_aligned(x) && is_aligned(y);
    const Share share = Share::of<F>((u64)blockIdx.x * (BLOCK_THREADS * N), threadIdx.x, BLOCK_THREADS, wide);
    const u64 slab = (u64)blockIdx.y * E::DEGREE * n;
    E u[N], v[N];
    load_share(u, x + slab, n, share);
    if (Op::BINARY) load_share(v, y + slab, n, share);
#pragma unroll
    for (int j = 0; j < N; ++j) u[j] = Op::of(u[j], v[j], a, b);
    store_share(out + slab, u, n, share);
}
