// Weights back to floating point: a whole tensor, or the rows that a list of ids names (an embedding).
// Eight weights a thread: enough to share the work of reading a scale, few enough that results leave in pieces of 16
// bytes that lie side by side.
#pragma once

constexpr u32 DECODE_THREADS = 256;

// Weights 8 * place .. of a row.
template <typename F> DEVICE Vec<f32, 8> decode_eight(const u8 *row, u32 place_in_row) {
    constexpr u32 EIGHTS = F::ELEMENTS / 8;
    const u8 *block = row + (u64)(place_in_row / EIGHTS) * F::BYTES;
    const u32 within = place_in_row % EIGHTS;
    const Place place = F::place(within / 2);
    const typename F::template Raw<2> raw = F::template raw<2>(block, place.unit, 2 * (within % 2));
    const Scale scale = F::scale(F::head(block, place.unit), place.index);
    Vec<f32, 8> out;
    UNROLL
    for (u32 w = 0; w < 2; w++) {
        const u32 word = F::quad(raw, w, place.index);
        UNROLL
        for (u32 i = 0; i < 4; i++) {
            const f32 value = scale.scale * (f32)((i32)(i8)(word >> (8 * i)) - (i32)F::ZERO);
            out[4 * w + i] = F::HAS_OFFSET ? value + scale.offset : value;
        }
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
    const u32 place = block_x() * DECODE_THREADS + thread_x();
    if (place >= k / 8) return;
    for_chosen_rows(choice, [&](u32 row, u32 id) {
        Vec<f32, 8> value = {};
        if (id < choice.rows) value = decode_eight<F>(source + id * (k / F::ELEMENTS * F::BYTES), place);
        constexpr u32 LANES = Lanes<Out>::count;
        UNROLL
        for (u32 from = 0; from < 8; from += LANES) {
            Vec<Out, LANES> narrow;
            UNROLL
            for (u32 i = 0; i < LANES; i++) narrow[i] = cast<Out>(value[from + i]);
            store<LANES>(out + row * k + 8 * (u64)place + from, narrow);
        }
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
