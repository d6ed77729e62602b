// Arithmetic that the compiler expands by itself. Functions that need AMD's device library are not here.
#pragma once

#define HIP_AMD_MATH_1(name)                                                                                           \
    HIP_HOST_INLINE float name##f(float x) { return __builtin_##name##f(x); }                                          \
    HIP_HOST_INLINE float name(float x) { return __builtin_##name##f(x); }                                             \
    HIP_HOST_INLINE double name(double x) { return __builtin_##name(x); }
#define HIP_AMD_MATH_2(name)                                                                                           \
    HIP_HOST_INLINE float name##f(float x, float y) { return __builtin_##name##f(x, y); }                              \
    HIP_HOST_INLINE float name(float x, float y) { return __builtin_##name##f(x, y); }                                 \
    HIP_HOST_INLINE double name(double x, double y) { return __builtin_##name(x, y); }
#define HIP_AMD_MATH_FLOAT(name)                                                                                       \
    HIP_HOST_INLINE float name##f(float x) { return __builtin_##name##f(x); }                                          \
    HIP_HOST_INLINE float name(float x) { return __builtin_##name##f(x); }

HIP_AMD_MATH_1(fabs)
HIP_AMD_MATH_1(sqrt)
HIP_AMD_MATH_1(floor)
HIP_AMD_MATH_1(ceil)
HIP_AMD_MATH_1(trunc)
HIP_AMD_MATH_1(rint)
HIP_AMD_MATH_1(nearbyint)
HIP_AMD_MATH_1(round)
HIP_AMD_MATH_2(fmin)
HIP_AMD_MATH_2(fmax)
HIP_AMD_MATH_2(copysign)
HIP_AMD_MATH_FLOAT(exp)
HIP_AMD_MATH_FLOAT(exp2)
HIP_AMD_MATH_FLOAT(log)
HIP_AMD_MATH_FLOAT(log2)
HIP_AMD_MATH_FLOAT(log10)
HIP_HOST_INLINE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
HIP_HOST_INLINE float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
HIP_HOST_INLINE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
template <typename T> HIP_HOST_INLINE T min(T a, T b) { return b < a ? b : a; }
template <typename T> HIP_HOST_INLINE T max(T a, T b) { return a < b ? b : a; }
template <typename T> HIP_HOST_INLINE T abs(T x) { return x < T(0) ? -x : x; }
HIP_HOST_INLINE bool isnan(float x) { return x != x; }
HIP_HOST_INLINE bool isnan(double x) { return x != x; }
