// Elementwise functions of one tensor, with the answers of Candle's CPU backend for NaN, signed zeros and integers.
// Floats compute in f32 (f64 for f64) and round once. f8e4m3 is the exception: where the CPU composes a function
// from several f8 operations, each of them rounds here as well, because at three bits of mantissa the steps are the result.
#include "elementwise.h"
#include "fast_math.h"
#include "activation.h"

// Rust's max takes the number where one side is NaN; float8's keeps the NaN. A negative zero stays: signs are looked at in the bits,
// because LLVM's vectoriser takes `x < 0 ? 0 : x` for a maximum, which makes a positive zero of it (f16 on gfx1100).
template <typename T> DEVICE Compute<T> relu(Compute<T> x) {
    typedef Compute<T> F;
    const bool below = is_negative(x) && x != (F)0;
    if constexpr (IsSame<T, f8e4m3>::value) return below && x == x ? (F)0 : x;
    else return below || x != x ? (F)0 : x;
}

FLOAT_OP(Exp, true, exp_(x))
FLOAT_OP(Log, true, log_(x))
FLOAT_OP(Sin, true, sin_(x))
FLOAT_OP(Cos, true, cos_(x))
FLOAT_OP(Tanh, true, tanh_(x))
FLOAT_OP(Erf, true, erf_(x))
FLOAT_OP(Ceil, false, ceil_(x))
FLOAT_OP(Floor, false, floor_(x))
FLOAT_OP(Round, false, round_(x))
FLOAT_OP(Neg, false, -x)
FLOAT_OP(Recip, false, (F)1 / x)
FLOAT_OP(Sqr, false, x * x)
FLOAT_OP(Sqrt, false, sqrt_(x))
FLOAT_OP(Abs, false, abs_(x))
FLOAT_OP(Sign, false, (F)(x > (F)0) - (F)(x < (F)0))
FLOAT_OP(Relu, false, relu<T>(x))
FLOAT_OP(Sigmoid, !IsQuick<T>::value, logistic<T>(step<T>((F)1), x))
FLOAT_OP(GeluErf, true, (erf_(x * (F)0.70710678118654752440) + (F)1) * (F)0.5 * x)
FLOAT_OP(Elu, true, is_negative(x) ? step<T>(step<T>(exp_(x)) - (F)1) * widen(cast<T>(params.first)) : x)
FLOAT_OP(Powf, true, pow_(x, widen(cast<T>(params.first))))

// An operator on integers.
#define INT_OP(Name, expression)                                                  \
    template <typename T> struct Name {                                           \
        static constexpr bool heavy = false;                                      \
        static MEMBER T apply(const Params &, T x) { return (T)(expression); }    \
    };
INT_OP(Same, x)
INT_OP(Zero, x - x)
INT_OP(IntSign, (x > 0) - (x < 0))
INT_OP(IntRelu, x > 0 ? x : 0)
// In 64 bits, where the least i64 wraps to itself as it does in Rust.
INT_OP(IntAbs, x < 0 ? (T)(0ull - (u64)x) : x)

// Copies keep every bit, NaN payloads included.
template <typename T> struct Copy {
    static constexpr bool heavy = false;
    static MEMBER T apply(const Params &, T x) { return x; }
};

#define ENTRY(T, name, Op) ELEMENTWISE_1(name##_##T, T, T, Op<T>)
#define FLOATS(name, Op) FOR_FLOAT_DTYPES(ENTRY, name, Op)
#define INTS(name, Op) FOR_INT_DTYPES(ENTRY, name, Op)

FOR_ALL_DTYPES(ENTRY, ucopy, Copy)
FLOATS(uexp, Exp)
FLOATS(ulog, Log)
FLOATS(usin, Sin)
FLOATS(ucos, Cos)
FLOATS(utanh, Tanh)
FLOATS(uneg, Neg)
FLOATS(urecip, Recip)
FLOATS(usqr, Sqr)
FLOATS(usqrt, Sqrt)
FLOATS(usigmoid, Sigmoid)
FLOATS(uelu, Elu)
FLOATS(upowf, Powf)
FLOATS(uerf, Erf) INTS(uerf, Zero)
FLOATS(ugelu, Gelu) INTS(ugelu, Zero)
FLOATS(ugelu_erf, GeluErf) INTS(ugelu_erf, Zero)
FLOATS(usilu, Silu) INTS(usilu, Zero)
FLOATS(uabs, Abs) INTS(uabs, IntAbs)
FLOATS(uceil, Ceil) INTS(uceil, Same)
FLOATS(ufloor, Floor) INTS(ufloor, Same)
FLOATS(uround, Round) INTS(uround, Same)
FLOATS(usign, Sign) INTS(usign, IntSign)
FLOATS(urelu, Relu) INTS(urelu, IntRelu)
