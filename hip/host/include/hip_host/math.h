// Floating point by HIP's names: the C library's functions, overloaded for float, and the device's own spellings.
// `<cmath>` of the C++ library costs 0.1 s a compilation, so the C library's header is read directly, and
// kernels that ask for <cmath> or <math.h> get the file of that name beside hip_host.h.
#pragma once

// The first name is a wish to our own math.h, the second to that of the C++ library: step aside.
#define HIP_HOST_WANTS_C_MATH
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#undef HIP_HOST_WANTS_C_MATH
#undef fpclassify
#undef isfinite
#undef isinf
#undef isnan
#undef isnormal
#undef signbit
#undef isgreater
#undef isgreaterequal
#undef isless
#undef islessequal
#undef islessgreater
#undef isunordered

namespace hip_host {

template <typename T> struct Integer { static constexpr bool value = false; };
#define HIP_HOST_IS_INTEGER(T)                                                                                         \
    template <> struct Integer<T> { static constexpr bool value = true; };
HIP_HOST_IS_INTEGER(bool)
HIP_HOST_IS_INTEGER(char)
HIP_HOST_IS_INTEGER(signed char)
HIP_HOST_IS_INTEGER(unsigned char)
HIP_HOST_IS_INTEGER(short)
HIP_HOST_IS_INTEGER(unsigned short)
HIP_HOST_IS_INTEGER(int)
HIP_HOST_IS_INTEGER(unsigned int)
HIP_HOST_IS_INTEGER(long)
HIP_HOST_IS_INTEGER(unsigned long)
HIP_HOST_IS_INTEGER(long long)
HIP_HOST_IS_INTEGER(unsigned long long)
#undef HIP_HOST_IS_INTEGER
template <typename T> struct Number { static constexpr bool value = Integer<T>::value; };
template <> struct Number<float> { static constexpr bool value = true; };
template <> struct Number<double> { static constexpr bool value = true; };

template <bool YES, typename T> struct If {};
template <typename T> struct If<true, T> { typedef T type; };

// An integer argument means the double overload.
template <typename T> using Widened = typename If<Integer<T>::value, double>::type;
// Two numbers of different types meet in double.
template <typename A, typename B> struct Different { static constexpr bool value = true; };
template <typename A> struct Different<A, A> { static constexpr bool value = Integer<A>::value; };
template <typename A, typename B>
using Mixed = typename If<Number<A>::value && Number<B>::value && Different<A, B>::value, double>::type;

} // namespace hip_host

