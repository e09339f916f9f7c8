// Merkle trees. The layers of a tree are stored one after the other, the leaves first: a layer of n digests is followed
// by its n / 2 parents. The launcher includes the hash's header before this text. A hash whose constants are given at
// run time takes them as the last parameter K.

#include "hash/digest.cuh"

// The parent of two adjacent digests.
template <class H, class... K>
__device__ __forceinline__ void compress_children(const Digest* children, typename H::Word (&node)[H::DIGEST_WORDS],
                                                  const K&... constants) {
    typename H::Word left[H::DIGEST_WORDS], right[H::DIGEST_WORDS];
    load_digest(children[0], left);
    load_digest(children[1], right);
    H::compress(left, right, node, constants...);
}

// One layer: parents[i] = compress(children[2i], children[2i + 1]).
template <class H, class... K>
__global__ void __launch_bounds__(BLOCK_THREADS)
compress_layer(Digest* parents, const Digest* children, u32 nodes, CONSTANT_PARAMETER(K)... constants) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= nodes) return;
    typename H::Word node[H::DIGEST_WORDS];
    compress_children<H>(children + 2ull * i, node, constants...);
    store_digest(parents[i], node);
}

// One layer at which matrices of its height join: on entry parents[i] is the digest of their row i; it becomes
// compress(compress(children[2i], children[2i + 1]), parents[i]).
template <class H, class... K>
__global__ void __launch_bounds__(BLOCK_THREADS)
compress_and_join(Digest* parents, const Digest* children, u32 nodes, CONSTANT_PARAMETER(K)... constants) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= nodes) return;
    typename H::Word row[H::DIGEST_WORDS], node[H::DIGEST_WORDS], joined[H::DIGEST_WORDS];
    compress_children<H>(children + 2ull * i, node, constants...);
    load_digest(parents[i], row);
    H::compress(node, row, joined, constants...);
    store_digest(parents[i], joined);
}

// The `levels` layers above a layer of `count` digests, when there are too few nodes to fill the device: every thread
// block reduces 2 * blockDim.x digests (or all of them) independently, synchronizing only its own threads.
template <class H, class... K>
__global__ void __launch_bounds__(BLOCK_THREADS)
compress_subtrees(Digest* layer, u32 count, u32 levels, CONSTANT_PARAMETER(K)... constants) {
    u32 nodes = count / 2, mine = nodes / gridDim.x;
    for (u32 level = 0; level < levels; ++level) {
        Digest* const parents = layer + 2 * nodes;
        if (threadIdx.x < mine) {
            const u32 i = blockIdx.x * mine + threadIdx.x;
            typename H::Word node[H::DIGEST_WORDS];
            compress_children<H>(layer + 2 * i, node, constants...);
            store_digest(parents[i], node);
        }
        __syncthreads();
        layer = parents;
        nodes /= 2;
        mine /= 2;
    }
}

// Gathers selected digests, two threads per digest.
template <class H>
__global__ void __launch_bounds__(BLOCK_THREADS)
gather_digests(uint4* chosen, const uint4* digests, const u64* positions, u64 count) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 2 * count) chosen[i] = digests[2 * positions[i / 2] + i % 2];
}
