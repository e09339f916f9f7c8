// Running sums of fractions along each row of a matrix of slabs.

#include "layout/slab.cuh"

// Batches whose loads are in flight together: a thread's sums depend on each other, its loads do not.
constexpr u32 AHEAD = 4;

template <class E>
__device__ __forceinline__ E element_of(const typename E::Base* slab, u64 rows) {
    E x;
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d) coefficient(x, d) = slab[d * rows];
    return x;
}

// numerators[k] = sum of numerators[j] inverses[j] over j <= k, in each row, for `slabs` slabs of `rows` elements.
template <class E>
__global__ void __launch_bounds__(BLOCK_THREADS)
running_sums(typename E::Base* numerators, const typename E::Base* inverses, u64 rows, u32 slabs) {
    const u64 row = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row >= rows) return;
    const u64 step = E::DEGREE * rows;
    typename E::Base* to = numerators + row;
    const typename E::Base* by = inverses + row;
    E sum = E::zero();
    for (u64 first = 0; first < slabs; first += AHEAD) {
        E terms[AHEAD], factors[AHEAD];
#pragma unroll
        for (u32 j = 0; j < AHEAD; ++j) {
            if (first + j < slabs) {
                terms[j] = element_of<E>(to + j * step, rows);
                factors[j] = element_of<E>(by + j * step, rows);
            }
        }
#pragma unroll
        for (u32 j = 0; j < AHEAD; ++j) {
            if (first + j < slabs) {
                sum = sum + terms[j] * factors[j];
#pragma unroll
                for (int d = 0; d < E::DEGREE; ++d) to[j * step + d * rows] = coefficient(sum, d);
            }
        }
        to += AHEAD * step;
        by += AHEAD * step;
    }
}
