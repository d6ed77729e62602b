// Rows of memory on their way to shared memory, in pieces of 16 bytes.
#pragma once

// A piece of a row from element `first` on; zeros past its end, and where there is no row. Rows are whole pieces.
template <typename T> DEVICE Vec<T, Lanes<T>::count> load_piece(const T *row, u32 first, u32 length) {
    Vec<T, Lanes<T>::count> piece = {};
    if (row != nullptr && first < length) piece = load<Lanes<T>::count>(row + first);
    return piece;
}

// The same of row `key` of k or v, and of the last row where there are no more: what comes of that one is hidden, or has no weight. Without a
// branch, so that loads of several pieces overlap.
template <typename T> DEVICE Vec<T, Lanes<T>::count> load_key_piece(const KeyRows<T> &rows, u32 key, u32 end, u32 first, u32 length) {
    constexpr u32 N = Lanes<T>::count;
    Vec<u32, 4> words = bit_cast<Vec<u32, 4>>(load<N>(rows.at(min_of(key, end - 1)) + min_of(first, length - N)));
    UNROLL
    for (u32 i = 0; i < 4; i++) words[i] = first < length ? words[i] : 0;
    return bit_cast<Vec<T, N>>(words);
}

// The shared memory of a block. NVIDIA gives a kernel more than 48 KB only where the launch asks for it.
#if defined(TARGET_NVIDIA)
extern __shared__ Vec<u32, 4> attention_bytes[];
#define ATTENTION_SHARED(Type, name) Type &name = *(Type *)attention_bytes
#else
#define ATTENTION_SHARED(Type, name) __shared__ Type name
#endif
