#pragma once

#include "layout/slab.cuh"

// Points of cosets of the circle group over Mersenne-31, in bit-reversed order, without a table.
//
// The group is that of the complex numbers of norm 1: (x, y) is x + y i, and the group operation, written as a sum of
// points, (x x' - y y', x y' + y x'), is CM31's product. With S the step of a coset of 2^l points, bit k of an index
// adds 2^(l - 1 - k) S to the point with the bit-reversed index:
//   initial + rev(i) S = initial + the sum of steps[k] over the bits k of i that are set.
// steps[0] is -1 and steps[1] is i or -i.
struct ReversedCoset {
    CM31 initial;
    CM31 steps[31];
};

// The points computed by a warp: those whose index has the lane number in bits FIRST .. FIRST + 4 and a group number in
// the bits above, with zeros below. The lane's summand is computed once. The group's summand, a product over up to 26
// bits, is computed by all lanes together, one bit per lane: five products whatever the size.
template <int FIRST>
struct WarpPoints {
    CM31 lane;  // the summand of the lane's number
    CM31 bit;   // the summand of the group-number bit that this lane handles

    __device__ __forceinline__ explicit WarpPoints(const ReversedCoset& coset) {
        const u32 number = threadIdx.x % 32;
        lane = bit = CM31::one();
#pragma unroll
        for (int k = 0; k < 5; ++k)
            if (number >> k & 1) lane = lane * coset.steps[FIRST + k];
        // Compared, not indexed: the steps stay operands from the constant bank.
#pragma unroll
        for (int k = FIRST + 5; k < 31; ++k)
            if (number == k - FIRST - 5) bit = coset.steps[k];
    }

    // The lane's summand plus the group's. All lanes of the warp must call it with the same group.
    __device__ __forceinline__ CM31 at(u32 group) const {
        CM31 product = group >> (threadIdx.x % 32) & 1 ? bit : CM31::one();
#pragma unroll
        for (u32 lanes = 16; lanes > 0; lanes >>= 1) product = product * shuffle_xor(product, lanes);
        return lane * product;
    }
};

// A circle domain is a half coset and the conjugates of its points. In bit-reversed order the even indices are the
// points of the half coset and each is followed by its conjugate, so that four adjacent points are
//   P = (x, y), (x, -y), (-x, -y), (-x, y).
// A warp takes 128 points at a time: four per lane, starting at 128 group + 4 lane.
struct DomainPoints {
    CM31 initial;
    WarpPoints<1> points;

    __device__ __forceinline__ explicit DomainPoints(const ReversedCoset& half)
        : initial(half.initial), points(half) {}
    // P of the lane's four points.
    __device__ __forceinline__ CM31 at(u32 group) const { return initial * points.at(group); }
};
