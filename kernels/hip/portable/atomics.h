// Atomic updates of one element in device memory, for every dtype; relaxed, visible to the whole device.
// Integers and f32/f64 sums use the target's own instruction where it has one, the rest is a loop around a
// compare-and-swap of the element's bits. Floating sums depend on the order in which threads arrive.
#pragma once

#if defined(TARGET_NVIDIA)
// Compare-and-swap of one byte inside its word; buffers are multiples of 256 bytes, so the word is always ours.
DEVICE u8 swap_if(u8 *at, u8 expected, u8 desired) {
    u32 *word = (u32 *)((u64)at & ~3ull);
    u32 shift = (u32)((u64)at & 3ull) * 8;
    u32 old = *(volatile u32 *)word;
    while ((u8)(old >> shift) == expected) {
        u32 seen = atomicCAS(word, old, (old & ~(0xffu << shift)) | ((u32)desired << shift));
        if (seen == old) return expected;
        old = seen;
    }
    return (u8)(old >> shift);
}
DEVICE u16 swap_if(u16 *at, u16 expected, u16 desired) { return atomicCAS(at, expected, desired); }
DEVICE u32 swap_if(u32 *at, u32 expected, u32 desired) { return atomicCAS(at, expected, desired); }
DEVICE u64 swap_if(u64 *at, u64 expected, u64 desired) { return atomicCAS(at, expected, desired); }
template <typename T> DEVICE T read_shared_word(const T *at) { return *(const volatile T *)at; }
#elif defined(TARGET_AMD)
template <typename T> DEVICE T swap_if(T *at, T expected, T desired) {
    __hip_atomic_compare_exchange_strong(at, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_AGENT);
    return expected;
}
template <typename T> DEVICE T read_shared_word(const T *at) {
    return __hip_atomic_load(at, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
#else
template <typename T> DEVICE T swap_if(T *at, T expected, T desired) {
    __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
template <typename T> DEVICE T read_shared_word(const T *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
#endif

template <u32 SIZE> struct BitsOfSize;
template <> struct BitsOfSize<1> { typedef u8 type; };
template <> struct BitsOfSize<2> { typedef u16 type; };
template <> struct BitsOfSize<4> { typedef u32 type; };
template <> struct BitsOfSize<8> { typedef u64 type; };
template <typename T> using BitsOf = typename BitsOfSize<sizeof(T)>::type;

// *at = change(*at), as one step. Nothing is written when `change` leaves the bits as they are.
template <typename T, typename Change> DEVICE void atomic_update(T *at, Change change) {
    typedef BitsOf<T> Bits;
    Bits old = read_shared_word((const Bits *)at);
    for (;;) {
        Bits desired = bit_cast<Bits>(change(bit_cast<T>(old)));
        if (desired == old) return;
        Bits seen = swap_if((Bits *)at, old, desired);
        if (seen == old) return;
        old = seen;
    }
}

template <typename T> struct HasNativeAdd {
    static constexpr bool value = IsSame<T, u32>::value || IsSame<T, i32>::value || IsSame<T, u64>::value ||
                                  IsSame<T, i64>::value || IsSame<T, f32>::value || IsSame<T, f64>::value;
};

template <typename T> DEVICE void atomic_add(T *at, T value) {
    if constexpr (HasNativeAdd<T>::value) {
#if defined(TARGET_AMD)
        __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#elif defined(TARGET_NVIDIA)
        if constexpr (IsSame<T, i64>::value) {
            atomicAdd((u64 *)at, (u64)value);
        } else {
            atomicAdd(at, value);
        }
#else
        if constexpr (IsFloat<T>::value) {
            atomic_update(at, [=](T old) { return old + value; });
        } else {
            __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
        }
#endif
    } else {
        atomic_update(at, [=](T old) { return cast<T>((Compute<T>)(widen(old) + widen(value))); });
    }
}
template <typename T> DEVICE void atomic_max(T *at, T value) {
    atomic_update(at, [=](T old) { return widen(old) < widen(value) ? value : old; });
}

// Counts one up and returns the number before.
DEVICE u32 atomic_next(u32 *at) {
#if defined(TARGET_AMD)
    return __hip_atomic_fetch_add(at, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#elif defined(TARGET_NVIDIA)
    return atomicAdd(at, 1u);
#else
    return __atomic_fetch_add(at, 1u, __ATOMIC_RELAXED);
#endif
}
