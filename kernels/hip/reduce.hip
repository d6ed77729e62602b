// sum, min, max, argmin and argmax over any dimensions of a tensor with any strides.
//
// An operation is a fold: a state, how an element changes it, how two states merge. Four kernels run any fold: over
// contiguous rows, of which a block has several or (suffix `_long`) one or a piece of one, over columns (suffix `_columns`:
// neighbouring rows lie side by side), and over any other strides (suffix `_strided`). Rows that are cut leave their
// pieces' states in scratch memory, and the last block to be done merges them in a fixed order: one launch, and a result
// that does not depend on the order in which blocks happen to run.
//
// Memory limit: everything contiguous is read in 16-byte pieces, several in flight, with as many independent states as a
// piece has elements; short rows get a few lanes each, and few long rows are cut so that the whole device reads: their
// tiles go round the blocks in turn, so that all of them together read one stretch of memory after the other.
#include "portable.h"
#include "accumulate.h"
#include "rows.h"

template <typename T> struct FoldSum {
    typedef SumType<T> State;
    typedef T Out;
    static constexpr bool orders = false;
    static MEMBER State start() { return State(0); }
    static MEMBER void take(State &state, T x, u32) { state += to_sum(x); }
    static MEMBER State merge(State a, State b) { return a + b; }
    static MEMBER Out finish(State state, T) { return from_sum<T>(state); }
};

// Candle's CPU backend starts from the first element of a row and takes each that is strictly better: a NaN in front stays,
// one elsewhere is never better. Here every thread starts from a value that nothing is worse than, for which no load has to
// be waited for, and whoever finishes looks whether there is a NaN in front.
template <typename T, bool MIN> struct FoldExtreme {
    typedef Compute<T> State;
    typedef T Out;
    static constexpr bool orders = true;
    static MEMBER bool better(State x, State than) { return MIN ? x < than : x > than; }
    static MEMBER State start() { return MIN ? Limits<State>::highest() : Limits<State>::lowest(); }
    static MEMBER void take(State &state, T x, u32) {
        const State wide = widen(x);
        if (better(wide, state)) state = wide;
    }
    static MEMBER State merge(State a, State b) { return better(b, a) ? b : a; }
    static MEMBER Out finish(State state, T first) { return is_nan(widen(first)) ? first : cast<T>(state); }
};
template <typename T> using FoldMin = FoldExtreme<T, true>;
template <typename T> using FoldMax = FoldExtreme<T, false>;

// A value as wide as the index beside it, so that a state has no padding: every byte of one in scratch memory is written.
template <typename T> struct ArgValue { typedef Compute<T> Value; typedef u32 Index; };
template <> struct ArgValue<u8> { typedef u32 Value; typedef u32 Index; };
template <> struct ArgValue<i16> { typedef i32 Value; typedef u32 Index; };
template <> struct ArgValue<i64> { typedef i64 Value; typedef u64 Index; };
template <> struct ArgValue<f64> { typedef f64 Value; typedef u64 Index; };

template <typename T, bool MIN> struct FoldArgExtreme {
    typedef typename ArgValue<T>::Value Value;
    typedef typename ArgValue<T>::Index Index;
    struct State {
        Value value;
        Index index;
    };
    typedef u32 Out;
    static constexpr bool orders = true;
    static MEMBER bool better(Value x, Value than) { return MIN ? x < than : x > than; }
    // Index 0: where nothing is better, all elements are alike.
    static MEMBER State start() { return State{MIN ? Limits<Value>::highest() : Limits<Value>::lowest(), 0}; }
    static MEMBER void take(State &state, T x, u32 index) {
        const Value wide = Value(widen(x));
        if (better(wide, state.value)) state = State{wide, index};
    }
    static MEMBER State merge(State a, State b) {
        const bool tie = a.value == b.value && b.index < a.index;
        return better(b.value, a.value) || tie ? b : a;
    }
    static MEMBER Out finish(State state, T first) { return is_nan(widen(first)) ? 0 : Out(state.index); }
};
template <typename T> using FoldArgMin = FoldArgExtreme<T, true>;
template <typename T> using FoldArgMax = FoldArgExtreme<T, false>;

// The rows of a launch, and how they are walked.
struct ReduceShape {
    u32 outputs;     // rows
    u32 count;       // elements of a row in this launch: below 2^31, and a longer row takes several
    u32 pieces;      // pieces of a row in all launches; block_y() counts those of this one
    u32 first_piece; // pieces in the launches before this one
    u32 first_index; // elements in the launches before this one
    u32 team_log2;   // threads for a row
    u32 vectors;     // pieces start on 16 bytes
    u32 unused;
    u64 start;       // where the elements of this launch begin, from a row's first one
    Layout kept;     // where row i starts
    Layout reduced;  // where element i lies, from `start`
};
SHARE_LAYOUT(ReduceShape, outputs, count, pieces, first_piece, first_index, team_log2, vectors, start, kept, reduced)

