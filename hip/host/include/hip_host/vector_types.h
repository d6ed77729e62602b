// dim3 and the short vectors: float4, uint2, ... with make_* and elementwise operators, laid out as HIP's.
#pragma once

namespace hip_host {

template <typename T, int N> struct Vector;
template <typename T> struct Vector<T, 1> { T x; };
template <typename T> struct alignas(2 * sizeof(T)) Vector<T, 2> { T x, y; };
template <typename T> struct Vector<T, 3> { T x, y, z; };
template <typename T> struct alignas(4 * sizeof(T)) Vector<T, 4> { T x, y, z, w; };

// Applies `op` to each component of one or two vectors.
template <typename T, typename Op> HIP_HOST_INLINE auto each(Vector<T, 1> a, Op op) {
    return Vector<decltype(op(a.x)), 1>{op(a.x)};
}
template <typename T, typename Op> HIP_HOST_INLINE auto each(Vector<T, 2> a, Op op) {
    return Vector<decltype(op(a.x)), 2>{op(a.x), op(a.y)};
}
template <typename T, typename Op> HIP_HOST_INLINE auto each(Vector<T, 3> a, Op op) {
    return Vector<decltype(op(a.x)), 3>{op(a.x), op(a.y), op(a.z)};
}
template <typename T, typename Op> HIP_HOST_INLINE auto each(Vector<T, 4> a, Op op) {
    return Vector<decltype(op(a.x)), 4>{op(a.x), op(a.y), op(a.z), op(a.w)};
}
template <typename T, typename Op> HIP_HOST_INLINE auto each(Vector<T, 1> a, Vector<T, 1> b, Op op) {
    return Vector<decltype(op(a.x, b.x)), 1>{op(a.x, b.x)};
}
template <typename T, typename Op> HIP_HOST_INLINE auto each(Vector<T, 2> a, Vector<T, 2> b, Op op) {
    return Vector<decltype(op(a.x, b.x)), 2>{op(a.x, b.x), op(a.y, b.y)};
}
template <typename T, typename Op> HIP_HOST_INLINE auto each(Vector<T, 3> a, Vector<T, 3> b, Op op) {
    return Vector<decltype(op(a.x, b.x)), 3>{op(a.x, b.x), op(a.y, b.y), op(a.z, b.z)};
}
template <typename T, typename Op> HIP_HOST_INLINE auto each(Vector<T, 4> a, Vector<T, 4> b, Op op) {
    return Vector<decltype(op(a.x, b.x)), 4>{op(a.x, b.x), op(a.y, b.y), op(a.z, b.z), op(a.w, b.w)};
}

template <typename T, int N> HIP_HOST_INLINE Vector<T, N> splat(T s) {
    if constexpr (N == 1) return {s};
    else if constexpr (N == 2) return {s, s};
    else if constexpr (N == 3) return {s, s, s};
    else return {s, s, s, s};
}

// The scalar of a mixed operation is not deduced, so that `float4 * 2` works.
template <typename T> struct Same { typedef T type; };

#define HIP_HOST_OPERATOR(op)                                                                                          \
    template <typename T, int N> HIP_HOST_INLINE Vector<T, N> operator op(Vector<T, N> a, Vector<T, N> b) {           \
        return each(a, b, [](T x, T y) { return T(x op y); });                                                        \
    }                                                                                                                  \
    template <typename T, int N> HIP_HOST_INLINE Vector<T, N> operator op(Vector<T, N> a, typename Same<T>::type b) { \
        return each(a, [b](T x) { return T(x op b); });                                                               \
    }                                                                                                                  \
    template <typename T, int N> HIP_HOST_INLINE Vector<T, N> operator op(typename Same<T>::type a, Vector<T, N> b) { \
        return each(b, [a](T y) { return T(a op y); });                                                               \
    }                                                                                                                  \
    template <typename T, int N> HIP_HOST_INLINE Vector<T, N> &operator op##=(Vector<T, N> &a, Vector<T, N> b) {      \
        return a = a op b;                                                                                            \
    }                                                                                                                  \
    template <typename T, int N>                                                                                       \
    HIP_HOST_INLINE Vector<T, N> &operator op##=(Vector<T, N> &a, typename Same<T>::type b) {                         \
        return a = a op b;                                                                                            \
    }
HIP_HOST_OPERATOR(+)
HIP_HOST_OPERATOR(-)
HIP_HOST_OPERATOR(*)
HIP_HOST_OPERATOR(/)
HIP_HOST_OPERATOR(%)
HIP_HOST_OPERATOR(&)
HIP_HOST_OPERATOR(|)
HIP_HOST_OPERATOR(^)
HIP_HOST_OPERATOR(<<)
HIP_HOST_OPERATOR(>>)
#undef HIP_HOST_OPERATOR

template <typename T, int N> HIP_HOST_INLINE Vector<T, N> operator-(Vector<T, N> a) {
    return each(a, [](T x) { return T(-x); });
}
template <typename T, int N> HIP_HOST_INLINE Vector<T, N> operator~(Vector<T, N> a) {
    return each(a, [](T x) { return T(~x); });
}
template <typename T, int N> HIP_HOST_INLINE bool operator==(Vector<T, N> a, Vector<T, N> b) {
    bool same = true;
    each(a, b, [&](T x, T y) { return same = same && x == y; });
    return same;
}
template <typename T, int N> HIP_HOST_INLINE bool operator!=(Vector<T, N> a, Vector<T, N> b) { return !(a == b); }

} // namespace hip_host

#define HIP_HOST_VECTOR(name, T)                                                                                       \
    typedef hip_host::Vector<T, 1> name##1;                                                                            \
    typedef hip_host::Vector<T, 2> name##2;                                                                            \
    typedef hip_host::Vector<T, 3> name##3;                                                                            \
    typedef hip_host::Vector<T, 4> name##4;                                                                            \
    HIP_HOST_INLINE name##1 make_##name##1(T x) { return {x}; }                                                        \
    HIP_HOST_INLINE name##2 make_##name##2(T x, T y) { return {x, y}; }                                                \
    HIP_HOST_INLINE name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                        \
    HIP_HOST_INLINE name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
HIP_HOST_VECTOR(char, signed char)
HIP_HOST_VECTOR(uchar, unsigned char)
HIP_HOST_VECTOR(short, short)
HIP_HOST_VECTOR(ushort, unsigned short)
HIP_HOST_VECTOR(int, int)
HIP_HOST_VECTOR(uint, unsigned int)
HIP_HOST_VECTOR(long, long)
HIP_HOST_VECTOR(ulong, unsigned long)
HIP_HOST_VECTOR(longlong, long long)
HIP_HOST_VECTOR(ulonglong, unsigned long long)
HIP_HOST_VECTOR(float, float)
HIP_HOST_VECTOR(double, double)
#undef HIP_HOST_VECTOR

struct dim3 {
    uint x, y, z;
    constexpr dim3(uint x = 1, uint y = 1, uint z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
