// Conversions between all pairs of dtypes: the table is the whole module, the rules are in portable/types.h.
#include "elementwise.h"

template <typename From, typename To> struct Convert {
    static constexpr bool heavy = false;
    static MEMBER To apply(const Params &, From x) { return cast<To>(x); }
};

#define ENTRY(From, To) ELEMENTWISE_1(cast_##From##_##To, To, From, Convert<From, To>)
#define TO(To) FROM_ALL(To)
// Macros do not recurse, so one of the two lists is spelled here.
#define FROM_ALL(To)                                                                                \
    ENTRY(u8, To) ENTRY(u32, To) ENTRY(i16, To) ENTRY(i32, To) ENTRY(i64, To) ENTRY(bf16, To)        \
    ENTRY(f16, To) ENTRY(f32, To) ENTRY(f64, To) ENTRY(f8e4m3, To)
FOR_ALL_DTYPES(TO)
