// What differs between the targets at the level of the language: attributes, thread ids, the barrier.
// Everything above this file is written once. AMD uses compiler builtins and not HIP's header names, so that
// hipRTC (which brings those names) and a bare clang (which does not) compile the very same text.
#pragma once

#if defined(__HIP_HOST__)
#define TARGET_HOST 1
#elif defined(__CUDACC_RTC__) || defined(__CUDA_ARCH__) || defined(__CUDACC__)
#define TARGET_NVIDIA 1
#else
#define TARGET_AMD 1
#endif

#if defined(TARGET_AMD)
#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifndef __device__
#define __device__ __attribute__((device))
#endif
#ifndef __host__
#define __host__ __attribute__((host))
#endif
#ifndef __shared__
#define __shared__ __attribute__((shared))
#endif
#ifndef __constant__
#define __constant__ __attribute__((constant))
#endif
#define LAUNCH_BOUNDS(threads) __attribute__((amdgpu_flat_work_group_size(threads, threads)))
#else
#define LAUNCH_BOUNDS(threads) __launch_bounds__(threads)
#endif

// A function that kernels call. Always inlined: a call on AMD costs a stack and the caller's registers. DEVICE_SHARED and
// MEMBER_SHARED are for what many kernels have in common: the embedded device, which compiles every kernel whenever it is built,
// has that once. Nothing in there may wait for other threads.
#if defined(TARGET_HOST)
#define DEVICE static inline __attribute__((always_inline, unused))
#define MEMBER inline __attribute__((always_inline))
#define DEVICE_SHARED static __attribute__((noinline, unused))
#define MEMBER_SHARED __attribute__((noinline))
#elif defined(TARGET_NVIDIA)
#define DEVICE static __device__ __forceinline__
#define MEMBER __device__ __forceinline__
#else
#define DEVICE static __device__ inline __attribute__((always_inline, unused))
#define MEMBER __device__ inline __attribute__((always_inline))
#endif

#if !defined(DEVICE_SHARED)
#define DEVICE_SHARED DEVICE
#define MEMBER_SHARED MEMBER
#endif

// Compile the fast paths? They keep the memory of a GPU busy. The embedded device gains nothing from them
// and takes half a minute to compile them. Where it checks every access it has them, because that is where kernels are tested.
#if defined(TARGET_HOST) && !defined(HIP_HOST_CHECKED)
#define GENERAL_ONLY 1
constexpr bool FAST_PATHS = false;
#else
constexpr bool FAST_PATHS = true;
#endif

// An entry point that is launched with exactly `threads` threads a block.
#define KERNEL(threads) extern "C" __global__ void LAUNCH_BOUNDS(threads)

// Read-only pointers that do not alias let the compiler keep loads in flight.
#define RESTRICT __restrict__

// UNROLL_ON_GPU is for loops that the embedded device runs just as fast as loops, or only in tests: compiling is what they cost.
#if defined(TARGET_HOST)
#define UNROLL _Pragma("GCC unroll 16")
#define UNROLL_TWICE _Pragma("GCC unroll 2")
#define NO_UNROLL _Pragma("GCC unroll 1")
#define UNROLL_ON_GPU NO_UNROLL
#elif defined(TARGET_NVIDIA)
#define UNROLL _Pragma("unroll")
#define UNROLL_TWICE _Pragma("unroll 2")
#define NO_UNROLL _Pragma("unroll 1")
#define UNROLL_ON_GPU UNROLL
#else
#define UNROLL _Pragma("clang loop unroll(full)")
#define UNROLL_TWICE _Pragma("clang loop unroll_count(2)")
#define NO_UNROLL _Pragma("clang loop unroll(disable)")
#define UNROLL_ON_GPU UNROLL
#endif

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
typedef u64 usize;

#if defined(TARGET_AMD)
DEVICE u32 thread_x() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 block_x() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE u32 block_z() { return __builtin_amdgcn_workgroup_id_z(); }
// In blocks, as gridDim is. The dispatch packet counts threads.
DEVICE u32 grid_x() { return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(); }
DEVICE u32 grid_y() { return __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(); }
// Shared memory, and nothing else, is as all threads of the block left it: what threads exchange through global memory they order with
// device_fence(). On RDNA a fence for global memory waits for all loads and stores of a wave and empties the nearest cache. Older
// compilers know no other.
#if defined(__clang_major__) && __clang_major__ >= 19
#define SHARED_FENCE(order) __builtin_amdgcn_fence(order, "workgroup", "local")
#else
#define SHARED_FENCE(order) __builtin_amdgcn_fence(order, "workgroup")
#endif
DEVICE void barrier() {
    SHARED_FENCE(__ATOMIC_RELEASE);
    __builtin_amdgcn_s_barrier();
    SHARED_FENCE(__ATOMIC_ACQUIRE);
}
// What this thread has seen and written comes before what it does next, for the whole device.
DEVICE void device_fence() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent"); }
#else
DEVICE u32 thread_x() { return threadIdx.x; }
DEVICE u32 block_x() { return blockIdx.x; }
DEVICE u32 block_y() { return blockIdx.y; }
DEVICE u32 block_z() { return blockIdx.z; }
DEVICE u32 grid_x() { return gridDim.x; }
DEVICE u32 grid_y() { return gridDim.y; }
DEVICE void barrier() { __syncthreads(); }
#if defined(TARGET_NVIDIA) && __CUDA_ARCH__ >= 700
DEVICE void device_fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
#else
DEVICE void device_fence() { __threadfence(); }
#endif
#endif

// The first statement of every kernel. On NVIDIA from Hopper on, a kernel is put onto its units while what its predecessor wrote
// is still on its way to memory (`hip-cuda` does so for modules with the symbol below), and waits here until all of that
// is done and seen. Elsewhere the queue itself waits, and there is nothing to do.
// A kernel does not call its successor earlier than at its end, though it could: blocks that come to units still at work
// are spread over them unevenly, and a grid of a few blocks a unit then takes up to a third longer (measured on an H200). Only the
// activations of a product on matrix units do, because its blocks have a unit each (bulk_copy.h).
#if defined(TARGET_NVIDIA) && __CUDA_ARCH__ >= 900
extern "C" __device__ const u32 hip_cuda_kernels_wait_by_themselves = 1;
DEVICE void enter() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#else
DEVICE void enter() {}
#endif

// The bits of one type read as another of the same size.
template <typename To, typename From> DEVICE To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
#if defined(TARGET_NVIDIA)
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
#else
    return __builtin_bit_cast(To, from);
#endif
}

template <typename A, typename B> struct IsSame { static constexpr bool value = false; };
template <typename A> struct IsSame<A, A> { static constexpr bool value = true; };
template <bool C, typename A, typename B> struct Choose { typedef A type; };
template <typename A, typename B> struct Choose<false, A, B> { typedef B type; };

template <typename T> DEVICE T min_of(T a, T b) { return b < a ? b : a; }
template <typename T> DEVICE T max_of(T a, T b) { return a < b ? b : a; }
template <typename T> constexpr MEMBER T ceil_div(T a, T b) { return (a + b - 1) / b; }