// The first element of a row for `finish`, asked for early. Sums do not look at it, and integers have no NaN.
template <typename Fold, typename T> DEVICE T first_of(const T *row, bool active) {
    return IsFloat<T>::value && Fold::orders && active ? row[0] : T{};
}

template <typename Fold> struct Merge {
    typedef typename Fold::State State;
    MEMBER State operator()(State a, State b) const { return Fold::merge(a, b); }
};

// Loads of a thread that are in flight together: along rows, along long ones, down columns, of states, and of the last of
// them. A processor of the embedded device looks ahead by itself.
#if defined(TARGET_HOST)
constexpr u32 REDUCE_AHEAD = 2;
constexpr u32 LONG_AHEAD = 2;
constexpr u32 COLUMN_AHEAD = 2;
constexpr u32 STATES_AHEAD = 2;
constexpr u32 LAST_STATES = 2;
#else
constexpr u32 REDUCE_AHEAD = 8;
constexpr u32 LONG_AHEAD = 8;
constexpr u32 COLUMN_AHEAD = 8;
constexpr u32 STATES_AHEAD = 16;
constexpr u32 LAST_STATES = 4;
#endif

// Reads `count` elements in tiles of AHEAD for each thread, of which a piece takes every grid_y()-th: `take` gets element
// `first` of a tile, then every `apart`-th, as `read` finds them. LONG: the better half of a tile is in flight together too.
template <u32 AHEAD, bool LONG, typename Read, typename Take>
DEVICE void read_tiles(u32 first, u32 apart, u32 count, Read read, Take take) {
    const u32 tile = apart * AHEAD;
    for (u32 begin = block_y() * tile; begin < count; begin += grid_y() * tile) {
        const u32 i = begin + first;
        if (begin + tile <= count) {
            decltype(read(i)) held[AHEAD];
            UNROLL
            for (u32 k = 0; k < AHEAD; k++) held[k] = read(i + k * apart);
            UNROLL
            for (u32 k = 0; k < AHEAD; k++) take(held[k], i + k * apart);
        } else if (LONG && begin + tile / 2 < count) {
            // Past the end too, where the tile's first element does no harm: loads without branches overlap.
            decltype(read(i)) held[AHEAD];
            UNROLL
            for (u32 k = 0; k < AHEAD; k++) held[k] = read(i + k * apart < count ? i + k * apart : begin);
            UNROLL
            for (u32 k = 0; k < AHEAD; k++) {
                if (i + k * apart < count) take(held[k], i + k * apart);
            }
        } else {
            // Two at a time: rows shorter than a tile have nothing but this.
            NO_UNROLL
            for (u32 k = i; k < count; k += 2 * apart) {
                const bool both = k + apart < count;
                const decltype(read(i)) one = read(k), other = read(both ? k + apart : k);
                take(one, k);
                if (both) take(other, k + apart);
            }
        }
    }
}

// What a block does with the states of its rows when the rows are cut. `arrivals` has a zero for every block_x(), which is
// zero again afterwards. All threads take part; true in the block that is the last to have stored its states.
DEVICE bool last_to_arrive(u32 *arrivals, u32 expected) {
    __shared__ u32 before;
    device_fence();
    barrier();
    if (thread_x() == 0) before = atomic_next(arrivals + block_x());
    barrier();
    if (before + 1 != expected) return false;
    if (thread_x() == 0) arrivals[block_x()] = 0;
    device_fence();
    return true;
}

// `state` and every `apart`-th of `count` states at `at`, `stride` from one to the next, from `first` on.
template <typename Fold>
DEVICE typename Fold::State merge_states(typename Fold::State state, const typename Fold::State *at, u64 stride, u32 first,
                                         u32 apart, u32 count) {
    typedef typename Fold::State State;
    u32 i = first;
    for (; i + (STATES_AHEAD - 1) * apart < count; i += STATES_AHEAD * apart) {
        State held[STATES_AHEAD];
        UNROLL
        for (u32 k = 0; k < STATES_AHEAD; k++) held[k] = at[(i + k * apart) * stride];
        UNROLL
        for (u32 k = 0; k < STATES_AHEAD; k++) state = Fold::merge(state, held[k]);
    }
    // Past the end too, where the first state does no harm: loads without branches overlap.
    NO_UNROLL
    for (; i < count; i += LAST_STATES * apart) {
        State held[LAST_STATES];
        UNROLL
        for (u32 k = 0; k < LAST_STATES; k++) held[k] = at[(i + k * apart < count ? i + k * apart : i) * stride];
        UNROLL
        for (u32 k = 0; k < LAST_STATES; k++) {
            if (i + k * apart < count) state = Fold::merge(state, held[k]);
        }
    }
    return state;
}

