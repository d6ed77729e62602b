// Elementary functions for f32 and f64: exp_, expm1_, log_, tanh_, erf_, pow_, and the roundings.
// Ours, because a bare amdgcn compiler has none of these in f64 and no tanh or erf at all; used on every target, so that
// the embedded device tests the code that a GPU runs. Errors stay within a few ulp (tests/kernels/accuracy.rs measures them).
// Nothing here depends on whether a product and a sum are fused. sin_ and cos_ live in trig.h.
#pragma once

#if defined(TARGET_NVIDIA)
DEVICE f32 sqrt_(f32 x) { return sqrtf(x); }
DEVICE f64 sqrt_(f64 x) { return sqrt(x); }
DEVICE f32 floor_(f32 x) { return floorf(x); }
DEVICE f64 floor_(f64 x) { return floor(x); }
DEVICE f32 ceil_(f32 x) { return ceilf(x); }
DEVICE f64 ceil_(f64 x) { return ceil(x); }
DEVICE f32 trunc_(f32 x) { return truncf(x); }
DEVICE f64 trunc_(f64 x) { return trunc(x); }
DEVICE f32 fused(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
DEVICE f64 fused(f64 a, f64 b, f64 c) { return fma(a, b, c); }
#else
DEVICE f32 sqrt_(f32 x) { return __builtin_sqrtf(x); }
DEVICE f64 sqrt_(f64 x) { return __builtin_sqrt(x); }
DEVICE f32 floor_(f32 x) { return __builtin_floorf(x); }
DEVICE f64 floor_(f64 x) { return __builtin_floor(x); }
DEVICE f32 ceil_(f32 x) { return __builtin_ceilf(x); }
DEVICE f64 ceil_(f64 x) { return __builtin_ceil(x); }
DEVICE f32 trunc_(f32 x) { return __builtin_truncf(x); }
DEVICE f64 trunc_(f64 x) { return __builtin_trunc(x); }
// a * b + c, rounded once.
DEVICE f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
DEVICE f64 fused(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
#endif

DEVICE f32 abs_(f32 x) { return bit_cast<f32>(bit_cast<u32>(x) & 0x7fffffffu); }
DEVICE f64 abs_(f64 x) { return bit_cast<f64>(bit_cast<u64>(x) & 0x7fffffffffffffffull); }
DEVICE f32 copysign_(f32 x, f32 sign) {
    return bit_cast<f32>((bit_cast<u32>(x) & 0x7fffffffu) | (bit_cast<u32>(sign) & 0x80000000u));
}
DEVICE f64 copysign_(f64 x, f64 sign) {
    return bit_cast<f64>((bit_cast<u64>(x) & ~(1ull << 63)) | (bit_cast<u64>(sign) & (1ull << 63)));
}
template <typename T> DEVICE bool is_nan(T x) { return x != x; }
DEVICE bool is_negative(f32 x) { return bit_cast<u32>(x) >> 31; }
DEVICE bool is_negative(f64 x) { return bit_cast<u64>(x) >> 63; }

// Half away from zero, as Rust's `round`.
template <typename F> DEVICE F round_(F x) {
    F whole = trunc_(x);
    F rest = abs_(x - whole);
    return copysign_(rest >= (F)0.5 ? abs_(whole) + (F)1 : abs_(whole), x);
}

// A polynomial, highest power first.
template <typename F> DEVICE F horner(F, F constant) { return constant; }
template <typename F, typename... Rest> DEVICE F horner(F x, F first, F second, Rest... rest) {
    return horner(x, first * x + second, rest...);
}

// The nearest integer of a value below 2^22 (2^51) in magnitude: adding 1.5 * 2^23 leaves no bits below one.
DEVICE f32 nearest(f32 x) { return x + 12582912.0f - 12582912.0f; }
DEVICE f64 nearest(f64 x) { return x + 6755399441055744.0 - 6755399441055744.0; }

// 2^k for k within the normal range.
DEVICE f32 power_of_two(i32 k, f32) { return bit_cast<f32>((u32)(k + 127) << 23); }
DEVICE f64 power_of_two(i32 k, f64) { return bit_cast<f64>((u64)(k + 1023) << 52); }

// x = k ln 2 + r with |r| <= ln 2 / 2. The high part of ln 2 is short: k times it is exact.
template <typename F> struct Reduced {
    i32 k;
    F r;
};
DEVICE Reduced<f32> reduce_exp(f32 x) {
    f32 k = nearest(x * 1.44269504f);
    return Reduced<f32>{(i32)k, (x - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f};
}
DEVICE Reduced<f64> reduce_exp(f64 x) {
    f64 k = nearest(x * 1.4426950408889634074);
    return Reduced<f64>{(i32)k, (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33};
}

// e^r - 1 for |r| <= ln 2 / 2: Taylor's series, cut where it falls below a quarter ulp.
DEVICE f32 expm1_near_zero(f32 r) {
    return r + r * r * horner(r, 1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f);
}
DEVICE f64 expm1_near_zero(f64 r) {
    return r + r * r * horner(r, 1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
                              1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0,
                              1.0 / 6.0, 0.5);
}

// Beyond these the result is infinite, or 0 (e^x), whatever the exact argument.
DEVICE f32 exp_highest(f32) { return 89.0f; }
DEVICE f64 exp_highest(f64) { return 710.0; }
DEVICE f32 exp_lowest(f32) { return -104.0f; }
DEVICE f64 exp_lowest(f64) { return -746.0; }

template <typename F> DEVICE F exp_(F x) {
    F inside = x < exp_lowest(x) ? exp_lowest(x) : x;
    inside = inside > exp_highest(x) ? exp_highest(x) : inside;
    Reduced<F> t = reduce_exp(inside == inside ? inside : (F)0);
    // Two factors: one power of two alone would leave the range for subnormal and very large results.
    i32 half = t.k >> 1;
    F result = ((F)1 + expm1_near_zero(t.r)) * power_of_two(half, x) * power_of_two(t.k - half, x);
    return x == x ? result : x;
}

// e^x - 1 without cancellation; for x up to exp_highest / 2, which is what tanh needs.
template <typename F> DEVICE F expm1_(F x) {
    Reduced<F> t = reduce_exp(x);
    F scale = power_of_two(t.k, x);
    return expm1_near_zero(t.r) * scale + (scale - (F)1);
}

template <typename F> DEVICE F tanh_(F x) {
    // 1 - tanh(22) is below half an ulp of 1 in f64.
    F magnitude = min_of(abs_(x), (F)22);
    F t = expm1_((F)2 * magnitude);
    F result = copysign_(t / (t + (F)2), x);
    return x == x ? result : x;
}

// log(1 + f) = 2 atanh(s), s = f / (2 + f), |s| < 0.172: this is 2 atanh(s) / s - 2, a series in s^2.
DEVICE f32 atanh_series(f32 z) { return z * horner(z, 2.0f / 11, 2.0f / 9, 2.0f / 7, 2.0f / 5, 2.0f / 3); }
DEVICE f64 atanh_series(f64 z) {
    return z * horner(z, 2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5,
                      2.0 / 3);
}

// x = 2^k (1 + f), 1 + f between sqrt(1/2) and sqrt(2).
template <typename F> struct Split {
    F k, f;
};
DEVICE Split<f32> split_log(f32 x) {
    i32 adjust = 0;
    if (x < 0x1p-126f) {
        x *= 0x1p25f;
        adjust = -25;
    }
    u32 bits = bit_cast<u32>(x);
    // Moves the cut between exponents from 1 to sqrt(1/2).
    u32 shifted = bits + (0x3f800000u - 0x3f3504f3u);
    i32 k = (i32)(shifted >> 23) - 127;
    return Split<f32>{(f32)(k + adjust), bit_cast<f32>((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f};
}
DEVICE Split<f64> split_log(f64 x) {
    i32 adjust = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        adjust = -54;
    }
    u64 bits = bit_cast<u64>(x);
    u64 shifted = bits + (0x3ff0000000000000ull - 0x3fe6a09e667f3bcdull);
    i32 k = (i32)(shifted >> 52) - 1023;
    return Split<f64>{(f64)(k + adjust),
                      bit_cast<f64>((shifted & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1.0};
}
DEVICE f32 ln2_high(f32) { return 0x1.62e4p-1f; }
DEVICE f32 ln2_low(f32) { return 0x1.7f7d1cp-20f; }
DEVICE f64 ln2_high(f64) { return 0x1.62e42feep-1; }
DEVICE f64 ln2_low(f64) { return 0x1.a39ef35793c76p-33; }

template <typename F> DEVICE F log_(F x) {
    if (!(x > (F)0) || x == Limits<F>::highest()) {
        if (x == (F)0) return Limits<F>::lowest();
        return x < (F)0 ? Limits<F>::highest() - Limits<F>::highest() : x;
    }
    Split<F> t = split_log(x);
    F s = t.f / ((F)2 + t.f);
    F half_square = (F)0.5 * t.f * t.f;
    // f - f^2/2 + s (f^2/2 + series): the large terms are exact or nearly so.
    F small = s * (half_square + atanh_series(s * s)) + t.k * ln2_low(x);
    return t.k * ln2_high(x) - ((half_square - small) - t.f);
}

// erf: a polynomial in x^2 up to 1, and 1 - e^(-x^2) q((x - 2) / (x + 2)) above, where erfc is small enough
// for its own error not to matter. Coefficients: Chebyshev fits, error below 1e-18 (f64) and 1e-9 (f32).
DEVICE f64 erf_(f64 x) {
    f64 a = min_of(abs_(x), 6.0);
    f64 result;
    if (a < 1.0) {
        f64 p = horner(a * a, 5.957176147748911404e-11, -1.137284885679167367e-9, 1.465977527404743581e-8,
                       -1.635031270105469501e-7, 1.646100048412136803e-6, -0.00001492559526683118157,
                       0.0001205533111164271092, -0.0008548326980833789905, 0.005223977624818014467,
                       -0.02686617064507679325, 0.1128379167095487867, -0.3761263890318374806, 1.128379167095512574);
        result = a * p;
    } else {
        f64 t = (a - 2.0) / (a + 2.0);
        f64 q = horner(t, -2.228129576372350174e-7, 4.146302183268487723e-6, 1.859427387429401975e-6,
                       -0.00001416633906911710816, -0.00002764072782191285358, 0.00002756035275667831323,
                       0.0001743647725725673693, 0.00004355265359817882770, -0.0009819771114740715311,
                       -0.0008471431229415333417, 0.006997461739200574742, 0.003732892401656448150,
                       -0.07897858101571269368, 0.2416581942424876266, -0.4271858474139584924, 0.2553956763105057162);
        result = 1.0 - exp_(-a * a) * q;
    }
    return x == x ? copysign_(result, x) : x;
}
DEVICE f32 erf_(f32 x) {
    f32 a = min_of(abs_(x), 4.0f);
    f32 near = a * horner(a * a, 7.875875063e-5f, -0.0008016864287f, 0.005189087423f, -0.02685421201f, 0.1128359472f,
                          -0.3761262667f, 1.128379166f);
    f32 t = (a - 2.0f) / (a + 2.0f);
    f32 q = horner(t, -0.0009441596341f, -0.0008365899736f, 0.006994855414f, 0.003732141351f, -0.07897852327f,
                   0.2416582111f, -0.4271858476f, 0.2553956763f);
    f32 far = 1.0f - exp_(-a * a) * q;
    return x == x ? copysign_(a < 1.0f ? near : far, x) : x;
}

// The sum of two f64 as high + low, high being the rounded sum; and the same for a product, by splitting the factors.
struct Pair {
    f64 high, low;
};
DEVICE Pair two_sum(f64 a, f64 b) {
    f64 high = a + b;
    f64 part = high - a;
    return Pair{high, (a - (high - part)) + (b - part)};
}
DEVICE f64 upper_half(f64 a) { return bit_cast<f64>(bit_cast<u64>(a) & 0xfffffffff8000000ull); }
DEVICE Pair two_product(f64 a, f64 b) {
    f64 high = a * b, ah = upper_half(a), bh = upper_half(b), al = a - ah, bl = b - bh;
    return Pair{high, ((ah * bh - high) + ah * bl + al * bh) + al * bl};
}

// log(x) for positive finite x with about 12 bits beyond f64, which is what x^y needs of it.
DEVICE Pair log_pair(f64 x) {
    Split<f64> t = split_log(x);
    f64 den = 2.0 + t.f, den_low = t.f - (den - 2.0);
    f64 s = t.f / den;
    Pair back = two_product(s, den);
    f64 s_low = ((t.f - back.high) - back.low - s * den_low) / den;
    // 2 s + (2/3) s^3 carried in pairs, the rest of the series in f64.
    Pair square = two_product(s, s);
    square.low += 2.0 * s * s_low;
    Pair cube = two_product(square.high, s);
    cube.low += square.low * s + square.high * s_low;
    const f64 third = 2.0 / 3.0, third_low = 3.7007434154171886e-17; // 2/3 beyond its f64
    Pair term = two_product(cube.high, third);
    term.low += cube.low * third + cube.high * third_low;
    f64 z = square.high;
    f64 rest = cube.high * (z * horner(z, 2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9,
                                       2.0 / 7, 2.0 / 5));
    Pair sum = two_sum(t.k * ln2_high(x), 2.0 * s);
    Pair more = two_sum(sum.high, term.high);
    f64 low = sum.low + more.low + (t.k * ln2_low(x) + (2.0 * s_low + (term.low + rest)));
    return two_sum(more.high, low);
}

// x^y with the special cases of C's pow and Rust's powf.
DEVICE f64 pow_(f64 x, f64 y) {
    f64 infinity = Limits<f64>::highest();
    if (y == 0.0 || x == 1.0) return 1.0;
    if (x != x || y != y) return x + y;
    bool whole = trunc_(y) == y;
    // Above 2^53 every f64 is even.
    bool odd = whole && abs_(y) < 9007199254740992.0 && ((i64)y & 1);
    f64 a = abs_(x);
    f64 result;
    if (a == 0.0 || a == infinity) {
        result = (a == 0.0) == (y > 0.0) ? 0.0 : infinity;
    } else if (abs_(y) == infinity) {
        result = a == 1.0 ? 1.0 : ((a > 1.0) == (y > 0.0) ? infinity : 0.0);
    } else if (x < 0.0 && !whole) {
        return infinity - infinity;
    } else {
        Pair l = log_pair(a);
        f64 rough = l.high * y;
        if (rough > 720.0 || rough < -760.0) {
            result = rough > 0.0 ? infinity : 0.0;
        } else {
            Pair p = two_product(l.high, y);
            f64 e = exp_(p.high);
            f64 low = p.low + l.low * y;
            result = e == infinity || e == 0.0 ? e : e + e * low;
        }
    }
    return odd && is_negative(x) ? -result : result;
}
// In f64, where one exp and one log leave bits to spare.
DEVICE f32 pow_(f32 x, f32 y) {
    if (!(x > 0.0f) || x == Limits<f32>::highest() || !(abs_(y) < Limits<f32>::highest())) return (f32)pow_((f64)x, (f64)y);
    f64 e = (f64)y * log_((f64)x);
    return (f32)exp_(min_of(max_of(e, -200.0), 200.0));
}


