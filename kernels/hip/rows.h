// Rows and the teams of threads that work on them, shared by the reductions, the softmaxes and the norms.
// A team is 2^team_log2 neighbouring threads, from a single thread to the whole block: one kernel serves many
// short rows (a thread or a few lanes each), rows of a few thousand elements (a wave or a block each) and, with a row
// cut into pieces, few long ones. Which team suits is decided in src/rows.rs.
#pragma once

constexpr u32 ROW_THREADS = 256;
SHARE(ROW_THREADS)

struct Team {
    u32 size;  // threads of the team
    u32 lane;  // this thread within its team
    u32 index; // this team within its block
    u32 count; // teams of a block

    // Neighbouring threads work on one row.
    static MEMBER Team along(u32 log2) {
        const u32 size = 1u << log2;
        return Team{size, thread_x() & (size - 1), thread_x() >> log2, ROW_THREADS >> log2};
    }
    // The whole block works on one row, or a piece of it. The distances between its loads are constants, without which NVIDIA's
    // compiler has few of them in flight.
    static MEMBER Team whole() { return Team{ROW_THREADS, thread_x(), 0, 1}; }
    // Neighbouring threads work on neighbouring rows: for rows whose elements lie far apart.
    static MEMBER Team across(u32 log2) {
        const u32 count = ROW_THREADS >> log2;
        return Team{1u << log2, thread_x() / count, thread_x() % count, count};
    }
};

// Combines the values of a team of `Team::along`; every thread gets the result. The order is fixed, so the result is the
// same on every run. All threads of the block take part, those without a row included.
template <typename T, typename Op> DEVICE T team_reduce(T value, const Team &team, Op op) {
    if (team.size == 1) return value;
    const u32 wave = wave_size();
    value = group_reduce(value, min_of(team.size, wave), op);
    if (team.size <= wave) return value;
    __shared__ T partial[MAX_WAVES];
    barrier(); // an earlier use of `partial` has been read by all
    if (lane_index() == 0) partial[wave_index()] = value;
    barrier();
    const u32 waves = team.size / wave, first = team.index * waves;
    value = partial[first];
    for (u32 i = 1; i < waves; i++) value = op(value, partial[first + i]);
    return value;
}

// The same for what the threads of a team gathered. A map whose states take long to merge brings its own.
template <typename Map> DEVICE typename Map::State merge_team(typename Map::State state, const Team &team, Map &map) {
    typedef typename Map::State State;
    return team_reduce(state, team, [&](State a, State b) { return map.merge(a, b); });
}

// Combines the values of a team of `Team::across`; lane 0 gets the result.
template <typename T, typename Op> DEVICE T team_reduce_across(T value, const Team &team, Op op) {
    if (team.size == 1) return value;
    __shared__ T slots[ROW_THREADS];
    slots[thread_x()] = value;
    for (u32 half = team.size / 2; half > 0; half /= 2) {
        barrier();
        if (team.lane < half) {
            value = op(value, slots[thread_x() + half * team.count]);
            slots[thread_x()] = value;
        }
    }
    return value;
}

// Contiguous rows that follow one another, and how they are mapped: decided in src/rows.rs.
struct RowShape {
    u32 rows;
    u32 columns;
    u32 vectors;    // rows start on 16 bytes and are multiples of them
    u32 team_log2;  // threads for a row
    u32 kept;       // vectors of a row, 1 or ROW_KEPT, that each thread keeps in registers; 0 for longer rows, which are read twice
    Divider pieces; // shares of a row, a block each, where rows are shared
};
SHARE_LAYOUT(RowShape, rows, columns, vectors, team_log2, kept, pieces)

// Vectors that a thread asks for before it uses the first: memory answers late, and only what was asked for is on its way.
constexpr u32 ROW_AHEAD = 4;
SHARE(ROW_AHEAD)

// Vectors of a row that a thread keeps in registers between the two halves of a map.
constexpr u32 ROW_KEPT = 4;
SHARE(ROW_KEPT)

