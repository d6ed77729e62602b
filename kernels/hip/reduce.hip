// sum, min, max, argmin and argmax over any dimensions of a tensor with any strides.
//
// An operation is a fold: a state, how an element changes it, how two states merge. Three kernels run any fold: over
// contiguous rows, over strided ones (suffix `_strided`), and over the states that pieces of long rows left in scratch
// memory (suffix `_finish`). No atomics: a result does not depend on the order in which blocks happen to run.
//
// Memory limit: contiguous rows are read in 16-byte pieces with as many independent states as a piece has elements, so
// loads overlap; short rows get a few lanes each, and few long rows are cut so that the whole device reads. Columns
// (reduction over an outer dimension) put neighbouring threads on neighbouring columns, so every load is coalesced.
#include "portable.h"
#include "accumulate.h"
#include "rows.h"

template <typename T> struct FoldSum {
    typedef SumType<T> State;
    typedef T Out;
    static constexpr bool needs_first = false;
    static MEMBER State start(T) { return State(0); }
    static MEMBER void take(State &state, T x, u32) { state += to_sum(x); }
    static MEMBER State merge(State a, State b) { return a + b; }
    static MEMBER Out finish(State state) { return from_sum<T>(state); }
};

// Every thread starts from the first element of the row and only a strictly better one replaces it. That is the loop of
// Candle's CPU backend, NaN included: one in front stays, one elsewhere is never better.
template <typename T, bool MIN> struct FoldExtreme {
    typedef Compute<T> State;
    typedef T Out;
    static constexpr bool needs_first = true;
    static MEMBER bool better(State x, State than) { return MIN ? x < than : x > than; }
    static MEMBER State start(T first) { return widen(first); }
    static MEMBER void take(State &state, T x, u32) {
        const State wide = widen(x);
        if (better(wide, state)) state = wide;
    }
    static MEMBER State merge(State a, State b) { return better(b, a) ? b : a; }
    static MEMBER Out finish(State state) { return cast<T>(state); }
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
    static constexpr bool needs_first = true;
    static MEMBER bool better(Value x, Value than) { return MIN ? x < than : x > than; }
    static MEMBER State start(T first) { return State{Value(widen(first)), 0}; }
    static MEMBER void take(State &state, T x, u32 index) {
        const Value wide = Value(widen(x));
        if (better(wide, state.value)) state = State{wide, index};
    }
    static MEMBER State merge(State a, State b) {
        const bool tie = a.value == b.value && b.index < a.index;
        return better(b.value, a.value) || tie ? b : a;
    }
    static MEMBER Out finish(State state) { return Out(state.index); }
};
template <typename T> using FoldArgMin = FoldArgExtreme<T, true>;
template <typename T> using FoldArgMax = FoldArgExtreme<T, false>;

// Mirrored by `ReduceShape` in src/reduce.rs.
struct ReduceShape {
    u32 outputs;     // rows
    u32 count;       // elements of a row in this launch: below 2^31, and a longer row takes several
    u32 chunk;       // elements of a piece of a row; block_y() counts the pieces
    u32 pieces;      // pieces of a row in all launches
    u32 first_piece; // pieces in the launches before this one
    u32 first_index; // elements in the launches before this one
    u32 team_log2;   // threads for a row
    u32 vectors;     // pieces start on 16 bytes
    u64 start;       // where the elements of this launch begin, from a row's first one
    Layout kept;     // where row i starts
    Layout reduced;  // where element i lies, from `start`
};

template <typename Fold> struct Merge {
    typedef typename Fold::State State;
    MEMBER State operator()(State a, State b) const { return Fold::merge(a, b); }
};

template <typename Fold>
DEVICE void put_state(typename Fold::State state, u32 row, typename Fold::Out *dst, typename Fold::State *scratch,
                      const ReduceShape &shape) {
    if (shape.pieces == 1) dst[row] = Fold::finish(state);
    else scratch[u64(row) * shape.pieces + shape.first_piece + block_y()] = state;
}

