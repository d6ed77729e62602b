// One call of attention as its kernels take it: sizes, strides, which keys a query sees, and what is done to a score before the
// softmax. Where the rows of a tile lie in q, and the rows of a tile of keys in k and v, is found here too, for batches, for
// sequences of different lengths that are packed one behind the other, and for caches in pages.
#pragma once

constexpr u32 MASK_NONE = 0, MASK_F32 = 1, MASK_OWN = 2, MASK_FILL = 3; // OWN: of the dtype of q
SHARE(MASK_F32)
SHARE(MASK_OWN)
SHARE(MASK_FILL)

constexpr u32 ATTENTION_THREADS = 128;
SHARE(ATTENTION_THREADS)

// Where the rows of a tensor lie.
struct RowStrides {
    u64 batch, head, row;
};
SHARE_LAYOUT(RowStrides, batch, head, row)

// Strides count elements. Rows of all but the mask begin at multiples of 16 bytes and are whole pieces of 16 bytes.
// Sequences have fewer than 2^29 rows, offsets stay within 2^29 and windows within 2^30, so that their sums fit into an i32.
struct AttentionShape {
    u32 queries, keys;    // rows of a sequence; of the longest one where they differ
    u32 depth, width;     // elements of a row of q and k; of a row of v and of the result
    u32 heads, group;     // heads of q, and how many of them share a head of k and v
    Divider pack;         // heads in a tile: neighbouring rows of it are one query of that many heads
    u32 tiles;            // tiles of rows that a head, or `pack` heads, have
    u32 splits;           // parts of the keys, each taken by a block of its own
    u32 first_batch;      // the batch of block_z() == 0
    u32 batches;          // sequences
    u32 total_queries;    // rows of q and of k in memory, where sequences are packed
    u32 total_keys;
    Divider page;         // rows of a page of the cache
    u32 page_count;       // pages that there are, 0 where the cache has none
    u32 table_stride;     // pages a sequence has in the table
    u32 prefixes;         // ranges of a sequence within which everything is seen
    i32 offset;           // position of the first query among the keys
    u32 offset_at_end;    // the offset is such that the last query is at the last key
    i32 left, right;      // keys that a query sees before and after its own position
    u32 mask;             // MASK_*
    u32 changed;          // scores are not just scaled: softcap, alibi or a mask
    u32 nan_rows;         // the result for a query that sees no key is NaN, not 0
    f32 scale, softcap;   // softcap: 0 without
    f32 fill;             // the score where MASK_FILL is set
    RowStrides q, k, v, out;
    u64 mask_batch, mask_head, mask_row, mask_column;
};
SHARE_LAYOUT(AttentionShape, queries, keys, depth, width, heads, group, pack, tiles, splits, first_batch, batches, total_queries,
             total_keys, page, page_count, table_stride, prefixes, offset, offset_at_end, left, right, mask, changed, nan_rows, scale,
             softcap, fill, q, k, v, out, mask_batch, mask_head, mask_row, mask_column)

// What only some calls have; null without.
struct AttentionExtras {
    const void *mask;
    const f32 *slopes;       // alibi: one for each head
    const u32 *query_starts; // the first row of each sequence, and the end of the last
    const u32 *key_starts;
    const u32 *table;        // pages of each sequence
    const i32 *prefixes;     // pairs: first position and the end
    f32 *lse;                // logarithm of the sum of exponentials, for each head and query
    f32 *partial;            // sums of the splits, then their states
    u32 *counters;           // zeros, one for each tile
    FaultWord *fault;
};
SHARE_LAYOUT(AttentionExtras, mask, slopes, query_starts, key_starts, table, prefixes, lse, partial, counters, fault)

// All that a kernel takes.
struct AttentionArguments {
    const void *q, *k, *v;
    void *out;
    AttentionShape shape;
    AttentionExtras extra;
};
SHARE_LAYOUT(AttentionArguments, q, k, v, out, shape, extra)

