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

// N words from an address that is a multiple of ALIGN (2, 4 or 16), shifted to the right by `shift` bits for whoever wants upper
// fields only; what comes in from above is not defined.
template <u32 N, u32 ALIGN> DEVICE Words<N> words(const u8 *at, u32 shift = 0) {
    Words<N> out;
#if defined(TARGET_NVIDIA)
    if constexpr (ALIGN == 16 && N == 4) {
        uint4 v = *(const uint4 *)at;
        out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
    } else if constexpr (ALIGN >= 4) {
        UNROLL
        for (u32 i = 0; i < N; i++) out[i] = ((const u32 *)at)[i];
    } else if constexpr (N == 1) {
        // For one, finding the aligned words takes longer than a second load does.
        const u16 *half = (const u16 *)at;
        out[0] = half[0] | (u32)half[1] << 16;
    } else {
        // Aligned words around the address, shifted into place: half as many loads as 16-bit ones. No branch and no
        // masked pointer, or the compiler would load the bytes that pieces have in common once for each of them.
        const u32 skip = (u32)(u64)at & 2;
        const u32 *base = (const u32 *)(at - skip);
        u32 low = base[0];
        UNROLL
        for (u32 i = 0; i < N; i++) {
            // The word behind the last is read only where it holds bytes of ours, or where whoever staged them left room.
            const u32 high = base[i + 1 < N ? i + 1 : __isShared(at) ? N : N - 1 + skip / 2];
            out[i] = __funnelshift_r(low, high, 8 * skip + shift);
            low = high;
        }
        return out;
    }
#else
    // AMD's global loads take any address, the host's do too.
    __builtin_memcpy(&out, __builtin_assume_aligned(at, ALIGN), sizeof(out));
#endif
    UNROLL
    for (u32 i = 0; i < N; i++) out[i] >>= shift;
    return out;
}

// An f16 of a block, as f32.
DEVICE f32 half_at(const u8 *at) { return f16_to_f32(*(const f16 *)at); }

// a * b + c as one instruction, whatever the compiler would make of it together with others: NVIDIA's additions run beside the
// shifts and masks that weights are taken apart with, multiplications do not.
DEVICE u32 multiplied(u32 a, u32 b, u32 c) {
#if defined(TARGET_NVIDIA)
    u32 out;
    asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
#else
    return a * b + c;
#endif
}

// Bits of `a` where `mask` has ones, and of `b` elsewhere: one instruction, where the compiler would first take apart what it knows
// to be zero.
DEVICE u32 chosen(u32 mask, u32 a, u32 b) {
#if defined(TARGET_NVIDIA)
    u32 out;
    asm("lop3.b32 %0, %1, %2, %3, 0xe4;" : "=r"(out) : "r"(a), "r"(b), "r"(mask));
    return out;
#else
    return (a & mask) | (b & ~mask);
#endif
}

// Byte i of a word as f32. On NVIDIA a conversion takes as long as eight additions: there the byte becomes the low bits of 2^23,
// which a subtraction takes away again. (Not for the sums of a dot product: measured, they came out slower that way.)
DEVICE f32 byte_at(u32 word, u32 i) {
#if defined(TARGET_NVIDIA)
    return bit_cast<f32>(__byte_perm(word, 0x4b000000u, 0x7440 | i)) - 8388608.0f;
#else
    return (f32)(u8)(word >> (8 * i));
#endif
}

// Signed byte i of a word, minus `less`, as f32, in the same way.
DEVICE f32 byte_minus(u32 word, u32 i, f32 less) {
    const u32 raised = word ^ 0x80808080u; // the bytes plus 128
#if defined(TARGET_NVIDIA)
    return bit_cast<f32>(__byte_perm(raised, 0x4b000000u, 0x7440 | i)) - (8388608.0f + 128.0f + less);
#else
    return (f32)(u8)(raised >> (8 * i)) - (128.0f + less);
#endif
}

// Signed byte i of a word as f32.
DEVICE f32 signed_byte_at(u32 word, u32 i) {
#if defined(TARGET_NVIDIA)
    return byte_minus(word, i, 0.0f);
#else
    return (f32)(i8)(word >> (8 * i));
#endif
}

// sum + the dot product of four signed bytes with four signed bytes.
DEVICE i32 dot4(u32 a, u32 b, i32 sum) {
#if defined(TARGET_NVIDIA)
    return __dp4a((i32)a, (i32)b, sum);
#elif defined(TARGET_AMD) && (defined(__GFX11__) || defined(__GFX12__))
    return __builtin_amdgcn_sudot4(true, (i32)a, true, (i32)b, sum, false);
#elif defined(__gfx9_4_generic__) || defined(__gfx10_3_generic__) ||                                                  \
    defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) ||                        \
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

