// The product on matrix units where weights come to shared memory by themselves. A block is all that a compute unit has room for, and
// walks over tiles: one team asks for the rows of the next ones, the others multiply a chunk each as they come, and nobody
// waits for a neighbour before a few tiles are done. What is done with a chunk is in mma_tiles.h.
#pragma once

constexpr u32 MMA_TEAMS = 16; // that multiply
SHARE(MMA_TEAMS)

// Tiles whose sums are in shared memory at a time, a place for every team: [tile][group][team][thread]. Small rows leave room for
// more of them; as measured.
template <typename F, u32 GROUPS> constexpr u32 MMA_TILES_TOGETHER = F::FOLDS ? 8 / GROUPS : 4;

#if defined(STAGED_ROWS)
constexpr u32 MMA_THREADS = (MMA_TEAMS + 1) * MMA_TEAM;
template <typename F, u32 GROUPS> constexpr u32 MMA_BLOCKS = 1;

// All teams that multiply.
DEVICE void meet_teams() { asm volatile("bar.sync 1, %0;" ::"n"(MMA_TEAMS * MMA_TEAM) : "memory"); }

// Which stage of a block's work comes next, and where it lies. A stage is some chunks of the rows of a tile, a segment. Tiles are
// taken together in groups, and all of a group have their first segment before any has its second: the activations of a segment
// stay in the cache that long.
struct MmaStage {
    u32 segments, stages; // of a row, in shared memory
    u32 tiles;           // of the group
    u32 tile, segment, place, turn;

    MEMBER void begin(u32 count) { tiles = count, tile = segment = 0; }
    MEMBER bool inside() const { return segment < segments; }
    MEMBER void advance() {
        if (++tile == tiles) tile = 0, segment++;
        if (++place == stages) place = 0, turn ^= 1;
    }
};