// Arguments are read where they are needed. On AMD a kernel has some hundred scalar registers, which all of these together would fill:
// `read_again` makes the compiler load them once more, from the memory where the launch put them, instead of keeping them across a
// loop. Elsewhere it does nothing.
#if defined(TARGET_NVIDIA)
#define ATTENTION_PARAMETER const __grid_constant__ AttentionArguments
#else
#define ATTENTION_PARAMETER AttentionArguments
#endif
#if defined(TARGET_AMD)
#define ATTENTION_ARGUMENTS(name) kernel_arguments()
DEVICE const AttentionArguments &kernel_arguments() {
    return *(const AttentionArguments *)(const __attribute__((address_space(4))) AttentionArguments *)__builtin_amdgcn_kernarg_segment_ptr();
}
DEVICE const AttentionArguments &read_again(const AttentionArguments &) {
    auto at = (const __attribute__((address_space(4))) AttentionArguments *)__builtin_amdgcn_kernarg_segment_ptr();
    asm volatile("" : "+s"(at));
    return *(const AttentionArguments *)at;
}
// A pointer that was an argument, as what it is: to memory of the device.
template <typename T> DEVICE T *global(T *at) { return (T *)(__attribute__((address_space(1))) T *)at; }
#else
#define ATTENTION_ARGUMENTS(name) name
DEVICE const AttentionArguments &read_again(const AttentionArguments &all) { return all; }
template <typename T> DEVICE T *global(T *at) { return at; }
#endif

constexpr f32 LOG2_E = 1.44269504f, LN_2 = 0.693147181f;

#if defined(TARGET_HOST)
DEVICE f32 exp2_(f32 x) { return exp_(x * LN_2); }
// tanh for softcaps: within 1e-6, not relative to small results.
DEVICE f32 tanh_rough(f32 x) { return tanh_(x); }
#else
DEVICE f32 exp2_(f32 x) { return fast_exp2(x); }
DEVICE f32 tanh_rough(f32 x) { return 1.0f - 2.0f * fast_rcp(1.0f + fast_exp2(2.0f * LOG2_E * x)); }
#endif

// a * b, rounded before anything else is done with it. NVIDIA's compiler fuses products with later sums unless told so.
DEVICE f32 rounded_product(f32 a, f32 b) {
#if defined(TARGET_NVIDIA)
    return __fmul_rn(a, b);
#else
    const f32 product = a * b;
    return product;
#endif
}

struct GreaterOf {
    MEMBER f32 operator()(f32 a, f32 b) const { return greater_of(a, b); }
};
DEVICE f32 minus_infinity() { return bit_cast<f32>(0xff800000u); }

constexpr FaultCode FAULT_SEQUENCE = (FaultCode)10, FAULT_PAGE = (FaultCode)11, FAULT_LONGEST = (FaultCode)12;
SHARE(FAULT_SEQUENCE)
SHARE(FAULT_PAGE)
SHARE(FAULT_LONGEST)

// The sequence that a block works on.
struct Sequence {
    u32 batch;
    u32 first_query, queries;
    u32 first_key, keys;
    i32 offset; // position of query 0 among the keys
};

// The rows between two starts, at most `longest`; bad ones and more of them are reported and cut to what there is.
DEVICE void rows_between(const u32 *starts, u32 batch, u32 total, u32 longest, FaultWord *fault, u32 &first, u32 &count) {
    const u32 begin = global(starts)[batch], end = global(starts)[batch + 1];
    if (end < begin || end > total) report(global(fault), FAULT_SEQUENCE, end < begin ? begin : end, (u64)total + 1);
    first = min_of(begin, total);
    count = min_of(max_of(end, first), total) - first;
    if (count > longest) report(global(fault), FAULT_LONGEST, count, longest);
    count = min_of(count, longest);
}

