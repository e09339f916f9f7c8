// CUDA's built-in functions in plain C++.

extern "C" int printf(const char*, ...);
extern "C" int abs(int) noexcept;
extern "C" long long llabs(long long) noexcept;
#if !RIGEL_CHECKED
extern "C" void* memcpy(void*, const void*, size_t) noexcept;
extern "C" void* memmove(void*, const void*, size_t) noexcept;
extern "C" void* memset(void*, int, size_t) noexcept;
#endif

#define RIGEL_TEXT_OF(x) #x
#define RIGEL_TEXT(x) RIGEL_TEXT_OF(x)
#define assert(condition)                                                                                  \
    ((condition) ? (void)0                                                                                 \
                 : ::rigel_emulated::fail("assertion failed: " #condition                                  \
                                          " (" __FILE__ ":" RIGEL_TEXT(__LINE__) ")"))
inline void __trap() { ::rigel_emulated::fail("__trap()"); }

// --- barriers, votes and shuffles ---------------------------------------------------------------------------

inline void __syncthreads() { ::rigel_emulated::meet(::rigel_emulated::BLOCK_SYNC, 0, 0, 0); }
inline int __syncthreads_or(int p) {
    return (int)::rigel_emulated::meet(::rigel_emulated::BLOCK_OR, 0, p != 0, 0);
}
inline int __syncthreads_and(int p) {
    return (int)::rigel_emulated::meet(::rigel_emulated::BLOCK_AND, 0, p != 0, 0);
}
inline int __syncthreads_count(int p) {
    return (int)::rigel_emulated::meet(::rigel_emulated::BLOCK_COUNT, 0, p != 0, 0);
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
    ::rigel_emulated::meet(::rigel_emulated::WARP_SYNC, mask, 0, 0);
}

namespace rigel_emulated {
// Low half: the lanes whose predicate holds; high half: the lanes that took part.
inline unsigned long long vote(unsigned mask, int p) { return meet(WARP_BALLOT, mask, p != 0, 0); }

template <class T>
inline T shuffle(unsigned mask, T value, unsigned source) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    bits = meet(WARP_SHUFFLE, mask, bits, source);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
}  // namespace rigel_emulated

inline unsigned __ballot_sync(unsigned mask, int p) { return (unsigned)::rigel_emulated::vote(mask, p); }
inline int __any_sync(unsigned mask, int p) { return (unsigned)::rigel_emulated::vote(mask, p) != 0; }
inline int __all_sync(unsigned mask, int p) {
    unsigned long long v = ::rigel_emulated::vote(mask, p);
    return (unsigned)v == (unsigned)(v >> 32);
}
// The lanes of the warp that are at this line together.
#define __activemask() ((unsigned)::rigel_emulated::meet(::rigel_emulated::WARP_ACTIVE, 0, 0, __LINE__))

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    unsigned base = ::rigel_emulated::lane() & ~(unsigned)(width - 1);
    return ::rigel_emulated::shuffle(mask, value, base + ((unsigned)source & (unsigned)(width - 1)));
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    unsigned lane = ::rigel_emulated::lane(), base = lane & ~(unsigned)(width - 1);
    return ::rigel_emulated::shuffle(mask, value, lane >= base + delta ? lane - delta : lane);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    unsigned lane = ::rigel_emulated::lane(), end = (lane & ~(unsigned)(width - 1)) + (unsigned)width;
    return ::rigel_emulated::shuffle(mask, value, lane + delta < end ? lane + delta : lane);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    unsigned lane = ::rigel_emulated::lane(), source = lane ^ (unsigned)bits;
    unsigned end = (lane & ~(unsigned)(width - 1)) + (unsigned)width;
    return ::rigel_emulated::shuffle(mask, value, source < end ? source : lane);
}

#define RIGEL_REDUCE(name, KIND)                                                     \
    inline unsigned __reduce_##name##_sync(unsigned mask, unsigned value) {          \
        return (unsigned)::rigel_emulated::meet(::rigel_emulated::KIND, mask, value, 0); \
    }