// Whether a dot product takes unsigned bytes on its left side: all but AMD's GPUs before RDNA 3 do.
#if defined(TARGET_AMD) && !defined(__GFX11__) && !defined(__GFX12__)
constexpr bool MIXED_DOT = false;
#else
constexpr bool MIXED_DOT = true;
#endif

// The same where the bytes of `a` are unsigned, if MIXED_DOT.
DEVICE i32 dot4_mixed(u32 a, u32 b, i32 sum) {
#if defined(TARGET_NVIDIA)
    i32 out;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(sum));
    return out;
#elif defined(TARGET_AMD) && (defined(__GFX11__) || defined(__GFX12__))
    return __builtin_amdgcn_sudot4(false, (i32)a, true, (i32)b, sum, false);
#else
    UNROLL
    for (u32 i = 0; i < 4; i++) sum += (i32)(u8)(a >> (8 * i)) * (i32)(i8)(b >> (8 * i));
    return sum;
#endif
}

// Dot products in the making. On a GPU a thread has one sum; on the embedded device it has as many as a vector register has
// lanes, in integers within a piece and in floats across pieces, and adds the lanes up once at the end of a row.
#if defined(TARGET_HOST) && defined(__AVX2__)
typedef i8 Bytes16 __attribute__((vector_size(16)));
typedef u8 Unsigned16 __attribute__((vector_size(16)));
typedef i16 Shorts16 __attribute__((vector_size(32)));
typedef i32 DotInts __attribute__((vector_size(32)));
typedef f32 DotFloats __attribute__((vector_size(32)));
constexpr u32 DOT_LANES = 8;
#elif defined(TARGET_HOST) && defined(__SSE2__)
typedef i8 Bytes16 __attribute__((vector_size(16)));
typedef i16 Shorts8 __attribute__((vector_size(16)));
typedef i32 DotInts __attribute__((vector_size(16)));
typedef f32 DotFloats __attribute__((vector_size(16)));
constexpr u32 DOT_LANES = 4;
#else
typedef i32 DotInts;
typedef f32 DotFloats;
constexpr u32 DOT_LANES = 1;
#endif

// A sum that begins with `first`.
DEVICE DotInts dot_from(i32 first) {
#if defined(TARGET_HOST) && defined(__SSE2__)
    DotInts sum = {};
    sum[0] = first;
    return sum;
#else
    return first;
#endif
}

// sum + the dot product of sixteen signed bytes. Those of `a` are unsigned where MIXED.
template <bool MIXED = false> DEVICE DotInts dot16(const Words<4> &a, const Words<4> &b, DotInts sum) {
#if defined(TARGET_HOST) && defined(__AVX2__)
    const Shorts16 x = MIXED ? __builtin_convertvector(bit_cast<Unsigned16>(a), Shorts16)
                             : __builtin_convertvector(bit_cast<Bytes16>(a), Shorts16);
    const Shorts16 y = __builtin_convertvector(bit_cast<Bytes16>(b), Shorts16);
    return sum + (DotInts)__builtin_ia32_pmaddwd256(x, y);
#elif defined(TARGET_HOST) && defined(__SSE2__)
    // Each byte in the upper half of a 16-bit lane, then shifted down with its sign.
    const Bytes16 x = bit_cast<Bytes16>(a), y = bit_cast<Bytes16>(b), zero = {};
#define LOW_HALF(v) ((Shorts8)__builtin_shufflevector(zero, v, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23) >> 8)
#define HIGH_HALF(v) \
    ((Shorts8)__builtin_shufflevector(zero, v, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31) >> 8)
    Shorts8 x0 = LOW_HALF(x), x1 = HIGH_HALF(x);
    const Shorts8 y0 = LOW_HALF(y), y1 = HIGH_HALF(y);
    if (MIXED) x0 &= 0xff, x1 &= 0xff;
#undef LOW_HALF
#undef HIGH_HALF
    return sum + (DotInts)__builtin_ia32_pmaddwd128(x0, y0) + (DotInts)__builtin_ia32_pmaddwd128(x1, y1);
#else
    UNROLL
    for (u32 i = 0; i < 4; i++) sum = MIXED ? dot4_mixed(a[i], b[i], sum) : dot4(a[i], b[i], sum);
    return sum;
#endif
}

DEVICE DotFloats dot_floats(DotInts sum) {
#if defined(TARGET_HOST) && defined(__SSE2__)
    return __builtin_convertvector(sum, DotFloats);
#else
    return (f32)sum;
#endif
}
// sum + value, once and not in every lane.
DEVICE DotFloats dot_plus(DotFloats sum, f32 value) {
#if defined(TARGET_HOST) && defined(__SSE2__)
    sum[0] += value;
    return sum;
#else
    return sum + value;
#endif
}
DEVICE f32 dot_total(DotFloats sum) {
#if defined(TARGET_HOST) && defined(__SSE2__)
    f32 total = 0.0f;
    UNROLL
    for (u32 i = 0; i < DOT_LANES; i++) total += sum[i];
    return total;
#else
    return sum;
#endif
}
