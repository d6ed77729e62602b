// bfloat16 by the names of both of HIP's headers: hip_bfloat16, and __hip_bfloat16 with its functions. The high half of a
// float; arithmetic is in float and rounded to nearest even once per operation.
#pragma once
#include "../hip_host.h"

struct hip_bfloat16 {
    unsigned short data;

    hip_bfloat16() = default;
    HIP_HOST_INLINE_MEMBER explicit hip_bfloat16(float value) : data(rounded(value)) {}
    HIP_HOST_INLINE_MEMBER explicit hip_bfloat16(double value) : data(rounded((float)value)) {}
    HIP_HOST_INLINE_MEMBER explicit hip_bfloat16(int value) : data(rounded((float)value)) {}
    HIP_HOST_INLINE_MEMBER operator float() const { return __builtin_bit_cast(float, (unsigned)data << 16); }
    HIP_HOST_INLINE_MEMBER static hip_bfloat16 round_to_bfloat16(float value) { return hip_bfloat16(value); }
    HIP_HOST_INLINE_MEMBER hip_bfloat16 &operator=(float value) {
        data = rounded(value);
        return *this;
    }

  private:
    HIP_HOST_INLINE_MEMBER static unsigned short rounded(float value) {
        const unsigned bits = __builtin_bit_cast(unsigned, value);
        // A NaN keeps its upper bits and becomes a quiet one: rounding could carry it into infinity.
        if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(bits >> 16 | 0x40u);
        return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    }
};
typedef hip_bfloat16 __hip_bfloat16;

struct alignas(4) __hip_bfloat162 {
    __hip_bfloat16 x, y;
};

#define HIP_HOST_BFLOAT_OPERATOR(op)                                                                                   \
    HIP_HOST_INLINE hip_bfloat16 operator op(hip_bfloat16 a, hip_bfloat16 b) {                                         \
        return hip_bfloat16((float)a op(float) b);                                                                     \
    }                                                                                                                  \
    HIP_HOST_INLINE hip_bfloat16 &operator op##=(hip_bfloat16 &a, hip_bfloat16 b) { return a = a op b; }
HIP_HOST_BFLOAT_OPERATOR(+)
HIP_HOST_BFLOAT_OPERATOR(-)
HIP_HOST_BFLOAT_OPERATOR(*)
HIP_HOST_BFLOAT_OPERATOR(/)
#undef HIP_HOST_BFLOAT_OPERATOR
HIP_HOST_INLINE hip_bfloat16 operator-(hip_bfloat16 a) {
    a.data ^= 0x8000u;
    return a;
}

HIP_HOST_INLINE __hip_bfloat16 __float2bfloat16(float x) { return hip_bfloat16(x); }
HIP_HOST_INLINE __hip_bfloat16 __double2bfloat16(double x) { return hip_bfloat16(x); }
HIP_HOST_INLINE float __bfloat162float(__hip_bfloat16 x) { return x; }
HIP_HOST_INLINE unsigned short __bfloat16_as_ushort(__hip_bfloat16 x) { return x.data; }
HIP_HOST_INLINE __hip_bfloat16 __ushort_as_bfloat16(unsigned short x) {
    __hip_bfloat16 out;
    out.data = x;
    return out;
}
HIP_HOST_INLINE __hip_bfloat162 __floats2bfloat162_rn(float x, float y) { return {hip_bfloat16(x), hip_bfloat16(y)}; }
HIP_HOST_INLINE float2 __bfloat1622float2(__hip_bfloat162 v) { return {v.x, v.y}; }

HIP_HOST_INLINE __hip_bfloat16 atomicAdd(__hip_bfloat16 *at, __hip_bfloat16 value) {
    hip_host::check_update(at);
    return hip_host::update(at, [=](__hip_bfloat16 old) { return old + value; });
}
