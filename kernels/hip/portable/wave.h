// Waves (warps): lane ids, shuffles, ballots, and the reductions over a wave built on them. All lanes of the wave must take part.
#pragma once

// A block of 1024 threads has at most this many waves.
#define MAX_WAVES 32

#if defined(TARGET_AMD)
#if __has_builtin(__builtin_amdgcn_wavefrontsize)
DEVICE u32 wave_size() { return __builtin_amdgcn_wavefrontsize(); }
#else
DEVICE u32 wave_size() { return __AMDGCN_WAVEFRONT_SIZE; }
#endif
DEVICE u32 lane_index() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }
DEVICE u32 shuffle_word(u32 word, u32 lane) { return (u32)__builtin_amdgcn_ds_bpermute((i32)(lane << 2), (i32)word); }
// The compiler in HIP 5 has no ballot: it compares (33: not equal) and returns the mask. Later ones know the wave size as a
// macro and refuse the other width; the newest take 64 everywhere.
#if !__has_builtin(__builtin_amdgcn_wavefrontsize)
DEVICE u64 wave_ballot(bool yes) { return __builtin_amdgcn_uicmp((u32)yes, 0u, 33); }
#elif defined(__AMDGCN_WAVEFRONT_SIZE) && __AMDGCN_WAVEFRONT_SIZE == 32
DEVICE u64 wave_ballot(bool yes) { return __builtin_amdgcn_ballot_w32(yes); }
#else
DEVICE u64 wave_ballot(bool yes) { return __builtin_amdgcn_ballot_w64(yes); }
#endif
#elif defined(TARGET_NVIDIA)
DEVICE u32 wave_size() { return 32; }
DEVICE u32 lane_index() { return threadIdx.x & 31u; }
DEVICE u32 shuffle_word(u32 word, u32 lane) { return __shfl_sync(0xffffffffu, word, (int)lane); }
DEVICE u64 wave_ballot(bool yes) { return __ballot_sync(0xffffffffu, yes); }
#else
DEVICE u32 wave_size() { return (u32)warpSize; }
DEVICE u32 lane_index() { return threadIdx.x & ((u32)warpSize - 1u); }
DEVICE u32 shuffle_word(u32 word, u32 lane) { return __shfl(word, (int)lane); }
DEVICE u64 wave_ballot(bool yes) { return __ballot(yes); }
#endif
DEVICE u32 wave_index() { return thread_x() / wave_size(); }

// The value that `lane` of this wave holds. T is 1, 2 or a multiple of 4 bytes.
template <typename T> DEVICE T shuffle(T value, u32 lane) {
    if constexpr (sizeof(T) == 1) {
        return bit_cast<T>((u8)shuffle_word(bit_cast<u8>(value), lane));
    } else if constexpr (sizeof(T) == 2) {
        return bit_cast<T>((u16)shuffle_word(bit_cast<u16>(value), lane));
    } else {
        struct Words {
            u32 word[sizeof(T) / 4];
        };
        Words words = bit_cast<Words>(value);
        UNROLL
        for (u32 i = 0; i < sizeof(T) / 4; i++) words.word[i] = shuffle_word(words.word[i], lane);
        return bit_cast<T>(words);
    }
}
template <typename T> DEVICE T shuffle_xor(T value, u32 mask) { return shuffle(value, lane_index() ^ mask); }

// Combines over groups of `width` neighbouring lanes (a power of two up to the wave size); every lane gets the result.
// The order is a butterfly: the same on every run.
template <typename T, typename Op> DEVICE T group_reduce(T value, u32 width, Op op) {
    for (u32 mask = width / 2; mask > 0; mask /= 2) value = op(value, shuffle_xor(value, mask));
    return value;
}
template <typename T, typename Op> DEVICE T wave_reduce(T value, Op op) {
    return group_reduce(value, wave_size(), op);
}

struct Sum {
    template <typename T> MEMBER T operator()(T a, T b) const { return a + b; }
};
struct Greater {
    template <typename T> MEMBER T operator()(T a, T b) const { return max_of(a, b); }
};
