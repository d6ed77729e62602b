// softmax and log-softmax over the last dimension of contiguous tensors.
//
// The largest element and the sum of exponentials are gathered together: when a larger element turns up, the sum so far
// is scaled down to it. So a row is read once and written once (see map_row).
//
// Memory limit: 16-byte pieces, one exponential for an element while reading and one while writing, and a team per row
// that is as small as the row allows, so that no thread idles on short rows.
#include "portable.h"
#include "quick.h"
#include "rows.h"

DEVICE void least_finite(f32 &x) { x = bit_cast<f32>(0xff7fffffu); }
DEVICE void least_finite(f64 &x) { x = bit_cast<f64>(0xffefffffffffffffull); }

template <typename T, bool LOG> struct Softmax {
    typedef Compute<T> C;
    struct State {
        C largest, sum;
    };
    C largest, scale;

    MEMBER void begin(const T *, u32) {}
    // Starting from the least finite number and not from minus infinity keeps inf - inf out of rows that begin masked;
    // a row of nothing but minus infinity still comes out as NaN, as on the CPU.
    MEMBER State empty() const {
        State state = {C(0), C(0)};
        least_finite(state.largest);
        return state;
    }
    template <u32 N> MEMBER void take(State &state, const Vec<T, N> &v) {
        C largest = state.largest;
        UNROLL
        for (u32 j = 0; j < N; j++) largest = max_of(largest, C(widen(v[j])));
        // The piece by itself first: shorter chains, and smaller errors than adding one by one to a long sum.
        C piece = exp_below_zero(C(widen(v[0])) - largest);
        UNROLL
        for (u32 j = 1; j < N; j++) piece += exp_below_zero(C(widen(v[j])) - largest);
        state = State{largest, state.sum * exp_below_zero(state.largest - largest) + piece};
    }
    MEMBER State merge(State a, State b) {
        const C largest = max_of(a.largest, b.largest);
        return State{largest, a.sum * exp_below_zero(a.largest - largest) + b.sum * exp_below_zero(b.largest - largest)};
    }
    MEMBER void settle(State state, u32) {
        largest = state.largest;
        scale = LOG ? log_(state.sum) : C(1) / state.sum;
    }
    template <u32 N> MEMBER Vec<T, N> apply(const Vec<T, N> &v, u32) {
        Vec<T, N> out;
        UNROLL
        for (u32 j = 0; j < N; j++) {
            const C x = C(widen(v[j])) - largest;
            out[j] = cast<T>(LOG ? x - scale : exp_below_zero(x) * scale);
        }
        return out;
    }
};

#define SOFTMAX(T, root, LOG)                                                                      \
    KERNEL(ROW_THREADS) root##_##T(const T *src, T *dst, RowShape shape) {                         \
        map_rows(src, dst, shape, Softmax<T, LOG>());                                              \
    }                                                                                              \
    KERNEL(ROW_THREADS) root##_##T##_gather(const T *src, Softmax<T, LOG>::State *states, RowPieces shape) { \
        gather_pieces(src, states, shape, Softmax<T, LOG>());                                      \
    }                                                                                              \
    KERNEL(ROW_THREADS)                                                                            \
    root##_##T##_map(const T *src, T *dst, const Softmax<T, LOG>::State *states, RowPieces shape) { \
        map_pieces(src, dst, states, shape, Softmax<T, LOG>());                                    \
    }
#define SOFTMAXES(T) SOFTMAX(T, softmax, false) SOFTMAX(T, log_softmax, true)
SOFTMAXES(bf16)
SOFTMAXES(f16)
SOFTMAXES(f32)
SOFTMAXES(f64)