// One of several teams that share a row: it takes every `count`-th tile of ROW_AHEAD vectors a thread. All teams together
// so read one stretch of memory after the other; long pieces side by side would meet in the same memory channels.
struct Share {
    u32 index, count;
};

// Calls `use` with ROW_AHEAD vectors, or with one where a tile is not whole, the column of the first and the distance to
// the next. `backwards` begins with the last tile.
template <u32 N, typename T, typename Use>
DEVICE void walk_row(const T *row, u32 columns, const Team &team, Share share, bool backwards, Use &use) {
    const u32 apart = team.size * N, tile = apart * ROW_AHEAD, stride = share.count * tile, first = share.index * tile;
    if (first >= columns) return;
    const u32 last = first + (columns - 1 - first) / stride * stride;
    u32 begin = backwards ? last : first;
    for (u32 left = (last - first) / stride + 1; left > 0; left--, begin = backwards ? begin - stride : begin + stride) {
        const u32 at = begin + team.lane * N;
        if (begin + tile <= columns) {
            Vec<T, N> tiles[ROW_AHEAD];
            UNROLL
            for (u32 k = 0; k < ROW_AHEAD; k++) tiles[k] = load<N>(row + at + k * apart);
            use(tiles, at, apart);
        } else {
            NO_UNROLL
            for (u32 i = at; i < columns; i += apart) {
                const Vec<T, N> one[1] = {load<N>(row + i)};
                use(one, i, apart);
            }
        }
    }
}

// Tiles that are gathered by themselves. On the embedded device a single thread takes a row of any length.
#if defined(TARGET_HOST)
constexpr u32 TILES_TOGETHER = 64;
#else
constexpr u32 TILES_TOGETHER = 1;
#endif

// What a share of a row comes to. A tile is gathered by itself first, and some tiles are: a sum of sums loses less than one long sum.
template <typename Map> struct Gather {
    typedef typename Map::State State;
    Map &map;
    State state, recent;
    u32 tiles;
    template <typename Tiles> MEMBER void operator()(const Tiles &tile, u32, u32) {
        State part = map.empty();
        map.take(part, tile);
        if constexpr (TILES_TOGETHER == 1) {
            state = map.merge(state, part);
        } else {
            recent = map.merge(recent, part);
            if (++tiles % TILES_TOGETHER == 0) state = map.merge(state, recent), recent = map.empty();
        }
    }
};
template <u32 N, typename Map, typename T>
DEVICE typename Map::State gather_row(const T *row, u32 columns, const Team &team, Share share, Map &map) {
    Gather<Map> gather = {map, map.empty(), map.empty(), 0};
    walk_row<N>(row, columns, team, share, false, gather);
    return TILES_TOGETHER == 1 ? gather.state : map.merge(gather.state, gather.recent);
}

// Stores what is to leave the cache before what is yet to be read. Where no such wish was measured to help, like any other.
template <u32 N, typename T> DEVICE void store_passing(T *at, Vec<T, N> v) {
#if defined(TARGET_NVIDIA)
    if constexpr (sizeof(v) == 16) {
        const Vec<u32, 4> words = bit_cast<Vec<u32, 4>>(v);
        asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                     "r"(words[3])
                     : "memory");
        return;
    }
#endif
    store<N>(at, v);
}

// Vectors whose weights are in flight together: more would take the registers that other waves need.
constexpr u32 WEIGHTS_AHEAD = 2;

// KEPT where a row is read once: vectors of a thread may then be past its `columns`. Otherwise it is read a second time, and the
// results must not push it out of the cache.
template <bool KEPT, u32 N, u32 M, typename Map, typename T>
DEVICE void apply_at(T *out, const Vec<T, N> (&tiles)[M], u32 at, u32 apart, u32 columns, Map &map) {
    constexpr u32 ONCE = M < WEIGHTS_AHEAD ? M : WEIGHTS_AHEAD;
    UNROLL
    for (u32 k = 0; k < M; k += ONCE) {
        typename Map::template Weights<N> weights[ONCE];
        // Past the end of the row too, where the first weights do no harm: loads without branches overlap.
        UNROLL
        for (u32 i = 0; i < ONCE; i++) {
            const u32 column = at + (k + i) * apart;
            weights[i] = map.template weights<N>(!KEPT || column < columns ? column : 0);
        }
        UNROLL
        for (u32 i = 0; i < ONCE; i++) {
            const u32 column = at + (k + i) * apart;
            if constexpr (!KEPT) store_passing<N>(out + column, map.apply(tiles[k + i], weights[i]));
            else if (column < columns) store<N>(out + column, map.apply(tiles[k + i], weights[i]));
        }
    }
}

