// Attention for many queries: a block takes a tile of rows and goes through the keys that they see, tile by tile, with the softmax
// of what it has seen so far. When a larger score turns up, sums are scaled down to it; scores never reach memory. How a tile is
// multiplied is the business of Tile (plain.h, or fragments.h on matrix units), and the rest is here.
#pragma once

// What a row has seen so far: the largest score, and the thread's own sum of exponentials below it.
template <u32 SLOTS> struct RowStates {
    f32 largest[SLOTS], total[SLOTS];
    MEMBER RowStates() {
        UNROLL
        for (u32 s = 0; s < SLOTS; s++) largest[s] = minus_infinity(), total[s] = 0.0f;
    }
};

// An element of the mask as what is added to a score; minus infinity where a byte is set.
template <typename T> DEVICE f32 mask_value(u64 at, const AttentionArguments &all) {
    const u32 kind = all.shape.mask;
    if (kind == MASK_FILL) return global((const u8 *)all.extra.mask)[at] ? minus_infinity() : 0.0f;
    if (kind == MASK_F32) return global((const f32 *)all.extra.mask)[at];
    return widen(global((const T *)all.extra.mask)[at]);
}

// Adds the mask. It comes through shared memory, MASK_KEYS keys at a time, so that neighbouring threads read neighbouring elements of it
// whatever rows they have.
template <typename Tile> DEVICE void add_mask(Tile &tile, u32 key, const TileRows &rows, const AttentionArguments &all) {
    constexpr u32 WIDE = Tile::MASK_KEYS, PITCH = WIDE + 1;
    const AttentionShape &shape = all.shape;
    f32 *shared = tile.mask_memory();
    UNROLL
    for (u32 first = 0; first < Tile::KEYS; first += WIDE) {
        barrier();
        NO_UNROLL
        for (u32 i = thread_x(); i < Tile::ROWS * WIDE; i += ATTENTION_THREADS) {
            const u32 r = i / WIDE, column = key + first + i % WIDE;
            // What is added for rows and keys that there are not is dropped, but it is a value: branches depend on it.
            f32 value = 0.0f;
            if (r < rows.count && column < rows.sequence.keys) {
                const QueryRow row = query_row(rows.first + r, rows.first_head, rows.sequence, shape);
                const u64 at = rows.sequence.batch * shape.mask_batch + row.head * shape.mask_head + row.query * shape.mask_row;
                value = mask_value<typename Tile::T>(at + column * shape.mask_column, all);
            }
            shared[r * PITCH + i % WIDE] = value;
        }
        barrier();
        UNROLL
        for (u32 i = 0; i < Tile::SCORES; i++) {
            if (Tile::first_key(i) / WIDE * WIDE == first) {
                const f32 score = tile.score(i) + shared[tile.row(Tile::slot(i)) * PITCH + tile.key(i) - first];
                tile.score(i) = no_less(shape.mask == MASK_FILL && score == minus_infinity() ? shape.fill : score);
            }
        }
    }
    // Whatever comes next may take the place of the mask.
    barrier();
}

// Softcap, alibi and mask for the scores of a tile of keys.
template <typename Tile>
DEVICE void change_scores(Tile &tile, u32 key, const AttentionArguments &all) {
    const AttentionShape &shape = all.shape;
    const TileRows rows(all, Tile::ROWS);
    UNROLL
    for (u32 i = 0; i < Tile::SCORES; i++) tile.score(i) *= shape.scale;
    if (shape.softcap != 0.0f) {
        const f32 over = 1.0f / shape.softcap;
        UNROLL
        for (u32 i = 0; i < Tile::SCORES; i++) tile.score(i) = shape.softcap * tanh_rough(tile.score(i) * over);
    }
    if (all.extra.slopes != nullptr) {
        f32 slope[Tile::SLOTS];
        i32 position[Tile::SLOTS];
        UNROLL
        for (u32 s = 0; s < Tile::SLOTS; s++) {
            // A row past the end takes what belongs to the last; what comes of it is not stored.
            const QueryRow row = query_row(rows.first + min_of(tile.row(s), rows.count - 1), rows.first_head, rows.sequence, shape);
            slope[s] = global(all.extra.slopes)[row.head];
            position[s] = (i32)row.query + rows.sequence.offset;
        }
        UNROLL
        for (u32 i = 0; i < Tile::SCORES; i++) {
            tile.score(i) -= slope[Tile::slot(i)] * abs_((f32)(position[Tile::slot(i)] - (i32)(key + tile.key(i))));
        }
    }
    if (shape.mask != MASK_NONE) add_mask(tile, key, rows, all);
}

