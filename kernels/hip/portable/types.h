// The small floats as storage types, and the conversions between all dtypes.
// Rounding is to nearest even; NaN stays NaN; f8e4m3 saturates to 448 and has no infinity; a float turned
// into an integer saturates and NaN becomes 0: what Rust's `as` and the crates half and float8 do.
#pragma once

struct alignas(2) f16 {
    u16 bits;
};
struct alignas(2) bf16 {
    u16 bits;
};
struct alignas(1) f8e4m3 {
    u8 bits;
};

DEVICE f32 f16_to_f32(f16 h) {
#if defined(TARGET_AMD)
    return (f32)bit_cast<_Float16>(h.bits);
#elif defined(TARGET_NVIDIA)
    f32 out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(h.bits));
    return out;
#else
    // 2^112 moves the exponent from bias 15 to bias 127 and normalises subnormals in the same multiplication.
    // No branch, so that a loop over threads vectorises.
    u32 magnitude = (u32)(h.bits & 0x7fff) << 13;
    u32 bits = bit_cast<u32>(bit_cast<f32>(magnitude) * bit_cast<f32>(0x77800000u));
    bits |= magnitude >= (0x7c00u << 13) ? 0x7f800000u : 0u;
    return bit_cast<f32>(bits | ((u32)(h.bits & 0x8000) << 16));
#endif
}

DEVICE f16 f32_to_f16(f32 x) {
#if defined(TARGET_AMD)
    return f16{bit_cast<u16>((_Float16)x)};
#elif defined(TARGET_NVIDIA)
    f16 out;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
    return out;
#else
    u32 bits = bit_cast<u32>(x);
    u32 magnitude = bits & 0x7fffffffu;
    u32 normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
    // Adding 0.5, whose ulp is the least subnormal, lets the addition do the rounding.
    u32 subnormal = bit_cast<u32>(bit_cast<f32>(magnitude) + 0.5f) - 0x3f000000u;
    u32 special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    u32 out = magnitude < 0x38800000u ? subnormal : normal;
    out = magnitude >= 0x47800000u ? special : out;
    return f16{(u16)(out | ((bits >> 16) & 0x8000u))};
#endif
}

DEVICE f32 bf16_to_f32(bf16 b) { return bit_cast<f32>((u32)b.bits << 16); }

DEVICE bf16 f32_to_bf16(f32 x) {
#if defined(TARGET_NVIDIA) && __CUDA_ARCH__ >= 800
    bf16 out;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
    return out;
#else
    u32 bits = bit_cast<u32>(x);
    u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    u32 quiet = (bits >> 16) | 0x40u;
    return bf16{(u16)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
#endif
}

DEVICE f32 f8_to_f32(f8e4m3 b) {
    u32 magnitude = (u32)(b.bits & 0x7f);
    u32 bits = bit_cast<u32>(bit_cast<f32>(magnitude << 20) * bit_cast<f32>(0x7b800000u));
    bits = magnitude == 0x7fu ? 0x7fc00000u : bits;
    return bit_cast<f32>(bits | ((u32)(b.bits & 0x80) << 24));
}

DEVICE f8e4m3 f32_to_f8(f32 x) {
    u32 bits = bit_cast<u32>(x);
    u32 magnitude = bits & 0x7fffffffu;
    u32 normal = ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120u << 3);
    // 2^14 has the least subnormal, 2^-9, as its ulp. The addition is not to be contracted or reassociated.
    u32 subnormal = bit_cast<u32>(bit_cast<f32>(magnitude) + 16384.0f) - 0x46800000u;
    u32 out = magnitude < 0x3c800000u ? subnormal : normal;
    out = magnitude > 0x43e80000u ? 0x7eu : out; // above 464, the midpoint over the largest value, 448
    out = magnitude > 0x7f800000u ? 0x7fu : out;
    return f8e4m3{(u8)(out | ((bits >> 24) & 0x80u))};
}

// f64 to f32 with the last bit set when anything was lost. Rounding that again to a shorter format
// gives the same as rounding once; plain f64 -> f32 -> f16 would round twice.
DEVICE f32 round_to_odd(f64 x) {
    f32 near = (f32)x;
    u32 bits = bit_cast<u32>(near);
    f64 lost = (f64)near - x;
    // An infinity or a NaN loses nothing: the difference is then NaN, and neither comparison holds.
    bool exact = !(lost < 0.0 || lost > 0.0) || (bits & 1u);
    bool grew = (x < 0.0) != (lost > 0.0);
    if (!exact) bits = grew ? bits - 1u : bits + 1u;
    return bit_cast<f32>(bits);
}

// What arithmetic on a dtype is done in.
template <typename T> struct ComputeOf { typedef T type; };
template <> struct ComputeOf<f16> { typedef f32 type; };
template <> struct ComputeOf<bf16> { typedef f32 type; };
template <> struct ComputeOf<f8e4m3> { typedef f32 type; };
template <typename T> using Compute = typename ComputeOf<T>::type;

