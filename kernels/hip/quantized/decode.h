// Weights back to floating point: a whole tensor, or the rows that a list of ids names (an embedding).
// Eight weights at a time: enough to share the work of reading a scale, few enough that results leave in pieces of 16
// bytes that lie side by side.
#pragma once

constexpr u32 DECODE_THREADS = 256;
SHARE(DECODE_THREADS)

// Eights of weights that a thread has under way together. Two of them keep memory busier where results are two bytes wide (40 us
// against 43 on an H200 for 14336 x 4096 Q4_0); where they are four, stores are the limit, and more of them only queue up.
template <typename Out> constexpr u32 DECODE_EACH = sizeof(Out) == 2 ? 2 : 1;

// Weights 8 * place .. of a row.
template <typename F> DEVICE Vec<f32, 8> decode_eight(const u8 *row, u32 place_in_row) {
    constexpr u32 EIGHTS = F::ELEMENTS / 8;
    const u8 *block = row + (u64)(place_in_row / EIGHTS) * F::BYTES;
    const u32 within = place_in_row % EIGHTS;
    const Place place = F::place(within / 2);
    const typename F::template Raw<2> raw = F::template raw_of<2>(block, place, 2 * (within % 2));
    const Scale scale = F::scale_of(block, place);
    Vec<f32, 8> out;
    UNROLL
    for (u32 w = 0; w < 2; w++) {
        const u32 word = F::quad(raw, w, place.index);
        UNROLL
        for (u32 i = 0; i < 4; i++) {
            const f32 value = scale.scale * byte_minus(word, i, (f32)F::ZERO);
            out[4 * w + i] = F::HAS_OFFSET ? value + scale.offset : product_alone(value);
        }
    }
    return out;
}

// Two results of two bytes in a word.
template <typename Out> DEVICE u32 narrow_two(f32 low, f32 high) {
#if defined(TARGET_NVIDIA) && __CUDA_ARCH__ >= 800
    if constexpr (IsSame<Out, bf16>::value) {
        u32 both;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
        return both;
    }
#endif
    return cast<Out>(low).bits | (u32)cast<Out>(high).bits << 16;
}

template <typename Out> DEVICE void put_eight(Out *out, const Vec<f32, 8> &value) {
    UNROLL
    for (u32 half = 0; half < 8; half += Lanes<Out>::count) {
        Vec<u32, 4> words;
        UNROLL
        for (u32 i = 0; i < 4; i++) {
            if constexpr (sizeof(Out) == 2) {
                words[i] = narrow_two<Out>(value[2 * i], value[2 * i + 1]);
            } else {
                words[i] = bit_cast<u32>(value[half + i]);
            }
        }
        store<4>((u32 *)(out + half), words);
    }
}

// Which rows to decode: null ids stand for all of them in order.
struct RowChoice {
    const u32 *ids;
    FaultWord *fault;
    u32 count, rows; // ids, and rows of the table
};
SHARE_LAYOUT(RowChoice, ids, fault, count, rows)

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
    constexpr u32 EACH = DECODE_EACH<Out>;
    const u32 first = block_x() * (EACH * DECODE_THREADS) + thread_x(), places = (u32)(k / 8);
    if (first >= places) return;
    for_chosen_rows(choice, [&](u32 row, u32 id) {
        const u8 *from = source + id * (k / F::ELEMENTS * F::BYTES);
        Vec<f32, 8> value[EACH] = {};
        UNROLL
        for (u32 e = 0; e < EACH; e++) {
            // Past the end the last place is decoded again, and not stored: no branch keeps loads apart.
            if (id < choice.rows) value[e] = decode_eight<F>(from, min_of(first + e * DECODE_THREADS, places - 1));
        }
        UNROLL
        for (u32 e = 0; e < EACH; e++) {
            const u32 place = first + e * DECODE_THREADS;
            if (place < places) put_eight(out + row * k + 8 * (u64)place, value[e]);
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