// Maps a share of a row that was gathered, the last tile first: what was read last is still in the cache.
template <typename Map, typename T> struct Apply {
    Map &map;
    T *out;
    template <typename Tiles> MEMBER void operator()(const Tiles &tiles, u32 at, u32 apart) {
        apply_at<false>(out, tiles, at, apart, 0, map);
    }
};
template <u32 N, typename Map, typename T>
DEVICE void apply_row(const T *row, T *out, u32 columns, const Team &team, Share share, Map &map) {
    Apply<Map, T> apply = {map, out};
    walk_row<N>(row, columns, team, share, true, apply);
}

// The vectors of a row of up to M for each thread of the team; `blank` past its end.
template <u32 N, u32 M, typename T>
DEVICE void load_row(Vec<T, N> (&kept)[M], const T *row, u32 columns, const Team &team, T blank) {
    Vec<T, N> empty;
    UNROLL
    for (u32 j = 0; j < N; j++) empty[j] = blank;
    UNROLL
    for (u32 k = 0; k < M; k++) {
        const u32 i = (team.lane + k * team.size) * N;
        kept[k] = i < columns ? load<N>(row + i) : empty;
    }
}

// Maps a row that fits into the registers of its team: it is read once.
template <u32 N, u32 M, typename Map, typename T>
DEVICE void map_kept(const T *row, T *out, u32 columns, const Team &team, Map &map) {
    typedef typename Map::State State;
    map.begin(row, columns);
    Vec<T, N> kept[M];
    load_row(kept, row, columns, team, map.blank());
    State state = map.empty();
    map.take(state, kept);
    map.settle(merge_team(state, team, map), columns);
    apply_at<true>(out, kept, team.lane * N, team.size * N, columns, map);
}

// Maps a longer row, which is read twice, the second time from the cache.
template <u32 N, typename Map, typename T> DEVICE void map_long(const T *row, T *out, u32 columns, const Team &team, Map &map) {
    typedef typename Map::State State;
    map.begin(row, columns);
    const State state = gather_row<N>(row, columns, team, Share{0, 1}, map);
    map.settle(merge_team(state, team, map), columns);
    apply_row<N>(row, out, columns, team, Share{0, 1}, map);
}

// Maps a row by what is known of the whole of it: `begin` sees its first element, `take` gathers, `merge` joins what two threads
// gathered, `settle` makes of that what `apply` needs, beside the `weights` of a column. `blank` is an element that changes
// nothing, `ASKS_EARLY` is about rows that blocks share. A map with a better way for rows in registers brings its own `map_kept`.
template <u32 N, typename Map, typename T>
DEVICE void map_row(const T *row, T *out, u32 columns, u32 kept, const Team &team, Map &map) {
    if (kept == 1) map_kept<N, 1>(row, out, columns, team, map);
    else if (kept == ROW_KEPT) map_kept<N, ROW_KEPT>(row, out, columns, team, map);
    else map_long<N>(row, out, columns, team, map);
}

template <typename Map, typename T> DEVICE void map_rows(const T *src, T *dst, const RowShape &shape, Map map) {
    const Team team = Team::along(shape.team_log2);
    const u32 row = block_x() * team.count + team.index;
    const u64 at = row < shape.rows ? u64(row) * shape.columns : 0;
    // A team without a row takes part in the exchange all the same.
    const u32 columns = row < shape.rows ? shape.columns : 0;
    if (shape.vectors) map_row<Lanes<T>::count>(src + at, dst + at, columns, shape.kept, team, map);
    else map_row<1>(src + at, dst + at, columns, shape.kept, team, map);
}

