// Prefix sums and products of columns in one pass over memory, by decoupled look-back: a block scans its tile in shared
// memory, publishes the tile's total, and computes the prefix before its tile from the totals, or prefixes, that
// earlier blocks have published.

#include "layout/slab.cuh"

struct Plus {
    template <class E>
    static __device__ __forceinline__ E identity() { return E::zero(); }
    template <class E>
    static __device__ __forceinline__ E join(const E& x, const E& y) { return x + y; }
};
struct Times {
    template <class E>
    static __device__ __forceinline__ E identity() { return E::one(); }
    template <class E>
    static __device__ __forceinline__ E join(const E& x, const E& y) { return x * y; }
};

constexpr u32 THREADS = BLOCK_THREADS, WARPS = THREADS / 32;

// What a tile publishes: nothing yet, its own total, or the total of all tiles up to and including it. Each 32-bit word
// of the element is paired with the state in 64 bits, which are written and read at once: a reader that finds the same
// state in all of them has a consistent element, without a fence and in one round trip to memory.
constexpr u32 EMPTY = 0, TOTAL = 1, PREFIX = 2;

template <class E>
struct Notice {
    typedef typename E::Base F;
    static constexpr int WORDS = sizeof(F) / 4, LENGTH = E::DEGREE * WORDS;
    E value;
    u32 state;

    static __device__ __forceinline__ void post(u64* at, const E& value, u32 state) {
#pragma unroll
        for (int i = 0; i < LENGTH; ++i) {
            const u64 word = coefficient(value, i / WORDS).v;
            *(volatile u64*)(at + i) = join_words((u32)(word >> i % WORDS * 32), state);
        }
    }
    // EMPTY if the words differ in state.
    static __device__ __forceinline__ Notice read(const u64* at) {
        u64 words[LENGTH];
#pragma unroll
        for (int i = 0; i < LENGTH; ++i) words[i] = *(const volatile u64*)(at + i);
        Notice notice;
        notice.state = high_word(words[0]);
#pragma unroll
        for (int i = 1; i < LENGTH; ++i)
            if (high_word(words[i]) != notice.state) notice.state = EMPTY;
#pragma unroll
        for (int d = 0; d < E::DEGREE; ++d) {
            if constexpr (WORDS == 1) coefficient(notice.value, d) = F::from_word(low_word(words[d]));
            else coefficient(notice.value, d) =
                F::from_word(join_words(low_word(words[2 * d]), low_word(words[2 * d + 1])));
        }
        return notice;
    }
};

// Op over all lanes of a warp, in every lane. (Op commutes.)
template <class E, class Op>
__device__ __forceinline__ E warp_join(E x) {
#pragma unroll
    for (u32 bit = 16; bit > 0; bit >>= 1) x = Op::join(x, shuffle_xor(x, bit));
    return x;
}

// Op over all tiles before `tile` of a column, in every lane of the calling warp. A lane looks at one tile; the warp
// looks back 32 tiles at a time until it finds a prefix.
template <class E, class Op>
__device__ __forceinline__ E look_back(const u64* notices, u32 tile) {
    const u32 lane = threadIdx.x % 32;
    E before = Op::template identity<E>();
    for (i32 nearest = (i32)tile - 1;; nearest -= 32) {
        const i32 at = nearest - (i32)lane;
        Notice<E> notice;
        notice.state = PREFIX;
        // The lanes up to the first that sees a prefix, or all.
        u32 prefixes, needed;
        for (;;) {
            if (at >= 0) notice = Notice<E>::read(notices + (u64)at * Notice<E>::LENGTH);
            prefixes = __ballot_sync(0xffffffffu, notice.state == PREFIX);
            needed = prefixes ^ (prefixes - 1);
            if ((__ballot_sync(0xffffffffu, notice.state != EMPTY) & needed) == needed) break;
            __nanosleep(32);
        }
        const bool counts = at >= 0 && (needed >> lane & 1);
        before = Op::join(before, warp_join<E, Op>(counts ? notice.value : Op::template identity<E>()));
        if (prefixes != 0) return before;
    }
}

// A warp's part of a tile in shared memory: 32 PER elements, coefficient by coefficient. Memory is read and written in
// shares (run k of lane l is adjacent to run k of lane l + 1); a scan needs PER = RUNS N adjacent elements per lane. A
// lane's elements take an odd number of vectors, padded if necessary, so that lanes use different banks.
template <class E, int RUNS>
struct WarpTile {
    typedef typename E::Base F;
    static constexpr int N = Vector<F>::N, PER = RUNS * N, PADDING = RUNS % 2 == 0 ? N : 0;

    F room[E::DEGREE][32 * (PER + PADDING)];

    __device__ __forceinline__ void load(const F* slab, u64 n, u64 first, bool wide) {
        E x[PER];
#pragma unroll
        for (int k = 0; k < RUNS; ++k) load_share(x + k * N, slab, n, share(first, k, wide));
#pragma unroll
        for (int k = 0; k < RUNS; ++k) {
            if (wide) write(place(k, 0, true), x + k * N);
            else {
#pragma unroll
                for (int j = 0; j < N; ++j) {
#pragma unroll
                    for (int d = 0; d < E::DEGREE; ++d) room[d][place(k, j, false)] = coefficient(x[k * N + j], d);
                }
            }
        }
        __syncwarp();
    }
    __device__ __forceinline__ void store(F* slab, u64 n, u64 first, bool wide) const {
        __syncwarp();
#pragma unroll
        for (int k = 0; k < RUNS; ++k) {
            E x[N];
            if (wide) read(place(k, 0, true), x);
            else {
#pragma unroll
                for (int j = 0; j < N; ++j) {
#pragma unroll
                    for (int d = 0; d < E::DEGREE; ++d) coefficient(x[j], d) = room[d][place(k, j, false)];
                }
            }
            store_share(slab, x, n, share(first, k, wide));
        }
    }

