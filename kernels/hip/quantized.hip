// Quantized tensors: dequantize and rows lookup, quantize, activations to bytes, mat-vec, tiled matmul, mixture of experts.
// This file is the table of entry points; what they do lives in quantized/, one idea a header. A result's dtype is
// an argument and not part of a name: it changes one store at the end, and the module would take three times as long to compile.
#include "portable.h"
#include "rounding.h"
#include "quantized/words.h"
#include "quantized/formats.h"
#include "quantized/activations.h"
#include "quantized/decode.h"
#include "quantized/encode.h"
#include "load_order.h"
#include "quantized/mat_vec.h"
#include "bulk_copy.h"
#include "quantized/one_row.h"
#include "quantized/mma_tiles.h"
#include "quantized/mma_tiles_folded.h"
#include "quantized/mma_tiles_loaded.h"
#include "quantized/mma_tiles_staged.h"
#include "quantized/mat_mul.h"
#include "quantized/plain.h"

// What the launch layer knows of a format.
#define SHARE_FORMAT(name, Format)                                                                                     \
    SHARE_AS(name##_elements, #name " ELEMENTS", Format::ELEMENTS)                                                     \
    SHARE_AS(name##_bytes, #name " BYTES", Format::BYTES)                                                              \
    SHARE_AS(name##_unit, #name " UNIT", Format::UNIT * PIECE)                                                         \
    SHARE_AS(name##_zero, #name " ZERO", Format::ZERO)                                                                 \
    SHARE_AS(name##_has_offset, #name " HAS_OFFSET", Format::HAS_OFFSET)                                               \
    SHARE_AS(name##_folds, #name " FOLDS", Format::FOLDS)                                                              \
    SHARE_AS(name##_record, #name " Record", Record<Format>::BYTES)                                                    \
    SHARE_AS(name##_staged, #name " TEAM_ROWS_STAGED", TEAM_ROWS_STAGED<Format>)                                       \
    SHARE_AS(name##_loaded, #name " TEAM_ROWS_LOADED", TEAM_ROWS_LOADED<Format>)                                       \
    SHARE_AS(name##_together_1, #name " MMA_TILES_TOGETHER 1", (MMA_TILES_TOGETHER<Format, 1>))                        \
    SHARE_AS(name##_together_2, #name " MMA_TILES_TOGETHER 2", (MMA_TILES_TOGETHER<Format, 2>))
FOR_QUANTIZED(SHARE_FORMAT)
SHARE_AS(q2k_folded, "q2k FOLDED_ZERO", Q2K::FOLDED_ZERO)
SHARE_AS(q3k_folded, "q3k FOLDED_ZERO", Q3K::FOLDED_ZERO)

#define DECODE(name, Format, Out)                                                                                      \
    KERNEL(DECODE_THREADS)                                                                                             \
    dequantize_block_##name##_##Out(const u8 *source, Out *out, u64 k, RowChoice choice) { enter();                    \
        decode<Format, Out>(source, out, k, choice);                                                                   \
    }
#define DECODE_ALL(name, Format) DECODE(name, Format, f32) DECODE(name, Format, f16) DECODE(name, Format, bf16)
FOR_QUANTIZED(DECODE_ALL)

#define DECODE_PLAIN(T, Out)                                                                                           \
    KERNEL(DECODE_THREADS)                                                                                             \
    dequantize_block_##T##_##Out(const T *source, Out *out, u64 k, RowChoice choice) { enter();                        \
        decode_plain<T, Out>(source, out, k, choice);                                                                  \
    }
#define DECODE_PLAIN_ALL(T) DECODE_PLAIN(T, f32) DECODE_PLAIN(T, f16) DECODE_PLAIN(T, bf16)
DECODE_PLAIN_ALL(f32) DECODE_PLAIN_ALL(f16) DECODE_PLAIN_ALL(bf16)

#define ENCODE(name, Format, function)                                                                                 \
    KERNEL(ENCODE_THREADS) quantize_block_##name(const f32 *values, u8 *blocks, u32 count) { enter();                  \
        encode<Format::ELEMENTS, Format::BYTES>(values, blocks, count,                                                 \
                                                [](const f32 *in, u8 *out) { function(in, out); });                    \
    }
ENCODE(q4_0, Q4_0, (encode_nibbles<4, false>))
ENCODE(q4_1, Q4_1, (encode_nibbles<4, true>))
ENCODE(q5_0, Q5_0, (encode_nibbles<5, false>))
ENCODE(q5_1, Q5_1, (encode_nibbles<5, true>))
ENCODE(q8_0, Q8_0, encode_bytes<false>)
ENCODE(q8_1, Q8_1, encode_bytes<true>)
ENCODE(q8k, Q8K, encode_q8k)

#define QUANTIZE(T)                                                                                                    \
    KERNEL(QUANTIZE_THREADS)                                                                                           \
    quantize_activations_##T(const T *source, Layout rows, u64 stride, QuantizedRows to) { enter();                    \
        quantize_activations<T>(source, rows, stride, to);                                                             \
    }                                                                                                                  \
    KERNEL(QUANTIZE_THREADS)                                                                                           \
    quantize_mma_##T(const T *source, Layout rows, u64 stride, MmaRows to) { enter();                                  \
        quantize_mma<T>(source, rows, stride, to);                                                                     \
    }                                                                                                                  \
    KERNEL(QUANTIZE_THREADS)                                                                                           \
    quantize_folded_##T(const T *source, Layout rows, u64 stride, MmaRows to) { enter();                               \
        quantize_folded<T>(source, rows, stride, to);                                                                  \
    }                                                                                                                  \
    KERNEL(QUANTIZE_THREADS)                                                                                           \
    gather_activations_##T(const T *source, Layout rows, u64 stride, f32 *out, Divider k, u32 count) { enter();        \
        gather_activations<T>(source, rows, stride, out, k, count);                                                    \
    }
QUANTIZE(f32) QUANTIZE(f16) QUANTIZE(bf16)

#define MAT_VEC(name, Format, rows_each, columns_each)                                                                 \
    KERNEL(MAT_VEC_THREADS)                                                                                            \
    mat_vec_##name##_##columns_each(const u8 *weights, Activations activations, Output out, u32 rows, u32 k,           \
                                    u32 columns, u32 team_log2) { enter();                                             \
        mat_vec_plain<Format, rows_each, columns_each>(weights, activations, out, rows, k, columns, team_log2);        \
    }
#define ROUTED(name, Format, rows_each, columns_each)                                                                  \
    KERNEL(MAT_VEC_THREADS)                                                                                            \
    moe_##name##_##columns_each(const u8 *weights, Activations activations, Route route, Output out, u32 rows, u32 k,  \
                                u32 team_log2) { enter();                                                              \
        mat_vec_routed<Format, rows_each, columns_each>(weights, activations, route, out, rows, k, team_log2);         \
    }
#define ONE_ROW(name, Format)                                                                                          \
    SHARING_KERNEL(ONE_ROW_THREADS, 1)                                                                                 \
    mat_vec_##name##_one_row(OneRowProducts products, ActivationRow row, u32 k, u32 chunk, u32 teams) { enter();       \
        mat_vec_one_row<Format>(OwnProduct(products), row, k, chunk, teams);                                           \
    }
#define MAT_VEC_ALL(name, Format)                                                                                      \
    MAT_VEC(name, Format, 2, 1) MAT_VEC(name, Format, 2, 2) MAT_VEC(name, Format, 2, 4) MAT_VEC(name, Format, 2, 8)    \
    ROUTED(name, Format, 2, 1) ROUTED(name, Format, 1, 4) ONE_ROW(name, Format)
FOR_QUANTIZED(MAT_VEC_ALL)

#define MMA_TILES(name, Format, groups)                                                                                \
    SHARING_KERNEL(MMA_THREADS, (MMA_BLOCKS<Format, groups>))                                                          \
    mma_tiles_##name##_##groups(const u8 *weights, const u32 *words, const f32 *marks, Output out, u32 rows, u32 k,    \
                             u32 columns, u32 segment, u32 stages, u32 ahead) { enter_later();                         \
        mma_tiles<Format, groups>(weights, words, marks, out, rows, k, columns, segment, stages, ahead);               \
    }
#define MMA_TILES_ALL(name, Format) MMA_TILES(name, Format, 1) MMA_TILES(name, Format, 2)
FOR_QUANTIZED(MMA_TILES_ALL)

#define MAT_MUL(name, Format)                                                                                          \
    KERNEL(TILE_THREADS)                                                                                               \
    mat_mul_##name(const u8 *weights, Activations activations, Output out, u32 rows, u32 k, u32 columns) { enter();    \
        mat_mul<Format>(weights, activations, out, rows, k, columns);                                                  \
    }
FOR_QUANTIZED(MAT_MUL)

#define PLAIN(T)                                                                                                       \
    KERNEL(MAT_VEC_THREADS)                                                                                            \
    mat_vec_##T(const T *weights, const f32 *activations, Output out, u32 rows, u32 k, u32 columns, u32 team_log2) { enter();\
        plain_mat_vec<T>(weights, activations, out, rows, k, columns, team_log2);                                      \
    }
PLAIN(f32) PLAIN(f16) PLAIN(bf16)
