// GGML's block formats, each written down once: where its bits lie, and what they stand for.
// Every kernel is built from three facts about a format. A block is cut into pieces of 16 consecutive
// weights that share one scale; `quads` gives the integers of a piece, four to a word; `scale` gives what they mean:
//     weight = scale * (integer - ZERO) + offset          (offset only where HAS_OFFSET)
// Scales and integers have so few bits that scale * integer is exact in f32: dequantizing gives the same bits
// as Candle on the CPU, whether or not the compiler fuses the multiplication and the addition.
#pragma once

constexpr u32 PIECE = 16; // weights that share a scale in every format

struct Scale {
    f32 scale, offset;
};

// What a format declares:
//   ELEMENTS, BYTES, ALIGN   of a block
//   ZERO, HAS_OFFSET         see above
//   MERGE                    neighbouring pieces with one scale between them: 1 or 2
//   UNIT                     pieces that are cut from the same bytes; a thread of the mat-vec kernel takes them together
//   piece(unit, i)           the i-th piece of a unit of the block
//   quads<N>(block, piece, first)   N words of the piece, from word `first` on

template <u32 BYTES_, u32 ZERO_, bool HAS_OFFSET_> struct SmallFormat {
    static constexpr u32 ELEMENTS = 32, BYTES = BYTES_, ALIGN = BYTES_ % 4 == 0 ? 4 : 2;
    static constexpr u32 ZERO = ZERO_, MERGE = 2, UNIT = 2;
    static constexpr bool HAS_OFFSET = HAS_OFFSET_;
    static MEMBER u32 piece(u32, u32 i) { return i; }
};

// Four bits, spread to bit `to` of the four bytes.
DEVICE u32 spread(u32 bits, u32 to) {
    bits &= 0xf;
    return ((bits | bits << 7 | bits << 14 | bits << 21) & 0x01010101u) << to;
}

struct Q4_0 : SmallFormat<18, 8, false> { // d, 16 bytes: low nibbles, then high nibbles
    template <u32 N> static MEMBER Words<N> quads(const u8 *block, u32 piece, u32 first) {
        Words<N> q = words<N, ALIGN>(block + 2 + 4 * first);
        UNROLL
        for (u32 i = 0; i < N; i++) q[i] = (q[i] >> (4 * piece)) & 0x0f0f0f0fu;
        return q;
    }
    static MEMBER Scale scale(const u8 *block, u32) { return Scale{f32_at(block), 0.0f}; }
};

struct Q4_1 : SmallFormat<20, 0, true> { // d, m, nibbles as in Q4_0
    template <u32 N> static MEMBER Words<N> quads(const u8 *block, u32 piece, u32 first) {
        Words<N> q = words<N, ALIGN>(block + 4 + 4 * first);
        UNROLL
        for (u32 i = 0; i < N; i++) q[i] = (q[i] >> (4 * piece)) & 0x0f0f0f0fu;
        return q;
    }
    static MEMBER Scale scale(const u8 *block, u32) { return Scale{f32_at(block), f32_at(block + 2)}; }
};

// The fifth bits of Q5_0 and Q5_1 are one word: bit i belongs to weight i.
template <u32 N, u32 ALIGN> DEVICE Words<N> fifth_bits(const u8 *high, const u8 *low, u32 piece, u32 first) {
    Words<N> q = words<N, ALIGN>(low + 4 * first);
    const u32 bits = words<1, ALIGN>(high)[0] >> (PIECE * piece);
    UNROLL
    for (u32 i = 0; i < N; i++) {
        q[i] = ((q[i] >> (4 * piece)) & 0x0f0f0f0fu) | spread(bits >> (4 * (first + i)), 4);
    }
    return q;
}

struct Q5_0 : SmallFormat<22, 16, false> { // d, fifth bits, nibbles as in Q4_0
    template <u32 N> static MEMBER Words<N> quads(const u8 *block, u32 piece, u32 first) {
        return fifth_bits<N, ALIGN>(block + 2, block + 6, piece, first);
    }
    static MEMBER Scale scale(const u8 *block, u32) { return Scale{f32_at(block), 0.0f}; }
};

struct Q5_1 : SmallFormat<24, 0, true> { // d, m, fifth bits, nibbles as in Q4_0
    template <u32 N> static MEMBER Words<N> quads(const u8 *block, u32 piece, u32 first) {
        return fifth_bits<N, ALIGN>(block + 4, block + 8, piece, first);
    }
    static MEMBER Scale scale(const u8 *block, u32) { return Scale{f32_at(block), f32_at(block + 2)}; }
};

