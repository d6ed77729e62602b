// softmax and log-softmax over the last dimension of contiguous tensors.
//
// A row that fits into the registers of its team is read once: its largest element is found first, and each exponential
// is taken once. Of longer rows both are gathered together: when a larger element turns up, the sum so far is scaled
// down to it, and the exponentials are taken again while writing (see map_row). Many rows that are too long for a block stay on
// the chip between the two where that is possible (see resident.h).
//
// Memory limit: 16-byte pieces, several in flight, and a team per row that is as small as the row allows, so that no thread
// idles on short rows.
#include "portable.h"
#include "fast_math.h"
#include "rows.h"
#include "bulk_copy.h"
#include "resident.h"

DEVICE void least_finite(f32 &x) { x = bit_cast<f32>(0xff7fffffu); }
DEVICE void least_finite(f64 &x) { x = bit_cast<f64>(0xffefffffffffffffull); }

// e^x / sum, as exactly as a result of the first argument's dtype shows. `over` is made of the sum once: short floats take it into
// the exponent, which saves a product for every element.
template <typename C> DEVICE C over_as(C, C sum) { return C(1) / sum; }
template <typename C> DEVICE C exp_over_as(C, C x, C over) { return exp_below_zero(x) * over; }
#if defined(TARGET_HOST)
DEVICE f32 over_short(f32 sum) { return 1.0f / sum; }
DEVICE f32 exp_over_short(f32 x, f32 over) { return exp_rough(x) * over; }
#else
DEVICE f32 over_short(f32 sum) { return log_(sum) * -1.44269504f; }
DEVICE f32 exp_over_short(f32 x, f32 over) { return fast_exp2(fused(x, 1.44269504f, over)); }
#endif
DEVICE f32 over_as(f16, f32 sum) { return over_short(sum); }
DEVICE f32 over_as(bf16, f32 sum) { return over_short(sum); }
DEVICE f32 exp_over_as(f16, f32 x, f32 over) { return exp_over_short(x, over); }
DEVICE f32 exp_over_as(bf16, f32 x, f32 over) { return exp_over_short(x, over); }

template <typename T, bool LOG> struct Softmax {
    typedef Compute<T> C;
    struct State {
        C largest, sum;
    };
    static constexpr bool ASKS_EARLY = false;
    C largest, scale;

    MEMBER void begin(const T *, u32) {}
    MEMBER T blank() const { return Limits<T>::lowest(); }
    // Starting from the least finite number and not from minus infinity keeps inf - inf out of rows that begin masked;
    // a row of nothing but minus infinity still comes out as NaN, as on the CPU.
    MEMBER State empty() const {
        State state = {C(0), C(0)};
        least_finite(state.largest);
        return state;
    }
    template <u32 N, u32 M> static MEMBER C largest_of(C largest, const Vec<T, N> (&v)[M]) {
        UNROLL_ON_GPU
        for (u32 k = 0; k < M; k++) {
            UNROLL_ON_GPU
            for (u32 j = 0; j < N; j++) largest = greater_of(largest, C(widen(v[k][j])));
        }
        return largest;
    }
    template <u32 N, u32 M> MEMBER void take(State &state, const Vec<T, N> (&v)[M]) {
        const C largest = largest_of(state.largest, v);
        C sum = state.sum * exp_below_zero_as(T(), state.largest - largest);
        UNROLL_ON_GPU
        for (u32 k = 0; k < M; k++) {
            // A vector by itself first: shorter chains, and smaller errors than adding one by one to a long sum.
            C piece = exp_below_zero_as(T(), C(widen(v[k][0])) - largest);
            UNROLL_ON_GPU
            for (u32 j = 1; j < N; j++) piece += exp_below_zero_as(T(), C(widen(v[k][j])) - largest);
            sum += piece;
        }
        state = State{largest, sum};
    }
    MEMBER State merge(State a, State b) {
        const C largest = max_of(a.largest, b.largest);
        return State{largest, a.sum * exp_below_zero_as(T(), a.largest - largest) + b.sum * exp_below_zero_as(T(), b.largest - largest)};
    }
    MEMBER void settle(State state, u32) {
        largest = state.largest;
        scale = LOG ? log_(state.sum) : over_as(T(), state.sum);
    }
    template <u32 N> struct Weights {};
    template <u32 N> MEMBER Weights<N> weights(u32) const { return Weights<N>(); }
    template <u32 N> MEMBER Vec<T, N> apply(const Vec<T, N> &v, const Weights<N> &) {
        Vec<T, N> out;
        UNROLL_ON_GPU
        for (u32 j = 0; j < N; j++) {
            const C x = C(widen(v[j])) - largest;
            out[j] = cast<T>(LOG ? x - scale : exp_over_as(T(), x, scale));
        }
        return out;
    }
};

