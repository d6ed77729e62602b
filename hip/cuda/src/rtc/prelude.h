// HIP names that CUDA lacks, put in front of every program that is compiled at run time. What both have (threadIdx,
// __syncthreads, atomicAdd, the math functions) is CUDA's own here.
#pragma once

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

// HIP's wave operations take part with whoever is there; CUDA's want to be told who. CUDA still declares the names of old,
// without code for them on any GPU of today, so they are taken over by macros.
template <typename T> static __device__ __forceinline__ T hip_wave_shfl(T value, int lane, int width = 32) {
    return __shfl_sync(__activemask(), value, lane, width);
}
template <typename T> static __device__ __forceinline__ T hip_wave_shfl_up(T value, unsigned int delta, int width = 32) {
    return __shfl_up_sync(__activemask(), value, delta, width);
}
template <typename T> static __device__ __forceinline__ T hip_wave_shfl_down(T value, unsigned int delta, int width = 32) {
    return __shfl_down_sync(__activemask(), value, delta, width);
}
template <typename T> static __device__ __forceinline__ T hip_wave_shfl_xor(T value, int mask, int width = 32) {
    return __shfl_xor_sync(__activemask(), value, mask, width);
}
static __device__ __forceinline__ unsigned long long hip_wave_ballot(int yes) { return __ballot_sync(__activemask(), yes); }
static __device__ __forceinline__ int hip_wave_any(int yes) { return __any_sync(__activemask(), yes); }
static __device__ __forceinline__ int hip_wave_all(int yes) { return __all_sync(__activemask(), yes); }
#define __shfl hip_wave_shfl
#define __shfl_up hip_wave_shfl_up
#define __shfl_down hip_wave_shfl_down
#define __shfl_xor hip_wave_shfl_xor
#define __ballot hip_wave_ballot
#define __any hip_wave_any
#define __all hip_wave_all

static __device__ __forceinline__ unsigned int __lane_id() {
    unsigned int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

// Nanoseconds of a clock that all multiprocessors share.
static __device__ __forceinline__ long long wall_clock64() {
    long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}