// Minus infinity for the keys that a row does not see.
template <typename Tile>
DEVICE void hide_scores(Tile &tile, u32 key, u32 end, const AttentionArguments &all) {
    const AttentionShape &shape = all.shape;
    const TileRows rows(all, Tile::ROWS);
    i32 low[Tile::SLOTS], high[Tile::SLOTS];
    UNROLL
    for (u32 s = 0; s < Tile::SLOTS; s++) {
        const PositionRange seen = positions_seen((i32)shape.pack.quotient(rows.first + tile.row(s)), rows.sequence, shape, all.extra);
        low[s] = seen.low, high[s] = min_of(seen.high, (i32)end - 1);
    }
    UNROLL
    for (u32 first = 0; first < Tile::SCORES; first += 4) {
        UNROLL
        for (u32 i = first; i < first + 4; i++) {
            const i32 own = (i32)(key + tile.key(i));
            tile.score(i) = own < low[Tile::slot(i)] || own > high[Tile::slot(i)] ? minus_infinity() : tile.score(i);
        }
        keep_order();
    }
}

// Takes the scores of a tile of keys into the states; scores become weights, and earlier sums are scaled.
template <typename Tile> DEVICE void take_scores(Tile &tile, RowStates<Tile::SLOTS> &states, f32 factor) {
    UNROLL
    for (u32 s = 0; s < Tile::SLOTS; s++) {
        f32 largest = states.largest[s];
        UNROLL
        for (u32 i = 0; i < Tile::SCORES; i++) {
            if (Tile::slot(i) == s) largest = greater_of(largest, tile.score(i));
        }
        largest = tile.across(largest, GreaterOf());
        // A row that has seen nothing yet has nothing to scale. Where the largest score stays, `down` is exactly 1.
        const f32 shift = largest == minus_infinity() ? 0.0f : rounded_product(largest, factor);
        const f32 down = exp2_(rounded_product(states.largest[s], factor) - shift);
        f32 total = 0.0f;
        UNROLL
        for (u32 i = 0; i < Tile::SCORES; i++) {
            if (Tile::slot(i) == s) {
                tile.score(i) = exp2_(fused(tile.score(i), factor, -shift));
                total += tile.score(i);
            }
        }
        states.total[s] = fused(states.total[s], down, total);
        states.largest[s] = largest;
        tile.scale(s, down);
    }
}

