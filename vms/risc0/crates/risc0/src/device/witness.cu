// The data columns by upstream's own headers, one row a thread: first what a row has alone, then what depends on
// how often rows have looked values up, which they count in `tables`.

#define CUDA
#include "field/extension.cuh"
#include "rigel_risc0/field.cuh"

#include "rv32im/circuit/data_witgen.h"

template <u32 PO2>
__global__ void __launch_bounds__(BLOCK_THREADS)
set_rows(Fp* data, Fp* globals, const RowInfo* rows, const u32* aux, u32* tables, Fp root) {
    computeRowSet<PO2>(data, globals, rows, aux, tables, root, blockIdx.x * BLOCK_THREADS + threadIdx.x);
}

template <u32 PO2>
__global__ void __launch_bounds__(BLOCK_THREADS)
finalize_rows(Fp* data, Fp* globals, const RowInfo* rows, const u32* aux, u32* tables, Fp root) {
    computeRowFinalize<PO2>(data, globals, rows, aux, tables, root, blockIdx.x * BLOCK_THREADS + threadIdx.x);
}
