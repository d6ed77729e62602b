// Uniform and normal random numbers from a counter: Philox 4x32-10 (Salmon et al., 2011).
//
// Element i of a tensor depends on the seed, the generator's offset and i alone, never on the launch geometry or the
// target. The normal distribution (Box-Muller) therefore uses a logarithm, a sine and a cosine of its own, made of
// operations that IEEE 754 fixes to the bit: every product that meets a sum is an explicit fused multiply-add, so that
// no compiler is left a choice.
//
// Memory limit: one Philox block (about 60 integer instructions) makes four numbers; a thread writes 16 bytes at once.
#include "portable.h"

constexpr u32 RANDOM_THREADS = 256;
SHARE(RANDOM_THREADS)

struct Words {
    u32 at[4];
};

DEVICE Words philox(u64 counter, u64 seed) {
    u32 c0 = u32(counter), c1 = u32(counter >> 32), c2 = 0, c3 = 0;
    u32 k0 = u32(seed), k1 = u32(seed >> 32);
    UNROLL
    for (u32 round = 0; round < 10; round++) {
        const u64 p = u64(0xd2511f53u) * c0, q = u64(0xcd9e8d57u) * c2;
        const u32 n0 = u32(q >> 32) ^ c1 ^ k0, n2 = u32(p >> 32) ^ c3 ^ k1;
        c1 = u32(q), c3 = u32(p), c0 = n0, c2 = n2;
        k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
    }
    return Words{{c0, c1, c2, c3}};
}

// Terms of the series below that reach the last bit.
template <typename C> struct Series;
template <> struct Series<f32> {
    static constexpr u32 log_terms = 5, turn_terms = 5;
};
template <> struct Series<f64> {
    static constexpr u32 log_terms = 11, turn_terms = 9;
};

