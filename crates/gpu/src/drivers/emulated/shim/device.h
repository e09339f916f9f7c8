// The emulated thread and block as kernels see them, and how a thread waits for others.
//
// Included before the text of every kernel. It includes no standard header, as NVRTC has none either, so names
// such as uint64_t stay free for the kernel's own use. `Thread`, `Block`, `Slot` and the constants are mirrored
// in runtime.rs.
#define RIGEL_EMULATED 1

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#ifndef __clang__
#define __builtin_assume(condition) ((condition) ? (void)0 : __builtin_unreachable())
#endif

#define RIGEL_VECTORS_2(T, name, align)                               \
    struct __align__(align) name { T x, y; };                        \
    inline name make_##name(T x, T y) { return name{x, y}; }
#define RIGEL_VECTORS_3(T, name)                                      \
    struct name { T x, y, z; };                                      \
    inline name make_##name(T x, T y, T z) { return name{x, y, z}; }
#define RIGEL_VECTORS_4(T, name, align)                               \
    struct __align__(align) name { T x, y, z, w; };                  \
    inline name make_##name(T x, T y, T z, T w) { return name{x, y, z, w}; }
RIGEL_VECTORS_2(unsigned char, uchar2, 2)
RIGEL_VECTORS_4(unsigned char, uchar4, 4)
RIGEL_VECTORS_2(unsigned short, ushort2, 4)
RIGEL_VECTORS_4(unsigned short, ushort4, 8)
RIGEL_VECTORS_2(int, int2, 8)
RIGEL_VECTORS_3(int, int3)
RIGEL_VECTORS_4(int, int4, 16)
RIGEL_VECTORS_2(unsigned, uint2, 8)
RIGEL_VECTORS_3(unsigned, uint3)
RIGEL_VECTORS_4(unsigned, uint4, 16)
RIGEL_VECTORS_2(long long, longlong2, 16)
RIGEL_VECTORS_4(long long, longlong4, 16)
RIGEL_VECTORS_2(unsigned long long, ulonglong2, 16)
RIGEL_VECTORS_4(unsigned long long, ulonglong4, 16)
RIGEL_VECTORS_2(float, float2, 8)
RIGEL_VECTORS_3(float, float3)
RIGEL_VECTORS_4(float, float4, 16)
RIGEL_VECTORS_2(double, double2, 16)
RIGEL_VECTORS_4(double, double4, 16)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
};

static constexpr int warpSize = 32;

