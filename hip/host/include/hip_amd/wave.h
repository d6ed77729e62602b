// Waves: shuffles, votes, masks. Lanes that a branch has turned off take no part.
#pragma once

namespace hip_amd {

HIP_AMD_DEVICE unsigned lane_id() {
    const unsigned low = __builtin_amdgcn_mbcnt_lo(~0u, 0u);
    return __AMDGCN_WAVEFRONT_SIZE == 64 ? __builtin_amdgcn_mbcnt_hi(~0u, low) : low;
}

// The value of lane `lane`, as words.
template <typename T> HIP_AMD_DEVICE T from(T value, unsigned lane) {
    static_assert(__is_trivially_copyable(T), "a lane exchanges plain data");
    unsigned words[(sizeof(T) + 3) / 4] = {};
    __builtin_memcpy(words, &value, sizeof(T));
    for (unsigned &word : words) word = __builtin_amdgcn_ds_bpermute((int)(lane * 4), (int)word);
    T result;
    __builtin_memcpy((void *)&result, words, sizeof(T));
    return result;
}

HIP_AMD_DEVICE unsigned long long ballot(bool yes) {
#if __AMDGCN_WAVEFRONT_SIZE == 64
    return __builtin_amdgcn_ballot_w64(yes);
#else
    return __builtin_amdgcn_ballot_w32(yes);
#endif
}

} // namespace hip_amd

// Lanes are counted within groups of `width`, a power of two.
template <typename T> HIP_AMD_DEVICE T __shfl(T value, int lane, int width = warpSize) {
    const unsigned self = hip_amd::lane_id(), size = (unsigned)width;
    return hip_amd::from(value, (self & ~(size - 1)) | ((unsigned)lane & (size - 1)));
}
template <typename T> HIP_AMD_DEVICE T __shfl_up(T value, unsigned delta, int width = warpSize) {
    const unsigned self = hip_amd::lane_id(), size = (unsigned)width;
    return hip_amd::from(value, (self & (size - 1)) < delta ? self : self - delta);
}
template <typename T> HIP_AMD_DEVICE T __shfl_down(T value, unsigned delta, int width = warpSize) {
    const unsigned self = hip_amd::lane_id(), size = (unsigned)width;
    return hip_amd::from(value, (self & (size - 1)) + delta >= size ? self : self + delta);
}
template <typename T> HIP_AMD_DEVICE T __shfl_xor(T value, int mask, int width = warpSize) {
    const unsigned self = hip_amd::lane_id(), size = (unsigned)width, lane = self ^ (unsigned)mask;
    // A group may read from those before it, not from those behind it.
    return hip_amd::from(value, lane >= ((self + size) & ~(size - 1)) ? self : lane);
}

HIP_AMD_DEVICE unsigned long long __ballot(int yes) { return hip_amd::ballot(yes != 0); }
HIP_AMD_DEVICE unsigned long long __activemask() { return hip_amd::ballot(true); }
HIP_AMD_DEVICE int __any(int yes) { return hip_amd::ballot(yes != 0) != 0; }
HIP_AMD_DEVICE int __all(int yes) { return hip_amd::ballot(yes == 0) == 0; }
HIP_AMD_DEVICE unsigned __lane_id() { return hip_amd::lane_id(); }

// The forms with a mask of lanes. The mask says who takes part; here those who are on do.
template <typename M, typename T> HIP_AMD_DEVICE T __shfl_sync(M, T value, int lane, int width = warpSize) {
    return __shfl(value, lane, width);
}
template <typename M, typename T> HIP_AMD_DEVICE T __shfl_up_sync(M, T value, unsigned delta, int width = warpSize) {
    return __shfl_up(value, delta, width);
}
template <typename M, typename T> HIP_AMD_DEVICE T __shfl_down_sync(M, T value, unsigned delta, int width = warpSize) {
    return __shfl_down(value, delta, width);
}
template <typename M, typename T> HIP_AMD_DEVICE T __shfl_xor_sync(M, T value, int mask, int width = warpSize) {
    return __shfl_xor(value, mask, width);
}
template <typename M> HIP_AMD_DEVICE unsigned long long __ballot_sync(M mask, int yes) {
    return __ballot(yes) & (unsigned long long)mask;
}
template <typename M> HIP_AMD_DEVICE int __any_sync(M, int yes) { return __any(yes); }
template <typename M> HIP_AMD_DEVICE int __all_sync(M, int yes) { return __all(yes); }
template <typename... M> HIP_AMD_DEVICE void __syncwarp(M...) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// How many threads of the block say yes. The barriers keep one vote from the next.
HIP_AMD_DEVICE int __syncthreads_count(int yes) {
    __shared__ int votes;
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) votes = 0;
    __syncthreads();
    if (yes) __hip_atomic_fetch_add(&votes, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __syncthreads();
    return votes;
}
HIP_AMD_DEVICE int __syncthreads_or(int yes) { return __syncthreads_count(yes) != 0; }
HIP_AMD_DEVICE int __syncthreads_and(int yes) { return __syncthreads_count(!yes) == 0; }