// Few rows that are too long for a block each are shared by several: one launch gathers a state for every share, a second one
// merges those of a row and maps. A block maps the share that the block of its number gathered: it most likely runs on the same
// unit, and where a cache has halves, what is read again is in the nearer one.
template <u32 N, typename Map, typename T>
DEVICE void gather_piece(const T *src, typename Map::State *states, const RowShape &shape, Map &map) {
    const Division split = divide(block_x(), shape.pieces);
    const T *row = src + u64(split.quotient) * shape.columns;
    map.begin(row, shape.columns);
    const Share share = {split.remainder, shape.pieces.divisor};
    const Team team = Team::whole();
    const typename Map::State state = merge_team(gather_row<N>(row, shape.columns, team, share, map), team, map);
    if (thread_x() == 0) states[block_x()] = state;
}
template <typename Map, typename T>
DEVICE void gather_pieces(const T *src, typename Map::State *states, const RowShape &shape, Map map) {
    if (shape.vectors) gather_piece<Lanes<T>::count>(src, states, shape, map);
    else gather_piece<1>(src, states, shape, map);
}

// The same as apply_row, but the next tile is asked for before results are stored. There are no more blocks than run at a time, so none
// makes up for what another waits for. For maps that `ASKS_EARLY` says it of: norms gain, and softmaxes lose more by the registers.
template <u32 N, typename Map, typename T>
DEVICE void apply_share(const T *row, T *out, u32 columns, const Team &team, Share share, Map &map) {
    constexpr u32 AHEAD = ROW_AHEAD / 2;
    const u32 apart = team.size * N, tile = apart * AHEAD, stride = share.count * tile, first = share.index * tile;
    if (first >= columns) return;
    u32 left = (columns - 1 - first) / stride + 1, at = first + (left - 1) * stride + team.lane * N;
    if (at - team.lane * N + tile > columns) {
        NO_UNROLL
        for (u32 i = at; i < columns; i += apart) {
            const Vec<T, N> one[1] = {load<N>(row + i)};
            apply_at<false>(out, one, i, apart, 0, map);
        }
        if (--left == 0) return;
        at -= stride;
    }
    Vec<T, N> now[AHEAD], next[AHEAD];
    UNROLL
    for (u32 k = 0; k < AHEAD; k++) now[k] = load<N>(row + at + k * apart);
    for (; left > 0; left--, at -= stride) {
        if (left > 1) {
            UNROLL
            for (u32 k = 0; k < AHEAD; k++) next[k] = load<N>(row + (at - stride) + k * apart);
        }
        apply_at<false>(out, now, at, apart, 0, map);
        UNROLL
        for (u32 k = 0; k < AHEAD; k++) now[k] = next[k];
    }
}

template <u32 N, typename Map, typename T>
DEVICE void map_piece(const T *src, T *dst, const typename Map::State *states, const RowShape &shape, Map &map) {
    typedef typename Map::State State;
    const Division split = divide(block_x(), shape.pieces);
    const u64 at = u64(split.quotient) * shape.columns;
    const Share share = {split.remainder, shape.pieces.divisor};
    const Team team = Team::whole();
    map.begin(src + at, shape.columns);
    const State *of_row = states + u64(split.quotient) * share.count;
    State state = map.empty();
    for (u32 i = thread_x(); i < share.count; i += ROW_THREADS) state = map.merge(state, of_row[i]);
    map.settle(merge_team(state, team, map), shape.columns);
    if constexpr (Map::ASKS_EARLY) apply_share<N>(src + at, dst + at, shape.columns, team, share, map);
    else apply_row<N>(src + at, dst + at, shape.columns, team, share, map);
}
template <typename Map, typename T>
DEVICE void map_pieces(const T *src, T *dst, const typename Map::State *states, const RowShape &shape, Map map) {
    if (shape.vectors) map_piece<Lanes<T>::count>(src, dst, states, shape, map);
    else map_piece<1>(src, dst, states, shape, map);
}
