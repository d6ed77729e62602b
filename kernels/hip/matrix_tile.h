// The tiled product of f16 and bf16 on matrix units, with sums in f32. A unit (units/) has three operations: it loads a fragment of 16 rows
// or columns from shared memory, multiplies two fragments, and hands out the results.
//
// A block makes a tile. Its waves share it, two down and the others side by side. Slabs of both factors lie in shared memory as pieces of 8
// elements along the depth, whichever way the factors lie in memory; while one slab is multiplied, the next is on its way through registers.
// Rows of a slab are not padded: pieces change their places within 128 bytes, so that 8 lanes meet all banks whether they read a fragment,
// write pieces along the depth, or write pairs across the rows.
#pragma once

// Elements of a piece. Where vectors are chosen, they are aligned and the extent is a multiple of it.
constexpr u32 MATRIX_LANES = 8;
SHARE(MATRIX_LANES)

#if defined(MATRIX_TILES)
template <u32 EXTENT, u32 DEPTH> struct PieceSlab {
    static constexpr u32 across = DEPTH / MATRIX_LANES; // pieces of a row
    static constexpr u32 rows = 8 / across;  // rows in 128 bytes
    static_assert(across == 4 || across == 8, "rows fill 128 bytes or half of them");
    alignas(16) Vec<u32, 4> at[EXTENT * across];

    // Where a piece is, in bytes.
    static MEMBER u32 place(u32 row, u32 piece) { return row / rows * 128 + spot(row, piece) * 16; }
    // The place of the piece `piece` further in the row `row` further. No digit that is set in these may be set in those of `place`, so
    // that sums are exclusive ors: a place needs one operation where the others are constants.
    static MEMBER u32 moved(u32 place, u32 row, u32 piece) { return (place ^ spot(row, piece) * 16) + row / rows * 128; }
    // Which eighth of 128 bytes.
    static constexpr MEMBER u32 spot(u32 row, u32 piece) { return (row % rows * across + piece) ^ (row % 8 / rows) ^ (row / 8 % 8); }

    static MEMBER const Vec<u32, 4> *piece(const PieceSlab *slab, u32 place) { return (const Vec<u32, 4> *)((const u8 *)slab + place); }
    MEMBER void put(u32 place, Vec<u32, 4> piece) { *(Vec<u32, 4> *)((u8 *)at + place) = piece; }
    MEMBER void put(u32 place, u32 pair) { *(u32 *)((u8 *)at + place) = pair; }
};

// 8 elements from `at` on, `stride` apart; where only `count` are there, the last again instead of the others.
template <typename T> DEVICE Vec<u32, 4> gather(const T *at, u64 stride, u32 count) {
    Vec<u32, 4> words;
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        const u32 low = min_of(2 * i, count - 1), high = min_of(2 * i + 1, count - 1);
        words[i] = (u32)at[low * stride].bits | (u32)at[high * stride].bits << 16;
    }
    return words;
}
// The first `count` of 8 elements, zeros instead of the others.
DEVICE Vec<u32, 4> keep_first(Vec<u32, 4> words, u32 count) {
    UNROLL
    for (u32 i = 0; i < 4; i++) words[i] = count > 2 * i + 1 ? words[i] : count > 2 * i ? words[i] & 0xffffu : 0u;
    return words;
}

