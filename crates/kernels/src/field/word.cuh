#pragma once

// Machine words. Every field and hash is written over these two unsigned types and their signed views.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

// The smaller of two words. `least(t, t - p)` for t < 2p < 2^32 is t mod p, since t - p wraps around to a large
// number exactly when t < p; likewise `least(t, t + p)` for -p < t < p. On sm_90 either is one instruction.
__device__ __forceinline__ u32 least(u32 a, u32 b) { return a < b ? a : b; }

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
