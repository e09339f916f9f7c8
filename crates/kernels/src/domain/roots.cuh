#pragma once

#include "field/word.cuh"

// Powers of a root of unity in bit-reversed order, computed from the bits of the index. With w_k the root of order 2^k,
// so that w_k = w_(k+1)^2, the power rev(i) of the root of order n = 2^l is
//   w_l^(rev(i)) = product of w_(k+1) over the bits k of i that are set,
// which does not depend on n: a smaller domain is a prefix of a larger one. It follows that
//   at(i + j) = at(i) at(j)      for i and j without a bit in common,
//   at(i) = at(2 i)^2.
template <class F>
struct ReversedPowers {
    F roots[ROOT_ORDERS];  // w_1, w_2, .. or their inverses

    // Unrolled, so that the roots are operands from the constant bank.
    __device__ __forceinline__ F at(u32 i) const {
        F power = F::one();
#pragma unroll
        for (int k = 0; k < F::TWO_ADICITY; ++k) {
            if (i >> k == 0) break;
            if (i >> k & 1) power = power * roots[k];
        }
        return power;
    }
};
