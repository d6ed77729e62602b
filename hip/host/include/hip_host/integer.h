// Bits and integers by HIP's names, and the conversions that spell their rounding.
#pragma once

HIP_HOST_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
HIP_HOST_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
HIP_HOST_INLINE int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
HIP_HOST_INLINE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
// HIP has these for signed and unsigned alike.
template <typename T> HIP_HOST_INLINE int __ffs(T x) { return __builtin_ffs((int)x); }
template <typename T> HIP_HOST_INLINE int __ffsll(T x) { return __builtin_ffsll((long long)x); }

HIP_HOST_INLINE unsigned __brev(unsigned x) {
    x = (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
    x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
    x = (x & 0x0f0f0f0fu) << 4 | (x >> 4 & 0x0f0f0f0fu);
    return __builtin_bswap32(x);
}
HIP_HOST_INLINE unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}

HIP_HOST_INLINE int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
HIP_HOST_INLINE unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
HIP_HOST_INLINE long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
HIP_HOST_INLINE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
HIP_HOST_INLINE int __mul24(int x, int y) { return (int)((unsigned)(x << 8 >> 8) * (unsigned)(y << 8 >> 8)); }
HIP_HOST_INLINE unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffffu) * (y & 0xffffffu); }
HIP_HOST_INLINE int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
HIP_HOST_INLINE int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
HIP_HOST_INLINE unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y) >> 1); }
HIP_HOST_INLINE unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y + 1) >> 1); }
HIP_HOST_INLINE unsigned __sad(int x, int y, unsigned z) {
    return (unsigned)(x > y ? (long long)x - y : (long long)y - x) + z;
}
HIP_HOST_INLINE unsigned __usad(unsigned x, unsigned y, unsigned z) { return (x > y ? x - y : y - x) + z; }

// Each of the four low nibbles of `select` picks one of eight bytes.
HIP_HOST_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned select) {
    const unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned out = 0;
    for (unsigned i = 0; i < 4; i++) out |= (unsigned)(bytes >> (select >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return out;
}
HIP_HOST_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
HIP_HOST_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}

HIP_HOST_INLINE int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
HIP_HOST_INLINE unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
HIP_HOST_INLINE float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
HIP_HOST_INLINE float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
HIP_HOST_INLINE long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
HIP_HOST_INLINE double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
HIP_HOST_INLINE int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
HIP_HOST_INLINE int __double2loint(double x) { return (int)__double_as_longlong(x); }
HIP_HOST_INLINE double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}

namespace hip_host {

// A float that has been rounded to an integer, as one: clamped to its range, and 0 for NaN, as a GPU converts.
template <typename To, typename From> HIP_HOST_INLINE To clamped(From x) {
    constexpr bool is_signed = To(-1) < To(0);
    constexpr To highest = To(is_signed ? ~0ull >> (65 - 8 * sizeof(To)) : ~0ull >> (64 - 8 * sizeof(To)));
    constexpr To lowest = is_signed ? To(-highest - 1) : To(0);
    // One above the highest is a power of two, hence exact.
    constexpr From end = From(highest / 2 + 1) * 2;
    if (!(x > From(lowest))) return x <= From(lowest) ? lowest : To(0);
    return x < end ? To(x) : highest;
}

} // namespace hip_host

#define HIP_HOST_CONVERSIONS(from, From, suffix, to, To)                                                               \
    HIP_HOST_INLINE To __##from##2##to##_rn(From x) { return hip_host::clamped<To>(__builtin_rint##suffix(x)); }       \
    HIP_HOST_INLINE To __##from##2##to##_rz(From x) { return hip_host::clamped<To>(__builtin_trunc##suffix(x)); }      \
    HIP_HOST_INLINE To __##from##2##to##_ru(From x) { return hip_host::clamped<To>(__builtin_ceil##suffix(x)); }       \
    HIP_HOST_INLINE To __##from##2##to##_rd(From x) { return hip_host::clamped<To>(__builtin_floor##suffix(x)); }
HIP_HOST_CONVERSIONS(float, float, f, int, int)
HIP_HOST_CONVERSIONS(float, float, f, uint, unsigned int)
HIP_HOST_CONVERSIONS(float, float, f, ll, long long)
HIP_HOST_CONVERSIONS(float, float, f, ull, unsigned long long)
HIP_HOST_CONVERSIONS(double, double, , int, int)
HIP_HOST_CONVERSIONS(double, double, , uint, unsigned int)
HIP_HOST_CONVERSIONS(double, double, , ll, long long)
HIP_HOST_CONVERSIONS(double, double, , ull, unsigned long long)
#undef HIP_HOST_CONVERSIONS

HIP_HOST_INLINE float __int2float_rn(int x) { return (float)x; }
HIP_HOST_INLINE float __uint2float_rn(unsigned x) { return (float)x; }
HIP_HOST_INLINE float __ll2float_rn(long long x) { return (float)x; }
HIP_HOST_INLINE float __ull2float_rn(unsigned long long x) { return (float)x; }
HIP_HOST_INLINE double __int2double_rn(int x) { return (double)x; }
HIP_HOST_INLINE double __uint2double_rn(unsigned x) { return (double)x; }
HIP_HOST_INLINE double __ll2double_rn(long long x) { return (double)x; }
HIP_HOST_INLINE double __ull2double_rn(unsigned long long x) { return (double)x; }
HIP_HOST_INLINE float __double2float_rn(double x) { return (float)x; }