// `segment`, in chunks, `stages`, and how many of them may be on their way at a time, `ahead`, are decided in src/quantized/mma_tiles.rs.
template <typename F, u32 GROUPS>
DEVICE void mma_tiles(const u8 *RESTRICT weights, const u32 *words, const f32 *marks, const Output &out, u32 rows, u32 k, u32 columns,
                   u32 segment, u32 stages, u32 ahead) {
    typedef Chunk<F> C;
    constexpr u32 RESULTS = MMA_ROWS * MMA_COLUMNS, TOGETHER = MMA_TILES_TOGETHER<F, GROUPS>;
    const u32 lane = thread_x() % MMA_TEAM, team = thread_x() / MMA_TEAM;
    const u32 row_bytes = k / F::ELEMENTS * F::BYTES, chunks = ceil_div(k, CHUNK), segment_bytes = segment * C::BYTES;
    // Odd in 16 bytes, so that the eight rows that are read together miss no bank.
    const u32 pitch = kept(16 * (((segment_bytes + (F::ALIGN == 16 ? 0 : 16 - F::ALIGN) + 15) / 16) | 1));
    const u32 stage_bytes = MMA_ROWS * pitch;
    f32 *partial = (f32 *)staged_bytes;
    u8 *places = (u8 *)(partial + TOGETHER * GROUPS * MMA_TEAMS * RESULTS);
    const u32 arrived = kept(shared_address(places + stages * stage_bytes)), read = arrived + 8 * stages;
    const u32 own = ceil_div(ceil_div(rows, MMA_ROWS) - block_x(), grid_x());
    const auto tile_at = [&](u32 index) { return (block_x() + index * grid_x()) * MMA_ROWS; };
    MmaStage stage = {ceil_div(chunks, segment), stages, 0, 0, 0, 0, 0};
    if (team == MMA_TEAMS && lane == 0) {
        for (u32 i = 0; i < stages; i++) {
            expect_arrivals(arrived + 8 * i, 1);
            expect_arrivals(read + 8 * i, MMA_TEAMS);
        }
        arrivals_are_expected();
    }
    barrier();
    // The shuffle tells the compiler that all threads of a team go the same way: only then are copies cheap to ask for.
    if (__shfl_sync(~0u, team, 0) == MMA_TEAMS) {
        // What wrote the weights is over: the kernel before this one has waited for it.
        const u32 to = shared_address(places);
        MmaStage before = stage; // the last one that must have come before another is asked for
        u32 asked = 0;
        NO_UNROLL
        for (u32 base = 0; base < own; base += TOGETHER) {
            NO_UNROLL
            for (stage.begin(min_of(TOGETHER, own - base)); stage.inside(); stage.advance()) {
                if (asked >= ahead) {
                    wait_for_arrivals(arrived + 8 * before.place, before.turn);
                    before.advance();
                }
                if (asked >= stages) wait_for_arrivals(read + 8 * stage.place, stage.turn ^ 1);
                asked++;
                const u32 offset = stage.segment * segment_bytes, count = min_of(segment_bytes, row_bytes - offset);
                const u32 first = tile_at(base + stage.tile), last = min_of(MMA_ROWS, rows - first) - 1;
                const u8 *from = weights + ((u64)first * row_bytes + offset);
                const u32 barrier = arrived + 8 * stage.place, at = to + stage.place * stage_bytes;
                if (F::ALIGN == 16 || (row_bytes % 16 == 0 && segment_bytes % 16 == 0)) {
                    expect_bytes(barrier, MMA_ROWS * copied_bytes(from, count));
                } else {
                    u32 total = 0;
                    for (u32 r = 0; r < MMA_ROWS; r++) total += copied_bytes(from + min_of(r, last) * row_bytes, count);
                    expect_bytes(barrier, total);
                }
                UNROLL
                for (u32 r = 0; r < MMA_ROWS; r++) {
                    copy_bytes(at + r * pitch, from + min_of(r, last) * row_bytes, count, barrier);
                }
            }
        }
        return;
    }
    enter();
    const u32 first_column = block_y() * (GROUPS * MMA_COLUMNS);
    words = kept(words + (u64)first_column * column_words<F>(k));
    marks += (u64)first_column * (k / MMA_COLUMNS);
    if (GROUPS == 1) marks = kept(marks); // with more of them, registers are scarce
    Vec<f32, 4> *own_sums = (Vec<f32, 4> *)partial + thread_x();
    NO_UNROLL
    for (u32 base = 0; base < own; base += TOGETHER) {
        UNROLL
        for (u32 i = 0; i < TOGETHER * GROUPS; i++) own_sums[i * MMA_TEAMS * MMA_TEAM] = Vec<f32, 4>{};
        // Chunks go round the teams. Those that have none of a stage see it pass all the same: a barrier tells two turns apart, not
        // three.
        u32 chunk = team;
        NO_UNROLL
        for (stage.begin(min_of(TOGETHER, own - base)); stage.inside(); stage.advance()) {
            wait_for_arrivals(arrived + 8 * stage.place, stage.turn);
            const u32 at = stage.segment * segment + chunk;
            if (chunk < segment && at < chunks) {
                // Eight rows are a multiple of 16 bytes, and so are tiles.
                const u32 skew = (lane / 4 * row_bytes + stage.segment * segment_bytes) & C::SKEW;
                const u8 *first = places + (stage.place * stage_bytes + lane / 4 * pitch + chunk * C::BYTES + skew);
                const u8 *const from[2] = {first, first + 8 * pitch};
                MmaSums<GROUPS> sum = {};
                const u32 groups = min_of(C::GROUPS, (k - at * CHUNK) / (ACTIVATION_BLOCK * C::PAIRS));
                multiply_chunk<F>(from, groups, MmaChunk<GROUPS>{words, marks, k, at}, lane, sum);
                UNROLL
                for (u32 g = 0; g < GROUPS; g++) {
                    Vec<f32, 4> &to = own_sums[(stage.tile * GROUPS + g) * (MMA_TEAMS * MMA_TEAM)];
                    Vec<f32, 4> total = to;
                    UNROLL
                    for (u32 i = 0; i < 4; i++) total[i] += sum.at[g][i];
                    to = total;
                }
            }
            __syncwarp();
            if (lane == 0) arrive(read + 8 * stage.place);
            chunk = (chunk < segment ? chunk + MMA_TEAMS : chunk) - segment;
        }
        meet_teams();
        NO_UNROLL
        for (u32 at = thread_x(); at < stage.tiles * GROUPS * RESULTS; at += MMA_TEAMS * MMA_TEAM) {
            const f32 *from = partial + (at / RESULTS * (MMA_TEAMS * RESULTS) + at % RESULTS);
            f32 total = 0.0f;
            UNROLL
            for (u32 t = 0; t < MMA_TEAMS; t++) total += from[t * RESULTS];
            const u32 thread = at % RESULTS / 4, tile = base + at / RESULTS / GROUPS, group = at / RESULTS % GROUPS;
            const u32 r = tile_at(tile) + thread / 4 + 8 * (at / 2 % 2);
            const u32 c = first_column + group * MMA_COLUMNS + thread % 4 * 2 + at % 2;
            if (r < rows && c < columns) out.put((u64)c * rows + r, total);
        }
        meet_teams();
    }
}
#endif