RIGEL_REDUCE(add, WARP_ADD)
RIGEL_REDUCE(min, WARP_MIN)
RIGEL_REDUCE(max, WARP_MAX)
RIGEL_REDUCE(and, WARP_AND)
RIGEL_REDUCE(or, WARP_OR)
RIGEL_REDUCE(xor, WARP_XOR)

inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); ::rigel_emulated::poll(); }
inline void __threadfence() { __threadfence_block(); }
inline void __threadfence_system() { __threadfence_block(); }
inline void __nanosleep(unsigned) { ::rigel_emulated::spin(); }
inline long long clock64() {
#if defined(__x86_64__)
    return (long long)__builtin_ia32_rdtsc();
#else
    long long ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}

// --- atomics ------------------------------------------------------------------------------------------------

#define RIGEL_ATOMIC(T, name, expression)                  \
    inline T name(T* at, T value) {                        \
        ::rigel_emulated::poll();                          \
        return expression;                                 \
    }
// A compare-and-swap loop, for operations without a single host instruction.
#define RIGEL_ATOMIC_LOOP(T, name, next)                                                                  \
    inline T name(T* at, T value) {                                                                       \
        ::rigel_emulated::poll();                                                                         \
        T old;                                                                                            \
        __atomic_load(at, &old, __ATOMIC_RELAXED);                                                        \
        for (;;) {                                                                                        \
            T desired = next;                                                                             \
            if (__atomic_compare_exchange(at, &old, &desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) \
                return old;                                                                               \
        }                                                                                                 \
    }
#define RIGEL_ATOMICS(T)                                                                    \
    RIGEL_ATOMIC(T, atomicAdd, __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST))             \
    RIGEL_ATOMIC(T, atomicExch, __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST))           \
    RIGEL_ATOMIC(T, atomicAnd, __atomic_fetch_and(at, value, __ATOMIC_SEQ_CST))             \
    RIGEL_ATOMIC(T, atomicOr, __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST))               \
    RIGEL_ATOMIC(T, atomicXor, __atomic_fetch_xor(at, value, __ATOMIC_SEQ_CST))             \
    RIGEL_ATOMIC_LOOP(T, atomicMin, (value < old ? value : old))                            \
    RIGEL_ATOMIC_LOOP(T, atomicMax, (value > old ? value : old))                            \
    inline T atomicCAS(T* at, T expected, T desired) {                                      \
        ::rigel_emulated::poll();                                                           \
        __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        return expected;                                                                    \
    }
RIGEL_ATOMICS(int)
RIGEL_ATOMICS(unsigned)
RIGEL_ATOMICS(unsigned long long)
RIGEL_ATOMIC(int, atomicSub, __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST))
RIGEL_ATOMIC(unsigned, atomicSub, __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST))
RIGEL_ATOMIC_LOOP(float, atomicAdd, old + value)
RIGEL_ATOMIC_LOOP(double, atomicAdd, old + value)

// --- loads and stores with a cache hint ---------------------------------------------------------------------

template <class T> __forceinline__ T __ldg(const T* at) { return *at; }
template <class T> __forceinline__ T __ldca(const T* at) { return *at; }
template <class T> __forceinline__ T __ldcs(const T* at) { return *at; }
template <class T> __forceinline__ T __ldlu(const T* at) { return *at; }
// These bypass the L1 cache, so kernels use them for polling.
template <class T> __forceinline__ T __ldcg(const T* at) { ::rigel_emulated::poll(); return *at; }
template <class T> __forceinline__ T __ldcv(const T* at) { ::rigel_emulated::poll(); return *at; }
template <class T> __forceinline__ void __stcg(T* at, T value) { *at = value; }
template <class T> __forceinline__ void __stcs(T* at, T value) { *at = value; }
template <class T> __forceinline__ void __stwb(T* at, T value) { *at = value; }
template <class T> __forceinline__ void __stwt(T* at, T value) { *at = value; }

// --- bits ---------------------------------------------------------------------------------------------------

inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned s = selector >> (4 * i) & 15, byte = (unsigned)(bytes >> (8 * (s & 7))) & 255;
        if (s & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << (8 * i);
    }
    return result;
}
namespace rigel_emulated {
inline unsigned high_of_shift(unsigned low, unsigned high, unsigned n) {
    return (unsigned)((((unsigned long long)high << 32 | low) << n) >> 32);
}
inline unsigned low_of_shift(unsigned low, unsigned high, unsigned n) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> n);
}
}  // namespace rigel_emulated
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
    return ::rigel_emulated::high_of_shift(low, high, n & 31);
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned n) {
    return ::rigel_emulated::high_of_shift(low, high, n < 32 ? n : 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
    return ::rigel_emulated::low_of_shift(low, high, n & 31);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned n) {
    return ::rigel_emulated::low_of_shift(low, high, n < 32 ? n : 32);
}

#define RIGEL_BITS_AS(name, From, To)          \
    inline To name(From x) {                   \
        To y;                                  \
        __builtin_memcpy(&y, &x, sizeof(To));  \
        return y;                              \
    }
RIGEL_BITS_AS(__uint_as_float, unsigned, float)
RIGEL_BITS_AS(__int_as_float, int, float)
RIGEL_BITS_AS(__float_as_uint, float, unsigned)
RIGEL_BITS_AS(__float_as_int, float, int)
RIGEL_BITS_AS(__double_as_longlong, double, long long)
RIGEL_BITS_AS(__longlong_as_double, long long, double)

// --- arithmetic ---------------------------------------------------------------------------------------------

#define RIGEL_MIN_MAX(A, B, R)                                         \
    constexpr R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; }    \
    constexpr R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
RIGEL_MIN_MAX(int, int, int)
RIGEL_MIN_MAX(unsigned, unsigned, unsigned)
RIGEL_MIN_MAX(int, unsigned, unsigned)
RIGEL_MIN_MAX(unsigned, int, unsigned)
RIGEL_MIN_MAX(long, long, long)
RIGEL_MIN_MAX(unsigned long, unsigned long, unsigned long)
RIGEL_MIN_MAX(long, unsigned long, unsigned long)
RIGEL_MIN_MAX(unsigned long, long, unsigned long)
RIGEL_MIN_MAX(long long, long long, long long)
RIGEL_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
RIGEL_MIN_MAX(long long, unsigned long long, unsigned long long)
RIGEL_MIN_MAX(unsigned long long, long long, unsigned long long)
RIGEL_MIN_MAX(float, float, float)
RIGEL_MIN_MAX(double, double, double)
RIGEL_MIN_MAX(float, double, double)
RIGEL_MIN_MAX(double, float, double)

#define RIGEL_MATH_1(name)                              \
    extern "C" double name(double) noexcept;            \
    extern "C" float name##f(float) noexcept;           \
    inline float name(float x) { return name##f(x); }
#define RIGEL_MATH_2(name)                              \
    extern "C" double name(double, double) noexcept;    \
    extern "C" float name##f(float, float) noexcept;    \
    inline float name(float x, float y) { return name##f(x, y); }
RIGEL_MATH_1(sqrt)
RIGEL_MATH_1(cbrt)
RIGEL_MATH_1(sin)
RIGEL_MATH_1(cos)
RIGEL_MATH_1(tan)
RIGEL_MATH_1(asin)
RIGEL_MATH_1(acos)
RIGEL_MATH_1(atan)
RIGEL_MATH_1(sinh)
RIGEL_MATH_1(cosh)
RIGEL_MATH_1(tanh)
RIGEL_MATH_1(asinh)
RIGEL_MATH_1(exp)
RIGEL_MATH_1(exp2)
RIGEL_MATH_1(log)
RIGEL_MATH_1(log1p)
RIGEL_MATH_1(log2)
RIGEL_MATH_1(log10)
RIGEL_MATH_1(floor)
RIGEL_MATH_1(ceil)
RIGEL_MATH_1(round)
RIGEL_MATH_1(trunc)
RIGEL_MATH_1(fabs)
RIGEL_MATH_2(pow)
RIGEL_MATH_2(fmod)
RIGEL_MATH_2(fmin)
RIGEL_MATH_2(fmax)
RIGEL_MATH_2(atan2)
RIGEL_MATH_2(hypot)
RIGEL_MATH_2(copysign)
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
