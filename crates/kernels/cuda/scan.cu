// Prefix sums and products of columns in one pass over memory, by decoupled look-back: a block scans its tile in
// registers, publishes the tile's total, and gets what lies before the tile from the totals, or the prefixes, that
// the blocks before it have published.

#include "slab.cuh"

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

constexpr u32 THREADS = 256, WARPS = THREADS / 32;

// The state of a tile: nothing yet, its own total, or the total of all up to and including it. Total and prefix
// have places of their own and are written once, before the state says so; so a reader that has seen the state
// reads whole elements, however wide.
constexpr u32 EMPTY = 0, TOTAL = 1, PREFIX = 2;

template <class E>
__device__ __forceinline__ void publish(E* at, const E& value, u32* state, u32 is) {
    *at = value;
    __threadfence();
    atomicExch(state, is);
}

// Past the first-level cache, which does not see what other blocks write.
template <class E>
__device__ __forceinline__ E published(const E* at) {
    E x;
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d)
        coefficient(x, d) = E::Base::from_word(__ldcg(&coefficient(*at, d).v));
    return x;
}

// Op over all lanes of a warp, in every lane. (Op commutes.)
template <class E, class Op>
__device__ __forceinline__ E warp_join(E x) {
#pragma unroll
    for (u32 bit = 16; bit > 0; bit >>= 1) x = Op::join(x, shuffle_xor(x, bit));
    return x;
}

// Op over all tiles before `tile` of a column, in every lane of the calling warp. A lane looks at one tile; the
// warp goes back 32 tiles at a time until it meets a prefix.
template <class E, class Op>
__device__ __forceinline__ E look_back(const E* totals, const E* prefixes, u32* states, u32 tile) {
    const u32 lane = threadIdx.x % 32;
    E before = Op::template identity<E>();
    for (i32 nearest = (i32)tile - 1;; nearest -= 32) {
        const i32 at = nearest - (i32)lane;
        u32 state = PREFIX;
        for (;;) {
            if (at >= 0) state = *(volatile u32*)(states + at);
            if (__all_sync(0xffffffffu, state != EMPTY)) break;
            __nanosleep(32);
        }
        __threadfence();
        const u32 prefix_lanes = __ballot_sync(0xffffffffu, state == PREFIX);
        const u32 last = prefix_lanes == 0 ? 31 : __ffs(prefix_lanes) - 1;
        E value = Op::template identity<E>();
        if (at >= 0 && lane <= last) value = published((state == PREFIX ? prefixes : totals) + at);
        before = Op::join(before, warp_join<E, Op>(value));
        if (prefix_lanes != 0) return before;
    }
}

// The elements of a warp's part of a tile, 32 RUNS N of them. Memory is read and written in shares (run k of lane
// l holds neighbours of run k of lane l + 1); a scan wants PER = RUNS N neighbours in each lane. `room` turns one
// into the other, a coefficient at a time, with one vector of padding every RUNS, so that lanes meet different
// banks.
template <class E, int RUNS>
struct WarpTile {
    typedef typename E::Base F;
    static constexpr int N = Vector<F>::N, PER = RUNS * N;
    static constexpr u32 ROOM = 32 * (PER + N);

    static __device__ __forceinline__ Share share(u64 first, int run, bool wide) {
        return Share::of<F>(first + run * 32 * N, threadIdx.x % 32, 32, wide);
    }
    // Where in `room` element j of run k of this lane lies.
    static __device__ __forceinline__ u32 place(int run, int j, bool wide) {
        const u32 lane = threadIdx.x % 32;
        const u32 element = wide ? (run * 32 + lane) * N + j : (run * N + j) * 32 + lane;
        return element + element / PER * N;
    }
    static __device__ __forceinline__ F* own(F* room, int run) {
        return room + ((threadIdx.x % 32) * (RUNS + 1) + run) * N;
    }

