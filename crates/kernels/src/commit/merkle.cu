// Merkle trees. The layers of a tree are stored one after the other, the leaves first: a layer of n digests is followed
// by its n / 2 parents. The launcher includes the hash's header before this text. A hash whose constants are given at
// run time takes them as the last parameter K.

#include "hash/digest.cuh"

// The parent of two adjacent digests. A thread has whole words of digests (H::Word) or half of each (H::Half).
template <class H, class Word, class... K>
__device__ __forceinline__ void compress_children(const Digest* children, Word (&node)[H::DIGEST_WORDS],
                                                  const K&... constants) {
    Word left[H::DIGEST_WORDS], right[H::DIGEST_WORDS];
    load_digest(children[0], left);
    load_digest(children[1], right);
    H::compress(left, right, node, constants...);
}

// A node: parent = compress(children[0], children[1]). If matrices join at it, the parent is the digest of their row on
// entry, and becomes compress(compress(children[0], children[1]), parent).
template <class H, class Word, class... K>
__device__ __forceinline__ void compress_node(Digest& parent, const Digest* children, bool joins,
                                              const K&... constants) {
    Word node[H::DIGEST_WORDS];
    compress_children<H>(children, node, constants...);
    if (joins) {
        Word row[H::DIGEST_WORDS], joined[H::DIGEST_WORDS];
        load_digest(parent, row);
        H::compress(node, row, joined, constants...);
        store_digest(parent, joined);
    } else {
        store_digest(parent, node);
    }
}

// One layer: parents[i] is a node of children[2i] and children[2i + 1].
template <class H, class... K>
__global__ void __launch_bounds__(BLOCK_THREADS)
compress_layer(Digest* parents, const Digest* children, u32 nodes, CONSTANT_PARAMETER(K)... constants) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < nodes) compress_node<H, typename H::Word>(parents[i], children + 2ull * i, false, constants...);
}

// One layer at which matrices of its height join.
template <class H, class... K>
__global__ void __launch_bounds__(BLOCK_THREADS)
compress_and_join(Digest* parents, const Digest* children, u32 nodes, CONSTANT_PARAMETER(K)... constants) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < nodes) compress_node<H, typename H::Word>(parents[i], children + 2ull * i, true, constants...);
}

// The index of a warp. The compiler knows that a value of lane 0 is the same in all threads of a warp, which then stay
// together: shuffles cost one instruction.
__device__ __forceinline__ u32 this_warp() { return __shfl_sync(0xffffffffu, threadIdx.x / 32, 0); }

// The `levels` layers above a layer of 2 `mine` digests per block, `nodes` in the first of them, by groups of
// threads. Digests stay in shared memory, in the form in which groups work, and are copied to the layers while the next
// ones are computed: by the last threads of the block, whose warps are the first to have no nodes.
template <class G>
__device__ __forceinline__ void compress_in_groups(Digest* layer, u32 nodes, u32 mine, u32 levels, bool joins) {
    typedef typename G::Word Word;
    typedef typename G::Room Room;
    constexpr u32 GROUPS = SUBTREE_THREADS / G::LANES, WORDS = G::DIGEST_WORDS, PER_WARP = 32 / G::LANES;
    __shared__ Word digests[2][2 * GROUPS * WORDS];
    __shared__ Word joined[2 * GROUPS * WORDS];  // pairs of a node and the digest of its row
    __shared__ Room rooms[GROUPS];
    static_assert(WORDS * sizeof(u64) == sizeof(Digest), "digests of 64-bit words");
    const G thread(threadIdx.x % G::LANES);
    const u32 group = threadIdx.x / G::LANES, warp = this_warp(), last = blockDim.x - 1 - threadIdx.x;

    const u64* const children = (const u64*)(layer + 2 * blockIdx.x * mine);
    for (u32 i = threadIdx.x; i < 2 * mine * WORDS; i += blockDim.x) digests[0][i] = G::split(children[i]);
    if (joins) {
        const u64* const rows = (const u64*)(layer + 2 * nodes + blockIdx.x * mine);
        for (u32 i = threadIdx.x; i < mine * WORDS; i += blockDim.x)
            joined[i + (i / WORDS + 1) * WORDS] = G::split(rows[i]);
    }
    __syncthreads();
    for (u32 level = 0; level < levels; ++level) {
        const Word* const below = digests[level % 2];
        Word* const here = digests[1 - level % 2];
        // All groups of a warp work if one does: they shuffle together.
        if (warp * PER_WARP < mine) {
            const bool is_node = group < mine;
            const u32 pair = is_node ? 2 * group * WORDS : 0;
            const Word* children = below + pair;
            // Where matrices join, the node is compressed with the digest of its row.
            for (u32 more = joins && level == 0; ; --more) {
                thread.compress(children, more ? joined + pair : here + pair / 2, is_node, rooms[group]);
                if (more == 0) break;
                __syncwarp();
                children = joined + pair;
            }
        }
        __syncthreads();
        layer += 2 * nodes;
        u64* const parents = (u64*)(layer + blockIdx.x * mine);
        for (u32 i = last; i < mine * WORDS; i += blockDim.x) parents[i] = G::merge(here[i]);
        nodes /= 2;
        mine /= 2;
    }
}

// The `levels` layers above a layer of `count` digests, when there are too few nodes to fill the device: every thread
// block reduces the same number of digests independently, synchronizing only its own threads. If it `joins`, matrices
// join at the first of these layers, as in `compress_and_join`.
//
// If LANES > 1, so many threads compress a node together where a block has enough of them; where it has not, two do.
template <class H, u32 LANES, class... K>
__global__ void __launch_bounds__(SUBTREE_THREADS)
compress_subtrees(Digest* layer, u32 count, u32 levels, u32 joins, CONSTANT_PARAMETER(K)... constants) {
    u32 nodes = count / 2, mine = nodes / gridDim.x;
    for (; levels > 0 && (LANES == 1 || mine > SUBTREE_THREADS / LANES); --levels) {
        Digest* const parents = layer + 2 * nodes;
        const u32 first = blockIdx.x * mine;
        if constexpr (LANES == 1) {
            const u32 i = first + threadIdx.x;
            if (threadIdx.x < mine) compress_node<H, typename H::Word>(parents[i], layer + 2 * i, joins, constants...);
        } else {
            // Whole warps have nodes or have none.
            static_assert(SUBTREE_THREADS / LANES >= 16, "two threads per node");
            const u32 i = first + threadIdx.x / 2;
            if (16 * this_warp() < mine) compress_node<H, typename H::Half>(parents[i], layer + 2 * i, joins);
        }
        __syncthreads();
        layer = parents;
        nodes /= 2;
        mine /= 2;
        joins = 0;
    }
    if constexpr (LANES > 1) {
        static_assert(H::Group::LANES == LANES && LANES <= 16 && (LANES & (LANES - 1)) == 0, "the threads of a group");
        static_assert(sizeof...(K) == 0, "groups take no constants");
        if (levels > 0) compress_in_groups<typename H::Group>(layer, nodes, mine, levels, joins);
    }
}
