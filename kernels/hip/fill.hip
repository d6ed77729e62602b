// Writes that read nothing, or read only to copy: a constant into a contiguous or a strided tensor, and rows of one
// matrix into rows of another. (The strided copy of a tensor is `ucopy` of the module unary.)
#include "portable.h"

#define FILL_THREADS 256

// The constant's bits, in the low end of `bits`.
template <typename T> DEVICE T from_bits(u64 bits) { return bit_cast<T>((BitsOf<T>)bits); }

template <typename T> DEVICE void fill(u64 count, u64 bits, T *out) {
    constexpr u32 WIDTH = Lanes<T>::count, TILE = FILL_THREADS * WIDTH * 4;
    T value = from_bits<T>(bits);
    u64 start = (u64)block_x() * TILE;
    if (start + TILE <= count) {
        Vec<T, WIDTH> piece;
        UNROLL
        for (u32 j = 0; j < WIDTH; j++) piece[j] = value;
        UNROLL
        for (u32 b = 0; b < 4; b++) store<WIDTH>(out + start + (b * FILL_THREADS + thread_x()) * WIDTH, piece);
    } else {
        NO_UNROLL
        for (u64 i = start + thread_x(); i < count; i += FILL_THREADS) out[i] = value;
    }
}

template <typename T> DEVICE void const_set(const Layout &layout, u64 bits, T *out) {
    T value = from_bits<T>(bits);
    UNROLL
    for (u32 b = 0; b < 4; b++) {
        u32 i = (block_x() * 4 + b) * FILL_THREADS + thread_x();
        if (i < layout.count) out[layout.offset(i)] = value;
    }
}

// Row r of the source starts at r * from_stride, of the destination at r * to_stride; both rows are contiguous.
// The columns come in pieces of WIDTH elements.
struct Copy2d {
    u32 count;      // pieces in all
    Divider pieces; // of one row
    u64 from_stride, to_stride;
};
template <u32 WIDTH, typename T> DEVICE void copy2d(const Copy2d &shape, T *to, const T *from) {
    UNROLL
    for (u32 b = 0; b < 4; b++) {
        u32 i = (block_x() * 4 + b) * FILL_THREADS + thread_x();
        if (i < shape.count) {
            Division at = divide(i, shape.pieces);
            u64 col = (u64)at.remainder * WIDTH;
            store<WIDTH>(to + at.quotient * shape.to_stride + col, load<WIDTH>(from + at.quotient * shape.from_stride + col));
        }
    }
}

#define ENTRY(T)                                                                                              \
    KERNEL(FILL_THREADS) fill_##T(u64 count, u64 bits, T *out) { fill<T>(count, bits, out); }                 \
    KERNEL(FILL_THREADS) const_set_##T(Layout layout, u64 bits, T *out) { const_set<T>(layout, bits, out); }  \
    KERNEL(FILL_THREADS) copy2d_##T(Copy2d shape, T *RESTRICT to, const T *RESTRICT from) {                   \
        copy2d<1>(shape, to, from);                                                                           \
    }                                                                                                         \
    KERNEL(FILL_THREADS) copy2d_##T##_rows(Copy2d shape, T *RESTRICT to, const T *RESTRICT from) {            \
        copy2d<Lanes<T>::count>(shape, to, from);                                                             \
    }
FOR_ALL_DTYPES(ENTRY)