template <typename Fold, typename T>
DEVICE void reduce_rows(const T *src, typename Fold::Out *dst, typename Fold::State *scratch, const ReduceShape &shape) {
    typedef typename Fold::State State;
    constexpr u32 N = Lanes<T>::count;
    const Team team = Team::along(shape.team_log2);
    const u32 row = block_x() * team.count + team.index;
    const bool active = row < shape.outputs;
    const T *first = src + (active ? shape.kept.offset(row) : 0), *at = first + shape.start;
    const u32 begin = block_y() * shape.chunk;
    const u32 end = active ? min_of(begin + shape.chunk, shape.count) : begin;

    const State start = Fold::start(active && Fold::needs_first ? first[0] : T{});
    State state = start;
    u32 done = begin;
    if (shape.vectors) {
        State lanes[N];
        UNROLL
        for (u32 j = 0; j < N; j++) lanes[j] = start;
        const u32 whole = begin + (end - begin) / N * N;
        for (u32 i = begin + team.lane * N; i < whole; i += team.size * N) {
            const Vec<T, N> v = load<N>(at + i);
            UNROLL
            for (u32 j = 0; j < N; j++) Fold::take(lanes[j], v[j], shape.first_index + i + j);
        }
        UNROLL
        for (u32 width = N / 2; width > 0; width /= 2) {
            UNROLL
            for (u32 j = 0; j < width; j++) lanes[j] = Fold::merge(lanes[j], lanes[j + width]);
        }
        state = lanes[0];
        done = whole;
    }
    for (u32 i = done + team.lane; i < end; i += team.size) Fold::take(state, at[i], shape.first_index + i);
    state = team_reduce(state, team, Merge<Fold>());
    if (active && team.lane == 0) put_state<Fold>(state, row, dst, scratch, shape);
}

template <typename Fold, typename T>
DEVICE void reduce_strided(const T *src, typename Fold::Out *dst, typename Fold::State *scratch,
                           const ReduceShape &shape) {
    typedef typename Fold::State State;
    constexpr u32 AHEAD = 4; // loads in flight
    const Team team = Team::across(shape.team_log2);
    const u32 row = block_x() * team.count + team.index;
    const bool active = row < shape.outputs;
    const T *first = src + (active ? shape.kept.offset(row) : 0), *at = first + shape.start;
    const u32 begin = block_y() * shape.chunk;
    const u32 end = active ? min_of(begin + shape.chunk, shape.count) : begin;

    State state = Fold::start(active && Fold::needs_first ? first[0] : T{});
    u32 i = begin + team.lane;
    for (; i + (AHEAD - 1) * team.size < end; i += AHEAD * team.size) {
        T x[AHEAD];
        UNROLL
        for (u32 j = 0; j < AHEAD; j++) x[j] = at[shape.reduced.offset(i + j * team.size)];
        UNROLL
        for (u32 j = 0; j < AHEAD; j++) Fold::take(state, x[j], shape.first_index + i + j * team.size);
    }
    for (; i < end; i += team.size) Fold::take(state, at[shape.reduced.offset(i)], shape.first_index + i);
    state = team_reduce_across(state, team, Merge<Fold>());
    if (active && team.lane == 0) put_state<Fold>(state, row, dst, scratch, shape);
}

// The states of a row's pieces, merged in a fixed order.
template <typename Fold>
DEVICE void reduce_finish(const typename Fold::State *scratch, typename Fold::Out *dst, u32 outputs, u32 pieces,
                          u32 team_log2) {
    typedef typename Fold::State State;
    const Team team = Team::along(team_log2);
    const u32 row = block_x() * team.count + team.index;
    const bool active = row < outputs;
    const State *at = scratch + (active ? u64(row) * pieces : 0);
    // There are at least as many pieces as threads in a team, so that every thread has a state to start from.
    State state = at[team.lane];
    if (active) {
        for (u32 i = team.lane + team.size; i < pieces; i += team.size) state = Fold::merge(state, at[i]);
    }
    state = team_reduce(state, team, Merge<Fold>());
    if (active && team.lane == 0) dst[row] = Fold::finish(state);
}

#define REDUCE(T, root, Fold)                                                                      \
    KERNEL(ROW_THREADS)                                                                            \
    root##_##T(const T *src, Fold<T>::Out *dst, Fold<T>::State *scratch, ReduceShape shape) {      \
        reduce_rows<Fold<T>>(src, dst, scratch, shape);                                            \
    }                                                                                              \
    KERNEL(ROW_THREADS)                                                                            \
    root##_##T##_strided(const T *src, Fold<T>::Out *dst, Fold<T>::State *scratch, ReduceShape shape) { \
        reduce_strided<Fold<T>>(src, dst, scratch, shape);                                         \
    }                                                                                              \
    KERNEL(ROW_THREADS)                                                                            \
    root##_##T##_finish(const Fold<T>::State *scratch, Fold<T>::Out *dst, u32 outputs, u32 pieces, u32 team_log2) { \
        reduce_finish<Fold<T>>(scratch, dst, outputs, pieces, team_log2);                          \
    }
FOR_ALL_DTYPES(REDUCE, fast_sum, FoldSum)
FOR_ALL_DTYPES(REDUCE, fast_min, FoldMin)
FOR_ALL_DTYPES(REDUCE, fast_max, FoldMax)
FOR_ALL_DTYPES(REDUCE, fast_argmin, FoldArgMin)
FOR_ALL_DTYPES(REDUCE, fast_argmax, FoldArgMax)
