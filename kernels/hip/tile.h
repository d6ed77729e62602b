// The tiled product that matrix multiplication and the convolutions share: a block makes a ROWS x COLUMNS tile of the
// result, stepping through the depth in slabs that two sources copy into shared memory. What the sources read (a matrix
// with any strides, the receptive fields of an image) and where results go is the business of whoever calls.
#pragma once

template <typename T, u32 EXTENT, u32 SLAB, u32 THREADS> struct MatrixSource;
template <typename S, typename Left, typename Right, typename Put> DEVICE void multiply_tile(u32 depth, Left left, Right right, Put put);

// T: dtype of the data; a thread makes HEIGHT x WIDTH elements of the tile.
template <typename Data, u32 TILE_ROWS, u32 TILE_COLUMNS, u32 SLAB, u32 HEIGHT, u32 WIDTH> struct Tile {
    typedef Data T;
    typedef Compute<Data> C;
    static constexpr u32 rows = TILE_ROWS, columns = TILE_COLUMNS, slab = SLAB, height = HEIGHT, width = WIDTH;
    static constexpr u32 across = columns / width;
    static constexpr u32 threads = (rows / height) * across;
    // Elements read from shared memory at once.
    static constexpr u32 group = height < 4 || sizeof(C) == 8 ? 2 : 4;
    static_assert(height % group == 0 && width % group == 0, "whole groups");
    template <u32 EXTENT> using Source = MatrixSource<Data, EXTENT, slab, threads>;
    template <typename Put> static MEMBER void multiply(u32 depth, Source<rows> left, Source<columns> right, const Put &put) {
        multiply_tile<Tile>(depth, left, right, put);
    }
};

// The two sizes that there are kernels of. Eight bytes an element: half the tile, the same registers.
template <typename T> struct Large : Tile<T, 128, 128, 8, 8, 8> {};
template <> struct Large<f64> : Tile<f64, 64, 64, 8, 4, 4> {};
template <typename T> struct Small : Tile<T, 64, 64, 16, 4, 4> {};
template <> struct Small<f64> : Tile<f64, 32, 32, 16, 2, 2> {};
SHARE_AS(Large_f32, "Large<f32>::rows", Large<f32>::rows)
SHARE_AS(Large_f64, "Large<f64>::rows", Large<f64>::rows)
SHARE_AS(Small_f32, "Small<f32>::rows", Small<f32>::rows)
SHARE_AS(Small_f64, "Small<f64>::rows", Small<f64>::rows)
SHARE_AS(Large_f32_threads, "Large<f32>::threads", Large<f32>::threads)
SHARE_AS(Large_f32_group, "Large<f32>::group", Large<f32>::group)
SHARE_AS(Large_f64_group, "Large<f64>::group", Large<f64>::group)
static_assert(Large<f64>::threads == Large<f32>::threads && Small<f32>::threads == Large<f32>::threads &&
              Small<f64>::threads == Large<f32>::threads, "one number of threads for all");

// A slab in shared memory: slab[k][i]. The rows are padded so that writing along k meets different banks.
template <typename C, u32 EXTENT, u32 SLAB> struct Slab {
    static constexpr u32 pitch = EXTENT + 4;
    alignas(16) C at[SLAB][pitch]; // groups of it are read at once
};

// How a matrix source walks memory: scalars or small vectors, neighbouring threads along the depth or along the rows.
enum Walk : u32 { WALK_DEPTH = 0, WALK_ROWS = 1, WALK_DEPTH_VECTORS = 2, WALK_ROWS_VECTORS = 3 };
SHARE(WALK_DEPTH)
SHARE(WALK_ROWS)
SHARE(WALK_DEPTH_VECTORS)
SHARE(WALK_ROWS_VECTORS)

