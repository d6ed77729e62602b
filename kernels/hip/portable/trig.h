// sin_ and cos_ for f32 and f64 over the whole range: the argument is reduced by multiples of pi/2 in f64, with
// pi/2 in four pieces up to 2^20 and with the bits of 2/pi that matter above; then a series on +-pi/4.
#pragma once

// x = quadrant * pi/2 + high + low, |high| <= pi/4 and a little.
struct Angle {
    u32 quadrant;
    f64 high, low;
};

#if defined(TARGET_HOST)
#define DEVICE_TABLE static const
#else
#define DEVICE_TABLE static __device__ const
#endif

// 2/pi in binary, after 64 zero bits.
DEVICE_TABLE u64 TWO_OVER_PI[21] = {
    0x0000000000000000ull, 0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull,
    0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull,
    0x4f463f669e5fea2dull, 0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull,
    0xf0cfbc209af4361dull};

DEVICE u64 mul_high(u64 a, u64 b) {
    u64 al = (u32)a, ah = a >> 32, bl = (u32)b, bh = b >> 32;
    u64 middle = ah * bl + ((al * bl) >> 32);
    u64 other = al * bh + (u32)middle;
    return ah * bh + (middle >> 32) + (other >> 32);
}

// For 2^20 <= |x| < infinity. x is m 2^e; bits of 2/pi worth 4 or more after the product are multiples of a whole turn
// and are never read; 192 bits from there on leave 75 good ones in the worst case.
DEVICE Angle reduce_large(f64 x) {
    u64 bits = bit_cast<u64>(x);
    i32 e = (i32)((bits >> 52) & 0x7ff) - 1075;
    u64 m = (bits & 0x000fffffffffffffull) | 0x0010000000000000ull;
    // The window starts at the bit of 2/pi that is worth 2^(1 - e); bit 1 (worth 1/2) is bit 64 of the table.
    u32 start = (u32)(e + 62);
    u32 word = start >> 6, shift = start & 63;
    u64 w[3];
    UNROLL
    for (u32 i = 0; i < 3; i++) {
        u64 first = TWO_OVER_PI[word + i];
        u64 second = word + i + 1 < 21 ? TWO_OVER_PI[word + i + 1] : 0;
        w[i] = shift == 0 ? first : (first << shift) | (second >> (64 - shift));
    }
    // The low 192 bits of m * w.
    u64 low = m * w[2];
    u64 carry = mul_high(m, w[2]);
    u64 middle = m * w[1] + carry;
    u64 high = m * w[0] + mul_high(m, w[1]) + (middle < carry ? 1 : 0);
    u32 quadrant = (u32)(high >> 62);
    // The fraction of a quadrant in 128 bits, as a signed number in [-1/2, 1/2).
    high = (high << 2) | (middle >> 62);
    middle = (middle << 2) | (low >> 62);
    quadrant += (u32)(high >> 63);
    i64 top = (i64)high;
    f64 lead = (f64)top;
    // `lead` may round up to 2^63, one beyond i64.
    i64 rest = lead >= 0x1p63 ? top - 0x7fffffffffffffffll - 1 : top - (i64)lead;
    f64 tail = (f64)rest + (f64)middle * 0x1p-64;
    f64 turn_high = lead * 0x1p-64, turn_low = tail * 0x1p-64;
    f64 r = turn_high * 0x1.921fb54442d18p+0;
    f64 r_low = turn_high * 0x1.1a62633145c07p-54 + turn_low * 0x1.921fb54442d18p+0;
    if (x < 0.0) return Angle{0u - quadrant, -r, -r_low};
    return Angle{quadrant, r, r_low};
}

DEVICE Angle reduce_angle(f64 x) {
    if (!(abs_(x) < 1048576.0)) {
        f64 infinity = Limits<f64>::highest();
        if (abs_(x) < infinity) return reduce_large(x);
        return Angle{0, x - x, 0.0}; // NaN and the infinities
    }
    f64 n = nearest(x * 0.63661977236758134308);
    // Each piece has 33 bits and n has 20: the products are exact.
    f64 a = x - n * 0x1.921fb544p+0;
    f64 second = n * 0x1.0b4611a6p-34;
    f64 b = a - second;
    f64 third = n * 0x1.3198a2ep-69;
    f64 c = b - third;
    f64 lost = ((a - b) - second) + ((b - c) - third) - n * 0x1.b839a252049c1p-104;
    f64 high = c + lost;
    return Angle{(u32)(i32)n, high, (c - high) + lost};
}

DEVICE f64 sin_series(f64 r, f64 low) {
    f64 z = r * r;
    f64 p = horner(z, 1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0,
                   1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0);
    return r + (r * z * p + low * (1.0 - 0.5 * z));
}
DEVICE f64 cos_series(f64 r, f64 low) {
    f64 z = r * r;
    f64 p = horner(z, -1.0 / 6402373705728000.0, 1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0,
                   -1.0 / 3628800.0, 1.0 / 40320.0, -1.0 / 720.0, 1.0 / 24.0);
    f64 half = 0.5 * z;
    f64 lead = 1.0 - half;
    return lead + (((1.0 - lead) - half) + (z * z * p - r * low));
}
DEVICE f32 sin_series(f32 r) {
    f32 z = r * r;
    return r + r * z * horner(z, 1.0f / 362880, -1.0f / 5040, 1.0f / 120, -1.0f / 6);
}
DEVICE f32 cos_series(f32 r) {
    f32 z = r * r;
    f32 half = 0.5f * z;
    f32 lead = 1.0f - half;
    return lead + (((1.0f - lead) - half) + z * z * horner(z, -1.0f / 3628800, 1.0f / 40320, -1.0f / 720, 1.0f / 24));
}

// sin(x) when shift is 0, cos(x) = sin(x + pi/2) when it is 1.
DEVICE f64 sine(f64 x, u32 shift) {
    Angle t = reduce_angle(x);
    u32 quadrant = t.quadrant + shift;
    f64 value = quadrant & 1 ? cos_series(t.high, t.low) : sin_series(t.high, t.low);
    return quadrant & 2 ? -value : value;
}
DEVICE f32 sine(f32 x, u32 shift) {
    Angle t = reduce_angle((f64)x);
    u32 quadrant = t.quadrant + shift;
    f32 r = (f32)t.high;
    f32 value = quadrant & 1 ? cos_series(r) : sin_series(r);
    return quadrant & 2 ? -value : value;
}
template <typename F> DEVICE F sin_(F x) { return x == (F)0 ? x : sine(x, 0); }
template <typename F> DEVICE F cos_(F x) { return sine(x, 1); }