// The state of the team's row, from its teams' threads: stored, and merged with those of the other pieces by the last.
template <typename Fold, bool ALONG, typename T>
DEVICE void put_state(typename Fold::State state, T first, u32 row, const Team &team, typename Fold::Out *dst,
                      typename Fold::State *scratch, u32 *arrivals, const ReduceShape &shape) {
    state = ALONG ? team_reduce(state, team, Merge<Fold>()) : team_reduce_across(state, team, Merge<Fold>());
    const bool mine = row < shape.outputs && team.lane == 0;
    if (shape.pieces == 1) {
        if (mine) dst[row] = Fold::finish(state, first);
        return;
    }
    typename Fold::State *states = scratch + (row < shape.outputs ? u64(row) * shape.pieces : 0);
    if (mine) states[shape.first_piece + block_y()] = state;
    if (!last_to_arrive(arrivals, shape.pieces)) return;
    const u32 pieces = row < shape.outputs ? shape.pieces : 0;
    state = merge_states<Fold>(Fold::start(), states, 1, team.lane, team.size, pieces);
    state = ALONG ? team_reduce(state, team, Merge<Fold>()) : team_reduce_across(state, team, Merge<Fold>());
    if (mine) dst[row] = Fold::finish(state, first);
}

// Counts an arrival. Whoever counts later sees what the calling thread wrote before, and this thread sees what those wrote
// that counted before it.
DEVICE u32 arrive(u32 *at) {
#if defined(TARGET_AMD)
    return __hip_atomic_fetch_add(at, 1u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
#elif defined(TARGET_NVIDIA) && __CUDA_ARCH__ >= 700
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(at) : "memory");
    return before;
#else
    device_fence();
    const u32 before = atomic_next(at);
    device_fence();
    return before;
#endif
}

// What one lane has seen and written comes before what the other lanes of its wave do next.
DEVICE void wave_fence() {
#if defined(TARGET_AMD)
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
#elif defined(TARGET_NVIDIA)
    __syncwarp();
#endif
}

// `put_state` for a row that has the block to itself. What follows the one barrier is the first wave's alone. Its first lane both
// stores the state and counts the arrival, so that the order of the two is one thread's; and as the last to count it sees
// the states of all pieces, and the other lanes see them behind `wave_fence`.
template <typename Fold, typename T>
DEVICE void put_state_of_block(typename Fold::State state, T first, u32 row, typename Fold::Out *dst,
                               typename Fold::State *scratch, u32 *arrivals, const ReduceShape &shape) {
    typedef typename Fold::State State;
    __shared__ State partial[MAX_WAVES];
    state = wave_reduce(state, Merge<Fold>());
    if (lane_index() == 0) partial[wave_index()] = state;
    barrier();
    if (wave_index() != 0) return;
    state = partial[0];
    for (u32 i = 1; i < ROW_THREADS / wave_size(); i++) state = Fold::merge(state, partial[i]);
    const bool leads = lane_index() == 0;
    if (shape.pieces > 1) {
        State *states = scratch + u64(row) * shape.pieces;
        u32 before = 0;
        if (leads) {
            states[shape.first_piece + block_y()] = state;
            before = arrive(arrivals + row);
        }
        if (shuffle(before, 0) + 1 != shape.pieces) return;
        wave_fence();
        if (leads) arrivals[row] = 0;
        state = merge_states<Fold>(Fold::start(), states, 1, lane_index(), wave_size(), shape.pieces);
        state = wave_reduce(state, Merge<Fold>());
    }
    if (leads) dst[row] = Fold::finish(state, first);
}

