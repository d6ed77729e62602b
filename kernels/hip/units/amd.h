// AMD's matrix units: WMMA of RDNA 3 (gfx11) and RDNA 4 (gfx12), MFMA of CDNA (gfx908, gfx90a, gfx942, gfx950). What products and attention
// share: 16 x 16 sums += a left factor of 16 rows by 16 x a right factor of 16 by 16 columns. On all of them a lane has one column of the
// sums, lane % 16, and several rows; of either factor it has elements of one row or column, lane % 16, side by side.
#pragma once

#if defined(TARGET_AMD) && (defined(__GFX11__) || defined(__gfx1200__) || defined(__gfx1201__) || defined(__gfx12_generic__) || defined(__gfx908__) || defined(__gfx90a__) ||              \
                            defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__) || defined(__gfx9_4_generic__))
#define MATRIX_UNITS 1

// Elements of a factor that a lane has of 16: all of them, half or a quarter, and how many lanes it takes to have the others.
#if defined(__GFX11__)
constexpr u32 UNIT_WAVE = 32, UNIT_EACH = 16;
#elif defined(__GFX12__)
constexpr u32 UNIT_WAVE = 32, UNIT_EACH = 8;
#else
constexpr u32 UNIT_WAVE = 64, UNIT_EACH = 4;
#endif
constexpr u32 UNIT_SUMS = 256 / UNIT_WAVE;
typedef f32 UnitSums __attribute__((ext_vector_type(UNIT_SUMS)));

// Which row or column of a factor a lane has, and which part of its elements.
DEVICE u32 unit_row() { return lane_index() % 16; }
DEVICE u32 unit_part() { return lane_index() / 16; }

// sums += left x right.
DEVICE UnitSums unit_product(f16, Vec<f16, UNIT_EACH> left, Vec<f16, UNIT_EACH> right, UnitSums sums) {
    typedef _Float16 Factor __attribute__((ext_vector_type(UNIT_EACH)));
#if defined(__GFX11__)
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(bit_cast<Factor>(left), bit_cast<Factor>(right), sums);
#elif defined(__GFX12__)
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(bit_cast<Factor>(left), bit_cast<Factor>(right), sums);
#else
    return __builtin_amdgcn_mfma_f32_16x16x16f16(bit_cast<Factor>(left), bit_cast<Factor>(right), sums, 0, 0, 0);
#endif
}
DEVICE UnitSums unit_product(bf16, Vec<bf16, UNIT_EACH> left, Vec<bf16, UNIT_EACH> right, UnitSums sums) {
#if defined(__gfx908__)
    // Eight of the depth at a time, two in a lane. Which two is the same in both factors, and all come to be used.
    typedef short Pair __attribute__((ext_vector_type(2)));
    struct Pairs {
        Pair at[2];
    };
    const Pairs a = bit_cast<Pairs>(left), b = bit_cast<Pairs>(right);
    sums = __builtin_amdgcn_mfma_f32_16x16x8bf16(a.at[0], b.at[0], sums, 0, 0, 0);
    return __builtin_amdgcn_mfma_f32_16x16x8bf16(a.at[1], b.at[1], sums, 0, 0, 0);
#else
    typedef short Factor __attribute__((ext_vector_type(UNIT_EACH)));
#if defined(__GFX11__)
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(bit_cast<Factor>(left), bit_cast<Factor>(right), sums);
#elif defined(__GFX12__)
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(bit_cast<Factor>(left), bit_cast<Factor>(right), sums);
#else
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bit_cast<Factor>(left), bit_cast<Factor>(right), sums, 0, 0, 0);
#endif
#endif
}

#if defined(__GFX11__) || defined(__GFX12__)
// What the lane 16 further has.
DEVICE u32 other_half(u32 word) { return xor_word<16>(word); }
#endif

// The lower or the upper halves of two words, side by side.
DEVICE u32 half_pair(u32 first, u32 second, bool upper) {
    return __builtin_amdgcn_perm(second, first, upper ? 0x07060302u : 0x05040100u);
}

// The sums of a lane so that they are of neighbouring rows, from UNIT_SUMS * unit_part() on.
DEVICE Vec<f32, UNIT_SUMS> unit_neighbours(const Vec<f32, UNIT_SUMS> &s) {
#if defined(__GFX11__)
    // Even rows are in the lower half of a wave, odd ones in the upper half.
    Vec<f32, 8> eight;
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        const f32 got = bit_cast<f32>(other_half(bit_cast<u32>(unit_part() ? s[i] : s[4 + i])));
        eight[2 * i] = unit_part() ? got : s[i];
        eight[2 * i + 1] = unit_part() ? s[4 + i] : got;
    }
    return eight;
#else
    return s;
#endif
}
#endif
