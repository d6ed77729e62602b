// The elementwise kernels: one to three inputs of any layout, one contiguous output, an operator with no memory.
// Four variants of each operator, chosen by src/elementwise.rs:
//   name          every operand contiguous and aligned: 16-byte accesses, several in flight
//   name_rows     the innermost dimension is contiguous or broadcast in every operand and splits into 16-byte pieces
//   name_tile     some input runs along another dimension: it passes through a tile in shared memory, so that reads
//                 and writes are both coalesced
//   name_strided  anything else, element by element, writes coalesced
// An operator is a struct with `apply(params, a[, b[, c]])` on storage types and a flag `heavy` that is true when one
// application is so long that fewer copies of it should be in flight.
#pragma once
#include "portable.h"

#define ELEMENTWISE_THREADS 256
SHARE(ELEMENTWISE_THREADS)

// What an operator may need beside its operands. Every elementwise kernel takes it, so that all have one signature.
struct Params {
    f64 first;
    f64 second;
    FaultWord *fault;
};
SHARE_LAYOUT(Params, first, second, fault)

// Two innermost dimensions, rows x cols, of which some inputs run along the rows; the others are walked by block.
// Operand N of the strides is the output.
template <u32 N> struct Tiled {
    u32 rows, cols;
    u32 swapped; // bit k: input k is contiguous along the rows
    u32 unused;
    Divider row_tiles, col_tiles;
    u64 row_stride[N + 1], col_stride[N + 1];
    Strided<N + 1> outer;
};
#if defined(TARGET_HOST)
typedef Tiled<3> Tiled4; // by the operands with the output
SHARE_LAYOUT(Tiled4, rows, cols, swapped, row_tiles, col_tiles, row_stride, col_stride, outer)
#endif

template <u32... K> struct Indices {};
template <u32 N> struct IndicesUpTo;
template <> struct IndicesUpTo<1> { typedef Indices<0> type; };
template <> struct IndicesUpTo<2> { typedef Indices<0, 1> type; };
template <> struct IndicesUpTo<3> { typedef Indices<0, 1, 2> type; };

template <typename... T> struct Widest;
template <typename T> struct Widest<T> { static constexpr u32 size = sizeof(T); };
template <typename T, typename... Rest> struct Widest<T, Rest...> {
    static constexpr u32 size = sizeof(T) > Widest<Rest...>::size ? sizeof(T) : Widest<Rest...>::size;
};

// How much one thread does: `batch` pieces of `width` elements, which make 16 bytes of the widest operand. Heavy operators
// take one piece after the other.
template <typename... T> struct Work {
    static constexpr u32 width = 16 / Widest<T...>::size;
    static constexpr u32 batch = width == 16 ? 1 : (width == 8 ? 2 : 4);
};
#define ROWS_BATCH 2
#define STRIDED_BATCH 4
SHARE(ROWS_BATCH)
SHARE(STRIDED_BATCH)
SHARE_AS(Work_u8, "Work<u8>::batch", Work<u8>::batch)
SHARE_AS(Work_f16, "Work<f16>::batch", Work<f16>::batch)
SHARE_AS(Work_f32, "Work<f32>::batch", Work<f32>::batch)
SHARE_AS(Work_f64, "Work<f64>::batch", Work<f64>::batch)

template <typename T, u32 WIDTH, u32 BATCH> struct Batch { Vec<T, WIDTH> at[BATCH]; };

// Calls body(0), body(1) ... body(COUNT - 1). On a GPU the loop must disappear, or the arrays it fills would live in memory. The
// embedded device is better off with a loop, which it vectorises, unless there is very little to do.
template <typename Op, u32 WIDTH, u32 COUNT, typename Body> DEVICE void for_pieces(Body body) {
#if defined(TARGET_HOST)
    if constexpr (Op::heavy || WIDTH > 4) {
        NO_UNROLL
        for (u32 i = 0; i < COUNT; i++) body(i);
    } else {
        for (u32 i = 0; i < COUNT; i++) body(i);
    }
#else
    UNROLL
    for (u32 i = 0; i < COUNT; i++) body(i);
#endif
}