// What the team's thread finds in its part of a row.
template <typename Fold, u32 AHEAD, bool LONG, typename T>
DEVICE typename Fold::State read_row(const T *at, u32 count, const Team &team, const ReduceShape &shape) {
    typedef typename Fold::State State;
    constexpr u32 N = Lanes<T>::count;
    State state = Fold::start();
    if (shape.vectors) {
        State lanes[N];
        UNROLL
        for (u32 j = 0; j < N; j++) lanes[j] = state;
        const u32 whole = count / N * N;
        read_tiles<AHEAD, LONG>(team.lane * N, team.size * N, whole, [&](u32 i) { return load<N>(at + i); },
                   [&](const Vec<T, N> &v, u32 i) {
                       UNROLL
                       for (u32 j = 0; j < N; j++) Fold::take(lanes[j], v[j], shape.first_index + i + j);
                   });
        UNROLL
        for (u32 width = N / 2; width > 0; width /= 2) {
            UNROLL
            for (u32 j = 0; j < width; j++) lanes[j] = Fold::merge(lanes[j], lanes[j + width]);
        }
        state = lanes[0];
        // What is left over belongs to the first piece.
        for (u32 i = whole + team.lane; block_y() == 0 && i < count; i += team.size) {
            Fold::take(state, at[i], shape.first_index + i);
        }
    } else {
        for (u32 i = block_y() * team.size + team.lane; i < count; i += grid_y() * team.size) {
            Fold::take(state, at[i], shape.first_index + i);
        }
    }
    return state;
}

template <typename Fold, typename T>
DEVICE void reduce_rows(const T *src, typename Fold::Out *dst, typename Fold::State *scratch, u32 *arrivals,
                        const ReduceShape &shape) {
    const Team team = Team::along(shape.team_log2);
    const u32 index = block_x() * team.count + team.index;
    const bool active = index < shape.outputs;
    const T *row = src + (active ? shape.kept.offset(index) : 0);
    const T first = first_of<Fold>(row, active);
    const u32 count = active ? shape.count : 0;
    const typename Fold::State state = read_row<Fold, REDUCE_AHEAD, false>(row + shape.start, count, team, shape);
    put_state<Fold, true>(state, first, index, team, dst, scratch, arrivals, shape);
}

// Rows that have a block each, or one for each piece. A kernel of its own: the registers that it takes to have all loads of a tile in
// flight are not missed where rows are short.
template <typename Fold, typename T>
DEVICE void reduce_long(const T *src, typename Fold::Out *dst, typename Fold::State *scratch, u32 *arrivals,
                        const ReduceShape &shape) {
    const Team team = Team::whole();
    const T *row = src + shape.kept.offset(block_x());
    const T first = first_of<Fold>(row, true);
    const typename Fold::State state = read_row<Fold, LONG_AHEAD, true>(row + shape.start, shape.count, team, shape);
    put_state_of_block<Fold>(state, first, block_x(), dst, scratch, arrivals, shape);
}

// The elements of a row of any layout that this piece's thread takes. Where one stride reaches them all, their addresses come
// without branches, and the loads overlap.
template <typename Read, typename Take>
DEVICE void read_elements(const Team &team, u32 count, const Layout &layout, Read read, Take take) {
    if (layout.rank == 1) {
        const u64 stride = layout.stride[0][0];
        read_tiles<COLUMN_AHEAD, false>(team.lane, team.size, count, [&](u32 i) { return read(i * stride); }, take);
    } else {
        NO_UNROLL
        for (u32 i = block_y() * team.size + team.lane; i < count; i += grid_y() * team.size) {
            take(read(layout.offset(i)), i);
        }
    }
}

template <typename Fold, typename T>
DEVICE void reduce_strided(const T *src, typename Fold::Out *dst, typename Fold::State *scratch, u32 *arrivals,
                           const ReduceShape &shape) {
    typedef typename Fold::State State;
    const Team team = Team::across(shape.team_log2);
    const u32 row = block_x() * team.count + team.index;
    const bool active = row < shape.outputs;
    const T *of_row = src + (active ? shape.kept.offset(row) : 0), *at = of_row + shape.start;
    const T first = first_of<Fold>(of_row, active);
    State state = Fold::start();
    read_elements(team, active ? shape.count : 0, shape.reduced, [&](u64 offset) { return at[offset]; },
                  [&](T x, u32 i) { Fold::take(state, x, shape.first_index + i); });
    put_state<Fold, false>(state, first, row, team, dst, scratch, arrivals, shape);
}

// Neighbouring rows that a thread takes: 16 bytes of them, eight at most, so that their states fit into shared memory.
template <typename T> struct ColumnLanes {
    static constexpr u32 count = Lanes<T>::count < 8 ? Lanes<T>::count : 8;
};
SHARE_AS(ColumnLanes_u8, "ColumnLanes<u8>", ColumnLanes<u8>::count)
SHARE_AS(ColumnLanes_f16, "ColumnLanes<f16>", ColumnLanes<f16>::count)
SHARE_AS(ColumnLanes_f32, "ColumnLanes<f32>", ColumnLanes<f32>::count)
SHARE_AS(ColumnLanes_f64, "ColumnLanes<f64>", ColumnLanes<f64>::count)

