// HIP for kernels that a clang compiles for an AMD GPU without a ROCm: ids, barriers, fences, shuffles, votes, atomics, clocks, and
// the arithmetic that needs no device library. Included before every source that the run-time compiler gets for an emulated device.
#pragma once

#define __HIPCC__ 1
#define __HIPCC_RTC__ 1
#define __HIP_PLATFORM_AMD__ 1
#define __HIP_PLATFORM_HCC__ 1

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define HIP_HOST_INLINE static inline __attribute__((device, host, always_inline, unused))
#define HIP_HOST_INLINE_MEMBER inline __attribute__((device, host, always_inline))
#define HIP_AMD_DEVICE static inline __attribute__((device, always_inline, unused))

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef long long longlong;
typedef unsigned long long ulonglong;

#include "hip_host/vector_types.h"
#include "hip_amd/ids.h"
#include "hip_amd/wave.h"
#include "hip_amd/atomics.h"
#include "hip_amd/math.h"
#include "hip_host/integer.h"
