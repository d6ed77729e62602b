// arg_sort of rows of any length, and with it the sort of values: a stable merge sort on integer keys.
//
// Every element becomes an unsigned key whose order is the wanted order, so one comparison serves all dtypes and both
// directions. Tiles are sorted in shared memory (`asort_*`), then runs are merged pairwise (`asort_merge_*`), which
// only depends on the key's width. Gathering of other tensors by the indices is in indexing.hip.
//
// Memory limit: a tile is read once and its indices are written once, coalesced, so rows up to SORT_TILE elements move
// their bytes exactly once; a longer row adds one streaming pass over keys and indices for each doubling. A merge block
// finds its two split points with one binary search and then only reads and writes consecutive addresses.
//
// Not a number: Rust's comparison in Candle's CPU backend calls NaN "greater" seen from either side and in both
// directions, which is no order (short rows keep NaN where it stands and longer ones panic). Here NaN comes after every
// number in both directions, and several NaN keep their order. Zeros of both signs are equal, as on the CPU.
#include "portable.h"

constexpr u32 SORT_THREADS = 256;
constexpr u32 SORT_ITEMS = 8;
constexpr u32 SORT_TILE = SORT_THREADS * SORT_ITEMS;
constexpr u32 SORT_TILE_LOG2 = 11;
static_assert(SORT_TILE == 1u << SORT_TILE_LOG2, "a tile is a power of two");
SHARE(SORT_THREADS)
SHARE(SORT_ITEMS)
SHARE(SORT_TILE)

// `kind`: how the bits of a dtype become an ordered unsigned integer.
enum SortKind { SORT_UNSIGNED, SORT_SIGNED, SORT_FLOAT };

template <typename T> struct SortTraits;
template <typename K, SortKind KIND, u64 INFINITY_BITS> struct SortBits {
    using Key = K;
    static constexpr SortKind kind = KIND;
    // Magnitudes above this one are NaN.
    static constexpr K infinity = K(INFINITY_BITS);
};
template <> struct SortTraits<u8> : SortBits<u8, SORT_UNSIGNED, 0> {};
template <> struct SortTraits<u32> : SortBits<u32, SORT_UNSIGNED, 0> {};
template <> struct SortTraits<i16> : SortBits<u16, SORT_SIGNED, 0> {};
template <> struct SortTraits<i32> : SortBits<u32, SORT_SIGNED, 0> {};
template <> struct SortTraits<i64> : SortBits<u64, SORT_SIGNED, 0> {};
template <> struct SortTraits<f16> : SortBits<u16, SORT_FLOAT, 0x7c00> {};
template <> struct SortTraits<bf16> : SortBits<u16, SORT_FLOAT, 0x7f80> {};
template <> struct SortTraits<f32> : SortBits<u32, SORT_FLOAT, 0x7f800000> {};
template <> struct SortTraits<f64> : SortBits<u64, SORT_FLOAT, 0x7ff0000000000000ull> {};
// f8e4m3 has no infinity; its largest number is 0x7e.
template <> struct SortTraits<f8e4m3> : SortBits<u8, SORT_FLOAT, 0x7e> {};

template <typename T, bool ASCENDING> DEVICE typename SortTraits<T>::Key sort_key(typename SortTraits<T>::Key bits) {
    using Traits = SortTraits<T>;
    using Key = typename Traits::Key;
    constexpr Key sign = Key(Key(1) << (8 * sizeof(Key) - 1));
    constexpr Key last = Key(~Key(0));
    Key key = bits;
    if (Traits::kind == SORT_SIGNED) key = Key(bits ^ sign);
    if (Traits::kind == SORT_FLOAT) {
        const Key magnitude = Key(bits & Key(~sign));
        if (magnitude > Traits::infinity) return last;
        if (magnitude == 0) key = sign;
        else key = (bits & sign) ? Key(~bits) : Key(bits | sign);
    }
    return ASCENDING ? key : Key(~key);
}

// How many of the first `diagonal` elements of the merged sequence come from `a`; equal keys come from `a` first.
template <typename Key> DEVICE u32 merge_split(const Key *a, u32 a_count, const Key *b, u32 b_count, u32 diagonal) {
    u32 low = diagonal > b_count ? diagonal - b_count : 0;
    u32 high = diagonal < a_count ? diagonal : a_count;
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if (b[diagonal - 1 - middle] < a[middle]) high = middle;
        else low = middle + 1;
    }
    return low;
}