namespace rigel_emulated {

enum Wait : unsigned {
    RUN, DONE, FAULT, SPIN, DECLARE,
    BLOCK_SYNC, BLOCK_OR, BLOCK_AND, BLOCK_COUNT,
    WARP_SYNC, WARP_SHUFFLE, WARP_BALLOT, WARP_ACTIVE,
    WARP_ADD, WARP_MIN, WARP_MAX, WARP_AND, WARP_OR, WARP_XOR,
};

enum FaultKind : unsigned { OUT_OF_RANGE, MISALIGNED, SIGNAL, FAILED };

struct Block;

struct alignas(64) Thread {
    void* stack;
    Block* block;
    unsigned x, y, z, linear;
    Wait wait;
    unsigned mask;             // the lanes of a warp operation
    unsigned long long value;  // operand, then result
    unsigned source;           // the lane a shuffle reads
    unsigned spins;
};

static_assert(sizeof(Thread) == 64, "self() counts on it");

struct Slot {  // one __shared__ declaration in one instantiation: its address identifies it
    unsigned bytes, align;
    const char* name;
};

struct Array {
    const Slot* slot;
    unsigned char* at;
};

struct Block {
    void* worker;
    unsigned index[3], threads[3], blocks[3];
    unsigned dynamic_bytes;
    unsigned char* dynamic;
    FaultKind fault;
    unsigned fault_bytes, fault_write;
    unsigned arrays;
    unsigned long long fault_address;
    const char* message;
    Array array[32];
};

struct Runtime {
    size_t region, region_bytes;  // addresses that are checked
    const signed char* shadow;
    const unsigned* hurry;        // see checks.h
    size_t threads;               // see self()
    void (*wait)(Thread*);
};

struct Kernel {
    void (*entry)(void** arguments);
    unsigned parameters;
    const unsigned* sizes;
    const unsigned char* passing;
    const char* name;
};

#if RIGEL_THREADS
extern "C" __attribute__((tls_model("initial-exec"))) thread_local Thread* rigel_thread;
extern "C" void rigel_wait(Thread*);
__forceinline__ Thread* self() { return rigel_thread; }
__forceinline__ void wait(Thread* t) { rigel_wait(t); }
#else
static Runtime runtime;

// A fiber's stack has 2^17 bytes and is aligned to its size, and stack i belongs to `Thread` i, so the stack
// pointer alone identifies the running thread. (A thread-local variable would use up the C library's small static
// TLS reserve with each loaded module.)
__forceinline__ Thread* self() {
    size_t sp;
#if defined(__x86_64__)
    asm("movq %%rsp, %0" : "=r"(sp));
#elif defined(__aarch64__)
    asm("mov %0, sp" : "=r"(sp));
#else
#error "the emulated device runs on x86_64 and aarch64"
#endif
    return (Thread*)(runtime.threads + ((sp >> 17) << 6));
}
__forceinline__ void wait(Thread* t) { runtime.wait(t); }
#endif

// Reads a field that never changes while the thread runs. Such reads are frequent in kernels. The compiler does
// not instrument asm, so they stay unchecked.
__forceinline__ unsigned peek(const unsigned& field) {
    unsigned value;
#if defined(__x86_64__)
    asm("movl %1, %0" : "=r"(value) : "m"(field));
#else
    asm("ldr %w0, %1" : "=r"(value) : "m"(field));
#endif
    return value;
}
__forceinline__ Block* block() {
    Block* value;
    Block* const& field = self()->block;
#if defined(__x86_64__)
    asm("movq %1, %0" : "=r"(value) : "m"(field));
#else
    asm("ldr %0, %1" : "=r"(value) : "m"(field));
#endif
    return value;
}

__forceinline__ uint3 thread_index() {
    Thread* t = self();
    return uint3{peek(t->x), peek(t->y), peek(t->z)};
}
__forceinline__ uint3 triple(const unsigned (&v)[3]) { return uint3{peek(v[0]), peek(v[1]), peek(v[2])}; }
__forceinline__ unsigned lane() { return peek(self()->linear) % 32; }

#if RIGEL_CHECKED
#define RIGEL_UNCHECKED __attribute__((no_sanitize("kernel-address"), noinline))
#else
#define RIGEL_UNCHECKED __attribute__((noinline))
#endif

RIGEL_UNCHECKED static unsigned long long meet(Wait kind, unsigned mask, unsigned long long value,
                                               unsigned source) {
    Thread* t = self();
    t->mask = mask;
    t->value = value;
    t->source = source;
    t->wait = kind;
    wait(t);
    return t->value;
}

// Lets other threads of the block run, for a thread that polls memory for another thread's result.
RIGEL_UNCHECKED static void spin() {
    Thread* t = self();
    t->wait = SPIN;
    wait(t);
}

// Called by every operation that a polling loop may use.
RIGEL_UNCHECKED static void poll() {
    if ((++self()->spins & 15) == 0) spin();
}

[[noreturn]] RIGEL_UNCHECKED static void fail(const char* message) {
    Thread* t = self();
    t->block->fault = FAILED;
    t->block->message = message;
    t->wait = FAULT;
    wait(t);
    __builtin_unreachable();
}

#if !RIGEL_THREADS
RIGEL_UNCHECKED static void* shared(const Slot* slot) {
    Thread* t = self();
    Block* b = t->block;
    for (unsigned i = 0; i < b->arrays; i++)
        if (b->array[i].slot == slot) return b->array[i].at;
    return (void*)meet(DECLARE, 0, (unsigned long long)slot, 0);
}
#endif
RIGEL_UNCHECKED static void* dynamic_shared() { return self()->block->dynamic; }

constexpr unsigned largest(unsigned a) { return a; }
template <class... More>
constexpr unsigned largest(unsigned a, unsigned b, More... more) { return largest(a > b ? a : b, more...); }

// `extern __shared__ T name[]` at namespace scope.
template <class T>
struct Dynamic {
    operator T*() const { return (T*)dynamic_shared(); }
};

// How a kernel takes a parameter: by value, as a pointer to constant memory, as a pointer that it may write
// through.
template <class T>
struct Passing { static constexpr unsigned char code = 0; };
template <class T>
struct Passing<const T*> { static constexpr unsigned char code = 1; };
template <class T>
struct Passing<T*> { static constexpr unsigned char code = 2; };
template <class T>
struct Passing<const T* const*> { static constexpr unsigned char code = 3; };
template <class T>
struct Passing<T**> { static_assert(sizeof(T) == 0, "a list of addresses is declared `const T* const*`"); };
template <class T>
struct Passing<T* const*> { static_assert(sizeof(T) == 0, "a list of addresses is declared `const T* const*`"); };

template <class... P>
struct Signature {
    static constexpr unsigned count = sizeof...(P);
    static constexpr unsigned sizes[] = {sizeof(P)..., 0};
    static constexpr unsigned char passing[] = {Passing<P>::code..., 0};
};
template <class... P>
constexpr Signature<P...> signature(void (*)(P...)) { return {}; }

template <unsigned... I>
struct Indices {};
template <unsigned N, unsigned... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <unsigned... I>
struct Count<0, I...> { typedef Indices<I...> type; };

template <class... P, unsigned... I>
RIGEL_UNCHECKED void call(void (*kernel)(P...), void** arguments, Indices<I...>) {
    kernel(*(P*)arguments[I]...);
}
template <class... P>
RIGEL_UNCHECKED void call(void (*kernel)(P...), void** arguments) {
    call(kernel, arguments, typename Count<sizeof...(P)>::type());
}

}  // namespace rigel_emulated

#define threadIdx (::rigel_emulated::thread_index())
#define blockIdx (::rigel_emulated::triple(::rigel_emulated::block()->index))
#define blockDim (::dim3(::rigel_emulated::triple(::rigel_emulated::block()->threads)))
#define gridDim (::dim3(::rigel_emulated::triple(::rigel_emulated::block()->blocks)))

// The macros that rewritten __shared__ declarations use.
#if RIGEL_THREADS
#define RIGEL_SHARED(type, name, ...)                                                                     \
    alignas(::rigel_emulated::largest(alignof(type), 1, ##__VA_ARGS__)) static unsigned char              \
        rigel_bytes_##name[sizeof(type)];                                                                 \
    type& name = *(type*)rigel_bytes_##name
#else
#define RIGEL_SHARED(type, name, ...)                                                                     \
    static constexpr ::rigel_emulated::Slot rigel_slot_##name = {                                         \
        sizeof(type), ::rigel_emulated::largest(alignof(type), 1, ##__VA_ARGS__), #name};                 \
    type& name = *(type*)::rigel_emulated::shared(&rigel_slot_##name)
#endif
#define RIGEL_DYNAMIC(type, name) type* const name = (type*)::rigel_emulated::dynamic_shared()
#define RIGEL_DYNAMIC_GLOBAL(type, name) static const ::rigel_emulated::Dynamic<type> name = {}
