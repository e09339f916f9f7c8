#pragma once

// Machine words. Every field and hash is written over these two unsigned types and their signed views.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

// The smaller of two words. `least(t, t - p)` for t < 2p < 2^32 is t mod p, since t - p wraps around to a large
// number exactly when t < p; likewise `least(t, t + p)` for -p < t < p. On sm_90 either is one instruction.
//
// RIGEL_OPAQUE makes it, and with it every operation on elements of 31 bits, assembly that the compiler does not look
// into. Generated kernels define it: they are thousands of such operations in a row, and the optimizer takes most of
// the time of compiling them, or does not finish, and finds nothing to improve. Its analysis of ranges follows every
// path from an operation to what it was computed from, and the paths through a chain of sums double with each link.
__device__ __forceinline__ u32 least(u32 a, u32 b) {
#if defined(RIGEL_OPAQUE) && !defined(RIGEL_EMULATED)
    u32 x;
    asm("min.u32 %0, %1, %2;" : "=r"(x) : "r"(a), "r"(b));
    return x;
#else
    return a < b ? a : b;
#endif
}

__device__ __forceinline__ u32 low_word(u64 x) { return (u32)x; }
__device__ __forceinline__ u32 high_word(u64 x) { return (u32)(x >> 32); }
__device__ __forceinline__ u64 join_words(u32 low, u32 high) { return (u64)high << 32 | low; }

// The lowest bits of x in reverse order.
__device__ __forceinline__ u32 reverse_bits(u32 x, u32 bits) { return bits == 0 ? 0 : __brev(x) >> (32 - bits); }

// The offset of a field in a struct, as a constant. NVRTC has neither <cstddef> nor the built-in function behind it.
#ifdef __CUDACC_RTC__
#define OFFSET_OF(field, ...) __INTADDR__(&((__VA_ARGS__*)0)->field)
#else
#define OFFSET_OF(field, ...) __builtin_offsetof(__VA_ARGS__, field)
#endif
