// Matrix multiplication of our own, for machines without rocBLAS: batches, any strides (hence all four transpositions),
// f32, f64, and f16 and bf16 with sums in f32.
//
// `gemm` makes 128 x 128 tiles for large results, its variant `_small` 64 x 64 tiles for results that would not fill the
// device otherwise. `gemv` serves a few rows (a decoding step) against a matrix whose depth is contiguous, `gemv_*_rows`
// against one whose columns are.
//
// Limits: a thread of `gemm` does 64 multiply-adds for 16 values it reads from shared memory, so the arithmetic units
// are the limit, not shared memory; slabs come in vectors and one slab ahead. `gemv` is bound by memory: a wave reads
// its weights in 16-byte pieces exactly once for up to four rows of the left factor.
#include "portable.h"
#include "tile.h"
#include "load_order.h"
#include "units/amd.h"
#include "units/amd_products.h"
#include "matrix_tile.h"

// Strides count elements.
struct GemmShape {
    u32 rows, columns, depth;
    u32 left_walk, right_walk; // enum Walk
    u32 out_vectors;           // results may be stored in vectors along a row
    u64 left_row, left_depth, left_batch;
    u64 right_column, right_depth, right_batch;
    u64 out_row, out_column, out_batch;
};
SHARE_LAYOUT(GemmShape, rows, columns, depth, left_walk, right_walk, out_vectors, left_row, left_depth, left_batch, right_column,
             right_depth, right_batch, out_row, out_column, out_batch)

// The tiles of a dtype: on matrix units where there are such.
template <typename T> struct Tiles {
    typedef Large<T> LargeTile;
    typedef Small<T> SmallTile;
};
#if defined(MATRIX_TILES)
template <typename T> struct UnitTiles {
    typedef MatrixTile<ProductUnit<T>, Large<T>::rows, Large<T>::columns, 32> LargeTile;
    typedef MatrixTile<ProductUnit<T>, Small<T>::rows, Small<T>::columns, 64> SmallTile;
};
template <> struct Tiles<f16> : UnitTiles<f16> {};
template <> struct Tiles<bf16> : UnitTiles<bf16> {};
#endif

template <typename S> DEVICE void gemm_tile(const typename S::T *left, const typename S::T *right, typename S::T *out, const GemmShape &shape) {
    typedef typename S::T T;
    const u32 row = block_y() * S::rows, column = block_x() * S::columns;
    const u64 batch = block_z();
    const typename S::template Source<S::rows> a(left + batch * shape.left_batch + row * shape.left_row, shape.left_row, shape.left_depth,
                                                 shape.rows - row, shape.depth, Walk(shape.left_walk));
    const typename S::template Source<S::columns> b(right + batch * shape.right_batch + column * shape.right_column, shape.right_column,
                                                    shape.right_depth, shape.columns - column, shape.depth, Walk(shape.right_walk));
    T *tile = out + batch * shape.out_batch;
    S::multiply(shape.depth, a, b, [&](u32 i, u32 j, const auto &v) {
        constexpr u32 N = sizeof(v) / sizeof(v[0]);
        if (row + i >= shape.rows) return;
        const u32 first = column + j;
        T *line = tile + (row + i) * shape.out_row;
        Vec<T, N> narrow;
        UNROLL
        for (u32 g = 0; g < N; g++) narrow[g] = cast<T>(v[g]);
        if (shape.out_vectors && first + N <= shape.columns) {
            store<N>(line + first, narrow); // columns are neighbours
        } else {
            UNROLL
            for (u32 g = 0; g < N; g++) {
                if (first + g < shape.columns) line[(first + g) * shape.out_column] = narrow[g];
            }
        }
    });
}

constexpr u32 GEMV_THREADS = 256;
constexpr u32 GEMV_ROWS = 4;
SHARE(GEMV_THREADS)
SHARE(GEMV_ROWS)

