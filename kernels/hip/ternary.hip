// where(condition, on_true, on_false) with conditions of any integer dtype.
#include "elementwise.h"

template <typename Condition, typename T> struct Where {
    static constexpr bool heavy = false;
    static MEMBER T apply(const Params &, Condition condition, T yes, T no) { return condition != 0 ? yes : no; }
};

#define ENTRY(T, Condition) ELEMENTWISE_3(where_##Condition##_##T, T, Condition, T, T, Where<Condition, T>)
FOR_ALL_DTYPES(ENTRY, u8)
FOR_ALL_DTYPES(ENTRY, u32)
FOR_ALL_DTYPES(ENTRY, i16)
FOR_ALL_DTYPES(ENTRY, i32)
FOR_ALL_DTYPES(ENTRY, i64)