DEVICE Sequence sequence_of(u32 batch, const AttentionShape &shape, const AttentionExtras &extra) {
    Sequence s = {batch, 0, shape.queries, 0, shape.keys, shape.offset};
    if (extra.query_starts != nullptr) {
        rows_between(extra.query_starts, batch, shape.total_queries, shape.queries, extra.fault, s.first_query, s.queries);
    }
    if (extra.key_starts != nullptr) {
        // With pages the starts say how many keys there are, and the table where they lie.
        const u32 total = shape.page_count ? 0x3fffffffu : shape.total_keys;
        rows_between(extra.key_starts, batch, total, shape.keys, extra.fault, s.first_key, s.keys);
        if (shape.page_count) s.first_key = 0;
    }
    if (shape.offset_at_end) s.offset = (i32)s.keys - (i32)s.queries;
    return s;
}

// One row of a tile: a query of a head. Rows past the end of the sequence are not inside.
struct QueryRow {
    u32 query, head;
    bool inside;
};

DEVICE QueryRow query_row(u32 row, u32 first_head, const Sequence &sequence, const AttentionShape &shape) {
    const Division split = divide(row, shape.pack);
    return QueryRow{split.quotient, first_head + split.remainder, split.quotient < sequence.queries};
}

// Rows of q (or of the result) of one sequence: `at` leads to a row.
template <typename T> struct QueryRows {
    T *base;
    u64 head, row;
    MEMBER T *at(const QueryRow &r) const { return base + r.head * head + r.query * row; }
};
template <typename T, typename Base> DEVICE QueryRows<T> query_rows(Base *base, const RowStrides &strides, const Sequence &sequence, bool packed) {
    const u64 first = packed ? sequence.first_query * strides.row : sequence.batch * strides.batch;
    return QueryRows<T>{global((T *)base) + first, strides.head, strides.row};
}

// Rows of k or v of one sequence and one head.
template <typename T> struct KeyRows {
    const T *base;
    u64 row;
    u64 page_stride;
    u32 batch;
    bool paged;
    const AttentionArguments *all;

    MEMBER const T *at(u32 key) const { return paged ? in_page(key) : base + key * row; }
    MEMBER const T *in_page(u32 key) const {
        const AttentionArguments &again = read_again(*all);
        const Division split = divide(key, again.shape.page);
        const u32 number = global(again.extra.table)[(u64)batch * again.shape.table_stride + split.quotient];
        // A page that there is not was reported.
        return base + min_of(number, again.shape.page_count - 1) * page_stride + split.remainder * row;
    }
};
template <typename T>
DEVICE KeyRows<T> key_rows(const void *base, const RowStrides &strides, u32 head, const Sequence &sequence, const AttentionArguments &all) {
    const bool paged = all.shape.page_count != 0;
    const u64 first = all.extra.key_starts != nullptr ? sequence.first_key * strides.row : sequence.batch * strides.batch;
    return KeyRows<T>{global((const T *)base) + head * strides.head + (paged ? 0 : first), strides.row, strides.batch, sequence.batch,
                      paged, &all};
}

// Reports pages of the table that there are not, of those that hold the keys of a range.
template <u32 THREADS> DEVICE void check_pages(u32 first, u32 end, const Sequence &sequence, const AttentionShape &shape, const AttentionExtras &extra) {
    if (!shape.page_count || first >= end) return;
    const u32 *table = global(extra.table) + (u64)sequence.batch * shape.table_stride;
    const u32 last = shape.page.quotient(end - 1);
    for (u32 i = shape.page.quotient(first) + thread_x(); i <= last; i += THREADS) {
        if (table[i] >= shape.page_count) report(global(extra.fault), FAULT_PAGE, table[i], shape.page_count);
    }
}

// The keys that some row of a tile sees, from `first` up to `end`.
struct KeyRange {
    u32 first, end;
};
DEVICE KeyRange keys_seen(u32 first_query, u32 last_query, const Sequence &sequence, const AttentionShape &shape) {
    KeyRange range = {0, sequence.keys};
    if (shape.prefixes) return range;
    const i32 low = (i32)first_query + sequence.offset - shape.left, high = (i32)last_query + sequence.offset + shape.right + 1;
    range.first = (u32)min_of(max_of(low, 0), (i32)sequence.keys);
    range.end = max_of((u32)min_of(max_of(high, 0), (i32)sequence.keys), range.first);
    return range;
}