// The natural logarithm of a normal number: 2 atanh(s) with s = (m - 1) / (m + 1) and the mantissa m around 1.
template <typename C> DEVICE C log_of(C x) {
    i32 exponent;
    C m;
    if constexpr (IsSame<C, f32>::value) {
        const u32 shifted = bit_cast<u32>(x) - 0x3f3504f3u; // sqrt(1/2), so that m lies in [sqrt(1/2), sqrt(2))
        exponent = i32(shifted) >> 23;
        m = bit_cast<f32>((shifted & 0x007fffffu) + 0x3f3504f3u);
    } else {
        const u64 shifted = bit_cast<u64>(x) - 0x3fe6a09e667f3bcdull;
        exponent = i32(i64(shifted) >> 52);
        m = bit_cast<f64>((shifted & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull);
    }
    const C s = (m - C(1)) / (m + C(1));
    const C square = s * s;
    constexpr u32 terms = Series<C>::log_terms;
    C sum = C(2.0 / (2 * terms + 1));
    UNROLL
    for (u32 k = terms; k > 0; k--) sum = fused(sum, square, C(2.0 / (2 * k - 1)));
    return fused(C(exponent), C(0.693147180559945309417), sum * s);
}

// Sine and cosine of a full turn divided by 2^BITS, times `part`.
template <typename C, u32 BITS> DEVICE void sine_cosine(u64 part, C &sine, C &cosine) {
    // The nearest quarter turn, and the rest in eighths of a turn at most: exact.
    const u64 quarter = ((part >> (BITS - 3)) + 1) >> 1;
    const i64 rest = i64(part) - i64(quarter << (BITS - 2));
    const C x = C(rest) * C(6.283185307179586476925 / f64(1ull << BITS));
    const C square = x * x;
    constexpr u32 terms = Series<C>::turn_terms;
    // Both series in nested form: 1 - x^2 / (1 * 2) (1 - x^2 / (3 * 4) (1 - ...)).
    C s = C(1), c = C(1);
    UNROLL
    for (u32 k = terms; k > 0; k--) {
        s = fused(s * square, C(-1.0 / f64(2 * k * (2 * k + 1))), C(1));
        c = fused(c * square, C(-1.0 / f64(2 * k * (2 * k - 1))), C(1));
    }
    s = s * x;
    const bool swap = quarter & 1;
    sine = swap ? c : s;
    cosine = swap ? s : c;
    if (quarter & 2) sine = -sine;
    if ((quarter + 1) & 2) cosine = -cosine;
}

// Digits of the significand: a uniform number has no more, so that rounding never lifts it to the upper bound.
template <typename T> struct Digits { static constexpr u32 count = 24; };
template <> struct Digits<f16> { static constexpr u32 count = 11; };
template <> struct Digits<bf16> { static constexpr u32 count = 8; };
template <> struct Digits<f8e4m3> { static constexpr u32 count = 4; };

// Elements one Philox block makes.
template <typename T> struct PerBlock { static constexpr u32 count = IsSame<T, f64>::value ? 2 : 4; };

template <typename T> struct Uniform {
    typedef Compute<T> C;
    C low, width, high;
    MEMBER Uniform(f64 from, f64 to) {
        low = widen(cast<T>(from));
        high = widen(cast<T>(to));
        width = high - low;
    }
    MEMBER T between(C unit) const {
        const T value = cast<T>(fused(unit, width, low));
        return widen(value) < high ? value : cast<T>(low);
    }
    MEMBER void make(const Words &words, T *out) const {
        if constexpr (IsSame<T, f64>::value) {
            UNROLL
            for (u32 j = 0; j < 2; j++) {
                const u64 bits = (u64(words.at[2 * j + 1]) << 32 | words.at[2 * j]) >> 11;
                out[j] = between(C(bits) * C(1.0 / (1ull << 53)));
            }
        } else {
            constexpr u32 digits = Digits<T>::count;
            UNROLL
            for (u32 j = 0; j < 4; j++) out[j] = between(C(words.at[j] >> (32 - digits)) * C(1.0 / (1u << digits)));
        }
    }
};

template <typename T> struct Normal {
    typedef Compute<T> C;
    C mean, deviation;
    MEMBER Normal(f64 mean, f64 deviation) : mean(C(mean)), deviation(C(deviation)) {}
    MEMBER void make(const Words &words, T *out) const {
        if constexpr (IsSame<T, f64>::value) {
            const u64 first = u64(words.at[1]) << 32 | words.at[0], second = u64(words.at[3]) << 32 | words.at[2];
            pair(fused(C(first >> 11), 1.0 / (1ull << 53), 1.0 / (1ull << 54)), second >> 11, out);
        } else {
            UNROLL
            for (u32 j = 0; j < 4; j += 2) {
                // 32 bits, so that the tail reaches 6.6 standard deviations; halfway between, so that it is never 0.
                pair(fused(C(words.at[j]), C(1.0 / 4294967296.0), C(0.5 / 4294967296.0)), words.at[j + 1] >> 8, out + j);
            }
        }
    }
    MEMBER void pair(C unit, u64 part, T *out) const {
        const C radius = sqrt_(C(-2) * log_of(unit));
        C sine, cosine;
        sine_cosine<C, IsSame<T, f64>::value ? 53 : 24>(part, sine, cosine);
        out[0] = cast<T>(fused(deviation, radius * cosine, mean));
        out[1] = cast<T>(fused(deviation, radius * sine, mean));
    }
};

template <typename Distribution, typename T>
DEVICE void fill_random(T *dst, u64 count, u64 seed, u64 offset, const Distribution &distribution) {
    constexpr u32 N = Lanes<T>::count, PER = PerBlock<T>::count;
    const u64 first = (u64(block_x()) * RANDOM_THREADS + thread_x()) * N;
    if (first >= count) return;
    Vec<T, N> made;
    UNROLL
    for (u32 j = 0; j < N; j += PER) distribution.make(philox(offset + (first + j) / PER, seed), &made[j]);
    if (first + N <= count) {
        store<N>(dst + first, made);
    } else {
        UNROLL
        for (u32 j = 0; j < N; j++) {
            if (first + j < count) dst[first + j] = made[j];
        }
    }
}

#define RANDOM(T)                                                                                  \
    KERNEL(RANDOM_THREADS) rand_uniform_##T(T *dst, u64 count, u64 seed, u64 offset, f64 low, f64 high) { enter(); \
        fill_random(dst, count, seed, offset, Uniform<T>(low, high));                              \
    }                                                                                              \
    KERNEL(RANDOM_THREADS) rand_normal_##T(T *dst, u64 count, u64 seed, u64 offset, f64 mean, f64 deviation) { enter(); \
        fill_random(dst, count, seed, offset, Normal<T>(mean, deviation));                         \
    }
FOR_FLOAT_DTYPES(RANDOM)
