// Quantized weights as words: loads at the alignment a block format guarantees, and the dot product of signed bytes.
// Blocks of 18, 22, 34, 110 and 210 bytes begin at even addresses only; which instructions read them best differs
// by target, and only here.
#pragma once

// N words of four signed bytes each.
template <u32 N> struct Words {
    u32 at[N];
    MEMBER u32 &operator[](u32 i) { return at[i]; }
    MEMBER u32 operator[](u32 i) const { return at[i]; }
};

// N words from an address that is a multiple of ALIGN (2, 4 or 16).
template <u32 N, u32 ALIGN> DEVICE Words<N> words(const u8 *at) {
    Words<N> out;
#if defined(TARGET_NVIDIA)
    if constexpr (ALIGN == 16 && N == 4) {
        uint4 v = *(const uint4 *)at;
        out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
    } else if constexpr (ALIGN >= 4) {
        UNROLL
        for (u32 i = 0; i < N; i++) out[i] = ((const u32 *)at)[i];
    } else {
        // Aligned words around the address, shifted into place: half as many loads as 16-bit ones. No branch and no
        // masked pointer, or the compiler would load the bytes that pieces have in common once for each of them.
        const u32 skip = (u32)(u64)at & 2;
        const u32 *base = (const u32 *)(at - skip);
        u32 low = base[0];
        UNROLL
        for (u32 i = 0; i < N; i++) {
            // The word behind the last is read only where it holds bytes of ours.
            const u32 high = base[i + 1 < N ? i + 1 : N - 1 + skip / 2];
            out[i] = __funnelshift_r(low, high, 8 * skip);
            low = high;
        }
    }
#else
    // AMD's global loads take any address, the host's do too.
    __builtin_memcpy(&out, __builtin_assume_aligned(at, ALIGN), sizeof(out));
#endif
    return out;
}

// An f16 of a block, as f32.
DEVICE f32 half_at(const u8 *at) { return f16_to_f32(*(const f16 *)at); }

// sum + the dot product of four signed bytes with four signed bytes.
DEVICE i32 dot4(u32 a, u32 b, i32 sum) {
#if defined(TARGET_NVIDIA)
    return __dp4a((i32)a, (i32)b, sum);
#elif defined(TARGET_AMD) && (defined(__GFX11__) || defined(__GFX12__))
    return __builtin_amdgcn_sudot4(true, (i32)a, true, (i32)b, sum, false);
#elif defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) ||                      \
    defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__) || defined(__gfx1011__) ||                     \
    defined(__gfx1012__) || defined(__gfx1030__) || defined(__gfx1031__) || defined(__gfx1032__) ||                  \
    defined(__gfx1033__) || defined(__gfx1034__) || defined(__gfx1035__) || defined(__gfx1036__)
    return __builtin_amdgcn_sdot4((i32)a, (i32)b, sum, false);
#else
    UNROLL
    for (u32 i = 0; i < 4; i++) sum += (i32)(i8)(a >> (8 * i)) * (i32)(i8)(b >> (8 * i));
    return sum;
#endif
}

#if defined(TARGET_HOST) && defined(__SSE2__)
typedef i8 Bytes16 __attribute__((vector_size(16)));
typedef i8 Bytes8 __attribute__((vector_size(8)));
typedef i16 Shorts8 __attribute__((vector_size(16)));
typedef i32 Ints4 __attribute__((vector_size(16)));
DEVICE Shorts8 upper_bytes(Bytes16 v, Bytes16 filler, bool high) {
    // Each byte in the upper half of a 16-bit lane, then shifted down with its sign.
    Bytes16 wide = high ? __builtin_shuffle(filler, v, Bytes16{0, 24, 1, 25, 2, 26, 3, 27, 4, 28, 5, 29, 6, 30, 7, 31})
                        : __builtin_shuffle(filler, v, Bytes16{0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23});
    return (Shorts8)wide >> 8;
}
#endif

// sum + the dot product of sixteen signed bytes.
DEVICE i32 dot16(const Words<4> &a, const Words<4> &b, i32 sum) {
#if defined(TARGET_HOST) && defined(__SSE2__)
    const Bytes16 x = bit_cast<Bytes16>(a), y = bit_cast<Bytes16>(b), zero = {};
    Ints4 pairs = __builtin_ia32_pmaddwd128(upper_bytes(x, zero, false), upper_bytes(y, zero, false)) +
                  __builtin_ia32_pmaddwd128(upper_bytes(x, zero, true), upper_bytes(y, zero, true));
    return sum + ((pairs[0] + pairs[1]) + (pairs[2] + pairs[3]));
#else
    UNROLL
    for (u32 i = 0; i < 4; i++) sum = dot4(a[i], b[i], sum);
    return sum;
#endif
}