// Merges SORT_ITEMS elements from position (`a_at`, `b_at`) on and reports where each came from.
template <typename Key>
DEVICE void merge_items(const Key *keys, u32 a_at, u32 a_end, u32 b_at, u32 b_end, Key *out, u32 *from) {
UNROLL
    for (u32 i = 0; i < SORT_ITEMS; i++) {
        const bool a_left = a_at < a_end, b_left = b_at < b_end;
        const bool take_b = b_left && (!a_left || keys[b_at] < keys[a_at]);
        // Past the end of both runs the last slot of `a` is read again; nobody uses the result.
        const u32 at = take_b ? b_at++ : (a_left ? a_at++ : 0);
        out[i] = keys[at];
        from[i] = at;
    }
}

struct SortRows {
    u32 columns;           // length of a row
    u32 segments;          // pieces that are sorted by themselves, in all rows: below 2^31
    u32 segment_log2;      // slots of a piece: a power of two, SORT_ITEMS to SORT_TILE
    Divider tiles_per_row; // pieces a row is cut into
};
SHARE_LAYOUT(SortRows, columns, segments, segment_log2, tiles_per_row)

// Where slot `slot` of a block lies: its row, the first column of its piece, its own column.
struct SortSlot {
    u32 row, tile_start, column;
    bool filled;
};
DEVICE SortSlot sort_slot(u32 slot, const SortRows &rows) {
    const u32 segment = (block_x() << (SORT_TILE_LOG2 - rows.segment_log2)) + (slot >> rows.segment_log2);
    const Division split = divide(segment, rows.tiles_per_row);
    const u32 tile_start = split.remainder << rows.segment_log2;
    const u32 column = tile_start + (slot & ((1u << rows.segment_log2) - 1));
    return SortSlot{split.quotient, tile_start, column, segment < rows.segments && column < rows.columns};
}

// Sorts each segment of a tile by itself: SORT_TILE / segment short rows, or one piece of a long row, a block.
template <typename T, bool ASCENDING>
DEVICE void sort_tiles(const T *src, u32 *indices, typename SortTraits<T>::Key *keys_out, T *values, const SortRows &rows) {
    using Key = typename SortTraits<T>::Key;
    __shared__ Key keys[SORT_TILE];
    __shared__ u16 order[SORT_TILE];
    const Key *bits = reinterpret_cast<const Key *>(src);
    for (u32 slot = thread_x(); slot < SORT_TILE; slot += SORT_THREADS) {
        const SortSlot at = sort_slot(slot, rows);
        // A slot past the end holds the largest key; being last and the sort being stable it stays last.
        keys[slot] = at.filled ? sort_key<T, ASCENDING>(bits[u64(at.row) * rows.columns + at.column]) : Key(~Key(0));
    }
    barrier();

    const u32 base = thread_x() * SORT_ITEMS;
    Key mine[SORT_ITEMS];
    u32 from[SORT_ITEMS];
UNROLL
    for (u32 i = 0; i < SORT_ITEMS; i++) {
        mine[i] = keys[base + i];
        from[i] = base + i;
    }
    // Odd-even transposition: swaps neighbours only when strictly out of order, hence stable.
UNROLL
    for (u32 round = 0; round < SORT_ITEMS; round++) {
UNROLL
        for (u32 i = round & 1; i + 1 < SORT_ITEMS; i += 2) {
            const bool swap = mine[i + 1] < mine[i];
            const Key low = swap ? mine[i + 1] : mine[i], high = swap ? mine[i] : mine[i + 1];
            const u32 low_from = swap ? from[i + 1] : from[i], high_from = swap ? from[i] : from[i + 1];
            mine[i] = low, mine[i + 1] = high;
            from[i] = low_from, from[i + 1] = high_from;
        }
    }
UNROLL
    for (u32 i = 0; i < SORT_ITEMS; i++) {
        keys[base + i] = mine[i];
        order[base + i] = u16(from[i]);
    }
    barrier();

    for (u32 run = SORT_ITEMS; run < 1u << rows.segment_log2; run *= 2) {
        const u32 pair = base & ~(2 * run - 1);
        const u32 diagonal = base - pair;
        const u32 split = merge_split(keys + pair, run, keys + pair + run, run, diagonal);
        merge_items(keys, pair + split, pair + run, pair + run + diagonal - split, pair + 2 * run, mine, from);
        u16 moved[SORT_ITEMS];
UNROLL
        for (u32 i = 0; i < SORT_ITEMS; i++) moved[i] = order[from[i]];
        barrier();
UNROLL
        for (u32 i = 0; i < SORT_ITEMS; i++) {
            keys[base + i] = mine[i];
            order[base + i] = moved[i];
        }
        barrier();
    }

    for (u32 slot = thread_x(); slot < SORT_TILE; slot += SORT_THREADS) {
        const SortSlot place = sort_slot(slot, rows);
        if (!place.filled) continue;
        const u64 row_start = u64(place.row) * rows.columns, at = row_start + place.column;
        const u32 index = place.tile_start + (order[slot] & ((1u << rows.segment_log2) - 1));
        if (indices) indices[at] = index;
        if (keys_out) keys_out[at] = keys[slot];
        if (values) values[at] = src[row_start + index];
    }
}

