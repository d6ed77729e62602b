// Scaled dot product attention, softmax(q k^T scale) v, in one launch: scores never reach memory. Grouped heads, causal and sliding
// windows, masks, softcap, alibi, packed sequences, caches in pages. See attention/ for the parts.
#include "portable.h"
#include "fast_math.h"
#include "load_order.h"
#include "attention/shape.h"
#include "attention/stage.h"
#include "attention/merge.h"
#include "attention/plain.h"
#include "units/amd.h"
#include "attention/units/mma.h"
#include "attention/units/amd.h"
#include "attention/fragments.h"
#include "attention/rows.h"
#include "attention/tile.h"

// The tiles of a dtype and head size: on matrix units where there are such, with as many rows for a wave and as many keys as registers and
// shared memory allow.
template <typename T, u32 D> struct TileOf { typedef PlainTile<T, D> Tile; };
#if defined(MATRIX_FRAGMENTS)
template <u32 D> struct TileSizes {
#if defined(TARGET_NVIDIA)
    static constexpr u32 FRAGMENTS = D == 256 ? 1 : 2, SHARERS = 1, KEYS = 64;
    static constexpr bool SHARED_QUERIES = true;
#elif defined(__GFX11__) || defined(__GFX12__)
    static constexpr u32 FRAGMENTS = 1, SHARERS = D == 256 ? 2 : 1, KEYS = 4096 / D;
    static constexpr bool SHARED_QUERIES = D == 256;
#else
    static constexpr u32 FRAGMENTS = D == 256 ? 1 : 2, SHARERS = 1, KEYS = D == 64 ? 64 : 32;
    static constexpr bool SHARED_QUERIES = false;
#endif
};
template <typename T, u32 D> struct MatrixTile {
    typedef TileSizes<D> Sizes;
    typedef FragmentTile<Unit<T>, D, Sizes::FRAGMENTS, Sizes::SHARERS, Sizes::KEYS, Sizes::SHARED_QUERIES> Tile;
#if !defined(TARGET_NVIDIA)
    // The launch layer need not know whether a GPU of AMD's has matrix units.
    static_assert(Tile::ROWS == PlainTile<T, D>::ROWS, "tiles are as high as without matrix units");
#endif
};
#define ON_MATRIX_UNITS(T)                                                                         \
    template <> struct TileOf<T, 64> : MatrixTile<T, 64> {};                                       \
    template <> struct TileOf<T, 128> : MatrixTile<T, 128> {};                                     \
    template <> struct TileOf<T, 256> : MatrixTile<T, 256> {};
ON_MATRIX_UNITS(f16)
ON_MATRIX_UNITS(bf16)
#endif

#define ATTENTION(T, D)                                                                            \
    KERNEL(ATTENTION_THREADS) attention_##T##_##D(ATTENTION_PARAMETER all) { enter();              \
        attend_tile<TileOf<T, D>::Tile>(ATTENTION_ARGUMENTS(all));                                 \
    }
#define ATTENTIONS(T) ATTENTION(T, 64) ATTENTION(T, 128) ATTENTION(T, 256) ATTENTION(T, 512)
ATTENTIONS(bf16)
ATTENTIONS(f16)
ATTENTIONS(f32)
