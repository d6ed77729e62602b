// What kernels that were written in Rust are made of: the meaning that Rust gives to numbers, memory that is checked, and reports of what was
// out of range. The translation (hip/macros) names everything here by its namespace. No other header is needed, on no platform.
#pragma once

#define RS_DEVICE static __device__ __forceinline__
#define RS_MEMBER __device__ __forceinline__

namespace rs {

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef long long isize;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned long long usize;
typedef float f32;
typedef double f64;

template <typename A, typename B> struct Same { static constexpr bool value = false; };
template <typename A> struct Same<A, A> { static constexpr bool value = true; };

template <typename To, typename From> RS_DEVICE To as_bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To result;
    __builtin_memcpy(&result, &value, sizeof(To));
    return result;
}

// Reports: the first one of a stream stays, in three words that the host reads when it waits.
enum Kind : u32 { OUT_OF_RANGE = 1, DIVISION_BY_ZERO = 2, STEP_OF_ZERO = 3 };

struct Context {
    u64 *words;
    u64 module;

    RS_MEMBER void report(u32 site, Kind kind, u64 value, u64 bound) const {
        const u64 code = module << 40 | (u64)site << 8 | kind;
        if (atomicCAS(&words[0], (u64)0, code) == 0) {
            words[1] = value;
            words[2] = bound;
        }
    }
};

RS_DEVICE bool inside(u64 index, u64 len, Context cx, u32 site) {
    if (index < len) return true;
    cx.report(site, OUT_OF_RANGE, index, len);
    return false;
}

template <typename T> struct Slice {
    T *data;
    u64 len;
};

template <typename T, u64 N> struct Array {
    T data[N];

    static RS_MEMBER Array filled(T value) {
        Array all;
        for (u64 i = 0; i < N; i++) all.data[i] = value;
        return all;
    }
};

template <typename A, typename B> struct Tuple2 {
    A m0;
    B m1;
};
template <typename A, typename B, typename C> struct Tuple3 {
    A m0;
    B m1;
    C m2;
};
template <typename A, typename B, typename C, typename D> struct Tuple4 {
    A m0;
    B m1;
    C m2;
    D m3;
};

// Half precision as its bits: arithmetic in f32, rounded once, as Rust's crate `half` does it.
struct f16 {
    u16 bits;
};
struct bf16 {
    u16 bits;
};

RS_DEVICE f32 widen(f16 value) {
    const u32 sign = (u32)(value.bits & 0x8000u) << 16, exponent = value.bits >> 10 & 31u, mantissa = value.bits & 0x3ffu;
    if (exponent == 31) return as_bits<f32>(sign | 0x7f800000u | mantissa << 13);
    // Below the normal ones it is a count of the smallest, 2^-24.
    if (exponent == 0) return as_bits<f32>(sign | as_bits<u32>((f32)mantissa * 5.9604644775390625e-8f));
    return as_bits<f32>(sign | (exponent + 112) << 23 | mantissa << 13);
}
RS_DEVICE f32 widen(bf16 value) { return as_bits<f32>((u32)value.bits << 16); }

RS_DEVICE f16 narrow_f16(f32 value) {
    const u32 all = as_bits<u32>(value), sign = all >> 16 & 0x8000u;
    u32 x = all & 0x7fffffffu;
    if (x > 0x7f800000u) return f16{(u16)(sign | 0x7e00u | (x >> 13 & 0x3ffu))};
    if (x >= 0x47800000u) return f16{(u16)(sign | 0x7c00u)};
    if (x >= 0x38800000u) {
        x += 0xfffu + (x >> 13 & 1u);
        return f16{(u16)(sign | (x - 0x38000000u) >> 13)};
    }
    if (x <= 0x33000000u) return f16{(u16)sign};
    const u32 mantissa = (x & 0x7fffffu) | 0x800000u, shift = 126u - (x >> 23);
    const u32 rest = mantissa & ((1u << shift) - 1u), half = 1u << (shift - 1u);
    u32 rounded = mantissa >> shift;
    if (rest > half || (rest == half && (rounded & 1u))) rounded++;
    return f16{(u16)(sign | rounded)};
}
RS_DEVICE bf16 narrow_bf16(f32 value) {
    const u32 x = as_bits<u32>(value);
    if ((x & 0x7fffffffu) > 0x7f800000u) return bf16{(u16)(x >> 16 | 0x40u)};
    return bf16{(u16)((x + 0x7fffu + (x >> 16 & 1u)) >> 16)};
}

