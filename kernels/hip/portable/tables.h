// The dtype lists that tables of entry points are made from: one line of a module's table becomes
// one kernel for each dtype. X receives the dtype's name, which is also its type and its suffix.
#pragma once

#define FOR_FLOAT_DTYPES(X, ...)                                                                   \
    X(bf16, ##__VA_ARGS__) X(f16, ##__VA_ARGS__) X(f32, ##__VA_ARGS__) X(f64, ##__VA_ARGS__)         \
    X(f8e4m3, ##__VA_ARGS__)
#define FOR_INT_DTYPES(X, ...)                                                                     \
    X(u8, ##__VA_ARGS__) X(u32, ##__VA_ARGS__) X(i16, ##__VA_ARGS__) X(i32, ##__VA_ARGS__)           \
    X(i64, ##__VA_ARGS__)
#define FOR_ALL_DTYPES(X, ...) FOR_INT_DTYPES(X, ##__VA_ARGS__) FOR_FLOAT_DTYPES(X, ##__VA_ARGS__)
// The dtypes an index tensor may have.
#define FOR_ID_DTYPES(X, ...) X(u8, ##__VA_ARGS__) X(u32, ##__VA_ARGS__) X(i64, ##__VA_ARGS__)
