// The splits of the keys: each block stores what its part gives, and the last one to arrive adds the parts up, in their order, so
// that results do not depend on who was last.
#pragma once

// Of a part: the largest score as a power of two, and the sum of the exponentials below it.
struct SplitState {
    f32 largest, total;
};
SHARE_AS(SplitState, "SplitState", sizeof(SplitState))

// Where the parts lie: sums of `width` for every split and row, then the states.
struct SplitMemory {
    f32 *sums;
    SplitState *states;
    u64 rows;
    u32 width;

    MEMBER SplitMemory(const AttentionShape &shape, const AttentionExtras &extra) {
        rows = extra.query_starts != nullptr ? (u64)shape.heads * shape.total_queries
                                             : (u64)shape.batches * shape.heads * shape.queries;
        width = shape.width;
        sums = global(extra.partial);
        states = (SplitState *)(sums + shape.splits * rows * width);
    }
    MEMBER f32 *sum(u32 split, u64 row) const { return sums + (split * rows + row) * width; }
    MEMBER SplitState &state(u32 split, u64 row) const { return states[split * rows + row]; }
};

// All threads of a block have stored what `split` gave. True in the block that comes last, for all its threads, which then
// see what all blocks have stored.
DEVICE bool last_of_splits(u32 *counter, u32 splits) {
    __shared__ u32 before;
    device_fence();
    barrier();
    if (thread_x() == 0) before = atomic_next(counter);
    barrier();
    if (before + 1 != splits) return false;
    if (thread_x() == 0) *counter = 0;
    device_fence();
    return true;
}

// What a row gets: 1 / total, or 0 or NaN where it has seen no key.
DEVICE f32 row_factor(f32 total, const AttentionShape &shape) {
    if (total == 0.0f) return shape.nan_rows ? bit_cast<f32>(0x7fc00000u) : 0.0f;
    return 1.0f / total;
}
DEVICE f32 row_lse(f32 largest, f32 total) { return total == 0.0f ? minus_infinity() : largest * LN_2 + log_(total); }

// Adds up the splits of the rows of a tile.
template <typename T, u32 THREADS>
DEVICE void merge_splits(u32 first_row, u32 rows, u32 first_head, const QueryRows<T> &out, const Sequence &sequence,
                         const AttentionShape &shape, const AttentionExtras &extra) {
    const SplitMemory memory(shape, extra);
    // A wave takes a row, so that its lanes read side by side.
    const u32 wave = wave_size();
    for (u32 r = first_row + thread_x() / wave; r < first_row + rows; r += THREADS / wave) {
        const QueryRow row = query_row(r, first_head, sequence, shape);
        const u64 index = row_index(row, sequence, shape, extra);
        f32 largest = minus_infinity();
        for (u32 s = 0; s < shape.splits; s++) largest = max_of(largest, memory.state(s, index).largest);
        f32 total = 0.0f;
        for (u32 s = 0; s < shape.splits; s++) {
            const SplitState state = memory.state(s, index);
            if (state.total != 0.0f) total += state.total * exp2_(state.largest - largest);
        }
        const f32 factor = row_factor(total, shape);
        for (u32 d = lane_index(); d < shape.width; d += wave) {
            f32 sum = 0.0f;
            for (u32 s = 0; s < shape.splits; s++) {
                const SplitState state = memory.state(s, index);
                if (state.total != 0.0f) sum = fused(memory.sum(s, index)[d], exp2_(state.largest - largest), sum);
            }
            out.at(row)[d] = cast<T>(sum * factor);
        }
        if (extra.lse != nullptr && lane_index() == 0) global(extra.lse)[index] = row_lse(largest, total);
    }
}
