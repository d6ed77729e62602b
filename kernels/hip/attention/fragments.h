// A tile of queries against tiles of keys on matrix units. A wave has FRAGMENTS fragments of 16 rows; all waves of a block share the keys
// and values in shared memory. A Unit (units/) multiplies 16 x 16 x 16 and says which thread has what; its operations are
//   rows, columns    a fragment of 16 queries or 16 keys by 16 elements, from rows of memory
//   values           a fragment of 16 keys by 16 elements of v, from shared memory
//   weights          a fragment of results, as a factor
//   multiply         results += rows x columns
//   accumulate       results += weights x values
// Of a fragment of results a thread has SUMS; they belong to SLOTS rows: result i to row(slot(i)) and column(i).
#pragma once

#if defined(MATRIX_FRAGMENTS)
// SHARERS: waves with the same rows, each of which makes a part of the result's elements. SHARED_QUERIES: in shared memory, not in registers.
template <typename Unit, u32 D, u32 FRAGMENTS, u32 SHARERS, u32 TILE_KEYS, bool SHARED_QUERIES> struct FragmentTile {
    typedef typename Unit::T T;
    static constexpr u32 WAVES = ATTENTION_THREADS / Unit::WAVE;
    static constexpr u32 ROWS = WAVES / SHARERS * FRAGMENTS * 16, KEYS = TILE_KEYS;
    static constexpr u32 ACROSS = KEYS / 16, DEEP = D / 16, MADE = DEEP / SHARERS, SUMS = Unit::SUMS;
    static constexpr u32 SLOTS = FRAGMENTS * Unit::SLOTS, SCORES = FRAGMENTS * ACROSS * SUMS;
    static constexpr u32 MASK_KEYS = KEYS < 32 ? KEYS : 32;
    static constexpr u32 PITCH = D + 8; // rows that are read together begin in different banks
    typedef KeyStage<T, KEYS, D, PITCH> Keys;
    typedef typename Unit::template Values<KEYS, D> Values;
    typedef Vec<f32, SUMS> Sums;

    struct Shared {
        alignas(16) T queries[SHARED_QUERIES ? ROWS : 1][PITCH];
        alignas(16) T keys[KEYS][PITCH];
        Values values;
    };

    Shared &shared;
    KeyRows<T> k, v;
    u32 depth, width;
    Keys held_keys;
    typename Values::Stage held_values;
    typename Unit::Rows queries[SHARED_QUERIES ? 1 : FRAGMENTS][SHARED_QUERIES ? 1 : DEEP];
    Sums scored[FRAGMENTS][ACROSS];
    Sums out[FRAGMENTS][MADE];

    MEMBER FragmentTile(Shared &shared, const KeyRows<T> &k, const KeyRows<T> &v, const AttentionShape &shape)
        : shared(shared), k(k), v(v), depth(shape.depth), width(shape.width) {
        UNROLL
        for (u32 f = 0; f < FRAGMENTS; f++) {
            UNROLL
            for (u32 d = 0; d < MADE; d++) out[f][d] = Sums{};
        }
    }

    static MEMBER u32 first_row() { return wave_index() / SHARERS * (FRAGMENTS * 16); }
    static MEMBER u32 first_made() { return wave_index() % SHARERS * MADE; }
    static MEMBER u32 row(u32 s) { return first_row() + s / Unit::SLOTS * 16 + Unit::row(s % Unit::SLOTS); }
    static constexpr MEMBER u32 slot(u32 i) { return i / (ACROSS * SUMS) * Unit::SLOTS + Unit::slot(i % SUMS); }
    static constexpr MEMBER u32 first_key(u32 i) { return i / SUMS % ACROSS * 16; }
    static MEMBER u32 key(u32 i) { return i / SUMS % ACROSS * 16 + Unit::column(i % SUMS); }
    static MEMBER bool leads() { return Unit::leads() && first_made() == 0; }
    template <typename Op> static MEMBER f32 across(f32 value, Op op) { return Unit::across(value, op); }
    MEMBER f32 &score(u32 i) { return scored[i / (ACROSS * SUMS)][i / SUMS % ACROSS][i % SUMS]; }

    // For a mask of MASK_KEYS keys: behind everything where values are copied to their place meanwhile, otherwise in that place.
    MEMBER f32 *mask_memory() {
        if constexpr (Unit::COPIES) return (f32 *)(&shared + 1);
        static_assert(Unit::COPIES || ROWS * (MASK_KEYS + 1) * sizeof(f32) <= sizeof(Values), "it fits");
        return (f32 *)&shared.values;
    }

    template <typename Find> MEMBER void take_queries(const Find &find) {
        if constexpr (SHARED_QUERIES) {
            NO_UNROLL
            for (u32 i = thread_x(); i < ROWS * (D / 8); i += ATTENTION_THREADS) {
                const u32 r = i / (D / 8), d = i % (D / 8) * 8;
                store<8>(&shared.queries[r][d], load_piece(find(r), d, depth));
            }
        } else {
            UNROLL
            for (u32 f = 0; f < FRAGMENTS; f++) {
                const T *at = find(first_row() + f * 16 + Unit::own_row());
                UNROLL
                for (u32 d = 0; d < DEEP; d++) queries[f][d] = Unit::rows_of_memory(at, d * 16, depth);
            }
        }
    }

    MEMBER void start(u32 key, u32 end) { held_keys.fetch(shared.keys, k, key, end, depth); }

    MEMBER void scores(u32 key, u32 end) {
        held_keys.put(shared.keys);
        barrier();
        held_values.fetch(shared.values, v, key, end, width);
        UNROLL
        for (u32 f = 0; f < FRAGMENTS; f++) {
            UNROLL
            for (u32 j = 0; j < ACROSS; j++) scored[f][j] = Sums{};
        }
        // The next fragment of keys is on its way while one is multiplied, and no more than that: registers are few.
        typename Unit::Columns other = Unit::columns(&shared.keys[0][0], PITCH);
        typename Unit::Rows own[FRAGMENTS];
        UNROLL
        for (u32 i = 0; i < DEEP * ACROSS; i++) {
            const u32 d = i / ACROSS, j = i % ACROSS;
            if (j == 0) {
                UNROLL
                for (u32 f = 0; f < FRAGMENTS; f++) own[f] = query_fragment(f, d);
            }
            typename Unit::Columns next;
            if (i + 1 < DEEP * ACROSS) next = Unit::columns(&shared.keys[(i + 1) % ACROSS * 16][(i + 1) / ACROSS * 16], PITCH);
            UNROLL
            for (u32 f = 0; f < FRAGMENTS; f++) Unit::multiply(scored[f][j], own[f], other);
            keep_order();
            other = next;
        }
    }

    MEMBER typename Unit::Rows query_fragment(u32 f, u32 d) const {
        if constexpr (SHARED_QUERIES) {
            return Unit::rows(&shared.queries[first_row() + f * 16][d * 16], PITCH);
        } else {
            return queries[f][d];
        }
    }

    MEMBER void scale(u32 s, f32 factor) {
        UNROLL
        for (u32 d = 0; d < MADE; d++) {
            UNROLL
            for (u32 i = 0; i < SUMS; i++) {
                if (Unit::slot(i) == s % Unit::SLOTS) out[s / Unit::SLOTS][d][i] *= factor;
            }
        }
    }

    MEMBER void accumulate(u32 key, u32 end, u32 next) {
        held_values.put(shared.values);
        barrier();
        if (next < end) held_keys.fetch(shared.keys, k, next, end, depth);
        typename Unit::ValueFragment values = shared.values.fragment(0, first_made());
        typename Unit::Weights weights[FRAGMENTS];
        UNROLL
        for (u32 i = 0; i < ACROSS * MADE; i++) {
            const u32 j = i / MADE, d = i % MADE;
            if (d == 0) {
                UNROLL
                for (u32 f = 0; f < FRAGMENTS; f++) weights[f] = Unit::weights(scored[f][j]);
            }
            typename Unit::ValueFragment next;
            if (i + 1 < ACROSS * MADE) next = shared.values.fragment((i + 1) / MADE, first_made() + (i + 1) % MADE);
            UNROLL
            for (u32 f = 0; f < FRAGMENTS; f++) Unit::accumulate(out[f][d], weights[f], values);
            keep_order();
            values = next;
        }
    }

    template <typename Put> MEMBER void results(const Put &put) {
        UNROLL
        for (u32 f = 0; f < FRAGMENTS; f++) {
            UNROLL
            for (u32 d = 0; d < MADE; d++) {
                Unit::results(out[f][d], [&](u32 slot, u32 dim, const auto &sums) { put(f * Unit::SLOTS + slot, (first_made() + d) * 16 + dim, sums); });
                keep_order();
            }
        }
    }
};
#endif
