#include "number/dot.cuh"

// Matrix products over any type: C (m x n) = A (m x k) B (k x n), one for each matrix of a batch. See matmul.rs.

// --- elements in memory -------------------------------------------------------------------------------------

// An element as it is moved: aligned to its size, so that a move is one instruction where possible.
template <int BYTES>
struct Moved;
template <>
struct Moved<4> {
    u32 word;
};
template <>
struct Moved<8> {
    u64 word;
};
template <>
struct __align__(16) Moved<16> {
    u64 word[2];
};
template <>
struct Moved<24> {
    u64 word[3];
};

template <class T>
union Cell {
    Moved<sizeof(T)> moved;
    T value;
};

template <class T>
__device__ __forceinline__ T load(const T* at) {
    Cell<T> cell;
    cell.moved = *(const Moved<sizeof(T)>*)at;
    return cell.value;
}

template <class T>
__device__ __forceinline__ void store(T* at, const T& value) {
    Cell<T> cell;
    cell.value = value;
    *(Moved<sizeof(T)>*)at = cell.moved;
}

// --- tiles --------------------------------------------------------------------------------------------------

constexpr int THREADS = BLOCK_THREADS;

// The distance in elements from one matrix, row or column to the next.
struct Strides {
    i64 batch, row, column;
};

// The products.
struct Problem {
    Strides a, b;
    u32 m, n, k;
    // The sum over k is split into `parts` parts of `part` terms; part s of the results follows part s - 1.
    u32 parts, part;
    u32 tile_rows, tile_columns;
    u32 batch;
};

// A thread's share of a tile of LENGTH rows (of A, or columns of B) and DEPTH terms, on its way from global to shared
// memory: COUNT elements. Consecutive threads take consecutive rows or consecutive terms, whichever are closer in
// memory, and a thread's elements are a fixed step apart.
template <class T, int LENGTH, int DEPTH, int PITCH>
struct Share {
    static constexpr int COUNT = LENGTH * DEPTH / THREADS;
    static_assert(COUNT > 0 && THREADS % LENGTH == 0 && THREADS % DEPTH == 0, "a tile is a whole number of steps");

    T element[COUNT];
    const T* at;
    i64 row_stride, term_stride;
    bool along_terms;
    // Bit i is set if the row of element i exists.
    u32 there;
    u32 term, place;

    // `from` is the first element of the tile's first row; `rows` rows remain from there on.
    __device__ __forceinline__ Share(const T* from, i64 row_stride, i64 term_stride, u32 rows)
        : row_stride(row_stride), term_stride(term_stride) {
        const i64 row_size = row_stride < 0 ? -row_stride : row_stride;
        const i64 term_size = term_stride < 0 ? -term_stride : term_stride;
        along_terms = term_size < row_size;
        const u32 t = threadIdx.x, row = along_terms ? t / DEPTH : t % LENGTH;
        term = along_terms ? t % DEPTH : t / LENGTH;
        at = from + (i64)row * row_stride + (i64)term * term_stride;
        place = term * PITCH + row;
        there = 0;
#pragma unroll
        for (u32 i = 0; i < COUNT; ++i) there |= (u32)(row + (along_terms ? i * (THREADS / DEPTH) : 0) < rows) << i;
    }
    // Fetches the next tile, of which `terms` terms exist.
    __device__ __forceinline__ void fetch(u32 terms) {
        const i64 step = along_terms ? (THREADS / DEPTH) * row_stride : (THREADS / LENGTH) * term_stride;
        const u32 term_step = along_terms ? 0 : THREADS / LENGTH;
        const T* from = at;
        u32 s = term;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if ((there >> i & 1) && s < terms) {
                element[i] = load(from);
            } else {
                element[i] = Dot<T>::zero_element();
            }
            from += step, s += term_step;
        }
        at += DEPTH * term_stride;
    }
    __device__ __forceinline__ void put(T* tile) const {
        const u32 step = along_terms ? THREADS / DEPTH : (THREADS / LENGTH) * PITCH;
        u32 to = place;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            store(tile + to, element[i]);
            to += step;
        }
    }
};

