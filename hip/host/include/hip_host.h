// HIP for kernels that run on the CPU: included before every translation unit of the embedded device, so that ordinary
// HIP source compiles with a plain C++17 compiler. `__global__`, `__device__` and `__shared__` are not macros: the scanner
// (scan.rs) reads and replaces them, and appends the table that names each kernel. The parts are in hip_host/.
//
// How a kernel runs: `Entry<&kernel>::run` is a loop over threads with the kernel inlined into it. The ids are variables
// of this file whose address nobody takes, so the compiler keeps them in registers and may vectorise over threads.
// A barrier leaves the loop: see execution.h.
#pragma once

#define __HIP_HOST__ 1
#define __HIPCC__ 1
#define __HIPCC_RTC__ 1
#define __HIP_DEVICE_COMPILE__ 1
#define __HIP_PLATFORM_AMD__ 1
#define __HIP_PLATFORM_HCC__ 1

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
// For std::abs, which has to be complete before `abs` is overloaded here.
#include <cstdlib>

#define __host__
// Exported, so that hipModuleGetGlobal finds it.
#define __constant__ __attribute__((visibility("default"), unused))
#define __managed__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z
#define __HIP_MEMORY_SCOPE_SINGLETHREAD 1
#define __HIP_MEMORY_SCOPE_WAVEFRONT 2
#define __HIP_MEMORY_SCOPE_WORKGROUP 3
#define __HIP_MEMORY_SCOPE_AGENT 4
#define __HIP_MEMORY_SCOPE_SYSTEM 5

#define HIP_HOST_INLINE static inline __attribute__((always_inline, unused))
#define HIP_HOST_INLINE_MEMBER inline __attribute__((always_inline))

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef long long longlong;
typedef unsigned long long ulonglong;

#include "hip_host/vector_types.h"
#include "hip_host/abi.h"
#include "hip_host/checked.h"
#include "hip_host/execution.h"
#include "hip_host/wave.h"
#include "hip_host/atomics.h"
#include "hip_host/math.h"
#include "hip_host/integer.h"
#include "hip_host/entry.h"

// A branch that is rare still stays where it is in the text; see `flags` in compile/options.rs.
#define __builtin_expect(value, expected) (value)