// The positions of keys that a query sees, from `low` to `high`, some before the first and past the last key. What a window and the ranges
// around the query show has no gaps: all of them hold its own position.
struct PositionRange {
    i32 low, high;
};
DEVICE PositionRange positions_seen(i32 query, const Sequence &sequence, const AttentionShape &shape, const AttentionExtras &extra) {
    const i32 position = query + sequence.offset;
    PositionRange seen = {position - shape.left, position + shape.right};
    NO_UNROLL
    for (u32 p = 0; p < shape.prefixes; p++) {
        const i32 *range = global(extra.prefixes) + ((u64)sequence.batch * shape.prefixes + p) * 2;
        const i32 first = range[0], end = range[1];
        if (position >= first && position < end) seen = PositionRange{min_of(seen.low, first), max_of(seen.high, end - 1)};
    }
    return seen;
}

// Least score that a mask can make of a finite one. Weights are 2^(score c - largest c) with one rounding, of `largest c`: that is half a power
// at most here, and the same for the whole row. A row that masks hide altogether by numbers below this takes all of these keys alike.
constexpr f32 LEAST_SCORE = -1e7f;
DEVICE f32 no_less(f32 score) { return score < LEAST_SCORE && score > minus_infinity() ? LEAST_SCORE : score; }

// Scores are turned into powers of two by this factor: plain products are scaled on the way.
DEVICE f32 power_factor(const AttentionShape &shape) { return (shape.changed ? 1.0f : shape.scale) * LOG2_E; }

// Index of a row among all rows of the call.
DEVICE u64 row_index(const QueryRow &row, const Sequence &sequence, const AttentionShape &shape, const AttentionExtras &extra) {
    if (extra.query_starts != nullptr) return (u64)row.head * shape.total_queries + sequence.first_query + row.query;
    return ((u64)sequence.batch * shape.heads + row.head) * shape.queries + row.query;
}

// The rows that a block takes.
struct TileRows {
    Sequence sequence;
    u32 number, split;    // of the tile, of the keys
    u32 first_head;       // of q
    u32 first, count;     // rows of the tile
    bool packed;          // sequences lie one behind the other

    MEMBER TileRows(const AttentionArguments &all, u32 height) {
        const AttentionShape &shape = all.shape;
        // Where later queries see more, they are begun first.
        number = shape.tiles - 1 - block_x() / shape.splits, split = block_x() % shape.splits;
        sequence = sequence_of(shape.first_batch + block_z(), shape, all.extra);
        packed = all.extra.query_starts != nullptr;
        first_head = block_y() * shape.pack.divisor, first = number * height;
        const u32 rows = sequence.queries * shape.pack.divisor;
        count = first < rows ? min_of(rows - first, height) : 0;
    }
};

// Packed sequences have one batch more, for the rows of the result that belong to none of them: they become zeros.
DEVICE bool past_sequences(const AttentionShape &shape) { return shape.first_batch + block_z() == shape.batches; }
template <typename T> DEVICE void zero_rest(const AttentionArguments &all) {
    const AttentionShape &shape = all.shape;
    const u32 *starts = global(all.extra.query_starts), total = shape.total_queries;
    const u32 begin = min_of(starts[0], total), end = max_of(min_of(starts[shape.batches], total), begin);
    const u32 rest = begin + (total - end), first_head = block_y() * shape.pack.divisor;
    for (u64 r = block_x(); r < (u64)rest * shape.pack.divisor; r += grid_x()) {
        const u32 row = (u32)(r / shape.pack.divisor), head = first_head + (u32)(r % shape.pack.divisor);
        T *at = global((T *)all.out) + head * shape.out.head + (row < begin ? row : end + (row - begin)) * shape.out.row;
        for (u32 d = thread_x(); d < shape.width; d += ATTENTION_THREADS) at[d] = T();
        if (all.extra.lse != nullptr && thread_x() == 0) {
            global(all.extra.lse)[(u64)head * total + (row < begin ? row : end + (row - begin))] = minus_infinity();
        }
    }
}
