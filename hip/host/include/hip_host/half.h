// __half and __half2, by HIP's names. Arithmetic is in float and rounded once per operation, as the hardware's is.
#pragma once
#include "../hip_host.h"

struct __half_raw {
    unsigned short x;
};

struct __half {
    _Float16 data;

    __half() = default;
    HIP_HOST_INLINE_MEMBER __half(_Float16 value) : data(value) {}
    HIP_HOST_INLINE_MEMBER __half(float value) : data((_Float16)value) {}
    HIP_HOST_INLINE_MEMBER __half(double value) : data((_Float16)value) {}
    HIP_HOST_INLINE_MEMBER __half(int value) : data((_Float16)(float)value) {}
    HIP_HOST_INLINE_MEMBER __half(unsigned value) : data((_Float16)(float)value) {}
    HIP_HOST_INLINE_MEMBER __half(__half_raw raw) : data(__builtin_bit_cast(_Float16, raw.x)) {}
    HIP_HOST_INLINE_MEMBER operator float() const { return (float)data; }
    HIP_HOST_INLINE_MEMBER operator __half_raw() const { return {__builtin_bit_cast(unsigned short, data)}; }
};
typedef __half half;

// Two at a time, laid out as one 32-bit word.
struct alignas(4) __half2 {
    __half x, y;

    __half2() = default;
    HIP_HOST_INLINE_MEMBER __half2(__half x, __half y) : x(x), y(y) {}
};
typedef __half2 half2;

#define HIP_HOST_HALF_OPERATOR(op)                                                                                     \
    HIP_HOST_INLINE __half operator op(__half a, __half b) { return __half((float)a op(float) b); }                    \
    HIP_HOST_INLINE __half &operator op##=(__half &a, __half b) { return a = a op b; }                                 \
    HIP_HOST_INLINE __half2 operator op(__half2 a, __half2 b) { return {a.x op b.x, a.y op b.y}; }                     \
    HIP_HOST_INLINE __half2 &operator op##=(__half2 &a, __half2 b) { return a = a op b; }
HIP_HOST_HALF_OPERATOR(+)
HIP_HOST_HALF_OPERATOR(-)
HIP_HOST_HALF_OPERATOR(*)
HIP_HOST_HALF_OPERATOR(/)
#undef HIP_HOST_HALF_OPERATOR
HIP_HOST_INLINE __half operator-(__half a) { return __half(-a.data); }
HIP_HOST_INLINE __half2 operator-(__half2 a) { return {-a.x, -a.y}; }

HIP_HOST_INLINE __half __float2half(float x) { return __half(x); }
HIP_HOST_INLINE __half __float2half_rn(float x) { return __half(x); }
HIP_HOST_INLINE __half __double2half(double x) { return __half(x); }
HIP_HOST_INLINE float __half2float(__half x) { return x; }
HIP_HOST_INLINE __half __int2half_rn(int x) { return __half(x); }
HIP_HOST_INLINE __half __uint2half_rn(unsigned x) { return __half(x); }
HIP_HOST_INLINE int __half2int_rz(__half x) { return __float2int_rz(x); }
HIP_HOST_INLINE int __half2int_rn(__half x) { return __float2int_rn(x); }
HIP_HOST_INLINE unsigned short __half_as_ushort(__half x) { return __half_raw(x).x; }
HIP_HOST_INLINE short __half_as_short(__half x) { return (short)__half_raw(x).x; }
HIP_HOST_INLINE __half __ushort_as_half(unsigned short x) { return __half(__half_raw{x}); }
HIP_HOST_INLINE __half __short_as_half(short x) { return __half(__half_raw{(unsigned short)x}); }

HIP_HOST_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
HIP_HOST_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }
HIP_HOST_INLINE __half2 __half2half2(__half x) { return {x, x}; }
HIP_HOST_INLINE __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
HIP_HOST_INLINE __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
HIP_HOST_INLINE __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
HIP_HOST_INLINE float2 __half22float2(__half2 v) { return {v.x, v.y}; }
HIP_HOST_INLINE __half __low2half(__half2 v) { return v.x; }
HIP_HOST_INLINE __half __high2half(__half2 v) { return v.y; }
HIP_HOST_INLINE float __low2float(__half2 v) { return v.x; }
HIP_HOST_INLINE float __high2float(__half2 v) { return v.y; }