// Piece b of every thread lies ELEMENTWISE_THREADS pieces after piece b - 1: neighbouring threads touch neighbouring pieces.
template <typename Op, u32 WIDTH, u32 BATCH, typename T> DEVICE Batch<T, WIDTH, BATCH> load_batch(const T *from) {
    Batch<T, WIDTH, BATCH> out;
    for_pieces<Op, WIDTH, BATCH>([&](u32 b) { out.at[b] = load<WIDTH>(from + (b * ELEMENTWISE_THREADS + thread_x()) * WIDTH); });
    return out;
}

// One element by itself, wherever elements do not lie side by side. The embedded device compiles an operator for this once, and
// the kernels call it: inlined into all of them, the operators took it two minutes.
template <typename Op, typename Out, typename... In> DEVICE_SHARED Out apply_one(const Params &params, In... in) {
    return Op::apply(params, in...);
}

template <typename Op, typename Out, u32 WIDTH, typename... In>
DEVICE Vec<Out, WIDTH> apply_all(const Params &params, const Vec<In, WIDTH> &...in) {
    Vec<Out, WIDTH> out;
    for_pieces<Op, WIDTH, WIDTH>([&](u32 j) { out[j] = Op::apply(params, in[j]...); });
    return out;
}

template <typename Op, typename Out, u32 WIDTH, u32 BATCH, typename... In>
DEVICE void store_batch(const Params &params, Out *to, const Batch<In, WIDTH, BATCH> &...in) {
    for_pieces<Op, WIDTH, BATCH>([&](u32 b) {
        store<WIDTH>(to + (b * ELEMENTWISE_THREADS + thread_x()) * WIDTH, apply_all<Op, Out, WIDTH>(params, in.at[b]...));
    });
}

template <typename Op, typename Out, typename... In>
DEVICE void contiguous(u64 count, const Params &params, Out *out, const In *...in) {
    constexpr u32 WIDTH = Work<Out, In...>::width, BATCH = Work<Out, In...>::batch;
    constexpr u32 ONCE = Op::heavy ? 1 : BATCH, STEP = ELEMENTWISE_THREADS * WIDTH * ONCE;
    constexpr u32 TILE = ELEMENTWISE_THREADS * WIDTH * BATCH;
    u64 start = (u64)block_x() * TILE;
    if (start + TILE <= count) {
        NO_UNROLL
        for (u32 step = 0; step < TILE; step += STEP)
            store_batch<Op, Out, WIDTH, ONCE>(params, out + start + step, load_batch<Op, WIDTH, ONCE>(in + start + step)...);
    } else {
        NO_UNROLL
        for (u64 i = start + thread_x(); i < count; i += ELEMENTWISE_THREADS) out[i] = apply_one<Op, Out>(params, in[i]...);
    }
}

// The results of one piece of a row.
template <typename Op, typename Out, u32 WIDTH, typename... In>
DEVICE_SHARED void store_piece(const Params &params, Out *to, const Vec<In, WIDTH> &...in) {
    store<WIDTH>(to, apply_all<Op, Out, WIDTH>(params, in...));
}

// How the kernels whose operands do not lie side by side call their operator: one element, or one piece. On a GPU that is the
// operator itself. The embedded device calls it through pointers, so that all operators of a dtype share the code that
// walks over memory: with the operators inlined it compiled that code 1700 times, for a minute.
#if defined(GENERAL_ONLY)
template <typename Out, typename... In> struct Call {
    static constexpr bool heavy = true;
    Out (*one)(const Params &, In...);
    void (*piece)(const Params &, Out *, const Vec<In, Work<Out, In...>::width> &...);
};
template <typename Op, typename Out, typename... In> DEVICE Call<Out, In...> call_of(const Out *, const In *...) {
    return Call<Out, In...>{apply_one<Op, Out, In...>, store_piece<Op, Out, Work<Out, In...>::width, In...>};
}
#else
template <typename Op, typename Out, typename... In> struct Call {
    static constexpr bool heavy = Op::heavy;
    static MEMBER Out one(const Params &params, In... in) { return apply_one<Op, Out>(params, in...); }
    static MEMBER void piece(const Params &params, Out *to, const Vec<In, Work<Out, In...>::width> &...in) {
        store_piece<Op, Out, Work<Out, In...>::width>(params, to, in...);
    }
};
template <typename Op, typename Out, typename... In> DEVICE Call<Op, Out, In...> call_of(const Out *, const In *...) {
    return Call<Op, Out, In...>();
}
#endif

