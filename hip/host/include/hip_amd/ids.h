// Where a thread is, what it waits for, and what time it is.
#pragma once

namespace hip_amd {

// threadIdx and its like: objects without a place, whose members are asked of the hardware.
#define HIP_AMD_ID(Name, X, Y, Z)                                                                                      \
    struct Name {                                                                                                      \
        __declspec(property(get = get_x)) unsigned x;                                                                  \
        __declspec(property(get = get_y)) unsigned y;                                                                  \
        __declspec(property(get = get_z)) unsigned z;                                                                  \
        static HIP_HOST_INLINE_MEMBER __attribute__((device)) unsigned get_x() { return X; }                           \
        static HIP_HOST_INLINE_MEMBER __attribute__((device)) unsigned get_y() { return Y; }                           \
        static HIP_HOST_INLINE_MEMBER __attribute__((device)) unsigned get_z() { return Z; }                           \
        HIP_HOST_INLINE_MEMBER operator dim3() const { return dim3(get_x(), get_y(), get_z()); }                       \
    };
HIP_AMD_ID(Thread, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z())
HIP_AMD_ID(Block, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z())
HIP_AMD_ID(Size, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_workgroup_size_z())
HIP_AMD_ID(Grid, __builtin_amdgcn_grid_size_x() / Size::get_x(), __builtin_amdgcn_grid_size_y() / Size::get_y(),
           __builtin_amdgcn_grid_size_z() / Size::get_z())

} // namespace hip_amd

static constexpr hip_amd::Thread threadIdx = {};
static constexpr hip_amd::Block blockIdx = {};
static constexpr hip_amd::Size blockDim = {};
static constexpr hip_amd::Grid gridDim = {};
static constexpr int warpSize = __AMDGCN_WAVEFRONT_SIZE;

HIP_AMD_DEVICE void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
HIP_AMD_DEVICE void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
HIP_AMD_DEVICE void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }

HIP_AMD_DEVICE void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// The constant clock of 100 MHz.
HIP_AMD_DEVICE long long wall_clock64() {
#if defined(__GFX11__) || defined(__GFX12__)
    return (long long)__builtin_amdgcn_s_sendmsg_rtnl(0x83);
#else
    return (long long)__builtin_amdgcn_s_memrealtime();
#endif
}
// The processor's clock; gfx11 has 20 bits of it only, so there it is the constant one.
HIP_AMD_DEVICE long long clock64() {
#if defined(__GFX11__)
    return wall_clock64();
#elif defined(__GFX12__)
    return (long long)__builtin_readcyclecounter();
#else
    return (long long)__builtin_amdgcn_s_memtime();
#endif
}
HIP_AMD_DEVICE int clock() { return (int)clock64(); }

#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : __builtin_trap())
#endif
