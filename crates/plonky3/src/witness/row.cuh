// A row of a column-major matrix of field elements, written from the first column on.

#include "field/baby_bear.cuh"
#include "field/goldilocks.cuh"
#include "field/koala_bear.cuh"

template <class F>
struct RowWriter {
    F* at;
    u64 stride;

    __device__ __forceinline__ void element(F value) {
        *at = value;
        at += stride;
    }
    __device__ __forceinline__ void limbs(u64 x) {
#pragma unroll
        for (int limb = 0; limb < 4; ++limb) element(F::from_integer((u32)(x >> 16 * limb) & 0xffff));
    }
    __device__ __forceinline__ void bits(u64 x) {
#pragma unroll 8
        for (int bit = 0; bit < 64; ++bit) element(x >> bit & 1 ? F::one() : F::zero());
    }
    __device__ __forceinline__ void limbs(u32 x) {
        element(F::from_integer(x & 0xffff));
        element(F::from_integer(x >> 16));
    }
    __device__ __forceinline__ void bits(u32 x) {
#pragma unroll 8
        for (int bit = 0; bit < 32; ++bit) element(x >> bit & 1 ? F::one() : F::zero());
    }

    // Loops over copies of the lanes, in local memory: a load for each 2 to 64 stores, and little code.
    template <class Word, int N>
    __device__ __forceinline__ void all_limbs(const Word (&lanes)[N]) {
        Word copy[N];
#pragma unroll
        for (int i = 0; i < N; ++i) copy[i] = lanes[i];
#pragma unroll 1
        for (int i = 0; i < N; ++i) limbs(copy[i]);
    }
    template <class Word, int N>
    __device__ __forceinline__ void all_bits(const Word (&lanes)[N]) {
        Word copy[N];
#pragma unroll
        for (int i = 0; i < N; ++i) copy[i] = lanes[i];
#pragma unroll 1
        for (int i = 0; i < N; ++i) bits(copy[i]);
    }
};