struct Q8_0 : SmallFormat<34, 0, false> { // d, 32 signed bytes
    template <u32 N> static MEMBER Words<N> quads(const u8 *block, u32 piece, u32 first) {
        return words<N, ALIGN>(block + 2 + PIECE * piece + 4 * first);
    }
    static MEMBER Scale scale(const u8 *block, u32) { return Scale{f32_at(block), 0.0f}; }
};

struct Q8_1 : SmallFormat<36, 0, false> { // d, d * sum of the integers, 32 signed bytes
    template <u32 N> static MEMBER Words<N> quads(const u8 *block, u32 piece, u32 first) {
        return words<N, ALIGN>(block + 4 + PIECE * piece + 4 * first);
    }
    static MEMBER Scale scale(const u8 *block, u32) { return Scale{f32_at(block), 0.0f}; }
};

template <u32 BYTES_, u32 ALIGN_, u32 ZERO_, bool HAS_OFFSET_, u32 MERGE_, u32 UNIT_> struct LargeFormat {
    static constexpr u32 ELEMENTS = 256, BYTES = BYTES_, ALIGN = ALIGN_;
    static constexpr u32 ZERO = ZERO_, MERGE = MERGE_, UNIT = UNIT_;
    static constexpr bool HAS_OFFSET = HAS_OFFSET_;
};

// Q2K, Q3K and Q6K: half a block of 128 weights is eight pieces; piece 2 * j + h of them lies in the h-th 16 bytes of a
// plane, in its j-th bit field. A unit is the four pieces with the same h.
template <u32 BYTES, u32 ALIGN, u32 ZERO, bool HAS_OFFSET>
struct PlaneFormat : LargeFormat<BYTES, ALIGN, ZERO, HAS_OFFSET, 1, 4> {
    static MEMBER u32 piece(u32 unit, u32 i) { return 8 * (unit / 2) + 2 * i + unit % 2; }
};

struct Q2K : PlaneFormat<84, 4, 0, true> { // 16 bytes of scale and minimum, 64 bytes of two-bit fields, d, dmin
    template <u32 N> static MEMBER Words<N> quads(const u8 *block, u32 piece, u32 first) {
        const u32 half = piece / 8, field = piece / 2 % 4, h = piece % 2;
        Words<N> q = words<N, ALIGN>(block + 16 + 32 * half + 16 * h + 4 * first);
        UNROLL
        for (u32 i = 0; i < N; i++) q[i] = (q[i] >> (2 * field)) & 0x03030303u;
        return q;
    }
    static MEMBER Scale scale(const u8 *block, u32 piece) {
        const u32 both = words<1, ALIGN>(block + 4 * (piece / 4))[0] >> (8 * (piece % 4));
        return Scale{f32_at(block + 80) * (f32)(both & 15), f32_at(block + 82) * -(f32)((both >> 4) & 15)};
    }
};

struct Q3K : PlaneFormat<110, 2, 4, false> { // 32 bytes of third bits, 64 bytes of two-bit fields, 12 of scales, d
    template <u32 N> static MEMBER Words<N> quads(const u8 *block, u32 piece, u32 first) {
        const u32 half = piece / 8, field = piece / 2 % 4, h = piece % 2;
        Words<N> q = words<N, ALIGN>(block + 32 + 32 * half + 16 * h + 4 * first);
        const Words<N> high = words<N, ALIGN>(block + 16 * h + 4 * first);
        UNROLL
        for (u32 i = 0; i < N; i++) {
            q[i] = ((q[i] >> (2 * field)) & 0x03030303u) | ((high[i] >> (4 * half + field)) & 0x01010101u) << 2;
        }
        return q;
    }
    static MEMBER Scale scale(const u8 *block, u32 piece) {
        // Six bits a piece: four in the nibbles of eight bytes, two in the fields of four more.
        const Words<3> bits = words<3, ALIGN>(block + 96);
        const u32 nibbles = piece & 4 ? bits[1] : bits[0];
        const u32 low = (nibbles >> (8 * (piece % 4) + 4 * (piece / 8))) & 15;
        const u32 high = (bits[2] >> (8 * (piece % 4) + 2 * (piece / 4))) & 3;
        return Scale{f32_at(block + 108) * (f32)((i32)(low | high << 4) - 32), 0.0f};
    }
};

struct Q6K : PlaneFormat<210, 2, 32, false> { // 128 bytes of nibbles, 64 bytes of two-bit fields, 16 scales, d
    template <u32 N> static MEMBER Words<N> quads(const u8 *block, u32 piece, u32 first) {
        const u32 half = piece / 8, field = piece / 2 % 4, h = piece % 2;
        Words<N> q = words<N, ALIGN>(block + 64 * half + 32 * (field % 2) + 16 * h + 4 * first);
        const Words<N> high = words<N, ALIGN>(block + 128 + 32 * half + 16 * h + 4 * first);
        UNROLL
        for (u32 i = 0; i < N; i++) {
            q[i] = ((q[i] >> (4 * (field / 2))) & 0x0f0f0f0fu) | ((high[i] >> (2 * field)) & 0x03030303u) << 4;
        }
        return q;
    }
    static MEMBER Scale scale(const u8 *block, u32 piece) {
        const u32 scales = words<1, ALIGN>(block + 192 + 4 * (piece / 4))[0];
        return Scale{f32_at(block + 208) * (f32)(i8)(scales >> (8 * (piece % 4))), 0.0f};
    }
};