// The shape of a tile. A thread's rows are COUNT / WIDTH runs of WIDTH (as many as 16 bytes hold), 16 WIDTH apart.
template <class T>
struct Tile {
    typedef Dot<T> D;
    static constexpr int WIDTH = sizeof(T) >= 16 ? 1 : 16 / sizeof(T);
    static constexpr int M = 16 * D::ROWS, N = 16 * D::COLUMNS, DEPTH = D::DEPTH;
    // Padded, so that threads that store consecutive terms of a row use different banks.
    static constexpr int M_PITCH = M + WIDTH, N_PITCH = N + WIDTH;
};

// WIDTH adjacent elements of a tile at once.
template <class T>
union __align__(16) Run {
    Moved<Tile<T>::WIDTH * sizeof(T)> moved;
    T value[Tile<T>::WIDTH];
};

// A block computes one tile of one part of one matrix: the terms of the next step are loaded while those of the current
// one are multiplied from shared memory. Warps are 4 x 8 threads, so that a warp's factors are few and adjacent.
template <class T>
__global__ void __launch_bounds__(THREADS, sizeof(Dot<T>) * Dot<T>::ROWS * Dot<T>::COLUMNS > 256 ? 1 : 2)
    matmul_tiles(T* __restrict__ out, const T* __restrict__ a, const T* __restrict__ b, Problem p) {
    typedef Tile<T> S;
    typedef Dot<T> D;
    constexpr int W = S::WIDTH;
    __shared__ __align__(16) T a_tile[2][S::DEPTH * S::M_PITCH];
    __shared__ __align__(16) T b_tile[2][S::DEPTH * S::N_PITCH];

    // Blocks that run at the same time take adjacent tiles: eight rows of them, column by column.
    const u32 tiles = p.tile_rows * p.tile_columns;
    const u32 tile = blockIdx.x % tiles, rest = blockIdx.x / tiles, part = rest % p.parts, batch = rest / p.parts;
    const u32 strip = tile / (8 * p.tile_columns), in_strip = tile % (8 * p.tile_columns);
    const u32 height = min(8u, p.tile_rows - 8 * strip);
    const u32 row0 = (8 * strip + in_strip % height) * S::M, column0 = in_strip / height * S::N;
    const u32 k0 = part * p.part, terms = min(p.part, p.k - k0);

    Share<T, S::M, S::DEPTH, S::M_PITCH> a_share(a + batch * p.a.batch + row0 * p.a.row + k0 * p.a.column, p.a.row,
                                                 p.a.column, p.m - row0);
    Share<T, S::N, S::DEPTH, S::N_PITCH> b_share(b + batch * p.b.batch + column0 * p.b.column + k0 * p.b.row,
                                                 p.b.column, p.b.row, p.n - column0);

    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 my_row = (warp / 2 * 4 + lane / 8) * W, my_column = (warp % 2 * 8 + lane % 8) * W;
    D dot[D::ROWS][D::COLUMNS];
#pragma unroll
    for (int i = 0; i < D::ROWS; ++i)
#pragma unroll
        for (int j = 0; j < D::COLUMNS; ++j) dot[i][j] = D::zero();

    a_share.fetch(terms);
    b_share.fetch(terms);
    a_share.put(a_tile[0]);
    b_share.put(b_tile[0]);
    __syncthreads();
    for (u32 done = 0, now = 0; done < terms; done += S::DEPTH, now ^= 1) {
        const bool more = done + S::DEPTH < terms;
        if (more) {
            a_share.fetch(terms - done - S::DEPTH);
            b_share.fetch(terms - done - S::DEPTH);
        }
        const T* a_now = a_tile[now] + my_row;
        const T* b_now = b_tile[now] + my_column;
#pragma unroll
        for (int k = 0; k < S::DEPTH; ++k) {
            Run<T> left[D::ROWS / W];
#pragma unroll
            for (int i = 0; i < D::ROWS / W; ++i)
                left[i].moved = *(const Moved<W * sizeof(T)>*)(a_now + k * S::M_PITCH + i * 16 * W);
#pragma unroll
            for (int j = 0; j < D::COLUMNS / W; ++j) {
                Run<T> right;
                right.moved = *(const Moved<W * sizeof(T)>*)(b_now + k * S::N_PITCH + j * 16 * W);
#pragma unroll
                for (int v = 0; v < W; ++v) {
                    const typename D::Right ready = D::ready(right.value[v]);
#pragma unroll
                    for (int i = 0; i < D::ROWS; ++i) dot[i][j * W + v].add(left[i / W].value[i % W], ready);
                }
            }
            if (k % D::PERIOD == D::PERIOD - 1) {
#pragma unroll
                for (int i = 0; i < D::ROWS; ++i)
#pragma unroll
                    for (int j = 0; j < D::COLUMNS; ++j) dot[i][j].settle();
            }
        }
        if (more) {
            a_share.put(a_tile[now ^ 1]);
            b_share.put(b_tile[now ^ 1]);
        }
        __syncthreads();
    }

    T* matrix = out + ((u64)part * p.batch + batch) * p.m * p.n;
#pragma unroll
    for (int i = 0; i < D::ROWS; ++i) {
        const u32 row = row0 + my_row + i / W * 16 * W + i % W;
        if (row >= p.m) continue;
#pragma unroll
        for (int j = 0; j < D::COLUMNS; ++j) {
            const u32 column = column0 + my_column + j / W * 16 * W + j % W;
            if (column < p.n) store(matrix + (u64)row * p.n + column, dot[i][j].value());
        }
    }
}

