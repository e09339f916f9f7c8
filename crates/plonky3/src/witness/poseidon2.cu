// The trace of Plonky3's Poseidon2 AIRs, one permutation per thread: permutation `blockIdx.y` of a row. Adjacent
// threads write adjacent rows of each column.
//
// Columns of a permutation, with REGISTERS columns for each S-box, x^3 of x^7 if there is one:
//   the input | 4 full rounds: registers of each S-box, then the state | partial rounds: registers, then the S-box's
//   result | 4 full rounds

#include "hash/poseidon2.cuh"

// (x + k)^DEGREE, and the registers on the way.
template <int DEGREE, int REGISTERS, class F>
__device__ __forceinline__ F traced_power(RowWriter<F>& writer, F x, F k) {
    x = x + k;
    const F cube = x.square() * x;
    if constexpr (REGISTERS == 1) writer.element(cube);
    return DEGREE == 3 ? cube : cube.square() * x;
}

template <class F, int WIDTH, int REGISTERS>
__device__ __forceinline__ void traced_full_round(RowWriter<F>& writer, F (&s)[WIDTH], const F* k) {
#pragma unroll
    for (int i = 0; i < WIDTH; ++i)
        s[i] = traced_power<Poseidon2Instance<F, WIDTH>::DEGREE, REGISTERS>(writer, s[i], k[i]);
    external_layer<Plonky3Matrices>(s);
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) writer.element(s[i]);
}

// The constants: of the full rounds, of the partial rounds, of the full rounds.
template <class F, int WIDTH, int REGISTERS>
__global__ void __launch_bounds__(BLOCK_THREADS)
poseidon2_trace(F* trace, const F* inputs, const F* constants, u64 rows, u32 columns) {
    typedef Poseidon2Instance<F, WIDTH> Instance;
    static_assert(REGISTERS == 0 || (REGISTERS == 1 && Instance::DEGREE == 7), "only x^7 has a register");
    const u64 row = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row >= rows) return;
    RowWriter<F> writer{trace + (u64)blockIdx.y * columns * rows + row, rows};
    const F* input = inputs + (row * gridDim.y + blockIdx.y) * WIDTH;
    F s[WIDTH];
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
        s[i] = input[i];
        writer.element(s[i]);
    }
    external_layer<Plonky3Matrices>(s);
#pragma unroll 1
    for (int round = 0; round < 4; ++round, constants += WIDTH)
        traced_full_round<F, WIDTH, REGISTERS>(writer, s, constants);
#pragma unroll 1
    for (int round = 0; round < Instance::PARTIAL_ROUNDS; ++round, ++constants) {
        const F rest = sum_of_rest(s);
        const F power = traced_power<Instance::DEGREE, REGISTERS>(writer, s[0], *constants);
        writer.element(power);
        s[0] = Plonky3Matrices::first(rest, power);
        Instance::diagonal(s, rest + power);
    }
#pragma unroll 1
    for (int round = 0; round < 4; ++round, constants += WIDTH)
        traced_full_round<F, WIDTH, REGISTERS>(writer, s, constants);
}
