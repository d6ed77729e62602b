// rms_norm and layer_norm over the last dimension of contiguous tensors, computed in f32 (f64 for f64).
//
// Memory limit: like the softmaxes, a row is read once and written once in 16-byte pieces by a team that suits its
// length, or twice where it is too long for the team's registers (see map_row); the weights are the same for all rows and stay in the cache.
#include "portable.h"
#include "rows.h"

template <typename T> struct RmsNorm {
    typedef Compute<T> C;
    typedef C State;
    static constexpr bool ASKS_EARLY = true;
    const T *alpha;
    C eps, scale;

    MEMBER void begin(const T *, u32) {}
    MEMBER State empty() const { return C(0); }
    MEMBER T blank() const { return T{}; }
    template <u32 N, u32 M> MEMBER void take(State &sum, const Vec<T, N> (&v)[M]) {
        UNROLL
        for (u32 k = 0; k < M; k++) {
            C piece = C(widen(v[k][0])) * C(widen(v[k][0]));
            UNROLL
            for (u32 j = 1; j < N; j++) piece += C(widen(v[k][j])) * C(widen(v[k][j]));
            sum += piece;
        }
    }
    MEMBER State merge(State a, State b) { return a + b; }
    MEMBER void settle(State sum, u32 columns) { scale = C(1) / sqrt_(sum / C(columns) + eps); }
    template <u32 N> using Weights = Vec<T, N>;
    template <u32 N> MEMBER Weights<N> weights(u32 at) const { return load<N>(alpha + at); }
    template <u32 N> MEMBER Vec<T, N> apply(const Vec<T, N> &v, const Weights<N> &a) {
        Vec<T, N> out;
        UNROLL
        for (u32 j = 0; j < N; j++) out[j] = cast<T>(C(widen(v[j])) * scale * C(widen(a[j])));
        return out;
    }
};

// Sums are taken of the distance from the row's first element: mean and variance in one pass without the cancellation
// that mean(x^2) - mean(x)^2 suffers on data far from zero.
template <typename T> struct LayerNorm {
    typedef Compute<T> C;
    struct State {
        C sum, squares;
    };
    static constexpr bool ASKS_EARLY = true;
    const T *alpha, *beta;
    C eps, origin, mean, scale;
    T first;

    MEMBER void begin(const T *row, u32 columns) {
        first = columns > 0 ? row[0] : T{};
        origin = C(widen(first));
    }
    MEMBER T blank() const { return first; }
    MEMBER State empty() const { return State{C(0), C(0)}; }
    template <u32 N, u32 M> MEMBER void take(State &state, const Vec<T, N> (&v)[M]) {
        UNROLL
        for (u32 k = 0; k < M; k++) {
            State piece = empty();
            UNROLL
            for (u32 j = 0; j < N; j++) {
                const C x = C(widen(v[k][j])) - origin;
                piece.sum += x;
                piece.squares += x * x;
            }
            state = merge(state, piece);
        }
    }
    MEMBER State merge(State a, State b) { return State{a.sum + b.sum, a.squares + b.squares}; }
    MEMBER void settle(State state, u32 columns) {
        const C distance = state.sum / C(columns);
        const C variance = max_of(state.squares / C(columns) - distance * distance, C(0));
        mean = origin + distance;
        scale = C(1) / sqrt_(variance + eps);
    }
    template <u32 N> struct Weights {
        Vec<T, N> a, b;
    };
    template <u32 N> MEMBER Weights<N> weights(u32 at) const {
        return Weights<N>{load<N>(alpha + at), load<N>(beta + at)};
    }
    template <u32 N> MEMBER Vec<T, N> apply(const Vec<T, N> &v, const Weights<N> &w) {
        Vec<T, N> out;
        UNROLL
        for (u32 j = 0; j < N; j++) {
            out[j] = cast<T>((C(widen(v[j])) - mean) * scale * C(widen(w.a[j])) + C(widen(w.b[j])));
        }
        return out;
    }
};