// WIDTH consecutive elements of a row, or one element WIDTH times where the row is a broadcast.
template <u32 WIDTH, typename T> DEVICE Vec<T, WIDTH> load_row(const T *from, u64 stride) {
    if (stride != 0) return load<WIDTH>(from);
    Vec<T, WIDTH> out;
    T value = *from;
    UNROLL_ON_GPU
    for (u32 j = 0; j < WIDTH; j++) out[j] = value;
    return out;
}

template <u32 WIDTH, typename Call, typename Out, typename... In, u32... K>
DEVICE void walk_one(Call call, Indices<K...>, const Strided<sizeof...(In)> &shape, u32 index, const Params &params, Out *out,
                     const In *...in) {
    u64 at[sizeof...(In)];
    shape.offsets(index, at);
    if constexpr (WIDTH == 1) out[index] = call.one(params, in[at[K]]...);
    else call.piece(params, out + (u64)index * WIDTH, load_row<WIDTH>(in + at[K], shape.stride[K][0])...);
}

// Dimension 0 of `shape` counts pieces of WIDTH elements, and its strides are those from piece to piece.
template <u32 WIDTH, u32 BATCH, typename Call, typename Out, typename... In>
DEVICE_SHARED void walk(Call call, const Strided<sizeof...(In)> &shape, const Params &params, Out *out, const In *...in) {
    typename IndicesUpTo<sizeof...(In)>::type operands;
    constexpr u32 TILE = ELEMENTWISE_THREADS * BATCH;
    u32 start = block_x() * TILE + thread_x();
    if (FAST_PATHS && !Call::heavy && block_x() * TILE + TILE <= shape.count) {
        UNROLL_ON_GPU
        for (u32 b = 0; b < BATCH; b++)
            walk_one<WIDTH>(call, operands, shape, start + b * ELEMENTWISE_THREADS, params, out, in...);
    } else {
        NO_UNROLL
        for (u32 b = 0; b < BATCH; b++) {
            u32 index = start + b * ELEMENTWISE_THREADS;
            if (index < shape.count) walk_one<WIDTH>(call, operands, shape, index, params, out, in...);
        }
    }
}

// Without a barrier, what walks over a tile can be shared as well.
#if defined(GENERAL_ONLY)
#define DEVICE_TILED DEVICE_SHARED
#else
#define DEVICE_TILED DEVICE
#endif

// The side of a tile: 64 where an element is small, so that a line of it still fills a memory transaction.
template <typename... T> struct TileSide { static constexpr u32 value = Widest<T...>::size <= 2 ? 64 : 32; };

// One tile of one input. The padding makes the distance between lines an odd number of banks.
template <typename T, u32 SIDE> struct Tile {
    static constexpr u32 pitch = SIDE + (sizeof(T) < 4 ? 4 / sizeof(T) : 1);
    T *memory;
    const T *from;
    bool swapped;
    u64 row_stride, col_stride;

#if defined(GENERAL_ONLY)
    // All memory is alike, and the lines that a tile crosses stay in the cache: inputs are read where they lie.
    MEMBER void fill(u32, u32, bool, u32, u32) const {}
    MEMBER T get(u32 first_row, u32 first_col, u32 r, u32 c) const {
        return from[(first_row + r) * row_stride + (first_col + c) * col_stride];
    }
#else
    // Reads along the rows, which is how a swapped input lies in memory. A whole tile is loaded before any of it is
    // stored, so that all its loads are in flight at once.
    MEMBER void fill(u32 first_row, u32 first_col, bool whole, u32 rows, u32 cols) const {
        if (!swapped) return;
        constexpr u32 APART = ELEMENTWISE_THREADS / SIDE, EACH = SIDE / APART;
        const u32 r = thread_x() % SIDE, first = thread_x() / SIDE;
        if (whole) {
            const T *line = from + (first_row + r) * row_stride + (first_col + first) * col_stride;
            T held[EACH];
            UNROLL
            for (u32 j = 0; j < EACH; j++) held[j] = line[j * APART * col_stride];
            UNROLL
            for (u32 j = 0; j < EACH; j++) memory[(first + j * APART) * pitch + r] = held[j];
        } else if (first_row + r < rows) {
            NO_UNROLL
            for (u32 c = first; c < SIDE && first_col + c < cols; c += APART)
                memory[c * pitch + r] = from[(first_row + r) * row_stride + (first_col + c) * col_stride];
        }
    }
    MEMBER T get(u32 first_row, u32 first_col, u32 r, u32 c) const {
        if (swapped) return memory[c * pitch + r];
        return from[(first_row + r) * row_stride + (first_col + c) * col_stride];
    }
#endif
};