// Named arithmetic, one value and two.
#define HIP_HOST_HALF_BINARY(name, body)                                                                               \
    HIP_HOST_INLINE __half name(__half a, __half b) { return body; }                                                   \
    HIP_HOST_INLINE __half2 name##2(__half2 a, __half2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }
HIP_HOST_HALF_BINARY(__hadd, a + b)
HIP_HOST_HALF_BINARY(__hsub, a - b)
HIP_HOST_HALF_BINARY(__hmul, a *b)
HIP_HOST_HALF_BINARY(__hdiv, a / b)
HIP_HOST_HALF_BINARY(__hmax, __half(__builtin_fmaxf(a, b)))
HIP_HOST_HALF_BINARY(__hmin, __half(__builtin_fminf(a, b)))
#undef HIP_HOST_HALF_BINARY
HIP_HOST_INLINE __half2 __h2div(__half2 a, __half2 b) { return a / b; }
// The product of two halves is exact in float and the sum is rounded in double, so one rounding is left.
HIP_HOST_INLINE __half __hfma(__half a, __half b, __half c) { return __half((double)((float)a * (float)b) + (double)(float)c); }
HIP_HOST_INLINE __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
HIP_HOST_INLINE __half __hneg(__half a) { return -a; }
HIP_HOST_INLINE __half2 __hneg2(__half2 a) { return -a; }
HIP_HOST_INLINE __half __habs(__half a) { return __half(__builtin_fabsf(a)); }
HIP_HOST_INLINE __half2 __habs2(__half2 a) { return {__habs(a.x), __habs(a.y)}; }

#define HIP_HOST_HALF_COMPARE(name, op)                                                                                \
    HIP_HOST_INLINE bool name(__half a, __half b) { return (float)a op(float) b; }
HIP_HOST_HALF_COMPARE(__heq, ==)
HIP_HOST_HALF_COMPARE(__hne, !=)
HIP_HOST_HALF_COMPARE(__hlt, <)
HIP_HOST_HALF_COMPARE(__hle, <=)
HIP_HOST_HALF_COMPARE(__hgt, >)
HIP_HOST_HALF_COMPARE(__hge, >=)
#undef HIP_HOST_HALF_COMPARE
HIP_HOST_INLINE bool __hisnan(__half a) { return isnan((float)a); }
HIP_HOST_INLINE bool __hisinf(__half a) { return isinf((float)a); }

#define HIP_HOST_HALF_UNARY(name, call)                                                                                \
    HIP_HOST_INLINE __half h##name(__half a) { return __half(call((float)a)); }                                        \
    HIP_HOST_INLINE __half2 h2##name(__half2 a) { return {h##name(a.x), h##name(a.y)}; }
HIP_HOST_HALF_UNARY(ceil, ceilf)
HIP_HOST_HALF_UNARY(cos, cosf)
HIP_HOST_HALF_UNARY(exp, expf)
HIP_HOST_HALF_UNARY(exp10, exp10f)
HIP_HOST_HALF_UNARY(exp2, exp2f)
HIP_HOST_HALF_UNARY(floor, floorf)
HIP_HOST_HALF_UNARY(log, logf)
HIP_HOST_HALF_UNARY(log10, log10f)
HIP_HOST_HALF_UNARY(log2, log2f)
HIP_HOST_HALF_UNARY(rcp, 1.0f /)
HIP_HOST_HALF_UNARY(rint, rintf)
HIP_HOST_HALF_UNARY(rsqrt, rsqrtf)
HIP_HOST_HALF_UNARY(sin, sinf)
HIP_HOST_HALF_UNARY(sqrt, sqrtf)
HIP_HOST_HALF_UNARY(trunc, truncf)
#undef HIP_HOST_HALF_UNARY

HIP_HOST_INLINE __half atomicAdd(__half *at, __half value) {
    hip_host::check_update(at);
    return hip_host::update(at, [=](__half old) { return old + value; });
}
HIP_HOST_INLINE __half2 atomicAdd(__half2 *at, __half2 value) {
    hip_host::check_update(at);
    return hip_host::update(at, [=](__half2 old) { return old + value; });
}
HIP_HOST_INLINE __half2 unsafeAtomicAdd(__half2 *at, __half2 value) { return atomicAdd(at, value); }
