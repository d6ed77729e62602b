// Arithmetic and comparisons of two tensors of one dtype. Integers wrap; an integer divided by zero gives 0 and is
// reported; minimum and maximum keep the left operand unless the right one compares beyond it, which fixes what
// they do with NaN. Comparisons give u8.
#include "elementwise.h"

template <typename T> struct Arithmetic {
    typedef Compute<T> C;
    // Unsigned, because wrapping is defined there.
    static MEMBER C add(C a, C b, FaultWord *) {
        if constexpr (IsFloat<T>::value) return a + b;
        return (C)((u64)a + (u64)b);
    }
    static MEMBER C sub(C a, C b, FaultWord *) {
        if constexpr (IsFloat<T>::value) return a - b;
        return (C)((u64)a - (u64)b);
    }
    static MEMBER C mul(C a, C b, FaultWord *) {
        if constexpr (IsFloat<T>::value) return a * b;
        return (C)((u64)a * (u64)b);
    }
    static MEMBER C div(C a, C b, FaultWord *fault) {
        if constexpr (IsFloat<T>::value) {
            return a / b;
        } else {
            if (b == 0) {
                report(fault, FAULT_DIVISION, (i64)a, 0);
                return 0;
            }
            // The least value over -1 would trap; it wraps to itself.
            if constexpr ((T)-1 < (T)0) {
                if (b == (C)-1) return (C)(0ull - (u64)a);
            }
            return (C)(a / b);
        }
    }
    static MEMBER C minimum(C a, C b, FaultWord *) { return a > b ? b : a; }
    static MEMBER C maximum(C a, C b, FaultWord *) { return a < b ? b : a; }
};

#define ARITHMETIC(T, name)                                                                                \
    struct b##name##_##T##_op {                                                                            \
        static constexpr bool heavy = false;                                                               \
        static MEMBER T apply(const Params &params, T a, T b) {                                            \
            return cast<T>(Arithmetic<T>::name(widen(a), widen(b), params.fault));                         \
        }                                                                                                  \
    };                                                                                                     \
    ELEMENTWISE_2(b##name##_##T, T, T, T, b##name##_##T##_op)

#define COMPARISON(T, name, sign)                                                                          \
    struct name##_##T##_op {                                                                               \
        static constexpr bool heavy = false;                                                               \
        static MEMBER u8 apply(const Params &, T a, T b) { return widen(a) sign widen(b) ? 1 : 0; }        \
    };                                                                                                     \
    ELEMENTWISE_2(name##_##T, u8, T, T, name##_##T##_op)

FOR_ALL_DTYPES(ARITHMETIC, add)
FOR_ALL_DTYPES(ARITHMETIC, sub)
FOR_ALL_DTYPES(ARITHMETIC, mul)
FOR_ALL_DTYPES(ARITHMETIC, div)
FOR_ALL_DTYPES(ARITHMETIC, minimum)
FOR_ALL_DTYPES(ARITHMETIC, maximum)
FOR_ALL_DTYPES(COMPARISON, eq, ==)
FOR_ALL_DTYPES(COMPARISON, ne, !=)
FOR_ALL_DTYPES(COMPARISON, lt, <)
FOR_ALL_DTYPES(COMPARISON, le, <=)
FOR_ALL_DTYPES(COMPARISON, gt, >)
FOR_ALL_DTYPES(COMPARISON, ge, >=)