// The largest element first, and then one exponential for each thread, not two for every pair of states.
template <typename T, bool LOG>
DEVICE typename Softmax<T, LOG>::State merge_team(typename Softmax<T, LOG>::State state, const Team &team, Softmax<T, LOG> &) {
    const Compute<T> largest = team_reduce(state.largest, team, Greater());
    const Compute<T> sum = state.sum * exp_below_zero_as(T(), state.largest - largest);
    return typename Softmax<T, LOG>::State{largest, team_reduce(sum, team, Sum())};
}

template <u32 N, u32 M, typename T, bool LOG>
DEVICE void map_kept(const T *row, T *out, u32 columns, const Team &team, Softmax<T, LOG> &map) {
    typedef Compute<T> C;
    Vec<T, N> kept[M];
    load_row(kept, row, columns, team, map.blank());
    const C largest = team_reduce(map.largest_of(map.empty().largest, kept), team, Greater());
    C value[M][N], sum = C(0);
    UNROLL_ON_GPU
    for (u32 k = 0; k < M; k++) {
        C piece = C(0);
        UNROLL_ON_GPU
        for (u32 j = 0; j < N; j++) {
            const C x = C(widen(kept[k][j])) - largest, power = exp_below_zero_as(T(), x);
            value[k][j] = LOG ? x : power;
            piece += power;
        }
        sum += piece;
    }
    sum = team_reduce(sum, team, Sum());
    const C scale = LOG ? log_(sum) : C(1) / sum;
    UNROLL_ON_GPU
    for (u32 k = 0; k < M; k++) {
        const u32 i = (team.lane + k * team.size) * N;
        Vec<T, N> made;
        UNROLL_ON_GPU
        for (u32 j = 0; j < N; j++) made[j] = cast<T>(LOG ? value[k][j] - scale : value[k][j] * scale);
        if (i < columns) store<N>(out + i, made);
    }
}

// The three kernels of one softmax take the same parameters; `states` has a state for every share of a row.
#define SOFTMAX(T, root, LOG)                                                                      \
    KERNEL(ROW_THREADS) root##_##T(const T *src, T *dst, Softmax<T, LOG>::State *, RowShape shape) { enter(); \
        map_rows(src, dst, shape, Softmax<T, LOG>());                                              \
    }                                                                                              \
    KERNEL(ROW_THREADS) root##_##T##_gather(const T *src, T *, Softmax<T, LOG>::State *states, RowShape shape) { enter(); \
        gather_pieces(src, states, shape, Softmax<T, LOG>());                                      \
    }                                                                                              \
    KERNEL(ROW_THREADS) root##_##T##_map(const T *src, T *dst, Softmax<T, LOG>::State *states, RowShape shape) { enter(); \
        map_pieces(src, dst, states, shape, Softmax<T, LOG>());                                    \
    }
#define SOFTMAXES(T) SOFTMAX(T, softmax, false) SOFTMAX(T, log_softmax, true)
SOFTMAXES(bf16)
SOFTMAXES(f16)
SOFTMAXES(f32)
SOFTMAXES(f64)

// Of states that fit into a word.
#define RESIDENT(T, root, LOG)                                                                     \
    KERNEL(RESIDENT_THREADS) root##_##T##_resident(const T *src, T *dst, Residents shape) { enter(); \
        map_residents(src, dst, shape, Softmax<T, LOG>());                                         \
    }
#define RESIDENTS(T) RESIDENT(T, softmax, false) RESIDENT(T, log_softmax, true)
RESIDENTS(bf16)
RESIDENTS(f16)
RESIDENTS(f32)
