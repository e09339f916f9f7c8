// The data columns by upstream's own headers, one row a thread: first what a row has alone, then what depends on
// how often rows have looked values up, which they count in `tables`.
//
// The number of rows is part of the type of upstream's rows. So a row is made as the only one of its trace, in memory
// of the thread, and then stored in its place: one kernel serves traces of all sizes. Upstream's only index into a
// trace is `column * rows + row`, here `column * 1 + row`, so the pointer that it gets is `row` before the values.

#define CUDA
#include "field/extension.cuh"
#include "rigel_risc0/field.cuh"

#include "rv32im/circuit/data_witgen.h"

static_assert(sizeof(Top<DataWitgenContext<0>>) == COLUMNS * sizeof(Fp), "a row has other columns than recorded");

__device__ __forceinline__ void store_row(Fp* data, u64 rows, u64 row, const Fp* values) {
#pragma unroll
    for (u32 column = 0; column < COLUMNS; ++column) data[column * rows + row] = values[column];
}

__global__ void __launch_bounds__(BLOCK_THREADS) set_rows(
    Fp* data, Fp* globals, const RowInfo* info, const u32* aux, u32* tables, Fp root, u64 rows) {
    const u64 row = blockIdx.x * BLOCK_THREADS + threadIdx.x;
    Fp values[COLUMNS];
    computeRowSet<0>(values - row, globals, info, aux, tables, root, row);
    store_row(data, rows, row, values);
}

__global__ void __launch_bounds__(BLOCK_THREADS) finalize_rows(
    Fp* data, Fp* globals, const RowInfo* info, const u32* aux, u32* tables, Fp root, u64 rows) {
    const u64 row = blockIdx.x * BLOCK_THREADS + threadIdx.x;
    Fp values[COLUMNS];
#pragma unroll
    for (u32 column = 0; column < COLUMNS; ++column) values[column] = data[column * rows + row];
    computeRowFinalize<0>(values - row, globals, info, aux, tables, root, row);
    store_row(data, rows, row, values);
}
