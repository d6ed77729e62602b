// From the linear index of an element to its offset in memory: shapes and strides by value, and division
// by a multiplication and a shift. The launch layer (src/layout.rs) collapses dimensions and cuts tensors so that a linear index always stays below 2^31.
#pragma once

#define MAX_DIMS 8
SHARE(MAX_DIMS)

DEVICE u32 mul_high(u32 a, u32 b) { return (u32)(((u64)a * b) >> 32); }

// Division of n < 2^31 by an invariant divisor in 1 ..= 2^31: n / d = (high(n * magic) + n) >> shift.
struct Divider {
    u32 divisor;
    u32 magic;
    u32 shift;

    MEMBER u32 quotient(u32 n) const { return (mul_high(n, magic) + n) >> shift; }
};
SHARE_LAYOUT(Divider, divisor, magic, shift)

// Splits n into quotient and remainder by one divider.
struct Division {
    u32 quotient, remainder;
};
DEVICE Division divide(u32 n, const Divider &by) {
    u32 quotient = by.quotient(n);
    return Division{quotient, n - quotient * by.divisor};
}

// The common shape of an operation and the strides of its operands. Dimension 0 is the innermost.
// Strides count elements and are 64 bits wide: a product of u32 and u64 costs no more than one of two u32.
template <u32 OPERANDS> struct Strided {
    u32 rank;  // 1 ..= MAX_DIMS
    u32 count; // elements: the product of the sizes
    Divider size[MAX_DIMS];
    u64 stride[OPERANDS][MAX_DIMS];

    // The offsets of element `index` in each operand.
    MEMBER void offsets(u32 index, u64 (&out)[OPERANDS]) const {
        UNROLL
        for (u32 k = 0; k < OPERANDS; k++) out[k] = 0;
        u32 last = rank - 1;
        for (u32 d = 0; d < last; d++) {
            Division split = divide(index, size[d]);
            index = split.quotient;
            UNROLL
            for (u32 k = 0; k < OPERANDS; k++) out[k] += split.remainder * stride[k][d];
        }
        UNROLL
        for (u32 k = 0; k < OPERANDS; k++) out[k] += index * stride[k][last];
    }
};

#if defined(TARGET_HOST)
typedef Strided<1> Strided1;
typedef Strided<4> Strided4;
SHARE_LAYOUT(Strided1, rank, count, size, stride)
SHARE_LAYOUT(Strided4, rank, count, size, stride)
#endif

// One tensor: `layout.offset(i)` is where its i-th element (row-major) lies.
struct Layout : Strided<1> {
    MEMBER u64 offset(u32 index) const {
        u64 out[1];
        this->offsets(index, out);
        return out[0];
    }
};
