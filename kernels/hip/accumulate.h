// What sums of a dtype are kept in, and the way back: f32 for the short floats, the type itself for f32 and f64, and
// unsigned integers of at least 32 bits for integers, whose sums wrap around in Candle.
#pragma once

template <typename T> struct SumOf { typedef u32 type; };
template <> struct SumOf<i64> { typedef u64 type; };
template <> struct SumOf<f64> { typedef f64 type; };
template <> struct SumOf<f32> { typedef f32 type; };
template <> struct SumOf<f16> { typedef f32 type; };
template <> struct SumOf<bf16> { typedef f32 type; };
template <> struct SumOf<f8e4m3> { typedef f32 type; };
template <typename T> using SumType = typename SumOf<T>::type;

template <typename T> DEVICE SumType<T> to_sum(T x) { return SumType<T>(widen(x)); }
template <typename T> DEVICE T from_sum(SumType<T> sum) {
    if constexpr (IsFloat<T>::value) return cast<T>(sum);
    else return T(sum);
}