#define RS_HALF(T)                                                                                                     \
    RS_DEVICE T operator+(T a, T b) { return narrow_##T(widen(a) + widen(b)); }                                        \
    RS_DEVICE T operator-(T a, T b) { return narrow_##T(widen(a) - widen(b)); }                                        \
    RS_DEVICE T operator*(T a, T b) { return narrow_##T(widen(a) * widen(b)); }                                        \
    RS_DEVICE T operator/(T a, T b) { return narrow_##T(widen(a) / widen(b)); }                                        \
    RS_DEVICE T operator-(T a) { return T{(u16)(a.bits ^ 0x8000u)}; }                                                  \
    RS_DEVICE bool operator==(T a, T b) { return widen(a) == widen(b); }                                               \
    RS_DEVICE bool operator!=(T a, T b) { return widen(a) != widen(b); }                                               \
    RS_DEVICE bool operator<(T a, T b) { return widen(a) < widen(b); }                                                 \
    RS_DEVICE bool operator<=(T a, T b) { return widen(a) <= widen(b); }                                               \
    RS_DEVICE bool operator>(T a, T b) { return widen(a) > widen(b); }                                                 \
    RS_DEVICE bool operator>=(T a, T b) { return widen(a) >= widen(b); }
RS_HALF(f16)
RS_HALF(bf16)
#undef RS_HALF

// What a type is. Wide: where arithmetic on it cannot overflow in a way that C++ leaves undefined.
template <typename T> struct Is {
    static constexpr bool integer = false, real = false, half = false, is_signed = true;
    typedef T Wide;
    typedef T Bits;
};
#define RS_INTEGER(T, W, U, S)                                                                                         \
    template <> struct Is<T> {                                                                                         \
        static constexpr bool integer = true, real = false, half = false, is_signed = S;                               \
        typedef W Wide;                                                                                                \
        typedef U Bits;                                                                                                \
    };
RS_INTEGER(i8, u32, u8, true)
RS_INTEGER(i16, u32, u16, true)
RS_INTEGER(i32, u32, u32, true)
RS_INTEGER(i64, u64, u64, true)
RS_INTEGER(u8, u32, u8, false)
RS_INTEGER(u16, u32, u16, false)
RS_INTEGER(u32, u32, u32, false)
RS_INTEGER(u64, u64, u64, false)
#undef RS_INTEGER
#define RS_FLOAT(T, U, REAL)                                                                                           \
    template <> struct Is<T> {                                                                                         \
        static constexpr bool integer = false, real = REAL, half = !REAL, is_signed = true;                            \
        typedef T Wide;                                                                                                \
        typedef U Bits;                                                                                                \
    };
RS_FLOAT(f32, u32, true)
RS_FLOAT(f64, u64, true)
RS_FLOAT(f16, u16, false)
RS_FLOAT(bf16, u16, false)
#undef RS_FLOAT

template <typename T> struct Limits {
    typedef typename Is<T>::Bits U;
    static RS_MEMBER T max() { return Is<T>::is_signed ? (T)((U)~(U)0 >> 1) : (T)~(U)0; }
    static RS_MEMBER T min() { return Is<T>::is_signed ? (T)((U)1 << (sizeof(T) * 8 - 1)) : (T)0; }
};
#define RS_LIMITS(T, MAX, MIN, INF, NEG_INF, NAN_, EPS, ONE, LEAST)                                                    \
    template <> struct Limits<T> {                                                                                     \
        typedef Is<T>::Bits U;                                                                                         \
        static RS_MEMBER T max() { return as_bits<T>((U)MAX); }                                                        \
        static RS_MEMBER T min() { return as_bits<T>((U)MIN); }                                                        \
        static RS_MEMBER T infinity() { return as_bits<T>((U)INF); }                                                   \
        static RS_MEMBER T neg_infinity() { return as_bits<T>((U)NEG_INF); }                                           \
        static RS_MEMBER T nan() { return as_bits<T>((U)NAN_); }                                                       \
        static RS_MEMBER T epsilon() { return as_bits<T>((U)EPS); }                                                    \
        static RS_MEMBER T zero() { return as_bits<T>((U)0); }                                                         \
        static RS_MEMBER T one() { return as_bits<T>((U)ONE); }                                                        \
        static RS_MEMBER T min_positive() { return as_bits<T>((U)LEAST); }                                             \
    };
RS_LIMITS(f32, 0x7f7fffffu, 0xff7fffffu, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0x34000000u, 0x3f800000u, 0x00800000u)
RS_LIMITS(f64, 0x7fefffffffffffffull, 0xffefffffffffffffull, 0x7ff0000000000000ull, 0xfff0000000000000ull,
          0x7ff8000000000000ull, 0x3cb0000000000000ull, 0x3ff0000000000000ull, 0x0010000000000000ull)
RS_LIMITS(f16, 0x7bffu, 0xfbffu, 0x7c00u, 0xfc00u, 0x7e00u, 0x1400u, 0x3c00u, 0x0400u)
RS_LIMITS(bf16, 0x7f7fu, 0xff7fu, 0x7f80u, 0xff80u, 0x7fc0u, 0x3c00u, 0x3f80u, 0x0080u)
#undef RS_LIMITS

// Operators. Integers wrap around; a shift counts modulo the width.
#define RS_WRAPPING(name, sign)                                                                                        \
    template <typename T> RS_DEVICE T name(T a, T b) {                                                                 \
        typedef typename Is<T>::Wide Wide;                                                                             \
        return (T)((Wide)a sign(Wide) b);                                                                              \
    }                                                                                                                  \
    template <typename T> RS_DEVICE T wrapping_##name(T a, T b) { return name<T>(a, b); }
RS_WRAPPING(add, +)
RS_WRAPPING(sub, -)
RS_WRAPPING(mul, *)
#undef RS_WRAPPING

template <typename T> RS_DEVICE T neg(T a) {
    typedef typename Is<T>::Wide Wide;
    if constexpr (Is<T>::integer) return (T)((Wide)0 - (Wide)a);
    else return -a;
}
template <typename T> RS_DEVICE T wrapping_neg(T a) { return neg<T>(a); }

template <typename T> RS_DEVICE T bit_not(T a) {
    if constexpr (Same<T, bool>::value) return !a;
    else return (T)~a;
}
template <typename T> RS_DEVICE T bit_and(T a, T b) { return (T)(a & b); }
template <typename T> RS_DEVICE T bit_or(T a, T b) { return (T)(a | b); }
template <typename T> RS_DEVICE T bit_xor(T a, T b) { return (T)(a ^ b); }
template <typename T> RS_DEVICE T shl(T a, u32 by) { return (T)((typename Is<T>::Wide)a << (by & (sizeof(T) * 8 - 1))); }
template <typename T> RS_DEVICE T shr(T a, u32 by) { return (T)(a >> (by & (sizeof(T) * 8 - 1))); }

template <typename T> RS_DEVICE T div(T a, T b) { return a / b; }
template <typename T> RS_DEVICE T div(T a, T b, Context cx, u32 site) {
    if constexpr (Is<T>::integer) {
        if (b == 0) {
            cx.report(site, DIVISION_BY_ZERO, 0, 0);
            return 0;
        }
        if (Is<T>::is_signed && b == (T)-1) return neg<T>(a);
        return (T)(a / b);
    } else {
        return a / b;
    }
}
// The remainder of floats is exact, so it is found bit by bit: compilers for GPUs divide and round instead.
template <typename T> RS_DEVICE T rem_real(T a, T b) {
    typedef typename Is<T>::Bits U;
    constexpr u32 DIGITS = sizeof(T) == 4 ? 23 : 52;
    constexpr U HIDDEN = (U)1 << DIGITS, SIGN = (U)1 << (sizeof(T) * 8 - 1);
    const U sign = as_bits<U>(a) & SIGN, x = as_bits<U>(a) & ~SIGN, y = as_bits<U>(b) & ~SIGN;
    const U infinity = as_bits<U>(Limits<T>::infinity());
    if (x >= infinity || y > infinity || y == 0) return Limits<T>::nan();
    if (x < y) return a;
    // Both as a whole number with the same count of digits, times a power of two.
    i32 exponent = (i32)(x >> DIGITS), least = (i32)(y >> DIGITS);
    U rest = (x & (HIDDEN - 1)) | (exponent == 0 ? 0 : HIDDEN), by = (y & (HIDDEN - 1)) | (least == 0 ? 0 : HIDDEN);
    for (exponent += exponent == 0; rest < HIDDEN; exponent--) rest <<= 1;
    for (least += least == 0; by < HIDDEN; least--) by <<= 1;
    for (; exponent > least; exponent--) {
        if (rest >= by) rest -= by;
        rest <<= 1;
    }
    if (rest >= by) rest -= by;
    if (rest == 0) return as_bits<T>(sign);
    for (; rest < HIDDEN && exponent > 1; exponent--) rest <<= 1;
    if (exponent < 1) return as_bits<T>((U)(sign | rest >> (1 - exponent)));
    if (rest < HIDDEN) return as_bits<T>((U)(sign | rest));
    return as_bits<T>((U)(sign | (U)exponent << DIGITS | (rest & (HIDDEN - 1))));
}
RS_DEVICE f16 rem_real(f16 a, f16 b) { return narrow_f16(rem_real(widen(a), widen(b))); }
RS_DEVICE bf16 rem_real(bf16 a, bf16 b) { return narrow_bf16(rem_real(widen(a), widen(b))); }
template <typename T> RS_DEVICE T rem(T a, T b) { return rem_real(a, b); }
template <typename T> RS_DEVICE T rem(T a, T b, Context cx, u32 site) {
    if constexpr (Is<T>::integer) {
        if (b == 0) {
            cx.report(site, DIVISION_BY_ZERO, 0, 0);
            return 0;
        }
        if (Is<T>::is_signed && b == (T)-1) return 0;
        return (T)(a % b);
    } else {
        return rem_real(a, b);
    }
}

// `as`: a float that does not fit becomes the nearest integer that there is, and what is no number 0.
template <typename To, typename From> RS_DEVICE To cast(From value) {
    if constexpr (Same<To, From>::value) {
        return value;
    } else if constexpr (Is<From>::half) {
        return cast<To>(widen(value));
    } else if constexpr (Same<To, f16>::value) {
        return narrow_f16((f32)value);
    } else if constexpr (Same<To, bf16>::value) {
        return narrow_bf16((f32)value);
    } else if constexpr (Is<From>::real && Is<To>::integer) {
        if (value != value) return 0;
        if (value <= (From)Limits<To>::min()) return Limits<To>::min();
        if (value >= (From)Limits<To>::max()) return Limits<To>::max();
        return (To)value;
    } else {
        return (To)value;
    }
}
template <typename T> RS_DEVICE f32 to_f32(T a) { return cast<f32>(a); }
template <typename T> RS_DEVICE f64 to_f64(T a) { return cast<f64>(a); }
template <typename T> RS_DEVICE typename Is<T>::Bits to_bits(T a) { return as_bits<typename Is<T>::Bits>(a); }
template <typename T> RS_DEVICE T from_bits(typename Is<T>::Bits a) { return as_bits<T>(a); }

// Ranges: how far it is, and the next one.
template <typename T> RS_DEVICE u64 between(T a, T b) { return (typename Is<T>::Wide)b - (typename Is<T>::Wide)a; }
template <typename T> RS_DEVICE T ahead(T a, u64 by) { return (T)((typename Is<T>::Wide)a + (typename Is<T>::Wide)by); }
template <typename T> RS_DEVICE T back(T a, u64 by) { return (T)((typename Is<T>::Wide)a - (typename Is<T>::Wide)by); }
// The next one before `end`, or `end`.
template <typename T> RS_DEVICE T stride(T a, T end, u64 by) {
    if (by == 1) return ahead(a, 1);
    return between(a, end) <= by ? end : ahead(a, by);
}
RS_DEVICE u64 step(u64 by, Context cx, u32 site) {
    if (by != 0) return by;
    cx.report(site, STEP_OF_ZERO, 0, 0);
    return ~(u64)0;
}

template <typename T> RS_DEVICE bool is_nan(T a) { return a != a; }
// What is no number loses against a number.
template <typename T> RS_DEVICE T min(T a, T b) { return b < a || a != a ? b : a; }
template <typename T> RS_DEVICE T max(T a, T b) { return a < b || a != a ? b : a; }
template <typename T> RS_DEVICE T clamp(T a, T low, T high) { return a < low ? low : high < a ? high : a; }
template <typename T> RS_DEVICE bool is_finite(T a) { return !(a != a) && a <= Limits<T>::max() && a >= Limits<T>::min(); }
template <typename T> RS_DEVICE bool is_infinite(T a) { return !(a != a) && !is_finite<T>(a); }

RS_DEVICE f32 copysign_real(f32 a, f32 b) { return __builtin_copysignf(a, b); }
RS_DEVICE f64 copysign_real(f64 a, f64 b) { return __builtin_copysign(a, b); }
template <typename T> RS_DEVICE T copysign(T a, T b) { return copysign_real(a, b); }
template <typename T> RS_DEVICE T abs(T a) {
    if constexpr (Is<T>::integer) return a < 0 ? neg<T>(a) : a;
    else return copysign_real(a, (T)1);
}
template <typename T> RS_DEVICE T signum(T a) {
    if constexpr (Is<T>::integer) return (T)((a > 0) - (a < 0));
    else return a != a ? a : copysign_real((T)1, a);
}

// Integers.
template <typename T> RS_DEVICE T saturating_add(T a, T b) {
    const T sum = add<T>(a, b);
    if (Is<T>::is_signed && b < 0) return sum > a ? Limits<T>::min() : sum;
    return sum < a ? Limits<T>::max() : sum;
}
template <typename T> RS_DEVICE T saturating_sub(T a, T b) {
    const T rest = sub<T>(a, b);
    if (Is<T>::is_signed && b < 0) return rest < a ? Limits<T>::max() : rest;
    return rest > a ? Limits<T>::min() : rest;
}
template <typename T> RS_DEVICE typename Is<T>::Bits abs_diff(T a, T b) {
    return (typename Is<T>::Bits)(a < b ? sub<T>(b, a) : sub<T>(a, b));
}
template <typename T> RS_DEVICE T pow(T a, u32 by) {
    T result = 1;
    for (; by != 0; by >>= 1) {
        if (by & 1) result = mul<T>(result, a);
        a = mul<T>(a, a);
    }
    return result;
}
template <typename T> RS_DEVICE u32 count_ones(T a) { return (u32)__builtin_popcountll((typename Is<T>::Bits)a); }
template <typename T> RS_DEVICE u32 count_zeros(T a) { return sizeof(T) * 8 - count_ones<T>(a); }
template <typename T> RS_DEVICE u32 leading_zeros(T a) {
    const u64 bits = (typename Is<T>::Bits)a;
    return bits == 0 ? sizeof(T) * 8 : (u32)__builtin_clzll(bits) - (64 - sizeof(T) * 8);
}
template <typename T> RS_DEVICE u32 trailing_zeros(T a) {
    const u64 bits = (typename Is<T>::Bits)a;
    return bits == 0 ? sizeof(T) * 8 : (u32)__builtin_ctzll(bits);
}
template <typename T> RS_DEVICE T rotate_left(T a, u32 by) {
    typedef typename Is<T>::Bits U;
    const u32 width = sizeof(T) * 8, left = by & (width - 1);
    return (T)(U)((U)a << left | (U)((U)a >> ((width - left) & (width - 1))));
}
template <typename T> RS_DEVICE T rotate_right(T a, u32 by) { return rotate_left<T>(a, sizeof(T) * 8 - (by & (sizeof(T) * 8 - 1))); }
template <typename T> RS_DEVICE bool is_power_of_two(T a) { return a != 0 && (a & (T)(a - 1)) == 0; }

// Atomic operations, relaxed; each gives what was there.
template <typename T> RS_DEVICE T atomic_add(T *at, T value) {
    if constexpr (!Is<T>::integer) return atomicAdd(at, value);
    else return (T)atomicAdd((typename Is<T>::Bits *)at, (typename Is<T>::Bits)value);
}
template <typename T> RS_DEVICE T atomic_sub(T *at, T value) { return atomic_add<T>(at, neg<T>(value)); }
template <typename T> RS_DEVICE T atomic_min(T *at, T value) { return atomicMin(at, value); }
template <typename T> RS_DEVICE T atomic_max(T *at, T value) { return atomicMax(at, value); }
#define RS_ATOMIC(name, call)                                                                                          \
    template <typename T> RS_DEVICE T name(T *at, T value) {                                                           \
        typedef typename Is<T>::Bits U;                                                                                \
        return as_bits<T>(call((U *)at, as_bits<U>(value)));                                                           \
    }
RS_ATOMIC(atomic_and, atomicAnd)
RS_ATOMIC(atomic_or, atomicOr)
RS_ATOMIC(atomic_xor, atomicXor)
RS_ATOMIC(atomic_exchange, atomicExch)
#undef RS_ATOMIC
template <typename T> RS_DEVICE T atomic_compare_exchange(T *at, T expected, T value) {
    typedef typename Is<T>::Bits U;
    return (T)atomicCAS((U *)at, (U)expected, (U)value);
}

// What a lane exchanges: 32 or 64 bits.
template <bool LARGE> struct Word { typedef u32 type; };
template <> struct Word<true> { typedef u64 type; };
template <typename T> RS_DEVICE typename Word<(sizeof(T) > 4)>::type pack(T value) {
    return (typename Word<(sizeof(T) > 4)>::type)as_bits<typename Is<T>::Bits>(value);
}
template <typename T> RS_DEVICE T unpack(typename Word<(sizeof(T) > 4)>::type value) {
    return as_bits<T>((typename Is<T>::Bits)value);
}
RS_DEVICE u64 lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & ((unsigned)warpSize - 1u);
}

} // namespace rs

// Functions of real numbers are those of the platform. They are looked for when a kernel uses one, since not every platform has all, and must
// be of the size that was asked for.
namespace rs_platform {
#define RS_REAL_1(name, call)                                                                                          \
    template <typename T> RS_DEVICE T name##_(T a) {                                                                   \
        if constexpr (sizeof(T) == 4) {                                                                                \
            return call##f(a);                                                                                         \
        } else {                                                                                                       \
            static_assert(sizeof(call(a)) == sizeof(T), "this platform has no `" #name "` of f64");                    \
            return call(a);                                                                                            \
        }                                                                                                              \
    }
#define RS_REAL_2(name, call)                                                                                          \
    template <typename T> RS_DEVICE T name##_(T a, T b) {                                                              \
        if constexpr (sizeof(T) == 4) {                                                                                \
            return call##f(a, b);                                                                                      \
        } else {                                                                                                       \
            static_assert(sizeof(call(a, b)) == sizeof(T), "this platform has no `" #name "` of f64");                 \
            return call(a, b);                                                                                         \
        }                                                                                                              \
    }
#define RS_REALS(ONE, TWO)                                                                                             \
    ONE(sqrt, sqrt) ONE(floor, floor) ONE(ceil, ceil) ONE(round, round) ONE(round_ties_even, rint) ONE(trunc, trunc)    \
    ONE(exp, exp) ONE(exp2, exp2) ONE(exp_m1, expm1) ONE(ln, log) ONE(ln_1p, log1p) ONE(log2, log2) ONE(log10, log10)   \
    ONE(sin, sin) ONE(cos, cos) ONE(tan, tan) ONE(tanh, tanh) ONE(sinh, sinh) ONE(cosh, cosh) ONE(asin, asin)           \
    ONE(acos, acos) ONE(atan, atan) TWO(powf, pow) TWO(atan2, atan2) TWO(hypot, hypot)
RS_REALS(RS_REAL_1, RS_REAL_2)
#undef RS_REAL_1
#undef RS_REAL_2
template <typename T> RS_DEVICE T mul_add_(T a, T b, T c) {
    if constexpr (sizeof(T) == 4) return fmaf(a, b, c);
    else return fma(a, b, c);
}
} // namespace rs_platform

namespace rs {
#define RS_REAL_1(name, call)                                                                                          \
    template <typename T> RS_DEVICE T name(T a) { return rs_platform::name##_<T>(a); }
#define RS_REAL_2(name, call)                                                                                          \
    template <typename T> RS_DEVICE T name(T a, T b) { return rs_platform::name##_<T>(a, b); }
RS_REALS(RS_REAL_1, RS_REAL_2)
#undef RS_REAL_1
#undef RS_REAL_2
#undef RS_REALS
template <typename T> RS_DEVICE T mul_add(T a, T b, T c) { return rs_platform::mul_add_<T>(a, b, c); }
template <typename T> RS_DEVICE T recip(T a) { return (T)1 / a; }
template <typename T> RS_DEVICE T fract(T a) { return a - trunc<T>(a); }
} // namespace rs