struct MergeRows {
    u32 columns;       // length of a row
    u32 run;           // length of the sorted runs that are merged in pairs, a multiple of SORT_TILE
    u32 tiles_per_row; // blocks a row takes
};
SHARE_LAYOUT(MergeRows, columns, run, tiles_per_row)

// Merges pairs of runs of every row; a block makes SORT_TILE consecutive elements of the result.
// The last pass writes no keys, and writes the sorted values where they are asked for (`bits` are the unsorted ones).
template <typename Key>
DEVICE void merge_runs(const Key *keys_in, const u32 *indices_in, Key *keys_out, u32 *indices_out, const Key *bits,
                                              Key *values, const MergeRows &rows) {
    __shared__ Key keys[SORT_TILE];
    __shared__ u32 order[SORT_TILE];
    __shared__ u32 splits[2];
    const u64 row = block_x() / rows.tiles_per_row;
    const u32 start = (block_x() - u32(row) * rows.tiles_per_row) * SORT_TILE;
    const u64 row_start = row * rows.columns;
    const u32 pair = start / (2 * rows.run) * (2 * rows.run);
    const u32 a_count = min_of(rows.run, rows.columns - pair);
    const u32 b_count = min_of(rows.run, rows.columns - pair - a_count);
    const Key *a = keys_in + row_start + pair, *b = a + a_count;
    const u32 begin = start - pair, end = min_of(begin + SORT_TILE, a_count + b_count);
    if (thread_x() < 2) splits[thread_x()] = merge_split(a, a_count, b, b_count, thread_x() == 0 ? begin : end);
    barrier();

    const u32 a_begin = splits[0], a_here = splits[1] - a_begin;
    const u32 b_begin = begin - a_begin, count = end - begin;
    const u32 *indices = indices_in + row_start + pair;
    for (u32 slot = thread_x(); slot < count; slot += SORT_THREADS) {
        const u32 at = slot < a_here ? a_begin + slot : a_count + b_begin + (slot - a_here);
        keys[slot] = a[at];
        order[slot] = indices[at];
    }
    barrier();

    const u32 base = thread_x() * SORT_ITEMS;
    Key mine[SORT_ITEMS];
    u32 from[SORT_ITEMS];
    if (base < count) {
        const u32 split = merge_split(keys, a_here, keys + a_here, count - a_here, base);
        merge_items(keys, split, a_here, a_here + base - split, count, mine, from);
UNROLL
        for (u32 i = 0; i < SORT_ITEMS; i++) from[i] = order[from[i]];
    }
    barrier();
UNROLL
    for (u32 i = 0; i < SORT_ITEMS; i++) {
        if (base + i < count) {
            keys[base + i] = mine[i];
            order[base + i] = from[i];
        }
    }
    barrier();
    for (u32 slot = thread_x(); slot < count; slot += SORT_THREADS) {
        const u64 at = row_start + start + slot;
        if (indices_out) indices_out[at] = order[slot];
        if (keys_out) keys_out[at] = keys[slot];
        if (values) values[at] = bits[row_start + order[slot]];
    }
}

#define ASORT(T)                                                                                   \
    KERNEL(SORT_THREADS)                                                                           \
    asort_asc_##T(const T *src, u32 *indices, SortTraits<T>::Key *keys, T *values, SortRows rows) { enter(); \
        sort_tiles<T, true>(src, indices, keys, values, rows);                                     \
    }                                                                                              \
    KERNEL(SORT_THREADS)                                                                           \
    asort_desc_##T(const T *src, u32 *indices, SortTraits<T>::Key *keys, T *values, SortRows rows) { enter(); \
        sort_tiles<T, false>(src, indices, keys, values, rows);                                    \
    }
FOR_ALL_DTYPES(ASORT)

// By the width of the key alone.
#define ASORT_MERGE(K)                                                                             \
    KERNEL(SORT_THREADS)                                                                           \
    asort_merge_##K(const K *keys_in, const u32 *indices_in, K *keys_out, u32 *indices_out,        \
                    const K *bits, K *values, MergeRows rows) { enter();                           \
        merge_runs<K>(keys_in, indices_in, keys_out, indices_out, bits, values, rows);             \
    }
ASORT_MERGE(u8)
ASORT_MERGE(u16)
ASORT_MERGE(u32)
ASORT_MERGE(u64)
