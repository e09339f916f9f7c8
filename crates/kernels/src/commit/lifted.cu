// Digests of rows across columns of different lengths, one row per thread and launch. The launcher includes the hash's
// header before this text.

#include "field/baby_bear.cuh"
#include "field/koala_bear.cuh"
#include "field/mersenne31.cuh"
#include "hash/digest.cuh"
#include "layout/column.cuh"

// The place of a row's entry in a column that is 2^log_ratio times shorter: an entry appears in 2^log_ratio rows of its
// parity, rows 2^(log_ratio + 1) a + 2 b + c for all b. This is how Stwo lifts evaluations on a circle domain to a
// larger one.
__device__ __forceinline__ u32 lifted(u32 row, u32 log_ratio) { return (row >> (log_ratio + 1) << 1) + (row & 1); }

// The entries of a row; the list says how much shorter each column is than the tree has leaves, and there are
// 2^log_ratio times fewer rows than leaves. All threads load the same list entries.
template <class F>
struct LiftedRow {
    const Column* columns;
    u32 row, log_ratio;
    __device__ __forceinline__ F operator()(u32 i) const {
        const Column column = columns[i];
        return static_cast<const F*>(column.values)[lifted(row, column.log_ratio - log_ratio)];
    }
};

// Absorbs the next `count` words of each row, after `before` others, and writes the state, or the digest after the
// message's last words. Rows go on from the states that are in place, or from `states`, of which there are 2^log_step
// times fewer: rows that have the same entries so far share one. All but the last count are whole blocks.
template <class H, class F>
__global__ void __launch_bounds__(BLOCK_THREADS, 8)
hash_lifted(Digest* digests, const Digest* states, const Column* columns, u64 rows, u32 log_ratio, u32 log_step,
            u32 before, u32 count, u32 in_place, u32 last) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    H hash;
    if (before == 0) hash.init();
    else if (in_place) load_digest(digests[row], hash.h);
    else load_digest(states[lifted(row, log_step)], hash.h);
    const LiftedRow<F> words = {columns, row, log_ratio};
    const u32 blocks = (last && count > 0 ? count - 1 : count) / H::BLOCK;
    hash.absorb_blocks(words, blocks, before);
    if (last) {
        hash.absorb_last(words, blocks * H::BLOCK, count, before + blocks * H::BLOCK);
        typename H::Word digest[8];
        hash.finish(digest);
        store_digest(digests[row], digest);
    } else {
        store_digest(digests[row], hash.h);
    }
}