// name(float) beside the C library's name(double) and namef(float).
#define HIP_HOST_UNARY(name)                                                                                           \
    HIP_HOST_INLINE float name(float x) { return __builtin_##name##f(x); }                                             \
    template <typename T> HIP_HOST_INLINE hip_host::Widened<T> name(T x) { return __builtin_##name((double)x); }
HIP_HOST_UNARY(acos)
HIP_HOST_UNARY(acosh)
HIP_HOST_UNARY(asin)
HIP_HOST_UNARY(asinh)
HIP_HOST_UNARY(atan)
HIP_HOST_UNARY(atanh)
HIP_HOST_UNARY(cbrt)
HIP_HOST_UNARY(ceil)
HIP_HOST_UNARY(cos)
HIP_HOST_UNARY(cosh)
HIP_HOST_UNARY(erf)
HIP_HOST_UNARY(erfc)
HIP_HOST_UNARY(exp)
HIP_HOST_UNARY(exp2)
HIP_HOST_UNARY(expm1)
HIP_HOST_UNARY(fabs)
HIP_HOST_UNARY(floor)
HIP_HOST_UNARY(lgamma)
HIP_HOST_UNARY(log)
HIP_HOST_UNARY(log10)
HIP_HOST_UNARY(log1p)
HIP_HOST_UNARY(log2)
HIP_HOST_UNARY(logb)
HIP_HOST_UNARY(nearbyint)
HIP_HOST_UNARY(rint)
HIP_HOST_UNARY(round)
HIP_HOST_UNARY(sin)
HIP_HOST_UNARY(sinh)
HIP_HOST_UNARY(sqrt)
HIP_HOST_UNARY(tan)
HIP_HOST_UNARY(tanh)
HIP_HOST_UNARY(tgamma)
HIP_HOST_UNARY(trunc)
#undef HIP_HOST_UNARY

#define HIP_HOST_BINARY(name)                                                                                          \
    HIP_HOST_INLINE float name(float x, float y) { return __builtin_##name##f(x, y); }                                 \
    template <typename A, typename B> HIP_HOST_INLINE hip_host::Mixed<A, B> name(A x, B y) {                           \
        return __builtin_##name((double)x, (double)y);                                                                 \
    }
HIP_HOST_BINARY(atan2)
HIP_HOST_BINARY(copysign)
HIP_HOST_BINARY(fdim)
HIP_HOST_BINARY(fmax)
HIP_HOST_BINARY(fmin)
HIP_HOST_BINARY(fmod)
HIP_HOST_BINARY(hypot)
HIP_HOST_BINARY(nextafter)
HIP_HOST_BINARY(pow)
HIP_HOST_BINARY(remainder)
#undef HIP_HOST_BINARY

HIP_HOST_INLINE float pow(float x, int y) { return __builtin_powf(x, (float)y); }
HIP_HOST_INLINE float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
HIP_HOST_INLINE float ldexp(float x, int power) { return __builtin_ldexpf(x, power); }
HIP_HOST_INLINE float frexp(float x, int *power) { return __builtin_frexpf(x, power); }
HIP_HOST_INLINE float modf(float x, float *whole) { return __builtin_modff(x, whole); }
HIP_HOST_INLINE float scalbn(float x, int power) { return __builtin_scalbnf(x, power); }
HIP_HOST_INLINE long lround(float x) { return __builtin_lroundf(x); }
HIP_HOST_INLINE long lrint(float x) { return __builtin_lrintf(x); }
HIP_HOST_INLINE long long llround(float x) { return __builtin_llroundf(x); }
HIP_HOST_INLINE long long llrint(float x) { return __builtin_llrintf(x); }
HIP_HOST_INLINE int ilogb(float x) { return __builtin_ilogbf(x); }

// On the bits, so that they hold under -ffast-math too.
#define HIP_HOST_CLASSIFY(name, float_test, double_test)                                                               \
    HIP_HOST_INLINE bool name(float x) {                                                                               \
        const unsigned bits = __builtin_bit_cast(unsigned, x), magnitude = bits & 0x7fffffffu;                         \
        return (void)magnitude, float_test;                                                                            \
    }                                                                                                                  \
    HIP_HOST_INLINE bool name(double x) {                                                                              \
        const unsigned long long bits = __builtin_bit_cast(unsigned long long, x), magnitude = bits & (~0ull >> 1);    \
        return (void)magnitude, double_test;                                                                           \
    }
HIP_HOST_CLASSIFY(isnan, magnitude > 0x7f800000u, magnitude > 0x7ff0000000000000ull)
HIP_HOST_CLASSIFY(isinf, magnitude == 0x7f800000u, magnitude == 0x7ff0000000000000ull)
HIP_HOST_CLASSIFY(isfinite, magnitude < 0x7f800000u, magnitude < 0x7ff0000000000000ull)
HIP_HOST_CLASSIFY(isnormal, magnitude - 0x00800000u < 0x7f000000u, magnitude - (1ull << 52) < 0x7fe0000000000000ull)
HIP_HOST_CLASSIFY(signbit, bits >> 31, bits >> 63)
#undef HIP_HOST_CLASSIFY

// std::abs was complete before this file; here it is the global one too, as for HIP.
using std::abs;

// As HIP: for floats the number wins over a NaN.
#define HIP_HOST_MIN_MAX(T, lesser, greater)                                                                           \
    HIP_HOST_INLINE T min(T a, T b) { return lesser; }                                                                 \
    HIP_HOST_INLINE T max(T a, T b) { return greater; }
HIP_HOST_MIN_MAX(int, b < a ? b : a, a < b ? b : a)
HIP_HOST_MIN_MAX(unsigned int, b < a ? b : a, a < b ? b : a)
HIP_HOST_MIN_MAX(long, b < a ? b : a, a < b ? b : a)
HIP_HOST_MIN_MAX(unsigned long, b < a ? b : a, a < b ? b : a)
HIP_HOST_MIN_MAX(long long, b < a ? b : a, a < b ? b : a)
HIP_HOST_MIN_MAX(unsigned long long, b < a ? b : a, a < b ? b : a)
HIP_HOST_MIN_MAX(float, __builtin_fminf(a, b), __builtin_fmaxf(a, b))
HIP_HOST_MIN_MAX(double, __builtin_fmin(a, b), __builtin_fmax(a, b))
#undef HIP_HOST_MIN_MAX

namespace hip_host {
template <typename A, typename B>
using Common = typename If<Number<A>::value && Number<B>::value, decltype(A() + B())>::type;
} // namespace hip_host
template <typename A, typename B> HIP_HOST_INLINE hip_host::Common<A, B> min(A a, B b) {
    typedef hip_host::Common<A, B> T;
    return min((T)a, (T)b);
}
template <typename A, typename B> HIP_HOST_INLINE hip_host::Common<A, B> max(A a, B b) {
    typedef hip_host::Common<A, B> T;
    return max((T)a, (T)b);
}

// What HIP has beyond the C library, for float (with an f) and double.
#define HIP_HOST_PAIR(name, parameters, float_body, double_body)                                                       \
    HIP_HOST_INLINE float name##f parameters(float) { return float_body; }                                             \
    HIP_HOST_INLINE double name parameters(double) { return double_body; }
#define HIP_HOST_X(T) (T x)
#define HIP_HOST_XY(T) (T x, T y)
#define HIP_HOST_XYZ(T) (T x, T y, T z)
HIP_HOST_PAIR(rsqrt, HIP_HOST_X, 1.0f / __builtin_sqrtf(x), 1.0 / __builtin_sqrt(x))
HIP_HOST_PAIR(rcbrt, HIP_HOST_X, 1.0f / __builtin_cbrtf(x), 1.0 / __builtin_cbrt(x))
HIP_HOST_PAIR(rhypot, HIP_HOST_XY, 1.0f / __builtin_hypotf(x, y), 1.0 / __builtin_hypot(x, y))
HIP_HOST_PAIR(norm3d, HIP_HOST_XYZ, __builtin_sqrtf(x * x + y * y + z * z), __builtin_sqrt(x * x + y * y + z * z))
HIP_HOST_PAIR(normcdf, HIP_HOST_X, 0.5f * __builtin_erfcf(x * -0.70710678f), 0.5 * __builtin_erfc(x * -0.70710678118654752))
#define HIP_HOST_PI 3.14159265358979323846
// The argument is reduced first, exactly, so that large ones keep their precision.
HIP_HOST_PAIR(sinpi, HIP_HOST_X, (float)__builtin_sin(HIP_HOST_PI * __builtin_fmod((double)x, 2.0)),
              __builtin_sin(HIP_HOST_PI * __builtin_fmod(x, 2.0)))
HIP_HOST_PAIR(cospi, HIP_HOST_X, (float)__builtin_cos(HIP_HOST_PI * __builtin_fmod((double)x, 2.0)),
              __builtin_cos(HIP_HOST_PI * __builtin_fmod(x, 2.0)))
#undef HIP_HOST_PAIR
#undef HIP_HOST_X
#undef HIP_HOST_XY
#undef HIP_HOST_XYZ
#undef HIP_HOST_PI
HIP_HOST_INLINE float rsqrt(float x) { return rsqrtf(x); }
HIP_HOST_INLINE float fdividef(float x, float y) { return x / y; }
HIP_HOST_INLINE float exp10(float x) { return exp10f(x); }
HIP_HOST_INLINE void sincos(float x, float *sine, float *cosine) { *sine = __builtin_sinf(x), *cosine = __builtin_cosf(x); }
HIP_HOST_INLINE void sincospif(float x, float *sine, float *cosine) { *sine = sinpif(x), *cosine = cospif(x); }
HIP_HOST_INLINE void sincospi(double x, double *sine, double *cosine) { *sine = sinpi(x), *cosine = cospi(x); }

// The fast forms: as exact here as the others. The C library has names of its own for some (__expf and
// the like are not for users), so these are macros.
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __exp2f(x) exp2f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
#define __sincosf(x, sine, cosine) sincosf(x, sine, cosine)
#define __fdividef(x, y) fdividef(x, y)

HIP_HOST_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
HIP_HOST_INLINE float __frcp_rn(float x) { return 1.0f / x; }
HIP_HOST_INLINE float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
HIP_HOST_INLINE float __frsqrt_rn(float x) { return rsqrtf(x); }
HIP_HOST_INLINE float __fadd_rn(float x, float y) { return x + y; }
HIP_HOST_INLINE float __fsub_rn(float x, float y) { return x - y; }
HIP_HOST_INLINE float __fmul_rn(float x, float y) { return x * y; }
HIP_HOST_INLINE float __fdiv_rn(float x, float y) { return x / y; }
HIP_HOST_INLINE float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
HIP_HOST_INLINE double __dadd_rn(double x, double y) { return x + y; }
HIP_HOST_INLINE double __dsub_rn(double x, double y) { return x - y; }
HIP_HOST_INLINE double __dmul_rn(double x, double y) { return x * y; }
HIP_HOST_INLINE double __ddiv_rn(double x, double y) { return x / y; }
HIP_HOST_INLINE double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
HIP_HOST_INLINE double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
