// Rows of a matrix with their Merkle paths.

#include "field/word.cuh"

// For query q with index i = indices[q]: the words of row i, then the siblings on the path of leaf i, lowest first,
// 8 words each. The tree is a heap of digests: the root is node 1, the children of node k are 2k and 2k + 1, and
// leaf i is node rows + i. In a matrix that is stored in bit-reversed order, row i lies at storage row rev(i).
__global__ void __launch_bounds__(BLOCK_THREADS)
open_queries(u32* out, const u32* matrix, const u32* tree, const u32* indices, u64 rows, u32 log_rows, u32 columns,
             u32 levels, u32 reversed) {
    const u32 words = columns + 8 * levels;
    const u32 word = blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (word >= words) return;
    const u32 index = indices[blockIdx.y];
    u32 value;
    if (word < columns) {
        const u32 row = reversed ? reverse_bits(index, log_rows) : index;
        value = matrix[word * rows + row];
    } else {
        const u32 level = (word - columns) / 8;
        const u64 sibling = ((rows + index) >> level) ^ 1;
        value = tree[8 * sibling + (word - columns) % 8];
    }
    out[(u64)blockIdx.y * words + word] = value;
}
