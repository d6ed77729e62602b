// Rows and the teams of threads that work on them, shared by the reductions, the softmaxes and the norms.
// A team is 2^team_log2 neighbouring threads, from a single thread to the whole block: one kernel serves many
// short rows (a thread or a few lanes each), rows of a few thousand elements (a wave or a block each) and, with a row
// cut into pieces, few long ones. Which team suits is decided in src/rows.rs.
#pragma once

constexpr u32 ROW_THREADS = 256;

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

// Mirrored by `RowShape` in src/rows.rs. Rows are contiguous and follow one another.
struct RowShape {
    u32 rows;
    u32 columns;
    u32 team_log2; // threads for a row
    u32 vectors;   // rows start on 16 bytes and are multiples of them
};

// 16-byte pieces of a row that a thread keeps in registers between the two halves of a map.
constexpr u32 ROW_KEPT = 4;

// Gathers columns `begin` to `end` of a row, sixteen pieces by themselves first: a sum of sums loses less than one long one.
template <u32 N, typename Map, typename T>
DEVICE typename Map::State gather_columns(const T *row, u32 begin, u32 end, const Team &team, Map &map) {
    typedef typename Map::State State;
    State state = map.empty();
    for (u32 i = begin + team.lane * N; i < end;) {
        State part = map.empty();
        for (u32 n = 0; n < 16 && i < end; n++, i += team.size * N) map.take(part, load<N>(row + i));
        state = map.merge(state, part);
    }
    return state;
}

// Maps a row by what is known of the whole of it: `begin` sees its first element, `take` gathers, `merge` joins what two threads gathered, `settle` makes
// of that what `apply` needs. A row is read once as long as it fits into the team's registers (256 threads: 4096 f32 or
// 8192 f16), and otherwise its rest is read a second time.
template <u32 N, typename Map, typename T> DEVICE void map_row(const T *row, T *out, u32 columns, const Team &team, Map &map) {
    typedef typename Map::State State;
    map.begin(row, columns);
    State state = map.empty();
    Vec<T, N> kept[ROW_KEPT];
    UNROLL
    for (u32 k = 0; k < ROW_KEPT; k++) {
        const u32 i = (team.lane + k * team.size) * N;
        if (i < columns) {
            kept[k] = load<N>(row + i);
            map.take(state, kept[k]);
        }
    }
    const u32 rest = (team.lane + ROW_KEPT * team.size) * N;
    state = map.merge(state, gather_columns<N>(row, ROW_KEPT * team.size * N, columns, team, map));
    state = team_reduce(state, team, [&](State a, State b) { return map.merge(a, b); });
    map.settle(state, columns);
    UNROLL
    for (u32 k = 0; k < ROW_KEPT; k++) {
        const u32 i = (team.lane + k * team.size) * N;
        if (i < columns) store<N>(out + i, map.apply(kept[k], i));
    }
    for (u32 i = rest; i < columns; i += team.size * N) store<N>(out + i, map.apply(load<N>(row + i), i));
}

template <typename Map, typename T> DEVICE void map_rows(const T *src, T *dst, const RowShape &shape, Map map) {
    const Team team = Team::along(shape.team_log2);
    const u32 row = block_x() * team.count + team.index;
    const bool active = row < shape.rows;
    const u64 at = active ? u64(row) * shape.columns : 0;
    const u32 columns = active ? shape.columns : 0;
    if (shape.vectors) map_row<Lanes<T>::count>(src + at, dst + at, columns, team, map);
    else map_row<1>(src + at, dst + at, columns, team, map);
}

// Few rows that are too long for a team each are cut into pieces: one launch gathers a state for every piece, a second
// one merges those of a row and maps. The second reads backwards: what the first read last is still in the cache.
// Mirrored by `RowPieces` in src/rows.rs.
struct RowPieces {
    u32 units;      // rows times pieces
    u32 columns;
    u32 chunk;      // columns of a piece, a multiple of 16 bytes of them
    u32 team_log2;  // threads for a piece
    u32 vectors;    // as in RowShape
    Divider pieces; // of a row
};

// What a team works on: piece `index` of a row that starts at `at`.
struct RowPiece {
    u64 at;
    u32 index, begin, end;
    bool active;
    static MEMBER RowPiece of(u32 unit, const RowPieces &shape) {
        const bool active = unit < shape.units;
        const Division split = divide(active ? unit : 0, shape.pieces);
        const u32 begin = split.remainder * shape.chunk;
        const u32 end = active ? min_of(begin + shape.chunk, shape.columns) : begin;
        return RowPiece{u64(split.quotient) * shape.columns, split.remainder, begin, end, active};
    }
};

template <typename Map, typename T>
DEVICE void gather_pieces(const T *src, typename Map::State *states, const RowPieces &shape, Map map) {
    typedef typename Map::State State;
    const Team team = Team::along(shape.team_log2);
    const u32 unit = block_x() * team.count + team.index;
    const RowPiece piece = RowPiece::of(unit, shape);
    const T *row = src + piece.at;
    map.begin(row, shape.columns);
    State state = shape.vectors ? gather_columns<Lanes<T>::count>(row, piece.begin, piece.end, team, map)
                                : gather_columns<1>(row, piece.begin, piece.end, team, map);
    state = team_reduce(state, team, [&](State a, State b) { return map.merge(a, b); });
    if (piece.active && team.lane == 0) states[unit] = state;
}

template <u32 N, typename Map, typename T>
DEVICE void apply_columns(const T *row, T *out, const RowPiece &piece, const Team &team, Map &map) {
    for (u32 i = piece.begin + team.lane * N; i < piece.end; i += team.size * N) {
        store<N>(out + i, map.apply(load<N>(row + i), i));
    }
}

template <typename Map, typename T>
DEVICE void map_pieces(const T *src, T *dst, const typename Map::State *states, const RowPieces &shape, Map map) {
    typedef typename Map::State State;
    const Team team = Team::along(shape.team_log2);
    const u32 unit = block_x() * team.count + team.index;
    const RowPiece piece = RowPiece::of(unit < shape.units ? shape.units - 1 - unit : unit, shape);
    const T *row = src + piece.at;
    map.begin(row, shape.columns);
    const State *of_row = states + (piece.active ? shape.units - 1 - unit - piece.index : 0);
    const u32 pieces = piece.active ? shape.pieces.divisor : 0;
    State state = map.empty();
    for (u32 i = team.lane; i < pieces; i += team.size) state = map.merge(state, of_row[i]);
    state = team_reduce(state, team, [&](State a, State b) { return map.merge(a, b); });
    map.settle(state, shape.columns);
    if (shape.vectors) apply_columns<Lanes<T>::count>(row, dst + piece.at, piece, team, map);
    else apply_columns<1>(row, dst + piece.at, piece, team, map);
}
