// F32, F16 and BF16 as weight types of a quantized file: nothing to unpack, activations stay floating point.
// Activations are gathered into contiguous f32 once (they may be strided and of any float dtype); then a team of threads
// takes one row of weights against PLAIN_COLUMNS activations. Models meet this seldom: Candle turns such weights into plain
// tensors before it multiplies.
#pragma once

constexpr u32 PLAIN_COLUMNS = 4;
SHARE(PLAIN_COLUMNS)

template <typename T>
DEVICE void gather_activations(const T *RESTRICT source, const Layout &rows, u64 stride, f32 *RESTRICT out, const Divider &k,
                               u32 count) {
    const u32 at = block_x() * QUANTIZE_THREADS + thread_x();
    if (at >= count) return;
    const Division split = divide(at, k);
    out[at] = widen(source[rows.offset(split.quotient) + split.remainder * stride]);
}

template <typename T>
DEVICE void plain_mat_vec(const T *RESTRICT weights, const f32 *RESTRICT activations, const Output &out, u32 rows, u32 k,
                          u32 columns, u32 team_log2) {
    const u32 team = 1u << team_log2, lane = thread_x() & (team - 1);
    const u32 row = block_x() * (mat_vec_threads() >> team_log2) + (thread_x() >> team_log2);
    const T *own = weights + (u64)min_of(row, rows - 1) * k;
    for (u32 base = block_y() * PLAIN_COLUMNS; base < columns; base += grid_y() * PLAIN_COLUMNS) {
        f32 sum[PLAIN_COLUMNS] = {};
        const f32 *column[PLAIN_COLUMNS];
        UNROLL
        for (u32 c = 0; c < PLAIN_COLUMNS; c++) column[c] = activations + (u64)min_of(base + c, columns - 1) * k;
        for (u32 at = lane; at < k; at += team) {
            const f32 weight = widen(own[at]);
            UNROLL
            for (u32 c = 0; c < PLAIN_COLUMNS; c++) sum[c] += weight * column[c][at];
        }
        UNROLL
        for (u32 c = 0; c < PLAIN_COLUMNS; c++) {
            // The team is at most a wave here.
            if (team > 1) sum[c] = group_reduce(sum[c], team, Sum());
            if (lane == 0 && row < rows && base + c < columns) out.put((u64)(base + c) * rows + row, sum[c]);
        }
    }
}
