// Attention on the embedded device, where a thread works alone and fast: it takes a whole row, and no thread waits for another. The
// tiles of a GPU are compiled there only where every access is checked, which is where kernels are tested.
#pragma once

#if defined(GENERAL_ONLY)
constexpr u32 ROW_KEYS = 16, ROW_LANES = 16, LONGEST_ROW = 512;

template <typename T> DEVICE f32 dot_row(const f32 *q, const T *k, u32 depth) {
    f32 sum[ROW_LANES] = {};
    u32 d = 0;
    for (; d + ROW_LANES <= depth; d += ROW_LANES) {
        for (u32 j = 0; j < ROW_LANES; j++) sum[j] = fused(q[d + j], (f32)widen(k[d + j]), sum[j]);
    }
    for (u32 j = 0; d + j < depth; j++) sum[j] = fused(q[d + j], (f32)widen(k[d + j]), sum[j]);
    for (u32 width = ROW_LANES / 2; width > 0; width /= 2) {
        for (u32 j = 0; j < width; j++) sum[j] += sum[j + width];
    }
    return sum[0];
}

// Softcap, alibi and mask of a product, and minus infinity where the query does not see the key.
template <typename T>
DEVICE_SHARED f32 score_of(f32 product, const QueryRow &row, u32 key, const Sequence &sequence, const AttentionArguments &all) {
    const AttentionShape &shape = all.shape;
    const AttentionExtras &extra = all.extra;
    const i32 position = (i32)row.query + sequence.offset, own = (i32)key;
    const PositionRange seen = positions_seen((i32)row.query, sequence, shape, extra);
    if (own < seen.low || own > seen.high) return minus_infinity();
    if (!shape.changed) return product;
    f32 score = product * shape.scale;
    if (shape.softcap != 0.0f) score = shape.softcap * tanh_(score / shape.softcap);
    if (extra.slopes != nullptr) score -= extra.slopes[row.head] * abs_((f32)(position - own));
    const u64 at = sequence.batch * shape.mask_batch + row.head * shape.mask_head + row.query * shape.mask_row + key * shape.mask_column;
    if (shape.mask == MASK_FILL) return ((const u8 *)extra.mask)[at] ? shape.fill : score;
    if (shape.mask == MASK_F32) score = no_less(score + ((const f32 *)extra.mask)[at]);
    if (shape.mask == MASK_OWN) score = no_less(score + (f32)widen(((const T *)extra.mask)[at]));
    return score;
}

template <typename T>
DEVICE_SHARED void attend_row(const QueryRow &row, const T *query, T *out, KeyRange range, const KeyRows<T> &k, const KeyRows<T> &v,
                              const Sequence &sequence, const AttentionArguments &all) {
    const AttentionShape &shape = all.shape;
    const u32 depth = shape.depth, width = shape.width;
    const f32 factor = power_factor(shape);
    f32 q[LONGEST_ROW], sum[LONGEST_ROW] = {}, largest = minus_infinity(), total = 0.0f;
    for (u32 d = 0; d < depth; d++) q[d] = widen(query[d]);
    for (u32 first = range.first; first < range.end; first += ROW_KEYS) {
        const u32 keys = min_of(range.end - first, ROW_KEYS);
        f32 score[ROW_KEYS], most = largest;
        for (u32 i = 0; i < keys; i++) {
            score[i] = score_of<T>(dot_row(q, k.at(first + i), depth), row, first + i, sequence, all);
            most = score[i] > most || is_nan(score[i]) ? score[i] : most;
        }
        if (most == minus_infinity()) continue;
        if (!(most <= largest)) {
            const f32 down = largest == minus_infinity() ? 0.0f : exp2_((largest - most) * factor);
            for (u32 d = 0; d < width; d++) sum[d] *= down;
            total *= down;
            largest = most;
        }
        for (u32 i = 0; i < keys; i++) {
            const f32 weight = exp2_((score[i] - largest) * factor);
            total += weight;
            const T *value = v.at(first + i);
            for (u32 d = 0; d < width; d++) sum[d] = fused(weight, (f32)widen(value[d]), sum[d]);
        }
    }
    const f32 by = row_factor(total, shape);
    for (u32 d = 0; d < width; d++) out[d] = cast<T>(sum[d] * by);
    if (all.extra.lse != nullptr) all.extra.lse[row_index(row, sequence, shape, all.extra)] = row_lse(largest * factor, total);
}

// The rows of a tile, by the threads of its block in turn; the first split does the work of all.
template <typename T> DEVICE void attend_rows(const AttentionArguments &all, u32 height, u32 threads) {
    const AttentionShape &shape = all.shape;
    const TileRows rows(all, height);
    if (rows.split > 0) return;
    const u32 head = rows.first_head / shape.group;
    if (thread_x() == 0 && rows.count > 0) {
        const KeyRange seen = keys_seen(shape.pack.quotient(rows.first), shape.pack.quotient(rows.first + rows.count - 1), rows.sequence, shape);
        check_pages<1>(seen.first, seen.end, rows.sequence, shape, all.extra);
    }
    for (u32 r = thread_x(); r < rows.count; r += threads) {
        const QueryRow row = query_row(rows.first + r, rows.first_head, rows.sequence, shape);
        const KeyRange range = keys_seen(row.query, row.query, rows.sequence, shape);
        attend_row(row, query_rows<const T>(all.q, shape.q, rows.sequence, rows.packed).at(row),
                   query_rows<T>(all.out, shape.out, rows.sequence, rows.packed).at(row), range,
                   key_rows<T>(all.k, shape.k, head, rows.sequence, all),
                   key_rows<T>(all.v, shape.v, head, rows.sequence, all),
                   rows.sequence, all);
    }
}
#endif
