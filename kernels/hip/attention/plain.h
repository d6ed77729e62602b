// A tile of queries against tiles of keys without matrix units: a thread has four rows of the tile, and COLUMNS neighbouring threads
// share them. Everything is f32 in shared memory. Queries stay there; keys and values pass through in pieces of 64 elements of
// 32 rows, the next one on its way while one is multiplied.
#pragma once

// D: elements that a row of q, k or v has at most.
template <typename Data, u32 D> struct PlainTile {
    typedef Data T;
    static constexpr u32 COLUMNS = D <= 128 ? 8 : D / 16;
    static constexpr u32 EACH = 4; // rows of a thread
    static constexpr u32 ROWS = ATTENTION_THREADS / COLUMNS * EACH, KEYS = 32, PIECE = 64;
    static constexpr u32 OWN_KEYS = KEYS / COLUMNS, OWN_DIMS = PIECE / COLUMNS, PIECES = D / PIECE;
    // Of the pieces of OWN_DIMS neighbouring elements that a thread reads at once.
    static constexpr u32 AT_ONCE = OWN_DIMS < 4 ? OWN_DIMS : 4, TIMES = OWN_DIMS / AT_ONCE;
    static constexpr u32 SLOTS = EACH, SCORES = EACH * OWN_KEYS, MASK_KEYS = KEYS;

    struct Shared {
        alignas(16) f32 queries[ROWS][D + 4];
        alignas(16) f32 piece[KEYS][PIECE + 4];
        alignas(16) f32 weights[KEYS][ROWS + 4];
    };

    Shared &shared;
    KeyRows<T> k, v;
    u32 depth, width;
    f32 scored[SCORES];
    f32 out[PIECES][EACH][OWN_DIMS];
    static constexpr u32 N = Lanes<T>::count, HELD = KEYS * PIECE / ATTENTION_THREADS / N;
    Vec<T, N> held[HELD];

    MEMBER PlainTile(Shared &shared, const KeyRows<T> &k, const KeyRows<T> &v, const AttentionShape &shape)
        : shared(shared), k(k), v(v), depth(shape.depth), width(shape.width) {
        UNROLL
        for (u32 p = 0; p < PIECES; p++) {
            UNROLL
            for (u32 r = 0; r < EACH; r++) {
                UNROLL
                for (u32 j = 0; j < OWN_DIMS; j++) out[p][r][j] = 0.0f;
            }
        }
    }

    static MEMBER u32 column() { return thread_x() % COLUMNS; }
    static MEMBER u32 first_row() { return thread_x() / COLUMNS * EACH; }
    // The row of the tile that a slot is, the slot and the key of the tile that a score belongs to.
    static MEMBER u32 row(u32 slot) { return first_row() + slot; }
    static constexpr MEMBER u32 slot(u32 i) { return i / OWN_KEYS; }
    static constexpr MEMBER u32 first_key(u32) { return 0; }
    // A mask of MASK_KEYS keys takes the place of weights, which are made later.
    MEMBER f32 *mask_memory() { return &shared.weights[0][0]; }
    static_assert(ROWS * (MASK_KEYS + 1) <= KEYS * (ROWS + 4), "it fits");
    static MEMBER u32 key(u32 i) { return column() + COLUMNS * (i % OWN_KEYS); }
    MEMBER f32 &score(u32 i) { return scored[i]; }
    static MEMBER bool leads() { return column() == 0; }
    // Over the threads that share a row.
    template <typename Op> static MEMBER f32 across(f32 value, Op op) { return group_reduce(value, COLUMNS, op); }

    // Queries into shared memory, zeros past their end. `rows(i)` is where row i of the tile lies, or null.
    template <typename Rows> MEMBER void take_queries(const Rows &rows) {
        NO_UNROLL
        for (u32 i = thread_x(); i < ROWS * (D / N); i += ATTENTION_THREADS) {
            const u32 r = i / (D / N), d = i % (D / N) * N;
            const Vec<T, N> got = load_piece(rows(r), d, depth);
            UNROLL
            for (u32 j = 0; j < N; j++) shared.queries[r][d + j] = widen(got[j]);
        }
    }

    // A piece of 32 rows on its way, from element `first` on.
    MEMBER void fetch(KeyRows<T> rows, u32 key, u32 end, u32 first, u32 length) {
        UNROLL
        for (u32 h = 0; h < HELD; h++) {
            const u32 i = thread_x() + h * ATTENTION_THREADS;
            held[h] = load_key_piece(rows, key + i / (PIECE / N), end, first + i % (PIECE / N) * N, length);
        }
    }
    MEMBER void put() {
        UNROLL
        for (u32 h = 0; h < HELD; h++) {
            const u32 i = thread_x() + h * ATTENTION_THREADS;
            UNROLL
            for (u32 j = 0; j < N; j++) shared.piece[i / (PIECE / N)][i % (PIECE / N) * N + j] = widen(held[h][j]);
        }
    }

    // Before the first tile.
    MEMBER void start(u32 key, u32 end) { fetch(k, key, end, 0, depth); }

    // The products of all rows with the keys from `key` on.
    MEMBER void scores(u32 key, u32 end) {
        UNROLL
        for (u32 i = 0; i < SCORES; i++) scored[i] = 0.0f;
        NO_UNROLL
        for (u32 first = 0; first < depth; first += PIECE) {
            barrier();
            put();
            barrier();
            const bool more = first + PIECE < depth;
            fetch(more ? k : v, key, end, more ? first + PIECE : 0, more ? depth : width);
            NO_UNROLL
            for (u32 d = 0; d < PIECE; d += 4) {
                Vec<f32, 4> q[EACH], other[OWN_KEYS];
                UNROLL
                for (u32 r = 0; r < EACH; r++) q[r] = load<4>(&shared.queries[first_row() + r][first + d]);
                UNROLL
                for (u32 i = 0; i < OWN_KEYS; i++) other[i] = load<4>(&shared.piece[column() + COLUMNS * i][d]);
                UNROLL
                for (u32 j = 0; j < 4; j++) {
                    UNROLL
                    for (u32 i = 0; i < SCORES; i++) scored[i] = fused(q[i / OWN_KEYS][j], other[i % OWN_KEYS][j], scored[i]);
                }
            }
        }
    }

    MEMBER void scale(u32 s, f32 factor) {
        UNROLL
        for (u32 p = 0; p < PIECES; p++) {
            UNROLL
            for (u32 j = 0; j < OWN_DIMS; j++) out[p][s][j] *= factor;
        }
    }

    // Adds the values of the same keys, weighted by what the scores have become. Then the keys from `next` on are fetched.
    MEMBER void accumulate(u32 key, u32 end, u32 next) {
        UNROLL
        for (u32 i = 0; i < OWN_KEYS; i++) {
            Vec<f32, EACH> own;
            UNROLL
            for (u32 r = 0; r < EACH; r++) own[r] = scored[r * OWN_KEYS + i];
            store<EACH>(&shared.weights[column() + COLUMNS * i][first_row()], own);
        }
        UNROLL
        for (u32 p = 0; p < PIECES; p++) {
            const u32 width = forgotten(this->width);
            if (p * PIECE < width) {
                barrier();
                put();
                barrier();
                const bool more = (p + 1) * PIECE < width;
                fetch(more ? v : k, more ? key : next, end, more ? (p + 1) * PIECE : 0, more ? width : depth);
                NO_UNROLL
                for (u32 i = 0; i < KEYS; i++) {
                    const Vec<f32, EACH> weight = load<EACH>(&shared.weights[i][first_row()]);
                    UNROLL
                    for (u32 t = 0; t < TIMES; t++) {
                        const Vec<f32, AT_ONCE> value = load<AT_ONCE>(&shared.piece[i][(t * COLUMNS + column()) * AT_ONCE]);
                        UNROLL
                        for (u32 j = 0; j < AT_ONCE; j++) {
                            UNROLL
                            for (u32 r = 0; r < EACH; r++) {
                                f32 &sum = out[p][r][t * AT_ONCE + j];
                                sum = fused(weight[r], value[j], sum);
                            }
                        }
                    }
                }
            }
        }
    }

    // Calls `put(row, dim, vector)` for every result of the thread, neighbours together.
    template <typename Put> MEMBER void results(const Put &put) {
        UNROLL
        for (u32 p = 0; p < PIECES; p++) {
            UNROLL
            for (u32 t = 0; t < TIMES; t++) {
                UNROLL
                for (u32 r = 0; r < EACH; r++) {
                    Vec<f32, AT_ONCE> own;
                    UNROLL
                    for (u32 j = 0; j < AT_ONCE; j++) own[j] = out[p][r][t * AT_ONCE + j];
                    put(r, p * PIECE + (t * COLUMNS + column()) * AT_ONCE, own);
                }
            }
        }
    }
};
