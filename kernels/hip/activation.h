// Operators that are functions of one value, and the activations among them that gated layers multiply with: `unary.hip` has each by
// itself, `gated.hip` with the product.
#pragma once
#include "elementwise.h"
#include "fast_math.h"
#include "rounding.h"

// Rounds an intermediate value as the CPU backend does for f8e4m3, and leaves all other dtypes alone.
template <typename T> DEVICE Compute<T> step(Compute<T> x) {
    if constexpr (IsSame<T, f8e4m3>::value) return widen(cast<T>(x));
    return x;
}

// An operator from a function on compute values.
#define FLOAT_OP(Name, is_heavy, expression)                                      \
    template <typename T> struct Name {                                           \
        static constexpr bool heavy = is_heavy;                                   \
        typedef Compute<T> F;                                                     \
        static MEMBER T apply(const Params &params, T value) {                    \
            F x = widen(value);                                                   \
            (void)params;                                                         \
            return cast<T>((F)(expression));                                      \
        }                                                                         \
    };

// Where a result is rounded to f16 or bf16, quick functions are exact enough and light enough for several pieces in flight.
template <typename T> struct IsQuick {
    static constexpr bool value = IsSame<T, f16>::value || IsSame<T, bf16>::value;
};
// x / (1 + e^-y)
template <typename T> DEVICE Compute<T> logistic(Compute<T> x, Compute<T> y) {
    typedef Compute<T> F;
    if constexpr (IsQuick<T>::value) return product_alone(over_one_plus(x, exp_rough(-y)));
    else return x / step<T>((F)1 + step<T>(exp_(-y)));
}

FLOAT_OP(Silu, !IsQuick<T>::value, logistic<T>(x, x))

// The approximation with tanh, in the CPU's order of operations.
template <typename T> struct Gelu {
    static constexpr bool heavy = !IsQuick<T>::value;
    typedef Compute<T> F;
    static MEMBER T apply(const Params &, T value) {
        F x = widen(value);
        if constexpr (IsQuick<T>::value) {
            // (1 + tanh(u)) / 2 is 1 / (1 + e^-2u), with one exponential and nothing that cancels.
            const F twice = x * ((F)1.5957691216057308 + (F)0.071354816272 * x * x);
            return cast<T>(logistic<T>(x, twice));
        }
        F cubic = step<T>(step<T>(step<T>((F)0.044715) * x) * x);
        F inner = step<T>(step<T>(step<T>((F)0.79788456080286535588) * x) * step<T>((F)1 + cubic));
        return cast<T>((F)(step<T>((F)0.5 * x) * step<T>((F)1 + step<T>(tanh_(inner)))));
    }
};