// The results of a tile. The inputs come by value: references change the order in
// which nvrtc puts the loads, and on an H200 the sum with a transposed tensor then takes a sixth longer.
template <u32 SIDE, typename Call, u32 N, typename Out, typename... Tiles>
DEVICE void tile_results(Call call, const Tiled<N> &shape, u32 first_row, u32 first_col, bool whole, const Params &params, Out *out,
                         Tiles... tiles) {
    constexpr u32 APART = ELEMENTWISE_THREADS / SIDE, AT_ONCE = 4;
    const u32 c = thread_x() % SIDE;
    Out *to = out + first_row * shape.row_stride[N] + (first_col + c);
    if (FAST_PATHS && !Call::heavy && whole) {
        NO_UNROLL
        for (u32 group = thread_x() / SIDE; group < SIDE; group += APART * AT_ONCE) {
            Out made[AT_ONCE];
            UNROLL_ON_GPU
            for (u32 j = 0; j < AT_ONCE; j++)
                made[j] = call.one(params, tiles.get(first_row, first_col, group + j * APART, c)...);
            UNROLL_ON_GPU
            for (u32 j = 0; j < AT_ONCE; j++) to[(group + j * APART) * shape.row_stride[N]] = made[j];
        }
    } else if (first_col + c < shape.cols) {
        NO_UNROLL
        for (u32 r = thread_x() / SIDE; r < SIDE && first_row + r < shape.rows; r += APART)
            to[r * shape.row_stride[N]] = call.one(params, tiles.get(first_row, first_col, r, c)...);
    }
}

template <u32 SIDE, typename Call, u32 N, typename Out, typename... Tiles>
DEVICE void tile_body(Call call, const Tiled<N> &shape, u32 first_row, u32 first_col, const Params &params, Out *out,
                      Tiles... tiles) {
    const bool whole = first_row + SIDE <= shape.rows && first_col + SIDE <= shape.cols;
    (tiles.fill(first_row, first_col, whole, shape.rows, shape.cols), ...);
    if constexpr (FAST_PATHS) barrier();
    tile_results<SIDE>(call, shape, first_row, first_col, whole, params, out, tiles...);
}

// Shared memory of input K; K keeps two inputs of one type apart.
template <u32 K, typename T, u32 SIDE> DEVICE T *tile_memory() {
#if defined(GENERAL_ONLY)
    return nullptr;
#else
    __shared__ T memory[SIDE * Tile<T, SIDE>::pitch];
    return memory;
#endif
}

template <typename Call, typename Out, typename... In, u32... K>
DEVICE_TILED void tiled_over(Call call, Indices<K...>, const Tiled<sizeof...(In)> &shape, const Params &params, Out *out,
                             const In *...in) {
    constexpr u32 N = sizeof...(In), SIDE = TileSide<Out, In...>::value;
    Division across = divide(block_x(), shape.col_tiles);
    Division down = divide(across.quotient, shape.row_tiles);
    u64 at[N + 1];
    shape.outer.offsets(down.quotient, at);
    tile_body<SIDE>(call, shape, down.remainder * SIDE, across.remainder * SIDE, params, out + at[N],
                    Tile<In, SIDE>{tile_memory<K, In, SIDE>(), in + at[K], ((shape.swapped >> K) & 1) != 0,
                                   shape.row_stride[K], shape.col_stride[K]}...);
}
template <typename Op, typename Out, typename... In>
DEVICE void tiled(const Tiled<sizeof...(In)> &shape, const Params &params, Out *out, const In *...in) {
    tiled_over(call_of<Op>(out, in...), typename IndicesUpTo<sizeof...(In)>::type(), shape, params, out, in...);
}

