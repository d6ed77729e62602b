// Weights into blocks, for the formats whose rule is one pass of plain f32 arithmetic: the bytes are those that
// Candle's CPU quantizer makes. The K formats other than Q8K search for their scales; they are quantized on the CPU.
// One thread makes one block: this runs once when a model is quantized, never while it runs.
#pragma once

constexpr u32 ENCODE_THREADS = 64;
SHARE(ENCODE_THREADS)

DEVICE void put_half(u8 *at, f32 value) { *(f16 *)at = f32_to_f16(product_alone(value)); }
DEVICE f32 inverse_or_zero(f32 d) { return d != 0.0f ? 1.0f / d : 0.0f; }

// The first value of the largest magnitude, with its sign.
template <u32 COUNT> DEVICE f32 extreme(const f32 *values) {
    f32 magnitude = 0.0f, extreme = 0.0f;
    NO_UNROLL
    for (u32 i = 0; i < COUNT; i++) {
        if (magnitude < abs_(values[i])) {
            magnitude = abs_(values[i]);
            extreme = values[i];
        }
    }
    return extreme;
}

// Q4_0 and Q5_0: integers around LIMIT. Q4_1 and Q5_1: integers from the least value up.
template <u32 BITS, bool FROM_LEAST> DEVICE void encode_nibbles(const f32 *values, u8 *block) {
    constexpr u32 LIMIT = 1u << (BITS - 1), HIGHEST = 2 * LIMIT - 1, HEAD = FROM_LEAST ? 4 : 2;
    f32 d, least = 0.0f;
    if constexpr (FROM_LEAST) {
        least = Limits<f32>::highest();
        f32 greatest = Limits<f32>::lowest();
        NO_UNROLL
        for (u32 i = 0; i < 32; i++) {
            // A NaN is passed over, as Rust's f32::min and f32::max do.
            least = values[i] < least ? values[i] : least;
            greatest = values[i] > greatest ? values[i] : greatest;
        }
        d = (greatest - least) / (f32)HIGHEST;
        put_half(block + 2, least);
    } else {
        d = extreme<32>(values) / -(f32)LIMIT;
    }
    put_half(block, d);
    const f32 inverse = inverse_or_zero(d);
    const f32 half_up = FROM_LEAST ? 0.5f : (f32)LIMIT + 0.5f;
    u32 fifth = 0;
    u8 *nibbles = block + HEAD + (BITS == 5 ? 4 : 0);
    NO_UNROLL
    for (u32 i = 0; i < 16; i++) {
        u32 q[2];
        UNROLL
        for (u32 h = 0; h < 2; h++) {
            const f32 x = rounded_product(values[i + 16 * h] - least, inverse) + half_up;
            // Candle clamps after truncating to a byte; Q5_1 keeps the low five bits instead.
            const u32 whole = BITS == 5 && !FROM_LEAST ? (u32)saturate<i8>(x) & 0xff : (u32)saturate<u8>(x);
            q[h] = BITS == 5 && FROM_LEAST ? whole & 31 : min_of(whole, HIGHEST);
            fifth |= (q[h] >> 4) << (i + 16 * h);
        }
        nibbles[i] = (u8)((q[0] & 15) | (q[1] & 15) << 4);
    }
    if constexpr (BITS == 5) {
        UNROLL
        for (u32 i = 0; i < 4; i++) block[HEAD + i] = (u8)(fifth >> (8 * i));
    }
}

// Q8_0 and Q8_1. The latter stores its step times the sum of its bytes too, in f16 arithmetic.
template <bool WITH_SUM> DEVICE void encode_bytes(const f32 *values, u8 *block) {
    f32 magnitude = 0.0f;
    NO_UNROLL
    for (u32 i = 0; i < 32; i++) magnitude = abs_(values[i]) > magnitude ? abs_(values[i]) : magnitude;
    const f32 d = magnitude / 127.0f, inverse = inverse_or_zero(d);
    put_half(block, d);
    i32 sum = 0;
    NO_UNROLL
    for (u32 i = 0; i < 32; i++) {
        const i8 q = saturate<i8>(round_(rounded_product(values[i], inverse)));
        block[(WITH_SUM ? 4 : 2) + i] = (u8)q;
        sum += q;
    }
    // An f16 product is the f32 product of its factors, rounded: 11 + 11 bits fit into 24.
    if (WITH_SUM) put_half(block + 2, f16_to_f32(f32_to_f16((f32)sum)) * f16_to_f32(f32_to_f16(d)));
}

DEVICE void encode_q8k(const f32 *values, u8 *block) {
    const f32 most = extreme<256>(values);
    const f32 inverse = most == 0.0f ? 0.0f : -127.0f / most;
    i16 *sums = (i16 *)(block + 4 + 256);
    NO_UNROLL
    for (u32 piece = 0; piece < 16; piece++) {
        i32 sum = 0;
        NO_UNROLL
        for (u32 i = 0; i < 16; i++) {
            const i8 q = saturate<i8>(round_(rounded_product(inverse, values[16 * piece + i])));
            block[4 + 16 * piece + i] = (u8)q;
            sum += q;
        }
        sums[piece] = (i16)sum;
    }
    *(f32 *)block = most == 0.0f ? 0.0f : 1.0f / inverse;
}

// Block i of `count`: its values to its bytes, by one of the functions above.
template <u32 ELEMENTS, u32 BYTES, typename Encode>
DEVICE void encode(const f32 *RESTRICT values, u8 *RESTRICT blocks, u32 count, Encode one) {
    const u32 block = block_x() * ENCODE_THREADS + thread_x();
    if (block < count) one(values + (u64)block * ELEMENTS, blocks + (u64)block * BYTES);
}
