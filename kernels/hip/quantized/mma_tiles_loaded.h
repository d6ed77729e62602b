// The product on matrix units where threads copy their weights to shared memory themselves. Four teams to a block share the rows of a
// tile, a chunk each in turn, and one chunk is on its way while another is multiplied. What is done with a chunk is in mma_tiles.h.
#pragma once

#if !defined(STAGED_ROWS)
constexpr u32 MMA_SPLITS = 4; // teams of a block
constexpr u32 MMA_THREADS = MMA_SPLITS * MMA_TEAM;
SHARE(MMA_THREADS)
constexpr u32 MMA_STAGES = 2;
template <typename F, u32 GROUPS> constexpr u32 MMA_BLOCKS = GROUPS == 1 ? F::MMA_BLOCKS : 4;

// Copies 16 bytes, or the first `count` of them, to shared memory. They may be on their way until copies_have_arrived().
DEVICE void copy_ahead(u8 *to, const u8 *from, u32 count) {
#if defined(MATRIX_UNITS)
    const u32 at = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(count) : "memory");
#else
    if (count == 16) {
        *(Vec<u32, 4> *)to = *(const Vec<u32, 4> *)from;
    } else {
        for (u32 i = 0; i < count; i++) to[i] = from[i];
    }
#endif
}

// The copies that a team began before are there, for all of its threads.
DEVICE void copies_have_arrived() {
#if defined(MATRIX_UNITS)
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
#else
    barrier();
#endif
}

template <typename F, u32 GROUPS>
DEVICE void mma_tiles(const u8 *RESTRICT weights, const u32 *RESTRICT words, const f32 *RESTRICT marks, const Output &out, u32 rows,
                   u32 k, u32 columns, u32, u32, u32) {
    enter();
    typedef Chunk<F> C;
    constexpr u32 STAGE = MMA_ROWS * C::PITCH;
    __shared__ Vec<u32, 4> ring[MMA_SPLITS * MMA_STAGES * STAGE / 16];
    const u32 lane = thread_x() % MMA_TEAM, team = thread_x() / MMA_TEAM;
    u8 *own = (u8 *)ring + team * (MMA_STAGES * STAGE);
    const u32 first = block_x() * MMA_ROWS, first_column = block_y() * (GROUPS * MMA_COLUMNS);
    const u32 chunks = ceil_div(k, CHUNK);
    // Rows past the end repeat the last one and are not stored.
    const u32 last = min_of(MMA_ROWS, rows - first) - 1, row_bytes = k / F::ELEMENTS * F::BYTES;
    const u8 *tile = weights + (u64)first * row_bytes;
    // Neighbouring threads copy neighbouring 16 bytes. Where those are in a row does not change from chunk to chunk if a chunk is a
    // multiple of 16 bytes.
    constexpr u32 COPIES = MMA_ROWS * C::PIECES, TURNS = ceil_div(COPIES, MMA_TEAM);
    constexpr bool STEADY = C::BYTES % 16 == 0;
    u32 source[TURNS], place[TURNS];
    UNROLL_ON_GPU
    for (u32 i = 0; i < TURNS; i++) {
        const u32 row = (lane + MMA_TEAM * i) / C::PIECES, piece = (lane + MMA_TEAM * i) % C::PIECES;
        source[i] = row * row_bytes;
        if (STEADY) source[i] = (source[i] & ~15u) + 16 * piece;
        place[i] = row * C::PITCH + 16 * piece;
    }
    const auto fetch = [&](u32 chunk, u32 stage) {
        if (chunk >= chunks) return;
        u8 *to = own + stage * STAGE;
        if (first + MMA_ROWS < rows) {
            UNROLL_ON_GPU
            for (u32 i = 0; i < TURNS; i++) {
                if (COPIES % MMA_TEAM != 0 && i + 1 == TURNS && lane + MMA_TEAM * i >= COPIES) continue;
                u32 at = source[i] + chunk * C::BYTES;
                if (!STEADY) at = (at & ~15u) + 16 * ((lane + MMA_TEAM * i) % C::PIECES);
                copy_ahead(to + place[i], tile + at, 16);
            }
            return;
        }
        // The last tile ends where the weights do: perhaps before its sixteenth row, and in the middle of 16 bytes.
        const u32 bytes = (last + 1) * row_bytes;
        NO_UNROLL
        for (u32 i = lane; i < COPIES; i += MMA_TEAM) {
            const u32 row = i / C::PIECES, piece = i % C::PIECES;
            const u32 at = ((min_of(row, last) * row_bytes + chunk * C::BYTES) & ~15u) + 16 * piece;
            if (at < bytes) copy_ahead(to + row * C::PITCH + 16 * piece, tile + at, min_of(16u, bytes - at));
        }
    };
    const auto row_at = [&](u32 row) { return min_of(row, last) * row_bytes; };
    const u32 row[2] = {row_at(lane / 4), row_at(lane / 4 + 8)};
    words += (u64)first_column * column_words<F>(k);
    marks += (u64)first_column * (k / MMA_COLUMNS);
    MmaSums<GROUPS> sum = {};
    fetch(team, 0);
    NO_UNROLL
    for (u32 turn = 0; turn * MMA_SPLITS < chunks; turn++) {
        const u32 chunk = turn * MMA_SPLITS + team, stage = turn % MMA_STAGES;
        // Whoever has come here has also read the chunk before, whose place the next one takes.
        copies_have_arrived();
        fetch(chunk + MMA_SPLITS, 1 - stage);
        if (chunk >= chunks) continue;
        const u8 *from[2];
        UNROLL_ON_GPU
        for (u32 r = 0; r < 2; r++) {
            from[r] = own + stage * STAGE + (lane / 4 + 8 * r) * C::PITCH + ((row[r] + chunk * C::BYTES) & C::SKEW);
        }
        const u32 groups = min_of(C::GROUPS, (k - chunk * CHUNK) / (ACTIVATION_BLOCK * C::PAIRS));
        multiply_chunk<F>(from, groups, MmaChunk<GROUPS>{words, marks, k, chunk}, lane, sum);
    }
    // The teams add up, a group of columns at a time: [column][row] of each.
    constexpr u32 RESULTS = MMA_ROWS * MMA_COLUMNS, PITCH = RESULTS + 4;
    f32 *partial = (f32 *)ring;
    UNROLL_ON_GPU
    for (u32 g = 0; g < GROUPS; g++) {
        barrier();
        UNROLL_ON_GPU
        for (u32 i = 0; i < 4; i++) {
            partial[team * PITCH + (lane % 4 * 2 + i % 2) * MMA_ROWS + lane / 4 + 8 * (i / 2)] = sum.at[g][i];
        }
        barrier();
        for (u32 at = thread_x(); at < RESULTS; at += MMA_THREADS) {
            f32 total = 0.0f;
            UNROLL_ON_GPU
            for (u32 t = 0; t < MMA_SPLITS; t++) total += partial[t * PITCH + at];
            const u32 r = first + at % MMA_ROWS, c = first_column + MMA_COLUMNS * g + at / MMA_ROWS;
            if (r < rows && c < columns) out.put((u64)c * rows + r, total);
        }
    }
}
#endif
