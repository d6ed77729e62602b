// Rotary position embeddings: pairs of elements of a head turned by an angle that depends on the position.
// `rope` pairs the two halves of a head, `rope_i` neighbours, both for (batch, head, time, dim); `rope_thd` pairs halves
// for (batch, time, head, dim). Everything is contiguous.
//
// Memory limit: a thread turns 16 bytes of each half (`rope_i`: 16 bytes of neighbours) at a time; nothing is read
// twice but the angles, which all heads share and the cache holds.
#include "portable.h"

constexpr u32 ROPE_THREADS = 256;
SHARE(ROPE_THREADS)

// A place is one head at one time, `half` pairs.
struct RopeShape {
    u32 items;       // pieces of `lanes` pairs: places * half / lanes
    u32 vectors;     // a piece is 16 bytes and everything is aligned to that; otherwise a piece is one pair
    Divider pieces;  // pieces of a place
    Divider inner;   // places are counted as outer x inner: (batch * head) x time, or (batch * time) x head
    Divider batch;   // outer elements of a batch: head, or time
    u32 half;        // pairs of a head
    u32 angles_step; // elements of cos and sin between batches; 0 when the batches share them
};
SHARE_LAYOUT(RopeShape, items, vectors, pieces, inner, batch, half, angles_step)

struct RopePlace {
    u64 data;   // start of the head
    u64 angles; // start of the angles of its time
    u32 pair;   // first pair of the piece
};

template <bool THD> DEVICE RopePlace rope_place(u32 item, u32 lanes, const RopeShape &shape) {
    const Division piece = divide(item, shape.pieces);
    const Division place = divide(piece.quotient, shape.inner);
    const Division outer = divide(place.quotient, shape.batch);
    const u32 time = THD ? outer.remainder : place.remainder;
    return RopePlace{u64(piece.quotient) * 2 * shape.half,
                     u64(time) * shape.half + u64(outer.quotient) * shape.angles_step, piece.remainder * lanes};
}

// Turns N pairs: element j of `a` with element j of `b`.
template <typename T, u32 N> DEVICE void turn(Vec<T, N> &a, Vec<T, N> &b, const Vec<T, N> &cos, const Vec<T, N> &sin) {
    typedef Compute<T> C;
    UNROLL
    for (u32 j = 0; j < N; j++) {
        const C x = widen(a[j]), y = widen(b[j]), c = widen(cos[j]), s = widen(sin[j]);
        a[j] = cast<T>(x * c - y * s);
        b[j] = cast<T>(x * s + y * c);
    }
}

template <u32 N, bool THD, typename T>
DEVICE void rope_halves(const T *src, const T *cos, const T *sin, T *dst, u32 item, const RopeShape &shape) {
    const RopePlace at = rope_place<THD>(item, N, shape);
    const u64 low = at.data + at.pair, high = low + shape.half, angle = at.angles + at.pair;
    Vec<T, N> a = load<N>(src + low), b = load<N>(src + high);
    turn(a, b, load<N>(cos + angle), load<N>(sin + angle));
    store<N>(dst + low, a);
    store<N>(dst + high, b);
}

// WIDE: N pairs lie on a multiple of their size; otherwise they are moved element by element.
template <u32 N, bool WIDE, typename T>
DEVICE void rope_neighbours(const T *src, const T *cos, const T *sin, T *dst, u32 item, const RopeShape &shape) {
    const RopePlace at = rope_place<false>(item, N, shape);
    const u64 first = at.data + 2 * at.pair, angle = at.angles + at.pair;
    Vec<T, 2 * N> both;
    if constexpr (WIDE) {
        both = load<2 * N>(src + first);
    } else {
        for (u32 j = 0; j < 2 * N; j++) both[j] = src[first + j];
    }
    Vec<T, N> a, b;
    UNROLL
    for (u32 j = 0; j < N; j++) a[j] = both[2 * j], b[j] = both[2 * j + 1];
    turn(a, b, load<N>(cos + angle), load<N>(sin + angle));
    UNROLL
    for (u32 j = 0; j < N; j++) both[2 * j] = a[j], both[2 * j + 1] = b[j];
    if constexpr (WIDE) {
        store<2 * N>(dst + first, both);
    } else {
        for (u32 j = 0; j < 2 * N; j++) dst[first + j] = both[j];
    }
}

#define ROPE(T)                                                                                    \
    KERNEL(ROPE_THREADS) rope_##T(const T *src, const T *cos, const T *sin, T *dst, RopeShape shape) { enter(); \
        const u32 item = block_x() * ROPE_THREADS + thread_x();                                    \
        if (item >= shape.items) return;                                                           \
        if (shape.vectors) rope_halves<Lanes<T>::count, false>(src, cos, sin, dst, item, shape);   \
        else rope_halves<1, false>(src, cos, sin, dst, item, shape);                               \
    }                                                                                              \
    KERNEL(ROPE_THREADS) rope_thd_##T(const T *src, const T *cos, const T *sin, T *dst, RopeShape shape) { enter(); \
        const u32 item = block_x() * ROPE_THREADS + thread_x();                                    \
        if (item >= shape.items) return;                                                           \
        if (shape.vectors) rope_halves<Lanes<T>::count, true>(src, cos, sin, dst, item, shape);    \
        else rope_halves<1, true>(src, cos, sin, dst, item, shape);                                \
    }                                                                                              \
    KERNEL(ROPE_THREADS) rope_i_##T(const T *src, const T *cos, const T *sin, T *dst, RopeShape shape) { enter(); \
        const u32 item = block_x() * ROPE_THREADS + thread_x();                                    \
        if (item >= shape.items) return;                                                           \
        if (shape.vectors) rope_neighbours<Lanes<T>::count / 2, true>(src, cos, sin, dst, item, shape); \
        else rope_neighbours<1, false>(src, cos, sin, dst, item, shape);                           \
    }
ROPE(bf16)
ROPE(f16)
ROPE(f32)
ROPE(f64)