// The norm of the sum of two tensors, and the sum: a residual connection and the norm behind it in one launch. The sum rounds to T first,
// as it would by itself. For rows that fit into the registers of their team.
template <u32 N, u32 M, typename T>
DEVICE void norm_of_sum(const T *left, const T *right, T *sum, T *out, u32 columns, const Team &team, RmsNorm<T> &map) {
    Vec<T, N> kept[M], other[M];
    load_row(kept, left, columns, team, T{});
    load_row(other, right, columns, team, T{});
    UNROLL
    for (u32 k = 0; k < M; k++) {
        UNROLL
        for (u32 j = 0; j < N; j++) kept[k][j] = cast<T>(widen(kept[k][j]) + widen(other[k][j]));
        const u32 column = (team.lane + k * team.size) * N;
        if (column < columns) store<N>(sum + column, kept[k]);
    }
    typename RmsNorm<T>::State state = map.empty();
    map.take(state, kept);
    map.settle(merge_team(state, team, map), columns);
    apply_at<true>(out, kept, team.lane * N, team.size * N, columns, map);
}
template <u32 N, typename T>
DEVICE void norms_of_sums(const T *left, const T *right, T *sum, T *out, const RowShape &shape, RmsNorm<T> map) {
    const Team team = Team::along(shape.team_log2);
    const u32 row = block_x() * team.count + team.index;
    const u64 at = row < shape.rows ? u64(row) * shape.columns : 0;
    const u32 columns = row < shape.rows ? shape.columns : 0;
    if (shape.kept == 1) norm_of_sum<N, 1>(left + at, right + at, sum + at, out + at, columns, team, map);
    else norm_of_sum<N, ROW_KEPT>(left + at, right + at, sum + at, out + at, columns, team, map);
}

// The three kernels of one norm take the same parameters; `states` has a state for every share of a row. MAP makes what maps its
// rows from eps and the weights, the last parameters here.
#define NORM(T, root, Norm, MAP, ...)                                                              \
    KERNEL(ROW_THREADS)                                                                            \
    root##_##T(const T *src, T *dst, Norm<T>::State *, RowShape shape, f64 eps, __VA_ARGS__) { enter(); \
        map_rows(src, dst, shape, MAP);                                                            \
    }                                                                                              \
    KERNEL(ROW_THREADS)                                                                            \
    root##_##T##_gather(const T *src, T *, Norm<T>::State *states, RowShape shape, f64 eps, __VA_ARGS__) { enter(); \
        gather_pieces(src, states, shape, MAP);                                                    \
    }                                                                                              \
    KERNEL(ROW_THREADS)                                                                            \
    root##_##T##_map(const T *src, T *dst, Norm<T>::State *states, RowShape shape, f64 eps, __VA_ARGS__) { enter(); \
        map_pieces(src, dst, states, shape, MAP);                                                  \
    }
#define RMS_MAP(T) (RmsNorm<T>{alpha, Compute<T>(eps), 0})
#define LAYER_MAP(T) (LayerNorm<T>{alpha, beta, Compute<T>(eps), 0, 0, 0, T{}})
#define NORM_OF_SUM(T)                                                                             \
    KERNEL(ROW_THREADS)                                                                            \
    rmsnorm_sum_##T(const T *left, const T *right, T *sum, T *dst, RowShape shape, f64 eps, const T *alpha) { enter(); \
        if (shape.vectors) norms_of_sums<Lanes<T>::count>(left, right, sum, dst, shape, RMS_MAP(T)); \
        else norms_of_sums<1>(left, right, sum, dst, shape, RMS_MAP(T));                           \
    }
#define NORMS(T)                                                                                   \
    NORM(T, rmsnorm, RmsNorm, RMS_MAP(T), const T *alpha) NORM_OF_SUM(T)                           \
    NORM(T, layernorm, LayerNorm, LAYER_MAP(T), const T *alpha, const T *beta)
NORMS(bf16)
NORMS(f16)
NORMS(f32)
NORMS(f64)