// For small matrices: one result per thread. Adjacent threads take adjacent columns and share loads through the caches.
template <class T>
__global__ void __launch_bounds__(THREADS)
    matmul_small(T* __restrict__ out, const T* __restrict__ a, const T* __restrict__ b, Problem p) {
    const u64 place = (u64)blockIdx.x * THREADS + threadIdx.x;
    const u32 size = p.m * p.n, batch = (u32)(place / size), in_matrix = (u32)(place % size);
    if (batch >= p.batch) return;
    const u32 row = in_matrix / p.n, column = in_matrix % p.n;
    const T* left = a + batch * p.a.batch + row * p.a.row;
    const T* right = b + batch * p.b.batch + column * p.b.column;
    Dot<T> dot = Dot<T>::zero();
#pragma unroll 4
    for (u32 k = 0; k < p.k; ++k) {
        dot.add(load(left), Dot<T>::ready(load(right)));
        dot.settle();
        left += p.a.column;
        right += p.b.row;
    }
    store(out + place, dot.value());
}

// --- vectors ------------------------------------------------------------------------------------------------

// y[i] = sum over k of matrix[i, k] vector[k], for `vectors` vectors of each matrix of a batch.
struct Vectors {
    i64 matrix_batch, matrix_row, matrix_term;
    i64 vector_batch, vector_step, vector_term;
    // The layout of y: the distance from one matrix's to the next, one vector's to the next, and one element to the
    // next.
    u64 out_batch, out_vector, out_row;
    // The distance from one part of the results to the next.
    u64 out_part;
    u32 rows, k, vectors, batch;
    u32 parts, part;
    // The threads that share a row in `matvec_rows`, a power of two up to THREADS; and the blocks that share the rows.
    u32 lanes, row_blocks;
};

// The sum over groups of `lanes` values of a block, `apart` apart, returned to the first thread of each group.
template <class T>
__device__ __forceinline__ T sum_of_lanes(T* shared, T value, u32 lane, u32 lanes, u32 apart) {
    const u32 t = threadIdx.x;
    store(shared + t, value);
    __syncthreads();
    for (u32 half = lanes / 2; half > 0; half /= 2) {
        if (lane < half) store(shared + t, plus(load(shared + t), load(shared + t + half * apart)));
        __syncthreads();
    }
    const T sum = load(shared + t);
    __syncthreads();
    return sum;
}