    // Elements k N to k N + N of this lane's PER.
    __device__ __forceinline__ void take(E* x, int k) const { read(own(k), x); }
    __device__ __forceinline__ void put(const E* x, int k) { write(own(k), x); }

  private:
    static __device__ __forceinline__ Share share(u64 first, int run, bool wide) {
        return Share::of<F>(first + run * 32 * N, threadIdx.x % 32, 32, wide);
    }
    // The offset of element j of run k of this lane's shares.
    static __device__ __forceinline__ u32 place(int run, int j, bool wide) {
        const u32 lane = threadIdx.x % 32;
        const u32 element = wide ? (run * 32 + lane) * N + j : (run * N + j) * 32 + lane;
        return element + element / PER * PADDING;
    }
    static __device__ __forceinline__ u32 own(int k) { return (threadIdx.x % 32) * (PER + PADDING) + k * N; }

    __device__ __forceinline__ void read(u32 at, E* x) const {
#pragma unroll
        for (int d = 0; d < E::DEGREE; ++d) {
            const Vector<F> values = Vector<F>::read(room[d] + at);
#pragma unroll
            for (int j = 0; j < N; ++j) coefficient(x[j], d) = values.x[j];
        }
    }
    __device__ __forceinline__ void write(u32 at, const E* x) {
#pragma unroll
        for (int d = 0; d < E::DEGREE; ++d) {
            Vector<F> values;
#pragma unroll
            for (int j = 0; j < N; ++j) values.x[j] = coefficient(x[j], d);
            values.write(room[d] + at);
        }
    }
};

// Inclusive (out[i] = in[0] .. in[i]) or exclusive (out[i] = in[0] .. in[i - 1]) prefixes of columns of n elements,
// `tiles` tiles per column. Without an `in` it works in place. `board` holds one ticket, then a notice for each tile,
// all initially zero. Columns of one tile each need no board: nothing is published.
//
// A block takes its tile by ticket, so the tiles it waits for belong to blocks that have already started. Tickets run
// over the columns first, so that by the time a tile looks back, the tiles before it are mostly done.
template <class E, class Op, int RUNS, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS)
scan(typename E::Base* out, const typename E::Base* in, u64 n, u32 tiles, u32 columns, u32 exclusive, u64* board) {
    typedef WarpTile<E, RUNS> Part;
    constexpr int N = Part::N;
    if (in == nullptr) in = out;
    extern __shared__ __align__(16) unsigned char memory[];  // WARPS parts
    __shared__ E starts[WARPS];
    __shared__ u32 ticket;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    if (threadIdx.x == 0) ticket = board == nullptr ? blockIdx.x : (u32)atomicAdd(board, 1ull);
    __syncthreads();
    const u32 tile = ticket / columns, column = ticket % columns;
    const u64 slab = (u64)column * E::DEGREE * n;
    u64* notices = board + 1 + (u64)column * tiles * Notice<E>::LENGTH;
    const bool wide = n % Part::N == 0 && is_aligned(out) && is_aligned(in);
    const u64 first = ((u64)tile * WARPS + warp) * (32 * Part::PER);

    Part& part = ((Part*)memory)[warp];
    part.load(in + slab, n, first, wide);
    E total = Op::template identity<E>();
#pragma unroll
    for (int k = 0; k < RUNS; ++k) {
        E x[N];
        part.take(x, k);
#pragma unroll
        for (int j = 0; j < N; ++j) total = k == 0 && j == 0 ? x[0] : Op::join(total, x[j]);
    }
#pragma unroll
    for (u32 delta = 1; delta < 32; delta *= 2) {
        const E below = shuffle_up(total, delta);
        if (lane >= delta) total = Op::join(below, total);
    }
    if (lane == 31) starts[warp] = total;
    E before = shuffle_up(total, 1);
    if (lane == 0) before = Op::template identity<E>();
    __syncthreads();

    if (warp == 0) {
        E through = lane < WARPS ? starts[lane] : Op::template identity<E>();
#pragma unroll
        for (u32 delta = 1; delta < WARPS; delta *= 2) {
            const E below = shuffle_up(through, delta);
            if (lane >= delta) through = Op::join(below, through);
        }
        const E own = broadcast(through, WARPS - 1);
        u64* notice = notices + (u64)tile * Notice<E>::LENGTH;
        E prefix = Op::template identity<E>();
        if (tile != 0) {
            if (lane == 0) Notice<E>::post(notice, own, TOTAL);
            prefix = look_back<E, Op>(notices, tile);
        }
        if (tiles > 1 && lane == 0) Notice<E>::post(notice, Op::join(prefix, own), PREFIX);
        E start = shuffle_up(through, 1);
        if (lane == 0) start = Op::template identity<E>();
        if (lane < WARPS) starts[lane] = Op::join(prefix, start);
    }
    __syncthreads();

    E running = Op::join(starts[warp], before);
#pragma unroll
    for (int k = 0; k < RUNS; ++k) {
        E x[N];
        part.take(x, k);
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const E next = Op::join(running, x[j]);
            x[j] = exclusive ? running : next;
            running = next;
        }
        part.put(x, k);
    }
    part.store(out + slab, n, first, wide);
}
