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

// A value of 1, 2 or a multiple of 4 bytes, with each of its words exchanged between lanes.
template <typename T, typename Exchange> DEVICE T by_words(T value, Exchange exchange) {
    if constexpr (sizeof(T) == 1) {
        return bit_cast<T>((u8)exchange(bit_cast<u8>(value)));
    } else if constexpr (sizeof(T) == 2) {
        return bit_cast<T>((u16)exchange(bit_cast<u16>(value)));
    } else {
        struct Words {
            u32 word[sizeof(T) / 4];
        };
        Words words = bit_cast<Words>(value);
        UNROLL
        for (u32 i = 0; i < sizeof(T) / 4; i++) words.word[i] = exchange(words.word[i]);
        return bit_cast<T>(words);
    }
}

// The value that `lane` of this wave holds.
template <typename T> DEVICE T shuffle(T value, u32 lane) {
    return by_words(value, [=](u32 word) { return shuffle_word(word, lane); });
}

#if defined(TARGET_AMD)
#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
#define WAVES_OF_32 1
#endif
// What lane `own ^ MASK` holds, MASK a power of two. DPP reads another lane's register on the way into an instruction, within 16 lanes: no
// address, no trip through local memory.
template <u32 CONTROL> DEVICE u32 dpp(u32 word) { return (u32)__builtin_amdgcn_mov_dpp((i32)word, CONTROL, 0xf, 0xf, true); }
template <u32 MASK> DEVICE u32 xor_word(u32 word) {
    if constexpr (MASK == 1) {
        return dpp<0xb1>(word); // quad_perm [1, 0, 3, 2]
    } else if constexpr (MASK == 2) {
        return dpp<0x4e>(word); // quad_perm [2, 3, 0, 1]
#if defined(WAVES_OF_32)
    } else if constexpr (MASK == 4 || MASK == 8) {
        return dpp<0x160 + MASK>(word); // row_xmask
    } else if constexpr (MASK == 16) {
        u32 other = (u32)__builtin_amdgcn_permlanex16((i32)word, (i32)word, 0x76543210, (i32)0xfedcba98u, false, false);
        // LLVM 19 moves this exchange into a branch that only some lanes take when nothing else uses the result; the empty statement is a
        // use that stays.
        asm volatile("" : "+v"(other));
        return other;
#else
    } else if constexpr (MASK == 4) {
        return dpp<0x1b>(dpp<0x141>(word)); // row_half_mirror, then quad_perm [3, 2, 1, 0]: 7 ^ 3
    } else if constexpr (MASK == 8) {
        return dpp<0x128>(word); // row_ror 8
    } else if constexpr (MASK == 16) {
        return (u32)__builtin_amdgcn_ds_swizzle((i32)word, 0x401f); // within 32 lanes, without an address
#endif
    } else {
        return shuffle_word(word, lane_index() ^ MASK);
    }
}
template <u32 MASK, typename T> DEVICE T shuffle_xor(T value) {
    return by_words(value, [](u32 word) { return xor_word<MASK>(word); });
}
#endif

// What lane `own ^ mask` holds; a power of two that all lanes have alike is cheap.
template <typename T> DEVICE T shuffle_xor(T value, u32 mask) {
#if defined(TARGET_AMD)
    switch (mask) {
    case 1: return shuffle_xor<1>(value);
    case 2: return shuffle_xor<2>(value);
    case 4: return shuffle_xor<4>(value);
    case 8: return shuffle_xor<8>(value);
#if !defined(WAVES_OF_32)
    case 32: return shuffle_xor<32>(value);
#endif
    default: return shuffle_xor<16>(value);
    }
#else
    return shuffle(value, lane_index() ^ mask);
#endif
}

// Combines over groups of `width` neighbouring lanes (a power of two up to the wave size); every lane gets the result.
// The order is a butterfly: the same on every run.
template <typename T, typename Op> DEVICE T group_reduce(T value, u32 width, Op op) {
#if defined(TARGET_AMD)
#if !defined(WAVES_OF_32)
    if (width > 32) value = op(value, shuffle_xor<32>(value));
#endif
    if (width > 16) value = op(value, shuffle_xor<16>(value));
    if (width > 8) value = op(value, shuffle_xor<8>(value));
    if (width > 4) value = op(value, shuffle_xor<4>(value));
    if (width > 2) value = op(value, shuffle_xor<2>(value));
    if (width > 1) value = op(value, shuffle_xor<1>(value));
#else
    for (u32 mask = width / 2; mask > 0; mask /= 2) value = op(value, shuffle_xor(value, mask));
#endif
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