// For matrices whose terms are contiguous: `lanes` threads share ROWS rows, so that the vector is read once for them.
template <class T, int ROWS>
__global__ void __launch_bounds__(THREADS)
    matvec_rows(T* __restrict__ out, const T* __restrict__ matrix, const T* __restrict__ vector, Vectors p) {
    __shared__ __align__(16) T shared[THREADS];
    const u32 lane = threadIdx.x % p.lanes, groups = THREADS / p.lanes;
    u32 rest = blockIdx.x;
    const u32 row_block = rest % p.row_blocks;
    rest /= p.row_blocks;
    const u32 part = rest % p.parts;
    rest /= p.parts;
    const u32 which = rest % p.vectors, batch = rest / p.vectors;
    const u32 row0 = (row_block * groups + threadIdx.x / p.lanes) * ROWS;
    const u32 k0 = part * p.part, end = k0 + min(p.part, p.k - k0);

    const T* x = vector + batch * p.vector_batch + which * p.vector_step;
    const T* rows[ROWS];
    Dot<T> dot[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        // A row past the end repeats the last one, and its sum is dropped.
        rows[r] = matrix + batch * p.matrix_batch + (i64)min(row0 + r, p.rows - 1) * p.matrix_row;
        dot[r] = Dot<T>::zero();
    }
#pragma unroll 4
    for (u32 k = k0 + lane; k < end; k += p.lanes) {
        const typename Dot<T>::Right ready = Dot<T>::ready(load(x + k * p.vector_term));
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            dot[r].add(load(rows[r] + k * p.matrix_term), ready);
            dot[r].settle();
        }
    }
    T* y = out + part * p.out_part + batch * p.out_batch + which * p.out_vector;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const T sum = sum_of_lanes(shared, dot[r].value(), lane, p.lanes, 1);
        if (lane == 0 && row0 + r < p.rows) store(y + (row0 + r) * p.out_row, sum);
    }
}

// For matrices whose rows are adjacent in memory: a warp takes 32 WIDTH rows, each of the eight warps every eighth
// term.
template <class T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
    matvec_columns(T* __restrict__ out, const T* __restrict__ matrix, const T* __restrict__ vector, Vectors p) {
    constexpr u32 SLICES = THREADS / 32;
    __shared__ __align__(16) T shared[THREADS];
    const u32 slice = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 rest = blockIdx.x;
    const u32 row0 = rest % p.row_blocks * 32 * WIDTH + lane;
    rest /= p.row_blocks;
    const u32 part = rest % p.parts;
    rest /= p.parts;
    const u32 which = rest % p.vectors, batch = rest / p.vectors;
    const u32 k0 = part * p.part, end = k0 + min(p.part, p.k - k0);

    const T* x = vector + batch * p.vector_batch + which * p.vector_step;
    const T* rows[WIDTH];
    Dot<T> dot[WIDTH];
#pragma unroll
    for (int r = 0; r < WIDTH; ++r) {
        rows[r] = matrix + batch * p.matrix_batch + (i64)min(row0 + 32 * r, p.rows - 1) * p.matrix_row;
        dot[r] = Dot<T>::zero();
    }
#pragma unroll 4
    for (u32 k = k0 + slice; k < end; k += SLICES) {
        const typename Dot<T>::Right ready = Dot<T>::ready(load(x + k * p.vector_term));
#pragma unroll
        for (int r = 0; r < WIDTH; ++r) {
            dot[r].add(load(rows[r] + k * p.matrix_term), ready);
            dot[r].settle();
        }
    }
    T* y = out + part * p.out_part + batch * p.out_batch + which * p.out_vector;
#pragma unroll
    for (int r = 0; r < WIDTH; ++r) {
        const T sum = sum_of_lanes(shared, dot[r].value(), slice, SLICES, 32);
        if (slice == 0 && row0 + 32 * r < p.rows) store(y + (row0 + 32 * r) * p.out_row, sum);
    }
}

// out[i] = sum over s of part s at i: `lanes` threads share a result.
template <class T>
__global__ void __launch_bounds__(THREADS)
    matmul_sum_parts(T* __restrict__ out, const T* __restrict__ parts, u64 results, u32 count, u32 lanes) {
    __shared__ __align__(16) T shared[THREADS];
    const u32 groups = THREADS / lanes, lane = threadIdx.x / groups;
    const u64 i = (u64)blockIdx.x * groups + threadIdx.x % groups;
    T sum = Dot<T>::zero_element();
    if (i < results)
        for (u32 s = lane; s < count; s += lanes) sum = plus(sum, load(parts + s * results + i));
    sum = sum_of_lanes(shared, sum, lane, lanes, groups);
    if (lane == 0 && i < results) store(out + i, sum);
}
