// Atomic read-modify-write: relaxed, as HIP's; ordering is the business of the fences.
#pragma once

// Each operation in HIP's spellings: for the device, the block and the whole system.
#define HIP_AMD_ATOMIC_SCOPES(name, T, operation)                                                                      \
    HIP_AMD_DEVICE T name(T *at, T value) {                                                                            \
        return operation(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);                                       \
    }                                                                                                                  \
    HIP_AMD_DEVICE T name##_block(T *at, T value) {                                                                    \
        return operation(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);                                   \
    }                                                                                                                  \
    HIP_AMD_DEVICE T name##_system(T *at, T value) {                                                                   \
        return operation(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);                                      \
    }

#define HIP_AMD_ATOMICS(T)                                                                                             \
    HIP_AMD_ATOMIC_SCOPES(atomicAdd, T, __hip_atomic_fetch_add)                                                        \
    HIP_AMD_ATOMIC_SCOPES(atomicSub, T, __hip_atomic_fetch_sub)                                                        \
    HIP_AMD_ATOMIC_SCOPES(atomicMin, T, __hip_atomic_fetch_min)                                                        \
    HIP_AMD_ATOMIC_SCOPES(atomicMax, T, __hip_atomic_fetch_max)                                                        \
    HIP_AMD_ATOMIC_SCOPES(atomicExch, T, __hip_atomic_exchange)                                                        \
    HIP_AMD_DEVICE T atomicCAS(T *at, T expected, T value) {                                                           \
        __hip_atomic_compare_exchange_strong(at, &expected, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED,                 \
                                             __HIP_MEMORY_SCOPE_AGENT);                                                \
        return expected;                                                                                               \
    }                                                                                                                  \
    HIP_AMD_DEVICE T atomicCAS_system(T *at, T expected, T value) {                                                    \
        __hip_atomic_compare_exchange_strong(at, &expected, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED,                 \
                                             __HIP_MEMORY_SCOPE_SYSTEM);                                               \
        return expected;                                                                                               \
    }
#define HIP_AMD_INTEGER_ATOMICS(T)                                                                                     \
    HIP_AMD_ATOMICS(T)                                                                                                 \
    HIP_AMD_ATOMIC_SCOPES(atomicAnd, T, __hip_atomic_fetch_and)                                                        \
    HIP_AMD_ATOMIC_SCOPES(atomicOr, T, __hip_atomic_fetch_or)                                                          \
    HIP_AMD_ATOMIC_SCOPES(atomicXor, T, __hip_atomic_fetch_xor)

HIP_AMD_INTEGER_ATOMICS(int)
HIP_AMD_INTEGER_ATOMICS(unsigned int)
HIP_AMD_INTEGER_ATOMICS(unsigned long)
HIP_AMD_INTEGER_ATOMICS(long long)
HIP_AMD_INTEGER_ATOMICS(unsigned long long)
HIP_AMD_ATOMICS(float)
HIP_AMD_ATOMICS(double)

// One more, and 0 behind `most`; one less, and `most` behind 0.
HIP_AMD_DEVICE unsigned atomicInc(unsigned *at, unsigned most) {
    return __builtin_amdgcn_atomic_inc32(at, most, __ATOMIC_RELAXED, "agent");
}
HIP_AMD_DEVICE unsigned atomicDec(unsigned *at, unsigned most) {
    return __builtin_amdgcn_atomic_dec32(at, most, __ATOMIC_RELAXED, "agent");
}