// Q4K and Q5K: d, dmin, 12 bytes of scales and minimums (six bits each, for 32 weights); 64 weights are the low and then
// the high nibbles of 32 bytes. A unit is such a quarter of the block.
DEVICE Scale six_bit_scale(const u8 *block, u32 piece) {
    const Words<4> head = words<4, 16>(block);
    const u32 group = piece / 2, shift = 8 * (group % 4);
    const u32 a = head[1] >> shift, b = head[2] >> shift, c = head[3] >> shift;
    const u32 scale = group < 4 ? a & 63 : (c & 15) | ((a >> 6) & 3) << 4;
    const u32 minimum = group < 4 ? b & 63 : ((c >> 4) & 15) | ((b >> 6) & 3) << 4;
    const f32 d = f16_to_f32(f16{(u16)head[0]}), dmin = f16_to_f32(f16{(u16)(head[0] >> 16)});
    return Scale{d * (f32)scale, dmin * -(f32)minimum};
}

struct Q4K : LargeFormat<144, 16, 0, true, 2, 4> {
    static MEMBER u32 piece(u32 unit, u32 i) { return 4 * unit + i; }
    template <u32 N> static MEMBER Words<N> quads(const u8 *block, u32 piece, u32 first) {
        const u32 quarter = piece / 4, nibble = piece / 2 % 2, h = piece % 2;
        Words<N> q = words<N, N == 4 ? 16 : 4>(block + 16 + 32 * quarter + 16 * h + 4 * first);
        UNROLL
        for (u32 i = 0; i < N; i++) q[i] = (q[i] >> (4 * nibble)) & 0x0f0f0f0fu;
        return q;
    }
    static MEMBER Scale scale(const u8 *block, u32 piece) { return six_bit_scale(block, piece); }
};

struct Q5K : LargeFormat<176, 16, 0, true, 2, 4> { // as Q4K, with 32 bytes of fifth bits before the nibbles
    static MEMBER u32 piece(u32 unit, u32 i) { return 4 * unit + i; }
    template <u32 N> static MEMBER Words<N> quads(const u8 *block, u32 piece, u32 first) {
        const u32 quarter = piece / 4, nibble = piece / 2 % 2, h = piece % 2;
        Words<N> q = words<N, N == 4 ? 16 : 4>(block + 48 + 32 * quarter + 16 * h + 4 * first);
        const Words<N> high = words<N, N == 4 ? 16 : 4>(block + 16 + 16 * h + 4 * first);
        UNROLL
        for (u32 i = 0; i < N; i++) {
            q[i] = ((q[i] >> (4 * nibble)) & 0x0f0f0f0fu) | ((high[i] >> (piece / 2)) & 0x01010101u) << 4;
        }
        return q;
    }
    static MEMBER Scale scale(const u8 *block, u32 piece) { return six_bit_scale(block, piece); }
};

struct Q8K : LargeFormat<292, 4, 0, false, 2, 2> { // d (f32), 256 signed bytes, 16 sums of 16
    static MEMBER u32 piece(u32 unit, u32 i) { return 2 * unit + i; }
    template <u32 N> static MEMBER Words<N> quads(const u8 *block, u32 piece, u32 first) {
        return words<N, ALIGN>(block + 4 + PIECE * piece + 4 * first);
    }
    static MEMBER Scale scale(const u8 *block, u32) { return Scale{*(const f32 *)block, 0.0f}; }
};

// The formats by the name their kernels carry.
#define FOR_QUANTIZED(X, ...)                                                                                          \
    X(q4_0, Q4_0, ##__VA_ARGS__) X(q4_1, Q4_1, ##__VA_ARGS__) X(q5_0, Q5_0, ##__VA_ARGS__)                             \
    X(q5_1, Q5_1, ##__VA_ARGS__) X(q8_0, Q8_0, ##__VA_ARGS__) X(q8_1, Q8_1, ##__VA_ARGS__)                             \
    X(q2k, Q2K, ##__VA_ARGS__) X(q3k, Q3K, ##__VA_ARGS__) X(q4k, Q4K, ##__VA_ARGS__)                                   \
    X(q5k, Q5K, ##__VA_ARGS__) X(q6k, Q6K, ##__VA_ARGS__) X(q8k, Q8K, ##__VA_ARGS__)