// EXTENT rows of a matrix with any strides; "row" counts the tile's rows for the left factor, its columns for the right. Rows past the
// matrix are its last one again: what comes of them is not stored. Depth past its end is zero, so that whatever is there adds nothing.
//
// A thread moves two pieces of a slab. Along the depth they are pieces of two rows. Across the rows they are of 8 rows, at two neighbours of
// the depth, and go to shared memory as 8 pairs.
template <typename T, u32 EXTENT, u32 SLAB, u32 THREADS> struct PieceSource {
    typedef PieceSlab<EXTENT, SLAB> Slab;
    static_assert(sizeof(T) == 2 && EXTENT * SLAB == 16 * THREADS && EXTENT % 64 == 0, "two pieces for a thread");
    const T *at[2]; // the thread's pieces of the next slab
    u64 inner, step; // from an element of a piece to the next, and from a slab to the next
    u32 first;       // where in a slab the first piece is, along the depth
    u32 row, rows;   // the first row across the rows, and how many there are
    u32 depth;       // of the matrix
    u32 place;       // of the first piece or pair
    bool along_depth, vectors;

    // `rows` of a matrix are left from `base` on.
    MEMBER PieceSource(const T *base, u64 row_stride, u64 depth_stride, u32 rows, u32 depth, Walk walk)
        : step(SLAB * depth_stride), rows(rows), depth(depth), along_depth(walk == WALK_DEPTH || walk == WALK_DEPTH_VECTORS),
          vectors(walk == WALK_DEPTH_VECTORS || walk == WALK_ROWS_VECTORS) {
        const u32 t = thread_x();
        if (along_depth) {
            row = t / Slab::across;
            first = t % Slab::across * 8;
            place = Slab::place(row, first / 8);
            inner = depth_stride;
            UNROLL
            for (u32 h = 0; h < 2; h++) at[h] = base + min_of(row + h * (EXTENT / 2), rows - 1) * row_stride + first * depth_stride;
        } else {
            // 8 neighbours share 128 bytes of memory, and 32 have 8 pairs of 4 rows: all banks.
            const u32 piece = t / 32 / (EXTENT / 64), pair = t / 8 % 4;
            row = (t % 8 + t / 32 % (EXTENT / 64) * 8) * 8;
            first = piece * 8 + pair * 2;
            place = Slab::place(row, piece) + pair * 4;
            inner = row_stride;
            // Vectors are chosen where there are 8, 16, 24... rows.
            row = min_of(row, vectors ? rows - 8 : rows - 1);
            UNROLL
            for (u32 h = 0; h < 2; h++) at[h] = base + row * row_stride + (first + h) * depth_stride;
        }
    }
    // Reads the slab that starts at depth `start`, which is the next, into registers.
    MEMBER void fetch(u32 start, Vec<u32, 4> (&held)[2]) {
        if (vectors && start + SLAB <= depth) {
            UNROLL
            for (u32 h = 0; h < 2; h++) held[h] = bit_cast<Vec<u32, 4>>(load<8>(at[h]));
        } else {
            UNROLL
            for (u32 h = 0; h < 2; h++) {
                const u32 k = start + first + (along_depth ? 0 : h);
                held[h] = Vec<u32, 4>{};
                if (k >= depth) continue;
                // Along the depth vectors are chosen where it is a multiple of 8.
                if (vectors) held[h] = bit_cast<Vec<u32, 4>>(load<8>(at[h]));
                else if (along_depth) held[h] = keep_first(gather(at[h], inner, depth - k), depth - k);
                else held[h] = gather(at[h], inner, rows - row);
            }
        }
        UNROLL
        for (u32 h = 0; h < 2; h++) at[h] += step;
    }
    // Puts what was read into shared memory.
    MEMBER void stage(const Vec<u32, 4> (&held)[2], Slab &slab) const {
        if (along_depth) {
            UNROLL
            for (u32 h = 0; h < 2; h++) slab.put(Slab::moved(place, h * (EXTENT / 2), 0), held[h]);
        } else {
            UNROLL
            for (u32 j = 0; j < 8; j++) slab.put(Slab::moved(place, j, 0), half_pair(held[0][j / 2], held[1][j / 2], j % 2));
        }
    }
};

template <typename Unit, u32 ROWS, u32 COLUMNS, u32 SLAB> struct MatrixTile {
    typedef typename Unit::T T;
    typedef typename Unit::Sums Sums;
    static constexpr u32 rows = ROWS, columns = COLUMNS, slab = SLAB, threads = 256;
    template <u32 EXTENT> using Source = PieceSource<T, EXTENT, SLAB, threads>;
    // Waves of a block, and fragments of a wave.
    static constexpr u32 across = threads / Unit::wave / 2;
    static constexpr u32 height = ROWS / 2 / 16, width = COLUMNS / across / 16;

    template <typename Put> static MEMBER void multiply(u32 depth, Source<ROWS> left, Source<COLUMNS> right, const Put &put) {
        typedef PieceSlab<ROWS, SLAB> Left;
        typedef PieceSlab<COLUMNS, SLAB> Right;
        __shared__ Left a[2];
        __shared__ Right b[2];
        const u32 row = wave_index() / across * (height * 16), column = wave_index() % across * (width * 16);
        const u32 own_row = Unit::template place<Left>(row), own_column = Unit::template place<Right>(column);
        Sums sums[height][width];
        UNROLL
        for (u32 i = 0; i < height; i++) {
            UNROLL
            for (u32 j = 0; j < width; j++) sums[i][j] = Sums{};
        }
        // Turn n fetches slab n and multiplies slab n - 1.
        u32 current = 0;
        NO_UNROLL
        for (u32 start = 0;; start += SLAB) {
            const bool more = start < depth;
            Vec<u32, 4> held_left[2], held_right[2];
            if (more) {
                left.fetch(start, held_left);
                right.fetch(start, held_right);
            }
            if (start > 0) {
                const u32 before = current ^ 1;
                UNROLL
                for (u32 step = 0; step < SLAB / Unit::depth; step++) {
                    typename Unit::Fragment over[width];
                    UNROLL
                    for (u32 j = 0; j < width; j++) over[j] = Unit::load(b, own_column + before * (u32)sizeof(Right), j * 16, step);
                    UNROLL
                    for (u32 i = 0; i < height; i++) {
                        const typename Unit::Fragment down = Unit::load(a, own_row + before * (u32)sizeof(Left), i * 16, step);
                        UNROLL
                        for (u32 j = 0; j < width; j++) Unit::multiply(sums[i][j], down, over[j]);
                    }
                    keep_all_order();
                }
            }
            if (!more) break;
            left.stage(held_left, a[current]);
            right.stage(held_right, b[current]);
            current ^= 1;
            barrier();
        }
        UNROLL
        for (u32 i = 0; i < height; i++) {
            UNROLL
            for (u32 j = 0; j < width; j++) {
                Unit::results(sums[i][j], [&](u32 r, u32 c, const auto &v) { put(row + i * 16 + r, column + j * 16 + c, v); });
            }
        }
    }
};
#endif
