// Atomic read-modify-write: one step of the processor where it has one, else a loop around compare-and-swap.
// Relaxed, as HIP's: ordering is the business of the fences. In checked mode the old value must have been written.
#pragma once

namespace hip_host {

template <int BYTES> struct Bits;
template <> struct Bits<1> { typedef unsigned char type; };
template <> struct Bits<2> { typedef unsigned short type; };
template <> struct Bits<4> { typedef unsigned int type; };
template <> struct Bits<8> { typedef unsigned long long type; };

// *at = change(*at) in one step; returns what was there.
template <typename T, typename Change> HIP_HOST_INLINE T update(T *at, Change change) {
    typedef typename Bits<sizeof(T)>::type Word;
    Word *const word = (Word *)at;
    Word seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    for (;;) {
        const T old = __builtin_bit_cast(T, seen);
        const Word wanted = __builtin_bit_cast(Word, T(change(old)));
        if (__atomic_compare_exchange_n(word, &seen, wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return old;
    }
}

} // namespace hip_host

// Each operation in HIP's spellings: for the device, and the whole system.
#define HIP_HOST_ATOMIC(name, T, body)                                                                                 \
    HIP_HOST_INLINE T name(T *at, T value) {                                                                           \
        hip_host::check_update(at);                                                                                    \
        return body;                                                                                                   \
    }                                                                                                                  \
    HIP_HOST_INLINE T name##_system(T *at, T value) { return name(at, value); }

#define HIP_HOST_INTEGER_ATOMICS(T)                                                                                    \
    HIP_HOST_ATOMIC(atomicAdd, T, __atomic_fetch_add(at, value, __ATOMIC_RELAXED))                                     \
    HIP_HOST_ATOMIC(atomicSub, T, __atomic_fetch_sub(at, value, __ATOMIC_RELAXED))                                     \
    HIP_HOST_ATOMIC(atomicAnd, T, __atomic_fetch_and(at, value, __ATOMIC_RELAXED))                                     \
    HIP_HOST_ATOMIC(atomicOr, T, __atomic_fetch_or(at, value, __ATOMIC_RELAXED))                                       \
    HIP_HOST_ATOMIC(atomicXor, T, __atomic_fetch_xor(at, value, __ATOMIC_RELAXED))                                     \
    HIP_HOST_ATOMIC(atomicMin, T, hip_host::update(at, [=](T old) { return value < old ? value : old; }))              \
    HIP_HOST_ATOMIC(atomicMax, T, hip_host::update(at, [=](T old) { return old < value ? value : old; }))              \
    HIP_HOST_SWAP_ATOMICS(T)

// An exchange reads nothing that anyone relies on, so fresh memory will do.
#define HIP_HOST_SWAP_ATOMICS(T)                                                                                       \
    HIP_HOST_INLINE T atomicExch(T *at, T value) { return __atomic_exchange_n(at, value, __ATOMIC_RELAXED); }          \
    HIP_HOST_INLINE T atomicExch_system(T *at, T value) { return atomicExch(at, value); }                              \
    HIP_HOST_INLINE T atomicCAS(T *at, T expected, T value) {                                                          \
        hip_host::check_update(at);                                                                                    \
        __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                  \
        return expected;                                                                                               \
    }                                                                                                                  \
    HIP_HOST_INLINE T atomicCAS_system(T *at, T expected, T value) { return atomicCAS(at, expected, value); }

#define HIP_HOST_FLOAT_ATOMICS(T)                                                                                      \
    HIP_HOST_ATOMIC(atomicAdd, T, hip_host::update(at, [=](T old) { return old + value; }))                            \
    HIP_HOST_ATOMIC(atomicSub, T, hip_host::update(at, [=](T old) { return old - value; }))                            \
    HIP_HOST_ATOMIC(atomicMin, T, hip_host::update(at, [=](T old) { return value < old ? value : old; }))              \
    HIP_HOST_ATOMIC(atomicMax, T, hip_host::update(at, [=](T old) { return old < value ? value : old; }))              \
    HIP_HOST_ATOMIC(unsafeAtomicAdd, T, atomicAdd(at, value))                                                          \
    HIP_HOST_ATOMIC(safeAtomicAdd, T, atomicAdd(at, value))                                                            \
    HIP_HOST_ATOMIC(unsafeAtomicMin, T, atomicMin(at, value))                                                          \
    HIP_HOST_ATOMIC(unsafeAtomicMax, T, atomicMax(at, value))                                                          \
    HIP_HOST_INLINE T atomicExch(T *at, T value) {                                                                     \
        typedef hip_host::Bits<sizeof(T)>::type Word;                                                                  \
        const Word old = __atomic_exchange_n((Word *)at, __builtin_bit_cast(Word, value), __ATOMIC_RELAXED);           \
        return __builtin_bit_cast(T, old);                                                                             \
    }                                                                                                                  \
    HIP_HOST_INLINE T atomicCAS(T *at, T expected, T value) {                                                          \
        typedef hip_host::Bits<sizeof(T)>::type Word;                                                                  \
        hip_host::check_update(at);                                                                                    \
        Word seen = __builtin_bit_cast(Word, expected);                                                                \
        __atomic_compare_exchange_n((Word *)at, &seen, __builtin_bit_cast(Word, value), false, __ATOMIC_RELAXED,       \
                                    __ATOMIC_RELAXED);                                                                 \
        return __builtin_bit_cast(T, seen);                                                                            \
    }

HIP_HOST_INTEGER_ATOMICS(int)
HIP_HOST_INTEGER_ATOMICS(unsigned int)
HIP_HOST_INTEGER_ATOMICS(long)
HIP_HOST_INTEGER_ATOMICS(unsigned long)
HIP_HOST_INTEGER_ATOMICS(long long)
HIP_HOST_INTEGER_ATOMICS(unsigned long long)
HIP_HOST_SWAP_ATOMICS(unsigned short)
HIP_HOST_FLOAT_ATOMICS(float)
HIP_HOST_FLOAT_ATOMICS(double)

// Counts up to `value`, then starts again at 0; and down to 0, then again from `value`.
HIP_HOST_ATOMIC(atomicInc, unsigned int, hip_host::update(at, [=](unsigned old) { return old >= value ? 0 : old + 1; }))
HIP_HOST_ATOMIC(atomicDec, unsigned int,
                hip_host::update(at, [=](unsigned old) { return old == 0 || old > value ? value : old - 1; }))

#undef HIP_HOST_INTEGER_ATOMICS
#undef HIP_HOST_SWAP_ATOMICS
#undef HIP_HOST_FLOAT_ATOMICS

namespace hip_host {
// What stands for T in an argument that shall not take part in deduction.
template <typename T> using Value = typename Same<T>::type;
} // namespace hip_host

// Clang's atomics with a scope (__hip_atomic_*, which clang knows as its own). Every scope is the whole system here.
template <typename T> HIP_HOST_INLINE T hip_host_atomic_load(const T *at, int order, int) {
    T value;
    __atomic_load((T *)at, &value, order);
    return value;
}
template <typename T> HIP_HOST_INLINE void hip_host_atomic_store(T *at, hip_host::Value<T> value, int order, int) {
    __atomic_store(at, &value, order);
}
#define HIP_HOST_SCOPED(name, call)                                                                                    \
    template <typename T> HIP_HOST_INLINE T name(T *at, hip_host::Value<T> value, int, int) { return call(at, value); }
HIP_HOST_SCOPED(hip_host_atomic_fetch_add, atomicAdd)
HIP_HOST_SCOPED(hip_host_atomic_fetch_sub, atomicSub)
HIP_HOST_SCOPED(hip_host_atomic_fetch_and, atomicAnd)
HIP_HOST_SCOPED(hip_host_atomic_fetch_or, atomicOr)
HIP_HOST_SCOPED(hip_host_atomic_fetch_xor, atomicXor)
HIP_HOST_SCOPED(hip_host_atomic_fetch_min, atomicMin)
HIP_HOST_SCOPED(hip_host_atomic_fetch_max, atomicMax)
HIP_HOST_SCOPED(hip_host_atomic_exchange, atomicExch)
#undef HIP_HOST_SCOPED
template <typename T>
HIP_HOST_INLINE bool hip_host_atomic_compare_exchange_strong(T *at, T *expected, hip_host::Value<T> value, int, int, int) {
    typedef typename hip_host::Bits<sizeof(T)>::type Word;
    hip_host::check_update(at);
    return __atomic_compare_exchange_n((Word *)at, (Word *)expected, __builtin_bit_cast(Word, value), false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
#define __hip_atomic_load hip_host_atomic_load
#define __hip_atomic_store hip_host_atomic_store
#define __hip_atomic_fetch_add hip_host_atomic_fetch_add
#define __hip_atomic_fetch_sub hip_host_atomic_fetch_sub
#define __hip_atomic_fetch_and hip_host_atomic_fetch_and
#define __hip_atomic_fetch_or hip_host_atomic_fetch_or
#define __hip_atomic_fetch_xor hip_host_atomic_fetch_xor
#define __hip_atomic_fetch_min hip_host_atomic_fetch_min
#define __hip_atomic_fetch_max hip_host_atomic_fetch_max
#define __hip_atomic_exchange hip_host_atomic_exchange
#define __hip_atomic_compare_exchange_strong hip_host_atomic_compare_exchange_strong
#define __hip_atomic_compare_exchange_weak hip_host_atomic_compare_exchange_strong

#ifdef HIP_HOST_CHECKED
// The compiler's own atomics are instrumented as stores; that they read as well is said here.
namespace hip_host {
template <typename T> HIP_HOST_INLINE T *updated(T *at) {
    check_update(at);
    return at;
}
} // namespace hip_host
#define __atomic_fetch_add(at, ...) __atomic_fetch_add(hip_host::updated(at), __VA_ARGS__)
#define __atomic_fetch_sub(at, ...) __atomic_fetch_sub(hip_host::updated(at), __VA_ARGS__)
#define __atomic_fetch_and(at, ...) __atomic_fetch_and(hip_host::updated(at), __VA_ARGS__)
#define __atomic_fetch_or(at, ...) __atomic_fetch_or(hip_host::updated(at), __VA_ARGS__)
#define __atomic_fetch_xor(at, ...) __atomic_fetch_xor(hip_host::updated(at), __VA_ARGS__)
#define __atomic_compare_exchange_n(at, ...) __atomic_compare_exchange_n(hip_host::updated(at), __VA_ARGS__)
#endif
