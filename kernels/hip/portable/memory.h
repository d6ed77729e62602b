// Moving memory in 16-byte pieces: a Vec<T, N> is N elements that are loaded and stored at once.
#pragma once

template <typename T, u32 N> struct alignas(sizeof(T) * N) Vec {
    T at[N];
    MEMBER T &operator[](u32 i) { return at[i]; }
    MEMBER const T &operator[](u32 i) const { return at[i]; }
};

// Elements of T in 16 bytes.
template <typename T> struct Lanes { static constexpr u32 count = 16 / sizeof(T); };

// `at` is a multiple of N * sizeof(T), which the launch layer has checked.
template <u32 N, typename T> DEVICE Vec<T, N> load(const T *at) { return *(const Vec<T, N> *)at; }
template <u32 N, typename T> DEVICE void store(T *at, Vec<T, N> v) { *(Vec<T, N> *)at = v; }
