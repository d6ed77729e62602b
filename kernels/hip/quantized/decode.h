// Weights back to floating point: a whole tensor, or the rows that a list of ids names (an embedding).
// Four weights a thread, so that results leave in pieces of 8 or 16 bytes that lie side by side.
#pragma once

constexpr u32 DECODE_THREADS = 256;

// Weights 4 * quad .. of a row.
template <typename F> DEVICE Vec<f32, 4> decode_four(const u8 *row, u32 quad) {
    constexpr u32 QUADS = F::ELEMENTS / 4;
    const u8 *block = row + (u64)(quad / QUADS) * F::BYTES;
    const u32 within = quad % QUADS;
    const Place place = F::place(within / 4);
    const u32 word = F::quad(F::template raw<1>(block, place.unit, within % 4), 0, place.index);
    const Scale scale = F::scale(F::head(block, place.unit), place.index);
    Vec<f32, 4> out;
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        const f32 value = scale.scale * (f32)((i32)(i8)(word >> (8 * i)) - (i32)F::ZERO);
        out[i] = F::HAS_OFFSET ? value + scale.offset : value;
    }
    return out;
}

// Which rows to decode: null ids stand for all of them in order.
struct RowChoice {
    const u32 *ids;
    FaultWord *fault;
    u32 count, rows; // ids, and rows of the table
};

// Calls body(output row, table row) for the rows of this block; an id outside the table is reported and its row
// becomes zeros: body gets a table row beyond the table.
template <typename Body> DEVICE void for_chosen_rows(const RowChoice &choice, Body body) {
    for (u32 row = block_y(); row < choice.count; row += grid_y()) {
        const u32 id = choice.ids ? choice.ids[row] : row;
        if (id >= choice.rows && block_x() == 0 && thread_x() == 0) {
            report(choice.fault, FAULT_EMBEDDING, (i64)id, choice.rows);
        }
        body(row, id);
    }
}

template <typename F, typename Out>
DEVICE void decode(const u8 *RESTRICT source, Out *RESTRICT out, u64 k, const RowChoice &choice) {
    const u32 quad = block_x() * DECODE_THREADS + thread_x();
    if (quad >= k / 4) return;
    for_chosen_rows(choice, [&](u32 row, u32 id) {
        Vec<f32, 4> value = {};
        if (id < choice.rows) value = decode_four<F>(source + id * (k / F::ELEMENTS * F::BYTES), quad);
        Vec<Out, 4> narrow;
        UNROLL
        for (u32 i = 0; i < 4; i++) narrow[i] = cast<Out>(value[i]);
        store<4>(out + row * k + 4 * (u64)quad, narrow);
    });
}

// Tables that are not quantized, whose rows may have any length.
template <typename T, typename Out>
DEVICE void decode_plain(const T *RESTRICT source, Out *RESTRICT out, u64 k, const RowChoice &choice) {
    const u32 at = block_x() * DECODE_THREADS + thread_x();
    if (at >= k) return;
    for_chosen_rows(choice, [&](u32 row, u32 id) {
        out[row * k + at] = id < choice.rows ? cast<Out>(source[id * k + at]) : cast<Out>(0.0f);
    });
}