// out[r, c] = sum over k of left[r, k] right[c, k], GEMV_ROWS rows at a time, one wave a column.
template <typename T> DEVICE void gemv_columns(const T *left, const T *right, T *out, const GemmShape &shape) {
    typedef Compute<T> C;
    constexpr u32 N = Lanes<T>::count;
    const u32 wave = wave_size(), lane = lane_index();
    const u32 column = block_x() * (GEMV_THREADS / wave) + wave_index();
    const u32 row = block_y() * GEMV_ROWS;
    const u64 batch = block_z();
    const bool active = column < shape.columns;
    const T *weights = right + batch * shape.right_batch + (active ? column * shape.right_column : 0);
    const T *input = left + batch * shape.left_batch + row * shape.left_row;
    const u32 depth = active ? shape.depth : 0;
    const u32 rows = min_of(shape.rows - row, GEMV_ROWS);
    C sum[GEMV_ROWS] = {};
    u32 done = 0;
    if (shape.left_walk == WALK_DEPTH_VECTORS && shape.right_walk == WALK_DEPTH_VECTORS) {
        done = depth / N * N;
        for (u32 k = lane * N; k < done; k += wave * N) {
            const Vec<T, N> w = load<N>(weights + k);
            UNROLL
            for (u32 r = 0; r < GEMV_ROWS; r++) {
                if (r < rows) {
                    const Vec<T, N> x = load<N>(input + r * shape.left_row + k);
                    UNROLL
                    for (u32 j = 0; j < N; j++) sum[r] += C(widen(w[j])) * C(widen(x[j]));
                }
            }
        }
    }
    for (u32 k = done + lane; k < depth; k += wave) {
        const C w = widen(weights[k]);
        UNROLL
        for (u32 r = 0; r < GEMV_ROWS; r++) {
            if (r < rows) sum[r] += w * C(widen(input[r * shape.left_row + k * shape.left_depth]));
        }
    }
    UNROLL
    for (u32 r = 0; r < GEMV_ROWS; r++) {
        const C total = wave_reduce(sum[r], Sum());
        if (active && lane == 0 && r < rows) {
            out[batch * shape.out_batch + (row + r) * shape.out_row + column * shape.out_column] = cast<T>(total);
        }
    }
}

constexpr u32 GEMV_ACROSS = 8, GEMV_DOWN = GEMV_THREADS / GEMV_ACROSS;
SHARE(GEMV_ACROSS)

// The same where the columns of the right factor are contiguous: 8 neighbouring threads take N columns each, 32 such teams
// share the depth and add up in shared memory.
template <u32 N, typename T> DEVICE void gemv_rows(const T *left, const T *right, T *out, const GemmShape &shape) {
    typedef Compute<T> C;
    __shared__ C partial[GEMV_DOWN][GEMV_ACROSS * N + 1];
    const u32 x = thread_x() % GEMV_ACROSS, y = thread_x() / GEMV_ACROSS;
    const u32 first = (block_x() * GEMV_ACROSS + x) * N, row = block_y() * GEMV_ROWS;
    const u64 batch = block_z();
    const T *weights = right + batch * shape.right_batch + first * shape.right_column;
    const T *input = left + batch * shape.left_batch + row * shape.left_row;
    const u32 rows = min_of(shape.rows - row, GEMV_ROWS);
    C sum[GEMV_ROWS][N] = {};
    if (first < shape.columns) {
        for (u32 k = y; k < shape.depth; k += GEMV_DOWN) {
            const Vec<T, N> w = load<N>(weights + k * shape.right_depth);
            UNROLL
            for (u32 r = 0; r < GEMV_ROWS; r++) {
                const C x = r < rows ? widen(input[r * shape.left_row + k * shape.left_depth]) : C(0);
                UNROLL
                for (u32 j = 0; j < N; j++) sum[r][j] += x * C(widen(w[j]));
            }
        }
    }
    UNROLL
    for (u32 r = 0; r < GEMV_ROWS; r++) {
        barrier();
        UNROLL
        for (u32 j = 0; j < N; j++) partial[y][x * N + j] = sum[r][j];
        barrier();
        const u32 column = block_x() * GEMV_ACROSS * N + thread_x();
        if (thread_x() < GEMV_ACROSS * N && column < shape.columns && r < rows) {
            C total = partial[0][thread_x()];
            for (u32 i = 1; i < GEMV_DOWN; i++) total += partial[i][thread_x()];
            out[batch * shape.out_batch + (row + r) * shape.out_row + column * shape.out_column] = cast<T>(total);
        }
    }
}

#define GEMM(T)                                                                                    \
    KERNEL(Large<T>::threads) gemm_##T(const T *left, const T *right, T *out, GemmShape shape) { enter(); \
        gemm_tile<Tiles<T>::LargeTile>(left, right, out, shape);                                              \
    }                                                                                              \
    KERNEL(Small<T>::threads) gemm_##T##_small(const T *left, const T *right, T *out, GemmShape shape) { enter(); \
        gemm_tile<Tiles<T>::SmallTile>(left, right, out, shape);                                              \
    }                                                                                              \
    KERNEL(GEMV_THREADS) gemv_##T(const T *left, const T *right, T *out, GemmShape shape) { enter(); \
        gemv_columns<T>(left, right, out, shape);                                                  \
    }                                                                                              \
    KERNEL(GEMV_THREADS) gemv_##T##_rows(const T *left, const T *right, T *out, GemmShape shape) { enter(); \
        if (shape.right_walk == WALK_ROWS_VECTORS) gemv_rows<Lanes<T>::count>(left, right, out, shape); \
        else gemv_rows<1>(left, right, out, shape);                                                \
    }
GEMM(bf16)
GEMM(f16)
GEMM(f32)
GEMM(f64)
