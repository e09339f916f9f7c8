// The list of the columns of several matrices, for kernels that read across them.

#include "layout/column.cuh"

// Up to BATCH matrices: the offset of each matrix's columns in the list, their number, their length in bytes, and the
// ratio that the list records for them.
struct Pieces {
    u64 stride[BATCH];
    u32 first[BATCH];
    u32 columns[BATCH];
    u32 log_ratio[BATCH];
};

// One block per matrix. Addresses are separate parameters: launchers pass device addresses only as arguments, not in
// structs.
__global__ void __launch_bounds__(BLOCK_THREADS)
list_columns(Column* list, Pieces pieces, const char* m0, const char* m1, const char* m2, const char* m3,
             const char* m4, const char* m5, const char* m6, const char* m7, const char* m8, const char* m9,
             const char* m10, const char* m11, const char* m12, const char* m13, const char* m14,
             const char* m15) {
    const char* const matrices[BATCH] = {m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15};
    const u32 piece = blockIdx.x;
    const char* matrix = matrices[piece];
    for (u32 column = threadIdx.x; column < pieces.columns[piece]; column += blockDim.x) {
        Column& entry = list[pieces.first[piece] + column];
        entry.values = matrix + column * pieces.stride[piece];
        entry.log_ratio = pieces.log_ratio[piece];
    }
}