// Stores what a tile has come to: results, or, of a part of the keys, sums.
template <typename T, typename Tile>
DEVICE void put_results(Tile &tile, const RowStates<Tile::SLOTS> &states, f32 factor, const TileRows &rows, const AttentionArguments &all) {
    const AttentionShape &shape = all.shape;
    const AttentionExtras &extra = all.extra;
    const QueryRows<T> results =
        query_rows<T>(all.out, shape.out, rows.sequence, rows.packed);
    const SplitMemory memory(shape, extra);
    T *at[Tile::SLOTS];
    f32 *part[Tile::SLOTS];
    f32 by[Tile::SLOTS];
    UNROLL
    for (u32 s = 0; s < Tile::SLOTS; s++) {
        const QueryRow own = query_row(rows.first + tile.row(s), rows.first_head, rows.sequence, shape);
        const u64 index = row_index(own, rows.sequence, shape, extra);
        const f32 total = tile.across(states.total[s], Sum()), largest = rounded_product(states.largest[s], factor);
        at[s] = own.inside ? results.at(own) : nullptr;
        part[s] = own.inside ? memory.sum(rows.split, index) : nullptr;
        by[s] = row_factor(total, shape);
        if (own.inside && tile.leads()) {
            if (shape.splits > 1) {
                memory.state(rows.split, index) = SplitState{largest, total};
            } else if (extra.lse != nullptr) {
                global(extra.lse)[index] = row_lse(largest, total);
            }
        }
    }
    if (shape.splits > 1) {
        tile.results([&](u32 s, u32 d, const auto &sums) {
            constexpr u32 N = sizeof(sums) / sizeof(f32);
            if (part[s] != nullptr && d < shape.width) store<N>(global(part[s]) + d, sums);
        });
        const u32 counter = (block_z() * grid_y() + block_y()) * shape.tiles + rows.number;
        if (!last_of_splits(global(extra.counters) + counter, shape.splits)) return;
        merge_splits<T, ATTENTION_THREADS>(rows.first, rows.count, rows.first_head, results, rows.sequence, shape, extra);
        return;
    }
    tile.results([&](u32 s, u32 d, const auto &sums) {
        constexpr u32 N = sizeof(sums) / sizeof(f32);
        Vec<T, N> narrow;
        UNROLL
        for (u32 j = 0; j < N; j++) narrow[j] = cast<T>(sums[j] * by[s]);
        if (at[s] != nullptr && d < shape.width) store<N>(global(at[s]) + d, narrow);
    });
}

template <typename Tile> DEVICE void attend_tile(const AttentionArguments &all) {
    typedef typename Tile::T T;
    if (past_sequences(all.shape)) return zero_rest<T>(all);
#if defined(GENERAL_ONLY)
    attend_rows<T>(all, Tile::ROWS, ATTENTION_THREADS);
#else
    ATTENTION_SHARED(typename Tile::Shared, shared);
    const AttentionShape &shape = all.shape;
    const TileRows rows(all, Tile::ROWS);
    if (rows.count == 0) return;
    const Sequence &sequence = rows.sequence;
    const u32 first_query = shape.pack.quotient(rows.first), last_query = shape.pack.quotient(rows.first + rows.count - 1);
    KeyRange range = keys_seen(first_query, last_query, sequence, shape);
    if (shape.splits > 1) {
        const u32 part = ceil_div(ceil_div(range.end - range.first, shape.splits), Tile::KEYS) * Tile::KEYS;
        range.first = min_of(range.first + rows.split * part, range.end);
        range.end = min_of(range.first + part, range.end);
    }
    check_pages<ATTENTION_THREADS>(range.first, range.end, sequence, shape, all.extra);
    const u32 kv_head = rows.first_head / shape.group;
    Tile tile(shared, key_rows<T>(all.k, shape.k, kv_head, sequence, all),
              key_rows<T>(all.v, shape.v, kv_head, sequence, all), shape);
    const QueryRows<const T> queries =
        query_rows<const T>(all.q, shape.q, sequence, rows.packed);
    tile.take_queries([&](u32 r) -> const T * {
        const QueryRow row = query_row(rows.first + r, rows.first_head, sequence, shape);
        return row.inside ? queries.at(row) : nullptr;
    });

    RowStates<Tile::SLOTS> states;
    const f32 factor = power_factor(shape);
    const bool changed = shape.changed;
    // All rows see all keys of a tile that lies between these.
    const i32 inner_first = (i32)last_query + sequence.offset - shape.left;
    const i32 inner_last = min_of((i32)first_query + sequence.offset + shape.right, (i32)range.end - 1);
    if (range.first < range.end) tile.start(range.first, range.end);
    NO_UNROLL
    for (u32 key = range.first; key < range.end; key += Tile::KEYS) {
        tile.scores(key, range.end);
        if (changed) change_scores(tile, key, read_again(all));
        if ((i32)key < inner_first || (i32)(key + Tile::KEYS - 1) > inner_last) {
            hide_scores(tile, key, range.end, read_again(all));
        }
        take_scores(tile, states, factor);
        tile.accumulate(key, range.end, key + Tile::KEYS);
    }
    const AttentionArguments &again = read_again(all);
    put_results<T>(tile, states, factor, TileRows(again, Tile::ROWS), again);
#endif
}
