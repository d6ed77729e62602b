// Writes that read nothing, or read only to copy: a constant into a contiguous or a strided tensor, rows of one matrix into
// rows of another, and rows of several side by side. (The strided copy of a tensor is `ucopy` of the module unary.)
#include "portable.h"

#define FILL_THREADS 256
SHARE(FILL_THREADS)

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
SHARE_LAYOUT(Copy2d, count, pieces, from_stride, to_stride)
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

// Matrices of one height side by side. Part p fills the pieces from start[p] on.
#define CONCAT_PARTS 8
SHARE(CONCAT_PARTS)
template <typename T> struct Concat {
    u32 count;      // pieces in all
    Divider pieces; // of one row, all parts together
    u64 to_stride;
    u32 used, unused; // parts that are there
    u32 start[CONCAT_PARTS];
    u64 stride[CONCAT_PARTS];
    const T *from[CONCAT_PARTS];
};
#if defined(TARGET_HOST)
typedef Concat<u8> ConcatBytes;
SHARE_LAYOUT(ConcatBytes, count, pieces, to_stride, used, start, stride, from)
#endif
template <u32 WIDTH, typename T> DEVICE void concat(const Concat<T> &parts, T *to) {
    // Everything is loaded before anything is stored: the compiler cannot know that the parts are not the target.
    Vec<T, WIDTH> piece[4];
    u64 place[4];
    UNROLL
    for (u32 b = 0; b < 4; b++) {
        u32 i = (block_x() * 4 + b) * FILL_THREADS + thread_x();
        if (i < parts.count) {
            Division at = divide(i, parts.pieces);
            // No index but a constant one: parameters are not memory on every target.
            u32 start = 0;
            u64 stride = parts.stride[0];
            const T *from = parts.from[0];
            UNROLL
            for (u32 p = 1; p < CONCAT_PARTS; p++) {
                if (p >= parts.used) break;
                bool within = at.remainder >= parts.start[p];
                start = within ? parts.start[p] : start;
                stride = within ? parts.stride[p] : stride;
                from = within ? parts.from[p] : from;
            }
            piece[b] = load<WIDTH>(from + at.quotient * stride + (u64)(at.remainder - start) * WIDTH);
            place[b] = at.quotient * parts.to_stride + (u64)at.remainder * WIDTH;
        }
    }
    UNROLL
    for (u32 b = 0; b < 4; b++) {
        u32 i = (block_x() * 4 + b) * FILL_THREADS + thread_x();
        if (i < parts.count) store<WIDTH>(to + place[b], piece[b]);
    }
}

#define ENTRY(T)                                                                                              \
    KERNEL(FILL_THREADS) fill_##T(u64 count, u64 bits, T *out) { enter(); fill<T>(count, bits, out); }        \
    KERNEL(FILL_THREADS) const_set_##T(Layout layout, u64 bits, T *out) { enter(); const_set<T>(layout, bits, out); } \
    KERNEL(FILL_THREADS) copy2d_##T(Copy2d shape, T *RESTRICT to, const T *RESTRICT from) { enter();          \
        copy2d<1>(shape, to, from);                                                                           \
    }                                                                                                         \
    KERNEL(FILL_THREADS) copy2d_##T##_rows(Copy2d shape, T *RESTRICT to, const T *RESTRICT from) { enter();   \
        copy2d<Lanes<T>::count>(shape, to, from);                                                             \
    }                                                                                                         \
    KERNEL(FILL_THREADS) concat_##T(Concat<T> parts, T *to) { enter(); concat<1>(parts, to); }                \
    KERNEL(FILL_THREADS) concat_##T##_rows(Concat<T> parts, T *to) { enter(); concat<Lanes<T>::count>(parts, to); }
FOR_ALL_DTYPES(ENTRY)