// EXTENT rows of a matrix with any strides; "row" counts the tile's rows for the left factor, its columns for the right.
template <typename T, u32 EXTENT, u32 SLAB, u32 THREADS> struct MatrixSource {
    static constexpr u32 each = EXTENT * SLAB / THREADS; // elements a thread moves for a slab
    static constexpr u32 vector = each < 4 ? each : 4;
    static_assert(EXTENT * SLAB % THREADS == 0 && each % vector == 0, "threads share a slab evenly");
    const T *base; // row 0 of the tile, depth 0
    u64 row_stride, depth_stride;
    u32 rows, depth; // what is left of the matrix from `base` on
    Walk walk;
    T held[each];

    MEMBER MatrixSource(const T *base, u64 row_stride, u64 depth_stride, u32 rows, u32 depth, Walk walk)
        : base(base), row_stride(row_stride), depth_stride(depth_stride), rows(rows), depth(depth), walk(walk) {}

    // Element j of this thread within a slab. V elements follow one another along the walk.
    template <bool ALONG_DEPTH, u32 V> static MEMBER void place(u32 j, u32 &row, u32 &k) {
        const u32 piece = thread_x() + j / V * THREADS;
        if (ALONG_DEPTH) {
            row = piece / (SLAB / V);
            k = piece % (SLAB / V) * V + j % V;
        } else {
            row = piece % (EXTENT / V) * V + j % V;
            k = piece / (EXTENT / V);
        }
    }
    template <bool ALONG_DEPTH, u32 V> MEMBER void fetch_as(u32 start) {
        UNROLL
        for (u32 j = 0; j < each; j += V) {
            u32 row, k;
            place<ALONG_DEPTH, V>(j, row, k);
            // With vectors the extent along the walk is a multiple of V, so one test serves all V elements.
            const bool inside = row < rows && start + k < depth;
            const T *at = base + (inside ? row * row_stride + (start + k) * depth_stride : 0);
            Vec<T, V> v = {};
            if (inside) v = load<V>(at);
            UNROLL
            for (u32 i = 0; i < V; i++) held[j + i] = v[i];
        }
    }
    template <bool ALONG_DEPTH, u32 V, typename C> MEMBER void stage_as(Slab<C, EXTENT, SLAB> &slab) {
        UNROLL
        for (u32 j = 0; j < each; j++) {
            u32 row, k;
            place<ALONG_DEPTH, V>(j, row, k);
            slab.at[k][row] = widen(held[j]);
        }
    }
    // Reads the slab that starts at depth `start` into registers.
    MEMBER void fetch(u32 start) {
        if (walk == WALK_DEPTH_VECTORS) fetch_as<true, vector>(start);
        else if (walk == WALK_ROWS_VECTORS) fetch_as<false, vector>(start);
        else if (walk == WALK_DEPTH) fetch_as<true, 1>(start);
        else fetch_as<false, 1>(start);
    }
    // Puts what was read into shared memory.
    template <typename C> MEMBER void stage(Slab<C, EXTENT, SLAB> &slab) {
        if (walk == WALK_DEPTH_VECTORS) stage_as<true, vector>(slab);
        else if (walk == WALK_ROWS_VECTORS) stage_as<false, vector>(slab);
        else if (walk == WALK_DEPTH) stage_as<true, 1>(slab);
        else stage_as<false, 1>(slab);
    }
};

// A GPU's compiler fuses by itself; the embedded device's is told not to, and here it costs half the speed.
#if defined(TARGET_HOST) && defined(__FMA__)
template <typename C> DEVICE C multiply_add(C a, C b, C c) { return fused(a, b, c); }
#else
template <typename C> DEVICE C multiply_add(C a, C b, C c) { return a * b + c; }
#endif

// Two slabs of each factor: while one is multiplied the next is on its way, with one barrier a slab.
template <typename S, typename Left, typename Right, typename Put>
DEVICE void multiply_tile(u32 depth, Left left, Right right, Put put) {
    typedef typename S::C C;
    __shared__ Slab<C, S::rows, S::slab> a[2];
    __shared__ Slab<C, S::columns, S::slab> b[2];
    const u32 x = thread_x() % S::across, y = thread_x() / S::across;
    // A thread's elements come in groups spread over the tile, so that lanes read neighbouring groups of shared memory.
    constexpr u32 G = S::group, row_step = S::rows / (S::height / G), column_step = S::columns / (S::width / G);
    C sum[S::height][S::width];
    UNROLL
    for (u32 i = 0; i < S::height; i++) {
        UNROLL
        for (u32 j = 0; j < S::width; j++) sum[i][j] = C(0);
    }
    u32 current = 0;
    left.fetch(0);
    right.fetch(0);
    left.stage(a[0]);
    right.stage(b[0]);
    barrier();
    for (u32 start = 0; start < depth; start += S::slab) {
        const bool more = start + S::slab < depth;
        if (more) {
            left.fetch(start + S::slab);
            right.fetch(start + S::slab);
        }
        // Unrolling it all would let the compiler read the whole slab ahead into more registers than there are.
        UNROLL_TWICE
        for (u32 k = 0; k < S::slab; k++) {
            C down[S::height], over[S::width];
            UNROLL
            for (u32 i = 0; i < S::height; i += G) {
                const Vec<C, G> v = load<G>(&a[current].at[k][y * G + i / G * row_step]);
                UNROLL
                for (u32 g = 0; g < G; g++) down[i + g] = v[g];
            }
            UNROLL
            for (u32 j = 0; j < S::width; j += G) {
                const Vec<C, G> v = load<G>(&b[current].at[k][x * G + j / G * column_step]);
                UNROLL
                for (u32 g = 0; g < G; g++) over[j + g] = v[g];
            }
            UNROLL
            for (u32 i = 0; i < S::height; i++) {
                UNROLL
                for (u32 j = 0; j < S::width; j++) sum[i][j] = multiply_add(down[i], over[j], sum[i][j]);
            }
        }
        if (more) {
            left.stage(a[current ^ 1]);
            right.stage(b[current ^ 1]);
        }
        current ^= 1;
        barrier();
    }
    UNROLL
    for (u32 i = 0; i < S::height; i++) {
        UNROLL
        for (u32 j = 0; j < S::width; j += G) {
            Vec<C, G> v;
            UNROLL
            for (u32 g = 0; g < G; g++) v[g] = sum[i][j + g];
            put(y * G + i / G * row_step + i % G, x * G + j / G * column_step, v);
        }
    }
}