template <typename T> struct IsSmallFloat {
    static constexpr bool value = IsSame<T, f16>::value || IsSame<T, bf16>::value || IsSame<T, f8e4m3>::value;
};
template <typename T> struct IsFloat {
    static constexpr bool value = IsSmallFloat<T>::value || IsSame<T, f32>::value || IsSame<T, f64>::value;
};

// The least and greatest value of a dtype; the infinities for floats that have them, +-448 for f8e4m3.
template <typename T> struct Limits;
template <> struct Limits<u8> {
    static constexpr MEMBER u8 lowest() { return 0; }
    static constexpr MEMBER u8 highest() { return 255; }
};
template <> struct Limits<i8> {
    static constexpr MEMBER i8 lowest() { return -128; }
    static constexpr MEMBER i8 highest() { return 127; }
};
template <> struct Limits<i16> {
    static constexpr MEMBER i16 lowest() { return -32768; }
    static constexpr MEMBER i16 highest() { return 32767; }
};
template <> struct Limits<u32> {
    static constexpr MEMBER u32 lowest() { return 0; }
    static constexpr MEMBER u32 highest() { return 0xffffffffu; }
};
template <> struct Limits<i32> {
    static constexpr MEMBER i32 lowest() { return -2147483647 - 1; }
    static constexpr MEMBER i32 highest() { return 2147483647; }
};
template <> struct Limits<i64> {
    static constexpr MEMBER i64 lowest() { return -9223372036854775807LL - 1; }
    static constexpr MEMBER i64 highest() { return 9223372036854775807LL; }
};
template <> struct Limits<f32> {
    static MEMBER f32 lowest() { return bit_cast<f32>(0xff800000u); }
    static MEMBER f32 highest() { return bit_cast<f32>(0x7f800000u); }
};
template <> struct Limits<f64> {
    static MEMBER f64 lowest() { return bit_cast<f64>(0xfff0000000000000ull); }
    static MEMBER f64 highest() { return bit_cast<f64>(0x7ff0000000000000ull); }
};
template <> struct Limits<f16> {
    static MEMBER f16 lowest() { return f16{0xfc00}; }
    static MEMBER f16 highest() { return f16{0x7c00}; }
};
template <> struct Limits<bf16> {
    static MEMBER bf16 lowest() { return bf16{0xff80}; }
    static MEMBER bf16 highest() { return bf16{0x7f80}; }
};
template <> struct Limits<f8e4m3> {
    static MEMBER f8e4m3 lowest() { return f8e4m3{0xfe}; }
    static MEMBER f8e4m3 highest() { return f8e4m3{0x7e}; }
};

// Widen to the compute type.
DEVICE f32 widen(f16 x) { return f16_to_f32(x); }
DEVICE f32 widen(bf16 x) { return bf16_to_f32(x); }
DEVICE f32 widen(f8e4m3 x) { return f8_to_f32(x); }
template <typename T> DEVICE T widen(T x) { return x; }

// f32 and f64 into an integer: truncation, clamped to the range, NaN to 0.
template <typename To, typename From> DEVICE To saturate(From x) {
    // Both bounds are powers of two (or 0), hence exact in either float type.
    const From below = (From)Limits<To>::lowest();
    const From above = (From)(Limits<To>::highest() / 2 + 1) * (From)2;
    To inside = x > below && x < above ? (To)x : (To)0;
    if (x >= above) inside = Limits<To>::highest();
    if (x <= below) inside = Limits<To>::lowest();
    return inside;
}

template <typename To, typename From> struct Cast {
    static MEMBER To from(From x) {
        if constexpr (IsSmallFloat<From>::value) {
            return Cast<To, f32>::from(widen(x));
        } else if constexpr (IsFloat<From>::value && !IsFloat<To>::value) {
            return saturate<To>(x);
        } else {
            return (To)x;
        }
    }
};
template <typename T> struct Cast<T, T> {
    static MEMBER T from(T x) { return x; }
};
// Integers and f32 reach a small float by way of f32, f64 by way of f32 rounded to odd.
template <typename From> struct ToSmall {
    static MEMBER f32 from(From x) { return Cast<f32, From>::from(x); }
};
template <> struct ToSmall<f64> {
    static MEMBER f32 from(f64 x) { return round_to_odd(x); }
};
#define CAST_TO_SMALL(to, convert)                                                                 \
    template <typename From> struct Cast<to, From> {                                               \
        static MEMBER to from(From x) { return convert(ToSmall<From>::from(x)); }                  \
    };                                                                                             \
    template <> struct Cast<to, to> {                                                              \
        static MEMBER to from(to x) { return x; }                                                  \
    };
CAST_TO_SMALL(f16, f32_to_f16)
CAST_TO_SMALL(bf16, f32_to_bf16)
CAST_TO_SMALL(f8e4m3, f32_to_f8)

template <typename To, typename From> DEVICE To cast(From x) { return Cast<To, From>::from(x); }