// Rows whose elements lie far apart and whose neighbours lie side by side. A team of `Team::across` has ColumnLanes
// neighbouring rows, at most a block's worth of threads in all; states in scratch memory are ordered by pieces.
template <typename Fold, typename T>
DEVICE void reduce_columns(const T *src, typename Fold::Out *dst, typename Fold::State *scratch, u32 *arrivals,
                           const ReduceShape &shape) {
    typedef typename Fold::State State;
    constexpr u32 N = ColumnLanes<T>::count;
    const Team team = Team::across(shape.team_log2);
    const u32 row = (block_x() * team.count + team.index) * N;
    const bool active = row < shape.outputs;
    const T *at = src + (active ? shape.kept.offset(row) : 0) + shape.start;

    // Each thread reads along several rows, and in the end has one of the block's `rows`.
    const u32 rows = team.count * N, column = thread_x() % rows, part = thread_x() / rows, parts = ROW_THREADS / rows;
    const u32 out = block_x() * rows + column;
    const bool mine = part == 0 && out < shape.outputs;
    const T first = first_of<Fold>(src + (mine ? shape.kept.offset(out) : 0), mine);

    State lanes[N];
    UNROLL_ON_GPU
    for (u32 j = 0; j < N; j++) lanes[j] = Fold::start();
    read_elements(team, active ? shape.count : 0, shape.reduced, [&](u64 offset) { return load<N>(at + offset); },
                  [&](const Vec<T, N> &v, u32 i) {
                      UNROLL_ON_GPU
                      for (u32 j = 0; j < N; j++) Fold::take(lanes[j], v[j], shape.first_index + i);
                  });

    // Threads of one team within a wave, then one thread for each row over what the waves have.
    __shared__ State partial[ROW_THREADS * N];
    const u32 wave = wave_size(), span = max_of(team.count, wave);
    for (u32 mask = wave / 2; mask >= team.count; mask /= 2) {
        UNROLL_ON_GPU
        for (u32 j = 0; j < N; j++) lanes[j] = Fold::merge(lanes[j], shuffle_xor(lanes[j], mask));
    }
    if (team.count >= wave || lane_index() < team.count) {
        UNROLL_ON_GPU
        for (u32 j = 0; j < N; j++) partial[thread_x() / span * rows + team.index * N + j] = lanes[j];
    }
    barrier();
    State state = partial[column];
    for (u32 i = 1; i < ROW_THREADS / span; i++) state = Fold::merge(state, partial[i * rows + column]);
    if (shape.pieces == 1) {
        if (mine) dst[out] = Fold::finish(state, first);
        return;
    }
    if (mine) scratch[u64(shape.first_piece + block_y()) * shape.outputs + out] = state;
    if (!last_to_arrive(arrivals, shape.pieces)) return;
    const bool stored = out < shape.outputs && part < shape.pieces;
    const State *states = scratch + (out < shape.outputs ? out : 0);
    if (stored) {
        state = states[u64(part) * shape.outputs];
        state = merge_states<Fold>(state, states, shape.outputs, part + parts, parts, shape.pieces);
    }
    partial[thread_x()] = state;
    barrier();
    for (u32 i = 1; i < parts && i < shape.pieces; i++) state = Fold::merge(state, partial[i * rows + column]);
    if (mine) dst[out] = Fold::finish(state, first);
}

#define REDUCE_BY(T, root, Fold, variant, function)                                                \
    KERNEL(ROW_THREADS)                                                                            \
    root##_##T##variant(const T *src, Fold<T>::Out *dst, Fold<T>::State *scratch, u32 *arrivals, ReduceShape shape) { enter(); \
        function<Fold<T>>(src, dst, scratch, arrivals, shape);                                     \
    }
#define REDUCE(T, root, Fold)                                                                      \
    REDUCE_BY(T, root, Fold, , reduce_rows)                                                        \
    REDUCE_BY(T, root, Fold, _long, reduce_long)                                                   \
    REDUCE_BY(T, root, Fold, _columns, reduce_columns)                                             \
    REDUCE_BY(T, root, Fold, _strided, reduce_strided)
FOR_ALL_DTYPES(REDUCE, fast_sum, FoldSum)
FOR_ALL_DTYPES(REDUCE, fast_min, FoldMin)
FOR_ALL_DTYPES(REDUCE, fast_max, FoldMax)
FOR_ALL_DTYPES(REDUCE, fast_argmin, FoldArgMin)
FOR_ALL_DTYPES(REDUCE, fast_argmax, FoldArgMax)