    static __device__ __forceinline__ void load(E* x, const F* slab, u64 n, u64 first, F* room, bool wide) {
#pragma unroll
        for (int k = 0; k < RUNS; ++k) load_share(x + k * N, slab, n, share(first, k, wide));
#pragma unroll
        for (int d = 0; d < E::DEGREE; ++d) {
#pragma unroll
            for (int k = 0; k < RUNS; ++k) put(room, x + k * N, d, k, wide);
            __syncwarp();
#pragma unroll
            for (int k = 0; k < RUNS; ++k) {
                const Vector<F> values = Vector<F>::read(own(room, k));
#pragma unroll
                for (int j = 0; j < N; ++j) coefficient(x[k * N + j], d) = values.x[j];
            }
            __syncwarp();
        }
    }
    static __device__ __forceinline__ void store(F* slab, E* x, u64 n, u64 first, F* room, bool wide) {
#pragma unroll
        for (int d = 0; d < E::DEGREE; ++d) {
#pragma unroll
            for (int k = 0; k < RUNS; ++k) {
                Vector<F> values;
#pragma unroll
                for (int j = 0; j < N; ++j) values.x[j] = coefficient(x[k * N + j], d);
                values.write(own(room, k));
            }
            __syncwarp();
#pragma unroll
            for (int k = 0; k < RUNS; ++k) take(x + k * N, room, d, k, wide);
            __syncwarp();
        }
#pragma unroll
        for (int k = 0; k < RUNS; ++k) store_share(slab, x + k * N, n, share(first, k, wide));
    }

  private:
    static __device__ __forceinline__ void put(F* room, const E* x, int d, int run, bool wide) {
        if (wide) {
            Vector<F> values;
#pragma unroll
            for (int j = 0; j < N; ++j) values.x[j] = coefficient(x[j], d);
            values.write(room + place(run, 0, true));
        } else {
#pragma unroll
            for (int j = 0; j < N; ++j) room[place(run, j, false)] = coefficient(x[j], d);
        }
    }
    static __device__ __forceinline__ void take(E* x, const F* room, int d, int run, bool wide) {
        if (wide) {
            const Vector<F> values = Vector<F>::read(room + place(run, 0, true));
#pragma unroll
            for (int j = 0; j < N; ++j) coefficient(x[j], d) = values.x[j];
        } else {
#pragma unroll
            for (int j = 0; j < N; ++j) coefficient(x[j], d) = room[place(run, j, false)];
        }
    }
};

// Inclusive (out[i] = in[0] .. in[i]) or exclusive (out[i] = in[0] .. in[i - 1]) prefixes of columns of n
// elements, `tiles` tiles a column. `states` holds one ticket, then a state for each tile, all zero at the start.
//
// A block takes its tile by ticket: the tiles that a tile waits for belong to blocks that have started. Tickets
// run over the columns first, so that by the time a tile looks back, the tiles before it are mostly done.
template <class E, class Op, int RUNS>
__global__ void __launch_bounds__(THREADS)
scan(typename E::Base* out, const typename E::Base* in, u64 n, u32 tiles, u32 columns, u32 exclusive, E* totals,
     E* prefixes, u32* states) {
    typedef typename E::Base F;
    typedef WarpTile<E, RUNS> Part;
    constexpr int PER = Part::PER;
    __shared__ __align__(16) F rooms[WARPS][Part::ROOM];
    __shared__ E starts[WARPS];
    __shared__ u32 ticket;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    if (threadIdx.x == 0) ticket = atomicAdd(states, 1u);
    __syncthreads();
    const u32 tile = ticket / columns, column = ticket % columns;
    const u64 slab = (u64)column * E::DEGREE * n, slot = (u64)column * tiles;
    const bool wide = n % Part::N == 0 && is_aligned(out) && is_aligned(in);
    const u64 first = ((u64)tile * WARPS + warp) * (32 * PER);

    E x[PER];
    Part::load(x, in + slab, n, first, rooms[warp], wide);
    E total = x[0];
#pragma unroll
    for (int i = 1; i < PER; ++i) total = Op::join(total, x[i]);
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
        u32* state = states + 1 + slot;
        E prefix = Op::template identity<E>();
        if (tile != 0) {
            if (lane == 0) publish(totals + slot + tile, own, state + tile, TOTAL);
            prefix = look_back<E, Op>(totals + slot, prefixes + slot, state, tile);
        }
        if (lane == 0) publish(prefixes + slot + tile, Op::join(prefix, own), state + tile, PREFIX);
        E start = shuffle_up(through, 1);
        if (lane == 0) start = Op::template identity<E>();
        if (lane < WARPS) starts[lane] = Op::join(prefix, start);
    }
    __syncthreads();

    E running = Op::join(starts[warp], before);
#pragma unroll
    for (int i = 0; i < PER; ++i) {
        const E next = Op::join(running, x[i]);
        x[i] = exclusive ? running : next;
        running = next;
    }
    Part::store(out + slab, x, n, first, rooms[warp], wide);
}
