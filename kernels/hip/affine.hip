// x * mul + add, with the factors first rounded to the dtype and each step rounded as Candle's CPU backend does.
#include "elementwise.h"

template <typename T> struct Affine {
    static constexpr bool heavy = false;
    static MEMBER T apply(const Params &params, T x) {
        T mul = cast<T>(params.first), add = cast<T>(params.second);
        if constexpr (IsFloat<T>::value) {
            typedef Compute<T> F;
            T product = cast<T>((F)(widen(x) * widen(mul)));
            return cast<T>((F)(widen(product) + widen(add)));
        } else {
            return (T)((u64)x * (u64)mul + (u64)add); // integers wrap
        }
    }
};

#define ENTRY(T) ELEMENTWISE_1(affine_##T, T, T, Affine<T>)
FOR_ALL_DTYPES(ENTRY)