template <typename Op, typename Out, typename... In>
DEVICE void rows(const Strided<sizeof...(In)> &shape, const Params &params, Out *out, const In *...in) {
    walk<Work<Out, In...>::width, ROWS_BATCH>(call_of<Op>(out, in...), shape, params, out, in...);
}
template <typename Op, typename Out, typename... In>
DEVICE void strided(const Strided<sizeof...(In)> &shape, const Params &params, Out *out, const In *...in) {
    walk<1, STRIDED_BATCH>(call_of<Op>(out, in...), shape, params, out, in...);
}

// One row of a module's table makes the four entry points of an operator, which is the last argument.
#define ELEMENTWISE_1(name, Out, A, ...)                                                                           \
    KERNEL(ELEMENTWISE_THREADS) name(u64 count, Params params, Out *RESTRICT out, const A *RESTRICT a) { enter();  \
        contiguous<__VA_ARGS__>(count, params, out, a);                                                            \
    }                                                                                                              \
    KERNEL(ELEMENTWISE_THREADS) name##_rows(Strided<1> shape, Params params, Out *RESTRICT out, const A *RESTRICT a) { enter(); \
        rows<__VA_ARGS__>(shape, params, out, a);                                                                  \
    }                                                                                                              \
    KERNEL(ELEMENTWISE_THREADS) name##_tile(Tiled<1> shape, Params params, Out *RESTRICT out, const A *RESTRICT a) { enter(); \
        tiled<__VA_ARGS__>(shape, params, out, a);                                                                 \
    }                                                                                                              \
    KERNEL(ELEMENTWISE_THREADS) name##_strided(Strided<1> shape, Params params, Out *RESTRICT out, const A *RESTRICT a) { enter(); \
        strided<__VA_ARGS__>(shape, params, out, a);                                                               \
    }
#define BINARY_INPUTS(A, B) const A *RESTRICT a, const B *RESTRICT b
#define ELEMENTWISE_2(name, Out, A, B, ...)                                                                        \
    KERNEL(ELEMENTWISE_THREADS) name(u64 count, Params params, Out *RESTRICT out, BINARY_INPUTS(A, B)) { enter();  \
        contiguous<__VA_ARGS__>(count, params, out, a, b);                                                         \
    }                                                                                                              \
    KERNEL(ELEMENTWISE_THREADS) name##_rows(Strided<2> shape, Params params, Out *RESTRICT out, BINARY_INPUTS(A, B)) { enter(); \
        rows<__VA_ARGS__>(shape, params, out, a, b);                                                               \
    }                                                                                                              \
    KERNEL(ELEMENTWISE_THREADS) name##_tile(Tiled<2> shape, Params params, Out *RESTRICT out, BINARY_INPUTS(A, B)) { enter(); \
        tiled<__VA_ARGS__>(shape, params, out, a, b);                                                              \
    }                                                                                                              \
    KERNEL(ELEMENTWISE_THREADS) name##_strided(Strided<2> shape, Params params, Out *RESTRICT out, BINARY_INPUTS(A, B)) { enter(); \
        strided<__VA_ARGS__>(shape, params, out, a, b);                                                            \
    }
#define TERNARY_INPUTS(A, B, C) const A *RESTRICT a, const B *RESTRICT b, const C *RESTRICT c
#define ELEMENTWISE_3(name, Out, A, B, C, ...)                                                                     \
    KERNEL(ELEMENTWISE_THREADS) name(u64 count, Params params, Out *RESTRICT out, TERNARY_INPUTS(A, B, C)) { enter(); \
        contiguous<__VA_ARGS__>(count, params, out, a, b, c);                                                      \
    }                                                                                                              \
    KERNEL(ELEMENTWISE_THREADS) name##_rows(Strided<3> shape, Params params, Out *RESTRICT out, TERNARY_INPUTS(A, B, C)) { enter(); \
        rows<__VA_ARGS__>(shape, params, out, a, b, c);                                                            \
    }                                                                                                              \
    KERNEL(ELEMENTWISE_THREADS) name##_tile(Tiled<3> shape, Params params, Out *RESTRICT out, TERNARY_INPUTS(A, B, C)) { enter(); \
        tiled<__VA_ARGS__>(shape, params, out, a, b, c);                                                           \
    }                                                                                                              \
    KERNEL(ELEMENTWISE_THREADS) name##_strided(Strided<3> shape, Params params, Out *RESTRICT out, TERNARY_INPUTS(A, B, C)) { enter(); \
        strided<__VA_ARGS__>(shape, params, out, a, b, c);                                                         \
    }
